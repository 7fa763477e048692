"""Drawn pictures with questions about them: shapes, colours, places, counts and digits. Seeded; numpy alone.

A picture is SIZE × SIZE with a grey of its own behind. What is held out are pairs: for each shape and each digit one colour
that it never has in training, though other things have it there. Wordings have a held-out half, as in tasks/core.py.

Such pairs teach the wrong thing by what is missing: a red thing is no circle. So in training most things that are not asked
for their colour have one without a name, and any shape and digit has any of these.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.core import Draw, Phrases

SIZE = 48
COLOURS = {'red': (220, 40, 40), 'green': (40, 160, 60), 'blue': (50, 80, 220), 'yellow': (235, 210, 40), 'black': (20, 20, 20),
           'white': (250, 250, 250)}
SHAPES = ('circle', 'square', 'triangle', 'cross')
PLACES = ('left', 'right', 'top', 'bottom')
MOST = 4  # things to count
MORE = ('digit', 'digit')  # kinds that training has more of: ten values, the hardest to tell apart
UNNAMED_PART = 0.8  # of training's things that are not asked for their colour
NEAR = 60  # colours closer than this to one with a name are never used without it
DIGITS = ['01110 10001 10011 10101 11001 10001 01110', '00100 01100 00100 00100 00100 00100 01110', '01110 10001 00001 00110 01000 10000 11111',
          '11110 00001 00001 01110 00001 00001 11110', '00010 00110 01010 10010 11111 00010 00010', '11111 10000 11110 00001 00001 10001 01110',
          '00110 01000 10000 11110 10001 10001 01110', '11111 00001 00010 00100 01000 01000 01000', '01110 10001 10001 01110 10001 10001 01110',
          '01110 10001 10001 01111 00001 00010 01100']

ASK = {
    'shape': Phrases('picture.shape', '''
What shape is it?
Which shape do you see?
Name the shape.
Which shape is this?
What kind of shape is it?
Say which shape it is.
What do you see here?
What is in the picture?
Is it a circle, a square, a triangle or a cross?
Please name the shape that you see.
Describe the shape.
Can you tell me which shape this is?''', '''
What is drawn here?
Tell me the shape in the picture.'''),
    'colour': Phrases('picture.colour', '''
What colour is it?
Which colour does it have?
Name the colour.
Which colour is this?
What is the colour of it?
Say which colour it is.
What colour do you see?
In what colour is it painted?
Is it red, green, blue, yellow, black or white?
Please name the colour that you see.
Describe the colour.
Can you tell me which colour this is?''', '''
How is it coloured?
Tell me its colour.'''),
    'place': Phrases('picture.place', '''
Where is it?
On which side is it?
Name the side where it is.
Which side is it on?
Where do you see it?
Where in the picture is it?
Say where it stands.
At what side does it stand?
Is it left, right, top or bottom?
Please name the side that it is on.
Describe its place.
Can you tell me where it stands?''', '''
At which side of the picture is it?
Tell me where it is.'''),
    'digit': Phrases('picture.digit', '''
Which digit is it?
What number do you see?
Name the digit.
Which digit is this?
What digit do you see?
Say which digit it is.
Read the digit.
What number is written here?
Which number from 0 to 9 is it?
Please name the digit that you see.
Describe the digit.
Can you tell me which number this is?''', '''
What digit is drawn here?
Read the number in the picture.'''),
    'count': Phrases('picture.count', '''
How many are there?
How many shapes do you see?
Count the shapes.
How many shapes are there?
Count them.
Say how many there are.
What is their number?
How many things are in the picture?
Is it one, two, three or four?
Please count what you see.
Give the number of things.
Can you tell me how many shapes there are?''', '''
What is the number of shapes?
Tell me how many you see.'''),
}
VALUES = {'shape': SHAPES, 'colour': tuple(COLOURS), 'place': PLACES, 'digit': tuple('0123456789'), 'count': tuple('1234'[:MOST])}


@dataclass
class Picture:
    pixels: np.ndarray  # [SIZE, SIZE, 3] uint8
    kind: str
    question: str
    answer: str
    facts: dict[str, str]  # what else could be asked, too


def sentence(value: str) -> str:
    return f'{value.capitalize()}.'


def canvas(d: Draw) -> np.ndarray:
    grey = d.number(110, 170)
    noise = np.random.default_rng(d.number(0, 1 << 30)).integers(-8, 9, (SIZE, SIZE, 1))
    return np.clip(np.full((SIZE, SIZE, 3), grey) + noise, 0, 255).astype(np.uint8)


def shape_mask(shape: str, x: float, y: float, r: float) -> np.ndarray:
    rows, columns = np.mgrid[:SIZE, :SIZE]
    dx, dy = columns - x, rows - y
    if shape == 'circle':
        return dx ** 2 + dy ** 2 <= r ** 2
    if shape == 'square':
        return np.maximum(abs(dx), abs(dy)) <= r * 0.85
    if shape == 'triangle':
        return (dy <= r * 0.8) & (abs(dx) * 1.7 <= dy + r)
    return ((abs(dx) <= r * 0.3) | (abs(dy) <= r * 0.3)) & (np.maximum(abs(dx), abs(dy)) <= r)


def digit_mask(digit: int, x: float, y: float, scale: int) -> np.ndarray:
    rows = np.array([[c == '1' for c in line] for line in DIGITS[digit].split()])
    big = np.kron(rows, np.ones((scale, scale), dtype=bool))
    out = np.zeros((SIZE, SIZE), dtype=bool)
    top, left = int(y - big.shape[0] / 2), int(x - big.shape[1] / 2)
    out[top:top + big.shape[0], left:left + big.shape[1]] = big
    return out


def unnamed(d: Draw) -> tuple[int, ...]:
    """A colour that differs from every background and is not near one with a name."""
    while True:
        colour = tuple(d.number(0, 255) for _ in range(3))
        contrast = max(abs(c - 140) for c in colour) >= 70
        if contrast and all(sum((a - b) ** 2 for a, b in zip(colour, named)) >= NEAR ** 2 for named in COLOURS.values()):
            return colour


def paint(d: Draw, kind: str, things: tuple[str, ...]) -> tuple[str, str, tuple[int, ...]]:
    """A thing, its colour's name if it has one, the colour. The one name that is held out for it, or any other."""
    i, names = d.number(0, len(things) - 1), list(COLOURS)
    own = names.pop(i % len(names))
    if d.split == 'train' and kind != 'colour' and d.chance(UNNAMED_PART):
        return things[i], '', unnamed(d)
    name = own if d.held_content else d.pick(names)
    return things[i], name, COLOURS[name]


def picture(split: str, seed: str) -> Picture:
    d = Draw(f'picture/{split}/{seed}', split)
    pixels, kind = canvas(d), d.pick([*sorted(ASK), *(MORE if split == 'train' else ())])
    middle, spread = SIZE / 2, SIZE // 8
    x, y = middle + d.number(-spread, spread), middle + d.number(-spread, spread)
    n = d.number(1, MOST) if kind == 'count' else 1
    thing, name, colour = paint(d, kind, VALUES['digit' if kind == 'digit' else 'shape'])
    facts = {'digit': thing} if kind == 'digit' else {'shape': thing, 'count': str(n)}
    if name:
        facts['colour'] = name
    if kind == 'digit':
        pixels[digit_mask(int(thing), x, y, d.number(3, 4))] = colour
    elif kind == 'count':
        for cell in d.some(range(4), n):  # one in each quarter, so none hides another
            cx, cy = SIZE * (0.25 + 0.5 * (cell % 2)), SIZE * (0.25 + 0.5 * (cell // 2))
            pixels[shape_mask(thing, cx + d.number(-2, 2), cy + d.number(-2, 2), SIZE * 0.15)] = colour
    else:
        side = d.pick(PLACES)
        if kind == 'place':
            facts['place'] = side
            x, y = {'left': (SIZE * 0.22, y), 'right': (SIZE * 0.78, y), 'top': (x, SIZE * 0.22), 'bottom': (x, SIZE * 0.78)}[side]
        pixels[shape_mask(thing, x, y, SIZE * (0.18 if kind == 'place' else d.number(20, 30) / 100))] = colour
    return Picture(pixels, kind, d.phrase(ASK[kind]), sentence(facts[kind]), facts)


def questions(p: Picture, seed: str) -> list[tuple[str, str]]:
    """All that can be asked of it, in training's wordings, with the answers."""
    d = Draw(f'questions/{seed}')
    return [(d.phrase(ASK[kind]), sentence(value)) for kind, value in p.facts.items()]
