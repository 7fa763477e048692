#!/usr/bin/env python3
# Runs test programs and adds up what they say. Two kinds: the GoogleTest binaries that CMake knows of in a build folder,
# and Python files with unittest cases (tests/e2e, tests/tools), each in a process of its own.
#   tools/run_tests.py --build build/ci [--python] [--only NAME]… [--jobs N]
# Failures are shown in full, skipped tests with their reasons, lines that begin with "golden: " as they are. The last
# line is "N passed, N failed, N skipped"; the exit code is 1 when anything failed. --jobs says how many run at the same
# time: GoogleTest binaries first, then Python files, which mostly wait for servers. Of the files that install packages
# into one environment (client_packages) one runs at a time, and one with a line "# Runs alone" when all others are over.
import argparse
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT_S = 600
MOST_SERVERS = 4  # of Python files at a time: each starts some, which take all cores
SHOWN_LINES = 200  # of a failing program's output


@dataclass
class Outcome:
    passed: int = 0
    failed: list = field(default_factory=list)   # (test, text)
    skipped: list = field(default_factory=list)  # (test, reason)
    notes: list = field(default_factory=list)    # lines of a program that are worth showing when all is well, too


def run_program(command, cwd, env, timeout_s):
    """(exit code, output). A program that overstays is killed; its code is then None."""
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        code = None
    return code, output.decode('utf-8', 'replace')


def tail(output):
    lines = output.rstrip().split('\n')
    left_out = len(lines) - SHOWN_LINES
    return '\n'.join(([f'({left_out} lines left out)'] if left_out > 0 else []) + lines[-SHOWN_LINES:])


def why_ended(code, timeout_s):
    return f'no end after {timeout_s} s' if code is None else f'signal {-code}' if code < 0 else f'exit code {code}'


def append_output(outcome, output):
    """The program's whole output after its last failure: what it printed around the failures is often the cause."""
    test, text = outcome.failed[-1]
    outcome.failed[-1] = (test, f'{text}\n---- output\n{tail(output)}')


# ---- GoogleTest --------------------------------------------------------------------------------------------------

def gtest_programs(build, only):
    """[(name, command, folder to run in)] as CMake wrote them down; nothing is run for this. Those with the label
    by_name are there where `only` names them."""
    listing = subprocess.run(['ctest', '--test-dir', build, '--show-only=json-v1'], check=True,
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
    programs = []
    for test in json.loads(listing)['tests']:
        properties = {p['name']: p['value'] for p in test.get('properties', [])}
        if 'by_name' in properties.get('LABELS', []) and test['name'] not in only:
            continue
        command = test.get('command') or [os.path.join(os.path.abspath(build), test['name'] + '_test')]
        programs.append((test['name'], command, properties.get('WORKING_DIRECTORY', ROOT)))
    return programs


def read_gtest_xml(path):
    outcome = Outcome()
    with open(path, 'rb') as file:
        text = file.read().decode('utf-8', 'replace')
    # GoogleTest copies messages as they are; XML allows no control characters.
    text = re.sub('[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]', '?', text)
    for case in ElementTree.fromstring(text).iter('testcase'):
        name = f'{case.get("classname")}.{case.get("name")}'
        failures = [f.get('message', '') for f in case.findall('failure')]
        if failures:
            outcome.failed.append((name, '\n'.join(failures)))
        elif case.get('result') == 'suppressed':
            outcome.skipped.append((name, 'disabled in its source'))
        elif case.get('result') == 'skipped':
            message = case.find('skipped').get('message', '').split('\n', 1)
            outcome.skipped.append((name, message[-1].strip() or 'no reason given'))
        else:
            outcome.passed += 1
    return outcome


def read_gtest_log(output, why):
    """For a program that died: what passed until then, and the test that was running as failed."""
    outcome = Outcome(passed=len(re.findall(r'^\[       OK \] ', output, re.M)))
    running = re.findall(r'^\[ RUN      \] (\S+)', output, re.M)
    ended = re.findall(r'^\[(       OK |  SKIPPED |  FAILED  )\] (\S+?),? .*\(\d+ ms\)$', output, re.M)
    outcome.failed += [(test, 'see the output below') for word, test in ended if 'FAILED' in word]
    at = running[-1] if running and running[-1] not in {test for _, test in ended} else '(the program)'
    outcome.failed.append((at, f'{why}\n{tail(output)}'))
    return outcome


def run_gtest(command, cwd, timeout_s):
    if not os.path.exists(command[0]):
        return Outcome(failed=[('(the program)', f'{command[0]} was not built')])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'result.xml')
        code, output = run_program(command + [f'--gtest_output=xml:{path}'], cwd, os.environ, timeout_s)
        if code is None or not os.path.exists(path):
            return read_gtest_log(output, why_ended(code, timeout_s))
        outcome = read_gtest_xml(path)
    outcome.notes = re.findall(r'^golden: .*$', output, re.M)
    if outcome.failed:
        append_output(outcome, output)
    elif code != 0:  # all tests passed, yet the program did not end well: a sanitizer's report at exit, say
        outcome.failed.append(('(the program)', f'{why_ended(code, timeout_s)}\n{tail(output)}'))
    return outcome


# ---- Python ------------------------------------------------------------------------------------------------------

def python_files():
    return [f for folder in ('e2e', 'real', 'tools') for f in sorted(glob.glob(os.path.join(ROOT, 'tests', folder, 'test_*.py')))]


class CountingResult(unittest.TestResult):
    """Counts successes, which unittest does not, and each subtest's failure once."""

    def __init__(self):
        super().__init__()
        self.outcome = Outcome()

    def addSuccess(self, test):
        self.outcome.passed += 1

    def addFailure(self, test, err):
        self.outcome.failed.append((test.id(), self._exc_info_to_string(err, test)))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.outcome.failed.append((subtest.id(), self._exc_info_to_string(err, test)))

    def addSkip(self, test, reason):
        self.outcome.skipped.append((test.id(), reason))

    def addExpectedFailure(self, test, err):
        self.outcome.passed += 1

    def addUnexpectedSuccess(self, test):
        self.outcome.failed.append((test.id(), 'was expected to fail'))


def python_child(path, out):
    """In the child process: runs one file's cases, writes the outcome as JSON."""
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    result = CountingResult()
    unittest.defaultTestLoader.loadTestsFromName(name).run(result)
    with open(out, 'w', encoding='utf-8') as f:
        json.dump(vars(result.outcome), f)


def run_python(path, build, timeout_s):
    with tempfile.TemporaryDirectory() as folder:
        # What a user has pulled changes no test; those of real models find it through QUIRE_REAL_MODELS.
        env = dict(os.environ, QUIRE_BIN=os.path.join(os.path.abspath(build), 'quire'), PYTHONDONTWRITEBYTECODE='1',
                   QUIRE_MODELS=os.path.join(folder, 'models'), QUIRE_REAL_MODELS=os.environ.get('QUIRE_MODELS', ''))
        out = os.path.join(folder, 'result.json')
        command = [sys.executable, os.path.abspath(__file__), '--child', path, out]
        code, output = run_program(command, ROOT, env, timeout_s)
        if code is None or not os.path.exists(out):
            return Outcome(failed=[('(the program)', f'{why_ended(code, timeout_s)}\n{tail(output)}')])
        with open(out, encoding='utf-8') as f:
            outcome = Outcome(**json.load(f))
    if outcome.failed and output.strip():
        append_output(outcome, output)
    return outcome


# ---- both --------------------------------------------------------------------------------------------------------

def counts(passed, failed, skipped):
    return f'{passed} passed, {failed} failed, {skipped} skipped'


def report_one(name, outcome, seconds):
    word = 'FAIL' if outcome.failed else 'ok  '
    line = counts(outcome.passed, len(outcome.failed), len(outcome.skipped))
    print(f'{word}  {name:<24} {line:<36} {seconds:6.1f} s', flush=True)
    for note in outcome.notes:
        print(f'      {note}')
    for test, text in outcome.failed:
        print(f'---- {name}: {test}')
        print(text, flush=True)


def report_all(outcomes):
    by_reason = {}
    for name, outcome in outcomes:
        for test, reason in outcome.skipped:
            by_reason.setdefault(' '.join(reason.split()), []).append(f'{name}: {test}')
    for reason, tests in by_reason.items():
        print(f'skipped ({len(tests)}): {reason}')
        for test in tests:
            print(f'    {test}')
    for name, outcome in outcomes:
        for test, _ in outcome.failed:
            print(f'failed: {name}: {test}')
    total = [sum(n) for n in zip(*((o.passed, len(o.failed), len(o.skipped)) for _, o in outcomes))] or [0, 0, 0]
    print(counts(*total), flush=True)
    return 1 if total[1] else 0


def timed(run):
    start = time.monotonic()
    outcome = run()
    return outcome, time.monotonic() - start


def run_together(*lanes):
    """[(name, outcome)], each reported as soon as it is there. A lane is what it runs, [(name, run)], and how many of these at
    a time."""
    outcomes, pools, running = [], [], {}
    for chosen, n_jobs in lanes:
        pools.append(concurrent.futures.ThreadPoolExecutor(max(n_jobs, 1)))
        running |= {pools[-1].submit(timed, run): name for name, run in chosen}
    try:
        for future in concurrent.futures.as_completed(running):
            outcome, seconds = future.result()
            outcomes.append((running[future], outcome))
            report_one(running[future], outcome, seconds)
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
    return outcomes


def lane_of(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    return 'alone' if '\n# Runs alone' in text else 'packages' if re.search('client_packages|page_case', text) else 'free'


def main():
    # A shell starts what it puts into the background with SIGINT ignored, which every program under test would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.argv[1:2] == ['--child']:
        return python_child(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description='runs the tests of a build folder and adds them up')
    parser.add_argument('--build', required=True, help='the build folder')
    parser.add_argument('--python', action='store_true', help='the Python tests too')
    parser.add_argument('--only', action='append', default=[], help='programs, files or folders of files with this name only')
    parser.add_argument('--jobs', type=int, default=1, help='programs, or files, that run at the same time')
    parser.add_argument('--timeout', type=float, default=TIMEOUT_S, help='seconds that one program may take')
    args = parser.parse_args()
    programs = [(name, lambda c=command, d=cwd: run_gtest(c, d, args.timeout))
                for name, command, cwd in gtest_programs(args.build, args.only)]
    folder = {os.path.basename(p)[:-3]: os.path.basename(os.path.dirname(p)) for p in python_files()}

    def is_wanted(name):
        return not args.only or bool({name, folder.get(name)} & {*args.only})

    files = {'packages': [], 'free': [], 'alone': []}
    for path in python_files() if args.python else []:
        files[lane_of(path)].append((os.path.basename(path)[:-3], lambda p=path: run_python(p, args.build, args.timeout)))
    there = [name for lane in files.values() for name, _ in lane]
    names = {name for name, _ in programs} | {*there} | {folder[name] for name in there}
    outcomes = [(name, Outcome(failed=[('(the program)', f'no test program is called {name}')]))
                for name in args.only if name not in names]
    if args.jobs > 1:
        programs.reverse()  # the suites across rooms take longest: they begin first
    wanted = {lane: [job for job in jobs if is_wanted(job[0])] for lane, jobs in files.items()}
    outcomes += run_together(([job for job in programs if is_wanted(job[0])], args.jobs))
    if args.jobs > 1:
        outcomes += run_together((wanted['packages'], 1), (wanted['free'], min(args.jobs - 1, MOST_SERVERS)))
    else:
        outcomes += run_together((wanted['packages'] + wanted['free'], 1))
    outcomes += run_together((wanted['alone'], 1))
    return report_all(outcomes)


if __name__ == '__main__':
    sys.exit(main())
