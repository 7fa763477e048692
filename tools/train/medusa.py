#!/usr/bin/env python3
"""Trains Medusa heads for a finished model, which stays as it is, and says how often it accepts what they guess.

    tools/train/medusa.py --base models/quill-q8_0.gguf --out build/train/medusa
    quire serve models/quill-q8_0.gguf --draft build/train/medusa

Head k reads the hidden state behind the last norm, from which the model tells the next token, and learns the k-th token
behind that one: x + SiLU(W x + b), W and b from 0, then a matrix over the vocabulary that begins as the model's own. The
loss of head k counts 0.8^k (Cai et al. 2024). The text is training conversations as train.py reads them. The folder has
config.json and medusa_lm_head.safetensors, as such heads are published. The table is of the model's own greedy answers to
held-out questions: how often each head has the token that comes, and tokens per step where guesses count up to the first
wrong one. Everything follows from the seed.
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from config import LEARN  # noqa: E402
from data import encode_dialog  # noqa: E402
from evaluate import END_ID, questions  # noqa: E402
from export import load_checkpoint, load_gguf, write_json  # noqa: E402
from model import Model, greedy  # noqa: E402
from tasks import mixed_dialog  # noqa: E402
from tensor_files import rows_of, write_safetensors  # noqa: E402

DECAY = 0.8
LONGEST_PROMPT, MOST_TOKENS = 1024, 96


def load_base(path: str) -> Model:
    config, state = (load_gguf if path.endswith('.gguf') else load_checkpoint)(path)
    model = Model(config)
    model.load_state_dict({name: torch.from_numpy(np.array(x, dtype=np.float32)) for name, x in state.items()})
    return model.eval().requires_grad_(False)


class Head(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        c = model.c
        self.block, self.out = nn.Linear(c.n_embd, c.n_embd), nn.Linear(c.n_embd, c.n_vocab, bias=False)
        nn.init.zeros_(self.block.weight)
        nn.init.zeros_(self.block.bias)
        with torch.no_grad():
            self.out.weight.copy_(model.embed_tokens.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x + nn.functional.silu(self.block(x)))


def conversations(tokenizer: Tokenizer, args: argparse.Namespace) -> Iterator[tuple[Tensor, Tensor]]:
    """ids [n] and which of them are the assistant's [n], of one conversation after the other."""
    for i in range(args.steps * args.rows):
        _, dialog = mixed_dialog(f'medusa/{args.seed}/{i}', args.longest)
        raw = encode_dialog(tokenizer, dialog.messages, dialog.tools).astype(np.int64)[:args.longest]
        yield torch.from_numpy(raw & (LEARN - 1)), torch.from_numpy(raw >= LEARN)


def head_loss(heads: nn.ModuleList, states: Tensor, ids: Tensor, own: Tensor) -> Tensor:
    """Of one conversation: states [n, n_embd] of its tokens. Head k at place t tells token t + 2 + k."""
    loss = torch.zeros(())
    for k, head in enumerate(heads):
        counts = own[2 + k:]
        if counts.any():
            wanted = ids[2 + k:][counts]
            loss = loss + DECAY ** k * nn.functional.cross_entropy(head(states[:len(counts)][counts]), wanted)
    return loss


def train(model: Model, heads: nn.ModuleList, tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    optimizer = torch.optim.AdamW(heads.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0)
    text = conversations(tokenizer, args)
    for step in range(args.steps):
        total = 0.0
        for _ in range(args.rows):
            ids, own = next(text)
            with torch.no_grad():
                states = model.hidden(ids[None])[0]
            loss = head_loss(heads, states, ids, own) / args.rows
            if loss.requires_grad:
                loss.backward()
            total += float(loss.detach())
        for group in optimizer.param_groups:
            group['lr'] = args.lr * min(1.0, (step + 1) / 20) * (1 - step / args.steps)
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step + 1 == args.steps:
            print(f'medusa: step {step + 1} of {args.steps}, loss {total:.3f}', file=sys.stderr, flush=True)


@torch.no_grad()
def table(model: Model, heads: nn.ModuleList, tokenizer: Tokenizer, n: int) -> str:
    right, seen = [0] * len(heads), [0] * len(heads)
    n_steps, n_tokens = 0, 0
    for q in questions(tokenizer, n, []):
        if len(q.prompt) > LONGEST_PROMPT:
            continue
        reply = greedy(model, q.prompt, END_ID, MOST_TOKENS) + [END_ID]
        states = model.hidden(torch.tensor([q.prompt + reply[:-1]]))[0, len(q.prompt) - 1:]
        guesses = [head(states).argmax(-1).tolist() for head in heads]
        hits = [[guess[t] == reply[t + 1 + k] for t in range(len(reply) - 1 - k)] for k, guess in enumerate(guesses)]
        for k, hit in enumerate(hits):
            right[k] += sum(hit)
            seen[k] += len(hit)
        t = 0
        while t < len(reply):  # a step gives its own token and those that were guessed behind it
            n_right = 0
            while n_right < len(heads) and t < len(hits[n_right]) and hits[n_right][t]:
                n_right += 1
            t += 1 + n_right
            n_steps += 1
        n_tokens += len(reply)
    rates = ' | '.join(f'{100 * r / max(1, s):.1f}' for r, s in zip(right, seen))
    head = ' | '.join(f'% right, head {k + 1}' for k in range(len(heads)))
    return f'| {head} | tokens per step | tokens |\n|{" --- |" * (len(heads) + 2)}\n| {rates} | {n_tokens / max(1, n_steps):.2f} | {n_tokens} |'


def save(heads: nn.ModuleList, folder: str, base: str) -> None:
    os.makedirs(folder, exist_ok=True)
    tensors = {}
    for k, head in enumerate(heads):
        tensors |= {f'{k}.0.linear.weight': head.block.weight, f'{k}.0.linear.bias': head.block.bias, f'{k}.1.weight': head.out.weight}
    config = {'base_model_name_or_path': base, 'medusa_num_heads': len(heads), 'medusa_num_layers': 1, 'version': '2'}
    write_json(os.path.join(folder, 'config.json'), config)
    write_safetensors(os.path.join(folder, 'medusa_lm_head.safetensors'),
                      {name: rows_of(x.detach().numpy()) for name, x in tensors.items()}, 'bf16')


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--base', required=True, help='a checkpoint, or a GGUF file that export.py wrote')
    parser.add_argument('--out', required=True, help='folder')
    parser.add_argument('--tokenizer', help='default: tokenizer.json beside the base')
    parser.add_argument('--heads', type=int, default=3)
    parser.add_argument('--steps', type=int, default=400)
    parser.add_argument('--rows', type=int, default=4, help='conversations a step')
    parser.add_argument('--longest', type=int, default=384, help='tokens of a conversation that are read')
    parser.add_argument('--lr', type=float, default=3e-3)
    parser.add_argument('--n', type=int, default=1, help='held-out questions of each task and split to measure with')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    tokenizer = Tokenizer.from_file(args.tokenizer or os.path.join(os.path.dirname(os.path.abspath(args.base)), 'tokenizer.json'))
    model = load_base(args.base)
    heads = nn.ModuleList(Head(model) for _ in range(args.heads))
    train(model, heads, tokenizer, args)
    save(heads, args.out, os.path.basename(args.base))
    print(table(model, heads, tokenizer, args.n))


if __name__ == '__main__':
    main(sys.argv[1:])
