# The subcommands beside the server, run as a person or a script runs them.
import concurrent.futures
import fcntl
import http.server
import json
import os
import re
import struct
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from quire_server import BUNDLED, ROOT, LocalServer, Server, binary, eventually, model, open_terminal


def quire(*arguments, code=0, text=None, env=None):
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300, check=False, input=text,
                          env={**os.environ, **(env or {})})
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


class Generate(unittest.TestCase):
    def test_n_answers_draw_with_seeds_one_apart(self):
        common = ('generate', model(), '--prompt', 'Once upon', '--raw', '--max-tokens', '8', '--temperature', '1',
                  '--top-k', '40', '--json')
        several = quire(*common, '--n', '3', '--seed', '5').stdout.splitlines()
        alone = [quire(*common, '--seed', str(5 + i)).stdout.splitlines()[0] for i in range(3)]
        self.assertEqual([json.loads(line)['tokens'] for line in several], [json.loads(line)['tokens'] for line in alone])

    def test_a_context_beyond_what_the_model_learned_is_said(self):
        common = ('generate', model(), '--prompt', 'x', '--max-tokens', '1')
        self.assertIn('--ctx 8193: ' + model() + ' was trained for 8192 positions', quire(*common, '--ctx', '8193').stderr)
        self.assertNotIn('trained for', quire(*common, '--ctx', '8192').stderr)

    def test_ranges_are_named(self):
        for arguments, words in ((('--n', '0'), '--n must be 1 to 1024, got 0'),
                                 (('--top-p', '1.5'), '--top-p must be 0 to 1 or -1, got 1.5'),
                                 (('--top-k', '-2'), '--top-k must be 0')):
            self.assertIn(words, quire('generate', model(), '--prompt', 'x', *arguments, code=2).stderr)


    def test_a_chat_template_that_cannot_be_read_gives_way_to_a_plain_one(self):
        with open(model(), 'rb') as file:
            data = file.read()
        self.assertIn(b'endfor', data)
        with tempfile.TemporaryDirectory() as folder:
            spoiled = os.path.join(folder, 'spoiled.gguf')
            with open(spoiled, 'wb') as file:
                file.write(data.replace(b'endfor', b'endfox'))
            done = quire('generate', spoiled, 'hi', '--max-tokens', '3', '--json')
        self.assertIn("the model's chat template cannot be used, a plain one is: ", done.stderr)
        self.assertEqual(len(json.loads(done.stdout)['tokens']), 3)


class Logits(unittest.TestCase):
    def test_the_top_of_each_position_as_json(self):
        lines = [json.loads(line) for line in
                 quire('logits', model(), '--tokens', '1,5,9,2', '--top', '3', '--chunk', '2').stdout.splitlines()]
        self.assertEqual([line['id'] for line in lines], [1, 5, 9, 2])
        self.assertEqual([line['next']['id'] for line in lines[:-1]], [5, 9, 2])
        self.assertNotIn('next', lines[-1])
        for line in lines:
            logprobs = [candidate['logprob'] for candidate in line['top']]
            self.assertEqual(len(logprobs), 3)
            self.assertEqual(logprobs, sorted(logprobs, reverse=True))
            self.assertLessEqual(max(logprobs), 0)

    def test_one_of_both_forms_is_needed(self):
        self.assertIn('--out or --top', quire('logits', model(), '--tokens', '1', code=1).stderr)


class Doctor(unittest.TestCase):
    def test_json_names_every_check(self):
        out = json.loads(quire('doctor', model(), '--no-probe', '--json').stdout)
        subjects = [check['subject'] for check in out['checks']]
        self.assertEqual(subjects, ['instruction set', 'threads', 'load', 'governor', 'huge pages', 'memory', 'swap',
                                    'open files'])
        for check in out['checks']:
            self.assertEqual(check['severity'] != 'ok', 'hint' in check)


class Chat(unittest.TestCase):
    def test_a_conversation_by_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'talk.json')
            done = quire('chat', model(), '--temperature', '0', '--max-tokens', '8', '--system', 'Be brief.',
                         text=f'One\\\ntwo\nthree\n/retry\n/save {path}\n')
            with open(path, encoding='utf-8') as file:
                messages = json.load(file)
        self.assertEqual([m['role'] for m in messages], ['system', 'user', 'assistant', 'user', 'assistant'])
        self.assertEqual(messages[1]['content'], 'One\ntwo')
        self.assertEqual(messages[3]['content'], 'three')
        stats = re.findall(r'\[(\d+) tokens, (?:.* tok/s, )?first after .* (\d+) of (\d+) prompt tokens cached', done.stderr)
        self.assertEqual(len(stats), 3)
        self.assertEqual(stats[2][2], stats[1][2], 'a retry asks the same')
        self.assertGreater(int(stats[2][1]), 0)

    def talk(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'talk.json')
            quire('chat', model(), '--temperature', '0', '--max-tokens', '4', text='\n'.join((*lines, f'/save {path}\n')))
            with open(path, encoding='utf-8') as file:
                return [(m['role'], m['content']) for m in json.load(file) if m['role'] != 'assistant']

    def test_a_retry_asks_under_the_system_prompt_that_was_set_since(self):
        self.assertEqual(self.talk('One', 'Two', '/system Be a pirate', '/retry'),
                         [('system', 'Be a pirate'), ('user', 'Two')])
        self.assertEqual(self.talk('/system Be a pirate', 'One', 'Two', '/system', '/retry', 'Three', '/retry'),
                         [('user', 'Two'), ('user', 'Three')])

    def test_behind_a_reset_there_is_nothing_to_ask_again(self):
        done = quire('chat', model(), '--max-tokens', '1', text='One\n/reset\n/retry\n', code=1)
        self.assertIn('there is no question to ask again', done.stderr)
        self.assertIn('[1 tokens, first after', done.stderr)  # one token has no rate

    def test_what_fails_without_a_person_ends_with_one(self):
        self.assertIn('no command /nope', quire('chat', model(), text='/nope\n', code=1).stderr)

    def test_with_a_server(self):
        server = Server('--threads', '1', '--api-key', 'k')
        try:
            done = quire('chat', '--url', server.url, '--api-key', 'k', '--max-tokens', '4', text='Hello\n')
            self.assertIn('tokens', done.stderr)
            self.assertIn('/v1/models answers 401', quire('chat', '--url', server.url, text='Hello\n', code=1).stderr)
        finally:
            server.stop()

    def test_a_conversation_in_a_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            history = os.path.join(folder, 'state', 'lines')
            with Terminal(binary(), 'chat', model(), '--history', history, '--temperature', '1', '--ctx', '400',
                          '--threads', '1') as terminal:
                terminal.wait_for('leaves.\r\n> ')
                terminal.type('Once upon a time\n')
                terminal.wait_for('[')
                terminal.wait_for('tokens')  # the figures: the answer is over
                terminal.wait_for('\r\n> ')
                terminal.type('/reset\n/help\n')  # both at once
                terminal.wait_for('begin anew\r\n/retry')
                terminal.wait_for('\r\n> ')
                terminal.type('/save ')  # Ctrl-C takes a line back at once, without another key
                terminal.wait_for('/save ')
                terminal.type('\x03')
                terminal.wait_for('^C\r\n> ')
                terminal.type('/naïve\n')
                terminal.wait_for('no command /naïve')
                terminal.wait_for('\r\n> ')
                terminal.type('\x04')
                self.assertEqual(terminal.end(), 0)
            with open(history, encoding='utf-8') as file:
                lines = file.read()
            self.assertIn('Once', lines)
            self.assertNotIn('save', lines)
            self.assertEqual(os.stat(history).st_mode & 0o077, 0)

    def test_what_is_typed_while_an_answer_comes_is_the_next_line(self):
        with Answering() as server:
            with Terminal(binary(), 'chat', '--url', server.url, '--history', 'none') as terminal:
                terminal.wait_for('leaves.\r\n> ')
                terminal.type('Tell me\n')
                terminal.wait_for('first piece')
                terminal.type('/help\n\x04')
                server.go_on.set()
                terminal.wait_for('begin anew')
                self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_stops_an_answer_in_a_terminal(self):
        with Answering() as server:
            with Terminal(binary(), 'chat', '--url', server.url, '--history', 'none') as terminal:
                terminal.wait_for('leaves.\r\n> ')
                terminal.type('Tell me\n')
                terminal.wait_for('first piece')
                terminal.type('\x03')  # the server says nothing more
                terminal.wait_for('stopped')
                terminal.wait_for('\r\n> ')
                terminal.type('\x04')
                self.assertEqual(terminal.end(), 0)

    def test_a_terminal_is_left_as_it_was_found(self):
        with Answering() as server:
            for end in (signal.SIGTERM, signal.SIGHUP, None):
                with Terminal(binary(), 'chat', '--url', server.url, '--history', 'none') as terminal:
                    terminal.wait_for('leaves.\r\n> ')
                    self.assertFalse(terminal.mode()[3] & (termios.ICANON | termios.ECHO))
                    if end:
                        os.kill(terminal.pid, end)
                    else:
                        terminal.type('\x04')
                    self.assertEqual(terminal.end(), -end if end else 0)
                    self.assertEqual(terminal.mode(), terminal.found)

    def test_ctrl_c_within_an_answer(self):
        server = Server('--backend', 'ref')  # so slow that an answer goes on however late the signal comes
        try:
            process = subprocess.Popen([binary(), 'chat', '--url', server.url], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # An answer may still be of a few words: it is asked until one was stopped in its middle.
            for _ in range(50):
                process.stdin.write('Tell me more\n/reset\n')
                process.stdin.flush()
                process.stdout.read(1)
                process.send_signal(signal.SIGINT)
                line = process.stderr.readline()
                self.assertIn('tokens', line)
                if 'stopped' in line:
                    break
            else:
                self.fail('no answer was stopped')
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)
            self.assertTrue(eventually(lambda: server.metric('quire_num_requests_running') == 0))
            process.stdout.close()
            process.stderr.close()
        finally:
            server.stop()


class Answering(LocalServer):
    """A server with OpenAI's API that begins every answer and ends it when `go_on` is set."""

    def __enter__(self):
        self.go_on = threading.Event()
        go_on = self.go_on

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply('application/json', json.dumps({'data': [{'id': 'slow'}]}).encode())

            def do_POST(self):
                self.rfile.read(int(self.headers['Content-Length']))
                self.reply('text/event-stream', self.event({'content': 'first piece'}, None))
                go_on.wait()
                try:
                    self.wfile.write(self.event({'content': ' and last'}, 'stop') + b'data: [DONE]\n\n')
                except OSError:
                    pass  # whoever asked has left

            @staticmethod
            def event(delta, finish):
                choice = {'index': 0, 'delta': delta, 'finish_reason': finish}
                return f'data: {json.dumps({"choices": [choice]})}\n\n'.encode()

            def reply(self, media_type, body):
                self.send_response(200)
                self.send_header('Content-Type', media_type)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return self.listen(Handler)

    def __exit__(self, *_):
        self.go_on.set()
        super().__exit__()


class Terminal:
    """A program that believes a person is there."""

    def __init__(self, *command):
        self.output = ''
        self.fd, slave = open_terminal()
        self.slave = slave  # held, so that the mode can be asked for after the program's end
        self.found = self.mode()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env={**os.environ, 'TERM': 'xterm'},
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.pid = self.process.pid

    def mode(self):
        return termios.tcgetattr(self.slave)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, text, timeout=120):
        end = time.monotonic() + timeout
        while text not in self.output:
            ended = self.process.poll() is not None
            if select.select([self.fd], [], [], 0.2)[0]:
                self.output += os.read(self.fd, 1 << 16).decode('utf-8', 'replace')
            elif ended or time.monotonic() > end:
                raise AssertionError(f'{text!r} did not come: {self.output!r}')
        self.output = self.output.split(text, 1)[1]

    def end(self):
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)
        os.close(self.slave)


def resident_bytes(server):
    with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1)) * 1024


class Memory(unittest.TestCase):
    """What `quire inspect` says a server takes is what it takes."""

    SLACK = 8 << 20  # threads' stacks, the allocator's arenas: what no model's size says
    LITTLE = 1 << 20  # the same of a server with 64 requests, beyond what was measured once and counts as the rest

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, 'model.gguf')
        subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'make_model.py'), '--shape', 'tiny', '--type', 'f32',
                        '--n-embd', '512', '--n-layers', '4', '--n-ff', '1536', '--n-ctx', '1024', '--seed', '1', '--out',
                        cls.path], check=True, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_what_the_server_counts_and_what_the_system_counts(self):
        facts = json.loads(quire('inspect', self.path, '--json', '--ctx', '512', '--step-tokens', '128').stdout)['memory']
        server = Server('--ctx', '512', '--kv-memory', str(facts['cache']), '--threads', '2', '--step-tokens', '128',
                        path=self.path)
        try:
            answer = server.post('/v1/completions', {'prompt': [5 + i % 90 for i in range(500)], 'max_tokens': 8})
            self.assertEqual(answer[0], 200)
            resident = resident_bytes(server)
        finally:
            server.stop()
        line = next(line for line in server.log if 'bytes of weights' in line)
        counted = re.search(r'(\d+) bytes of weights, (\d+) of cache, (\d+) of scratch', line)
        weights, cache, scratch = map(int, counted.groups())
        self.assertEqual((cache, scratch), (facts['cache'], facts['scratch']))
        self.assertLess(abs(weights - facts['weights']), 0.02 * facts['weights'])
        self.assertLess(abs(resident - facts['total']), 0.02 * facts['total'] + self.SLACK)

    def test_of_the_bundled_models_is_right_once_all_of_it_was_used(self):
        if not os.path.exists(BUNDLED):
            self.skipTest('no bundled model')
        for path in (BUNDLED, BUNDLED.replace('q8_0', 'q4_k')):
            with self.subTest(os.path.basename(path)):
                facts = json.loads(quire('inspect', path, '--json', '--ctx', '2048').stdout)['memory']
                server = Server('--ctx', '2048', '--kv-memory', str(facts['cache']), '--threads', '2', path=path)
                try:
                    # Every block of the cache and a step's every row, then logits of as many rows as sequences may run.
                    bodies = [{'prompt': [300 + i % 900 for i in range(2040)], 'max_tokens': 8}]
                    bodies += [{'prompt': [300 + i, 301, 302], 'max_tokens': 16} for i in range(64)]
                    self.assertEqual(server.post('/v1/completions', bodies[0])[0], 200)
                    with concurrent.futures.ThreadPoolExecutor(64) as pool:
                        answers = list(pool.map(lambda body: server.post('/v1/completions', body)[0], bodies[1:]))
                    self.assertEqual(answers, [200] * 64)
                    resident = resident_bytes(server)
                finally:
                    server.stop()
                self.assertLess(abs(resident - facts['total']), 0.02 * facts['total'] + self.LITTLE)

    def test_loading_takes_little_more_than_what_stays(self):
        path = os.path.join(self.folder.name, 'f16.gguf')
        subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'make_model.py'), '--shape', 'custom', '--type', 'f16',
                        '--n-embd', '1024', '--head-dim', '64', '--n-heads', '16', '--n-kv-heads', '4', '--n-ff', '2816',
                        '--n-layers', '6', '--n-vocab', '2000', '--seed', '1', '--out', path], check=True,
                       stderr=subprocess.DEVNULL)
        for weights in ([], ['--weights', 'q8_0'], ['--weights', 'q4_k']):
            with self.subTest(weights):
                facts = json.loads(quire('inspect', path, '--json', '--ctx', '1024', *weights).stdout)['memory']
                server = Server('--ctx', '1024', '--kv-memory', str(facts['cache']), '--threads', '2', *weights, path=path)
                try:
                    with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
                        peak = int(re.search(r'VmHWM:\s+(\d+) kB', file.read()).group(1)) * 1024
                finally:
                    server.stop()
                self.assertLess(peak, 1.1 * (facts['weights'] + facts['cache']) + facts['process'] + self.SLACK)
        os.remove(path)

    def test_verify_names_what_is_no_number(self):
        done = quire('inspect', self.path, '--verify')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('every number is finite', done.stdout)
        spoiled = os.path.join(self.folder.name, 'spoiled.gguf')
        with open(self.path, 'rb') as file:
            data = bytearray(file.read())
        data[-4:] = struct.pack('<f', float('nan'))
        with open(spoiled, 'wb') as file:
            file.write(data)
        done = quire('inspect', spoiled, '--verify', code=1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r'^[a-z0-9_.]+: 1 of \d+ numbers are not finite; the first is nan in row \d+, column \d+\n')
        self.assertIn('spoiled.gguf: 1 of ', done.stderr)

    def test_the_doctor_fails_where_it_does_not_fit(self):
        shell = f'ulimit -v 60000; exec {binary()} doctor {self.path} --no-probe --threads 1'
        done = subprocess.run(['bash', '-c', shell], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_the_doctor_names_a_model_that_is_not_there(self):
        for named in ('/nonexistent/x.gguf', 'foo.gguf'):
            done = quire('doctor', named, '--no-probe', code=1)
            self.assertIn(f'no file or folder "{named}"', done.stderr)

    def test_a_context_that_was_asked_for_fits_the_cache_that_was_asked_for(self):
        done = quire('serve', self.path, '--port', '0', '--threads', '1', '--ctx', '8192', '--kv-memory', '1M', code=1)
        self.assertRegex(done.stderr, r'--ctx 8192 in that --kv-memory does not fit: needs .* MiB, has 1.0 MiB; '
                                      r'try --ctx \d+ or --kv-memory \d+M')
        advice = re.search(r'try --ctx (\d+) or', done.stderr)[1]
        server = Server('--ctx', advice, '--kv-memory', '1M', '--threads', '1', path=self.path)
        try:
            self.assertEqual(server.get('/props')[2]['default_generation_settings']['n_ctx'], int(advice))
        finally:
            server.stop()

    def test_what_does_not_fit_is_refused_before_loading(self):
        shell = f'ulimit -v 400000; exec {binary()} serve {self.path} --port 0 --threads 1 --kv-memory 1G'
        done = subprocess.run(['bash', '-c', shell], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'--kv-memory 1.00 GiB does not fit: needs .* has .* MiB; try --kv-memory \d+M or auto')


if __name__ == '__main__':
    unittest.main()
