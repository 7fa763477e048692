# quire bench's comparisons: what they count does not depend on the machine, so the counts are exact.
import json
import os
import subprocess
import unittest

from quire_server import ROOT, binary

SHARED = os.environ.get('QUIRE_SHARED', os.path.join(ROOT, '..', 'shared'))
MODEL = os.path.join(SHARED, 'data', 'models', 'stories260K', 'stories260K.gguf')


def bench(*arguments):
    return subprocess.run([binary(), 'bench', MODEL, '--threads', '1', *arguments], capture_output=True, text=True,
                          timeout=300, check=False)


def lines(*arguments):
    done = bench('--json', *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@unittest.skipUnless(os.path.exists(MODEL), 'no stories260K in QUIRE_SHARED')
class Bench(unittest.TestCase):
    def test_ten_and_a_hundred_tokens_are_110_token_steps_with_the_cache_and_6050_without(self):
        without, with_cache, ratio = lines('--no-cache', '--prompt', '10', '--generate', '100')
        self.assertEqual((without['way'], without['token_steps']), ('without', 6050))
        self.assertEqual((with_cache['way'], with_cache['token_steps']), ('with', 110))
        self.assertGreater(ratio['time_ratio'], 1)

    def test_continuous_batching_takes_fewer_steps_than_static_for_the_same_work(self):
        static, continuous, ratio = lines('--policy', 'static', '--prompt', '64', '--generate', '48', '--batch', '4',
                                          '--requests', '24')
        self.assertEqual((static['way'], continuous['way']), ('static', 'continuous'))
        self.assertEqual(static['token_steps'], continuous['token_steps'])
        self.assertEqual(static['n_generated'], continuous['n_generated'])
        self.assertLess(continuous['steps'], 0.8 * static['steps'])
        self.assertIn('time_ratio', ratio)

    def test_under_four_percent_of_the_slots_are_empty_at_the_lengths_of_the_defaults(self):
        _, continuous, _ = lines('--policy', 'static', '--batch', '8', '--requests', '24')
        self.assertLess(continuous['empty_slots'], 0.04)

    def test_what_the_engine_itself_takes_of_the_steps_is_told(self):
        decode = lines('--prompt', '16', '--generate', '8', '--batch', '64', '--repeat', '1')[-1]
        self.assertEqual((decode['test'], decode['n_seqs']), ('decode', 64))
        self.assertTrue(0 < decode['engine_share'] < 1)

    def test_wrong_arguments_are_named(self):
        for arguments, words in ((('--policy', 'fcfs'), '--policy of a bench must be static, got "fcfs"'),
                                 (('--policy', 'static', '--requests', '0'), '--requests must be 1 to 65536, got 0'),
                                 (('--batch', '0'), '--batch must hold numbers from 1 to 1024, got 0'),
                                 (('--no-cache', '--generate', '0'), '--generate must be at least 1')):
            with self.subTest(arguments=arguments):
                done = bench(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


if __name__ == '__main__':
    unittest.main()
