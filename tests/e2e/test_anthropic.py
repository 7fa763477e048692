# The anthropic package against the real binary.
import unittest

from client_packages import ClientCase


class AnthropicClient(ClientCase):
    wanted = 'anthropic>=0.40'
    head = '''
import anthropic
client = anthropic.Anthropic(base_url="{url}", api_key="none", max_retries=0)
ask = dict(model="any", max_tokens=24, system="You tell stories.", extra_body={"temperature": 0},
           messages=[{"role": "user", "content": "Go on."}])
'''

    def test_whole_and_streamed(self):
        self.run_script('''
whole = client.messages.create(**ask)
assert whole.type == "message" and whole.role == "assistant"
assert whole.stop_reason in ("end_turn", "max_tokens", "stop_sequence")
text = whole.content[0].text
with client.messages.stream(**ask) as stream:
    assert "".join(stream.text_stream) == text
    last = stream.get_final_message()
assert last.content[0].text == text and last.stop_reason == whole.stop_reason
assert last.usage.output_tokens == whole.usage.output_tokens
n_prompt = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
assert last.usage.input_tokens + last.usage.cache_read_input_tokens == n_prompt
counted = client.messages.count_tokens(model="any", system=ask["system"], messages=ask["messages"])
assert counted.input_tokens == n_prompt, (counted, n_prompt)
''')

    def test_stop_sequences(self):
        self.run_script('''
text = client.messages.create(**ask).content[0].text
stop = text[3:6]
cut = client.messages.create(**ask, stop_sequences=[stop])
assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop, cut
assert cut.content[0].text == text[:text.index(stop)]
''')

    def test_errors_are_the_packages_own(self):
        self.run_script('''
try:
    client.messages.create(**{**ask, "extra_body": {"temperature": -1}})
    raise SystemExit("not refused")
except anthropic.BadRequestError as e:
    assert e.body["error"]["type"] == "invalid_request_error" and "temperature" in e.body["error"]["message"], e
try:
    client.messages.create(**ask, tools=[{"type": "bash_20250124", "name": "bash"}])
    raise SystemExit("not refused")
except anthropic.BadRequestError as e:
    assert "tools" in e.body["error"]["message"], e
''')

    def test_async(self):
        self.run_script('''
import asyncio
async def main():
    several = anthropic.AsyncAnthropic(base_url=str(client.base_url), api_key="none", max_retries=0)
    answers = await asyncio.gather(*(several.messages.create(**ask) for _ in range(8)))
    assert len({a.content[0].text for a in answers}) == 1
asyncio.run(main())
''')


if __name__ == '__main__':
    unittest.main()
