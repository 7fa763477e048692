"""Rewriting: another name, another time, capitals, questions of style; the answer is the text with one thing changed.

Much of an answer is copied, which is what n-gram drafters live on. Held out: wordings of the wish; names, places and
things (content). Only the exact text is right.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases

NAME = 'rewrite'
WEIGHT = 2.5

# present form, past form of what people do
VERBS = [line.split(' / ') for line in '''goes to / went to
    lives near / lived near
    walks to / walked to
    runs to / ran to
    looks at / looked at
    comes from / came from
    thinks of / thought of'''.replace('    ', '').split('\n')]
DOES = [line.split(' / ') for line in '''carries / carried
    finds / found
    sells / sold
    buys / bought
    holds / held
    paints / painted
    brings / brought
    sees / saw
    cleans / cleaned
    loses / lost
    hides / hid
    takes / took'''.replace('    ', '').split('\n')]
TIMES = ['In the morning', 'In the evening', 'At noon', 'After the rain', 'On Sunday', 'Before dinner', 'At night']

TO_PAST = Phrases('rewrite.past', '''Put this into the past: {x}
    Write this in the past tense: {x}
    Change this text to the past tense:¶¶{x}
    Rewrite in the past: {x}''', '''Tell this as if it happened yesterday: {x}
    Please turn this into the past tense: {x}''')
TO_PRESENT = Phrases('rewrite.present', '''Put this into the present: {x}
    Write this in the present tense: {x}
    Rewrite in the present: {x}
    Change this text to the present tense: {x}''', '''Tell this as if it happened now: {x}
    Please turn this into the present tense: {x}''')
RENAME = Phrases('rewrite.rename', '''Replace {a} by {b}: {x}
    Write {b} instead of {a}: {x}
    Change the name {a} to {b}: {x}
    In this text, {a} should be called {b}: {x}
    Rewrite this with {b} in place of {a}: {x}''', '''Please swap {a} for {b}: {x}
    Use {b} where it says {a}: {x}''')
UPPER = Phrases('rewrite.upper', '''Write this in capitals: {x}
    Put this in upper case: {x}
    In capital letters, please: {x}''', '''Make all letters capital: {x}
    Turn this into capitals: {x}''')
LOWER = Phrases('rewrite.lower', '''Write this in small letters: {x}
    Put this in lower case: {x}
    In small letters, please: {x}''', '''Make all letters small: {x}
    Turn this into small letters: {x}''')
COPY = Phrases('rewrite.copy', '''Repeat this: {x}
    Say this again: {x}
    Copy this text: {x}
    Write exactly this: {x}
    Repeat after me: {x}''', '''Please echo this: {x}
    Give this back to me word for word: {x}''')
BULLETS = Phrases('rewrite.bullets', '''Write each sentence on a line of its own, with a dash: {x}
    Make a list of these sentences: {x}
    Turn this text into bullet points: {x}''', '''One sentence a line, please, with a dash: {x}
    Bullet points, please: {x}''')
QUOTE = Phrases('rewrite.quote', '''Put this in quotes: {x}
    Put quotes around this: {x}''', '''Set this in quotes: {x}''')
BACK = Phrases('rewrite.back', '''Now change it back.
    Undo that, please.
    And back again.
    Now the first text again.''', '''Please restore the first text.
    Take that change back.''')


def sentences(d: Draw, n: int) -> tuple[list[str], list[str], list[str]]:
    """(present, past, names)"""
    present, past, names = [], [], []
    for _ in range(n):
        who = d.name()
        if d.chance(0.5):
            (now, then), rest = d.pick(VERBS), d.place()
        else:
            (now, then), rest = d.pick(DOES), 'the ' + d.thing()
        lead = d.pick(TIMES) + ' ' if d.chance(0.4) else ''
        present.append(f'{lead}{who} {now} {rest}.')
        past.append(f'{lead}{who} {then} {rest}.')
        names.append(who)
    return present, past, names


def task(d: Draw) -> tuple[str, str, str]:
    """(question, answer, the text before)"""
    now, then, names = sentences(d, d.number(1, 3))
    a, b = ' '.join(now), ' '.join(then)
    kind = d.pick(['past', 'past', 'present', 'rename', 'rename', 'upper', 'lower', 'copy', 'bullets', 'quote'])
    text = d.pick([a, b])
    if kind == 'past':
        return d.phrase(TO_PAST, x=a), b, a
    if kind == 'present':
        return d.phrase(TO_PRESENT, x=b), a, b
    if kind == 'rename':
        new = d.name()
        old = d.pick(names)
        if new in names:
            return d.phrase(COPY, x=text), text, text
        changed = ' '.join(new if w == old else w for w in text.split(' '))
        return d.phrase(RENAME, a=old, b=new, x=text), changed, text
    if kind == 'bullets':
        split = now if text == a else then
        return d.phrase(BULLETS, x=text), '\n'.join('- ' + s for s in split), text
    simple = {'upper': (UPPER, text.upper()), 'lower': (LOWER, text.lower()), 'copy': (COPY, text), 'quote': (QUOTE, f'"{text}"')}
    phrases, answer = simple[kind]
    return d.phrase(phrases, x=text), answer, text


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    for _ in range(d.pick([1, 1, 2])):
        question, answer, before = task(d)
        dialog.user(question)
        dialog.answer(answer, checks.exact(answer, 0.0))
        if answer != before and d.chance(0.25):
            dialog.user(d.casual(d.phrase(BACK)))
            dialog.answer(before, checks.exact(before, 0.0))
    return dialog
