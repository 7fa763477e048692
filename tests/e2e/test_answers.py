# Large answers harm nobody: beside the largest that is allowed others are answered at once, and where memory ends it is
# those who asked for it that hear so.
import json
import os
import resource
import threading
import time
import unittest

from quire_server import Server, eventually, prompt

TEXT = '/v1/completions'
CHAT = '/v1/chat/completions'


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

    def test_others_are_answered_beside_the_largest(self):
        fields, n_bytes = self.largest()
        answer, waits = [], []

        def ask():
            connection = self.server.connect(timeout=600)
            connection.request('POST', TEXT, json.dumps(fields), {'Content-Type': 'application/json'})
            response = connection.getresponse()
            size = 0
            while piece := response.read(1 << 16):
                size += len(piece)
            answer.append((response.status, size))
            connection.close()

        asker = threading.Thread(target=ask)
        asker.start()
        connection = self.server.connect()
        while asker.is_alive():
            begin = time.monotonic()
            connection.request('GET', '/health')
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            waits.append(time.monotonic() - begin)
            time.sleep(0.002)
        asker.join()
        connection.close()
        status, size = answer[0]
        self.assertEqual(status, 200)
        self.assertGreater(size, n_bytes // 4)
        p99 = percentile(waits, 0.99)
        print(f'\n/health beside an answer of {size / 1e6:.0f} MB: p50 {percentile(waits, 0.5) * 1e3:.1f} ms, '
              f'p99 {p99 * 1e3:.1f} ms, most {max(waits) * 1e3:.1f} ms of {len(waits)}')
        self.assertLess(p99, 2, 'a ping waits for the answer')
        self.assertTrue(eventually(lambda: 'quire_answers_held_bytes 0\n' in self.server.request('GET', '/metrics')[2]))


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
            for _ in range(100):
                self.assertEqual(self.stream(server, quiet), wanted)
                if sum(statuses.values()) > 60:
                    break
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
