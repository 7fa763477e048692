# Hostile traffic: one request in twenty is bad, in every way of the list below, and nobody else notices: the other
# streams say what they say on a quiet server, bit for bit, bad requests are refused, and afterwards nothing is held.
import concurrent.futures
import glob
import http.client
import json
import os
import random
import re
import socket
import unittest

from quire_server import ROOT, Server, ServerCase, eventually

TEXT = '/v1/completions'
CHAT = '/v1/chat/completions'
DEEP = '[' * 100000 + ']' * 100000


def post(path, body, **fields):
    """A request as bytes, however wrong."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = {'Host': 'localhost', 'Content-Type': 'application/json', 'Content-Length': str(len(data)), **fields}
    return (f'POST {path} HTTP/1.1\r\n' + ''.join(f'{k}: {v}\r\n' for k, v in head.items()) + '\r\n').encode() + data


def text(**fields):
    return post(TEXT, {'prompt': 'x', 'max_tokens': 4, **fields})


def chat(**fields):
    return post(CHAT, {'messages': [{'role': 'user', 'content': 'x'}], 'max_tokens': 4, **fields})


# name -> (the bytes, statuses that are right). The names are those of docs/hostile.md.
BAD = {
    'H1 a head over its limit': (b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * 20000 + b'\r\n\r\n', {431}),
    'H1 too many fields': (b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'A: b\r\n' * 200 + b'\r\n', {431}),
    'H1 a field without a colon': (b'GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n', {400}),
    'H1 a folded field': (b'GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n', {400}),
    'H1 NUL in a field': (b'GET / HTTP/1.1\r\nHost: localhost\r\nA: \0\r\n\r\n', {400}),
    'H3 a chunk of 2^64-1': (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'
                             b'ffffffffffffffff\r\nx', {400, 413}),
    'H3 a negative chunk': (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n',
                            {400}),
    'H4 two lengths': (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
                       {400}),
    'H4 length and encoding': (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n'
                               b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n', {400}),
    'H4 a signed length': (post(TEXT, b'{}', **{'Content-Length': '+2'}), {400}),
    'H5 a body over its limit': (post(TEXT, b'', **{'Content-Length': str(1 << 40)}), {413}),
    'H6 a compressed body': (post(TEXT, b'\x1f\x8b', **{'Content-Encoding': 'gzip'}), {415}),
    'H7 depth': (post(TEXT, DEEP.encode()), {400}),
    'H7 NaN': (post(TEXT, b'{"prompt":"x","temperature":NaN}'), {400}),
    'H7 1e999': (post(TEXT, b'{"prompt":"x","temperature":1e999}'), {400}),
    'H7 a duplicate key': (post(TEXT, b'{"prompt":"x","prompt":"y"}'), {400}),
    'H7 garbage behind': (post(TEXT, b'{"prompt":"x"}}'), {400}),
    'H7 bytes that are no UTF-8': (post(TEXT, b'{"prompt":"\xff\xfe"}'), {400}),
    'H11 HTTP/2': (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', {400, 505}),
    'H11 TLS on a plain port': (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\0' * 64, {400}),
    'H11 a URL of 100 KB': (b'GET /' + b'a' * 100000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n', {414, 431}),
    'H11 a path upwards': (b'GET /..%2f..%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n', {400, 404}),
    'H11 %00': (b'GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n', {400}),
    'H13 another host': (post(TEXT, {'prompt': 'x'}, Host='rebound.example'), {403}),
    'H13 another origin': (post(TEXT, {'prompt': 'x'}, Origin='https://evil.example'), {403}),
    'H14 another media type': (post(TEXT, {'prompt': 'x'}, **{'Content-Type': 'text/plain'}), {415}),
    'H14 null': (post(TEXT, b'null'), {400}),
    'H14 an array': (post(TEXT, b'[]'), {400}),
    'H16 a name that forges a log line': (text(model='a\nrequest id=1\x1b[2J'), {200, 400}),
    'P1 max_tokens -3': (text(max_tokens=-3), {400}),
    'P1 max_tokens 1.5': (text(max_tokens=1.5), {400}),
    'P1 max_tokens as text': (text(max_tokens='10'), {400}),
    'P1 max_tokens 2^63': (post(TEXT, b'{"prompt":"x","stop":["e"],"max_tokens":9223372036854775808}'), {200, 400}),
    'P2 n 10^9': (text(n=10**9), {400}),
    'P2 best_of 10^9': (text(best_of=10**9), {400}),
    'P2 n times prompts': (post(TEXT, {'prompt': ['x'] * 1000, 'n': 128}), {400}),
    'P3 logprobs 10^6': (text(logprobs=10**6), {400}),
    'P3 top_logprobs 10^6': (chat(logprobs=True, top_logprobs=10**6), {400}),
    'P4 a bias for no token': (text(logit_bias={'1000000000': 1}), {400}),
    'P4 a bias of 1e308': (text(logit_bias={'5': 1e308}), {400}),
    'P4 100000 biases': (text(logit_bias={str(i): 1 for i in range(100000)}), {400}),
    'P5 temperature -1': (text(temperature=-1), {400}),
    'P5 top_p 1.1': (text(top_p=1.1), {400}),
    'P5 top_k 2^31': (text(top_k=2**31), {400}),
    'P5 repetition_penalty 0': (text(repetition_penalty=0), {400}),
    'P6 a seed with a fraction': (text(seed=1.5), {400}),
    'P7 a prompt over the context': (post(TEXT, {'prompt': [5] * 200000}), {400}),
    'P7 a token id of none': (post(TEXT, {'prompt': [-1]}), {400}),
    'P8 n_discard -5': (text(n_discard=-5), {200, 400}),
    'P10 min_tokens over max_tokens': (text(min_tokens=5), {400}),
    'P11 10000 prompts': (post(TEXT, {'prompt': ['x'] * 10000}), {400}),
    'P13 priority out of range': (text(priority=10**6), {400}),
    'T4 an empty prompt': (text(prompt=''), {400}),
    'T6 100000 stop strings': (text(stop=['x'] * 100000), {400}),
    'T6 an empty stop string': (text(stop=''), {400}),
    'T6 a stop string of 1 MB': (text(stop='x' * (1 << 20)), {400}),
    'T7 a template': (chat(chat_template='{% for i in range(10**9) %}x{% endfor %}'), {400}),
    'T9 content null': (post(CHAT, {'messages': [{'role': 'user', 'content': None}]}), {400}),
    'T10 a reserved name': (chat(chat_template_kwargs={'messages': []}), {400}),
}
GOOD = [{'prompt': f'{i} little birds', 'seed': i, 'max_tokens': 12 + i % 7, 'temperature': (i % 3) / 2, 'logprobs': 1}
        for i in range(20)]


# limit of docs/limits.md -> a request over it, where it was set to 3 (heads and bodies: 2000)
OVER = {
    'n_choices': text(n=4),
    'n_prompts': post(TEXT, {'prompt': ['x'] * 4}),
    'n_sequences': post(TEXT, {'prompt': ['x'] * 2, 'n': 2}),
    'n_logprobs': text(logprobs=4),
    'n_logit_bias': text(logit_bias={'5': 1, '6': 1, '7': 1, '8': 1}),
    'n_allowed_ids': text(allowed_token_ids=[5, 6, 7, 8]),
    'n_bad_words': text(bad_words=['a', 'b', 'c', 'd']),
    'n_dry_breakers': text(dry_sequence_breakers=['a', 'b', 'c', 'd']),
    'n_samplers': text(samplers=['top_k', 'top_p', 'min_p', 'temperature']),
    'n_stops': text(stop=['a', 'b', 'c', 'd']),
    'stop_bytes': text(stop='abcd'),
    'n_stop_ids': text(stop_token_ids=[5, 6, 7, 8]),
    'n_messages': post(CHAT, {'messages': [{'role': 'user', 'content': 'x'}] * 4}),
    'n_parts': post(CHAT, {'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}] * 4}]}),
    'n_tools': chat(tools=[{'type': 'function', 'function': {'name': 'f'}}] * 4),
    'n_calls': post(CHAT, {'messages': [{'role': 'assistant', 'tool_calls': [{'id': 'x'}] * 4}]}),
    'n_template_kwargs': chat(chat_template_kwargs={'a': 1, 'b': 1, 'c': 1, 'd': 1}),
    'name_bytes': text(model='abcd'),
    'n_detokenize': post('/detokenize', {'tokens': [5] * 4}),
    'url_bytes': b'GET /' + b'a' * 2500 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'header_bytes': b'GET / HTTP/1.1\r\nHost: localhost\r\nA: ' + b'a' * 2500 + b'\r\n\r\n',
    'body_bytes': post(TEXT, b'', **{'Content-Length': '2500'}),
    'n_headers': b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'A: b\r\n' * 12 + b'\r\n',
}


def answer_to(port, data, until=b'"code"'):
    """What the server answers, up to the part that holds `until` or the end."""
    with socket.create_connection(('127.0.0.1', port), timeout=60) as s:
        try:
            s.sendall(data)
        except OSError:
            pass  # refused before all of it was sent
        answer = b''
        while until not in answer and (part := s.recv(65536)):
            answer += part
    return answer


def status_of(port, data):
    """The status of the first answer."""
    answer = answer_to(port, data, b'\r\n')
    return int(answer.split()[1]) if answer.startswith(b'HTTP/') else None


def flat(events):
    """The same however the tokens were cut into events."""
    text_of, tokens, logprobs, ends = '', [], [], []
    for event in events:
        if event == '[DONE]':
            ends.append(event)
            continue
        for choice in event['choices']:
            text_of += choice['text']
            of = choice.get('logprobs') or {}
            tokens += of.get('tokens') or []
            logprobs += of.get('token_logprobs') or []
            ends += [choice['finish_reason']] if choice['finish_reason'] else []
    return text_of, tokens, logprobs, ends


class Page(unittest.TestCase):
    def test_names_tests_that_exist(self):
        there = set()
        for folder in ('src', 'tests'):
            for path in glob.glob(os.path.join(ROOT, folder, '**', '*test*'), recursive=True):
                if path.endswith('.cc'):
                    with open(path, encoding='utf-8') as f:
                        there |= {'.'.join(m) for m in re.findall(r'TEST(?:_[FP])?\((\w+), (\w+)\)', f.read())}
                elif path.endswith('.py'):
                    with open(path, encoding='utf-8') as f:
                        for part in re.split(r'^class ', f.read(), flags=re.M)[1:]:
                            there |= {part.split('(')[0] + '.' + name for name in re.findall(r'def (test_\w+)', part)}
        named = []
        for page, n_at_least in (('hostile.md', 30), ('limits.md', 8), ('threat-model.md', 8)):
            with open(os.path.join(ROOT, 'docs', page), encoding='utf-8') as f:
                on_it = re.findall(r'`([A-Z]\w+\.[\w*]+)`', f.read())
            self.assertGreater(len(on_it), n_at_least, page)
            named += on_it
        for name in named:
            pattern = re.compile(name.replace('.', r'\.').replace('*', '.*') + '$')
            self.assertTrue(any(pattern.match(one) for one in there), name)

    def test_every_kind_here_is_on_it(self):
        with open(os.path.join(ROOT, 'docs', 'hostile.md'), encoding='utf-8') as f:
            page = f.read()
        for group in {name.split()[0] for name in BAD if name[0] in 'HPSR'}:
            self.assertRegex(page, rf'\b{group}\b')


class Limits(unittest.TestCase):
    def test_each_is_named_with_its_value(self):
        values = {name: 2000 if name.endswith('bytes') and name not in ('stop_bytes', 'name_bytes') else 3 for name in OVER}
        values.update(n_headers=10, n_choices=3)
        for name, data in OVER.items():
            with self.subTest(name):
                server = Server('--limit', f'{name}={values[name]}')
                try:
                    answer = answer_to(server.port, data).decode()
                finally:
                    server.stop()
                self.assertRegex(answer.split('\r\n')[0], ' 4\\d\\d ')
                self.assertIn(f'({name})', answer)
                self.assertIn(str(values[name]), answer)


class Hostile(ServerCase):
    options = ('--max-seqs', '16')

    def held(self):
        """Descriptors, sequences, blocks that sequences hold."""
        return (len(os.listdir(f'/proc/{self.server.process.pid}/fd')), self.server.metric('quire_num_requests_running'),
                self.server.metric('quire_num_requests_waiting'), self.server.metric('quire_kv_cache_usage_perc'))

    def resident_kib(self):
        with open(f'/proc/{self.server.process.pid}/status', encoding='utf-8') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS:'))

    def test_each_kind_is_refused(self):
        for name, (data, right) in BAD.items():
            with self.subTest(name):
                self.assertIn(status_of(self.server.port, data), right)
        self.assertEqual(self.server.get('/health')[0], 200)
        self.assertFalse([line for line in self.server.log if line.startswith('request id=1')])

    def test_one_in_twenty_is_bad_and_nobody_notices(self):
        quiet = [flat(self.server.events(TEXT, body)) for body in GOOD]
        for body, before in zip(GOOD, quiet):
            self.assertEqual(flat(self.server.events(TEXT, body)), before)
        before, before_kib = self.held(), self.resident_kib()
        order = random.Random(7)
        kinds = list(BAD.items())
        jobs = [('good', i % len(GOOD)) for i in range(19 * 32)] + [('bad', order.randrange(len(kinds))) for _ in range(32)]
        order.shuffle(jobs)

        def run(job):
            kind, i = job
            if kind == 'good':
                return kind, i, flat(self.server.events(TEXT, GOOD[i]))
            return kind, i, status_of(self.server.port, kinds[i][1][0])

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for kind, i, got in pool.map(run, jobs):
                if kind == 'good':
                    self.assertEqual(got, quiet[i])
                else:
                    self.assertIn(got, kinds[i][1][1], kinds[i][0])
        self.assertEqual(self.server.get('/ready')[0], 200)
        # The first look may have counted a connection that was just closing.
        self.assertTrue(eventually(lambda: all(now <= then for now, then in zip(self.held(), before))),
                        f'{before} before, {self.held()} now')
        self.assertLess(self.resident_kib(), before_kib + 64 * 1024)
        self.assertGreater(self.server.metric('quire_rejected_total'), 0)

    def test_a_storm_of_cancels_leaves_nothing(self):
        before = self.held()
        body = json.dumps({'prompt': 'x', 'max_tokens': 200, 'ignore_eos': True, 'stream': True})

        def cancel(_):
            connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=60)
            connection.request('POST', TEXT, body, {'Content-Type': 'application/json'})
            connection.close()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(cancel, range(200)))
        self.assertTrue(eventually(lambda: self.held() == before), f'{before} before, {self.held()} now')
        self.assertEqual(self.server.get('/health')[0], 200)


if __name__ == '__main__':
    unittest.main()
