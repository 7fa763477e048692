#!/usr/bin/env python3
"""Trains a tiny embedding model of the same world and writes it as a Hugging Face folder.

    tools/train/embed.py --tokenizer build/train/tokenizer.json --out build/train/embed
    tools/train/embed.py … --shape test --steps 50        to try the tool

A text's vector is the model's last hidden state at its <|end|>, divided by its length. It learns from pairs (a question,
the note that answers it: notes.py) with the other notes of the batch as wrong ones; the last quarter of a batch speaks of the same
people, so names alone do not do. Retrieval: the right note among all, questions and contents held out as everywhere.
(InfoNCE: van den Oord et al. 2018.)
"""
from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor  # noqa: E402

import loop  # noqa: E402
from card import CARD, write_block  # noqa: E402
from chat import BEGIN, END  # noqa: E402
from config import Config  # noqa: E402
from export import hf_config, read_tokenizer, rows_of, write_hf, write_json  # noqa: E402
from model import Model  # noqa: E402
from notes import pairs  # noqa: E402
from tasks.core import SPLITS  # noqa: E402
from unmerge import Unmerger  # noqa: E402

SHAPES = {'test': Config(n_embd=64, n_layers=1, n_heads=4, n_kv_heads=1, head_dim=16, n_ff=128, n_ctx=512),
          'embed': Config(n_embd=128, n_layers=3, n_heads=4, n_kv_heads=1, head_dim=32, n_ff=512, n_ctx=512)}
TEMPERATURE = 0.05


class Embedder:
    def __init__(self, model: Model, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.begin, self.end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)

    def rows(self, texts: list[str]) -> list[list[int]]:
        return [[self.begin, *self.tokenizer.encode(t, add_special_tokens=False).ids, self.end] for t in texts]

    def vectors(self, rows: list[list[int]]) -> Tensor:
        """[len(rows), n_embd], each of length 1. Attention is causal, so what pads behind the end changes nothing."""
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
        last = torch.tensor([len(row) - 1 for row in rows])
        return F.normalize(self.model.hidden(ids)[torch.arange(len(rows)), last].float(), dim=-1)

    def loss(self, both: list[tuple[str, str]], unmerger: Unmerger, seed: int) -> Tensor:
        """Names are in pieces as unmerge.py says, in the whole batch alike: a question and its note write a name the same way."""
        rows = self.rows([a for a, _ in both] + [b for _, b in both])
        whole = unmerger.row(np.array(sum(rows, []), dtype=np.uint16), np.random.default_rng(seed))
        ends = np.flatnonzero(whole == self.end) + 1
        rows = [part.tolist() for part in np.split(whole, ends[:-1])]
        q, notes = self.vectors(rows).chunk(2)
        scores, right = q @ notes.T / TEMPERATURE, torch.arange(len(both))
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2

    @torch.no_grad()
    def found(self, both: list[tuple[str, str]]) -> tuple[float, float]:
        """(the right note first, the right note among the first five)"""
        q, notes = self.vectors(self.rows([a for a, _ in both])), self.vectors(self.rows([b for _, b in both]))
        scores = q @ notes.T
        rank = (scores > scores.diagonal()[:, None]).sum(1)
        return float((rank == 0).float().mean()), float((rank < 5).float().mean())


def write(folder: str, model: Model, tokenizer_path: str) -> None:
    """As sentence-transformers reads it: the last token's state, normalised."""
    tensors = {name: rows_of(x.detach().numpy()) for name, x in model.state_dict().items()}
    write_hf(folder, hf_config(model.c, 'f32'), tensors, read_tokenizer(tokenizer_path), 1 << 40)
    os.makedirs(os.path.join(folder, '1_Pooling'), exist_ok=True)
    write_json(os.path.join(folder, '1_Pooling', 'config.json'),
               {'word_embedding_dimension': model.c.n_embd, 'pooling_mode_lasttoken': True, 'pooling_mode_mean_tokens': False})
    kinds = ('', 'Transformer'), ('1_Pooling', 'Pooling'), ('2_Normalize', 'Normalize')
    write_json(os.path.join(folder, 'modules.json'), [{'idx': i, 'name': str(i), 'path': path, 'type': f'sentence_transformers.models.{kind}'}
                                                      for i, (path, kind) in enumerate(kinds)])


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    loop.add_arguments(parser, 3000, 2e-3)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--shape', choices=sorted(SHAPES), default='embed')
    parser.add_argument('--rows', type=int, default=64, help='pairs a step')
    parser.add_argument('--n', type=int, default=256, help='notes to search when measuring')
    parser.add_argument('--card', nargs='?', const=CARD, help='write the table into this model card')
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    embedder = Embedder(Model(SHAPES[args.shape]), Tokenizer.from_file(args.tokenizer))
    seen = sum(embedder.rows([text for pair in pairs('train', 'count', 1024) for text in pair]), [])
    unmerger = Unmerger(args.tokenizer, np.array(seen, dtype=np.uint16))
    done = loop.fit(embedder.model, lambda i: embedder.loss(pairs('train', f'{args.seed}/{i}', args.rows), unmerger, i), args, loop.Adam(embedder.model))
    write(os.path.join(args.out, 'hf'), embedder.model, args.tokenizer)
    rows = []
    for split in SPLITS[1:]:
        first, five = embedder.found(pairs(split, 'eval', args.n))
        rows.append(f'| {split} | {100 * first:.1f} | {100 * five:.1f} | {100 / args.n:.1f} | {args.n} |')
    text = '\n'.join(['| split | % found first | % in the first five | chance | notes |', '|' + ' --- |' * 5, *rows])
    print(text)
    if args.card and done:
        write_block(args.card, 'embedder', 'tools/train/embed.py', f'{embedder.model.n_parameters() / 1e6:.2f} M parameters, {args.steps} steps.\n\n{text}')


if __name__ == '__main__':
    main(sys.argv[1:])
