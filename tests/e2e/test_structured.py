# Structured output against the real binary: what is generated under a schema is judged by the jsonschema package, under
# every dialect, by the clients that people use; what cannot be kept is refused and costs the others nothing.
import json
import os
import random
import re
import subprocess
import time
import unittest

import grammar_bombs
from client_packages import PYTHON, ClientCase, missing
from quire_server import ROOT, ServerCase

CITY = {'type': 'object', 'properties': {'city': {'type': 'string', 'minLength': 1, 'maxLength': 12},
                                         'people': {'type': 'integer', 'minimum': 0, 'maximum': 99999},
                                         'tags': {'type': 'array', 'items': {'enum': ['old', 'new']}, 'maxItems': 2}},
        'required': ['city', 'people', 'tags'], 'additionalProperties': False}
# Small enough that an answer ends within its tokens, whatever the model.
SCHEMAS = [
    CITY,
    {'type': 'integer', 'minimum': -12, 'exclusiveMaximum': 4000, 'multipleOf': 3},
    {'enum': ['a', 1, None, [1, {'x': 2}]]},
    {'const': {'b': 1, 'a': 'ü"\\'}},
    {'anyOf': [{'type': 'boolean'}, {'type': 'string', 'pattern': '^[A-C]{2,5}$'}]},
    {'oneOf': [{'type': 'integer', 'minimum': 0, 'maximum': 9}, {'type': 'integer', 'minimum': 5, 'maximum': 15}]},
    {'type': 'string', 'format': 'date'},
    {'type': 'string', 'format': 'ipv4'},
    {'type': 'string', 'format': 'uuid'},
    {'type': 'string', 'not': {'enum': ['x']}, 'maxLength': 3},
    {'type': 'array', 'prefixItems': [{'type': 'boolean'}, {'type': 'null'}], 'items': False, 'minItems': 2},
    {'type': 'array', 'items': {'enum': [1, 2, 3]}, 'uniqueItems': True, 'minItems': 2},
    {'type': 'array', 'items': {'type': 'integer', 'minimum': 0, 'maximum': 9}, 'contains': {'const': 7}, 'maxItems': 4},
    {'type': 'object', 'properties': {'a': {'type': 'boolean'}, 'b': {'type': 'boolean'}},
     'dependentRequired': {'a': ['b']}, 'minProperties': 1, 'additionalProperties': False},
    {'type': 'object', 'properties': {'kind': {'enum': ['x', 'y']}, 'v': {'type': ['boolean', 'null']}},
     'required': ['kind', 'v'], 'additionalProperties': False,
     'if': {'properties': {'kind': {'const': 'x'}}}, 'then': {'properties': {'v': {'type': 'boolean'}}}},
    {'$defs': {'node': {'type': 'object', 'properties': {'v': {'type': 'boolean'}, 'next': {'anyOf': [
        {'type': 'null'}, {'$ref': '#/$defs/node'}]}}, 'required': ['v', 'next'], 'additionalProperties': False}},
     '$ref': '#/$defs/node'},
    {'type': 'object', 'propertyNames': {'pattern': '^k[0-9]$'}, 'maxProperties': 2, 'minProperties': 1,
     'additionalProperties': {'type': 'number', 'minimum': 0, 'maximum': 1, 'multipleOf': 0.25}},
]


def judge(pairs):
    """What the jsonschema package says against each (schema, text); an empty list: nothing."""
    script = ('import json, sys, jsonschema\n'
              'for schema, text in json.load(sys.stdin):\n'
              '    try:\n'
              '        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())'
              '.validate(json.loads(text))\n'
              '    except Exception as e:\n'
              '        print(json.dumps(schema), text, type(e).__name__, str(e)[:100])\n')
    done = subprocess.run([PYTHON, '-c', script], input=json.dumps(pairs), capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines() + done.stderr.splitlines()


class Documents(ServerCase):
    @classmethod
    def setUpClass(cls):
        reason = missing('jsonschema')
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def answers(self, **fields):
        status, _, body = self.server.post('/v1/completions', {'prompt': 'As JSON:', 'max_tokens': 200, **fields})
        self.assertEqual(status, 200, body)
        return [(c['text'], c['finish_reason']) for c in body['choices']]

    def test_what_is_generated_obeys(self):
        pairs, n_cut = [], 0
        for i, schema in enumerate(SCHEMAS):
            more = [{}, {'logprobs': 3}, {'frequency_penalty': 1}, {'bad_words': ['old']}, {'min_tokens': 20},
                    {'stop': ['"', '}', '1']}, {'ignore_eos': True}][i % 7]
            for text, finish in self.answers(guided_json=schema, n=4, temperature=1.5, seed=i, **more):
                n_cut += finish == 'length'
                if finish == 'stop':
                    pairs.append((schema, text))
        self.assertEqual(judge(pairs), [])
        self.assertGreater(len(pairs), 3 * len(SCHEMAS), f'{n_cut} were cut')

    def test_what_is_generated_obeys_at_temperature_0_and_streamed(self):
        for schema in SCHEMAS[:6]:
            ask = {'prompt': 'x', 'max_tokens': 200, 'temperature': 0, 'response_format': {
                'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': schema}}}
            _, _, whole = self.server.post('/v1/completions', ask)
            text = whole['choices'][0]['text']
            events = self.server.events('/v1/completions', ask)
            self.assertEqual(''.join(c['text'] for e in events if e != '[DONE]' for c in e['choices']), text)
            if whole['choices'][0]['finish_reason'] == 'stop':
                self.assertEqual(judge([(schema, text)]), [])

    def test_other_notations(self):
        for fields, pattern in [
            ({'regex': '[a-f]{3,9}-[0-9]{2}'}, '[a-f]{3,9}-[0-9]{2}'),
            ({'guided_choice': ['yes', 'no', 'maybe so']}, 'yes|no|maybe so'),
            ({'grammar': 'root ::= "(" inner ")"\ninner ::= [xyz]{1,5} | root'}, r'\(+[xyz]{1,5}\)+'),
            ({'ebnf': "root ::= 'a' ('b' | 'c')* 'd'"}, 'a[bc]*d'),
            ({'guided_grammar': 'start: WORD ("," WORD)~1..3\nWORD: /[a-c]{1,4}/'}, '[a-c]{1,4}(,[a-c]{1,4}){1,3}'),
            ({'structural_tag': {'format': {'type': 'sequence', 'elements': [
                {'type': 'const_string', 'value': '<x>'}, {'type': 'json_schema', 'json_schema': {'type': 'boolean'}}]}}},
             '<x>(true|false)'),
        ]:
            for text, finish in self.answers(**fields, n=3, temperature=1.5, seed=7, max_tokens=60):
                if finish == 'stop':
                    self.assertRegex(text, re.compile(f'^(?:{pattern})$', re.DOTALL), fields)

    def test_the_schemas_of_people(self):
        """A few of MaskBench's, where the data is here."""
        folder = os.path.join(os.environ.get('QUIRE_SHARED', os.path.join(ROOT, '..', 'shared')), 'data', 'json-schema')
        path = os.path.join(folder, 'maskbench-Glaiveai2K.jsonl')
        if not os.path.exists(path):
            self.skipTest('no test data: ' + path)
        with open(path) as file:
            lines = file.read().splitlines()
        pairs = []
        for line in random.Random(5).sample(lines, 12):
            schema = json.loads(line)
            schema = schema.get('schema', schema)
            pairs += [(schema, t) for t, finish in self.answers(guided_json=schema, seed=1, max_tokens=300)
                      if finish == 'stop']
        self.assertEqual(judge(pairs), [])

    def test_what_max_tokens_cuts_is_length(self):
        (text, finish), = self.answers(guided_json=CITY, max_tokens=3, seed=1)
        self.assertEqual(finish, 'length')
        self.assertTrue(text.startswith('{'))

    def test_the_same_request_has_the_same_bits_beside_others(self):
        alone = self.answers(guided_json=CITY, n=3, seed=9, logprobs=2)
        mixed = self.server.post('/v1/completions', {'prompt': ['x'] * 8, 'max_tokens': 30, 'seed': 3})
        self.assertEqual(mixed[0], 200)
        self.assertEqual(self.answers(guided_json=CITY, n=3, seed=9, logprobs=2), alone)

    def test_an_answer_that_cannot_go_on_is_an_error_that_names_the_fields(self):
        status, _, body = self.server.post('/v1/completions', {
            'prompt': 'x', 'regex': 'a', 'allowed_token_ids': [0], 'max_tokens': 4})
        self.assertEqual(status, 400, body)
        self.assertEqual((body['error']['type'], body['error']['code']), ('invalid_request_error', 'ended_by_rules'))
        self.assertIn('everything is forbidden by regex, allowed_token_ids', str(body))


class Bombs(ServerCase):
    """Group G: each is answered, compiled or refused by name, and the server goes on."""

    def test_each_is_answered(self):
        slow = {}
        for name, fields in grammar_bombs.bombs().items():
            start = time.monotonic()
            status, _, body = self.server.post('/v1/completions', {'prompt': 'x', 'max_tokens': 2, **fields})
            slow[name] = time.monotonic() - start
            self.assertIn(status, (200, 400), (name, str(body)[:200]))
            if status == 400:
                self.assertIn('cannot be kept: ', str(body), name)
                self.assertLess(len(str(body)), 1500, name)
            # No bound of a busy machine's clock: a compiler without one takes minutes.
            self.assertLess(slow[name], 20, name)
        print('slowest: ' + ', '.join(f'{n} {t * 1000:.0f} ms' for n, t in sorted(slow.items(), key=lambda x: -x[1])[:4]))
        self.assertEqual(self.server.post('/v1/completions', {'prompt': 'x', 'max_tokens': 2})[0], 200)

    def test_many_distinct_schemas_hold_no_memory(self):
        ask = {'prompt': 'x', 'max_tokens': 1}
        for i in range(1500):
            status, _, body = self.server.post('/v1/completions', {**ask, 'guided_json': {'const': f'{i}' * 50}})
            self.assertEqual(status, 200, body)
            if i == 300:
                before = self.server.metric('process_resident_memory_bytes')
        after = self.server.metric('process_resident_memory_bytes')
        self.assertLess(float(after) - float(before), 64 << 20)


class OpenaiClient(ClientCase):
    wanted = 'openai>=1.60'
    head = '''
import json, openai
client = openai.OpenAI(base_url="{url}/v1", api_key="none", max_retries=0)
ask = dict(model="any", messages=[{"role": "user", "content": "A city."}], seed=3)
schema = ''' + repr(CITY) + '''
def check(text):
    city = json.loads(text)
    assert sorted(city) == ["city", "people", "tags"] and isinstance(city["people"], int), text
'''

    def test_chat(self):
        self.run_script('''
form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
whole = client.chat.completions.create(response_format=form, **ask)
check(whole.choices[0].message.content)
text = ""
for chunk in client.chat.completions.create(response_format=form, stream=True, **ask):
    text += chunk.choices[0].delta.content or ""
assert text == whole.choices[0].message.content
some = client.chat.completions.create(response_format={"type": "json_object"}, max_tokens=200, **ask)
assert some.choices[0].message.content.startswith("{")
if some.choices[0].finish_reason == "stop":
    assert isinstance(json.loads(some.choices[0].message.content), dict)
try:
    form["json_schema"]["schema"] = {"$ref": "http://elsewhere"}
    client.chat.completions.create(response_format=form, **ask)
    raise SystemExit("not refused")
except openai.BadRequestError as e:
    assert "response_format.json_schema.schema" in str(e) and "$ref" in str(e), e
''')

    def test_classes(self):
        self.run_script('''
from typing import Literal
import pydantic
class Mood(pydantic.BaseModel):
    mood: Literal["glad", "sad"]
    why: Literal["sun", "rain"]
said = client.chat.completions.parse(response_format=Mood, **ask).choices[0].message.parsed
assert said.mood in ("glad", "sad") and said.why in ("sun", "rain"), said
said = client.responses.parse(model="any", input="A mood.", text_format=Mood).output_parsed
assert said.mood in ("glad", "sad"), said
''')

    def test_responses(self):
        self.run_script('''
form = {"format": {"type": "json_schema", "name": "city", "strict": True, "schema": schema}}
whole = client.responses.create(model="any", input="A city.", text=form, extra_body={"seed": 3})
check(whole.output_text)
assert whole.text.format.type == "json_schema", whole.text
''')


class AnthropicClient(ClientCase):
    wanted = 'anthropic>=0.40'
    head = '''
import anthropic, json
client = anthropic.Anthropic(base_url="{url}", api_key="none", max_retries=0)
'''

    def test_output_config(self):
        self.run_script(f'''
schema = json.loads({json.dumps(json.dumps(CITY))})
said = client.messages.create(model="any", max_tokens=200, messages=[{{"role": "user", "content": "A city."}}],
                              extra_body={{"output_config": {{"format": {{"type": "json_schema", "schema": schema}}}}}})
assert said.stop_reason == "end_turn", said
assert sorted(json.loads(said.content[0].text)) == ["city", "people", "tags"], said
''')


class OllamaClient(ClientCase):
    wanted = 'ollama>=0.4'
    head = '''
import json, ollama
client = ollama.Client(host="{url}")
messages = [{"role": "user", "content": "A city."}]
'''

    def test_format(self):
        self.run_script(f'''
schema = json.loads({json.dumps(json.dumps(CITY))})
said = client.chat(model="any", messages=messages, format=schema)
assert sorted(json.loads(said.message.content)) == ["city", "people", "tags"], said
said = client.generate(model="any", prompt="A city.", format=schema, options={{"seed": 1}})
assert sorted(json.loads(said.response)) == ["city", "people", "tags"], said
said = client.chat(model="any", messages=messages, format="json", options={{"num_predict": 120}})
assert said.message.content.startswith("{{"), said
''')


class LangchainClient(ClientCase):
    wanted = 'langchain-openai>=0.3'
    head = '''
import warnings
warnings.simplefilter("ignore")
from langchain_openai import ChatOpenAI
'''

    def test_structured_output(self):
        self.run_script(f'''
import json
schema = json.loads({json.dumps(json.dumps({'title': 'city', **CITY}))})
chat = ChatOpenAI(model="any", base_url="{self.server.url}/v1", api_key="none", max_retries=0)
said = chat.with_structured_output(schema, method="json_schema").invoke("A city.")
assert sorted(said) == ["city", "people", "tags"], said
''')


if __name__ == '__main__':
    unittest.main()
