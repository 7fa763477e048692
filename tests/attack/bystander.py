# Who must not notice: a client that streams one answer after the other at temperature 0, compares each with what it said when
# the server was quiet, and takes down when each event came; and one that asks /health on connections of its own.
import http.client
import json
import ssl
import threading
import time

PROMPTS = ['Once upon a time', 'A fox met a crow and', 'The recipe for bread is', 'One two three four']
MAX_TOKENS = 160


def quantile(values, share):
    """0 where there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def body_of(i):
    return json.dumps({'prompt': PROMPTS[i % len(PROMPTS)], 'max_tokens': MAX_TOKENS, 'temperature': 0, 'ignore_eos': True,
                       'logprobs': 2, 'stream': True})


class Refused(Exception):
    pass


class Watch:
    """What was seen within a span of time. Seconds."""

    def __init__(self):
        self.gaps, self.first, self.pings, self.n_streams, self.refused, self.wrong = [], [], [], 0, {}, []

    def moves(self):
        return bool(self.gaps or self.first or self.refused)

    def p99_ms(self):
        return quantile(self.gaps, 0.99) * 1e3


class Bystander:
    def __init__(self, port, key, tls=False):
        self.port, self.key = port, key
        self._context = ssl._create_unverified_context() if tls else None
        self.right = {}  # what each prompt's answer is, once it is known
        self.watch = Watch()
        self._end = threading.Event()
        self._threads = []

    def connect(self):
        if self._context:
            return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=120, context=self._context)
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)

    def stream(self, i):
        """Streams one answer: what it says, however its tokens were cut into events."""
        begun, last = time.monotonic(), None
        connection = self.connect()
        try:
            connection.request('POST', '/v1/completions', body_of(i),
                               {'Content-Type': 'application/json', 'Authorization': f'Bearer {self.key}'})
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(f'{response.status} {json.loads(response.read())["error"].get("code")}')
            said, end = [], None
            for line in response:
                if not line.startswith(b'data: '):
                    if line.startswith(b'event: error'):
                        raise Refused('an error in the stream')
                    continue
                now = time.monotonic()
                if last is None:
                    self.watch.first.append(now - begun)
                else:
                    self.watch.gaps.append(now - last)
                last = now
                if line == b'data: [DONE]\n':
                    end = 'done'
                    continue
                for choice in json.loads(line[6:])['choices']:
                    logprobs = choice.get('logprobs') or {}
                    said.append((choice['text'], logprobs.get('tokens'), logprobs.get('token_logprobs'),
                                 logprobs.get('top_logprobs'), choice['finish_reason']))
            return joined(said), end
        finally:
            connection.close()

    def learn(self):
        """What is right: each prompt's answer twice, on a quiet server."""
        for i in range(len(PROMPTS)):
            self.right[i] = self.stream(i)
            if self.stream(i) != self.right[i] or self.right[i][1] != 'done':
                raise RuntimeError('the quiet server does not say the same twice')
        self.watch = Watch()

    def start(self):
        self._threads = [threading.Thread(target=self._stream_on, daemon=True), threading.Thread(target=self._ping, daemon=True)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join(130)

    def take(self):
        """What was seen since the last time."""
        seen, self.watch = self.watch, Watch()
        return seen

    def _stream_on(self):
        i = 0
        while not self._end.is_set():
            i = (i + 1) % len(PROMPTS)
            try:
                same = self.stream(i) == self.right[i]
                self.watch.n_streams += 1
                if not same:
                    self.watch.wrong.append(f'prompt {i} got another answer')
            except Refused as refused:
                self.watch.refused[str(refused)] = self.watch.refused.get(str(refused), 0) + 1
                time.sleep(0.2)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not self._end.is_set():
                    self.watch.wrong.append(f'prompt {i} was cut: {error!r}')
                time.sleep(0.2)

    def _ping(self):
        while not self._end.wait(0.05):
            begun = time.monotonic()
            connection = self.connect()
            try:
                connection.request('GET', '/health')
                if connection.getresponse().status != 200:
                    raise OSError('not healthy')
                self.watch.pings.append(time.monotonic() - begun)
            except (OSError, http.client.HTTPException) as error:
                if not self._end.is_set():
                    self.watch.wrong.append(f'/health: {error!r}')
            finally:
                connection.close()


def joined(said):
    """Text and lists of several events as one."""
    text, tokens, logprobs, top, ends = '', [], [], [], []
    for part in said:
        text += part[0]
        tokens += part[1] or []
        logprobs += part[2] or []
        top += part[3] or []
        ends += [part[4]] if part[4] else []
    return json.dumps([text, tokens, logprobs, top, ends])
