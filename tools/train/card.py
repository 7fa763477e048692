#!/usr/bin/env python3
"""Evaluates the bundled model through `quire serve` and writes the tables into the model card: `./dev eval`.

    tools/train/card.py                  serve models/quill-q8_0.gguf, ask, print, write the card's block
    tools/train/card.py --training build/train/small       only what that run's log and curve say, into the card
    tools/train/card.py --check          besides: greedy answers equal to those of transformers, in float32

The check takes the values that the file's blocks stand for as F32 on both sides: a folder for transformers, and
`--weights f32 --kv-type f32` for the server. Where the two differ, the distance of the two best logits is shown; only one
under 1e-3, which the order of a float sum decides, passes.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tokenizers import Tokenizer  # noqa: E402

from evaluate import END_ID, EVAL_SPLITS, Question, by_server, questions, run, tables  # noqa: E402
from serving import ROOT, default_quire, served  # noqa: E402
from tasks import TASKS  # noqa: E402

MODEL = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
CARD = os.path.join(ROOT, 'models', 'README.md')  # where the siblings' tables stand
MARKS = '<!-- {name} begins: written by {by} -->', '<!-- {name} ends -->'
TIE = 1e-3
CHECKED_TOKENS = 1024  # longer prompts take transformers too long


def write_block(card: str, name: str, by: str, text: str) -> None:
    """Replaces what stands between the marks of this name; the marks must be there."""
    with open(card, encoding='utf-8') as f:
        whole = f.read()
    begin, end = (mark.format(name=name, by=by) for mark in MARKS)
    if begin not in whole or end not in whole:
        raise SystemExit(f'{card} has no block "{begin}"')
    before, rest = whole.split(begin, 1)
    with open(card, 'w', encoding='utf-8') as f:
        f.write(f'{before}{begin}\n{text.strip()}\n{end}{rest.split(end, 1)[1]}')


def digest(path: str) -> str:
    with open(path, 'rb') as f:
        return hashlib.file_digest(f, 'sha256').hexdigest()[:16]


def evaluated(args: argparse.Namespace) -> str:
    with served(args.quire, args.model, '--max-seqs', str(args.parallel)) as url:
        asked = argparse.Namespace(checkpoint=None, hf=None, server=url, tokenizer=args.tokenizer, n=args.n, task=args.task,
                                   threads=1, parallel=args.parallel, json=args.json)
        return tables(run(asked))


def training_text(folder: str) -> str:
    """From the log of train.py: its last step and its last held-out losses."""
    with open(os.path.join(folder, 'log.jsonl'), encoding='utf-8') as f:
        lines = [json.loads(line) for line in f]
    steps = {line['step']: line for line in lines if 'train' in line}  # a step done again after a resume counts once
    held = [line for line in lines if 'both' in line][-1]
    last = steps[max(steps)]
    n = min(100, len(steps))
    mean = sum(steps[s]['train'] for s in sorted(steps)[-n:]) / n
    hours = sum(line.get('seconds', 0) for line in steps.values()) / 3600
    return (f'| | |\n| --- | --- |\n| tokens | {last["tokens"] / 1e6:.1f} M |\n| steps | {last["step"]} |\n| hours | {hours:.2f} |\n'
            f'| training loss, mean of the last {n} steps | {mean:.3f} |\n'
            + '\n'.join(f'| held-out loss, {split} (step {held["step"]}) | {held[split]:.3f} |' for split in EVAL_SPLITS))


def write_training(args: argparse.Namespace) -> None:
    text = training_text(args.training)
    print(text)
    write_block(args.card, 'training', 'tools/train/card.py --training', text)
    shutil.copy(os.path.join(args.training, 'curve.svg'), os.path.join(os.path.dirname(os.path.abspath(args.card)), 'curve.svg'))


# ---- against transformers ------------------------------------------------------------------------------------------

def spread(asked: list[Question], n: int) -> list[Question]:
    """About n of them, from all tasks and splits."""
    short = [q for q in asked if len(q.prompt) <= CHECKED_TOKENS]
    return short[::max(1, len(short) // n)]


def tie_at_difference(model, prompt: list[int], theirs: list[int], ours: str, tokenizer: Tokenizer) -> float:
    """How far apart the two best logits are where `ours` leaves `theirs`."""
    import torch
    same = 0
    while same < len(theirs) and ours.startswith(tokenizer.decode(theirs[:same + 1])):
        same += 1
    with torch.no_grad():
        second, best = model(torch.tensor([prompt + theirs[:same]])).logits[0, -1].sort().values[-2:].tolist()
    return best - second


def check(args: argparse.Namespace) -> bool:
    import torch
    from transformers import AutoModelForCausalLM

    from export import hf_config, load_gguf, read_tokenizer, rows_of, write_hf
    tokenizer = Tokenizer.from_file(args.tokenizer)
    picked = spread(list(questions(tokenizer, 1, args.task)), args.check_n)
    most = [len(tokenizer.encode(q.want).ids) + 48 for q in picked]
    with served(args.quire, args.model, '--weights', 'f32', '--kv-type', 'f32') as url, ThreadPoolExecutor(args.parallel) as pool:
        ours = list(pool.map(by_server(url), [q.prompt for q in picked], most))
    with tempfile.TemporaryDirectory() as folder:
        c, state = load_gguf(args.model)
        tensors = {name: rows_of(x) for name, x in state.items()}
        write_hf(folder, hf_config(c, 'f32'), tensors, read_tokenizer(args.tokenizer), 1 << 40)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    equal, wrong = 0, 0
    for q, n, mine in zip(picked, most, ours):
        ids = torch.tensor([q.prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, do_sample=False)[0, len(q.prompt):].tolist()
        text = tokenizer.decode([t for t in out if t != END_ID], skip_special_tokens=True)
        equal += mine == text
        if mine != text:
            gap = tie_at_difference(model, q.prompt, out, mine, tokenizer)
            wrong += gap > TIE
            print(f'check: {q.task} {q.split}: {mine!r}, transformers {text!r}: the two best were {gap:.6f} apart')
    print(f'check: {equal} of {len(picked)} greedy answers equal transformers\', {len(picked) - equal - wrong} differ at a tie')
    return not wrong


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--model', default=MODEL)
    parser.add_argument('--tokenizer', help='default: tokenizer.json beside the model')
    parser.add_argument('--n', type=int, default=6, help='samples of each task, split and, for recall, length')
    parser.add_argument('--task', action='append', default=[], choices=list(TASKS), help='only this; the card stays as it is')
    parser.add_argument('--parallel', type=int, default=8, help='requests at a time')
    parser.add_argument('--json', help='file for every answer')
    parser.add_argument('--check', action='store_true', help='compare with transformers, too')
    parser.add_argument('--check-n', type=int, default=60, help='about how many answers to compare')
    parser.add_argument('--card', help='default: README.md beside the model')
    parser.add_argument('--quire', default=default_quire())
    parser.add_argument('--training', metavar='FOLDER', help='of train.py: write its figures and curve into the card, nothing else')
    args = parser.parse_args(argv)
    args.card = args.card or os.path.join(os.path.dirname(os.path.abspath(args.model)), 'README.md')
    if args.training:
        write_training(args)
        return 0
    if not os.path.exists(args.model):
        raise SystemExit(f'eval: {args.model} is not there')
    args.tokenizer = args.tokenizer or os.path.join(os.path.dirname(os.path.abspath(args.model)), 'tokenizer.json')
    began = time.monotonic()
    text = evaluated(args)
    print(text)
    print(f'eval: {time.monotonic() - began:.0f} s', file=sys.stderr)
    if not args.task and os.path.exists(args.card):
        about = f'`{os.path.basename(args.model)}` (sha256 {digest(args.model)}…), {args.n} samples of each task and split, greedy:'
        write_block(args.card, 'accuracy', './dev eval', f'{about}\n\n{text}')
    return 0 if not args.check or check(args) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
