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
        self.assertGreater(sweep[2]['ops_per_token'], one['ops_per_token'])
        self.assertLess(two['bytes_per_token'], 0.6 * one['bytes_per_token'])
        self.assertGreater(sweep[2]['bytes_per_token'], one['bytes_per_token'])

    def test_operations_are_those_of_matrices_head_and_visible_keys(self):
        short, long, decode = lines('--prompt', '16,48', '--generate', '4', '--depth', '0', '--repeat', '1')
        self.assertEqual([(x['test'], x['n_prompt']) for x in (short, long, decode)],
                         [('prefill', 16), ('prefill', 48), ('decode', 1)])
        for line in (short, long):
            self.assertAlmostEqual(line['of_peak'], line['tok_s']['median'] * line['ops_per_token'] * 1e-9 / line['peak_gop_s'])
        # A row: matrices + per_key · keys it sees; the head once a prompt. From 16 to 48 tokens a row sees 16 keys more on
        # the mean and the head's part shrinks by two thirds; a decode step pays it whole and sees 2 to 5 keys.
        facts = json.loads(subprocess.run([binary(), 'inspect', '--json', model()], capture_output=True, text=True,
                                          timeout=60, check=True).stdout)
        hyper = facts['hyper']
        head = 2 * facts['tokenizer']['n_tokens'] * hyper['embedding_length']
        width = hyper['attention.head_count'] * hyper.get('attention.key_length',
                                                          hyper['embedding_length'] // hyper['attention.head_count'])
        per_key = (long['ops_per_token'] - short['ops_per_token'] + head * (1 / 16 - 1 / 48)) / 16
        self.assertAlmostEqual(decode['ops_per_token'],
                               short['ops_per_token'] - head / 16 + head + per_key * (3.5 - 8.5), delta=1)
        self.assertAlmostEqual(per_key, 4 * width * hyper['block_count'], delta=1e-3)

    def test_a_deeper_line_tells_what_keys_and_values_cost_beyond_depth_0(self):
        _, flat, deep = lines('--prompt', '16', '--generate', '4', '--batch', '2', '--depth', '256,0', '--repeat', '1')
        self.assertEqual((flat['depth'], deep['depth']), (0, 256))
        # Two sequences; a step sees 2 to 5 keys, and 257 to 260.
        self.assertAlmostEqual(deep['kv_bytes_per_step'] / flat['kv_bytes_per_step'], 258.5 / 3.5)
        self.assertNotIn('extra_ms', flat)
        self.assertAlmostEqual(deep['extra_kv_bytes'], deep['kv_bytes_per_step'] - flat['kv_bytes_per_step'])
        ms = [2e3 / line['tok_s']['median'] for line in (flat, deep)]
        self.assertAlmostEqual(deep['extra_ms'], ms[1] - ms[0])
        if deep['extra_ms'] > 0:
            self.assertAlmostEqual(deep['extra_gb_s'], deep['extra_kv_bytes'] / deep['extra_ms'] * 1e-6)
            self.assertAlmostEqual(deep['extra_of_bandwidth'], deep['extra_gb_s'] / deep['bandwidth_gb_s'])

    def test_prompts_that_do_not_fit_a_step_are_decoded_together_all_the_same(self):
        _, decode = lines('--prompt', '16', '--generate', '4', '--batch', '4', '--depth', '400', '--repeat', '1')
        self.assertGreater(decode['tok_s']['median'], 0)
        one = lines('--prompt', '16', '--generate', '4', '--depth', '400', '--repeat', '1')[-1]
        # The first ones are some tokens ahead when the last one starts.
        self.assertGreater(decode['kv_bytes_per_step'], 4 * one['kv_bytes_per_step'])
        self.assertLess(decode['kv_bytes_per_step'], 4.1 * one['kv_bytes_per_step'])

    def test_wrong_arguments_are_named(self):
        for arguments, words in ((('--policy', 'fcfs'), '--policy of a bench must be static, got "fcfs"'),
                                 (('--policy', 'static', '--requests', '0'), '--requests must be 1 to 65536, got 0'),
                                 (('--depth', '0,-1'), '--depth must be 0 to 16777216, got -1'),
                                 (('--prompt', '16,0'), '--prompt must be 1 to 16777216, got 0'),
                                 (('--batch', '0'), '--batch must be 1 to 1024, got 0'),
                                 (('--no-cache', '--generate', '0'), '--generate must be at least 1'),
                                 (('--overlap',), '--overlap: this backend computes on the host')):
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
