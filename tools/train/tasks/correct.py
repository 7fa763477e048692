"""Correcting a text: doubled and swapped letters, small letters at the start, missing full stops, wrong articles,
words written twice; now and then there is nothing to correct.

Held out: wordings; names, places and things (content). Only the exact text is right; the guesser gives it back unchanged.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases, a_or_an
from .rewrite import sentences

NAME = 'correct'
WEIGHT = 2.5

FIX = Phrases('correct.fix', '''Correct this: {x}
    Correct the mistakes: {x}
    Please correct this text: {x}
    Fix this sentence: {x}
    There are mistakes in this text. Write it correctly: {x}
    Can you correct this? {x}''', '''Find and correct the mistakes: {x}
    Please write this without mistakes: {x}
    Is this right? If not, correct it: {x}''')
FINE = 0.1  # how often there is nothing to do


def is_plain(word: str) -> bool:
    """Letters of common words only: nobody can know how an unknown name is spelled."""
    return len(word) > 3 and word.isalpha() and word.islower()


def spoil_letters(d: Draw, text: str) -> str:
    parts = text.split(' ')
    spots = [i for i, w in enumerate(parts) if is_plain(w)]
    if not spots:
        return text
    i = d.pick(spots)
    w, at = parts[i], d.number(1, len(parts[i]) - 2)
    kind = d.pick(['double', 'swap', 'drop'])
    if kind == 'double':
        parts[i] = w[:at] + w[at] + w[at:]
    elif kind == 'swap':
        parts[i] = w[:at] + w[at + 1] + w[at] + w[at + 2:]
    else:
        parts[i] = w[:at] + w[at + 1:]
    return ' '.join(parts)


def spoil_start(_: Draw, text: str) -> str:
    return text[0].lower() + text[1:]


def spoil_end(_: Draw, text: str) -> str:
    return text[:-1] if text.endswith('.') else text


def spoil_twice(d: Draw, text: str) -> str:
    parts = text.split(' ')
    spots = [i for i, w in enumerate(parts) if w.isalpha() and w.islower()]
    i = d.pick(spots)
    return ' '.join(parts[:i + 1] + parts[i:])


def spoil_article(d: Draw, text: str) -> str:
    swapped = [(' a ', ' an '), (' an ', ' a ')]
    for old, new in swapped:
        if old in text:
            return text.replace(old, new, 1)
    return spoil_letters(d, text)


SPOILERS = [spoil_letters, spoil_letters, spoil_start, spoil_end, spoil_twice, spoil_article]


def good_text(d: Draw) -> str:
    if d.chance(0.4):
        who, thing = d.name(), d.thing()
        verb = d.pick(['has', 'found', 'bought', 'made', 'lost', 'wants'])
        return f'{who} {verb} {a_or_an(thing)}.'
    now, then, _ = sentences(d, d.number(1, 2))
    return ' '.join(d.pick([now, then]))


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    for _ in range(d.pick([1, 1, 2])):
        good = good_text(d)
        bad = good
        if not d.chance(FINE):
            for spoil in d.some(SPOILERS, d.number(1, 2)):
                bad = spoil(d, bad)
        dialog.user(d.phrase(FIX, x=bad))
        dialog.answer(good, checks.exact(good, float(bad == good)))
    return dialog
