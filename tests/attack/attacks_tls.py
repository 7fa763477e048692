# Attacks on TLS itself: handshakes that do not come to their end, or come for little, and records that are none. They are run
# on a server of its own, with a certificate, beside a bystander who speaks TLS too. What Python cannot say (renegotiation,
# updates of keys) is in src/http/server_tls_test.cc.
import asyncio
import contextlib
import os
import ssl

from attacker import request
from registry import attack

HELD = b'GET /health HTTP/1.1\r\nHost: localhost\r\n'
GET = b''.join(request('GET', '/health', Connection='close'))


def believing(version=None):
    """A client's context that believes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version:
        context.maximum_version = version
    return context


NEWEST, OLDEST = believing(), believing(ssl.TLSVersion.TLSv1_2)


class Session:
    """TLS in memory on a connection: what leaves, and when, is the attack's to say."""

    def __init__(self, connection, context=NEWEST):
        self.connection, self.incoming, self.outgoing = connection, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname='localhost')

    def hello(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    async def step(self, what):
        """Does it, saying and hearing what it needs."""
        while True:
            try:
                done = what()
                await self.connection.send(self.outgoing.read())
                return done
            except ssl.SSLWantReadError:
                await self.connection.send(self.outgoing.read())
                data = await self.connection.reader.read(1 << 16)
                if not data:
                    raise EOFError from None
                self.incoming.write(data)

    async def handshake(self):
        await self.step(self.tls.do_handshake)

    def sealed(self, data):
        self.tls.write(data)
        return self.outgoing.read()


@contextlib.asynccontextmanager
async def greeted(a, context=NEWEST):
    """A session whose handshake is done, on a connection of its own."""
    async with a.connection() as connection:
        session = Session(connection, context)
        await session.handshake()
        yield session


@attack('connections that never say hello', tls=True)
async def never_hello(a):
    held = [await a.connect() for _ in range(3)]
    try:
        await a.hold(held[0], 'closed')
    finally:
        for connection in held:
            a.leave(connection)


@attack('half a hello', tls=True)
async def half_a_hello(a):
    async with a.connection() as c:
        hello = Session(c).hello()
        await c.send(hello[:len(hello) // 2])
        await a.hold(c, 'closed')


@attack('hellos byte by byte', tls=True)
async def hello_by_bytes(a):
    async with a.connection() as c:
        await c.dribble(Session(c).hello(), 0.1)


@attack('handshakes that are never finished', tls=True)
async def never_finished(a):
    for context in (NEWEST, OLDEST):
        async with a.connection() as c:
            await c.send(Session(c, context).hello())
            await a.hold(c, 'closed')


@attack('handshakes begun and reset', tls=True)
async def begun_and_reset(a):
    for _ in range(5):
        async with a.connection(reset=True) as c:
            await c.send(Session(c).hello())
            a.counts['begun'] += 1


@attack('a handshake for each small request', tls=True)
async def handshake_for_each(a):
    async with greeted(a) as session:
        await session.connection.send(session.sealed(GET))
        await session.step(lambda: session.tls.read(4096))
        a.counts['answered'] += 1


@attack('handshakes without a request', tls=True)
async def without_a_request(a):
    async with greeted(a) as session:
        await session.connection.send(session.sealed(HELD))
        await a.hold(session.connection, 'closed')


@attack('records that are none', tls=True)
async def no_records(a):
    for make in (lambda session: b'\x17\x03\x03\x40\x00' + os.urandom(1 << 14), lambda session: b'\x16\x03\x03\xff\xff',
                 lambda session: Session(session.connection).hello(), lambda session: os.urandom(3000)):
        async with greeted(a, a.rng.choice([NEWEST, OLDEST])) as session:
            await session.connection.send(make(session))
            await asyncio.wait_for(session.connection.rest(), 5)
            a.counts['refused'] += 1


@attack('records cut at every byte', tls=True)
async def cut_records(a):
    async with greeted(a) as session:
        await session.connection.dribble(session.sealed(GET), 0)
        await session.step(lambda: session.tls.read(4096))
        a.counts['answered'] += 1


@attack('no TLS at all', tls=True)
async def no_tls(a):
    for data in (b''.join(request('GET', '/health')), os.urandom(3000), b'\x16\x03\x01\x02\x00\x01' + b'\0' * 600):
        async with a.connection() as c:
            await c.send(data)
            await asyncio.wait_for(c.rest(), 5)
            a.counts['refused'] += 1
