# tools/inflate.py: a larger checkpoint of the same function, from GGUF to GGUF and to a folder; that what
# tools/train/export.py writes it reads back, values by the engine itself; and an EAGLE-3 head of the small model at the large
# shape (tools/inflate_eagle.py), values by numpy.
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))

from client_packages import PYTHON, missing  # noqa: E402

# A random model of 300 tokens in GGUF, f32; logits of ours against those of larger ones.
SCRIPT = '''
import json, os, subprocess, sys
sys.path[:0] = [os.path.join({root!r}, 'tools'), os.path.join({root!r}, 'tools', 'train')]
import numpy as np
from config import Config
from chat import CONTROL, TAGS
from export import Trained, load_gguf, load_hf, state_names, write_as, write_hf, hf_config, rows_of, write_json
from inflate import inflate, Inflation
from dataclasses import replace
quire, folder = {quire!r}, {folder!r}
rng = np.random.default_rng(7)
a = Config(n_vocab=300, n_embd=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, n_ff=96, n_ctx=256)
def weight(name):
    if 'norm' in name:
        return rng.uniform(0.5, 1.5, a.n_embd).astype(np.float32)
    rows, columns = {{'embed_tokens': (a.n_vocab, a.n_embd), 'q_proj': (64, 64), 'k_proj': (32, 64), 'v_proj': (32, 64),
                     'o_proj': (64, 64), 'gate_proj': (96, 64), 'up_proj': (96, 64), 'down_proj': (64, 96)}}[name.split('.')[-2]]
    return rng.normal(0, 1.5 * columns ** -0.5, (rows, columns)).astype(np.float32)
texts = CONTROL + TAGS + ['t%d' % i for i in range(280)]
tokenizer = {{'model': {{'vocab': {{t: i for i, t in enumerate(texts)}}, 'merges': []}}}}
small = Trained(a, {{name: weight(name) for name in state_names(a)}}, tokenizer)
at = lambda name: os.path.join(folder, name)
def logits(path):
    done = subprocess.run([quire, 'logits', path, '--tokens', ','.join(str(i * 37 % 300) for i in range(40)), '--kv-type', 'f32',
                           '--threads', '1', '--out', at('y.npy')], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(at('y.npy'))
write_as(at('small.gguf'), small, 'f32', quire)
truth = logits(at('small.gguf'))
'''

INFLATE = '''
shapes = {
    'wider': dict(n_embd=128, n_ff=160), 'deeper': dict(n_layers=5), 'more heads': dict(n_heads=12, n_kv_heads=6),
    'smaller groups': dict(n_heads=4, n_kv_heads=4), 'larger groups': dict(n_heads=8, n_kv_heads=2),
    'wider heads': dict(head_dim=32), 'more tokens': dict(n_embd=96, n_vocab=1000),
    'all': dict(n_embd=160, n_layers=3, n_heads=9, n_kv_heads=9, head_dim=48, n_ff=128, n_vocab=900)}
for name, change in shapes.items():
    for out in ('big.gguf', 'big'):
        inflate(small, replace(a, **change), at(out), 'f32', 3)
        if out == 'big':
            write_json(at('big/tokenizer.json'), {'version': '1.0', 'added_tokens': [], 'model': {'type': 'BPE', 'merges': [],
                       'vocab': tokenizer['model']['vocab']}})
        y = logits(at(out))
        own, new = y[:, :300], y[:, 300:]
        assert y.shape[1] == change.get('n_vocab', 300), y.shape
        assert np.abs(own - truth).max() < 2e-5 * np.abs(truth).max(), (name, out, np.abs(own - truth).max())
        assert (own.argmax(1) == truth.argmax(1)).all(), (name, out)
        assert new.size == 0 or new.max() < own.min() - 100, (name, out, new.max())
'''

REFUSE = '''
for change, words in ((dict(n_embd=32), 'n_embd 32 is less than 64'), (dict(head_dim=24), 'no multiple of 16'),
                      (dict(n_vocab=400), 'more tokens need a larger n_embd'),
                      (dict(n_heads=4, n_kv_heads=4, n_layers=1), 'n_layers 1 is less than 2'),
                      (dict(n_heads=5, n_kv_heads=2), 'no multiple of n_kv_heads')):
    try:
        Inflation(a, replace(a, **change), 1)
        raise AssertionError(change)
    except SystemExit as e:
        assert words in str(e), e
try:
    Inflation(replace(a, n_heads=8), replace(a, n_heads=9, n_kv_heads=3), 1)  # groups of four into three of three
    raise AssertionError('held')
except SystemExit as e:
    assert 'cannot hold 2 of 4' in str(e), e
'''

BACK = '''
c, state = load_gguf(at('small.gguf'))
assert c == a, c
assert all((state[name] == small.state[name]).all() for name in state_names(a))
write_hf(at('hf'), hf_config(a, 'f32'), {k: rows_of(v) for k, v in state.items()}, tokenizer, 1 << 16)
c, state = load_hf(at('hf'))
assert c == a and len([n for n in os.listdir(at('hf')) if n.endswith('.safetensors')]) > 1
assert all((state[name] == small.state[name]).all() for name in state_names(a))
write_as(at('q8.gguf'), small, 'q8_0', quire)
c, state = load_gguf(at('q8.gguf'))
write_as(at('again.gguf'), Trained(c, state, tokenizer), 'q8_0', quire)
assert open(at('again.gguf'), 'rb').read() == open(at('q8.gguf'), 'rb').read(), 'quantising twice changes nothing'
facts = json.loads(subprocess.run([quire, 'inspect', at('q8.gguf'), '--json'], capture_output=True, text=True, check=True).stdout)
assert facts['arch'] == 'llama', facts
'''

HEAD = '''
from inflate_eagle import TAPS, inflate_head
from tensor_files import read_safetensors, write_safetensors
d, n_tokens = a.n_embd, 40
def head_weight(name, *shape):
    return rng.uniform(0.5, 1.5, shape) if len(shape) == 1 else rng.normal(0, shape[1] ** -0.5, shape)
shapes = {'fc.weight': (d, 3 * d), 'norm.weight': (d,), 'lm_head.weight': (n_tokens, d), 'midlayer.hidden_norm.weight': (d,),
          'midlayer.input_layernorm.weight': (d,), 'midlayer.post_attention_layernorm.weight': (d,),
          'midlayer.self_attn.q_proj.weight': (32, 2 * d), 'midlayer.self_attn.k_proj.weight': (16, 2 * d),
          'midlayer.self_attn.v_proj.weight': (16, 2 * d), 'midlayer.self_attn.o_proj.weight': (d, 32),
          'midlayer.mlp.gate_proj.weight': (48, d), 'midlayer.mlp.up_proj.weight': (48, d), 'midlayer.mlp.down_proj.weight': (d, 48)}
state = {name: head_weight(name, *shape).astype(np.float32) for name, shape in shapes.items()}
config = dict(hidden_size=d, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-5,
              rope_theta=1e4, vocab_size=300, draft_vocab_size=n_tokens)
config[TAPS[0]] = {TAPS[1]: [1, 2, 2]}
os.makedirs(at('head'))
write_json(at('head/config.json'), config)
write_safetensors(at('head/model.safetensors'), {name: rows_of(w) for name, w in (state | {'d2t': np.arange(n_tokens) * 3}).items()},
                  'f32', whole=('d2t',))
def guesses(folder, tokens, states):
    # [n, n_tokens] of the head in `folder`, from embeddings [n, d] and states [n, 3 · d]
    c, w = json.load(open(os.path.join(folder, 'config.json'))), read_safetensors(os.path.join(folder, 'model.safetensors'))
    m, n, width = (lambda name: w['midlayer.' + name + '.weight']), len(tokens), c['head_dim']
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + c['rms_norm_eps']) * g
    angles = np.arange(n)[:, None] * c['rope_theta'] ** (-np.arange(0, width, 2) / width)
    def heads(x, rotated):
        x = x.reshape(n, -1, width).transpose(1, 0, 2)
        if rotated:
            left, right = x[..., :width // 2], x[..., width // 2:]
            x = np.concatenate((left * np.cos(angles) - right * np.sin(angles), right * np.cos(angles) + left * np.sin(angles)), -1)
        return x
    x = states @ w['fc.weight'].T
    both = np.concatenate((norm(tokens, m('input_layernorm')), norm(x, m('hidden_norm'))), -1)
    q, k, v = (heads(both @ m(f'self_attn.{part}_proj').T, part != 'v') for part in 'qkv')
    k, v = (np.repeat(y, len(q) // len(y), 0) for y in (k, v))
    scores = np.where(np.tri(n, dtype=bool), q @ k.transpose(0, 2, 1) / width ** 0.5, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    out = (shares / shares.sum(-1, keepdims=True)) @ v
    x = x + out.transpose(1, 0, 2).reshape(n, -1) @ m('self_attn.o_proj').T
    y = norm(x, m('post_attention_layernorm'))
    gate = y @ m('mlp.gate_proj').T
    x = x + (gate / (1 + np.exp(-gate)) * (y @ m('mlp.up_proj').T)) @ m('mlp.down_proj').T
    return norm(x, w['norm.weight']) @ w['lm_head.weight'].T
tokens, states = rng.normal(size=(12, d)), rng.normal(size=(12, 3, d)) * 4
truth = guesses(at('head'), tokens, states.reshape(12, -1))
for change in (dict(n_embd=128), dict(n_layers=5, n_heads=12, n_kv_heads=6, n_ff=160), dict(n_embd=160, n_heads=9, n_kv_heads=9, head_dim=48)):
    b = replace(a, **change)
    inflate_head(at('head'), a, b, at('big head'), 'f32', 3)
    wide = [np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, b.n_embd - d)]) for x in (tokens, states)]
    y = guesses(at('big head'), wide[0], wide[1].reshape(12, -1))
    assert np.abs(y - truth).max() < 2e-5 * np.abs(truth).max(), (change, np.abs(y - truth).max())
    made = json.load(open(at('big head/config.json')))
    assert made[TAPS[0]][TAPS[1]] == [b.n_layers // 2, b.n_layers, b.n_layers], made
    assert made['num_attention_heads'] == b.n_heads and made['hidden_size'] == b.n_embd, made
    assert (read_safetensors(at('big head/model.safetensors'))['d2t'] == np.arange(n_tokens) * 3).all()
try:
    inflate_head(at('head'), replace(a, n_embd=96), replace(a, n_embd=128), at('none'), 'f32', 3)
    raise AssertionError('held')
except SystemExit as e:
    assert 'the head is 64 wide, the model 96' in str(e), e
'''


class Inflate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing('numpy>=1.26')
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_script(self, script):
        head = SCRIPT.format(root=ROOT, quire=os.environ['QUIRE_BIN'], folder=self.folder.name)
        done = subprocess.run([PYTHON, '-c', head + script], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, OMP_NUM_THREADS='1'))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_larger_shape_computes_the_same(self):
        self.run_script(INFLATE)

    def test_a_head_guesses_the_same_at_a_larger_shape(self):
        self.run_script(HEAD)

    def test_what_does_not_fit_is_refused(self):
        self.run_script(REFUSE)

    def test_files_are_read_back_as_they_were_written(self):
        self.run_script(BACK)


if __name__ == '__main__':
    unittest.main()
