# The program of attacks (tests/attack, `./dev soak attack`) in short: every attack runs, by one attacker, and the bystander's
# bytes, the server's life and its memory are looked at. How late the bystander's tokens come is not: that is the machine's.
import os
import re
import shutil
import subprocess
import sys
import unittest

from quire_server import ROOT, binary

sys.path.insert(0, os.path.join(ROOT, 'tests', 'attack'))
import attacks_requests  # noqa: E402,F401  they register themselves
import attacks_tls  # noqa: E402,F401
import attacks_transport  # noqa: E402,F401
from bystander import joined  # noqa: E402
from registry import ATTACKS  # noqa: E402

PROGRAM = os.path.join(ROOT, 'tests', 'attack', 'run.py')


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=500, check=False,
                          env={**os.environ, 'QUIRE_BIN': binary()})


class Attacks(unittest.TestCase):
    @unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
    def test_a_bystander_keeps_its_bytes_beside_all(self):
        done = run('0.1', '--attackers', str(len(ATTACKS)), '--seconds', '0', '--nice', '0', '--mixed-slack', '128')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        for name in ATTACKS:
            self.assertRegex(done.stdout, rf'rounds: .*\d × {re.escape(name)}\b')
        self.assertIn('2 attacks, 0 failed', done.stdout)

    def test_what_does_not_hold_is_said(self):
        done = run('0', '--attackers', '1', '--seconds', '0.4', '--alone', '0.2', '--only', 'ordinary', '--slack', '-1000',
                   '--settle', '1')
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r'FAIL  ordinary users: memory is -?\d+ MiB beyond what it was')

    def test_events_cut_elsewhere_say_the_same(self):
        whole = [('ab', ['a', 'b'], [-1.0, -2.0], [{}, {}], None), ('', None, None, None, 'length')]
        cut = [('a', ['a'], [-1.0], [{}], None), ('b', ['b'], [-2.0], [{}], 'length')]
        self.assertEqual(joined(whole), joined(cut))
        self.assertNotEqual(joined(whole), joined(cut[:1]))


if __name__ == '__main__':
    unittest.main()
