#!/usr/bin/env python3
# What formats of weights and caches cost, on real weights: one table of perplexity and distance from float32.
#   ./dev quality [MODEL] [--text FILE] [--bytes N]      the default model on tinyshakespeare
# Each row is `quire perplexity` with --weights or --kv-type changed; what it is compared with are the distributions of
# the same file with --weights f32 --kv-type f32. "same top": how often the likeliest token is the same.
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get('QUIRE_SHARED') or os.path.join(ROOT, '..', 'shared')
WEIGHTS = ('bf16', 'f16', 'q8_0', 'q6_k', 'q5_k', 'q5_1', 'q5_0', 'q4_k', 'q4_1', 'q4_0', 'iq4_nl', 'iq4_xs', 'mxfp4',
           'q3_k', 'q2_k')


def kv_types(program):
    """The names that the program lists."""
    done = subprocess.run([program, 'inspect', '--kv-type', '?'], capture_output=True, text=True, check=False)
    return [name for name in done.stderr.strip().split('there are:')[-1].split() if name != 'auto' and not name.startswith('(')]


def measure(program, model, text, *options):
    command = [program, 'perplexity', *([model] if model else []), '--text', text, '--ctx', '512', '--json', *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def row(name, kv_type, found):
    return (f'| {name} | {kv_type} | {found["perplexity"]:.3f} | {found["kl_mean"]:.5f} | {found["kl_p99"]:.4f} | '
            f'{100 * found["same_top"]:.1f} % |')


def main():
    parser = argparse.ArgumentParser(description='quality of formats on real weights')
    parser.add_argument('model', nargs='?', default='')
    parser.add_argument('--text', default=os.path.join(SHARED, 'data', 'prompts', 'tinyshakespeare.txt'))
    parser.add_argument('--bytes', type=int, default=12000, help='of the text, from its beginning')
    args = parser.parse_args()
    program = os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')
    with tempfile.TemporaryDirectory() as folder:
        text, base = os.path.join(folder, 'text'), os.path.join(folder, 'base')
        with open(args.text, 'rb') as source, open(text, 'wb') as out:
            out.write(source.read(args.bytes))
        whole = measure(program, args.model, text, '--weights', 'f32', '--kv-type', 'f32', '--kl-base-out', base)
        print(f'{whole["scored"]} tokens; f32 weights and cache: perplexity {whole["perplexity"]:.3f}\n')
        print('| weights | cache | perplexity | KL mean | KL 99 % | same top |\n|---|---|---:|---:|---:|---:|')
        jobs = [('as stored', kv, ()) for kv in kv_types(program)] + [(w, 'f16', ('--weights', w)) for w in WEIGHTS]
        for name, kv_type, options in jobs:
            print(row(name, kv_type, measure(program, args.model, text, *options, '--kv-type', kv_type, '--kl-base',
                                             base)), flush=True)


if __name__ == '__main__':
    sys.exit(main())
