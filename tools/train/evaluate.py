#!/usr/bin/env python3
"""Asks a model every held-out question, greedily, and prints how often it was right: by task and split, with the chance
baseline, and recall by distance.

    tools/train/evaluate.py --checkpoint build/train/small/checkpoint.pt          in PyTorch
    tools/train/evaluate.py --hf build/train/export/hf                            through transformers
    tools/train/evaluate.py --server http://127.0.0.1:8080 --tokenizer …          through a running `quire serve`

Each judged answer is a question of its own: the conversation before it is the right one, not what the model said. All
three ways get the same token ids, so equal models give equal tables. `--json F` writes every answer, one a line.
"""
from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Iterator

from tokenizers import Tokenizer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chat import CONTROL, END, message_text, segments  # noqa: E402
from generate import EVAL_SPLITS, eval_samples  # noqa: E402
from tasks import TASKS  # noqa: E402
from tasks.checks import passes  # noqa: E402
from tasks.core import Json  # noqa: E402

DISTANCES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
N_CONTEXT = 8192
END_ID = CONTROL.index(END)
Answer = Callable[[list[int], int], str]  # (prompt, most tokens to write) -> text


@dataclass
class Question:
    task: str
    split: str
    check: Json
    prompt: list[int]
    want: str
    distance: int  # in tokens from where the answer stands in the prompt to its end; 0 where the task is not recall


def prompt_ids(tokenizer: Tokenizer, messages: list[Json], tools: list[Json]) -> list[int]:
    out: list[int] = []
    for s in segments(messages, tools, generation_prompt=True):
        out += [tokenizer.token_to_id(s.text)] if s.control else tokenizer.encode(s.text, add_special_tokens=False).ids
    return out


def distance_back(tokenizer: Tokenizer, sample: Json, check: Json, prompt: list[int]) -> int:
    """From the fact itself, which is in the first message, to the end of the prompt."""
    text = sample['messages'][1 if sample['messages'][0]['role'] == 'system' else 0]['content']
    before = text[:max(0, text.find(check['want'][0]))]
    return len(prompt) - len(tokenizer.encode(before, add_special_tokens=False).ids)


def questions(tokenizer: Tokenizer, n: int, only: list[str]) -> Iterator[Question]:
    for sample in eval_samples(n, only):
        for check in sample['checks']:
            prompt = prompt_ids(tokenizer, sample['messages'][:check['at']], sample['tools'])
            want = message_text(sample['messages'][check['at']])
            far = distance_back(tokenizer, sample, check, prompt) if sample['task'] == 'recall' else 0
            if len(prompt) + 64 <= N_CONTEXT:
                yield Question(sample['task'], sample['split'], check, prompt, want, far)


# ---- who answers ---------------------------------------------------------------------------------------------------

def by_checkpoint(path: str, tokenizer: Tokenizer, threads: int) -> Answer:
    import torch  # only this way needs it
    from config import Config
    from model import Model, greedy
    torch.set_num_threads(threads)
    state = torch.load(path, map_location='cpu', weights_only=True)
    model = Model(Config(**state['config']))
    model.load_state_dict(state['model'])
    model.eval()
    return lambda prompt, most: tokenizer.decode(greedy(model, prompt, END_ID, most), skip_special_tokens=True)


def by_transformers(path: str, tokenizer: Tokenizer, threads: int) -> Answer:
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    def answer(prompt: list[int], most: int) -> str:
        ids = torch.tensor([prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False)
        return tokenizer.decode(out[0, len(prompt):].tolist(), skip_special_tokens=True)

    return answer


def by_server(url: str) -> Answer:
    def answer(prompt: list[int], most: int) -> str:
        body = {'model': 'quill', 'prompt': prompt, 'max_tokens': most, 'temperature': 0}
        request = urllib.request.Request(url + '/v1/completions', json.dumps(body).encode(), {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)['choices'][0]['text']

    return answer


# ---- tables --------------------------------------------------------------------------------------------------------

@dataclass
class Count:
    n: int = 0
    right: int = 0
    chance: float = 0.0

    def add(self, right: bool, chance: float) -> None:
        self.n, self.right, self.chance = self.n + 1, self.right + right, self.chance + chance

    def text(self) -> str:
        return f'{100 * self.right / self.n:5.1f}' if self.n else '    -'

    def chance_text(self) -> str:
        return f'{100 * self.chance / self.n:5.1f}' if self.n else '    -'


def bucket(distance: int) -> int:
    return next((d for d in DISTANCES if distance <= d), DISTANCES[-1])


def tables(results: list[tuple[Question, bool]]) -> str:
    by_task: dict[tuple[str, str], Count] = defaultdict(Count)
    by_distance: dict[tuple[int, str], Count] = defaultdict(Count)
    for q, right in results:
        for split in (q.split, 'all'):
            for task in (q.task, 'all tasks'):
                by_task[task, split].add(right, q.check['chance'])
            if q.distance:
                by_distance[bucket(q.distance), split].add(right, q.check['chance'])
    columns = [*EVAL_SPLITS, 'all']
    out = ['% right    | ' + ' | '.join(f'{c:>8}' for c in columns) + ' |   chance |        n',
           '---        | ' + ' | '.join(['---:    '] * (len(columns) + 2))]
    for task in [t for t in [*TASKS, 'all tasks'] if (t, 'all') in by_task]:
        total = by_task[task, 'all']
        cells = [by_task[task, c].text() for c in columns] + [total.chance_text(), str(total.n)]
        out.append(f'{task:<10} | ' + ' | '.join(f'{c:>8}' for c in cells))
    if by_distance:
        out += ['', 'recall, up to tokens back | % right | chance | n', '--- | ---: | ---: | ---:']
        out += [f'{d} | {by_distance[d, "all"].text()} | {by_distance[d, "all"].chance_text()} | {by_distance[d, "all"].n}'
                for d in DISTANCES if (d, 'all') in by_distance]
    return '\n'.join(out)


def run(args: argparse.Namespace) -> list[tuple[Question, bool]]:
    tokenizer = Tokenizer.from_file(args.tokenizer)
    if args.checkpoint:
        answer, workers = by_checkpoint(args.checkpoint, tokenizer, args.threads), 1
    elif args.hf:
        answer, workers = by_transformers(args.hf, tokenizer, args.threads), 1
    else:
        answer, workers = by_server(args.server.rstrip('/')), args.parallel
    asked, began, results = list(questions(tokenizer, args.n, args.task)), time.monotonic(), []
    out = open(args.json, 'w', encoding='utf-8') if args.json else None

    def judged(q: Question) -> tuple[Question, str]:
        return q, answer(q.prompt, len(tokenizer.encode(q.want).ids) + 48)

    with ThreadPoolExecutor(workers) as pool:
        for i, (q, reply) in enumerate(map(judged, asked) if workers == 1 else pool.map(judged, asked), 1):
            results.append((q, passes(q.check, reply)))
            if out:
                out.write(json.dumps({'task': q.task, 'split': q.split, 'distance': q.distance, 'right': results[-1][1],
                                      'want': q.want, 'reply': reply}, ensure_ascii=False) + '\n')
            if i % 50 == 0:
                print(f'\revaluate: {i} of {len(asked)}, {time.monotonic() - began:.0f} s', end='', file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if out:
        out.close()
    return results


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument('--checkpoint')
    who.add_argument('--hf', help='a Hugging Face folder')
    who.add_argument('--server', help='address of a running server')
    parser.add_argument('--tokenizer', help='tokenizer.json (default: beside the checkpoint\'s folder, or in the --hf folder)')
    parser.add_argument('--n', type=int, default=20, help='samples of each task and split')
    parser.add_argument('--task', action='append', default=[], choices=list(TASKS))
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--parallel', type=int, default=8, help='requests at a time to a server')
    parser.add_argument('--json', help='file for every answer')
    args = parser.parse_args(argv)
    if not args.tokenizer:
        parts = itertools.chain([os.path.dirname(os.path.dirname(os.path.abspath(args.checkpoint)))] if args.checkpoint else [],
                                [args.hf] if args.hf else [])
        args.tokenizer = os.path.join(next(parts, '.'), 'tokenizer.json')
    print(tables(run(args)))


if __name__ == '__main__':
    main(sys.argv[1:])
