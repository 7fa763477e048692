# The model that sees: what is bundled answers questions on drawn pictures, computed by plain numpy (tools/train/golden.py, needs
# numpy and tokenizers), and the tool that trains it goes on where it was stopped (needs PyTorch, which no test installs).
import filecmp
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN, MODELS = os.path.join(ROOT, 'tools', 'train'), os.path.join(ROOT, 'models')
TORCH_PYTHON = os.path.join(ROOT, 'build', 'train', 'venv', 'bin', 'python')
ALONE = dict(os.environ, OMP_NUM_THREADS='1', CUDA_VISIBLE_DEVICES='')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))

from client_packages import PYTHON, missing  # noqa: E402

ANSWERS = '''
import json, os, sys
train, folder = sys.argv[1:]
sys.path.insert(0, train)
import numpy as np
from tokenizers import Tokenizer
from chat import CONTROL, render
from export import load_gguf
from golden import greedy, seen
from pictures import picture
from tensor_files import GgufReader

c, state = load_gguf(os.path.join(folder, 'quill-q8_0.gguf'))
tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
mmproj = GgufReader(os.path.join(folder, 'quill-vision-mmproj-f16.gguf'))

def answer(pixels, question):
    patches = seen(pixels, mmproj)
    text = render([{'role': 'user', 'content': '<|image|>' * len(patches) + question}], [], generation_prompt=True)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids.count(CONTROL.index('<|image|>')) == len(patches)
    return tokenizer.decode(greedy(ids, 8, state, c, seen=patches))

for i in range(20):  # things in colours that training never had them in, asked as training asks
    p = picture('content', f'test/{i}')
    print(json.dumps([p.kind, p.answer, answer(p.pixels, p.question), answer(np.full_like(p.pixels, 140), p.question)]))
'''

SAME = '''
import os, sys
train, out = sys.argv[1:]
sys.path.insert(0, train)
import numpy as np
import torch
from eye import EYES, Projector, Tower, pixels_of
from golden import seen
from pictures import picture
from tensor_files import GgufReader, read_safetensors

file = read_safetensors(os.path.join(out, 'hf', 'model.safetensors'))
tower, projector = Tower(EYES['test']), Projector(EYES['test'].n_embd, 256)
for part, start in (tower, 'vision_tower.vision_model.'), (projector, 'multi_modal_projector.'):
    part.load_state_dict({name: torch.from_numpy(file[start + name]) for name in part.state_dict()})
p = picture('content', '1')
mine = projector(tower(pixels_of([p])))[0].detach().numpy()
theirs = seen(p.pixels, GgufReader(os.path.join(out, 'quill-vision-mmproj-f16.gguf')))
assert mine.shape == (36, 256) and np.abs(mine).max() > 1e-2
assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(mine).max(), np.abs(mine - theirs).max()
'''


class Bundled(unittest.TestCase):
    def test_it_answers_questions_on_pictures(self):
        reason = missing('numpy>=1.26') or missing('tokenizers')
        if reason:
            self.skipTest(reason)
        done = subprocess.run([PYTHON, '-c', ANSWERS, TRAIN, MODELS], capture_output=True, text=True, timeout=300, env=ALONE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({kind for kind, *_ in rows}, {'shape', 'colour', 'place', 'digit', 'count'})
        wrong = [row for row in rows if row[1] != row[2]]
        self.assertLessEqual(len(wrong), 3, wrong)
        blind = [row for row in rows if row[1] == row[3]]  # what no picture is needed for
        self.assertLessEqual(len(blind), len(rows) // 2, blind)


class Training(unittest.TestCase):
    def run_python(self, *words):
        done = subprocess.run([TORCH_PYTHON, *words], capture_output=True, text=True, timeout=300, env=ALONE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_stopped_run_goes_on_and_the_files_hold_what_was_trained(self):
        check = [TORCH_PYTHON, '-c', 'import torch, tokenizers, numpy']
        if not os.path.exists(TORCH_PYTHON) or subprocess.run(check, capture_output=True, check=False).returncode != 0:
            self.skipTest('no PyTorch in build/train/venv: ./dev train makes it')
        with tempfile.TemporaryDirectory() as folder:
            whole, parts = (os.path.join(folder, name) for name in ('whole', 'parts'))
            run = [os.path.join(TRAIN, 'vision.py'), '--shape', 'test', '--eye-steps', '40', '--steps', '6', '--rows', '2', '--eye-rows', '8', '--n', '1']
            self.run_python(*run, '--out', whole)
            self.run_python(*run, '--out', parts, '--minutes', '0.002')
            self.run_python(*run, '--out', parts)
            for name in ('quill-vision-mmproj-f16.gguf', os.path.join('hf', 'model.safetensors')):
                a, b = (os.path.join(out, name) for out in (whole, parts))
                self.assertTrue(filecmp.cmp(a, b, shallow=False), name)
            self.run_python('-c', SAME, TRAIN, whole)


if __name__ == '__main__':
    unittest.main()
