# The chat page in a real browser: headless Chromium through its WebDriver, driven by scripts that run where selenium is.
# PageCase talks to the program with the bundled model, PlayedCase to a server of this file that says what a test tells
# it to, when it tells it to: thinking, pauses, cut connections.
import json
import os
import shutil
import subprocess
import threading
import unittest
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlparse

from client_packages import PYTHON, ClientCase, missing
from quire_server import ROOT, LocalServer

FOLDER = os.path.join(ROOT, 'src', 'serve', 'page')
WANTED = 'selenium>=4.20'

HEAD = '''
import json, os, time, urllib.request
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

URL = "{url}"
options = webdriver.ChromeOptions()
for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,800"):
    options.add_argument(argument)
options.add_experimental_option("prefs", {"download.default_directory": "{downloads}"})
options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
page = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
page.set_script_timeout(60)
by = lambda selector: page.find_element(By.CSS_SELECTOR, selector)
every = lambda selector: page.find_elements(By.CSS_SELECTOR, selector)
wait = lambda condition: WebDriverWait(page, 60, 0.05, [StaleElementReferenceException]).until(lambda _: condition())
shown = lambda selector: any(e.is_displayed() for e in every(selector))
js = page.execute_script
def ask(text):
    by("#input").send_keys(text + Keys.ENTER)
def done():
    wait(lambda: not shown("#stop") and every("#log .assistant .again"))
def texts(selector):
    return js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)
def click(selector):
    wait(lambda: shown(selector) and (by(selector).click() or True))
def named(label):
    return by(f'[aria-label="{label}"]')
def set_value(selector, value):
    field = by(selector)
    field.clear()
    field.send_keys(str(value) + Keys.TAB)
def settings(**values):
    click("#show-settings")
    for name, value in values.items():
        set_value("#" + name, value)
    click("#settings .close")
def release():  # of a played server: one gate
    urllib.request.urlopen(urllib.request.Request(URL + "/release", method="POST")).read()
def load():
    page.get(URL + "/")
    wait(lambda: "context" in by("#model").text)
try:
    load()
'''
TAIL = '''
    bad = [e for e in page.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    assert not bad, bad
finally:
    page.quit()
'''


def why_not():
    if not shutil.which('chromium') or not shutil.which('chromedriver'):
        return 'no browser: chromium and chromium-driver are not installed'
    return missing(WANTED)


def run_page(url, script, downloads='/nonexistent'):
    """`script` in the browser at `url`: what it prints; fails with what it says."""
    body = '\n'.join('    ' + line for line in script.strip().split('\n'))
    head = HEAD.replace('{url}', url).replace('{downloads}', downloads)
    done = subprocess.run([PYTHON, '-c', head + body + TAIL], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class PageCase(ClientCase):
    wanted = WANTED

    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def run_page(self, script, **more):
        return run_page(self.server.url, script, **more)


class Stream:
    """One played answer: its events so far, and who reads them."""

    def __init__(self):
        self.events, self.over, self.readers = [], False, 0

    def delta(self, **delta):
        self.say({'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})

    def say(self, data):
        text = data if isinstance(data, str) else json.dumps(data)
        self.events.append(f'id: {len(self.events) + 1}\ndata: {text}\n\n')


class Played(LocalServer):
    """`answers`: the last message to a list of steps: ('think', text), ('text', text), ('guessed', text, places of guessed tokens,
    characters so far), 'gate' (waits for a release), 'cut' (the connection breaks; the answer goes on), ('error', text). What was
    asked is in `asked`, streams that were ended in `ended`."""

    def __init__(self, answers):
        self.answers, self.asked, self.ended, self.streams = answers, [], [], {}
        self.lock = threading.Condition()
        self.released = 0
        outer = self

        class Handler(PlayedHandler):
            played = outer
        self.listen(Handler)

    def play(self, stream, steps):
        for step in steps:
            with self.lock:
                if step == 'gate':
                    self.lock.wait_for(lambda: self.released > 0 or stream.over)
                    self.released = max(0, self.released - 1)
                elif step == 'cut':
                    stream.readers += 1
                elif step[0] == 'think':
                    stream.delta(reasoning_content=step[1])
                elif step[0] == 'text':
                    stream.delta(content=step[1])
                elif step[0] == 'guessed':
                    stream.say({'choices': [{'index': 0, 'delta': {'content': step[1]}, 'finish_reason': None, 'text_length': step[3],
                                             'accepted': [{'text_offset': at, 'length': n} for at, n in step[2]]}]})
                elif step[0] == 'error':
                    stream.events.append(f'id: {len(stream.events) + 1}\nevent: error\ndata: ' +
                                         json.dumps({'error': {'message': step[1]}}) + '\n\n')
                if stream.over:
                    return
                self.lock.notify_all()
        with self.lock:
            stream.say({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})
            stream.say({'choices': [], 'usage': {'prompt_tokens': 40, 'completion_tokens': 20,
                                                 'prompt_tokens_details': {'cached_tokens': 30},
                                                 'completion_tokens_details': {'accepted_prediction_tokens': 7}}})
            stream.say('[DONE]')
            stream.over = True
            self.lock.notify_all()


class PlayedHandler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def say(self, body, kind='application/json', status=200):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def file(self, name):
        kinds = {'js': 'text/javascript', 'css': 'text/css', 'html': 'text/html; charset=utf-8'}
        with open(os.path.join(FOLDER, name), 'rb') as f:
            self.say(f.read(), kinds[name.rsplit('.', 1)[1]])

    def tell(self, stream, name, after):
        """Events behind number `after`, until the answer is over or another connection has it."""
        self.send_response(200)
        for header in (('Content-Type', 'text/event-stream'), ('x-quire-stream', name), ('x-quire-stream-secret', 's'),
                       ('Connection', 'close')):
            self.send_header(*header)
        self.end_headers()
        with self.played.lock:
            stream.readers += 1
            mine = stream.readers
        self.close_connection = True
        while True:
            with self.played.lock:
                self.played.lock.wait_for(lambda: len(stream.events) > after or stream.over or stream.readers != mine)
                events, over = stream.events[after:], stream.over
                if stream.readers != mine and not events:
                    return
            for event in events:
                self.wfile.write(event.encode())
            self.wfile.flush()
            after += len(events)
            if over or stream.readers != mine:
                return

    def do_GET(self):
        path = urlparse(self.path).path
        played = self.played
        if path == '/':
            return self.file('index.html')
        if path.startswith('/page/'):
            return self.file(os.path.basename(path))
        if path == '/v1/models':
            return self.say({'data': [{'id': 'played', 'max_model_len': 4096}]})
        if path.startswith('/v1/streams/'):
            name = path.rsplit('/', 1)[1]
            if name not in played.streams or self.headers['x-quire-stream-secret'] != 's':
                return self.say({'error': {'message': 'no such stream'}}, status=404)
            return self.tell(played.streams[name], name, int(self.headers['Last-Event-ID']))
        return self.say({})

    def do_DELETE(self):
        name = self.path.rsplit('/', 1)[1]
        with self.played.lock:
            self.played.ended.append(name)
            self.played.streams[name].over = True
            self.played.lock.notify_all()
        self.say({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        played = self.played
        if self.path == '/release':
            with played.lock:
                played.released += 1
                played.lock.notify_all()
            return self.say({})
        if self.path == '/forget':
            with played.lock:
                played.streams = {f'forgotten {name}': stream for name, stream in played.streams.items()}
            return self.say({})
        request = json.loads(body)
        with played.lock:
            played.asked.append(request['messages'])
            name = f's{len(played.streams)}'
            stream = played.streams[name] = Stream()
        steps = played.answers.get(request['messages'][-1]['content'], [('text', 'Yes.')])
        threading.Thread(target=played.play, args=(stream, steps), daemon=True).start()
        return self.tell(stream, name, 0)


class PlayedCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)

    def play(self, answers, script, **more):
        """Runs `script` against a server that answers so; the server, for what it was asked."""
        played = Played(answers)
        try:
            run_page(played.url, script, **more)
        finally:
            with played.lock:
                for stream in played.streams.values():
                    stream.over = True
                played.lock.notify_all()
            played.__exit__()
        return played
