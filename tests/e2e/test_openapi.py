# The server's description of itself: equal to the committed one, and schemathesis generates requests from it, good and
# bad: none may end in a server error, every answer has a status, a media type and a form that the description names, and
# what the description forbids is refused. The latter is for `./dev test --all`.
import json
import os
import subprocess
import tempfile
import unittest

from client_packages import VENV, missing
from quire_server import ROOT, ServerCase

SECONDS = 300
CHECKS = ('not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_schema_conformance',
          'negative_data_rejection')


class Openapi(ServerCase):
    def test_the_committed_description_is_ours(self):
        committed = os.path.join(ROOT, 'docs', 'openapi.json')
        if not os.path.exists(committed):
            self.skipTest('no docs/openapi.json')
        with open(committed, encoding='utf-8') as file:
            self.assertEqual(json.load(file), self.server.get('/openapi.json')[2],
                             'curl …/openapi.json | python3 -m json.tool --indent 1 > docs/openapi.json')

    def test_generated_requests_get_what_the_description_says(self):
        if not os.environ.get('QUIRE_TEST_ALL'):
            self.skipTest('only in ./dev test --all')
        reason = missing('schemathesis>=4')
        if reason:
            self.skipTest(reason)
        # The page and the metrics are no API; what is generated is seeded, so that a failure comes again.
        command = [os.path.join(VENV, 'bin', 'schemathesis'), 'run', self.server.url + '/openapi.json',
                   '--checks', ','.join(CHECKS), '--mode', 'all', '--max-examples', '20', '--seed', '1',
                   '--phases', 'examples,coverage,fuzzing', '--request-timeout', '30',
                   '--generation-database', 'none', '--no-color']
        with tempfile.TemporaryDirectory() as folder:  # it keeps a cache of what crashed where it runs
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
            except subprocess.TimeoutExpired as late:
                self.assertNotIn('FAILURES', (late.stdout or b'').decode(errors='replace'))
                self.skipTest(f'not through in {SECONDS} s')
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-1000:])
        self.assertEqual(self.server.get('/ready')[0], 200)


if __name__ == '__main__':
    unittest.main()
