#!/usr/bin/env python3
# A router while its workers die: four servers, 24 clients of whom some leave at random, and every second or so one server
# is killed and started again. Not part of the tests: it takes as long as it is told to (--seconds). Exit code 1 when
# a request is lost before its first byte, a stream ends without a word, or a load is left charged in the end.
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
from quire_server import Router, binary, eventually, model  # noqa: E402

N_WORKERS, N_CLIENTS = 4, 24


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
    """Asks until the time is over; counts what becomes of it."""

    def __init__(self, router, number, until):
        self.router, self.number, self.until = router, number, until
        self.rng = random.Random(number)
        self.counts, self.seconds = collections.Counter(), []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def body(self, turn, stream):
        text = f'client {self.number} says {turn % 5} things about the fox. ' * 5
        named = {'user': f'u{self.number}'} if self.number % 2 else {}
        return {'messages': [{'role': 'user', 'content': text}], 'max_tokens': 30, 'seed': self.number, 'ignore_eos': True,
                'stream': stream, **named}

    def run(self):
        turn = 0
        while time.monotonic() < self.until:
            turn += 1
            begun = time.monotonic()
            try:
                what = self.ask(self.body(turn, self.rng.random() < 0.5), leaves=self.rng.random())
            except OSError as error:
                what = f'lost: {error}'
            self.counts[what] += 1
            if not what.startswith('left'):
                self.seconds.append(time.monotonic() - begun)

    def ask(self, body, leaves):
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
        if not body['stream']:
            return 'whole'
        if raw.endswith(b'data: [DONE]\n\n'):
            return 'streamed'
        return 'streamed, ended by an error event' if b'event: error\n' in raw else 'lost: a stream without an end'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seconds', type=float, default=60)
    seconds = parser.parse_args().seconds
    workers = [Worker() for _ in range(N_WORKERS)]
    router = Router([w.url for w in workers], '--io-threads', '2')
    rng, n_killed = random.Random(1), 0
    try:
        assert router.wait_for(N_WORKERS), 'the workers do not come up'
        until = time.monotonic() + seconds
        clients = [Client(router, i, until) for i in range(N_CLIENTS)]
        while time.monotonic() < until - 3:
            time.sleep(rng.uniform(0.5, 1.5))
            worker = rng.choice(workers)
            worker.kill()
            n_killed += 1
            time.sleep(rng.uniform(0, 1))
            worker.start()
        for client in clients:
            client.thread.join()
        counts = sum((client.counts for client in clients), collections.Counter())
        for what, n in sorted(counts.items()):
            print(f'{n:7d} {what}')
        times = sorted(t for client in clients for t in client.seconds)
        print(f'{n_killed} workers killed, {router.metric("quire_route_retries_total"):.0f} requests asked elsewhere, '
              f'{router.metric("quire_route_moved_streams_total"):.0f} streams moved; an '
              f'answer takes {times[len(times) // 2]:.3f} s, p99 {times[len(times) * 99 // 100]:.3f} s')
        freed = eventually(lambda: all(w['load_tokens'] == w['requests'] == 0 for w in router.workers().values()))
        print('' if freed else f'loads are left: {router.workers()}')
        return 0 if freed and not any(what.startswith('lost') for what in counts) else 1
    finally:
        router.stop()
        for worker in workers:
            worker.kill()


if __name__ == '__main__':
    sys.exit(main())
