# Every `quire` command in a block of the pages runs as it stands there, with the test's own models, files and addresses in
# place of the reader's, and with fewer requests and rounds where a page asks for minutes. Servers are asked once.
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import test_documents as documents
from hub_server import Hub
from quire_server import BUNDLED, ROOT, Server, binary, certificate, eventually
from test_models import has_pip, make_wheel
from test_remote_tier import PASSWORD, Redis
from test_route_directory import Redis as DirectoryRedis
from test_spec import DRAFT, write_bundled_eagle, write_bundled_heads

PAGES = [name for name in documents.PAGES if name != 'quickstart.md']  # test_documents runs that one
LEFT_OUT = {
    'quire pull   ': 'fetches 98 MB; test_models sees what it does with them',
    'quire tokenize --parse-special': 'the middle of a pipe that takes minutes',
}
LESS = ((r'--duration \d+', '--duration 1'), (r'--requests \d+', '--requests 3'), (r'--repeat \d+', '--repeat 1'),
        (r'--generate \d+', '--generate 4'), (r'--batch [\d,]+', '--batch 1,2'), (r'--ctx 4096', '--ctx 256'))
TEXT = 'The fox went out to see the river, and the river had gone. ' * 40


class Started(Server):
    """A line of a page that serves, as bash runs it."""

    def __init__(self, line, **more):
        line = re.sub(r'\s+#.*', '', line)
        line = re.sub(r'--port \d+', '', line) + ' --port 0'
        self.start([], 60, command=['bash', '-c', re.sub(r'quire (serve|route)', r'exec quire \1', line, count=1)], **more)


@unittest.skipUnless(os.path.exists(BUNDLED) and has_pip(), 'no bundled model, or python3 has neither pip nor ensurepip')
class PagesRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        with open(BUNDLED, 'rb') as file:
            model = file.read()
        cls.hub = Hub({'m-Q4_K_M.gguf': model, 'm-Q8_0.gguf': model, 'sub/model.gguf': model})
        cls.hub.__enter__()
        cls.addClassCleanup(cls.hub.__exit__)
        cls.make_files(model)
        cls.workers = [Server(path=BUNDLED), Server(path=BUNDLED)]
        for worker in cls.workers:
            cls.addClassCleanup(worker.stop)
        cls.environment = {**os.environ, 'HF_ENDPOINT': cls.hub.url, 'QUIRE_MODELS': cls.path('cache'), 'PIP_NO_INDEX': '1',
                           'PIP_FIND_LINKS': cls.folder, 'PATH': cls.folder + os.pathsep + os.environ['PATH']}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def make_files(cls, model):
        """What the pages' lines name, in the folder where they run."""
        os.symlink(os.path.abspath(binary()), cls.path('quire'))
        os.symlink(os.path.join(ROOT, 'models'), cls.path('models'))
        os.symlink(BUNDLED, cls.path('model.gguf'))
        for folder, write in (('MEDUSA_FOLDER', write_bundled_heads), ('EAGLE_FOLDER', write_bundled_eagle)):
            os.mkdir(cls.path(folder))
            write(cls.path(folder))
        os.mkdir(cls.path('DIR'))
        for path in (BUNDLED, DRAFT):
            os.symlink(path, os.path.join(cls.path('DIR'), os.path.basename(path)))
        make_wheel(cls.folder, 'NAME', {'m.gguf': model})
        files = {'body.json': '{"messages": [{"role": "user", "content": "What is the colour of the sky?"}]}',
                 'tinyshakespeare.txt': TEXT, 'ids.ini': 'tokens = ' + ','.join(str(i) for i in range(20, 420)),
                 'store-password': PASSWORD + '\n', 'mooncake_conversation_trace.jsonl': ''.join(
                     f'{{"timestamp": {at}, "input_length": 600, "output_length": 40, "hash_ids": [0, {at}]}}\n' for at in (1, 2, 3))}
        for name, text in files.items():
            with open(cls.path(name), 'w', encoding='utf-8') as file:
                file.write(text)

    def ours(self, line):
        """The line with the test's things in place of the reader's."""
        named = re.search(r'\b[A-Za-z]\w*/[\w-]*(NAME|GGUF)\b', line)
        self.hub.repo = named[0] if named else ''
        for what, other in (*LESS, (r'SMALLER_MODEL', DRAFT), (r'small=PATH', f'small={DRAFT}'), (r'large=PATH', f'large={BUNDLED}'),
                            (r'(?<![\w./])MODEL\b', BUNDLED), (r'exit:8', 'exit:2'), (r'0\.0\.0\.0', '127.0.0.1'), (r'--host 10\.0\.0\.1', '--host 127.0.0.1'),
                            (r'http://10\.0\.0\.1:8080', self.workers[0].url), (r'http://10\.0\.0\.2:8080', self.workers[1].url),
                            (r'http://(localhost|127\.0\.0\.1):8080', self.workers[0].url),
                            (r'/etc/quire/store-password', 'store-password')):
            line = re.sub(what, other, line)
        if '.internal:8443' in line:
            line = self.over_tls(line)
        if 'redis://' not in line and 'rediss://' not in line:
            return line
        if not shutil.which('redis-server'):
            self.skipTest('there is no redis-server')
        if 'rediss://' in line:
            return self.directory_over_tls(line)
        redis = DirectoryRedis() if '--directory' in line else Redis()
        redis.start()
        self.addCleanup(redis.kill)
        if ' directory://' in line:
            self.addCleanup(Server('--directory', redis.url, path=BUNDLED).stop)
        return re.sub(r'redis://\S+', redis.url, line)

    def directory_over_tls(self, line):
        if not shutil.which('openssl'):
            self.skipTest('openssl is not installed: no certificate can be made')
        cert, key = certificate(self.folder)
        redis = DirectoryRedis('--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert, '--tls-auth-clients', 'no',
                               tls=True)
        redis.start()
        self.addCleanup(redis.kill)
        return re.sub(r'rediss://\S+', redis.url, line).replace('/etc/quire/internal-ca.pem', cert)

    def over_tls(self, line):
        if not shutil.which('openssl'):
            self.skipTest('openssl is not installed: no certificate can be made')
        cert, key = certificate(self.folder)
        for name in ('one', 'two'):
            worker = Server('--tls-cert', cert, '--tls-key', key, path=BUNDLED)
            self.addCleanup(worker.stop)
            line = line.replace(f'{name}.internal:8443', f'127.0.0.1:{worker.port}')
        return line.replace('/etc/quire/internal-ca.pem', cert)

    def run_line(self, line):
        done = subprocess.run(['bash', '-c', line], env=self.environment, capture_output=True, text=True, timeout=300,
                              check=False, stdin=subprocess.DEVNULL, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f'{line}\n{done.stdout}{done.stderr}')

    def serve_line(self, line):
        environment = self.environment
        if 'smollm2' in line:  # the default model's: where the reader has it
            environment = {name: value for name, value in environment.items() if name != 'QUIRE_MODELS'}
            if subprocess.run([binary(), 'pull', '--offline'], env=environment, capture_output=True, check=False).returncode != 0:
                self.skipTest('SmolLM2-135M-Instruct is not here: `quire pull` fetches it')
        server = Started(line, env=environment, cwd=self.folder)
        key = {'Authorization': 'Bearer SECRET'}

        def answered():
            listed = server.get('/v1/models', key)[2].get('data')
            fields = {'messages': [{'role': 'user', 'content': 'Hello!'}], 'max_tokens': 4}
            return bool(listed) and server.post('/v1/chat/completions', {**fields, 'model': listed[-1]['id']}, key)[0] == 200
        try:
            self.assertTrue(eventually(answered, 60), f'{line}\n' + ''.join(server.log))
        finally:
            server.stop()

    def test_the_commands_of_the_pages(self):
        n = 0
        for name in PAGES:
            text = documents.page('docs', name)
            ids = next((line for _, lines in documents.blocks(text) for line in lines if line.startswith('ids=')), '')
            for line in documents.whole_commands(text):
                if not re.match(r'(\w+=\S+ )*quire ', line) or line.startswith(tuple(LEFT_OUT)):
                    continue
                with self.subTest(name, line=line):
                    n += 1
                    line = self.ours(f'{ids}\n{line}' if '"$ids"' in line else line)
                    if re.match(r'(\w+=\S+ )*quire (serve|route)', line):
                        self.serve_line(line)
                    else:
                        self.run_line(line)
        self.assertGreaterEqual(n, 25)


if __name__ == '__main__':
    unittest.main()
