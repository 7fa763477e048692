# The EAGLE-3 head's trainer: its rounds, all places at once, guess what drafting one token after the other would
# (tools/train/eagle_head.py); its folder says the same when it is read again; and a head trained on what the bundled model
# wrote (self_text.py, eagle.py) is right in the engine where the trainer says so. Needs PyTorch, which no test installs:
# skipped where `./dev train` never ran.
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, 'tools', 'train')
PYTHON = os.environ.get('QUIRE_TORCH_PYTHON') or os.path.join(ROOT, 'build', 'train', 'venv', 'bin', 'python')
sys.path.append(os.path.join(ROOT, 'tests', 'e2e'))

from quire_server import BUNDLED, binary  # noqa: E402

HEAD = f'''
import json, os, sys
sys.path.insert(0, {TRAIN!r})
import torch
torch.set_num_threads(1)
torch.manual_seed(1)
from dataclasses import replace
from config import Config
from eagle_head import Head, Rows, learn, load, save, states_behind
from model import Model, rope_table
'''

DRAFTING = '''
c = Config(n_vocab=48, n_embd=32, n_layers=4, n_heads=4, n_kv_heads=2, head_dim=8, n_ff=48, n_ctx=64)
model = Model(c).eval()
head = Head(replace(c, n_layers=1, n_heads=2, n_kv_heads=1, n_ff=40, n_ctx=8192), [1, 3, 4], torch.arange(0, 48, 2)).eval()
for p in [*model.parameters(), *head.parameters()]:
    torch.nn.init.normal_(p, std=0.4)

@torch.no_grad()
def guesses(ids, n_guesses):
    """One token after the other behind ids, of which the target has computed all but the last."""
    given = torch.tensor([ids])
    token, x = model.embed_tokens(given[:, 1:]), head.fc(states_behind(model, given[:, :-1], head.taps))
    out = []
    for _ in range(n_guesses):
        last = head.midlayer(token, x, *rope_table(head.c, token.shape[1], torch.device('cpu')), [])[:, -1:]
        out.append(int(head.tokens[head.logits(last)[0, -1].argmax()]))
        token = torch.cat((token, model.embed_tokens(torch.tensor([[out[-1]]]))), 1)
        x = torch.cat((x, last), 1)
    return out

ids = [1, 2]
while len(ids) < 40:  # two guesses of three are right
    ids += guesses(ids, 3)[:2] + torch.randint(48, (1,)).tolist()
x = Rows(torch.tensor([ids]), states_behind(model, torch.tensor([ids]), head.taps), torch.ones(1, len(ids)))
with torch.no_grad():
    loss, found = learn(head, model, x, 3)
assert found[:, 0].sum(1).tolist()[1] >= 12, found[:, 0].sum(1)
for r in range(3):
    for j in range(2 + r, len(ids)):
        assert bool(found[r, 0, j]) == (guesses(ids[:j - r], r + 1) == ids[j - r:j + 1]), (r, j)
x.counts[0, :20] = 0.5  # what counts partly teaches, and is right nowhere
assert not learn(head, model, x, 2)[1][:, :, :20].any()

for p in head.parameters():
    p.data = p.data.bfloat16().float()
save(head, sys.argv[1])
again = load(sys.argv[1])
assert again.taps == head.taps and again.c == head.c and torch.equal(again.tokens, head.tokens)
assert all(torch.equal(a, b) for a, b in zip(head.state_dict().values(), again.state_dict().values()))
'''

ENGINE = '''
import argparse
import eagle, self_text
from medusa import load_base
from self_text import ask
from serving import served
quire, base, folder = sys.argv[1:]
own = os.path.join(folder, 'own.jsonl')
self_text.main([base, '--out', own, '--n', '150', '--longest', '40', '--threads', '1', '--quire', quire])
lines = [json.loads(line) for line in open(own)]
assert len(lines) >= 60 and all(0 < line['n_prompt'] < len(line['ids']) for line in lines), len(lines)
eagle.main(['--base', base, '--text', own, '--out', folder, '--minutes', '60', '--steps', '30', '--threads', '1',
            '--vocab', '512', '--ff', '256', '--rounds', '2'])
head, model = load(folder), load_base(base)
n_right = n_accepted = n_guessed = 0
with served(quire, base, '--draft', folder, '--spec-depth', '2', '--spec-width', '1', '--threads', '1') as url:
    for line in lines[:24]:
        prompt = line['ids'][:line['n_prompt']]
        reply = ask(url, '/v1/completions', {'prompt': prompt, 'max_tokens': 40, 'temperature': 0})
        told = ask(url, '/completion', {'prompt': prompt, 'n_predict': 40, 'temperature': 0, 'return_tokens': True})['tokens']
        said = reply['usage']['completion_tokens_details']
        n_accepted += said['accepted_prediction_tokens']
        n_guessed += said['accepted_prediction_tokens'] + said['rejected_prediction_tokens']
        ids = torch.tensor([prompt + told])
        with torch.no_grad():
            found = learn(head, model, Rows(ids, states_behind(model, ids, head.taps), torch.ones(ids.shape)), 2)[1][:, 0].int()
        at = len(prompt) + 1  # of the first that is guessed
        while at < ids.shape[1]:
            right = int(found[0, at]) + (int(found[1, at + 1]) if at + 1 < ids.shape[1] else 0)
            n_right += right
            at += 1 + right
assert n_accepted >= 0.1 * n_guessed and abs(n_right - n_accepted) <= 0.03 * n_guessed, (n_right, n_accepted, n_guessed)
'''


@unittest.skipUnless(os.path.exists(PYTHON), 'PyTorch is not here: ./dev train installs it')
class TrainEagle(unittest.TestCase):
    def run_script(self, script, *args):
        done = subprocess.run([PYTHON, '-c', HEAD + script, *args], capture_output=True, text=True, timeout=600,
                              env=dict(os.environ, OMP_NUM_THREADS='1'))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_rounds_are_drafting(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_script(DRAFTING, folder)

    @unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
    def test_a_head_is_as_right_in_the_engine_as_in_training(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_script(ENGINE, binary(), BUNDLED, folder)


if __name__ == '__main__':
    unittest.main()
