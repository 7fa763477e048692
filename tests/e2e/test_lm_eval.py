# The lm-eval package (the evaluation harness) against the real binary: local-completions, which sends token ids and reads
# the logprobs of a prompt, and local-chat-completions. Its data sets come from a hub, so the requests are the test's own;
# how they are sent and read is the package's.
import os
import unittest

from client_packages import ClientCase, missing


@unittest.skipUnless(os.environ.get('QUIRE_TEST_ALL'), 'only in ./dev test --all')
class LmEvalClient(ClientCase):
    wanted = 'lm-eval[api]>=0.4.9'
    head = '''
import warnings
warnings.simplefilter("ignore")
import json, math, urllib.request
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
url = "{url}"

def ask(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

def requests(kind, *arguments):
    return [Instance(kind, {}, args, i) for i, args in enumerate(arguments)]

def completions(**more):
    return LocalCompletionsAPI(model="any", base_url=url + "/v1/completions", max_length=512, max_retries=1, **more)
'''

    @classmethod
    def setUpClass(cls):
        reason = missing(cls.wanted, 'lm_eval')
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def test_likelihoods_of_token_ids(self):
        self.run_script('''
lm = completions()
assert lm.tokenizer_backend == "remote", "the server's own tokenizer is found"
asked = requests("loglikelihood", ("Once upon a time", " there was a fox"), ("Once upon a time", " zq zq zq"))
(likely, _), (unlikely, greedy) = lm.loglikelihood(asked)
assert 0 > likely > unlikely and not greedy, (likely, unlikely)
# The same from the logprobs of the prompt, added up here.
ids = lm.tok_encode("Once upon a time there was a fox")
n = len(lm.tok_encode("Once upon a time"))
whole = ask("/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1})
added = sum(whole["choices"][0]["logprobs"]["token_logprobs"][n:])
assert math.isclose(likely, added, rel_tol=1e-6), (likely, added)
batch = completions(batch_size=2)
assert [round(l, 4) for l, _ in batch.loglikelihood(asked)] == [round(likely, 4), round(unlikely, 4)]
''')

    def test_perplexity_and_answers(self):
        self.run_script('''
lm = completions()
rolling, = lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("Once upon a time there was a fox.",)))
assert rolling < 0, rolling
ask_for = {"until": ["."], "max_gen_toks": 16, "do_sample": False}
one, = lm.generate_until(requests("generate_until", ("Once upon a time there was a", dict(ask_for))))
assert one and "." not in one, one
# As text the prompt gets the special tokens that the model wants, as ids it has those that were sent.
text = "Once upon a time there was a"
plain, = completions(tokenized_requests=False).generate_until(requests("generate_until", (text, dict(ask_for))))
said = ask("/v1/completions", {"prompt": text, "max_tokens": 16, "temperature": 0, "stop": ["."]})
assert plain and plain == said["choices"][0]["text"], (plain, said)
''')

    def test_chats(self):
        self.run_script('''
lm = LocalChatCompletion(model="any", base_url=url + "/v1/chat/completions", max_retries=1, eos_string="<|end|>")
chat = lm.apply_chat_template([{"role": "user", "content": "Tell me a story."}])
one, = lm.generate_until(requests("generate_until", (chat, {"until": ["\\\\n\\\\n"], "max_gen_toks": 16})))
said = ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 16,
                                    "temperature": 0, "stop": ["\\\\n\\\\n", "<|end|>"]})
assert one and one == said["choices"][0]["message"]["content"], (one, said)
''')


if __name__ == '__main__':
    unittest.main()
