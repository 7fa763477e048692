# quire route before four servers that are machines of their own to it: network namespaces, links of different rates (tbf),
# lost packets and cut links (nftables). Needs root, iproute2 and nftables; without them it is skipped and says so.
# Runs alone
import ctypes
import os
import shutil
import subprocess
import threading
import unittest

from quire_server import Router, Server, binary, eventually, model
from test_route import chat, joined, raw_stream, text_of

RATES = ('2mbit', '10mbit', '100mbit', '100mbit')
PORT = 8080
CLONE_NEWNET = 0x40000000
NAMES = [f'quire-{os.getpid()}-{i}' for i in range(len(RATES))]


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)


def inside(i, *command):
    run('ip', 'netns', 'exec', NAMES[i], *command)


def host(i):
    return f'10.77.{i}.2'


def build():
    """This process's own network, and one for each server with a link to it. What is made of it goes with its process."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')
    run('ip', 'link', 'set', 'lo', 'up')
    for i, name in enumerate(NAMES):
        run('ip', 'netns', 'add', name)
        run('ip', 'link', 'add', f'q{i}', 'type', 'veth', 'peer', 'name', 'router', 'netns', name)
        run('ip', 'address', 'add', f'10.77.{i}.1/30', 'dev', f'q{i}')
        run('ip', 'link', 'set', f'q{i}', 'up')
        inside(i, 'ip', 'address', 'add', f'{host(i)}/30', 'dev', 'router')
        for link in ('lo', 'router'):
            inside(i, 'ip', 'link', 'set', 'dev', link, 'up')
        inside(i, 'tc', 'qdisc', 'add', 'dev', 'router', 'root', 'tbf', 'rate', RATES[i], 'burst', '16kb', 'latency', '200ms')
        inside(i, 'nft', 'add table inet t; add chain inet t in { type filter hook input priority 0; }; '
                         'add chain inet t out { type filter hook output priority 0; }')


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest('not root: no network namespaces can be made')
    for program in ('ip', 'tc', 'nft'):
        if shutil.which(program) is None:
            raise unittest.SkipTest(f'there is no {program}')
    try:
        build()
    except (OSError, subprocess.SubprocessError) as error:
        tearDownModule()
        raise unittest.SkipTest(f'networks cannot be made here: {error} {getattr(error, "stderr", "")}') from error


def tearDownModule():
    for name in NAMES:
        subprocess.run(['ip', 'netns', 'del', name], check=False, capture_output=True, timeout=30)


class RemoteServer(Server):
    def __init__(self, i):
        self.start([], 60, ['ip', 'netns', 'exec', NAMES[i], binary(), 'serve', model(), '--host', host(i), '--port', str(PORT),
                            '--threads', '1'])


class Networks(unittest.TestCase):
    def setUp(self):
        self.workers = [RemoteServer(i) for i in range(len(RATES))]
        limits = ('connect_ms=1000', 'probe_answer_ms=1000', 'dead_ms=2000', 'n_failures=1000', 'n_retries=1000')
        self.router = Router([f'http://{host(i)}:{PORT}' for i in range(len(RATES))], *(f'--limit={one}' for one in limits))
        self.assertTrue(self.router.wait_for(len(RATES)), self.router.workers())
        self.bodies = [chat([f'Story {i % 6} of the crow.'], max_tokens=60, ignore_eos=True, user=f'u{i}') for i in range(24)]
        self.expected = [text_of(self.router.post('/v1/chat/completions', body)[2]) for body in self.bodies[:6]]

    def tearDown(self):
        for i in range(len(RATES)):
            inside(i, 'nft', 'flush table inet t')
        self.router.stop()
        for worker in self.workers:
            worker.stop()

    def start_all(self):
        """Each body, whole and as a stream, all at once; the threads, and what they will have."""
        whole, streams = [None] * len(self.bodies), [None] * len(self.bodies)

        def ask_whole(i):
            whole[i] = self.router.post('/v1/chat/completions', self.bodies[i])

        def ask_stream(i):
            streams[i] = raw_stream(self.router, self.bodies[i])

        threads = [threading.Thread(target=f, args=(i,)) for i in range(len(self.bodies)) for f in (ask_whole, ask_stream)]
        for thread in threads:
            thread.start()
        return threads, whole, streams

    def expect_streams(self, streams):
        for i, (status, _, raw) in enumerate(streams):
            self.assertEqual(status, 200, raw)
            self.assertTrue(raw.endswith(b'data: [DONE]\n\n'), raw[-400:])
            self.assertEqual(joined(raw), self.expected[i % 6])

    def test_answers_are_whole_over_links_that_lose_packets(self):
        for i in range(len(RATES)):
            for chain in ('in', 'out'):
                inside(i, 'nft', f'add rule inet t {chain} numgen random mod 100 < 3 drop')
        threads, whole, streams = self.start_all()
        for thread in threads:
            thread.join()
        for i, (status, _, answer) in enumerate(whole):
            self.assertEqual(status, 200, answer)
            self.assertEqual(text_of(answer), self.expected[i % 6])
        self.expect_streams(streams)

    def test_a_link_that_is_cut_without_a_word_ends_no_stream(self):
        threads, whole, streams = self.start_all()
        cut = []

        def one_is_busy():
            known = self.router.workers()
            cut.extend(i for i in range(len(RATES)) if known[f'{host(i)}:{PORT}']['requests'] > 3)
            return cut

        self.assertTrue(eventually(one_is_busy))
        for chain in ('in', 'out'):  # nothing comes and nothing goes: no reset, no end
            inside(cut[0], 'nft', f'add rule inet t {chain} drop')
        for thread in threads:
            thread.join()
        self.expect_streams(streams)
        self.assertEqual(self.router.metric('quire_route_cut_streams_total'), 0)
        for i, (status, _, answer) in enumerate(whole):  # what has a first byte neither here nor there is asked elsewhere
            self.assertEqual(status, 200, answer)
            self.assertEqual(text_of(answer), self.expected[i % 6])
        self.assertGreater(self.router.metric('quire_route_retries_total')
                           + self.router.metric('quire_route_moved_streams_total'), 0)
        self.assertTrue(self.router.wait_for(len(RATES) - 1))
        inside(cut[0], 'nft', 'flush table inet t')
        self.assertTrue(self.router.wait_for(len(RATES)), 'the link is there again')
        self.assertTrue(all(w['load_tokens'] == 0 for w in self.router.workers().values()))


if __name__ == '__main__':
    unittest.main()
