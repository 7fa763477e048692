# A process of attackers. It reads one JSON object a line, {"attack", "n", "seconds", "port", "key", "addresses", "hold_s", "tls"}, runs
# that many attackers at once for so long ("attack": "*" has each take all of them in turn, those on TLS or the others), and answers with
# one: {"counts", "rounds", "errors", "processor_s"}. Its argument is how nice it is to the server, whose cores it shares; with a
# second it has a group of its own, and that is how nice the group is to all other work of the machine.
import asyncio
import collections
import json
import os
import sys
import time

import attacks_requests  # noqa: F401  they register themselves
import attacks_tls  # noqa: F401
import attacks_transport  # noqa: F401
import cores
from attacker import Attacker
from registry import ATTACKS

PAUSE_S = 0.05  # after a round that failed at once, so that the loop stays just
GONE = (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError)


async def attack_until(end, a, names):
    """Rounds until `end`; what the server did to them is counted, what the attack itself got wrong is raised."""
    rounds = 0
    while time.monotonic() < end:
        kind = ATTACKS[names[(a.number + rounds) % len(names)]]
        a.rounds[kind.name] += 1
        try:
            await kind.run(a)
        except GONE as error:
            a.counts[type(error).__name__] += 1
            await asyncio.sleep(PAUSE_S)
        finally:
            a.leave_all()
        rounds += 1
        await asyncio.sleep(0)


async def run(order):
    names = [order['attack']]
    if names == ['*']:
        names = [name for name, kind in ATTACKS.items() if kind.tls == order['tls']]
    attackers = [Attacker(i, order, order['hold_s']) for i in range(order['n'])]
    end = time.monotonic() + order['seconds']
    tasks = [asyncio.ensure_future(attack_until(end, a, names)) for a in attackers]
    done, late = await asyncio.wait(tasks, timeout=order['seconds'])
    for task in late:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for a in attackers:
        a.leave_all()
    errors = [repr(r) for r in results if isinstance(r, Exception)]
    counts = sum((a.counts for a in attackers), collections.Counter())
    rounds = sum((a.rounds for a in attackers), collections.Counter())
    return {'counts': {str(k): n for k, n in counts.most_common()}, 'rounds': dict(rounds), 'errors': errors[:3],
            'processor_s': time.process_time()}


def main():
    if len(sys.argv) > 2:
        cores.own_group(int(sys.argv[2]))
    os.nice(int(sys.argv[1]))
    for line in sys.stdin:
        used = time.process_time()
        answer = asyncio.run(run(json.loads(line)))
        answer['processor_s'] -= used
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
