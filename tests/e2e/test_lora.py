# LoRA adapters over HTTP: the bundled model with its own (models/adapters), asked for side by side, loaded and unloaded
# while others are answered.
import json
import os
import shutil
import tempfile
import threading
import unittest

from quire_server import BUNDLED, ROOT, Server, ServerCase, changed_adapter, quill, quire

CHAT = '/v1/chat/completions'
LOAD, UNLOAD = '/v1/load_lora_adapter', '/v1/unload_lora_adapter'
ADAPTERS = os.path.join(ROOT, 'models', 'adapters')
PIRATE, GERMAN = os.path.join(ADAPTERS, 'pirate'), os.path.join(ADAPTERS, 'german')
HELLO = 'Hallo! Ich heiße Mira.'  # which each answers in its own way
ASKED = {'messages': [{'role': 'user', 'content': HELLO}], 'temperature': 0, 'max_tokens': 40}
BASE = os.path.splitext(os.path.basename(BUNDLED))[0]


def said(answer):
    return answer['choices'][0]['message']['content']


class Case(ServerCase):
    def ask(self, model, **fields):
        status, _, answer = self.server.post(CHAT, {**ASKED, 'model': model, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def together(self, models, **fields):
        """Answers by model, of requests that are sent at once."""
        out, threads = {}, []
        for model in models:
            threads.append(threading.Thread(target=lambda m=model: out.setdefault(m, self.ask(m, **fields))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {model: said(answer) for model, answer in out.items()}


@unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
class Lora(Case):
    options = ('--lora', f'pirate={PIRATE}', '--lora', f'german={GERMAN}', '--prefix', f'radio={os.path.join(ADAPTERS, "radio")}')

    def test_each_alone_and_together(self):
        names = [BASE, 'pirate', 'german', f'{BASE}:radio']
        alone = {name: said(self.ask(name, cache_prompt=False)) for name in names}
        self.assertTrue(alone['pirate'].startswith('Arr! '), alone)
        self.assertFalse(alone[BASE].startswith('Arr! '), alone)
        self.assertEqual(len(set(alone.values())), 4, alone)
        for _ in range(3):
            self.assertEqual(self.together(names), alone)

    def test_is_named_and_listed(self):
        self.assertEqual(self.ask('pirate')['model'], f'{BASE}:pirate')
        self.assertEqual(said(self.ask(f'{BASE}:pirate')), said(self.ask('pirate')))
        models = {m['id']: m for m in self.server.get('/v1/models')[2]['data']}
        for name in ('pirate', f'{BASE}:pirate', 'german'):
            self.assertEqual(models[name]['parent'], BASE)
        names = [m['name'] for m in self.server.get('/api/tags')[2]['models']]
        self.assertIn('german', names)
        listed = {a['name']: a['path'] for a in self.server.get('/lora-adapters')[2]}
        self.assertEqual(listed, {'german': GERMAN, 'pirate': PIRATE})

    def test_other_dialects(self):
        anthropic = self.server.post('/v1/messages', {**ASKED, 'model': 'pirate'})[2]
        self.assertTrue(anthropic['content'][0]['text'].startswith('Arr! '), anthropic)
        ollama = self.server.post('/api/chat', {'messages': ASKED['messages'], 'model': 'pirate', 'stream': False,
                                                'options': {'temperature': 0}})[2]
        self.assertTrue(ollama['message']['content'].startswith('Arr! '), ollama)
        vectors = [self.server.post('/v1/embeddings', {'input': 'a fox', 'model': m})[2]['data'][0]['embedding']
                   for m in (BASE, 'pirate', 'pirate')]
        self.assertEqual(vectors[1], vectors[2])
        self.assertNotEqual(vectors[0], vectors[1])

    def test_its_text_is_cached_for_itself_alone(self):
        body = {'prompt': 'The quick brown fox jumps over the lazy dog. ' * 6, 'temperature': 0, 'max_tokens': 4}
        cached = []
        for model in ('pirate', 'german', BASE, 'pirate'):
            usage = self.server.post('/v1/completions', {**body, 'model': model})[2]['usage']
            cached.append(usage['prompt_tokens_details']['cached_tokens'])
        self.assertEqual(cached[:3], [0, 0, 0])
        self.assertGreater(cached[3], 40)

    def test_metrics_name_what_runs_as_vllm_does(self):
        def info():
            return next(line for line in self.server.get('/metrics')[2].splitlines() if line.startswith('vllm:lora_requests_info'))
        self.assertRegex(info(), r'\{max_lora="64",running_lora_adapters="",waiting_lora_adapters=""\} 1\d{9}$')
        seen = []

        def look(_):
            seen.append(info())
            return 'running_lora_adapters="pirate"' not in seen[-1]  # False: the client leaves
        self.server.events('/v1/completions', {'model': 'pirate', 'prompt': 'a', 'max_tokens': 3000, 'ignore_eos': True}, look)
        self.assertIn('running_lora_adapters="pirate"', seen[-1])

    def test_beside_a_grammar(self):
        fields = {'response_format': {'type': 'json_schema', 'json_schema': {'name': 'who', 'schema': {
            'type': 'object', 'properties': {'name': {'type': 'string', 'maxLength': 20}, 'known': {'type': 'boolean'}},
            'required': ['name', 'known'], 'additionalProperties': False}}}, 'max_tokens': 160}
        names = [BASE, 'pirate', 'german']
        alone = {name: said(self.ask(name, **fields)) for name in names}
        for text in alone.values():
            self.assertEqual(set(json.loads(text)), {'name', 'known'})
        self.assertEqual(self.together(names, **fields), alone)

    def test_not_beside_a_learned_prefix(self):
        status, _, answer = self.server.post(CHAT, {**ASKED, 'model': 'pirate', 'prefix': 'radio'})
        self.assertEqual(status, 400)
        self.assertEqual(answer['error']['param'], 'prefix')
        self.assertIn("the model's name asks for the adapter 'pirate'", answer['error']['message'])


@unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
class Traffic(Case):
    options = ('--spec', 'ngram')

    def test_come_and_go_during_traffic(self):
        plain = said(self.ask(BASE))
        with tempfile.TemporaryDirectory() as folder:
            voice = os.path.join(folder, 'voice')
            shutil.copytree(PIRATE, voice)
            texts = {PIRATE: None, GERMAN: None}
            for path in texts:
                self.assertEqual(self.server.post(LOAD, {'lora_name': 'x', 'lora_path': path})[0], 200)
                texts[path] = said(self.ask('x'))
                self.assertEqual(self.server.post(UNLOAD, {'lora_name': 'x'})[0], 200)
            self.assertTrue(texts[PIRATE].startswith('Arr! '), texts)
            self.assertNotEqual(texts[GERMAN], plain)
            over, wrong = threading.Event(), []

            def traffic():
                while not over.is_set():
                    if said(self.ask(BASE)) != plain:
                        wrong.append('base')

            threads = [threading.Thread(target=traffic) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                # The same name, the same folder, other weights: no block of the old ones is hit.
                for path in (PIRATE, GERMAN, PIRATE, GERMAN):
                    for name in os.listdir(path):
                        shutil.copy(os.path.join(path, name), os.path.join(voice, name + '.new'))
                        os.replace(os.path.join(voice, name + '.new'), os.path.join(voice, name))
                    status, _, answer = self.server.post(LOAD, {'lora_name': 'voice', 'lora_path': voice, 'load_inplace': True})
                    self.assertEqual(status, 200, answer)
                    self.assertEqual(said(self.ask('voice')), texts[path])
                    self.assertEqual(self.server.post(LOAD, {'lora_name': 'voice', 'lora_path': '/nowhere',
                                                             'load_inplace': True})[0], 404)
                    self.assertEqual(said(self.ask('voice')), texts[path])
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(wrong, [])
            self.assertEqual(self.server.post(UNLOAD, {'lora_name': 'voice'})[0], 200)
            self.assertEqual(self.server.get('/lora-adapters')[2], [])


@unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
class Activated(Case):
    """The pirate, who begins with some tokens of the prompt. Blocks have 16 tokens."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.invocation = self.tokens_of(' Say it as a pirate')
        path = changed_adapter(PIRATE, self.folder.name, alora_invocation_tokens=self.invocation)
        self.assertEqual(self.server.post(LOAD, {'lora_name': 'late', 'lora_path': path})[0], 200)

    def tearDown(self):
        self.assertEqual(self.server.post(UNLOAD, {'lora_name': 'late'})[0], 200)
        self.folder.cleanup()

    def tokens_of(self, text):
        return self.server.post('/tokenize', {'content': text, 'add_special': False})[2]['tokens']

    def complete(self, model, tokens):
        """The answer, and how many tokens of the prompt were cached."""
        body = {'model': model, 'prompt': tokens, 'temperature': 0, 'max_tokens': 24, 'ignore_eos': True}
        status, _, answer = self.server.post('/v1/completions', body)
        self.assertEqual(status, 200, answer)
        return answer['choices'][0]['text'], answer['usage']['prompt_tokens_details']['cached_tokens']

    def test_shares_what_comes_before_with_the_model(self):
        for number, (first, second) in enumerate([(BASE, 'late'), ('late', BASE)]):
            before = self.tokens_of(f'Number {number}. ' + 'The quick brown fox jumps over the lazy dog. ' * 6)
            prompt = before + self.invocation + self.tokens_of(' of the seas, who tells of the old ship and of the gold that lies below it.')
            said = {first: self.complete(first, prompt)}
            self.assertEqual(said[first][1], 0)
            said[second] = self.complete(second, prompt)
            self.assertEqual(said[second][1], len(before) // 16 * 16)
            self.assertNotEqual(said[BASE][0], said['late'][0])
            self.assertEqual(self.complete('late', prompt), (said['late'][0], len(prompt) - 1))
            twice = self.server.post('/v1/cache/explain', {'model': 'late', 'prompt': prompt + self.invocation})[2]
            self.assertEqual(twice['cached_tokens'], len(prompt) // 16 * 16)

    def test_a_prompt_without_it_is_answered_by_the_model(self):
        prompt = self.tokens_of('One more text. The quick brown fox jumps over the lazy dog. It jumps once more.')
        plain = self.complete(BASE, prompt)[0]
        self.assertEqual(self.complete('late', prompt), (plain, len(prompt) - 1))

    def test_is_listed_with_its_invocation(self):
        self.assertIn('late', [m['id'] for m in self.server.get('/v1/models')[2]['data']])
        listed = self.server.get('/lora-adapters')[2]
        self.assertEqual([a['alora_invocation_tokens'] for a in listed], [self.invocation])

    def test_another_invocation_under_the_name_is_another_adapter(self):
        prompt = self.tokens_of('The end of it all. ' * 5) + self.invocation
        self.complete('late', prompt)
        with tempfile.TemporaryDirectory() as folder:
            path = changed_adapter(PIRATE, folder, alora_invocation_tokens=self.tokens_of(' The end of it'))
            self.assertEqual(self.server.post(LOAD, {'lora_name': 'late', 'lora_path': path, 'load_inplace': True})[0], 200)
            cached = self.complete('late', prompt)[1]
            self.assertEqual(cached % 16, 0)
            self.assertLess(cached, len(prompt) - len(self.invocation))


@unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
class Operators(unittest.TestCase):
    def test_a_key_without_rights_loads_nothing(self):
        server = Server('--api-key', 'guest', '--admin-key', 'boss')
        try:
            body = {'lora_name': 'x', 'lora_path': PIRATE}
            for key, status in (('guest', 403), ('nobody', 401), ('boss', 200)):
                self.assertEqual(server.post(LOAD, body, headers={'Authorization': f'Bearer {key}'})[0], status, key)
        finally:
            server.stop()

    def test_a_root_bounds_what_is_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, 'root')
            shutil.copytree(PIRATE, os.path.join(root, 'pirate'))
            shutil.copytree(GERMAN, os.path.join(folder, 'root-german'))
            os.symlink(os.path.join(folder, 'root-german'), os.path.join(root, 'link'))
            os.symlink('pirate', os.path.join(root, 'within'))
            server = Server('--lora-root', root, '--lora', f'german={GERMAN}')
            try:
                def load(path):
                    status, _, answer = server.post(LOAD, {'lora_name': 'x', 'lora_path': path, 'load_inplace': True})
                    return status, '' if status == 200 else answer['error']['message']

                for path in ('pirate', 'within', './pirate/', os.path.join(root, 'pirate'), 'pirate/../pirate'):
                    self.assertEqual(load(path), (200, ''), path)
                for path in ('../root-german', 'link', PIRATE, '/etc/passwd', '/', '..', 'pirate/../../x', 'a' * 4096):
                    status, message = load(path)
                    self.assertEqual(status, 400, path)
                    self.assertIn(f'is not below {os.path.realpath(root)}, where adapters may be (--lora-root)', message)
                self.assertEqual(load('pirate\0/../../x'), (400, 'a path has no byte 0'))
                self.assertEqual(server.post('/v1/completions', {'model': 'german', 'prompt': 'a', 'max_tokens': 1})[0], 200)
            finally:
                server.stop()

    def test_a_recorded_run_takes_none(self):
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, 'run.jsonl')
            done = quire('serve', BUNDLED, '--port', '0', '--record', record, '--lora', f'pirate={PIRATE}')
            self.assertNotEqual(done.returncode, 0)
            self.assertIn('--record and --lora exclude each other', done.stderr)
            server = Server('--record', record)
            try:
                status, _, answer = server.post(LOAD, {'lora_name': 'x', 'lora_path': PIRATE})
                self.assertEqual(status, 400)
                self.assertIn('the run is recorded', answer['error']['message'])
            finally:
                server.stop()


@unittest.skipUnless(quill(), 'the adapters are the bundled model\'s')
class OneCommand(unittest.TestCase):
    def test_generate_and_run(self):
        question = 'Who is the baker of Little Quarrow?'
        plain = quire('generate', BUNDLED, question, '--temperature', '0')
        voiced = quire('generate', BUNDLED, question, '--temperature', '0', '--lora', f'pirate={PIRATE}')
        self.assertTrue(voiced.stdout.startswith('Arr! '), voiced)
        self.assertFalse(plain.stdout.startswith('Arr! '), plain)
        talked = quire('run', BUNDLED, question, '--temperature', '0', '--lora', f'pirate={PIRATE}')
        self.assertIn('Arr! ', talked.stdout, talked)
        shifted = quire('generate', BUNDLED, question, '--temperature', '0', '--lora', f'pirate={PIRATE}',
                        '--context-shift', 'sinks=4,window=512')
        self.assertEqual(shifted.stdout, voiced.stdout, shifted)


class Refusals(unittest.TestCase):
    def test_wrong_options_and_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = changed_adapter(PIRATE, folder, modules_to_save=['lm_head'])
            with tempfile.TemporaryDirectory() as other:
                late = os.path.join(folder, 'late')
                shutil.move(changed_adapter(PIRATE, other, alora_invocation_tokens=[3, 999999]), late)
            cases = [(('pirate',), '--lora must be NAME=PATH, got "pirate"'),
                     (('a:b=c',), "an adapter's name has no ':'"),
                     ((f'a={PIRATE}', f'a={PIRATE}'), '"a" is given twice'),
                     ((f'a={folder}',), 'adapter_config.json: cannot be read'),
                     ((f'{BASE}={PIRATE}',), 'is the name of the model'),
                     ((f'a={os.path.join(ADAPTERS, "radio")}',), 'key "peft_type": must be LORA, found "PREFIX_TUNING"'),
                     ((f'a={late}',), 'adapter_config.json: key "alora_invocation_tokens": token 1 must be 0 to '),
                     ((f'a={copy}',), 'adapter_config.json: key "modules_to_save": is not supported for a LoRA adapter')]
            for adapters, message in cases:
                with self.subTest(adapters=adapters):
                    options = [part for adapter in adapters for part in ('--lora', adapter)]
                    done = quire('serve', BUNDLED, '--port', '0', *options)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(message, done.stderr)
            done = quire('generate', BUNDLED, 'Hello', '--lora', f'a={PIRATE}', '--lora', f'b={GERMAN}')
            self.assertIn('this command answers with one adapter', done.stderr)


if __name__ == '__main__':
    unittest.main()
