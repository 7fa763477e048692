# The default model, greedily, under a schema, any JSON object and a pattern: what it says validates. Skipped where the
# model is not here.
import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))
from quire_server import Server, binary  # noqa: E402

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != 'QUIRE_MODELS'}
if os.environ.get('QUIRE_REAL_MODELS'):
    ENVIRONMENT['QUIRE_MODELS'] = os.environ['QUIRE_REAL_MODELS']
CITY = {'type': 'object', 'properties': {'city': {'type': 'string', 'maxLength': 40},
                                         'people': {'type': 'integer', 'minimum': 0, 'maximum': 10 ** 8}},
        'required': ['city', 'people'], 'additionalProperties': False}


class SmolLm2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([binary(), 'pull', '--offline'], env=ENVIRONMENT, capture_output=True, text=True, check=False)
        path = os.environ.get('QUIRE_REAL_MODEL') or found.stdout.strip()
        if not os.path.exists(path):
            raise unittest.SkipTest('SmolLM2-135M-Instruct is not here: `quire pull` fetches it')
        cls.server = Server('--ctx', '1024', path=path, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def say(self, text, **fields):
        status, _, body = self.server.post('/v1/chat/completions', {
            'messages': [{'role': 'user', 'content': text}], 'temperature': 0, 'max_tokens': 200, **fields})
        self.assertEqual(status, 200, body)
        self.assertEqual(body['choices'][0]['finish_reason'], 'stop', body)
        return body['choices'][0]['message']['content']

    def test_a_schema(self):
        said = json.loads(self.say('Name the capital of France and its population as JSON.', response_format={
            'type': 'json_schema', 'json_schema': {'name': 'city', 'schema': CITY}}))
        self.assertEqual(said['city'], 'Paris')
        self.assertIsInstance(said['people'], int)
        self.assertEqual(sorted(said), ['city', 'people'])

    def test_any_object(self):
        said = self.say('Describe a cat in JSON with name and age.', response_format={'type': 'json_object'})
        self.assertIsInstance(json.loads(said), dict)

    def test_a_pattern(self):
        said = self.say('When was Einstein born?', regex='(18|19)[0-9]{2}-[0-9]{2}-[0-9]{2}')
        self.assertTrue(re.fullmatch('(18|19)[0-9]{2}-[0-9]{2}-[0-9]{2}', said), said)


if __name__ == '__main__':
    unittest.main()
