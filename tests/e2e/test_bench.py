# quire bench's comparisons: what they count does not depend on the machine, so the counts are exact.
import json
import os
import subprocess
import tempfile
import unittest

from quire_server import ROOT, binary, model


def bench(*arguments):
    return subprocess.run([binary(), 'bench', model(), '--threads', '1', *arguments], capture_output=True, text=True,
                          timeout=300, check=False)


def lines(*arguments):
    done = bench('--json', *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
        decode = lines('--prompt', '16', '--generate', '8', '--batch', '64', '--repeat', '1', '--sampled')[-1]
        self.assertEqual((decode['test'], decode['n_seqs']), ('decode', 64))
        for share, parts in (('engine_share', 'step_ms'), ('engine_cpu_share', 'step_cpu_ms')):
            ms = decode[parts]
            self.assertEqual(set(ms), {'plan', 'batch', 'forward', 'sample', 'commit'})
            self.assertTrue(all(value > 0 for value in ms.values()), ms)
            self.assertAlmostEqual(decode[share], 1 - ms['forward'] / sum(ms.values()))

    def test_a_sweep_has_a_decode_line_for_each_batch_and_depth_and_a_prefill_line_for_each_batch(self):
        sweep = lines('--prompt', '16', '--generate', '4', '--batch', '1,2', '--depth', '0,32', '--repeat', '1')
        self.assertEqual([(x['test'], x['n_seqs'], x['depth']) for x in sweep],
                         [(test, n, depth) for n in (1, 2) for test, depth in (('prefill', 0), ('decode', 0), ('decode', 32))])
        one, two = sweep[1], sweep[4]
        self.assertAlmostEqual(one['ops_per_token'], two['ops_per_token'])
        self.assertLess(two['bytes_per_token'], 0.6 * one['bytes_per_token'])
        self.assertGreater(sweep[2]['bytes_per_token'], one['bytes_per_token'])

    def test_wrong_arguments_are_named(self):
        for arguments, words in ((('--policy', 'fcfs'), '--policy of a bench must be static, got "fcfs"'),
                                 (('--policy', 'static', '--requests', '0'), '--requests must be 1 to 65536, got 0'),
                                 (('--depth', '0,-1'), '--depth must hold numbers from 0 to 16777216, got -1'),
                                 (('--batch', '0'), '--batch must hold numbers from 1 to 1024, got 0'),
                                 (('--no-cache', '--generate', '0'), '--generate must be at least 1')):
            with self.subTest(arguments=arguments):
                done = bench(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


FAKE_PEER = """#!/usr/bin/env python3
import json, sys
a = sys.argv[1:]
of = lambda flag: int(a[a.index(flag) + 1])
print('some banner')
print(json.dumps([{'n_prompt': of('-p'), 'n_gen': of('-n'), 'samples_ts': [4.0, 2.0] if '--slow' in a else [9.0]}]))
"""


class Peers(unittest.TestCase):
    def peers(self, *arguments):
        return subprocess.run([os.path.join(ROOT, 'bench', 'peers'), model(), '--quire', binary(), '--threads', '1', '--repeat',
                               '1', '--prompt', '16', '--generate', '4', *arguments], capture_output=True, text=True,
                              timeout=300, check=False)

    def test_programs_take_turns_and_one_table_has_their_medians(self):
        with tempfile.TemporaryDirectory() as folder:
            fake, samples = os.path.join(folder, 'fake-bench'), os.path.join(folder, 'samples.json')
            with open(fake, 'w', encoding='utf-8') as f:
                f.write(FAKE_PEER)
            os.chmod(fake, 0o755)
            done = self.peers('--peer', f'fake={fake} --slow', '--rounds', '2', '--json', samples)
            self.assertEqual(done.returncode, 0, done.stderr)
            turns = [line.split(', ')[1:] for line in done.stderr.splitlines() if 'prefill 16' in line]
            self.assertEqual(turns, [['round 1', 'quire'], ['round 1', 'fake'], ['round 2', 'quire'], ['round 2', 'fake']])
            with open(samples, encoding='utf-8') as f:
                taken = {(s['program'], s['test']): s['tok_s'] for s in json.load(f)}
            self.assertEqual(taken['fake', 'decode 1'], [4.0, 2.0, 4.0, 2.0])
            self.assertEqual(len(taken['quire', 'prefill 16']), 2)
            row = next(line for line in done.stdout.splitlines() if line.startswith('| decode 1'))
            self.assertEqual(row.split('|')[4].strip(), '3.0')

    def test_a_peer_that_fails_leaves_a_gap_and_one_that_is_missing_is_named(self):
        done = self.peers('--peer', 'broken=/bin/false', '--rounds', '1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('broken did not run: /bin/false', done.stderr)
        self.assertIn('| - | - |', done.stdout)
        done = self.peers('--peer', 'x=/no/such/llama-bench')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('"x=/no/such/llama-bench"', done.stderr)


if __name__ == '__main__':
    unittest.main()
