#!/usr/bin/env python3
"""Writes a trained model as a Hugging Face folder and as GGUF files.

    tools/train/export.py --checkpoint build/train/small/checkpoint.pt --out build/train/export --gguf f32 f16 q8_0
    tools/train/export.py … --shard-mib 15 --dtype bf16       the folder in pieces, to be carried one by one
    tools/train/export.py --hf-in FOLDER --out …              from such a folder instead of a checkpoint

The folder is F32 (or BF16), config, tokenizer and chat template beside it. In GGUF the rows of q and k are turned from
halves to pairs, which is how its llama rotates. Both are written here, with numpy alone, so that nothing else decides
what is in them.
"""
from __future__ import annotations

import argparse
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from chat import BEGIN, CONTROL, END, PAD, TAGS, template  # noqa: E402
from make_model import I32, STRING, TYPES, Facts, gguf_string, padding  # noqa: E402
from config import Config  # noqa: E402

BLOCK = 32
CONTROL_TOKEN, NORMAL_TOKEN, USER_TOKEN = 3, 1, 4  # GGUF's token types
MODEL_NAME = 'Quill'


def load(path: str) -> tuple[Config, dict[str, np.ndarray]]:
    import torch  # a folder needs none
    state = torch.load(path, map_location='cpu', weights_only=True)
    return Config(**state['config']), {k: v.float().numpy() for k, v in state['model'].items()}


def read_safetensors(path: str) -> dict[str, np.ndarray]:
    """F32 and BF16, as f32."""
    with open(path, 'rb') as f:
        data = f.read()
    n, = struct.unpack_from('<Q', data)
    header, out = json.loads(data[8:8 + n]), {}
    header.pop('__metadata__', None)
    for name, entry in header.items():
        first, last = (8 + n + at for at in entry['data_offsets'])
        raw = np.frombuffer(data[first:last], dtype={'F32': '<f4', 'BF16': '<u2'}[entry['dtype']])
        x = raw if entry['dtype'] == 'F32' else (raw.astype(np.uint32) << 16).view(np.float32)
        out[name] = x.reshape(entry['shape'])
    return out


def load_hf(folder: str) -> tuple[Config, dict[str, np.ndarray]]:
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        h = json.load(f)
    c = Config(n_vocab=h['vocab_size'], n_embd=h['hidden_size'], n_layers=h['num_hidden_layers'], n_heads=h['num_attention_heads'],
               n_kv_heads=h['num_key_value_heads'], head_dim=h['head_dim'], n_ff=h['intermediate_size'],
               n_ctx=h['max_position_embeddings'], rope_theta=h['rope_theta'], norm_eps=h['rms_norm_eps'])
    state: dict[str, np.ndarray] = {}
    for name in sorted(n for n in os.listdir(folder) if n.endswith('.safetensors')):
        state |= read_safetensors(os.path.join(folder, name))
    return c, {k.removeprefix('model.'): v for k, v in state.items()}


# ---- Hugging Face ------------------------------------------------------------------------------------------------

def hf_config(c: Config, dtype: str) -> dict:
    return {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'vocab_size': c.n_vocab, 'hidden_size': c.n_embd,
            'intermediate_size': c.n_ff, 'num_hidden_layers': c.n_layers, 'num_attention_heads': c.n_heads,
            'num_key_value_heads': c.n_kv_heads, 'head_dim': c.head_dim, 'hidden_act': 'silu', 'rms_norm_eps': c.norm_eps,
            'max_position_embeddings': c.n_ctx, 'rope_theta': c.rope_theta, 'rope_scaling': None, 'attention_bias': False,
            'mlp_bias': False, 'tie_word_embeddings': True, 'bos_token_id': 0, 'eos_token_id': 1, 'pad_token_id': 2,
            'initializer_range': 0.02, 'torch_dtype': {'f32': 'float32', 'bf16': 'bfloat16'}[dtype]}


def tokenizer_config() -> dict:
    tokens = {str(i): {'content': t, 'special': t in CONTROL, 'normalized': False, 'lstrip': False, 'rstrip': False,
                       'single_word': False} for i, t in enumerate(CONTROL + TAGS)}
    return {'tokenizer_class': 'PreTrainedTokenizerFast', 'bos_token': BEGIN, 'eos_token': END, 'pad_token': PAD,
            'model_max_length': 8192, 'clean_up_tokenization_spaces': False, 'added_tokens_decoder': tokens,
            'chat_template': template()}


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounded to nearest even, as 16-bit patterns."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path: str, tensors: dict[str, np.ndarray], dtype: str) -> int:
    header: dict = {'__metadata__': {'format': 'pt'}}
    blobs, offset = [], 0
    for name, x in tensors.items():
        data = (to_bf16(x) if dtype == 'bf16' else x.astype(np.float32)).tobytes()
        header[name] = {'dtype': dtype.upper(), 'shape': list(x.shape), 'data_offsets': [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for data in blobs:
            f.write(data)
    return offset


def shards(tensors: dict[str, np.ndarray], dtype: str, limit: int) -> list[dict[str, np.ndarray]]:
    out: list[dict[str, np.ndarray]] = [{}]
    used, width = 0, 2 if dtype == 'bf16' else 4
    for name, x in tensors.items():
        if out[-1] and used + x.size * width > limit:
            out.append({})
            used = 0
        out[-1][name] = x
        used += x.size * width
    return out


def write_json(path: str, value: object) -> None:
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write('\n')


def write_hf(folder: str, c: Config, state: dict[str, np.ndarray], tokenizer: dict, dtype: str, shard_bytes: int) -> None:
    os.makedirs(folder, exist_ok=True)
    parts = shards({'model.' + k: v for k, v in state.items()}, dtype, shard_bytes)
    if len(parts) == 1:
        write_safetensors(os.path.join(folder, 'model.safetensors'), parts[0], dtype)
    else:
        names = [f'model-{i:05}-of-{len(parts):05}.safetensors' for i in range(1, len(parts) + 1)]
        total = sum(write_safetensors(os.path.join(folder, n), p, dtype) for n, p in zip(names, parts))
        where = {tensor: name for name, part in zip(names, parts) for tensor in part}
        write_json(os.path.join(folder, 'model.safetensors.index.json'), {'metadata': {'total_size': total}, 'weight_map': where})
    write_json(os.path.join(folder, 'config.json'), hf_config(c, dtype))
    write_json(os.path.join(folder, 'generation_config.json'), {'bos_token_id': 0, 'eos_token_id': 1, 'pad_token_id': 2})
    write_json(os.path.join(folder, 'tokenizer.json'), tokenizer)
    write_json(os.path.join(folder, 'tokenizer_config.json'), tokenizer_config())
    with open(os.path.join(folder, 'chat_template.jinja'), 'w', encoding='utf-8') as f:
        f.write(template())


# ---- GGUF ----------------------------------------------------------------------------------------------------------

GGUF_NAMES = {'input_layernorm': 'attn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k',
              'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output', 'post_attention_layernorm': 'ffn_norm',
              'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}


def gguf_name(name: str) -> str:
    if name.startswith('layers.'):
        _, layer, rest = name.split('.', 2)
        return f'blk.{layer}.{GGUF_NAMES[rest.removesuffix(".weight")]}.weight'
    return {'embed_tokens.weight': 'token_embd.weight', 'norm.weight': 'output_norm.weight'}[name]


def to_pairs(x: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of each head from (first halves, second halves) to (first, second) pairs."""
    return x.reshape(n_heads, 2, -1, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def q8_0(x: np.ndarray) -> bytes:
    """Blocks of 32: a half scale = largest / 127, then whole numbers, halves rounded away from zero."""
    blocks = x.astype(np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse[:, None]
    out = np.zeros(len(blocks), dtype=[('d', '<f2'), ('q', 'i1', BLOCK)])
    out['d'], out['q'] = scale.astype(np.float16), np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    return out.tobytes()


def tensor_bytes(x: np.ndarray, kind: str) -> tuple[str, bytes]:
    """Norms stay f32 in every file."""
    if x.ndim == 1 or kind == 'f32':
        return 'f32', x.astype('<f4').tobytes()
    if kind == 'q8_0':
        return kind, q8_0(x)
    return kind, (to_bf16(x) if kind == 'bf16' else x.astype('<f2')).tobytes()


def model_facts(c: Config, kind: str, tokenizer: dict, name: str) -> Facts:
    facts = Facts()
    facts.text('general.architecture', 'llama')
    facts.text('general.type', 'model')
    facts.text('general.name', name)
    facts.u32('general.file_type', TYPES[kind][1])
    facts.u32('general.quantization_version', 2)
    for key, value in (('block_count', c.n_layers), ('context_length', c.n_ctx), ('embedding_length', c.n_embd),
                       ('feed_forward_length', c.n_ff), ('attention.head_count', c.n_heads), ('vocab_size', c.n_vocab),
                       ('attention.head_count_kv', c.n_kv_heads), ('attention.key_length', c.head_dim),
                       ('attention.value_length', c.head_dim), ('rope.dimension_count', c.head_dim)):
        facts.u32('llama.' + key, value)
    facts.f32('llama.attention.layer_norm_rms_epsilon', c.norm_eps)
    facts.f32('llama.rope.freq_base', c.rope_theta)
    by_id = sorted(tokenizer['model']['vocab'].items(), key=lambda item: item[1])
    types = [CONTROL_TOKEN if t in CONTROL else USER_TOKEN if t in TAGS else NORMAL_TOKEN for t, _ in by_id]
    merges = [m if isinstance(m, str) else ' '.join(m) for m in tokenizer['model']['merges']]
    facts.text('tokenizer.ggml.model', 'gpt2')
    facts.text('tokenizer.ggml.pre', 'llama-bpe')
    facts.array('tokenizer.ggml.tokens', STRING, len(by_id), b''.join(gguf_string(t) for t, _ in by_id))
    facts.array('tokenizer.ggml.token_type', I32, len(types), struct.pack(f'<{len(types)}i', *types))
    facts.array('tokenizer.ggml.merges', STRING, len(merges), b''.join(map(gguf_string, merges)))
    for key, token in (('bos', BEGIN), ('eos', END), ('eot', END), ('padding', PAD)):
        facts.u32(f'tokenizer.ggml.{key}_token_id', CONTROL.index(token))
    facts.flag('tokenizer.ggml.add_bos_token', True)
    facts.flag('tokenizer.ggml.add_eos_token', False)
    facts.text('tokenizer.chat_template', template())
    return facts


def write_gguf(path: str, facts: Facts, c: Config, state: dict[str, np.ndarray], kind: str) -> None:
    entries, blobs, offset = [], [], 0
    for name, x in state.items():
        if name.endswith(('q_proj.weight', 'k_proj.weight')):
            x = to_pairs(x, c.n_heads if 'q_proj' in name else c.n_kv_heads)
        own, data = tensor_bytes(x, kind)
        extents = x.shape[::-1]
        entries.append(gguf_string(gguf_name(name)) + struct.pack(f'<I{len(extents)}QIQ', len(extents), *extents, TYPES[own][0], offset))
        blobs.append(data + padding(len(data)))
        offset += len(blobs[-1])
    header = b'GGUF' + struct.pack('<IQQ', 3, len(entries), facts.count) + b''.join(facts.parts) + b''.join(entries)
    with open(path + '.tmp', 'wb') as f:
        f.write(header + padding(len(header)) + b''.join(blobs))
    os.replace(path + '.tmp', path)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--checkpoint')
    source.add_argument('--hf-in', help='a folder that this tool wrote')
    parser.add_argument('--tokenizer', help='default: tokenizer.json beside the folder of the checkpoint, or in the folder')
    parser.add_argument('--out', required=True, help='folder: the Hugging Face files in hf/, the GGUF files beside it')
    parser.add_argument('--name', default='quill')
    parser.add_argument('--gguf', nargs='*', choices=sorted(TYPES), default=['q8_0'])
    parser.add_argument('--dtype', choices=['f32', 'bf16'], default='f32', help='of the Hugging Face folder')
    parser.add_argument('--shard-mib', type=int, default=4096)
    args = parser.parse_args(argv)
    c, state = load(args.checkpoint) if args.checkpoint else load_hf(args.hf_in)
    beside = args.hf_in or os.path.dirname(os.path.dirname(os.path.abspath(args.checkpoint)))
    with open(args.tokenizer or os.path.join(beside, 'tokenizer.json'), encoding='utf-8') as f:
        tokenizer = json.load(f)
    write_hf(os.path.join(args.out, 'hf'), c, state, tokenizer, args.dtype, args.shard_mib << 20)
    for kind in args.gguf:
        path = os.path.join(args.out, f'{args.name}-{kind}.gguf')
        write_gguf(path, model_facts(c, kind, tokenizer, MODEL_NAME), c, state, kind)
        print(f'{path}: {os.path.getsize(path)} bytes')


if __name__ == '__main__':
    main(sys.argv[1:])
