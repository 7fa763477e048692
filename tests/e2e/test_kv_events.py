# KV events as a router of others reads them: pyzmq and msgspec with structs as vLLM declares them, against a real server
# whose cache is too small. Every event decodes, what was stored and not removed is what the server says that it has, and
# what it finds for a prompt.
import re
import subprocess
import unittest

from client_packages import PYTHON, SCRIPT_SECONDS, missing
from quire_server import ServerCase, quire

SECRET = 'salt-of-a-tenant'

HEAD = r'''
import json, sys, time, urllib.request
from typing import Any, Optional, Union
import msgspec, zmq

url, events_at, replay_at, model, secret = sys.argv[1:]

class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None

class KVCacheEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass

class BlockStored(KVCacheEvent):
    block_hashes: list[Union[bytes, int]]
    parent_block_hash: Optional[Union[bytes, int]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None
    kv_cache_spec_sliding_window: Optional[int] = None

class BlockRemoved(KVCacheEvent):
    block_hashes: list[Union[bytes, int]]
    medium: Optional[str]
    group_idx: Optional[int] = None

class AllBlocksCleared(KVCacheEvent):
    pass

class KVEventBatch(EventBatch):
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]

decode = msgspec.msgpack.Decoder(type=KVEventBatch).decode
context = zmq.Context()

def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()

def complete(tokens, **more):
    return json.loads(ask('/v1/completions', {'prompt': tokens, 'max_tokens': 1, 'temperature': 0, **more}))['usage']

def cached_blocks():
    values = dict(line.rsplit(' ', 1) for line in ask('/metrics').splitlines() if line.startswith('quire_kv_blocks'))
    states = {key.split('"')[1]: float(value) for key, value in values.items()}
    return None if states['used'] else states['cached']

def replay(start):
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(replay_at)
    socket.send_multipart((b'', start.to_bytes(8, 'big', signed=True)))
    out = []
    while True:
        assert socket.poll(60_000), 'no end of the replay'
        empty, number, payload = socket.recv_multipart()
        assert empty == b''
        if int.from_bytes(number, 'big', signed=True) == -1:
            assert payload == b''
            socket.close()
            return out
        out.append((int.from_bytes(number, 'big'), payload))

class Mirror:
    """The blocks that the server has, by what its events say."""
    def __init__(self):
        self.blocks, self.n_stored, self.n_removed, self.last = {}, 0, 0, -1

    def follow(self):
        for number, payload in replay(self.last + 1):
            assert number == self.last + 1, f'{number} after {self.last}'
            self.last = number
            batch = decode(payload)
            assert batch.data_parallel_rank == 0 and abs(batch.ts - time.time()) < 3600
            for event in batch.events:
                self.take(event)

    def take(self, event):
        if isinstance(event, AllBlocksCleared):
            self.blocks.clear()
            return
        assert event.medium == 'GPU'
        if isinstance(event, BlockRemoved):
            self.n_removed += len(event.block_hashes)
            for name in event.block_hashes:
                del self.blocks[name]
            return
        assert len(event.token_ids) == event.block_size * len(event.block_hashes) and event.lora_id is None
        parent, keys = event.parent_block_hash, event.extra_keys or [None] * len(event.block_hashes)
        for i, name in enumerate(event.block_hashes):
            assert name not in self.blocks and (parent is None or parent in self.blocks)
            tokens = tuple(event.token_ids[i * event.block_size:(i + 1) * event.block_size])
            self.blocks[name] = (parent, tokens, keys[i], event.block_size)
            parent = name
        self.n_stored += len(event.block_hashes)

    def agrees(self):
        """Follows until the server's own count is the same."""
        end = time.monotonic() + 60
        while True:
            n = cached_blocks()
            self.follow()
            if n == len(self.blocks):
                return
            assert time.monotonic() < end, f'the server has {n} blocks, its events say {len(self.blocks)}'
            time.sleep(0.05)

    def found(self, tokens):
        """How many of these tokens the server will find."""
        children = {(parent, block): name for name, (parent, block, keys, _) in self.blocks.items() if keys is None}
        size = next(iter(self.blocks.values()))[3] if self.blocks else 16
        parent, n = None, 0
        while n + size < len(tokens):
            parent = children.get((parent, tuple(tokens[n:n + size])))
            if parent is None:
                break
            n += size
        return n

def prompt(i, n):
    return [100 + (i * 7919 + j * (i + 3)) % 300 for j in range(n)]
'''


def packages_missing():
    return missing('pyzmq', 'zmq') or missing('msgspec')


class KvEvents(ServerCase):
    options = ('--kv-events', '0', '--kv-events-replay', '0', '--kv-events-pod', 'pod-1', '--ctx', '512', '--kv-memory', '8M')

    @classmethod
    def setUpClass(cls):
        reason = packages_missing()
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()
        said = cls.server.logged('KV events on')
        cls.places = re.search(r'KV events on (tcp://127\.0\.0\.1:\d+), again on (tcp://127\.0\.0\.1:\d+), topic (kv@pod-1@\S+)',
                               said).groups()

    def run_script(self, script):
        done = subprocess.run([PYTHON, '-W', 'error', '-c', HEAD + script, self.server.url, *self.places, SECRET],
                              capture_output=True, text=True, timeout=SCRIPT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_events_say_is_what_the_server_has(self):
        self.run_script(r'''
mirror = Mirror()
mirror.agrees()
for i in range(60):
    # Beginnings in common, prompts asked again, some under a salt of their own.
    tokens = prompt(i % 3, 48) + prompt(100 + i % 17, 40 + 8 * (i % 30))
    salted = i % 5 == 4
    expected = mirror.found(tokens)
    usage = complete(tokens, **({'cache_salt': secret} if salted else {}))
    if not salted:
        got = (usage.get('prompt_tokens_details') or {}).get('cached_tokens', 0)
        assert got == expected, f'request {i}: found {got} tokens, events say {expected}'
    mirror.agrees()
    if mirror.n_removed > 50 and i > 30:
        break
assert mirror.n_removed > 0, 'nothing was evicted: the cache is too large for this test'
assert mirror.n_stored - mirror.n_removed == len(mirror.blocks)
# All at once is the same as one by one.
((number, payload),) = replay(-1)
assert number == mirror.last, f'{number} is not {mirror.last}'
whole = Mirror()
for event in decode(payload).events:
    whole.take(event)
assert whole.blocks == mirror.blocks
assert any(keys for _, _, keys, _ in mirror.blocks.values())
assert all(secret.encode() not in payload for _, payload in replay(0))
''')

    def test_a_subscriber_hears_what_a_replay_says(self):
        self.run_script(r'''
subscriber = context.socket(zmq.SUB)
subscriber.setsockopt_string(zmq.SUBSCRIBE, 'kv@')
subscriber.connect(events_at)
heard = {}
for i in range(200):
    complete(prompt(1000 + i, 64))
    while subscriber.poll(50):
        topic, number, payload = subscriber.recv_multipart()
        assert topic.decode() == model, topic
        heard[int.from_bytes(number, 'big')] = payload
    if len(heard) > 5:
        break
assert len(heard) > 5
assert sorted(heard) == list(range(min(heard), max(heard) + 1))
said = dict(replay(min(heard)))
assert all(said[number] == payload for number, payload in heard.items())
''')

    def test_the_server_counts_them(self):
        self.assertEqual(self.server.post('/v1/completions', {'prompt': 'a ' * 200, 'max_tokens': 1})[0], 200)
        self.assertGreater(self.server.metric('quire_kv_events_batches_total'), 0)
        self.assertEqual(self.server.metric('quire_kv_events_lost_batches_total'), 0)


class KvEventOptions(unittest.TestCase):
    def test_bad_options_are_named(self):
        cases = {
            ('--kv-events-replay', '5558'): '--kv-events-replay 5558 needs --kv-events',
            ('--kv-events', 'tcp://*:1'): '--kv-events must be PORT, HOST:PORT or ipc://PATH',
            ('--kv-events', '70000'): '--kv-events must be PORT, HOST:PORT or ipc://PATH',
            ('--kv-events', '5557', '--no-prefix-cache'): '--kv-events needs the prefix cache',
            ('--kv-events', '5557', '--kv-events-pod', 'a@b'): '--kv-events-pod must be',
        }
        for options, text in cases.items():
            done = quire('serve', '--port', '0', *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


if __name__ == '__main__':
    unittest.main()
