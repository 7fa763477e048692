# llama-index against the real binary.
import os
import unittest

from client_packages import ClientCase, missing


@unittest.skipUnless(os.environ.get('QUIRE_TEST_ALL'), 'only in ./dev test --all')
class LlamaIndex(ClientCase):
    wanted = 'llama-index-llms-openai-like>=0.5'
    head = '''
import warnings; warnings.simplefilter("ignore")
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
llm = OpenAILike(model="m", api_base="{url}/v1", api_key="x", is_chat_model=True, max_tokens=8, temperature=0,
                 context_window=1024)
'''

    @classmethod
    def setUpClass(cls):
        reason = missing(cls.wanted, module='llama_index.llms.openai_like')
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def test_chat_whole_and_streamed(self):
        self.run_script('''
messages = [ChatMessage(role="user", content="Go on.")]
whole = llm.chat(messages).message.content
assert "".join(part.delta or "" for part in llm.stream_chat(messages)) == whole
assert llm.complete("Once upon a time").text
''')


if __name__ == '__main__':
    unittest.main()
