# Deadlines of first tokens, of requests and of keys, against the real binary.
import hashlib
import json
import os
import tempfile
import unittest

from quire_server import Server

TEXT = '/v1/completions'


class Deadlines(unittest.TestCase):
    def server(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        return server

    def ask(self, server, name='', n_words=1, **more):
        self.n_asked = getattr(self, 'n_asked', 0) + 1
        words = ' '.join(f'{self.n_asked} {i}' for i in range(n_words))  # nothing of it is cached
        headers = {'Authorization': f'Bearer sk-{name}'} if name else {}
        return server.post(TEXT, {'prompt': words, 'max_tokens': 2, 'temperature': 0, **more}, headers)

    def assert_late(self, answer):
        status, headers, body = answer
        self.assertEqual((status, body['error']['code'], body['error']['param']), (503, 'too_late', 'deadline_ms'))
        self.assertGreaterEqual(int(headers['Retry-After']), 1)

    def test_what_cannot_be_on_time_is_refused_and_what_can_is_answered(self):
        server = self.server('--policy', 'deadlines')
        self.assertEqual(self.ask(server, n_words=200)[0], 200)  # how long steps take is known now
        self.assert_late(self.ask(server, n_words=200, deadline_ms=1))
        self.assert_late(self.ask(server, n_words=200, deadline_ms=1, stream=True))
        self.assertEqual(self.ask(server, n_words=200, deadline_ms=600_000)[0], 200)
        self.assertEqual(self.ask(server, n_words=200)[0], 200)

    def test_a_key_has_one_for_requests_that_name_none(self):
        def entry(name, **more):
            return {'name': name, 'sha256': hashlib.sha256(f'sk-{name}'.encode()).hexdigest(), **more}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, 'keys.json')
        with open(path, 'w', encoding='utf-8') as f:
            json.dump({'keys': [entry('alice', deadline_ms=1), entry('bob')]}, f)
        server = self.server('--policy', 'deadlines', '--api-keys', path)
        self.assertEqual(self.ask(server, 'bob', n_words=200)[0], 200)
        self.assert_late(self.ask(server, 'alice', n_words=200))
        self.assertEqual(self.ask(server, 'alice', n_words=200, deadline_ms=600_000)[0], 200)

    def test_under_other_policies_it_says_nothing_and_a_bad_one_is_refused(self):
        server = self.server()
        self.assertEqual(self.ask(server, n_words=200)[0], 200)
        self.assertEqual(self.ask(server, n_words=200, deadline_ms=1)[0], 200)
        for bad in (0, -1, 86_400_001, 1.5, 'soon'):
            status, _, body = self.ask(server, deadline_ms=bad)
            self.assertEqual((status, body['error']['param']), (400, 'deadline_ms'), bad)


if __name__ == '__main__':
    unittest.main()
