# litellm, through which many programs reach a server: three dialects, and the overflow of the context as its own error.
import os
import unittest

from client_packages import ClientCase


@unittest.skipUnless(os.environ.get('QUIRE_TEST_ALL'), 'only in ./dev test --all')
class LiteLlm(ClientCase):
    wanted = 'litellm>=1.80'
    head = '''
import warnings; warnings.simplefilter("ignore")
import os; os.environ.update(OPENAI_API_KEY="x", LITELLM_LOCAL_MODEL_COST_MAP="True")
import litellm
url = "{url}"
messages = [{"role": "user", "content": "Go on."}]
ask = {"messages": messages, "max_tokens": 8, "temperature": 0}
'''

    def test_openai(self):
        self.run_script('''
whole = litellm.completion(model="openai/m", api_base=url + "/v1", **ask)
parts = litellm.completion(model="openai/m", api_base=url + "/v1", stream=True, **ask)
assert "".join(p.choices[0].delta.content or "" for p in parts) == whole.choices[0].message.content
''')

    def test_a_prompt_beyond_the_context_is_its_own_error(self):
        self.run_script('''
try:
    litellm.completion(model="openai/m", api_base=url + "/v1", messages=[{"role": "user", "content": "so it goes " * 40000}])
    raise SystemExit("not refused")
except litellm.ContextWindowExceededError:
    pass
''')

    def test_anthropic_with_an_answer_that_is_begun(self):
        self.run_script('''
ask["messages"] = messages + [{"role": "assistant", "content": "Once upon a"}]
assert litellm.completion(model="anthropic/m", api_base=url, api_key="x", **ask).usage.completion_tokens > 0
''')

    def test_ollama(self):
        self.run_script('''
assert litellm.completion(model="ollama_chat/m", api_base=url, **ask).usage.completion_tokens > 0
assert len(litellm.embedding(model="ollama/m", api_base=url, input=["a", "b"]).data) == 2
''')


if __name__ == '__main__':
    unittest.main()
