"""Recall: one of many key-value facts, from a few lines to the whole context back.

Facts stand in the prompt in one of several forms, some with other talk between, then some are asked for. How far back
the answer lies is what the table of results groups by. Held out: wordings of the question and of the lead; keys and
values (content). The guesser knows all values that were given: 1 / number of facts.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases, a_or_an, capital

NAME = 'recall'
WEIGHT = 1.6

TOKENS_PER_FACT = 13  # about, with the tokenizer of this project

# form: lead, one fact a line, question; the answer is always the line's own sentence
LEAD = Phrases('recall.lead', '''Here is a list of facts.
    Remember these facts.
    Please read this and keep it in mind.
    These are my notes.
    Keep these in memory for me.
    I will ask you about this list.''', '''Please remember all of this.
    Learn this list for me.''')
READY = Phrases('recall.ready', '''I have read it. What would you like to know?
    I will remember. Ask me about it.''')
FORMS: dict[str, tuple[str, Phrases]] = {
    'code': ('The code of {k} is {v}.', Phrases('recall.code', '''What is the code of {k}?
        Which code belongs to {k}?
        Tell me the code of {k}.
        Give me the code for {k}.''', '''I need the code of {k}.
        Can you find the code of {k}?''')),
    'where': ('{K} is in {v}.', Phrases('recall.where', '''Where is {k}?
        In which place is {k}?
        Where can I find {k}?
        Where did I put {k}?''', '''Tell me the place of {k}.
        I am looking for {k}. Where is it?''')),
    'owner': ('{K} belongs to {v}.', Phrases('recall.owner', '''Whom does {k} belong to?
        Who owns {k}?
        Whose is {k}?
        Who is the owner of {k}?''', '''Tell me who owns {k}.
        To whom should I bring {k}?''')),
    'animal': ('{k} saw {v}.', Phrases('recall.animal', '''What did {k} see?
        Which animal did {k} see?
        What was seen by {k}?''', '''Tell me what {k} saw.
        What animal was seen by {k}?''')),
    'phone': ('The number of {k} is {v}.', Phrases('recall.phone', '''What is the number of {k}?
        How can I call {k}?
        Which number does {k} have?
        Give me the number of {k}.''', '''I want to call {k}. What is the number?
        Can you find the number of {k}?''')),
}
SHORT = Phrases('recall.short', '''{k}?
    What is {k}?
    What stands at {k}?
    Which value has {k}?
    Look up {k}.''', '''Tell me the value of {k}.
    Find {k} in the list.''')
ASIDE = Phrases('recall.aside', '''It is a quiet day.
    The wind came from the west.
    Nobody was in the street.
    The clock struck nine.
    Some leaves lay on the path.
    The kettle was still warm.
    A cart went by.
    It had rained in the night.
    The lamps were not lit yet.
    Somebody laughed next door.
    The bridge was wet.
    Bread was baking somewhere.''')


def keys_and_values(d: Draw, form: str, n: int) -> list[tuple[str, str]]:
    keys: dict[str, None] = {}
    while len(keys) < n:
        keys.setdefault(d.person() if form in ('animal', 'phone') else d.thing() if form == 'short' else 'the ' + d.thing())
    values = {'where': d.place, 'owner': d.person, 'animal': lambda: a_or_an(d.beast())}
    return [(key, values.get(form, d.code)()) for key in keys]


def capacity(d: Draw, form: str) -> int:
    """How many different keys are drawn in reasonable time: there are some 10,000 things, a tenth of them held out."""
    return 630 if form in ('animal', 'phone') or not d.held_content else 500


def a_question(d: Draw, dialog: Dialog, form: str, fact: tuple[str, str], n: int) -> None:
    key, value = fact
    if form == 'short':
        dialog.user(d.phrase(SHORT, k=key))
        dialog.answer(value, checks.exact(value, 1 / n))
        return
    sentence, phrases = FORMS[form]
    dialog.user(d.phrase(phrases, k=key))
    dialog.answer(sentence.format(k=key, K=capital(key), v=value), checks.mention([value], [], 1 / n))


def written(d: Draw, form: str, facts: list[tuple[str, str]]) -> str:
    if form == 'short':
        sign = d.pick([': ', ' = ', ' - '])
        return '\n'.join(f'{k}{sign}{v}' for k, v in facts)
    sentences = [FORMS[form][0].format(k=k, K=capital(k), v=v) for k, v in facts]
    if d.chance(0.3):  # with other talk between
        sentences = [s if d.chance(0.7) else f'{s} {d.say(ASIDE)}' for s in sentences]
    return d.pick(['\n', '\n', ' ']).join(sentences)


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    form = d.pick(['short', *sorted(FORMS)])
    top = max(3, min(d.budget // TOKENS_PER_FACT, capacity(d, form)))
    n = round(3 * (top / 3) ** d.rng.random())  # few and many alike
    facts = keys_and_values(d, form, n)
    lead, body = d.phrase(LEAD), written(d, form, facts)
    asked = d.some(facts, min(n, d.number(1, 3)))
    if d.chance(0.5):  # the list, then questions
        dialog.user(f'{lead}\n\n{body}')
        dialog.answer(d.say(READY))
        for fact in asked:
            a_question(d, dialog, form, fact, n)
    else:
        a_question(d, dialog, form, asked[0], n)
        dialog.messages[0]['content'] = f'{lead}\n\n{body}\n\n{dialog.messages[0]["content"]}'
        for fact in asked[1:]:
            a_question(d, dialog, form, fact, n)
    dialog.facts['n_facts'] = n
    return dialog
