#!/usr/bin/env python3
"""Makes a GGUF model with random weights and a vocabulary of its own, for tests and for measuring speed.

    tools/make_model.py --shape tiny --type f32 --seed 1 --out tiny.gguf
    tools/make_model.py --shape llama-3.2-1b --type q8_0 --out 1b.gguf      other types: quire quantize
    tools/make_model.py --shape qwen3-0.6b --type bf16 --out 0.6b.gguf
    tools/make_model.py --shape tiny --n-embd 256 --n-layers 8 --out mine.gguf

The file is an ordinary Llama (or what the shape is named after): tensor names and keys are the usual ones. It says noise,
but finite noise: a weight is about N(0, 1/n_in), so activations keep their size through the layers. The vocabulary is
SentencePiece-like with the 256 byte tokens, so any text can be tokenised.

The idea that makes it fast: one tape of random whole numbers in [-127, 127], normally distributed, is made from the
seed; every tensor is a stretch of the tape, which is a loop with a prime number of blocks, so that no two rows of a
tensor agree. A value is number * scale with a half-precision scale per tensor, in every type: f32 and q8_0 hold the
same values exactly, f16 and bf16 the same values rounded. Nothing but the standard library is needed.
"""
import argparse
import itertools
import os
import random
import statistics
import struct
import sys

BLOCK = 32
TAPE_BLOCKS = 262139  # prime: 2^18 - 5
SPREAD = 44.0  # standard deviation of the numbers; the largest is then 127
ALIGNMENT = 32
CHUNK = 1 << 22

# GGUF's numbers: tensor types (with general.file_type), and value types.
TYPES = {'f32': (0, 0), 'f16': (1, 1), 'q8_0': (8, 7), 'bf16': (30, 32)}
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

SHAPES = {
    'tiny': dict(n_embd=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, n_ff=192, n_vocab=1024, n_ctx=2048,
                 rope_theta=10000.0, tied=False),
    'llama-3.2-1b': dict(n_embd=2048, n_layers=16, n_heads=32, n_kv_heads=8, head_dim=64, n_ff=8192, n_vocab=128256,
                         n_ctx=131072, rope_theta=500000.0, tied=True),
    'llama-3.1-8b': dict(n_embd=4096, n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128, n_ff=14336, n_vocab=128256,
                         n_ctx=131072, rope_theta=500000.0, tied=False),
    'llama-3.1-70b': dict(n_embd=8192, n_layers=80, n_heads=64, n_kv_heads=8, head_dim=128, n_ff=28672, n_vocab=128256,
                          n_ctx=131072, rope_theta=500000.0, tied=False),
    # Qwen3-0.6B's sizes: heads wider than n_embd / n_heads, with norms of their own on q and k.
    'qwen3-0.6b': dict(arch='qwen3', n_embd=1024, n_layers=28, n_heads=16, n_kv_heads=8, head_dim=128, n_ff=3072,
                       n_vocab=151936, n_ctx=40960, rope_theta=1000000.0, tied=True, head_norms=True),
    # Granite 3.0 1B-A400M's sizes: 32 experts, of which a token uses 8.
    'moe-1b-a400m': dict(n_embd=1024, n_layers=24, n_heads=16, n_kv_heads=8, head_dim=64, n_ff=512, n_vocab=49152,
                         n_ctx=4096, rope_theta=10000.0, tied=True, n_experts=32, n_experts_used=8),
    # OLMoE-1B-7B's sizes: 64 experts, of which a token uses 8; norms over all heads of q and of k.
    'olmoe-1b-7b': dict(arch='olmoe', n_embd=2048, n_layers=16, n_heads=16, n_kv_heads=16, head_dim=128, n_ff=1024, n_vocab=50304,
                        n_ctx=4096, rope_theta=10000.0, tied=False, n_experts=64, n_experts_used=8, row_norms=True),
    # Qwen3.5-0.8B's sizes with a smaller vocabulary: a gated delta rule in three of four layers, 16 states of 128 × 128 each.
    'qwen3.5-hybrid': dict(arch='qwen35', n_embd=1024, n_layers=24, n_heads=8, n_kv_heads=2, head_dim=256, n_rope=64, n_ff=3584,
                           n_vocab=151936, n_ctx=32768, rope_theta=10000000.0, tied=True, head_norms=True, n_state_heads=16,
                           state_dim=128, n_conv=4, period=4),
    # DeepSeek-V2-Lite's sizes: a row of 512 numbers and 64 that turn is all that a token and layer keeps.
    'deepseek-v2-lite': dict(arch='deepseek2', n_embd=2048, n_layers=27, n_heads=16, n_kv_heads=1, head_dim=576,
                             n_ff=10944, n_vocab=102400, n_ctx=32768, rope_theta=10000.0, tied=False, n_experts=64,
                             n_experts_used=6, n_ff_expert=1408, n_ff_shared=2816, n_dense=1, n_latent=512,
                             k_dim=128, v_dim=128),
}
SHAPES['custom'] = SHAPES['tiny']

WORDS = '''the and you that was for are with his they this have from one had word but not what all were when your can said
there use each which she how their will other about out many then them these some her would make like him into time has
look two more write see number way could people than first water been call who oil its now find long down day did get
come made may part over new sound take only little work know place year live back give most very after thing our just
name good sentence man think say great where help through much before line right too mean old any same tell boy follow
came want show also around form three small set put end does another well large must big even such because turn here why
ask went men read need land different home us move try kind hand picture again change off play spell air away animal
house point page letter mother answer found study still learn should world hello once upon story happy girl friend'''.split()

CHAT_TEMPLATE = ("{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")


def grow(pieces, text):
    """Adds a piece and every shorter start of it: merging pairs from the left then reaches the piece."""
    for end in range(2, len(text) + 1):
        pieces.setdefault(text[:end], None)


def syllable_pieces(n_wanted):
    """Made-up pieces, each the sum of two earlier ones: ba, be, ..., baba, ..., with and without a space in front."""
    syllables = [c + v for c in 'bcdfghjklmnpqrstvwxz' for v in 'aeiou']
    pieces = {}
    level = ['▁' + s for s in syllables]
    for s in syllables:
        pieces.setdefault(s, None)
    for s in syllables:
        pieces.setdefault('▁' + s[0], None)
    while len(pieces) < n_wanted:
        for piece in level:
            pieces.setdefault(piece, None)
            if len(pieces) >= n_wanted:
                break
        level = list(itertools.islice((a + b for a in level for b in syllables), n_wanted))
    return list(pieces)


def make_vocabulary(n_vocab):
    """(text, score, type) per token. Scores fall with the rank, as SentencePiece's do: earlier pieces merge first."""
    characters = ['▁'] + [chr(c) for c in range(33, 127)]
    fixed = 3 + 256 + len(characters)
    if n_vocab < fixed:
        raise SystemExit(f'make_model: --n-vocab must be at least {fixed}, is {n_vocab}')
    pieces = {}
    for word in WORDS:
        grow(pieces, '▁' + word)
    for ending in ['ing', 'ed', 'er', 'ly', 'es', 'tion', 'al', 'en', 'in', 'on', 'th', 'ou', 'ea', 'st']:
        grow(pieces, ending)
    pieces = list(pieces)[:n_vocab - fixed]
    if len(pieces) < n_vocab - fixed:
        known = set(pieces)
        more = (p for p in syllable_pieces(n_vocab) if p not in known)
        while len(pieces) < n_vocab - fixed:
            pieces.append(next(more))
    tokens = [('<unk>', 0.0, UNKNOWN), ('<s>', 0.0, CONTROL), ('</s>', 0.0, CONTROL)]
    tokens += [(f'<0x{byte:02X}>', 0.0, BYTE) for byte in range(256)]
    tokens += [(piece, -float(rank), NORMAL) for rank, piece in enumerate(pieces)]
    tokens += [(c, -float(len(pieces) + rank), NORMAL) for rank, c in enumerate(characters)]
    return tokens


def gguf_string(text):
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


class Facts:
    """The key-value part of the header."""

    def __init__(self):
        self.count, self.parts = 0, []

    def add(self, key, kind, data):
        self.count += 1
        self.parts.append(gguf_string(key) + struct.pack('<I', kind) + data)

    def u32(self, key, value):
        self.add(key, U32, struct.pack('<I', value))

    def f32(self, key, value):
        self.add(key, F32, struct.pack('<f', value))

    def flag(self, key, value):
        self.add(key, BOOL, struct.pack('<B', value))

    def text(self, key, value):
        self.add(key, STRING, gguf_string(value))

    def array(self, key, kind, count, data):
        self.add(key, ARRAY, struct.pack('<IQ', kind, count) + data)


def model_facts(shape, seed, file_type):
    facts = Facts()
    arch = shape.get('arch', 'llama')
    facts.text('general.architecture', arch)
    facts.text('general.type', 'model')
    facts.text('general.name', f'random (seed {seed})')
    facts.u32('general.file_type', file_type)
    facts.u32('general.quantization_version', 2)
    facts.u32(arch + '.block_count', shape['n_layers'])
    facts.u32(arch + '.context_length', shape['n_ctx'])
    facts.u32(arch + '.embedding_length', shape['n_embd'])
    facts.u32(arch + '.feed_forward_length', shape['n_ff'])
    if shape.get('n_experts'):
        facts.u32(arch + '.expert_count', shape['n_experts'])
        facts.u32(arch + '.expert_used_count', shape['n_experts_used'])
    facts.u32(arch + '.attention.head_count', shape['n_heads'])
    facts.u32(arch + '.attention.head_count_kv', shape['n_kv_heads'])
    facts.u32(arch + '.attention.key_length', shape['head_dim'])
    facts.u32(arch + '.attention.value_length', shape.get('n_latent', shape['head_dim']))
    facts.f32(arch + '.attention.layer_norm_rms_epsilon', 1e-6 if shape.get('head_norms') else 1e-5)
    n_rope = shape.get('n_rope', shape['head_dim'] - shape.get('n_latent', 0))
    facts.u32(arch + '.rope.dimension_count', n_rope)
    if shape.get('n_latent'):
        facts.u32(arch + '.attention.kv_lora_rank', shape['n_latent'])
        facts.u32(arch + '.attention.key_length_mla', shape['k_dim'] + n_rope)
        facts.u32(arch + '.attention.value_length_mla', shape['v_dim'])
        facts.u32(arch + '.leading_dense_block_count', shape['n_dense'])
        facts.u32(arch + '.expert_feed_forward_length', shape['n_ff_expert'])
        facts.u32(arch + '.expert_shared_count', shape['n_ff_shared'] // shape['n_ff_expert'])
        facts.flag(arch + '.expert_weights_norm', False)
    if shape.get('n_state_heads'):
        facts.u32(arch + '.full_attention_interval', shape['period'])
        facts.u32(arch + '.ssm.conv_kernel', shape['n_conv'])
        facts.u32(arch + '.ssm.state_size', shape['state_dim'])
        facts.u32(arch + '.ssm.group_count', shape['n_state_heads'])
        facts.u32(arch + '.ssm.time_step_rank', shape['n_state_heads'])
        facts.u32(arch + '.ssm.inner_size', shape['n_state_heads'] * shape['state_dim'])
        sections = (n_rope // 4, n_rope // 8, n_rope // 8, 0)  # of turns, by time, height and width: of text all the same
        facts.array(arch + '.rope.dimension_sections', I32, 4, struct.pack('<4i', *sections))
    facts.f32(arch + '.rope.freq_base', shape['rope_theta'])
    facts.u32(arch + '.vocab_size', shape['n_vocab'])
    tokens = make_vocabulary(shape['n_vocab'])
    texts, scores, types = zip(*tokens)
    facts.text('tokenizer.ggml.model', 'llama')
    facts.text('tokenizer.ggml.pre', 'default')
    facts.array('tokenizer.ggml.tokens', STRING, len(texts), b''.join(map(gguf_string, texts)))
    facts.array('tokenizer.ggml.scores', F32, len(scores), struct.pack(f'<{len(scores)}f', *scores))
    facts.array('tokenizer.ggml.token_type', I32, len(types), struct.pack(f'<{len(types)}i', *types))
    facts.u32('tokenizer.ggml.bos_token_id', 1)
    facts.u32('tokenizer.ggml.eos_token_id', 2)
    facts.u32('tokenizer.ggml.unknown_token_id', 0)
    facts.flag('tokenizer.ggml.add_bos_token', True)
    facts.flag('tokenizer.ggml.add_eos_token', False)
    facts.flag('tokenizer.ggml.add_space_prefix', True)
    facts.text('tokenizer.chat_template', CHAT_TEMPLATE)
    return facts


def state_tensors(shape, block):
    embd, heads, width = shape['n_embd'], shape['n_state_heads'], shape['n_state_heads'] * shape['state_dim']
    return [(block + 'attn_qkv.weight', (embd, 3 * width)), (block + 'attn_gate.weight', (embd, width)),
            (block + 'ssm_conv1d.weight', (shape['n_conv'], 3 * width)), (block + 'ssm_dt.bias', (heads,)), (block + 'ssm_a', (heads,)),
            (block + 'ssm_beta.weight', (embd, heads)), (block + 'ssm_alpha.weight', (embd, heads)),
            (block + 'ssm_norm.weight', (shape['state_dim'],)), (block + 'ssm_out.weight', (width, embd))]


def attention_tensors(shape, block):
    embd, heads = shape['n_embd'], shape['n_heads']
    if shape.get('n_latent'):
        row, latent, k, v = shape['head_dim'], shape['n_latent'], shape['k_dim'], shape['v_dim']
        return [(block + 'attn_q.weight', (embd, heads * (k + row - latent))), (block + 'attn_kv_a_mqa.weight', (embd, row)),
                (block + 'attn_kv_a_norm.weight', (latent,)), (block + 'attn_k_b.weight', (k, latent, heads)),
                (block + 'attn_v_b.weight', (latent, v, heads)), (block + 'attn_output.weight', (heads * v, embd))]
    q, kv = heads * shape['head_dim'], shape['n_kv_heads'] * shape['head_dim']
    # beside each head of a model with states lies its gate
    return [(block + 'attn_q.weight', (embd, 2 * q if shape.get('n_state_heads') else q)), (block + 'attn_k.weight', (embd, kv)),
            (block + 'attn_v.weight', (embd, kv)), (block + 'attn_output.weight', (q, embd))]


def qk_norms(shape, block):
    q, k = (shape['head_dim'] * (1 if shape.get('head_norms') else shape[n]) for n in ('n_heads', 'n_kv_heads'))
    return [(block + 'attn_q_norm.weight', (q,)), (block + 'attn_k_norm.weight', (k,))]


def unit_tensors(shape, block, kind, ff, each=()):
    embd = shape['n_embd']
    return [(f'{block}ffn_gate{kind}.weight', (embd, ff, *each)), (f'{block}ffn_up{kind}.weight', (embd, ff, *each)),
            (f'{block}ffn_down{kind}.weight', (ff, embd, *each))]


def model_tensors(shape):
    """(name, extents innermost first); a single extent is a norm, kept in f32, and so are a router and what rows are convolved with."""
    embd, ff = shape['n_embd'], shape['n_ff']
    tensors = [('token_embd.weight', (embd, shape['n_vocab']))]
    for layer in range(shape['n_layers']):
        block = f'blk.{layer}.'
        keeps_state = shape.get('n_state_heads') and (layer + 1) % shape['period'] != 0
        tensors += [(block + 'attn_norm.weight', (embd,)), *(state_tensors if keeps_state else attention_tensors)(shape, block),
                    (block + ('post_attention_norm.weight' if shape.get('n_state_heads') else 'ffn_norm.weight'), (embd,))]
        if not keeps_state and (shape.get('head_norms') or shape.get('row_norms')):
            tensors += qk_norms(shape, block)
        n_experts = shape.get('n_experts', 0) if layer >= shape.get('n_dense', 0) else 0
        if not n_experts:
            tensors += unit_tensors(shape, block, '', ff)
            continue
        tensors.append((block + 'ffn_gate_inp.weight', (embd, n_experts)))
        tensors += unit_tensors(shape, block, '_exps', shape.get('n_ff_expert', ff), (n_experts,))
        if shape.get('n_ff_shared'):
            tensors += unit_tensors(shape, block, '_shexp', shape['n_ff_shared'])
    tensors.append(('output_norm.weight', (embd,)))
    if not shape['tied']:
        tensors.append(('output.weight', (embd, shape['n_vocab'])))
    return tensors


def to_half(value):
    return struct.unpack('<e', struct.pack('<e', value))[0]


def element_bytes(kind, value):
    """A value in the file's type. Ours are whole numbers times a half, exact in f32; bf16 rounds to nearest even."""
    if kind == 'f16':
        return struct.pack('<e', value)
    if kind == 'f32':
        return struct.pack('<f', value)
    bits = struct.unpack('<I', struct.pack('<f', value))[0]
    return struct.pack('<H', (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


class Tape:
    """The loop of random numbers, one signed byte each, and its encodings by type and scale."""

    def __init__(self, seed):
        # 256 equally likely quantiles of the normal distribution: a uniform byte becomes a number by table look-up.
        normal = statistics.NormalDist()
        self.quantiles = [round(SPREAD * normal.inv_cdf((i + 0.5) / 256)) for i in range(256)]
        self.uniform = random.Random(seed).randbytes(TAPE_BLOCKS * BLOCK)
        self.encoded = {}

    def encode(self, kind, n_in):
        """The whole tape in the file's type, for rows of n_in."""
        key = (kind, n_in)
        if key not in self.encoded:
            scale = to_half(1.0 / (SPREAD * n_in ** 0.5))
            self.encoded[key] = self.blocks(scale) if kind == 'q8_0' else self.elements(kind, scale)
        return self.encoded[key]

    def blocks(self, scale):
        numbers = self.uniform.translate(bytes(q & 0xFF for q in self.quantiles))
        out = bytearray(TAPE_BLOCKS * 34)
        low, high = struct.pack('<e', scale)
        out[0::34] = bytes([low]) * TAPE_BLOCKS
        out[1::34] = bytes([high]) * TAPE_BLOCKS
        for i in range(BLOCK):
            out[2 + i::34] = numbers[i::BLOCK]
        return out

    def elements(self, kind, scale):
        values = [element_bytes(kind, q * scale) for q in self.quantiles]
        width = len(values[0])
        out = bytearray(len(self.uniform) * width)
        for i in range(width):
            out[i::width] = self.uniform.translate(bytes(value[i] for value in values))
        return out

    def stretch(self, kind, n_in, n_elements, start_block):
        """The bytes of n_elements from a block on, around the loop, in pieces."""
        tape = memoryview(self.encode(kind, n_in))
        block_bytes = len(tape) // TAPE_BLOCKS
        left = n_elements // BLOCK * block_bytes
        at = start_block % TAPE_BLOCKS * block_bytes
        while left > 0:
            n = min(left, len(tape) - at, CHUNK)
            yield tape[at:at + n]
            left -= n
            at = (at + n) % len(tape)


def element_count(extents):
    count = 1
    for extent in extents:
        count *= extent
    return count


def byte_count(kind, extents):
    n = element_count(extents)
    return n // BLOCK * 34 if kind == 'q8_0' else n * {'f32': 4, 'f16': 2, 'bf16': 2}[kind]


def norm_weights(rng, n, mean):
    return struct.pack(f'<{n}f', *(mean + rng.uniform(-0.25, 0.25) for _ in range(n)))


def padding(n_bytes):
    return b'\0' * (-n_bytes % ALIGNMENT)


def type_of(name, extents, kind):
    return 'f32' if len(extents) == 1 or 'ffn_gate_inp' in name or 'conv1d' in name else kind


def write_model(out, shape, kind, seed):
    facts = model_facts(shape, seed, TYPES[kind][1])
    tensors = model_tensors(shape)
    entries, offset = [], 0
    for name, extents in tensors:
        own = type_of(name, extents, kind)
        entries.append(gguf_string(name) + struct.pack(f'<I{len(extents)}QIQ', len(extents), *extents, TYPES[own][0], offset))
        offset += byte_count(own, extents)
        offset += len(padding(offset))
    header = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), facts.count) + b''.join(facts.parts) + b''.join(entries)
    out.write(header + padding(len(header)))
    rng, tape = random.Random(f'{seed} places'), Tape(seed)
    for name, extents in tensors:
        if len(extents) == 1:
            data = norm_weights(rng, extents[0], -1.0 if name.endswith('ssm_a') else 1.0)
            out.write(data + padding(len(data)))
            continue
        own = type_of(name, extents, kind)
        for piece in tape.stretch(own, extents[0], element_count(extents), rng.randrange(TAPE_BLOCKS)):
            out.write(piece)
        out.write(padding(byte_count(own, extents)))


def check(shape):
    problems = [f'--{key.replace("_", "-")} must be positive, is {value}' for key, value in shape.items()
                if key not in ('arch', 'tied', 'head_norms', 'row_norms') and value <= 0]
    if not problems:
        if shape['n_heads'] % shape['n_kv_heads']:
            problems.append(f'--n-heads {shape["n_heads"]} must be a multiple of --n-kv-heads {shape["n_kv_heads"]}')
        if shape['head_dim'] % 16:
            problems.append(f'--head-dim must be a multiple of 16, is {shape["head_dim"]}')
        for key, value in (('--n-embd', shape['n_embd']), ('--n-ff', shape['n_ff']),
                           ('--n-heads * --head-dim', shape['n_heads'] * shape['head_dim'])):
            if value % BLOCK:
                problems.append(f'{key} must be a multiple of {BLOCK}, is {value}')
    if problems:
        raise SystemExit('make_model: ' + '; '.join(problems))


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--shape', choices=sorted(SHAPES), default='tiny', help='custom: tiny, to be changed by the rest')
    parser.add_argument('--type', choices=sorted(TYPES), default='f32', help='of the matrices; norms are always f32')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--out', required=True)
    for key in ('n_embd', 'n_layers', 'n_heads', 'n_kv_heads', 'head_dim', 'n_ff', 'n_vocab', 'n_ctx', 'n_experts',
                'n_experts_used'):
        parser.add_argument('--' + key.replace('_', '-'), type=int)
    parser.add_argument('--rope-theta', type=float)
    parser.add_argument('--tied', action=argparse.BooleanOptionalAction, help='use the embedding as the output matrix')
    return parser.parse_args(argv)


def main(argv):
    args = parse_arguments(argv)
    shape = dict(SHAPES[args.shape])
    shape.update({key: getattr(args, key) for key in shape if getattr(args, key, None) is not None})
    check(shape)
    temporary = f'{args.out}.{os.getpid()}.tmp'
    try:
        with open(temporary, 'wb') as out:
            write_model(out, shape, args.type, args.seed)
        os.replace(temporary, args.out)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    print(f'{args.out}: {os.path.getsize(args.out)} bytes')


if __name__ == '__main__':
    main(sys.argv[1:])
