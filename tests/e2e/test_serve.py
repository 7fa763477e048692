# The real binary with a real model, over real sockets: curl and the standard library's client. What the wire holds in
# detail is tested in src/serve; here it is that all rooms together do it.
import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from quire_server import Server, ServerCase, binary, eventually, expected, joined, model, prompt

TEXT = '/v1/completions'
CHAT = '/v1/chat/completions'
PROMPT = prompt()
GREEDY = {'prompt': PROMPT, 'temperature': 0, 'max_tokens': 24}


class Serve(ServerCase):
    options = ('--max-seqs', '16')

    def test_is_ready_once_it_says_so(self):
        self.assertEqual(self.server.get('/health')[0], 200)
        self.assertEqual(self.server.get('/ready')[0], 200)
        models = self.server.get('/v1/models')[2]
        self.assertEqual(models['object'], 'list')
        self.assertEqual(models['data'][0]['id'], os.path.splitext(os.path.basename(model()))[0])

    @unittest.skipUnless(shutil.which('curl'), 'curl is not installed')
    def test_curl_gets_a_streamed_answer(self):
        body = json.dumps({**GREEDY, 'stream': True})
        done = subprocess.run(['curl', '-sS', '-N', self.server.url + TEXT, '-d', body], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.split('\n') if line]
        self.assertEqual(lines[-1], 'data: [DONE]')
        events = [json.loads(line[len('data: '):]) for line in lines[:-1]]
        self.assertEqual(joined(events), self.server.post(TEXT, GREEDY)[2]['choices'][0]['text'])

    def test_stream_equals_whole(self):
        for body in ({**GREEDY, 'logprobs': 2}, {**GREEDY, 'temperature': 1, 'seed': 3, 'max_tokens': 60},
                     {**GREEDY, 'stop': ['e', 'qq'], 'max_tokens': 60}):
            with self.subTest(body=body):
                whole = self.server.post(TEXT, body)[2]
                events = self.server.events(TEXT, body)
                self.assertEqual(events[-1], '[DONE]')
                self.assertEqual(joined(events), whole['choices'][0]['text'])
                self.assertEqual(events[-2]['choices'][0]['finish_reason'], whole['choices'][0]['finish_reason'])

    def test_a_stop_string_is_not_shown(self):
        text = self.server.post(TEXT, GREEDY)[2]['choices'][0]['text']
        stop = text[len(text) // 2:len(text) // 2 + 3]
        answer = self.server.post(TEXT, {**GREEDY, 'stop': stop})[2]
        self.assertEqual(answer['choices'][0]['text'], text[:text.index(stop)])
        self.assertEqual(answer['choices'][0]['finish_reason'], 'stop')

    def test_chat(self):
        body = {'messages': [{'role': 'user', 'content': 'Tell me a story.'}], 'max_tokens': 20, 'seed': 1}
        status, headers, answer = self.server.post(CHAT, {**body, 'model': 'gpt-4o'})
        self.assertEqual(status, 200, answer)
        self.assertIn('gpt-4o', headers['x-quire-warning'])
        self.assertEqual(answer['choices'][0]['message']['role'], 'assistant')
        self.assertEqual(joined(self.server.events(CHAT, body)), answer['choices'][0]['message']['content'])

    def test_the_second_of_two_equal_prompts_is_cached(self):
        prompt = 'The quick brown fox jumps over the lazy dog. ' * 6
        body = {'prompt': prompt, 'temperature': 0, 'max_tokens': 4, 'cache_salt': 'cached'}
        first, second = (self.server.post(TEXT, body)[2] for _ in range(2))
        other = self.server.post(TEXT, {**body, 'cache_salt': 'other'})[2]
        cached = [a['usage']['prompt_tokens_details']['cached_tokens'] for a in (first, second, other)]
        self.assertEqual([cached[0], cached[2]], [0, 0])
        self.assertGreater(cached[1], 0)
        self.assertEqual(first['choices'][0]['text'], second['choices'][0]['text'])

    def test_many_streams_say_what_each_says_alone(self):
        bodies = [{'prompt': f'{i} little birds', 'seed': i, 'max_tokens': 24} for i in range(24)]
        alone = [self.server.post(TEXT, body)[2]['choices'][0]['text'] for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            together = list(pool.map(lambda body: joined(self.server.events(TEXT, body)), bodies))
        self.assertEqual(together, alone)

    def test_choices_have_their_own_seeds(self):
        body = {'prompt': 'Once', 'max_tokens': 12, 'seed': 7}
        choices = self.server.post(TEXT, {**body, 'n': 3})[2]['choices']
        for i, choice in enumerate(choices):
            self.assertEqual(choice['text'], self.server.post(TEXT, {**body, 'seed': 7 + i})[2]['choices'][0]['text'])

    def test_leaving_cancels(self):
        before = self.server.metric('quire_requests_cancelled_total')
        body = {'prompt': PROMPT, 'max_tokens': 400, 'ignore_eos': True, 'n': 16}
        self.server.events(TEXT, body, on_event=lambda _: False)
        self.assertTrue(eventually(lambda: self.server.metric('quire_requests_cancelled_total') > before))
        self.assertTrue(eventually(lambda: self.server.metric('quire_num_requests_running') == 0))

    def test_too_long_a_prompt_is_refused_with_both_numbers(self):
        n_ctx = self.server.get('/v1/models')[2]['data'][0]['max_model_len']
        status, _, answer = self.server.post(TEXT, {'prompt': [5] * (n_ctx + 7)})
        self.assertEqual(status, 400)
        self.assertEqual(answer['error']['code'], 'context_length_exceeded')
        self.assertIn(str(n_ctx + 7), answer['error']['message'])
        self.assertIn(str(n_ctx), answer['error']['message'])

    def test_bad_requests_do_not_disturb_a_stream(self):
        bad = [b'{', b'[]', b'{"prompt":""}', b'{"prompt":"x","n":1000000000}', b'{"prompt":[-1]}', b'\xff', b'null',
               b'{"prompt":"x","temperature":1e999}', b'{"prompt":"x","logprobs":1000000}']
        body = {'prompt': PROMPT, 'seed': 5, 'max_tokens': 200, 'ignore_eos': True}
        alone = self.server.post(TEXT, body)[2]['choices'][0]['text']
        stop = threading.Event()
        statuses = []

        def hostile():
            while not stop.is_set():
                for data in bad:
                    statuses.append(self.server.request('POST', TEXT, data)[0])

        thread = threading.Thread(target=hostile)
        thread.start()
        try:
            self.assertEqual(joined(self.server.events(TEXT, body)), alone)
        finally:
            stop.set()
            thread.join()
        self.assertTrue(statuses)
        self.assertEqual(set(statuses), {400})
        self.assertEqual(self.server.get('/health')[0], 200)

    def test_tokenize_and_back(self):
        text = 'Once upon a time \u00e9\u4e2d\U0001f600'
        answer = self.server.post('/tokenize', {'content': text})[2]
        self.assertEqual(answer['count'], len(answer['tokens']))
        self.assertEqual(self.server.post('/detokenize', {'tokens': answer['tokens']})[2]['content'], text)


class Exact(unittest.TestCase):
    @unittest.skipUnless(expected(), 'no expected.json beside the model')
    def test_says_what_the_reference_says(self):
        server = Server('--weights', 'f32', '--kv-type', 'f32')
        self.addCleanup(server.stop)
        cases = [case for case in expected() if case['min_top1_margin'] >= 0.01]
        self.assertTrue(cases)
        for case in cases:
            n = min(64, len(case['greedy_ids']))
            status, _, answer = server.post(TEXT, {'prompt': case['prompt'], 'temperature': 0, 'max_tokens': n})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer['usage']['prompt_tokens'], len(case['prompt_ids']))
            choice = answer['choices'][0]
            ended = choice['finish_reason'] == 'stop'  # by a token that is not shown
            text = choice['text'].removeprefix(' ')  # the reference decodes without the prompt
            self.assertEqual(text, server.post('/detokenize', {'tokens': case['greedy_ids'][:n - ended]})[2]['content'])
            self.assertTrue(case['greedy_text'].startswith(text))


class Stopping(unittest.TestCase):
    def test_sigterm_lets_a_stream_finish(self):
        server = Server()
        first = threading.Event()
        result = []
        body = {'prompt': PROMPT, 'max_tokens': 300, 'ignore_eos': True}
        alone = server.post(TEXT, {**body, 'seed': 2})[2]['choices'][0]['text']

        def read():
            result.append(server.events(TEXT, {**body, 'seed': 2}, on_event=lambda _: first.set()))

        thread = threading.Thread(target=read)
        thread.start()
        self.assertTrue(first.wait(30))
        self.assertEqual(server.stop(), 0)
        thread.join(10)
        self.assertEqual(result[0][-1], '[DONE]')
        self.assertEqual(joined(result[0]), alone)
        with self.assertRaises(OSError):
            socket.create_connection(('127.0.0.1', server.port), timeout=5)

    def test_a_second_signal_stops_at_once(self):
        server = Server()
        started = threading.Event()
        errors = []

        def read():
            n_ctx = server.get('/v1/models')[2]['data'][0]['max_model_len']
            prompts = [PROMPT] * 64
            try:
                server.events(TEXT, {'prompt': prompts, 'max_tokens': n_ctx, 'ignore_eos': True},
                              on_event=lambda e: errors.append(e) if 'error' in e else started.set())
            except (OSError, RuntimeError) as e:
                errors.append(e)

        thread = threading.Thread(target=read)
        thread.start()
        self.assertTrue(started.wait(30))
        # Of two signals that a busy machine has not delivered yet one is left, so more may be needed.
        end = time.monotonic() + 25  # the first signal alone would wait for 30 s
        while server.process.poll() is None and time.monotonic() < end:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        self.assertEqual(server.process.wait(1), 0)
        thread.join(10)
        server.stop()

    def test_a_port_in_use_is_one_clear_line(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            done = subprocess.run([binary(), 'serve', model(), '--port', port], capture_output=True, text=True,
                                  timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, '')
        said = [line for line in done.stderr.splitlines() if line.startswith('quire: ')]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn(port, said[0])

    def test_a_port_in_use_is_known_before_there_is_a_model(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            done = subprocess.run([binary(), 'serve', '/no/such/model.gguf', '--port', str(taken.getsockname()[1])],
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('the port is in use', done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_bad_model_is_one_clear_line(self):
        with tempfile.NamedTemporaryFile(suffix='.gguf') as f:
            f.write(b'not a model')
            f.flush()
            done = subprocess.run([binary(), 'serve', f.name], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


    def test_no_memory_is_one_clear_line(self):
        done = subprocess.run([binary(), 'serve', model(), '--port', '0', '--kv-memory', '900000G'], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, '')
        said = [line for line in done.stderr.splitlines() if line.startswith('quire: ')]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn('memory', said[0])

    def test_hanging_up_drains_too(self):
        server = Server()
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.process.wait(60), 0)
        server.stop()

    def test_a_signal_at_the_start_ends_it(self):
        process = subprocess.Popen([binary(), 'serve', model(), '--port', '0'], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.send_signal(signal.SIGTERM)  # whenever it comes: before, while or after loading
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (0, -signal.SIGTERM))


class Keys(unittest.TestCase):
    def test_api_key_and_strict_model(self):
        server = Server('--api-key', 'k-1', '--strict-model', '--alias', 'house/model')
        self.addCleanup(server.stop)
        self.assertEqual(server.get('/health')[0], 200)
        self.assertEqual(server.get('/v1/models')[0], 401)
        key = {'Authorization': 'Bearer k-1'}
        body = {'prompt': 'Once', 'max_tokens': 2}
        self.assertEqual(server.post(TEXT, body)[0], 401)
        self.assertEqual(server.post(TEXT, {**body, 'model': 'house/model'}, key)[0], 200)
        self.assertEqual(server.post(TEXT, {**body, 'model': 'gpt-4o'}, key)[0], 404)
        self.assertEqual([m['id'] for m in server.get('/v1/models', key)[2]['data']][0], 'house/model')
        self.assertEqual(server.post(TEXT, {**body, 'model': 'house/model'}, key)[2]['model'], 'house/model')


if __name__ == '__main__':
    unittest.main()
