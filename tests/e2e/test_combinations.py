# Requests that use features together, by chance: grammars, tools, penalties, biases, adapters, several answers, logprobs, long beginnings
# in common. Each server has other features on and another load; every answer and logprob is what a plain server says to one client.
import concurrent.futures
import json
import os
import random
import tempfile
import unittest

from quire_server import BUNDLED, ROOT, Server

DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')
ADAPTERS = [option for name in ('pirate', 'german')
            for option in ('--lora', f'{name}={os.path.join(ROOT, "models", "adapters", name)}')]
QUESTIONS = ['Tell me a story about a fox.', 'How many legs have three spiders?', 'What is 75 plus 89?', 'What is the capital of France?',
             'Repeat after me: one two one two one two.', 'Make all letters small: Arvin found the square belt.',
             'How long is this list? copper tent, purple sled, flat cart', 'Is this right? If not, correct it: Lono looked at at Glassbrook.']
CITY = {'type': 'object', 'required': ['city', 'people', 'tags'], 'additionalProperties': False, 'properties': {
    'city': {'type': 'string', 'maxLength': 16}, 'people': {'type': 'integer', 'minimum': 0, 'maximum': 99999},
    'tags': {'type': 'array', 'items': {'enum': ['old', 'new']}, 'maxItems': 2}}}
WEATHER = {'type': 'function', 'function': {'name': 'weather', 'description': 'The weather of a place.', 'parameters': {
    'type': 'object', 'required': ['place', 'days'], 'additionalProperties': False, 'properties': {
        'place': {'type': 'string', 'maxLength': 20}, 'days': {'type': 'integer', 'minimum': 1, 'maximum': 9}}}}}
N = 600 if os.environ.get('QUIRE_TEST_ALL') else 120


def request(seed):
    rng = random.Random(seed)
    messages = [{'role': 'system', 'content': 'You answer shortly. ' * rng.randint(1, 60)}] if rng.random() < 0.4 else []
    for _ in range(rng.randint(0, 3)):
        messages += [{'role': 'user', 'content': rng.choice(QUESTIONS)}, {'role': 'assistant', 'content': rng.choice(QUESTIONS)}]
    messages.append({'role': 'user', 'content': rng.choice(QUESTIONS)})
    body = {'messages': messages, 'max_tokens': rng.choice([1, 8, 40, 90]), 'seed': rng.randint(0, 5), 'temperature': rng.choice([0, 0, 0.7, 1.3])}
    rule = rng.choice(['none', 'none', 'none', 'schema', 'tools', 'regex', 'stop'])
    body |= {'none': {}, 'schema': {'response_format': {'type': 'json_schema', 'json_schema': {'name': 'city', 'schema': CITY}}},
             'tools': {'tools': [WEATHER], 'tool_choice': rng.choice(['auto', 'required'])}, 'regex': {'regex': '[a-z ]{3,30}\\.'},
             'stop': {'stop': ['the', '. ']}}[rule]
    for share, more in ((0.4, {'model': rng.choice(['pirate', 'german'])}), (0.3, {'logprobs': True, 'top_logprobs': 3}),
                        (0.3, {'frequency_penalty': 0.7, 'presence_penalty': 0.3}), (0.2, {'n': rng.randint(2, 3)}),
                        (0.2, {'logit_bias': {'300': -100, '500': 5}}), (0.1, {'ignore_eos': True}),
                        (0.2, {'kv_budget': rng.choice([64, 100])})):
        if rng.random() < share:
            body |= more
    return body


def answer(server, body):
    """What of a reply a client can rely on: all but its ids and times."""
    status, _, reply = server.post('/v1/chat/completions', body)
    if status != 200:
        raise AssertionError(f'{status} {reply}: {json.dumps(body)}')
    for choice in reply['choices']:
        for call in choice['message'].get('tool_calls') or []:
            del call['id']
    return reply['choices']


@unittest.skipUnless(os.path.exists(BUNDLED) and os.path.exists(DRAFT), 'the bundled models are not here')
class Combinations(unittest.TestCase):
    def answers(self, n_clients, *options):
        server = Server('--kv-type', 'q8', *ADAPTERS, *options, path=BUNDLED)
        self.addCleanup(server.stop)
        order = list(range(N))
        random.Random(n_clients).shuffle(order)
        with concurrent.futures.ThreadPoolExecutor(n_clients) as clients:
            out = dict(zip(order, clients.map(lambda i: answer(server, request(i)), order)))
        self.assertEqual(server.stop(), 0)
        return out

    def test_every_answer_is_the_plain_servers(self):
        plain = self.answers(1, '--spec', 'off')
        with tempfile.TemporaryDirectory() as folder:
            for n_clients, options in (
                    (16, ['--draft', DRAFT, '--kv-memory', '3000000', '--kv-disk', folder, '--kv-disk-size', '64M', '--step-tokens', '64',
                          '--max-seqs', '12']),
                    (9, ['--spec', 'ngram', '--spec-depth', '5', '--threads', '1', '--max-seqs', '5']),
                    (24, ['--draft', DRAFT, '--spec-depth', '4', '--step-tokens', '40', '--ctx', '2048'])):
                for i, choices in self.answers(n_clients, *options).items():
                    self.assertEqual(choices, plain[i], (options, json.dumps(request(i))))


if __name__ == '__main__':
    unittest.main()
