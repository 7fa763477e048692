# Tool calls with the stock clients and the bundled model: whole and streamed the same, and a dialogue of two turns.
import unittest

from client_packages import ClientCase
from quire_server import quill

HEAD = '''
import json
PARAMETERS = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
QUESTION = [{"role": "user", "content": "What is the weather like in Paris?"}]
RESULT = json.dumps({"weather": "sunny", "degrees": 21})
FUNCTION = {"name": "get_weather", "description": "The weather in a place.", "parameters": PARAMETERS}
'''


@unittest.skipUnless(quill(), 'the model knows no tools')
class OpenaiTools(ClientCase):
    wanted = 'openai>=1.60'
    head = HEAD + '''
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="none", max_retries=0)
'''

    def test_chat(self):
        self.run_script('''
ask = dict(model="any", messages=QUESTION, tools=[{"type": "function", "function": FUNCTION}], temperature=0)
first = client.chat.completions.create(**ask)
choice = first.choices[0]
call = choice.message.tool_calls[0]
assert choice.finish_reason == "tool_calls" and call.function.name == "get_weather"
assert list(json.loads(call.function.arguments)) == ["place"]
name, arguments, reason = "", "", None
for chunk in client.chat.completions.create(**ask, stream=True):
    for c in chunk.choices:
        reason = c.finish_reason or reason
        for piece in c.delta.tool_calls or []:
            name += piece.function.name or ""
            arguments += piece.function.arguments or ""
assert (name, arguments, reason) == ("get_weather", call.function.arguments, "tool_calls")
ask["messages"] = QUESTION + [choice.message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
second = client.chat.completions.create(**ask)
assert second.choices[0].finish_reason == "stop" and second.choices[0].message.content
# The first turn, its call included, up to the last whole block: the call was cut into the same tokens again.
assert second.usage.prompt_tokens_details.cached_tokens >= (first.usage.total_tokens - 1) // 16 * 16
''')

    def test_responses(self):
        self.run_script('''
ask = dict(model="any", tools=[{"type": "function", **FUNCTION}], temperature=0)
first = client.responses.create(**ask, input=QUESTION)
call = first.output[-1]
assert call.type == "function_call" and call.name == "get_weather", first.output
streamed = ""
for event in client.responses.create(**ask, input=QUESTION, stream=True):
    streamed += event.delta if event.type == "response.function_call_arguments.delta" else ""
assert streamed == call.arguments
result = [{"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
assert client.responses.create(**ask, previous_response_id=first.id, input=result).output_text
''')

    def test_custom_tools_of_responses(self):
        self.run_script('''
import re
lark = 'start: NUMBER (OP NUMBER)~1..3\\nOP: " + " | " * "\\nNUMBER: /[0-9]{1,4}/'
tool = {"type": "custom", "name": "calculate", "description": "Works out a sum.",
        "format": {"type": "grammar", "syntax": "lark", "definition": lark}}
ask = dict(model="any", tools=[tool], temperature=0)
question = [{"role": "user", "content": "How much is 17 + 4?"}]
named = dict(ask, tool_choice={"type": "custom", "name": "calculate"})
first = client.responses.create(**named, input=question)
call = first.output[-1]
assert call.type == "custom_tool_call" and call.name == "calculate", first.output
assert re.fullmatch("[0-9]{1,4}( [+*] [0-9]{1,4}){1,3}", call.input), call.input
streamed, done = "", ""
for event in client.responses.create(**named, input=question, stream=True):
    streamed += event.delta if event.type == "response.custom_tool_call_input.delta" else ""
    done = event.input if event.type == "response.custom_tool_call_input.done" else done
assert streamed == done == call.input, (streamed, done, call.input)
result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "21"}
kept = client.responses.create(**ask, tool_choice="none", previous_response_id=first.id, input=[result])
sent = client.responses.create(**ask, tool_choice="none", input=question + first.output + [result])
assert kept.output_text and sent.output_text
assert [item.type for item in client.responses.input_items.list(sent.id).data][1:] == [
    "custom_tool_call", "custom_tool_call_output"]
''')

    def test_custom_tools_of_chat(self):
        self.run_script('''
import re
tool = {"type": "custom", "custom": {"name": "note", "description": "Keeps a note.", "format": {
    "type": "grammar", "grammar": {"syntax": "regex", "definition": '- "[A-Za-z ]{3,20}"\\\\n'}}}}
ask = dict(model="any", tools=[tool], temperature=0,
           messages=[{"role": "user", "content": "Note that the sky is blue."}])
named = dict(ask, tool_choice={"type": "custom", "custom": {"name": "note"}})
choice = client.chat.completions.create(**named).choices[0]
call = choice.message.tool_calls[0]
assert (choice.finish_reason, call.type, call.custom.name) == ("tool_calls", "custom", "note"), choice
assert re.fullmatch('- "[A-Za-z ]{3,20}"\\n', call.custom.input), call.custom.input
streamed = ""
for chunk in client.chat.completions.create(**named, stream=True):
    for piece in [p for c in chunk.choices for p in c.delta.tool_calls or []]:
        streamed += piece.model_extra["custom"]["input"]
assert streamed == call.custom.input, streamed
ask["messages"] = ask["messages"] + [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "kept"}]
assert client.chat.completions.create(**ask, tool_choice="none").choices[0].message.content
''')


@unittest.skipUnless(quill(), 'the model knows no tools')
class AnthropicTools(ClientCase):
    wanted = 'anthropic>=0.40'
    head = HEAD + '''
import anthropic
client = anthropic.Anthropic(base_url="{url}", api_key="none", max_retries=0)
'''

    def test_messages(self):
        self.run_script('''
tool = {"name": "get_weather", "description": FUNCTION["description"], "input_schema": PARAMETERS}
ask = dict(model="any", max_tokens=200, tools=[tool], extra_body={"temperature": 0})
first = client.messages.create(**ask, messages=QUESTION)
call = first.content[-1]
assert first.stop_reason == "tool_use" and call.name == "get_weather" and list(call.input) == ["place"]
with client.messages.stream(**ask, messages=QUESTION) as stream:
    assert stream.get_final_message().content[-1].input == call.input
result = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]
turns = QUESTION + [{"role": "assistant", "content": first.content}, {"role": "user", "content": result}]
assert client.messages.create(**ask, messages=turns).content[0].text
''')


@unittest.skipUnless(quill(), 'the model knows no tools')
class OllamaTools(ClientCase):
    wanted = 'ollama>=0.4'
    head = HEAD + '''
import ollama
client = ollama.Client(host="{url}")
'''

    def test_chat(self):
        self.run_script('''
PARAMETERS.pop("required")  # the client would move it, and so small a model would not know the tool
ask = dict(model="any", tools=[{"type": "function", "function": FUNCTION}], options={"temperature": 0, "num_predict": 100})
first = client.chat(**ask, messages=QUESTION)
call = first.message.tool_calls[0]
assert call.function.name == "get_weather" and list(call.function.arguments) == ["place"]
streamed = [c for part in client.chat(**ask, messages=QUESTION, stream=True) for c in part.message.tool_calls or []]
assert streamed == first.message.tool_calls
turns = QUESTION + [first.message, {"role": "tool", "tool_name": "get_weather", "content": RESULT}]
assert client.chat(**ask, messages=turns).message.content
''')


if __name__ == '__main__':
    unittest.main()
