# tools/endless.py: the last tenth is the second again, curves are what the files say, and what cannot be drawn is named.
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SVG = '{http://www.w3.org/2000/svg}'


def endless(*arguments, given=''):
    return subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'endless.py'), *arguments], input=given,
                          capture_output=True, text=True, check=False)


def nll_lines(values):
    return ''.join(f'{i + 1}\t7\t{value:.6f}\n' for i, value in enumerate(values))


class Endless(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(content)
        return path

    def draw(self, *arguments):
        out = os.path.join(self.folder, 'out.svg')
        done = endless('draw', *arguments, '--seen', '10', '--out', out)
        return done, ET.parse(out).getroot() if done.returncode == 0 else None

    def test_the_last_tenth_is_the_second_again(self):
        done = endless('ids', '--seen', '2', given=json.dumps(list(range(100, 200))))
        ids = [int(x) for x in done.stdout.removeprefix('tokens = ').split(',')]
        self.assertEqual(ids, [*range(100, 188), *range(108, 120)])  # and what is seen before the second tenth
        self.assertEqual(ids[90:], ids[10:20])
        short = endless('ids', '--seen', '2', given=json.dumps(list(range(87))))
        self.assertNotEqual(short.returncode, 0)
        self.assertIn('50 times 2 tokens need a text of 88, this one has 87', short.stderr)

    def test_tenths_and_curves_are_what_the_files_say(self):
        flat = [math.log(8.0)] * 99
        falls = [math.log(8.0)] * 89 + [math.log(10.0)] * 10  # the first token of a text is not scored
        done, svg = self.draw('a<b=' + self.write('flat', nll_lines(flat)), 'none=' + self.write('falls', nll_lines(falls)),
                              '--blocks', self.write('blocks', '1\t1\n50\t5\n99\t5\n'))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, 'a<b ' + '8.00 ' * 10 + 'last of second 1.0000\n' + 'none ' + '8.00 ' * 9 +
                         '10.00 last of second 1.2500\n')
        curves = [p for p in svg.findall(SVG + 'path') if p.get('stroke') not in ('#ddd', '#8a8a8a')]
        heights = [{point.split()[1] for point in curve.get('d')[1:].split('L')} for curve in curves]
        self.assertEqual([len(h) for h in heights], [1, 3])  # a window across the step is between both
        self.assertEqual(len([p for p in svg.findall(SVG + 'path') if p.get('stroke') == '#8a8a8a']), 1)
        self.assertIn('a<b', [t.text for t in svg.findall(SVG + 'text')])

    def test_what_cannot_be_drawn_is_named(self):
        done, _ = self.draw(self.write('flat', nll_lines([1.0] * 99)))
        self.assertIn('wanted LABEL=FILE', done.stderr)
        done, _ = self.draw('x=' + self.write('short', nll_lines([1.0] * 9)))
        self.assertIn('has 9 tokens', done.stderr)


if __name__ == '__main__':
    unittest.main()
