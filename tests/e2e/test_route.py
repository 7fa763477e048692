# quire route before real servers, and before sockets that answer as no server should.
import json
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from client_packages import PYTHON, missing
from quire_server import Router, Server, certificate, eventually

SYSTEM = 'You tell stories about a fox, a crow and a very old tree that stands alone on a hill by the sea. ' * 3


def chat(turns, **more):
    messages = [{'role': 'system', 'content': SYSTEM}]
    messages += [{'role': 'assistant' if i % 2 else 'user', 'content': text} for i, text in enumerate(turns)]
    return {'messages': messages, 'max_tokens': 12, 'seed': 5, 'temperature': 0.7, **more}


def text_of(answer):
    return answer['choices'][0]['message']['content']


def raw_stream(server, body):
    """Status, headers and all bytes of a streamed answer."""
    connection = server.connect()
    connection.request('POST', '/v1/chat/completions', json.dumps({**body, 'stream': True}))
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, response.headers, raw


def joined(raw):
    """The text of a stream's bytes."""
    events = [json.loads(event[6:]) for event in raw.split(b'\n\n') if event.startswith(b'data: {')]
    return ''.join(choice['delta'].get('content') or '' for event in events for choice in event['choices'])


class FakeWorker:
    """Says that it is well, and answers everything else with `answer(connection)`."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}'
        self.n_asked = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            head = b''
            while b'\r\n\r\n' not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            if head.startswith(b'GET '):
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}')
                return
            self.n_asked += 1
            self.answer(connection)

    def close(self):
        self.listener.close()


class Route(unittest.TestCase):
    """Four servers behind one router."""

    @classmethod
    def setUpClass(cls):
        cls.workers = [Server('--threads', '1') for _ in range(4)]
        cls.router = Router([w.url for w in cls.workers])
        assert cls.router.wait_for(4)

    @classmethod
    def tearDownClass(cls):
        cls.router.stop()
        for worker in cls.workers:
            worker.stop()

    def ask(self, body, headers=None):
        status, headers, answer = self.router.post('/v1/chat/completions', body, headers)
        self.assertEqual(status, 200, answer)
        return answer, headers['x-quire-worker'], headers['x-quire-route']

    def test_dialogues_stay_with_and_without_a_name(self):
        for named in (True, False):
            for number in range(3):
                turns, seen = [f'Dialogue {named} {number}: tell me of the crow.'], []
                for turn in range(4):
                    more = {'user': f'user-{number}'} if named else {}
                    answer, worker, reason = self.ask(chat(turns, **more))
                    seen.append((worker, reason))
                    if turn:
                        self.assertGreater(answer['usage']['prompt_tokens_details']['cached_tokens'], 0)
                    turns += [text_of(answer), f'And then? {turn}']
                self.assertEqual(len({worker for worker, _ in seen}), 1, seen)
                self.assertEqual({reason for _, reason in seen[1:]}, {'session' if named else 'prefix'})

    def test_four_servers_reuse_as_much_as_one(self):
        def cached_by(server):
            counts = []

            def one(number):
                turns = []
                for turn in range(4):
                    turns.append(f'Crowd {number}, turn {turn}: ' + f'what does animal {number} say? ' * 5)
                    answer = server.post('/v1/chat/completions', chat(turns))[2]
                    counts.append(answer['usage']['prompt_tokens_details']['cached_tokens'])
                    turns.append(text_of(answer))

            threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return sum(counts)

        one = Server('--threads', '1')
        self.addCleanup(one.stop)
        self.assertGreaterEqual(cached_by(self.router), 0.9 * cached_by(one))

    def test_answers_are_those_of_a_server(self):
        body = chat(['Who lives in the tree?'])
        direct = self.workers[0].post('/v1/chat/completions', body)[2]
        answer = self.ask(body)[0]
        self.assertEqual(text_of(answer), text_of(direct))
        status, headers, raw = raw_stream(self.router, body)
        self.assertEqual((status, joined(raw)), (200, joined(raw_stream(self.workers[0], body)[2])))
        self.assertEqual(joined(raw), text_of(answer))
        self.assertTrue(raw.endswith(b'data: [DONE]\n\n'))
        self.assertRegex(headers['x-quire-worker'], r'^127\.0\.0\.1:[0-9]+$')
        refused = self.router.post('/v1/chat/completions', {'messages': 3})
        self.assertEqual(refused[0], 400)
        self.assertEqual(refused[2], self.workers[0].post('/v1/chat/completions', {'messages': 3})[2])

    def test_responses_and_streams_are_found_where_they_are(self):
        for number in range(6):
            first = self.router.post('/v1/responses', {'input': f'Number {number}', 'max_output_tokens': 4})
            self.assertEqual(first[0], 200, first[2])
            name = first[2]['id']
            got = self.router.get('/v1/responses/' + name)
            self.assertEqual((got[0], got[2]['id']), (200, name))
            self.assertEqual(got[1]['x-quire-worker'], first[1]['x-quire-worker'])
            more = {'input': 'More', 'previous_response_id': name, 'max_output_tokens': 4}
            self.assertEqual(self.router.post('/v1/responses', more)[0], 200)

    def test_a_client_that_leaves_frees_the_worker(self):
        connection = self.router.connect()
        body = {'prompt': 'Once', 'max_tokens': 7000, 'ignore_eos': True, 'stream': True}
        connection.request('POST', '/v1/completions', json.dumps(body))
        response = connection.getresponse()
        worker = next(w for w in self.workers if w.url.endswith(response.headers['x-quire-worker']))
        response.readline()
        self.assertEqual(worker.metric('quire_num_requests_running'), 1)
        connection.sock.close()
        response.close()
        connection.close()
        self.assertTrue(eventually(lambda: worker.metric('quire_num_requests_running') == 0))
        self.assertTrue(eventually(lambda: all(w['load_tokens'] == w['requests'] == 0
                                               for w in self.router.workers().values())))

    def test_what_a_worker_was_given_past_the_router_is_its_load_too(self):
        router = Router([w.url for w in self.workers], '--policy', 'least_load', '--limit', 'probe_ms=100')
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(4))
        busy, name = self.workers[0], self.workers[0].url[len('http://'):]
        body = json.dumps({'prompt': 'Once', 'max_tokens': 7000, 'ignore_eos': True, 'stream': True})
        streams = []
        for _ in range(3):
            streams.append(busy.connect())
            streams[-1].request('POST', '/v1/completions', body, {'Content-Type': 'application/json'})
            streams[-1].getresponse().readline()
        self.assertEqual(busy.get('/load')[2], {'server_load': 3, 'running': 3, 'waiting': 0})
        self.assertTrue(eventually(lambda: router.workers()[name]['unseen_requests'] == 3), router.workers())
        for i in range(6):
            self.assertNotEqual(router.post('/v1/completions', {'prompt': f'{i}', 'max_tokens': 1})[1]['x-quire-worker'], name)
        for stream in streams:
            stream.sock.close()
            stream.close()
        self.assertTrue(eventually(lambda: all(w['unseen_requests'] == 0 for w in router.workers().values())))

    def test_what_is_listed_and_what_is_not_passed_on(self):
        models = self.router.get('/v1/models')[2]
        self.assertEqual([m['id'] for m in models['data']],
                         [m['id'] for m in self.workers[0].get('/v1/models')[2]['data']])
        name = models['data'][0]['id']
        self.assertEqual(self.router.get('/v1/models/' + name)[2]['id'], name)
        self.assertEqual(self.router.get('/v1/models/nobody')[0], 404)
        self.assertEqual(self.router.get('/health')[0], 200)
        self.assertEqual(self.router.get('/ready')[0], 200)
        self.assertIn('quire_route_requests_total', self.router.get('/metrics')[2])
        # Whoever comes through another proxy is not of this machine, for the router and for the workers.
        elsewhere = {'X-Forwarded-For': '203.0.113.9'}
        for path in ('/workers', '/metrics'):
            self.assertEqual(self.router.get(path, elsewhere)[0], 403)
        self.assertEqual(self.router.get('/no/such/path')[0], 404)
        named = {'X-Quire-Worker': 'evil:1', 'X-Quire-Route': 'evil'}
        self.assertIn(self.ask(chat(['Hello']), named)[1], self.router.workers())

    def test_with_the_openai_package(self):
        reason = missing('openai>=1.60')
        if reason:
            self.skipTest(reason)
        script = f'''
from openai import OpenAI
client = OpenAI(base_url="{self.router.url}/v1", api_key="none", max_retries=0)
messages, workers = [{{"role": "system", "content": {SYSTEM!r}}}], set()
for turn in range(4):
    messages.append({{"role": "user", "content": "Turn %d: go on." % turn}})
    ask = dict(model="any", messages=messages, max_tokens=12, seed=3, extra_body={{"prompt_cache_key": "d-1"}})
    raw = client.chat.completions.with_raw_response.create(**ask)
    workers.add(raw.headers["x-quire-worker"])
    text = raw.parse().choices[0].message.content
    streamed = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(**ask, stream=True))
    assert streamed == text, (streamed, text)
    messages.append({{"role": "assistant", "content": text}})
assert len(workers) == 1, workers
assert client.models.list().data[0].object == "model"
'''
        done = subprocess.run([PYTHON, '-W', 'error', '-c', script], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)


class WorkerDies(unittest.TestCase):
    def setUp(self):
        self.workers = [Server('--threads', '1') for _ in range(4)]
        self.router = Router([w.url for w in self.workers])
        self.assertTrue(self.router.wait_for(4))

    def tearDown(self):
        self.router.stop()
        for worker in self.workers:
            worker.stop()

    def test_no_request_is_lost_and_streams_go_on_elsewhere(self):
        bodies = [chat([f'Story {i % 6} of the crow.'], max_tokens=120, ignore_eos=True, user=f'u{i}') for i in range(24)]
        expected = [text_of(self.workers[0].post('/v1/chat/completions', body)[2]) for body in bodies[:6]]
        started = threading.Semaphore(0)
        whole, streams = [None] * len(bodies), [None] * len(bodies)

        def ask_whole(i):
            started.release()
            whole[i] = [self.router.post('/v1/chat/completions', bodies[i]) for _ in range(2)]

        def ask_stream(i):
            started.release()
            streams[i] = raw_stream(self.router, bodies[i])

        threads = [threading.Thread(target=f, args=(i,)) for i in range(len(bodies)) for f in (ask_whole, ask_stream)]
        for thread in threads:
            thread.start()
        for _ in threads:
            started.acquire()
        victims = []

        def kill_one():
            known = self.router.workers()
            victims.extend(w for w in self.workers if known[w.url[7:]]['requests'] > 3)
            return victims

        self.assertTrue(eventually(kill_one))
        victim = victims[0]
        victim.process.kill()
        for thread in threads:
            thread.join()
        for i, answers in enumerate(whole):
            for status, _, answer in answers:
                self.assertEqual(status, 200, answer)
                self.assertEqual(text_of(answer), expected[i % 6])
        for i, (status, _, raw) in enumerate(streams):
            self.assertEqual(status, 200, raw)
            self.assertTrue(raw.endswith(b'data: [DONE]\n\n'), raw[-400:])
            self.assertEqual(joined(raw), expected[i % 6])
            for event in raw.split(b'\n\n'):  # nothing is cut in the middle
                self.assertTrue(not event or event.startswith((b'data: {', b'data: [DONE]')), event)
        self.assertEqual(self.router.metric('quire_route_cut_streams_total'), 0)
        n_sent_again = self.router.metric('quire_route_retries_total')
        self.assertGreater(n_sent_again + self.router.metric('quire_route_moved_streams_total'), 0)
        self.assertTrue(self.router.wait_for(3))
        self.assertTrue(all(w['load_tokens'] == 0 for w in self.router.workers().values()))


class FakeWorkers(unittest.TestCase):
    def route(self, *answers, options=()):
        self.fakes = [FakeWorker(answer) for answer in answers]
        for fake in self.fakes:
            self.addCleanup(fake.close)
        router = Router([fake.url for fake in self.fakes], *options)
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(len(answers)))
        return router

    def test_streams_pass_unchanged_however_they_are_cut(self):
        rng = random.Random(7)
        events = [b'data: ' + json.dumps({'n': i, 'text': 'x' * rng.choice([1, 10, 3000])}).encode() + b'\n\n'
                  for i in range(300)]
        stream = b': hello\n\n' + b''.join(events) + b'event: end\r\ndata: [DONE]\r\n\r\nrest without an end'
        for chunked in (True, False):
            def say(connection):
                kind = b'Transfer-Encoding: chunked' if chunked else b'Connection: close'
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n' + kind + b'\r\n\r\n')
                at = 0
                while at < len(stream):
                    piece = stream[at:at + rng.choice([1, 2, 7, 100, 9000])]
                    connection.sendall(b'%x\r\n%b\r\n' % (len(piece), piece) if chunked else piece)
                    at += len(piece)
                if chunked:
                    connection.sendall(b'0\r\n\r\n')

            self.assertEqual(raw_stream(self.route(say), {})[2], stream)

    def test_bad_replies_are_a_502_that_names_worker_and_limit(self):
        def stalled(connection):
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"half":')
            time.sleep(30)

        cases = [
            (lambda c: c.sendall(b'this is no HTTP\r\n\r\n'), 'malformed head'),
            (lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nA: ' + b'x' * 70000), '16384 bytes (header_bytes)'),
            (lambda c: c.sendall(b'HTTP/1.1 200 OK\r\n' + b'A: b\r\n' * 200 + b'\r\n'), '100 (n_headers)'),
            (lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
             'Transfer-Encoding'),
            (lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"half":'), 'ended before'),
            (lambda c: None, 'was cut'),
            (lambda c: time.sleep(30), '300 ms (first_byte_ms)'),
            (stalled, '400 ms (stall_ms)'),
        ]
        for answer, words in cases:
            with self.subTest(words):
                router = self.route(answer, options=('--limit', 'first_byte_ms=300', '--limit', 'stall_ms=400'))
                status, headers, error = router.post('/v1/completions', {'prompt': 'x'})
                self.assertEqual(status, 502, error)
                self.assertEqual(error['error']['code'], 'bad_worker')
                self.assertIn(words, error['error']['message'])
                self.assertIn(self.fakes[0].url[7:], error['error']['message'])
                self.assertEqual(headers['x-quire-worker'], self.fakes[0].url[7:])

    def test_a_stream_that_breaks_ends_with_an_error_event(self):
        def break_off(connection):
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
                               b'13\r\ndata: {"a":1}\n\ndata\r\n')

        router = self.route(break_off)
        raw = raw_stream(router, {})[2]
        self.assertTrue(raw.startswith(b'data: {"a":1}\n\nevent: error\ndata: {"error":{"message":"worker '), raw)
        self.assertEqual(raw.count(b'\n\n'), 2)

    def test_one_retry_elsewhere_and_retry_after_is_obeyed(self):
        good = lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}')
        busy = lambda c: c.sendall(b'HTTP/1.1 503 Busy\r\nRetry-After: 20\r\nContent-Length: 2\r\n\r\n{}')
        router = self.route(busy, good, options=('--policy', 'round_robin'))
        for _ in range(6):
            self.assertEqual(router.post('/v1/completions', {'prompt': 'x'})[0], 200)
        self.assertEqual(self.fakes[0].n_asked, 1)  # it rests
        both = self.route(busy, busy)
        status, headers, _ = both.post('/v1/completions', {'prompt': 'x'})
        self.assertEqual((status, headers['Retry-After']), (503, '20'))  # the worker's own word
        self.assertEqual([fake.n_asked for fake in self.fakes], [1, 1])

    def test_without_a_worker_requests_wait_and_are_refused_then(self):
        listener = socket.create_server(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{listener.getsockname()[1]}'
        listener.close()
        router = Router([url], '--limit', 'wait_ms=300', '--limit', 'n_waiting=1')
        self.addCleanup(router.stop)
        self.assertEqual(router.get('/ready')[0], 503)
        status, headers, error = router.post('/v1/completions', {'prompt': 'x'})
        self.assertEqual((status, error['error']['code'], headers['Retry-After']), (503, 'no_worker', '1'))
        self.assertIn('300 ms (wait_ms)', error['error']['message'])


@unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
class TlsWorkers(unittest.TestCase):
    def test_answers_pass_unchanged_and_a_certificate_that_does_not_fit_is_refused(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = certificate(folder.name, 'IP:127.0.0.1')
        named, named_key = certificate(folder.name, 'DNS:other.example')
        worker = Server('--tls-cert', cert, '--tls-key', key, '--threads', '1')
        self.addCleanup(worker.stop)
        other = Server('--tls-cert', named, '--tls-key', named_key, '--threads', '1')
        self.addCleanup(other.stop)
        plain = Server('--threads', '1')
        self.addCleanup(plain.stop)
        right = f'https://127.0.0.1:{worker.port}'
        router = Router([right], '--worker-ca', cert)
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(1))
        body = chat(['Where is the fox?'])
        status, headers, answer = router.post('/v1/chat/completions', body)
        self.assertEqual((status, headers['x-quire-worker']), (200, right[len('https://'):]))
        self.assertEqual(text_of(answer), text_of(plain.post('/v1/chat/completions', body)[2]))
        status, _, raw = raw_stream(router, body)
        self.assertEqual((status, joined(raw)), (200, text_of(answer)))
        for url, ca, words in ((right, named, 'its certificate is refused'),
                               (f'https://127.0.0.1:{other.port}', named, 'IP address mismatch'),
                               (f'https://127.0.0.1:{plain.port}', cert, 'cannot connect over TLS')):
            with self.subTest(url):
                refusing = Router([url], '--worker-ca', ca, '--limit', 'wait_ms=100')
                self.assertTrue(eventually(lambda: any(words in line for line in refusing.log)), refusing.log)
                self.assertEqual(refusing.post('/v1/completions', {'prompt': 'x'})[2]['error']['code'], 'no_worker')
                refusing.stop()


class Keys(unittest.TestCase):
    def test_keys_are_the_routers_and_workers_see_one_of_their_own(self):
        worker = Server('--api-key', 'inner', '--threads', '1')
        self.addCleanup(worker.stop)
        router = Router([worker.url], '--api-key', 'outer', '--worker-key', 'inner')
        self.addCleanup(router.stop)
        self.assertTrue(eventually(lambda: router.get('/ready')[0] == 200))
        body = {'prompt': 'Once', 'max_tokens': 2}
        self.assertEqual(router.post('/v1/completions', body)[0], 401)
        self.assertEqual(router.post('/v1/completions', body, {'Authorization': 'Bearer inner'})[0], 401)
        status, _, answer = router.post('/v1/completions', body, {'Authorization': 'Bearer outer'})
        self.assertEqual(status, 200, answer)
        self.assertEqual(len(router.get('/v1/models', {'Authorization': 'Bearer outer'})[2]['data']), 1)


if __name__ == '__main__':
    unittest.main()
