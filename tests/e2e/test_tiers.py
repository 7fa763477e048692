# The tier on disk through the whole program: what one server cached the next one finds, however the first one ended, and
# no answer depends on it.
import glob
import os
import shutil
import signal
import tempfile
import unittest

from quire_server import Server, eventually, model, quire

TEXT = '/v1/completions'
PROMPT = 'The quick brown fox jumps over the lazy dog, and the dog says nothing at all. ' * 6
BODY = {'prompt': PROMPT, 'temperature': 0, 'max_tokens': 24, 'ignore_eos': True, 'logprobs': 1}


class Tiers(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='quire-tiers-')
        self.folder = os.path.join(self.root, 'kv')
        self.server = None

    def tearDown(self):
        if self.server is not None:
            self.server.stop()
        shutil.rmtree(self.root)

    def start(self, *options):
        self.server = Server('--kv-disk', self.folder, '--kv-disk-size', '64M', *options)

    def end(self):
        server, self.server = self.server, None
        self.assertEqual(server.stop(), 0)

    def kill(self):
        server, self.server = self.server, None
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.stop()

    def ask(self, body=None):
        """(choice, cached tokens, of these from disk)"""
        status, _, answer = self.server.post(TEXT, body or BODY)
        self.assertEqual(status, 200, answer)
        details = answer['usage']['prompt_tokens_details']
        self.n_blocks = (answer['usage']['total_tokens'] - 1) // 16  # whole and computed
        by_tier = details['cached_tokens_by_tier']
        self.assertEqual(by_tier['memory'] + by_tier['disk'], details['cached_tokens'])
        return answer['choices'][0], details['cached_tokens'], by_tier['disk']

    def without(self):
        """The choice of a server that has no tier."""
        server = Server()
        answer = server.post(TEXT, BODY)[2]['choices'][0]
        server.stop()
        return answer

    def wait_until_stored(self):
        self.assertGreater(self.n_blocks, 1)
        written = lambda: self.server.metric('quire_kv_tier_written_blocks_total')
        self.assertTrue(eventually(lambda: written() >= self.n_blocks, timeout=60))

    def test_a_restarted_server_finds_what_the_last_one_cached(self):
        self.start()
        first, n_cached, n_disk = self.ask()
        self.assertEqual((n_cached, n_disk), (0, 0))
        again, n_cached, n_disk = self.ask()
        self.assertGreater(n_cached, 0)
        self.assertEqual(n_disk, 0)
        self.end()
        self.start()
        restarted, from_disk, n_disk = self.ask()
        n_whole = n_cached // 16 * 16  # a tier brings whole blocks
        self.assertEqual((from_disk, n_disk), (n_whole, n_whole))
        self.assertEqual([first, again], [restarted, restarted])
        self.assertEqual(restarted, self.without(), 'same request, same bits')
        self.assertEqual(self.ask()[2], 0, 'it is in memory now')
        self.assertEqual(self.server.metric('quire_kv_loaded_tokens_total'), n_disk)

    def test_one_that_was_killed_has_lost_nothing_that_was_stored(self):
        self.start()
        first, _, _ = self.ask()
        self.wait_until_stored()
        self.kill()
        self.start()
        restarted, n_cached, n_disk = self.ask()
        self.assertGreater(n_disk, 0)
        self.assertEqual(n_disk, n_cached)
        self.assertEqual(first, restarted)
        self.kill()  # at whatever point it is
        self.start()
        self.assertEqual(self.ask()[0], first)

    def test_it_changes_nothing_beside_prefixes_guesses_grammars_and_packed_caches(self):
        draft = ('--draft', 'models/quill-draft-q8_0.gguf')
        bodies = [{**BODY, **more} for more in ({}, {'prefix': 'radio'}, {'temperature': 0.9, 'seed': 5, 'prefix': 'radio'},
                                                {'regex': '([a-z]+ ){4}[0-9]+', 'ignore_eos': False},
                                                {'prompt': 'one two three four five ' * 30, 'prefix': 'radio'})]

        def answers():
            return [self.ask(body) for body in bodies]

        ngram = ('--spec', 'ngram', '--spec-depth', '4')
        for kv_type, specs in (('k8v4', (ngram, draft)), ('kivi2', (ngram,))):
            both = ('--kv-type', kv_type, '--prefix', 'radio=models/adapters/radio')
            self.server = Server(*both)
            plain = [self.server.post(TEXT, body)[2]['choices'][0] for body in bodies]
            self.end()
            self.assertNotEqual(plain[0]['text'], plain[1]['text'], 'the prefix says something')
            for spec in specs:
                with self.subTest(kv_type=kv_type, spec=spec):
                    self.start(*both, *spec)
                    self.assertEqual([choice for choice, _, _ in answers()], plain)
                    self.end()
                    self.start(*both, *spec)
                    found = answers()
                    self.assertEqual([choice for choice, _, _ in found], plain)
                    self.assertTrue(all(n_disk > 0 for _, _, n_disk in (found[0], found[1], found[4])), found)
                    self.assertGreater(self.server.metric('quire_spec_decode_num_draft_tokens_total'), 0)
                    self.end()

    def test_damaged_files_and_another_model_are_misses(self):
        self.start()
        first, _, _ = self.ask()
        self.end()
        segments = glob.glob(os.path.join(self.folder, '*.kvseg'))
        self.assertTrue(segments)
        for path in segments:
            with open(path, 'r+b') as file:
                for at in range(2000, os.path.getsize(path), 5000):
                    file.seek(at)
                    file.write(b'\x5a\xa5')
        self.start()
        damaged, _, n_disk = self.ask()
        self.assertEqual((damaged, n_disk), (first, 0))
        self.end()
        self.start('--kv-type', 'f32')
        self.assertEqual(self.ask()[2], 0)
        self.assertGreater(self.server.metric('quire_kv_tier_skipped_segments_total'), 0)

    def test_a_folder_that_goes_away_costs_no_answer(self):
        self.start()
        first, _, _ = self.ask()
        self.wait_until_stored()
        shutil.rmtree(self.folder)
        self.assertEqual(self.ask()[0], first)
        for i in range(3):
            self.ask({**BODY, 'prompt': f'{i} ' + PROMPT})
        self.assertEqual(self.ask()[0], first)

    def test_one_server_at_a_time_and_options_that_cannot_be_are_refused(self):
        self.start()
        for options, words in ((('--kv-disk', self.folder), 'is in use by another process'),
                               (('--kv-disk', '/proc/nothing/here'), 'cannot make the folder'),
                               (('--kv-disk', self.root + '/a', '--kv-disk-size', '1K'), 'at least'),
                               (('--kv-disk', self.root + '/a', '--kv-disk-size', 'much'), '--kv-disk-size'),
                               (('--kv-disk', self.root + '/a', '--no-prefix-cache'), '--no-prefix-cache'),
                               (('--kv-disk', self.root + '/a', '--record', self.root + '/r'), '--record')):
            with self.subTest(options=options):
                done = quire('serve', model(), '--port', '0', *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


if __name__ == '__main__':
    unittest.main()
