# quire batch: OpenAI's batch files, and what becomes of the files that it is given.
import hashlib
import json
import os
import shutil
import tempfile
import threading
import unittest

from quire_server import Server, model, quire


def batch(*arguments, code=0):
    """What a run says on stderr."""
    done = quire('batch', *arguments)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stderr


class Batch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.input = os.path.join(self.folder.name, 'in.jsonl')
        self.output = os.path.join(self.folder.name, 'out.jsonl')

    def write(self, lines):
        with open(self.input, 'w', encoding='utf-8') as file:
            file.writelines((line if isinstance(line, str) else json.dumps(line)) + '\n' for line in lines)

    def results(self):
        with open(self.output, encoding='utf-8') as file:
            return {line['custom_id']: line for line in map(json.loads, file)}

    @staticmethod
    def line(name, **body):
        return {'custom_id': name, 'method': 'POST', 'url': '/v1/completions',
                'body': {'prompt': f'Once {name}', 'max_tokens': 6, 'temperature': 0, **body}}

    def test_a_pipe_is_read_once(self):
        text = ''.join(json.dumps(self.line(name)) + '\n' for name in ('a', 'b', 'c'))
        os.mkfifo(self.input)
        writer = threading.Thread(target=lambda: open(self.input, 'w', encoding='utf-8').write(text), daemon=True)
        writer.start()
        log = batch(self.input, self.output, model())
        writer.join(timeout=10)
        self.assertIn('3 done, 0 failed', log)
        self.assertEqual(sorted(self.results()), ['a', 'b', 'c'])

    def test_each_line_is_answered_as_the_server_would_and_a_run_goes_on(self):
        names = [f'r{i}' for i in range(20)]
        self.write([self.line(name) for name in names[:12]])
        batch(self.input, self.output, model())
        first = self.results()
        self.assertEqual(sorted(first), sorted(names[:12]))
        with open(self.output, 'a', encoding='utf-8') as file:
            file.write('{"id":"batch_req_7","cust')
        self.write([self.line(name) for name in names])
        log = batch(self.input, self.output, model())
        self.assertIn('8 done, 0 failed, 12 were done before', log)
        second = self.results()
        self.assertEqual(sorted(second), sorted(names))
        self.assertEqual({name: second[name] for name in first}, first)
        server = Server('--threads', '1')
        try:
            for name in names[::7]:
                answer = server.post('/v1/completions', self.line(name)['body'])[2]
                self.assertEqual(second[name]['response']['body']['choices'], answer['choices'])
            os.remove(self.output)
            batch(self.input, self.output, '--url', server.url)
        finally:
            server.stop()
        self.assertEqual({n: r['response']['body']['choices'] for n, r in self.results().items()},
                         {n: r['response']['body']['choices'] for n, r in second.items()})

    def test_bad_lines_fail_alone(self):
        self.write([self.line('a'), 'nonsense', self.line('a'), self.line('b', max_tokens=-3), self.line('c', stream=True)])
        self.assertIn('4 lines failed', batch(self.input, self.output, model(), code=1))
        with open(self.output, encoding='utf-8') as file:
            results = [json.loads(line) for line in file]
        self.assertEqual(sum(r['response'] is not None and r['response']['status_code'] == 200 for r in results), 1)
        self.assertEqual(sorted(r['error']['code'] for r in results if r['error']),
                         ['duplicate_custom_id', 'invalid_line', 'invalid_line'])
        self.assertEqual([r['response']['status_code'] for r in results if r['custom_id'] == 'b'], [400])

    def test_a_refused_line_keeps_its_id_and_is_told_again_by_the_next_run(self):
        self.write([self.line('a'), self.line('a'), {**self.line('g'), 'method': 'GET'}, {**self.line('u'), 'url': '/metrics'},
                    self.line('s', stream=True), {**self.line('n'), 'custom_id': 5}])
        for _ in range(2):
            self.assertIn('5 lines failed', batch(self.input, self.output, model(), code=1))
            with open(self.output, encoding='utf-8') as file:
                results = [json.loads(line) for line in file]
            self.assertEqual(sorted(str(r['custom_id']) for r in results if r['error']), ['None', 'a', 'g', 's', 'u'])
            self.assertEqual(len(results), 6)

    def test_embeddings_are_the_servers(self):
        body = {'input': 'Once upon a time'}
        self.write([{'custom_id': 'e', 'method': 'POST', 'url': '/v1/embeddings', 'body': body}])
        batch(self.input, self.output, model())
        server = Server('--threads', '1')
        try:
            answer = server.post('/v1/embeddings', body)[2]
        finally:
            server.stop()
        self.assertEqual(self.results()['e']['response']['body']['data'], answer['data'])

    def test_no_file_of_somebodys_is_touched(self):
        self.write([self.line('a')])
        notes, weights, link = (os.path.join(self.folder.name, name) for name in ('notes.txt', 'm.gguf', 'link.jsonl'))
        with open(notes, 'w', encoding='utf-8') as file:
            file.write('my notes\n{"json": "settings"}\n')
        shutil.copyfile(model(), weights)
        os.symlink(self.input, link)
        files = (self.input, notes, weights)

        def state():
            return [hashlib.sha256(open(name, 'rb').read()).hexdigest() for name in files], sorted(os.listdir(self.folder.name))
        before = state()
        read = 'is what is read'
        gone = os.path.join(self.folder.name, 'gone')
        for words, *arguments in ((read, self.input, self.input, weights), (read, self.input, link, weights),
                                  (read, self.input, weights, weights), (read, self.input, self.input, '--url', '127.0.0.1:1'),
                                  (read, self.input, weights, weights, '--restart'),
                                  ('m.gguf is there, and its line 1 is no result', self.input, weights, model()),
                                  ('notes.txt is there, and its line 1 is no result', self.input, notes, weights),
                                  ('m.gguf is there, and its line 1', self.input, weights, '--url', '127.0.0.1:1'),
                                  ('no file or folder', self.input, weights, self.output),
                                  ('no file or folder', self.input, notes, gone, '--restart'),
                                  ('notes.txt', self.input, self.output, notes, '--restart'),
                                  (self.folder.name + ' is a folder', self.folder.name, self.output, weights),
                                  ('gone: cannot read', gone, self.output, weights),
                                  (' is there and is no file', self.input, self.folder.name, weights)):
            with self.subTest(arguments=arguments):
                self.assertIn(words, batch(*arguments, code=1))
                self.assertEqual(state(), before)
        batch(self.input, notes, weights, '--restart')
        with open(notes, encoding='utf-8') as file:
            self.assertEqual([json.loads(line)['custom_id'] for line in file], ['a'])


if __name__ == '__main__':
    unittest.main()
