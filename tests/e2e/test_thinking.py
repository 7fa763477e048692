# thinking_token_budget on the bundled model: thoughts end where they have to, the answer follows, and the bits are the
# same however prompts are cut, cached or guessed ahead; where it cannot be kept it is refused by name.
import concurrent.futures
import json
import os
import tempfile
import unittest

from quire_server import BUNDLED, ROOT, SHARED, Server

CHAT = '/v1/chat/completions'
DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')
OTHER = os.path.join(SHARED, 'data', 'models', 'stories260K', 'stories260K.gguf')
QUESTIONS = ['How many legs have three spiders and two dogs?', 'What is 17 + 25?', 'Is a whale a fish?']
SCHEMA = {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {
    'type': 'object', 'properties': {'answer': {'type': 'string', 'maxLength': 20}}, 'required': ['answer'],
    'additionalProperties': False}}}


def thinker(folder):
    """The bundled model with a template whose prompts end in <think>: as many bytes, so nothing else of the file moves."""
    with open(BUNDLED, 'rb') as file:
        data = file.read()
    prompt, error = b"{{- '<|assistant|>' -}}", b"'role must be system, user, assistant or tool, is '"
    assert data.count(prompt) == 1 and data.count(error) == 1
    data = data.replace(prompt, b"{{- '<|assistant|><think>\\n' -}}").replace(error, error[:-10] + b"'")
    path = os.path.join(folder, 'thinker.gguf')
    with open(path, 'wb') as file:
        file.write(data)
    return path


def body(i, budget, **fields):
    return {'messages': [{'role': 'user', 'content': QUESTIONS[i % len(QUESTIONS)]}], 'max_tokens': 60, 'seed': i,
            'temperature': 0 if i % 2 == 0 else 1.2,
            **({} if budget is None else {'thinking_token_budget': budget}), **fields}


def ask(server, i, budget, **fields):
    status, _, reply = server.post(CHAT, body(i, budget, **fields))
    assert status == 200, reply
    message = reply['choices'][0]['message']
    n = reply['usage'].get('completion_tokens_details', {}).get('reasoning_tokens', 0)
    return message.get('reasoning_content') or '', message['content'] or '', n


@unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
class Thinking(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = thinker(cls.folder.name)
        cls.server = Server('--spec', 'off', path=cls.path)
        cls.free = [ask(cls.server, i, None) for i in range(6)]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def test_thoughts_end_behind_so_many_tokens(self):
        n_cut = 0
        for i, (reasoning, content, n_free) in enumerate(self.free):
            for budget in (0, 3, 9):
                thought, said, n = ask(self.server, i, budget)
                self.assertTrue(reasoning.startswith(thought), (reasoning, thought))
                self.assertLessEqual(n, budget + 4)  # the marks and white space count as reasoning, too
                if n_free < budget:
                    self.assertEqual((thought, said), (reasoning, content))
                elif n_free > budget + 4:
                    n_cut += 1
                    self.assertLess(len(thought), len(reasoning))
        self.assertGreater(n_cut, 3, self.free)

    def test_a_large_budget_changes_nothing(self):
        self.assertEqual([ask(self.server, i, 10**12) for i in range(6)], self.free)

    def test_a_schema_begins_behind_the_mark(self):
        for i in range(4):
            thought, said, _ = ask(self.server, i, 4, response_format=SCHEMA, max_tokens=120)
            self.assertIn('answer', json.loads(said))
            self.assertTrue(self.free[i][0].startswith(thought))

    def test_the_same_bits_in_chunks_from_the_cache_and_with_guesses(self):
        def all_of(server):
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                return list(pool.map(lambda i: ask(server, i, (0, 3, 9)[i % 3], **({'response_format': SCHEMA} if i > 5 else {})),
                                     range(9)))
        truth = [ask(self.server, i, (0, 3, 9)[i % 3], **({'response_format': SCHEMA} if i > 5 else {})) for i in range(9)]
        for options in ([], ['--spec', 'ngram', '--spec-depth', '4', '--step-tokens', '16'], ['--draft', DRAFT, '--spec-depth', '3']):
            server = Server(*options, path=self.path)
            try:
                for _ in range(2):
                    self.assertEqual(all_of(server), truth, options)
            finally:
                server.stop()

    def test_streamed_and_in_anthropics_words(self):
        thought, said, _ = ask(self.server, 0, 3)
        events = self.server.events(CHAT, {**body(0, 3), 'stream': True})
        deltas = [e['choices'][0]['delta'] for e in events if isinstance(e, dict) and e.get('choices')]
        self.assertEqual(''.join(d.get('reasoning_content') or '' for d in deltas), thought)
        self.assertEqual(''.join(d.get('content') or '' for d in deltas), said)
        status, _, reply = self.server.post('/v1/messages', {
            'messages': [{'role': 'user', 'content': QUESTIONS[0]}], 'max_tokens': 60, 'seed': 0, 'temperature': 0,
            'thinking': {'type': 'enabled', 'budget_tokens': 3}})
        self.assertEqual(status, 200, reply)
        blocks = {b['type']: b.get('thinking', b.get('text')) for b in reply['content']}
        self.assertEqual(blocks.get('thinking', ''), thought)
        self.assertEqual(blocks['text'], said)

    def test_what_cannot_be_is_refused_by_name(self):
        for budget in (-1, 1.5, 'x'):
            status, _, reply = self.server.post(CHAT, body(0, budget))
            self.assertEqual(status, 400)
            self.assertIn('thinking_token_budget', reply['error']['message'])

    @unittest.skipUnless(os.path.exists(OTHER), 'no other model is here')
    def test_a_model_that_does_not_think_refuses_it(self):
        server = Server('--spec', 'off', path=OTHER)
        try:
            status, _, reply = server.post('/v1/completions', {'prompt': 'x', 'max_tokens': 2, 'thinking_token_budget': 4})
            self.assertEqual(status, 400)
            self.assertIn('does not think', reply['error']['message'])
            self.assertIn('thinking_token_budget', reply['error']['message'])
        finally:
            server.stop()
