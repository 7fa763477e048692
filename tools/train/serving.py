"""A `quire serve` process for as long as a `with` lasts."""
from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def default_quire() -> str:
    return os.environ.get('QUIRE_BIN') or os.path.join(ROOT, 'build', 'release', 'quire')


@contextlib.contextmanager
def served(quire: str, model: str, *options: str) -> Iterator[str]:
    """The address."""
    command = [quire, 'serve', model, '--port', '0', *options]
    with tempfile.TemporaryFile('w+') as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith('listening on '):
                log.seek(0)
                raise SystemExit(f'{" ".join(command)}: {log.read().strip()}')
            yield line.split()[-1]
        finally:
            process.terminate()
