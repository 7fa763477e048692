#!/usr/bin/env python3
"""Writes which tokens a model that drafts is to guess: those that come most in texts.

    tools/train/frequent_tokens.py DRAFT TEXT_FILE... --keep 8192 --out draft-vocab.safetensors
    quire serve MODEL --draft DRAFT --draft-vocab draft-vocab.safetensors

Texts like the answers that are to be guessed, lines of them, best written by the model itself. They are cut by the draft's
tokenizer, where the name of a control token is that token. Of tokens that come equally often the lowest ids are kept; tokens that
end a turn always are. The file has one tensor, "d2t", as EAGLE-3 heads have it: of output i how far its token lies behind i.
"""
from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from serving import default_quire  # noqa: E402


def output_of(*command: str, text: str = '') -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout


def ids_of(quire: str, model: str, lines: list[str]) -> list[int]:
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    told = output_of(quire, 'tokenize', model, '--jsonl', '--parse-special', text=text)
    return [id for line in told.splitlines() for id in json.loads(line)['tokens']]


def size_and_ends(quire: str, model: str) -> tuple[int, set[int]]:
    """How many tokens it has, and which of them end a turn."""
    facts = json.loads(output_of(quire, 'inspect', model, '--json'))
    tokenizer = facts['tokenizer']
    ends = {tokenizer[name]['id'] for name in ('eos', 'eot') if name in tokenizer}
    for name in ('config.json', 'generation_config.json'):  # of a folder
        path = os.path.join(facts['path'], name)
        if os.path.isfile(path):
            with open(path, encoding='utf-8') as f:
                told = json.load(f).get('eos_token_id')
            ends |= set(told) if isinstance(told, list) else set() if told is None else {told}
    return tokenizer['n_tokens'], ends


def frequent(counts: Counter[int], keep: int, n_vocab: int, always: set[int]) -> list[int]:
    """Ascending, of ids below n_vocab; what does not come at all counts as coming least, lowest ids first."""
    return sorted(sorted(range(n_vocab), key=lambda id: (id not in always, -counts[id], id))[:keep])


def write_d2t(path: str, tokens: list[int]) -> None:
    data = struct.pack(f'<{len(tokens)}q', *(token - i for i, token in enumerate(tokens)))
    header = json.dumps({'d2t': {'dtype': 'I64', 'shape': [len(tokens)], 'data_offsets': [0, len(data)]}}).encode()
    header += b' ' * (-len(header) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(header)) + header + data)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('draft', help='the model that drafts')
    parser.add_argument('texts', nargs='+', help='files of text')
    parser.add_argument('--keep', type=int, default=8192, help='tokens, at most as many as it has')
    parser.add_argument('--out', required=True)
    parser.add_argument('--quire', default=default_quire())
    args = parser.parse_args(argv)
    if args.keep < 1:
        parser.error(f'--keep must be 1 or more, got {args.keep}')
    lines: list[str] = []
    for path in args.texts:
        with open(path, encoding='utf-8') as f:
            lines += f.read().splitlines(keepends=True)
    n_vocab, ends = size_and_ends(args.quire, args.draft)
    counts = Counter(ids_of(args.quire, args.draft, lines))
    tokens = frequent(counts, args.keep, n_vocab, ends)
    write_d2t(args.out, tokens)
    n_all = sum(counts.values())
    known = sum(counts[token] for token in tokens) / n_all if n_all else 0.0
    print(f'{args.out}: {len(tokens)} tokens, {100 * known:.2f} % of {n_all} in the texts')


if __name__ == '__main__':
    main(sys.argv[1:])
