# Why a prompt is not cached, through the whole program: turns of a dialogue, a word changed, another salt, an eviction,
# two clients, and the same on the command line. What is foretold is what the chat then reports.
import json
import os
import re
import tempfile
import unittest

from quire_server import Server, quill, quire

CHAT = '/v1/chat/completions'
TEXT = '/v1/completions'
EXPLAIN = '/v1/cache/explain'
SYSTEM = {'role': 'system', 'content': 'You answer in few words, and only where you are sure of what you say. ' * 3}
QUESTIONS = ['What is the colour of the sky on a clear day, and what is it at night?',
             'And which colour has the sea, where it is deep and nothing grows in it?',
             'Which of the two do you like better, if you had to say one of them now?']


def user(text):
    return {'role': 'user', 'content': text}


@unittest.skipUnless(quill(), 'lengths are those of the bundled model')
class Explain(unittest.TestCase):
    def start(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        return server

    def post(self, server, path, body, headers=None):
        status, _, answer = server.post(path, body, headers)
        self.assertEqual(status, 200, answer)
        return answer

    def explain(self, server, messages, headers=None, **more):
        return self.post(server, EXPLAIN, {'messages': messages, **more}, headers)

    def chat(self, server, messages, headers=None, **more):
        """(text of the answer, cached tokens, of these from disk)"""
        body = {'messages': messages, 'temperature': 0, 'max_tokens': 24, **more}
        answer = self.post(server, CHAT, body, headers)
        details = answer['usage']['prompt_tokens_details']
        return (answer['choices'][0]['message']['content'], details['cached_tokens'],
                details['cached_tokens_by_tier']['disk'])

    def dialogue(self, server, headers=None, **more):
        """The messages of some turns; what was foretold of each is what it found."""
        messages = [SYSTEM]
        for question in QUESTIONS:
            messages = messages + [user(question)]
            foretold = self.explain(server, messages, headers, **more)
            answer, n_cached, _ = self.chat(server, messages, headers, **more)
            self.assertEqual(foretold['cached_tokens'], n_cached, foretold)
            self.assertEqual(foretold['computed_tokens'], foretold['prompt_tokens'] - n_cached)
            messages = messages + [{'role': 'assistant', 'content': answer}]
        return messages[:-1]

    def flood(self, server, headers=None):
        for i in range(40):
            text = f'{i} comes once: ' + f'number {i * 7919} of things that nobody will ask for again. ' * 3
            self.post(server, TEXT, {'prompt': text, 'max_tokens': 2, 'ignore_eos': True}, headers)

    def test_turns_a_changed_word_and_other_space(self):
        server = self.start()
        messages = self.dialogue(server)
        again = self.explain(server, messages)
        self.assertEqual(again['cause'], 'whole')
        self.assertEqual(again['cached_tokens'], again['prompt_tokens'] - 1)
        changed = json.loads(json.dumps(messages))
        changed[3]['content'] = changed[3]['content'].replace('deep', 'calm')
        found = self.explain(server, changed)
        self.assertEqual(found['cause'], 'differs', found)
        place = found['first_difference']
        self.assertIn('calm', place['before'] + place['prompt'])
        self.assertIn('deep', place['before'] + place['stored'])
        self.assertEqual((place['message'], place['role']), (3, changed[3]['role']))
        self.assertLess(place['token'], found['prompt_tokens'])
        at = place['token']
        self.assertEqual(found['cached_tokens'], at if at % 16 >= 4 else at // 16 * 16)
        self.assertEqual(self.chat(server, changed)[1], found['cached_tokens'])
        spaced = json.loads(json.dumps(messages))
        spaced[1]['content'] = spaced[1]['content'].replace('day, and', 'day,  and')
        self.assertEqual(self.explain(server, spaced)['cause'], 'whitespace_or_merge')
        self.assertEqual(self.explain(server, [user('Hi')])['cause'], 'below_block')
        self.assertEqual(self.post(server, EXPLAIN, {'prompt': 'Zebras ' * 30})['cause'], 'never_stored')

    def test_another_salt_is_told_to_whoever_may_know_of_it(self):
        server = self.start()
        messages = self.dialogue(server)
        found = self.explain(server, messages, cache_salt='mine')
        self.assertEqual((found['cause'], found['cached_tokens']), ('salt', 0))
        self.dialogue(server, cache_salt='yours')
        self.chat(server, [user('A question that is asked with one salt alone, and with no other one at all.')],
                  cache_salt='yours')
        found = self.explain(
            server, [user('A question that is asked with one salt alone, and with no other one at all.')],
            cache_salt='mine')
        self.assertEqual(found['cause'], 'never_stored', 'nobody is told what is cached under a salt that it guesses')

    def test_keys_see_their_own_alone(self):
        server = self.start('--api-key', 'one', '--api-key', 'two')
        one, two = ({'Authorization': f'Bearer {key}'} for key in ('one', 'two'))
        messages = self.dialogue(server, one, cache_salt='first')
        self.assertEqual(self.explain(server, messages, one, cache_salt='second')['cause'], 'salt')
        changed = json.loads(json.dumps(messages))
        changed[3]['content'] = changed[3]['content'].replace('deep', 'calm')
        for salt in ({}, {'cache_salt': 'first'}):
            for asked in (messages, changed):
                found = self.explain(server, asked, two, **salt)
                self.assertEqual((found['cause'], found['cached_tokens'], found['first_difference']),
                                 ('never_stored', 0, None))
        self.assertEqual(self.explain(server, changed, one, cache_salt='first')['cause'], 'differs')
        self.assertEqual(server.post(EXPLAIN, {'prompt': 'x'})[0], 401)

    def test_an_eviction_says_when_and_for_whom(self):
        server = self.start('--kv-memory', '1M', '--ctx', '256', '--api-key', 'one', '--api-key', 'two')
        one, two = ({'Authorization': f'Bearer {key}'} for key in ('one', 'two'))
        for flooding, whom in ((one, 'own'), (two, 'another')):
            messages = [SYSTEM, user(QUESTIONS[0])]
            self.chat(server, messages, one, max_tokens=2)
            self.assertEqual(self.explain(server, messages, one)['cause'], 'whole')
            self.flood(server, flooding)
            found = self.explain(server, messages, one)
            self.assertEqual(found['cause'], 'evicted', found)
            self.assertEqual(found['evicted']['for'], whom)
            self.assertGreaterEqual(found['evicted']['seconds_ago'], 0)
            self.assertLess(found['evicted']['seconds_ago'], 300)
            self.assertEqual(self.explain(server, messages, two)['cause'], 'never_stored')
            self.assertEqual(self.chat(server, messages, one, max_tokens=2)[1], found['cached_tokens'])

    def test_what_lies_on_disk_is_told_by_tier(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ('--kv-disk', os.path.join(folder, 'kv'), '--kv-disk-size', '64M')
            first = Server(*options)
            messages = [SYSTEM, user(QUESTIONS[0])]
            self.chat(first, messages)
            self.assertEqual(first.stop(), 0)
            second = self.start(*options)
            found = self.explain(second, messages)
            self.assertEqual(found['cause'], 'whole', found)
            self.assertEqual(found['cached_tokens_by_tier']['memory'], 0)
            self.assertGreater(found['cached_tokens_by_tier']['disk'], 32)
            _, n_cached, n_disk = self.chat(second, messages)
            self.assertEqual(n_cached, n_disk)
            self.assertLessEqual(n_disk, found['cached_tokens'], 'what is dearer to read than to compute is computed')

    def test_the_command_line_says_the_same(self):
        server = self.start()
        messages = self.dialogue(server)
        messages[3]['content'] = messages[3]['content'].replace('deep', 'calm')
        url = f'http://127.0.0.1:{server.port}'
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'body.json')
            with open(path, 'w', encoding='utf-8') as f:
                json.dump({'messages': messages}, f)
            done = quire('explain', path, '--url', url)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = self.explain(server, messages)
            self.assertRegex(done.stdout, rf'cached +{found["cached_tokens"]} \(memory {found["cached_tokens"]}, disk 0, remote 0\)')
            self.assertRegex(done.stdout, rf'to compute +{found["computed_tokens"]}\n')
            self.assertRegex(done.stdout, r'cause +differs: ')
            self.assertRegex(done.stdout, r'parts at +token \d+, in messages\[3\] \(user\), behind ')
            self.assertIn(json.dumps(found['first_difference']['stored']), done.stdout)
            raw = quire('explain', path, '--url', url, '--json')
            self.assertEqual(json.loads(raw.stdout), found)
            salted = quire('explain', path, '--url', url, '--salt', 'x', '--json')
            self.assertNotEqual(json.loads(salted.stdout)['cause'], 'differs')
        text = quire('explain', '--prompt', 'Nothing of this kind was ever asked before by anybody at all.', '--url', url)
        self.assertTrue(re.search(r'cause +never_stored', text.stdout), text.stdout + text.stderr)
        for options, expected in ((('--url', url), 'one of FILE and --prompt'),
                                  (('/nowhere/x.json', '--url', url), 'FILE: /nowhere/x.json: cannot be read'),
                                  (('--prompt', 'x', '--url', 'http://127.0.0.1:1'), 'cannot connect'),
                                  (('--prompt', 'x', '--model-name', 'a:b:c', '--url', url), '')):
            done = quire('explain', *options)
            if expected:
                self.assertEqual(done.returncode, 1)
                self.assertIn(expected, done.stderr)


if __name__ == '__main__':
    unittest.main()
