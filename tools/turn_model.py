#!/usr/bin/env python3
"""A model that computes what another computes and whose matrices lie on no grid of a quantised format: an original to
measure quantisers with, where only a quantised file is at hand. Another seed gives another original.

    tools/turn_model.py IN.gguf OUT.gguf [--seed N]

Pairs of components of the residual stream are turned by random angles: matrices that read it have their columns turned,
those that write it their rows, and norms are multiplied into the matrices behind them (llama, qwen2). Where norms stand
behind matrices too (gemma3), turns would not pass them: there the components of the residual stream and the hidden units
change places, so that a block's numbers come from many blocks, and values are turned inside their heads. Needs the
packages numpy and gguf.
"""
import argparse

import gguf
import numpy as np
from gguf.quants import dequantize

TURNED, SHUFFLED = ('llama', 'qwen2'), ('gemma3',)
OWN_FACTS = ('general.architecture', 'general.file_type', 'general.alignment', 'general.quantization_version')


def make_turns(n, seed):
    """The functions that turn columns and rows of a matrix."""
    angle = np.random.default_rng(seed).uniform(0.15, 1.4, n // 2)
    c, s = np.cos(angle), np.sin(angle)

    def columns(matrix):
        a, b = matrix[:, 0::2].astype(np.float64), matrix[:, 1::2].astype(np.float64)
        out = np.empty_like(matrix)
        out[:, 0::2], out[:, 1::2] = a * c - b * s, a * s + b * c
        return out

    return columns, lambda matrix: np.ascontiguousarray(columns(np.ascontiguousarray(matrix.T)).T)


def turn(tensors, n_layer, seed):
    embedding = tensors['token_embd.weight']
    columns, rows = make_turns(embedding.shape[1], seed)
    tensors['output.weight'] = columns(tensors.get('output.weight', embedding) * tensors['output_norm.weight'])
    tensors['token_embd.weight'] = columns(embedding)
    tensors['output_norm.weight'][:] = 1
    readers = {'attn_norm': ('attn_q', 'attn_k', 'attn_v'), 'ffn_norm': ('ffn_gate', 'ffn_up')}
    for layer in range(n_layer):
        at = f'blk.{layer}.'
        for norm, names in readers.items():
            scale = tensors[f'{at}{norm}.weight']
            for name in names:
                tensors[f'{at}{name}.weight'] = columns(tensors[f'{at}{name}.weight'] * scale)
            scale[:] = 1
        for name in ('attn_output', 'ffn_down'):
            tensors[f'{at}{name}.weight'] = rows(tensors[f'{at}{name}.weight'])


def shuffle(tensors, n_layer, n_value, seed):
    """n_value: the width of a head of values."""
    places = np.random.default_rng(seed)
    order = places.permutation(tensors['token_embd.weight'].shape[1])
    columns, rows = make_turns(n_value, seed)
    tensors['token_embd.weight'] = tensors['token_embd.weight'][:, order]
    tensors['output_norm.weight'] = tensors['output_norm.weight'][order]
    for layer in range(n_layer):
        def change(name, how, at=f'blk.{layer}.'):
            tensors[f'{at}{name}.weight'] = how(tensors[f'{at}{name}.weight'])

        def of_heads(how, matrix, axis):
            return np.concatenate([how(part) for part in np.split(matrix, matrix.shape[axis] // n_value, axis)], axis)

        hidden = places.permutation(tensors[f'blk.{layer}.ffn_up.weight'].shape[0])
        for name in ('attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'):
            change(name, lambda scale: scale[order])
        for name in ('attn_q', 'attn_k', 'attn_v'):
            change(name, lambda matrix: matrix[:, order])
        change('attn_v', lambda matrix: of_heads(rows, matrix, 0))
        change('attn_output', lambda matrix: of_heads(columns, matrix[order], 1))
        for name in ('ffn_gate', 'ffn_up'):
            change(name, lambda matrix, hidden=hidden: matrix[hidden][:, order])
        change('ffn_down', lambda matrix, hidden=hidden: matrix[order][:, hidden])


def copy_facts(reader, writer):
    for key, field in reader.fields.items():
        if key.startswith('GGUF.') or key in OWN_FACTS:
            continue
        kind = field.types[0]
        sub = {'sub_type': field.types[-1]} if kind == gguf.GGUFValueType.ARRAY else {}
        writer.add_key_value(key, field.contents(), kind, **sub)


def main():
    parser = argparse.ArgumentParser(description='turns a model without changing what it computes')
    parser.add_argument('model')
    parser.add_argument('out')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.model)
    architecture = reader.fields['general.architecture'].contents()
    if architecture not in TURNED + SHUFFLED:
        raise SystemExit(f'{args.model}: architecture {architecture}; there are: {", ".join(TURNED + SHUFFLED)}')
    tensors = {}
    for t in reader.tensors:
        shape = [int(n) for n in reversed(t.shape)]
        tensors[t.name] = dequantize(t.data, t.tensor_type).astype(np.float32).reshape(shape)
    n_layer = int(reader.fields[f'{architecture}.block_count'].contents())
    if architecture in TURNED:
        turn(tensors, n_layer, args.seed)
    else:
        shuffle(tensors, n_layer, int(reader.fields[f'{architecture}.attention.value_length'].contents()), args.seed)
    writer = gguf.GGUFWriter(args.out, architecture)
    copy_facts(reader, writer)
    for name, values in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == '__main__':
    main()
