#!/usr/bin/env python3
# Dialogues through a router: does each turn find the worker that holds its past, are the workers alike busy, and is as much
# found in their caches as in that of one server with the memory of all? 64 dialogues of 8 turns at once before four servers,
# with and without names of sessions. Not part of the tests: it takes a minute. Exit code 1 where a goal is missed: every turn is
# at the worker of the last one or has a reason; in 95 % of looks, while all dialogues go on, no worker has a load over 1.25 x the
# mean and one request (a load that was within that when it was charged can be above it once others are done); as many tokens are
# cached as 0.95 of what one server finds.
#   QUIRE_BIN=build/release/quire python3 tests/route_dialogues.py
import argparse
import collections
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'e2e'))
from quire_server import Router, Server, model  # noqa: E402

N_WORKERS = 4
SYSTEM = 'You tell stories about a fox, a crow and a very old tree that stands alone on a hill by the sea. ' * 2
MAX_TOKENS = 24
LEAST_CACHED = 0.95  # of what the one server finds
LEAST_WITHIN = 0.95  # of looks at the loads
MOST_OF_MEAN = 1.25


class Dialogues:
    """Asks all turns of all dialogues, each dialogue one turn after the other, and notes where each turn went and what it found."""

    def __init__(self, server, n_dialogues, n_turns, named):
        self.server, self.n_turns, self.named = server, n_turns, named
        self.lock = threading.Lock()
        self.n_prompt = self.n_cached = self.most_tokens = 0
        self.places = [[] for _ in range(n_dialogues)]  # of each dialogue: worker and reason, turn by turn
        self.given = collections.Counter()  # tokens, by worker
        threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n_dialogues)]
        for thread in threads:
            thread.start()
        self.threads = threads

    def run(self, number):
        messages = [{'role': 'system', 'content': SYSTEM}]
        for turn in range(self.n_turns):
            messages.append({'role': 'user', 'content': f'Dialogue {number}, turn {turn}: ' + f'what does animal {number} say? ' * 5})
            body = {'messages': messages, 'max_tokens': MAX_TOKENS, 'ignore_eos': True, 'seed': number,
                    **({'user': f'user-{number}'} if self.named else {})}
            status, headers, answer = self.server.post('/v1/chat/completions', body)
            if status != 200:
                raise RuntimeError(f'{status}: {answer}')
            usage = answer['usage']
            with self.lock:
                self.n_prompt += usage['prompt_tokens']
                self.n_cached += usage['prompt_tokens_details']['cached_tokens']
                self.most_tokens = max(self.most_tokens, sum(len(m['content']) + 40 for m in messages) // 4 + MAX_TOKENS)
                self.places[number].append((headers['x-quire-worker'], headers['x-quire-route']))
                self.given[headers['x-quire-worker']] += usage['total_tokens']
            messages.append({'role': 'assistant', 'content': answer['choices'][0]['message']['content']})

    def all_go_on(self):
        return all(thread.is_alive() for thread in self.threads)

    def join(self):
        for thread in self.threads:
            thread.join()

    def share(self):
        return self.n_cached / self.n_prompt


def told(n_of):
    return ', '.join(f'{n} {what}' for what, n in n_of.most_common()) or 'none'


def through_router(args, named):
    """Runs the dialogues; returns them, and how far above 1.25 x the mean the busiest worker was at each look, in requests."""
    workers = [Server('--threads', '1', '--kv-memory', f'{args.memory}M') for _ in range(N_WORKERS)]
    router = Router([w.url for w in workers], '--policy', args.policy, '--io-threads', '1')
    try:
        assert router.wait_for(N_WORKERS), 'the workers do not come up'
        dialogues, over = Dialogues(router, args.dialogues, args.turns, named), []
        while dialogues.all_go_on():
            loads = [w['load_tokens'] for w in router.workers().values()]
            over.append(max(loads) - MOST_OF_MEAN * sum(loads) / len(loads))
            time.sleep(0.01)
        dialogues.join()
        return dialogues, [tokens / dialogues.most_tokens for tokens in over]
    finally:
        router.stop()
        for worker in workers:
            worker.stop()


def with_one(args):
    server = Server('--threads', '1', '--kv-memory', f'{N_WORKERS * args.memory}M')
    try:
        dialogues = Dialogues(server, args.dialogues, args.turns, False)
        dialogues.join()
        return dialogues
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--dialogues', type=int, default=64)
    parser.add_argument('--turns', type=int, default=8)
    parser.add_argument('--memory', type=int, default=64, help='of each of the four caches, in MB')
    parser.add_argument('--policy', default='prefix')
    args = parser.parse_args()
    print(f'{args.dialogues} dialogues x {args.turns} turns, {os.path.basename(model())}, four caches of {args.memory} MB')
    one = with_one(args)
    print(f'one server with the memory of four: {one.n_cached} of {one.n_prompt} tokens cached')
    good = True
    for named in (True, False):
        dialogues, over = through_router(args, named)
        within = sum(n <= 1 for n in over) / len(over)
        given = sorted(dialogues.given.values())
        moves, first = collections.Counter(), collections.Counter()
        for places in dialogues.places:
            good &= len(places) == args.turns
            first[places[0][1]] += 1
            moves.update(reason for (before, _), (worker, reason) in zip(places, places[1:]) if worker != before)
        wordless = sum(n for reason, n in moves.items() if not reason)
        good &= wordless == 0 and within >= LEAST_WITHIN and dialogues.share() >= LEAST_CACHED * one.share()
        print(f'{"with" if named else "without"} names of sessions: {dialogues.n_cached} of {dialogues.n_prompt} tokens cached, '
              f'{dialogues.share() / one.share():.3f} of what the one finds; first turns: {told(first)}; turns that moved: {told(moves)}; '
              f'tokens of a worker: {given}; within 1.25 x the mean and one request in {within:.4f} of {len(over)} looks, '
              f'at most {max(over):.2f} requests above it')
    print('all goals are met' if good else 'a goal is missed')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
