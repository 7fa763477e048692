# One registry makes help, environment names, config keys and docs/options.md: they agree, and the precedence holds.
import os
import re
import subprocess
import tempfile
import unittest

from quire_server import ROOT, binary, model


def quire(*arguments, env=None):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **(env or {})})


def table():
    """{command: [option]} of `quire options`."""
    out, command = {}, None
    for line in quire('options').stdout.splitlines():
        if line.startswith('## quire '):
            command = out.setdefault(line[len('## quire '):], [])
        elif line.startswith('| `'):
            command.append(line.split('`')[1])
    return out


class Agreement(unittest.TestCase):
    def test_the_page_is_what_the_program_prints(self):
        with open(os.path.join(ROOT, 'docs', 'options.md'), encoding='utf-8') as page:
            self.assertEqual(page.read(), quire('options').stdout, 'quire options > docs/options.md')

    def test_every_command_helps_with_every_option_and_its_variable(self):
        for command, options in table().items():
            text = quire(command, '--help').stdout
            for option in options:
                with self.subTest(command=command, option=option):
                    self.assertRegex(text, re.escape(option) + r'\b')
                    self.assertIn('QUIRE_' + option.lstrip('-').upper().replace('-', '_'), text)


class Precedence(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, 'quire.conf')

    def generate(self, config, *arguments, env=None):
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write(config)
        return quire('generate', '--config', self.path, '--raw', '--json', '--prompt', 'Once', *arguments, env=env)

    def n_tokens(self, *arguments, **more):
        done = self.generate(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split('"tokens":[')[1].split(']')[0].count(',') + 1

    def test_command_line_then_environment_then_section_then_file(self):
        config = f'# mine\nmodel = "{model()}"\nignore-eos = true\nmax-tokens = 3\nport = 1\n'
        self.assertEqual(self.n_tokens(config), 3)
        config += '[generate]\nmax-tokens = 4\n[serve]\nmax-seqs = 2\n'
        self.assertEqual(self.n_tokens(config), 4)
        self.assertEqual(self.n_tokens(config, env={'QUIRE_MAX_TOKENS': '5'}), 5)
        self.assertEqual(self.n_tokens(config, '--max-tokens', '6', env={'QUIRE_MAX_TOKENS': '5'}), 6)
        self.assertEqual(self.n_tokens(config, env={'QUIRE_CONFIG': '/nowhere'}), 4)

    def test_what_is_wrong_is_named_with_its_line(self):
        for config, words in (('max-tokenz = 3\n', 'line 1: no option "max-tokenz"; did you mean max-tokens?'),
                              ('\n[generat]\nn = 1\n', 'line 3: no command [generat]; did you mean generate?'),
                              ('[generate]\nport = 1\n', 'line 2: no option "port"'),
                              ('max-tokens = many\n', 'line 1: max-tokens: '),
                              ('max-tokens\n', 'line 1: no "key = value"')):
            with self.subTest(config=config):
                done = self.generate(config, model())
                self.assertEqual(done.returncode, 2)
                self.assertIn(self.path + ': ' + words, done.stderr)

    def test_a_misspelt_option_or_command_is_named(self):
        for arguments, words in ((('generate', '--max-tokenz', '3'),
                                  'quire generate has no option --max-tokenz; did you mean --max-tokens?'),
                                 (('generate', '--max-tokenz=3'), 'did you mean --max-tokens?'),
                                 (('load', '--url', 'http://x'),
                                  'quire load has no option --url; its URL is given without --url'),
                                 (('load', '--modl', 'x'), 'did you mean --model?'),
                                 (('generat',), 'no command "generat"; did you mean generate?'),
                                 (('load', '--users', '1'), 'URL is required'),
                                 ((), 'no command: quire --help lists them')):
            with self.subTest(arguments=arguments):
                done = quire(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)


if __name__ == '__main__':
    unittest.main()
