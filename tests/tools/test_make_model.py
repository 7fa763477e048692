# tools/make_model.py: its files hold what they promise, the same in every type and on every run.
import hashlib
import math
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, 'tools', 'make_model.py')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))

from gguf_reader import Gguf  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, 'tools'))

import make_model  # noqa: E402


def make(out, *arguments):
    return subprocess.run([sys.executable, TOOL, '--out', out, *arguments], capture_output=True, text=True, check=False)


class MakeModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = {}
        for kind in ('f32', 'f16', 'bf16', 'q8_0'):
            path = os.path.join(cls.folder.name, kind + '.gguf')
            done = make(path, '--type', kind, '--seed', '7')
            assert done.returncode == 0, done.stderr
            cls.files[kind] = Gguf(path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_type_holds_the_same_values(self):
        exact = self.files['f32']
        for name, (dims, _, _) in exact.tensors.items():
            want = exact.values(name)
            self.assertEqual(self.files['q8_0'].values(name), want, name)
            for kind, error in (('f16', 2.0 ** -11), ('bf16', 2.0 ** -8)):
                for a, b in zip(self.files[kind].values(name), want):
                    self.assertLessEqual(abs(a - b), abs(b) * error + 1e-9, (kind, name))
            if len(dims) == 2:
                spread = (sum(v * v for v in want) / len(want)) ** 0.5
                self.assertAlmostEqual(spread * dims[0] ** 0.5, 1.0, delta=0.03, msg=name)

    def test_rows_differ(self):
        values = self.files['f32'].values('token_embd.weight')
        rows = {tuple(values[i:i + 64]) for i in range(0, len(values), 64)}
        self.assertEqual(len(rows), 1024)

    def test_facts_agree_with_the_tensors(self):
        model = self.files['f32']
        self.assertEqual((model.magic, model.version), (b'GGUF', 3))
        facts = model.facts
        self.assertEqual(facts['general.name'], 'random (seed 7)')
        self.assertEqual(model.tensors['token_embd.weight'][0], [facts['llama.embedding_length'], facts['llama.vocab_size']])
        head_dim = facts['llama.attention.key_length']
        self.assertEqual(model.tensors['blk.1.attn_k.weight'][0],
                         [facts['llama.embedding_length'], facts['llama.attention.head_count_kv'] * head_dim])
        self.assertNotIn(f'blk.{facts["llama.block_count"]}.attn_k.weight', model.tensors)
        self.assertIn('output.weight', model.tensors)

    def test_any_text_has_tokens(self):
        facts = self.files['f32'].facts
        tokens, types = facts['tokenizer.ggml.tokens'], facts['tokenizer.ggml.token_type']
        self.assertEqual(len(tokens), 1024)
        self.assertEqual(len(set(tokens)), len(tokens))
        self.assertEqual(len(facts['tokenizer.ggml.scores']), len(tokens))
        self.assertEqual([t for t, kind in zip(tokens, types) if kind == 6], [f'<0x{b:02X}>' for b in range(256)])
        known = set(tokens)
        for token, kind in zip(tokens, types):  # a piece is reached by joining two shorter ones
            if kind == 1 and len(token) > 1:
                splits = ((token[:i], token[i:]) for i in range(1, len(token)))
                self.assertTrue(any(a in known and b in known for a, b in splits), token)

    def test_the_seed_decides(self):
        def digest(*arguments):
            path = os.path.join(self.folder.name, 'again.gguf')
            self.assertEqual(make(path, *arguments).returncode, 0)
            with open(path, 'rb') as f:
                return hashlib.sha256(f.read()).hexdigest()
        first = hashlib.sha256(self.files['f32'].data).hexdigest()
        self.assertEqual(digest('--seed', '7'), first)
        self.assertNotEqual(digest('--seed', '8'), first)

    def test_other_shapes(self):
        path = os.path.join(self.folder.name, 'custom.gguf')
        done = make(path, '--shape', 'custom', '--n-embd', '96', '--n-layers', '3', '--n-heads', '6', '--n-kv-heads', '3',
                    '--n-ff', '128', '--n-vocab', '2000', '--tied', '--type', 'q8_0')
        self.assertEqual(done.returncode, 0, done.stderr)
        model = Gguf(path)
        self.assertEqual(model.tensors['token_embd.weight'][0], [96, 2000])
        self.assertEqual(model.tensors['blk.2.attn_v.weight'][0], [96, 48])
        self.assertNotIn('output.weight', model.tensors)

    def test_a_qwen3_has_its_norms_on_heads_and_its_number_of_parameters(self):
        path = os.path.join(self.folder.name, 'qwen3.gguf')
        done = make(path, '--shape', 'qwen3-0.6b', '--n-layers', '2', '--n-vocab', '1000', '--type', 'q8_0')
        self.assertEqual(done.returncode, 0, done.stderr)
        model = Gguf(path)
        self.assertEqual(model.facts['general.architecture'], 'qwen3')
        self.assertEqual(model.facts['qwen3.rope.freq_base'], 1e6)
        self.assertEqual(model.facts['qwen3.attention.key_length'], 128)
        self.assertEqual(model.tensors['blk.1.attn_q.weight'][0], [1024, 2048])
        self.assertEqual(model.tensors['blk.1.attn_k_norm.weight'][0], [128])
        self.assertNotIn('output.weight', model.tensors)
        whole = make_model.model_tensors(make_model.SHAPES['qwen3-0.6b'])
        self.assertEqual(sum(math.prod(dims) for _, dims in whole), 596_049_920)

    def test_a_deepseek_has_one_row_for_all_heads_and_its_number_of_parameters(self):
        path = os.path.join(self.folder.name, 'deepseek2.gguf')
        done = make(path, '--shape', 'deepseek-v2-lite', '--n-layers', '1', '--n-vocab', '1000', '--type', 'q8_0')
        self.assertEqual(done.returncode, 0, done.stderr)
        model = Gguf(path)
        self.assertEqual(model.facts['deepseek2.attention.key_length'], 576)
        self.assertEqual(model.facts['deepseek2.attention.key_length_mla'], 192)
        self.assertEqual(model.facts['deepseek2.rope.dimension_count'], 64)
        self.assertEqual(model.tensors['blk.0.attn_k_b.weight'][0], [128, 512, 16])
        self.assertEqual(model.tensors['blk.0.attn_v_b.weight'][0], [512, 128, 16])
        whole = make_model.model_tensors(make_model.SHAPES['deepseek-v2-lite'])
        self.assertEqual(sum(math.prod(dims) for _, dims in whole), 15_706_484_224)

    def test_an_olmoe_has_norms_over_all_heads_and_its_number_of_parameters(self):
        tensors = make_model.model_tensors(make_model.SHAPES['olmoe-1b-7b'])
        self.assertEqual(sum(math.prod(dims) for _, dims in tensors), 6_919_161_856)
        self.assertEqual(dict(tensors)['blk.3.attn_k_norm.weight'], (2048,))

    def test_shapes_of_other_architectures_open_and_give_numbers(self):
        for shape, changed in (('olmoe-1b-7b', ['--n-experts', '8']), ('qwen3.5-hybrid', ['--n-layers', '4']),
                               ('deepseek-v2-lite', ['--n-experts', '8'])):
            path = os.path.join(self.folder.name, shape + '.gguf')
            done = make(path, '--shape', shape, '--n-layers', '2', '--n-vocab', '1000', '--type', 'q8_0', *changed)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run([os.environ['QUIRE_BIN'], 'perplexity', path, '--tokens', ','.join(map(str, range(3, 99)))],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            os.remove(path)

    def test_impossible_shapes_are_refused(self):
        path = os.path.join(self.folder.name, 'none.gguf')
        for arguments, message in ((['--n-embd', '40'], '--n-embd must be a multiple of 32, is 40'),
                                   (['--n-kv-heads', '3'], 'must be a multiple of --n-kv-heads 3'),
                                   (['--n-layers', '0'], '--n-layers must be positive, is 0'),
                                   (['--n-vocab', '100'], '--n-vocab must be at least 354, is 100')):
            done = make(path, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
        self.assertEqual([f for f in os.listdir(self.folder.name) if f.startswith('none')], [])  # nothing was left behind


if __name__ == '__main__':
    unittest.main()
