#!/usr/bin/env python3
"""Puts a bundled model into a checkpoint of a real shape that computes the same function: real text and real acceptance at
the real cost of a 1B or 3B model, without its weights.

    tools/inflate.py --gguf-in models/quill-q8_0.gguf --shape 1b --out big.gguf --type q8_0
    tools/inflate.py --checkpoint build/train/small/checkpoint.pt --shape 3b --out folder --type bf16    Hugging Face
    tools/inflate.py … --n-embd 1024 --n-layers 12      any other shape; --own-vocab keeps the vocabulary

Why it is the same function, to float rounding (d, D: the widths):

- **Width.** The stream carries the model's d numbers and zeros. The mean square is then d/D of the old one: gains times
  sqrt(d/D) and an epsilon of d/D make each norm what it was.
- **Heads.** A key head keeps its query heads together; where the real groups are smaller, its key head is repeated. Where
  heads are wider, rotation i of n becomes rotation i·w/n of w, which turns at the same rate; queries grow by sqrt(w/n) for
  the root in the scores.
- **Layers** that are added write nothing: their two output matrices are zero. All that feeds only zeros (added layers,
  unused heads and gates) is random, so that nothing about the work is special.
- **Vocabulary.** Every token carries a constant 2^-17 in the first new dimension, which no layer touches; the epsilon
  gives up as much. The last norm makes it large, and the new tokens' rows are -30,000 there: their logits are about
  -30,000 / rms of the stream. The others move by 1e-5 / rms, all alike.

Memory: one piece of one tensor.
"""
from __future__ import annotations

import argparse
import os
import sys
import zlib
from dataclasses import dataclass, replace

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'train'))

from config import Config  # noqa: E402
from export import (MODEL_NAME, Trained, gguf_name, hf_config, load, model_facts, state_names, to_pairs, write_hf)  # noqa: E402
from make_model import TYPES  # noqa: E402
from tensor_files import Rows, rows_of, write_gguf  # noqa: E402

SHAPES = {
    '1b': dict(n_embd=2048, n_layers=16, n_heads=32, n_kv_heads=8, head_dim=64, n_ff=8192, n_vocab=128256),
    '3b': dict(n_embd=3072, n_layers=28, n_heads=24, n_kv_heads=8, head_dim=128, n_ff=8192, n_vocab=128256),
}
RANDOM, ZERO = -1, -2  # rows that come from nowhere
CONSTANT, NEVER, AT_RMS, SHARE = 2.0 ** -17, -3e4, 10.0, 0.1  # the constant is SHARE after the last norm of a stream of AT_RMS


@dataclass
class Placed:
    """Where each row and column of a large matrix comes from in the small one."""
    rows: np.ndarray  # index, RANDOM or ZERO
    columns: np.ndarray  # index or ZERO
    scale: float = 1.0

    def tensor(self, name: str, w: np.ndarray | None, seed: int) -> Rows:
        kept, at = np.flatnonzero(self.columns >= 0), self.columns[self.columns >= 0]
        width = len(self.columns)

        def make(first: int, last: int) -> np.ndarray:
            rows = self.rows[first:last]
            out = np.zeros((len(rows), width), dtype=np.float32)
            free = np.flatnonzero(rows == RANDOM)
            rng = np.random.default_rng([seed, zlib.crc32(name.encode()), first])
            out[free] = rng.standard_normal((len(free), width), dtype=np.float32) * np.float32(width ** -0.5)
            if w is not None:
                mine = np.flatnonzero(rows >= 0)
                out[np.ix_(mine, kept)] = w[rows[mine]][:, at] * np.float32(self.scale)
            return out

        return Rows((len(self.rows), width), make)


def first_ones(n: int, size: int, rest: int = ZERO) -> np.ndarray:
    return np.concatenate([np.arange(n), np.full(size - n, rest)])


class Inflation:
    """From configuration `a` to `b`."""

    def __init__(self, a: Config, b: Config, seed: int):
        self.a, self.b, self.seed = a, b, seed
        problems = [f'{key} {getattr(b, key)} is less than {getattr(a, key)}'
                    for key in ('n_embd', 'n_layers', 'n_heads', 'n_kv_heads', 'head_dim', 'n_ff', 'n_vocab')
                    if getattr(b, key) < getattr(a, key)]
        if b.head_dim % a.head_dim:
            problems.append(f'head_dim {b.head_dim} is no multiple of {a.head_dim}')
        if b.n_heads % b.n_kv_heads:
            problems.append(f'n_heads {b.n_heads} is no multiple of n_kv_heads {b.n_kv_heads}')
        if b.n_vocab > a.n_vocab and b.n_embd == a.n_embd:
            problems.append('more tokens need a larger n_embd')
        if not problems:
            self.q_heads, self.kv_heads = self.head_map()
            if self.placed_heads() < a.n_heads:
                problems.append(f'{b.n_kv_heads} key heads of {b.n_heads // b.n_kv_heads} query heads cannot hold '
                                f'{a.n_kv_heads} of {a.n_heads // a.n_kv_heads}')
        if problems:
            raise SystemExit('inflate: ' + '; '.join(problems))
        self.gain = (a.n_embd / b.n_embd) ** 0.5
        self.stream = first_ones(a.n_embd, b.n_embd)
        self.layer_at = {i * b.n_layers // a.n_layers: i for i in range(a.n_layers)}
        self.config = replace(b, norm_eps=self.epsilon(), rope_theta=a.rope_theta, n_ctx=a.n_ctx)

    def pads_vocabulary(self) -> bool:
        return self.b.n_vocab > self.a.n_vocab

    def epsilon(self) -> float:
        """(d·eps - constant²) / D"""
        given = CONSTANT ** 2 if self.pads_vocabulary() else 0.0
        return (self.a.n_embd * self.a.norm_eps - given) / self.b.n_embd

    def head_map(self) -> tuple[np.ndarray, np.ndarray]:
        """The small head of each large query and key head, or RANDOM."""
        small, large = self.a.n_heads // self.a.n_kv_heads, self.b.n_heads // self.b.n_kv_heads
        copies = -(-small // large)
        q, kv = np.full(self.b.n_heads, RANDOM), np.full(self.b.n_kv_heads, RANDOM)
        for g in range(min(self.a.n_kv_heads, self.b.n_kv_heads // copies)):
            kv[g * copies:(g + 1) * copies] = g
            q[g * copies * large:g * copies * large + small] = g * small + np.arange(small)
        return q, kv

    def placed_heads(self) -> int:
        return int((self.q_heads >= 0).sum())

    def dims(self, rotated: bool) -> np.ndarray:
        """The small dimension of each of a large head's, or ZERO."""
        n, w = self.a.head_dim, self.b.head_dim
        out = np.full(w, ZERO)
        if not rotated:
            out[:n] = np.arange(n)
            return out
        for half in (0, 1):
            out[half * w // 2:(half + 1) * w // 2:w // n] = half * n // 2 + np.arange(n // 2)
        return out

    def head_rows(self, heads: np.ndarray, rotated: bool) -> np.ndarray:
        dims = self.dims(rotated)
        rows = heads[:, None] * self.a.head_dim + dims[None]
        rows = np.where(dims[None] < 0, ZERO, rows)
        return np.where(heads[:, None] < 0, RANDOM, rows).reshape(-1)

    # ---- tensors
    def placement(self, part: str) -> Placed:
        a, b = self.a, self.b
        if part == 'self_attn.q_proj':
            return Placed(self.head_rows(self.q_heads, True), self.stream, (b.head_dim / a.head_dim) ** 0.5)
        if part == 'self_attn.k_proj':
            return Placed(self.head_rows(self.kv_heads, True), self.stream)
        if part == 'self_attn.v_proj':
            return Placed(self.head_rows(self.kv_heads, False), self.stream)
        if part == 'self_attn.o_proj':
            columns = self.head_rows(self.q_heads, False)
            return Placed(self.stream, np.where(columns < 0, ZERO, columns))
        if part == 'mlp.down_proj':
            return Placed(self.stream, first_ones(a.n_ff, b.n_ff))
        return Placed(first_ones(a.n_ff, b.n_ff, RANDOM), self.stream)

    def norm(self, gain: np.ndarray, last: bool) -> Rows:
        out = np.full(self.b.n_embd, self.gain, dtype=np.float32)
        out[:self.a.n_embd] = gain * np.float32(self.gain)
        if last and self.pads_vocabulary():
            out[self.a.n_embd] = SHARE * AT_RMS * self.gain / CONSTANT
        return rows_of(out)

    def embedding(self, w: np.ndarray) -> Rows:
        a, b = self.a, self.b

        def make(first: int, last: int) -> np.ndarray:
            out = np.zeros((last - first, b.n_embd), dtype=np.float32)
            own = max(0, min(last, a.n_vocab) - first)
            out[:own, :a.n_embd] = w[first:first + own]
            if self.pads_vocabulary():
                out[:own, a.n_embd], out[own:, a.n_embd] = CONSTANT, NEVER
            return out

        return Rows((b.n_vocab, b.n_embd), make)

    def tensor(self, name: str, state: dict[str, np.ndarray], pairs: bool) -> Rows:
        """By its name in training; with `pairs` the rows of q and k in GGUF's order."""
        if name == 'embed_tokens.weight':
            return self.embedding(state[name])
        if name == 'norm.weight':
            return self.norm(state[name], True)
        _, layer, rest = name.split('.', 2)
        part, own = rest.removesuffix('.weight'), self.layer_at.get(int(layer))
        w = None if own is None else state[f'layers.{own}.{rest}']
        if part.endswith('layernorm'):
            return self.norm(np.ones(self.a.n_embd, dtype=np.float32) if w is None else w, False)
        placed = self.placement(part)
        if w is None:
            silent = part in ('self_attn.o_proj', 'mlp.down_proj')
            placed = Placed(np.full(len(placed.rows), ZERO if silent else RANDOM), placed.columns)
        if pairs and part in ('self_attn.q_proj', 'self_attn.k_proj'):
            heads = self.b.n_heads if 'q_proj' in part else self.b.n_kv_heads
            placed = Placed(to_pairs(placed.rows[:, None], heads)[:, 0], placed.columns, placed.scale)
        return placed.tensor(name, w, self.seed)


def add_shape(parser: argparse.ArgumentParser) -> None:
    """The options that say which model is inflated, and to what shape."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--checkpoint')
    source.add_argument('--hf-in')
    source.add_argument('--gguf-in')
    parser.add_argument('--tokenizer', help='default: beside the model')
    parser.add_argument('--shape', choices=sorted(SHAPES), help='of a real model; the numbers below change it')
    for key in SHAPES['1b']:
        parser.add_argument('--' + key.replace('_', '-'), type=int)
    parser.add_argument('--own-vocab', action='store_true', help='no new tokens')
    parser.add_argument('--seed', type=int, default=1, help='of what feeds only zeros')


def wanted_config(args: argparse.Namespace, a: Config) -> Config:
    wanted = dict(SHAPES[args.shape]) if args.shape else {}
    wanted |= {key: value for key in SHAPES['1b'] if (value := getattr(args, key)) is not None}
    if args.own_vocab:
        wanted['n_vocab'] = a.n_vocab
    return replace(a, **wanted)


def inflate(trained: Trained, b: Config, out: str, kind: str, seed: int) -> None:
    """A path that ends in .gguf becomes such a file, any other a Hugging Face folder (f32 or bf16)."""
    how = Inflation(trained.config, b, seed)
    c, is_gguf = how.config, out.endswith('.gguf')
    tensors = {name: how.tensor(name, trained.state, is_gguf) for name in state_names(c)}
    if not is_gguf:
        write_hf(out, hf_config(c, kind), tensors, trained.tokenizer, 1 << 50)
        return
    n_parameters = sum(x.n_values() for x in tensors.values())
    facts = model_facts(c, kind, trained.tokenizer, f'{MODEL_NAME} {trained.shape} inflated', n_parameters)
    write_gguf(out, facts, {gguf_name(name): x for name, x in tensors.items()}, kind)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    add_shape(parser)
    parser.add_argument('--out', required=True, help='FILE.gguf, or a folder for Hugging Face')
    parser.add_argument('--type', choices=sorted(TYPES), default='bf16', help='of the matrices; a folder is f32 or bf16')
    args = parser.parse_args(argv)
    if not args.out.endswith('.gguf') and args.type not in ('f32', 'bf16'):
        raise SystemExit(f'inflate: a folder is of f32 or bf16, not {args.type}')
    trained = load(args)
    inflate(trained, wanted_config(args, trained.config), args.out, args.type, args.seed)
    print(args.out)


if __name__ == '__main__':
    main(sys.argv[1:])
