# The EAGLE-3 head of the default model (models/smollm2-eagle): by the command that the documents name, on questions that it
# did not learn from: the same answers as without, and about as often right as its card says. Skipped where the model is not here.
import concurrent.futures
import json
import os
import re
import subprocess
import unittest

from quire_server import ROOT, Server, binary

FOLDER = os.path.join(ROOT, 'models', 'smollm2-eagle')
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != 'QUIRE_MODELS'}
if os.environ.get('QUIRE_REAL_MODELS'):
    ENVIRONMENT['QUIRE_MODELS'] = os.environ['QUIRE_REAL_MODELS']
N_QUESTIONS, DEPTH = 12, 1


def default_model():
    found = subprocess.run([binary(), 'pull', '--offline'], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    path = os.environ.get('QUIRE_REAL_MODEL') or found.stdout.strip()
    if not os.path.exists(path):
        raise unittest.SkipTest('SmolLM2-135M-Instruct is not here: `quire pull` fetches it')
    return path


class SmolLm2Head(unittest.TestCase):
    def answers(self, path, *options):
        with open(os.path.join(FOLDER, 'held-out.txt'), encoding='utf-8') as file:
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

    def test_it_guesses_and_changes_nothing(self):
        path = default_model()
        plain = self.answers(path)
        guessed = self.answers(path, '--draft', FOLDER, '--spec-depth', str(DEPTH))
        content = [[r['choices'][0]['message']['content'] for r in replies] for replies in (plain, guessed)]
        self.assertEqual(content[0], content[1])
        details = [r['usage']['completion_tokens_details'] for r in guessed]
        right = sum(d['accepted_prediction_tokens'] for d in details)
        wrong = sum(d['rejected_prediction_tokens'] for d in details)
        with open(os.path.join(FOLDER, 'README.md'), encoding='utf-8') as file:
            card = file.read()
        told = float(re.search(rf'^\| {DEPTH} \| ([\d.]+) \|', card, re.M).group(1)) / 100
        self.assertLess(abs(right / (right + wrong) - told), 0.08, (right, wrong, told))

    def test_the_folder_is_whole_and_small(self):
        with open(os.path.join(FOLDER, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
        self.assertEqual((config['hidden_size'], config['vocab_size']), (576, 49152))
        self.assertLess(os.path.getsize(os.path.join(FOLDER, 'model.safetensors')), 10 << 20)


if __name__ == '__main__':
    unittest.main()
