# A draft model with other tokens than the target, over a bridge: the bundled model and SmolLM2-135M draft for each other
# (the latter is skipped where it is not here), and a model of stories for the bundled one. The same answers as without, greedy
# and drawn, under penalties, stop strings and grammars, from the cache, in chunks, with little memory; and what cannot be is refused.
import concurrent.futures
import os
import re
import struct
import tempfile
import unittest

import test_spec
from gguf_reader import Gguf
from quire_server import BUNDLED, STORIES, Server, quire
from test_trained_heads import default_model

OTHER = os.path.join(STORIES, 'stories260K.gguf')
SCHEMA = test_spec.SCHEMAS[0]
FIELDS = ({}, {'temperature': 0.8}, {'frequency_penalty': 0.5, 'repetition_penalty': 1.1}, {'stop': ['the', '.']},
          {'response_format': SCHEMA, 'max_tokens': 48}, {'temperature': 1.0, 'top_p': 0.9, 'logit_bias': {'300': 2}},
          {'temperature': 0, 'max_tokens': 90}, {'temperature': 0.7, 'min_tokens': 20, 'logprobs': True, 'top_logprobs': 2})


@unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
class Bridge(unittest.TestCase):
    def answers(self, path, *options, rounds=1):
        """What every request is answered, the usage of all, and the metrics afterwards."""
        server = Server('--ctx', '1024', *options, path=path, timeout=120)
        long = 'Tell me again what I said, and count: ' + ' '.join(f'{i} naïve foxes,' for i in range(40))

        def ask(i):
            messages = [{'role': 'system', 'content': 'You answer briefly. Café, 東京, 🙂.'},
                        {'role': 'user', 'content': test_spec.QUESTIONS[i % 4] + (long if i % 5 == 1 else '')}]
            body = {'messages': messages, 'max_tokens': 32, 'temperature': 0, 'seed': i, **FIELDS[i % len(FIELDS)]}
            status, _, reply = server.post(test_spec.CHAT, body)
            self.assertEqual(status, 200, reply)
            return reply
        try:
            for _ in range(rounds):
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    replies = list(pool.map(ask, range(16)))
            metrics = server.get('/metrics')[2]
        finally:
            self.assertEqual(server.stop(), 0)
        told = [(r['choices'][0]['message'], r['choices'][0]['finish_reason'], r['choices'][0].get('logprobs')) for r in replies]
        return told, [r['usage'].get('completion_tokens_details', {}) for r in replies], metrics

    def check(self, target, draft):
        truth = self.answers(target)[0]
        for options in (('--spec-depth', '4'), ('--spec-depth', '3', '--step-tokens', '48'), (),
                        ('--spec-depth', '4', '--draft-vocab', '3000'),
                        ('--spec-depth', '6', '--kv-memory', self.little_memory(target), '--max-seqs', '8')):
            with self.subTest(target=target, draft=draft, options=options):
                told, usage, metrics = self.answers(target, '--draft', draft, *options, rounds=2)
                self.assertEqual(told, truth)
                self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
                if not options:
                    continue
                self.assertIn('quire_spec_decode_drafter_drafts_total{drafter="draft"}', metrics)
                self.assertGreater(sum(u.get('rejected_prediction_tokens', 0) for u in usage), 50)
                self.assertGreater(sum(u.get('accepted_prediction_tokens', 0) for u in usage), 20)
                self.assertGreater(self.number(metrics, 'quire_prefix_cache_hits_total'), 0)

    def number(self, metrics, name):
        return float(re.search(rf'^{name}(?:{{[^}}]*}})? (\S+)$', metrics, re.M).group(1))

    def little_memory(self, path):
        """A cache of some 1,100 tokens: not all streams find room at once."""
        memory = test_spec.Memory().facts(path=path)
        return str(int(memory['cache'] / 2048 * 1100))

    def test_the_default_model_drafts_for_the_bundled_one(self):
        self.check(BUNDLED, default_model())

    def test_the_bundled_model_drafts_for_the_default_one(self):
        self.check(default_model(), BUNDLED)

    @unittest.skipUnless(os.path.exists(OTHER), 'no other model is here')
    def test_a_model_of_512_tokens_drafts(self):
        truth = self.answers(BUNDLED)[0]
        told, usage, metrics = self.answers(BUNDLED, '--draft', OTHER, '--spec-depth', '4', rounds=2)
        self.assertEqual(told, truth)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
        self.assertGreater(sum(u.get('rejected_prediction_tokens', 0) for u in usage), 50)

    def test_memory_is_what_was_predicted(self):
        draft = default_model()
        memory = test_spec.Memory()
        facts = memory.facts('--draft', draft)
        resident, log = memory.resident_after(facts, '--draft', draft, '--spec-depth', '8', path=BUNDLED)
        memory.check_told(facts, log)
        self.assertLess(resident, 1.02 * facts['total'] + memory.LITTLE)

    def test_as_many_other_tokens_are_planned_for(self):
        with open(test_spec.DRAFT, 'rb') as file:
            data = file.read()
        pad = struct.pack('<Q', 7) + b'<|pad|>'
        self.assertEqual(data.count(pad), 1)
        facts = test_spec.Memory().facts
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, 'other.gguf')
            with open(other, 'wb') as file:
                file.write(data.replace(pad, pad.replace(b'pad', b'rug')))
            more = facts('--draft', other)['process'] - facts('--draft', test_spec.DRAFT)['process']
        n_vocab = Gguf(test_spec.DRAFT).tensors['token_embd.weight'][0][1]
        self.assertEqual(more, 350 * n_vocab + 4 * 2 * n_vocab, 'its tokenizer stays, and two tables of ids')

    def test_a_draft_without_a_tokenizer_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            test_spec.write_headed(folder)
            os.remove(os.path.join(folder, 'tokenizer.json'))
            done = quire('generate', BUNDLED, 'hello', '--max-tokens', '4', '--draft', folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f'--draft {folder}: {folder} has no tokenizer: a draft needs one, the model\'s own or another to go by text',
                      done.stderr)


if __name__ == '__main__':
    unittest.main()
