# What registered itself in the binary equals the files on disk: an extension is one file, and its name is the file's.
import json
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = {  # registry -> where its files lie, how they end
    'arch': ('src/model/arch', '.cc'),
    'policy': ('src/engine/policies', '.cc'),
    'kv_policy': ('src/kv/policies', '.cc'),
    'api': ('src/serve/apis', '.cc'),
    'filter': ('src/ops/filters', '.h'),
    'rule': ('src/sample/rules', '.cc'),
    'proposer': ('src/spec/proposers', '.cc'),
    'tool_format': ('src/text/parse/formats', '.cc'),
    'route_policy': ('src/route/policies', '.cc'),
    'command': ('src/app/commands', '.cc'),
    'weights': ('src/quant/weights', '.h'),
    'kv': ('src/quant/kv', '.h'),
}

WITHOUT_FOLDER = ('rwkv6', 'rwkv7')  # whose folders are the authors' checkpoints: GGUF alone is golden
WITHOUT_GGUF = ('bailing_hybrid', 'lfm3', 'minimax', 'zamba2')  # that GGUF has no name for: their folder alone is golden


def names_on_disk(folder, ending):
    path = os.path.join(ROOT, folder)
    files = os.listdir(path) if os.path.isdir(path) else []  # git keeps no empty folder: no proposers yet
    return sorted(f[:-len(ending)] for f in files
                  if f.endswith(ending) and not f.endswith(('_test' + ending, '_bench' + ending)))


class Registries(unittest.TestCase):
    def test_equal_the_files(self):
        done = subprocess.run([os.environ['QUIRE_BIN'], 'registries', '--json'], capture_output=True, text=True,
                              check=True)
        registered = json.loads(done.stdout)
        self.assertEqual(sorted(registered), sorted(FOLDERS), 'a registry without a folder, or the reverse')
        for kind, (folder, ending) in FOLDERS.items():
            with self.subTest(kind):
                self.assertEqual(sorted(registered[kind]), names_on_disk(folder, ending))

    def test_the_page_of_architectures_is_theirs(self):
        done = subprocess.run([os.environ['QUIRE_BIN'], 'architectures'], capture_output=True, text=True, check=True)
        with open(os.path.join(ROOT, 'docs', 'architectures.md'), encoding='utf-8') as page:
            self.assertEqual(page.read(), done.stdout, 'quire architectures > docs/architectures.md')

    def test_the_pages_of_options_and_limits_are_theirs(self):
        for name in ('options', 'limits'):
            done = subprocess.run([os.environ['QUIRE_BIN'], name], capture_output=True, text=True, check=True)
            with open(os.path.join(ROOT, 'docs', name + '.md'), encoding='utf-8') as page:
                self.assertEqual(page.read(), done.stdout, f'quire {name} > docs/{name}.md')

    def test_every_architecture_has_golden_logits(self):
        models = os.path.join(ROOT, 'build', 'golden', 'models')
        for name in names_on_disk(*FOLDERS['arch']):
            for part in (('expected.json',) + ('config.json',) * (name not in WITHOUT_FOLDER) +
                         ('model.gguf',) * (name not in WITHOUT_GGUF)):
                self.assertTrue(os.path.isfile(os.path.join(models, name, part)), f'{name}/{part}')

    def test_there_is_something_to_compare(self):
        for kind in ('arch', 'policy', 'kv_policy', 'api', 'filter', 'rule', 'tool_format', 'command', 'weights', 'kv'):
            self.assertTrue(names_on_disk(*FOLDERS[kind]), kind)


if __name__ == '__main__':
    unittest.main()
