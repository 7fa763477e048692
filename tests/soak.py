#!/usr/bin/env python3
# What a server does over time and beyond its strength, with quire load as the crowd. Not part of the tests: it takes
# minutes, and what it says of speed is the machine's. `./dev soak [minutes]` runs all three parts and draws the curves.
#   soak      64 streams, a third of whose clients leave at random: blocks in use are none afterwards, and memory is back
#   overload  the most that the server finishes and ten times as many arrivals, in turn, so that both meet the same machine:
#             how much of the peak is left, by the clock and by the processor time that the server got, and how soon the
#             rest is refused
#   crowd     1000 streams at once: none fails; how far their events are behind the step
# Exit code 1 when one of these does not hold. The curves are CSV and SVG files in build/soak (--out).
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'e2e'))
from quire_server import Server, binary  # noqa: E402

EVERY_S = 1.0
RSS_SLACK = 16 << 20  # what the allocator keeps
FILLING_ROUNDS = 50


def resident(server):
    with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1)) * 1024


def processor_s(server):
    with open(f'/proc/{server.process.pid}/stat', encoding='utf-8') as file:
        fields = file.read().rsplit(') ', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def metrics(server):
    """{name with labels: value}"""
    lines = server.get('/metrics')[2].splitlines()
    return {line.rsplit(' ', 1)[0]: float(line.rsplit(' ', 1)[1]) for line in lines if line and line[0] != '#'}


def percentile_ms(seen, name, share):
    """The bound of the bucket in which that share of a histogram of seconds is reached."""
    all_of = seen[f'{name}_count']
    for key, n in seen.items():  # in the order of the bounds
        if key.startswith(f'{name}_bucket') and n >= share * all_of:
            return float(key.split('"')[1]) * 1e3
    return 0.0


class Sampler:
    """Rows of second, resident memory, blocks used and cached, running, tokens per second, until stop()."""
    FIELDS = ('second', 'rss_mib', 'used_blocks', 'cached_blocks', 'running', 'tok_s')

    def __init__(self, server):
        self.server, self.rows = server, []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = time.monotonic()
        self._thread.start()

    def _run(self):
        last_s, last_tokens = 0.0, None
        while not self._end.wait(EVERY_S):
            now, seen = time.monotonic() - self._start, metrics(self.server)
            tokens = seen['quire_generation_tokens_total']
            rate = 0.0 if last_tokens is None else (tokens - last_tokens) / (now - last_s)
            last_s, last_tokens = now, tokens
            self.rows.append({'second': round(now, 1), 'rss_mib': round(resident(self.server) / (1 << 20), 1),
                              'used_blocks': int(seen['quire_kv_blocks{state="used"}']),
                              'cached_blocks': int(seen['quire_kv_blocks{state="cached"}']),
                              'running': int(seen['quire_num_requests_running']), 'tok_s': round(rate, 1)})

    def stop(self):
        self._end.set()
        self._thread.join()
        return self.rows


def write_csv(path, rows):
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, Sampler.FIELDS)
        writer.writeheader()
        writer.writerows(rows)


def write_svg(path, rows, fields):
    """One strip with an axis of its own for each field."""
    width, height, left, gap = 800, 110, 90, 30
    end = max(rows[-1]['second'], 1) if rows else 1
    parts = []
    for i, field in enumerate(fields):
        top = i * (height + gap) + 20
        most = max([row[field] for row in rows] + [1])
        points = ' '.join(f'{left + row["second"] / end * (width - left - 10):.1f},'
                          f'{top + height - row[field] / most * height:.1f}' for row in rows)
        parts.append(f'<text x="4" y="{top + 12}">{field}</text><text x="4" y="{top + 28}">max {most:g}</text>'
                     f'<rect x="{left}" y="{top}" width="{width - left - 10}" height="{height}" fill="none" stroke="#ccc"/>'
                     f'<polyline points="{points}" fill="none" stroke="#36c" stroke-width="1.2"/>')
    total = len(fields) * (height + gap) + 30
    parts.append(f'<text x="{left}" y="{total - 8}">0 … {end:.0f} s</text>')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" font-family="sans-serif" '
                   f'font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def load(server, *arguments):
    done = subprocess.run([binary(), 'load', server.url, '--json', '--ignore-eos', *map(str, arguments)],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def quiet(server, timeout=60):
    """Waits until nothing runs; False where something stays."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        seen = metrics(server)
        if seen['quire_num_requests_running'] == 0 and seen['quire_kv_blocks{state="used"}'] == 0:
            return True
        time.sleep(0.2)
    return False


class Report:
    def __init__(self):
        self.failed = 0

    def check(self, holds, text):
        self.failed += not holds
        print(('ok    ' if holds else 'FAIL  ') + text, flush=True)


def soak(options, report):
    server = Server('--threads', str(options.threads), path=options.model)
    try:
        # Warm: as many streams as will run, so that every buffer has been used once; then long prompts until every block
        # has, because the pool's pages come with their first use.
        load(server, '--users', 64, '--requests', 128, '--prompt-tokens', 40, '--max-tokens', 64, '--spread', 0.5)
        for seed in range(FILLING_ROUNDS):
            if metrics(server)['quire_kv_blocks{state="free"}'] == 0:
                break
            load(server, '--users', 4, '--requests', 16, '--prompt-tokens', 2000, '--max-tokens', 4, '--seed', 100 + seed)
        quiet(server)
        before = resident(server)
        sampler = Sampler(server)
        seen = load(server, '--users', 64, '--duration', options.minutes * 60, '--prompt-tokens', 40, '--max-tokens', 64,
                    '--spread', 0.8, '--leave', 0.33, '--turns', 2, '--seed', 2, '--timeout', 600)
        idle = quiet(server)
        rows = sampler.stop()
        after = resident(server)
        write_csv(os.path.join(options.out, 'soak.csv'), rows)
        write_svg(os.path.join(options.out, 'soak.svg'), rows, ('rss_mib', 'used_blocks', 'cached_blocks', 'tok_s'))
        requests = seen['requests']
        report.check(requests['failed'] == 0, f'soak: {requests["ended"]} requests in {seen["duration_s"]:.0f} s, '
                     f'{requests["left"]} left by their clients, {requests["failed"]} failed {seen["failures"] or ""}')
        report.check(idle, 'soak: no block is in use afterwards')
        report.check(after <= before + RSS_SLACK, f'soak: resident memory {before >> 20} MiB before, '
                     f'{after >> 20} MiB after (slack {RSS_SLACK >> 20} MiB)')
    finally:
        server.stop()


class Phase:
    """What the server did in several runs of one kind."""

    def __init__(self):
        self.ok, self.tokens, self.wall_s, self.server_s, self.failures, self.refusal_ms, self.lag_ms = 0, 0, 0, 0, {}, [], []

    def run(self, server, *arguments):
        before = processor_s(server)
        seen = load(server, *arguments, '--timeout', 600)
        quiet(server)
        self.server_s += processor_s(server) - before
        self.wall_s += seen['duration_s']
        self.ok += seen['requests']['ok']
        self.tokens += seen['output_tok_s'] * seen['duration_s']
        for kind, entry in seen['failures'].items():
            self.failures[kind] = self.failures.get(kind, 0) + entry['n']
        self.refusal_ms.append(seen['refusal_ms'])
        self.lag_ms.append(seen['send_lag_ms']['p99'])
        return seen['requests_s']

    def tok_s(self):
        return self.tokens / self.wall_s

    def tok_per_processor_s(self):
        return self.tokens / self.server_s


def overload(options, report):
    server = Server('--threads', str(options.threads), '--max-seqs', '16', '--max-queue', '32', path=options.model)
    work = ('--prompt-tokens', 40, '--max-tokens', 96)
    peak, pressed = Phase(), Phase()
    seconds = max(5, options.minutes * 60 / 3 / (2 * options.pairs))
    most = 0
    try:
        load(server, '--users', 16, '--requests', 32, *work)
        sampler = Sampler(server)
        for _ in range(options.pairs):
            most = max(most, peak.run(server, '--users', 40, '--duration', seconds, *work))
            pressed.run(server, '--rate', f'{10 * most:.3f}', '--duration', seconds, *work)
        rows = sampler.stop()
        write_csv(os.path.join(options.out, 'overload.csv'), rows)
        write_svg(os.path.join(options.out, 'overload.svg'), rows, ('rss_mib', 'used_blocks', 'running', 'tok_s'))
        report.check(set(pressed.failures) <= {'http_429'}, f'overload: up to {10 * most:.0f} requests/s, {options.pairs} '
                     f'times {seconds:.0f} s, {pressed.ok} answered, refused or failed {pressed.failures}')
        share = pressed.tok_s() / peak.tok_s()
        report.check(share >= 0.9, f'overload: goodput {pressed.tok_s():.0f} tok/s, {share:.0%} of the peak of '
                     f'{peak.tok_s():.0f}')
        share = pressed.tok_per_processor_s() / peak.tok_per_processor_s()
        report.check(share >= 0.9, f'overload: {pressed.tok_per_processor_s():.0f} tokens per second of the server\'s '
                     f'processor time, {share:.0%} of {peak.tok_per_processor_s():.0f} at the peak; it got '
                     f'{pressed.server_s / pressed.wall_s:.2f} and {peak.server_s / peak.wall_s:.2f} processors')
        p50 = statistics.median(late['p50'] for late in pressed.refusal_ms)
        p99 = max(late['p99'] for late in pressed.refusal_ms)
        report.check(p99 < 1000, f'overload: refusals after {p50:.0f} ms (p50), {p99:.0f} ms (p99, the worst run); sent late '
                     f'by {max(pressed.lag_ms):.0f} ms (p99)')
    finally:
        server.stop()


def crowd(options, report):
    server = Server('--threads', str(options.threads), '--max-seqs', str(options.crowd_seqs), '--max-queue', '2048',
                    '--io-threads', str(options.io_threads), path=options.model)
    try:
        before = resident(server)
        sampler = Sampler(server)
        seen = load(server, '--users', options.crowd, '--requests', options.crowd, '--prompt-tokens', 20, '--max-tokens', 64,
                    '--timeout', 600)
        idle = quiet(server)
        rows = sampler.stop()
        write_csv(os.path.join(options.out, 'crowd.csv'), rows)
        write_svg(os.path.join(options.out, 'crowd.svg'), rows, ('rss_mib', 'used_blocks', 'running', 'tok_s'))
        most = max([row['rss_mib'] for row in rows] + [resident(server) / (1 << 20)])
        report.check(seen['requests']['ok'] == options.crowd and idle,
                     f'crowd: {seen["requests"]["ok"]} of {options.crowd} streams complete {seen["failures"] or ""}, '
                     f'{seen["output_tok_s"]:.0f} tok/s, first text after {seen["ttft_ms"]["p99"]:.0f} ms (p99); '
                     f'memory {before >> 20} MiB before, {most:.0f} MiB at most')
        ended, name = metrics(server), 'quire_http_delivery_seconds'
        print(f'      crowd: an event is with the kernel within {percentile_ms(ended, name, 0.5):g} ms of the step\'s end (p50), '
              f'{percentile_ms(ended, name, 0.99):g} ms (p99), {options.io_threads} io threads')
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('minutes', nargs='?', type=float, default=10.0, help='of the soak; the others take a third each')
    parser.add_argument('--model', help='default: the one of the tests')
    parser.add_argument('--threads', type=int, default=0)
    parser.add_argument('--crowd', type=int, default=1000)
    parser.add_argument('--crowd-seqs', type=int, default=64, help='how many of them run together; 64 is the server\'s default')
    parser.add_argument('--io-threads', type=int, default=1, help='of the crowd\'s server')
    parser.add_argument('--pairs', type=int, default=4, help='turns of peak and overload')
    parser.add_argument('--only', choices=('soak', 'overload', 'crowd'))
    parser.add_argument('--out', default=os.path.join('build', 'soak'))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    report = Report()
    for name, part in (('soak', soak), ('overload', overload), ('crowd', crowd)):
        if options.only in (None, name):
            part(options, report)
    print(f'curves in {options.out}')
    return 1 if report.failed else 0


if __name__ == '__main__':
    sys.exit(main())
