#!/usr/bin/env python3
"""Writes what a bundled model must say: prompts, their ids, greedy continuations and logits, computed in float64 from the
weights that the file stands for. Plain numpy, no line shared with the engine or with PyTorch's model.

    tools/train/golden.py --model models/quill-q8_0.gguf --out models/expected.json
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Callable

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chat import BEGIN, CONTROL, END, render  # noqa: E402
from config import Config  # noqa: E402
from export import State, load_gguf  # noqa: E402
from tensor_files import GgufReader  # noqa: E402

ASKED = ['Hi! Who are you?', 'Tell me a story about a fox called Mira.', 'What is 47 + 38?',
         'Sort these words: pear, apple, fig, plum']
MOST_TOKENS = 48


def norm(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def rotated(x: np.ndarray, start: int, c: Config) -> np.ndarray:
    """x [n, heads, head_dim] of positions from start on, in halves"""
    half = c.head_dim // 2
    angle = (start + np.arange(len(x)))[:, None] * c.rope_theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x: np.ndarray, w: State, past: np.ndarray, c: Config) -> np.ndarray:
    n, before = len(x), past.shape[1]
    q, k, v = ((x @ w[f'self_attn.{p}_proj'].T).reshape(n, -1, c.head_dim) for p in 'qkv')
    q, k = rotated(q, before, c), rotated(k, before, c)
    k, v = (np.repeat(np.concatenate(both), c.n_heads // c.n_kv_heads, axis=1) for both in zip(past, (k, v)))
    scores = np.einsum('ihd,jhd->hij', q, k) / np.sqrt(c.head_dim) + np.triu(np.full((n, before + n), -np.inf), before + 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum('hij,jhd->ihd', p / p.sum(-1, keepdims=True), v).reshape(n, -1) @ w['self_attn.o_proj'].T


def logits(ids: list[int], state: State, c: Config, prefix: np.ndarray | None = None, seen: np.ndarray | None = None) -> np.ndarray:
    """Of the token after the last. `prefix` [n_layers, k and v, n, n_kv_heads, head_dim] stands before the first;
    `seen` [n, n_embd] for the embeddings of the n tokens <|image|>."""
    if prefix is None:
        prefix = np.zeros((c.n_layers, 2, 0, c.n_kv_heads, c.head_dim))
    x = state['embed_tokens.weight'][ids]
    if seen is not None:
        x[np.array(ids) == CONTROL.index('<|image|>')] = seen
    for i in range(c.n_layers):
        start = f'layers.{i}.'
        w = {k.removeprefix(start).removesuffix('.weight'): v for k, v in state.items() if k.startswith(start)}
        x = x + attention(norm(x, w['input_layernorm'], c.norm_eps), w, prefix[i], c)
        y = norm(x, w['post_attention_layernorm'], c.norm_eps)
        gate = y @ w['mlp.gate_proj'].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w['mlp.up_proj'].T)) @ w['mlp.down_proj'].T
    return state['embed_tokens.weight'] @ norm(x[-1], state['norm.weight'], c.norm_eps)


def greedy(ids: list[int], most: int, state: State, c: Config, prefix: np.ndarray | None = None, seen: np.ndarray | None = None) -> list[int]:
    """How it goes on, at most so many tokens, <|end|> with them."""
    out: list[int] = []
    while len(out) < most and (not out or out[-1] != CONTROL.index(END)):
        out.append(int(logits(ids + out, state, c, prefix, seen).argmax()))
    return out


# ---- the eye -------------------------------------------------------------------------------------------------------

def gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def centred_norm(x: np.ndarray, w: State, eps: float) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w['weight'] + w['bias']


def attention_to_all(x: np.ndarray, w: Callable[[str], State], n_heads: int) -> np.ndarray:
    q, k, v = ((x @ p['weight'].T + p['bias']).reshape(len(x), n_heads, -1) for p in map(w, ('attn_q', 'attn_k', 'attn_v')))
    p = np.exp(np.einsum('ihd,jhd->hij', q, k) / np.sqrt(q.shape[-1]))
    out = np.einsum('hij,jhd->ihd', p / p.sum(-1, keepdims=True), v).reshape(x.shape)
    return out @ w('attn_out')['weight'].T + w('attn_out')['bias']


def seen(pixels: np.ndarray, mmproj: GgufReader) -> np.ndarray:
    """pixels [side, side, 3] uint8; out [n_patches, n_embd] of the language model"""
    fact = {k.removeprefix('clip.vision.'): v for k, v in mmproj.facts.items()}
    patch, eps = fact['patch_size'], fact['attention.layer_norm_epsilon']

    def weights(start: str) -> State:
        return {k.rsplit('.', 1)[1]: v for k, v in mmproj.tensors.items() if k.rsplit('.', 1)[0] == start}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        w = weights(name)
        return x @ w['weight'].reshape(len(w['weight']), -1).T + w['bias']

    x = (pixels / 255 - fact['image_mean']) / fact['image_std']
    n = len(x) // patch
    x = x.reshape(n, patch, n, patch, 3).transpose(0, 2, 4, 1, 3).reshape(n * n, -1)
    x = linear(x, 'v.patch_embd') + weights('v.position_embd')['weight']
    for i in range(fact['block_count']):
        name = f'v.blk.{i}.'
        x = x + attention_to_all(centred_norm(x, weights(name + 'ln1'), eps), lambda part: weights(name + part), fact['attention.head_count'])
        x = x + linear(gelu(linear(centred_norm(x, weights(name + 'ln2'), eps), name + 'ffn_up')), name + 'ffn_down')
    return linear(gelu(linear(x, 'mm.0')), 'mm.2')


# --------------------------------------------------------------------------------------------------------------------

def without_begin(messages: list) -> str:
    return render(messages, [], generation_prompt=True).removeprefix(BEGIN)


def golden(text: str, tokenizer: Tokenizer, state: State, c: Config) -> dict:
    prompt = tokenizer.encode(text).ids  # with the first marker, which the prompt's text goes without
    first, greedy, margin = None, [], np.inf
    while len(greedy) < MOST_TOKENS:
        y = logits(prompt + greedy, state, c)
        first = y if first is None else first
        second, best = np.sort(y)[-2:]
        margin = min(margin, best - second)
        greedy.append(int(y.argmax()))
        if greedy[-1] == CONTROL.index(END):
            break
    return {'prompt': text, 'prompt_ids': prompt, 'greedy_ids': greedy, 'greedy_text': tokenizer.decode(greedy),
            'min_top1_margin': round(float(margin), 6), 'last_prompt_logits': [round(float(v), 5) for v in first]}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--model', required=True, help='GGUF of q8_0, bf16, f16 or f32; tokenizer.json is beside it')
    parser.add_argument('--out', required=True)
    args = parser.parse_args(argv)
    tokenizer = Tokenizer.from_file(os.path.join(os.path.dirname(os.path.abspath(args.model)), 'tokenizer.json'))
    c, state = load_gguf(args.model)
    state = {k: v.astype(np.float64) for k, v in state.items()}
    prompts = [without_begin([{'role': 'user', 'content': text}]) for text in ASKED]
    cases = [golden(text, tokenizer, state, c) for text in prompts]
    with open(args.out, 'w', encoding='utf-8') as f:
        json.dump({'variants': {os.path.basename(args.model): cases}}, f, ensure_ascii=False)
        f.write('\n')
    for case in cases:
        print(f'{case["greedy_text"]!r}, margin {case["min_top1_margin"]}')


if __name__ == '__main__':
    main(sys.argv[1:])
