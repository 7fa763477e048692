# What users of llama.cpp's server expect beside the common fields, on a real model: its options and its fields.
import http.client
import math
import os
import subprocess
import tempfile
import unittest

from quire_server import Server, ServerCase, binary, model, prompt

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}!"


class Fields(ServerCase):
    options = ('--step-tokens', '16', '--max-seqs', '4', '--llama-metrics')

    def test_probabilities_of_what_is_drawn_from_are_those_of_the_filters(self):
        body = {'prompt': prompt(), 'n_predict': 6, 'n_probs': 8, 'seed': 5, 'temperature': 0.7, 'top_k': 4,
                'top_p': 1, 'min_p': 0, 'return_tokens': True}
        status, _, drawn = self.server.post('/completion', {**body, 'post_sampling_probs': True})
        self.assertEqual(status, 200, drawn)
        own = self.server.post('/completion', body)[2]
        self.assertEqual(drawn['tokens'], own['tokens'], 'what is told changes no token')
        for told, raw in zip(drawn['completion_probabilities'], own['completion_probabilities']):
            self.assertEqual(len(told['top_probs']), 4, 'top_k leaves four')
            weights = [math.exp(p['logprob'] / 0.7) for p in raw['top_logprobs'][:4]]
            for one, weight in zip(told['top_probs'], weights):
                self.assertAlmostEqual(one['prob'], weight / sum(weights), 4)
            self.assertEqual([p['id'] for p in told['top_probs']], [p['id'] for p in raw['top_logprobs'][:4]])
            self.assertIn(told['id'], [p['id'] for p in told['top_probs']])
            self.assertAlmostEqual(told['prob'], next(p['prob'] for p in told['top_probs'] if p['id'] == told['id']), 5)

    def test_a_stream_says_how_far_its_prompt_is(self):
        body = {'prompt': list(range(300, 400)), 'n_predict': 2, 'return_progress': True, 'timings_per_token': True}
        for n_cached in (0, 96):
            events = [e for e in self.server.events('/completion', body) if 'prompt_progress' in e]
            told = [e['prompt_progress'] for e in events]
            self.assertEqual({p['total'] for p in told}, {100})
            self.assertEqual({p['cache'] for p in told}, {n_cached})
            self.assertEqual(told[0]['processed'], n_cached)
            self.assertEqual([p['processed'] for p in told], sorted({p['processed'] for p in told}))
            self.assertEqual(told[-1]['processed'], 100)
            self.assertGreaterEqual(len(told), 8 if n_cached == 0 else 2)
            self.assertEqual(events[0]['timings']['prompt_ms'], 0)

    def test_chat_streams_progress_and_timings(self):
        body = {'messages': [{'role': 'user', 'content': 'Say a word. ' * 10}], 'max_tokens': 3, 'return_progress': True,
                'timings_per_token': True, 'stream_options': {'include_usage': True}}
        events = self.server.events('/chat/completions', body)[:-1]
        self.assertIsNone(events[0]['choices'][0]['delta']['content'])
        self.assertNotIn('timings', events[0])
        progress = [e['prompt_progress'] for e in events if 'prompt_progress' in e]
        self.assertEqual(progress[-1]['processed'], progress[-1]['total'])
        self.assertEqual(progress[-1]['total'], events[-1]['usage']['prompt_tokens'])
        self.assertEqual(events[-1]['timings']['predicted_n'], 3)
        self.assertEqual(self.server.post('/chat/completions/input_tokens', {'messages': body['messages']})[2],
                         {'input_tokens': progress[-1]['total']})

    def test_vectors_of_each_token(self):
        ids = [300, 301, 302]
        rows = self.server.post('/embeddings', {'input': ids, 'pooling': 'none'})[2][0]['embedding']
        self.assertEqual(len(rows), 3)
        for n in range(1, 4):
            last = self.server.post('/embedding', {'content': ids[:n], 'embd_normalize': -1})[2][0]['embedding'][0]
            self.assertEqual(rows[n - 1], last, 'the row of a token is the last one of the text that ends in it')
        refused = self.server.post('/v1/embeddings', {'input': ids, 'pooling': 'none'})
        self.assertEqual((refused[0], refused[2]['error']['param']), (400, 'pooling'))

    def test_metrics_under_its_names(self):
        used = self.server.post('/completion', {'prompt': 'Once', 'n_predict': 4})[2]
        self.assertEqual(used['timings']['predicted_n'], 4)
        _, headers, text = self.server.get('/metrics')
        self.assertIsNotNone(headers['Process-Start-Time-Unix'])
        self.assertEqual(self.server.metric('llamacpp:tokens_predicted_total'),
                         self.server.metric('quire_generation_tokens_total'))
        self.assertIn('# TYPE llamacpp:requests_deferred gauge', text)

    def test_pieces_join_to_the_text(self):
        tokens = self.server.post('/tokenize', {'content': 'One € two', 'with_pieces': True})[2]['tokens']
        data = b''.join(t['piece'].encode() if isinstance(t['piece'], str) else bytes(t['piece']) for t in tokens)
        self.assertEqual(data.decode().strip(), 'One € two')


class Options(unittest.TestCase):
    def test_a_template_by_text_by_name_and_by_file(self):
        with tempfile.NamedTemporaryFile('w', suffix='.jinja') as file:
            file.write(TEMPLATE)
            file.flush()
            for option, wanted in ((('--chat-template', TEMPLATE), '<user>hey!'),
                                   (('--chat-template-file', file.name), '<user>hey!'),
                                   (('--chat-template', 'chatml'),
                                    '<|im_start|>user\nhey<|im_end|>\n<|im_start|>assistant\n')):
                server = Server(*option)
                try:
                    body = {'messages': [{'role': 'user', 'content': 'hey'}]}
                    self.assertEqual(server.post('/apply-template', body)[2]['prompt'], wanted)
                    self.assertEqual(server.post('/v1/chat/completions', {**body, 'max_tokens': 1})[0], 200)
                finally:
                    server.stop()

    def test_templates_that_cannot_be_are_refused_before_the_model_is_read(self):
        for options, words in ((('--chat-template', 'nosuch'), 'chatml'), (('--chat-template', '{% if %}'), '--chat-template'),
                               (('--chat-template-file', '/no/such'), '--chat-template-file'),
                               (('--chat-template', 'chatml', '--chat-template-file', 'x'), 'exclude each other')):
            done = subprocess.run([binary(), 'serve', model(), '--port', '0', *options], capture_output=True, text=True,
                                  timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_several_addresses(self):
        server = Server('--host', '127.0.0.1,127.0.0.2')
        try:
            for host in ('127.0.0.1', '127.0.0.2'):
                connection = http.client.HTTPConnection(host, server.port, timeout=20)
                connection.request('POST', '/completion', '{"prompt":"Once","n_predict":3,"stream":true}',
                                   {'Content-Type': 'application/json'})
                self.assertIn('"stop":true', connection.getresponse().read().decode())
                connection.close()
        finally:
            self.assertEqual(server.stop(), 0)
        done = subprocess.run([binary(), 'serve', model(), '--port', '0', '--host', '127.0.0.1,'], capture_output=True,
                              text=True, timeout=60)
        self.assertIn('--host', done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_props_name_the_file_and_the_seed(self):
        server = Server('--seed', '42')
        try:
            props = server.get('/props')[2]
            self.assertEqual(props['model_path'], os.path.basename(model()))
            self.assertEqual(props['default_generation_settings']['params']['seed'], 42)
        finally:
            server.stop()


if __name__ == '__main__':
    unittest.main()
