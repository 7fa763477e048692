#!/usr/bin/env python3
"""Writes a trained model as a Hugging Face folder and as GGUF files.

    tools/train/export.py --checkpoint build/train/small/checkpoint.pt --bundle models       what the project ships
    tools/train/export.py --checkpoint build/train/small/checkpoint.pt --out build/train/export --gguf f32 f16 q8_0
    tools/train/export.py … --shard-mib 15 --dtype bf16       the folder in pieces, to be carried one by one
    tools/train/export.py --hf-in FOLDER --out …              from such a folder instead of a checkpoint
    tools/train/export.py --gguf-in models/quill-q8_0.gguf --out … --gguf      the folder, from the file itself

The folder is F32 (or BF16), config, tokenizer and chat template beside it. In GGUF the rows of q and k are turned from
halves to pairs, which is how its llama rotates. Q4_K is `quire quantize`'s, made from F32.
"""
from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from chat import BEGIN, CONTROL, END, PAD, TAGS, template  # noqa: E402
from config import SHAPES, Config  # noqa: E402
from make_model import I32, STRING, TYPES, Facts, gguf_string  # noqa: E402
from serving import default_quire  # noqa: E402
from tensor_files import GgufReader, Rows, read_safetensors, rows_of, write_gguf, write_safetensors  # noqa: E402

CONTROL_TOKEN, NORMAL_TOKEN, USER_TOKEN, UNUSED_TOKEN = 3, 1, 4, 5  # GGUF's token types
MODEL_NAME, LICENCE = 'Quill', 'apache-2.0'
DESCRIPTION = 'A small assistant of a closed world, trained on generated text; it comes with Quire'

State = dict[str, np.ndarray]  # by Hugging Face's names without "model."


@dataclass
class Trained:
    config: Config
    state: State
    tokenizer: dict

    @property
    def shape(self) -> str:
        return next((name for name, c in SHAPES.items() if c == self.config), 'custom')

    def n_parameters(self) -> int:
        return sum(x.size for x in self.state.values())


def load_checkpoint(path: str) -> tuple[Config, State]:
    import torch  # folders and GGUF files need none
    state = torch.load(path, map_location='cpu', weights_only=True)
    return Config(**state['config']), {k: v.float().numpy() for k, v in state['model'].items()}


def load_hf(folder: str) -> tuple[Config, State]:
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        h = json.load(f)
    c = Config(n_vocab=h['vocab_size'], n_embd=h['hidden_size'], n_layers=h['num_hidden_layers'], n_heads=h['num_attention_heads'],
               n_kv_heads=h['num_key_value_heads'], head_dim=h['head_dim'], n_ff=h['intermediate_size'],
               n_ctx=h['max_position_embeddings'], rope_theta=h['rope_theta'], norm_eps=h['rms_norm_eps'])
    state: State = {}
    for name in sorted(n for n in os.listdir(folder) if n.endswith('.safetensors')):
        state |= read_safetensors(os.path.join(folder, name))
    return c, {k.removeprefix('model.'): v for k, v in state.items()}


def load_gguf(path: str) -> tuple[Config, State]:
    """A Llama whose output matrix is its embedding: the values that its blocks stand for, names and rows as in training."""
    file = GgufReader(path)
    fact = {k.removeprefix('llama.'): v for k, v in file.facts.items()}
    # f32 in the file: the shortest decimal is what the configuration says
    theta, eps = (float(str(np.float32(fact[k]))) for k in ('rope.freq_base', 'attention.layer_norm_rms_epsilon'))
    head_dim = fact.get('attention.key_length', fact['embedding_length'] // fact['attention.head_count'])
    c = Config(n_vocab=fact['vocab_size'], n_embd=fact['embedding_length'], n_layers=fact['block_count'],
               n_heads=fact['attention.head_count'], n_kv_heads=fact['attention.head_count_kv'],
               head_dim=head_dim, n_ff=fact['feed_forward_length'], n_ctx=fact['context_length'],
               rope_theta=theta, norm_eps=eps)
    state = {}
    for name in state_names(c):
        x = file.tensors[gguf_name(name)]
        if name.endswith(('q_proj.weight', 'k_proj.weight')):
            x = to_halves(x, c.n_heads if 'q_proj' in name else c.n_kv_heads)
        state[name] = x
    return c, state


def state_names(c: Config) -> list[str]:
    layers = [f'layers.{i}.{part}.weight' for i in range(c.n_layers) for part in GGUF_NAMES]
    return ['embed_tokens.weight', *layers, 'norm.weight']


def read_tokenizer(path: str) -> dict:
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def load(args: argparse.Namespace) -> Trained:
    if args.checkpoint:
        c, state = load_checkpoint(args.checkpoint)
        beside = os.path.dirname(os.path.dirname(os.path.abspath(args.checkpoint)))
    elif args.hf_in:
        (c, state), beside = load_hf(args.hf_in), args.hf_in
    else:
        (c, state), beside = load_gguf(args.gguf_in), os.path.dirname(os.path.abspath(args.gguf_in))
    return Trained(c, state, read_tokenizer(args.tokenizer or os.path.join(beside, 'tokenizer.json')))


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


def shards(tensors: dict[str, Rows], dtype: str, limit: int) -> list[dict[str, Rows]]:
    out: list[dict[str, Rows]] = [{}]
    used, width = 0, 2 if dtype == 'bf16' else 4
    for name, x in tensors.items():
        if out[-1] and used + x.n_values() * width > limit:
            out.append({})
            used = 0
        out[-1][name] = x
        used += x.n_values() * width
    return out


def write_json(path: str, value: object) -> None:
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write('\n')


def write_beside(folder: str, config: dict, tokenizer: dict) -> None:
    """What stands in a folder beside the tensors."""
    write_json(os.path.join(folder, 'config.json'), config)
    write_json(os.path.join(folder, 'generation_config.json'), {'bos_token_id': 0, 'eos_token_id': 1, 'pad_token_id': 2})
    write_json(os.path.join(folder, 'tokenizer.json'), tokenizer)
    write_json(os.path.join(folder, 'tokenizer_config.json'), tokenizer_config())
    with open(os.path.join(folder, 'chat_template.jinja'), 'w', encoding='utf-8') as f:
        f.write(template())


def write_hf(folder: str, config: dict, tensors: dict[str, Rows], tokenizer: dict, shard_bytes: int) -> None:
    """Tensors by names without "model."; their type is the configuration's."""
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        if old.startswith('model') and '.safetensors' in old:  # of other shards
            os.remove(os.path.join(folder, old))
    dtype = {'float32': 'f32', 'bfloat16': 'bf16'}[config['torch_dtype']]
    parts = shards({'model.' + k: v for k, v in tensors.items()}, dtype, shard_bytes)
    if len(parts) == 1:
        write_safetensors(os.path.join(folder, 'model.safetensors'), parts[0], dtype)
    else:
        names = [f'model-{i:05}-of-{len(parts):05}.safetensors' for i in range(1, len(parts) + 1)]
        total = sum(write_safetensors(os.path.join(folder, n), p, dtype) for n, p in zip(names, parts))
        where = {tensor: name for name, part in zip(names, parts) for tensor in part}
        write_json(os.path.join(folder, 'model.safetensors.index.json'), {'metadata': {'total_size': total}, 'weight_map': where})
    write_beside(folder, config, tokenizer)


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


def to_halves(x: np.ndarray, n_heads: int) -> np.ndarray:
    """The inverse of to_pairs."""
    return x.reshape(n_heads, -1, 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def gguf_tensors(c: Config, state: State) -> dict[str, Rows]:
    out = {}
    for name, x in state.items():
        if name.endswith(('q_proj.weight', 'k_proj.weight')):
            x = to_pairs(x, c.n_heads if 'q_proj' in name else c.n_kv_heads)
        out[gguf_name(name)] = rows_of(x)
    return out


def size_label(n: int) -> str:
    return f'{n / 1e6:.1f}M' if n < 1e9 else f'{n / 1e9:.1f}B'


def about_facts(facts: Facts, name: str, n_parameters: int, architecture: str = 'llama', kind: str = 'model') -> None:
    facts.text('general.architecture', architecture)
    facts.text('general.type', kind)
    facts.text('general.name', name)
    facts.text('general.basename', MODEL_NAME.lower())
    facts.text('general.size_label', size_label(n_parameters))
    facts.text('general.description', DESCRIPTION)
    facts.text('general.license', LICENCE)


def model_facts(c: Config, kind: str, tokenizer: dict, name: str, n_parameters: int) -> Facts:
    """Where the tokenizer has fewer tokens than the embedding has rows, the rest is named as unused."""
    facts = Facts()
    about_facts(facts, name, n_parameters)
    facts.u32('general.file_type', TYPES[kind][1])
    facts.u32('general.quantization_version', 2)
    for key, value in (('block_count', c.n_layers), ('context_length', c.n_ctx), ('embedding_length', c.n_embd),
                       ('feed_forward_length', c.n_ff), ('attention.head_count', c.n_heads), ('vocab_size', c.n_vocab),
                       ('attention.head_count_kv', c.n_kv_heads), ('attention.key_length', c.head_dim),
                       ('attention.value_length', c.head_dim), ('rope.dimension_count', c.head_dim)):
        facts.u32('llama.' + key, value)
    facts.f32('llama.attention.layer_norm_rms_epsilon', c.norm_eps)
    facts.f32('llama.rope.freq_base', c.rope_theta)
    by_id = [text for text, _ in sorted(tokenizer['model']['vocab'].items(), key=lambda item: item[1])]
    types = [CONTROL_TOKEN if t in CONTROL else USER_TOKEN if t in TAGS else NORMAL_TOKEN for t in by_id]
    types += [UNUSED_TOKEN] * (c.n_vocab - len(by_id))
    by_id += [f'[PAD{i}]' for i in range(len(by_id), c.n_vocab)]
    merges = [m if isinstance(m, str) else ' '.join(m) for m in tokenizer['model']['merges']]
    facts.text('tokenizer.ggml.model', 'gpt2')
    facts.text('tokenizer.ggml.pre', 'llama-bpe')
    facts.array('tokenizer.ggml.tokens', STRING, len(by_id), b''.join(map(gguf_string, by_id)))
    facts.array('tokenizer.ggml.token_type', I32, len(types), struct.pack(f'<{len(types)}i', *types))
    facts.array('tokenizer.ggml.merges', STRING, len(merges), b''.join(map(gguf_string, merges)))
    for key, token in (('bos', BEGIN), ('eos', END), ('eot', END), ('padding', PAD)):
        facts.u32(f'tokenizer.ggml.{key}_token_id', CONTROL.index(token))
    facts.flag('tokenizer.ggml.add_bos_token', True)
    facts.flag('tokenizer.ggml.add_eos_token', False)
    facts.text('tokenizer.chat_template', template())
    return facts


def write_as(path: str, trained: Trained, kind: str, quire: str) -> None:
    """One GGUF file, of a type that tensor_files writes or that `quire quantize` makes of F32."""
    c, name = trained.config, f'{MODEL_NAME} {trained.shape}'
    if kind in TYPES:
        facts = model_facts(c, kind, trained.tokenizer, name, trained.n_parameters())
        write_gguf(path, facts, gguf_tensors(c, trained.state), kind)
    else:
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
            whole = os.path.join(folder, 'f32.gguf')
            write_as(whole, trained, 'f32', quire)
            done = subprocess.run([quire, 'quantize', whole, path, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f'export: {done.stderr.strip()}')
    print(f'{path}: {os.path.getsize(path)} bytes')


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--checkpoint')
    source.add_argument('--hf-in', help='a folder that this tool wrote')
    source.add_argument('--gguf-in', help='a GGUF file that this tool wrote, of f32, f16, bf16 or q8_0')
    parser.add_argument('--tokenizer', help='default: tokenizer.json beside the folder of the checkpoint, in the folder or beside the file')
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument('--out', help='folder: the Hugging Face files in hf/, the GGUF files beside it')
    to.add_argument('--bundle', help='folder: the Q8_0 and Q4_K files and the tokenizer, nothing else')
    parser.add_argument('--name', help='of the GGUF files (default: quill in a bundle, else quill-SHAPE)')
    parser.add_argument('--gguf', nargs='*', metavar='TYPE', help='f32, f16, bf16, q8_0 or one that `quire quantize` knows (default: q8_0)')
    parser.add_argument('--dtype', choices=['f32', 'bf16'], default='f32', help='of the Hugging Face folder')
    parser.add_argument('--shard-mib', type=int, default=4096)
    parser.add_argument('--quire', default=default_quire(), help='the program, for types such as q4_k (default: QUIRE_BIN, build/release/quire)')
    args = parser.parse_args(argv)
    trained = load(args)
    folder = args.bundle or args.out
    os.makedirs(folder, exist_ok=True)
    name = args.name or ('quill' if args.bundle else 'quill-' + trained.shape)
    kinds = ['q8_0', 'q4_k'] if args.bundle else ['q8_0'] if args.gguf is None else args.gguf
    for kind in kinds:
        write_as(os.path.join(folder, f'{name}-{kind}.gguf'), trained, kind, args.quire)
    if args.bundle:
        write_json(os.path.join(folder, 'tokenizer.json'), trained.tokenizer)
    else:
        tensors = {name: rows_of(x) for name, x in trained.state.items()}
        write_hf(os.path.join(folder, 'hf'), hf_config(trained.config, args.dtype), tensors, trained.tokenizer, args.shard_mib << 20)


if __name__ == '__main__':
    main(sys.argv[1:])
