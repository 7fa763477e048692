# Client packages as people use them, against the real binary: each test file names what it wants; the packages come from
# PyPI into one virtual environment under build/. Where that cannot be made the tests are skipped and say why.
import os
import subprocess
import sys
import unittest

from quire_server import ROOT, ServerCase

VENV = os.path.join(ROOT, 'build', 'venv-clients')
PYTHON = os.path.join(VENV, 'bin', 'python')
INSTALL_SECONDS = 300
SCRIPT_SECONDS = 400  # on a busy machine the imports of some of these packages take minutes


def missing(wanted, module=None, options=()):
    """None once `wanted` ('openai>=1.60') is installed, else why it is not; `module` where its name is another; `options` of
    pip."""
    name = module or wanted.split('>')[0].replace('-', '_')
    check = [PYTHON, '-c', f'import {name}']
    if os.path.exists(PYTHON) and subprocess.run(check, capture_output=True).returncode == 0:
        return None
    if not os.path.exists(PYTHON):
        made = subprocess.run([sys.executable, '-m', 'venv', '--clear', VENV], capture_output=True, text=True)
        if made.returncode != 0:
            return 'no virtual environment: is python3-venv installed?'
    pip = [PYTHON, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries', '1', '--timeout', '20',
           *options, wanted]
    try:
        got = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return f'{wanted} could not be installed from PyPI in {INSTALL_SECONDS} s'
    return None if got.returncode == 0 else f'{wanted} could not be installed from PyPI: ' + got.stderr.strip()[-200:]


class ClientCase(ServerCase):
    """One server for all tests of a class; run_script runs Python with the packages, after `head` with {url} filled in."""
    wanted = ''
    head = ''

    @classmethod
    def setUpClass(cls):
        reason = missing(cls.wanted)
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def run_script(self, script):
        done = subprocess.run([PYTHON, '-W', 'error', '-c', self.head.replace('{url}', self.server.url) + script],
                              capture_output=True, text=True, timeout=SCRIPT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
