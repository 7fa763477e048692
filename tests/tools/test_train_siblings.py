# What the siblings of the bundled model learn from: notes with questions (tools/train/notes.py) and drawn pictures
# (pictures.py, with numpy): every question has one answer, held-out halves never stand in training.
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, 'tools', 'train')
sys.path[:0] = [TRAIN, os.path.join(ROOT, 'tests', 'e2e')]

import notes  # noqa: E402
from client_packages import PYTHON, missing  # noqa: E402
from tasks.core import SPLITS, is_held_out  # noqa: E402

PICTURES = '''
import sys
sys.path.insert(0, {train!r})
import numpy as np
from pictures import ASK, COLOURS, NEAR, SIZE, VALUES, picture, questions, sentence
from tasks.core import SPLITS
for split in SPLITS:
    made = [picture(split, str(i)) for i in range(300)]
    assert {{p.kind for p in made}} == set(ASK) == set(VALUES), split
    held_wordings = {{w for phrases in ASK.values() for w in phrases.held_out}}
    for p in made:
        assert p.pixels.shape == (SIZE, SIZE, 3) and p.pixels.dtype == np.uint8
        assert (p.question in held_wordings) == (split in ('phrasing', 'both')), p.question
        background = (p.pixels == p.pixels[..., :1]).all(-1) & (abs(p.pixels[..., 0].astype(int) - 140) < 40)
        drawn = np.unique(p.pixels[~background].astype(int), axis=0)
        assert len(drawn) == 1, (p.kind, drawn)  # one colour, and the background never has it
        colour = next((name for name, c in COLOURS.items() if (drawn[0] == c).all()), None)
        assert colour == p.facts.get('colour') and (colour or split == 'train'), (colour, p.facts)
        assert colour or min(np.sqrt(((drawn[0] - c) ** 2).sum()) for c in COLOURS.values()) >= NEAR, drawn
        y, x = np.nonzero(~background)
        inside = 0 < x.min() and x.max() < SIZE - 1 and 0 < y.min() and y.max() < SIZE - 1
        assert inside, (p.kind, p.answer)
        assert p.answer == sentence(p.facts[p.kind]), p
        assert (p.kind == 'digit') == ('digit' in p.facts) == ('shape' not in p.facts), p.facts
        thing = 'digit' if p.kind == 'digit' else 'shape'
        own = list(COLOURS)[VALUES[thing].index(p.facts[thing]) % len(COLOURS)]
        assert (colour == own) == (split in ('content', 'both')), (split, colour, p.facts)
        asked = questions(p, 'test')
        assert [a for _, a in asked] == [sentence(v) for v in p.facts.values()]
        assert not held_wordings & {{q for q, _ in asked}}
        if p.kind == 'place':
            side = {{'Left.': SIZE - 2 * x.mean(), 'Right.': 2 * x.mean() - SIZE, 'Top.': SIZE - 2 * y.mean(), 'Bottom.': 2 * y.mean() - SIZE}}
            assert max(side, key=side.get) == p.answer, (side, p.answer)
    for kind, values in VALUES.items():
        seen = {{p.facts[kind] for p in (picture(split, f'{{kind}}/{{i}}') for i in range(400)) if p.kind == kind}}
        assert seen <= set(values) and len(seen) >= (4 if kind == 'colour' else len(values)), (split, kind)
    assert {{bool(p.facts.get('colour')) for p in made}} == ({{False, True}} if split == 'train' else {{True}})
assert (picture('train', '1').pixels == picture('train', '1').pixels).all()
'''


class Notes(unittest.TestCase):
    def test_a_note_holds_what_its_question_asks_for(self):
        for split in SPLITS:
            for question, note in notes.pairs(split, 'test', 64):
                capitals = set(re.findall(r'(?<=[a-z,.] )[A-Z]\w+', question)) - {'Who', 'In', 'Where', 'It'}
                self.assertTrue(all(word in note for word in capitals), (question, note))

    def test_wordings_and_contents_are_of_the_split_s_half(self):
        held = [p for phrases in (notes.WHERE_KEPT, notes.WHO_SAW) for p in phrases.held_out]
        starts = tuple(p.split('{')[0] for p in held)
        for split in SPLITS:
            for question, _ in notes.pairs(split, 'half', 64):
                self.assertEqual(question.startswith(starts), split in ('phrasing', 'both'), question)
        kept = {name for _, note in notes.pairs('train', 'names', 256) for name in re.findall(r'([A-Z][a-z]+) keeps', note)}
        self.assertGreater(len(kept), 20)
        self.assertFalse([name for name in kept if is_held_out('name', name)])

    def test_the_last_quarter_is_of_few_people(self):
        people = [re.search(r'([A-Z][a-z]+) (?:keeps|saw|met|has)|was ([A-Z][a-z]+) who|of ([A-Z][a-z]+) is', note)
                  for _, note in notes.pairs('train', 'few', 64)[48:]]
        self.assertLessEqual(len({next(g for g in m.groups() if g) for m in people if m}), 4)

    def test_the_seed_decides(self):
        self.assertEqual(notes.pairs('both', 'x', 8), notes.pairs('both', 'x', 8))
        self.assertNotEqual(notes.pairs('both', 'x', 8), notes.pairs('both', 'y', 8))


class Pictures(unittest.TestCase):
    def test_pictures_show_what_their_answers_say(self):
        reason = missing('numpy>=1.26')
        if reason:
            self.skipTest(reason)
        done = subprocess.run([PYTHON, '-c', PICTURES.format(train=TRAIN)], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, OMP_NUM_THREADS='1'))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == '__main__':
    unittest.main()
