# quire imatrix: what it writes, adds up and refuses, and what quantize makes of it.
import json
import os
import subprocess
import sys
import tempfile
import unittest

from gguf_reader import Gguf
from quire_server import ROOT, quire

MODEL = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
GENERATE = os.path.join(ROOT, 'tools', 'train', 'generate.py')


def sums_of(path):
    """name: numbers, of a file that quire imatrix wrote."""
    file = Gguf(path)
    assert all(kind == 0 for _, kind, _ in file.tensors.values())
    return {name: file.values(name) for name in file.tensors}


@unittest.skipUnless(os.path.exists(MODEL), 'no bundled model')
class Imatrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        lines = subprocess.run([sys.executable, GENERATE, '--train', '120', '--seed', '5'], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        for name, part in (('a.txt', lines[:50]), ('b.txt', lines[50:100]), ('test.txt', lines[100:])):
            with open(os.path.join(cls.folder.name, name), 'w', encoding='utf-8') as file:
                for line in part:
                    file.write('\n'.join(m['content'] or '' for m in json.loads(line)['messages']) + '\n\n')
        for name in ('a', 'b'):
            done = quire('imatrix', MODEL, '--text', cls.path(name + '.txt'), '--out', cls.path(name + '.gguf'))
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def test_every_matrix_has_sums_of_its_inputs(self):
        sums = sums_of(self.path('a.gguf'))
        hyper = json.loads(quire('inspect', MODEL, '--json').stdout)['hyper']
        for layer in range(hyper['block_count']):
            for part in ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'):
                name = f'blk.{layer}.{part}.weight'
                width = hyper['feed_forward_length'] if part == 'ffn_down' else len(sums[name + '.in_sum2'])
                self.assertEqual(len(sums[name + '.in_sum2']), width)
                self.assertTrue(all(v >= 0 for v in sums[name + '.in_sum2']))
                self.assertGreater(sums[name + '.counts'][0], 100)
            self.assertEqual(sums[f'blk.{layer}.attn_q.weight.in_sum2'], sums[f'blk.{layer}.attn_v.weight.in_sum2'])

    def test_files_add_up_and_a_run_goes_on_from_one(self):
        merged, on = self.path('merged.gguf'), self.path('on.gguf')
        done = quire('imatrix', '--in', self.path('a.gguf'), '--in', self.path('b.gguf'), '--out', merged)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = quire('imatrix', MODEL, '--in', self.path('a.gguf'), '--text', self.path('b.txt'), '--out', on)
        self.assertEqual(done.returncode, 0, done.stderr)
        a, b, both, went_on = (sums_of(p) for p in (self.path('a.gguf'), self.path('b.gguf'), merged, on))
        for name, values in both.items():
            for x, y, z, w in zip(a[name], b[name], values, went_on[name]):
                self.assertAlmostEqual(x + y, z, delta=1e-6 * z)
                self.assertAlmostEqual(z, w, delta=1e-6 * z)

    def test_what_matters_comes_nearer(self):
        base = self.path('base.kl')
        self.assertEqual(quire('perplexity', MODEL, '--text', self.path('test.txt'), '--kl-base-out', base).returncode, 0)
        kl = []
        for extra in ([], ['--imatrix', self.path('a.gguf')]):
            done = quire('quantize', MODEL, self.path('q.gguf'), 'q2_k', '--force', *extra)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = quire('perplexity', self.path('q.gguf'), '--text', self.path('test.txt'), '--kl-base', base, '--json')
            kl.append(json.loads(done.stdout)['kl_mean'])
        self.assertLess(kl[1], 0.98 * kl[0])
        facts = json.loads(quire('inspect', self.path('q.gguf'), '--json').stdout)['facts']
        self.assertEqual(facts['quantize.imatrix.file'], 'a.gguf')

    def test_what_it_refuses(self):
        cut = self.path('cut.gguf')
        with open(self.path('a.gguf'), 'rb') as file:
            data = file.read()
        with open(cut, 'wb') as file:
            file.write(data[:len(data) // 2])
        spoiled = self.path('spoiled.gguf')
        with open(spoiled, 'wb') as file:  # the last tensor is the only one whose end is the file's
            file.write(data.replace(b'.counts', b'.cuonts'))
        out = self.path('none.gguf')
        text = self.path('a.txt')
        for arguments, message in (
                (['imatrix', MODEL, '--text', text], '--out must name the file'),
                (['imatrix', MODEL, '--out', out], 'give --text, --tokens, or files'),
                (['imatrix', MODEL, '--out', out, '--text', text, '--tokens', '1'], 'either --text or --tokens'),
                (['imatrix', MODEL, '--out', out, '--tokens', '1,99999999'], 'token id 99999999 is not in 0'),
                (['imatrix', MODEL, '--out', out, '--text', text, '--ctx', '-1'], '--ctx must be 1 to'),
                (['imatrix', MODEL, '--out', out, '--text', self.path('gone')], 'gone: cannot be read'),
                (['imatrix', '--out', out, '--in', MODEL], 'is no importance matrix: general.type is "model"'),
                (['imatrix', '--out', out, '--in', cut], 'cut.gguf: '),
                (['imatrix', '--out', out, '--in', spoiled], '.counts": is missing'),
                (['quantize', MODEL, out, 'q4_k', '--imatrix', text], 'a.txt: ')):
            with self.subTest(message):
                done = quire(*arguments)
                self.assertEqual(done.returncode, 2 if '-1' in arguments else 1, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertFalse(os.path.exists(out))

    def test_a_matrix_of_another_model_is_refused(self):
        other, out = self.path('other.gguf'), self.path('none.gguf')
        tool = os.path.join(ROOT, 'tools', 'make_model.py')
        subprocess.run([sys.executable, tool, '--shape', 'tiny', '--out', other], check=True, capture_output=True)
        done = quire('quantize', other, out, 'q4_0', '--imatrix', self.path('a.gguf'))
        self.assertEqual(done.returncode, 1)
        self.assertIn('it is of another model', done.stderr)
        self.assertFalse(os.path.exists(out))
        tiny = self.path('tiny.gguf')
        self.assertEqual(quire('imatrix', other, '--tokens', '1,2,3', '--out', tiny).returncode, 0)
        done = quire('imatrix', '--in', self.path('a.gguf'), '--in', tiny, '--out', out)
        self.assertIn('not the same model', done.stderr)


if __name__ == '__main__':
    unittest.main()
