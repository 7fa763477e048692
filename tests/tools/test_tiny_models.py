# tools/fixtures/tiny_models.py: numbers as PyTorch draws them, and folders that come back byte for byte.
import hashlib
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools', 'fixtures'))

import tiny_models  # noqa: E402

SCRIPT = os.path.join(ROOT, 'tools', 'fixtures', 'tiny_models.py')
# torch 2.15 on a CPU: torch.randn(n, generator=g), one draw after another, g = torch.Generator().manual_seed(7): n, the
# first numbers and the last.
TORCH = [(40, [-0.8201345, 0.3956312, 0.8989085], [0.6326821, -0.0916772]),
         (3, [1.6148148, 1.9301982, -0.4225015], [1.9301982, -0.4225015]),
         (5, [-0.0831864, -0.983726, -1.2493538], [-0.1882715, 0.2826872]),
         (16, [1.5496191, 0.5989, -0.6376678], [-1.3821985, -0.9632286]), (1, [0.1072415], [0.1072415]),
         (4096, [1.1178118, 1.1285713, 0.1415985], [-0.1557334, -0.7785485])]
DRAWS = [[24, 0.5, 1.0], [3, 0.2, 0.0], [4096, 0.35, 0.0]]


def files_of(folder):
    out = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as file:
            out[name] = file.read()
    return out


def write(folder, **files):
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(folder, name.replace('_', '.')), 'wb') as file:
            file.write(data)


class Noise(unittest.TestCase):
    def test_is_what_torch_draws(self):
        noise = tiny_models.Noise(7)
        for n, first, last in TORCH:
            with self.subTest(n):
                drawn = noise.draw(n)
                self.assertEqual(len(drawn), n)
                for got, want in zip(drawn[:len(first)] + drawn[-len(last):], first + last):
                    self.assertAlmostEqual(got, want, delta=2e-6)

    def test_is_rounded_to_even(self):
        for kind, short in (('bf16', b'\x80\x3f\x82\x3f\x80\xbf'), ('f16', b'\x00\x3c\x08\x3c\x00\xbc')):
            shift = 1 + 2 ** -8 if kind == 'bf16' else 1 + 2 ** -11  # half a step behind one: down, to the even number
            odd = 1 + 3 * 2 ** -8 if kind == 'bf16' else 1 + 2 ** -7
            stored, wide = tiny_models.stored_as(kind, [shift, odd, -1.0])
            self.assertEqual(stored, short)
            self.assertEqual(len(wide), 12)
            self.assertEqual(wide[:4] + wide[8:], b'\x00\x00\x80\x3f\x00\x00\x80\xbf')


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.made, self.kept, self.out = (os.path.join(folder.name, part) for part in ('made', 'kept', 'out'))
        source = tiny_models.source_of({'seed': 3, 'stored': 'bf16', 'draws': DRAWS})
        odd = random.Random(1).randbytes(777)
        rows = b''.join(source[i:i + 64] for i in range(128, 4096, 128))  # every second row
        wrong = source[:1000] + b'\x01\x02' + source[1002:]
        self.files = {'config_json': b'{}\n', 'model_safetensors': odd + wrong + odd[:3], 'model_gguf': odd + rows + source}
        write(os.path.join(self.made, 'a'), **self.files)
        tiny_models.keep(os.path.join(self.made, 'a'), os.path.join(self.kept, 'a'), 3, 'bf16', DRAWS)
        write(self.kept, rope_json=b'[]')

    def run_script(self):
        return subprocess.run([sys.executable, SCRIPT, self.kept, self.out], capture_output=True, text=True)

    def make(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(files_of(os.path.join(self.out, 'a')), files_of(os.path.join(self.made, 'a')))

    def test_come_back_byte_for_byte(self):
        self.make()
        self.assertEqual(sorted(os.listdir(self.out)), ['a', 'rope.json'])
        kept = sum(map(len, files_of(os.path.join(self.kept, 'a')).values()))
        self.assertLess(kept, 4000)

    def test_of_a_right_file_nothing_is_made_anew(self):
        self.make()
        path = os.path.join(self.out, 'a', 'model.gguf')
        before = os.stat(path)
        self.make()
        self.assertEqual((os.stat(path).st_ino, os.stat(path).st_mtime_ns), (before.st_ino, before.st_mtime_ns))

    def test_what_is_wrong_or_was_once_is_mended(self):
        self.make()
        write(os.path.join(self.out, 'a'), model_gguf=b'?', other_json=b'{}')
        write(os.path.join(self.out, 'b'), config_json=b'{}')
        self.make()
        self.assertEqual(sorted(os.listdir(self.out)), ['a', 'rope.json'])

    def test_other_bytes_than_were_kept_are_refused(self):
        path = os.path.join(self.kept, 'a', tiny_models.RECIPE)
        with lzma.open(path) as file:
            recipe = json.load(file)
        recipe['files']['model.gguf']['sha256'] = hashlib.sha256(b'other').hexdigest()
        with lzma.open(path, 'wt') as file:
            json.dump(recipe, file)
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'{path}: model.gguf comes out as other bytes than were kept', done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.out, 'a', 'model.gguf')))


if __name__ == '__main__':
    unittest.main()
