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
    client.chat.completions.create(model="x", messages=messages, tools=[{"type": "web_search"}])
    raise SystemExit("not refused")
except openai.BadRequestError as e:
    assert e.param == "tools[0].type", e
try:
    client.images.generate(model="x", prompt="y")
    raise SystemExit("not refused")
except openai.NotFoundError:
    pass
''')

    def test_responses_whole_and_streamed(self):
        self.run_script('''
ask = dict(model="any", instructions="You tell stories.", input="Go on.", max_output_tokens=12, seed=3)
seed = ask.pop("seed")
whole = client.responses.create(**ask, extra_body={"seed": seed}, include=["message.output_text.logprobs"],
                                top_logprobs=2)
assert whole.object == "response" and whole.status in ("completed", "incomplete"), whole.status
assert whole.output_text and whole.output[-1].content[0].text == whole.output_text
assert len(whole.output[-1].content[0].logprobs[0].top_logprobs) == 2
assert whole.usage.input_tokens_details.cached_tokens >= 0
assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
text, numbers, last = "", [], None
for event in client.responses.create(**ask, extra_body={"seed": seed}, stream=True):
    numbers.append(event.sequence_number)
    text += event.delta if event.type == "response.output_text.delta" else ""
    last = event
assert numbers == list(range(len(numbers))) and text == whole.output_text, (text, whole.output_text)
assert last.type in ("response.completed", "response.incomplete") and last.response.output_text == text
with client.responses.stream(**ask, extra_body={"seed": seed}) as stream:
    events = list(stream)
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == text
    if events[-1].type == "response.completed":
        assert stream.get_final_response().output_text == text
''')

    def test_responses_are_kept_and_gone_on_from(self):
        self.run_script('''
first = client.responses.create(model="any", input="Once", max_output_tokens=8)
assert client.responses.retrieve(first.id).output_text == first.output_text
items = client.responses.input_items.list(first.id).data
assert items[0].content[0].text == "Once"
second = client.responses.create(model="any", input="More", max_output_tokens=8, previous_response_id=first.id)
assert second.previous_response_id == first.id
again = client.responses.create(model="any", max_output_tokens=8, store=False, extra_body={"seed": 1}, input=[
    {"role": "user", "content": "Once"}, *[i.model_dump() for i in first.output], {"role": "user", "content": "More"}])
assert again.usage.input_tokens == second.usage.input_tokens, (again.usage, second.usage)
client.responses.delete(first.id)
for call in (lambda: client.responses.retrieve(first.id), lambda: client.responses.retrieve(again.id)):
    try:
        call()
        raise SystemExit("still there")
    except openai.NotFoundError:
        pass
try:
    client.responses.create(model="any", input="More", previous_response_id=first.id)
    raise SystemExit("not refused")
except openai.BadRequestError as e:
    assert e.code == "previous_response_not_found", e
''')

    def test_embeddings(self):
        self.run_script('''
two = client.embeddings.create(model="any", input=["Once upon a time", "The cat sat."])
assert [d.index for d in two.data] == [0, 1] and two.usage.prompt_tokens > 4
a, b = two.data[0].embedding, two.data[1].embedding
assert abs(sum(x * x for x in a) - 1) < 1e-5 and len(a) == len(b) and a != b
plain = client.embeddings.create(model="any", input="Once upon a time", encoding_format="float").data[0].embedding
assert len(plain) == len(a) and all(abs(x - y) < 1e-6 for x, y in zip(plain, a)), "the same from a cache, as base64"
mean = client.embeddings.create(model="any", input="Once upon a time", extra_body={"pooling": "mean"}).data[0].embedding
assert mean != a and abs(sum(x * x for x in mean) - 1) < 1e-5
ids = client.embeddings.create(model="any", input=[[5, 6, 7], [5, 6, 8]])
assert ids.usage.prompt_tokens == 6 and ids.data[0].embedding != ids.data[1].embedding
for bad in (dict(input=""), dict(input=[]), dict(input="x", dimensions=1000000)):
    try:
        client.embeddings.create(model="any", **bad)
        raise SystemExit("not refused")
    except openai.BadRequestError:
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
