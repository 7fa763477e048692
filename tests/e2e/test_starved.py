# A server that is stopped (SIGSTOP) for longer than each of its timeouts, while its clients speak and read: none is closed
# without an answer for it. It stands for a server that gets no processor. src/http/server_starved_test.cc has the same by
# a clock that is moved, and what a client may not do.
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import tempfile
import time
import unittest

from quire_server import Server, certificate

TIMEOUT_MS, STOPPED_S = 8000, 10
LIMITS = [part for name in ('header_timeout_ms', 'body_timeout_ms', 'idle_timeout_ms', 'stall_timeout_ms', 'write_timeout_ms')
          for part in ('--limit', f'{name}={TIMEOUT_MS}')]
GET = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
BODY = json.dumps({'prompt': 'Once upon a time', 'max_tokens': 8, 'temperature': 0}).encode()
POST = (f'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n'
        ).encode() + BODY
LARGE = json.dumps({'content': 'a' * 100_000}).encode()


class Client:
    """A connection; its TLS, if it has any, goes on when it is told to."""

    def __init__(self, port, tls, receive_buffer=None):
        self.socket = socket.socket()
        self.socket.settimeout(120)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(('127.0.0.1', port))
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket, do_handshake_on_connect=False)
            self.socket.setblocking(False)

    def greet(self):
        """What there is of the handshake to do now."""
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self

    def finish_greeting(self):
        self.socket.settimeout(120)
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.do_handshake()
        return self

    def say(self, data):
        self.socket.settimeout(120)
        self.socket.sendall(data)
        return self

    def read_what_is_there(self):
        self.socket.settimeout(0.5)
        out = b''
        try:
            while data := self.socket.recv(1 << 16):
                out += data
        except TimeoutError:
            self.socket.settimeout(120)
        return out

    def status(self):
        """Of the next answer, which is read whole."""
        self.socket.settimeout(120)
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        response.read()
        return response.status


class Starved(unittest.TestCase):
    def serve(self, *options):
        self.server = Server(*LIMITS, *options)
        self.addCleanup(self.server.stop)

    def tls(self):
        if not shutil.which('openssl'):
            self.skipTest('no openssl here, which makes the certificate')
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = certificate(folder.name)
        return '--tls-cert', cert, '--tls-key', key

    def while_stopped(self, meanwhile):
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            meanwhile()
            time.sleep(STOPPED_S)
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)

    def client(self, tls=False, **how):
        client = Client(self.server.port, tls, **how)
        self.addCleanup(client.socket.close)
        return client

    def test_requests_in_each_state(self):
        self.serve('--limit', 'send_buffer_bytes=4096', '--limit', 'out_bytes=65536')
        silent, head, body, whole, kept = (self.client() for _ in range(5))
        reader = self.client(receive_buffer=4096)
        reader.say(f'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(LARGE)}\r\n\r\n'
                   .encode() + LARGE)
        self.assertEqual(reader.socket.recv(1, socket.MSG_PEEK), b'H')  # its answer has begun, and is more than fits
        head.say(POST[:30])
        body.say(POST[:-10])
        whole.say(POST)
        self.assertEqual(kept.say(GET).status(), 200)

        def meanwhile():
            silent.say(GET)
            head.say(POST[30:])
            body.say(POST[-10:])
            kept.say(GET)
            self.late = self.client().say(GET)
            self.read = reader.read_what_is_there()
        self.while_stopped(meanwhile)
        while not self.read.endswith(b']}'):  # the whole answer
            more = reader.socket.recv(1 << 16)
            self.assertNotEqual(more, b'', 'it was cut')
            self.read += more
        self.assertEqual(self.read[:12], b'HTTP/1.1 200')
        for client in (silent, head, body, whole, kept, self.late):
            self.assertEqual(client.status(), 200)

    def test_handshakes_in_each_state(self):
        self.serve(*self.tls())
        silent, begun, greeted, asking = (self.client(tls=True) for _ in range(4))
        begun.greet()
        greeted.finish_greeting()
        asking.finish_greeting().say(GET[:20])
        time.sleep(0.3)  # the server has said its part to who has begun

        def meanwhile():
            silent.greet()
            begun.greet()
            greeted.say(GET)
            asking.say(GET[20:])
            self.late = self.client(tls=True).greet()
        self.while_stopped(meanwhile)
        for client in (silent, begun, self.late):
            client.finish_greeting().say(GET)
        for client in (silent, begun, greeted, asking, self.late):
            self.assertEqual(client.status(), 200)


if __name__ == '__main__':
    unittest.main()
