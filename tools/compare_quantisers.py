#!/usr/bin/env python3
"""`quire quantize` beside llama.cpp's llama-quantize: the same file into the same formats, all tensors of one, and how far
each result lies from the file: perplexity and KL divergence over a text, by `quire perplexity`.

    tools/compare_quantisers.py --quire build/release/quire --theirs llama-quantize --model F32.gguf --tokens IDS
    … --imatrix FILE        both weigh with it
    … --turns 1,2,3         MODEL turned by each of these seeds in its place (tools/turn_model.py: originals on no format's
                            grid), and at the end the mean over them; needs the packages numpy and gguf
    … --head q8_0           another format for the embedding and the output matrix
"""
from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

# What llama-quantize calls a file whose tensors, with --pure, are all of the format.
THEIRS = {'q4_0': 'Q4_0', 'q4_1': 'Q4_1', 'q5_0': 'Q5_0', 'q5_1': 'Q5_1', 'q8_0': 'Q8_0', 'q2_k': 'Q2_K', 'q3_k': 'Q3_K_S',
          'q4_k': 'Q4_K_S', 'q5_k': 'Q5_K_S', 'q6_k': 'Q6_K', 'iq4_nl': 'IQ4_NL', 'iq4_xs': 'IQ4_XS', 'mxfp4': 'MXFP4_MOE'}


def run(*arguments: str) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f'{arguments[0]}: {done.stderr.strip()[-500:]}')
    return done.stdout


def compare(args, model: str, text: list[str], folder: str) -> dict[str, tuple[float, float]]:
    """Prints a row a format; of each the logarithms of ours over theirs, of KL and of perplexity."""
    base, ours, theirs = (os.path.join(folder, name) for name in ('base', 'ours.gguf', 'theirs.gguf'))
    if os.path.exists(base):
        os.remove(base)
    weigh = ['--imatrix', args.imatrix] if args.imatrix else []
    our_head = [f'--tensor-type={part}={args.head}' for part in ('token_embd', 'output.weight')] if args.head else []
    their_head = ['--token-embedding-type', args.head, '--output-tensor-type', args.head] if args.head else []
    told = json.loads(run(args.quire, 'perplexity', model, *text, '--kl-base-out', base))
    print(f'perplexity {told["perplexity"]:.4f} over {told["scored"]} tokens', flush=True)
    print('format   KL ours              theirs               perplexity ours   theirs     same first token ours   theirs')
    ratios = {}
    for name in args.formats.split(','):
        run(args.quire, 'quantize', model, ours, name, '--force', *our_head, *weigh)
        run(args.theirs, *weigh, *their_head, '--allow-requantize', '--pure', model, theirs, THEIRS[name])
        a, b = (json.loads(run(args.quire, 'perplexity', path, *text, '--kl-base', base)) for path in (ours, theirs))
        kl = [f'{x["kl_mean"]:.5f} ± {x["kl_mean_error"]:.5f}' for x in (a, b)]
        print(f'{name:7s}  {kl[0]}   {kl[1]}    {a["perplexity"]:15.4f}   {b["perplexity"]:.4f}    '
              f'{a["same_top"]:21.4f}   {b["same_top"]:.4f}', flush=True)
        ratios[name] = tuple(math.log(a[key] / b[key]) for key in ('kl_mean', 'perplexity'))
    return ratios


def print_means(found: list[dict[str, tuple[float, float]]]) -> None:
    print(f'over {len(found)} originals   KL ours / theirs    logarithm of the perplexities\' ratio')
    for name in found[0]:
        kl, perplexity = zip(*(ratios[name] for ratios in found))
        error = [statistics.stdev(x) / math.sqrt(len(x)) if len(x) > 1 else math.nan for x in (kl, perplexity)]
        mean = math.exp(statistics.mean(kl))
        print(f'{name:19s}  {mean:.3f} ± {mean * error[0]:.3f}       {statistics.mean(perplexity):+.4f} ± {error[1]:.4f}')


def main() -> None:
    parser = argparse.ArgumentParser(description='quire quantize beside llama-quantize')
    parser.add_argument('--quire', required=True)
    parser.add_argument('--theirs', required=True, help='llama-quantize')
    parser.add_argument('--model', required=True, help='a GGUF file of F32 or F16 whose rows are multiples of 256')
    parser.add_argument('--tokens', required=True, help='a file of token ids, separated by commas')
    parser.add_argument('--imatrix')
    parser.add_argument('--formats', default=','.join(THEIRS))
    parser.add_argument('--turns', help='seeds, separated by commas')
    parser.add_argument('--head', help='the format of the embedding and the output matrix')
    args = parser.parse_args()
    with open(args.tokens, encoding='utf-8') as file:
        text = ['--tokens', file.read().strip(), '--ctx', '512', '--json']
    turn = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'turn_model.py')
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in args.turns.split(',') if args.turns else [None]:
            model = args.model if seed is None else os.path.join(folder, 'turned.gguf')
            if seed is not None:
                run(sys.executable, turn, args.model, model, '--seed', seed)
            print(f'{args.model}{"" if seed is None else ", turn " + seed}: ', end='')
            found.append(compare(args, model, text, folder))
    if len(found) > 1:
        print_means(found)


if __name__ == '__main__':
    main()
