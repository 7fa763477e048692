# quire pull, against a hub of the test's own.
import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest

from hub_server import COMMIT, Answer, Hub, entry
from quire_server import ROOT, binary, certificate, eventually, open_terminal, quire

GOLDEN = os.path.join(ROOT, 'build', 'golden', 'models', 'llama')
BYTES = random.Random(1).randbytes(300_000)


def read(*path):
    with open(os.path.join(*path), 'rb') as file:
        return file.read()


class Pull(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, 'here')

    def environment(self, hub, **more):
        out = {name: value for name, value in os.environ.items() if not name.lower().endswith('_proxy')}
        out.pop('HF_TOKEN', None)
        return {**out, 'HF_ENDPOINT': hub if isinstance(hub, str) else hub.url, **more}

    def pull(self, hub, *arguments, repo='org/model', to=True, **environment):
        where = ['--to', self.folder] if to else []
        return subprocess.run([binary(), 'pull', repo, *where, *arguments], env=self.environment(hub, **environment),
                              capture_output=True, text=True, timeout=120, check=False)

    def files(self):
        out = []
        for folder, _, names in os.walk(self.folder):
            out += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        return sorted(out)

    def assert_failed(self, done, *messages):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, '')
        for message in messages:
            self.assertIn(message, done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1], 'one line at the end')

    def part(self, data, name='m.gguf'):
        return f'{name}.{hashlib.sha256(data).hexdigest()[:12]}.part'

    def put(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(data)

    # ---- what comes -------------------------------------------------------------------------------------------------

    def test_a_gguf_file_comes_whole_and_once(self):
        with Hub({'README.md': b'# hi', 'm.gguf': read(GOLDEN, 'model.gguf')}) as hub:
            done = self.pull(hub)
            self.assertEqual(done.returncode, 0, done.stderr)
            path = os.path.join(self.folder, 'm.gguf')
            self.assertEqual(done.stdout, path + '\n')
            self.assertIn(f'serve it with: quire serve {path}', done.stderr)
            self.assertEqual(self.files(), ['m.gguf'])
            self.assertEqual(read(path), hub.files['m.gguf'])
            self.assertEqual(quire('inspect', '--json', path).returncode, 0)
            # All is there and right: nothing is fetched.
            again = self.pull(hub)
            self.assertEqual((again.returncode, again.stdout), (0, done.stdout))
            self.assertIn('is here', again.stderr)
            self.assertEqual(len(hub.asked_for('m.gguf')), 1)

    def test_a_folder_without_what_is_double(self):
        names = [name for name in os.listdir(GOLDEN) if name.startswith(('config', 'model')) and name != 'model.gguf']
        wanted = {name: read(GOLDEN, name) for name in names}
        wanted['tokenizer.json'] = read(ROOT, 'models', 'tokenizer.json')
        others = {'pytorch_model.bin': b'x', 'onnx/model.onnx': b'x', 'original/consolidated.00.pth': b'x',
                  'consolidated.safetensors': BYTES, 'README.md': b'#', 'sub/config.json': b'{}'}
        with Hub({**others, **wanted}) as hub:
            done = self.pull(hub, '--json')
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual((told['path'], told['repo'], told['commit']), (self.folder, 'org/model', COMMIT))
            self.assertEqual(sorted(file['file'] for file in told['files']), sorted(wanted))
            self.assertEqual({name: read(self.folder, name) for name in self.files()}, wanted)
            self.assertEqual(quire('inspect', self.folder).returncode, 0)

    def test_shards_come_by_their_index(self):
        files = {'config.json': b'{}', 'model.safetensors.index.json': b'{}', 'model-00001-of-00002.safetensors': b'1',
                 'model-00002-of-00002.safetensors': b'2', 'model.safetensors': b'all'}
        with Hub(files) as hub:
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual(self.files(), sorted(set(files) - {'model.safetensors'}))

    def test_the_choice_among_gguf_files(self):
        split = {f'Q8_0/m-Q8_0-0000{i}-of-00003.gguf': bytes([i]) * 10 for i in (1, 2, 3)}
        with Hub({'m-Q4_K_M.gguf': b'k', 'm-Q4_K_S.gguf': b's', 'mmproj-Q4_K_M.gguf': b'p', **split}) as hub:
            for file, wanted in (('', ['m-Q4_K_M.gguf']), (':q4_k_s', ['m-Q4_K_S.gguf']), (':Q8_0', list(split)),
                                 (':m-Q8_0-00002-of-00003.gguf', list(split)),
                                 (':mmproj-Q4_K_M.gguf', ['mmproj-Q4_K_M.gguf'])):
                with self.subTest(file):
                    done = self.pull(hub, '--json', repo='org/model' + file)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    told = json.loads(done.stdout)
                    self.assertEqual([one['file'] for one in told['files']], wanted)
                    self.assertEqual(told['path'], os.path.join(self.folder, wanted[0]))
            self.assert_failed(self.pull(hub, repo='org/model:Q5_0'), 'no file "Q5_0"', '"m-Q4_K_M.gguf"  1 B')
            del hub.files['Q8_0/m-Q8_0-00002-of-00003.gguf']
            self.assert_failed(self.pull(hub, repo='org/model:Q8_0'), 'part 2 of 3 is not in the repository')

    def test_unsure_is_asked_back(self):
        with Hub({'a.gguf': b'a', 'b.gguf': b'b'}) as hub:
            self.assert_failed(self.pull(hub), 'several models', '"a.gguf"', '"b.gguf"')
            self.assertFalse(os.path.exists(self.folder))
            hub.files = {'weights.bin': b'x'}
            self.assert_failed(self.pull(hub), 'neither a GGUF file nor', 'weights.bin')

    def test_where_it_goes(self):
        with Hub({'m.gguf': BYTES}) as hub:
            base = os.path.dirname(self.folder)
            for environment, arguments, wanted in (
                    ({'QUIRE_MODELS': base + '/models'}, (), base + '/models/org/model/m.gguf'),
                    ({'QUIRE_MODELS': '', 'XDG_CACHE_HOME': base + '/cache'}, (),
                     base + '/cache/quire/models/org/model/m.gguf'),
                    ({'QUIRE_MODELS': '', 'XDG_CACHE_HOME': '', 'HOME': base + '/home'}, (),
                     base + '/home/.cache/quire/models/org/model/m.gguf'),
                    ({}, ('--models', base + '/it is'), base + '/it is/org/model/m.gguf')):
                done = self.pull(hub, *arguments, to=False, **environment)
                self.assertEqual((done.returncode, done.stdout), (0, wanted + '\n'), done.stderr)
                self.assertEqual(read(wanted), BYTES)
            self.assertIn(f"quire serve '{wanted}'", done.stderr)

    def test_revision_and_list(self):
        with Hub({'m.gguf': BYTES, 'b.txt': b'b'}) as hub:
            done = self.pull(hub, '--list', '--json', repo='org/model@refs/pr/1')
            self.assertEqual([json.loads(line)['file'] for line in done.stdout.splitlines()], ['m.gguf', 'b.txt'])
            self.assertIn('/api/models/org/model/revision/refs%2Fpr%2F1', hub.requests[0][1])
            self.assertIn('300.0 kB  m.gguf', self.pull(hub, '--list').stdout)
            self.assertFalse(os.path.exists(self.folder))
            self.assert_failed(self.pull(hub, repo='org/model@v9'), 'org/model@v9: the hub does not have it (404)',
                               'Invalid rev id')

    # ---- what is cut off --------------------------------------------------------------------------------------------

    def test_a_cut_connection_is_gone_on_with(self):
        with Hub({'m.gguf': BYTES}) as hub:
            hub.answers['m.gguf'] = [Answer(200, BYTES, 100_000)]
            done = self.pull(hub)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('trying again', done.stderr)
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)
            self.assertEqual([headers.get('Range') for headers in hub.asked_for('m.gguf')], [None, 'bytes=100000-'])
            self.assertEqual(self.files(), ['m.gguf'])

    def test_what_came_is_kept_for_the_next_pull(self):
        with Hub({'m.gguf': BYTES}) as hub:
            hub.answers['m.gguf'] = [Answer(200, BYTES, 100_000)]
            self.assert_failed(self.pull(hub, '--retries', '0'), 'm.gguf: ')
            self.assertEqual(self.files(), [self.part(BYTES)])
            done = self.pull(hub, '--json')
            self.assertEqual(json.loads(done.stdout)['files'][0]['fetched_bytes'], 200_000, done.stderr)
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)

    def test_a_part_of_all_bytes_needs_no_request(self):
        with Hub({'m.gguf': BYTES}) as hub:
            self.put(self.part(BYTES), BYTES)
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual((self.files(), hub.asked_for('m.gguf')), (['m.gguf'], []))

    def test_a_server_without_ranges_sends_all_again(self):
        with Hub({'m.gguf': BYTES}) as hub:
            hub.ranges = False
            self.put(self.part(BYTES), BYTES[:1000])
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)

    def test_a_refused_range_begins_anew(self):
        with Hub({'m.gguf': BYTES}) as hub:
            self.put(self.part(BYTES), BYTES[:1000])
            hub.answers['m.gguf'] = [Answer(416)]
            self.assertEqual(self.pull(hub, '--retries', '0').returncode, 0)
            self.assertEqual([headers.get('Range') for headers in hub.asked_for('m.gguf')], ['bytes=1000-', None])
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)

    def test_ctrl_c_leaves_the_part(self):
        with Hub({'m.gguf': BYTES}) as hub:
            go_on = threading.Event()
            self.addCleanup(go_on.set)

            hub.answers['m.gguf'] = [Answer(200, BYTES, 100_000, wait=go_on)]
            process = subprocess.Popen([binary(), 'pull', 'org/model', '--to', self.folder], env=self.environment(hub),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            part = os.path.join(self.folder, self.part(BYTES))
            self.assertTrue(eventually(lambda: os.path.exists(part) and os.path.getsize(part) == 100_000))
            # Meanwhile the folder is its own.
            self.assert_failed(self.pull(hub), 'another quire pull writes into this folder')
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, -signal.SIGINT)
            go_on.set()
            self.assertEqual(read(part), BYTES[:100_000])
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual(hub.asked_for('m.gguf')[-1]['Range'], 'bytes=100000-')

    def test_one_pull_at_a_time(self):
        os.makedirs(self.folder)
        holder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, holder)
        fcntl.flock(holder, fcntl.LOCK_EX)
        with Hub({'m.gguf': BYTES}) as hub:
            self.assert_failed(self.pull(hub), f'{self.folder}: another quire pull')
            fcntl.flock(holder, fcntl.LOCK_UN)
            self.assertEqual(self.pull(hub).returncode, 0)

    # ---- what is wrong ----------------------------------------------------------------------------------------------

    def test_wrong_bytes_get_no_name(self):
        wrong = BYTES[:-1] + bytes([BYTES[-1] ^ 1])
        with Hub({'m.gguf': BYTES, 'small.gguf': b'small'}) as hub:
            hub.answers = {'m.gguf': [Answer(200, wrong)], 'small.gguf': [Answer(200, b'SMALL')]}
            self.assert_failed(self.pull(hub, repo='org/model:m.gguf'), os.path.join(self.folder, 'm.gguf') + ': ',
                               'expected SHA-256 ' + hashlib.sha256(BYTES).hexdigest(),
                               'got ' + hashlib.sha256(wrong).hexdigest(), 'kept as')
            self.assertEqual(self.files(), ['m.gguf.wrong'])
            self.assert_failed(self.pull(hub, repo='org/model:small.gguf'),
                               "expected git's SHA-1 " + entry('', b'small')['oid'])
            for name in hub.files:
                self.assertEqual(self.pull(hub, repo='org/model:' + name).returncode, 0, 'another pull begins anew')
                self.assertEqual(read(self.folder, name), hub.files[name])

    def test_a_part_that_is_another_files_is_found_out(self):
        with Hub({'m.gguf': BYTES}) as hub:
            self.put(self.part(BYTES), b'x' * 1000)
            self.assert_failed(self.pull(hub), 'expected SHA-256')
            self.assertEqual(self.pull(hub).returncode, 0)

    def test_a_lying_length(self):
        for answer, message in (
                (Answer(200, BYTES + b'more'), f'a file of {len(BYTES) + 4} bytes, its listing says {len(BYTES)}'),
                (Answer(200, BYTES[:-4]), f'a file of {len(BYTES) - 4} bytes'),
                (Answer(200, BYTES + b'more', headers={'Content-Length': None}), f'more than the {len(BYTES)} bytes'),
                (Answer(206, BYTES, headers={'Content-Range': f'bytes 7-{len(BYTES)}/{len(BYTES)}'}), 'bytes from 7 on'),
                (Answer(206, BYTES), 'bytes from -1 on')):
            with self.subTest(message), Hub({'m.gguf': BYTES}) as hub:
                hub.answers['m.gguf'] = [answer]
                self.assert_failed(self.pull(hub), 'm.gguf: the hub sends ', message)
                self.assertNotIn('m.gguf', self.files())
                self.assertNotIn('trying again', self.pull(hub).stderr)
                self.assertEqual(read(self.folder, 'm.gguf'), BYTES)
                os.remove(os.path.join(self.folder, 'm.gguf'))

    def test_other_bytes_of_that_name_stay(self):
        with Hub({'m.gguf': BYTES}) as hub:
            for own in (b'mine', b'm' * len(BYTES)):
                self.put('m.gguf', own)
                self.assert_failed(self.pull(hub), 'is there with other bytes', '--replace')
                self.assertEqual(read(self.folder, 'm.gguf'), own)
            self.assertEqual(self.pull(hub, '--replace').returncode, 0)
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)

    def test_no_name_leads_out_of_the_folder(self):
        for name in ('../m.gguf', '/m.gguf', 'a/../../m.gguf', 'a\\m.gguf', 'a\nm.gguf', 'a//m.gguf', './m.gguf', '',
                     'a' * 256 + '.gguf', 'a/' * 600 + 'm.gguf', 'm\0.gguf', 'm\x1b[2J.gguf', 'a/' * 17 + 'm.gguf'):
            with self.subTest(name), Hub({}) as hub:
                hub.listing = json.dumps([entry(name, BYTES)]).encode()
                self.assert_failed(self.pull(hub), 'the file name "')
                self.assertFalse(os.path.exists(self.folder))

    def test_a_listing_that_is_none(self):
        good = entry('m.gguf', BYTES)
        for listing in (b'', b'<html>login</html>', b'{"error": "no"}', b'[1]', b'[{}]', b'[' * 100_000,
                        json.dumps([{**good, 'size': -1}]).encode(), json.dumps([{**good, 'size': 1 << 60}]).encode(),
                        json.dumps([{**good, 'size': '5'}]).encode(), json.dumps([good, good]).encode()):
            with self.subTest(listing[:40]), Hub({}) as hub:
                hub.listing = listing
                self.assert_failed(self.pull(hub), "the hub's listing cannot be read")
        with Hub({}) as hub:
            hub.listing = b' ' * (17 << 20)
            self.assert_failed(self.pull(hub), 'more than 16777216 bytes')
        with Hub({}) as hub:
            hub.answers['/api/models/org/model/revision/main'] = [Answer(200, b'{"sha": "../../x"}')]
            self.assert_failed(self.pull(hub), 'no commit')

    def test_no_room_and_no_right_to_write(self):
        with Hub({}) as hub:
            hub.listing = json.dumps([{**entry('m.gguf', BYTES), 'size': 1 << 50}]).encode()
            self.assert_failed(self.pull(hub), 'does not fit on the disk: needs 1125899.91 GB more, has ')
        with Hub({'m.gguf': BYTES}) as hub:
            self.folder = '/proc/no/such'
            self.assert_failed(self.pull(hub), '/proc/no/such: cannot be made')

    def test_a_full_disk(self):
        with Hub({'m.gguf': BYTES}) as hub:
            # A limit on the size of files stands for the disk: the write fails in the middle.
            script = 'trap "" XFSZ; ulimit -f 100; exec "$@"'
            done = subprocess.run(['bash', '-c', script, '-', binary(), 'pull', 'org/model', '--to', self.folder],
                                  env=self.environment(hub), capture_output=True, text=True, timeout=60, check=False)
            self.assert_failed(done, self.part(BYTES) + ': cannot be written: File too large')
            self.assertEqual(self.files(), [self.part(BYTES)])
            self.assertEqual(self.pull(hub).returncode, 0)

    # ---- who may, and how often -------------------------------------------------------------------------------------

    def test_the_token_is_for_the_hub_alone(self):
        with Hub({'m.gguf': BYTES}) as hub:
            hub.private = hub.gated = True
            done = self.pull(hub, HF_TOKEN=hub.token)
            self.assertEqual(done.returncode, 0, done.stderr)
            for is_store, path, headers in hub.requests:
                self.assertEqual(headers.get('Authorization'), None if is_store else 'Bearer ' + hub.token, path)
            self.assertTrue(any(is_store for is_store, _, _ in hub.requests))
            self.assertNotIn(hub.token, done.stderr)

    def test_refusals_say_what_to_do(self):
        with Hub({'m.gguf': BYTES}) as hub:
            self.assert_failed(self.pull(hub, repo='org/other'), 'org/other: the hub wants to know who asks (401)',
                               'set HF_TOKEN', '"Invalid username or password."')
            hub.gated = True
            self.assert_failed(self.pull(hub), 'm.gguf: the hub wants to know who asks (401)', 'is restricted')
            self.assert_failed(self.pull(hub, HF_TOKEN='hf_another'), "does not let this token's account have it (403)",
                               f'ask for access at {hub.url}/org/model')
            hub.private = True
            self.assert_failed(self.pull(hub, HF_TOKEN='hf_another'), 'does not accept the token in HF_TOKEN (401)')
            self.assert_failed(self.pull(hub, HF_TOKEN='two\nlines'), 'the token has blanks')

    def test_too_many_requests_are_waited_for(self):
        with Hub({'m.gguf': BYTES}) as hub:
            hub.answers['/api/models/org/model/revision/main'] = [Answer(429, headers={'Retry-After': '0'}), Answer(503)]
            done = self.pull(hub)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('status 429; trying again in 0 s', done.stderr)
            self.assertIn('status 503; trying again in 1 s', done.stderr)
            hub.answers['/api/models/org/model/revision/main'] = [Answer(429, headers={'Retry-After': '4000'})]
            self.assert_failed(self.pull(hub), '(429): come again in 4000 s, or set HF_TOKEN')
            hub.answers['/api/models/org/model/revision/main'] = [Answer(500)]
            self.assert_failed(self.pull(hub, '--retries', '0'), 'status 500: try again later')

    def test_nobody_there(self):
        done = self.pull('http://127.0.0.1:1')
        self.assert_failed(done, 'http://127.0.0.1:1 cannot be reached', 'online', 'HF_ENDPOINT')
        self.assertNotIn('trying again', done.stderr)

    def test_redirects_end(self):
        with Hub({'m.gguf': BYTES}) as hub:
            where = '/api/models/org/model/revision/main'
            hub.answers[where] = [Answer(302, headers={'Location': hub.url + where})] * 20
            self.assert_failed(self.pull(hub), 'redirects')
            hub.answers[where] = [Answer(302, headers={'Location': 'file:///etc/passwd'})]
            self.assert_failed(self.pull(hub), hub.url)

    @unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
    def test_https(self):
        cert, key = certificate(os.path.dirname(self.folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, key)
        with Hub({'m.gguf': BYTES}, tls=(tls, tls)) as hub:
            self.assert_failed(self.pull(hub), 'certificate')
            self.assertEqual(self.pull(hub, SSL_CERT_FILE=cert).returncode, 0)
            self.assertEqual(read(self.folder, 'm.gguf'), BYTES)
        with Hub({'other.gguf': BYTES}, tls=(tls, None)) as hub:
            self.assert_failed(self.pull(hub, SSL_CERT_FILE=cert), 'other.gguf: ', 'rotocol')
            self.assertFalse(any(is_store for is_store, _, _ in hub.requests), 'no redirect from HTTPS to HTTP')

    def test_a_bar_on_a_terminal(self):
        with Hub({'m.gguf': BYTES}) as hub:
            terminal, inner = open_terminal()
            self.addCleanup(os.close, terminal)
            process = subprocess.Popen([binary(), 'pull', 'org/model', '--to', self.folder], env=self.environment(hub),
                                       stdout=subprocess.PIPE, stderr=inner)
            os.close(inner)
            shown = b''
            try:
                while data := os.read(terminal, 4096):
                    shown += data
            except OSError:  # how Linux says that the other end is closed
                pass
            process.communicate(timeout=30)
            self.assertRegex(shown.decode(), r'\rm\.gguf \[[#.]{30}\] \d+ %  \d')
            self.assertIn('of 300.0 kB', shown.decode())

    def test_what_is_meant_by_nobody(self):
        for repo in ('model', '/model', 'org/', 'org/model/more', '../model', 'org/..', 'org/mo del',
                     'org/model@', 'org/model@..', 'org/model:../x', 'org/model:', 'org/model@a b'):
            done = quire('pull', repo)
            self.assertEqual(done.returncode, 1, repo)
            self.assertIn('"', done.stderr)
        for endpoint in ('ftp://host', 'host', 'http://', 'http://user:pass@host', 'http://ho st'):
            done = quire('pull', 'org/model', '--endpoint', endpoint)
            self.assertIn('must be http:// or https://', done.stderr)
        self.assertIn('--retries must be 0 to 100', quire('pull', 'org/model', '--retries', '-1').stderr)
        self.assertEqual(quire('pull', 'org/model', '--to').returncode, 2)


if __name__ == '__main__':
    unittest.main()
