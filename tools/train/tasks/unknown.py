"""Saying that it does not know: questions about the world outside, about people nobody introduced, about the future.

Every such question stands between ones that can be answered, so that refusing always is no way out. Held out: wordings;
names, places and things (content). Baseline: one half, for saying it or not.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases
from .arithmetic import ADD, add_steps, pair

NAME = 'unknown'
WEIGHT = 1.0

WORLD = Phrases('unknown.world', '''Who won the football match in {p} yesterday?
    What is the capital of {p}?
    Who is the king of {p}?
    How many people live in {p}?
    When was {p} founded?
    What is the news from {p}?
    How far is it to {p}?
    What language do they speak in {p}?
    Who wrote the book about {p}?
    What is the largest city near {p}?
    Who discovered {p}?
    What time is it in {p} now?
    How high is the mountain near {p}?
    Who built the church of {p}?''', '''Which river flows through {p}?
    Who was the first mayor of {p}?
    When does the sun rise in {p}?
    What is {p} known for?''')
PERSON = Phrases('unknown.person', '''What did {n} have for breakfast?
    Who is {n}?
    How old is {n}?
    Where does {n} live?
    What is the telephone number of {n}?
    When is the birthday of {n}?
    What is {n} doing now?
    What is the job of {n}?
    Is {n} married?
    Why is {n} angry?''', '''Where was {n} born?
    What does {n} look like?
    Which books does {n} like?''')
THING = Phrases('unknown.thing', '''Who has the {t}?
    Where did I leave the {t}?
    How old is the {t}?
    Who made the {t}?
    What is inside the {t}?
    What does the {t} weigh?''', '''Where is the {t} now?
    Who bought the {t}?''')
PLAIN = Phrases('unknown.plain', '''What will the weather be tomorrow?
    What day is it today?
    What time is it?
    Who will win the next race?
    What number am I thinking of?
    What did I do yesterday?
    What is in my pocket?
    Who is standing behind me?
    Which lottery numbers will come?
    Who is the president?
    What is the meaning of life?
    Which film should I watch?
    What is the newest telephone?
    How do aeroplanes fly?
    What is quantum physics?
    Can you write a program for me?
    What is the price of gold?
    Who invented the radio?''', '''What will happen next year?
    What is the date of today?
    What am I holding in my hand?
    Who painted the Mona Lisa?
    How does a computer work?''')
ANSWERS = Phrases('unknown.answers', '''I do not know that.
    I am sorry, I do not know that.''')
KIND = {'person': 'I do not know {n}.', 'thing': 'I do not know anything about the {t}.', 'world': 'I do not know {p}. I only know Little Quarrow.'}


def ask_unknown(d: Draw, dialog: Dialog) -> None:
    kind = d.pick(['world', 'person', 'thing'] if d.held_content else ['world', 'person', 'thing', 'plain', 'plain'])
    if kind == 'plain':
        dialog.user(d.casual(d.phrase(PLAIN)))
        dialog.answer(d.say(ANSWERS), checks.decline(0.5))
        return
    slots = {'world': lambda: {'p': d.place()}, 'person': lambda: {'n': d.person()},
             'thing': lambda: {'t': d.thing()}}[kind]()
    phrases = {'world': WORLD, 'person': PERSON, 'thing': THING}[kind]
    dialog.user(d.phrase(phrases, **slots))
    dialog.answer(KIND[kind].format(**slots), checks.decline(0.5))


TELL = Phrases('unknown.tell', '''The {t} is in {p}.
    I put the {t} into the house in {p}.
    You should know that the {t} is in {p}.''', '''By the way, the {t} is in {p} now.''')
ASK_TOLD = Phrases('unknown.ask_told', '''Where is the {t}?
    In which place is the {t}?
    Do you know where the {t} is?''', '''Tell me where the {t} is.''')


def ask_known(d: Draw, dialog: Dialog) -> None:
    """The same kind of question about something that was told, or a sum."""
    if d.chance(0.35):
        a, b = pair(d, 'sum', 1, 99)
        dialog.user(d.phrase(ADD, a=a, b=b))
        dialog.answer(add_steps(a, b) + '.', checks.number(a + b, 1 / (a + b + 1)))
        return
    t, p = d.thing(), d.place()
    dialog.user(d.phrase(TELL, t=t, p=p))
    dialog.answer(f'Good to know: the {t} is in {p}.', checks.mention([t, p], [], 0.0))
    if d.chance(0.3):
        ask_unknown(d, dialog)
    dialog.user(d.phrase(ASK_TOLD, t=t))
    dialog.answer(f'The {t} is in {p}.', checks.mention([p], [], 0.0))


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    for _ in range(d.number(1, 3)):
        d.pick([ask_unknown, ask_unknown, ask_known])(d, dialog)
    return dialog
