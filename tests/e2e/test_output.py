# What the server writes to (stderr, stdout, a recording) is slow, gone, closed or full: requests are answered all the same.
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from quire_server import Server, binary, eventually, model, quire

N_REQUESTS = 3000  # their lines are several times what a pipe holds
ASK = {'prompt': 'a', 'max_tokens': 1, 'temperature': 0}


class PipedServer(Server):
    """Its stderr is the pipe `reader`, read by the test alone; `limits` are set in its process."""

    def __init__(self, *options, limits=(), stdout_fd=None, close_stderr=False):
        self.reader, writer = os.pipe()

        def prepare():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
            if close_stderr:
                os.close(2)

        command = [binary(), 'serve', model(), '--port', '0', '--log-requests', 'json', *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE if stdout_fd is None else stdout_fd, stderr=writer,
                                        text=True, preexec_fn=prepare)
        os.close(writer)
        if stdout_fd is not None:
            return
        line = self.process.stdout.readline()
        if not line.startswith('listening on http://'):
            raise RuntimeError(f'no server: {line!r}')
        self.port = int(line.rsplit(':', 1)[1])

    def close_reader(self):
        if self.reader >= 0:
            os.close(self.reader)
        self.reader = -1

    def read_log(self):
        """Reads to the end from now on; what it has is in the list."""
        out = []

        def read():
            while part := os.read(self.reader, 1 << 16):
                out.append(part.decode())

        threading.Thread(target=read, daemon=True).start()
        return out

    def stop(self, timeout=60):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        finally:
            self.process.kill()
            if self.process.stdout:
                self.process.stdout.close()
            self.close_reader()

    def ask_many(self, n):
        """Refused requests, each with a line in the log."""
        connection = self.connect()
        for _ in range(n):
            connection.request('POST', '/v1/completions', '{"prompt": 1.5}', {'Content-Type': 'application/json'})
            response = connection.getresponse()
            response.read()
            assert response.status == 400, response.status
        connection.close()


class LogReader(unittest.TestCase):
    def started(self, *options, **more):
        server = PipedServer(*options, **more)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def test_one_that_reads_nothing_stops_nobody(self):
        server = self.started()
        before = server.post('/v1/completions', ASK)[2]['choices']
        server.ask_many(N_REQUESTS * 3)  # more than queue and pipe hold
        self.assertEqual(server.get('/health')[0], 200)
        self.assertEqual(server.post('/v1/completions', ASK)[2]['choices'], before)
        n_dropped = server.metric('quire_log_lines_dropped_total')
        self.assertGreater(n_dropped, 0)
        # It begins to read: a line says how many are missing, and all others are there.
        log = server.read_log()
        self.assertTrue(eventually(lambda: 'lines dropped here' in ''.join(log)))
        server.ask_many(1)
        self.assertEqual(server.stop(), 0)
        lines = ''.join(log).splitlines()
        told = sum(int(line.split()[3]) for line in lines if 'lines dropped here' in line)
        self.assertGreaterEqual(told, n_dropped)
        asked = sum('"event":"request"' in line for line in lines)
        self.assertEqual(asked + told, N_REQUESTS * 3 + 3)

    def test_one_that_reads_nothing_does_not_keep_it_from_ending(self):
        server = self.started()
        server.ask_many(N_REQUESTS)
        self.assertEqual(server.stop(), 0)

    def test_one_that_closes_stops_nobody(self):
        server = self.started()
        server.close_reader()
        server.ask_many(100)
        self.assertEqual(server.get('/health')[0], 200)
        self.assertTrue(eventually(lambda: server.metric('quire_log_lines_dropped_total') > 0))
        self.assertEqual(server.stop(), 0)

    def test_without_stderr_the_log_goes_into_no_other_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'run.jsonl')
            server = self.started('--record', path, close_stderr=True)
            server.ask_many(3)
            server.post('/v1/completions', ASK)
            self.assertEqual(server.stop(), 0)
            with open(path, encoding='utf-8') as file:
                self.assertTrue(all(line.startswith('{') and '"event"' not in line for line in file))

    def test_a_full_stdout_delays_no_end(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b'x' * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        server = self.started(stdout_fd=writer)
        os.close(writer)
        log = server.read_log()
        self.assertTrue(eventually(lambda: 'cache blocks' in ''.join(log)))
        time.sleep(0.5)
        self.assertEqual(server.stop(), 0)
        os.close(reader)


class Recording(unittest.TestCase):
    def check(self, path, limits=()):
        server = PipedServer('--record', path, limits=limits)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        log = server.read_log()
        want = server.post('/v1/completions', ASK)[2]['choices']
        for _ in range(300):
            self.assertEqual(server.post('/v1/completions', ASK)[2]['choices'], want)
        self.assertTrue(eventually(lambda: 'the recording cannot be written' in ''.join(log)))
        self.assertEqual(server.post('/v1/completions', ASK)[2]['choices'], want)
        self.assertEqual(server.stop(), 1)  # said again at the end, with its exit code
        text = ''.join(log)
        self.assertEqual(text.count('the recording cannot be written and ends'), 1, text)

    def test_a_limit_of_file_sizes_ends_it_and_not_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(os.path.join(folder, 'run.jsonl'), [(resource.RLIMIT_FSIZE, 16_384)])

    def test_a_full_disk_ends_it_and_not_the_server(self):
        self.check('/dev/full')


class Pipes(unittest.TestCase):
    def test_a_command_whose_reader_leaves_ends_quietly(self):
        with subprocess.Popen([binary(), 'generate', model(), '--prompt', 'Once', '--ignore-eos', '--max-tokens', '200'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.stdout.close()
            self.assertEqual(process.wait(120), -signal.SIGPIPE)
            self.assertNotIn(b'quire:', process.stderr.read())

    def test_a_command_without_stderr_still_fails(self):
        done = subprocess.run([binary(), 'inspect', '/nowhere'], preexec_fn=lambda: os.close(2), check=False, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(quire('inspect', '/nowhere').returncode, 1)


if __name__ == '__main__':
    unittest.main()
