# quire load against quire serve: what it counts equals what the server counted, and the server is as before afterwards.
import csv
import json
import os
import subprocess
import tempfile
import unittest

from quire_server import SHARED, Server, ServerCase, binary, eventually

TRACE = os.path.join(SHARED, 'data', 'traces', 'mooncake_conversation_trace.jsonl')


def load(url, *arguments, code=0):
    done = subprocess.run([binary(), 'load', url, '--json', *arguments], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def used_blocks(server):
    text = server.get('/metrics')[2]
    line = next(l for l in text.splitlines() if l.startswith('quire_kv_blocks{state="used"}'))
    return float(line.rsplit(' ', 1)[1])


class Load(ServerCase):
    options = ('--threads', '1')

    def test_its_counts_are_the_servers(self):
        before = self.server.metric('quire_generation_tokens_total')
        report = load(self.server.url, '--users', '4', '--requests', '12', '--prompt-tokens', '20', '--max-tokens', '16',
                      '--ignore-eos')
        self.assertEqual(report['requests'], {'ended': 12, 'ok': 12, 'left': 0, 'failed': 0})
        self.assertEqual(report['output_tokens'], 12 * 16)
        self.assertEqual(self.server.metric('quire_generation_tokens_total') - before, 12 * 16)
        self.assertEqual(report['ttft_ms']['n'], 12)
        self.assertEqual(report['goodput']['requests'], 12)
        self.assertEqual(report['settings']['loop'], 'closed')

    def test_turns_and_shared_starts_come_from_the_cache(self):
        report = load(self.server.url, '--requests', '4', '--turns', '3', '--shared-tokens', '60', '--prompt-tokens', '10',
                      '--max-tokens', '8', '--seed', '9')
        self.assertEqual(report['requests']['ok'], 12)
        self.assertGreater(report['cached_tokens'], report['prompt_tokens'] / 4)

    def test_clients_that_leave_free_their_blocks(self):
        report = load(self.server.url, '--rate', '200', '--requests', '40', '--prompt-tokens', '10', '--max-tokens', '200',
                      '--ignore-eos', '--leave', '0.7', '--seed', '3')
        self.assertEqual(report['requests']['failed'], 0)
        self.assertGreater(report['requests']['left'], 10)
        self.assertTrue(eventually(lambda: used_blocks(self.server) == 0))

    @unittest.skipUnless(os.path.exists(TRACE), 'no traces in QUIRE_SHARED')
    def test_plays_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'timeline.csv')
            report = load(self.server.url, '--trace', TRACE, '--requests', '10', '--trace-speed', '1000',
                          '--trace-lengths', '500', '--timeline', path)
            with open(path, encoding='utf-8', newline='') as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(report['requests']['ok'], 10)
        self.assertEqual(report['settings']['loop'], 'open')
        self.assertEqual(sum(int(row['begun']) for row in rows), 10)
        self.assertEqual(sum(int(row['ended']) for row in rows), 10)

    def test_what_is_wrong_is_named(self):
        for arguments, words in ((('--requests', '0'), 'how long?'),
                                 (('--endpoint', 'x', '--requests', '1'), '--endpoint must be chat or completions'),
                                 (('--requests', '1', '--fields', '[]'), '--fields must be a JSON object')):
            with self.subTest(arguments=arguments):
                self.assertIn(words, load(self.server.url, *arguments, code=1))
        self.assertIn('--users must be 1 to', load(self.server.url, '--users', '0', '--requests', '1', code=2))
        self.assertIn('cannot connect', load('http://127.0.0.1:1', '--requests', '1', code=1))


class Overload(unittest.TestCase):
    def test_what_does_not_fit_the_queue_is_refused_and_the_rest_is_answered(self):
        server = Server('--threads', '1', '--max-seqs', '2', '--max-queue', '2')
        try:
            report = load(server.url, '--rate', '500', '--arrivals', 'fixed', '--requests', '100', '--prompt-tokens', '20',
                          '--max-tokens', '400', '--ignore-eos')
            requests = report['requests']
            self.assertEqual(list(report['failures']), ['http_429'])
            self.assertEqual(requests['ok'] + requests['failed'], 100)
            self.assertEqual(report['failures']['http_429']['n'], requests['failed'])
            self.assertGreaterEqual(requests['ok'], 4)
            self.assertEqual(report['output_tokens'], 400 * requests['ok'])
            self.assertTrue(eventually(lambda: used_blocks(server) == 0))
        finally:
            server.stop()


if __name__ == '__main__':
    unittest.main()
