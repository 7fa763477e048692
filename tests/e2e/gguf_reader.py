# Just enough of a GGUF reader for tests, and none of the project's own code.
import struct

SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


class Gguf:
    """facts by key, tensors: {name: (extents, type, offset)}."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        self.at = 4
        self.magic, self.version = self.data[:4], self.number('I')
        n_tensors, n_facts = self.number('Q'), self.number('Q')
        self.facts, self.tensors = {}, {}
        for _ in range(n_facts):
            key = self.string()
            self.facts[key] = self.value(self.number('I'))
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.number('Q') for _ in range(self.number('I'))]
            self.tensors[name] = (dims, self.number('I'), self.number('Q'))
        self.start = (self.at + 31) // 32 * 32

    def number(self, code):
        value, = struct.unpack_from('<' + code, self.data, self.at)
        self.at += struct.calcsize('<' + code)
        return value

    def string(self):
        n = self.number('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            element, count = self.number('I'), self.number('Q')
            return [self.value(element) for _ in range(count)]
        return self.number(SCALARS[kind])

    def stored(self, name):
        """The bytes of a tensor, up to the next one: with its padding."""
        offset = self.tensors[name][2]
        ends = [self.start + at for _, _, at in self.tensors.values() if at > offset]
        return self.data[self.start + offset:min(ends, default=len(self.data))]

    def values(self, name):
        """Numbers of an f32, f16, bf16 or q8_0 tensor."""
        dims, kind, offset = self.tensors[name]
        n = 1
        for extent in dims:
            n *= extent
        at = self.start + offset
        if kind == 0:
            return list(struct.unpack_from(f'<{n}f', self.data, at))
        if kind == 1:
            return list(struct.unpack_from(f'<{n}e', self.data, at))
        if kind == 30:
            return [struct.unpack('<f', b'\0\0' + self.data[i:i + 2])[0] for i in range(at, at + 2 * n, 2)]
        values = []
        for block in range(at, at + n // 32 * 34, 34):
            scale, = struct.unpack_from('<e', self.data, block)
            values += [scale * q for q in struct.unpack_from('<32b', self.data, block + 2)]
        return values
