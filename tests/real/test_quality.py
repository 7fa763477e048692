# The default model by perplexity on a text that everybody has, as stored and in every form of cache: what a change of
# kernels or formats would make worse. Skipped where the model or the text is not here.
import json
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = os.path.join(os.environ.get('QUIRE_SHARED') or os.path.join(ROOT, '..', 'shared'), 'data', 'prompts',
                    'tinyshakespeare.txt')
QUIRE = os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != 'QUIRE_MODELS'}
if os.environ.get('QUIRE_REAL_MODELS'):
    ENVIRONMENT['QUIRE_MODELS'] = os.environ['QUIRE_REAL_MODELS']
N_BYTES = 4000
PERPLEXITY = 46.083  # of the text's beginning, weights and cache in float32


def quire(*arguments):
    return subprocess.run([QUIRE, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)


class SmolLm2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = quire('pull', '--offline')
        if found.returncode != 0:
            raise unittest.SkipTest('SmolLM2-135M-Instruct is not here: `quire pull` fetches it')
        cls.model = found.stdout.strip()

    def test_greedy_text(self):
        for options in (('--weights', 'f32', '--kv-type', 'f32'), ('--kv-type', 'f16'), ('--kv-type', 'q8')):
            done = quire('generate', self.model, 'Name the capital of France.', *options, '--temperature', '0',
                         '--max-tokens', '20')
            self.assertEqual(done.stdout, 'The capital of France is Paris.\n', done.stderr)

    @unittest.skipUnless(os.path.exists(TEXT), 'no tinyshakespeare.txt: QUIRE_SHARED names the folder of the data')
    def test_perplexity_and_distance_from_float32(self):
        with tempfile.TemporaryDirectory() as folder:
            text, base = os.path.join(folder, 'text'), os.path.join(folder, 'base')
            with open(TEXT, 'rb') as source, open(text, 'wb') as out:
                out.write(source.read(N_BYTES))

            def measure(*options):
                done = quire('perplexity', self.model, '--text', text, '--ctx', '512', '--json', *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)

            whole = measure('--weights', 'f32', '--kv-type', 'f32', '--kl-base-out', base)
            self.assertAlmostEqual(whole['perplexity'] / PERPLEXITY, 1, delta=0.002)
            for weights, kv_type, most_kl in (('', 'f32', 0.01), ('', 'f16', 0.01), ('', 'q8', 0.012), ('', 'k8v4', 0.03), ('bf16', 'bf16', 0.002),
                                              ('q8_0', 'f16', 0.012)):
                with self.subTest(weights=weights, kv_type=kv_type):
                    found = measure(*(('--weights', weights) if weights else ()), '--kv-type', kv_type, '--kl-base', base)
                    self.assertLess(found['kl_mean'], most_kl)
                    self.assertAlmostEqual(found['perplexity'] / whole['perplexity'], 1, delta=0.01)
                    self.assertGreater(found['same_top'], 0.92)


@unittest.skipUnless(os.path.exists(os.environ.get('QUIRE_GEMMA', '')), 'QUIRE_GEMMA names no file: Gemma 3 270M in Q4_K_M')
@unittest.skipUnless(os.path.exists(TEXT), 'no tinyshakespeare.txt: QUIRE_SHARED names the folder of the data')
class Gemma(unittest.TestCase):
    """Of another family: BOS in front of every window, windows of attention, heads of 256."""

    def test_what_caches_cost(self):
        with tempfile.TemporaryDirectory() as folder:
            text, base = os.path.join(folder, 'text'), os.path.join(folder, 'base')
            with open(TEXT, 'rb') as source, open(text, 'wb') as out:
                out.write(source.read(N_BYTES))

            def measure(*options):
                done = quire('perplexity', os.environ['QUIRE_GEMMA'], '--text', text, '--ctx', '512', '--json', *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)

            whole = measure('--kv-type', 'f32', '--kl-base-out', base)
            self.assertTrue(whole['windows_begin_with_bos'])
            for kv_type, most_kl in (('f16', 0.005), ('q8', 0.006), ('k8v4', 0.02)):
                with self.subTest(kv_type=kv_type):
                    found = measure('--kv-type', kv_type, '--kl-base', base)
                    self.assertLess(found['kl_mean'], most_kl)
                    self.assertAlmostEqual(found['perplexity'] / whole['perplexity'], 1, delta=0.015)


if __name__ == '__main__':
    unittest.main()
