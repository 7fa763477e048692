# A `quire serve` process for tests, and a small HTTP client of the standard library to talk to it.
import http.client
import http.server
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get('QUIRE_SHARED') or os.path.join(ROOT, '..', 'shared')
STORIES = os.path.join(SHARED, 'data', 'models', 'stories260K')
BUNDLED = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, too: programs started here are hung up on


def binary():
    return os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')


def quire(*arguments):
    """One command to its end, in the project's folder."""
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
                          stdin=subprocess.DEVNULL)


def model():
    """The model that tests run on: QUIRE_TEST_MODEL, else the bundled one, else a small trained one where the shared data
    is, else one of random weights made on the spot."""
    for path in (os.environ.get('QUIRE_TEST_MODEL'), BUNDLED, os.path.join(STORIES, 'stories260K.gguf')):
        if path and os.path.exists(path):
            return os.path.abspath(path)
    path = os.path.join(ROOT, 'build', 'models', 'tiny-random.gguf')
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'make_model.py'), '--shape', 'tiny', '--seed', '1',
                        '--out', path], check=True)
    return path


def quill():
    """Whether tests run on the bundled model."""
    return os.path.basename(model()).startswith('quill')


def prompt():
    """One that the model answers at some length."""
    return '<|user|>Tell me a story about a fox.<|end|><|assistant|>' if quill() else 'Once upon a time'


def expected():
    """What the model must say in float32 by a float64 reference: cases of expected.json beside it, [] where there is none."""
    path = os.path.join(os.path.dirname(model()), 'expected.json')
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8') as f:
        variants = json.load(f)['variants']
    return variants.get(os.path.basename(model()), variants.get('f32') if model().startswith(STORIES) else None) or []


def certificate(folder, names='DNS:localhost,IP:127.0.0.1'):
    """The files of a certificate of these names and of its key, made with openssl."""
    fd, cert = tempfile.mkstemp('.cert.pem', dir=folder)
    os.close(fd)
    key = cert.replace('.cert.', '.key.')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
                    '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=quire', '-addext',
                    f'subjectAltName={names}'], check=True, capture_output=True)
    return cert, key


class Server:
    """Runs until stop(); `options` as on the command line. Raises RuntimeError where it does not come up."""

    def __init__(self, *options, path=None, timeout=60):
        self.start(['serve', path or model(), '--port', '0', *options], timeout)

    def start(self, arguments, timeout, command=None, **more):
        """`command` in place of the program with the arguments; `more` is for the process."""
        self.process = subprocess.Popen(command or [binary(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, **more)
        self.log = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        killer = threading.Timer(timeout, self.process.kill)
        killer.start()
        line = self.process.stdout.readline()
        killer.cancel()
        if not line.startswith(('listening on http://', 'listening on https://')):
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f'no server: {line!r}\n' + ''.join(self.log))
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(':', 1)[1])

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def logged(self, text):
        """The first line of the log with `text`, which another thread reads and which may come later than its cause."""
        if not eventually(lambda: any(text in line for line in self.log)):
            raise AssertionError(f'no line of the log has {text!r}:\n' + ''.join(self.log))
        return next(line for line in self.log if text in line)

    def stop(self, timeout=60):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def connect(self, timeout=60):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, parsed JSON or text)"""
        connection = self.connect()
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, {'Content-Type': 'application/json', **(headers or {})})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        is_json = response.getheader('Content-Type', '').startswith('application/json')
        return response.status, response.headers, json.loads(text) if is_json else text

    def post(self, path, body, headers=None):
        return self.request('POST', path, body, headers)

    def get(self, path, headers=None):
        return self.request('GET', path, None, headers)

    def events(self, path, body, on_event=None):
        """The data of each event of a streamed answer, as it comes; parsed, but for "[DONE]"."""
        connection = self.connect()
        connection.request('POST', path, json.dumps({**body, 'stream': True}), {'Content-Type': 'application/json'})
        response = connection.getresponse()
        out = []
        if response.status != 200:
            raise RuntimeError(f'{response.status}: {response.read().decode()}')
        for line in response:
            line = line.decode().rstrip('\n')
            if not line.startswith('data: '):
                continue
            out.append(line[6:] if line == 'data: [DONE]' else json.loads(line[6:]))
            if on_event and on_event(out[-1]) is False:
                break
        connection.close()
        return out

    def metric(self, name):
        """The sum over a metric's series."""
        text = self.get('/metrics')[2]
        values = [line.rsplit(' ', 1)[1] for line in text.splitlines()
                  if line.startswith(name) and line[len(name)] in ' {']
        return sum(float(v) for v in values)


class Router(Server):
    """`quire route` before workers at these URLs."""

    def __init__(self, urls, *options, timeout=60):
        workers = [part for url in urls for part in ('--worker', url)]
        self.start(['route', '--port', '0', *workers, *options], timeout)

    def workers(self):
        """What it knows of each worker, by name."""
        return {w['name']: w for w in self.get('/workers')[2]['workers']}

    def wait_for(self, n):
        """Until so many workers may be given requests."""
        return eventually(lambda: sum(w['usable'] for w in self.workers().values()) == n)


class ServerCase(unittest.TestCase):
    """One server, started with `options`, for all tests of a class."""
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()


class LocalServer:
    """What a program under test talks to, with a handler of the standard library; `url` is its address."""

    def listen(self, handler):
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def golden_folders():
    """The golden models, each as its folder, or as the GGUF file in it where that is all there is."""
    models = os.path.join(ROOT, 'build', 'golden', 'models')
    folders = [os.path.join(models, name) for name in sorted(os.listdir(models)) if os.path.isdir(os.path.join(models, name))]
    return [f if os.path.exists(os.path.join(f, 'config.json')) else os.path.join(f, 'model.gguf') for f in folders]


def eventually(condition, timeout=20):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def open_terminal():
    """A pseudo-terminal: what a person would hold, and what a program is given. Skips the test where there is none to be had."""
    try:
        return pty.openpty()
    except OSError as e:
        raise unittest.SkipTest(f'no pseudo-terminal: {e} (is /dev/pts mounted?)') from None


def joined(events, index=0):
    """The text of one choice of a stream."""
    out = ''
    for event in events:
        if event == '[DONE]':
            continue
        for choice in event['choices']:
            if choice['index'] == index:
                out += choice.get('text') or choice.get('delta', {}).get('content') or ''
    return out


def changed_adapter(source, folder, **changed):
    """A copy of a PEFT folder in `folder`, under the same name, with other values in its adapter_config.json."""
    copy = os.path.join(folder, os.path.basename(source))
    shutil.copytree(source, copy)
    path = os.path.join(copy, 'adapter_config.json')
    with open(path, encoding='utf-8') as f:
        config = json.load(f)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump({**config, **changed}, f)
    return copy
