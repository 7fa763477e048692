#!/usr/bin/env python3
# What a router costs a request: the first byte of small streams at a steady rate, asked of a worker directly, through
# `quire route`, and through other routers beside it, in turns. The worker is a stub that answers at once, so what is
# measured is the router alone. Not part of the tests: other work on the machine shows in it.
#   QUIRE_BIN=build/release/quire python3 tests/route_beside.py --rate 200 --seconds 10
#   ... --beside 'vllm-router --host 127.0.0.1 --port {port} --worker-urls {urls}'
import argparse
import asyncio
import json
import multiprocessing
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'e2e'))
from quire_server import Router  # noqa: E402

N_WORKERS, N_CONNECTIONS = 4, 32
EVENT = b'data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
STREAM += b'%x\r\n%s\r\n0\r\n\r\n' % (len(EVENT), EVENT)
WELL = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 34\r\n\r\n{"object":"list","data":[]}       '


def run_stub(ready):
    async def serve(reader, writer):
        try:
            while head := await reader.readuntil(b'\r\n\r\n'):
                lines = [line.split(b':', 1) for line in head.lower().split(b'\r\n')[1:]]
                length = next((int(line[1]) for line in lines if line[0] == b'content-length'), 0)
                await reader.readexactly(length)
                writer.write(STREAM if head.startswith(b'POST ') else WELL)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main():
        server = await asyncio.start_server(serve, '127.0.0.1', 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def body_of(n_bytes):
    return json.dumps({'model': 'm', 'prompt': 'The fox ' * (n_bytes // 8), 'max_tokens': 1, 'stream': True}).encode()


async def measure(port, rate, seconds, body):
    """Seconds to the first byte of each answer, in the order in which they were asked for."""
    head = b'POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
    request = head % len(body) + body
    idle = [await asyncio.open_connection('127.0.0.1', port, limit=1 << 20) for _ in range(N_CONNECTIONS)]
    took = []

    async def one():
        began = time.perf_counter()
        reader, writer = idle.pop() if idle else await asyncio.open_connection('127.0.0.1', port, limit=1 << 20)
        writer.write(request)
        head = await reader.readuntil(b'\r\n\r\n')
        assert head.startswith(b'HTTP/1.1 200'), head
        await reader.readuntil(b'data: ')
        took.append(time.perf_counter() - began)
        await reader.readuntil(b'\r\n0\r\n\r\n')
        idle.append((reader, writer))

    begin, tasks = time.perf_counter(), []
    for i in range(int(rate * seconds)):
        await asyncio.sleep(max(0, begin + i / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one()))
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    return took


def cpu_s(pid):
    """Of a process and its threads."""
    with open(f'/proc/{pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def start_beside(command, urls, started):
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(shlex.split(command.format(port=port, urls=' '.join(urls))), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    started.append(process)
    until = time.monotonic() + 60
    while True:
        try:
            asyncio.run(measure(port, 10, 0.1, body_of(80)))
            return process, port
        except (OSError, AssertionError, asyncio.IncompleteReadError):
            if time.monotonic() > until or process.poll() is not None:
                raise
            time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--rate', type=float, default=200)
    parser.add_argument('--seconds', type=float, default=10)
    parser.add_argument('--bytes', type=int, default=1024, help='of a prompt')
    parser.add_argument('--beside', action='append', default=[], help='a command with {port} and {urls}')
    args = parser.parse_args()
    stubs = []
    for _ in range(N_WORKERS):
        ours, theirs = multiprocessing.Pipe()
        stubs.append((multiprocessing.Process(target=run_stub, args=(theirs,), daemon=True), ours))
        stubs[-1][0].start()
    ports = [ready.recv() for _, ready in stubs]
    urls = [f'http://127.0.0.1:{port}' for port in ports]
    router = Router(urls)
    assert router.wait_for(N_WORKERS)
    asked = {'directly': (None, ports[0]), 'quire route': (router.process.pid, router.port)}
    others = []
    try:
        for command in args.beside:
            name = shlex.split(command)[0].rsplit('/', 1)[-1]
            process, port = start_beside(command, urls, others)
            asked[name] = (process.pid, port)
        body, n = body_of(args.bytes), int(args.rate * args.seconds)
        for name, (pid, port) in asked.items():
            asyncio.run(measure(port, args.rate, 1, body))
            before = cpu_s(pid) if pid else 0
            took = sorted(asyncio.run(measure(port, args.rate, args.seconds, body)))
            cpu_us = (cpu_s(pid) - before) / n * 1e6 if pid else 0
            print(f'{name}: first byte p50 {statistics.median(took) * 1e3:.2f} ms, p99 {took[n * 99 // 100] * 1e3:.2f} ms, '
                  f'{cpu_us:.0f} µs of processor time a request', flush=True)
    finally:
        for process in others:
            process.kill()
            process.wait()
        router.stop()


if __name__ == '__main__':
    main()
