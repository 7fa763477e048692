# quire route before models of this machine: engines that come when they are asked for and go when nobody asks.
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from client_packages import PYTHON, missing
from quire_server import ROOT, Router, Server, eventually, joined, quire

MODELS = os.path.join(ROOT, 'models')
ONE, TWO, THREE = 'quill-q8_0', 'quill-q4_k', 'quill-draft-q8_0'


def path_of(name):
    return os.path.join(MODELS, name + '.gguf')


def chat(model, text='Tell me a story about a fox.', **more):
    return {'model': model, 'messages': [{'role': 'user', 'content': text}], 'max_tokens': 12, 'seed': 5, **more}


def text_of(answer):
    return answer['choices'][0]['message']['content']


def children(pid):
    """Its child processes that have not ended: number and command line."""
    out = {}
    for entry in os.listdir('/proc'):
        try:
            with open(f'/proc/{entry}/stat', encoding='utf-8') as f:
                stat = f.read().rsplit(')', 1)[1].split()
            with open(f'/proc/{entry}/cmdline', encoding='utf-8') as f:
                command = f.read()
        except (OSError, IndexError):
            continue
        if int(stat[1]) == pid and stat[0] not in 'ZX':
            out[int(entry)] = command
    return out


def is_gone(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
            return f.read().rsplit(')', 1)[1].split()[0] in 'ZX'
    except OSError:
        return True


def port_of(pid):
    """Where a process listens."""
    links = [os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')]
    with open(f'/proc/{pid}/net/tcp', encoding='utf-8') as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return next(int(row[1].split(':')[1], 16) for row in rows if row[3] == '0A' and f'socket:[{row[9]}]' in links)


class ModelRouter(Router):
    def __init__(self, *options):
        super().__init__([], '--serve-option', 'threads=1', '--serve-option', 'ctx=512', *options)

    def engine(self, name):
        """The process of a model's engine; None: there is none."""
        return next((pid for pid, command in children(self.process.pid).items() if f'--name={name}\0' in command), None)

    def loaded(self):
        return [m['name'] for m in self.get('/api/ps')[2]['models']]

    def status(self, name):
        return next(m['status'] for m in self.get('/v1/models')[2]['data'] if m['id'] == name)


class Folder:
    """A folder with links to the bundled models, and one file that is no model."""

    def __init__(self, *names, corrupt=False):
        self.path = tempfile.mkdtemp(prefix='quire-models-')
        for name in names:
            os.symlink(path_of(name), os.path.join(self.path, name + '.gguf'))
        if corrupt:
            with open(os.path.join(self.path, 'corrupt.gguf'), 'wb') as f:
                f.write(b'GGUF' + bytes(range(200)))

    def close(self):
        shutil.rmtree(self.path)


@unittest.skipUnless(os.path.exists(path_of(THREE)), 'the bundled models are not here')
class RouteModels(unittest.TestCase):
    def route(self, *options, names=(ONE, TWO, THREE), corrupt=False):
        folder = Folder(*names, corrupt=corrupt)
        self.addCleanup(folder.close)
        router = ModelRouter('--models', folder.path, *options)
        self.addCleanup(router.stop)
        return router

    def ask(self, router, body):
        status, headers, answer = router.post('/v1/chat/completions', body)
        self.assertEqual(status, 200, answer)
        return answer, headers

    def test_it_starts_when_it_is_asked_for_and_goes_when_nobody_asks(self):
        router = self.route('--keep-alive', '4s')
        self.assertEqual([m['id'] for m in router.get('/v1/models')[2]['data']], sorted([ONE, TWO, THREE]))
        self.assertEqual(children(router.process.pid), {})
        answer, headers = self.ask(router, chat(ONE))
        self.assertEqual((answer['model'], headers['x-quire-worker']), (ONE, ONE))
        server = Server('--threads', '1', '--ctx', '512', path=path_of(ONE))
        self.addCleanup(server.stop)
        self.assertEqual(text_of(answer), text_of(server.post('/v1/chat/completions', chat(ONE))[2]))
        self.ask(router, chat(TWO))
        self.assertEqual(router.status(ONE), {'value': 'loaded'})
        self.assertEqual(router.status(THREE), {'value': 'unloaded'})
        tags = router.get('/api/tags')[2]['models']
        self.assertEqual([m['name'] for m in tags], sorted([ONE, TWO, THREE]))
        self.assertEqual(next(m['size'] for m in tags if m['name'] == ONE), os.path.getsize(path_of(ONE)))
        self.assertIn(TWO, router.loaded())
        self.assertTrue(eventually(lambda: router.loaded() == [] and not children(router.process.pid)))
        self.ask(router, chat(ONE))

    def test_learned_prefixes_and_adapters_have_names(self):
        radio, pirate = (os.path.join(ROOT, 'models', 'adapters', name) for name in ('radio', 'pirate'))
        options = (f'prefix=radio={radio}', f'lora=pirate={pirate}')
        router = self.route(*(part for option in options for part in ('--model-option', f'{ONE}={option}')), names=(ONE, TWO))
        listed = {m['id']: m.get('parent') for m in router.get('/v1/models')[2]['data']}
        self.assertEqual(listed, {ONE: None, TWO: None, f'{ONE}:radio': ONE, f'{ONE}:pirate': ONE})
        server = Server('--threads', '1', '--ctx', '512', '--name', ONE, *('--' + option for option in options), path=path_of(ONE))
        self.addCleanup(server.stop)
        texts = set()
        for name in (ONE, f'{ONE}:radio', f'{ONE}:pirate'):
            answer, headers = self.ask(router, chat(name))
            self.assertEqual((answer['model'], headers['x-quire-worker']), (name, ONE))
            self.assertEqual(text_of(answer), text_of(server.post('/v1/chat/completions', chat(name))[2]))
            texts.add(text_of(answer))
        self.assertEqual(len(texts), 3)
        self.assertEqual({m['id'] for m in router.get('/v1/models')[2]['data']}, set(listed))  # once it is loaded, too
        self.assertEqual(router.post('/v1/chat/completions', chat(f'{TWO}:radio'))[0], 404)

    def test_a_running_answer_is_never_cut_by_its_time(self):
        router = self.route('--keep-alive', '0')
        body = chat(ONE, max_tokens=200, ignore_eos=True)
        events = router.events('/v1/chat/completions', body)
        self.assertEqual(events[-1], '[DONE]')
        self.assertTrue(eventually(lambda: router.loaded() == []))

    def test_files_come_and_go_and_are_shown_without_being_loaded(self):
        folder = Folder(ONE)
        self.addCleanup(folder.close)
        router = ModelRouter('--models', folder.path, '--limit', 'model_look_ms=50')
        self.addCleanup(router.stop)

        def names():
            return sorted(m['id'] for m in router.get('/v1/models')[2]['data'])

        self.assertEqual(names(), [ONE])
        self.ask(router, chat(ONE))
        os.symlink(path_of(TWO), os.path.join(folder.path, TWO + '.gguf'))
        self.assertTrue(eventually(lambda: names() == sorted([ONE, TWO])))
        self.assertTrue(eventually(lambda: router.post('/api/show', {'model': TWO})[2]['details']['family'] != ''))
        shown = router.post('/api/show', {'model': TWO})[2]
        self.assertEqual(router.loaded(), [ONE])
        server = Server('--threads', '1', path=path_of(TWO))
        self.addCleanup(server.stop)
        own = server.post('/api/show', {'model': TWO})[2]
        self.assertEqual({**shown, 'modified_at': ''}, {**own, 'modified_at': ''})
        self.ask(router, chat(TWO))
        os.remove(os.path.join(folder.path, ONE + '.gguf'))
        self.assertTrue(eventually(lambda: names() == [TWO] and router.engine(ONE) is None))
        self.assertEqual([m['name'] for m in router.get('/api/tags')[2]['models']], [TWO])
        status, _, answer = router.post('/v1/chat/completions', chat(ONE))
        self.assertEqual((status, answer['error']['code']), (404, 'model_not_found'))
        os.symlink(path_of(ONE), os.path.join(folder.path, ONE + '.gguf'))
        self.assertTrue(eventually(lambda: ONE in names()))
        self.ask(router, chat(ONE))

    def test_ollamas_fields(self):
        router = self.route()
        status, _, answer = router.post('/api/generate', {'model': ONE, 'stream': False})
        self.assertEqual((status, answer['done_reason']), (200, 'load'))
        self.assertEqual(router.loaded(), [ONE])
        ps = router.get('/api/ps')[2]['models'][0]
        self.assertRegex(ps['expires_at'], r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$')
        ask = {'model': ONE + ':latest', 'prompt': 'Once', 'stream': False, 'options': {'num_predict': 4}}
        self.assertEqual(router.post('/api/generate', {**ask, 'keep_alive': -1})[0], 200)
        self.assertTrue(router.get('/api/ps')[2]['models'][0]['expires_at'].startswith('9999'))
        self.assertEqual(router.post('/api/generate', {**ask, 'keep_alive': '300ms'})[0], 200)
        self.assertTrue(eventually(lambda: router.loaded() == []))
        for bad in ('abc', '', '5x', [], True, 1e300, '99999999999h'):
            status, _, answer = router.post('/api/generate', {**ask, 'keep_alive': bad})
            self.assertEqual(status, 400, bad)
            self.assertIn('keep_alive must be', answer['error'])
        self.assertEqual(router.loaded(), [])
        messages = {'model': TWO, 'messages': [{'role': 'user', 'content': 'Hello'}], 'options': {'num_predict': 4}}
        connection = router.connect()
        connection.request('POST', '/api/chat', json.dumps(messages))
        lines = [json.loads(line) for line in connection.getresponse()]
        connection.close()
        self.assertTrue(lines[-1]['done'])
        self.assertEqual({line['model'] for line in lines}, {TWO})
        answer = router.post('/api/chat', {'model': TWO, 'messages': [], 'keep_alive': 0})[2]
        self.assertEqual(answer['done_reason'], 'unload')
        self.assertTrue(eventually(lambda: router.engine(TWO) is None))
        self.assertEqual(router.post('/api/show', {'model': 'nobody'})[0], 404)
        self.assertIn('version', router.get('/api/version')[2])

    def test_two_swap_in_the_room_of_one_and_no_request_is_lost(self):
        router = self.route('--max-models', '1', names=(ONE, TWO))
        expected = {}
        for name in (ONE, TWO):
            expected[name] = [text_of(self.ask(router, chat(name, f'Story {i}.'))[0]) for i in range(3)]
        most, done = [0], threading.Event()

        def watch():
            while not done.is_set():
                most[0] = max(most[0], len(children(router.process.pid)))
                time.sleep(0.01)

        failures = []

        def client(number):
            for i in range(8):
                name = (ONE, TWO)[(number + i // 2) % 2]
                if i % 2:
                    text = joined(router.events('/v1/chat/completions', chat(name, f'Story {i % 3}.')))
                else:
                    status, _, answer = router.post('/v1/chat/completions', chat(name, f'Story {i % 3}.'))
                    text = text_of(answer) if status == 200 else answer
                if text != expected[name][i % 3]:
                    failures.append((name, text))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
        watcher = threading.Thread(target=watch)
        for thread in (watcher, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        watcher.join()
        self.assertEqual(failures, [])
        self.assertEqual(most[0], 1)
        self.assertGreater(router.metric('quire_engine_starts_total'), 2)
        self.assertEqual(router.metric('quire_engine_failures_total'), 0)

    def test_an_engine_that_is_killed_is_started_again(self):
        router = self.route(names=(ONE, TWO))
        before = text_of(self.ask(router, chat(ONE))[0])
        os.kill(router.engine(ONE), signal.SIGKILL)  # idle; the next request comes before anybody noticed, or after
        self.assertEqual(text_of(self.ask(router, chat(ONE))[0]), before)

        killed, events = [], []

        def kill_once(event):
            events.append(event)
            if not killed and len(events) > 5:
                killed.append(router.engine(ONE))
                os.kill(killed[0], signal.SIGKILL)

        connection = router.connect()
        body = chat(ONE, max_tokens=400, ignore_eos=True, stream=True)
        connection.request('POST', '/v1/chat/completions', json.dumps(body))
        response = connection.getresponse()
        raw = b''
        for line in response:
            raw += line
            if line.startswith(b'data: '):
                kill_once(line)
        connection.close()
        chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b'data: {')]
        said = ''.join(choice['delta'].get('content') or '' for chunk in chunks for choice in chunk['choices'])
        self.assertEqual(said, text_of(self.ask(router, {**body, 'stream': False})[0]))  # it went on at the next one
        self.assertIn(b'[DONE]', raw)
        self.assertEqual(text_of(self.ask(router, chat(ONE))[0]), before)
        self.assertEqual(router.metric('quire_engine_failures_total'), 2)

    def test_a_request_whose_engine_dies_before_its_first_byte_is_asked_again(self):
        router = self.route(names=(ONE,))
        body = chat(ONE, max_tokens=300, ignore_eos=True)
        expected = text_of(self.ask(router, body)[0])
        got = []
        thread = threading.Thread(target=lambda: got.append(self.ask(router, body)[0]))
        thread.start()
        self.assertTrue(eventually(lambda: any(w['requests'] for w in router.workers().values())))
        os.kill(router.engine(ONE), signal.SIGKILL)
        thread.join()
        self.assertEqual(text_of(got[0]), expected)

    def test_no_engine_outlives_the_router(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            router = self.route(names=(ONE, TWO))
            self.ask(router, chat(ONE))
            self.ask(router, chat(TWO))
            engines = list(children(router.process.pid))
            self.assertEqual(len(engines), 2)
            router.process.send_signal(how)
            router.process.wait(30)
            self.assertTrue(eventually(lambda engines=engines: all(is_gone(pid) for pid in engines)))

    def test_a_file_that_is_no_model_says_so_and_the_others_go_on(self):
        router = self.route(names=(ONE,), corrupt=True)
        streamed = []
        thread = threading.Thread(target=lambda: streamed.extend(
            router.events('/v1/chat/completions', chat(ONE, max_tokens=100, ignore_eos=True))))
        thread.start()
        for _ in range(2):
            status, headers, answer = router.post('/v1/chat/completions', chat('corrupt'))
            self.assertEqual(status, 503)
            self.assertEqual(answer['error']['code'], 'model_unavailable')
            self.assertIn("the model 'corrupt' cannot be used now: it ended (exit code 1): quire: corrupt", answer['error']['message'])
            self.assertNotIn('/', answer['error']['message'])
            self.assertGreaterEqual(int(headers['Retry-After']), 1)
        thread.join()
        self.assertEqual(streamed[-1], '[DONE]')
        self.assertTrue(router.status('corrupt')['failed'])
        self.ask(router, chat(ONE))

    def test_llama_cpps_paths(self):
        router = self.route(names=(ONE, TWO))
        self.assertEqual(router.post('/models/load', {'model': ONE})[2], {'success': True})
        self.assertTrue(eventually(lambda: router.status(ONE)['value'] == 'loaded'))
        self.assertEqual({m['id'] for m in router.get('/models')[2]['data']}, {ONE, TWO})
        self.assertTrue(eventually(lambda: 'max_model_len' in router.get('/v1/models/' + ONE)[2]))  # its own word
        self.assertEqual(router.get('/props?model=' + ONE)[0], 200)
        self.assertIn('<html', router.get('/')[2])
        self.assertEqual(router.post('/models/unload', {'model': ONE})[2], {'success': True})
        self.assertTrue(eventually(lambda: router.status(ONE)['value'] == 'unloaded'))

    def test_keys_are_the_engines_too(self):
        router = self.route('--api-key', 'outer', names=(ONE, TWO))
        key = {'Authorization': 'Bearer outer'}
        self.assertEqual(router.post('/v1/chat/completions', chat(ONE))[0], 401)
        self.assertEqual(router.post('/v1/chat/completions', chat(ONE), key)[0], 200)
        command = children(router.process.pid)[router.engine(ONE)]
        self.assertNotIn('outer', command)
        # Whoever finds the engine's own port needs the key as well.
        connection = http.client.HTTPConnection('127.0.0.1', port_of(router.engine(ONE)), timeout=30)
        for headers, status in (({}, 401), (key, 200)):
            connection.request('POST', '/v1/chat/completions', json.dumps(chat(ONE)), headers)
            response = connection.getresponse()
            response.read()
            self.assertEqual(response.status, status)
        connection.close()

    def test_responses_stay_with_their_model_and_pages_need_none(self):
        router = self.route('--max-models', '2')
        first = router.post('/v1/responses', {'model': ONE, 'input': 'Hello', 'max_output_tokens': 8})[2]
        router.post('/v1/responses', {'model': TWO, 'input': 'Hello', 'max_output_tokens': 8})
        self.assertEqual(router.get('/v1/responses/' + first['id'])[2]['model'], ONE)
        self.assertEqual(router.get('/v1/responses/resp_nobody')[0], 404)

    def test_models_that_are_not_here_are_asked_of_workers(self):
        server = Server('--threads', '1', '--name', 'far', path=path_of(THREE))
        self.addCleanup(server.stop)
        router = ModelRouter('--model', f'near={path_of(ONE)}', '--worker', server.url, '--worker-key', 'any')
        self.addCleanup(router.stop)
        self.assertTrue(router.wait_for(1))
        self.assertEqual(self.ask(router, chat('far'))[1]['x-quire-worker'], server.url[7:])
        self.assertEqual(self.ask(router, chat('near'))[1]['x-quire-worker'], 'near')
        self.assertEqual([m['id'] for m in router.get('/v1/models')[2]['data']], ['near', 'far'])
        self.assertEqual([m['name'] for m in router.get('/api/tags')[2]['models']], ['near', 'far'])
        self.assertEqual(router.loaded(), ['near'])

    def test_stopping_lets_a_stream_finish(self):
        router = self.route(names=(ONE,))
        events = []
        started = threading.Event()

        def note(event):
            events.append(event)
            started.set()

        thread = threading.Thread(target=lambda: router.events(
            '/v1/chat/completions', chat(ONE, max_tokens=200, ignore_eos=True), note))
        thread.start()
        self.assertTrue(started.wait(30))
        self.assertEqual(router.stop(), 0)
        thread.join()
        self.assertEqual(events[-1], '[DONE]')

    def test_with_the_openai_package(self):
        reason = missing('openai>=1.60')
        if reason:
            self.skipTest(reason)
        router = self.route('--max-models', '1', names=(ONE, TWO))
        script = f'''
import openai
client = openai.OpenAI(base_url="{router.url}/v1", api_key="none", max_retries=0)
assert [m.id for m in client.models.list()] == {sorted([ONE, TWO])!r}
for name in ({ONE!r}, {TWO!r}, {ONE!r}):
    ask = dict(model=name, messages=[{{"role": "user", "content": "Hello"}}], max_tokens=12, seed=3)
    whole = client.chat.completions.create(**ask)
    assert whole.model == name, whole
    streamed = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(**ask, stream=True))
    assert streamed == whole.choices[0].message.content
try:
    client.chat.completions.create(model="nobody", messages=[{{"role": "user", "content": "Hello"}}])
    raise SystemExit("no error")
except openai.NotFoundError as error:
    assert error.code == "model_not_found" and "nobody" in str(error), error
'''
        done = subprocess.run([PYTHON, '-W', 'error', '-c', script], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)


class RouteModelsOptions(unittest.TestCase):
    def refused(self, *options, code=1):
        done = quire('route', '--port', '0', *options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_what_cannot_be_meant_is_refused_at_the_start(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn(f'--models: there is no model in {empty}', self.refused('--models', empty))
            absent = os.path.join(empty, 'absent')
            self.assertIn(f'--models: {absent} cannot be read: No such file', self.refused('--models', absent))
        one = path_of(ONE)
        self.assertIn('two models are called "a"', self.refused('--model', f'a={one}', '--model', f'a={one}'))
        self.assertIn(f'two models are called "{ONE}"', self.refused('--models', MODELS, '--model', f'{ONE}={one}'))
        for bad in ('a/b', '..', 'a\nb', '', 'a"b', 'x' * 256):
            self.assertIn('--model: must be NAME=PATH', self.refused('--model', f'{bad}={one}'))
        self.assertIn('no file or folder "/no/such"', self.refused('--model', 'a=/no/such'))
        good = ('--model', f'a={one}')
        for bad in ('abc', '', '5x', '1e99h'):
            self.assertIn('--keep-alive must be a time', self.refused(*good, '--keep-alive', bad))
        self.assertIn('--max-models must be 1 to 1000, got 0', self.refused(*good, '--max-models', '0', code=2))
        self.assertIn('--model-memory must be auto or a size', self.refused(*good, '--model-memory', 'much'))
        self.assertIn('did you mean ctx?', self.refused(*good, '--serve-option', 'ctxx=1'))
        self.assertIn("the router's own", self.refused(*good, '--serve-option', 'port=1'))
        self.assertIn('--model-option: must be MODEL=NAME=VALUE', self.refused(*good, '--model-option', 'b=ctx=1'))
        self.assertIn('nothing to route to: give --worker URL', self.refused())

    def test_one_model_has_options_of_its_own(self):
        router = ModelRouter('--model', f'a={path_of(ONE)}', '--model', f'b={path_of(ONE)}', '--model-option', 'b=ctx=256')
        self.addCleanup(router.stop)
        for name, n_ctx in (('a', 512), ('b', 256)):
            self.assertEqual(router.get(f'/props?model={name}')[2]['default_generation_settings']['n_ctx'], n_ctx)

    def test_a_model_larger_than_all_memory_for_models_says_so(self):
        router = ModelRouter('--model', f'a={path_of(ONE)}', '--model-memory', '1K')
        self.addCleanup(router.stop)
        status, _, answer = router.post('/v1/chat/completions', chat('a'))
        self.assertEqual(status, 503)
        self.assertIn(f"{os.path.getsize(path_of(ONE))} bytes are more than 1024", answer['error']['message'])


if __name__ == '__main__':
    unittest.main()
