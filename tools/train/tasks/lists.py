"""Lists: sort, count, reverse, pick the first or last, find the largest, keep one kind, drop doubles.

Held out: wordings; the things and numbers of the list (content). An answer is right when it is the whole list, exactly.
"""
from __future__ import annotations

import math

from . import checks, words
from .core import Dialog, Draw, Phrases

NAME = 'lists'
WEIGHT = 3.5

SORT = Phrases('lists.sort', '''Sort these words: {l}
    Sort by the alphabet: {l}
    Put these words in order of the alphabet: {l}
    Please sort this list: {l}
    Here is a list: {l}. Sort it.
    Sort: {l}
    Can you sort these? {l}
    List these in alphabetical order: {l}''', '''Bring this list into alphabetical order: {l}
    Please put these in order: {l}
    These words should be sorted: {l}''')
SORT_UP = Phrases('lists.up', '''Sort these numbers: {l}
    Sort from small to large: {l}
    Put these numbers in order, smallest first: {l}
    Please sort the numbers {l}
    Order these numbers from smallest to largest: {l}''', '''Bring these numbers into order: {l}
    Here are some numbers: {l}. Sort them, smallest first.''')
SORT_DOWN = Phrases('lists.down', '''Sort from large to small: {l}
    Put these numbers in order, largest first: {l}
    Order these numbers from largest to smallest: {l}
    Sort these numbers downwards: {l}''', '''Bring these numbers into falling order: {l}
    Here are some numbers: {l}. Sort them, largest first.''')
REVERSE = Phrases('lists.reverse', '''Reverse this list: {l}
    Write this list backwards: {l}
    Turn the list around: {l}
    Say these from last to first: {l}
    Please reverse the order: {l}''', '''Give me this list in reverse: {l}
    Write these in the opposite order: {l}''')
COUNT = Phrases('lists.count', '''How many things are in this list? {l}
    Count these: {l}
    How many are these? {l}
    Count the words: {l}
    How long is this list? {l}''', '''Please count the things in this list: {l}
    What is the number of things here? {l}''')
COUNT_ONE = Phrases('lists.count_one', '''How many times does {x} appear? {l}
    How often is {x} in this list? {l}
    Count {x} in this list: {l}
    How many {x} do you see? {l}''', '''In this list, how often do you find {x}? {l}
    Tell me how many times {x} appears here: {l}''')
FIRST = Phrases('lists.first', '''What is the first thing in this list? {l}
    Which comes first? {l}
    Name the first of these: {l}''', '''Tell me the first of this list: {l}''')
LAST = Phrases('lists.last', '''What is the last thing in this list? {l}
    Which comes last? {l}
    Name the last of these: {l}''', '''Tell me the last of this list: {l}''')
LARGEST = Phrases('lists.largest', '''Which is the largest number? {l}
    What is the largest of {l}?
    Find the largest number: {l}
    Which number is the biggest? {l}''', '''Tell me the largest of these numbers: {l}
    What is the biggest number here? {l}''')
SMALLEST = Phrases('lists.smallest', '''Which is the smallest number? {l}
    What is the smallest of {l}?
    Find the smallest number: {l}
    Which number is the least? {l}''', '''Tell me the smallest of these numbers: {l}
    What is the smallest number here? {l}''')
ABOVE = Phrases('lists.above', '''Which numbers are larger than {x}? {l}
    Keep the numbers above {x}: {l}
    List the numbers greater than {x}: {l}''', '''Show me only the numbers larger than {x}: {l}''')
DOUBLES = Phrases('lists.doubles', '''Remove the doubles: {l}
    Write each word only once: {l}
    Drop what comes twice: {l}
    Remove the repeated words: {l}''', '''Clean this list of repeated words: {l}
    Keep each word once: {l}''')
WITHOUT = Phrases('lists.without', '''Remove {x} from this list: {l}
    Write this list without {x}: {l}
    Leave out {x}: {l}
    Take {x} out of the list: {l}''', '''Drop {x} from the list: {l}
    Give me this list without {x}: {l}''')
AGAIN = Phrases('lists.again', '''Now reverse it.
    And now backwards.
    Now turn it around.
    Reverse that, please.''', '''Now write it in reverse.
    And the other way around?''')


def some_words(d: Draw, n: int) -> list[str]:
    kind = d.pick(['name', 'place', 'thing', 'plain'])
    if kind == 'plain' and not d.held_content:
        return d.some(d.pick([words.NOUNS, words.ANIMALS, words.FOODS, words.COLOURS]), n)
    kind = 'thing' if kind == 'plain' else kind
    return d.contents_of(kind, {'name': words.first_name, 'place': words.place, 'thing': words.thing}[kind], n)


def some_numbers(d: Draw, n: int) -> list[int]:
    top = d.pick([99, 999] if d.held_content else [20, 99, 99, 999])  # of the numbers to 20 too few are held out
    return d.contents_of('list number', lambda rng: rng.randint(0, top), n)


def write(items: list) -> str:
    return ', '.join(map(str, items))


def order_words(d: Draw, dialog: Dialog) -> None:
    items = some_words(d, d.number(3, 7))
    phrases, want = d.pick([(SORT, sorted(items)), (SORT, sorted(items)), (REVERSE, items[::-1])])
    dialog.user(d.phrase(phrases, l=write(items)))
    chance = 1 / math.factorial(len(items))
    dialog.answer(write(want), checks.exact(write(want), chance))
    if d.chance(0.25):
        dialog.user(d.casual(d.phrase(AGAIN)))
        dialog.answer(write(want[::-1]), checks.exact(write(want[::-1]), chance))


def order_numbers(d: Draw, dialog: Dialog) -> None:
    items = some_numbers(d, d.number(3, 7))
    phrases, want = d.pick([(SORT_UP, sorted(items)), (SORT_DOWN, sorted(items, reverse=True))])
    dialog.user(d.phrase(phrases, l=write(items)))
    dialog.answer(write(want), checks.exact(write(want), 1 / math.factorial(len(items))))


def count(d: Draw, dialog: Dialog) -> None:
    """Counting aloud: the list is written with numbers, then the sum."""
    items = some_words(d, d.number(3, 10))
    steps = ', '.join(f'{i} {item}' for i, item in enumerate(items, 1))
    dialog.user(d.phrase(COUNT, l=write(items)))
    dialog.answer(f'{steps}. That makes {len(items)}.', checks.number(len(items), 1 / 8))


def count_one(d: Draw, dialog: Dialog) -> None:
    kinds = some_words(d, d.number(2, 3))
    items = [d.pick(kinds) for _ in range(d.number(4, 9))]
    steps, n = [], 0
    for item in items:
        n += item == kinds[0]
        steps.append(f'{item} {n}' if item == kinds[0] else item)
    dialog.user(d.phrase(COUNT_ONE, x=kinds[0], l=write(items)))
    dialog.answer(f'{", ".join(steps)}. That makes {n}.', checks.number(n, 1 / 5))


def choose(d: Draw, dialog: Dialog) -> None:
    if d.chance(0.5):
        items: list = some_words(d, d.number(3, 7))
        phrases, want = d.pick([(FIRST, items[0]), (LAST, items[-1])])
    else:
        items = some_numbers(d, d.number(3, 7))
        phrases, want = d.pick([(LARGEST, max(items)), (SMALLEST, min(items))])
    dialog.user(d.phrase(phrases, l=write(items)))
    dialog.answer(str(want), checks.exact(str(want), 1 / len(items)))


def keep(d: Draw, dialog: Dialog) -> None:
    items: list = some_words(d, d.number(3, 6))
    kind = d.pick(['doubles', 'without', 'above'])
    if kind == 'above':
        items = some_numbers(d, d.number(4, 7))
        bound = d.pick(sorted(items)[:-1])
        question, want = d.phrase(ABOVE, x=bound, l=write(items)), [i for i in items if i > bound]
    elif kind == 'without':
        gone = d.pick(items)
        question, want = d.phrase(WITHOUT, x=gone, l=write(items)), [i for i in items if i != gone]
    else:
        twice = items + d.some(items, d.number(1, 2))
        d.rng.shuffle(twice)
        question, want = d.phrase(DOUBLES, l=write(twice)), list(dict.fromkeys(twice))
    dialog.user(question)
    dialog.answer(write(want), checks.exact(write(want), 1 / 2 ** len(items)))


KINDS = [order_words, order_words, order_numbers, count, count_one, choose, keep]


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    for _ in range(d.pick([1, 1, 1, 2])):
        d.pick(KINDS)(d, dialog)
    return dialog
