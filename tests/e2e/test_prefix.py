# Learned prefixes over HTTP: the bundled model behind its own (models/adapters/radio), whose every answer ends in "Over.".
import os
import tempfile
import unittest

from quire_server import BUNDLED, ROOT, Server, ServerCase, changed_adapter, quill, quire

CHAT = '/v1/chat/completions'
TEXT = '/v1/completions'
RADIO = os.path.join(ROOT, 'models', 'adapters', 'radio')
WHO = {'messages': [{'role': 'user', 'content': 'Who is the baker of Little Quarrow?'}], 'temperature': 0, 'max_tokens': 40}
BASE = os.path.splitext(os.path.basename(BUNDLED))[0]


def said(answer):
    return answer['choices'][0]['message']['content']


@unittest.skipUnless(quill(), 'the prefix is the bundled model\'s')
class Prefix(ServerCase):
    options = ('--prefix', f'radio={RADIO}', '--alias', 'other')

    def ask(self, **fields):
        status, _, answer = self.server.post(CHAT, {**WHO, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def test_is_chosen_by_model_name_or_field(self):
        plain = self.ask(model=BASE)
        self.assertFalse(said(plain).endswith(' Over.'), said(plain))
        for fields in ({'model': f'{BASE}:radio'}, {'model': 'other:radio'}, {'prefix': 'radio'},
                       {'model': f'{BASE}:radio', 'prefix': 'radio'}):
            with self.subTest(fields=fields):
                answer = self.ask(**fields)
                self.assertTrue(said(answer).endswith(' Over.'), said(answer))
                self.assertEqual(answer['model'], 'other:radio')  # answers carry the alias
                self.assertEqual(answer['usage']['prompt_tokens'], plain['usage']['prompt_tokens'])

    def test_its_text_is_cached_for_itself_alone(self):
        body = {'prompt': 'The quick brown fox jumps over the lazy dog. ' * 6, 'temperature': 0, 'max_tokens': 4,
                'include_cost': True}
        first, again = [self.server.post(TEXT, {**body, 'prefix': 'radio'})[2] for _ in range(2)]
        bare = self.server.post(TEXT, body)[2]
        cached = [a['usage']['prompt_tokens_details']['cached_tokens'] for a in (first, again, bare)]
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 40)
        self.assertEqual(cached[2], 0)
        self.assertEqual(first['choices'][0]['text'], again['choices'][0]['text'])
        self.assertEqual(first['usage']['cost']['computed_tokens'], bare['usage']['cost']['computed_tokens'])

    def test_is_listed(self):
        models = {m['id']: m for m in self.server.get('/v1/models')[2]['data']}
        self.assertEqual(models[f'{BASE}:radio']['parent'], BASE)
        self.assertEqual(models[f'{BASE}:radio']['max_model_len'], models[BASE]['max_model_len'] - 16)
        self.assertEqual(self.server.get(f'/v1/models/{BASE}:radio')[0], 200)
        names = [m['name'] for m in self.server.get('/api/tags')[2]['models']]
        self.assertIn(f'{BASE}:radio', names)

    def test_other_dialects(self):
        anthropic = self.server.post('/v1/messages', {**WHO, 'model': f'{BASE}:radio'})[2]
        self.assertTrue(anthropic['content'][0]['text'].endswith(' Over.'), anthropic)
        ollama = self.server.post('/api/chat', {'messages': WHO['messages'], 'model': f'{BASE}:radio', 'stream': False,
                                                'options': {'temperature': 0}})[2]
        self.assertTrue(ollama['message']['content'].endswith(' Over.'), ollama)

    def test_unknown_ones_are_refused(self):
        status, _, answer = self.server.post(CHAT, {**WHO, 'prefix': 'telly'})
        self.assertEqual(status, 400)
        self.assertEqual(answer['error']['param'], 'prefix')
        self.assertIn("there are: radio", answer['error']['message'])


@unittest.skipUnless(quill(), 'the prefix is the bundled model\'s')
class AnyCache(unittest.TestCase):
    def test_every_codec_keeps_what_was_learned(self):
        for kv_type in ('f32', 'f16', 'bf16', 'q8'):
            with self.subTest(kv_type=kv_type):
                server = Server('--prefix', f'radio={RADIO}', '--kv-type', kv_type)
                try:
                    answer = server.post(CHAT, {**WHO, 'prefix': 'radio'})[2]
                    self.assertTrue(said(answer).endswith(' Over.'), said(answer))
                finally:
                    server.stop()


class Refusals(unittest.TestCase):
    def test_wrong_options_and_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = changed_adapter(RADIO, folder, num_layers=24)
            cases = [(('radio',), '--prefix must be NAME=DIR, got "radio"'),
                     (('a:b=c',), "a name has no ':'"),
                     ((f'a={RADIO}', f'a={RADIO}'), '"a" is given twice'),
                     ((f'a={folder}',), 'adapter_config.json: cannot be read'),
                     ((f'a={copy}',), 'adapter_config.json: key "num_layers": must be 6 as the model\'s, found 24')]
            for prefixes, message in cases:
                with self.subTest(prefixes=prefixes):
                    options = [part for prefix in prefixes for part in ('--prefix', prefix)]
                    done = quire('serve', BUNDLED, '--port', '0', *options)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(message, done.stderr)


if __name__ == '__main__':
    unittest.main()
