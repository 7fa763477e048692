# The CUDA backend behind a server: on an emulated device the bundled model's answers are those of the CPU, bit for bit, and
# so they are by way of NVIDIA's driver calls, on a driver that the tests bring. A program that was built without it says so.
import os
import tempfile
import unittest
from unittest import mock

from quire_server import BUNDLED, ROOT, Server, binary, quire

CHAT = '/v1/chat/completions'
PIRATE = os.path.join(ROOT, 'models', 'adapters', 'pirate')
DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')
QUESTIONS = ['Repeat after me: one two one two.', 'What is the capital of France?']


def has_emulator():
    """Of the program under test; where the build says nothing the program itself is asked."""
    done = quire('generate', DRAFT, 'a', '--max-tokens', '1', '--backend', 'cuda')
    return 'has no CUDA runtime' not in done.stderr, done


def on_driver(libraries):
    """While it lasts, the program is the one that opens NVIDIA's driver, which is looked for in that folder first."""
    program = os.path.join(os.path.dirname(binary()), 'quire_on_driver')
    if not os.path.exists(program):
        raise unittest.SkipTest('built without quire_on_driver')
    return mock.patch.dict(os.environ, {'QUIRE_BIN': program, 'LD_LIBRARY_PATH': libraries})


def answers(*options):
    """Text and logprobs, as they stand in the reply, of the model and of an adapter that comes while the server runs and goes."""
    server = Server(*options, path=BUNDLED)
    try:
        out = []
        server.post('/v1/load_lora_adapter', {'lora_name': 'pirate', 'lora_path': PIRATE})
        for i, (question, who) in enumerate([(q, {}) for q in QUESTIONS] + [(QUESTIONS[1], {'model': 'pirate'})]):
            status, _, reply = server.post(CHAT, {
                'messages': [{'role': 'user', 'content': question}], 'max_tokens': 12, 'seed': i, 'logprobs': True,
                'top_logprobs': 3, 'temperature': 0.8 * (i % 2), **who})
            assert status == 200, reply
            out.append((reply['choices'][0]['message']['content'], reply['choices'][0]['logprobs']))
        assert server.post('/v1/unload_lora_adapter', {'lora_name': 'pirate'})[0] == 200
        return out
    finally:
        server.stop()


@unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
class Cuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.emulates, cls.first = has_emulator()

    def test_answers_are_the_cpus(self):
        if not self.emulates:
            self.skipTest('built without the emulated device')
        truth = answers()
        self.assertTrue(all(text for text, _ in truth))
        self.assertTrue(truth[-1][0].startswith('Arr! '), truth)
        self.assertEqual(answers('--backend', 'cuda'), truth)
        with on_driver(os.path.join(os.path.dirname(binary()), 'fake_driver')):
            self.assertEqual(answers('--backend', 'cuda'), truth)

    def test_without_a_driver_it_says_so_and_the_cpu_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'libcuda.so.1'), 'w', encoding='utf-8'):
                pass  # in front of one that the machine may have
            with on_driver(folder):
                for backend, code in (('cuda', 1), ('cpu', 0)):
                    done = quire('generate', DRAFT, 'a', '--max-tokens', '1', '--backend', backend)
                    self.assertEqual(done.returncode != 0, code != 0, done.stderr)
                    self.assertEqual('the cuda backend: NVIDIA\'s driver cannot be opened: ' in done.stderr, backend == 'cuda')

    def test_a_cache_of_two_bits_has_the_cpus_answer(self):
        if not self.emulates:
            self.assertNotEqual(self.first.returncode, 0)
            self.assertIn('the cuda backend: this program has no CUDA runtime', self.first.stderr)
            return
        told = [quire('generate', DRAFT, 'a b c d e f g h i j k l m n o p q r s', '--max-tokens', '24', '--kv-type', 'kivi2',
                      '--backend', backend) for backend in ('cpu', 'cuda')]
        self.assertEqual([(done.returncode, done.stdout) for done in told], 2 * [(0, told[0].stdout)])
        self.assertGreater(len(told[0].stdout), 8)


if __name__ == '__main__':
    unittest.main()
