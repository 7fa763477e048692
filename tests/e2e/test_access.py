# Keys, the operator's address and TLS of the real binary.
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from quire_server import Server, binary, certificate, eventually, joined, model

TEXT = '/v1/completions'
BODY = {'prompt': 'Once', 'max_tokens': 4, 'temperature': 0}


def bearer(key):
    return {'Authorization': 'Bearer ' + key}


def refused(*options):
    """What `quire serve` says before it exits with 1; one line."""
    done = subprocess.run([binary(), 'serve', model(), '--port', '0', *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    said = [line for line in done.stderr.splitlines() if line.startswith('quire: ')]
    assert len(said) == 1, done.stderr
    return said[0]


class Keys(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_a_file_of_keys_with_scopes_and_limits(self):
        def entry(name, **more):
            return {'name': name, 'sha256': hashlib.sha256(f'sk-{name}'.encode()).hexdigest(), **more}
        path = self.write('keys.json', {'keys': [entry('alice', requests_per_minute=2), entry('bob'),
                                                 entry('ops', scopes=['admin'])]})
        server = Server('--api-keys', path)
        self.addCleanup(server.stop)
        for _ in range(2):
            self.assertEqual(server.post(TEXT, BODY, bearer('sk-alice'))[0], 200)
        status, headers, answer = server.post(TEXT, BODY, bearer('sk-alice'))
        self.assertEqual((status, answer['error']['code']), (429, 'rate_limit_exceeded'))
        self.assertGreaterEqual(int(headers['Retry-After']), 1)
        self.assertEqual(server.post(TEXT, BODY, bearer('sk-bob'))[0], 200)
        self.assertEqual(server.post(TEXT, BODY, bearer('sk-eve'))[0], 401)
        self.assertEqual(server.get('/metrics', bearer('sk-bob'))[0], 403)
        status, _, text = server.get('/metrics', bearer('sk-ops'))
        self.assertEqual(status, 200)
        self.assertIn('quire_key_requests_total{key="alice"} 2', text)
        self.assertNotIn('sk-', text)
        server.stop()
        self.assertNotIn('sk-', ''.join(server.log))

    def test_what_is_wrong_is_one_clear_line(self):
        self.assertIn('keys[0]: sha256 is missing', refused('--api-keys', self.write('a', {'keys': [{'name': 'a'}]})))
        self.assertIn('cannot be read', refused('--api-keys', '/nowhere/keys.json'))
        self.assertIn('--cors-origin', refused('--cors-origin', 'example.org'))
        self.assertIn('need each other', refused('--tls-cert', 'x.pem'))
        self.assertIn('x.pem', refused('--tls-cert', 'x.pem', '--tls-key', 'y.pem'))
        self.assertIn('--admin-port', refused('--admin-host', '0.0.0.0'))


class AdminAddress(unittest.TestCase):
    def test_what_is_the_operators_answers_there_alone(self):
        server = Server('--admin-port', '0')
        self.addCleanup(server.stop)
        url = server.logged('metrics on ').split()[-1]
        self.assertEqual(server.get('/metrics')[0], 404)
        port, server.port = server.port, int(url.rsplit(':', 1)[1])
        self.assertEqual(server.get('/metrics')[0], 200)
        self.assertEqual(server.get('/health')[0], 200)
        self.assertEqual(server.post(TEXT, BODY)[0], 404)
        self.assertEqual(server.get('/metrics', {'Host': 'evil.example'})[0], 403)
        server.port = port


class Browsers(unittest.TestCase):
    def test_other_names_and_other_pages_are_refused_on_loopback(self):
        server = Server('--cors-origin', 'https://friend.example', '--allow-host', 'chat.example')
        self.addCleanup(server.stop)
        self.assertEqual(server.get('/v1/models', {'Host': 'rebound.example'})[0], 403)
        self.assertEqual(server.get('/v1/models', {'Host': 'chat.example'})[0], 200)
        self.assertEqual(server.post(TEXT, BODY, {'Origin': 'https://evil.example'})[0], 403)
        status, headers, _ = server.post(TEXT, BODY, {'Origin': 'https://friend.example'})
        self.assertEqual((status, headers['Access-Control-Allow-Origin']), (200, 'https://friend.example'))


@unittest.skipUnless(shutil.which('openssl'), 'openssl is not installed: no certificate can be made')
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cert, cls.key = certificate(cls.folder.name)
        cls.server = Server('--tls-cert', cls.cert, '--tls-key', cls.key)
        cls.trust = ssl.create_default_context(cafile=cls.cert)
        cls.trust.set_alpn_protocols(['h2', 'http/1.1'])

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def open(self):
        return self.trust.wrap_socket(socket.create_connection(('127.0.0.1', self.server.port), timeout=30),
                                      server_hostname='localhost')

    def read_reply(self, stream):
        """(status line, fields, body) of a whole answer or a chunked one."""
        file = stream.makefile('rb')
        status, fields = file.readline().decode().strip(), {}
        while (line := file.readline().decode().strip()):
            name, value = line.split(':', 1)
            fields[name.lower()] = value.strip()
        if 'content-length' in fields:
            return status, fields, file.read(int(fields['content-length']))
        body = b''
        while (size := int(file.readline(), 16)):
            body += file.read(size)
            file.readline()
        file.readline()
        return status, fields, body

    def ask(self, stream, path, body):
        data = json.dumps(body).encode()
        stream.sendall(f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                       f'Content-Length: {len(data)}\r\n\r\n'.encode() + data)
        return self.read_reply(stream)

    def test_the_url_says_so(self):
        self.assertTrue(self.server.url.startswith('https://'))

    def test_whole_and_streamed_on_one_connection(self):
        with self.open() as stream:
            self.assertIn(stream.version(), ('TLSv1.2', 'TLSv1.3'))
            self.assertEqual(stream.selected_alpn_protocol(), 'http/1.1')
            _, _, whole = self.ask(stream, TEXT, {**BODY, 'max_tokens': 40})
            _, fields, body = self.ask(stream, TEXT, {**BODY, 'max_tokens': 40, 'stream': True})
            self.assertEqual(fields['content-type'].split(';')[0], 'text/event-stream')
            lines = [line[6:] for line in body.decode().split('\n') if line.startswith('data: ')]
            self.assertEqual(lines[-1], '[DONE]')
            self.assertEqual(joined([json.loads(line) for line in lines[:-1]]), json.loads(whole)['choices'][0]['text'])

    def test_large_bodies_pass_both_ways(self):
        text = 'once upon a time ' * 20000
        with self.open() as stream:
            status, _, body = self.ask(stream, '/tokenize', {'content': text})
        self.assertIn(' 200 ', status + ' ')
        self.assertGreater(json.loads(body)['count'], 20000)

    def test_records_cut_at_every_byte(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.trust.wrap_bio(incoming, outgoing, server_hostname='localhost')
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=30) as raw:
            def until_done(step):
                while True:
                    try:
                        return step()
                    except ssl.SSLWantReadError:
                        for byte in outgoing.read():
                            raw.sendall(bytes([byte]))
                        data = raw.recv(65536)
                        self.assertTrue(data, 'the server left')
                        incoming.write(data)
            until_done(tls.do_handshake)
            tls.write(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
            self.assertIn(b'200 OK', until_done(lambda: tls.read(4096)))

    def test_the_end_is_announced(self):
        with self.open() as stream:
            stream.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            data = b''
            while (part := stream.recv(4096)):  # raises where the end comes without close_notify
                data += part
            self.assertIn(b'{"status":"ok"}', data)

    def test_what_is_no_tls_harms_nobody(self):
        with self.open() as bystander:
            for junk in (b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', b'\x16\x03\x01\xff\xff' + b'\0' * 300,
                         b'\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00', os.urandom(4000)):
                with socket.create_connection(('127.0.0.1', self.server.port), timeout=30) as raw:
                    raw.sendall(junk)
                    raw.shutdown(socket.SHUT_WR)
                    try:
                        while raw.recv(4096):
                            pass
                    except ConnectionError:
                        pass
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            with self.assertRaises((ssl.SSLError, OSError)):
                old.wrap_socket(socket.create_connection(('127.0.0.1', self.server.port), timeout=30))
            status, _, _ = self.ask(bystander, TEXT, BODY)
            self.assertIn('200', status)

    def test_leaving_cancels(self):
        def running():
            with self.open() as stream:
                stream.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
                text = self.read_reply(stream)[2].decode()
            return next(line for line in text.splitlines() if line.startswith('quire_num_requests_running '))
        stream = self.open()
        data = json.dumps({'prompt': 'x', 'max_tokens': 400, 'ignore_eos': True, 'stream': True, 'n': 8}).encode()
        stream.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                       b'Content-Length: %d\r\n\r\n' % len(data) + data)
        self.assertTrue(stream.recv(100))
        stream.close()
        self.assertTrue(eventually(lambda: running() == 'quire_num_requests_running 0'))

    def test_another_key_is_refused(self):
        other = os.path.join(self.folder.name, 'other.pem')
        subprocess.run(['openssl', 'ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', other], check=True,
                       capture_output=True)
        self.assertIn('cannot read the TLS key', refused('--tls-cert', self.cert, '--tls-key', other))


if __name__ == '__main__':
    unittest.main()
