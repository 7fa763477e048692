# What clients should not send and workers should not do, at a router: each is refused or carried, and the next request is
# answered as if nothing had been.
import contextlib
import os
import resource
import socket
import threading
import time
import unittest

from quire_server import Router, eventually
from test_route import FakeWorker, raw_stream

BODY = b'{"prompt":"x"}'


def post(*headers, body=BODY, target='/v1/completions', version='HTTP/1.1', length=True):
    lines = [f'POST {target} {version}'.encode(), b'Host: localhost', b'Content-Type: application/json', *headers]
    if length:
        lines.append(b'Content-Length: %d' % len(body))
    return b'\r\n'.join(lines) + b'\r\n\r\n' + body


CHUNKED = b'Transfer-Encoding: chunked'
# name: what is sent, the statuses that may come ('' where the connection may end without one), whether a worker may see it
CASES = {
    'one header of a megabyte': (post(b'X: ' + b'a' * (1 << 20)), ('431', '400', ''), False),
    '10000 headers': (post(*[b'X-%d: y' % i for i in range(10000)]), ('431', '400', ''), False),
    'a header without a colon': (post(b'nothing'), ('400',), False),
    'a folded header': (post(b'X: a', b' b'), ('400',), False),
    'NUL in a header': (post(b'X: a\0b'), ('400',), False),
    'a chunk of ffffffffffffffff bytes': (post(CHUNKED, body=b'ffffffffffffffff\r\nx', length=False), ('400', '413'), False),
    'a chunk of a negative size': (post(CHUNKED, body=b'-1\r\nx\r\n0\r\n\r\n', length=False), ('400',), False),
    'a chunk without its end': (post(CHUNKED, body=b'3\r\nabcd\r\n0\r\n\r\n', length=False), ('400',), False),
    '100000 chunks of a byte': (post(CHUNKED, body=b'1\r\n \r\n' * 100000 + b'e\r\n' + BODY + b'\r\n0\r\n\r\n', length=False),
                                ('200', '400', '413'), True),
    'both lengths': (post(CHUNKED), ('400',), False),
    'two lengths': (post(b'Content-Length: 3'), ('400',), False),
    'a length of +5': (post(b'Content-Length: +5', body=b'{    ', length=False), ('400',), False),
    'a length of 0x5': (post(b'Content-Length: 0x5', body=b'{    ', length=False), ('400',), False),
    'a body over the limit, announced': (post(b'Content-Length: 99999999999', length=False), ('413', ''), False),
    'a compressed body': (post(b'Content-Encoding: gzip', body=b'\x1f\x8b' + b'\0' * 100), ('415', '200'), True),
    'the preface of HTTP/2': (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', ('400', '505', '404', '405', ''), False),
    'bytes of TLS': (b'\x16\x03\x01\x02\x00\x01' + b'\0' * 600, ('400', ''), False),
    'OPTIONS *': (b'OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n', ('400', '404', '405', '204', '200'), False),
    'a target of 100 KB': (b'GET /' + b'a' * 100000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n', ('414', '431', '400', ''), False),
    'a target with %00': (b'GET /v1/responses/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n', ('400', '404', '200'), False),
    'a target that climbs': (b'GET /v1/responses/..%2f..%2fmetrics HTTP/1.1\r\nHost: localhost\r\n\r\n', ('400', '404', '200'), False),
    'a path that is the worker\'s operator\'s': (post(target='/v1/load_lora_adapter'), ('404', '405'), False),
    'random bytes': (os.urandom(1000).replace(b'\n', b'x') + b'\r\n\r\n', ('400', ''), False),
    'a worker of the client\'s choice': (post(b'x-quire-worker: 127.0.0.1:1', b'x-quire-route: mine'), ('200',), True),
    'HTTP/1.0': (post(version='HTTP/1.0'), ('200',), True),
    'depth of 100000': (post(body=b'[' * 100000), ('200', '400'), True),
    'an outermost key of a megabyte': (post(body=b'{"' + b'k' * (1 << 20) + b'":1}'), ('200', '400'), True),
    'no JSON': (post(body=b'null'), ('200', '400'), True),
    'numbers that are none': (post(body=b'{"max_tokens":1e999,"n":-0,"user":"\\ud800","best_of":99999999999999999999}'), ('200', '400'), True),
}


class Recorded(FakeWorker):
    """Keeps the heads of what it is asked."""

    def __init__(self):
        self.heads = []
        super().__init__(lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))

    def serve(self, connection):
        seen = connection.recv(65536, socket.MSG_PEEK)
        self.heads.append(seen)
        super().serve(connection)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worker = Recorded()
        cls.router = Router([cls.worker.url], '--limit', 'n_failures=100000')
        assert cls.router.wait_for(1)

    @classmethod
    def tearDownClass(cls):
        cls.router.stop()
        cls.worker.close()

    def said(self, sent):
        """The first line's status, '' where none came."""
        with socket.create_connection(('127.0.0.1', self.router.port), timeout=20) as connection:
            try:
                connection.sendall(sent)
            except OSError:
                pass  # it was refused before all was sent
            answer = b''
            try:
                while b'\r\n' not in answer and (more := connection.recv(65536)):
                    answer += more
            except ConnectionError:
                pass
        return answer.split(b' ')[1].decode() if answer.startswith(b'HTTP/1.') else ''

    def is_well(self):
        self.assertEqual(self.router.post('/v1/completions', {'prompt': 'x'})[0], 200)
        self.assertTrue(eventually(lambda: all(w['load_tokens'] == 0 and w['requests'] == 0
                                               for w in self.router.workers().values())))

    def test_what_clients_should_not_send_is_refused_or_carried(self):
        for name, (sent, statuses, seen) in CASES.items():
            with self.subTest(name):
                n_asked = self.worker.n_asked
                self.assertIn(self.said(sent), statuses)
                if not seen:
                    self.assertEqual(self.worker.n_asked, n_asked)
                self.is_well()
        heads = b''.join(self.worker.heads).lower()
        self.assertNotIn(b'x-quire-worker:', heads)
        self.assertNotIn(b'/metrics/', heads)

    def test_requests_behind_each_other_are_answered_in_their_order(self):
        n = 2000
        with socket.create_connection(('127.0.0.1', self.router.port), timeout=60) as connection:
            def send():
                for _ in range(n):
                    connection.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
                connection.sendall(b'GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')

            sender = threading.Thread(target=send)
            sender.start()
            answer = b''
            while more := connection.recv(65536):
                answer += more
            sender.join()
        self.assertEqual((answer.count(b'HTTP/1.1 200 '), answer.count(b'HTTP/1.1 404 ')), (n, 1))
        self.is_well()

    def test_clients_that_leave_at_any_place_cost_nothing(self):
        whole = post()
        for at in range(0, len(whole), 7):
            with socket.create_connection(('127.0.0.1', self.router.port)) as connection:
                connection.sendall(whole[:at])
        self.is_well()


class Crowds(unittest.TestCase):
    HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
    EVENT = b'f\r\ndata: {"a":12}\n\r\n1\r\n\n\r\n'

    def start(self, answer, *options):
        self.worker = FakeWorker(answer)
        self.addCleanup(self.worker.close)
        router = Router([self.worker.url], *options)
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(1))
        return router

    def connect(self, router):
        connection = socket.create_connection(('127.0.0.1', router.port), timeout=20)
        self.addCleanup(connection.close)
        return connection

    def is_free(self, router):
        return eventually(lambda: all(w['load_tokens'] == 0 and w['requests'] == 0 for w in router.workers().values()))

    def test_a_storm_of_streams_that_are_left(self):
        end = threading.Event()
        self.addCleanup(end.set)

        def answer(connection):
            with contextlib.suppress(OSError):  # the router leaves with its client
                connection.sendall(self.HEAD + self.EVENT)
                end.wait(0.2)
                connection.sendall(self.EVENT + b'0\r\n\r\n')
        router = self.start(answer, '--limit', 'n_failures=100000')
        streamed = post(body=b'{"prompt":"x","stream":true}')
        for i in range(600):
            with socket.create_connection(('127.0.0.1', router.port), timeout=20) as connection:
                connection.sendall(streamed)
                if i % 3 == 0:
                    connection.recv(100)
        self.assertTrue(self.is_free(router), router.workers())
        status, _, raw = raw_stream(router, {'prompt': 'x', 'stream': True})
        self.assertEqual((status, raw.count(b'data: ')), (200, 2))

    def test_without_descriptors_streams_go_on_and_it_is_said_seldom(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(connection):
            connection.sendall(self.HEAD + self.EVENT)
            go_on.wait(20)
            connection.sendall(self.EVENT + b'0\r\n\r\n')
        router = self.start(answer)
        stream = self.connect(router)
        stream.sendall(post(body=b'{"prompt":"x","stream":true}'))
        answered = stream.recv(65536)
        while b'data: ' not in answered:
            answered += stream.recv(65536)
        n_lines = len(router.log)
        resource.prlimit(router.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        crowd = [self.connect(router) for _ in range(200)]
        time.sleep(2.5)
        go_on.set()
        while not answered.endswith(b'0\r\n\r\n'):
            more = stream.recv(65536)
            self.assertTrue(more, answered)
            answered += more
        self.assertEqual(answered.count(b'data: '), 2)
        self.assertLess(len(router.log) - n_lines, 30)
        for connection in crowd:
            connection.close()
        self.assertTrue(eventually(lambda: router.get('/health')[0] == 200))
        self.assertTrue(self.is_free(router), router.workers())

    def test_heads_that_trickle_end(self):
        router = self.start(lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'), '--limit', 'header_timeout_ms=700')
        slow = [self.connect(router) for _ in range(20)]
        begun = time.monotonic()
        while slow and time.monotonic() - begun < 20:
            for connection in list(slow):
                try:
                    connection.sendall(b'G')
                except OSError:
                    slow.remove(connection)
            time.sleep(0.1)
        self.assertEqual(slow, [])
        self.assertEqual(router.post('/v1/completions', {'prompt': 'x'})[0], 200)


class Flapping(unittest.TestCase):
    def test_workers_that_hang_lie_or_break_do_not_harm_who_is_well(self):
        """One hangs behind its first byte, one breaks its streams, one is up and down, one is well."""
        end = threading.Event()
        self.addCleanup(end.set)
        head = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
        event = b'data: {"a":1}\n\n'
        one = b'%x\r\n%b\r\n' % (len(event), event)
        fakes = [FakeWorker(lambda c: (c.sendall(head), end.wait(30))),
                 FakeWorker(lambda c: c.sendall(head + one + b'zz\r\nnonsense')),
                 FakeWorker(lambda c: c.sendall(head + one + b'0\r\n\r\n') if int(time.time() * 2) % 2 else None),
                 FakeWorker(lambda c: c.sendall(head + one + b'0\r\n\r\n'))]
        for fake in fakes:
            self.addCleanup(fake.close)
        limits = ('first_byte_ms=300', 'stall_ms=300', 'n_retries=1000', 'eject_ms=60000')
        router = Router([fake.url for fake in fakes], '--policy', 'round_robin', *(f'--limit={one}' for one in limits))
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(4))
        whole = 0
        for _ in range(60):
            status, _, raw = raw_stream(router, {})
            self.assertIn(status, (200, 502))
            if raw == event:
                whole += 1
            elif status == 200:  # never silently: what broke ends with an error
                self.assertIn(b'event: error\n', raw)
        known = router.workers()
        names = [fake.url[7:] for fake in fakes]
        self.assertFalse(known[names[3]]['ejected'])
        self.assertTrue(known[names[0]]['ejected'] or known[names[1]]['ejected'], known)
        self.assertLessEqual(sum(w['ejected'] for w in known.values()), 2, 'never over half')
        self.assertGreater(whole, 20)
        self.assertTrue(all(w['load_tokens'] == 0 for w in router.workers().values()))


if __name__ == '__main__':
    unittest.main()
