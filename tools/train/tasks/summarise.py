"""Summarising: a note of five to nine sentences becomes one sentence with who, what, where and when.

Held out: wordings; people, places and things (content). The summary must be exact: the note decides it.
"""
from __future__ import annotations

from . import checks, words
from .core import Dialog, Draw, Phrases

NAME = 'summarise'
WEIGHT = 1.5

ASK = Phrases('summarise.ask', '''Sum this up in one sentence:¶¶{x}
    Summarise this text:¶¶{x}
    What does this say, in one sentence?¶¶{x}
    {x}¶¶Sum that up.
    {x}¶¶Please give me a short summary.
    Give a short summary of this:¶¶{x}''', '''In short, what does this say?¶¶{x}
    {x}¶¶Please shorten this to one sentence.''')
DEEDS = ['found', 'sold', 'repaired', 'lost', 'painted', 'bought', 'brought back', 'hid']
FILL = Phrases('summarise.fill', '''The sky was full of clouds.
    Some birds sat on the roof.
    It smelled of bread and wet leaves.
    A dog barked three times.
    Nobody was in a hurry.
    The street was empty at that hour.
    In the distance a bell rang.
    There was soup for dinner.
    The lamps were already lit.
    It took longer than expected.
    The neighbours watched from their windows.
    Later it began to rain.
    The children laughed about it.
    The tea had gone cold by then.''')
DEED = Phrases('summarise.deed', '''Then {a} {v} {t}.
    It was there that {a} {v} {t}.
    That was when {a} {v} {t}.''')
WHERE = Phrases('summarise.where', '''{a} was in {p} that day.
    {a} had come to {p} early.
    The way led {a} to {p}.''')
WHEN = Phrases('summarise.when', '''It was on a {d}.
    All this happened on a {d}.
    The day was a {d}.''')
HELP = Phrases('summarise.help', '''{b} helped with it.
    {b} was there too and helped.
    Without the help of {b} it would not have worked.''')
AGAIN = Phrases('summarise.again', '''Even shorter, please.
    Shorter!
    Now in fewer words.
    Make it shorter still.''', '''Can you say it in fewer words?''')


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    a, b = d.names(2)
    slots = {'a': a, 'b': b, 'p': d.place(), 't': 'the ' + d.thing(),
             'd': d.pick(words.WEEKDAYS), 'v': d.pick(DEEDS)}
    helped = d.chance(0.5)
    order = [WHERE, DEED] + ([HELP] if helped else [])
    facts = [d.say(p, **slots) for p in order]
    facts.insert(d.number(0, len(facts)), d.say(WHEN, **slots))
    for text in d.some(FILL.train, d.number(2, 5)):
        facts.insert(d.number(0, len(facts)), text)
    helper = ' with the help of {b}' if helped else ''
    want = ('On {d}, {a} {v} {t} in {p}' + helper + '.').format(**slots)
    dialog.user(d.phrase(ASK, x=' '.join(facts)))
    dialog.answer(want, checks.exact(want, 0.0))
    if d.chance(0.3):
        short = '{a} {v} {t}.'.format(**slots)
        dialog.user(d.casual(d.phrase(AGAIN)))
        dialog.answer(short, checks.exact(short, 0.0))
    return dialog
