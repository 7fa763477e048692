# Every option of every command that is used much, with values that it cannot have: each is refused before anything is loaded,
# by the option's name as it was typed. An option that this table does not know fails.
import os
import re
import subprocess
import tempfile
import unittest

from quire_server import binary

NOWHERE = '/nowhere/model.gguf'
# What each command is called with beside the option; nothing of it is there, so what is not refused fails by that name.
COMMANDS = {'serve': [NOWHERE, '--port', '0'], 'route': ['--worker', 'http://127.0.0.1:1', '--port', '0'], 'generate': [NOWHERE, 'x'],
            'chat': [NOWHERE], 'bench': [NOWHERE], 'quantize': [NOWHERE, '/nowhere/out.gguf', 'q4_0'],
            'perplexity': [NOWHERE, '--tokens', '1,2']}
# What these say of themselves or of another option, not of the value.
WITHOUT_THE_VALUE = {'--admin-host', '--advertise', '--tls-cert', '--tls-key', '--chat-template', '--chat-template-kwargs'}
NUMBERS = ('-987654', '99999999999999999999999999', 'many', '')  # no option takes them
SIZES = ('much', '-1G', '')
# Of texts. None: any text may be right, or a file or an address of which only the system knows.
TEXTS = {
    '--config': None, '--backend': ('x', ''), '--isa': ('x',), '--kv-type': ('x', ''), '--weights': ('x',),
    '--overlap': ('x', ''), '--context-shift': ('x', 'sinks=-1,window=9', 'sinks=1,window=99999999999'), '--spec': ('x', ''), '--draft': ('exit:0', 'exit:x'), '--draft-vocab': ('x', '7', 'x' * 300),
    '--lora': ('x', ''), '--prefix': ('x', ''),
    'bench --policy': ('x',), '--prompts': None,
    'serve --policy': ('x', ''), '--kv-policy': ('x', ''), '--pooling': ('x', ''), '--reasoning': ('x', ''),
    '--kv-memory': SIZES, '--pin-memory': SIZES, '--swap-memory': SIZES, '--kv-disk-size': SIZES, '--record-limit': SIZES,
    '--kv-remote': ('x', 'http://h', 'redis://', 'redis://h:99999', 'redis://h/x', 'redis://no host', 'rediss://'),
    '--kv-events': ('x', '70000', 'tcp://h:1', ':1'), '--kv-events-replay': ('x', '5558'), '--kv-events-pod': ('a@b',), '--advertise': ('ftp://h', 'http://'),
    '--otlp-endpoint': ('x', 'https://h', 'ftp://h', 'http://', 'http://h:99999'), '--log-requests': ('x', ''),
    '--limit': ('x', 'nosuch=1', 'body_bytes=-1', 'body_bytes=99999999999', 'body_bytes=x', ''), '--cors-origin': ('x', ''),
    '--api-key': ('',), '--admin-key': ('',), '--api-keys': (NOWHERE,), '--tls-cert': ('x',), '--tls-key': ('x',), '--admin-host': ('x',),
    '--warm-prompts': (NOWHERE,), '--lora-root': (NOWHERE,), '--public-prompt': (NOWHERE,), '--kv-remote-password-file': (NOWHERE,), '--kv-remote-ca': (NOWHERE,), '--kv-remote-cert': (NOWHERE,), '--kv-remote-key': (NOWHERE,),
    '--chat-template': ('{{',), '--chat-template-file': (NOWHERE,), '--chat-template-kwargs': ('x', '[]'), '--tool-format': ('x',),
    '--host': None, '--allow-host': None, '--name': None, '--alias': None, '--kv-disk': None, '--record': None,
    'route --policy': ('x', ''), '--worker': ('ftp://h', 'https://', 'http://', 'http://h:99999', ''),
    '--discover': ('ftp://h', 'http://', 'http://h:99999', '', 'kubernetes://', 'kubernetes://A', 'kubernetes://a:0'), '--model-option': ('x', '', 'a=x'), '--keep-alive': ('x', '1x', ''),
    '--local-models': (NOWHERE,), '--local-model': ('x', ''), '--model-memory': SIZES, '--serve-option': ('x', ''), '--directory': ('x',), '--directory-ca': (NOWHERE,), '--directory-cert': (NOWHERE,), '--directory-key': (NOWHERE,),
    '--worker-events': ('x', '70000', '5557,x', 'http://h:1=x', 'http://h:1=5557', ''), '--worker-key': None, '--worker-ca': (NOWHERE,), '--health-path': ('x',),
    '--prompt': None, '--prompt-file': None, '--tokens': None, '--text': None, '--nll': None, '--kl-base': None, '--kl-base-out': None,
    'chat --api-key': None, '--url': None, '--model-name': None, '--system': None, '--history': None,
    '--tensor-type': ('x', 'a=x', '=q8_0', ''), '--imatrix': None,
}


def quire(*arguments, env=None):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})})


def options_of(command):
    """{option: the kind of its value, as the command's help says it}, flags left out."""
    return dict(re.findall(r'^ +(--[a-z-]+)(?:,--[a-z-]+)* +(INT|UINT|FLOAT|TEXT)\b', quire(command, '--help').stdout, re.M))


class BadOptions(unittest.TestCase):
    def refused(self, command, option, value):
        done = quire(command, *COMMANDS[command], option, value)
        with self.subTest(command=command, option=option, value=value):
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertRegex(done.stderr, re.escape(option) + r'(?![a-z-])')
            self.assertNotIn('cannot be read' if value != NOWHERE else 'no such option', done.stderr)
            if value and value != NOWHERE and option not in WITHOUT_THE_VALUE:
                self.assertTrue(any(part in done.stderr for part in re.split('[,=]', value) if part), done.stderr)

    def test_every_one_is_refused_by_its_name(self):
        for command in COMMANDS:
            options = options_of(command)
            self.assertGreater(len(options), 3, command)
            for option, kind in options.items():
                values = NUMBERS if kind != 'TEXT' else TEXTS.get(f'{command} {option}', TEXTS.get(option, 'unknown'))
                self.assertNotEqual(values, 'unknown', f'{command} {option} is not in the table')
                for value in values or ():
                    self.refused(command, option, value)

    def test_sizes_are_refused_with_what_is_taken(self):
        for option in ('--kv-disk-size', '--record-limit'):
            self.assertIn(option + ' must be a size such as 4G, got "auto"', quire('serve', NOWHERE, option, 'auto').stderr)
        self.assertIn('--kv-memory must be auto or a size such as 4G, got "1X"', quire('serve', NOWHERE, '--kv-memory', '1X').stderr)
        self.assertIn(NOWHERE, quire('serve', NOWHERE, '--kv-disk-size', '1T').stderr)

    def test_of_the_environment_and_of_a_file_too(self):
        done = quire('serve', NOWHERE, env={'QUIRE_CTX': '-4'})
        self.assertEqual((done.returncode, done.stderr), (2, 'quire: --ctx must be 2 to 268435456 or 0, got -4\n'))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'quire.conf')
            with open(path, 'w', encoding='utf-8') as file:
                file.write('step-target = -1\n')
            done = quire('serve', NOWHERE, '--config', path)
            self.assertEqual(done.returncode, 2)
            self.assertIn('quire.conf: line 1: step-target: must be 0 to 60000, got -1\n', done.stderr)


if __name__ == '__main__':
    unittest.main()
