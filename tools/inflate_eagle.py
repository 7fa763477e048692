#!/usr/bin/env python3
"""Puts an EAGLE-3 head of a bundled model into the shape that the model was inflated to (inflate.py): the same guesses at the cost of
a real model's head.

    tools/inflate.py --gguf-in models/quill-q8_0.gguf --shape 1b --own-vocab --type q8_0 --out big.gguf
    tools/inflate_eagle.py HEAD --gguf-in models/quill-q8_0.gguf --shape 1b --own-vocab --out FOLDER
    quire serve big.gguf --draft FOLDER

Its layer gets the heads and the feed-forward width of the large model's layers, as published heads have them; the tokens that it
knows stay. What was read behind a layer is read behind the large model's layers that do the same.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace

import numpy as np

from inflate import Inflation, Placed, add_shape, wanted_config

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'train'))

from config import Config  # noqa: E402
from export import load, write_json  # noqa: E402
from tensor_files import Rows, read_safetensors, rows_of, write_safetensors  # noqa: E402

TAPS = ('eagle_config', 'eagle_aux_hidden_state_layer_ids')


def head_shape(h: dict, c: Config) -> Config:
    """Of the head's one layer, by its config.json `h`, for a model `c`."""
    return replace(c, n_layers=1, n_heads=h['num_attention_heads'], n_kv_heads=h['num_key_value_heads'], head_dim=h['head_dim'],
                   n_ff=h['intermediate_size'], norm_eps=h['rms_norm_eps'], rope_theta=h['rope_theta'])


class Head:
    """The head of a model `a`, in whose place there is `b` now."""

    def __init__(self, config: dict, a: Config, b: Config, seed: int):
        if config['hidden_size'] != a.n_embd:
            raise SystemExit(f'inflate_eagle: the head is {config["hidden_size"]} wide, the model {a.n_embd}')
        small = head_shape(config, a)
        # no token is new to the head, and none of its states has what marks new ones
        self.how = Inflation(small, replace(b, n_layers=1, n_vocab=small.n_vocab), seed)
        self.taps = [layer * b.n_layers // a.n_layers for layer in config[TAPS[0]][TAPS[1]]]
        c = self.how.config
        self.config = config | {
            'hidden_size': c.n_embd, 'intermediate_size': c.n_ff, 'num_attention_heads': c.n_heads, 'num_key_value_heads': c.n_kv_heads,
            'head_dim': c.head_dim, 'rms_norm_eps': c.norm_eps, 'vocab_size': b.n_vocab, TAPS[0]: {TAPS[1]: self.taps}}

    def columns(self, n: int) -> np.ndarray:
        """Where the columns of a matrix come from that takes n streams, one behind the other."""
        stream, d = self.how.stream, self.how.a.n_embd
        return np.concatenate([np.where(stream < 0, stream, stream + i * d) for i in range(n)])

    def tensor(self, name: str, w: np.ndarray) -> Rows:
        if name == 'd2t':
            return rows_of(w)
        part = name.removeprefix('midlayer.').removesuffix('.weight')
        if part.endswith('norm'):
            return self.how.norm(w, False)
        if part == 'fc':
            placed = Placed(self.how.stream, self.columns(len(self.taps)))
        elif part == 'lm_head':
            placed = Placed(np.arange(len(w)), self.how.stream)
        else:
            placed = self.how.placement(part)
            if part in ('self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'):  # of a token and a state
                placed = replace(placed, columns=self.columns(2))
        return placed.tensor(name, w, self.how.seed)


def inflate_head(folder: str, a: Config, b: Config, out: str, kind: str, seed: int) -> None:
    """The head of model `a` in `folder`, for the model's large shape `b`."""
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        head = Head(json.load(f), a, b, seed)
    state = read_safetensors(os.path.join(folder, 'model.safetensors'))
    os.makedirs(out, exist_ok=True)
    tensors = {name: head.tensor(name, w) for name, w in state.items()}
    write_safetensors(os.path.join(out, 'model.safetensors'), tensors, kind, whole=('d2t',))
    write_json(os.path.join(out, 'config.json'), head.config | {'torch_dtype': {'f32': 'float32', 'bf16': 'bfloat16'}[kind]})


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('head', help='folder of the small head')
    add_shape(parser)
    parser.add_argument('--out', required=True, help='folder')
    parser.add_argument('--type', choices=('bf16', 'f32'), default='bf16', help='of the matrices')
    args = parser.parse_args(argv)
    config = load(args).config
    inflate_head(args.head, config, wanted_config(args, config), args.out, args.type, args.seed)
    print(args.out)


if __name__ == '__main__':
    main(sys.argv[1:])
