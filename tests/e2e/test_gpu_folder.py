# What measures the CUDA backend on a machine with a GPU (tools/gpu/run.py), on the emulated device with tiny models.
import contextlib
import importlib.util
import io
import os
import tempfile
import unittest
from unittest import mock

from quire_server import ROOT, binary, quire

DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')


def loaded():
    spec = importlib.util.spec_from_file_location('gpu_run', os.path.join(ROOT, 'tools', 'gpu', 'run.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class GpuFolder(unittest.TestCase):
    def setUp(self):
        if 'has no CUDA runtime' in quire('generate', DRAFT, 'a', '--max-tokens', '1', '--backend', 'cuda').stderr:
            self.skipTest('built without the emulated device')
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = os.path.join(folder.name, 'results')
        with mock.patch.dict(os.environ, {'QUIRE_GPU_RESULTS': self.results, 'QUIRE_GPU_MODELS': folder.name}):
            self.run_py = loaded()
        self.run_py.HERE = os.path.join(ROOT, 'tools')  # where make_model.py lies
        self.run_py.program = lambda name: os.path.join(os.path.dirname(binary()), name)
        self.run_py.MODELS_MADE = {'1b': ('tiny', 'q8_0', 0.001), '8b-bf16': ('tiny', 'bf16', 0.001), '70b': ('tiny', 'q8_0', 10**9)}
        self.run_py.LENGTHS = ('--prompt', '16', '--generate', '3', '--repeat', '1')
        self.run_py.BUNDLED, self.run_py.QUESTIONS = DRAFT, self.run_py.QUESTIONS[:3]
        self.run_py.OVERLAPPING_USERS = '1,2'
        self.run_py.PARTS = {
            'device': lambda: 'name, memory\n$\nNVIDIA H200, 140 GB\n',
            'ops': lambda: 'reading memory: 4650 GB/s\n',
            '1b': lambda: self.run_py.part_model('1b', '--batch', '1,2'),
            '1b-overlap': lambda: self.run_py.part_overlap('1b'),
            '8b-bf16': lambda: self.run_py.part_model('8b-bf16', backend='cuda-tensor'),
            '70b': lambda: self.run_py.part_model('70b'),
            'answers': self.run_py.part_answers,
        }

    def main(self, *arguments):
        with mock.patch('sys.argv', ['run.py', *arguments]), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(self.run_py.main(), 0)
        return said.getvalue()

    def test_parts_that_were_stopped_run_again_and_all_of_them_become_tables(self):
        self.assertEqual(self.main('--within', '0').count('not begun'), 7)
        with mock.patch.object(self.run_py, 'MOST_SECONDS', 0.0), mock.patch.object(self.run_py, 'SHORTEST', 0.01):
            self.assertIn('stopped after 0 seconds', self.main('1b'))
        self.assertEqual(os.listdir(self.results), ['log.txt'])
        said = self.main()
        self.assertIn('== 8b-bf16', said)
        self.assertIn('there is no room for 1000000000 GB', said)
        self.assertIn('on the GPU and on the CPU: the same text and logprobs', said)
        self.assertEqual(self.main().count('== '), 1)  # what had no room
        self.assertIn('== 1b\n', self.main('--table'))
        tables = self.main('--numbers')
        rows = [line.split(' | ')[0] for line in tables.splitlines() if line.startswith('| ')]
        self.assertEqual(rows, ['| weights', '| ---', '| 1b', '| 1b', '| 8b-bf16', '| weights', '| ---'] + 4 * ['| 1b-overlap'])
        self.assertIn('## NVIDIA H200', tables)
        self.assertIn('Reading memory: 4650 GB/s.', tables)
        with open(os.path.join(self.results, 'numbers.md'), encoding='utf-8') as file:
            self.assertEqual(file.read(), tables)


if __name__ == '__main__':
    unittest.main()
