# A server's real traffic, recorded and run again: with the model and without, and under other options.
import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest

from quire_server import Server, binary, model

TEXT = '/v1/completions'


def replay(*arguments):
    return subprocess.run([binary(), 'replay', *arguments], capture_output=True, text=True, timeout=120)


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, 'run.jsonl')
        server = Server('--max-seqs', '4', '--ctx', '128', '--record', cls.file)

        def ask(i):
            body = {'prompt': 'Once upon a time there was ' + 'a cat ' * (i % 5), 'max_tokens': 8 + i % 7, 'seed': i,
                    'temperature': 0.8, 'n': 1 + i % 2, **({'stop': ['a']} if i % 3 == 0 else {})}
            if i == 5:  # the client goes away
                server.events(TEXT, {**body, 'max_tokens': 90, 'ignore_eos': True}, lambda event: False)
            else:
                status, _, reply = server.post(TEXT, body)
                assert status == 200, reply
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(24)))
        cls.code = server.stop()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_decision_is_made_again(self):
        self.assertEqual(self.code, 0)
        for arguments in ([], [model()]):
            done = replay(self.file, *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn('every decision as recorded', done.stdout)
        told = json.loads(replay(self.file, '--json').stdout)
        self.assertTrue(told['same'] and told['complete'])
        with open(self.file, encoding='utf-8') as f:
            lines = f.read().splitlines()
        self.assertEqual(json.loads(lines[-1])['hash'], told['hash'])
        self.assertEqual(json.loads(lines[0])['quire_recording'], 9)

    def test_what_if_tells_what_changes(self):
        done = replay(self.file, '--what-if', 'max-seqs=1', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertGreater(told['what_if']['steps'], told['modelled']['steps'])
        self.assertEqual(told['what_if']['refused'], 0)
        self.assertIn('what if', replay(self.file, '--what-if', 'policy=prefix').stdout)

    def test_errors_say_what_is_wrong(self):
        for arguments, words in ((['/nowhere'], 'cannot be read'), ([self.file, '--what-if', 'colour=red'], 'colour=red'),
                                 ([self.file, '--what-if', 'step-tokens=x'], 'step-tokens'),
                                 ([self.file, '--what-if', 'policy=none'], 'policy "none"')):
            done = replay(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        with open(self.file, encoding='utf-8') as f:
            text = f.read()
        changed = os.path.join(self.folder.name, 'changed.jsonl')
        with open(changed, 'w', encoding='utf-8') as f:
            f.write(text.replace('"max_seqs":4', '"max_seqs":2', 1))
        done = replay(changed)
        self.assertEqual(done.returncode, 1)
        self.assertIn('differs: step ', done.stdout)


if __name__ == '__main__':
    unittest.main()
