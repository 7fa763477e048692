# Several routers and a Redis between them, plain and over TLS: a hint, and never more than that.
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from quire_server import Router, Server, certificate, eventually
from test_route import FakeWorker


class Redis:
    """A Redis of the system's own package, without a file."""

    def __init__(self, *options, tls=False):
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f'redis{"s" if tls else ""}://:pw@127.0.0.1:{self.port}/1'
        ports = ('--port', '0', '--tls-port', str(self.port)) if tls else ('--port', str(self.port))
        self.command = ['redis-server', *ports, '--bind', '127.0.0.1', '--save', '', '--requirepass', 'pw', *options]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def say(self, command):
        """A command, whose answer is +OK."""
        with socket.create_connection(('127.0.0.1', self.port), timeout=20) as connection:
            connection.sendall(b'AUTH pw\r\n' + command + b'\r\n')
            told = b''
            while told.count(b'+OK') < 2:
                told += connection.recv(1000)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


@unittest.skipUnless(shutil.which('redis-server'), 'there is no redis-server')
class SharedDirectory(unittest.TestCase):
    """Two routers and a Redis between them."""

    def test_a_session_is_known_to_all_routers_and_no_request_needs_the_directory(self):
        self.known_to_all(Redis())

    @unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
    def test_so_over_tls(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = certificate(folder.name, 'IP:127.0.0.1')
        named, named_key = certificate(folder.name, 'DNS:other.example')
        files = ('--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert)
        self.known_to_all(Redis(*files, tls=True), '--directory-ca', cert, '--directory-cert', cert, '--directory-key', key)
        right = Redis(*files, '--tls-auth-clients', 'no', tls=True)
        other = Redis('--tls-cert-file', named, '--tls-key-file', named_key, '--tls-auth-clients', 'no', '--tls-ca-cert-file', named, tls=True)
        asks = Redis(*files, tls=True)
        plain = Redis()
        fake = FakeWorker(lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
        self.addCleanup(fake.close)
        for redis in (right, other, asks, plain):
            redis.start()
            self.addCleanup(redis.kill)
        for redis, url, ca, words in (
                (right, right.url, named, 'cannot agree on TLS: its certificate is refused: '),
                (other, other.url, named, 'cannot agree on TLS: its certificate is refused: IP address mismatch'),
                (asks, asks.url, cert, 'certificate required'),
                (right, right.url.replace('rediss:', 'redis:'), None, 'the directory at 127.0.0.1: '),
                (plain, plain.url.replace('redis:', 'rediss:'), cert, 'no connection for 1000 ms')):
            with self.subTest(words, url=url):
                router = Router([fake.url], '--directory', url, *(('--directory-ca', ca) if ca else ()))
                self.assertTrue(eventually(lambda: any(words in line for line in router.log)), router.log)
                self.assertEqual(router.metric('quire_directory_up'), 0)
                self.assertTrue(router.wait_for(1))
                for i in range(5):
                    self.assertEqual(router.post('/v1/completions', {'prompt': 'x', 'user': f'u{i}'})[0], 200)
                self.assertEqual(sum('the directory at' in line and 'WARN' in line.upper() for line in router.log), 1, router.log)
                self.assertFalse(any('pw@' in line for line in router.log))
                router.stop()

    def test_a_full_one_costs_no_request_and_no_dialogue_its_worker(self):
        redis = Redis('--maxmemory', '1', '--maxmemory-policy', 'noeviction')
        redis.start()
        self.addCleanup(redis.kill)
        fakes = [FakeWorker(lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')) for _ in range(4)]
        for fake in fakes:
            self.addCleanup(fake.close)
        router = Router([fake.url for fake in fakes], '--policy', 'round_robin', '--directory', redis.url)
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(4))
        self.assertTrue(eventually(lambda: router.metric('quire_directory_up') == 1))
        homes = {}
        for i in range(60):
            status, headers, _ = router.post('/v1/completions', {'prompt': 'x', 'user': f's{i % 12}'})
            self.assertEqual(status, 200)
            self.assertEqual(homes.setdefault(i % 12, headers['x-quire-worker']), headers['x-quire-worker'])
        self.assertTrue(eventually(lambda: router.metric('quire_directory_errors_total') >= 12))
        self.assertEqual(router.metric('quire_directory_up'), 1)

    def test_dialogues_stay_at_their_workers_whatever_becomes_of_it(self):
        """Each turn at a router by turns; from the third turn on the Redis is killed, empty, stopped, flushed and full."""
        fakes = [FakeWorker(lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')) for _ in range(4)]
        for fake in fakes:
            self.addCleanup(fake.close)
        for policy in ('prefix', 'hash'):
            with self.subTest(policy):
                redis = Redis()
                redis.start()
                self.addCleanup(redis.kill)
                routers = [Router([fake.url for fake in fakes], '--policy', policy, '--directory', redis.url) for _ in range(2)]
                for router in routers:
                    self.addCleanup(router.stop)
                    self.assertTrue(router.wait_for(4))
                    self.assertTrue(eventually(lambda: router.metric('quire_directory_up') == 1))
                homes, n_asked, n_stayed = {}, 0, 0

                def idle():
                    return all(w['load_tokens'] == w['others_load_tokens'] == 0 for r in routers for w in r.workers().values())

                def turn(judged=True):
                    nonlocal n_asked, n_stayed
                    time.sleep(0.7)  # what the other gave is told late, and could make a worker full
                    self.assertTrue(eventually(idle))
                    for i in range(60):
                        body = {'prompt': f'Dialogue {i} of {policy}. ' * 40, 'user': f'd{i}'}
                        status, headers, answer = routers[n_asked // 60 % 2].post('/v1/completions', body)
                        self.assertEqual(status, 200, answer)
                        if judged:
                            n_asked += 1
                            n_stayed += homes[i] == headers['x-quire-worker']
                        homes[i] = headers['x-quire-worker']

                turn(judged=False)
                n_asked = 60  # the other router's turn
                turn()
                n_asked = n_stayed = 0
                redis.kill()
                turn()
                redis.start()
                turn()
                self.assertTrue(eventually(lambda: all(r.metric('quire_directory_up') == 1 for r in routers)))
                redis.process.send_signal(signal.SIGSTOP)
                turn()
                redis.process.send_signal(signal.SIGCONT)
                self.assertTrue(eventually(lambda: all(r.metric('quire_directory_up') == 1 for r in routers)))
                redis.say(b'FLUSHALL')
                turn()
                redis.say(b'CONFIG SET maxmemory 1')
                turn()
                self.assertEqual(n_asked, 300)
                self.assertGreaterEqual(n_stayed / n_asked, 0.99)
                self.assertGreaterEqual(len(set(homes.values())), 3)

    def known_to_all(self, redis, *more):
        redis.start()
        self.addCleanup(redis.kill)
        say = lambda c: c.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}')
        fakes = [FakeWorker(say) for _ in range(4)]
        for fake in fakes:
            self.addCleanup(fake.close)
        options = ('--policy', 'round_robin', '--directory', redis.url, *more)
        routers = [Router([fake.url for fake in fakes], *options) for _ in range(2)]
        for router in routers:
            self.addCleanup(router.stop)
            self.assertTrue(router.wait_for(4))
            self.assertTrue(eventually(lambda: router.metric('quire_directory_up') == 1))

        def ask(router, session):
            status, headers, answer = router.post('/v1/completions', {'prompt': 'x', 'user': session})
            self.assertEqual(status, 200, answer)
            return headers['x-quire-worker'], headers['x-quire-route']

        homes = {f's{i}': ask(routers[0], f's{i}')[0] for i in range(12)}
        self.assertEqual(len(set(homes.values())), 4)
        for session, home in homes.items():
            # A note is not waited for and a machine may be busy, so the question may come too early or be late.
            found = ask(routers[1], session)
            late = routers[1].metric('quire_directory_late_total')
            self.assertTrue(found == (home, 'session') or late > 0, (session, home, found))
        self.assertGreater(routers[1].metric('quire_directory_found_total'), 0)

        redis.kill()
        for i in range(20, 30):
            for router in routers:
                ask(router, f's{i}')
        self.assertEqual(ask(routers[0], 's3'), (homes['s3'], 'session'))  # its own memory goes on
        redis.start()  # empty
        for router in routers:
            self.assertTrue(eventually(lambda: router.metric('quire_directory_up') == 1))
            self.assertEqual(ask(router, 'fresh')[1] in ('session', 'round_robin'), True)
        redis.process.send_signal(signal.SIGSTOP)  # it listens and says nothing
        for i in range(40, 50):
            for router in routers:
                ask(router, f's{i}')
        redis.process.send_signal(signal.SIGCONT)

    def test_routers_know_what_the_others_gave(self):
        redis = Redis()
        redis.start()
        self.addCleanup(redis.kill)
        holds = threading.Event()
        self.addCleanup(holds.set)

        def answer(connection):
            holds.wait(60)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')

        fakes = [FakeWorker(answer) for _ in range(2)]
        for fake in fakes:
            self.addCleanup(fake.close)
        first, second = routers = [Router([fake.url for fake in fakes], '--policy', 'least_load', '--directory', redis.url)
                                   for _ in range(2)]
        for router in routers:
            self.addCleanup(router.stop)
            self.assertTrue(router.wait_for(2))
            self.assertTrue(eventually(lambda: router.metric('quire_directory_routers') == 2))
        asking = [threading.Thread(target=first.post, args=('/v1/completions', {'prompt': 'x' * 4000, 'max_tokens': 100}))]
        asking[0].start()
        self.assertTrue(eventually(lambda: sum(fake.n_asked for fake in fakes) == 1))
        busy = [fake.n_asked for fake in fakes].index(1)
        name = fakes[busy].url[len('http://'):]
        self.assertTrue(eventually(lambda: second.workers()[name]['others_load_tokens'] > 1000))
        for n in range(3):  # all less than the other router gave
            asking.append(threading.Thread(target=second.post, args=('/v1/completions', {'prompt': 'x', 'max_tokens': 1})))
            asking[-1].start()
            self.assertTrue(eventually(lambda: sum(fake.n_asked for fake in fakes) == 2 + n))
        self.assertEqual(fakes[busy].n_asked, 1)
        holds.set()
        for one in asking:
            one.join()
        self.assertTrue(eventually(lambda: second.workers()[name]['others_load_tokens'] == 0))
        first.process.kill()
        self.assertTrue(eventually(lambda: second.metric('quire_directory_routers') == 1))


@unittest.skipUnless(shutil.which('redis-server'), 'there is no redis-server')
class EnteredWorkers(unittest.TestCase):
    def test_servers_enter_themselves_and_stay_without_the_directory(self):
        redis = Redis()
        redis.start()
        self.addCleanup(redis.kill)
        router = Router([], '--discover', 'directory://', '--directory', redis.url)
        self.addCleanup(router.stop)
        servers = [Server('--directory', redis.url) for _ in range(2)]
        for server in servers:
            self.addCleanup(server.stop)
        names = [f'127.0.0.1:{server.port}' for server in servers]
        found = lambda *at: eventually(lambda: {n for n, w in router.workers().items() if w['usable']} == {names[i] for i in at})
        self.assertTrue(found(0, 1), router.workers())

        def ask():
            status, headers, said = router.post('/v1/completions', {'prompt': 'x', 'max_tokens': 1})
            self.assertEqual(status, 200, said)

        redis.say(b'FLUSHALL')
        ask()
        self.assertEqual(set(router.workers()), set(names))
        redis.kill()
        for _ in range(8):
            ask()
        self.assertEqual(set(router.workers()), set(names))
        redis.start()
        self.assertTrue(eventually(lambda: router.metric('quire_directory_up') == 1))
        servers.append(Server('--directory', redis.url))  # while the others have to enter anew
        self.addCleanup(servers[2].stop)
        names.append(f'127.0.0.1:{servers[2].port}')
        self.assertTrue(found(0, 1, 2), router.workers())
        servers[0].process.kill()  # without a word: by its health at once, and from the list with its lease
        self.assertTrue(found(1, 2), router.workers())
        self.assertTrue(eventually(lambda: set(router.workers()) == set(names[1:])), router.workers())
        servers[1].stop()  # it leaves
        self.assertTrue(eventually(lambda: set(router.workers()) == {names[2]}), router.workers())
        ask()


if __name__ == '__main__':
    unittest.main()
