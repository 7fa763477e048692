#!/usr/bin/env python3
# One row of 128k logits, temperature 0.8, top-k 50, top-p 0.95: what sampling it takes here (backend_cpu_bench,
# benchmark top_k_top_p) and in the transformers package, which does it so in generate(): processors, softmax,
# multinomial. One thread each, in turn, by processor time; the logits are drawn from the same distribution.
#   python tools/compare_sampling.py [--bench build/ci/backend_cpu_bench] [--rounds N]
# Needs a Python that has torch and transformers; exit code 77 and a line where it has not.
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
N_VOCAB = 128 << 10
SKIPPED = 77


def ours(program, seconds):
    """Microseconds a row."""
    done = subprocess.run([program, '--benchmark_filter=^top_k_top_p$', '--benchmark_format=json',
                           f'--benchmark_min_time={seconds}'], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout:
        sys.exit(f'{program} failed: {done.stderr.strip()}')
    row = json.loads(done.stdout)['benchmarks'][0]
    return row['cpu_time'] / {'us': 1, 'ns': 1e3, 'ms': 1e-3}[row['time_unit']]


class Transformers:
    def __init__(self):
        import torch
        import transformers
        self.torch = torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.name = f'transformers {transformers.__version__}, torch {torch.__version__}'
        # As in src/backend/cpu/sample_bench.cc: a long normal tail, and forty tokens that hold most of the mass.
        self.logits = 2 * torch.randn(1, N_VOCAB)
        self.logits[0, torch.randint(N_VOCAB, (40,))] = 12 + 2 * torch.randn(40)
        self.ids = torch.zeros((1, 1), dtype=torch.long)
        self.processors = transformers.LogitsProcessorList([
            transformers.TemperatureLogitsWarper(0.8),
            transformers.TopKLogitsWarper(50),
            transformers.TopPLogitsWarper(0.95),
        ])

    def sample(self):
        scores = self.processors(self.ids, self.logits)
        probs = self.torch.nn.functional.softmax(scores, dim=-1)
        return self.torch.multinomial(probs, num_samples=1).squeeze(1)

    def microseconds(self, seconds):
        with self.torch.no_grad():
            self.sample()
            start, n = time.process_time(), 0
            while time.process_time() - start < seconds:
                self.sample()
                n += 1
            return (time.process_time() - start) / n * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bench', default=os.path.join(ROOT, 'build', 'ci', 'backend_cpu_bench'))
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=1.0, help='of each side in each round')
    args = parser.parse_args()
    try:
        other = Transformers()
    except ImportError as error:
        print(f'skipped: {sys.executable} lacks torch or transformers ({error})')
        return SKIPPED
    if not os.path.exists(args.bench):
        sys.exit(f'{args.bench} is not built: ./dev bench backend_cpu builds it')
    here, there = [], []
    for _ in range(max(1, args.rounds)):
        here.append(ours(args.bench, args.seconds))
        there.append(other.microseconds(args.seconds))
    for name, us in (('quire', here), (other.name, there)):
        print(f'{name:40} {statistics.median(us):10.1f} us a row ({min(us):.1f} to {max(us):.1f})')
    print(f'{"ratio of the medians":40} {statistics.median(there) / statistics.median(here):10.1f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
