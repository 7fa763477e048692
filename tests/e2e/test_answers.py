# Large answers harm nobody: beside the largest that is allowed others are answered at once, and where memory ends it is
# those who asked for it that hear so.
import json
import os
import resource
import sys
import threading
import time
import unittest

from quire_server import Server, eventually, prompt

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'attack'))
import threads  # noqa: E402

TEXT = '/v1/completions'
PING_S = 0.05  # of a ping, at the p99, beside the worst that is allowed


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class LargeAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server('--max-seqs', '128')

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def largest(self):
        """The fields of about the largest answer that is let through, and the bytes that are counted for it."""
        _, _, props = self.server.request('GET', '/props')
        limit, n_ctx = props['limits']['answer_bytes'], props['default_generation_settings']['n_ctx']
        n, one = 100, 21 * 64
        n_prompt = min(limit // (n * one) - 16, n_ctx - 8)
        fields = {'prompt': [5 + i % 200 for i in range(n_prompt)], 'n': n, 'max_tokens': 1, 'prompt_logprobs': 20}
        return fields, n * n_prompt * one

    def test_what_is_too_large_is_refused_by_its_product(self):
        fields, _ = self.largest()
        fields.update(n=128, prompt=[fields['prompt']] * 4)
        status, _, body = self.server.request('POST', TEXT, fields)
        self.assertEqual(status, 400, body)
        self.assertEqual(body['error']['param'], 'prompt_logprobs')
        self.assertIn('128 choices × prompt tokens', body['error']['message'])
        self.assertIn('(answer_bytes)', body['error']['message'])

    def pings_beside(self, path, fields, times=1):
        """Asks for `fields` so many times, and beside it for /health again and again: (statuses, bytes of the answers, Pings)."""
        statuses, sizes, pings = [], [], Pings(self.server)

        def ask():
            body = fields if isinstance(fields, bytes) else json.dumps(fields)
            for _ in range(times):
                connection = self.server.connect(timeout=600)
                connection.request('POST', path, body, {'Content-Type': 'application/json'})
                response = connection.getresponse()
                size = 0
                while piece := response.read(1 << 16):
                    size += len(piece)
                statuses.append(response.status)
                sizes.append(size)
                connection.close()

        asker = threading.Thread(target=ask)
        asker.start()
        while asker.is_alive():
            self.assertEqual(pings.ping(), b'{"status":"ok"}')
            time.sleep(0.002)
        asker.join()
        pings.stop()
        return statuses, sizes, pings

    def test_others_are_answered_beside_the_largest(self):
        fields, n_bytes = self.largest()
        statuses, sizes, pings = self.pings_beside(TEXT, fields)
        self.assertEqual(statuses, [200])
        self.assertGreater(sizes[0], n_bytes // 4)
        pings.check(self, f'an answer of {sizes[0] / 1e6:.0f} MB')
        self.assertTrue(eventually(lambda: 'quire_answers_held_bytes 0\n' in self.server.request('GET', '/metrics')[2]))

    def test_others_are_answered_beside_the_largest_requests(self):
        size = (8 << 20) - (64 << 10)  # body_bytes, less what is around it
        for what, path, body in (
                ('a text of as many bytes as are allowed', '/tokenize', json.dumps({'content': 'x y ' * (size // 4)}).encode()),
                ('a prompt far over the context', TEXT, json.dumps({'prompt': 'x y ' * (size // 4)}).encode()),
                ('JSON of as many values as there is room for', TEXT, b'{"prompt":[' + b'1,' * (size // 2) + b'1]}'),
                ('JSON of many lists', TEXT, b'{"prompt":[' + b'[],' * (size // 3) + b'1]}')):
            with self.subTest(what):
                statuses, _, pings = self.pings_beside(path, body, times=3)
                self.assertLessEqual(set(statuses), {200, 400, 503}, what)
                pings.check(self, what)


class Pings:
    """Asks /health on one connection, and takes down how long that took in all, without what the machine's load took, and in
    processor time of the threads that read and write. Linux; seconds."""

    def __init__(self, server):
        self.server, self.connection = server, server.connect()
        self.all, self.own, self.io = [], [], []

    def times(self):
        """(seconds that io threads ran, seconds that they and this thread could have run but had no processor, or that another
        machine on the same processors had)"""
        ran, waited = threads.times(self.server.process.pid)['io']
        with open('/proc/thread-self/schedstat', encoding='ascii') as file:
            waited += int(file.read().split()[1]) / 1e9
        with open('/proc/stat', encoding='ascii') as file:
            return ran, waited + int(file.readline().split()[8]) / os.sysconf('SC_CLK_TCK')

    def ping(self):
        ran, waited = self.times()
        begin = time.monotonic()
        self.connection.request('GET', '/health')
        body = self.connection.getresponse().read()
        took = time.monotonic() - begin
        ran_now, waited_now = self.times()
        self.all.append(took)
        self.own.append(max(0.0, took - (waited_now - waited)))
        self.io.append(ran_now - ran)
        return body

    def stop(self):
        self.connection.close()

    def check(self, test, beside):
        """Not of the time in all, which is a busy machine's."""
        own, io = percentile(self.own, 0.99), percentile(self.io, 0.99)
        print(f'\n/health beside {beside}: p99 {percentile(self.all, 0.99) * 1e3:.1f} ms, {own * 1e3:.1f} without waiting for '
              f'a processor, {io * 1e3:.1f} of io threads, of {len(self.all)}')
        test.assertLessEqual(own, PING_S, f'a ping waits for {beside}')
        test.assertLessEqual(io, PING_S, f'io threads work for {beside} meanwhile')


class OutOfMemory(unittest.TestCase):
    def test_a_bystander_goes_on_while_others_want_more_than_there_is(self):
        server = Server('--max-seqs', '64')
        quiet = {'prompt': prompt(), 'max_tokens': 120, 'seed': 3, 'temperature': 0.7, 'stream': True, 'ignore_eos': True}
        wanted = self.stream(server, quiet)
        with open(f'/proc/{server.process.pid}/statm', encoding='ascii') as f:
            in_use = int(f.read().split()[0]) * os.sysconf('SC_PAGE_SIZE')
        limit = in_use + (64 << 20)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, limit))
        stop, statuses = threading.Event(), {}

        def storm(number):
            bodies = [json.dumps({'prompt': [5] * 700, 'n': 100, 'max_tokens': 1, 'prompt_logprobs': 20}),
                      json.dumps({'prompt': 'x ' * 2000000, 'max_tokens': 4}),
                      json.dumps({'content': 'x y ' * 1000000}),
                      '[' + '[],' * 2000000 + '1]']
            i = number
            while not stop.is_set():
                status = 0
                try:
                    path = '/tokenize' if i % len(bodies) == 2 else TEXT
                    connection = server.connect(timeout=60)
                    connection.request('POST', path, bodies[i % len(bodies)], {'Content-Type': 'application/json'})
                    response = connection.getresponse()
                    status = response.status
                    while response.read(1 << 16):
                        pass
                    connection.close()
                except OSError:
                    pass  # cut
                except Exception:  # an answer that was cut
                    pass
                statuses[status] = statuses.get(status, 0) + 1
                i += 1

        askers = [threading.Thread(target=storm, args=(i,)) for i in range(6)]
        for asker in askers:
            asker.start()
        try:
            served = cut = 0
            for _ in range(100):
                try:
                    self.assertEqual(self.stream(server, quiet), wanted)
                    served += 1
                except ConnectionResetError:  # at that moment there was no memory for one more connection
                    cut += 1
                if sum(statuses.values()) > 60:
                    break
            self.assertGreater(served, 4 * cut)
        finally:
            stop.set()
            for asker in askers:
                asker.join()
            print(f'\nanswers in a storm with 64 MiB: {dict(sorted(statuses.items()))}')
        self.assertIsNone(server.process.poll(), 'the process is gone')
        self.assertLessEqual(set(statuses) - {0}, {200, 400, 429, 500, 503})
        self.assertEqual(self.stream(server, quiet), wanted)
        self.assertEqual(server.stop(), 0, server.log[-5:])

    @staticmethod
    def stream(server, fields):
        connection = server.connect(timeout=600)
        connection.request('POST', TEXT, json.dumps(fields), {'Content-Type': 'application/json'})
        text = ''
        for line in connection.getresponse():
            if line.startswith(b'data: {'):
                text += ''.join(c['text'] for c in json.loads(line[6:]).get('choices', []))
        connection.close()
        return text


if __name__ == '__main__':
    unittest.main()
