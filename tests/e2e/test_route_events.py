# quire route that listens to its workers' KV events: what one of them has is found there though the router sent it
# nothing, and a worker that evicts, dies, begins anew or talks nonsense harms no request.
import ctypes.util
import os
import re
import socket
import threading
import time
import unittest

from quire_server import Router, Server, eventually, model

STORY = 'In the town by the river there lived a miller, and every evening the miller told this story to whoever came: '
PLACES = re.compile(r'KV events on tcp://(127\.0\.0\.1:\d+), again on tcp://(127\.0\.0\.1:\d+),')


class Worker(Server):
    """Publishes events, at the same places when it is started again."""

    def __init__(self, *options):
        self.options = options
        self.begin('0', '0', '0')

    def begin(self, port, events, replay):
        self.start(['serve', model(), '--port', port, '--kv-events', events, '--kv-events-replay', replay, '--threads', '1',
                    *self.options], 60)
        self.events, self.replay = PLACES.search(self.logged('KV events on ')).groups()
        self.name = f'127.0.0.1:{self.port}'

    def place(self):
        return ('--worker-events', f'{self.url}={self.events},{self.replay}')

    def die(self):
        self.process.kill()
        self.process.wait()

    def begin_again(self):
        self.begin(str(self.port), *(place.rsplit(':', 1)[1] for place in (self.events, self.replay)))

    def n_blocks(self):
        """That are cached; None while some are in use."""
        states = {line.split('"')[1]: float(line.rsplit(' ', 1)[1]) for line in self.get('/metrics')[2].splitlines()
                  if line.startswith('quire_kv_blocks{')}
        return None if states['used'] else states['cached']


def router_before(workers, *options):
    places = [part for worker in workers for part in worker.place()]
    router = Router([w.url for w in workers], *places, '--limit', 'tokens_ms=60000', *options)
    assert router.wait_for(len(workers))
    return router


def of_worker(router, name, worker):
    lines = [line for line in router.get('/metrics')[2].splitlines() if line.startswith(name + '{') and worker.name in line]
    return float(lines[0].rsplit(' ', 1)[1]) if lines else None


def agree(router, worker):
    """Until the router has as many blocks of a worker as it has itself."""
    def same():
        n = worker.n_blocks()
        return n is not None and of_worker(router, 'quire_worker_kv_known', worker) == 1 and n == of_worker(
            router, 'quire_worker_kv_blocks', worker)
    return eventually(same, 60)


def chat(text, **more):
    return {'messages': [{'role': 'user', 'content': STORY + text * 20}], 'max_tokens': 4, 'temperature': 0, **more}


@unittest.skipUnless(ctypes.util.find_library('zmq'), 'libzmq is not installed')
class RouteEvents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workers = [Worker('--ctx', '512', '--kv-memory', '8M') for _ in range(2)]
        cls.router = router_before(cls.workers)

    @classmethod
    def tearDownClass(cls):
        cls.router.stop()
        for worker in cls.workers:
            worker.stop()

    def ask(self, path, body, headers=None):
        status, headers, answer = self.router.post(path, body, headers)
        self.assertEqual(status, 200, answer)
        return headers['x-quire-worker'], headers['x-quire-route'], answer

    def cached(self, answer):
        return answer['usage']['prompt_tokens_details']['cached_tokens']

    def test_a_prompt_goes_to_who_has_it_whoever_sent_it_there(self):
        for number, worker in enumerate((*self.workers, *self.workers)):
            body = chat(f'The fox of day {number} met a crow. ')
            self.assertEqual(worker.post('/v1/chat/completions', body)[0], 200)
            self.assertTrue(agree(self.router, worker))
            name, reason, answer = self.ask('/v1/chat/completions', body)
            self.assertEqual((name, reason), (worker.name, 'prefix'))
            self.assertGreater(self.cached(answer), 64)
            # As text, and as the tokens that the server says the text has.
            plain = {'prompt': f'Number {number}: ' + 'the tree on the hill by the sea ' * 20, 'max_tokens': 1}
            self.assertEqual(worker.post('/v1/completions', plain)[0], 200)
            self.assertTrue(agree(self.router, worker))
            tokens = worker.post('/v1/completions/render', plain)[2][0]['token_ids']
            for prompt in (plain['prompt'], tokens):
                name, reason, answer = self.ask('/v1/completions', {**plain, 'prompt': prompt})
                self.assertEqual((name, reason), (worker.name, 'prefix'))
                self.assertGreater(self.cached(answer), 64)
        self.assertGreater(self.router.metric('quire_route_known_by_total'), 0)

    def test_what_a_key_has_is_found_under_it(self):
        key = {'Authorization': 'Bearer somebody'}
        first, second = self.workers
        # Each worker has answered it something, so its salt is known at both.
        seen = set()
        for number in range(20):
            seen.add(self.ask('/v1/completions', {'prompt': f'word {number}', 'max_tokens': 1}, key)[0])
        self.assertEqual(seen, {first.name, second.name})
        for number, worker in enumerate((first, second, first, second)):
            body = chat(f'The secret of house {number} is old. ')
            self.assertEqual(worker.post('/v1/chat/completions', body, key)[0], 200)
            self.assertTrue(agree(self.router, worker))
            name, reason, answer = self.ask('/v1/chat/completions', body, key)
            self.assertEqual((name, reason), (worker.name, 'prefix'))
            self.assertGreater(self.cached(answer), 64)

    def test_what_is_evicted_is_not_looked_for(self):
        for number in range(60):
            worker = self.workers[number % 2]
            prompt = [100 + (number * 7919 + j * (number + 3)) % 300 for j in range(200)]
            self.assertEqual(worker.post('/v1/completions', {'prompt': prompt, 'max_tokens': 1})[0], 200)
        for worker in self.workers:
            self.assertTrue(agree(self.router, worker), [of_worker(self.router, 'quire_worker_kv_blocks', w) for w in self.workers])
        self.assertEqual(self.router.metric('quire_route_kv_bad_total'), 0)

    def test_a_router_that_comes_later_asks_for_all(self):
        body = chat('A late guest asked for the way. ')
        worker = self.workers[1]
        self.assertEqual(worker.post('/v1/chat/completions', body)[0], 200)
        late = router_before(self.workers)
        try:
            self.assertTrue(agree(late, worker))
            self.assertGreaterEqual(late.metric('quire_route_kv_dumps_total'), 2)
            _, headers, _ = late.post('/v1/chat/completions', body)
            self.assertEqual((headers['x-quire-worker'], headers['x-quire-route']), (worker.name, 'prefix'))
        finally:
            late.stop()


@unittest.skipUnless(ctypes.util.find_library('zmq'), 'libzmq is not installed')
class WorkersThatFail(unittest.TestCase):
    def test_one_that_dies_and_comes_back_holds_nothing_of_before(self):
        workers = [Worker() for _ in range(2)]
        router = router_before(workers)
        try:
            body = chat('It was a dark night in autumn. ')
            workers[0].post('/v1/chat/completions', body)
            self.assertTrue(agree(router, workers[0]))
            self.assertEqual(router.post('/v1/chat/completions', body)[1]['x-quire-worker'], workers[0].name)
            workers[0].die()
            for number in range(4):
                self.assertEqual(router.post('/v1/chat/completions', chat(f'While it was away: {number}. '))[0], 200)
            workers[0].begin_again()
            self.assertTrue(router.wait_for(2))
            self.assertTrue(agree(router, workers[0]))
            # The same prompt is computed by the other one, whose it is from then on.
            workers[1].post('/v1/chat/completions', body)
            self.assertTrue(agree(router, workers[1]))
            _, headers, answer = router.post('/v1/chat/completions', body)
            self.assertEqual((headers['x-quire-worker'], headers['x-quire-route']), (workers[1].name, 'prefix'))
            self.assertGreater(answer['usage']['prompt_tokens_details']['cached_tokens'], 64)
        finally:
            router.stop()
            for worker in workers:
                worker.stop()

    def test_nonsense_where_events_should_be_harms_no_request(self):
        listener = socket.create_server(('127.0.0.1', 0), backlog=64)
        noise, ends = os.urandom(1 << 16), threading.Event()

        def talk(connection):
            with connection:
                try:
                    while not ends.is_set():
                        connection.sendall(noise)
                        time.sleep(0.01)
                except OSError:
                    pass

        def run():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        worker, other = Worker(), Server('--threads', '1')
        port = listener.getsockname()[1]
        router = Router([worker.url, other.url], *worker.place(), '--worker-events', f'{other.url}={port},{port}', '--limit',
                        'tokens_ms=60000')
        try:
            self.assertTrue(router.wait_for(2))
            body = chat('The miller said no more that day. ')
            worker.post('/v1/chat/completions', body)
            self.assertTrue(agree(router, worker))
            for number in range(6):
                self.assertEqual(router.post('/v1/chat/completions', chat(f'Nonsense {number}. '))[0], 200)
            self.assertEqual(router.post('/v1/chat/completions', body)[1]['x-quire-worker'], worker.name)
        finally:
            ends.set()
            listener.close()
            router.stop()
            for server in (worker, other):
                server.stop()


if __name__ == '__main__':
    unittest.main()
