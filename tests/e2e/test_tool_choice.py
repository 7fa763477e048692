# Answers that are held to calls, on the real binary and the bundled model: every finished call is one of the tools' and
# its arguments pass the jsonschema package, under every choice, sampler and dialect, with the clients that people use.
import json
import unittest

from client_packages import ClientCase, missing
from quire_server import ServerCase, quill
from test_structured import SCHEMAS, judge

# Arguments are objects: what is none in the list stands in one.
PARAMETERS = [s if s.get('type') == 'object' or '$ref' in s else
              {'type': 'object', 'properties': {'v': s}, 'required': ['v'], 'additionalProperties': False}
              for s in SCHEMAS if '$defs' not in s] + [SCHEMAS[-2]]
PARAMETERS.append({'$defs': {'side': {'enum': ['left', 'right']}}, 'type': 'object', 'required': ['side', 'steps'],
                   'properties': {'side': {'$ref': '#/$defs/side'}, 'steps': {'type': 'integer', 'minimum': 1,
                                                                            'maximum': 20}},
                   'additionalProperties': False})


def tool(i, **more):
    return {'type': 'function', 'function': {'name': f'tool_{i}', 'description': f'Does thing {i}',
                                             'parameters': PARAMETERS[i], **more}}


@unittest.skipUnless(quill(), 'the model knows no tools')
class HeldToCalls(ServerCase):
    @classmethod
    def setUpClass(cls):
        reason = missing('jsonschema')
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def choices(self, **fields):
        status, _, body = self.server.post('/v1/chat/completions', {
            'messages': [{'role': 'user', 'content': 'Please do all of your things.'}], 'max_tokens': 200, **fields})
        self.assertEqual(status, 200, body)
        return body['choices']

    def finished(self, choice):
        """(parameters, arguments) of the calls that max_tokens has not cut."""
        calls = choice['message'].get('tool_calls') or []
        if choice['finish_reason'] == 'length' and calls:
            calls = calls[:-1]
        return [(PARAMETERS[int(c['function']['name'].split('_')[-1])], c['function']['arguments']) for c in calls]

    def test_required_calls_validate(self):
        pairs, n_whole, n_cut = [], 0, 0
        for i in range(len(PARAMETERS)):
            some = [tool(i), tool((i + 1) % len(PARAMETERS)), tool((i + 5) % len(PARAMETERS))]
            more = [{}, {'logprobs': True}, {'frequency_penalty': 1}, {'stop': ['"', '}']}, {'min_tokens': 20}][i % 5]
            for temperature in (0, 1, 1.6):
                for choice in self.choices(tools=some, tool_choice='required', n=1 if temperature == 0 else 3,
                                           temperature=temperature, seed=i, **more):
                    n_cut += choice['finish_reason'] == 'length'
                    n_whole += choice['finish_reason'] == 'tool_calls'
                    self.assertIn(choice['finish_reason'], ('tool_calls', 'length'))
                    self.assertFalse(choice['message']['content'], 'nothing but calls')
                    pairs += self.finished(choice)
        self.assertEqual(judge(pairs), [])
        self.assertGreater(n_whole, 3 * n_cut, f'{n_cut} were cut')

    def test_a_named_tool_is_called_once(self):
        tools, pairs = [tool(i) for i in range(len(PARAMETERS))], []
        for i in range(0, len(PARAMETERS), 3):
            named = {'type': 'function', 'function': {'name': f'tool_{i}'}}
            for choice in self.choices(tools=tools[:i + 1], tool_choice=named, n=2, seed=i):
                if choice['finish_reason'] == 'length':
                    continue
                call, = choice['message']['tool_calls']
                self.assertEqual(call['function']['name'], f'tool_{i}')
                pairs.append((PARAMETERS[i], call['function']['arguments']))
        self.assertEqual(judge(pairs), [])
        self.assertGreater(len(pairs), 5)

    def test_strict_tools_validate_where_the_model_chooses(self):
        pairs = []
        for i in range(len(PARAMETERS)):
            weather = tool(i, name=f'get_weather_{i}', description='The weather in a place.', strict=True)
            for choice in self.choices(messages=[{'role': 'user', 'content': 'What is the weather like in Paris?'}],
                                       tools=[weather], n=2, seed=i):
                pairs += self.finished(choice)
        self.assertEqual(judge(pairs), [])
        self.assertGreater(len(pairs), 5)

    def test_streamed_calls_are_the_same_and_what_is_cut_is_length(self):
        ask = {'messages': [{'role': 'user', 'content': 'x'}], 'tools': [tool(0)], 'tool_choice': 'required', 'seed': 3}
        for max_tokens, reason in ((200, 'tool_calls'), (4, 'length'), (20, 'length')):
            ask['max_tokens'] = max_tokens
            whole = self.server.post('/v1/chat/completions', ask)[2]['choices'][0]
            arguments, finish = '', None
            for event in self.server.events('/v1/chat/completions', {**ask, 'stream': True}):
                for choice in [] if event == '[DONE]' else event['choices']:
                    finish = choice['finish_reason'] or finish
                    arguments += ''.join(c['function'].get('arguments') or ''
                                         for c in choice['delta'].get('tool_calls') or [])
            calls = whole['message'].get('tool_calls') or []
            self.assertEqual(arguments, calls[0]['function']['arguments'] if calls else '')
            self.assertEqual((whole['finish_reason'], finish), (reason, reason))

    def test_calls_or_the_document(self):
        schema = {'type': 'object', 'properties': {'answer': {'enum': ['yes', 'no']}}, 'required': ['answer'],
                  'additionalProperties': False}
        form = {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': schema}}
        kinds = set()
        for text in ('Do thing 0.', 'Hello! How are you?', 'Say yes.'):
            for choice in self.choices(messages=[{'role': 'user', 'content': text}], tools=[tool(0, strict=True)],
                                       response_format=form, n=6, seed=1, temperature=1.5):
                if choice['finish_reason'] == 'length':
                    continue
                pairs = self.finished(choice) or [(schema, choice['message']['content'])]
                kinds.add(choice['finish_reason'])
                self.assertEqual(judge(pairs), [])
        self.assertEqual(kinds, {'tool_calls', 'stop'})

    def test_the_same_request_has_the_same_bits_beside_others(self):
        ask = dict(tools=[tool(0), tool(4)], tool_choice='required', n=3, seed=9, logprobs=True, temperature=1.2)
        def told(choices):
            return [(c['finish_reason'], c['logprobs'], [t['function'] for t in c['message'].get('tool_calls') or []])
                    for c in choices]
        alone = told(self.choices(**ask))
        self.assertEqual(self.server.post('/v1/completions', {'prompt': ['x'] * 8, 'max_tokens': 30})[0], 200)
        self.assertEqual(told(self.choices(**ask)), alone)
        self.assertEqual(told(self.choices(**ask, speculation=5)), alone)


HEAD = '''
import json
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer",
    "minimum": 1, "maximum": 9}}, "required": ["city", "days"], "additionalProperties": False}
QUESTION = [{"role": "user", "content": "Tell me a story."}]
FUNCTION = {"name": "get_weather", "description": "The weather in a place.", "parameters": PARAMETERS}
OTHER = {"name": "set_alarm", "parameters": {"type": "object", "properties": {}}}
def check(arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert list(arguments) == ["city", "days"] and 1 <= arguments["days"] <= 9 and len(arguments["city"]) <= 12, arguments
'''


@unittest.skipUnless(quill(), 'the model knows no tools')
class OpenaiHeldToCalls(ClientCase):
    wanted = 'openai>=1.60'
    head = HEAD + '''
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="none", max_retries=0)
'''

    def test_chat(self):
        self.run_script('''
tools = [{"type": "function", "function": {**FUNCTION, "strict": True}}, {"type": "function", "function": OTHER}]
named = {"type": "function", "function": {"name": "get_weather"}}
allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
for choice in ["required", named, allowed]:
    ask = dict(model="any", messages=QUESTION, tools=tools, tool_choice=choice, temperature=0)
    first = client.chat.completions.create(**ask).choices[0]
    assert first.finish_reason == "tool_calls", first
    for call in first.message.tool_calls:
        if call.function.name == "get_weather":
            check(call.function.arguments)
        else:
            assert choice == "required" and call.function.name == "set_alarm"
''')

    def test_responses(self):
        self.run_script('''
tools = [{"type": "function", **FUNCTION}, {"type": "function", **OTHER}]
named = {"type": "function", "name": "get_weather"}
for choice in [named, {"type": "allowed_tools", "mode": "required", "tools": [named]}]:
    first = client.responses.create(model="any", input=QUESTION, tools=tools, tool_choice=choice, temperature=0)
    assert first.output and all(item.type == "function_call" for item in first.output), first.output
    for item in first.output:
        assert item.name == "get_weather"
        check(item.arguments)
''')


@unittest.skipUnless(quill(), 'the model knows no tools')
class AnthropicHeldToCalls(ClientCase):
    wanted = 'anthropic>=0.40'
    head = HEAD + '''
import anthropic
client = anthropic.Anthropic(base_url="{url}", api_key="none", max_retries=0)
'''

    def test_messages(self):
        self.run_script('''
tools = [{"name": "get_weather", "input_schema": PARAMETERS}, {"name": "set_alarm", "input_schema": OTHER["parameters"]}]
for choice in [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "get_weather"}]:
    ask = dict(model="any", max_tokens=200, tools=tools, tool_choice=choice, messages=QUESTION, extra_body={"temperature": 0})
    first = client.messages.create(**ask)
    assert first.stop_reason == "tool_use" and all(block.type == "tool_use" for block in first.content), first
    for block in first.content:
        assert block.name == "get_weather" or choice["type"] == "any"
        if block.name == "get_weather":
            check(block.input)
    with client.messages.stream(**ask) as stream:
        assert [b.input for b in stream.get_final_message().content] == [b.input for b in first.content]
''')


if __name__ == '__main__':
    unittest.main()
