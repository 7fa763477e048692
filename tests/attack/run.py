#!/usr/bin/env python3
# Every attack that we know of, one after the other and then all mixed, on a server beside a bystander who must not notice.
# Not part of the tests in full: it takes as long as it is told to. `./dev soak attack [minutes]` runs it.
#   one by one  each attack by --attackers at once for --seconds: the bystander's streams keep their bytes, the server lives,
#               its memory comes back; how long a token of the bystander takes (p99), beside what it took just before
#   mixed       all of them for so many minutes: likewise, and memory is where it was when that began, beside what the server
#               says that it keeps for later requests (held.py); what is held is told every minute
# Attacks on TLS have a server of their own, which speaks it, and are mixed with each other; without `openssl`, which makes its
# certificate, they are left out.
# Exit code 1 when one of these does not hold; with --strict also where a p99 is beyond LATE times what it was. The attackers
# share the machine's cores with the server: they are nice (19), and the processor time of both sides is in the table. With
# --apart they do not (cores.py): what a p99 is then is the attack's doing alone. A line below each says which of the server's threads
# ran and which waited for a processor, before the attack and while it ran (threads.py).
import argparse
import contextlib
import hashlib
import http.client
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..'), os.path.join(HERE, '..', 'e2e'), HERE]
import attacks_requests  # noqa: E402,F401  they register themselves
import attacks_tls  # noqa: E402,F401
import attacks_transport  # noqa: E402,F401
import cores  # noqa: E402
import threads  # noqa: E402
from bystander import Bystander, quantile  # noqa: E402
from held import MIB, Held, Memory  # noqa: E402
from quire_server import Server, certificate  # noqa: E402
from registry import ATTACKS  # noqa: E402
from soak import metrics, processor_s, resident  # noqa: E402

LATE = 1.5
SLACK_MIB = 48        # what the allocator may keep after one attack
MIXED_SLACK_MIB = 32  # and after all of them, when each has been there before
MIXED_HEAP_MIB = 8    # and what more of it may be in use: what was freed and is not given back is not
SETTLE_S = 40         # within which memory must come back
# What clients may have kept is given up soon enough to be seen, and caches are small enough to be full from the start.
LIMITS = {'resumable_s': 5, 'stored_s': 5, 'grammar_bytes': 16 << 20}
KV_MEMORY = '64M'
N_TENANTS = 4  # of the attackers
MOST_WARM_S = 120  # of the mix, before memory is compared with what it was


def keys_file(folder):
    """The file of keys: a bystander, an operator, attackers. The text of a key is its name."""
    names = ['bystander', 'operator'] + [f'attacker-{i}' for i in range(N_TENANTS)]
    path = os.path.join(folder, 'keys.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({'keys': [{'name': name, 'sha256': hashlib.sha256(name.encode()).hexdigest(),
                             'scopes': ['inference', 'admin'] if name == 'operator' else ['inference']}
                            for name in names]}, file)
    return path


class Attacked(Server):
    """A server with keys, whose numbers its operator may see."""

    def connect(self, timeout=60):
        if self.url.startswith('http://'):
            return super().connect(timeout)
        return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=timeout, context=ssl._create_unverified_context())

    def get(self, path, headers=None):
        return super().get(path, {'Authorization': 'Bearer operator', **(headers or {})})

    def post(self, path, body, headers=None):
        return super().post(path, body, {'Authorization': 'Bearer operator', **(headers or {})})

    def fill_cache(self):
        """Until the blocks of the cache have been used: their pages come with their first use."""
        ids, order = range(20, 200), random.Random(1)
        for _ in range(200):
            if metrics(self)['quire_kv_blocks{state="free"}'] < 16:
                return
            self.post('/v1/completions', {'prompt': order.choices(ids, k=1500), 'max_tokens': 1})


class Crowd:
    """The process of the attackers."""

    def __init__(self, server, options, tls):
        self.order = {'port': server.port, 'key': 'attacker', 'n_keys': N_TENANTS, 'addresses': options.addresses, 'tls': tls}
        behind = [str(options.behind)] if options.apart else []
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, 'crowd.py'), str(options.nice), *behind],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def attack(self, name, n, seconds, hold_s):
        order = {**self.order, 'attack': name, 'n': n, 'seconds': seconds, 'hold_s': hold_s}
        self.process.stdin.write(json.dumps(order) + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f'the attackers ended: {self.process.wait()}')
        return json.loads(answer)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Row:
    """What one attack did. Bytes, seconds, and Watches of the bystander before it and while it ran."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        self.alone = self.attacked = self.crowd = None
        self.before = self.most = self.after = 0
        self.server_s = self.seconds = 0.0
        self.threads = self.held = ''
        self.why = []  # what did not hold

    def factor(self):
        return self.attacked.p99_ms() / self.alone.p99_ms() if self.alone.gaps and self.attacked.gaps else 0.0

    HEAD = ('attack', 'attackers', 'p99 alone', 'p99', 'times', 'first', 'health', 'streams', 'refused', 'server', 'attackers',
            'before', 'most', 'after', 'what became of it')
    FORM = '{:<40} {:>9} {:>9} {:>8} {:>5} {:>6} {:>6} {:>7} {:>7} {:>6} {:>9} {:>6} {:>6} {:>6}  {}'

    def line(self):
        counts = ', '.join(f'{n} × {what}' for what, n in list(self.crowd['counts'].items())[:4])
        return self.FORM.format(
            self.name, self.n, f'{self.alone.p99_ms():.2f}', f'{self.attacked.p99_ms():.2f}', f'{self.factor():.1f}',
            f'{quantile(self.attacked.first, 0.99) * 1e3:.0f}', f'{quantile(self.attacked.pings, 0.99) * 1e3:.0f}',
            self.attacked.n_streams, sum(self.attacked.refused.values()),
            f'{self.server_s / self.seconds:.2f}', f'{self.crowd["processor_s"] / self.seconds:.2f}',
            self.before // MIB, self.most // MIB, self.after // MIB, counts)


class Soak:
    def __init__(self, options, folder, tls):
        limits = [part for name, value in LIMITS.items() for part in ('--limit', f'{name}={value}')]
        self.options, self.rows, self.tls = options, [], tls
        tls_options = [part for pair in zip(('--tls-cert', '--tls-key'), certificate(folder)) for part in pair] if tls else []
        arguments = ['--api-keys', keys_file(folder), '--threads', str(options.threads), '--kv-memory', KV_MEMORY,
                     '--log-requests', 'off', *limits, *tls_options, *options.server_options]
        with cores.OnCores(cores.SERVERS) if options.apart else contextlib.nullcontext():
            self.server = Attacked(*arguments, path=options.model)
        if options.engine_alone:
            threads.keep_engine_alone(self.server.process.pid, cores.OTHERS)
        self.server.fill_cache()
        self.bystander = Bystander(self.server.port, 'bystander', tls)
        self.bystander.learn()
        self.bystander.start()
        self.crowd = Crowd(self.server, options, tls)

    def warm_up(self):
        """The mix for a while: what an allocator keeps once each attack has been there belongs to what memory was before."""
        fresh = resident(self.server)
        self.crowd.attack('*', self.options.attackers, self.options.warm, hold_s=min(5, self.options.warm * 0.8))
        self.settle(float('inf'))
        time.sleep(min(10, self.options.warm))  # what is kept for a while is given up
        now = resident(self.server)
        print(f'        after {self.options.warm:g} s of the mix: {now // MIB} MiB, of {fresh // MIB} before', flush=True)

    def stop(self):
        """The server's exit code."""
        self.bystander.stop()
        self.crowd.stop()
        return self.server.stop()

    def lives(self):
        return self.server.process.poll() is None

    def settle(self, bound):
        """Waits until the attackers' requests are over and memory is below `bound`, as long as it may take; what it is."""
        end = time.monotonic() + self.options.settle
        while self.lives():
            seen, now = metrics(self.server), resident(self.server)
            # Open are the bystander's stream, perhaps its /health, and this question; what is being read holds memory too.
            idle = (seen['quire_num_requests_running'] <= 1 and seen['quire_num_requests_waiting'] == 0
                    and seen['quire_requests_open'] <= 3)
            if (idle and now <= bound) or time.monotonic() > end:
                return now, idle
            time.sleep(0.2)
        return 0, False

    def waits_for_a_token(self):
        """Of the bystander, once the attack is over; whether one comes."""
        end = time.monotonic() + self.options.settle
        while not self.bystander.watch.moves() and self.lives() and time.monotonic() < end:
            time.sleep(0.2)
        return self.bystander.watch.moves()

    def run(self, name, n, seconds, slack_mib):
        """One attack, or all for "*"."""
        slack = slack_mib * MIB
        mixed = 'all on TLS, mixed' if self.tls else 'all of them, mixed'
        row = Row(mixed if name == '*' else name, n)
        pid = self.server.process.pid
        self.bystander.take()
        alone, alone_at = threads.times(pid), time.monotonic()
        time.sleep(self.options.alone)
        row.alone, before, memory = self.bystander.take(), Held.of(self.server), Memory(self.server)
        row.before = before.resident
        used, ran, begun = processor_s(self.server), threads.times(pid), time.monotonic()
        row.crowd = self.crowd.attack(name, n, seconds, hold_s=min(5, seconds * 0.8))
        row.attacked, row.seconds = self.bystander.take(), time.monotonic() - begun
        memory.stop()
        row.most = memory.most
        if self.lives():
            row.server_s = processor_s(self.server) - used
            row.threads = (f'before: {threads.shares(alone, ran, begun - alone_at)}\n        while:  '
                           f'{threads.shares(ran, threads.times(pid), row.seconds)}')
            row.after, idle = self.settle(row.before + slack)
            if not idle:
                row.why.append(f'its requests still run {self.options.settle:g} s later')
            if name == '*':  # as before it (warm_up): what is kept for a while is given up
                time.sleep(min(10, self.options.warm))
            if self.lives():
                held = Held.of(self.server)
                row.after, row.held = held.resident, held.line(before)
                row.why += held.beyond(before, slack, self.options.mixed_heap * MIB if name == '*' else slack)
        self.judge(row)
        return row

    def judge(self, row):
        moves = row.attacked.moves() or self.waits_for_a_token()
        settled = self.bystander.take()
        if not self.lives():
            row.why.append(f'it ended the server: {self.server.process.returncode}')
        elif not moves:
            row.why.append(f'the bystander got no token within {row.seconds + self.options.settle:.0f} s')
        row.why += (row.attacked.wrong + settled.wrong)[:3] + row.crowd['errors']
        if self.options.strict and row.factor() > LATE:
            row.why.append(f'the bystander\'s p99 is {row.factor():.1f} times what it was (allowed: {LATE})')
        row.why += [f'the bystander got {what}' for what in row.attacked.refused if what.startswith('500')]
        self.rows.append(row)
        print(f'{row.line()}\n        {row.threads}\n        MiB: {row.held}', flush=True)
        if len(row.crowd['rounds']) > 1:
            print('        rounds: ' + ', '.join(f'{n} × {name}' for name, n in sorted(row.crowd['rounds'].items())), flush=True)
        for why in row.why:
            print(f'  FAIL  {row.name}: {why}', flush=True)
        if row.attacked.refused:
            print(f'        the bystander was refused: {row.attacked.refused}', flush=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument('minutes', nargs='?', type=float, default=10.0, help='of all attacks mixed; 0: only one by one')
    parser.add_argument('--attackers', type=int, default=1000)
    parser.add_argument('--seconds', type=float, default=8.0, help='of each attack by itself; 0: only mixed')
    parser.add_argument('--alone', type=float, default=3.0, help='seconds before each in which the bystander is alone')
    parser.add_argument('--only', action='append', default=[], help='attacks whose names hold this, may be repeated')
    parser.add_argument('--on', choices=('both', 'sockets', 'tls'), default='both',
                        help='of the two servers; tls: the attacks on TLS alone, which are mixed with each other')
    parser.add_argument('--addresses', type=int, default=16, help='of the attackers')
    parser.add_argument('--nice', type=int, default=19, help='of the attackers, who share the cores; less where others use them')
    parser.add_argument('--slack', type=int, metavar='MIB', default=SLACK_MIB,
                        help='what the allocator may keep after one attack')
    parser.add_argument('--mixed-slack', type=int, metavar='MIB', default=MIXED_SLACK_MIB, help='after all of them')
    parser.add_argument('--mixed-heap', type=int, metavar='MIB', default=MIXED_HEAP_MIB,
                        help='what more may be in use after all of them, beside what is kept for later requests')
    parser.add_argument('--warm', type=float, metavar='SECONDS',
                        help=f'of the mix, before memory is compared with what it was; default: a tenth of MINUTES, at most {MOST_WARM_S} s')
    parser.add_argument('--apart', action='store_true',
                        help='the server alone on one core and before all other work of the machine, attackers on the others')
    parser.add_argument('--engine-alone', action='store_true',
                        help='with --apart, only the server\'s engine is on its core; its other threads share those of the attackers')
    parser.add_argument('--behind', type=int, default=19, metavar='NICE',
                        help='with --apart, of the attackers to all other work of the machine; less where that leaves them nothing')
    parser.add_argument('--settle', type=float, default=SETTLE_S, help='seconds in which memory must come back')
    parser.add_argument('--model', help='default: the one of the tests')
    parser.add_argument('--threads', type=int, default=1, help='that compute; fewer than there are cores')
    parser.add_argument('--strict', action='store_true', help=f'a p99 beyond {LATE} times what it was is a failure')
    parser.add_argument('server_options', nargs='*', metavar='-- OPTION', help='more options of quire serve')
    options = parser.parse_args()
    if options.warm is None:
        options.warm = min(MOST_WARM_S, options.minutes * 6)
    if options.apart and not cores.can_part():
        parser.error('--apart needs Linux with autogroups, two cores and root')
    if options.engine_alone and not options.apart:
        parser.error('--engine-alone needs --apart')
    return options


def attacked(options, names, folder, tls):
    """One server, and these attacks one by one, then mixed: its rows, and its exit code."""
    soak = Soak(options, folder, tls)
    try:
        if options.seconds > 0:
            for name in names:
                soak.run(name, options.attackers, options.seconds, options.slack)
                if not soak.lives():
                    break
        if options.minutes > 0 and soak.lives():
            if options.warm > 0:
                soak.warm_up()
            soak.run('*', options.attackers, options.minutes * 60, options.mixed_slack)
    finally:
        code = soak.stop()
    return soak.rows, code


def main():
    options = parse()
    if options.apart:
        cores.own_group(-20)
        os.sched_setaffinity(0, cores.OTHERS)
    chosen = [name for name in ATTACKS if not options.only or any(part in name for part in options.only)]
    rows, ended = [], []
    print('times in ms, processors in use, memory in MiB\n' + Row.FORM.format(*Row.HEAD), flush=True)
    for tls in {'both': (False, True), 'sockets': (False,), 'tls': (True,)}[options.on]:
        names = [name for name in chosen if ATTACKS[name].tls == tls]
        if not names:
            continue
        if tls and not shutil.which('openssl'):
            print('no openssl here: attacks on TLS are left out', flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            seen, code = attacked(options, names, folder, tls)
        rows += seen
        ended.append(code)
    failed = [row.name for row in rows if row.why]
    late = [row.name for row in rows if row.factor() > LATE]
    print(f'{len(rows)} attacks, {len(failed)} failed {failed or ""}; the server ended with {" and ".join(map(str, ended))}')
    print(f'beyond {LATE} times the p99: {", ".join(late) or "none"}')
    return 1 if failed or any(ended) else 0


if __name__ == '__main__':
    sys.exit(main())
