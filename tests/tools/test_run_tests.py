# The runner must not lose a failure: not of a test, not of a program that dies, hangs or ends badly.
import contextlib
import io
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))
import run_tests  # noqa: E402

XML = '''<?xml version="1.0"?><testsuites><testsuite name="A">
<testcase name="Ok" status="run" result="completed" classname="A" />
<testcase name="Skips" status="run" result="skipped" classname="A"><skipped message="a.cc:3&#x0A;no data"/></testcase>
<testcase name="Fails" status="run" result="completed" classname="A"><failure message="a.cc:4&#x0A;1 vs 2"/></testcase>
<testcase name="DISABLED_x" status="notrun" result="suppressed" classname="A" />
</testsuite></testsuites>'''


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, name, text, executable=False):
        path = os.path.join(self.root, name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(textwrap.dedent(text))
        if executable:
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path


class GoogleTest(Folder):
    def run_script(self, body, timeout=20):
        program = self.write('program', '#!/bin/sh\nout=${1#--gtest_output=xml:}\n' + textwrap.dedent(body), True)
        return run_tests.run_gtest([program], self.root, timeout)

    def test_reads_the_result_file(self):
        xml = self.write('result.xml', XML)
        outcome = self.run_script(f'cp {xml} "$out"; echo printed; exit 1')
        self.assertEqual(outcome.passed, 1)
        self.assertEqual([name for name, _ in outcome.failed], ['A.Fails'])
        self.assertIn('1 vs 2', outcome.failed[0][1])
        self.assertIn('printed', outcome.failed[0][1])
        self.assertEqual(outcome.skipped, [('A.Skips', 'no data'), ('A.DISABLED_x', 'disabled in its source')])

    def test_golden_counts_are_repeated(self):
        xml = self.write('result.xml', XML)
        outcome = self.run_script(f'cp {xml} "$out"; echo "golden: 3 of 3 match"; echo "not golden: 1"; exit 0')
        self.assertEqual(outcome.notes, ['golden: 3 of 3 match'])

    def test_a_bad_exit_after_good_tests_is_a_failure(self):
        xml = self.write('result.xml', '<testsuites><testsuite><testcase name="O" classname="A"/></testsuite></testsuites>')
        outcome = self.run_script(f'cp {xml} "$out"; echo leak; exit 23')
        self.assertEqual((outcome.passed, len(outcome.failed)), (1, 1))
        self.assertIn('exit code 23', outcome.failed[0][1])

    def test_a_program_that_dies_fails_the_test_it_was_in(self):
        outcome = self.run_script('''\
            echo '[ RUN      ] A.One'
            echo '[       OK ] A.One (0 ms)'
            echo '[ RUN      ] A.Two'
            echo '[  FAILED  ] A.Two (0 ms)'
            echo '[ RUN      ] A.Three'
            kill -ABRT $$
            ''')
        self.assertEqual(outcome.passed, 1)
        self.assertEqual([name for name, _ in outcome.failed], ['A.Two', 'A.Three'])
        self.assertIn('signal 6', outcome.failed[1][1])

    def test_a_program_that_hangs_is_ended(self):
        outcome = self.run_script("echo '[ RUN      ] A.One'; sleep 60", timeout=0.3)
        self.assertEqual([name for name, _ in outcome.failed], ['A.One'])
        self.assertIn('no end after', outcome.failed[0][1])

    def test_a_program_that_was_not_built(self):
        outcome = run_tests.run_gtest([os.path.join(self.root, 'none')], self.root, 1)
        self.assertEqual(len(outcome.failed), 1)


class Python(Folder):
    def run_file(self, text):
        return run_tests.run_python(self.write('test_sample.py', text), self.root, 20)

    def test_counts_every_kind(self):
        outcome = self.run_file('''\
            import unittest
            class T(unittest.TestCase):
                def test_ok(self): pass
                def test_bad(self): self.fail('as it must')
                def test_error(self): raise ValueError('odd')
                @unittest.skip('why')
                def test_skip(self): pass
                def test_sub(self):
                    for i in range(3):
                        with self.subTest(i=i): self.assertNotEqual(i, 1)
            ''')
        self.assertEqual((outcome.passed, len(outcome.failed), len(outcome.skipped)), (1, 3, 1))
        self.assertEqual(outcome.skipped[0][1], 'why')

    def test_a_file_that_does_not_load(self):
        self.assertEqual(len(self.run_file('import no_such_module').failed), 1)

    def test_a_file_that_exits(self):
        self.assertEqual(len(self.run_file('import os\nos._exit(0)').failed), 1)


class Together(unittest.TestCase):
    def run_jobs(self, jobs, n_jobs):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            outcomes = run_tests.run_together((jobs, n_jobs))
        return outcomes, [line.split()[1] for line in said.getvalue().splitlines() if line[:4] in ('ok  ', 'FAIL')]

    def test_two_run_at_the_same_time_and_are_told_as_they_end(self):
        def first():
            end = time.monotonic() + 20
            while 'second' not in said.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
            return run_tests.Outcome(passed=1)

        def second():
            return run_tests.Outcome(failed=[('b', 'no')])

        with contextlib.redirect_stdout(io.StringIO()) as said:
            outcomes = run_tests.run_together(([('first', first), ('second', second)], 2))
        self.assertEqual([(name, o.passed, len(o.failed)) for name, o in outcomes], [('second', 0, 1), ('first', 1, 0)])

    def test_lanes_run_beside_each_other(self):
        begun = {'a': threading.Event(), 'b': threading.Event()}

        def waits(own, other):
            def run():
                begun[own].set()
                return run_tests.Outcome(passed=int(begun[other].wait(20)))
            return run

        with contextlib.redirect_stdout(io.StringIO()):
            outcomes = run_tests.run_together(([('a', waits('a', 'b'))], 1), ([('b', waits('b', 'a'))], 1))
        self.assertEqual(sorted((name, o.passed) for name, o in outcomes), [('a', 1), ('b', 1)])

    def test_who_shares_an_environment_and_who_runs_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, lane in (('import os\n', 'free'), ('from client_packages import missing\n', 'packages'),
                               ('# Times.\n# Runs alone: it measures.\nimport client_packages\n', 'alone')):
                path = os.path.join(folder, 'test_x.py')
                with open(path, 'w', encoding='utf-8') as file:
                    file.write(text)
                self.assertEqual(run_tests.lane_of(path), lane)

    def test_one_at_a_time(self):
        running, most = [], []

        def job():
            running.append(1)
            most.append(len(running))
            running.pop()
            return run_tests.Outcome(passed=1)

        outcomes, _ = self.run_jobs([(str(i), job) for i in range(20)], 1)
        self.assertEqual((len(outcomes), max(most)), (20, 1))


class Stages(Folder):
    def run_stages(self, text):
        script = f'set -euo pipefail\nsource {ROOT}/tools/stages.sh\n' + textwrap.dedent(text)
        done = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip().split('\n')

    def test_adds_up(self):
        code, lines = self.run_stages('''\
            stage a 1 echo '3 passed, 0 failed, 1 skipped'
            stage b 1 echo '4 passed, 0 failed, 0 skipped'
            end_stages
            ''')
        self.assertEqual((code, lines[-1]), (0, '7 passed, 0 failed, 1 skipped'))

    def test_a_failure_goes_on_and_counts(self):
        code, lines = self.run_stages('''\
            stage a 1 bash -c 'echo "3 passed, 2 failed, 0 skipped"; exit 1'
            stage b 1 echo '4 passed, 0 failed, 0 skipped'
            end_stages
            ''')
        self.assertEqual((code, lines[-1]), (1, '7 passed, 2 failed, 0 skipped'))

    def test_what_failed_is_said_at_the_end(self):
        _, lines = self.run_stages('''\
            stage a 1 bash -c 'echo "FAIL  some"; seq 300; echo "ok  other"; echo "3 passed, 2 failed, 0 skipped"; exit 1'
            stage b 1 bash -c 'echo "it broke"; exit 1'
            stage c 1 echo '4 passed, 0 failed, 0 skipped'
            end_stages
            ''')
        end = lines[lines.index('==== failed in a'):]
        self.assertEqual(end[1:4], ['FAIL  some', '1', '2'])
        self.assertNotIn('300', end)
        self.assertEqual(end[22:25], ['==== failed in b', 'it broke', '==== all'])

    def test_a_stage_that_breaks_before_it_counts(self):
        code, lines = self.run_stages("stage a 1 bash -c 'exit 3'\nend_stages")
        self.assertEqual((code, lines[-1]), (1, '0 passed, 1 failed, 0 skipped'))

    def test_a_stage_that_counts_nothing(self):
        code, lines = self.run_stages('stage a 1 true\nend_stages')
        self.assertEqual((code, lines[-1]), (1, '0 passed, 1 failed, 0 skipped'))


if __name__ == '__main__':
    unittest.main()
