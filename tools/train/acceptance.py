#!/usr/bin/env python3
"""Says how often the target accepts a draft's tokens on held-out prompts, at temperature 0 and 1.

    tools/train/acceptance.py --target build/train/small/checkpoint.pt --draft build/train/draft/checkpoint.pt [--card F]

Both read the target's own answers (greedy, or sampled at temperature 1) and at each of their tokens the two distributions
p (target) and q (draft) are compared: at temperature 0 a draft token is accepted where both have the same best token, at
temperature 1 with probability Σ min(p, q), which is what rejection sampling accepts (Leviathan et al. 2023). From these
rates follow the tokens per step of the target when k are drafted: the mean over positions of 1 + a₁ + a₁a₂ + … + a₁…a_k.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from card import CARD, write_block  # noqa: E402
from distill import load_model  # noqa: E402
from evaluate import END_ID, Question, questions  # noqa: E402
from model import Model  # noqa: E402

DEPTHS = (2, 4, 8)
LONGEST_PROMPT, MOST_TOKENS = 1024, 96


@torch.no_grad()
def answer(model: Model, prompt: list[int], temperature: float, seed: int) -> list[int]:
    """The target's own, with its end token."""
    random = torch.Generator().manual_seed(seed)
    past: list[list[torch.Tensor]] = [[] for _ in model.layers]
    ids, out, start = torch.tensor([prompt]), [], 0
    while len(out) < MOST_TOKENS and (not out or out[-1] != END_ID):
        logits = model.logits(model.hidden(ids, past, start)[0, -1])
        start += ids.shape[1]
        token = int(torch.multinomial(torch.softmax(logits.float(), -1), 1, generator=random) if temperature else logits.argmax())
        out.append(token)
        ids = torch.tensor([[token]])
    return out


@torch.no_grad()
def accepted(target: Model, draft: Model, prompt: list[int], reply: list[int], temperature: float) -> torch.Tensor:
    """[len(reply)]: the probability that the draft's token is accepted at each place."""
    ids = torch.tensor([prompt + reply[:-1]])
    p, q = (m.logits(m.hidden(ids)[0, len(prompt) - 1:]).float() for m in (target, draft))
    if not temperature:
        return (p.argmax(-1) == q.argmax(-1)).float()
    return torch.minimum(p.softmax(-1), q.softmax(-1)).sum(-1)


def tokens_per_step(rates: list[torch.Tensor], depth: int) -> float:
    """Every place of every answer as the start of a draft of this depth, or of what is left of the answer."""
    total, n = 0.0, 0
    for a in rates:
        for start in range(len(a)):
            total += 1 + float(a[start:start + depth].cumprod(0)[:max(0, len(a) - start - 1)].sum())
            n += 1
    return total / max(1, n)


def table(asked: list[Question], target: Model, draft: Model) -> str:
    rows = []
    for temperature in (0.0, 1.0):
        by_task: dict[str, list[torch.Tensor]] = defaultdict(list)
        for i, q in enumerate(asked):
            a = accepted(target, draft, q.prompt, answer(target, q.prompt, temperature, i), temperature)
            by_task[q.task].append(a)
            by_task['all tasks'].append(a)
        for task in sorted(by_task, key=lambda t: t == 'all tasks'):
            rate = torch.cat(by_task[task])
            steps = ' | '.join(f'{tokens_per_step(by_task[task], d):.2f}' for d in DEPTHS)
            rows.append(f'| {temperature:g} | {task} | {100 * float(rate.mean()):.1f} | {steps} | {len(rate)} |')
    head = '| temperature | task | % accepted | ' + ' | '.join(f'tokens per step, {d} drafted' for d in DEPTHS) + ' | tokens |'
    return '\n'.join([head, '|' + ' --- |' * (4 + len(DEPTHS)), *rows])


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--target', required=True)
    parser.add_argument('--draft', required=True)
    parser.add_argument('--tokenizer', help='default: beside the target\'s folder')
    parser.add_argument('--n', type=int, default=2, help='held-out samples of each task and split')
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--card', nargs='?', const=CARD, help='write the table into this model card')
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    beside = os.path.dirname(os.path.dirname(os.path.abspath(args.target)))
    tokenizer = Tokenizer.from_file(args.tokenizer or os.path.join(beside, 'tokenizer.json'))
    target, draft = (load_model(path, torch.device('cpu')) for path in (args.target, args.draft))
    asked = [q for q in questions(tokenizer, args.n, []) if len(q.prompt) <= LONGEST_PROMPT]
    text = table(asked, target, draft)
    print(text)
    if args.card:
        write_block(args.card, 'draft', 'tools/train/acceptance.py', text)


if __name__ == '__main__':
    main(sys.argv[1:])
