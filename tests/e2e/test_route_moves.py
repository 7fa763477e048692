# A stream whose worker is lost goes on at another one: cut between router and worker at every place, and by real deaths.
import json
import select
import socket
import struct
import threading
import unittest

from quire_server import Router, Server, eventually, prompt


class CuttingProxy:
    """Passes on what a server says, but cuts the next answer to a POST after `cuts.after` bytes, once."""

    def __init__(self, port, cuts):
        self.port, self.cuts = port, cuts
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = socket.create_connection(('127.0.0.1', self.port))
        asked, ended = threading.Event(), threading.Event()

        def ask():
            try:
                while not ended.is_set():
                    if not select.select([client], [], [], 0.02)[0]:
                        continue  # a socket that a thread waits for is not closed by another one's close()
                    if not (data := client.recv(65536)):
                        server.shutdown(socket.SHUT_WR)
                        return
                    if data.startswith(b'POST '):
                        asked.set()
                    server.sendall(data)
            except OSError:
                pass

        asks = threading.Thread(target=ask, daemon=True)
        asks.start()
        left = None
        try:
            while data := server.recv(65536):
                if asked.is_set():  # what was left of another answer's on this connection is over with it
                    asked.clear()
                    left = self.cuts.take()
                if left is not None and len(data) >= left:
                    client.sendall(data[:left])
                    break
                left = None if left is None else left - len(data)
                client.sendall(data)
        except OSError:
            pass
        ended.set()
        asks.join()
        # With a reset, as a machine that has lost the connection would; else with what was sent.
        if left is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0) if left % 2 else b'\0' * 8)
        client.close()
        server.close()

    def close(self):
        self.listener.close()


class Cuts:
    def __init__(self):
        self.lock, self.after, self.n_cut = threading.Lock(), None, 0

    def take(self):
        with self.lock:
            after, self.after = self.after, None
            self.n_cut += after is not None
            return after


def ask(server, path, body):
    """Status, headers and bytes of a streamed answer."""
    connection = server.connect()
    connection.request('POST', path, json.dumps({**body, 'stream': True}), {'Content-Type': 'application/json'})
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, response.headers, raw


def told(raw):
    """What a client is told, whatever the pieces; its ids apart. Of choices behind the first under their numbers."""
    names, ends, out = set(), [], {}
    for event in raw.split(b'\n\n'):
        if not event:
            continue
        assert event.startswith(b'data: '), event
        if event == b'data: [DONE]':
            ends.append('done')
            continue
        chunk = json.loads(event[6:])
        names.add((chunk['id'], chunk['created'], chunk['model']))
        if chunk.get('usage'):
            ends.append((chunk['usage']['prompt_tokens'], chunk['usage']['completion_tokens']))
        for choice in chunk['choices']:
            delta = choice.get('delta', {'content': choice.get('text')})
            number = f" {choice['index']}" if choice['index'] else ''
            for name in ('role', 'content', 'reasoning_content'):
                out[name + number] = out.get(name + number, '') + (delta.get(name) or '')
            for name, value in (choice['logprobs'] or {}).items():
                if isinstance(value, list):
                    name = 'logprobs ' + name + number
                    out[name] = out.get(name, []) + value
            if choice['finish_reason']:
                out.setdefault('ends' + number, []).append(choice['finish_reason'])
    return names, out, ends


def told_response(raw):
    """The same of the events of a response, which are numbered."""
    names, out, ends = set(), {}, []
    for number, event in enumerate(raw.split(b'\n\n')[:-1]):
        data = json.loads(event.split(b'data: ', 1)[1])
        assert data['sequence_number'] == number, (number, event)
        if data['type'].endswith('.delta'):
            out[data['output_index']] = out.get(data['output_index'], '') + data['delta']
            out['logprobs'] = out.get('logprobs', []) + data.get('logprobs', [])
        elif 'response' not in data:
            ends.append((data['type'], data.get('text'), data.get('logprobs')))
        else:
            response = data['response']
            names.add(response['id'])
            ends.append((data['type'], [(item['type'], item['status'], item['content']) for item in response['output']],
                         response['usage'] and response['usage']['output_tokens']))
    return names, out, ends


def told_messages(raw):
    """The same of Anthropic's events."""
    names, out, ends = set(), [], []
    for event in raw.split(b'\n\n')[:-1]:
        data = json.loads(event.split(b'data: ', 1)[1])
        if data['type'] == 'message_start':
            names.add(data['message']['id'])
        elif data['type'] == 'content_block_delta':
            out[-1][1] += data['delta']['text']
        elif data['type'] == 'content_block_start':
            out.append([data['index'], ''])
        elif data['type'] == 'message_delta':
            ends.append((data['delta'], data['usage']['output_tokens']))
        else:
            ends.append(data['type'])
    return names, out, ends


def told_lines(raw):
    """The same of Ollama's lines, which have no ids."""
    out, ends = '', []
    for line in map(json.loads, raw.splitlines()):
        out += line['response'] if 'response' in line else line['message']['content']
        if line['done']:
            ends.append((line['done_reason'], line['prompt_eval_count'], line['eval_count'], line.get('context')))
    return {line['model']}, out, ends


def told_tokens(raw):
    """The same of llama.cpp's events and those of /generate: text, tokens and their probabilities."""
    names, out, ends = set(), {}, []
    for event in raw.split(b'\n\n')[:-1]:
        assert event.startswith(b'data: '), event
        if event == b'data: [DONE]':
            ends.append('done')
            continue
        data = json.loads(event[6:])
        names.add(data.get('id'))
        for name in ('content', 'text', 'tokens', 'output_ids', 'completion_probabilities', 'logprobs'):
            if name in data:
                key = (data['index'], name)
                out[key] = out.get(key, data[name][:0]) + data[name]
        if data.get('stop') or data.get('finish_reason'):
            ends.append({name: data.get(name) for name in ('stop_type', 'stopping_word', 'tokens_predicted', 'has_new_line',
                                                           'generation_settings', 'finish_reason', 'stop_string')})
    return names, out, ends


TOLD = {'/completion': told_tokens, '/generate': told_tokens, '/v1/responses': told_response, '/v1/messages': told_messages, '/api/chat': told_lines, '/api/generate': told_lines}
STORY = {'messages': [{'role': 'user', 'content': 'Tell me a story about a fox.'}], 'max_tokens': 24}
PENALTIES = {'repetition_penalty': 1.2, 'frequency_penalty': 0.5, 'presence_penalty': 0.3, 'no_repeat_ngram_size': 3,
             'dry_multiplier': 0.8}
CASES = {
    'greedy': ('/v1/chat/completions', {**STORY, 'temperature': 0}),
    'seeded with penalties': ('/v1/chat/completions', {**STORY, 'temperature': 1.1, 'seed': 7, **PENALTIES,
                                                       'stream_options': {'include_usage': True}}),
    'logprobs': ('/v1/chat/completions', {**STORY, 'temperature': 0.9, 'seed': 3, 'logprobs': True, 'top_logprobs': 3,
                                          'max_tokens': 8}),
    'stop strings': ('/v1/completions', {'prompt': prompt(), 'max_tokens': 40, 'temperature': 0.8, 'seed': 11,
                                         'stop': ['. She', '. He', ' the old tree that'], 'logprobs': 1}),
    'Anthropic': ('/v1/messages', {**STORY, 'temperature': 0.9, 'seed': 9, 'stop_sequences': ['. She', '. He']}),
    'Ollama': ('/api/chat', {'messages': STORY['messages'], 'options': {'num_predict': 16, 'seed': 3}}),
    'Ollama, with its context': ('/api/generate', {'prompt': 'Once', 'options': {'num_predict': 12, 'seed': 3}}),
    'two choices': ('/v1/chat/completions', {**STORY, 'n': 2, 'temperature': 1, 'seed': 5, 'max_tokens': 10,
                                             'stream_options': {'include_usage': True}}),
    'choices that end apart': ('/v1/completions', {'prompt': [prompt(), 'Once'], 'n': 2, 'max_tokens': 12, 'seed': 2,
                                                   'temperature': 0.9, 'stop': ['e', ' the'], 'logprobs': 1}),
    'llama.cpp': ('/completion', {'prompt': 'Once', 'n_predict': 10, 'n_probs': 2, 'temperature': 0.9, 'seed': 4}),
    'tokens': ('/generate', {'text': 'Once', 'max_tokens': 12, 'temperature': 1.1, 'seed': 6, 'logprobs': 1}),
    'response': ('/v1/responses', {'input': 'Tell me a story about a fox.', 'max_output_tokens': 12, 'seed': 3}),
    'response with logprobs': ('/v1/responses', {'input': 'Tell me a story about a fox.', 'max_output_tokens': 8, 'seed': 3,
                                                 'top_logprobs': 2}),
    'mirostat': ('/v1/completions', {'prompt': prompt(), 'max_tokens': 24, 'mirostat': 2, 'seed': 8, 'logprobs': 1}),
    'guided': ('/v1/chat/completions', {**STORY, 'temperature': 0.8, 'seed': 5, 'regex': '[a-z ]{20,30}[.]'}),
}


class Cut(unittest.TestCase):
    """Two servers, each behind a proxy that cuts what it is told to, and a router before them."""

    @classmethod
    def setUpClass(cls):
        cls.servers = [Server('--threads', '1') for _ in range(2)]
        cls.cuts = Cuts()
        cls.proxies = [CuttingProxy(server.port, cls.cuts) for server in cls.servers]
        limits = ('--limit', 'n_failures=1000000', '--limit', 'n_retries=1000')  # that happen where no head has come
        cls.router = Router([proxy.url for proxy in cls.proxies], '--policy', 'round_robin', *limits)
        assert cls.router.wait_for(2)

    @classmethod
    def tearDownClass(cls):
        cls.router.stop()
        for server in cls.servers:
            server.stop()
        for proxy in cls.proxies:
            proxy.close()

    def places(self, path, body):
        """Behind every event of what the router is sent, and in the middle of it."""
        connection = self.servers[0].connect()
        connection.request('POST', path, json.dumps({**body, 'stream': True}),
                           {'Content-Type': 'application/json', 'X-Quire-Handover': '1'})
        response = connection.getresponse()
        self.assertIn('x-quire-handover', response.headers)
        raw = response.read()
        connection.close()
        head = 400  # about as much as stands before the body
        end = b'\n' if path.startswith('/api/') else b'\n\n'
        ends = [at for at in range(len(raw)) if raw.startswith(end, at)]
        return [head + at + more for at in ends for more in (len(end), 20)]

    def test_the_client_is_told_the_same_wherever_the_stream_is_cut(self):
        for name, (path, body) in CASES.items():
            status, _, raw = ask(self.servers[0], path, body)
            self.assertEqual(status, 200, raw)
            read = TOLD.get(path, told)
            names, wanted, ends = read(raw)
            self.assertEqual(len(names), 1)
            n_before = self.cuts.n_cut
            for after in self.places(path, body):
                with self.subTest(name, after=after):
                    self.cuts.after = after
                    status, headers, raw = ask(self.router, path, body)
                    self.assertEqual(status, 200, raw)
                    self.assertNotIn('x-quire-handover', headers)
                    self.assertNotIn(b'handover', raw)
                    names, said, said_ends = read(raw)
                    self.assertEqual(len(names), 1, names)
                    self.assertEqual((said, said_ends), (wanted, ends))
            self.assertGreater(self.cuts.n_cut - n_before, 4)  # how many pieces an answer comes in depends on the machine
        self.assertGreater(self.router.metric('quire_route_moved_streams_total'), 50)
        self.assertEqual(self.router.metric('quire_route_cut_streams_total'), 0)
        self.assertTrue(eventually(lambda: all(w['load_tokens'] == w['requests'] == 0
                                               for w in self.router.workers().values())))

    def test_a_response_is_kept_by_who_has_told_its_end(self):
        body = {'input': 'Tell me a story about a fox.', 'max_output_tokens': 12}
        for after in (2500, 4500):
            self.cuts.after = after
            before = self.router.metric('quire_route_moved_streams_total')
            raw = ask(self.router, '/v1/responses', body)[2]
            self.assertEqual(self.router.metric('quire_route_moved_streams_total'), before + 1)
            (name,), said, _ = told_response(raw)
            status, _, kept = self.router.get('/v1/responses/' + name)
            self.assertEqual((status, kept['output'][0]['content'][0]['text']), (200, said[0]))
            more = {**body, 'input': 'And then?', 'previous_response_id': name}
            self.assertEqual(self.router.post('/v1/responses', more)[0], 200)

    def test_a_response_goes_on_from_another_one_that_only_the_lost_worker_has(self):
        raw = ask(self.router, '/v1/responses', {'input': 'Tell me a story about a fox.', 'max_output_tokens': 8})[2]
        (before,), _, _ = told_response(raw)
        body = {'input': 'And then?', 'max_output_tokens': 12, 'seed': 3, 'previous_response_id': before}
        _, wanted, ends = told_response(ask(self.router, '/v1/responses', body)[2])
        n_moved = self.router.metric('quire_route_moved_streams_total')
        for after in range(2000, 6000, 333):
            with self.subTest(after=after):
                self.cuts.after = after
                status, _, raw = ask(self.router, '/v1/responses', body)
                names, said, said_ends = told_response(raw)
                self.assertEqual((status, len(names), said, said_ends), (200, 1, wanted, ends))
                more = {'input': 'More.', 'max_output_tokens': 2, 'previous_response_id': names.pop()}
                self.cuts.after = None
                self.assertEqual(self.router.post('/v1/responses', more)[0], 200)
        self.assertGreater(self.router.metric('quire_route_moved_streams_total'), n_moved + 5)

    def test_a_seed_that_the_server_drew_is_kept(self):
        body = {**STORY, 'temperature': 1.5, 'max_tokens': 60, 'logprobs': True}
        for after in (900, 2500, 4000, 6000):
            self.cuts.after = after
            _, _, raw = ask(self.router, '/v1/chat/completions', body)
            names, said, ends = told(raw)
            self.assertEqual((len(names), ends[-1]), (1, 'done'))
            self.assertEqual(''.join(one['token'] for one in said['logprobs content']), said['content'])


class OneWorker(unittest.TestCase):
    def test_a_stream_waits_for_a_worker_that_comes_back_and_a_request_that_ends_them_all_is_not_sent_on_forever(self):
        server = Server('--threads', '1')
        self.addCleanup(server.stop)
        cuts = Cuts()
        proxy = CuttingProxy(server.port, cuts)
        self.addCleanup(proxy.close)
        router = Router([proxy.url], '--limit', 'n_failures=1000000', '--limit', 'n_moves=2')
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(1))
        path, body = CASES['greedy']
        wanted = told(ask(server, path, body)[2])[1:]
        cuts.after = 1500
        self.assertEqual(told(ask(router, path, body)[2])[1:], wanted)

        class Always(Cuts):
            def take(self):
                self.n_cut += 1
                return 900 if self.n_cut == 1 else 420

        proxy.cuts = Always()
        raw = ask(router, path, body)[2]
        self.assertIn(b'event: error\ndata: {"error":', raw)
        self.assertNotIn(b'[DONE]', raw)
        self.assertEqual(proxy.cuts.n_cut, 3)
        self.assertEqual(router.metric('quire_route_cut_streams_total'), 1)


class Killed(unittest.TestCase):
    def test_streams_of_a_server_that_is_killed_or_told_to_end_go_on(self):
        servers = [Server('--threads', '1', '--drain-timeout', '0') for _ in range(4)]
        self.addCleanup(lambda: [server.stop() for server in servers])
        router = Router([server.url for server in servers], '--policy', 'round_robin')
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(4))
        body = {**STORY, 'max_tokens': 400, 'ignore_eos': True, 'temperature': 0.8, 'seed': 1, **PENALTIES}
        wanted = told(ask(servers[0], '/v1/chat/completions', body)[2])[1:]
        for end in (lambda victim: victim.process.kill(), lambda victim: victim.process.terminate()):
            answers, started = [], threading.Semaphore(0)

            def one():
                connection = router.connect()
                connection.request('POST', '/v1/chat/completions', json.dumps({**body, 'stream': True}))
                response = connection.getresponse()
                first = response.readline()
                started.release()
                answers.append((response.headers['x-quire-worker'], first + response.read()))
                connection.close()

            threads = [threading.Thread(target=one) for _ in range(12)]
            for thread in threads:
                thread.start()
            for _ in threads:
                started.acquire()
            victim = next(server for server in servers if server.process.poll() is None)
            end(victim)
            for thread in threads:
                thread.join()
            self.assertEqual(len(answers), 12)
            self.assertIn(victim.url[7:], {worker for worker, _ in answers})
            for _, raw in answers:
                self.assertEqual(told(raw)[1:], wanted)
        self.assertGreater(router.metric('quire_route_moved_streams_total'), 0)
        self.assertEqual(router.metric('quire_route_cut_streams_total'), 0)


if __name__ == '__main__':
    unittest.main()
