"""Words in smaller tokens than the tokenizer would give, so that words it never saw can be read and copied.

A name that stands in training text often is one token; a held-out one is made of pieces which then hardly occur at all, and
whose embeddings nobody trained. So in a part of the rows some tokens are taken apart into the two that byte-pair encoding
made them of, some of those once more; within a row a token is apart everywhere or nowhere, as an unknown name would be.
(After Provilkov et al. 2020, "BPE-dropout", which draws anew at every place.)
"""
from __future__ import annotations

import json

import numpy as np

from config import LEARN

FREQUENT = 5e-4  # of all tokens: words as common as this are never new
AGAIN = 0.3      # of the share, for the parts


def parents(tokenizer_path: str) -> np.ndarray:
    """[n_vocab, 2]: what each token with a capital letter was merged of, -1 where it was not or has none. New words are names."""
    with open(tokenizer_path, encoding='utf-8') as f:
        model = json.load(f)['model']
    vocab = model['vocab']
    out = np.full((max(vocab.values()) + 1, 2), -1, dtype=np.int64)
    for merge in reversed(model['merges']):  # the first merge that makes a token counts
        left, right = merge if isinstance(merge, list) else merge.split(' ')
        if any('A' <= c <= 'Z' for c in left + right):
            out[vocab[left + right]] = vocab[left], vocab[right]
    return out


class Unmerger:
    def __init__(self, tokenizer_path: str, tokens: np.ndarray):
        """`tokens` say how frequent each is."""
        self.parents = parents(tokenizer_path)
        counts = np.bincount(tokens & (LEARN - 1), minlength=len(self.parents))
        self.may = (self.parents[:, 0] >= 0) & (counts < FREQUENT * len(tokens))

    def once(self, row: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        ids = row & (LEARN - 1)
        distinct = np.unique(ids)
        chosen = np.zeros(len(self.parents), dtype=bool)
        chosen[distinct] = self.may[distinct] & (rng.random(len(distinct)) < share)
        apart = chosen[ids]
        out = np.repeat(row, 1 + apart)
        first = (np.cumsum(1 + apart) - 2)[apart]
        for i in range(2):
            out[first + i] = self.parents[ids[apart], i].astype(np.uint16) | (row[apart] & LEARN)
        return out

    def row(self, row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """`row` with between none and nearly all of its rarer tokens apart."""
        share = float(rng.random())
        return self.once(self.once(row, share, rng), AGAIN * share, rng)
