# quire quantize: what it writes, what it says, what it refuses.
import io
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile

from quire_server import ROOT, binary

GOLDEN = os.path.join(ROOT, 'tests', 'golden', 'models')
SHARED = os.environ.get('QUIRE_SHARED', os.path.join(ROOT, '..', 'shared'))
SLICE = os.path.join(SHARED, 'data', 'models', 'quant-slice')
TYPES = ('q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_k', 'q3_k', 'q4_k', 'q5_k', 'q6_k', 'iq4_nl', 'iq4_xs', 'mxfp4',
         'f16', 'bf16')


def quire(*arguments):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300, check=False)


def describe(path):
    return json.loads(quire('inspect', '--json', path).stdout)


def tensor_bytes(path):
    """name: (type, bytes) of a GGUF file without facts of nested arrays."""
    with open(path, 'rb') as f:
        data = f.read()
    at = 8

    def take(code):
        nonlocal at
        value, = struct.unpack_from('<' + code, data, at)
        at += struct.calcsize('<' + code)
        return value

    def text():
        nonlocal at
        n = take('Q')
        at += n
        return data[at - n:at].decode()

    def skip(kind):
        if kind == 8:
            text()
        elif kind == 9:
            element, count = take('I'), take('Q')
            for _ in range(count):
                skip(element)
        else:
            take({0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}[kind])

    n_tensors, n_facts = take('Q'), take('Q')
    for _ in range(n_facts):
        text()
        skip(take('I'))
    entries = []
    for _ in range(n_tensors):
        name = text()
        extents = [take('Q') for _ in range(take('I'))]
        entries.append((name, extents, take('I'), take('Q')))
    start = (at + 31) // 32 * 32
    ends = sorted(offset for *_, offset in entries) + [len(data) - start]
    return {name: (kind, data[start + offset:start + ends[ends.index(offset) + 1]], extents)
            for name, extents, kind, offset in entries}


class Quantize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, 'm.gguf')
        tool = os.path.join(ROOT, 'tools', 'make_model.py')
        subprocess.run(['python3', tool, '--shape', 'custom', '--n-embd', '256', '--head-dim', '64', '--n-heads', '4',
                        '--n-kv-heads', '2', '--n-ff', '288', '--n-layers', '1', '--n-vocab', '400', '--out', cls.model],
                       check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_every_type_is_written_runs_and_is_reported(self):
        tokens = ['--tokens', '1,300,301,302']
        for kind in TYPES:
            with self.subTest(kind):
                out = self.path(kind + '.gguf')
                done = quire('quantize', self.model, out, kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                types = {entry['type']: entry for entry in describe(out)['weights']['types']}
                self.assertTrue(all(entry['supported'] for entry in types.values()))
                self.assertIn(kind, types)
                self.assertIn('f32', types, 'norms are kept')
                line = next(text for text in done.stdout.splitlines() if text.startswith('blk.0.attn_q.weight'))
                self.assertRegex(line, r'256 x 256 +f32 +to ' + kind + r' +error 0\.\d{5}, at most ')
                # Rows of 288 are no whole super-blocks: the next larger format, and it is said.
                down = next(text for text in done.stdout.splitlines() if text.startswith('blk.0.ffn_down.weight'))
                self.assertEqual('no whole blocks' in down, kind.endswith('_k') or kind == 'iq4_xs', down)
                logits = quire('logits', out, *tokens, '--out', self.path('logits.npy'))
                self.assertEqual(logits.returncode, 0, logits.stderr)

    def test_a_folder_becomes_a_file_that_answers_the_same(self):
        for name in sorted(os.listdir(GOLDEN)):
            folder = os.path.join(GOLDEN, name)
            if not os.path.isdir(folder):
                continue
            with self.subTest(name), open(os.path.join(folder, 'expected.json'), encoding='utf-8') as file:
                run = json.load(file)['runs'][0]
                out = self.path(name + '.gguf')
                done = quire('quantize', folder, out, 'f32')
                self.assertEqual(done.returncode, 0, done.stderr)
                told = describe(out)
                self.assertEqual(told['arch'], 'llama' if name == 'mistral' else name)
                self.assertEqual([entry['type'] for entry in told['weights']['types']], ['f32'])
                done = quire('generate', out, '--json', '--max-tokens', '24', '--kv-type', 'f32', '--tokens',
                             ','.join(map(str, run['prompt_ids'])))
                self.assertEqual(json.loads(done.stdout)['tokens'], run['greedy_ids'][:24], done.stderr)
                self.assertEqual(quire('quantize', folder, self.path('small.gguf'), 'q4_k').returncode, 0)

    def test_a_folders_tokenizer_goes_along(self):
        folder, out = self.path('folder'), self.path('folder.gguf')
        shutil.copytree(os.path.join(GOLDEN, 'llama'), folder)
        shutil.copy(os.path.join(ROOT, 'models', 'tokenizer.json'), folder)
        with open(os.path.join(folder, 'tokenizer_config.json'), 'w', encoding='utf-8') as file:
            json.dump({'bos_token': '<|begin|>', 'add_bos_token': True, 'tokenizer_class': 'LlamaTokenizer',
                       'chat_template': '{{ messages[0].content }}!'}, file)
        self.assertEqual(quire('quantize', folder, out, 'q8_0').returncode, 0)
        arguments = ('--text', 'Grüße, <|end|> 12 Öfen', '--add-special')
        whole = quire('tokenize', folder, *arguments)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(quire('tokenize', out, *arguments).stdout, whole.stdout)
        # And on into another type, as every GGUF file's facts do.
        self.assertEqual(quire('quantize', out, self.path('again.gguf'), 'q4_0').returncode, 0)
        self.assertEqual(quire('tokenize', self.path('again.gguf'), *arguments).stdout, whole.stdout)

    def test_a_broken_folder_writes_nothing(self):
        folder, out = self.path('broken'), self.path('broken.gguf')
        shutil.copytree(os.path.join(GOLDEN, 'llama'), folder)
        config = os.path.join(folder, 'config.json')
        with open(config, encoding='utf-8') as file:
            facts = json.load(file)
        for change, message in (({'num_attention_heads': 3, 'num_key_value_heads': 3}, 'blk.0.attn_k.weight'),
                                ({'model_type': 'mamba'}, '"mamba" is not supported')):
            with open(config, 'w', encoding='utf-8') as file:
                json.dump({**facts, **change}, file)
            done = quire('quantize', folder, out, 'q8_0')
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertFalse(os.path.exists(out))

    def test_what_it_refuses(self):
        for arguments, message in (
                ((self.model, self.path('x'), 'q9_9'), 'TYPE "q9_9" is unknown (known: bf16, f16, f32, iq4_nl'),
                ((self.path('none'), self.path('x'), 'q4_0'), 'none'),
                ((self.model, self.path('x'), 'q4_0', '--threads', '-1'), '--threads must be at least 0, got -1'),
                ((self.model, self.path('no/folder/x'), 'q4_0'), 'no/folder/x')):
            done = quire('quantize', *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(message, done.stderr)
            self.assertFalse(os.path.exists(self.path('x')))

    @unittest.skipUnless(os.path.exists(SLICE), f'no test data at {SLICE}')
    def test_real_rows_decode_to_their_truth(self):
        out = self.path('slice.gguf')
        done = quire('quantize', os.path.join(SLICE, 'slice.gguf'), out, 'f32')
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = tensor_bytes(out)
        checked = 0
        with zipfile.ZipFile(os.path.join(SLICE, 'dequantized_truth.npz')) as archive:
            for entry in archive.namelist():
                npy = io.BytesIO(archive.read(entry))
                npy.seek(8)
                n_header, = struct.unpack('<H', npy.read(2))
                self.assertIn("'<f4'", npy.read(n_header).decode())
                wanted = npy.read()
                kind, got, _ = tensors[entry[:-len('.npy')]]
                self.assertEqual(kind, 0)
                self.assertEqual(got[:len(wanted)], wanted, entry)
                checked += 1
        self.assertGreaterEqual(checked, 2)


if __name__ == '__main__':
    unittest.main()
