"""Arithmetic on small numbers, in steps: sums, differences, products, shares, two-step problems in words.

The steps are digit by digit from the right, which is what makes unseen numbers work. Held out: wordings, and pairs of
numbers (content). The answer is the last number; the guesser draws from the range of answers of that kind of question.
"""
from __future__ import annotations

from . import checks, words
from .core import Dialog, Draw, Phrases

NAME = 'arithmetic'
WEIGHT = 2.2

ADD = Phrases('arithmetic.add', '''What is {a} + {b}?
    What is {a} plus {b}?
    {a} + {b}
    {a} + {b} = ?
    Add {a} and {b}.
    How much is {a} plus {b}?
    Please add {a} to {b}.
    Work out {a} + {b}.
    What do {a} and {b} make together?
    Calculate {a} + {b}.''', '''Can you add {a} and {b}?
    How much is {a} + {b}?
    What is the sum of {a} and {b}?''')
SUBTRACT = Phrases('arithmetic.subtract', '''What is {a} - {b}?
    What is {a} minus {b}?
    {a} - {b}
    {a} - {b} = ?
    Take {b} from {a}.
    How much is {a} minus {b}?
    Work out {a} - {b}.
    What is left of {a} without {b}?
    Calculate {a} - {b}.''', '''Can you take {b} from {a}?
    How much is {a} - {b}?
    Please work out {a} minus {b}.''')
MULTIPLY = Phrases('arithmetic.multiply', '''What is {a} * {b}?
    What is {a} times {b}?
    {a} * {b}
    {a} x {b} = ?
    How much is {a} times {b}?
    Work out {a} * {b}.
    Multiply {a} by {b}.
    Calculate {a} * {b}.''', '''Can you multiply {a} by {b}?
    How much is {a} * {b}?
    Please work out {a} times {b}.''')
DIVIDE = Phrases('arithmetic.divide', '''What is {a} / {b}?
    What is {a} divided by {b}?
    {a} / {b} = ?
    Divide {a} by {b}.
    How much is {a} divided by {b}?
    Share {a} into {b} equal parts.''', '''Can you divide {a} by {b}?
    How much is {a} / {b}?''')
GIVE = Phrases('arithmetic.give', '''{p} has {a} {u}. {q} gives {o} {b} more. How many {u} does {p} have now?
    {p} had {a} {u} and found {b} more. How many {u} are there now?
    There are {a} {u} in the {r}. {p} brings {b} more. How many {u} are in the {r}?''',
    '''{q} brings {p} {b} {u}. Before, {p} had {a}. How many {u} does {p} have?
    In the {r} were {a} {u}, and {p} put {b} more there. How many {u} are there?''')
TAKE = Phrases('arithmetic.take', '''{p} has {a} {u} and gives {b} to {q}. How many {u} does {p} still have?
    There are {a} {u} in the {r}. {p} takes {b}. How many {u} are left?
    {p} had {a} {u} and lost {b}. How many {u} are left?''',
    '''Of the {a} {u} in the {r}, {p} takes {b}. How many {u} stay there?
    {p} gives {q} {b} of {a} {u}. How many {u} does {p} keep?''')
BOTH = Phrases('arithmetic.both', '''{p} has {a} {u}. {q} gives {o} {b} more, and then {p} loses {c}. How many {u} are left?
    There were {a} {u} in the {r}. {p} brought {b} and {q} took {c}. How many {u} are there now?''',
    '''{p} has {a} {u}, gets {b} from {q} and eats {c}. How many {u} does {p} have?
    {q} put {b} {u} to the {a} in the {r}, then {p} took {c}. How many {u} are left?''')


def digits(n: int) -> list[int]:
    return [int(c) for c in reversed(str(n))]


def add_steps(a: int, b: int) -> str:
    """47 + 38: 7 + 8 = 15, carry 1. 4 + 3 + 1 = 8. So 47 + 38 = 85."""
    if a < 10 and b < 10:
        return f'{a} + {b} = {a + b}'
    x, y, carry, steps = digits(a), digits(b), 0, []
    for i in range(max(len(x), len(y))):
        parts = [n[i] for n in (x, y) if i < len(n)] + ([carry] if carry else [])
        total = sum(parts)
        carry = total // 10
        shown = ' + '.join(map(str, parts)) + (f' = {total}' if len(parts) > 1 else '')
        steps.append(shown + (f', carry {carry}' if carry else ''))
    if carry:
        steps.append(str(carry))
    return f'{a} + {b}: ' + '. '.join(steps) + f'. So {a} + {b} = {a + b}'


def subtract_steps(a: int, b: int) -> str:
    """52 - 38: 12 - 8 = 4, borrow 1. 5 - 3 - 1 = 1. So 52 - 38 = 14."""
    if a < 10:
        return f'{a} - {b} = {a - b}'
    x, y, borrow, steps = digits(a), digits(b), 0, []
    for i, digit in enumerate(x):
        parts = [y[i]] if i < len(y) else []
        parts += [borrow] if borrow else []
        borrow = 1 if digit < sum(parts) else 0
        top = digit + 10 * borrow
        shown = ' - '.join(map(str, [top] + parts)) + (f' = {top - sum(parts)}' if parts else '')
        steps.append(shown + (', borrow 1' if borrow else ''))
    return f'{a} - {b}: ' + '. '.join(steps) + f'. So {a} - {b} = {a - b}'


def multiply_steps(a: int, b: int) -> str:
    """23 * 4: 20 * 4 = 80. 3 * 4 = 12. 80 + 12 = 92. So 23 * 4 = 92."""
    if a <= 10:
        return f'{a} * {b} = {a * b}'
    tens, ones = a // 10 * 10, a % 10
    if ones == 0:
        return f'{a // 10} * {b} = {a // 10 * b}. So {a} * {b} = {a * b}'
    return f'{tens} * {b} = {tens * b}. {ones} * {b} = {ones * b}. {tens * b} + {ones * b} = {a * b}. So {a} * {b} = {a * b}'


def divide_steps(a: int, b: int) -> str:
    return f'{b} * {a // b} = {a}. So {a} / {b} = {a // b}'


def pair(d: Draw, kind: str, low: int, high: int) -> tuple[int, int]:
    """Small and large ones alike: the length is drawn first."""
    top = d.pick([t for t in (9, 20, 99, 999) if t <= high] or [high])
    key = lambda p: f'{p[0]},{p[1]}'
    return d.content(kind, lambda rng: (rng.randint(low, top), rng.randint(low, top)), key)


def plain(d: Draw) -> tuple[str, str, int, float]:
    """(question, steps, answer, chance)"""
    kind = d.pick(['add', 'add', 'subtract', 'subtract', 'multiply', 'divide'])
    if kind == 'add':
        a, b = pair(d, 'sum', 0 if d.chance(0.1) else 1, 999)
        return d.phrase(ADD, a=a, b=b), add_steps(a, b), a + b, 1 / (a + b + 1)
    if kind == 'subtract':
        b, a = sorted(pair(d, 'difference', 1, 999))
        return d.phrase(SUBTRACT, a=a, b=b), subtract_steps(a, b), a - b, 1 / (a + 1)
    low, top = (2, 99) if kind == 'multiply' and d.chance(0.5) else (1, 10)
    a, b = d.content('product', lambda rng: (rng.randint(low, top), rng.randint(2, 10)), lambda p: f'{p[0]},{p[1]}')
    if kind == 'multiply':
        return d.phrase(MULTIPLY, a=a, b=b), multiply_steps(a, b), a * b, 1 / (10 * top)
    return d.phrase(DIVIDE, a=a * b, b=b), divide_steps(a * b, b), a, 1 / top


def in_words(d: Draw) -> tuple[str, str, int, float]:
    people = d.names(2)
    slots = {'p': people[0], 'q': people[1], 'u': d.pick(words.UNITS), 'r': d.pick(words.ROOMS),
             'o': 'her' if words.is_she(people[0]) else 'him'}
    kind = d.pick(['give', 'take', 'both'])
    if kind == 'give':
        a, b = pair(d, 'sum', 2, 99)
        return d.phrase(GIVE, a=a, b=b, **slots), add_steps(a, b), a + b, 1 / (a + b + 1)
    if kind == 'take':
        b, a = sorted(pair(d, 'difference', 2, 99))
        return d.phrase(TAKE, a=a, b=b, **slots), subtract_steps(a, b), a - b, 1 / (a + 1)
    a, b = pair(d, 'sum', 2, 99)
    c = d.number(1, a + b - 1)
    steps = add_steps(a, b) + '. ' + subtract_steps(a + b, c)
    return d.phrase(BOTH, a=a, b=b, c=c, **slots), steps, a + b - c, 1 / (a + b)


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    for _ in range(d.pick([1, 1, 2, 3])):
        words_problem = d.chance(0.3)
        question, steps, answer, chance = in_words(d) if words_problem else plain(d)
        dialog.user(question)
        dialog.answer(steps + '.', checks.number(answer, chance))
    return dialog
