#!/usr/bin/env python3
# A router while its workers die: four servers, 24 clients of whom some leave at random, and every second or so one server
# is killed and started again. Not part of the tests: it takes as long as it is told to (--seconds, or --kills). Exit code 1 when
# a request is lost before its first byte, a stream ends without a word, an answer has another text than it has undisturbed, or a
# load is left charged in the end.
#   QUIRE_BIN=build/release/quire python3 tests/route_soak.py --seconds 60
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'e2e'))
from quire_server import Router, Server, binary, eventually, model  # noqa: E402

N_WORKERS, N_CLIENTS, N_TEXTS = 4, 24, 5


def body_of(client, text, stream):
    words = f'client {client} says {text} things about the fox. ' * 5
    named = {'user': f'u{client}'} if client % 2 else {}
    return {'messages': [{'role': 'user', 'content': words}], 'max_tokens': 30, 'seed': client, 'ignore_eos': True,
            'stream': stream, **named}


def undisturbed():
    """{(client, text): what a server alone answers}"""
    server = Server('--threads', '1')
    try:
        return {(client, text): server.post('/v1/chat/completions', body_of(client, text, False))[2]['choices'][0]['message']['content']
                for client in range(N_CLIENTS) for text in range(N_TEXTS)}
    finally:
        server.stop()


def text_of(raw):
    """Of a stream's bytes."""
    events = [json.loads(event[6:]) for event in raw.split(b'\n\n') if event.startswith(b'data: {')]
    return ''.join(choice['delta'].get('content') or '' for event in events for choice in event['choices'])


class Worker:
    """A server that comes back at the port that it had."""

    def __init__(self):
        self.port = '0'
        self.start()

    def start(self):
        self.process = subprocess.Popen([binary(), 'serve', model(), '--port', self.port, '--threads', '1'],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.port = self.url.rsplit(':', 1)[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Client:
    """Asks until it is told to stop; counts what becomes of it."""

    def __init__(self, router, number, expected, over):
        self.router, self.number, self.expected, self.over = router, number, expected, over
        self.rng = random.Random(number)
        self.counts, self.answers = collections.Counter(), []  # of the latter each: when it was asked, and how long it took
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            begun = time.monotonic()
            try:
                what = self.ask(turn % N_TEXTS, self.rng.random() < 0.5, leaves=self.rng.random())
            except OSError as error:
                what = f'lost: {error}'
            self.counts[what] += 1
            if not what.startswith('left'):
                self.answers.append((begun, time.monotonic() - begun))

    def ask(self, text, stream, leaves):
        body, expected = body_of(self.number, text, stream), self.expected[self.number, text]
        connection = self.router.connect(timeout=60)
        try:
            connection.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
            if leaves < 0.05:
                return 'left before the answer'
            response = connection.getresponse()
            if leaves < 0.1:
                response.read(50)
                return 'left in the answer'
            raw = response.read()
        finally:
            connection.close()
        if response.status != 200:
            return f'lost: {response.status} {raw[:200].decode()}'
        if not stream:
            return 'whole' if json.loads(raw)['choices'][0]['message']['content'] == expected else 'lost: another answer'
        if raw.endswith(b'data: [DONE]\n\n'):
            return 'streamed' if text_of(raw) == expected else 'lost: another stream'
        return 'streamed, ended by an error event' if b'event: error\n' in raw else 'lost: a stream without an end'


def is_back(answers, killed_at):
    """Whether answers take as long 5 s behind a kill as they did before the first."""
    def p99(times):
        return sorted(times)[len(times) * 99 // 100]

    before = p99([took for at, took in answers if at + took < killed_at[0]])
    after = {}
    for at, took in answers:
        last = max((k for k in killed_at if k <= at), default=None)
        if last is not None:
            after.setdefault('in 5 s' if at - last < 5 else 'later', []).append(took)
    print(f'p99 before the first kill {before:.3f} s, of what is asked within 5 s of one {p99(after["in 5 s"]):.3f} s, '
          f'later {p99(after["later"]):.3f} s')
    return p99(after['later']) <= 1.5 * before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--kills', type=int, default=0, help='in place of --seconds: until so many workers were killed')
    parser.add_argument('--rest', type=float, default=0, help='seconds between two kills, more than 5: then what is asked 5 s behind one '
                        'must not take longer (p99) than 1.5 times what was asked before the first')
    args = parser.parse_args()
    expected, over = undisturbed(), threading.Event()
    workers = [Worker() for _ in range(N_WORKERS)]
    router = Router([w.url for w in workers], '--io-threads', '2')
    rng, n_killed, killed_at = random.Random(1), 0, []
    try:
        assert router.wait_for(N_WORKERS), 'the workers do not come up'
        until = time.monotonic() + args.seconds - 3
        clients = [Client(router, i, expected, over) for i in range(N_CLIENTS)]
        time.sleep(args.rest)
        while n_killed < args.kills if args.kills else time.monotonic() < until:
            time.sleep(rng.uniform(0.5, 1.5))
            worker = rng.choice(workers)
            worker.kill()
            n_killed += 1
            killed_at.append(time.monotonic())
            time.sleep(rng.uniform(0, 1))
            worker.start()
            time.sleep(args.rest)
        time.sleep(3)
        over.set()
        for client in clients:
            client.thread.join()
        counts = sum((client.counts for client in clients), collections.Counter())
        for what, n in sorted(counts.items()):
            print(f'{n:7d} {what}')
        answers = [answer for client in clients for answer in client.answers]
        times = sorted(took for _, took in answers)
        print(f'{n_killed} workers killed, {router.metric("quire_route_retries_total"):.0f} requests asked elsewhere, '
              f'{router.metric("quire_route_moved_streams_total"):.0f} streams moved; an '
              f'answer takes {times[len(times) // 2]:.3f} s, p99 {times[len(times) * 99 // 100]:.3f} s')
        freed = eventually(lambda: all(w['load_tokens'] == w['requests'] == 0 for w in router.workers().values()))
        print('' if freed else f'loads are left: {router.workers()}')
        back = is_back(answers, killed_at) if args.rest > 5 else True
        return 0 if freed and back and not any(what.startswith('lost') for what in counts) else 1
    finally:
        router.stop()
        for worker in workers:
            worker.kill()


if __name__ == '__main__':
    sys.exit(main())
