"""What every task generator stands on: a seeded draw, phrases with a held-out part, dialogs with their checks.

The idea: a sample is made by drawing *phrases* (wordings) and *content* (names, things, numbers) from one seeded source,
and the split only says from which half of each. Nothing else differs between training and held-out text:

    split      phrases    content
    train      train      train
    phrasing   held out   train        generalisation to wordings never seen
    content    train      held out     ... to names, things and numbers never seen
    both       held out   held out

A phrase is held out by being written in the second list of its Phrases; content by a hash of its kind and key, so a
generator cannot hold the wrong one by mistake: `Draw.content` draws again until the half is right.
"""
from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence, TypeVar

from . import words

T = TypeVar('T')
Json = dict[str, Any]

SPLITS = ('train', 'phrasing', 'content', 'both')
HELD_OUT_PART = 10  # one in ten contents
MAX_DRAWS = 2000

ALL_PHRASES: dict[str, 'Phrases'] = {}


def is_held_out(kind: str, key: str) -> bool:
    """Whether this content belongs to the held-out half. The same on every machine and in every version."""
    return zlib.crc32(f'{kind}:{key}'.encode()) % HELD_OUT_PART == 0


def lines(text: str) -> list[str]:
    """One phrase a line; ¶ is a line break within one."""
    return [line.strip().replace('¶', '\n') for line in text.strip().split('\n') if line.strip()]


class Phrases:
    """Wordings of one thing, one a line, with {slots}: those to train on and those held out."""

    def __init__(self, key: str, train: str, held_out: str = ''):
        if key in ALL_PHRASES:
            raise ValueError(f'phrases "{key}" exist already')
        self.key, self.train, self.held_out = key, lines(train), lines(held_out)
        ALL_PHRASES[key] = self


@dataclass
class Dialog:
    """A conversation in the shape of the usual chat API, and what must hold for some of its answers."""
    messages: list[Json] = field(default_factory=list)
    tools: list[Json] = field(default_factory=list)
    checks: list[Json] = field(default_factory=list)
    facts: Json = field(default_factory=dict)  # what the tables of the evaluation group by

    def system(self, text: str) -> None:
        self.messages.append({'role': 'system', 'content': text})

    def user(self, text: str) -> None:
        self.messages.append({'role': 'user', 'content': text})

    def answer(self, text: str, check: Json | None = None) -> None:
        """`check` from the functions of checks.py; None where any sensible answer would do."""
        self.messages.append({'role': 'assistant', 'content': text})
        self._check(check)

    def call(self, name: str, arguments: Json, check: Json | None = None) -> None:
        function = {'name': name, 'arguments': arguments}
        self.messages.append({'role': 'assistant', 'content': '', 'tool_calls': [{'type': 'function', 'function': function}]})
        self._check(check)

    def tool(self, text: str) -> None:
        self.messages.append({'role': 'tool', 'content': text})

    def _check(self, check: Json | None) -> None:
        if check is not None:
            self.checks.append({'at': len(self.messages) - 1, **check})

    def append(self, other: 'Dialog') -> None:
        """The other conversation continues this one."""
        shift = len(self.messages)
        self.messages += other.messages
        self.checks += [{**check, 'at': check['at'] + shift} for check in other.checks]
        self.facts.update(other.facts)


class Draw:
    """One sample's randomness. `budget` is about how many tokens the sample may have: long tasks scale with it."""

    def __init__(self, seed: str | int, split: str = 'train', budget: int = 512):
        if split not in SPLITS:
            raise ValueError(f'split must be one of {SPLITS}, is {split!r}')
        self.rng = random.Random(seed)
        self.split, self.budget = split, budget
        self.held_phrases = split in ('phrasing', 'both')
        self.held_content = split in ('content', 'both')
        self.templates: list[str] = []
        self.contents: list[str] = []

    # ---- plain randomness
    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.random() * len(items))]

    def some(self, items: Sequence[T], n: int) -> list[T]:
        return self.rng.sample(items, n)

    def number(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int(self.rng.random() * (high - low + 1))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        out = list(items)
        self.rng.shuffle(out)
        return out

    # ---- what the split decides
    def phrase(self, phrases: Phrases, **slots: Any) -> str:
        """A wording of the right half. A list without a held-out part serves both: it is not what is being tested."""
        held = self.held_phrases and bool(phrases.held_out)
        half = phrases.held_out if held else phrases.train
        i = int(self.rng.random() * len(half))
        self.templates.append(f'{phrases.key}/{"held" if held else "train"}/{i}')
        return half[i].format(**slots) if slots else half[i]

    def say(self, phrases: Phrases, **slots: Any) -> str:
        """A wording of an answer: always one to train on, since answers are what the model learns to write."""
        text = phrases.train[int(self.rng.random() * len(phrases.train))]
        return text.format(**slots) if slots else text

    def content(self, kind: str, make: Callable[[random.Random], T], key: Callable[[T], str] = str) -> T:
        """Content of the right half."""
        for _ in range(MAX_DRAWS):
            value = make(self.rng)
            name = key(value)
            if is_held_out(kind, name) == self.held_content:
                self.contents.append(f'{kind}:{name}')
                return value
        raise ValueError(f'no {"held-out" if self.held_content else "training"} content of kind {kind} after {MAX_DRAWS} draws')

    def contents_of(self, kind: str, make: Callable[[random.Random], T], n: int) -> list[T]:
        """n different ones."""
        out: dict[T, None] = {}
        for _ in range(MAX_DRAWS + n):
            if len(out) == n:
                break
            out.setdefault(self.content(kind, make))
        if len(out) < n:
            raise ValueError(f'fewer than {n} different contents of kind {kind}')
        return list(out)

    # One kind for one source, wherever it is used: a name held out as a hero is held out as an owner too.
    def name(self) -> str:
        return self.content('name', words.first_name)

    def names(self, n: int) -> list[str]:
        return self.contents_of('name', words.first_name, n)

    def family(self) -> str:
        return self.content('family', words.family_name)

    def person(self) -> str:
        return f'{self.name()} {self.family()}'

    def place(self) -> str:
        return self.content('place', words.place)

    def thing(self) -> str:
        return self.content('thing', words.thing)

    def beast(self) -> str:
        return self.content('beast', words.beast)

    def code(self) -> str:
        return self.content('code', words.code)

    def casual(self, text: str) -> str:
        """What people type: now and then without the capital letter or the last sign."""
        roll = self.rng.random()
        if roll < 0.15 and text[-1:] in '.?!':
            text = text[:-1]
        if 0.08 < roll < 0.24 and text[1:2].islower():
            text = text[0].lower() + text[1:]
        return text


def listed(items: Sequence[str]) -> str:
    """a, b and c"""
    return items[0] if len(items) == 1 else ', '.join(items[:-1]) + ' and ' + items[-1]


def a_or_an(noun: str) -> str:
    return ('an ' if noun[0] in 'aeiou' else 'a ') + noun


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
