# What the server's threads did while an attack ran, by kind: how long they ran, and how long they could have run but the processor was
# somebody else's. The second tells a loaded processor from a lock: who waits for a lock cannot run. Linux; elsewhere it is empty.
import os

# How names begin, and what they do.
KINDS = (('qr-engine', 'engine'), ('qr-worker', 'engine'), ('quire-io', 'io'), ('quire-prep', 'prep'))


def _of(pid):
    """(thread's id, what it does) of each."""
    folder = f'/proc/{pid}/task'
    for tid in os.listdir(folder) if os.path.isdir(folder) else []:
        try:
            with open(f'{folder}/{tid}/comm', encoding='utf-8') as file:
                name = file.read().strip()
        except OSError:
            continue  # it has ended
        yield int(tid), next((kind for start, kind in KINDS if name.startswith(start)), 'other')


def times(pid):
    """{kind: (seconds that its threads ran, seconds that they could have run)} since they began."""
    seen = {}
    for tid, kind in _of(pid):
        try:
            with open(f'/proc/{pid}/task/{tid}/schedstat', encoding='ascii') as file:
                ran, waited = (int(part) / 1e9 for part in file.read().split()[:2])
        except OSError:
            continue
        before = seen.get(kind, (0.0, 0.0))
        seen[kind] = (before[0] + ran, before[1] + waited)
    return seen


def shares(before, after, seconds):
    """'engine 0.52 ran, 0.31 waited; …' of processors in use, of what changed in so many seconds."""
    parts = []
    for kind in ('engine', 'io', 'prep', 'other'):
        ran, waited = ((after.get(kind, (0, 0))[i] - before.get(kind, (0, 0))[i]) / seconds for i in (0, 1))
        if ran >= 0.005 or waited >= 0.005:
            parts.append(f'{kind} {ran:.2f} ran, {waited:.2f} waited')
    return '; '.join(parts)


def keep_engine_alone(pid, others):
    """Moves all threads but the engine's to these processors."""
    for tid, kind in _of(pid):
        if kind != 'engine':
            os.sched_setaffinity(tid, others)
