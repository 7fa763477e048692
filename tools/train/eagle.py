#!/usr/bin/env python3
"""Trains an EAGLE-3 head for a finished model, which stays as it is, from conversations that the model wrote itself.

    tools/train/self_text.py MODEL.gguf --out own.jsonl --n 3000
    tools/train/eagle.py --base MODEL.gguf --text own.jsonl --out FOLDER --minutes 60
    quire serve MODEL.gguf --draft FOLDER

The base is a Llama whose output matrix is its embedding. The head (eagle_head.py) learns its distribution over the
tokens that are most frequent in the text, a few guesses in a row. A conversation begins somewhere in its prompt, as it does in
a server that has the beginning cached. The first of the text are held out; of it the table says how often the first guess is
the next token, the first two are, and so on, and the tokens per step that follow. Stopped, training goes on where it was;
the states of the base are kept in FOLDER/states, which the head does not need.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from eagle_head import Head, Rows, learn, save, states_behind  # noqa: E402
from medusa import load_base  # noqa: E402
from model import Model  # noqa: E402
from optimizer import Optimizer  # noqa: E402

SAVE_EVERY, SAY_EVERY = 50, 10  # steps
WARM_UP, FALL, LEAST = 20, 0.5, 0.02  # steps; of the time; of the learning rate
PROMPT_PART = 0.2  # how much a token of the prompt counts


class Text:
    """Conversations as ids, and the base's states of each, which are computed when they are first asked for."""

    def __init__(self, path: str, args: argparse.Namespace, model: Model):
        with open(path, encoding='utf-8') as f:
            self.lines = [json.loads(line) for line in f if line.endswith('\n')]
        self.longest, self.taps, self.model = args.longest, args.taps, model
        self.folder = os.path.join(args.out, 'states')
        os.makedirs(self.folder, exist_ok=True)

    def __len__(self) -> int:
        return len(self.lines)

    def ids(self, i: int) -> list[int]:
        return self.lines[i]['ids'][:self.longest]

    def states(self, i: int) -> Tensor:
        path = os.path.join(self.folder, f'{i}.pt')
        if os.path.exists(path):
            return torch.load(path, weights_only=True)
        with torch.autocast('cpu', torch.bfloat16):
            x = states_behind(self.model, torch.tensor([self.ids(i)]), self.taps)[0].to(torch.bfloat16)
        torch.save(x, path)
        return x

    def rows(self, picked: list[int], first: list[int]) -> Rows:
        """Conversations from so many tokens on, padded."""
        n = max(len(self.ids(i)) - at for i, at in zip(picked, first))
        ids, counts = torch.zeros(len(picked), n, dtype=torch.long), torch.zeros(len(picked), n)
        states = torch.zeros(len(picked), n, len(self.taps) * self.model.c.n_embd, dtype=torch.bfloat16)
        for row, (i, at) in enumerate(zip(picked, first)):
            own, n_prompt = self.ids(i)[at:], self.lines[i]['n_prompt'] - at
            ids[row, :len(own)] = torch.tensor(own)
            counts[row, :len(own)] = 1.0
            counts[row, :n_prompt] = PROMPT_PART
            states[row, :len(own)] = self.states(i)[at:]
        return Rows(ids, states, counts)

    def frequent(self, n: int) -> Tensor:
        """The tokens of answers that come most, ascending; of those that come equally often the first."""
        counts = torch.zeros(self.model.c.n_vocab, dtype=torch.float64)
        for line in self.lines:
            counts += torch.bincount(torch.tensor(line['ids'][line['n_prompt']:]), minlength=len(counts))
        counts -= torch.arange(len(counts)) / len(counts)
        return counts.topk(min(n, len(counts))).indices.sort().values


class Run:
    """The training: head, optimiser and how far they are, kept in `folder`/state.pt."""

    def __init__(self, args: argparse.Namespace, model: Model, text: Text):
        self.args, self.model, self.text = args, model, text
        self.path = os.path.join(args.out, 'state.pt')
        state = torch.load(self.path, weights_only=True) if os.path.exists(self.path) else None
        tokens = state['tokens'] if state else text.frequent(args.vocab)
        c = replace(model.c, n_layers=1, n_heads=args.heads, n_kv_heads=args.kv_heads, n_ff=args.ff)
        self.head, self.step, self.seconds = Head(c, args.taps, tokens), 0, 0.0
        self.head.begin(model, float(text.states(0)[8:, -c.n_embd:].float().pow(2).mean().sqrt()))
        # the ends are AdamW's
        parts = {'fc': self.head.fc, 'layer': self.head.midlayer, 'norm': self.head.norm, 'readout': self.head.lm_head}
        self.optimizer = Optimizer(nn.ModuleDict(parts), torch.bfloat16, weight_decay=0.0)
        if state:
            self.head.load_state_dict(state['head'])
            self.optimizer.load_state_dict(state['optimizer'])
            self.step, self.seconds = state['step'], state['seconds']

    def keep(self) -> None:
        state = {'head': self.head.state_dict(), 'optimizer': self.optimizer.state_dict(), 'step': self.step,
                 'seconds': self.seconds, 'tokens': self.head.tokens}
        torch.save(state, self.path + '.tmp')
        os.replace(self.path + '.tmp', self.path)
        save(self.head, self.args.out)

    def left(self) -> float:
        """Of 1: what of the time and of the steps is to come."""
        return 1 - max(self.seconds / (60 * self.args.minutes), self.step / self.args.steps)

    def one(self) -> tuple[float, list[float]]:
        """A step. Its loss, and of each round how much of the answers was right."""
        random = np.random.default_rng((self.args.seed, self.step))
        picked = random.choice(range(self.args.held, len(self.text)), self.args.rows, replace=False).tolist()
        first = [int(random.integers(self.text.lines[i]['n_prompt'])) for i in picked]
        rows = self.text.rows(picked, first)
        with torch.autocast('cpu', torch.bfloat16):
            loss, right = learn(self.head, self.model, rows, self.args.rounds)
        loss.backward()
        self.optimizer.step(self.args.lr * min(1.0, (self.step + 1) / WARM_UP) * min(1.0, max(LEAST, self.left() / FALL)))
        self.step += 1
        n_answers = float((rows.counts[:, 2:] >= 1).sum())
        return float(loss.detach()), [float(r.sum()) / n_answers for r in right]

    def train(self) -> None:
        shown: list[tuple[float, list[float]]] = []
        while self.left() > 0:
            start = time.monotonic()
            shown.append(self.one())
            self.seconds += time.monotonic() - start
            if self.step % SAY_EVERY == 0:
                rates = ', '.join(f'{100 * np.mean(r):.1f}' for r in zip(*(rates for _, rates in shown)))
                print(f'eagle: step {self.step}, {self.seconds:.0f} s, loss {np.mean([l for l, _ in shown]):.3f}, right {rates} %',
                      file=sys.stderr, flush=True)
                shown = []
            if self.step % SAVE_EVERY == 0:
                self.keep()
        self.keep()


@torch.no_grad()
def table(head: Head, model: Model, text: Text, args: argparse.Namespace) -> str:
    """Of conversations of which the head has learned nothing, from the beginning of their prompts."""
    n_rounds = args.rounds
    n_right, n_tokens = np.zeros(n_rounds), 0
    for i in range(args.held):
        rows = text.rows([i], [0])
        n_right += learn(head, model, replace(rows, states=rows.states.float()), n_rounds)[1].sum((1, 2)).numpy()
        n_tokens += int((rows.counts[:, 2:] >= 1).sum())
    rates = n_right / max(1, n_tokens)
    names = ' | '.join(f'% right, first {r + 1}' for r in range(n_rounds))
    shown = ' | '.join(f'{100 * r:.1f}' for r in rates)
    return f'| {names} | tokens per step | tokens |\n|{" --- |" * (n_rounds + 2)}\n| {shown} | {1 + rates.sum():.2f} | {n_tokens} |'


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--base', required=True, help='a Llama in GGUF (F32, F16, BF16, Q8_0, Q4_1), or a checkpoint')
    parser.add_argument('--text', required=True, help='JSON lines of self_text.py')
    parser.add_argument('--out', required=True, help='folder')
    parser.add_argument('--taps', help='layers behind which states are read, separated by commas; default: a third, two thirds, all')
    parser.add_argument('--vocab', type=int, default=3072, help='tokens that the head knows')
    parser.add_argument('--heads', type=int, default=4)
    parser.add_argument('--kv-heads', type=int, default=2)
    parser.add_argument('--ff', type=int, default=768, help='width of its feed-forward part')
    parser.add_argument('--rounds', type=int, default=3, help='guesses in a row that it learns')
    parser.add_argument('--minutes', type=float, default=60, help='of training, stops not counted')
    parser.add_argument('--steps', type=int, default=1_000_000, help='at most')
    parser.add_argument('--rows', type=int, default=8, help='conversations a step')
    parser.add_argument('--longest', type=int, default=256, help='tokens of a conversation that are read')
    parser.add_argument('--held', type=int, default=16, help='conversations that are held out')
    parser.add_argument('--lr', type=float, default=3e-3)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = load_base(args.base)
    n = model.c.n_layers
    args.taps = [int(tap) for tap in args.taps.split(',')] if args.taps else [n // 3, 2 * n // 3, n]
    text = Text(args.text, args, model)
    if len(text) < args.held + args.rows:
        raise SystemExit(f'{args.text}: {len(text)} conversations, {args.held} held out and {args.rows} a step are wanted')
    run = Run(args, model, text)
    run.train()
    print(table(run.head, model, text, args))


if __name__ == '__main__':
    main(sys.argv[1:])
