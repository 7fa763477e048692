# Growing a trained model (tools/train/grow.py), the schedule whose end is chosen late, the rows that teach looking back
# (echoes.py) and words in pieces (unmerge.py), each in a shape of seconds. Needs PyTorch, which no test installs: skipped where `./dev train` never ran.
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, 'tools', 'train')
PYTHON = os.path.join(ROOT, 'build', 'train', 'venv', 'bin', 'python')
HEAD = f'''
import sys
sys.path.insert(0, {TRAIN!r})
import torch
torch.set_num_threads(1)
torch.manual_seed(1)
'''

GROWN = '''
from config import Config
from grow import check_growth, grown, places
from model import Model
c = Config(n_vocab=64, n_embd=32, n_layers=3, n_heads=4, n_kv_heads=1, head_dim=8, n_ff=48, n_ctx=64)
small = Model(c)
for p in small.parameters():  # as far from the start as training goes: nothing near 0 or 1
    torch.nn.init.normal_(p, std=0.3)
ids = torch.randint(64, (2, 40))
for changed in ({}, {'n_ff': 64}, {'n_heads': 8, 'n_kv_heads': 2}, {'n_layers': 6}, {'n_layers': 4, 'n_heads': 8, 'n_kv_heads': 2, 'n_ff': 96}):
    large = Model(Config(**{**c.as_dict(), **changed}))
    large.load_state_dict(grown(small.state_dict(), c, large.c, large.state_dict()))
    with torch.no_grad():
        a, b = small.logits(small.hidden(ids)), large.logits(large.hidden(ids))
    assert (a - b).abs().max() <= 1e-6 * a.abs().max(), (changed, (a - b).abs().max(), a.abs().max())
    large.loss(ids, torch.ones(2, 40).index_fill(1, torch.tensor(0), 0)).backward()
    still = [n for n, p in large.named_parameters() if ('o_proj' in n or 'down_proj' in n) and not (p.grad != 0).any(0).all()]
    assert not still, still  # every added column learns at the first step
assert places(3, 6) == [(0, True), (0, False), (1, True), (1, False), (2, True), (2, False)]
assert places(3, 4) == [(0, True), (1, True), (2, True), (2, False)], places(3, 4)
for wrong in ({'n_embd': 64}, {'n_heads': 8}, {'n_ff': 32}, {'n_layers': 2}):
    try:
        check_growth(c, Config(**{**c.as_dict(), **wrong}))
    except ValueError as e:
        assert str(e).startswith('grow: '), e
    else:
        raise AssertionError(wrong)
'''

SCHEDULE = '''
from train import DECAY, WARM_UP, learning_rate
at = [learning_rate('wsd', 2.0, i / 1000) for i in range(1001)]
start, decay = int(1000 * WARM_UP), int(1000 * (1 - DECAY))
assert at[0] < 0.5 * 2.0 and set(at[start:decay]) == {2.0}
assert all(a >= b for a, b in zip(at[start:], at[start + 1:])) and 0 < at[-1] < 0.05
assert learning_rate("cosine", 2.0, 0.5) < 1.1
'''

DRILLS = '''
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from config import LEARN
from echoes import drill, said_again
from tasks import recall
from tasks.core import Draw
vocab = {c: i for i, c in enumerate(['<|begin|>', '<|end|>', '<|user|>', '<|assistant|>', *sorted(pre_tokenizers.ByteLevel.alphabet())])}
tok = Tokenizer(models.BPE(vocab, []))
tok.pre_tokenizer, tok.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
for form in ('short', *recall.FORMS):
    d = Draw(f'test/{form}', 'train', 512)
    facts = recall.keys_and_values(d, form, 7)
    row = said_again(tok, d, form, facts)
    text = tok.decode((row & (LEARN - 1)).tolist())
    learned = ''.join(tok.decode([int(t & (LEARN - 1))]) if t >= LEARN else '|' for t in row)
    values = [v.strip() for v in learned.split('|') if v]
    assert sorted(values) == sorted(v for _, v in facts), (form, values, facts)  # each value once, and nothing else
    assert all(text.lower().count(k.lower()) >= 2 for k, _ in facts), text
assert (drill(tok, 'a', 200) == drill(tok, 'a', 200)).all()
'''


UNMERGED = '''
import json, tempfile
import numpy as np
from config import LEARN
from unmerge import Unmerger, parents
vocab = {t: i for i, t in enumerate(['<|end|>', 'A', 'b', 'c', 'Ab', 'Abc', 'bc', 'bcb'])}
with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
    json.dump({'model': {'vocab': vocab, 'merges': ['A b', 'Ab c', 'b c', 'A bc', 'bc b']}}, f)
    f.flush()
    assert parents(f.name).tolist() == [[-1, -1]] * 4 + [[1, 2], [4, 3], [-1, -1], [-1, -1]]  # of Abc the first merge
    corpus = np.array([1] * 10000 + [4, 5, 6, 7], dtype=np.uint16)
    apart = Unmerger(f.name, corpus)
    assert apart.may.tolist() == [False] * 4 + [True] * 2 + [False] * 2
    assert not Unmerger(f.name, np.array([4, 5, 6], dtype=np.uint16)).may.any()  # too frequent
text = {i: t for t, i in vocab.items()}
read = lambda row: ''.join(text[int(t) & (LEARN - 1)] for t in row)
learned = lambda row: ''.join(text[int(t) & (LEARN - 1)] for t in row if t & LEARN)
row = np.array([0, 5, 6, 5 | LEARN, 4, 4 | LEARN, 0], dtype=np.uint16)
assert apart.once(row, 1.0, np.random.default_rng(0)).tolist() == [0, 4, 3, 6, 4 | LEARN, 3 | LEARN, 1, 2, 1 | LEARN, 2 | LEARN, 0]
assert apart.once(row, 0.0, np.random.default_rng(0)).tolist() == row.tolist()
seen = set()
for seed in range(200):
    out = apart.row(row, np.random.default_rng(seed))
    assert (read(out), learned(out)) == (read(row), learned(row))
    whole = [t & (LEARN - 1) for t in out.tolist()].count(5)
    assert whole in (0, 2)  # everywhere or nowhere
    seen.add(tuple(out.tolist()))
    assert out.tolist() == apart.row(row, np.random.default_rng(seed)).tolist()
assert len(seen) > 3
'''


class Training(unittest.TestCase):
    def run_script(self, script):
        check = [PYTHON, '-c', 'import torch, tokenizers, numpy']
        if not os.path.exists(PYTHON) or subprocess.run(check, capture_output=True).returncode != 0:
            self.skipTest('no PyTorch in build/train/venv: ./dev train makes it')
        done = subprocess.run([PYTHON, '-c', HEAD + script], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, OMP_NUM_THREADS='1', CUDA_VISIBLE_DEVICES=''))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_grown_model_says_what_the_small_one_says_and_learns_everywhere(self):
        self.run_script(GROWN)

    def test_a_constant_learning_rate_that_goes_down_at_the_end(self):
        self.run_script(SCHEDULE)

    def test_drills_teach_the_values_and_nothing_else(self):
        self.run_script(DRILLS)

    def test_words_are_taken_apart_in_a_whole_row_or_not_at_all(self):
        self.run_script(UNMERGED)


if __name__ == '__main__':
    unittest.main()
