# One client that means harm: connections of its own address, a key that may be nobody's, a count of what became of its
# requests. Attacks (attacks_*.py) are functions of it; the crowd (crowd.py) runs many of them at once.
import asyncio
import collections
import contextlib
import json
import random
import socket
import struct

ANSWER_S = 60  # for an answer that the attack waits for; beyond it the attacker leaves
TEXT, CHAT = '/v1/completions', '/v1/chat/completions'


PIECE = 128 << 10  # of what is sent at once: a thousand attackers must not hold a thousand copies of a large body


def request(method, path, body=b'', **fields):
    """A request, however wrong, as the bytes of its head and its body. A field None is left out."""
    head = {'Host': 'localhost', 'Content-Type': 'application/json', 'Content-Length': str(len(body)), **fields}
    return [(f'{method} {path} HTTP/1.1\r\n' + ''.join(f'{k}: {v}\r\n' for k, v in head.items() if v is not None)
             + '\r\n').encode(), body]


def background(coroutine):
    """A task whose failure nobody need ask for: its connection may be gone before it is."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        """Bytes, or a list of them."""
        for part in [data] if isinstance(data, bytes) else data:
            view = memoryview(part)
            for at in range(0, len(view), PIECE):
                self.writer.write(view[at:at + PIECE])
                await self.writer.drain()

    async def dribble(self, data, pause_s, size=1):
        for at in range(0, len(data), size):
            await self.send(data[at:at + size])
            await asyncio.sleep(pause_s)

    async def head(self):
        """(status, fields)"""
        raw = await self.reader.readuntil(b'\r\n\r\n')
        lines = raw.decode('latin-1').split('\r\n')
        fields = {line.split(':', 1)[0].lower(): line.split(':', 1)[1].strip() for line in lines[1:] if ':' in line}
        return int(lines[0].split()[1]), fields

    async def rest(self):
        """Reads to the end and forgets what it reads; how many bytes it was."""
        n = 0
        while part := await self.reader.read(1 << 16):
            n += len(part)
        return n

    def reset(self):
        """Ends with RST, not FIN."""
        sock = self.writer.get_extra_info('socket')
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.writer.transport.abort()


class Attacker:
    """counts: what became of requests, by status or word. rounds: how many of each attack began. `hold_s`: how long an attack that holds something does."""

    def __init__(self, number, target, hold_s):
        self.number, self.port, self.hold_s = number, target["port"], hold_s
        self.key = f"{target['key']}-{number % target['n_keys']}"
        self.address = f'127.0.1.{1 + number % target["addresses"]}'
        self.rng = random.Random(number)
        self.counts, self.rounds = collections.Counter(), collections.Counter()
        self.open = set()

    def shuffled(self, values):
        """In another order for each attacker, so that a short attack sends all of them."""
        return self.rng.sample(values, len(values))

    async def connect(self, receive_buffer=None):
        sock = socket.socket()
        sock.setblocking(False)
        try:
            if receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            # The port is taken when it connects: there are more connections than ports of one address otherwise.
            sock.setsockopt(socket.IPPROTO_IP, getattr(socket, 'IP_BIND_ADDRESS_NO_PORT', 24), 1)
            sock.bind((self.address, 0))
            await asyncio.get_running_loop().sock_connect(sock, ('127.0.0.1', self.port))
            reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 16)
        except BaseException:
            sock.close()
            raise
        connection = Connection(reader, writer)
        self.open.add(connection)
        return connection

    def leave(self, connection, reset=False):
        self.open.discard(connection)
        if reset:
            connection.reset()
        else:
            connection.writer.close()

    @contextlib.asynccontextmanager
    async def connection(self, reset=False, **how):
        """A connection that is left, with RST where `reset`, when the block ends."""
        connection = await self.connect(**how)
        try:
            yield connection
        finally:
            self.leave(connection, reset)

    async def hold(self, connection, closed):
        """Waits for the server to close, as long as an attack holds what it holds; counts which came first."""
        try:
            await asyncio.wait_for(connection.rest(), self.hold_s)
            self.counts[closed] += 1
        except asyncio.TimeoutError:
            self.counts['held'] += 1

    def leave_all(self):
        for connection in list(self.open):
            self.leave(connection, reset=True)

    def post(self, path, body, **fields):
        """A request with the attacker's key; `body` bytes or a value."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return request('POST', path, data, **{'Authorization': f'Bearer {self.key}', **fields})

    async def ask(self, data):
        """Sends one request on a connection of its own and reads its answer to the end; (status, fields), None for a status
        where there was no answer."""
        async with self.connection() as connection:
            try:
                return await asyncio.wait_for(self._answer(connection, data), ANSWER_S)
            except asyncio.TimeoutError:
                self.counts['no answer yet'] += 1
                return None, {}

    async def _answer(self, connection, data):
        parts = [data] if isinstance(data, bytes) else list(data)
        parts[0] = parts[0].replace(b'\r\n', b'\r\nConnection: close\r\n', 1)
        reading = background(connection.head())
        try:
            try:
                await connection.send(parts)
            except OSError:
                pass  # refused before all of it was sent
            status, fields = await reading
        except (OSError, asyncio.IncompleteReadError):
            self.counts['cut'] += 1
            return None, {}
        finally:
            reading.cancel()  # where it took too long
        self.counts[status] += 1
        try:
            await connection.rest()
        except OSError:
            self.counts['cut within the answer'] += 1
        return status, fields

    async def ask_for(self, path, body, **fields):
        return await self.ask(self.post(path, body, **fields))
