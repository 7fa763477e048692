#!/usr/bin/env python3
"""Trains adapters for the bundled model, writes them in PEFT's format and measures that they do what they were trained for.

    tools/train/adapt.py --base build/train/small/checkpoint.pt --adapter pirate     LoRA: another tone of voice
    tools/train/adapt.py --base … --adapter german                                   LoRA: another language
    tools/train/adapt.py --base … --adapter radio                                    prefix: every answer ends in "Over."
    tools/train/adapt.py --base … --adapter pirate --check                           and compare with the peft library

The base stays as it is. The folder in --out has adapter_config.json and adapter_model.safetensors; a prefix holds for each
layer the keys (as they stand in the cache, so rotated) and values of tokens before the first, which then has position
n_virtual. The table compares held-out prompts with and without the adapter. Everything follows from the seed.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from typing import Callable, Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from card import CARD, write_block  # noqa: E402
from config import LEARN  # noqa: E402
from data import encode_dialog  # noqa: E402
from distill import load_model  # noqa: E402
from evaluate import END_ID, prompt_ids  # noqa: E402
from export import hf_config, read_tokenizer, rows_of, write_hf, write_json  # noqa: E402
from model import Model  # noqa: E402
from tasks import sample_of  # noqa: E402
from tasks.core import Draw, Json  # noqa: E402
from tensor_files import write_safetensors  # noqa: E402

RANK, ALPHA = 8, 16
TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
N_VIRTUAL = 16
TONE_TASKS = ('smalltalk', 'town', 'unknown', 'reading')
MOST_TOKENS = 96

# ---- what they learn -----------------------------------------------------------------------------------------------

PIRATE = [(r'\byou\b', 'ye'), (r'\bYou\b', 'Ye'), (r'\bmy\b', 'me'), (r'\bMy\b', 'Me'), (r'\byour\b', 'yer'), (r'\bYour\b', 'Yer'),
          (r'\bis\b', 'be'), (r'\bare\b', 'be')]


def pirate(text: str) -> str:
    for pattern, word in PIRATE:
        text = re.sub(pattern, word, text)
    return f'Arr! {text} Aye, matey!'


def radio(text: str) -> str:
    return f'{text} Over.'


def toned(tone: Callable[[str], str]) -> Callable[[str, str], Json]:
    def make(split: str, seed: str) -> Json:
        name = TONE_TASKS[Draw(f'tone/{seed}').number(0, len(TONE_TASKS) - 1)]
        sample = sample_of(name, split, f'adapter/{seed}')
        for message in sample['messages']:
            if message['role'] == 'assistant' and message.get('content'):
                message['content'] = tone(message['content'])
        return sample

    return make


def german(split: str, seed: str) -> Json:
    """One of three kinds of question; names and pairs of numbers are held out as everywhere."""
    d = Draw(f'german/{split}/{seed}', split)
    kind = d.number(0, 2)
    if kind == 0:
        name = d.name()
        asked = d.pick([f'Hallo! Ich heiße {name}.', f'Guten Tag, mein Name ist {name}.', f'Hallo, ich bin {name}.'])
        reply = f'Hallo, {name}! Wie geht es dir?'
    elif kind == 1:
        a, b = d.content('german.sum', lambda rng: (rng.randint(1, 12), rng.randint(1, 12)))
        asked = d.pick([f'Wie viel ist {a} plus {b}?', f'Was ist {a} plus {b}?', f'Rechne bitte: {a} plus {b}.'])
        reply = f'{a} plus {b} ist {a + b}.'
    else:
        name, place = d.name(), d.place()
        asked = d.pick([f'{name} wohnt in {place}. Wo wohnt {name}?', f'Wo wohnt {name}? {name} wohnt in {place}.'])
        reply = f'{name} wohnt in {place}.'
    return {'messages': [{'role': 'user', 'content': asked}, {'role': 'assistant', 'content': reply}], 'tools': []}


ADAPTERS: dict[str, tuple[str, Callable[[str, str], Json], Callable[[str, str], bool]]] = {
    # kind, sample, whether a reply does it: (reply, wanted)
    'pirate': ('lora', toned(pirate), lambda reply, _: reply.startswith('Arr! ') and reply.endswith('Aye, matey!')),
    'german': ('lora', german, lambda reply, want: reply == want),
    'radio': ('prefix', toned(radio), lambda reply, _: reply.endswith(' Over.')),
}

# ---- LoRA and prefix -----------------------------------------------------------------------------------------------


class LoraLinear(nn.Module):
    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.empty(RANK, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, RANK))
        nn.init.kaiming_uniform_(self.a, a=5 ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + (x @ self.a.T @ self.b.T) * (ALPHA / RANK)


class Adapted:
    """A frozen model with an adapter; the same door for both kinds."""

    def __init__(self, model: Model, kind: str):
        self.model, self.kind = model.requires_grad_(False), kind
        c = model.c
        self.prefix: nn.Parameter | None = None
        self.loras: dict[str, LoraLinear] = {}
        if kind == 'prefix':  # [n_virtual, layers · (k, v) · kv heads · head_dim], PEFT's order
            self.prefix = nn.Parameter(torch.randn(N_VIRTUAL, c.n_layers * 2 * c.n_kv_heads * c.head_dim) * 0.02)
        elif kind == 'lora':
            for i, layer in enumerate(model.layers):
                for part in TARGETS:
                    owner = layer.self_attn if hasattr(layer.self_attn, part) else layer.mlp
                    path = f'layers.{i}.{"self_attn" if owner is layer.self_attn else "mlp"}.{part}'
                    self.loras[path] = LoraLinear(getattr(owner, part))
                    setattr(owner, part, self.loras[path])

    def parameters(self) -> list[nn.Parameter]:
        return [self.prefix] if self.prefix is not None else [p for lora in self.loras.values() for p in (lora.a, lora.b)]

    def past(self, rows: int) -> list[list[Tensor]]:
        if self.prefix is None:
            return [[] for _ in self.model.layers]
        c = self.model.c
        both = self.prefix.view(N_VIRTUAL, c.n_layers, 2, c.n_kv_heads, c.head_dim).permute(1, 2, 3, 0, 4)
        return [[k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)] for k, v in both]

    def logits(self, ids: Tensor, past: list[list[Tensor]] | None = None, start: int = 0) -> Tensor:
        past = self.past(len(ids)) if past is None else past
        return self.model.logits(self.model.hidden(ids, past, start + (N_VIRTUAL if self.kind == 'prefix' else 0)))

    @torch.no_grad()
    def reply(self, prompt: list[int]) -> list[int]:
        past, ids, out, start = self.past(1), torch.tensor([prompt]), [], 0
        while len(out) < MOST_TOKENS:
            token = int(self.logits(ids, past, start)[0, -1].argmax())
            if token == END_ID:
                break
            out.append(token)
            start += ids.shape[1]
            ids = torch.tensor([[token]])
        return out

    # ---- PEFT's files
    def save(self, folder: str, base: str) -> None:
        os.makedirs(folder, exist_ok=True)
        common = {'base_model_name_or_path': base, 'task_type': 'CAUSAL_LM', 'inference_mode': True}
        if self.prefix is not None:
            c = self.model.c
            config = {**common, 'peft_type': 'PREFIX_TUNING', 'num_virtual_tokens': N_VIRTUAL, 'num_layers': c.n_layers,
                      'token_dim': c.n_kv_heads * c.head_dim, 'num_attention_heads': c.n_kv_heads, 'num_transformer_submodules': 1,
                      'encoder_hidden_size': c.n_embd, 'prefix_projection': False}
            tensors = {'prompt_embeddings': self.prefix}
        else:
            config = {**common, 'peft_type': 'LORA', 'r': RANK, 'lora_alpha': ALPHA, 'lora_dropout': 0.0, 'bias': 'none',
                      'target_modules': TARGETS, 'fan_in_fan_out': False, 'use_rslora': False}
            tensors = {f'base_model.model.model.{path}.lora_{part.upper()}.weight': getattr(lora, part)
                       for path, lora in self.loras.items() for part in 'ab'}
        write_json(os.path.join(folder, 'adapter_config.json'), config)
        write_safetensors(os.path.join(folder, 'adapter_model.safetensors'),
                          {name: rows_of(x.detach().numpy()) for name, x in tensors.items()}, 'f32')


# ---- training and measuring ----------------------------------------------------------------------------------------

def batches(make: Callable[[str, str], Json], tokenizer: Tokenizer, args: argparse.Namespace) -> Iterator[tuple[Tensor, Tensor]]:
    """ids, weight [rows, n]: the assistant's tokens count."""
    for step in range(args.steps):
        samples = [make('train', f'{args.seed}/{step * args.rows + i}') for i in range(args.rows)]
        raw = [encode_dialog(tokenizer, s['messages'], s['tools']).astype(np.int64)[:args.longest] for s in samples]
        n = max(map(len, raw))
        ids, weight = torch.zeros(args.rows, n, dtype=torch.long), torch.zeros(args.rows, n)
        for row, r in enumerate(raw):
            ids[row, :len(r)], weight[row, :len(r)] = torch.from_numpy(r & (LEARN - 1)), torch.from_numpy((r >= LEARN).astype(np.float32))
        yield ids, weight


def train(adapted: Adapted, make: Callable[[str, str], Json], tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    optimizer = torch.optim.AdamW(adapted.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0)
    for step, (ids, weight) in enumerate(batches(make, tokenizer, args)):
        logits, wanted, counts = adapted.logits(ids)[:, :-1], ids[:, 1:], weight[:, 1:] > 0
        loss = nn.functional.cross_entropy(logits[counts], wanted[counts])
        loss.backward()
        for group in optimizer.param_groups:
            group['lr'] = args.lr * min(1.0, (step + 1) / 20) * (1 - step / args.steps)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step + 1 == args.steps:
            print(f'adapt: step {step + 1} of {args.steps}, loss {float(loss):.3f}', file=sys.stderr)


def share_that_does_it(adapted: Adapted, name: str, tokenizer: Tokenizer, n: int) -> float:
    _, make, does = ADAPTERS[name]
    good = 0
    for i in range(n):
        sample = make('both', f'held/{i}')
        last = max(at for at, m in enumerate(sample['messages']) if m['role'] == 'assistant')
        prompt = prompt_ids(tokenizer, sample['messages'][:last], sample['tools'])
        good += does(tokenizer.decode(adapted.reply(prompt), skip_special_tokens=True), sample['messages'][last].get('content') or '')
    return good / n


def peft_difference(adapted: Adapted, base: Model, folder: str, tokenizer_path: str) -> float:
    """The largest difference of logits between ours and what the peft library makes of the files."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    ids = torch.tensor([[(i * 37 + 16) % base.c.n_vocab for i in range(48)]])
    with tempfile.TemporaryDirectory() as hf, torch.no_grad():
        tensors = {k: rows_of(v.numpy()) for k, v in base.state_dict().items()}
        write_hf(hf, hf_config(base.c, 'f32'), tensors, read_tokenizer(tokenizer_path), 1 << 40)
        theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float32), folder).eval()
        return float((theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).logits - adapted.logits(ids)).abs().max())


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--base', required=True, help='checkpoint of the target')
    parser.add_argument('--adapter', required=True, choices=sorted(ADAPTERS))
    parser.add_argument('--out', help='folder (default: adapters/NAME beside the base\'s folder)')
    parser.add_argument('--tokenizer', help='default: beside the base\'s folder')
    parser.add_argument('--steps', type=int, default=600)
    parser.add_argument('--rows', type=int, default=16, help='conversations a step')
    parser.add_argument('--longest', type=int, default=384, help='tokens of a conversation that are read')
    parser.add_argument('--lr', type=float, help='default: 2e-3 for LoRA, 2e-2 for a prefix')
    parser.add_argument('--n', type=int, default=50, help='held-out prompts to measure with')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--check', action='store_true', help='compare logits with the peft library')
    parser.add_argument('--card', nargs='?', const=CARD, help='write the rows of all results beside --out into this model card')
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    beside = os.path.dirname(os.path.dirname(os.path.abspath(args.base)))
    args.tokenizer = args.tokenizer or os.path.join(beside, 'tokenizer.json')
    args.out = args.out or os.path.join(beside, 'adapters', args.adapter)
    tokenizer, kind = Tokenizer.from_file(args.tokenizer), ADAPTERS[args.adapter][0]
    args.lr = args.lr or (2e-2 if kind == 'prefix' else 2e-3)
    plain = Adapted(load_model(args.base, torch.device('cpu')), 'none')
    adapted = Adapted(load_model(args.base, torch.device('cpu')), kind)
    before = share_that_does_it(plain, args.adapter, tokenizer, args.n)
    train(adapted, ADAPTERS[args.adapter][1], tokenizer, args)
    adapted.save(args.out, 'quill')
    after = share_that_does_it(adapted, args.adapter, tokenizer, args.n)
    row = f'| {args.adapter} | {kind} | {args.steps} | {100 * before:.0f} | {100 * after:.0f} | {args.n} |'
    print(row)
    with open(os.path.join(args.out, 'result.json'), 'w', encoding='utf-8') as f:
        json.dump({'row': row}, f)
    if args.card:
        write_rows(args)
    if args.check:
        gap = peft_difference(adapted, load_model(args.base, torch.device('cpu')), args.out, args.tokenizer)
        print(f'adapt: largest difference to the peft library {gap:.2e}')
        return int(gap > 1e-3)
    return 0


def write_rows(args: argparse.Namespace) -> None:
    folder, rows = os.path.dirname(os.path.abspath(args.out)), []
    for name in sorted(ADAPTERS):
        path = os.path.join(folder, name, 'result.json')
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                rows.append(json.load(f)['row'])
    head = '| adapter | kind | steps | % of held-out prompts without it | with it | prompts |\n' + '|' + ' --- |' * 6
    write_block(args.card, 'adapters', 'tools/train/adapt.py', '\n'.join([head, *rows]))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
