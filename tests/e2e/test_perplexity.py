# quire perplexity: against the transformers package's log-probabilities of tiny models, and against sums made here from
# `quire logits`; comparison with a base; refusals.
import json
import math
import os
import struct
import tempfile
import unittest

from quire_server import ROOT, golden_folders, quire

MODELS = os.path.join(ROOT, 'build', 'golden', 'models')


def perplexity(model, tokens, *args):
    done = quire('perplexity', model, '--tokens', ','.join(map(str, tokens)), '--kv-type', 'f32', '--json', *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expected(name):
    with open(os.path.join(MODELS, name, 'expected.json'), encoding='utf-8') as file:
        run = json.load(file)['runs'][0]
    return run['prompt_ids'] + run['greedy_ids'], run['logprobs']


def log_p(model, tokens, folder, *args):
    """ln p of every id at every position, from the logits."""
    path = os.path.join(folder, 'logits.npy')
    done = quire('logits', model, '--tokens', ','.join(map(str, tokens)), '--kv-type', 'f32', '--out', path, *args)
    assert done.returncode == 0, done.stderr
    with open(path, 'rb') as file:
        data = file.read()
    start = 10 + struct.unpack_from('<H', data, 8)[0]
    values = struct.unpack_from(f'<{(len(data) - start) // 4}f', data, start)
    n = len(values) // len(tokens)
    rows = []
    for at in range(len(tokens)):
        row = values[at * n:(at + 1) * n]
        top = max(row)
        total = top + math.log(sum(math.exp(x - top) for x in row))
        rows.append([x - total for x in row])
    return rows


class Perplexity(unittest.TestCase):
    def test_it_is_the_transformers_packages(self):
        for model in golden_folders():
            name = os.path.relpath(model, MODELS).split('/')[0]
            with self.subTest(name):
                tokens, reference = expected(name)
                wanted = math.exp(-sum(reference) / len(reference))
                # In BF16, as the folders are, activations are rounded too, and another expert may be chosen.
                for weights, limit in (('f32', 1e-3), ('bf16', 0.1)):
                    told = perplexity(model, tokens, '--ctx', str(len(tokens)), '--weights', weights)
                    self.assertEqual(told['scored'], len(reference))
                    self.assertLess(abs(told['perplexity'] / wanted - 1), limit)

    def test_windows_score_each_token_once(self):
        tokens, _ = expected('mistral')
        model = os.path.join(MODELS, 'mistral')
        with tempfile.TemporaryDirectory() as folder:
            for ctx, stride in ((40, 40), (40, 20), (30, 7)):
                with self.subTest(ctx=ctx, stride=stride):
                    nll, scored = {}, 1
                    for begin in range(0, len(tokens), stride):
                        window = tokens[begin:begin + ctx]
                        rows = log_p(model, window, folder, '--ctx', str(ctx))
                        for at in range(max(scored, begin + 1), begin + len(window)):
                            nll[at] = -rows[at - 1 - begin][tokens[at]]
                        scored = max(scored, begin + len(window))
                        if scored == len(tokens):
                            break
                    out = os.path.join(folder, 'nll.tsv')
                    told = perplexity(model, tokens, '--ctx', str(ctx), '--stride', str(stride), '--nll', out)
                    self.assertEqual(told['scored'], len(nll))
                    self.assertAlmostEqual(told['nll'], sum(nll.values()) / len(nll), places=4)
                    with open(out, encoding='utf-8') as file:
                        for line, at in zip(file.read().splitlines(), sorted(nll), strict=True):
                            position, token, value = line.split('\t')
                            self.assertEqual((int(position), int(token)), (at, tokens[at]))
                            self.assertAlmostEqual(float(value), nll[at], places=3)

    def test_every_window_begins_as_a_text_does(self):
        model = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
        text = 'The lighthouse keeper counted the ships that passed. ' * 8
        tokens = json.loads(quire('tokenize', model, '--add-special', '--text', text).stdout)
        bos = tokens[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'text')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            nll = []
            for begin in range(0, len(tokens), 40):
                window = tokens[begin:begin + 40]
                rows = log_p(model, [bos] + window[1:], folder, '--ctx', '40')
                nll += [-rows[at - 1][window[at]] for at in range(1, len(window))]
            for text_args in (['--text', path], ['--tokens', ','.join(map(str, tokens))]):
                done = quire('perplexity', model, *text_args, '--ctx', '40', '--kv-type', 'f32', '--json')
                self.assertEqual(done.returncode, 0, done.stderr)
                told = json.loads(done.stdout)
                self.assertTrue(told['windows_begin_with_bos'])
                self.assertEqual(told['scored'], len(nll))
                self.assertAlmostEqual(told['nll'], sum(nll) / len(nll), places=4)
            # Ids that do not begin with it are read as they are.
            raw = perplexity(model, tokens[1:], '--ctx', '40')
            self.assertFalse(raw['windows_begin_with_bos'])

    def test_a_long_window_is_one_window(self):  # although it is computed in pieces
        model = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
        tokens = [50 + i * i % 97 for i in range(1100)]
        with tempfile.TemporaryDirectory() as folder:
            rows = log_p(model, tokens, folder, '--ctx', '1100')
            nll = [-rows[at - 1][tokens[at]] for at in range(1, len(tokens))]
            told = perplexity(model, tokens, '--ctx', '1100')
            self.assertEqual(told['scored'], len(nll))
            self.assertAlmostEqual(told['nll'], sum(nll) / len(nll), places=4)

    def test_a_base_tells_how_far_a_format_lies(self):
        tokens, _ = expected('llama')
        model = os.path.join(MODELS, 'llama')
        ctx = ['--ctx', str(len(tokens))]
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, 'base')
            perplexity(model, tokens, *ctx, '--kl-base-out', base)
            same = perplexity(model, tokens, *ctx, '--kl-base', base)
            self.assertLess(abs(same['kl_mean']), 1e-6)
            self.assertEqual(same['same_top'], 1)
            self.assertLess(abs(same['base_perplexity'] / same['perplexity'] - 1), 1e-3)
            told = perplexity(model, tokens, *ctx, '--kl-base', base, '--weights', 'q4_0')
            p = log_p(model, tokens, folder)
            q = log_p(model, tokens, folder, '--weights', 'q4_0')
            kl = sorted(sum(math.exp(a) * (a - b) for a, b in zip(p[t], q[t])) for t in range(len(tokens) - 1))
            self.assertLess(abs(told['kl_mean'] / (sum(kl) / len(kl)) - 1), 0.01)
            self.assertLess(abs(told['kl_median'] / kl[len(kl) // 2] - 1), 0.01)
            self.assertLess(abs(told['kl_max'] / kl[-1] - 1), 0.01)
            self.assertTrue(told['kl_median'] < told['kl_p99'] <= told['kl_max'])
            top = [p[t].index(max(p[t])) == q[t].index(max(q[t])) for t in range(len(tokens) - 1)]
            self.assertAlmostEqual(told['same_top'], sum(top) / len(top))

    def test_refusals(self):
        tokens, _ = expected('llama')
        model = os.path.join(MODELS, 'llama')
        ids = ','.join(map(str, tokens))
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, 'base')
            perplexity(model, tokens, '--ctx', '50', '--kl-base-out', base)
            with open(base, 'rb') as file:
                data = file.read()
            cut = os.path.join(folder, 'cut')
            with open(cut, 'wb') as file:
                file.write(data[:-3])
            for args, words in (
                    ([], 'give either --text or --tokens'),
                    (['--tokens', '5'], 'the text has 1 tokens; 2 at least are needed'),
                    (['--tokens', '5,99999'], 'token id 99999 is not in 0'),
                    (['--tokens', ids, '--ctx', '1'], '--ctx must be 2 to'),
                    (['--tokens', ids, '--ctx', '50', '--stride', '51'], '--stride must be 1 to 50, got 51'),
                    (['--tokens', ids, '--ctx', '51', '--kl-base', base], '--ctx is 50 there, 51 here'),
                    (['--tokens', ids + ',1', '--ctx', '50', '--kl-base', base], f'the number of tokens is {len(tokens)} there'),
                    (['--tokens', '7,' + ids.split(',', 1)[1], '--ctx', '50', '--kl-base', base], 'text is another one'),
                    (['--tokens', ids, '--ctx', '50', '--kl-base', cut], 'ends before its text does'),
                    (['--tokens', ids, '--ctx', '50', '--kl-base', model + '/model.gguf'], 'no file of base'),
                    (['--text', folder + '/none', '--ctx', '50'], 'has no tokenizer')):
                with self.subTest(words):
                    done = quire('perplexity', model, *args)
                    self.assertEqual(done.returncode, 2 if '1' in args else 1)
                    self.assertIn(words, done.stderr)


if __name__ == '__main__':
    unittest.main()
