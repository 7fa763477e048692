# Two servers of one model and a Redis between them: the second finds what the first computed, with the same bits, and
# whatever becomes of the Redis no answer changes.
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from quire_server import ROOT, Server, certificate, eventually, model, quill, quire
from test_route_directory import Redis as DirectoryRedis

TEXT = '/v1/completions'
PASSWORD = 'sesame-1'


def body(i, n_tokens=12):
    prompt = f'{i} quick brown foxes jump over the lazy dog, and the dog says nothing at all. ' * 8
    return {'prompt': prompt, 'temperature': 0, 'max_tokens': n_tokens, 'ignore_eos': True, 'logprobs': 1}


class Redis:
    def __init__(self, *options):
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f'redis://127.0.0.1:{self.port}/1'
        self.command = ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '', '--dir', '/tmp',
                        '--requirepass', PASSWORD, *options]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.process = None

    def say(self, *words):
        with socket.create_connection(('127.0.0.1', self.port), timeout=20) as connection:
            connection.sendall(f'AUTH {PASSWORD}\r\nSELECT 1\r\n{" ".join(words)}\r\n'.encode())
            lines = connection.makefile('r', newline='\r\n')
            return [lines.readline().strip() for _ in range(3)][2]


@unittest.skipUnless(shutil.which('redis-server'), 'there is no redis-server')
class RemoteTier(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        plain = Server()
        cls.right = {i: plain.post(TEXT, body(i))[2]['choices'][0] for i in range(12)}
        plain.stop()

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='quire-remote-')
        self.addCleanup(shutil.rmtree, self.root)
        self.secret = os.path.join(self.root, 'password')
        with open(self.secret, 'w') as file:
            file.write(PASSWORD + '\n')

    def redis(self, *options):
        redis = Redis(*options)
        redis.start()
        self.addCleanup(redis.kill)
        return redis

    def server(self, redis, *options, up=True):
        server = Server('--kv-remote', redis.url, '--kv-remote-password-file', self.secret, *options)
        self.addCleanup(server.stop)
        if up:
            self.assertTrue(eventually(lambda: server.metric('quire_kv_tier_up') == 1, timeout=60), ''.join(server.log))
        return server

    def ask(self, server, i):
        """Tokens of the prompt that came from the store; the answer is the right one."""
        status, _, answer = server.post(TEXT, body(i))
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer['choices'][0], self.right[i], 'same request, same bits')
        details = answer['usage']['prompt_tokens_details']
        by_tier = details['cached_tokens_by_tier']
        self.assertEqual(by_tier['memory'] + by_tier['disk'] + by_tier['remote'], details['cached_tokens'])
        return by_tier['remote']

    def fill(self, server, prompts=range(12)):
        for i in prompts:
            self.ask(server, i)
        self.assertTrue(eventually(lambda: server.metric('quire_kv_tier_written_blocks_total') >= 9 * len(prompts), timeout=60))

    def test_a_second_server_finds_what_the_first_computed(self):
        redis = self.redis()
        first = self.server(redis)
        self.fill(first)
        second = self.server(redis)
        # On a busy machine an answer may come too late for one of them.
        from_store = [self.ask(second, i) for i in range(12)]
        self.assertGreater(max(from_store), 96)
        self.assertEqual(second.metric('quire_kv_loaded_tokens_total'), sum(from_store))
        self.assertEqual(self.ask(second, from_store.index(max(from_store))), 0, 'it is in memory now')
        self.assertIn(':1', redis.say('EXISTS', self.a_key(redis)))
        self.assertLessEqual(int(redis.say('TTL', self.a_key(redis))[1:]), 86400)
        # Another cache type is another model to the store.
        other = self.server(redis, '--kv-type', 'f32')
        status, _, answer = other.post(TEXT, body(0))
        self.assertEqual(status, 200)
        self.assertEqual(answer['usage']['prompt_tokens_details']['cached_tokens'], 0)

    @unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
    def test_what_adapters_computed_is_found_by_their_numbers(self):
        def lora(**names):
            return [part for name, of in names.items() for part in ('--lora', f'{name}={os.path.join(ROOT, "models", "adapters", of)}')]

        def ask(server, name, i):
            status, _, answer = server.post(TEXT, {**body(i), 'model': name})
            self.assertEqual(status, 200, answer)
            return answer['choices'][0], answer['usage']['prompt_tokens_details']['cached_tokens_by_tier']['remote']

        plain = Server(*lora(pirate='pirate', german='german'))
        right = {(name, i): ask(plain, name, i)[0] for name in ('pirate', 'german') for i in range(4)}
        plain.stop()
        redis = self.redis()
        first = self.server(redis, *lora(pirate='pirate', german='german'))
        for i in range(4):
            self.assertEqual(ask(first, 'pirate', i), (right['pirate', i], 0))
        self.assertTrue(eventually(lambda: first.metric('quire_kv_tier_written_blocks_total') >= 36, timeout=60))
        self.assertEqual(ask(first, 'german', 0), (right['german', 0], 0), 'another adapter')
        # Names are each server's own: what is found is what the same numbers computed.
        second = self.server(redis, *lora(german='pirate'))
        found = [ask(second, 'german', i) for i in range(4)]
        self.assertEqual([said for said, _ in found], [right['pirate', i] for i in range(4)])
        self.assertGreater(max(n for _, n in found), 96)
        self.assertEqual(self.ask(second, 0), 0, 'no adapter')

    @unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
    def test_over_tls_it_is_the_same(self):
        cert, key = certificate(self.root, 'IP:127.0.0.1')
        redis = DirectoryRedis('--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert, tls=True)
        redis.start()
        self.addCleanup(redis.kill)
        options = ('--kv-remote', redis.url, '--kv-remote-ca', cert, '--kv-remote-cert', cert, '--kv-remote-key', key)
        for found in (0, 1):
            server = Server(*options)
            self.addCleanup(server.stop)
            self.assertTrue(eventually(lambda: server.metric('quire_kv_tier_up') == 1), ''.join(server.log))
            for i in range(3):
                self.assertEqual(self.ask(server, i) > 0, found == 1)
            self.assertTrue(found or eventually(lambda: server.metric('quire_kv_tier_written_blocks_total') >= 27, timeout=60))

    def a_key(self, redis):
        with socket.create_connection(('127.0.0.1', redis.port), timeout=20) as connection:
            connection.sendall(f'AUTH {PASSWORD}\r\nSELECT 1\r\nRANDOMKEY\r\n'.encode())
            lines = connection.makefile('r', newline='\r\n')
            return [lines.readline().strip() for _ in range(4)][3]

    def test_the_disk_is_nearer_and_the_explanation_names_the_tier(self):
        redis = self.redis()
        first = self.server(redis)
        self.fill(first)
        disk = ('--kv-disk', os.path.join(self.root, 'kv'), '--kv-disk-size', '64M')
        both = self.server(redis, *disk)
        brought = {i: self.ask(both, i) for i in range(12)}
        self.assertGreater(max(brought.values()), 96)
        which = max(brought, key=brought.get)
        both.stop()
        again = self.server(redis, *disk)
        status, _, answer = again.post('/v1/cache/explain', {'prompt': body(which)['prompt']})
        self.assertEqual(status, 200, answer)
        self.assertEqual(set(answer['cached_tokens_by_tier']), {'memory', 'disk', 'remote'})
        details = again.post(TEXT, body(which))[2]['usage']['prompt_tokens_details']['cached_tokens_by_tier']
        self.assertGreaterEqual(details['disk'] + details['remote'], 0)

    def test_whatever_becomes_of_the_store_no_answer_changes(self):
        redis = self.redis('--maxmemory-policy', 'noeviction')
        small = ('--ctx', '512', '--kv-memory', '2M')  # so that what is asked for in turn leaves memory
        servers = [self.server(redis, *small) for _ in range(2)]
        self.fill(servers[0])
        stop, wrong, n_answers = threading.Event(), [], [0]

        def go_on(server, offset):
            i = offset
            while not stop.is_set():
                i += 1
                try:
                    self.ask(server, i % 12)
                    n_answers[0] += 1
                except Exception as error:  # told at the end
                    wrong.append(error)
                    return

        threads = [threading.Thread(target=go_on, args=(server, k * 5)) for k, server in enumerate(servers)]
        for thread in threads:
            thread.start()

        def some():
            n = n_answers[0] + 8
            self.assertTrue(eventually(lambda: n_answers[0] >= n or wrong, timeout=60))

        try:
            some()
            self.assertEqual(redis.say('FLUSHALL'), '+OK')
            some()
            self.assertEqual(redis.say('CONFIG', 'SET', 'maxmemory', '1'), '+OK')
            some()
            self.assertEqual(redis.say('CONFIG', 'SET', 'maxmemory', '0'), '+OK')
            redis.process.send_signal(signal.SIGSTOP)  # it listens and says nothing
            some()
            redis.process.send_signal(signal.SIGCONT)
            some()
            redis.kill()
            some()
            self.assertTrue(eventually(lambda: servers[0].metric('quire_kv_tier_up') == 0))
            redis.start()
            some()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        for server in servers:
            self.assertTrue(eventually(lambda: server.metric('quire_kv_tier_up') == 1, timeout=60))

    def test_values_that_were_changed_are_not_believed(self):
        redis = self.redis()
        first = self.server(redis)
        self.fill(first, range(3))
        with socket.create_connection(('127.0.0.1', redis.port), timeout=20) as connection:
            lines = connection.makefile('rb')

            def say(words):
                connection.sendall(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))

            for words in ((b'AUTH', PASSWORD.encode()), (b'SELECT', b'1')):
                say(words)
                lines.readline()
            say((b'KEYS', b'quire:kv:*'))
            n = int(lines.readline()[1:])
            keys = [(lines.readline(), lines.readline().strip())[1] for _ in range(n)]
            self.assertGreater(n, 20)
            for key in keys:  # of the right length
                say((b'SETRANGE', key, b'700', b'\x5a\xa5\x5a'))
                self.assertTrue(lines.readline().startswith(b':'))
        second = self.server(redis)
        self.assertEqual([self.ask(second, i) for i in range(3)], [0, 0, 0])

    def test_a_wrong_password_and_nobody_there_cost_no_answer_and_say_so_once(self):
        redis = self.redis()
        with open(self.secret, 'w') as file:
            file.write('another\n')
        server = self.server(redis, up=False)
        self.assertTrue(eventually(lambda: any('WRONGPASS' in line for line in server.log)))
        for i in range(3):
            self.assertEqual(self.ask(server, i), 0)
        self.assertEqual(server.metric('quire_kv_tier_up'), 0)
        self.assertEqual(sum('the remote tier' in line for line in server.log), 1, server.log)
        self.assertFalse(any('another' in line for line in server.log))
        redis.kill()
        gone = self.server(redis, up=False)
        for i in range(3):
            self.assertEqual(self.ask(gone, i), 0)
        self.assertEqual(sum('the remote tier' in line for line in gone.log), 1, gone.log)

    def test_options_that_cannot_be_are_refused(self):
        for options, words in ((('--kv-remote', 'http://h'), 'redis://'),
                               (('--kv-remote', 'redis://:hush@h:0'), 'the port must be 1 to 65535'),
                               (('--kv-remote', 'redis://h', '--kv-remote-ttl', '0'), 'must be 1 to'),
                               (('--kv-remote', 'redis://h', '--kv-remote-ca', model()), 'rediss://'),
                               (('--kv-remote', 'rediss://h', '--kv-remote-ca', self.root + '/ca'), '/ca'),
                               (('--kv-remote', 'rediss://h', '--kv-remote-cert', model()), 'a certificate needs its key'),
                               (('--kv-remote', 'redis://h', '--kv-remote-password-file', self.root + '/no'), 'password-file'),
                               (('--kv-remote', 'redis://h', '--no-prefix-cache'), '--no-prefix-cache'),
                               (('--kv-remote', 'redis://h', '--record', self.root + '/r'), '--record')):
            with self.subTest(options=options):
                done = quire('serve', model(), '--port', '0', *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertNotIn('hush', done.stderr)


if __name__ == '__main__':
    unittest.main()
