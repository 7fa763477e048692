# What the attacked server holds while attacks run: its resident memory, and once a minute what it says itself that it holds
# for clients (its gauges). Bytes; a minute's line is printed at once, so that a run that is cut off has told what it saw.
# What it holds when they have left is either kept for later requests, which has published limits and fills up over an hour of
# attacks (Held.kept), or must be what it was before.
import dataclasses
import threading
import time

from soak import metrics, resident

MIB = 1 << 20
# What each minute's line has: heading, name of the metric, what it is divided by.
GAUGES = (('connections', 'quire_http_connections', 1), ('requests', 'quire_requests_open', 1),
          ('running', 'quire_num_requests_running', 1), ('waiting', 'quire_num_requests_waiting', 1),
          ('in MiB', 'quire_http_received_held_bytes', MIB), ('out MiB', 'quire_http_unsent_held_bytes', MIB),
          ('answers MiB', 'quire_answers_held_bytes', MIB), ('used blocks', 'quire_kv_blocks{state="used"}', 1),
          ('heap MiB', 'quire_heap_bytes{state="used"}', MIB), ('grammars MiB', 'quire_kept_bytes{what="grammars"}', MIB),
          ('tools MiB', 'quire_kept_bytes{what="tools"}', MIB))
FORM = '        {:>6} {:>9} {:>9} ' + ' '.join(f'{{:>{len(name) + 1}}}' for name, _, _ in GAUGES)
HEAD = FORM.format('minute', 'least MiB', 'most MiB', *(name for name, _, _ in GAUGES))


def gauges(server):
    """In the order of GAUGES, None where the server does not answer."""
    try:
        seen = metrics(server)
    except (OSError, ValueError, IndexError):
        return None
    return [seen.get(name, 0) / by for _, name, by in GAUGES]


@dataclasses.dataclass
class Held:
    """What a server holds while nothing of an attack is there: resident, what of its allocator is in use, and of that what it
    keeps for later requests, by what it is, as {what: (bytes, most)}."""
    resident: int
    heap: int
    kept: dict

    @classmethod
    def of(cls, server):
        return cls.read(metrics(server), resident(server))

    @classmethod
    def read(cls, seen, resident_bytes):
        name = 'quire_kept_bytes{'
        kept = {key.split('"')[1]: (int(n), int(seen[key.replace(name, 'quire_kept_bytes_limit{')]))
                for key, n in seen.items() if key.startswith(name)}
        return cls(resident_bytes, int(seen['quire_heap_bytes{state="used"}']), kept)

    def n_kept(self):
        return sum(n for n, _ in self.kept.values())

    def beyond(self, before, slack, heap_slack):
        """What does not hold, in words: more is resident, or in use, than before and than what is kept accounts for; or more
        is kept than its limit says."""
        more = max(0, self.n_kept() - before.n_kept())
        why = []
        for what, now, then, allowed in (('memory', self.resident, before.resident, slack),
                                         ('what the allocator has in use', self.heap, before.heap, heap_slack)):
            if now - then - more > allowed:
                why.append(f'{what} is {(now - then) / MIB:.0f} MiB beyond what it was, of which {more / MIB:.0f} are kept for '
                           f'later requests (allowed beside these: {allowed / MIB:.0f})')
        why += [f'of {what} {n} bytes are kept, {most} are allowed' for what, (n, most) in self.kept.items() if n > most]
        return why

    def line(self, before):
        def change(now, then):
            return f'{then / MIB:.1f} → {now / MIB:.1f}'
        return ', '.join([f'resident {change(self.resident, before.resident)}', f'in use {change(self.heap, before.heap)}',
                          *(f'{what} {change(n, before.kept[what][0])}' for what, (n, _) in self.kept.items())])


class Memory:
    """What the server held while this ran: the most, and a line for every minute."""

    def __init__(self, server):
        self.server, self.most, self.minutes = server, resident(server), []
        self._least = self._most = self.most  # of this minute
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        begun = time.monotonic()
        while not self._end.wait(0.1) and self.server.process.poll() is None:
            now = resident(self.server)
            self.most = max(self.most, now)
            self._least, self._most = min(self._least, now), max(self._most, now)
            if time.monotonic() - begun >= 60 * (len(self.minutes) + 1):
                self._tell()

    def _tell(self):
        if not self.minutes:
            print(HEAD, flush=True)
        self.minutes.append((self._least, self._most))
        held = gauges(self.server) or ['?'] * len(GAUGES)
        print(FORM.format(len(self.minutes), self._least // MIB, self._most // MIB,
                          *(value if value == '?' else f'{value:.0f}' for value in held)), flush=True)
        self._least = self._most = resident(self.server)

    def stop(self):
        self._end.set()
        self._thread.join()
