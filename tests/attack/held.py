# What the attacked server holds while attacks run: its resident memory, and once a minute what it says itself that it holds
# for clients (its gauges). Bytes; a minute's line is printed at once, so that a run that is cut off has told what it saw.
import threading
import time

from soak import metrics, resident

MIB = 1 << 20
# What each minute's line has: heading, name of the metric, what it is divided by.
GAUGES = (('connections', 'quire_http_connections', 1), ('requests', 'quire_requests_open', 1),
          ('running', 'quire_num_requests_running', 1), ('waiting', 'quire_num_requests_waiting', 1),
          ('in MiB', 'quire_http_received_held_bytes', MIB), ('out MiB', 'quire_http_unsent_held_bytes', MIB),
          ('answers MiB', 'quire_answers_held_bytes', MIB), ('used blocks', 'quire_kv_blocks{state="used"}', 1))
FORM = '        {:>6} {:>9} {:>9} ' + ' '.join(f'{{:>{len(name) + 1}}}' for name, _, _ in GAUGES)
HEAD = FORM.format('minute', 'least MiB', 'most MiB', *(name for name, _, _ in GAUGES))


def gauges(server):
    """In the order of GAUGES, None where the server does not answer."""
    try:
        seen = metrics(server)
    except (OSError, ValueError, IndexError):
        return None
    return [seen.get(name, 0) / by for _, name, by in GAUGES]


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
