#!/usr/bin/env python3
"""Gives the bundled model eyes: a small ViT and a projector before it, trained on drawn pictures (LLaVA's construction).

    tools/train/vision.py --out build/train/vision --bundle models --card
    tools/train/vision.py --out build/train/vision --check     once more, when it is trained: against transformers
    tools/train/vision.py --out … --shape test --eye-steps 20 --steps 20       to try the tool

Two stages. First the tower alone learns to see: one matrix reads off the mean of its patches what the generator knows of the
picture. Then tower and projector learn to say it through the language model, whose weights stay as they are, so that it keeps
its answers. The patches stand where the template writes <|image|>, one token each, before the question. All questions about a
picture are asked in one go: it is read once, and each question goes on from there.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import loop  # noqa: E402
from card import CARD, MODEL, write_block  # noqa: E402
from chat import BEGIN, END, ROLES  # noqa: E402
from export import load_gguf  # noqa: E402
from eye import EYES, Eye, Projector, Tower, pixels_of  # noqa: E402
from model import Model  # noqa: E402
from optimizer import Optimizer  # noqa: E402
from pictures import VALUES, Picture, picture, questions  # noqa: E402
from tasks.core import SPLITS  # noqa: E402
from vision_files import differences, write_folder, write_mmproj  # noqa: E402

ANSWER_TOKENS = 8
TOWER_PACE = 0.1
MMPROJ = 'quill-vision-mmproj-f16.gguf'


class Looking(nn.Module):
    """The first stage: the tower, and what can be read off it."""

    def __init__(self, eye: Eye):
        super().__init__()
        self.tower, self.readout = Tower(eye), nn.Linear(eye.n_embd, sum(map(len, VALUES.values())))

    def loss(self, pictures: list[Picture], patches: Tensor) -> Tensor:
        """Of reading off the tower's patches. Shapes and digits are learned where the colour has no name: among those with
        one the held-out pairs are missing, so that a red thing would be no circle."""
        total, read = torch.zeros(()), self.readout(patches.mean(1)).split([len(v) for v in VALUES.values()], -1)
        for (kind, values), scores in zip(VALUES.items(), read):
            known = [i for i, p in enumerate(pictures) if kind in p.facts and not (kind in ('shape', 'digit') and 'colour' in p.facts)]
            if known:
                total = total + F.cross_entropy(scores[known], torch.tensor([values.index(pictures[i].facts[kind]) for i in known]))
        return total


class Seeing(nn.Module):
    """The second stage. What could be read off the tower goes on being learned, lest the first answers, which are far off,
    undo it."""

    def __init__(self, base: Model, eye: Eye, looking: Looking, tokenizer: Tokenizer):
        super().__init__()
        self.eye, self.tokenizer, self.base = eye, tokenizer, base.requires_grad_(False)
        self.looking, self.projector = looking, Projector(eye.n_embd, base.c.n_embd)
        nn.init.normal_(self.projector.linear_2.weight, std=0.02)
        self.end = tokenizer.token_to_id(END)

    @property
    def tower(self) -> Tower:
        return self.looking.tower

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def before(self) -> list[int]:
        return self.ids(BEGIN + ROLES['user'])

    def read(self, patches: Tensor) -> tuple[list[list[Tensor]], int]:
        """Keys and values of the prompt up to the last patch, and its length. Of the tower's patches [n, n_patches, n_eye]."""
        before = self.base.embed_tokens(torch.tensor([self.before()])).expand(len(patches), -1, -1)
        inputs = torch.cat([before, self.projector(patches)], 1)
        past: list[list[Tensor]] = [[] for _ in self.base.layers]
        self.base.hidden(torch.zeros(inputs.shape[:2], dtype=torch.long), past, inputs=inputs)
        return past, inputs.shape[1]

    def asked(self, question: str) -> list[int]:
        return self.ids(question + END + ROLES['assistant'])

    def loss(self, pictures: list[Picture], seed: str) -> Tensor:
        rows = [(i, self.asked(q), [*self.ids(a), self.end]) for i, p in enumerate(pictures) for q, a in questions(p, f'{seed}/{i}')]
        n = max(len(q) + len(a) for _, q, a in rows)
        ids, counts = torch.zeros(len(rows), n, dtype=torch.long), torch.zeros(len(rows), n, dtype=torch.bool)
        for row, (_, q, a) in enumerate(rows):
            ids[row, :len(q) + len(a)] = torch.tensor(q + a)
            counts[row, len(q):len(q) + len(a)] = True
        patches, of = self.tower(pixels_of(pictures)), torch.tensor([i for i, _, _ in rows])
        past, start = self.read(patches)
        hidden = self.base.hidden(ids, [[k[of], v[of]] for k, v in past], start)
        said = F.cross_entropy(self.base.logits(hidden[:, :-1][counts[:, 1:]]), ids[:, 1:][counts[:, 1:]])
        return said + self.looking.loss(pictures, patches)

    @torch.no_grad()
    def answer(self, p: Picture) -> tuple[str, Tensor]:
        """And the logits of its first token."""
        (past, start), ids, out, first = self.read(self.tower(pixels_of([p]))), self.asked(p.question), [], None
        while len(out) < ANSWER_TOKENS:
            logits = self.base.logits(self.base.hidden(torch.tensor([ids]), past, start)[0, -1])
            first, start, ids = logits if first is None else first, start + len(ids), [int(logits.argmax())]
            if ids == [self.end]:
                break
            out += ids
        return self.tokenizer.decode(out), first

    def round_to_half(self) -> None:
        """To what the file holds."""
        for part in (self.tower, self.projector):
            for p in part.parameters():
                if p.dim() > 1:
                    p.data = p.data.half().float()


class Paces:
    """Optimizers of the projector and of the tower, which has learned already and would forget at the projector's pace."""

    def __init__(self, seeing: Seeing):
        self.parts = [(1.0, Optimizer(seeing.projector, torch.float32)), (TOWER_PACE, Optimizer(seeing.looking, torch.float32))]

    def step(self, lr: float) -> None:
        for pace, optimizer in self.parts:
            optimizer.step(lr * pace)

    def state_dict(self) -> list[dict]:
        return [optimizer.state_dict() for _, optimizer in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for (_, optimizer), state in zip(self.parts, states):
            optimizer.load_state_dict(state)


def load_base(path: str) -> Model:
    c, state = load_gguf(path)
    model = Model(c)
    model.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})
    return model


def trained(args: argparse.Namespace) -> Seeing | None:
    """None where it was stopped before the end of both stages."""
    began, eye = time.monotonic(), EYES[args.shape]
    looking = Looking(eye)
    first = argparse.Namespace(**{**vars(args), 'out': os.path.join(args.out, 'eye'), 'steps': args.eye_steps, 'lr': args.eye_lr})

    def looked(step: int) -> Tensor:
        pictures = [picture('train', f'{args.seed}/eye/{step}/{j}') for j in range(args.eye_rows)]
        return looking.loss(pictures, looking.tower(pixels_of(pictures)))

    if not loop.fit(looking, looked, first, Optimizer(looking, torch.float32)):
        return None
    seeing = Seeing(load_base(args.base), eye, looking, Tokenizer.from_file(os.path.join(os.path.dirname(args.base), 'tokenizer.json')))
    args.minutes -= (time.monotonic() - began) / 60
    done = loop.fit(seeing, lambda i: seeing.loss([picture('train', f'{args.seed}/{i}/{j}') for j in range(args.rows)], f'{args.seed}/{i}'),
                    args, Paces(seeing))
    seeing.round_to_half()
    return seeing if done else None


def table(model: Seeing, n: int) -> str:
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for split in SPLITS[1:]:
        for i in range(n):
            p = picture(split, f'eval/{i}')
            right[p.kind, split].append(model.answer(p)[0] == p.answer)
    rows = []
    for kind, values in VALUES.items():
        cells = [right[kind, split] for split in SPLITS[1:]]
        shown = ' | '.join(f'{100 * sum(c) / len(c):.1f}' if c else '-' for c in cells)
        rows.append(f'| {kind} | {shown} | {100 / len(values):.1f} | {sum(map(len, cells))} |')
    return '\n'.join(['| % right | ' + ' | '.join(SPLITS[1:]) + ' | chance | n |', '|' + ' --- |' * 6, *rows])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    loop.add_arguments(parser, 1400, 1.5e-2)
    parser.add_argument('--rows', type=int, default=16, help='pictures a step')
    parser.add_argument('--eye-steps', type=int, default=1500, help='steps of the first stage')
    parser.add_argument('--eye-rows', type=int, default=64)
    parser.add_argument('--eye-lr', type=float, default=1e-2)
    parser.add_argument('--base', default=MODEL, help='GGUF of the target as export.py writes it; tokenizer.json is beside it')
    parser.add_argument('--shape', choices=sorted(EYES), default='vision')
    parser.add_argument('--n', type=int, default=500, help='pictures of each split to measure with')
    parser.add_argument('--bundle', metavar='FOLDER', help=f'write {MMPROJ} there, too')
    parser.add_argument('--check', action='store_true', help='compare with transformers')
    parser.add_argument('--card', nargs='?', const=CARD, help='write the table into this model card')
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = trained(args)
    if model is None:
        print('vision: stopped; run again to go on', file=sys.stderr)
        return 0
    folder = os.path.join(args.out, 'hf')
    write_folder(folder, model, os.path.join(os.path.dirname(args.base), 'tokenizer.json'))
    for place in filter(None, (args.out, args.bundle)):
        write_mmproj(os.path.join(place, MMPROJ), model)
    text = table(model, args.n)
    print(text)
    if args.card:
        n = sum(x.numel() for part in (model.tower, model.projector) for x in part.parameters())
        about = f'{n / 1e6:.2f} M parameters before the model, {args.eye_steps} steps of the tower alone, {args.steps} through the model.'
        write_block(args.card, 'vision', 'tools/train/vision.py', f'{about}\n\n{text}')
    return 0 if not args.check or differences(model, folder) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
