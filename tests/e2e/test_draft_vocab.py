# A draft model that can write some of its tokens alone (--draft-vocab): the same answers as without, tokens that come most are
# better than the lowest ids, memory as predicted, and what cannot be is refused by name.
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import test_spec
from gguf_reader import Gguf
from quire_server import BUNDLED, ROOT, Server, binary, quire

DRAFT = test_spec.DRAFT


@unittest.skipUnless(os.path.exists(BUNDLED) and os.path.exists(DRAFT), 'the bundled models are not here')
class DraftVocabulary(unittest.TestCase):
    def answers(self, *options):
        server = Server(*options, path=BUNDLED)
        try:
            replies = test_spec.ask_all(server)
            if 'off' not in options:
                self.assertIn('quire_spec_decode_bad_drafts_total 0', server.get('/metrics')[2])
        finally:
            self.assertEqual(server.stop(), 0)
        details = [r['usage'].get('completion_tokens_details', {}) for r in replies]
        return test_spec.texts(replies), sum(d.get('accepted_prediction_tokens', 0) for d in details)

    def n_vocab(self):
        return Gguf(DRAFT).tensors['token_embd.weight'][0][1]

    def frequent(self, folder, text, keep):
        """The file of a draft's tokens that come most in a text, and what was said of it."""
        texts, out = os.path.join(folder, 'texts'), os.path.join(folder, 'vocabulary.safetensors')
        with open(texts, 'w', encoding='utf-8') as file:
            file.write(text)
        done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'train', 'frequent_tokens.py'), DRAFT, texts, '--keep',
                               str(keep), '--out', out, '--quire', binary()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, done.stdout

    def test_answers_are_the_same_and_counts_are_better_than_ids(self):
        truth, _ = self.answers('--draft', DRAFT, '--spec', 'off', '--draft-vocab', '700')
        guess = ('--draft', DRAFT, '--spec-depth', '4', '--draft-vocab')
        told, lowest = self.answers(*guess, '700')
        self.assertEqual(told, truth)
        with tempfile.TemporaryDirectory() as folder:
            out, said = self.frequent(folder, '\n'.join(truth), 700)
            self.assertIn('700 tokens, 100.00 %', said)
            link = os.path.join(folder, 'elsewhere', 'link.safetensors')
            os.mkdir(os.path.dirname(link))
            os.symlink(out, link)
            told, counted = self.answers(*guess, link)
        self.assertEqual(told, truth)
        self.assertGreater(counted, lowest)
        self.assertGreater(counted, 100)

    def test_what_is_counted_are_tokens_of_the_draft_and_its_ends(self):
        def tokens(path):
            with open(path, 'rb') as file:
                data = file.read()
            (n,) = struct.unpack('<Q', data[:8])
            offsets = struct.unpack(f'<{(len(data) - 8 - n) // 8}q', data[8 + n:])
            return [i + offset for i, offset in enumerate(offsets)]
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(tokens(self.frequent(folder, 'red foxes', 99999)[0]), list(range(self.n_vocab())))
            few = tokens(self.frequent(folder, 'red foxes ' * 20, 3)[0])
        self.assertEqual((len(few), few[0]), (3, 1), '<|end|>')
        self.assertGreater(few[1], 20, 'words')

    def test_memory_is_what_was_predicted(self):
        memory = test_spec.Memory()
        whole = memory.facts('--draft', DRAFT)
        fewer = memory.check('--draft', DRAFT, '--draft-vocab', '1000')
        self.assertGreater(fewer['draft']['weights'], whole['draft']['weights'], 'some rows once more')

    def refusal(self, *options):
        done = quire('generate', BUNDLED, 'hello', '--max-tokens', '4', *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_what_cannot_be_is_named(self):
        n_vocab = self.n_vocab()
        for value in ('0', '-3', str(n_vocab + 1)):
            self.assertIn(f'--draft-vocab {value}: the draft has {n_vocab} tokens', self.refusal('--draft', DRAFT, '--draft-vocab', value))
        self.assertIn('must be a number of tokens or a file', self.refusal('--draft', DRAFT, '--draft-vocab', '/nowhere'))
        for value in ('x' * 300, 'y' * 5000, ROOT):
            self.assertIn(f'--draft-vocab {value}: must be a number of tokens or a file', self.refusal('--draft', DRAFT, '--draft-vocab', value))
        self.assertIn('needs a model that drafts, --draft names none', self.refusal('--spec', 'off', '--draft-vocab', '9'))
        self.assertIn('needs a model that drafts, got --draft exit:2', self.refusal('--draft', 'exit:2', '--draft-vocab', '9'))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'd.safetensors')
            os.symlink(path, path + '.loop')
            os.rename(path + '.loop', path)
            self.assertIn(f'{path}: must be a number of tokens or a file', self.refusal('--draft', DRAFT, '--draft-vocab', path))
            os.remove(path)
            test_spec.write_random(path, {}, {'d2t': ('I64', [2], struct.pack('<2q', 0, n_vocab))})
            self.assertIn(f'"d2t": output 1 has the offset {n_vocab}', self.refusal('--draft', DRAFT, '--draft-vocab', path))
            test_spec.write_random(path, {'other': [2]})
            self.assertIn('"d2t": is missing', self.refusal('--draft', DRAFT, '--draft-vocab', path))


if __name__ == '__main__':
    unittest.main()
