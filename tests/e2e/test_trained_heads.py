# The EAGLE-3 heads that come with the project: of the bundled model (models/quill-eagle) and of the default model
# (models/smollm2-eagle, skipped where that model is not here). By the commands that the documents name, on questions that they
# did not learn from: the same answers as without, and about as often right as their cards say.
import concurrent.futures
import json
import os
import re
import subprocess
import unittest

from quire_server import BUNDLED, ROOT, Server, binary

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != 'QUIRE_MODELS'}
if os.environ.get('QUIRE_REAL_MODELS'):
    ENVIRONMENT['QUIRE_MODELS'] = os.environ['QUIRE_REAL_MODELS']
N_QUESTIONS = 12  # at most


def default_model():
    found = subprocess.run([binary(), 'pull', '--offline'], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    path = os.environ.get('QUIRE_REAL_MODEL') or found.stdout.strip()
    if not os.path.exists(path):
        raise unittest.SkipTest('SmolLM2-135M-Instruct is not here: `quire pull` fetches it')
    return path


class Heads(unittest.TestCase):
    def answers(self, path, folder, *options):
        with open(os.path.join(folder, 'held-out.txt'), encoding='utf-8') as file:
            questions = file.read().splitlines()[:N_QUESTIONS]
        server = Server('--ctx', '1024', *options, path=path, timeout=120)
        try:
            def ask(question):
                status, _, reply = server.post('/v1/chat/completions', {
                    'messages': [{'role': 'user', 'content': question}], 'temperature': 0, 'max_tokens': 48})
                self.assertEqual(status, 200, reply)
                return reply
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                return list(pool.map(ask, questions))
        finally:
            self.assertEqual(server.stop(), 0)

    def check(self, path, name, depth, width):
        folder = os.path.join(ROOT, 'models', name)
        plain = self.answers(path, folder)
        guessed = self.answers(path, folder, '--draft', folder, '--spec-depth', str(depth), '--spec-width', str(width))
        content = [[r['choices'][0]['message']['content'] for r in replies] for replies in (plain, guessed)]
        self.assertEqual(content[0], content[1])
        details = [r['usage']['completion_tokens_details'] for r in guessed]
        right = sum(d['accepted_prediction_tokens'] for d in details)
        wrong = sum(d['rejected_prediction_tokens'] for d in details)
        with open(os.path.join(folder, 'README.md'), encoding='utf-8') as file:
            card = file.read()
        told = float(re.search(rf'^\| {depth} \| {width} \| ([\d.]+) \|', card, re.M).group(1)) / 100
        self.assertLess(abs(right / (right + wrong) - told), 0.08, (right, wrong, told))

    def test_the_bundled_models_guesses_and_changes_nothing(self):
        self.check(BUNDLED, 'quill-eagle', 2, 1)

    def test_the_default_models_guesses_and_changes_nothing(self):
        self.check(default_model(), 'smollm2-eagle', 1, 2)

    def test_the_folders_are_whole_and_small(self):
        for name, sizes, most in (('quill-eagle', (256, 4096), 5 << 20), ('smollm2-eagle', (576, 49152), 11 << 20)):
            folder = os.path.join(ROOT, 'models', name)
            with open(os.path.join(folder, 'config.json'), encoding='utf-8') as file:
                config = json.load(file)
            self.assertEqual((config['hidden_size'], config['vocab_size']), sizes)
            self.assertLess(os.path.getsize(os.path.join(folder, 'model.safetensors')), most)


if __name__ == '__main__':
    unittest.main()
