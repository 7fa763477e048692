# Orders of eviction through the whole program: a cache far too small for what is asked, under each policy: the same
# answers, bit for bit; and who is asked for again and again is found by those that learn it.
import unittest

from quire_server import Server, model, quire

TEXT = '/v1/completions'
POLICIES = ('cost_aware', 'lru', 's3_fifo')
WANTED = 'A prompt that is asked for again and again, as those of an application are, and so it had better stay. ' * 2
N_ONCE = 60


def once(i):
    return f'{i} comes once: ' + f'number {i * 7919} of things that nobody will ask for again. ' * 3


def traffic():
    """Prompts, by the time they are asked: in the end what was wanted, behind a flood of others."""
    for i in range(N_ONCE):
        yield once(i)
        if i < 2 * N_ONCE // 3 and i % 3 == 0:
            yield WANTED
    yield WANTED


class KvPolicy(unittest.TestCase):
    def run_all(self, policy):
        """Of each request text and the tokens' logprobs; the cached tokens of the last one."""
        server = Server('--kv-memory', '1M', '--ctx', '256', '--kv-policy', policy)
        try:
            answers, cached = [], 0
            for prompt in traffic():
                body = {'prompt': prompt, 'temperature': 0, 'max_tokens': 4, 'ignore_eos': True, 'logprobs': 1}
                status, _, answer = server.post(TEXT, body)
                self.assertEqual(status, 200, answer)
                answers.append((answer['choices'][0]['text'], answer['choices'][0]['logprobs']))
                cached = answer['usage']['prompt_tokens_details']['cached_tokens']
            self.assertIn(f'kv_policy="{policy}"', server.get('/metrics')[2])
            return answers, cached
        finally:
            server.stop()

    def test_each_gives_the_same_answers(self):
        answers, cached = {}, {}
        for policy in POLICIES:
            answers[policy], cached[policy] = self.run_all(policy)
        for policy in POLICIES:
            self.assertEqual(answers[policy], answers['lru'], policy)
        self.assertEqual(cached['lru'], 0, 'a flood as large as this takes everything')
        self.assertGreater(cached['cost_aware'], 16, 'what came back before is there')

    def test_an_unknown_one_is_refused_by_name(self):
        done = quire('serve', model(), '--port', '0', '--kv-policy', 'fifo')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('--kv-policy "fifo" is unknown; there are: cost_aware lru s3_fifo', done.stderr)


if __name__ == '__main__':
    unittest.main()
