# Model folders and GGUF files with one thing wrong each. A server refuses with one sentence that names the file, the key or
# tensor, what was found and what is wanted, while it may have few addresses: before anything of that size is allocated.
import json
import os
import resource
import struct
import subprocess
import tempfile
import unittest

from quire_server import ROOT, binary
from test_states import MODELS, served

ADDRESSES = 1 << 30
DENSE, NATURAL, GEMMA, MIXTRAL, GROUPS, LATENT, HYBRID, DELTA = ('qwen3', 'olmo2', 'gemma3', 'mixtral', 'deepseek2-groups', 'deepseek2',
                                                                'granitehybrid', 'qwen35')
# Which folder, what its config.json says, and the key that is named with what was found and what is wanted.
CONFIGS = [
    (DENSE, {'num_hidden_layers': 0}, 'key "num_hidden_layers": must be an integer in [1, 4096], is 0'),
    (DENSE, {'num_hidden_layers': 10**9}, 'must be an integer in [1, 4096], is 1000000000'),
    (DENSE, {'num_hidden_layers': 'two'}, 'is the string "two"'),
    (DENSE, {'num_hidden_layers': 3}, 'tensor "model.layers.2.self_attn.q_norm.weight": is missing, shape [24] wanted'),
    (DENSE, {'hidden_size': 1 << 40}, 'key "hidden_size": must be an integer in [1, 1048576], is 1099511627776'),
    (DENSE, {'hidden_size': 63}, '.weight": has shape [64], [63] wanted'),
    (DENSE, {'num_attention_heads': 3}, 'key "num_attention_heads": 3 is no multiple of "num_key_value_heads", which is 2'),
    (DENSE, {'head_dim': 100000}, 'key "head_dim": must be an integer in [1, 576], is 100000'),
    (DENSE, {'head_dim': 15}, 'key "head_dim": must be even, at least 2, is 15'),
    (NATURAL, {'hidden_size': 36}, 'key "hidden_size": 36 by "num_attention_heads", which is 4, makes heads of 9 numbers: must be even'),
    (DENSE, {'intermediate_size': -1}, 'key "intermediate_size": must be an integer in [1, 4194304], is -1'),
    (DENSE, {'max_position_embeddings': 0}, 'key "max_position_embeddings": must be an integer in [1, 268435456], is 0'),
    (DENSE, {'rms_norm_eps': -1}, 'key "rms_norm_eps": must be a number in [0.000000, 1.000000], is -1'),
    (DENSE, {'rope_parameters': {'rope_type': 'spiral', 'rope_theta': 1e4}}, 'rope_type": "spiral" is not supported; known: default'),
    (DENSE, {'rope_parameters': {'rope_type': 'default', 'rope_theta': 0}}, 'rope_theta": must be a number in [1.0'),
    (DENSE, {'hidden_act': 'sine'}, 'key "hidden_act": "sine" is not supported; known: silu'),
    (DENSE, {'model_type': 'perceptron'}, 'key "model_type": "perceptron" is not supported; known: afmoe'),
    (DENSE, {'model_type': 7}, 'key "model_type": must be a string, is 7'),
    (DENSE, {'model_type': 'deepseek_v32'}, '"deepseek_v32" is not supported: an indexer picks the keys'),
    (DENSE, {'quantization_config': {'quant_method': 'quark'}}, 'quant_method": "quark" is not supported (supported: gptq'),
    (DENSE, {'quantization_config': 7}, 'key "quantization_config": must be an object, is 7'),
    (GEMMA, {'layer_types': ['full_attention']}, 'key "layer_types": must have 3 entries, has 1'),
    (GEMMA, {'layer_types': ['full_attention', 'round', 'full_attention']}, '"round" is not supported; known: '),
    (GEMMA, {'sliding_window': -5}, 'key "sliding_window": must be an integer in [0, 1073741824], is -5'),
    (MIXTRAL, {'num_experts_per_tok': 99}, 'key "num_experts_per_tok": must be an integer in [1, 4], is 99'),
    (MIXTRAL, {'num_local_experts': 10**7}, 'key "num_local_experts": must be an integer in [0, 65536], is 10000000'),
    (MIXTRAL, {'num_local_experts': 5}, 'gate.weight": has shape [4, 64], [5, 64] wanted'),
    (GROUPS, {'topk_group': 99}, 'key "topk_group": must be an integer in [0, 3], is 99'),
    (GROUPS, {'n_group': 5}, '"n_group"'),
    (LATENT, {'kv_lora_rank': 10**6}, 'key "kv_lora_rank": must be an integer in [1, 576], is 1000000'),
    (HYBRID, {'layer_types': ['mamba']}, 'key "layer_types": must have 3 entries, has 1'),
    (HYBRID, {'mamba_d_state': 10**9}, 'key "mamba_d_state": must be an integer in [1, 256], is 1000000000'),
    (HYBRID, {'mamba_n_groups': 0}, 'key "mamba_n_groups": must be an integer in [1, 4096], is 0'),
    (DELTA, {'linear_key_head_dim': 10**6}, 'key "linear_key_head_dim": must be an integer in [1, 256], is 1000000'),
]


def header(change):
    """Rewrites the header of a safetensors file by `change`, whatever its length becomes."""
    def write(data):
        n, = struct.unpack('<Q', data[:8])
        tensors = json.loads(data[8:8 + n])
        change(tensors)
        text = json.dumps(tensors).encode()
        return struct.pack('<Q', len(text)) + text + data[8 + n:]
    return write


def tensor(**values):
    return header(lambda tensors: tensors['model.norm.weight'].update(values))


def renamed(name):
    return header(lambda tensors: tensors.update(other=tensors.pop(name)))


FILES = [  # of the folder, what becomes of it
    ('config.json', lambda data: data[:40], 'config.json: '),
    ('config.json', lambda data: b'[1, 2]', 'config.json: must be a JSON object'),
    ('config.json', lambda data: b'[' * 100000, 'config.json: '),
    ('model.safetensors', lambda data: data[:6], "byte 0: the header's length takes 8 bytes, 6 are left"),
    ('model.safetensors', lambda data: b'\xff' * 8 + data[8:], 'is 18446744073709551615, at most 100000000 is taken'),
    ('model.safetensors', lambda data: data[:len(data) // 2], 'the bytes after the header; found ['),
    ('model.safetensors', lambda data: data[:8] + b'!' + data[9:], 'byte 8: the header is no JSON'),
    ('model.safetensors', tensor(dtype='F13'), 'tensor "model.norm.weight": dtype "F13"'),
    ('model.safetensors', tensor(shape=[63]), 'tensor "model.norm.weight": 63 elements of BF16 do not take 128 bytes'),
    ('model.safetensors', tensor(shape=[1 << 62, 1 << 62]), 'tensor "model.norm.weight": shape must be at most 8 positive numbers'),
    ('model.safetensors', tensor(shape=[-1]), 'tensor "model.norm.weight": shape must be at most 8 positive numbers'),
    ('model.safetensors', tensor(data_offsets=[0, 1 << 60]), 'tensor "model.norm.weight": data_offsets must be [begin, end]'),
    ('model.safetensors', tensor(data_offsets=[128, 0]), 'tensor "model.norm.weight": data_offsets must be [begin, end]'),
    ('model.safetensors', renamed('model.norm.weight'), 'tensor "model.norm.weight": is missing, shape [64] wanted'),
    ('model.safetensors', renamed('model.layers.1.mlp.up_proj.weight'), 'tensor "model.layers.1.mlp.up_proj.weight": is missing'),
]


def fact(key, value):
    """Another value of an integer of a GGUF file."""
    def write(data):
        at = data.index(struct.pack('<Q', len(key)) + key.encode()) + 8 + len(key) + 4
        return data[:at] + struct.pack('<I', value) + data[at + 4:]
    return write


def placed(name, offset, code, value):
    """Another number of what a GGUF file says of a tensor, so many bytes behind its name."""
    def write(data):
        at = data.index(name.encode() + b'\x02\0\0\0') + len(name) + offset
        return data[:at] + struct.pack('<' + code, value) + data[at + struct.calcsize(code):]
    return write


NAME = 'blk.0.attn_q.weight'
GGUF = [
    (lambda data: b'GGML' + data[4:], 'byte 0: no model file known here: "GGUF" expected, "GGML" found'),
    (lambda data: data[:4] + struct.pack('<I', 99) + data[8:], 'version 99'),
    (lambda data: data[:8] + struct.pack('<Q', 1 << 50) + data[16:], str(1 << 50)),
    (lambda data: data[:16] + struct.pack('<Q', 1 << 50) + data[24:], str(1 << 50)),
    (lambda data: data[:24] + struct.pack('<Q', 1 << 60) + data[32:], 'byte 24: a key of 1152921504606846976 bytes, must have 1 to 65535'),
    (lambda data: data[:len(data) // 2], 'end beyond the file: data starts at'),
    (lambda data: data[:100], 'byte 24: the list of keys takes 13'),
    (fact('llama.block_count', 0), 'key "llama.block_count": must be an integer in [1, 4096], is 0'),
    (fact('llama.block_count', 3), 'tensor "blk.2.attn_norm.weight": is missing, shape [64] wanted'),
    (fact('llama.attention.head_count', 3), 'key "llama.attention.head_count": 3 is no multiple of'),
    (fact('llama.embedding_length', 1 << 31), 'key "llama.embedding_length": must be an integer in [1, 1048576], is 2147483648'),
    (placed(NAME, 4, 'Q', 1 << 60), f'tensor "{NAME}": byte 1135: more elements than 64 bits count'),
    (placed(NAME, 4, 'Q', 96), f'overlaps tensor "{NAME}"'),
    (placed(NAME, 20, 'I', 999), 'tensor type 999 is unknown'),
    (placed(NAME, 24, 'Q', 1 << 60), f'tensor "{NAME}": byte 1088: offset 1152921504606846976 and 8192 bytes end beyond the file'),
    (placed(NAME, 24, 'Q', 7), f'tensor "{NAME}": byte 1088: offset 7 is no multiple of the alignment 32'),
]


class BadModels(unittest.TestCase):
    def refuse(self, path, *said):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))

        done = subprocess.run([binary(), 'serve', path, '--port', '0', '--kv-memory', '1M', '--threads', '1'], capture_output=True, text=True,
                              timeout=60, check=False, cwd=ROOT, preexec_fn=little, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith('quire: ' + path), last)
        for part in said:
            self.assertIn(part, last)

    def test_of_folders_that_are_well_a_server_comes_up(self):
        """Or it would be the rest of the folder that is refused."""
        for model in sorted({case[0] for case in CONFIGS}):
            with self.subTest(model), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([binary(), 'generate', served(model, folder), '--tokens', '3,4', '--max-tokens', '2'],
                                      capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_folders_facts(self):
        for model, change, said in CONFIGS:
            with self.subTest(f'{model} {change}'), tempfile.TemporaryDirectory() as folder:
                path = served(model, folder)
                config = os.path.join(path, 'config.json')
                with open(config, encoding='utf-8') as file:
                    facts = json.load(file)
                with open(config, 'w', encoding='utf-8') as file:
                    json.dump(facts | change, file)
                self.refuse(path, said)

    def test_a_folders_files(self):
        for number, (name, change, said) in enumerate(FILES):
            with self.subTest(f'{number} {said}'), tempfile.TemporaryDirectory() as folder:
                path = served(DENSE, folder)
                self.rewrite(os.path.join(path, name), os.path.join(path, name), change)
                self.refuse(path, said)

    def test_a_gguf_file(self):
        for number, (change, said) in enumerate(GGUF):
            with self.subTest(f'{number} {said}'), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, 'model.gguf')
                self.rewrite(os.path.join(MODELS, 'llama', 'model.gguf'), path, change)
                self.refuse(path, said)

    @staticmethod
    def rewrite(source, target, change):
        with open(source, 'rb') as file:
            data = file.read()
        with open(target, 'wb') as file:
            file.write(change(data))


if __name__ == '__main__':
    unittest.main()
