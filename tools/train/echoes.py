"""Echoes: rows in which something comes again, so that a small model learns to look back and copy.

Three kinds: snatches of any text, that go on as they did before; facts of one form made of snatches; and drills, the facts of
the task `recall` with all of them asked for or said again, where a conversation asks for one or two. Drills alone teach in a few
hundred thousand tokens to find a fact by its key, which never came of them among other text.
"""
from __future__ import annotations

import itertools
import os
import zlib
from typing import Iterator

import numpy as np
from tokenizers import Tokenizer

from config import LEARN
from data import encode_dialog, write_rows
from tasks import recall
from tasks.core import Dialog, Draw

TOKENS_PER_ANSWER = 30  # of a drill: the fact, the question, the answer
SNATCHES, SNATCHED_FACTS = 0.2, 0.2  # of the rows; the rest are drills
N_CONTROL = 16  # the tokenizer's first ids are markers


def snatch(text: np.ndarray, rng: np.random.Generator, least: int, most: int) -> np.ndarray:
    """A piece of `text` without markers and without its marks."""
    while True:
        start, n = int(rng.integers(len(text) - most)), int(rng.integers(least, most + 1))
        part = text[start:start + n] & (LEARN - 1)
        if (part >= N_CONTROL).all():
            return part


def repeated_snatches(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Snatches in any order, most of them heard before in the same row: to be learned is how those go on."""
    parts: list[np.ndarray] = []
    left = int(rng.integers(64, 257))
    while left > 0:
        part = snatch(text, rng, 3, 16)
        if parts and rng.random() < 0.6:
            part = parts[rng.integers(len(parts))] & (LEARN - 1)
            part[1:] |= LEARN
        parts.append(part)
        left -= len(part)
    return np.concatenate(parts)


def repeated_facts(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Facts of one form, then some of them again: lead, key, link, value, end, of which only key and value differ. To be
    learned is the value, which the last token alone does not tell: the link stands in every fact."""
    lead, link, end = (snatch(text, rng, *lengths) for lengths in ((1, 3), (1, 2), (1, 2)))
    facts = [(snatch(text, rng, 1, 4), snatch(text, rng, 1, 5)) for _ in range(int(rng.integers(3, 16)))]
    parts = [np.concatenate((lead, key, link, value, end)) for key, value in facts]
    for at in rng.integers(len(facts), size=int(rng.integers(2, len(facts) + 3))):
        key, value = facts[at]
        parts += [lead, key, link, value | LEARN, end | LEARN]
    return np.concatenate(parts)


def said_again(tokenizer: Tokenizer, d: Draw, form: str, facts: list[tuple[str, str]]) -> np.ndarray:
    """The facts as text, then once more in another order: to be learned are the values."""
    again = d.some(facts, len(facts))
    text = recall.written(d, form, facts) + '\n'
    start = len(text)
    text += '\n'.join(recall.written(d, form, [fact]) for fact in again) + '\n'
    spans, at = [], start
    for _, value in again:
        at = text.index(value, at)
        spans.append((at - 1, at + len(value)))  # the space before belongs to its first token
        at += len(value)
    encoded = tokenizer.encode(text, add_special_tokens=False)
    out = np.array(encoded.ids, dtype=np.uint16)
    for i, (first, last) in enumerate(encoded.offsets):
        if any(a <= first and last <= b for a, b in spans):
            out[i] |= LEARN
    return out


def drill(tokenizer: Tokenizer, seed: str, budget: int) -> np.ndarray:
    d = Draw(seed, 'train', budget)
    form = d.pick(['short', *sorted(recall.FORMS)])
    top = max(3, min(budget // TOKENS_PER_ANSWER, recall.capacity(d, form)))
    facts = recall.keys_and_values(d, form, round(2 * (top / 2) ** d.rng.random()))
    if d.chance(0.4):
        return said_again(tokenizer, d, form, facts)
    dialog = Dialog()
    dialog.user(f'{d.phrase(recall.LEAD)}\n\n{recall.written(d, form, facts)}')
    dialog.answer(d.say(recall.READY))
    for fact in d.some(facts, len(facts)):
        recall.a_question(d, dialog, form, fact, len(facts))
    return encode_dialog(tokenizer, dialog.messages, [])


def make_drills(path: str, tokenizer_path: str, seed: str, budget: int, n_tokens: int) -> str:
    """A corpus of nothing but drills, every second one of up to twice the budget. Made where it is missing; its path."""
    if not os.path.exists(path + '.len'):
        tokenizer = Tokenizer.from_file(tokenizer_path)
        write_rows(path, (drill(tokenizer, f'{seed}/{i}', budget * (1 + i % 2)) for i in itertools.count()), n_tokens)
    return path


def echoes(text: np.ndarray, tokenizer: Tokenizer, seed: str, budget: int, start: int) -> Iterator[np.ndarray]:
    """Rows numbered from `start` on, without end."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    for i in itertools.count(start):
        kind = rng.random()
        if kind < SNATCHES:
            yield repeated_snatches(text, rng)
        elif kind < SNATCHES + SNATCHED_FACTS:
            yield repeated_facts(text, rng)
        else:
            yield drill(tokenizer, f'{seed}/drill/{i}', budget)


def add_echoes(path: str, tokenizer_path: str, seed: str, share: float, budget: int) -> str:
    """The path of a corpus with the rows of `path` and echoes, `share` of all tokens. Made where it is missing."""
    out = f'{path}-echoes' if share else path
    if os.path.exists(out + '.len'):
        return out
    text, lengths = np.fromfile(path + '.bin', dtype=np.uint16), np.fromfile(path + '.len', dtype=np.int32)
    rows = np.split(text, np.cumsum(lengths)[:-1])
    more = echoes(text, Tokenizer.from_file(tokenizer_path), seed, budget, len(rows))
    write_rows(out, itertools.chain(rows, more), len(text) + int(len(text) * share / (1 - share)))
    return out
