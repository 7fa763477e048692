# tools/roofline.py: a point for every line of the bench, under the roofs that were probed.
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SVG = '{http://www.w3.org/2000/svg}'


def bench_line(test, tok_s, n_seqs, bytes_per_token, peak):
    return json.dumps({'test': test, 'n_prompt': 512, 'n_seqs': n_seqs, 'depth': 0, 'tok_s': {'median': tok_s},
                       'bytes_per_token': bytes_per_token, 'ops_per_token': 2e9, 'bandwidth_gb_s': 40.0, 'peak_gop_s': peak})


class Roofline(unittest.TestCase):
    def draw(self, *texts):
        with tempfile.TemporaryDirectory() as folder:
            runs = []
            for i, content in enumerate(texts):
                path = os.path.join(folder, f'{i}.jsonl')
                with open(path, 'w', encoding='utf-8') as f:
                    f.write(content)
                runs.append(f'format{i}={path}')
            out = os.path.join(folder, 'out.svg')
            done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'roofline.py'), *runs, '--title', 'a <b> & c',
                                   '--out', out], capture_output=True, text=True, check=False)
            return done, ET.parse(out).getroot() if done.returncode == 0 else None

    def test_a_point_per_line_and_one_roof_per_kind_of_unit(self):
        done, svg = self.draw('noise\n' + bench_line('prefill', 90, 1, 2e6, 340) + '\n' + bench_line('decode', 22, 1, 1.3e9, 338),
                              bench_line('decode', 9, 1, 2.5e9, 170))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(svg.findall(SVG + 'circle')), 3)
        words = [t.text for t in svg.findall(SVG + 'text')]
        self.assertIn('a <b> & c', words)
        self.assertEqual([w for w in words if w.endswith('0 Gop/s')], ['170 Gop/s', '340 Gop/s'])
        by_name = {c.find(SVG + 'title').text: c for c in svg.findall(SVG + 'circle')}
        slow, fast = (float(by_name[name].get('cy')) for name in
                      ('format0, decode 1: 44 Gop/s at 1.5 per byte', 'format0, prefill 512: 180 Gop/s at 1e+03 per byte'))
        self.assertLess(fast, slow)

    def test_a_file_without_lines_is_named(self):
        done, _ = self.draw('nothing\n')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('0.jsonl has no line', done.stderr)


if __name__ == '__main__':
    unittest.main()
