"""Drawn pictures with questions about them: shapes, colours, places, counts and digits. Seeded; numpy alone.

A picture is SIZE × SIZE with a grey of its own behind. What is held out are pairs: for each shape and each digit one colour
that it never has in training, though other things have it there. Wordings have a held-out half, as in tasks/core.py.
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
DIGITS = ['01110 10001 10011 10101 11001 10001 01110', '00100 01100 00100 00100 00100 00100 01110', '01110 10001 00001 00110 01000 10000 11111',
          '11110 00001 00001 01110 00001 00001 11110', '00010 00110 01010 10010 11111 00010 00010', '11111 10000 11110 00001 00001 10001 01110',
          '00110 01000 10000 11110 10001 10001 01110', '11111 00001 00010 00100 01000 01000 01000', '01110 10001 10001 01110 10001 10001 01110',
          '01110 10001 10001 01111 00001 00010 01100']

ASK = {
    'shape': Phrases('picture.shape', 'What shape is it?\nWhich shape do you see?\nName the shape.', 'What is drawn here?\nTell me the shape in the picture.'),
    'colour': Phrases('picture.colour', 'What colour is it?\nWhich colour does it have?\nName the colour.', 'How is it coloured?\nTell me its colour.'),
    'place': Phrases('picture.place', 'Where is it?\nOn which side is it?\nName the side where it is.', 'At which side of the picture is it?\nTell me where it is.'),
    'digit': Phrases('picture.digit', 'Which digit is it?\nWhat number do you see?\nName the digit.', 'What digit is drawn here?\nRead the number in the picture.'),
    'count': Phrases('picture.count', 'How many are there?\nHow many shapes do you see?\nCount the shapes.', 'What is the number of shapes?\nTell me how many you see.'),
}
CHOICES = {'shape': len(SHAPES), 'colour': len(COLOURS), 'place': len(PLACES), 'digit': 10, 'count': MOST}


@dataclass
class Picture:
    pixels: np.ndarray  # [SIZE, SIZE, 3] uint8
    kind: str
    question: str
    answer: str


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


def coloured(d: Draw, things: tuple | range) -> tuple[object, str]:
    """A thing in the one colour that is held out for it, or in any other."""
    i, names = d.number(0, len(things) - 1), list(COLOURS)
    own = names.pop(i % len(names))
    return things[i], own if d.held_content else d.pick(names)


def picture(split: str, seed: str) -> Picture:
    d = Draw(f'picture/{split}/{seed}', split)
    pixels, kind = canvas(d), d.pick(sorted(ASK))
    middle, spread = SIZE / 2, SIZE // 8
    x, y = middle + d.number(-spread, spread), middle + d.number(-spread, spread)
    if kind == 'digit':
        digit, colour = coloured(d, range(10))
        pixels[digit_mask(int(str(digit)), x, y, d.number(3, 4))] = COLOURS[colour]
        answer = str(digit)
    elif kind == 'count':
        n = d.number(1, MOST)
        shape, colour = coloured(d, SHAPES)
        for cell in d.some(range(4), n):  # one in each quarter, so none hides another
            cx, cy = SIZE * (0.25 + 0.5 * (cell % 2)), SIZE * (0.25 + 0.5 * (cell // 2))
            pixels[shape_mask(str(shape), cx + d.number(-2, 2), cy + d.number(-2, 2), SIZE * 0.15)] = COLOURS[colour]
        answer = str(n)
    else:
        shape, colour = coloured(d, SHAPES)
        side = d.pick(PLACES)
        if kind == 'place':
            x, y = {'left': (SIZE * 0.22, y), 'right': (SIZE * 0.78, y), 'top': (x, SIZE * 0.22), 'bottom': (x, SIZE * 0.78)}[side]
        pixels[shape_mask(str(shape), x, y, SIZE * (0.18 if kind == 'place' else d.number(20, 30) / 100))] = COLOURS[colour]
        answer = {'shape': str(shape), 'colour': colour, 'place': side}[kind]
    return Picture(pixels, kind, d.phrase(ASK[kind]), f'{answer.capitalize()}.')
