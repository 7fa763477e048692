#!/usr/bin/env python3
"""Has a model write conversations with itself, for heads that learn to guess what it writes (eagle.py).

    tools/train/self_text.py MODEL --out build/train/own.jsonl --n 2000

The model first writes a user's question, sampled, then answers it: three of four times with its likeliest tokens, else
sampled. So no list of questions is needed. A line is {"ids": tokens of prompt and answer, "n_prompt": how many of them are the
prompt}. The answers come from `quire serve`; what is asked follows from the seed. Questions that stand in --leave-out, one a
line, are left out. A file that is there is added to, from the next seed on.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import sys
import threading
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from serving import default_quire, served  # noqa: E402

MARK = '@@question@@'
QUESTION_TOKENS, SHORTEST_ANSWER = 64, 4
SAMPLED_EVERY, WARMTH = 4, 0.7


def ask(url: str, path: str, body: dict) -> dict:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=1800) as reply:
        return json.load(reply)


def frame(url: str) -> tuple[str, str]:
    """What the chat template puts before a question, and between it and the answer."""
    prompt = ask(url, '/apply-template', {'messages': [{'role': 'user', 'content': MARK}]})['prompt']
    before, after = prompt.split(MARK)
    return before, after


def conversation(url: str, around: tuple[str, str], seed: int, longest: int, left_out: set[str]) -> dict | None:
    """None where the model wrote no question that ends."""
    asked = ask(url, '/completion', {'prompt': around[0], 'n_predict': QUESTION_TOKENS, 'temperature': 1.0, 'top_p': 0.9, 'seed': seed})
    question = asked['content'].strip()
    if asked['stop_type'] != 'eos' or len(question.split()) < 3 or question in left_out:
        return None
    prompt = ask(url, '/tokenize', {'content': around[0] + question + around[1], 'add_special': True})['tokens']
    warmth = 0.0 if seed % SAMPLED_EVERY else WARMTH
    answer = ask(url, '/completion', {'prompt': prompt, 'n_predict': longest, 'temperature': warmth, 'seed': seed, 'return_tokens': True})
    if len(answer['tokens']) < SHORTEST_ANSWER:
        return None
    return {'ids': prompt + answer['tokens'], 'n_prompt': len(prompt)}


def next_seed(path: str) -> int:
    if not os.path.exists(path):
        return 0
    with open(path, encoding='utf-8') as f:
        return max((json.loads(line)['seed'] for line in f), default=-1) + 1


def write(url: str, args: argparse.Namespace) -> None:
    around, first, lock = frame(url), next_seed(args.out), threading.Lock()
    left_out: set[str] = set()
    if args.leave_out:
        with open(args.leave_out, encoding='utf-8') as f:
            left_out = {line.strip() for line in f}
    with open(args.out, 'a', encoding='utf-8') as out:
        def one(seed: int) -> None:
            found = conversation(url, around, args.seed * 1_000_000 + seed, args.longest, left_out)
            if found:
                with lock:
                    out.write(json.dumps(found | {'seed': seed}) + '\n')
                    out.flush()

        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            for _ in pool.map(one, range(first, first + args.n)):
                pass


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('model')
    parser.add_argument('--out', required=True, help='JSON lines')
    parser.add_argument('--n', type=int, default=1000, help='conversations to try')
    parser.add_argument('--longest', type=int, default=160, help='tokens of an answer at most')
    parser.add_argument('--leave-out', help='a file of questions that are not to be trained on, one a line')
    parser.add_argument('--at-once', type=int, default=32)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--quire', default=default_quire())
    args = parser.parse_args(argv)
    options = ['--spec', 'off', '--ctx', '1024', '--max-seqs', str(args.at_once), '--threads', str(args.threads)]
    with served(args.quire, args.model, *options) as url:
        write(url, args)


if __name__ == '__main__':
    main(sys.argv[1:])
