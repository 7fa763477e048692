# Pinned prompts through the whole program: a cache far too small for what is asked, and what is pinned is found whole all
# the same, with the same answer; once it is given up it goes like anything else. And what is warmed at the start.
import json
import os
import tempfile
import unittest

from quire_server import ROOT, Server, model, quill, quire

CHAT = '/v1/chat/completions'
PIRATE = os.path.join(ROOT, 'models', 'adapters', 'pirate')
TEXT = '/v1/completions'
MESSAGES = [{'role': 'system', 'content': 'You answer in few words, and only where you are sure of what you say. ' * 3},
            {'role': 'user', 'content': 'What is the colour of the sky on a clear day?'}]
SMALL = ('--kv-memory', '1M', '--ctx', '192', '--pin-memory', '350K')


def ids(seed, n=65):
    """A prompt of so many tokens that no other seed's begins like."""
    return [100 + seed] + [100 + (i * 7 + seed) % 60 for i in range(n - 1)]


def cached(answer):
    return answer['usage']['prompt_tokens_details']['cached_tokens']


@unittest.skipUnless(quill(), 'sizes are those of the bundled model')
class Pins(unittest.TestCase):
    def ask(self, server, path, body, headers=None):
        status, _, answer = server.post(path, body, headers)
        self.assertEqual(status, 200, answer)
        return answer

    def chat(self, server, headers=None):
        """The answer to MESSAGES: what was said, and how many of its tokens were cached."""
        answer = self.ask(server, CHAT, {'messages': MESSAGES, 'temperature': 0, 'max_tokens': 6, 'logprobs': True},
                          headers)
        choice = answer['choices'][0]
        return (choice['message'], choice['logprobs']), cached(answer)

    def flood(self, server, headers=None):
        """More than there is room for, ten times over."""
        for i in range(40):
            text = f'{i} comes once: ' + f'number {i * 7919} of things that nobody will ask for again. ' * 3
            self.ask(server, TEXT, {'prompt': text, 'max_tokens': 2, 'ignore_eos': True}, headers)

    def test_what_is_pinned_is_found_whole_until_it_is_given_up(self):
        server = Server(*SMALL)
        try:
            first, _ = self.chat(server)
            self.flood(server)
            self.assertEqual(self.chat(server), (first, 0), 'unpinned, it goes')
            pin = self.ask(server, '/v1/cache/pin', {'messages': MESSAGES})
            self.assertEqual(pin['pinned_tokens'], (pin['prompt_tokens'] - 1) // 16 * 16)
            self.assertGreaterEqual(pin['pinned_tokens'], 48)
            self.flood(server)
            self.assertEqual(self.chat(server), (first, pin['pinned_tokens']))
            self.flood(server)
            self.assertEqual(self.chat(server), (first, pin['pinned_tokens']))
            listed = server.get('/v1/cache/pins')[2]
            self.assertEqual([(p['id'], p['pinned_tokens']) for p in listed['data']],
                             [(pin['id'], pin['pinned_tokens'])])
            self.assertEqual(server.metric('quire_kv_pins'), 1)
            self.assertEqual(server.metric('quire_kv_pinned_bytes'), listed['data'][0]['bytes'])
            self.ask(server, '/v1/cache/unpin', {'id': pin['id']})
            self.assertEqual(server.post('/v1/cache/unpin', {'id': pin['id']})[0], 404)
            self.flood(server)
            self.assertEqual(self.chat(server), (first, 0), 'given up, it goes')
            self.assertEqual(server.metric('quire_kv_pins'), 0)
        finally:
            server.stop()

    def test_with_packed_caches_guesses_and_adapters(self):
        """The answer is the one from before there was a pin; of another model's name nothing is found."""
        for options, name in ((('--kv-type', 'q8'), None), (('--spec', 'ngram', '--spec-depth', '3'), None),
                              (('--lora', f'pirate={PIRATE}'), 'pirate')):
            with self.subTest(options=options):
                asked = {'messages': MESSAGES, 'temperature': 0, 'max_tokens': 6, 'logprobs': True,
                         **({'model': name} if name else {})}
                server = Server(*SMALL, *options)
                try:
                    first = self.ask(server, CHAT, asked)
                    pin = self.ask(server, '/v1/cache/pin', {k: v for k, v in asked.items() if k in ('messages', 'model')})
                    self.flood(server)
                    again = self.ask(server, CHAT, asked)
                    self.assertEqual(again['choices'], first['choices'])
                    self.assertEqual(cached(again), pin['pinned_tokens'])
                    if name:
                        self.assertEqual(self.chat(server)[1], 0, 'the base model has another past')
                finally:
                    server.stop()

    def test_a_pin_beyond_the_memory_for_pins_is_refused_and_changes_nothing(self):
        server = Server(*SMALL)
        try:
            self.assertEqual(self.ask(server, '/v1/cache/pin', {'prompt': ids(0)})['pinned_tokens'], 64)
            status, _, refused = server.post('/v1/cache/pin', {'prompt': ids(1)})
            self.assertEqual((status, refused['error']['code']), (400, 'pins_full'), refused)
            self.assertIn('may be pinned', refused['error']['message'])
            status, _, refused = server.post('/v1/cache/pin', {'prompt': ids(2, 130)})
            self.assertEqual(status, 400, refused)
            self.assertIn('128 tokens take 8 blocks', refused['error']['message'])
            self.assertEqual(server.metric('quire_kv_pins'), 1)
            # A whole context runs beside what is pinned.
            answer = self.ask(server, TEXT, {'prompt': ids(3), 'ignore_eos': True, 'max_tokens': 1000})
            self.assertEqual(answer['usage']['total_tokens'], 192)
            self.assertEqual(cached(self.ask(server, TEXT, {'prompt': ids(0), 'max_tokens': 1})), 64)
        finally:
            server.stop()

    def test_warm_prompts_are_there_for_every_key(self):
        lines = [json.dumps('A text that is wanted again and again, and had better stay where it is. ' * 2), '',
                 json.dumps({'messages': MESSAGES[:1], 'add_generation_prompt': False})]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'warm.jsonl')
            with open(path, 'w', encoding='utf-8') as f:
                f.write('\n'.join(lines) + '\n')
            server = Server(*SMALL, '--warm-prompts', path, '--api-key', 'secret')
        try:
            key = {'Authorization': 'Bearer secret'}
            self.flood(server, key)
            _, n = self.chat(server, key)
            self.assertGreaterEqual(n, 32, 'the system message of a chat that nobody had asked before')
            answer = self.ask(server, TEXT, {'prompt': json.loads(lines[0]) + 'And so on.', 'max_tokens': 1}, key)
            self.assertGreaterEqual(cached(answer), 16)
            self.assertTrue(any('warm prompts: 2' in line for line in server.log), server.log)
        finally:
            server.stop()

    def test_files_and_sizes_that_cannot_be_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'warm.jsonl')
            for text, expected in (('', 'has no prompts'), ('"a good one, of more than a block of tokens, as it has to '
                                   'be to be pinned at all"\n{"messages": 3}\n', "warm prompt 2: 'messages'"),
                                   ('"x"\n', 'warm prompt 1: whole blocks of 16 tokens')):
                with open(path, 'w', encoding='utf-8') as f:
                    f.write(text)
                done = quire('serve', model(), '--port', '0', *SMALL, '--warm-prompts', path)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(expected, done.stderr)
            for options, expected in ((('--warm-prompts', path, '--no-prefix-cache'), 'needs the prefix cache'),
                                      (('--warm-prompts', path, '--pin-memory', '0'), 'needs --pin-memory'),
                                      (('--warm-prompts', path, '--record', os.path.join(folder, 'r')), '--record'),
                                      (('--warm-prompts', os.path.join(folder, 'none')), 'cannot be read'),
                                      (('--pin-memory', 'much'), '--pin-memory must be'),
                                      (('--pin-memory', '1M', '--kv-memory', '1M', '--ctx', '192'),
                                       '--pin-memory must be at most')):
                done = quire('serve', model(), '--port', '0', *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(expected, done.stderr)


if __name__ == '__main__':
    unittest.main()
