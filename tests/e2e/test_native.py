# Quire's own endpoints on the real binary: tokens in and out, what the model is, filling in.
import unittest

from quire_server import ServerCase, quill


class Native(ServerCase):
    def test_generate_agrees_with_completions(self):
        text = 'Once upon a time'
        ids = self.server.post('/tokenize', {'content': text, 'add_special': True})[2]['tokens']
        ask = {'max_tokens': 12, 'seed': 4}
        status, _, native = self.server.post('/generate', {**ask, 'input_ids': ids, 'logprobs': 1})
        self.assertEqual(status, 200, native)
        choice = native['choices'][0]
        completion = self.server.post('/v1/completions', {**ask, 'prompt': text})[2]
        self.assertEqual(choice['text'], completion['choices'][0]['text'])
        self.assertEqual(len(choice['output_ids']), len(choice['logprobs']))
        streamed, said = [], ''
        for event in self.server.events('/generate', {**ask, 'input_ids': ids}):
            if event != '[DONE]' and 'index' in event:
                streamed += event['output_ids']
                said += event['text']
        self.assertEqual((streamed, said), (choice['output_ids'], choice['text']))

    def test_props_ready_version(self):
        props = self.server.get('/props')[2]
        self.assertGreater(props['default_generation_settings']['n_ctx'], 0)
        self.assertGreater(props['total_slots'], 0)
        self.assertGreater(props['model']['n_embd'], 0)
        self.assertEqual(self.server.get('/ready')[0], 200)
        self.assertIn('version', self.server.get('/version')[2])

    def test_infill_where_the_vocabulary_has_the_tokens(self):
        status, _, answer = self.server.post('/infill', {'input_prefix': 'a', 'input_suffix': 'b', 'n_predict': 4})
        if quill():
            self.assertEqual(status, 200)
            self.assertGreater(answer['tokens_evaluated'], 4)  # the two texts and the three marks
        else:
            self.assertEqual(status, 400)
            self.assertIn('fill-in-the-middle', answer['error']['message'])

    def test_embeddings_do_not_depend_on_company_or_cache(self):
        inputs = ['Once upon a time there was a cat. ' * 8 + str(i) for i in range(6)]
        for pooling in ('last', 'mean'):
            ask = {'pooling': pooling, 'normalize': False}
            together = self.server.post('/v1/embeddings', {**ask, 'input': inputs})[2]['data']
            for i, text in enumerate(inputs):
                alone = self.server.post('/v1/embeddings', {**ask, 'input': text})[2]['data'][0]
                self.assertEqual(alone['embedding'], together[i]['embedding'], (pooling, i))


if __name__ == '__main__':
    unittest.main()
