#!/usr/bin/env python3
"""What ways to pack a cache cost a real model, computed in PyTorch, before anybody builds kernels for one.

    tools/train/cache_forms.py MODEL.gguf --text FILE

The model is a Llama. Keys and values become what a form keeps of them; a row sees its own strip of tokens as F16 has it, and
so the first tokens where the form says `exact`. KL, perplexity and the same likeliest token are to a cache of F32, over windows of the text.
Forms: KIVI's (Liu et al. 2024), a least number and a step for each component of keys over a strip, and for 32 components of
values; GEAR's (Kang et al. 2024), the same with outliers apart and what is left in a product of low rank, of each head and strip.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from medusa import load_base  # noqa: E402
from model import Attention, Model, rotate  # noqa: E402
from serving import default_quire  # noqa: E402

RUN = 32  # components of a value that have a step together
F16, INDEX = 16, 6  # bits of a number; of where an outlier lies


@dataclass(frozen=True)
class Form:
    name: str
    strip: int = 16  # tokens
    bits: int = 2
    rank: int = 0  # of GEAR's product
    outliers: tuple[int, int] = (0, 0)  # of each component's keys in a strip, of each run of a value: half the largest, half the least
    exact: int = 0  # first tokens that are never packed

    def share(self, head_dim: int) -> float:
        """Of what F16 takes."""
        steps = 2 * F16 / self.strip + 2 * F16 / RUN
        product = 2 * self.rank * F16 * (1 / self.strip + 1 / head_dim)
        apart = (F16 + INDEX) * (self.outliers[0] / self.strip + self.outliers[1] / RUN)
        return (2 * self.bits + steps + product + apart) / (2 * F16)

    def packed(self, x: Tensor, axis: int, n_apart: int) -> Tensor:
        """x with steps along `axis`."""
        most, big = 2 ** self.bits - 1, torch.finfo(x.dtype).max
        apart = torch.zeros_like(x, dtype=torch.bool)
        for largest in (True, False) if n_apart else ():
            apart.scatter_(axis, x.topk(n_apart // 2, axis, largest=largest).indices, True)
        least = as_bf16(x.masked_fill(apart, big).amin(axis, keepdim=True))
        step = as_bf16((x.masked_fill(apart, -big).amax(axis, keepdim=True) - least) / most)
        numbers = torch.where(step > 0, (x - least) / step, 0 * x).round().clamp(0, most)
        return torch.where(apart, as_bf16(x), numbers * step + least)

    def keys(self, x: Tensor) -> Tensor:
        strips = x.unflatten(2, (-1, self.strip))
        return self.kept(x, self.mended(strips, self.packed(strips, -2, self.outliers[0])).flatten(2, 3))

    def values(self, x: Tensor) -> Tensor:
        packed = self.packed(x.unflatten(3, (-1, RUN)), -1, self.outliers[1]).flatten(3, 4)
        strips = (t.unflatten(2, (-1, self.strip)) for t in (x, packed))
        return self.kept(x, self.mended(*strips).flatten(2, 3))

    def mended(self, x: Tensor, packed: Tensor) -> Tensor:
        """[…, strip, head_dim], with what is lost in a product of low rank."""
        if self.rank == 0:
            return packed
        u, s, v = torch.linalg.svd(x - packed, full_matrices=False)
        return packed + (u[..., :self.rank] * s[..., None, :self.rank]).half().float() @ v[..., :self.rank, :].half().float()

    def kept(self, x: Tensor, packed: Tensor) -> Tensor:
        return torch.cat((x[:, :, :self.exact], packed[:, :, self.exact:]), 2)


FORMS = (
    Form('kivi2'), Form('kivi2, first 16 exact', exact=16), Form('kivi2 over 64, first 64 exact', strip=64, exact=64),
    Form('kivi, 3 bits, first 16 exact', bits=3, exact=16),
    Form('GEAR over 16: rank 1, outliers', rank=1, outliers=(2, 2)), Form('GEAR over 16: rank 1, first 16 exact', rank=1, exact=16),
    Form('GEAR over 64: rank 2, outliers, first 64 exact', strip=64, rank=2, outliers=(2, 2), exact=64),
    Form('GEAR over 64: rank 4, first 64 exact', strip=64, rank=4, exact=64),
)


def as_bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).float()


def attend(layer: Attention, x: Tensor, turns: tuple[Tensor, Tensor], form: Form | None) -> Tensor:
    """x [1, n, n_embd]"""
    n = x.shape[1]
    q, k, v = (p(x).view(1, n, -1, layer.c.head_dim).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    q, k = rotate(q, *turns), rotate(k, *turns)
    own = past = torch.ones(n, n, dtype=torch.bool).tril()
    packed = (k, v)
    if form is not None:
        k, v = k.half().float(), v.half().float()
        packed = (form.keys(k), form.values(v))
        strip = torch.arange(n) // form.strip
        own, past = own & (strip[:, None] == strip), strip[:, None] > strip
    shared = q.shape[1] // k.shape[1]
    k, v, packed_k, packed_v = (t.repeat_interleave(shared, 1) for t in (k, v, *packed))
    scores = torch.where(own, q @ k.transpose(2, 3), q @ packed_k.transpose(2, 3)).masked_fill(~(own | past), -torch.inf)
    shares = torch.softmax(scores * layer.c.head_dim ** -0.5, -1)
    out = (shares * own) @ v + (shares * ~own) @ packed_v
    return layer.o_proj(out.transpose(1, 2).reshape(1, n, -1))


@torch.no_grad()
def told(model: Model, windows: Tensor, form: Form | None) -> Tensor:
    """log probabilities [windows, n, n_vocab]"""
    for layer in model.layers:
        own = layer.self_attn
        own.forward = lambda x, cos, sin, _past, own=own: attend(own, x, (cos, sin), form)
    return torch.stack([torch.log_softmax(model.logits(model.hidden(window[None])), -1)[0] for window in windows])


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('model', help='a Llama in GGUF whose output matrix is its embedding')
    parser.add_argument('--text', required=True)
    parser.add_argument('--bytes', type=int, default=12000, help='of the text, from its beginning')
    parser.add_argument('--window', type=int, default=512, help='tokens, a multiple of 64')
    parser.add_argument('--quire', default=default_quire())
    args = parser.parse_args(argv)
    model = load_base(args.model)
    with open(args.text, 'rb') as f:
        text = f.read(args.bytes).decode('utf-8', 'ignore')
    done = subprocess.run([args.quire, 'tokenize', args.model, '--text', text], capture_output=True, text=True, check=True)
    ids = torch.tensor(json.loads(done.stdout))
    windows = ids[:len(ids) // args.window * args.window].view(-1, args.window)

    def perplexity(told_: Tensor) -> float:
        return float((-told_[:, :-1].gather(-1, windows[:, 1:, None]).mean()).exp())

    base = told(model, windows, None)
    print(f'{windows.numel()} tokens, perplexity {perplexity(base):.3f}\n')
    print('| form | of F16 | KL mean | perplexity | same top |\n|---|---:|---:|---:|---:|')
    for form in FORMS:
        found = told(model, windows, form)
        kl = float((base.exp() * (base - found)).sum(-1)[:, :-1].mean())
        same = float((base.argmax(-1) == found.argmax(-1)).float().mean())
        print(f'| {form.name} | {form.share(model.c.head_dim):.3f} | {kl:.4f} | {100 * (perplexity(found) / perplexity(base) - 1):+.1f} % | '
              f'{100 * same:.1f} % |', flush=True)


if __name__ == '__main__':
    main(sys.argv[1:])
