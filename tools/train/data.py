"""Conversations as tokens: made by many processes, kept in two flat files, read back as batches of like lengths.

A token is 16 bits; the top one says that the assistant wrote it (the model learns to). Conversations are never joined:
a batch holds rows of about the same length, each one conversation from its first token, padded at the end. So nothing
attends across conversations, positions are those of real use, and causal attention needs no mask.
"""
from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from typing import Iterable, Iterator

import numpy as np
from tokenizers import Tokenizer

from chat import segments
from config import LEARN
from tasks import mixed_dialog
from unmerge import Unmerger

N_CONTEXT = 8192
CHUNK = 128
PAD_TO = 32
WINDOW = 4096  # conversations sorted by length at a time

_tokenizer: Tokenizer | None = None


def encode_dialog(tokenizer: Tokenizer, messages: list, tools: list) -> np.ndarray:
    """Markers by id, text by the tokenizer: what encoding the whole rendered text would give."""
    ids: list[int] = []
    for s in segments(messages, tools):
        own = [tokenizer.token_to_id(s.text)] if s.control else tokenizer.encode(s.text, add_special_tokens=False).ids
        ids += [i | LEARN for i in own] if s.learn else own
    return np.array(ids, dtype=np.uint16)


def start_worker(tokenizer_path: str) -> None:
    global _tokenizer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the trainer's own handlers would keep the worker alive
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ['TOKENIZERS_PARALLELISM'] = 'false'
    _tokenizer = Tokenizer.from_file(tokenizer_path)


def encode_chunk(job: tuple[str, int, int]) -> list[np.ndarray]:
    seed, start, budget = job
    assert _tokenizer is not None
    out = []
    for i in range(start, start + CHUNK):
        _, dialog = mixed_dialog(f'{seed}/{i}', budget)
        ids = encode_dialog(_tokenizer, dialog.messages, dialog.tools)
        if len(ids) <= N_CONTEXT:
            out.append(ids)
    return out


def jobs(seed: str, budget: int) -> Iterator[tuple[str, int, int]]:
    start = 0
    while True:
        yield seed, start, budget
        start += CHUNK


def write_rows(path: str, rows: Iterable[np.ndarray], n_tokens: int) -> None:
    """Writes the first of `rows` that have at least n_tokens tokens together; path.len comes last, so where it is all is."""
    written, lengths = 0, []
    with open(path + '.bin', 'wb') as out:
        for row in rows:
            out.write(row.tobytes())
            lengths.append(len(row))
            written += len(row)
            if len(lengths) % (64 * CHUNK) == 0 or written >= n_tokens:
                print(f'\r{path}: {written / 1e6:.1f} of {n_tokens / 1e6:.1f} M tokens', end='', file=sys.stderr)
            if written >= n_tokens:
                break
    print(file=sys.stderr)
    np.array(lengths, dtype=np.int32).tofile(path + '.tmp')
    os.replace(path + '.tmp', path + '.len')


def make_corpus(path: str, tokenizer_path: str, seed: str, budget: int, n_tokens: int, processes: int) -> None:
    """Writes path.bin and path.len with at least n_tokens tokens. Does nothing where they exist already."""
    if os.path.exists(path + '.len'):
        return
    with multiprocessing.Pool(processes, start_worker, (tokenizer_path,)) as pool:
        chunks = pool.imap(encode_chunk, jobs_until(seed, budget, n_tokens), chunksize=1)
        write_rows(path, itertools.chain.from_iterable(chunks), n_tokens)


def jobs_until(seed: str, budget: int, n_tokens: int) -> Iterator[tuple[str, int, int]]:
    """Enough jobs in any case: a conversation has more than 20 tokens."""
    for i, job in enumerate(jobs(seed, budget)):
        if i * CHUNK * 20 > n_tokens + CHUNK * 40:
            return
        yield job


@dataclass
class MicroBatch:
    ids: np.ndarray     # [rows, length] int64, padded with 0
    weight: np.ndarray  # [rows, length] float32: how much the prediction of this token counts; 0 for the first and padding
    n_tokens: int       # without padding


class Corpus:
    """Reads what make_corpus wrote, in an order that a seed decides. Of the tokens that the assistant did not write, a part of
    `prompt_weight` is learned in place of all with that weight: the same on average, and the output matrix is spared the rest."""

    def __init__(self, path: str, prompt_weight: float, tokenizer_path: str | None = None):
        """With a tokenizer, words are taken apart as unmerge.py says."""
        self.lengths = np.fromfile(path + '.len', dtype=np.int32).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.tokens = np.memmap(path + '.bin', dtype=np.uint16, mode='r')
        self.prompt_weight = prompt_weight
        self.unmerger = Unmerger(tokenizer_path, self.tokens) if tokenizer_path else None

    def row(self, i: int, rng: np.random.Generator) -> np.ndarray:
        raw = np.asarray(self.tokens[self.starts[i]:self.starts[i + 1]])
        return raw if self.unmerger is None else self.unmerger.row(raw, rng)[:N_CONTEXT]

    def rows(self, which: np.ndarray) -> MicroBatch:
        rngs = [np.random.default_rng(int(i)) for i in which]
        rows = [self.row(int(i), rng) for i, rng in zip(which, rngs)]
        length = max(map(len, rows))
        length += -length % PAD_TO
        ids = np.zeros((len(rows), length), dtype=np.int64)
        weight = np.zeros((len(rows), length), dtype=np.float32)
        for at, (raw, rng) in enumerate(zip(rows, rngs)):
            n = len(raw)
            ids[at, :n] = raw & (LEARN - 1)
            weight[at, 1:n] = (rng.random(n - 1) < self.prompt_weight) | (raw[1:] >= LEARN)
        return MicroBatch(ids, weight, sum(map(len, rows)))

    def plan(self, seed: int, micro_tokens: int) -> list[np.ndarray]:
        """The rows of each micro-batch of one pass: of like lengths, about micro_tokens with padding, in mixed order."""
        rng = np.random.default_rng(seed)
        order, out = rng.permutation(len(self.lengths)), []
        for start in range(0, len(order), WINDOW):
            window = order[start:start + WINDOW]
            window = window[np.argsort(self.lengths[window], kind='stable')]
            groups, group, longest = [], [], 0
            for i in window:
                length = int(self.lengths[i]) + -int(self.lengths[i]) % PAD_TO
                if group and max(longest, length) * (len(group) + 1) > micro_tokens:
                    groups.append(np.array(group))
                    group, longest = [], 0
                group.append(i)
                longest = max(longest, length)
            groups.append(np.array(group))
            rng.shuffle(groups)
            out += groups
        return out
