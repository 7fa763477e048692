# The table of what clients can make the server hold (docs/limits.md): every test that it names exists, and every file that
# registers rows has its rows in the page.
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


class HeldMemory(unittest.TestCase):
    def test_every_row_names_a_test_that_exists(self):
        tests = set()
        for path in glob.glob(os.path.join(ROOT, 'src', '**', '*_test.cc'), recursive=True):
            tests |= {'.'.join(name) for name in re.findall(r'\nTEST(?:_F|_P)?\((\w+),\s*(\w+)\)', text_of(path))}
        named = []
        for path in glob.glob(os.path.join(ROOT, 'src', '**', 'held_memory.cc'), recursive=True):
            named += re.findall(r'\.test = "([^"]+)"', text_of(path))
        self.assertGreater(len(named), 15)
        self.assertEqual([name for name in named if name not in tests], [])

    def test_the_page_has_every_row(self):
        page = text_of(os.path.join(ROOT, 'docs', 'limits.md'))
        for path in glob.glob(os.path.join(ROOT, 'src', '**', 'held_memory.cc'), recursive=True):
            for name in re.findall(r'\.test = "([^"]+)"', text_of(path)):
                self.assertIn(f'`{name}`', page, path)


if __name__ == '__main__':
    unittest.main()
