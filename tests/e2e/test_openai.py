# The openai package against the real binary.
import unittest

from client_packages import ClientCase


class OpenaiClient(ClientCase):
    wanted = 'openai>=1.60'
    head = '''
from openai import OpenAI
import openai
client = OpenAI(base_url="{url}/v1", api_key="none", max_retries=0)
messages = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Go on."}]
'''

    def test_models(self):
        self.run_script('''
models = client.models.list().data
assert len(models) == 1 and models[0].object == "model"
assert client.models.retrieve(models[0].id).id == models[0].id
''')

    def test_chat_whole_and_streamed(self):
        self.run_script('''
ask = dict(model="gpt-4o", messages=messages, max_tokens=24, seed=3)
whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
choice = whole.choices[0]
assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
assert whole.usage.prompt_tokens_details.cached_tokens >= 0
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
assert len(choice.logprobs.content[0].top_logprobs) == 2
text, usage, reasons = "", None, []
for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
    for c in chunk.choices:
        text += c.delta.content or ""
        reasons += [c.finish_reason] if c.finish_reason else []
    usage = chunk.usage or usage
assert text == choice.message.content, (text, choice.message.content)
assert reasons == [choice.finish_reason]
assert usage.completion_tokens == whole.usage.completion_tokens
with client.chat.completions.stream(**ask) as stream:
    assert "".join(event.delta for event in stream if event.type == "content.delta") == text
''')

    def test_completions(self):
        self.run_script('''
ask = dict(model="any", prompt=["Once upon", "The cat"], n=2, max_tokens=8, seed=1)
whole = client.completions.create(**ask, logprobs=3)
assert [c.index for c in whole.choices] == [0, 1, 2, 3]
assert len(whole.choices[0].logprobs.tokens) <= 8
texts = ["", "", "", ""]
for chunk in client.completions.create(**ask, stream=True):
    for c in chunk.choices:
        texts[c.index] += c.text
assert texts == [c.text for c in whole.choices]
''')

    def test_errors_are_the_packages_own(self):
        self.run_script('''
try:
    client.chat.completions.create(model="x", messages=messages, temperature=-1)
    raise SystemExit("not refused")
except openai.BadRequestError as e:
    assert e.param == "temperature" and e.code == "invalid_value", e
try:
    client.chat.completions.create(model="x", messages=messages,
                                   tools=[{"type": "function", "function": {"name": "f"}}])
    raise SystemExit("not refused")
except openai.BadRequestError as e:
    assert e.param == "tools", e
try:
    client.embeddings.create(model="x", input="y")
    raise SystemExit("not refused")
except openai.NotFoundError:
    pass
''')

    def test_async_streams_side_by_side(self):
        self.run_script('''
import asyncio
from openai import AsyncOpenAI
async def one(client, i):
    text = ""
    stream = await client.chat.completions.create(model="x", messages=messages, max_tokens=16, seed=i % 4, stream=True)
    async for chunk in stream:
        text += chunk.choices[0].delta.content or ""
    return text
async def main():
    client = AsyncOpenAI(base_url=str(globals()["client"].base_url), api_key="none", max_retries=0)
    texts = await asyncio.gather(*(one(client, i) for i in range(16)))
    for i in range(16):
        assert texts[i] == texts[i % 4], i
asyncio.run(main())
''')


if __name__ == '__main__':
    unittest.main()
