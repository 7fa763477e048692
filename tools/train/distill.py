#!/usr/bin/env python3
"""Trains a draft on the target's own distribution: speculation accepts a token as often as the two agree, so the draft
learns from all of the target's logits and not only from the text.

    tools/train/distill.py --target build/train/small/checkpoint.pt                to the end, or until interrupted
    tools/train/distill.py --target … --minutes 60 --init build/train/draft-text/checkpoint.pt

Text, phases, order, checkpoints, resuming, log and curve are train.py's, whose options it takes; the loss is
0.9 · KL(target ‖ draft) at temperature 1 + 0.1 · cross entropy of the text, weighted as there. A checkpoint of another
target is refused. tools/train/acceptance.py says how often the target accepts what comes out.
(Hinton et al. 2015; for drafting: Zhou et al. 2023, "DistillSpec".)
"""
from __future__ import annotations

import argparse
import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

import train  # noqa: E402
from config import Config  # noqa: E402
from model import Model  # noqa: E402

KL_PART = 0.9
ROWS = 2048  # tokens whose logits are in memory at a time


def load_model(path: str, device: torch.device) -> Model:
    state = torch.load(path, map_location=device, weights_only=True)
    model = Model(Config(**state['config'])).to(device)
    model.load_state_dict(state['model'])
    return model.eval()


class Distiller(train.Trainer):
    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.target = load_model(args.target, self.device).requires_grad_(False)
        if self.target.c.n_vocab != self.model.c.n_vocab:
            raise SystemExit(f'distill: the target has {self.target.c.n_vocab} tokens, the draft {self.model.c.n_vocab}')
        self.loss = self.distilled

    def distilled(self, ids: Tensor, weight: Tensor) -> Tensor:
        """As Model.loss, against the target."""
        counts = weight[:, 1:] > 0
        with torch.no_grad():
            theirs = self.target.hidden(ids)[:, :-1][counts]
        mine, text, weight = self.model.hidden(ids)[:, :-1][counts], ids[:, 1:][counts], weight[:, 1:][counts]
        total = mine.new_zeros((), dtype=torch.float32)
        for first in range(0, len(text), ROWS):
            part = slice(first, first + ROWS)
            with torch.no_grad():
                wanted = F.log_softmax(self.target.logits(theirs[part]).float(), dim=-1)
            got = F.log_softmax(self.model.logits(mine[part]).float(), dim=-1)
            kl = (wanted.exp() * (wanted - got)).sum(-1)
            entropy = F.nll_loss(got, text[part], reduction='none')
            total = total + ((KL_PART * kl + (1 - KL_PART) * entropy) * weight[part]).sum()
        return total


def check_target(args: argparse.Namespace) -> None:
    """The folder remembers its target by its weights' digest."""
    with open(args.target, 'rb') as f:
        mine = hashlib.file_digest(f, 'sha256').hexdigest()
    path = os.path.join(args.out, 'target.sha256')
    if os.path.exists(os.path.join(args.out, 'checkpoint.pt')) and os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            if f.read().strip() != mine:
                raise SystemExit(f'distill: {args.out} was begun with another target; give another --out or --init')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(mine + '\n')


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0], epilog='and all options of train.py')
    parser.add_argument('--target', required=True, help='checkpoint of the target')
    own, rest = parser.parse_known_args(argv)
    beside = os.path.dirname(os.path.dirname(os.path.abspath(own.target)))
    if '--shape' not in rest:
        rest += ['--shape', 'draft']
    if '--out' not in rest:
        rest += ['--out', os.path.join(beside, 'draft')]
    args = train.parse_arguments(rest)
    args.target = own.target
    for folder in (args.out, args.data):
        os.makedirs(folder, exist_ok=True)
    check_target(args)
    torch.set_num_threads(args.threads)
    train.run_to_end('distill', Distiller(args))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
