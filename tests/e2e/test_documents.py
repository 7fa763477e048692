# What the README and the pages tell a user is true: every command in the README and the quickstart runs, every curl of any
# page is answered, every option that a command names is one, and every message that the page on troubles lists is said
# somewhere. What is not run is of a program in NOT_RUN, with the reason. Models with a hub's names come from a hub of the
# test's own.
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from hub_server import Hub
from quire_server import BUNDLED, ROOT, Server, binary, quire

NEW_PAGES = ('quickstart.md', 'troubleshooting.md', 'coming-from.md')
PAGES = sorted(name for name in os.listdir(os.path.join(ROOT, 'docs')) if name.endswith('.md'))
# Programs whose lines in the pages are not run here.
NOT_RUN = {
    './dev': 'builds or runs everything; its commands are looked up',
    'quire': 'test_documents_run runs them',
    'cmake': 'installs: test_install does it',
    'git': 'clones from an address of the reader',
    'podman': 'builds an image, which takes minutes and a container engine',
    'guidellm': 'brings PyTorch along',
    'python3': 'part of a pipe that takes minutes',
    'tools/': 'work of the models and their tests in tests/tools',
    'build/': 'needs PyTorch, or is a built program whose options are looked up',
}


def page(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


def blocks(text):
    """[(what stands behind the fence, the lines)], lines that end in \\ joined."""
    return [(info, body.replace('\\\n', ' ').splitlines())
            for info, body in re.findall(r'(?ms)^```([^\n]*)\n(.*?)^```$', text)]


def whole_commands(text):
    """The commands in blocks, each on one line: a quoted argument may go over several."""
    for info, lines in blocks(text):
        if info in ('json', 'python', 'text', 'jinja', 'cpp'):
            continue
        at = 0
        while at < len(lines):
            line, at = lines[at], at + 1
            if not re.match(r'(curl|quire|QUIRE_\w+=\S+ quire|\./dev|build/|tools/|podman|cmake|python3|guidellm|git) ', line + ' ') and not re.match(
                    r'(tools|build)/\S', line):
                continue
            while line.count("'") % 2 and at < len(lines):
                line, at = line + '\n' + lines[at], at + 1
            yield line


def commands(text, program):
    """The lines of a page that begin with that, in blocks and in tables."""
    lines = [line for _, body in blocks(text) for line in body] + re.findall(r'`([^`\n]+)`', text)
    return [line for line in lines if line.startswith(program)]


@unittest.skipUnless(os.path.exists(BUNDLED) and shutil.which('curl'), 'no bundled model, or no curl')
class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        with open(BUNDLED, 'rb') as file:
            model = file.read()
        cls.hub = Hub({'m-Q4_K_M.gguf': model})
        url = cls.hub.__enter__().url
        cls.environment = {**os.environ, 'HF_ENDPOINT': url, 'QUIRE_MODELS': os.path.join(cls.folder.name, 'models'),
                           'MODEL': BUNDLED, 'PATH': cls.folder.name + os.pathsep + os.environ['PATH']}
        os.symlink(os.path.abspath(binary()), os.path.join(cls.folder.name, 'quire'))

    @classmethod
    def tearDownClass(cls):
        cls.hub.__exit__()
        cls.folder.cleanup()

    def run_line(self, line, codes=(0,), **environment):
        done = subprocess.run(['bash', '-c', line], env={**self.environment, **environment}, capture_output=True,
                              text=True, timeout=120, check=False, stdin=subprocess.DEVNULL, cwd=self.folder.name)
        self.assertIn(done.returncode, codes, f'{line}\n{done.stdout}{done.stderr}')
        return done.stdout

    def test_the_commands_of_the_readme(self):
        text = page('README.md')
        asked = commands(text, 'curl ')
        self.assertTrue(asked)
        serves = commands(text, './dev serve')
        self.assertGreaterEqual(len(serves), 3, 'the default model and two others')
        before = {name: os.environ.get(name) for name in ('HF_ENDPOINT', 'QUIRE_MODELS')}
        self.addCleanup(lambda: [os.environ.__setitem__(k, v) if v is not None else os.environ.pop(k, None)
                                 for k, v in before.items()])
        os.environ.update({name: self.environment[name] for name in before})
        for line in serves:
            # ./dev serve hands its words on; MODEL.gguf is the reader's own.
            words = shlex.split(line, comments=True)[2:]
            self.hub.repo = words[0] if words else ''
            server = Server(*words[1:], path=BUNDLED if words in ([], ['MODEL.gguf']) else words[0])
            try:
                for command in asked:
                    answer = self.run_line(command.replace('127.0.0.1:8080', f'127.0.0.1:{server.port}').replace(
                        'curl ', 'curl -sS --fail '))
                    self.assertIn('"content":"', answer)
            finally:
                server.stop()
        runs = commands(text, 'build/release/quire ')
        self.assertGreaterEqual(len(runs), 3)
        for line in runs:
            self.run_line(line.replace('build/release/quire', 'quire'))

    def test_the_commands_of_the_quickstart(self):
        kinds = blocks(page('docs', 'quickstart.md'))
        self.assertEqual({info for info, _ in kinds}, {'sh', 'sh no-run', 'sh server'}, 'what is run, and what cannot be')
        for info, lines in kinds:
            for line in lines if info == 'sh' else ():
                self.run_line(line, (0, 1) if line == 'quire doctor' else (0,))  # it may find a problem
        server = Server(path=BUNDLED)
        self.addCleanup(server.stop)
        for info, lines in kinds:
            for line in lines if info == 'sh server' else ():
                self.run_line(line.replace('curl ', 'curl -sS --fail '), URL=server.url)


    def test_what_the_pages_ask_a_server_is_answered(self):
        server = Server('--lora', 'german=' + os.path.join(ROOT, 'models', 'adapters', 'german'), path=BUNDLED)
        self.addCleanup(server.stop)
        n, pin = 0, ''
        for name in PAGES:
            for line in whole_commands(page('docs', name)):
                if not line.startswith('curl '):
                    continue
                line = re.sub(r'(http://)?(localhost|127\.0\.0\.1):8080|\$URL', server.url, line)
                line = line.replace('"models/adapters/', f'"{ROOT}/models/adapters/').replace('pin_3f…', pin)
                with self.subTest(name, line=line):
                    said = self.run_line(line.replace('curl ', 'curl -sS --fail-with-body ', 1))
                    n += 1
                    if '/v1/cache/pin ' in line:
                        pin = json.loads(said)['id']
        self.assertGreaterEqual(n, 18)


class Words(unittest.TestCase):
    def test_commands_that_are_not_run_have_a_reason_and_options_that_exist(self):
        known, section = {}, ''
        for line in quire('options').stdout.splitlines():
            if line.startswith('## '):
                section = line[3:].removeprefix('quire ').strip()
            for option in re.findall(r'`(--[a-z][a-z-]*)', line):
                known.setdefault(section, set()).add(option)
        for folder, _, names in os.walk(os.path.join(ROOT, 'src', 'app')):
            for name in names:  # second names, which the list leaves out
                for first, second in re.findall(r'"(--[a-z-]+),(--[a-z-]+)"', page(folder, name)):
                    for options in known.values():
                        options |= {second} if first in options else set()
        dev = set(re.findall(r'^\./dev (\w+)', page('dev').split("cat << 'END'")[1], re.M))
        for path in ('README.md', *(os.path.join('docs', name) for name in PAGES)):
            for line in whole_commands(page(path)):
                if line.startswith('curl '):
                    continue
                with self.subTest(path, line=line):
                    line = re.sub(r'^(\w+=\S+ )+', '', line)
                    program = next((key for key in NOT_RUN if line.startswith(key if key.endswith('/') else key + ' ') or
                                    line == key), None)
                    self.assertIsNotNone(program, 'neither run nor in NOT_RUN')
                    words = re.sub(r'\s#.*|\s{3,}.*', '', line).split()
                    if program == './dev' and len(words) > 1:
                        self.assertIn(words[1], dev)
                    name = words[1] if words[0] in ('quire', 'build/release/quire') and len(words) > 1 else ''
                    if not name or name.startswith('-'):
                        continue
                    self.assertIn(name, known, 'no such command')
                    for option in re.findall(r'(?<=\s)--[a-z][a-z-]*', ' '.join(words)):
                        self.assertIn(option, known[name] | {'--help'})

    def test_options_that_are_named_exist(self):
        known = set(re.findall(r'`(--[a-z][a-z-]*)', quire('options').stdout)) | {'--help', '--version', '--temp'}
        for name in NEW_PAGES:
            text = page('docs', name)
            # Of the table of options the last column is ours.
            ours = [row.split('|')[-2] if row.startswith('|') and row.count('|') == 5 else row
                    for row in text.splitlines() if 'cmake' not in row]
            for option in re.findall(r'(?<![\w-])--[a-z][a-z-]*', '\n'.join(ours)):
                if len(option) > len('--x'):
                    self.assertIn(option, known, name)

    def test_messages_that_are_listed_are_said(self):
        sources = page('dev')
        for folder, _, names in os.walk(os.path.join(ROOT, 'src')):
            for name in names:
                if name.endswith(('.cc', '.h', '.py')) and '_test.' not in name:
                    sources += page(folder, name)
        sources += 'No matching distribution found'  # pip's words
        sources = re.sub(r'\\(["\'])', r'\1', re.sub(r'"\s*\n\s*"', '', sources))
        table = page('docs', 'troubleshooting.md').split('## Starting')[1].split('## Answers')[0]
        messages = [message for row in table.splitlines() if row.startswith('| ')
                    for message in re.findall(r'`([^`]+)`', row.split('|')[1])]
        self.assertGreater(len(messages), 20)
        for message in messages:
            pieces = re.split(r'…|\b[A-Z]\b|"x"|pypi:NAME|--[xy]\b|127\.0\.0\.1:8080|SmolLM2-135M-Instruct', message)
            piece = max(pieces, key=len).strip(' :;"')
            self.assertTrue(piece and piece in sources, f'{message}: nobody says "{piece}"')

    def test_links_lead_somewhere(self):
        for path in ('README.md', *(os.path.join('docs', name) for name in NEW_PAGES)):
            for target in re.findall(r'\]\(([^)#:]+)\)', page(path)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)), f'{path}: {target}')


if __name__ == '__main__':
    unittest.main()
