"""The training loop of the small siblings: a cosine, a checkpoint that it goes on from, a log, a curve.

Batches are numbered and follow from their number, so a run that was stopped goes on as if it had not been.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from typing import Any, Callable, Protocol

import torch
from torch import Tensor, nn

import curve

SAVE_EVERY = 100


def add_arguments(parser: argparse.ArgumentParser, steps: int, lr: float) -> None:
    parser.add_argument('--out', required=True, help='folder of the checkpoint, the log and what is written in the end')
    parser.add_argument('--steps', type=int, default=steps)
    parser.add_argument('--lr', type=float, default=lr)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--minutes', type=float, default=math.inf, help='stop after this long; run again to go on')
    parser.add_argument('--threads', type=int, default=os.cpu_count())


class Stepper(Protocol):
    """An optimizer that takes its learning rate with each step, clips and forgets the gradients."""

    def step(self, lr: float) -> object: ...
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> object: ...


class Adam:

    def __init__(self, model: nn.Module):
        self.all = [p for p in model.parameters() if p.requires_grad]
        self.inner = torch.optim.AdamW(self.all, betas=(0.9, 0.98), weight_decay=0.01)
        self.state_dict, self.load_state_dict = self.inner.state_dict, self.inner.load_state_dict

    def step(self, lr: float) -> None:
        nn.utils.clip_grad_norm_(self.all, 1.0)
        for group in self.inner.param_groups:
            group['lr'] = lr
        self.inner.step()
        self.inner.zero_grad()


def save(path: str, model: nn.Module, optimizer: Stepper, step: int, args: argparse.Namespace) -> None:
    state = {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': step, 'steps': args.steps, 'seed': args.seed}
    torch.save(state, path + '.tmp')
    os.replace(path + '.tmp', path)


def resume(path: str, model: nn.Module, optimizer: Stepper, args: argparse.Namespace) -> int:
    if not os.path.exists(path):
        return 0
    state = torch.load(path, map_location='cpu', weights_only=True)
    for key in ('steps', 'seed'):
        if state[key] != getattr(args, key):
            raise SystemExit(f'{path} was made with {key} {state[key]}, now it is {getattr(args, key)}')
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    return state['step']


def fit(model: nn.Module, loss_of: Callable[[int], Tensor], args: argparse.Namespace, optimizer: Stepper) -> bool:
    """loss_of(number of the batch). True when all steps are done."""
    os.makedirs(args.out, exist_ok=True)
    path, log, began, stopping = os.path.join(args.out, 'checkpoint.pt'), os.path.join(args.out, 'log.jsonl'), time.monotonic(), []
    before = [signal.signal(s, lambda *_: stopping.append(True)) for s in (signal.SIGINT, signal.SIGTERM)]
    step = resume(path, model, optimizer, args)
    while step < args.steps and not stopping and time.monotonic() - began < 60 * args.minutes:
        loss = loss_of(step)
        loss.backward()
        optimizer.step(args.lr * min(1.0, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / args.steps))))
        step += 1
        with open(log, 'a', encoding='utf-8') as f:
            f.write(json.dumps({'step': step, 'train': float(loss.detach())}) + '\n')
        if step % SAVE_EVERY == 0 or step == args.steps:
            save(path, model, optimizer, step, args)
            print(f'step {step} of {args.steps}, loss {float(loss.detach()):.4f}', file=sys.stderr)
    save(path, model, optimizer, step, args)
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before):
        signal.signal(number, handler)
    with open(log, encoding='utf-8') as f:
        curve_points = sorted({line['step']: line['train'] for line in map(json.loads, f)}.items())
    with open(os.path.join(args.out, 'curve.svg'), 'w', encoding='utf-8') as f:
        f.write(curve.svg({'train': curve_points}, 'loss over steps'))
    return step == args.steps
