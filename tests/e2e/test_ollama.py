# The ollama package against the real binary.
import unittest

from client_packages import ClientCase


class OllamaClient(ClientCase):
    wanted = 'ollama>=0.4'
    head = '''
import ollama
client = ollama.Client(host="{url}")
name = client.list().models[0].model
messages = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Go on."}]
options = {"temperature": 0, "num_predict": 24}
'''

    def test_chat_whole_and_streamed(self):
        self.run_script('''
whole = client.chat(model=name, messages=messages, options=options)
assert whole.done and whole.done_reason in ("stop", "length") and whole.message.role == "assistant"
assert 0 < whole.eval_count <= 24 and whole.prompt_eval_count > 0
assert whole.total_duration >= whole.eval_duration >= 0
parts = list(client.chat(model=name, messages=messages, options=options, stream=True))
assert "".join(p.message.content for p in parts) == whole.message.content
assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
''')

    def test_generate(self):
        self.run_script('''
whole = client.generate(model=name, prompt="Once upon a time", raw=True, options=options)
parts = client.generate(model=name, prompt="Once upon a time", raw=True, options=options, stream=True)
assert whole.response and "".join(p.response for p in parts) == whole.response
''')

    def test_models(self):
        self.run_script('''
shown = client.show(name)
assert shown.details.format == "gguf" and "completion" in shown.capabilities
assert client.ps().models[0].name == name
''')

    def test_errors_are_the_packages_own(self):
        self.run_script('''
try:
    client.chat(model=name, messages=messages, options={"temperature": -1})
    raise SystemExit("not refused")
except ollama.ResponseError as e:
    assert e.status_code == 400 and "options.temperature" in e.error, e
''')


if __name__ == '__main__':
    unittest.main()
