# Models whose layers keep a state (docs/kv.md): the memory that their states take in a server.
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from quire_server import ROOT, Server, quire

MODELS = os.path.join(ROOT, 'build', 'golden', 'models')
N_VOCAB = 128


def resident_bytes(server):
    with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(r'RssAnon:\s+(\d+) kB', file.read()).group(1)) * 1024


def served(name, folder):
    """A tiny model of this architecture as a folder that can be served: with a tokenizer of its 128 tokens."""
    path = os.path.join(folder, name)
    shutil.copytree(os.path.join(MODELS, name), path)
    vocabulary = {chr(33 + i) if i < 94 else f'w{i}': i for i in range(N_VOCAB)}
    with open(os.path.join(path, 'tokenizer.json'), 'w', encoding='utf-8') as file:
        json.dump({'version': '1.0', 'added_tokens': [], 'normalizer': None, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False},
                   'post_processor': None, 'decoder': {'type': 'ByteLevel'},
                   'model': {'type': 'BPE', 'vocab': vocabulary, 'merges': []}}, file)
    return path


def prompts(first, n):
    """n that begin differently, each long enough for a state to stay behind its first block."""
    return [[3 + (i // 100) % 100, 3 + i % 100] + [3 + (7 * i + j) % 100 for j in range(19)] for i in range(first, first + n)]


def keep_pages_small():
    """Of the process that calls it: memory counts as it is used, by 4 KiB and not by 2 MiB."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


class PagedServer(Server):
    def start(self, arguments, timeout, command=None, **more):
        super().start(arguments, timeout, command, preexec_fn=keep_pages_small, **more)


class StateMemory(unittest.TestCase):
    """What states add to a server's process as they come to be is what `quire inspect` says: bytes_per_state each."""

    LITTLE = 512 << 10  # what the allocator keeps for a thousand answers

    def check(self, path, n_seqs, n_at_once=1, n_ctx=64):
        told = json.loads(quire('inspect', path, '--json', '--ctx', str(n_ctx)).stdout)['cache']
        n_states = told['n_states'] * n_seqs
        kept = 2 * n_states * told['bytes_per_state'] + n_ctx * n_seqs * told['bytes_per_token']
        server = PagedServer('--ctx', str(n_ctx), '--max-seqs', str(n_seqs), '--step-tokens', str(max(256, n_seqs)), '--kv-memory',
                             str(kept), '--threads', '2', path=path)
        self.addCleanup(server.stop)
        self.assertEqual(sum(server.metric(f'quire_kv_states{{state="{kind}"}}') for kind in ('used', 'cached', 'free')), n_states)

        def size_with(first, n):
            """Keeps so many states more; of what was written since the start: states, blocks, and bytes of the process."""
            for i in range(first, n, n_at_once):
                status, _, answer = server.post('/v1/completions', {'prompt': prompts(i, n_at_once), 'max_tokens': 1})
                self.assertEqual(status, 200, answer)
            n_cached = server.metric('quire_kv_states{state="cached"}')
            self.assertEqual(n_cached, n)
            # Beside what each leaves, the state and the block behind its last token, which the next ones take again.
            return n_cached + n_at_once, server.metric('quire_kv_blocks{state="cached"}') + n_at_once, resident_bytes(server)

        before = size_with(0, 8)
        after = size_with(8, n_states - 16)
        states, blocks, grown = (b - a for a, b in zip(before, after))
        predicted = states * told['bytes_per_state'] + blocks * 16 * told['bytes_per_token']
        self.assertLess(abs(grown - predicted), 0.02 * predicted + self.LITTLE)

    def test_of_every_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('granitehybrid', 'mamba2', 'zamba2', 'kimi-linear', 'falcon-h1'):
                with self.subTest(name):
                    self.check(served(name, folder), 320, 8, 2048 if name == 'mamba2' else 64)

    # Three layers of 16 heads of 128 by 128 numbers: 3.3 MB each.
    def test_of_a_real_size(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'hybrid.gguf')
            subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'make_model.py'), '--shape', 'qwen3.5-hybrid', '--type', 'q8_0',
                            '--n-embd', '256', '--n-layers', '4', '--n-ff', '512', '--n-vocab', '1024', '--n-ctx', '1024', '--seed', '1',
                            '--out', path], check=True, stderr=subprocess.DEVNULL)
            self.check(path, 16)


if __name__ == '__main__':
    unittest.main()
