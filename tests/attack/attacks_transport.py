# Attacks on sockets, heads and bodies: what needs no key, or one only to be let in.
import asyncio
import os

from attacker import CHAT, TEXT, background, request
from registry import attack

BIG = 7 << 20
MEGABYTE = b'x' * (1 << 20)
CHUNKS = b'1;x=y\r\n1\r\n' * 100000 + b'0\r\n\r\n'
SLOW = b'{"prompt":"' + b'x' * (64 << 10)


@attack('bodies without a key')
async def bodies_without_a_key(a):
    async with a.connection() as c:
        await c.send(request('POST', TEXT, **{'Content-Length': str(BIG)}))
        for _ in range(BIG >> 20):
            await c.send(MEGABYTE)
        a.counts['whole'] += 1


@attack('guesses of keys')
async def guesses_of_keys(a):
    await a.ask(request('POST', TEXT, b'{"prompt":"x"}', Authorization=f'Bearer {a.rng.random()}'))


@attack('heads that dribble')
async def heads_that_dribble(a):
    async with a.connection() as c:
        await c.dribble(b'GET /health HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * 10000, 0.2)


@attack('connections held idle')
async def connections_held_idle(a):
    held = []
    try:
        for _ in range(3):
            held.append(await a.connect())
        await held[0].send(request('GET', '/health'))
        await asyncio.sleep(a.hold_s)
        a.counts['held'] += len(held)
    finally:
        for c in held:
            a.leave(c)


@attack('connections opened and reset')
async def connections_opened_and_reset(a):
    for _ in range(10):
        c = await a.connect()
        a.leave(c, reset=True)
        a.counts['opened'] += 1


@attack('heads over their limits')
async def heads_over_their_limits(a):
    await a.ask(b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * 20000 + b'\r\n\r\n')
    await a.ask(b'GET / HTTP/1.1\r\nHost: localhost\r\n' + b'A: b\r\n' * 200 + b'\r\n')
    await a.ask(b'GET /' + b'a' * 100000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n')


@attack('pipelines')
async def pipelines(a):
    async with a.connection() as c:
        reading = background(c.rest())
        await c.send(b''.join(request('GET', '/health') * 500 + request('GET', '/health', Connection='close')))
        await asyncio.wait_for(reading, 60)
        a.counts['answered'] += 501


@attack('pipelines that are never read')
async def pipelines_never_read(a):
    async with a.connection(receive_buffer=4096, reset=True) as c:
        c.writer.transport.pause_reading()
        try:
            data = b''.join(request('GET', '/v1/models', Authorization=f'Bearer {a.key}')) * 200
            await asyncio.wait_for(c.dribble(data * 20, 0, len(data)), a.hold_s)
        except asyncio.TimeoutError:
            a.counts['held'] += 1


@attack('no HTTP at all')
async def no_http(a):
    hello = b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + os.urandom(505)
    for data in (hello, os.urandom(3000), b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', b'\0' * 3000):
        async with a.connection() as c:
            try:
                await c.send(data)
                await asyncio.wait_for(c.rest(), 5)
                a.counts['refused'] += 1
            except (OSError, asyncio.TimeoutError):
                a.counts['cut'] += 1


@attack('two lengths and other smuggling')
async def smuggling(a):
    body = b'0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
    await a.ask(a.post(TEXT, body, **{'Transfer-Encoding': 'chunked'}))
    await a.ask(a.post(TEXT, body, **{'Content-Length': '+' + str(len(body))}))
    await a.ask(a.post(TEXT, body, **{'Content-Length': '3\r\nContent-Length: 4'}))
    await a.ask(a.post(TEXT, body, **{'Content-Length': None, 'Transfer-Encoding': 'chunked, identity'}))


@attack('bodies of one-byte chunks')
async def bodies_of_chunks(a):
    await a.ask(a.post(TEXT, b'', **{'Content-Length': None, 'Transfer-Encoding': 'chunked'}) + [CHUNKS])


@attack('slow bodies')
async def slow_bodies(a):
    async with a.connection() as c:
        await c.send(a.post(TEXT, b'', **{'Content-Length': str(BIG)}))
        await c.dribble(SLOW, 0.1, 500)


@attack('large bodies without their last byte')
async def large_bodies(a):
    async with a.connection() as c:
        await c.send(a.post(TEXT, b'', **{'Content-Length': str(BIG)}))
        for _ in range((BIG >> 20) - 1):
            await c.send(MEGABYTE)
        await a.hold(c, 'refused')


@attack('promises of a body')
async def promises_of_a_body(a):
    async with a.connection() as c:
        await c.send(a.post(TEXT, b'', **{'Content-Length': str(BIG), 'Expect': '100-continue'}))
        await a.hold(c, 'closed')


@attack('resets before the answer')
async def resets_before_the_answer(a):
    async with a.connection(reset=True) as c:
        await c.send(a.post(TEXT, {'prompt': 'x' * 200, 'max_tokens': 200, 'ignore_eos': True}))
        a.counts['sent'] += 1


@attack('resets in mid-stream')
async def resets_in_mid_stream(a):
    async with a.connection(reset=True) as c:
        await c.send(a.post(CHAT, {'messages': [{'role': 'user', 'content': 'A fox.'}], 'stream': True, 'ignore_eos': True,
                                   'max_tokens': 400}))
        status, _ = await c.head()
        a.counts[status] += 1
        await c.reader.read(1 << 16)


@attack('readers that are slow')
async def slow_readers(a):
    async with a.connection(receive_buffer=4096, reset=True) as c:
        await c.send(a.post(TEXT, {'prompt': 'Once', 'stream': True, 'ignore_eos': True, 'n': 4, 'logprobs': 20,
                                   'max_tokens': 2000}))
        c.writer.transport.pause_reading()
        await asyncio.sleep(a.hold_s)
        a.counts['held'] += 1


@attack('paths and methods that are none')
async def paths(a):
    for path in ('/..%2f..%2fetc/passwd', '/%00', '/' + '/'.join('x' * 2000), f'/v1/models/{a.rng.random()}', '/metrics',
                 f'/v1/responses/{a.rng.random()}'):
        await a.ask(request(a.rng.choice(['GET', 'DELETE', 'OPTIONS', 'PROPFIND']), path, Authorization=f'Bearer {a.key}'))
