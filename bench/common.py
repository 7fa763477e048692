"""What the benchmarks beside other engines share."""
from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass
class Peer:
    name: str
    program: str
    flags: list[str]


def peer_of(text: str) -> Peer:
    """NAME=PROGRAM [FLAGS], as --peer takes it."""
    name, equals, command = text.partition('=')
    words = shlex.split(command)
    program = shutil.which(words[0]) if words else None
    if not equals or program is None:
        raise SystemExit(f'--peer must be NAME=PROGRAM [FLAGS] with a program that is there, got "{text}"')
    return Peer(name, program, words[1:])


def find_peers(wanted: list[str], program: str) -> list[Peer]:
    """Those that are wanted; without any, the `program` on PATH if it is there."""
    if wanted:
        return [peer_of(text) for text in wanted]
    found = shutil.which(program)
    return [Peer('llama.cpp', found, [])] if found else []


def numbers(text: str) -> list[int]:
    return [int(x) for x in text.split(',') if x]
