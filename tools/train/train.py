#!/usr/bin/env python3
"""Trains a bundled model: makes tokenizer and text where they are missing, trains, resumes where it stopped.

    tools/train/train.py --shape small                    to the end, or until interrupted
    tools/train/train.py --shape small --minutes 150      ... or until the time is up
    tools/train/train.py --shape small --init F --seed 2  a new run on other text that begins with an earlier one's weights;
                                                          a smaller model's are grown first (grow.py)
    tools/train/train.py --drills --tokens 3e5            facts to be found by their key, before the text
    tools/train/train.py --schedule wsd --stop 6e6        lengths mixed, learning rate constant, then down to nothing at --stop

Run it again with the same --out and it goes on from the last checkpoint: same text, same order, same schedule. The text
comes in three phases, most of it short, with pieces of it that come again among it, then longer, then up to the whole context,
so that few steps pay for long attention. With `wsd` the three are mixed, and the end may be chosen late: text and order follow
from --tokens, while --stop may be another one at each resume. `log.jsonl` and `curve.svg` in --out show how it goes.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

import curve  # noqa: E402
import grow  # noqa: E402
from config import SHAPES, Config  # noqa: E402
from data import Corpus, MicroBatch, encode_dialog, make_corpus  # noqa: E402
from echoes import add_echoes, make_drills  # noqa: E402
from model import Model  # noqa: E402
from optimizer import Optimizer  # noqa: E402
from tasks import TASKS, sample_of  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Phase:
    name: str
    share: float  # of all tokens
    budget: int   # of a conversation, in tokens
    echoes: float  # share of echoes, see echoes.py; 1 is nothing but drills


PHASES = [Phase('short', 0.83, 512, echoes=0.25), Phase('middle', 0.14, 2048, echoes=0.25), Phase('long', 0.03, 7800, echoes=0.25)]
DRILLS = [Phase('drills', 1.0, 160, echoes=1.0)]
N_TOKENS = {'test': 200_000, 'draft': 16_000_000, 'small': 40_000_000, 'medium': 400_000_000}
WARM_UP, FLOOR = 0.005, 0.05  # of the steps; of the learning rate
DECAY = 0.5   # of the tokens up to the stop, with the schedule wsd
HELD_OUT_SAMPLES = 4  # of each task and split, for the curve


Plan = list[tuple[Corpus, np.ndarray]]  # the rows of each micro-batch


def learning_rate(schedule: str, peak: float, progress: float) -> float:
    """wsd: warm-up, stable, decay (Hu et al. 2024, "MiniCPM")."""
    if progress < WARM_UP:
        return peak * (progress + 1e-3) / WARM_UP
    if schedule == 'wsd':
        return peak * min(1.0, max(0.0, 1 - progress) / DECAY + 0.01)
    return peak * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


class Trainer:
    def __init__(self, args: argparse.Namespace):
        self.args, self.device = args, torch.device(args.device)
        self.phases = DRILLS if args.drills else PHASES
        torch.manual_seed(args.seed)
        self.tokenizer = Tokenizer.from_file(args.tokenizer)
        self.model = Model(SHAPES[args.shape]).to(self.device)
        self.loss = self.model.loss
        if args.compile:
            for layer in self.model.layers:
                layer.compile(dynamic=True)
        self.optimizer = Optimizer(self.model, torch.float32 if args.precision == 'f32' else torch.bfloat16)
        self.tokens = self.step = self.phase = self.at = 0  # at: micro-batches done in this phase
        self.seconds, self.stopping = 0.0, False
        self.checkpoint, self.log_path = os.path.join(args.out, 'checkpoint.pt'), os.path.join(args.out, 'log.jsonl')

    # ---- checkpoints
    def begin_with(self, path: str) -> None:
        """The weights of another run's checkpoint, grown to this shape; its optimizer and schedule are left behind."""
        state = torch.load(path, map_location='cpu', weights_only=True)
        try:
            weights = grow.grown(state['model'], Config(**state['config']), self.model.c, self.model.state_dict())
        except ValueError as e:
            raise SystemExit(f'train: {path} does not fit: {e}') from e
        self.model.load_state_dict(weights)

    def save(self) -> None:
        state = {'shape': self.args.shape, 'config': self.model.c.as_dict(), 'model': self.model.state_dict(),
                 'optimizer': self.optimizer.state_dict(), 'tokens': self.tokens, 'step': self.step, 'phase': self.phase,
                 'at': self.at, 'seconds': self.seconds, 'seed': self.args.seed, 'n_tokens': self.args.tokens}
        torch.save(state, self.checkpoint + '.tmp')
        os.replace(self.checkpoint + '.tmp', self.checkpoint)

    def resume(self) -> None:
        if not os.path.exists(self.checkpoint):
            if self.args.init:
                self.begin_with(self.args.init)
            return
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        for key, mine in (('shape', self.args.shape), ('seed', self.args.seed), ('n_tokens', self.args.tokens)):
            if state[key] != mine:
                raise SystemExit(f'train: {self.checkpoint} was made with {key} {state[key]}, now it is {mine}')
        self.model.load_state_dict(state['model'])
        self.optimizer.load_state_dict(state['optimizer'])
        for key in ('tokens', 'step', 'phase', 'at', 'seconds'):
            setattr(self, key, state[key])
        print(f'train: going on at step {self.step}, {self.tokens / 1e6:.1f} M tokens', file=sys.stderr)

    # ---- one step
    def precision(self) -> contextlib.AbstractContextManager:
        if self.args.precision == 'f32':
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def weighted_loss(self, batch: MicroBatch) -> torch.Tensor:
        ids, weight = torch.from_numpy(batch.ids).to(self.device), torch.from_numpy(batch.weight).to(self.device)
        with self.precision():
            return self.loss(ids, weight)

    def train_step(self, batches: list[MicroBatch]) -> tuple[float, float, float]:
        """(loss per weight, gradient norm, learning rate)"""
        total = float(sum(b.weight.sum() for b in batches))
        summed = 0.0
        for batch in batches:
            loss = self.weighted_loss(batch) / total
            loss.backward()
            summed += float(loss.detach())
        lr = learning_rate(self.args.schedule, self.args.lr, self.tokens / self.args.stop)
        norm = self.optimizer.step(lr)
        self.tokens += sum(b.n_tokens for b in batches)
        self.step += 1
        return summed, norm, lr

    # ---- held-out losses for the curve: assistant tokens only
    @torch.no_grad()
    def held_out(self) -> dict[str, float]:
        out = {}
        for split in ('phrasing', 'content', 'both'):
            loss = weight = 0.0
            for name in TASKS:
                for i in range(HELD_OUT_SAMPLES):
                    sample = sample_of(name, split, f'curve/{i}')
                    batch = self.one_row(encode_dialog(self.tokenizer, sample['messages'], sample['tools']))
                    loss += float(self.weighted_loss(batch))
                    weight += float(batch.weight.sum())
            out[split] = loss / weight
        return out

    @staticmethod
    def one_row(raw) -> MicroBatch:
        ids, weight = (raw & 0x7FFF).astype('int64')[None], (raw >> 15).astype('float32')[None]
        weight[0, 0] = 0
        return MicroBatch(ids, weight, len(raw))

    # ---- the loop
    def log(self, **line: float) -> None:
        with open(self.log_path, 'a', encoding='utf-8') as f:
            f.write(json.dumps({'step': self.step, 'tokens': self.tokens, **line}) + '\n')

    def draw_curve(self) -> None:
        series: dict[str, list[tuple[float, float]]] = {}
        with open(self.log_path, encoding='utf-8') as f:
            for line in map(json.loads, f):
                for key in ('train', 'phrasing', 'content', 'both'):
                    if key in line and line['tokens'] <= self.tokens:
                        series.setdefault(key, []).append((line['tokens'], line[key]))
        with open(os.path.join(self.args.out, 'curve.svg'), 'w', encoding='utf-8') as f:
            f.write(curve.svg(series, f'{self.args.shape}: loss over tokens'))

    def measure(self) -> None:
        losses = self.held_out()
        self.log(**losses)
        self.draw_curve()
        print('train: held out ' + ' '.join(f'{k} {v:.3f}' for k, v in losses.items()), file=sys.stderr)

    def n_micro(self) -> int:
        return max(1, self.args.step_tokens // self.args.micro_tokens)

    def plan_of(self, number: int) -> Plan:
        corpus = self.corpus_of(self.phases[number])
        return [(corpus, rows) for rows in corpus.plan(self.args.seed * 100 + number, self.args.micro_tokens)]

    def mixed_plan(self) -> Plan:
        """All phases' steps in mixed order."""
        n, steps = self.n_micro(), []
        for plan in map(self.plan_of, range(len(self.phases))):
            steps += [plan[i:i + n] for i in range(0, len(plan) - n + 1, n)]
        np.random.default_rng(self.args.seed).shuffle(steps)
        return [micro for step in steps for micro in step]

    def run_phase(self, name: str, plan: Plan, deadline: float) -> None:
        while self.at < len(plan) and self.tokens < self.args.stop and not self.stopping:
            began, cpu = time.monotonic(), time.process_time()
            batches = [corpus.rows(rows) for corpus, rows in plan[self.at:self.at + self.n_micro()]]
            loss, norm, lr = self.train_step(batches)
            self.at += self.n_micro()
            took = time.monotonic() - began
            self.seconds += took
            self.log(train=loss, norm=norm, lr=lr, seconds=round(took, 2), cpu=round(time.process_time() - cpu, 2))
            speed = sum(b.n_tokens for b in batches) / took
            left = (self.args.stop - self.tokens) / max(1.0, self.tokens / self.seconds)
            print(f'train: {name} step {self.step} {self.tokens / 1e6:.2f}/{self.args.stop / 1e6:.1f} M loss {loss:.3f} '
                  f'norm {norm:.2f} lr {lr:.2g} {speed:.0f} tok/s, {left / 60:.0f} min left', file=sys.stderr, flush=True)
            if self.step % self.args.measure_every == 0:
                self.save()
                self.measure()
            self.stopping |= time.monotonic() > deadline

    def corpus_of(self, phase: Phase) -> Corpus:
        path = os.path.join(self.args.data, f'{phase.name}-{self.args.seed}-{self.args.tokens}')
        n_tokens, seed = int(self.args.tokens * phase.share), f'train/{self.args.seed}/{phase.name}'
        apart = self.args.tokenizer if self.args.unmerge else None
        if phase.echoes == 1:
            return Corpus(make_drills(path, self.args.tokenizer, seed, phase.budget, n_tokens), self.args.prompt_weight, apart)
        make_corpus(path, self.args.tokenizer, seed, phase.budget, int(n_tokens * (1 - phase.echoes)), self.args.processes)
        return Corpus(add_echoes(path, self.args.tokenizer, seed, phase.echoes, phase.budget), self.args.prompt_weight, apart)

    def run(self) -> bool:
        """True when all phases are done."""
        deadline = time.monotonic() + 60 * self.args.minutes
        self.resume()
        while self.phase < len(self.phases) and not self.stopping:
            mixed = self.args.schedule == 'wsd'
            plan = self.mixed_plan() if mixed else self.plan_of(self.phase)
            self.run_phase('mixed' if mixed else self.phases[self.phase].name, plan, deadline)
            if not self.stopping:
                self.phase, self.at = len(self.phases) if mixed else self.phase + 1, 0
        self.save()  # first: whoever ended the run may not wait for the losses
        self.measure()
        return self.phase == len(self.phases)


def multiplies_bf16(device: str) -> bool:
    """Without such units PyTorch emulates them, many times slower than f32."""
    if device != 'cpu':
        return True
    try:
        with open('/proc/cpuinfo', encoding='utf-8') as f:
            flags = next((line for line in f if line.startswith('flags')), '').split()
    except OSError:
        return False
    return 'avx512_bf16' in flags or 'amx_bf16' in flags


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--shape', choices=sorted(SHAPES), default='small')
    parser.add_argument('--out', help='folder of the checkpoint, the log and the curve (default: build/train/SHAPE)')
    parser.add_argument('--data', help='folder of the generated text (default: data beside --out)')
    parser.add_argument('--tokenizer', help='tokenizer.json (default: beside --out, made when missing)')
    parser.add_argument('--init', help='checkpoint whose weights a new run begins with')
    parser.add_argument('--drills', action='store_true', help='nothing but drills of recall (echoes.py) in place of the text')
    parser.add_argument('--unmerge', action='store_true', help='take words apart in some rows (unmerge.py)')
    parser.add_argument('--tokens', type=lambda t: int(float(t)), help='to train on, all phases together')
    parser.add_argument('--minutes', type=float, default=math.inf, help='stop after this long; run again to go on')
    parser.add_argument('--schedule', choices=['cosine', 'wsd'], default='cosine')
    parser.add_argument('--stop', type=lambda t: int(float(t)), help='tokens at which the schedule ends (default: --tokens)')
    parser.add_argument('--lr', type=float, default=2e-3)
    parser.add_argument('--step-tokens', type=int, default=32768)
    parser.add_argument('--micro-tokens', type=int, default=8192)
    parser.add_argument('--prompt-weight', type=float, default=0.1, help='of tokens that the assistant did not write')
    parser.add_argument('--measure-every', type=int, default=200, help='steps between held-out losses and checkpoints')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--processes', type=int, default=os.cpu_count(), help='that make text')
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--precision', choices=['bf16', 'f32'],
                        help='of the products; weights stay f32 (default: bf16 where the device multiplies it)')
    parser.add_argument('--compile', action='store_true', help='torch.compile for the layers, which takes a minute first')
    args = parser.parse_args(argv)
    args.out = os.path.abspath(args.out or os.path.join(HERE, '..', '..', 'build', 'train', args.shape))
    args.precision = args.precision or ('bf16' if multiplies_bf16(args.device) else 'f32')
    beside = os.path.dirname(args.out)
    args.data = args.data or os.path.join(beside, 'data')
    args.tokenizer = args.tokenizer or os.path.join(beside, 'tokenizer.json')
    args.tokens = args.tokens or N_TOKENS[args.shape]
    args.stop = args.stop or args.tokens
    return args


def run_to_end(name: str, trainer: Trainer) -> None:
    """Until it is done or a signal stops it; says which, as `name`."""
    def stop(*_: object) -> None:
        trainer.stopping = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    done = trainer.run()
    print(f'{name}: {trainer.model.n_parameters() / 1e6:.2f} M parameters, {trainer.tokens / 1e6:.2f} M tokens in '
          f'{trainer.seconds / 60:.1f} min; {"done" if done else "stopped: run again to go on"}')


def main(argv: list[str]) -> int:
    args = parse_arguments(argv)
    os.makedirs(args.out, exist_ok=True)
    os.makedirs(args.data, exist_ok=True)
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision('high')
    if not os.path.exists(args.tokenizer):
        subprocess.run([sys.executable, os.path.join(HERE, 'tokenizer.py'), '--out', args.tokenizer], check=True)
    run_to_end('train', Trainer(args))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
