# What clients send that cannot run here: the requests of editors, pages and load generators, against the real binary.
import unittest

from quire_server import ServerCase, quill


class Requests(ServerCase):
    def test_an_editor_that_fills_in(self):
        """llama.vscode: a request that fills the cache, then the one that is shown."""
        base = {'input_prefix': 'def add(a, b):\n', 'input_suffix': '\n\nprint(add(1, 2))\n', 'prompt': '    ',
                'input_extra': [{'text': 'x = 1\n', 'filename': 'other.py'}], 'cache_prompt': True, 't_max_prompt_ms': 500}
        if not quill():
            self.skipTest('this model has no fill-in-the-middle tokens')
        status, _, warm = self.server.post('/infill', {**base, 'n_predict': 0, 'samplers': [], 't_max_predict_ms': 1,
                                                       'response_fields': ['']})
        self.assertEqual((status, warm), (200, {}))
        status, headers, shown = self.server.post('/infill', {
            **base, 'n_predict': 16, 'top_k': 40, 'top_p': 0.99, 'stream': False, 'n_indent': 4,
            'samplers': ['top_k', 'top_p', 'infill'], 't_max_predict_ms': 1000,
            'response_fields': ['content', 'timings/prompt_n', 'timings/prompt_ms', 'timings/predicted_n', 'truncated']})
        self.assertEqual(status, 200, shown)
        self.assertEqual(set(shown), {'content', 'timings/prompt_n', 'timings/prompt_ms', 'timings/predicted_n', 'truncated'})
        self.assertIn('infill', headers['x-quire-warning'])

    def test_a_load_generator_that_wants_usage_in_each_chunk(self):
        """guidellm."""
        events = list(self.server.events('/v1/completions', {
            'prompt': 'Once upon a time', 'max_tokens': 12, 'ignore_eos': True, 'stop': None,
            'stream_options': {'include_usage': True, 'continuous_usage_stats': True}}))
        counts = [e['usage']['completion_tokens'] for e in events if e != '[DONE]']
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], 12)

    def test_a_page_that_speaks_both_dialects(self):
        """Open WebUI: the lists, a title, a chat."""
        name = self.server.get('/v1/models')[2]['data'][0]['id']
        self.assertEqual(self.server.get('/api/tags')[2]['models'][0]['model'], name)
        self.assertEqual(self.server.get('/api/ps')[2]['models'][0]['model'], name)
        self.assertEqual(self.server.get('/api/version')[0], 200)
        messages = [{'role': 'user', 'content': 'Hello'}]
        events = list(self.server.events('/v1/chat/completions', {
            'model': name, 'messages': messages, 'stream_options': {'include_usage': True}, 'max_tokens': 8}))
        self.assertIn('usage', [e for e in events if e != '[DONE]'][-1])
        status, _, _ = self.server.post('/api/chat', {'model': name, 'messages': messages, 'stream': False, 'keep_alive': '5m',
                                                      'options': {'num_predict': 8}})
        self.assertEqual(status, 200)
        status, _, vectors = self.server.post('/api/embed', {'model': name, 'input': ['one', 'two'], 'truncate': True})
        self.assertEqual((status, len(vectors['embeddings'])), (200, 2))

    def test_an_editor_that_completes_and_chats(self):
        """Continue, by each of its providers: what it asks first, chat, chat with tools, completion while one types."""
        name = self.server.get('/v1/models')[2]['data'][0]['id']
        stops = ['<|endoftext|>', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|fim_pad|>', '<|repo_name|>',
                 '<|file_sep|>', '<|im_start|>', '<|im_end|>', '\n\n', '\r\n\r\n', '/src/', '#- coding: utf-8', '```']
        messages = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hello'}]
        tool = {'type': 'function', 'function': {'name': 'read_file', 'description': 'The text of a file', 'parameters': {
            'type': 'object', 'required': ['path'], 'properties': {'path': {'type': 'string'}}}}}
        openai = {'model': name, 'max_tokens': 8, 'temperature': 0.5, 'stream': True}
        chunks = list(self.server.events('/v1/chat/completions', {**openai, 'messages': messages, 'tools': [tool]}))
        self.assertTrue(any(c['choices'][0]['delta'].get('content') for c in chunks if c != '[DONE]'), chunks)
        chunks = list(self.server.events('/v1/completions', {**openai, 'prompt': 'def add(a, b):', 'stop': stops}))
        self.assertEqual(chunks[-1], '[DONE]')
        chunks = list(self.server.events('/completion', {'prompt': 'def add(a, b):', 'stream': True, 'n_predict': 8, 'stop': stops}))
        self.assertTrue(chunks[-1]['stop'], chunks)
        options = {'temperature': 0.5, 'num_predict': 8, 'stop': stops, 'num_ctx': 4096, 'num_thread': 4, 'use_mmap': True}
        ollama = {'model': name, 'options': options, 'keep_alive': 1800}
        status, _, shown = self.server.post('/api/show', {'name': name})
        self.assertEqual((status, 'template' in shown), (200, True))
        status, _, answer = self.server.post('/api/chat', {**ollama, 'messages': messages, 'tools': [tool], 'stream': False})
        self.assertEqual((status, answer.get('done')), (200, True), answer)
        status, _, answer = self.server.post('/api/generate', {**ollama, 'prompt': 'def add(a, b):', 'raw': True, 'stream': False})
        self.assertEqual((status, answer.get('done')), (200, True), answer)

    def test_an_answer_that_is_begun_goes_on_as_one_that_was_not(self):
        """The tokens of a greedy answer, cut at a token and sent back, end in the same text."""
        messages = [{'role': 'user', 'content': 'Tell a story about a cat.'}]
        ask = {'temperature': 0, 'max_tokens': 24}
        whole = self.server.post('/v1/chat/completions', {**ask, 'messages': messages})[2]['choices'][0]['message']['content']
        begun = whole[:len(whole) // 2].rsplit(' ', 1)[0]
        rest = self.server.post('/v1/chat/completions', {
            **ask, 'max_tokens': 64, 'messages': messages + [{'role': 'assistant', 'content': begun}]})[2]
        rest = rest['choices'][0]['message']['content']
        self.assertTrue((begun + rest).startswith(whole), (whole, begun, rest))


if __name__ == '__main__':
    unittest.main()
