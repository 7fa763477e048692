#!/usr/bin/env python3
"""Writes training or evaluation text as JSON lines of chat messages, or shows what it is like.

    tools/train/generate.py --show 2                      two samples of every task, readable
    tools/train/generate.py --stats 500                   per task and split: lengths, turns, checks, chance
    tools/train/generate.py --train 100000 > train.jsonl  mixed conversations, as training reads them
    tools/train/generate.py --eval 100 > eval.jsonl       the held-out sets of every task

Everything follows from the seed, line by line, however many processes write. Only the standard library is needed.
"""
from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from typing import Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chat import message_text  # noqa: E402
from tasks import TASKS, mixed_dialog, sample_of  # noqa: E402
from tasks.core import SPLITS, Json  # noqa: E402

CHUNK = 256  # samples a process makes at a time
EVAL_SEED = 'eval'
EVAL_SPLITS = SPLITS[1:]
RECALL_BUDGETS = (256, 512, 1024, 2048, 4096, 7800)


def train_line(seed: str, budget: int) -> str:
    names, dialog = mixed_dialog(seed, budget)
    out: Json = {'task': names, 'messages': dialog.messages}
    if dialog.tools:
        out['tools'] = dialog.tools
    return json.dumps(out, ensure_ascii=False)


def train_chunk(job: tuple[str, int, int, int]) -> list[str]:
    seed, start, n, budget = job
    return [train_line(f'{seed}/{i}', budget) for i in range(start, start + n)]


def train_lines(seed: str, n: int, budget: int, processes: int) -> Iterator[str]:
    jobs = [(seed, start, min(CHUNK, n - start), budget) for start in range(0, n, CHUNK)]
    if processes == 1:
        yield from itertools.chain.from_iterable(map(train_chunk, jobs))
        return
    with multiprocessing.Pool(processes) as pool:
        yield from itertools.chain.from_iterable(pool.imap(train_chunk, jobs))


def eval_samples(n: int, only: list[str]) -> Iterator[Json]:
    """n samples of each task and held-out split; recall n of each length besides."""
    for name in TASKS:
        if only and name not in only:
            continue
        for split in EVAL_SPLITS:
            budgets = RECALL_BUDGETS if name == 'recall' else (512,)
            for budget in budgets:
                for i in range(n):
                    yield sample_of(name, split, f'{EVAL_SEED}/{budget}/{i}', budget)


def show(n: int, only: list[str], split: str, seed: str) -> None:
    for name in TASKS:
        if only and name not in only:
            continue
        for i in range(n):
            sample = sample_of(name, split, f'{seed}/{i}')
            print(f'---- {name}, {split} {seed}/{i}')
            for tool in sample['tools']:
                print('tool list | ' + json.dumps(tool['function']))
            judged = {check['at'] for check in sample['checks']}
            for at, message in enumerate(sample['messages']):
                mark = '*' if at in judged else ' '
                print(f'{message["role"]:>9}{mark}| ' + message_text(message).replace('\n', '\n          | '))


def stats(n: int, only: list[str]) -> None:
    print(f'{"task":<11} {"split":<9} {"bytes":>7} {"p95":>6} {"turns":>5} {"checks":>6} {"chance":>7} {"answers":>8}')
    for name in TASKS:
        if only and name not in only:
            continue
        for split in SPLITS:
            samples = [sample_of(name, split, f'stats/{i}') for i in range(n)]
            texts = [[message_text(m) for m in s['messages']] for s in samples]
            sizes = sorted(sum(map(len, t)) for t in texts)
            written = sum(len(message_text(m)) for s in samples for m in s['messages'] if m['role'] == 'assistant')
            checks = [c for s in samples for c in s['checks']]
            chance = sum(c['chance'] for c in checks) / max(1, len(checks))
            print(f'{name:<11} {split:<9} {sum(sizes) / n:7.0f} {sizes[int(0.95 * (n - 1))]:6} '
                  f'{sum(map(len, texts)) / n:5.1f} {len(checks) / n:6.1f} {chance:7.3f} {written / sum(sizes):8.1%}')


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--show', type=int, metavar='N', help='N readable samples of each task')
    what.add_argument('--stats', type=int, metavar='N', help='figures over N samples of each task and split')
    what.add_argument('--train', type=int, metavar='N', help='N lines to train on')
    what.add_argument('--eval', type=int, metavar='N', help='N lines of each task and held-out split')
    parser.add_argument('--task', action='append', default=[], choices=list(TASKS), help='only this task (not with --train)')
    parser.add_argument('--split', choices=SPLITS, default='train', help='of --show')
    parser.add_argument('--seed', default='1')
    parser.add_argument('--budget', type=int, default=512, help='about how many tokens a sample of --train may have')
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(argv)
    if args.show:
        show(args.show, args.task, args.split, args.seed)
    elif args.stats:
        stats(args.stats, args.task)
    else:
        lines = (train_lines(args.seed, args.train, args.budget, args.processes) if args.train
                 else (json.dumps(s, ensure_ascii=False) for s in eval_samples(args.eval, args.task)))
        for line in lines:
            sys.stdout.write(line + '\n')


if __name__ == '__main__':
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        os._exit(0)
