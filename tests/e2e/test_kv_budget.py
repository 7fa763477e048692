# Prompts with a budget over HTTP: what is dropped is told, the same answer comes again, and what cannot be is refused.
import os
import tempfile
import unittest

from quire_server import Server

COMPLETIONS, CHAT, RESPONSES = '/v1/completions', '/v1/chat/completions', '/v1/responses'
LONG = ' '.join(f'item {i}' for i in range(80))


class KvBudget(unittest.TestCase):
    def server(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        return server

    def test_what_is_dropped_is_told_and_the_answer_comes_again(self):
        server = self.server()
        ask = {'prompt': LONG, 'max_tokens': 24, 'temperature': 0, 'ignore_eos': True}
        whole = server.post(COMPLETIONS, ask)[2]
        n_prompt = whole['usage']['prompt_tokens']
        self.assertGreater(n_prompt, 160)
        self.assertNotIn('dropped_tokens', whole['usage']['prompt_tokens_details'])
        status, _, first = server.post(COMPLETIONS, {**ask, 'kv_budget': 96})
        self.assertEqual(status, 200, first)
        n_dropped = -(-n_prompt // 16) * 16 - 96
        self.assertEqual(first['usage']['prompt_tokens_details']['dropped_tokens'], n_dropped)
        again = server.post(COMPLETIONS, {**ask, 'kv_budget': 96})[2]
        self.assertEqual(first['choices'][0]['text'], again['choices'][0]['text'])
        self.assertEqual(server.post(COMPLETIONS, ask)[2]['choices'][0]['text'], whole['choices'][0]['text'])
        metrics = server.get('/metrics')[2]
        self.assertIn('quire_kv_bounded_prompts_total 2\n', metrics)
        self.assertIn(f'quire_kv_dropped_tokens_total {2 * n_dropped}\n', metrics)
        roomy = server.post(COMPLETIONS, {**ask, 'kv_budget': 10_000})[2]
        self.assertEqual(roomy['choices'][0]['text'], whole['choices'][0]['text'])

    def test_chat_and_responses_take_it(self):
        server = self.server()
        status, _, body = server.post(CHAT, {'messages': [{'role': 'user', 'content': LONG}], 'max_tokens': 4, 'kv_budget': 64})
        self.assertEqual(status, 200, body)
        self.assertGreater(body['usage']['prompt_tokens_details']['dropped_tokens'], 0)
        status, _, body = server.post(RESPONSES, {'input': LONG, 'max_output_tokens': 4, 'kv_budget': 64})
        self.assertEqual(status, 200, body)
        self.assertGreater(body['usage']['input_tokens_details']['dropped_tokens'], 0)

    def test_below_the_window_both_values_are_named(self):
        server = self.server()
        for value, said in ((63, ('63', '64', '32')), (1, ('is 1;', '64')), (0, ('kv_budget',)), (-5, ('kv_budget',)),
                            ('many', ('kv_budget',))):
            status, _, body = server.post(COMPLETIONS, {'prompt': LONG, 'max_tokens': 2, 'kv_budget': value})
            self.assertEqual((status, body['error']['param']), (400, 'kv_budget'), body)
            for part in said:
                self.assertIn(part, body['error']['message'])

    def refusal(self, *options):
        status, _, body = self.server(*options).post(COMPLETIONS, {'prompt': LONG, 'max_tokens': 2, 'kv_budget': 96})
        self.assertEqual((status, body['error']['param']), (400, 'kv_budget'), body)
        return body['error']['message']

    def test_what_excludes_it_is_named(self):
        self.assertIn('shifted', self.refusal('--context-shift', 'sinks=4,window=64'))
        self.assertIn('kivi2', self.refusal('--kv-type', 'kivi2'))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn('recorded', self.refusal('--record', os.path.join(folder, 'run')))


if __name__ == '__main__':
    unittest.main()
