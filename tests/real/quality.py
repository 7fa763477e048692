#!/usr/bin/env python3
# What formats of weights and caches cost, on real weights: one table of perplexity and distance from float32.
#   ./dev quality [MODEL] [--text FILE] [--bytes N]      the default model on tinyshakespeare
#   … [MODEL…] --caches [--ctx N]   caches alone, weights as stored, compared with the same weights and an f32 cache; and
#                              whether three passwords that a text of N tokens hides are told behind it; of several
#                              models a last table has all side by side, the one in docs/kv.md
#   … [MODEL] --budgets [--ctx N]  what keeping less of a prompt costs (kv_budget): of each window of N tokens three quarters
#                              are a prompt, the rest is scored, and the passwords are told behind a prompt of N tokens
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
PASSWORDS = (('blue door', '73915'), ('red gate', '20846'), ('old tower', '58127'))
WEIGHTS = ('bf16', 'f16', 'q8_0', 'q6_k', 'q5_k', 'q5_1', 'q5_0', 'q4_k', 'q4_1', 'q4_0', 'iq4_nl', 'iq4_xs', 'mxfp4',
           'q3_k', 'q2_k')


def kv_types(program):
    """The names that the program lists."""
    done = subprocess.run([program, 'inspect', '--kv-type', '?'], capture_output=True, text=True, check=False)
    return [name for name in done.stderr.strip().split('there are:')[-1].split() if name != 'auto' and not name.startswith('(')]


def measure(program, model, text, ctx, *options):
    command = [program, 'perplexity', *([model] if model else []), '--text', text, '--ctx', str(ctx), '--json', *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def row(name, kv_type, found):
    return (f'| {name} | {kv_type} | {found["perplexity"]:.3f} | {found["kl_mean"]:.5f} | {found["kl_p99"]:.4f} | '
            f'{100 * found["same_top"]:.1f} % |')


def told(program, model, text, n_words, *options):
    """The passwords that the model repeats of those that stand in n_words of the text."""
    with open(text, encoding='utf-8', errors='ignore') as file:
        words = file.read(12 * n_words).split(' ')[:n_words]
    for at, (what, password) in reversed([*zip((0.15, 0.5, 0.85), PASSWORDS)]):
        words.insert(int(len(words) * at), f'\n\nThe password of the {what} is {password}.\n\n')
    prompt = ' '.join(words) + f'\n\nAll passwords that were told above:\n\nThe password of the {PASSWORDS[0][0]} is'
    done = subprocess.run([program, 'generate', *([model] if model else []), '--prompt', prompt, '--raw', *options,
                           '--temperature', '0', '--max-tokens', '50'], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    return [password for _, password in PASSWORDS if password in done.stdout]


def compare_caches(program, args, text, base):
    """A table of args.models, and of each codec the row of one that has all of them side by side."""
    types, cells = args.types.split(',') if args.types else [name for name in kv_types(program) if name != 'f32'], {}
    for model in args.models or ['']:
        whole = measure(program, model, text, args.ctx, '--kv-type', 'f32', '--kl-base-out', base)
        print(f'{os.path.basename(model) or "default model"}, {whole["scored"]} tokens; f32 cache: perplexity '
              f'{whole["perplexity"]:.3f}\n')
        print('| cache | perplexity | KL mean | KL 99 % | same top | passwords |\n|---|---:|---:|---:|---:|---|')
        for kv_type in types:
            found = measure(program, model, text, args.ctx, '--kv-type', kv_type, '--kl-base', base)
            change = 100 * (found['perplexity'] / whole['perplexity'] - 1)
            passwords = told(program, model, args.text, args.ctx * 9 // 20, '--kv-type', kv_type)
            print(f'| {kv_type} | {change:+.2f} % | {found["kl_mean"]:.5f} | {found["kl_p99"]:.4f} | '
                  f'{100 * found["same_top"]:.1f} % | {" ".join(passwords) or "none"} |', flush=True)
            cells.setdefault(kv_type, []).append(
                f'{found["kl_mean"]:.4f} ± {found["kl_mean_error"]:.4f}, {change:+.1f} %, {len(passwords)} of {len(PASSWORDS)}')
        os.remove(base)
        print()
    if len(args.models) > 1:
        names = [os.path.basename(model).removesuffix('.gguf') for model in args.models]
        print('KL mean, perplexity, passwords told\n\n| cache | ' + ' | '.join(names) + ' |\n|---' + '|---' * len(names) + '|')
        for kv_type, row_cells in cells.items():
            print(f'| `{kv_type}` | ' + ' | '.join(row_cells) + ' |')


def compare_budgets(program, args, text, base):
    model, prompt = args.models[0] if args.models else '', args.ctx * 3 // 4
    behind = ('--prompt', str(prompt))
    whole = measure(program, model, text, args.ctx, *behind, '--kl-base-out', base)
    print(f'{os.path.basename(model) or "default model"}, {whole["scored"]} tokens behind prompts of {prompt}: perplexity '
          f'{whole["perplexity"]:.3f}\n')
    print('| budget | perplexity | KL mean | KL 99 % | same top | passwords |\n|---|---:|---:|---:|---:|---|')
    for share in (1, 0.75, 0.5, 0.25, 0.125):
        budget = int(prompt * share) // 16 * 16
        found = measure(program, model, text, args.ctx, *behind, '--kv-budget', str(budget), '--kl-base', base)
        passwords = told(program, model, args.text, args.ctx * 9 // 20, '--kv-budget', str(int(args.ctx * share) // 16 * 16))
        print(f'| {100 * share:g} % | {100 * (found["perplexity"] / whole["perplexity"] - 1):+.2f} % | {found["kl_mean"]:.5f} | '
              f'{found["kl_p99"]:.4f} | {100 * found["same_top"]:.1f} % | {" ".join(passwords) or "none"} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description='quality of formats on real weights')
    parser.add_argument('models', metavar='MODEL', nargs='*', help='several with --caches alone')
    parser.add_argument('--text', default=os.path.join(SHARED, 'data', 'prompts', 'tinyshakespeare.txt'))
    parser.add_argument('--bytes', type=int, default=12000, help='of the text, from its beginning')
    parser.add_argument('--ctx', type=int, default=512, help='tokens of a window')
    parser.add_argument('--caches', action='store_true', help='caches alone, and passwords hidden in the text')
    parser.add_argument('--types', default='', help='of --caches: these, separated by commas')
    parser.add_argument('--budgets', action='store_true', help='shares of a prompt that are kept, and passwords')
    args = parser.parse_args()
    if len(args.models) > 1 and not args.caches:
        parser.error('several models: with --caches alone')
    program = os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')
    with tempfile.TemporaryDirectory() as folder:
        text, base = os.path.join(folder, 'text'), os.path.join(folder, 'base')
        with open(args.text, 'rb') as source, open(text, 'wb') as out:
            out.write(source.read(args.bytes))
        if args.budgets:
            return compare_budgets(program, args, text, base)
        if args.caches:
            return compare_caches(program, args, text, base)
        model = args.models[0] if args.models else ''
        whole = measure(program, model, text, args.ctx, '--weights', 'f32', '--kv-type', 'f32', '--kl-base-out', base)
        print(f'{whole["scored"]} tokens; f32 weights and cache: perplexity {whole["perplexity"]:.3f}\n')
        print('| weights | cache | perplexity | KL mean | KL 99 % | same top |\n|---|---|---:|---:|---:|---:|')
        jobs = [('as stored', kv, ()) for kv in kv_types(program)] + [(w, 'f16', ('--weights', w)) for w in WEIGHTS]
        for name, kv_type, options in jobs:
            print(row(name, kv_type, measure(program, model, text, args.ctx, *options, '--kv-type', kv_type, '--kl-base',
                                             base)), flush=True)


if __name__ == '__main__':
    sys.exit(main())
