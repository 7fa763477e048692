# tools/train: the generators are deterministic, their own answers pass their checks and others' do not, and what is held
# out stays out. Nothing here needs PyTorch.
import io
import json
import os
import re
import subprocess
import sys
import unittest
from contextlib import redirect_stdout

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, 'tools', 'train')
sys.path.insert(0, TRAIN)

import chat  # noqa: E402
import generate  # noqa: E402
from tasks import TASKS, mixed_dialog, sample_of  # noqa: E402
from tasks import checks  # noqa: E402
from tasks.core import ALL_PHRASES, SPLITS, Draw, Phrases, is_held_out  # noqa: E402
from tasks import arithmetic, smalltalk, stories, town_data  # noqa: E402

N = 60
HELD_OUT = SPLITS[1:]


def samples(name, split, n=N):
    return [sample_of(name, split, i) for i in range(n)]


def answer_at(sample, check):
    return chat.message_text(sample['messages'][check['at']])


def phrases_of(text):
    """All words, and all pairs of neighbours with one space between."""
    return set(re.findall(r'[A-Za-z]+', text)) | set(re.findall(r'(?=\b([A-Za-z]+ [A-Za-z]+)\b)', text))


class Generators(unittest.TestCase):
    def test_the_issue_s_tasks_are_all_there(self):
        self.assertEqual(set(TASKS), {'smalltalk', 'stories', 'reading', 'recall', 'arithmetic', 'lists', 'rewrite', 'summarise',
                                      'correct', 'json', 'tools', 'unknown', 'town'})

    def test_a_seed_decides_everything(self):
        for name in TASKS:
            for split in SPLITS:
                self.assertEqual(sample_of(name, split, 5), sample_of(name, split, 5))
            self.assertNotEqual(sample_of(name, 'train', 5), sample_of(name, 'train', 6))
        self.assertEqual(mixed_dialog(3, 2048), mixed_dialog(3, 2048))

    def test_a_seed_means_the_same_in_another_process(self):
        # Hashes of strings differ from process to process: nothing may depend on them.
        program = (f'import sys, json; sys.path.insert(0, {TRAIN!r})\nfrom tasks import *\n'
                   'print(json.dumps([sample_of(n, s, 1) for n in TASKS for s in ("train", "both")]))')
        outputs = {subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True,
                                  env=dict(os.environ, PYTHONHASHSEED=seed)).stdout for seed in ('1', '2')}
        self.assertEqual(len(outputs), 1)

    def test_lines_do_not_depend_on_the_number_of_processes(self):
        one, two = (list(generate.train_lines('x', 600, 512, processes)) for processes in (1, 2))
        self.assertEqual(one, two)
        self.assertEqual(len(one), 600)
        self.assertGreater(len(set(one)), 590)  # the shortest small talk may come twice

    def test_conversations_are_well_formed(self):
        for i in range(300):
            _, dialog = mixed_dialog(i)
            roles = [m['role'] for m in dialog.messages]
            text = ' '.join(roles)
            self.assertRegex(text, r'^(system )?(user assistant( tool assistant)? ?)+$')
            for message in dialog.messages:
                self.assertNotRegex(chat.message_text(message), r'[{]\w*[}]|<[|]|¶')
                self.assertEqual(chat.message_text(message), chat.message_text(message).strip())
            if 'tool' in roles:
                self.assertTrue(dialog.tools)

    def test_long_budgets_make_long_recall(self):
        longest = max(len(sample_of('recall', 'train', i, 7800)['messages'][0]['content']) for i in range(40))
        self.assertGreater(longest, 4 * 4096)


class Checks(unittest.TestCase):
    def test_right_answers_pass(self):
        for name in TASKS:
            for split in SPLITS:
                for sample in samples(name, split):
                    self.assertTrue(sample['checks'] or name == 'town', sample)
                    for check in sample['checks']:
                        self.assertTrue(checks.passes(check, answer_at(sample, check)), (name, split, check))

    def test_other_samples_answers_pass_about_as_rarely_as_chance_says(self):
        for name in TASKS:
            judged = [(c, answer_at(s, c)) for s in samples(name, 'train', 150) for c in s['checks']]
            replies = [reply for _, reply in judged]
            for shift in (7, 31):
                moved = replies[shift:] + replies[:shift]
                passed = sum(checks.passes(c, other) for (c, _), other in zip(judged, moved)) / len(judged)
                chance = sum(c['chance'] for c, _ in judged) / len(judged)
                self.assertLess(passed, chance + 0.1, name)

    def test_nothing_and_nonsense_fail(self):
        for name in TASKS:
            for sample in samples(name, 'train', 20):
                for check in sample['checks']:
                    for reply in ('', ' ', 'xyzzy', '<tool_call>\n{"name"\n</tool_call>', '[]', '-'):
                        self.assertFalse(checks.passes(check, reply), (name, check, reply))

    def test_number_takes_the_last_one(self):
        check = checks.number(85, 0.1)
        self.assertTrue(checks.passes(check, '7 + 8 = 15. So 47 + 38 = 85.'))
        self.assertFalse(checks.passes(check, '85, no, 86.'))

    def test_mention_wants_whole_words_and_no_other_candidate(self):
        check = checks.mention(['Ana'], ['Ana', 'Bo'], 0.5)
        self.assertTrue(checks.passes(check, 'It was Ana.'))
        self.assertFalse(checks.passes(check, 'It was Anatol.'))
        self.assertFalse(checks.passes(check, 'It was Ana or Bo.'))

    def test_json_compares_types_and_not_the_order(self):
        check = checks.json_value({'a': 1, 'b': [True, 'x']}, 0.0)
        self.assertTrue(checks.passes(check, ' {"b": [true, "x"], "a": 1}\n'))
        for wrong in ('{"a": 1.0, "b": [true, "x"]}', '{"a": true, "b": [true, "x"]}', '{"a": 1}', 'JSON: {"a": 1}',
                      '{"a": 1, "b": ["x", true]}'):
            self.assertFalse(checks.passes(check, wrong), wrong)

    def test_a_call_needs_its_tags_name_and_arguments(self):
        check = checks.call('get_price', {'item': 'red kettle'}, 0.1)
        good = '<tool_call>\n{"name": "get_price", "arguments": {"item": "red kettle"}}\n</tool_call>'
        self.assertTrue(checks.passes(check, good))
        for wrong in (good.replace('kettle', 'bottle'), good.replace('get_price', 'get_cost'), good[11:], 'Yes. ' + good):
            self.assertFalse(checks.passes(check, wrong), wrong)

    def test_a_story_may_not_repeat_itself(self):
        check = checks.story(['Mira'], ['Once upon a time'], (2, 4), 0.0)
        self.assertTrue(checks.passes(check, 'Once upon a time Mira slept. Then she woke.'))
        self.assertFalse(checks.passes(check, 'Once upon a time Mira slept. Then she woke. Then she woke.'))
        self.assertFalse(checks.passes(check, 'Once upon a time Mira slept. Then she'))
        self.assertFalse(checks.passes(check, 'Once upon a time Nora slept. Then she woke.'))

    def test_steps_of_arithmetic_are_true(self):
        for a in (0, 7, 10, 38, 99, 100, 407, 999):
            for b in (0, 3, 9, 10, 62, 99, 901, 999):
                for text in (arithmetic.add_steps(a, b), arithmetic.subtract_steps(max(a, b), min(a, b))):
                    for left, right in re.findall(r'(\d+(?: [+-] \d+)+) = (\d+)', text):
                        self.assertEqual(eval(left), int(right), text)
        self.assertEqual(arithmetic.add_steps(47, 38), '47 + 38: 7 + 8 = 15, carry 1. 4 + 3 + 1 = 8. So 47 + 38 = 85')
        self.assertEqual(arithmetic.subtract_steps(52, 38), '52 - 38: 12 - 8 = 4, borrow 1. 5 - 3 - 1 = 1. So 52 - 38 = 14')


class Splits(unittest.TestCase):
    def test_no_phrase_is_in_both_halves(self):
        for key, phrases in ALL_PHRASES.items():
            self.assertEqual(len(set(phrases.train)), len(phrases.train), key)
            self.assertFalse(set(phrases.train) & set(phrases.held_out), key)
            slots = [set(re.findall(r'{(\w+)}', p)) for p in phrases.train]
            for held in phrases.held_out:  # a held-out wording may not ask for what training ones never fill in
                self.assertLessEqual(set(re.findall(r'{(\w+)}', held)), set().union(*slots), held)

    def test_intents_of_small_talk_do_not_overlap(self):
        for half in ('train', 'held_out'):
            wordings = [w for phrases in smalltalk.ASK.values() for w in getattr(phrases, half)]
            self.assertEqual(len(set(wordings)), len(wordings))

    def test_templates_are_of_the_split_s_half(self):
        for name in TASKS:
            for split in SPLITS:
                used = {t for s in samples(name, split) for t in s['templates']}
                halves = {(t.split('/')[1], bool(ALL_PHRASES[t.split('/')[0]].held_out)) for t in used}
                if split in ('train', 'content'):
                    self.assertFalse([h for h, _ in halves if h == 'held'], name)
                else:  # lists without a held-out half serve both
                    self.assertIn(('held', True), halves, name)
                    self.assertNotIn(('train', True), halves, name)

    def test_contents_are_of_the_split_s_half(self):
        for name in TASKS:
            for split in SPLITS:
                contents = {c for s in samples(name, split) for c in s['content']}
                self.assertTrue(contents, name)
                for content in contents:
                    kind, key = content.split(':', 1)
                    self.assertEqual(is_held_out(kind, key), split in ('content', 'both'), (name, content))

    def test_held_out_contents_never_stand_in_training_text(self):
        text = []
        for i in range(2500):
            _, dialog = mixed_dialog(f'held-out/{i}')
            text += [chat.message_text(m) for m in dialog.messages]
        seen = phrases_of('\n'.join(text))
        written_by_hand = [str(t) for t in vars(town_data).values()] + [p for x in ALL_PHRASES.values() for p in x.train]
        written_by_hand += [w for plot in stories.PLOTS.values() for beat in plot for w in [beat]] + [str(stories.STYLES)]
        known = phrases_of('\n'.join(written_by_hand))
        held = {c for split in ('content', 'both') for name in TASKS for s in samples(name, split) for c in s['content']}
        held = {key for kind, key in (c.split(':', 1) for c in held) if kind in ('name', 'family', 'place', 'thing', 'beast')}
        self.assertGreater(len(held), 500)
        self.assertFalse(held & seen - known)

    def test_an_eighth_to_a_twelfth_is_held_out(self):
        part = sum(is_held_out('name', f'name{i}') for i in range(20000)) / 20000
        self.assertTrue(1 / 12 < part < 1 / 8, part)

    def test_an_empty_half_is_an_error_and_no_endless_loop(self):
        with self.assertRaisesRegex(ValueError, 'no held-out content of kind never'):
            Draw(1, 'content').content('never', lambda rng: next(str(i) for i in range(99) if not is_held_out('never', str(i))))
        with self.assertRaises(ValueError):
            Draw(1, 'test')

    def test_phrases_are_registered_once(self):
        with self.assertRaises(ValueError):
            Phrases('smalltalk.hello', 'Hi')


class Rendering(unittest.TestCase):
    def test_a_longer_conversation_starts_with_the_shorter_one(self):
        for i in range(200):
            _, dialog = mixed_dialog(f'append/{i}')
            messages = dialog.messages
            for n in range(1, len(messages)):
                if messages[n]['role'] == 'assistant':
                    prompt = chat.render(messages[:n], dialog.tools, generation_prompt=True)
                    self.assertTrue(chat.render(messages[:n + 1], dialog.tools).startswith(prompt))
                    self.assertTrue(chat.render(messages, dialog.tools).startswith(prompt))

    def test_only_what_the_assistant_wrote_is_learned(self):
        _, dialog = mixed_dialog(4)
        learned = ''.join(s.text for s in chat.segments(dialog.messages, dialog.tools) if s.learn)
        want = ''.join(chat.message_text(m) + chat.END for m in dialog.messages if m['role'] == 'assistant')
        self.assertEqual(learned, want)

    def test_control_tokens_keep_their_ids(self):
        self.assertEqual(chat.CONTROL[:8], ['<|begin|>', '<|end|>', '<|pad|>', '<|system|>', '<|user|>', '<|assistant|>',
                                            '<|tool|>', '<|tools|>'])
        self.assertEqual(len(chat.CONTROL), 16)

    def test_the_engine_renders_the_template_alike(self):
        quire = os.environ.get('QUIRE_BIN', '')
        if not os.path.exists(quire):
            self.skipTest('QUIRE_BIN names no program')
        picked = [s for name in TASKS for s in samples(name, 'both', 15)]
        for i, sample in enumerate(picked):
            if i % 3 == 0:
                sample['messages'].insert(0, {'role': 'system', 'content': ' Be brief. '})
            if i % 5 == 0:
                sample['messages'][-1]['reasoning_content'] = 'Let me see.'
        lines = [json.dumps({'messages': s['messages'], 'tools': s['tools'], 'bos_token': chat.BEGIN,
                             'add_generation_prompt': i % 2 == 0}) for i, s in enumerate(picked)]
        done = subprocess.run([quire, 'template', '--file', chat.TEMPLATE_PATH, '--jsonl'], input='\n'.join(lines) + '\n',
                              capture_output=True, text=True, check=True)
        got = [json.loads(line)['text'] for line in done.stdout.splitlines()]
        self.assertEqual(got, [chat.render(s['messages'], s['tools'], i % 2 == 0) for i, s in enumerate(picked)])


class CommandLine(unittest.TestCase):
    def test_statistics_name_every_task_and_split(self):
        out = io.StringIO()
        with redirect_stdout(out):
            generate.main(['--stats', '5'])
        rows = {tuple(line.split()[:2]) for line in out.getvalue().splitlines()[1:]}
        self.assertEqual(rows, {(name, split) for name in TASKS for split in SPLITS})

    def test_evaluation_covers_every_task_and_held_out_split(self):
        lines = list(generate.eval_samples(2, []))
        self.assertEqual({(s['task'], s['split']) for s in lines}, {(name, split) for name in TASKS for split in HELD_OUT})
        json.dumps(lines)


if __name__ == '__main__':
    unittest.main()
