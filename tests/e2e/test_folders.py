# Hugging Face folders through the program: the same answers as from GGUF, inspected, converted while loading, refused.
import json
import os
import shutil
import tempfile
import unittest

from quire_server import ROOT, golden_folders, quire

MODELS = os.path.join(ROOT, 'build', 'golden', 'models')
SHARED = os.path.join(os.environ.get('QUIRE_SHARED', os.path.join(ROOT, '..', 'shared')), 'data', 'models', 'stories260K')


def generate(model, *args):
    done = quire('generate', model, '--json', '--temp', '0', '--max-tokens', '24', *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Folders(unittest.TestCase):
    @unittest.skipUnless(os.path.isdir(SHARED), 'no shared data')
    def test_a_folder_answers_as_its_gguf_does(self):
        prompt = ['--raw', '--prompt', 'Once upon a time']
        folder = generate(os.path.join(SHARED, 'hf'), *prompt)
        self.assertEqual(folder['text'], generate(os.path.join(SHARED, 'stories260K.gguf'), *prompt)['text'])
        self.assertIn('Lily', folder['text'])

    def test_greedy_tokens_are_the_references(self):
        for found in golden_folders():
            folder = found.removesuffix('/model.gguf')
            with open(os.path.join(folder, 'expected.json'), encoding='utf-8') as file:
                run = json.load(file)['runs'][0]
            tokens = ','.join(map(str, run['prompt_ids']))
            for model in sorted({found, os.path.join(folder, 'model.gguf')}):
                if not os.path.exists(model):  # GGUF has no name for it
                    continue
                with self.subTest(model):
                    self.assertEqual(generate(model, '--tokens', tokens, '--kv-type', 'f32', '--weights', 'f32')['tokens'],
                                     run['greedy_ids'][:24])

    def test_every_format_is_one_to_load_into(self):
        done = quire('registries', '--json')
        for weights in json.loads(done.stdout)['weights']:
            with self.subTest(weights):
                answer = generate(os.path.join(MODELS, 'qwen3'), '--tokens', '1,2,3', '--weights', weights)
                self.assertEqual(len(answer['tokens']), 24)
        done = quire('generate', os.path.join(MODELS, 'qwen3'), '--tokens', '1', '--weights', 'q9')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--weights "q9" is unknown; there are: ', done.stderr)

    def test_inspect_says_what_a_folder_holds(self):
        done = quire('inspect', os.path.join(MODELS, 'llama'), '--json')
        told = json.loads(done.stdout)
        self.assertEqual(told['container'], 'safetensors')
        self.assertEqual(told['hyper']['hidden_size'], 64)
        self.assertEqual(told['weights']['types'][0]['type'], 'BF16')
        self.assertEqual(told['cache']['bytes_per_token'], 2 * 2 * 2 * 16 * 2)  # layers, heads, k and v, dim, bytes of bf16

    def test_a_hybrid_keeps_states_that_are_counted(self):
        path = os.path.join(MODELS, 'granitehybrid')
        told = json.loads(quire('inspect', path, '--json', '--ctx', '64').stdout)
        cache = told['cache']
        self.assertEqual(cache['bytes_per_token'], 2 * 2 * 8 * 2)  # of one layer: k and v, heads, dim, bytes of bf16
        # Of two layers: three rows of 112 columns, and four heads of 16 by 24 numbers.
        self.assertEqual(cache['bytes_per_state'], 2 * (3 * 112 + 4 * 16 * 24) * 4)
        self.assertEqual(cache['bytes'], 64 * cache['bytes_per_token'] + cache['n_states'] * cache['bytes_per_state'])
        self.assertEqual(told['memory']['cache'], cache['bytes'])
        self.assertEqual(len(generate(path, '--tokens', '1,2,3')['tokens']), 24)

    def test_the_cache_is_of_the_weights_type(self):
        for options, kept in (((), 'bf16'), (('--weights', 'q8_0'), 'f16'), (('--weights', 'f16'), 'f16'),
                              (('--kv-type', 'q8'), 'q8'), (('--kv-type', 'bf16', '--weights', 'q4_0'), 'bf16')):
            with self.subTest(options):
                done = quire('inspect', os.path.join(MODELS, 'llama'), '--json', *options)
                self.assertEqual(json.loads(done.stdout)['cache']['kv_type'], kept)
        done = quire('inspect', os.path.join(MODELS, 'llama'), '--kv-type', 'f17')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--kv-type "f17" is unknown; there are: auto bf16 f16 f32 f8 k8v4 (k=q8,v=q4) kivi2 q4 q8', done.stderr)

    def test_refusals_name_folder_and_key(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(MODELS, 'qwen3'), folder, dirs_exist_ok=True)
            config = os.path.join(folder, 'config.json')
            with open(config, encoding='utf-8') as file:
                facts = json.load(file)
            for key, value in (('model_type', 'mamba'), ('hidden_act', 'relu'), ('num_hidden_layers', 0),
                               ('head_dim', 32)):
                with open(config, 'w', encoding='utf-8') as file:
                    json.dump({**facts, key: value}, file)
                done = quire('logits', folder, '--tokens', '1', '--out', os.path.join(folder, 'x.npy'))
                self.assertEqual(done.returncode, 1, key)
                self.assertIn(folder, done.stderr)
                self.assertFalse(os.path.exists(os.path.join(folder, 'x.npy')))


if __name__ == '__main__':
    unittest.main()
