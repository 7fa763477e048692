# Texts without an end: the bundled model goes on past its context, in constant memory, with right ends and counts; what
# cannot be is refused by name and value.
import os
import unittest

from quire_server import BUNDLED, ROOT, Server, joined, quire

COMPLETIONS = '/v1/completions'
CONTEXT = 8192  # of the bundled model
SHIFT = ['--context-shift', 'sinks=4,window=508']
RADIO = os.path.join(ROOT, 'models', 'adapters', 'radio')
DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')


def long_prompt(n):
    return [50 + i * i % 97 for i in range(n)]


def body(n_prompt, **fields):
    return {'prompt': long_prompt(n_prompt), 'max_tokens': 60, 'temperature': 0.7, 'seed': 3, 'ignore_eos': True, **fields}


@unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
class ContextShift(unittest.TestCase):
    def ask(self, server, *arguments, **fields):
        status, _, reply = server.post(COMPLETIONS, body(*arguments, **fields))
        self.assertEqual(status, 200, reply)
        return reply

    def test_goes_on_past_the_context(self):
        with_shift = Server(*SHIFT, path=BUNDLED)
        try:
            first = self.ask(with_shift, CONTEXT - 30)  # begins within the context, ends behind it
            self.assertEqual(first['choices'][0]['finish_reason'], 'length')
            self.assertEqual(first['usage']['prompt_tokens'], CONTEXT - 30)
            self.assertEqual(first['usage']['completion_tokens'], 60)
            again = self.ask(with_shift, CONTEXT - 30)
            self.assertEqual(again['choices'][0]['text'], first['choices'][0]['text'])
            self.assertGreaterEqual(again['usage']['prompt_tokens_details']['cached_tokens'], CONTEXT - 30 - 16)
            beyond = self.ask(with_shift, 3 * CONTEXT)
            self.assertEqual(beyond['usage']['prompt_tokens'], 3 * CONTEXT)
            self.assertEqual(beyond['usage']['completion_tokens'], 60)
            self.assertEqual(beyond['choices'][0]['finish_reason'], 'length')
            # The middle of a text is given back: what parts there finds the block of the sinks and no more.
            parted = self.ask(with_shift, CONTEXT // 2, max_tokens=1)
            self.assertLessEqual(parted['usage'].get('prompt_tokens_details', {}).get('cached_tokens', 0), 16)
            status, _, models = with_shift.get('/v1/models')
            self.assertEqual((status, models['data'][0]['max_model_len']), (200, 131072))
        finally:
            self.assertEqual(with_shift.stop(), 0)

    def test_streams_what_it_answers_at_once(self):
        server = Server(*SHIFT, '--ctx', '20000', path=BUNDLED)
        try:
            whole = self.ask(server, CONTEXT + 100)
            events = server.events(COMPLETIONS, body(CONTEXT + 100, stream=True))
            self.assertEqual(joined(events), whole['choices'][0]['text'])
            status, _, reply = server.post(COMPLETIONS, body(20000))  # what was asked for still ends a text
            self.assertEqual(status, 400)
            self.assertIn('20000', reply['error']['message'])
        finally:
            self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(os.path.exists(DRAFT), 'the bundled draft is not here')
    def test_guesses_change_no_answer(self):
        texts = []
        for options in ([], ['--draft', DRAFT, '--spec-depth', '3'], ['--spec', 'ngram']):
            server = Server('--context-shift', 'sinks=4,window=60', *options, path=BUNDLED)
            try:
                texts.append(self.ask(server, 200, max_tokens=150)['choices'][0]['text'])
            finally:
                self.assertEqual(server.stop(), 0)
        self.assertEqual(texts, [texts[0]] * 3)

    def test_without_it_nothing_goes_past_the_context(self):
        server = Server(path=BUNDLED)
        try:
            status, _, reply = server.post(COMPLETIONS, body(CONTEXT + 100))
            self.assertEqual(status, 400)
            self.assertIn(str(CONTEXT), reply['error']['message'])
            cut = self.ask(server, CONTEXT - 30)
            self.assertEqual(cut['usage']['completion_tokens'], 30)
            with_shift = Server('--context-shift', 'sinks=4,window=8188', path=BUNDLED)
            try:  # as long as nothing is left out the answer is the same
                whole = self.ask(with_shift, CONTEXT - 30)
            finally:
                self.assertEqual(with_shift.stop(), 0)
            self.assertTrue(whole['choices'][0]['text'].startswith(cut['choices'][0]['text']))
        finally:
            self.assertEqual(server.stop(), 0)

    def refused(self, *options):
        ran = quire('serve', BUNDLED, '--port', '0', *options)
        self.assertNotEqual(ran.returncode, 0)
        return ran.stderr

    def test_what_cannot_be_is_refused_with_both_values(self):
        said = self.refused('--context-shift', 'sinks=4,window=9000')
        self.assertIn('4 sinks and a window of 9000 tokens takes 9004 positions; the model has 8192', said)
        said = self.refused('--context-shift', 'sinks=4,window=15')
        self.assertIn('window of 15 tokens needs a window of at least a block, which is 16 tokens', said)
        self.assertIn('sinks must be 0 to 256, got "300"', self.refused('--context-shift', 'sinks=300,window=512'))
        self.assertIn('must be sinks=S,window=W, got "on"', self.refused('--context-shift', 'on'))
        said = self.refused(*SHIFT, '--prefix', 'p=' + RADIO)
        self.assertIn('4 sinks and a window of 508 tokens excludes learned prefixes', said)
        said = self.refused(*SHIFT, '--record', os.devnull)
        self.assertIn('4 sinks and a window of 508 tokens excludes a recording', said)


if __name__ == '__main__':
    unittest.main()
