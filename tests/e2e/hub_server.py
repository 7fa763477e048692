# A hub for tests that behaves as Hugging Face's does: revisions, listings by pages, large files by a redirect to a second
# server, ranges, gated repositories; and one that misbehaves, as each test wants it.
import hashlib
import http.server
import json
import threading
import urllib.parse

COMMIT = 'c0ffee' * 6 + 'c0ff'
LARGE = 4096  # bytes from which a file is behind a redirect, with a SHA-256


def git_sha1(data):
    return hashlib.sha1(b'blob %d\0' % len(data) + data).hexdigest()


def entry(path, data):
    """One line of a listing, as the hub writes it."""
    out = {'type': 'file', 'oid': git_sha1(data), 'size': len(data), 'path': path}
    if len(data) >= LARGE:
        out['oid'] = git_sha1(b'version 1 of a pointer')
        out['lfs'] = {'oid': hashlib.sha256(data).hexdigest(), 'size': len(data), 'pointerSize': 135}
    return out


class Answer:
    """What is sent once in place of the file: the first `n_bytes` of `data` with the headers of all of it; then the
    connection ends, once the event `wait` is set."""

    def __init__(self, status=200, data=b'', n_bytes=None, headers=None, wait=None):
        self.status, self.data, self.n_bytes, self.headers, self.wait = status, data, n_bytes, headers or {}, wait


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    hub = None
    is_store = False  # the second server

    def log_message(self, *_):
        pass

    def say(self, answer):
        data = answer.data
        self.send_response(answer.status)
        headers = {'Content-Length': str(len(data)), **answer.headers}
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data if answer.n_bytes is None else data[:answer.n_bytes])
        if answer.n_bytes is not None or headers['Content-Length'] is None:
            self.close_connection = True
        if answer.wait:
            answer.wait.wait(60)

    def say_json(self, value, headers=None):
        self.say(Answer(200, json.dumps(value).encode(), headers={'Content-Type': 'application/json', **(headers or {})}))

    def say_file(self, data):
        """All of it, or what was asked for."""
        asked = self.headers.get('Range')
        if asked is None or not self.hub.ranges:
            return self.say(Answer(200, data, headers={'ETag': '"%s"' % hashlib.sha256(data).hexdigest()}))
        begin = int(asked.removeprefix('bytes=').removesuffix('-'))
        if begin >= len(data):
            return self.say(Answer(416, headers={'Content-Range': f'bytes */{len(data)}'}))
        of = f'bytes {begin}-{len(data) - 1}/{len(data)}'
        return self.say(Answer(206, data[begin:], headers={'Content-Range': of}))

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.hub.requests.append((self.is_store, self.path, dict(self.headers)))
        waiting = self.hub.answers.get(path.rsplit('/', 1)[-1] if '/resolve/' in path or self.is_store else path)
        if waiting and (self.is_store or not self.is_behind_redirect(path)):
            return self.say(waiting.pop(0))
        if self.is_store:
            return self.say_file(self.hub.stored[path])
        if path.startswith('/api/models/'):
            return self.answer_api(path.removeprefix('/api/models/'))
        return self.answer_resolve(path)

    def is_behind_redirect(self, path):
        name = path.split('/resolve/' + COMMIT + '/')[-1]
        return '/resolve/' in path and len(self.hub.files.get(name, b'')) >= LARGE

    def answer_api(self, path):
        org, name, what, revision = path.split('/', 3)
        if f'{org}/{name}' != self.hub.repo:
            return self.say(Answer(401, headers={'X-Error-Message': 'Invalid username or password.'}))
        if self.hub.private and self.headers.get('Authorization') != 'Bearer ' + self.hub.token:
            return self.say(Answer(401, headers={'X-Error-Message': 'Repository not found'}))
        if revision not in ('main', 'refs/pr/1', 'v1.1', COMMIT):
            return self.say(Answer(404, headers={'X-Error-Message': 'Invalid rev id'}))
        if what == 'revision':
            return self.say_json({'id': self.hub.repo, 'sha': COMMIT, 'siblings': []})
        if self.hub.listing is not None:
            return self.say(Answer(200, self.hub.listing))
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        begin = int(query.get('cursor', ['0'])[0])
        entries = [{'type': 'directory', 'oid': '0' * 40, 'size': 0, 'path': 'folder'}]
        entries += [entry(name, data) for name, data in self.hub.files.items()]
        headers = {}
        if begin + self.hub.page < len(entries):
            # As the hub does it: a whole address, which need not be the one that was asked.
            headers['Link'] = (f'<http://elsewhere.invalid/api/models/{self.hub.repo}/tree/{COMMIT}?recursive=true'
                               f'&cursor={begin + self.hub.page}>; rel="next"')
        return self.say_json(entries[begin:begin + self.hub.page], headers)

    def answer_resolve(self, path):
        name = path.removeprefix(f'/{self.hub.repo}/resolve/{COMMIT}/')
        if name not in self.hub.files:
            return self.say(Answer(404, headers={'X-Error-Message': 'Entry not found'}))
        if self.hub.gated and self.headers.get('Authorization') != 'Bearer ' + self.hub.token:
            status = 401 if 'Authorization' not in self.headers else 403
            return self.say(Answer(status, headers={'X-Error-Message': 'Access to model is restricted.'}))
        data = self.hub.files[name]
        if len(data) < LARGE:
            return self.say_file(data)
        where = '/' + hashlib.sha256(data).hexdigest() + '/' + name.rsplit('/', 1)[-1]
        self.hub.stored[where] = data
        return self.say(Answer(302, headers={'Location': self.hub.store_url + urllib.parse.quote(where),
                                             'X-Linked-ETag': '"%s"' % hashlib.sha256(data).hexdigest(),
                                             'X-Linked-Size': str(len(data)), 'X-Repo-Commit': COMMIT}))


class Hub:
    """`files`: path -> bytes of the repository `repo`. `answers`: path of the API or name of a file -> what is sent in
    place of it, one after the other. `requests`: (to the second server?, path, headers) of all that came. `tls`: an SSL
    context for each of the two servers, or None."""

    def __init__(self, files, repo='org/model', tls=(None, None)):
        self.files, self.repo, self.tls = files, repo, tls
        self.ranges, self.private, self.gated, self.page = True, False, False, 2
        self.token, self.listing = 'hf_secret', None
        self.answers, self.requests, self.stored = {}, [], {}

    def __enter__(self):
        self.servers = []
        for is_store in (False, True):
            handler = type('HubHandler', (Handler,), {'hub': self, 'is_store': is_store})
            server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
            server.daemon_threads = True
            if self.tls[is_store]:
                server.socket = self.tls[is_store].wrap_socket(server.socket, server_side=True)
            server.handle_error = lambda *_: None  # clients that leave are what is tested
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            self.servers.append((server, thread))
        self.url, self.store_url = (f'http{"s" if tls else ""}://127.0.0.1:{server.server_port}'
                                    for (server, _), tls in zip(self.servers, self.tls))
        return self

    def __exit__(self, *_):
        for server, thread in self.servers:
            server.shutdown()
            thread.join()
            server.server_close()

    def asked_for(self, name):
        """The headers of every request for a file's bytes."""
        return [headers for is_store, path, headers in self.requests
                if path.endswith('/' + name) and (is_store or len(self.files[name]) < LARGE)]
