# The langchain-openai package against the real binary.
import unittest

from client_packages import ClientCase


class LangchainClient(ClientCase):
    wanted = 'langchain-openai>=0.3'
    head = '''
import warnings
warnings.simplefilter("ignore")
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
at = dict(base_url="{url}/v1", api_key="none", max_retries=0)
messages = [("system", "You tell stories."), ("human", "Go on.")]
'''

    def test_chat_whole_and_streamed(self):
        self.run_script('''
chat = ChatOpenAI(model="any", max_tokens=16, seed=3, **at)
whole = chat.invoke(messages)
assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
assert "".join(chunk.content for chunk in chat.stream(messages)) == whole.content
assert [m.content for m in chat.batch([messages, messages])] == [whole.content] * 2
''')

    def test_chat_over_responses(self):
        self.run_script('''
chat = ChatOpenAI(model="any", max_tokens=16, use_responses_api=True, extra_body={"seed": 3}, **at)
whole = chat.invoke(messages)
assert whole.text, whole
text = ""
for chunk in chat.stream(messages):
    text += chunk.text if isinstance(chunk.text, str) else chunk.text()
assert text == str(whole.text), (text, whole.text)
''')

    def test_embeddings(self):
        self.run_script('''
embeddings = OpenAIEmbeddings(model="any", check_embedding_ctx_length=False, **at)
two = embeddings.embed_documents(["Once upon a time", "The cat sat."])
assert len(two) == 2 and two[0] != two[1]
one = embeddings.embed_query("Once upon a time")
assert all(abs(a - b) < 1e-6 for a, b in zip(one, two[0]))
''')


if __name__ == '__main__':
    unittest.main()
