# A server that has little memory to be had: what clients send or leave unread costs them their connection or a 503, and
# never the process, the bystander or memory afterwards.
import concurrent.futures
import resource
import signal
import socket
import time
import unittest

from quire_server import Server, eventually

MIB = 1 << 20
LENGTH = 8 * MIB
HEAD = (f'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
        f'Content-Length: {LENGTH}\r\n\r\n').encode()


def status_kib(pid, field):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ':'))


class Posting:
    """Sends most of a long body, as fast as it is taken, and keeps the connection."""

    def __init__(self, port, n_bytes):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=20)
        self.answer = b''
        try:
            self.socket.sendall(HEAD + b'{"prompt":"' + b'x' * n_bytes)
        except OSError:  # cut, or refused and closed
            pass

    def read(self, timeout=0.2):
        self.socket.settimeout(timeout)
        try:
            self.answer += self.socket.recv(65536)
        except OSError:
            pass
        return self.answer

    def close(self):
        self.socket.close()


class Memory(unittest.TestCase):
    def ping(self, server):
        status, _, answer = server.post('/v1/completions', {'prompt': 'x', 'max_tokens': 2, 'temperature': 0})
        self.assertEqual(status, 200, answer)
        return answer['choices'][0]['text']

    # 120 clients with 7 MiB each of a body that they never end: 840 MiB without a budget.
    def test_bodies_that_never_end_are_bounded_in_all(self):
        server = Server()
        self.addCleanup(server.stop)
        said, before = self.ping(server), status_kib(server.process.pid, 'VmRSS')
        server.process.send_signal(signal.SIGSTOP)  # so that it finds all of them at once
        with concurrent.futures.ThreadPoolExecutor(120) as pool:
            sent = [pool.submit(Posting, server.port, 7 * MIB) for _ in range(120)]
            time.sleep(1)
            server.process.send_signal(signal.SIGCONT)
            clients = [one.result() for one in sent]
        self.assertLessEqual(server.metric('quire_http_received_held_bytes'), 128 * MIB, 'one address has half of it')
        held = (status_kib(server.process.pid, 'VmRSS') - before) / 1024
        self.assertLess(held, 200, 'MiB more than before: 128 MiB and what the allocator keeps')
        refused = [c for c in clients if c.read().startswith(b'HTTP/1.1 503 ') and b'all_body_bytes' in c.answer]
        self.assertGreater(len(refused), 60)
        self.assertEqual(self.ping(server), said)
        for client in clients:
            client.close()
        self.assertTrue(eventually(lambda: server.metric('quire_http_received_held_bytes') == 0))
        rose = (status_kib(server.process.pid, 'VmRSS') - before) / 1024
        self.assertLess(rose, 40, 'MiB more than before, when all have left')

    # The same with room for some of it only: the process has 48 MiB of addresses left.
    def test_without_memory_connections_end_and_the_process_does_not(self):
        server = Server()
        self.addCleanup(server.stop)
        said, pid = self.ping(server), server.process.pid
        limit = status_kib(pid, 'VmSize') * 1024 + 48 * MIB
        _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
        clients = [Posting(server.port, 7 * MIB) for _ in range(24)]
        for client in clients:
            client.read()
        self.assertIsNone(server.process.poll(), 'the process ended:\n' + ''.join(server.log[-20:]))
        self.assertTrue(any(c.answer.startswith(b'HTTP/1.1 503 ') and b'out_of_memory' in c.answer for c in clients))
        for client in clients:
            client.close()
        resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
        self.assertTrue(eventually(lambda: server.metric('quire_http_received_held_bytes') == 0))
        self.assertGreater(server.metric('quire_http_failures_total'), 0)
        self.assertEqual(self.ping(server), said)

    # 7 MiB at once, then a byte every half second: what came early buys no time.
    def test_a_body_that_trickles_ends(self):
        server = Server('--limit', 'body_timeout_ms=1500')
        self.addCleanup(server.stop)
        client = Posting(server.port, 7 * MIB)
        end = time.monotonic() + 60
        while not client.read(timeout=0.5) and time.monotonic() < end:
            try:
                client.socket.sendall(b'x')
            except OSError:
                break
        self.assertTrue(client.answer.startswith(b'HTTP/1.1 408 '), client.answer[:100])
        client.close()


if __name__ == '__main__':
    unittest.main()
