# Files that commands write: none takes the place of what is read, and nothing half written stays.
import os
import resource
import shutil
import subprocess
import tempfile
import unittest

from quire_server import binary, model, quire

IDS = ','.join(str(i % 50 + 3) for i in range(64))


class OutputFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model, self.text = self.path('m.gguf'), self.path('text.txt')
        shutil.copyfile(model(), self.model)
        with open(self.text, 'w', encoding='utf-8') as file:
            file.write('Once upon a time there was a cat. ' * 20)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def state(self):
        return {name: open(self.path(name), 'rb').read() for name in os.listdir(self.folder.name)}

    def test_what_is_read_is_never_written(self):
        link, base, sums = self.path('link.gguf'), self.path('base.kl'), self.path('sums.gguf')
        os.symlink(self.model, link)
        done = quire('perplexity', self.model, '--text', self.text, '--kl-base-out', base)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = quire('imatrix', self.model, '--text', self.text, '--out', sums)
        self.assertEqual(done.returncode, 0, done.stderr)
        before = self.state()
        text = ('--text', self.text)
        for option, out, *arguments in (
                ('--out', self.model, 'logits', self.model, '--tokens', IDS),
                ('--out', link, 'logits', self.model, '--tokens', IDS),
                ('--out', self.model, 'logits', link, '--tokens', IDS),
                ('--out', self.model, 'imatrix', self.model, *text), ('--out', self.text, 'imatrix', self.model, *text),
                ('--out', sums, 'imatrix', '--in', sums),
                ('--nll', self.model, 'perplexity', self.model, *text), ('--nll', self.text, 'perplexity', self.model, *text),
                ('--nll', base, 'perplexity', self.model, *text, '--kl-base', base),
                ('--kl-base-out', self.model, 'perplexity', self.model, *text),
                ('--kl-base-out', self.text, 'perplexity', self.model, *text),
                ('--kl-base-out', base, 'perplexity', self.model, *text, '--kl-base', base),
                ('--record', self.model, 'serve', self.model, '--port', '0'),
                ('--record', link, 'serve', self.model, '--port', '0'),
                ('--record', self.text, 'serve', self.model, '--port', '0', '--public-prompt', self.text),
                ('--record', self.text, 'serve', self.model, '--port', '0', '--chat-template-file', self.text)):
            with self.subTest(option=option, out=out, arguments=arguments):
                done = quire(*arguments, option, out)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f'{option} {out} is what is read, under this name or another', done.stderr)
                self.assertEqual(self.state(), before)

    def test_two_outputs_are_two_files(self):
        out = self.path('out')
        done = quire('perplexity', self.model, '--text', self.text, '--nll', out, '--kl-base-out', out)
        self.assertEqual(done.returncode, 1)
        self.assertIn('--nll and --kl-base-out name one file, ' + out, done.stderr)

    def test_imatrix_replaces_no_device(self):
        done = quire('imatrix', self.model, '--text', self.text, '--out', '/dev/null')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--out /dev/null is there and is no file', done.stderr)

    def test_a_full_disk_leaves_nothing_and_what_was_there(self):
        out = self.path('out')
        for arguments in (('logits', self.model, '--tokens', IDS, '--out', out),
                          ('perplexity', self.model, '--text', self.text, '--kl-base-out', out),
                          ('perplexity', self.model, '--text', self.text, '--nll', out)):
            for there in (False, True):
                with self.subTest(arguments=arguments, there=there):
                    if there:
                        with open(out, 'w', encoding='utf-8') as file:
                            file.write('before')
                    before = self.state()
                    # A limit of file sizes stands for a full disk.
                    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, check=False, timeout=300,
                                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(out + ': cannot write: File too large', done.stderr)
                    self.assertEqual(self.state(), before)
            os.remove(out)
            done = quire(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            os.remove(out)


if __name__ == '__main__':
    unittest.main()
