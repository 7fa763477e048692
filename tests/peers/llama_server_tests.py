#!/usr/bin/env python3
# llama.cpp's own server tests, run against `quire serve`, and its tests of what answers hold (llama_chat_cases.py).
#   ./dev peers [--update] [-k EXPRESSION]
# The tests are in the sources of llama-cpp-python on PyPI, which pip fetches once into the user's cache folder; they are
# checked against a sum and unpacked into build/, and no file of theirs is part of the project. Their server is the program
# tests/peers/llama-server, which starts Quire. Those that are marked slow are left out.
# llama_server_expected.txt says how each test is to end: a section for each reason. Another end is a failure; --update
# writes down the ends of this run and keeps the reasons that still hold. The last line is "N passed, N failed, N skipped":
# N passed counts the tests that ended as the file says.
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time

import llama_chat_cases

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.environ.get('QUIRE_SHARED') or os.path.join(ROOT, '..', 'shared')
EXPECTED = os.path.join(HERE, 'llama_server_expected.txt')
PACKAGE, VERSION = 'llama-cpp-python', '0.3.36'
SHA256 = '832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e'
SOURCES = 'vendor/llama.cpp'
TESTS = SOURCES + '/tools/server/tests'
WANTED = (TESTS + '/', SOURCES + '/models/templates/', SOURCES + '/tests/test-chat.cpp')
CACHE = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'quire', 'peers')
VENV = os.path.join(ROOT, 'build', 'venv-peers')
MODEL = 'passed, with stories260K'  # these need the model that the tests are written for
UNSORTED = 'not yet'
SKIPPED = 'skipped by the test'


class Unavailable(Exception):
    """Why the tests cannot run here."""


def call(*command, seconds=600, what):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f'{what}: no end after {seconds} s') from None
    if done.returncode != 0:
        raise Unavailable(f'{what}: ' + (done.stderr.strip() or done.stdout.strip())[-300:])


def fetch():
    """The path of the archive, fetched by pip if it is not there. pip reads the package's metadata, which builds nothing."""
    path = os.path.join(CACHE, f'{PACKAGE.replace("-", "_")}-{VERSION}.tar.gz')
    if not os.path.exists(path):
        os.makedirs(CACHE, exist_ok=True)
        call(sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps', '--no-binary',
             PACKAGE, '--dest', CACHE, f'{PACKAGE}=={VERSION}', what=f'{PACKAGE} {VERSION} could not be fetched')
    with open(path, 'rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
    if digest != SHA256:
        raise Unavailable(f'{path} has SHA-256 {digest}, not {SHA256}: delete it and try again')
    return path


def unpack(archive):
    """The folder of their sources, below build/, with what is wanted of them."""
    folder = os.path.join(ROOT, 'build', 'peers', f'llama.cpp-{VERSION}')
    done = os.path.join(folder, '.unpacked-with-chat')
    if not os.path.exists(done):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.split('/', 1)[-1]
                if not member.isfile() or not name.startswith(WANTED) or '..' in name.split('/'):
                    continue
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, 'wb') as out:
                    shutil.copyfileobj(tar.extractfile(member), out)
        os.makedirs(os.path.join(folder, TESTS, 'tmp'))  # where some of them write
        with open(done, 'w', encoding='utf-8'):
            pass
    return folder


def install(tests):
    """Python with what the tests import, in the versions that they ask for."""
    python = os.path.join(VENV, 'bin', 'python')
    done = os.path.join(VENV, '.installed')
    if not os.path.exists(done):
        call(sys.executable, '-m', 'venv', '--clear', VENV, what='no virtual environment')
        call(python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r',
             os.path.join(tests, 'requirements.txt'), 'pytest-timeout', what='the packages of the tests')
        with open(done, 'w', encoding='utf-8'):
            pass
    return python


def run(python, tests, jobs, only):
    """{name: (outcome, why)}"""
    results = os.path.join(ROOT, 'build', 'peers', 'results.jsonl')
    env = dict(os.environ, PYTHONPATH=HERE, LLAMA_SERVER_BIN_PATH=os.path.join(HERE, 'llama-server'),
               QUIRE_PEERS_RESULTS=results, LLAMA_CACHE=os.path.join(ROOT, 'build', 'peers', 'models'))
    env.setdefault('QUIRE_BIN', os.path.join(ROOT, 'build', 'ci', 'quire'))
    command = [python, '-m', 'pytest', '-q', '-p', 'llama_server_plugin', '-p', 'no:cacheprovider', '-m', 'not slow',
               '--timeout', '60', '-n', str(jobs), '--tb', 'short', *(['-k', only] if only else []), 'unit']
    with open(os.path.join(ROOT, 'build', 'peers', 'pytest.log'), 'w', encoding='utf-8') as log:
        code = subprocess.run(command, cwd=tests, env=env, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code not in (0, 1, 5):  # 1: tests failed, 5: none was chosen
        raise SystemExit(f'pytest ended with {code}: build/peers/pytest.log says why')
    out = {}
    with open(results, encoding='utf-8') as file:
        for one in map(json.loads, file):
            if one['name'] not in out or one['outcome'] == 'failed':
                out[one['name']] = (one['outcome'], one['why'])
    return out


def read_expected():
    """{name: reason}"""
    out, reason = {}, None
    if not os.path.exists(EXPECTED):
        return out
    with open(EXPECTED, encoding='utf-8') as file:
        for line in file:
            line = line.strip()
            if line.startswith('['):
                reason = line[1:-1]
            elif line and not line.startswith('#'):
                out[line] = reason
    return out


def reason_now(outcome, why, before, stories):
    """The section where a test that ended so belongs."""
    if outcome == 'passed':  # with another model more may pass than is asked for
        return before if before == MODEL or (before and not stories) else 'passed'
    if outcome == 'skipped':
        return before or SKIPPED
    if why.startswith('absent: '):
        return why
    if before == MODEL and not stories:
        return MODEL
    return before if before not in (None, 'passed', MODEL, SKIPPED) else UNSORTED


def write_expected(reasons):
    sections = {}
    for name, reason in reasons.items():
        sections.setdefault(reason, []).append(name)
    first = ['passed', MODEL]
    with open(EXPECTED, 'w', encoding='utf-8') as file:
        file.write("# How each of llama.cpp's server tests ends against Quire: the reason, then file::function#case.\n"
                   '# Written by ./dev peers --update; whatever is in [not yet] is to be mended, or moved to a section that says why not.\n')
        for reason in first + sorted(sections.keys() - set(first)):
            if reason in sections:
                file.write(f'\n[{reason}]\n' + ''.join(f'{name}\n' for name in sorted(sections[reason])))


def table(reasons):
    counts = {}
    for reason in reasons.values():
        counts[reason] = counts.get(reason, 0) + 1
    for reason, n in sorted(counts.items(), key=lambda item: (item[0] != 'passed', -item[1])):
        print(f'{n:5}  {reason}')


def main():
    parser = argparse.ArgumentParser(description="llama.cpp's server tests against quire serve")
    parser.add_argument('--update', action='store_true', help='write down how the tests end now')
    parser.add_argument('--jobs', type=int, default=2 * (os.cpu_count() or 1), help='tests that run at the same time')
    parser.add_argument('-k', dest='only', help="pytest's: only tests that match")
    args = parser.parse_args()
    try:
        sources = unpack(fetch())
        tests = os.path.join(sources, TESTS)
        python = install(tests)
    except Unavailable as e:
        print(f"skipped: {e}\n0 passed, 0 failed, 1 skipped")
        return 0
    n_read, n_misread = (0, 0) if args.only else llama_chat_cases.run(os.path.join(sources, SOURCES), args.update)
    stories = os.path.exists(os.path.join(SHARED, 'data', 'models', 'stories260K', 'stories260K.gguf'))
    began = time.monotonic()
    results = run(python, tests, args.jobs, args.only)
    expected = read_expected()
    now = {name: reason_now(*result, expected.get(name), stories) for name, result in results.items()}
    table(now)
    if not stories:
        print(f'tests of "{MODEL}" count for nothing: the model is not here')
    wrong = [name for name in now if expected.get(name) != now[name]]
    for name in wrong:
        print(f'{name}: expected "{expected.get(name, "nothing")}", is "{now[name]}": {results[name][1]}')
    missing = [] if args.only else sorted(expected.keys() - now.keys())
    for name in missing:
        print(f'{name}: did not run')
    if args.update:
        write_expected({**(expected if args.only else {}), **now})
        wrong = missing = []
    failed = len(wrong) + len(missing) + n_misread
    print(f'{time.monotonic() - began:.0f} s\n{n_read + len(now) - len(wrong)} passed, {failed} failed, 0 skipped')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
