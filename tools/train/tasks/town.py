"""Talk about Little Quarrow over several turns: people, places, feasts, and the way back from a fact to its owner.

Held out: wordings; and pairs of somebody with one thing about them (content): such a fact is never asked for in
training, it only stands in the descriptions ("Tell me about Odette."). The guesser knows all values of that kind.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases, listed
from .town_data import EVENTS, PEOPLE, PLACES, SHE, TOWN

NAME = 'town'
WEIGHT = 2.5

# relation: (wordings with {n} the name, or {she} after it was named), held out ..., the answer
PERSON = {
    'job': ('''What is the job of {n}?
        What does {n} do for a living?
        What is {n}'s job?
        Which job does {n} have?
        What work does {n} do?''', '''Tell me the job of {n}.
        What is {n} by profession?''', '{n} is the {v} of Little Quarrow.'),
    'work': ('''Where does {n} work?
        In which place does {n} work?
        Where can I find {n} during the day?''', '''Where is {n} at work?
        Tell me where {n} works.''', '{n} works at the {v}.'),
    'street': ('''Where does {n} live?
        In which street does {n} live?
        What is the address of {n}?
        Where is the home of {n}?''', '''Tell me where {n} lives.
        In what street can I find the house of {n}?''', '{n} lives in {v}.'),
    'pet': ('''What pet does {n} have?
        Does {n} have a pet?
        Which animal lives with {n}?
        What is {n}'s pet?''', '''Tell me about the pet of {n}.
        What animal does {n} keep?''', '{n} has {v}.'),
    'food': ('''What does {n} like to eat?
        What is {n}'s favourite food?
        What is the favourite food of {n}?
        Which food does {n} like best?''', '''What should I cook for {n}?
        Tell me what {n} likes to eat.''', '{n} likes {v} best.'),
    'hobby': ('''What is {n}'s hobby?
        What does {n} do in the evening?
        What does {n} like to do?
        What is the hobby of {n}?''', '''How does {n} spend free time?
        Tell me what {n} does for fun.''', '{n} likes {v}.'),
    'friend': ('''Who is {n}'s best friend?
        Who is the best friend of {n}?
        Does {n} have a friend?
        Whom does {n} like most?''', '''Tell me who is the best friend of {n}.
        With whom is {n} friends?''', '{v} is the best friend of {n}.'),
    'birthday': ('''When is {n}'s birthday?
        In which month is the birthday of {n}?
        When was {n} born?
        When does {n} have a birthday?''', '''In what month was {n} born?
        Tell me when {n} has a birthday.''', 'The birthday of {n} is in {v}.'),
}
PLACE = {
    'street': ('''Where is the {n}?
        In which street is the {n}?
        How do I find the {n}?
        Where can I find the {n}?''', '''Tell me where the {n} is.
        In what street do I find the {n}?''', 'The {n} is in {v}.'),
    'opens': ('''When does the {n} open?
        At what time does the {n} open?
        From when is the {n} open?''', '''What time can I go to the {n}?
        Tell me when the {n} opens.''', 'The {n} opens at {v}.'),
    'closes': ('''When does the {n} close?
        At what time does the {n} close?
        Until when is the {n} open?''', '''How long is the {n} open?
        Tell me when the {n} closes.''', 'The {n} closes at {v}.'),
    'offer': ('''What can I do at the {n}?
        What can I get at the {n}?
        Why would I go to the {n}?
        What is the {n} good for?''', '''What do people do at the {n}?
        Tell me what I can do at the {n}.''', 'At the {n} you can {v}.'),
    'look': ('''What does the {n} look like?
        How does the {n} look?
        Can you describe the {n}?''', '''How will I know the {n} when I see it?
        Tell me what the {n} looks like.''', 'The {n} is {v}.'),
}
EVENT = {
    'when': ('''When is {n}?
        In which month is {n}?
        When does {n} take place?''', '''Tell me when {n} is.
        What month is {n} in?''', '{n} is {v}.'),
    'where': ('''Where is {n}?
        Where does {n} take place?
        Where do I go for {n}?''', '''Tell me where {n} is.
        At which place is {n} held?''', '{n} takes place at {v}.'),
    'what': ('''What is {n}?
        What happens at {n}?
        What do people do at {n}?''', '''Tell me what happens at {n}.
        Explain {n} to me.''', 'At {n} {v}.'),
}
TABLES = {'person': (PERSON, PEOPLE), 'place': (PLACE, PLACES), 'event': (EVENT, EVENTS)}
ASK = {(kind, r): Phrases(f'town.{kind}.{r}', t, h) for kind, (rs, _) in TABLES.items() for r, (t, h, _) in rs.items()}

ABOUT = Phrases('town.about', '''Tell me about {n}.
    Who is {n}?
    What do you know about {n}?
    Do you know {n}?
    Say something about {n}.''', '''Describe {n} to me.
    I would like to know more about {n}.''')
ABOUT_PLACE = Phrases('town.about_place', '''Tell me about the {n}.
    What do you know about the {n}?
    Tell me something about the {n}.
    What about the {n}?''', '''I would like to know more about the {n}.
    What is there to know about the {n}?''')
WHO_JOB = Phrases('town.who_job', '''Who is the {j}?
    Who is the {j} of Little Quarrow?
    What is the name of the {j}?
    How is the {j} called?''', '''Tell me who the {j} is.
    Which person is the {j}?''')
WHO_PET = Phrases('town.who_pet', '''Who has {p}?
    Who owns {p}?
    Whose pet is {p}?''', '''Tell me who keeps {p}.''')
WHO_STREET = Phrases('town.who_street', '''Who lives in {s}?
    Which people live in {s}?
    Name the people of {s}.''', '''Tell me who lives in {s}.''')
FRIENDS = Phrases('town.friends', '''Are {a} and {b} friends?
    Is {a} a friend of {b}?
    Is {b} the best friend of {a}?''', '''Is it true that {a} and {b} are friends?''')
TOWN_HELD = {'What is the town called?': 'What is the name of the town?', 'Where is Little Quarrow?': 'Where can I find Little Quarrow?',
             'Who is the mayor of Little Quarrow?': 'Tell me who is the mayor of Little Quarrow.',
             'When is market day in Little Quarrow?': 'On which day is the market in Little Quarrow?'}
TOWN_ASK = {q: Phrases(f'town.town.{i}', q, TOWN_HELD.get(q, '')) for i, (q, _) in enumerate(TOWN)}
TELL_TOWN = Phrases('town.tell', '''Tell me about the town.
    Tell me about Little Quarrow.
    What is Little Quarrow like?
    Where is Little Quarrow and what is it like?
    Describe Little Quarrow.''', '''I want to know more about Little Quarrow.
    What kind of town is Little Quarrow?''')
TOWN_TEXT = ('Little Quarrow is a town of about four hundred people on the river Quarr, between two green hills. It is famous '
             'for its plum pie and its great clock. Felix Amber is the mayor, and market day is Saturday.')


def first(name: str) -> str:
    return name.split()[0]


def she(name: str) -> str:
    return 'she' if first(name) in SHE else 'he'


def about_person(p: dict[str, str]) -> list[str]:
    s = she(p['name']).capitalize()
    return [f'{p["name"]} is the {p["job"]} of Little Quarrow and works at the {p["work"]}.',
            f'{s} lives in {p["street"]} and has {p["pet"]}.', f'{s} likes {p["hobby"]}, and best of all {s.lower()} likes to eat {p["food"]}.',
            f'{p["friend"]} is {"her" if s == "She" else "his"} best friend, and the birthday is in {p["birthday"]}.']


def about_place(p: dict[str, str]) -> list[str]:
    return [f'The {p["name"]} is {p["look"]}, in {p["street"]}.', f'It opens at {p["opens"]} and closes at {p["closes"]}.',
            f'There you can {p["offer"]}.']


def ask_fact(d: Draw, dialog: Dialog, kind: str, row: dict[str, str], by_pronoun: bool) -> None:
    relations, table = TABLES[kind]
    try:
        relation = d.content(f'town {kind}', lambda rng: rng.choice(sorted(relations)), lambda r: f'{row["name"]}.{r}')
    except ValueError:  # all that is known of this one belongs to the other half
        return
    name, value = row['name'], row[relation]
    shown = name if d.chance(0.6) or kind != 'person' else first(name)
    if by_pronoun:
        shown = she(name) if kind == 'person' else shown
    question = d.phrase(ASK[kind, relation], n=shown)
    if by_pronoun and kind == 'person':
        their = 'her' if shown == 'she' else 'his'
        question = question.replace(f"{shown}'s", their)
        for word in ('of', 'about', 'with', 'for', 'find'):
            question = question.replace(f' {word} {shown}', f' {word} {"her" if shown == "she" else "him"}')
    dialog.user(d.casual(question))
    others = {r[relation] for r in table}
    answer = relations[relation][2].format(n=name, v=value)
    dialog.answer(answer, checks.mention([value], [], 1 / len(others)))


def describe(d: Draw, dialog: Dialog, kind: str, row: dict[str, str]) -> None:
    if kind == 'event':
        dialog.user(d.casual(d.phrase(ASK['event', 'what'], n=row['name'])))
        dialog.answer(f'{row["name"]} is {row["when"]} at {row["where"]}: {row["what"]}.')
        return
    phrases = ABOUT if kind == 'person' else ABOUT_PLACE
    text = ' '.join(about_person(row) if kind == 'person' else about_place(row))
    dialog.user(d.casual(d.phrase(phrases, n=row['name'])))
    dialog.answer(text, checks.exact(text, 0.0))


def facts_of_one(d: Draw, dialog: Dialog) -> None:
    kind = d.pick(['person', 'person', 'person', 'place', 'place', 'event'])
    row = d.pick(TABLES[kind][1])
    named = not d.held_content and d.chance(0.4)
    if named:
        describe(d, dialog, kind, row)
    for _ in range(d.number(1, 3)):
        before = len(dialog.messages)
        ask_fact(d, dialog, kind, row, by_pronoun=named and d.chance(0.6))
        named = named or len(dialog.messages) > before


def backwards(d: Draw, dialog: Dialog) -> None:
    p = d.pick(PEOPLE)
    kind = d.pick(['job', 'pet', 'street', 'friends'])
    if kind == 'job':
        dialog.user(d.casual(d.phrase(WHO_JOB, j=p['job'])))
        dialog.answer(f'{p["name"]} is the {p["job"]} of Little Quarrow.', checks.mention([p['name']], [], 1 / len(PEOPLE)))
    elif kind == 'pet':
        dialog.user(d.casual(d.phrase(WHO_PET, p=p['pet'])))
        dialog.answer(f'{p["name"]} has {p["pet"]}.', checks.mention([p['name']], [], 1 / len(PEOPLE)))
    elif kind == 'street':
        there = [q['name'] for q in PEOPLE if q['street'] == p['street']]
        dialog.user(d.casual(d.phrase(WHO_STREET, s=p['street'])))
        dialog.answer(f'In {p["street"]} live {listed(there)}.', checks.mention(there, [], 1 / 7))
    else:
        yes = d.chance(0.5)
        other = p['friend'] if yes else d.pick([q['name'] for q in PEOPLE if q['name'] not in (p['name'], p['friend'])])
        dialog.user(d.casual(d.phrase(FRIENDS, a=p['name'], b=other)))
        answer = f'{p["name"]} and {other} are best friends.' if yes else f'{p["friend"]} is the best friend of {p["name"]}.'
        dialog.answer(('Yes, ' if yes else 'No, ') + answer, checks.mention(['Yes' if yes else 'No'], [], 0.5))


def of_the_town(d: Draw, dialog: Dialog) -> None:
    if d.chance(0.2):
        dialog.user(d.casual(d.phrase(TELL_TOWN)))
        dialog.answer(TOWN_TEXT, checks.exact(TOWN_TEXT, 0.0))
    for question, answer in d.some(TOWN, d.number(1, 2)):
        dialog.user(d.casual(d.phrase(TOWN_ASK[question])))
        dialog.answer(answer, checks.exact(answer, 1 / len(TOWN)))


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    kinds = [facts_of_one] if d.held_content else [facts_of_one, facts_of_one, facts_of_one, backwards, of_the_town]
    while not dialog.messages or (len(dialog.messages) < 8 and d.chance(0.3)):
        d.pick(kinds)(d, dialog)
    return dialog
