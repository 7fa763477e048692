"""What the benchmarks share."""
from __future__ import annotations

import http.client
import os
import shlex
import shutil
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_S = 120  # until a server has to be ready


@dataclass
class Peer:
    name: str
    program: str
    flags: list[str]


def peer_of(text: str) -> Peer:
    """NAME=PROGRAM [FLAGS], as --peer takes it."""
    name, equals, command = text.partition('=')
    words = shlex.split(command)
    program = shutil.which(words[0]) if words else None
    if not equals or program is None:
        raise SystemExit(f'--peer must be NAME=PROGRAM [FLAGS] with a program that is there, got "{text}"')
    return Peer(name, program, words[1:])


def find_peers(wanted: list[str], program: str) -> list[Peer]:
    """Those that are wanted; without any, the `program` on PATH if it is there."""
    if wanted:
        return [peer_of(text) for text in wanted]
    found = shutil.which(program)
    return [Peer('llama.cpp', found, [])] if found else []


def numbers(text: str) -> list[int]:
    return [int(x) for x in text.split(',') if x]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def llama_server(peer: Peer, model: str, port: int, threads: int, users: int, n_ctx: int) -> list[str]:
    """The command of llama.cpp's llama-server, or of one with its command line: n_ctx tokens for each of so many users at once."""
    return [peer.program, '-m', model, '--port', str(port), '-t', str(threads), '-np', str(users), '-c', str(users * n_ctx), *peer.flags]


def wait_until_ready(process: subprocess.Popen, url: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f'{url}/health', timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f'{process.args[0]} is not ready: {"ended" if process.poll() is not None else "too slow"}')


class Server:
    """`quire serve` on a free port, until `close` or the end of a with block."""

    def __init__(self, quire: str, model: str, *options: str) -> None:
        self.process = subprocess.Popen([quire, 'serve', model, '--port', '0', *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith('listening on '):
            raise SystemExit(f'{quire} did not start: {line!r}')
        self.port = int(line.split()[-1].rsplit(':', 1)[1])
        self.connection = self.connect()  # for one request after the other

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=600)

    def metrics(self) -> dict[str, float]:
        """By name, summed over labels."""
        self.connection.request('GET', '/metrics')
        out: dict[str, float] = {}
        for line in self.connection.getresponse().read().decode().splitlines():
            if line and not line.startswith('#'):
                name = line.split('{')[0].split(' ')[0]
                out[name] = out.get(name, 0.0) + float(line.split()[-1])
        return out

    def close(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
