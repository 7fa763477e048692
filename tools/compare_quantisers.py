#!/usr/bin/env python3
"""`quire quantize` beside llama.cpp's llama-quantize: the same file into the same formats, all tensors of one, and how far
each result lies from the file: perplexity and KL divergence over a text, by `quire perplexity`.

    tools/compare_quantisers.py --quire build/release/quire --theirs llama-quantize --model F32.gguf --tokens IDS
    … --imatrix FILE        both weigh with it
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile

# What llama-quantize calls a file whose tensors, with --pure, are all of the format.
THEIRS = {'q4_0': 'Q4_0', 'q4_1': 'Q4_1', 'q5_0': 'Q5_0', 'q5_1': 'Q5_1', 'q8_0': 'Q8_0', 'q2_k': 'Q2_K', 'q3_k': 'Q3_K_S',
          'q4_k': 'Q4_K_S', 'q5_k': 'Q5_K_S', 'q6_k': 'Q6_K', 'iq4_nl': 'IQ4_NL', 'iq4_xs': 'IQ4_XS', 'mxfp4': 'MXFP4_MOE'}


def run(*arguments: str) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f'{arguments[0]}: {done.stderr.strip()[-500:]}')
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description='quire quantize beside llama-quantize')
    parser.add_argument('--quire', required=True)
    parser.add_argument('--theirs', required=True, help='llama-quantize')
    parser.add_argument('--model', required=True, help='a GGUF file of F32 or F16 whose rows are multiples of 256')
    parser.add_argument('--tokens', required=True, help='a file of token ids, separated by commas')
    parser.add_argument('--imatrix')
    parser.add_argument('--formats', default=','.join(THEIRS))
    args = parser.parse_args()
    with open(args.tokens, encoding='utf-8') as file:
        text = ['--tokens', file.read().strip(), '--ctx', '512', '--json']
    weigh = ['--imatrix', args.imatrix] if args.imatrix else []
    with tempfile.TemporaryDirectory() as folder:
        base, ours, theirs = (os.path.join(folder, name) for name in ('base', 'ours.gguf', 'theirs.gguf'))
        told = json.loads(run(args.quire, 'perplexity', args.model, *text, '--kl-base-out', base))
        print(f'{args.model}: perplexity {told["perplexity"]:.4f} over {told["scored"]} tokens', flush=True)
        print('format   KL ours   theirs     perplexity ours   theirs     same first token ours   theirs')
        for name in args.formats.split(','):
            run(args.quire, 'quantize', args.model, ours, name, '--force', *weigh)
            run(args.theirs, *weigh, '--pure', args.model, theirs, THEIRS[name])
            a, b = (json.loads(run(args.quire, 'perplexity', path, *text, '--kl-base', base)) for path in (ours, theirs))
            print(f'{name:7s}  {a["kl_mean"]:.5f}   {b["kl_mean"]:.5f}    {a["perplexity"]:15.4f}   {b["perplexity"]:.4f}    '
                  f'{a["same_top"]:21.4f}   {b["same_top"]:.4f}', flush=True)


if __name__ == '__main__':
    main()
