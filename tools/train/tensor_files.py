"""safetensors and GGUF files, read and written with numpy alone, so that nothing else decides what is in them.

Writing streams: a tensor is `Rows`, a shape and a function that gives some of its rows, so a file of any size needs
memory for one piece of one tensor. Everything is written to PATH.tmp, which becomes PATH once it is whole.
"""
from __future__ import annotations

import json
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Iterator

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from make_model import TYPES, Facts, gguf_string, padding  # noqa: E402

BLOCK = 32
BLOCK_BYTES = {'q8_0': 34, 'q4_1': 20}
PIECE_VALUES = 1 << 24  # of a tensor at a time
KINDS = {number: kind for kind, (number, _) in TYPES.items()} | {3: 'q4_1'}  # q4_1 is read only


@dataclass
class Rows:
    """A tensor that is made while it is written; a vector is one row. `make(first, last)` is f32 [last - first, …]."""
    shape: tuple[int, ...]
    make: Callable[[int, int], np.ndarray]

    def pieces(self) -> Iterator[np.ndarray]:
        n_rows, width = (1, self.shape[0]) if len(self.shape) == 1 else (self.shape[0], int(np.prod(self.shape[1:])))
        step = max(1, PIECE_VALUES // width)
        for first in range(0, n_rows, step):
            yield self.make(first, min(first + step, n_rows)).reshape(-1, width)

    def n_values(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def rows_of(x: np.ndarray) -> Rows:
    return Rows(x.shape, lambda first, last: x[None] if x.ndim == 1 else x[first:last])


# ---- values --------------------------------------------------------------------------------------------------------

def to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounded to nearest even, as 16-bit patterns."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def to_q8_0(x: np.ndarray) -> bytes:
    """Blocks of 32: a half scale = largest / 127, then whole numbers, halves rounded away from zero."""
    blocks = x.astype(np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse[:, None]
    out = np.zeros(len(blocks), dtype=[('d', '<f2'), ('q', 'i1', BLOCK)])
    out['d'], out['q'] = scale.astype(np.float16), np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    return out.tobytes()


def value_bytes(x: np.ndarray, kind: str) -> bytes:
    if kind == 'q8_0':
        return to_q8_0(x)
    if kind == 'i64':
        return x.astype('<i8').tobytes()
    return (to_bf16(x) if kind == 'bf16' else x.astype('<f2' if kind == 'f16' else '<f4')).tobytes()


def n_bytes(n_values: int, kind: str) -> int:
    if kind in BLOCK_BYTES:
        return n_values // BLOCK * BLOCK_BYTES[kind]
    return n_values * {'f32': 4, 'f16': 2, 'bf16': 2, 'i64': 8}[kind]


def values_of(data: bytes | memoryview, kind: str) -> np.ndarray:
    """f32, flat; i64 of i64."""
    if kind == 'q8_0':
        blocks = np.frombuffer(data, dtype=[('d', '<f2'), ('q', 'i1', BLOCK)])
        return (blocks['d'].astype(np.float32)[:, None] * blocks['q'].astype(np.float32)).reshape(-1)
    if kind == 'q4_1':
        blocks = np.frombuffer(data, dtype=[('d', '<f2'), ('m', '<f2'), ('q', 'u1', BLOCK // 2)])
        d, m, q = blocks['d'].astype(np.float32)[:, None], blocks['m'].astype(np.float32)[:, None], blocks['q']
        return (np.concatenate((q & 15, q >> 4), axis=1) * d + m).reshape(-1)
    if kind == 'bf16':
        return from_bf16(np.frombuffer(data, dtype='<u2'))
    if kind == 'i64':
        return np.frombuffer(data, dtype='<i8')
    return np.frombuffer(data, dtype='<f2' if kind == 'f16' else '<f4').astype(np.float32)


# ---- safetensors ---------------------------------------------------------------------------------------------------

def write_safetensors(path: str, tensors: dict[str, Rows], kind: str, whole: tuple[str, ...] = ()) -> int:
    """kind f32 or bf16; those named in `whole` are I64. The bytes of all tensors."""
    kinds = {name: 'i64' if name in whole else kind for name in tensors}
    header: dict = {'__metadata__': {'format': 'pt'}}
    offset = 0
    for name, x in tensors.items():
        size = n_bytes(x.n_values(), kinds[name])
        header[name] = {'dtype': kinds[name].upper(), 'shape': list(x.shape), 'data_offsets': [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path + '.tmp', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for name, x in tensors.items():
            for piece in x.pieces():
                f.write(value_bytes(piece, kinds[name]))
    os.replace(path + '.tmp', path)
    return offset


def read_safetensors(path: str) -> dict[str, np.ndarray]:
    """F32 and BF16, as f32; I64 as it is."""
    with open(path, 'rb') as f:
        data = f.read()
    n, = struct.unpack_from('<Q', data)
    header, out = json.loads(data[8:8 + n]), {}
    header.pop('__metadata__', None)
    for name, entry in header.items():
        first, last = (8 + n + at for at in entry['data_offsets'])
        out[name] = values_of(data[first:last], entry['dtype'].lower()).reshape(entry['shape'])
    return out


# ---- GGUF ----------------------------------------------------------------------------------------------------------

def kind_of(x: Rows, wanted: str) -> str:
    """Vectors stay f32 in every file, and so do matrices whose rows are no whole blocks."""
    return 'f32' if len(x.shape) == 1 or (wanted == 'q8_0' and x.shape[1] % BLOCK) else wanted


def write_gguf(path: str, facts: Facts, tensors: dict[str, Rows], kind: str) -> None:
    entries, offset = [], 0
    for name, x in tensors.items():
        own, extents = kind_of(x, kind), x.shape[::-1]
        entries.append(gguf_string(name) + struct.pack(f'<I{len(extents)}QIQ', len(extents), *extents, TYPES[own][0], offset))
        size = n_bytes(x.n_values(), own)
        offset += size + len(padding(size))
    header = b'GGUF' + struct.pack('<IQQ', 3, len(entries), facts.count) + b''.join(facts.parts) + b''.join(entries)
    with open(path + '.tmp', 'wb') as f:
        f.write(header + padding(len(header)))
        for x in tensors.values():
            own = kind_of(x, kind)
            for piece in x.pieces():
                f.write(value_bytes(piece, own))
            f.write(padding(n_bytes(x.n_values(), own)))
    os.replace(path + '.tmp', path)


class GgufReader:
    """Facts and tensors of a file of ours: it trusts what it reads."""
    SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}

    def __init__(self, path: str):
        with open(path, 'rb') as f:
            self.facts, entries = self.header(f)
            start = f.tell() + -f.tell() % BLOCK
            self.tensors = {name: self.tensor(f, start + at, extents, kind) for name, extents, kind, at in entries}

    def header(self, f: BinaryIO) -> tuple[dict[str, Any], list[tuple[str, list[int], int, int]]]:
        if f.read(4) != b'GGUF':
            raise ValueError(f'{f.name} is no GGUF file')
        self.number(f, 'I')
        n_tensors, n_facts = self.number(f, 'Q'), self.number(f, 'Q')
        facts = {self.text(f): self.value(f, self.number(f, 'I')) for _ in range(n_facts)}
        entries = [(self.text(f), [self.number(f, 'Q') for _ in range(self.number(f, 'I'))], self.number(f, 'I'),
                    self.number(f, 'Q')) for _ in range(n_tensors)]
        return facts, entries

    @staticmethod
    def number(f: BinaryIO, code: str) -> Any:
        return struct.unpack('<' + code, f.read(struct.calcsize(code)))[0]

    def text(self, f: BinaryIO) -> str:
        return f.read(self.number(f, 'Q')).decode()

    def value(self, f: BinaryIO, kind: int) -> Any:
        if kind == 8:
            return self.text(f)
        if kind == 9:
            element, count = self.number(f, 'I'), self.number(f, 'Q')
            return [self.value(f, element) for _ in range(count)]
        return self.number(f, self.SCALARS[kind])

    @staticmethod
    def tensor(f: BinaryIO, at: int, extents: list[int], number: int) -> np.ndarray:
        if number not in KINDS:
            raise ValueError(f'{f.name}: tensors of type {number} cannot be read here; there are {sorted(KINDS.values())}')
        kind, shape = KINDS[number], extents[::-1]
        f.seek(at)
        return values_of(f.read(n_bytes(int(np.prod(shape)), kind)), kind).reshape(shape)
