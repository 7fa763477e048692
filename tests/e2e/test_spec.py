# Guessing ahead on the bundled model and its draft: the same answers as without, told in usage and metrics; what cannot
# be is refused by name.
import concurrent.futures
import json
import os
import random
import re
import shutil
import struct
import tempfile
import unittest

from gguf_reader import Gguf
from quire_server import BUNDLED, ROOT, Server, quire

CHAT = '/v1/chat/completions'
DRAFT = os.path.join(ROOT, 'models', 'quill-draft-q8_0.gguf')
QUESTIONS = ['Tell me a story about a fox.', 'How many legs have three spiders?', 'Repeat after me: one two one two one two.',
             'What is the capital of France?']

SCHEMAS = [{'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {
    'type': 'object', 'required': list(properties), 'additionalProperties': False, 'properties': properties}}}
    for properties in (
        {'temperature': {'type': 'integer'}, 'population': {'type': 'integer'}, 'description': {'enum': ['beautiful', 'terrible']}},
        {'conversation_id': {'type': 'string', 'maxLength': 8}, 'is_finished': {'type': 'boolean'},
         'recommendation': {'const': 'Nothing to be done'}})]


def write_random(path, shapes, more=None):
    """A file of F16 tensors of random numbers, behind others: name to (dtype, shape, bytes)."""
    rng = random.Random(1)
    numbers = struct.pack('<4096e', *(rng.gauss(0, 0.1) for _ in range(4096)))
    header, data = {}, bytearray()
    for name, (dtype, shape, part) in (more or {}).items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(part)]}
        data += part
    for name, shape in shapes.items():
        n_bytes = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        shift = 2 * rng.randrange(4096)
        part = (numbers[shift:] + numbers * (n_bytes // len(numbers) + 1))[:n_bytes]
        header[name] = {'dtype': 'F16', 'shape': shape, 'data_offsets': [len(data), len(data) + n_bytes]}
        data += part
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def write_heads(folder, n_embd, n_vocab, n_heads=3):
    """Medusa heads of random numbers, in the folder that such heads are published in."""
    shapes = {'0.linear.weight': [n_embd, n_embd], '0.linear.bias': [n_embd], '1.weight': [n_vocab, n_embd]}
    write_random(os.path.join(folder, 'medusa_lm_head.safetensors'),
                 {f'{head}.{name}': shape for head in range(n_heads) for name, shape in shapes.items()})
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump({'medusa_num_heads': n_heads, 'medusa_num_layers': 1, 'base_model_name_or_path': 'quill'}, file)


def write_bundled_heads(folder, n_more=0):
    gguf = Gguf(BUNDLED)
    n_embd, n_vocab = gguf.tensors['token_embd.weight'][0]
    write_heads(folder, n_embd + n_more, n_vocab)


def write_bundled_eagle(folder, n_draft=600, **config):
    """An EAGLE-3 head of random numbers for the bundled model."""
    n, n_vocab = Gguf(BUNDLED).tensors['token_embd.weight'][0]
    layer = {'input_layernorm': [n], 'hidden_norm': [n], 'post_attention_layernorm': [n], 'self_attn.q_proj': [64, 2 * n],
             'self_attn.k_proj': [32, 2 * n], 'self_attn.v_proj': [32, 2 * n], 'self_attn.o_proj': [n, 64],
             'mlp.gate_proj': [128, n], 'mlp.up_proj': [128, n], 'mlp.down_proj': [n, 128]}
    shapes = {'fc.weight': [n, 3 * n], 'norm.weight': [n], 'lm_head.weight': [n_draft, n]}
    shapes |= {f'midlayer.{name}.weight': shape for name, shape in layer.items()}
    d2t = struct.pack(f'<{n_draft}q', *(i for i in range(n_draft)))  # every other token
    write_random(os.path.join(folder, 'model.safetensors'), shapes, {'d2t': ('I64', [n_draft], d2t)})
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump({'hidden_size': n, 'intermediate_size': 128, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16,
                   'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'vocab_size': n_vocab, 'draft_vocab_size': n_draft, **config}, file)


def write_bundled_first_eagle(folder):
    """An EAGLE head of random numbers for the bundled model, whose embeddings and product over the vocabulary it has."""
    n = Gguf(BUNDLED).tensors['token_embd.weight'][0][0]
    layer = {'post_attention_layernorm': [n], 'self_attn.q_proj': [n, n], 'self_attn.k_proj': [n // 2, n],
             'self_attn.v_proj': [n // 2, n], 'self_attn.o_proj': [n, n], 'mlp.gate_proj': [128, n], 'mlp.up_proj': [128, n],
             'mlp.down_proj': [n, 128]}
    shapes = {'fc.weight': [n, 2 * n], 'fc.bias': [n]} | {f'layers.0.{name}.weight': shape for name, shape in layer.items()}
    write_random(os.path.join(folder, 'model.safetensors'), shapes)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump({'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': n, 'intermediate_size': 128,
                   'num_hidden_layers': 1, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'rms_norm_eps': 1e-5}, file)


def write_headed(folder):
    """A GLM 4.5 of random numbers that carries a head for multi-token prediction, with the bundled model's tokens."""
    n, dim, n_ff, n_vocab = 64, 16, 32, Gguf(BUNDLED).tensors['token_embd.weight'][0][1]
    unit = {'gate_proj': [n_ff, n], 'up_proj': [n_ff, n], 'down_proj': [n, n_ff]}
    attention = {'q_proj': [4 * dim, n], 'k_proj': [2 * dim, n], 'v_proj': [2 * dim, n], 'o_proj': [n, 4 * dim]}
    shapes = {'model.embed_tokens.weight': [n_vocab, n], 'model.norm.weight': [n], 'lm_head.weight': [n_vocab, n]}
    for number in range(2):
        shapes |= {f'model.layers.{number}.{name}.weight': [n] for name in ('input_layernorm', 'post_attention_layernorm')}
        shapes |= {f'model.layers.{number}.self_attn.{name}.weight': shape for name, shape in attention.items()}
    shapes |= {f'model.layers.0.mlp.{name}.weight': shape for name, shape in unit.items()}
    for part in ('experts.0', 'experts.1', 'experts.2', 'experts.3', 'shared_experts'):
        shapes |= {f'model.layers.1.mlp.{part}.{name}.weight': shape for name, shape in unit.items()}
    shapes |= {'model.layers.1.mlp.gate.weight': [4, n], 'model.layers.1.mlp.gate.e_score_correction_bias': [4]}
    shapes |= {f'model.layers.1.{name}.weight': [n] for name in ('enorm', 'hnorm', 'shared_head.norm')}
    shapes |= {'model.layers.1.eh_proj.weight': [n, 2 * n], 'model.layers.1.shared_head.head.weight': [n_vocab, n]}
    write_random(os.path.join(folder, 'model.safetensors'), shapes)
    shutil.copy(os.path.join(ROOT, 'models', 'tokenizer.json'), folder)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump({'model_type': 'glm4_moe', 'hidden_size': n, 'intermediate_size': n_ff, 'num_hidden_layers': 1,
                   'num_nextn_predict_layers': 1, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': dim,
                   'hidden_act': 'silu', 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'partial_rotary_factor': 0.5,
                   'vocab_size': n_vocab, 'max_position_embeddings': 4096, 'tie_word_embeddings': False,
                   'n_routed_experts': 4, 'num_experts_per_tok': 2, 'n_group': 1, 'topk_group': 1, 'n_shared_experts': 1,
                   'moe_intermediate_size': n_ff, 'first_k_dense_replace': 1, 'routed_scaling_factor': 1.0,
                   'norm_topk_prob': True, 'attention_bias': False, 'eos_token_id': 0}, file)


def body(i, **fields):
    return {'messages': [{'role': 'user', 'content': QUESTIONS[i % len(QUESTIONS)]}], 'max_tokens': 40, 'seed': i,
            'temperature': 0 if i % 2 == 0 else 0.8, **({'frequency_penalty': 0.4} if i % 3 == 2 else {}), **fields}


def ask(server, i, **fields):
    status, _, reply = server.post(CHAT, body(i, **fields))
    assert status == 200, reply
    return reply


def ask_all(server, **fields):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return list(pool.map(lambda i: ask(server, i, **fields), range(12)))


def texts(replies):
    return [r['choices'][0]['message']['content'] for r in replies]


@unittest.skipUnless(os.path.exists(BUNDLED) and os.path.exists(DRAFT), 'the bundled models are not here')
class Speculation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = Server(path=BUNDLED)
        cls.truth = ask_all(server)
        cls.plain_metrics = server.get('/metrics')[2]
        server.stop()

    def check(self, *options):
        server = Server(*options, path=BUNDLED)
        try:
            for _ in range(2):  # the second time it is cached
                self.assertEqual(texts(ask_all(server)), texts(self.truth))
            details = [r['usage'].get('completion_tokens_details', {}) for r in ask_all(server)]
            self.assertEqual(texts(ask_all(server, speculation=False)), texts(self.truth))
            return details, server.get('/metrics')[2]
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_draft_of_fixed_depth(self):
        details, metrics = self.check('--draft', DRAFT, '--spec-depth', '4')
        accepted = sum(d['accepted_prediction_tokens'] for d in details)
        rejected = sum(d['rejected_prediction_tokens'] for d in details)
        self.assertGreater(2 * accepted, rejected)
        for series in ('quire_spec_decode_num_drafts_total', 'vllm:spec_decode_num_draft_tokens_total',
                       'vllm:spec_decode_num_accepted_tokens_total', 'quire_spec_decode_mean_length',
                       'quire_spec_decode_seconds_total{what="saved"}',
                       'quire_spec_decode_alarms_total{reason="few_accepted"} 0',
                       'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="quill-q8_0",engine="0",position="3"}'):
            self.assertIn(series, metrics)
        self.assertNotIn('position="4"', metrics)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)

    def test_a_draft_as_it_pays(self):
        self.check('--draft', DRAFT)

    def test_medusa_heads(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_heads(folder)
            details, metrics = self.check('--draft', folder, '--spec-depth', '4')
        # Random numbers are hardly ever right.
        self.assertGreater(sum(d.get('rejected_prediction_tokens', 0) for d in details), 100)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
        self.assertIn('position="2"', metrics)
        self.assertNotIn('position="3"', metrics)  # three heads

    def test_medusa_heads_as_they_pay(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_heads(folder)
            self.check('--draft', folder, '--spec', 'draft')

    def test_an_eagle_head(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_eagle(folder)
            details, metrics = self.check('--draft', folder, '--spec-depth', '4')
            self.check('--draft', folder)
        self.assertGreater(sum(d.get('rejected_prediction_tokens', 0) for d in details), 100)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
        self.assertIn('quire_spec_decode_drafter_drafts_total{drafter="eagle"}', metrics)

    def test_an_eagle_head_of_the_first_form(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_first_eagle(folder)
            details, metrics = self.check('--draft', folder, '--spec-depth', '3')
        self.assertGreater(sum(d.get('rejected_prediction_tokens', 0) for d in details), 100)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
        self.assertIn('quire_spec_decode_drafter_drafts_total{drafter="eagle"}', metrics)

    def test_the_first_layers(self):
        details, metrics = self.check('--draft', 'exit:3', '--spec-depth', '3')
        self.assertGreater(sum(d.get('rejected_prediction_tokens', 0) for d in details), 100)
        self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
        self.assertIn('quire_spec_decode_drafter_drafts_total{drafter="exit"}', metrics)

    def test_ngrams(self):
        details, _ = self.check('--spec', 'ngram', '--spec-depth', '6')
        self.assertGreater(sum(d.get('accepted_prediction_tokens', 0) for d in details), 0)

    def test_earlier_answers_are_guessed_from(self):
        server = Server('--spec', 'suffix', '--spec-depth', '8', path=BUNDLED)
        try:
            def guessed(**more):
                reply = ask(server, 0, **more)
                self.assertEqual(reply['choices'][0]['message']['content'], texts(self.truth)[0])
                return reply['usage'].get('completion_tokens_details', {}).get('accepted_prediction_tokens', 0)
            first, again, apart = guessed(), guessed(), guessed(cache_salt='another')
            self.assertGreater(again, 2 * first + 10)
            self.assertEqual(apart, first)
        finally:
            server.stop()

    def test_which_tokens_were_guessed_is_told(self):
        n_all = 0
        for options in (('--draft', DRAFT, '--spec-depth', '4'), ('--spec', 'ngram', '--spec-depth', '6')):
            server = Server(*options, path=BUNDLED)
            try:
                for i in range(8):
                    asked = body(i, return_accepted=True)
                    whole = ask(server, i, return_accepted=True)
                    chunks = server.events(CHAT, {**asked, 'stream_options': {'include_usage': True}})[:-1]
                    for choices, usage in (([whole['choices'][0]], whole['usage']),
                                           ([c['choices'][0] for c in chunks if c['choices']], chunks[-1]['usage'])):
                        told = [place for choice in choices for place in choice.get('accepted', [])]
                        text = ''.join((c['delta'] if 'delta' in c else c['message']).get('content') or '' for c in choices)
                        n = usage.get('completion_tokens_details', {}).get('accepted_prediction_tokens', 0)
                        self.assertEqual(len(told), n)
                        self.assertEqual(text, texts(self.truth)[i])
                        self.assertEqual([c['text_length'] for c in choices if 'text_length' in c][-1], len(text))
                        for place, after in zip(told, told[1:] + [{'text_offset': len(text)}]):
                            self.assertLessEqual(place['text_offset'] + place['length'], after['text_offset'])
                        n_all += n
                self.assertNotIn('"accepted"', json.dumps(ask(server, 0)))
            finally:
                server.stop()
        self.assertGreater(n_all, 50)

    def check_schemas(self, *options):
        """Answers under schemas, twice, are those without guesses; the metrics of a server that guessed."""
        def ask_schemas(server, **fields):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda i: ask(server, i, response_format=SCHEMAS[i % 2], max_tokens=80, **fields),
                                     range(8)))
        plain = Server('--spec', 'off', path=BUNDLED)
        truth = texts(ask_schemas(plain))
        plain.stop()
        server = Server(*options, path=BUNDLED)
        try:
            for _ in range(2):
                replies = ask_schemas(server)
                self.assertEqual(texts(replies), truth)
            accepted = [r['usage'].get('completion_tokens_details', {}).get('accepted_prediction_tokens', 0) for r in replies]
            self.assertEqual(texts(ask_schemas(server, speculation=False)), truth)
            self.assertEqual(texts(ask_all(server)), texts(self.truth))  # without a schema: what others guess
            self.assertNotIn('completion_tokens_details', ask(server, 0, max_tokens=3, speculation=False)['usage'])
            return sum(accepted), server.get('/metrics')[2]
        finally:
            self.assertEqual(server.stop(), 0)

    def counted(self, metrics, name, drafter):
        line = f'quire_spec_decode_drafter_{name}_total{{drafter="{drafter}"}} '
        return sum(int(float(one.split()[-1])) for one in metrics.splitlines() if one.startswith(line))

    def test_what_a_schema_forces_is_guessed(self):
        accepted, metrics = self.check_schemas('--spec-depth', '6')
        self.assertGreater(accepted, 0)
        drafted, right = (self.counted(metrics, name, 'grammar') for name in ('draft_tokens', 'accepted_tokens'))
        self.assertGreater(right, drafted / 5)  # a small model spells names that it does not know in other tokens
        self.assertNotIn('drafter="ngram"', metrics)

    def test_what_a_schema_forces_as_it_pays(self):
        self.check_schemas()

    def test_beside_others(self):
        _, metrics = self.check_schemas('--spec', 'ngram', '--spec-depth', '4')
        self.assertGreater(self.counted(metrics, 'accepted_tokens', 'grammar'), 0)
        self.assertGreater(self.counted(metrics, 'draft_tokens', 'ngram'), 0)
        _, metrics = self.check_schemas('--draft', DRAFT, '--spec-depth', '3')
        self.assertGreater(self.counted(metrics, 'accepted_tokens', 'grammar'), 0)
        self.assertGreater(self.counted(metrics, 'accepted_tokens', 'draft'), 0)
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_heads(folder)
            _, metrics = self.check_schemas('--draft', folder, '--spec-depth', '3')
        self.assertGreater(self.counted(metrics, 'accepted_tokens', 'grammar'), 0)
        self.assertGreater(self.counted(metrics, 'draft_tokens', 'medusa'), 0)

    def test_off_has_nothing_of_it(self):
        details, metrics = self.check('--draft', DRAFT, '--spec', 'off')
        self.assertEqual([d for d in details if d], [])
        self.assertNotIn('spec_decode', metrics)
        self.assertNotIn('spec_decode', self.plain_metrics)

    def test_a_request_that_wants_none_has_none(self):
        server = Server('--spec', 'ngram', '--spec-depth', '6', path=BUNDLED)
        try:
            self.assertNotIn('completion_tokens_details', ask(server, 2, speculation=False)['usage'])
            status, _, reply = server.post(CHAT, body(0, speculation=65))
            self.assertEqual(status, 400)
            self.assertIn('speculation', json.dumps(reply))
        finally:
            server.stop()


@unittest.skipUnless(os.path.exists(BUNDLED), 'the bundled model is not here')
class OwnHead(unittest.TestCase):
    """A model that carries a head for multi-token prediction."""

    def answers(self, folder, *options):
        server = Server(*options, path=folder)
        try:
            prompts = [[300 + (7 * i * k + k) % 900 for k in range(1 + 9 * i)] for i in range(12)]
            fields = lambda i: {'max_tokens': 30, 'seed': i, 'temperature': 0 if i % 2 == 0 else 0.8, 'ignore_eos': True}
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                replies = list(pool.map(lambda i: server.post('/v1/completions', {'prompt': prompts[i], **fields(i)}), range(12)))
            self.assertEqual([status for status, _, _ in replies], [200] * 12)
            return [reply['choices'][0]['text'] for _, _, reply in replies], server.get('/metrics')[2]
        finally:
            self.assertEqual(server.stop(), 0)

    def test_the_same_answers_and_who_guessed(self):
        with tempfile.TemporaryDirectory() as folder:
            write_headed(folder)
            truth, metrics = self.answers(folder)
            self.assertNotIn('drafter="mtp"', metrics)
            answers, metrics = self.answers(folder, '--draft', 'mtp', '--spec-depth', '3')
            self.assertEqual(answers, truth)
            self.assertIn('quire_spec_decode_drafter_drafts_total{drafter="mtp"}', metrics)
            self.assertIn('quire_spec_decode_bad_drafts_total 0', metrics)
            self.assertEqual(self.answers(folder, '--draft', 'mtp')[0], truth)


@unittest.skipUnless(os.path.exists(BUNDLED) and os.path.exists(DRAFT), 'the bundled models are not here')
class Memory(unittest.TestCase):
    """What `quire inspect --draft` says that drafting takes is what a server takes for it."""

    LITTLE = 3 << 20  # threads' stacks, the allocator's arenas, 64 connections at once

    def facts(self, *options, path=BUNDLED):
        done = quire('inspect', path, '--json', '--ctx', '2048', *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)['memory']

    def resident_after(self, facts, *options, path):
        """Of a server once it used its whole cache, and the lines of its log."""
        server = Server('--ctx', '2048', '--kv-memory', str(facts['cache']), '--threads', '2', *options, path=path)
        try:
            long = {'prompt': [300 + i % 900 for i in range(2000)], 'max_tokens': 40, 'ignore_eos': True}
            self.assertEqual(server.post('/v1/completions', long)[0], 200)
            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                short = [{'prompt': [300 + i, 301, 302], 'max_tokens': 16} for i in range(64)]
                self.assertEqual([r[0] for r in pool.map(lambda b: server.post('/v1/completions', b), short)], [200] * 64)
            with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
                return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1)) * 1024, server.log
        finally:
            server.stop()

    def check_told(self, facts, log):
        line = next(line for line in log if 'memory of what drafts' in line)
        told = map(int, re.search(r'(\d+) bytes of weights, (\d+) of cache, (\d+) of scratch', line).groups())
        for part, bytes_told in zip(('weights', 'cache', 'scratch'), told):
            self.assertLessEqual(abs(facts['draft'][part] - bytes_told), 0.02 * bytes_told, part)
        line = next(line for line in log if 'info memory: ' in line)
        self.assertEqual(int(re.search(r'(\d+) of scratch', line).group(1)), facts['scratch'])

    def check(self, *options, path=BUNDLED):
        facts = self.facts(*options, path=path)
        resident, log = self.resident_after(facts, *options, '--spec-depth', '8', path=path)
        self.check_told(facts, log)
        self.assertLess(resident, 1.02 * facts['total'] + self.LITTLE)
        return facts

    def test_of_a_model_that_drafts(self):
        facts = self.check('--draft', DRAFT)
        self.assertGreater(facts['draft']['cache'], 0)
        self.assertGreater(facts['scratch'], self.facts('--spec', 'off')['scratch'], 'rows of guesses have logits')

    def check_folder(self, write, weights):
        """The facts of a folder of F16 that `write` writes, whose matrices become Q8_0, 34 bytes of 32 numbers."""
        with tempfile.TemporaryDirectory() as folder:
            write(folder)
            facts = self.check('--draft', folder)
            size = os.path.getsize(os.path.join(folder, weights)) * 34 / (32 * 2)
        self.assertLess(abs(facts['draft']['weights'] - size), 0.04 * size, 'norms and biases stay')
        return facts

    def test_of_medusa_heads(self):
        facts = self.check_folder(write_bundled_heads, 'medusa_lm_head.safetensors')
        self.assertEqual(facts['draft']['cache'], 0)

    def test_of_an_eagle_head(self):
        facts = self.check_folder(write_bundled_eagle, 'model.safetensors')
        self.assertGreater(facts['draft']['cache'], 0)

    def test_of_an_eagle_head_of_the_first_form(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_first_eagle(folder)
            facts = self.facts('--draft', folder)
            self.check_told(facts, self.resident_after(facts, '--draft', folder, '--spec-depth', '8', path=BUNDLED)[1])
            size = os.path.getsize(os.path.join(folder, 'model.safetensors'))
        self.assertGreater(facts['draft']['cache'], 0)
        n, n_vocab = Gguf(BUNDLED).tensors['token_embd.weight'][0]
        self.assertGreater(facts['draft']['weights'], size * 34 / (32 * 2) + n * n_vocab, 'the model\'s product once more')

    def test_of_a_head_that_the_model_carries(self):
        with tempfile.TemporaryDirectory() as folder:
            write_headed(folder)
            facts = self.check('--draft', 'mtp', path=folder)
            self.assertGreater(facts['draft']['cache'], 0)
            self.assertEqual(self.facts(path=folder)['weights'], facts['weights'], 'the head is no part of the model')

    def test_of_the_first_layers(self):
        facts = self.check('--draft', 'exit:2')
        self.assertEqual((facts['draft']['cache'], facts['draft']['weights']), (0, 0))
        self.assertGreater(facts['draft']['scratch'], 0)

    def test_without_there_is_nothing_of_it(self):
        self.assertNotIn('draft', self.facts())
        self.assertNotIn('draft', self.facts('--draft', DRAFT, '--spec', 'off'))

    def test_what_is_not_there_is_named(self):
        done = quire('inspect', BUNDLED, '--draft', '/nowhere.gguf')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--draft /nowhere.gguf', done.stderr)


@unittest.skipUnless(os.path.exists(BUNDLED) and os.path.exists(DRAFT), 'the bundled models are not here')
class Refusals(unittest.TestCase):
    def refusal(self, *options, code=1):
        done = quire('generate', BUNDLED, 'hello', '--max-tokens', '4', *options)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stderr

    def test_what_cannot_be_is_named(self):
        self.assertIn('--spec must be auto, off, grammar, ngram, suffix or draft, got "fast"', self.refusal('--spec', 'fast'))
        self.assertIn('--spec draft needs --draft: a model, a folder of Medusa heads or of an EAGLE head, mtp, or exit:E',
                      self.refusal('--spec', 'draft'))
        done = quire('serve', BUNDLED, '--record', '/nowhere/record', '--draft', 'exit:2')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn('--record and --draft exit:E exclude each other', done.stderr)
        for wrong in ('exit:', 'exit:x', 'exit:0', 'exit:3 '):
            self.assertIn(f'--draft exit:E needs a number of layers of 1 or more, got "{wrong}"', self.refusal('--draft', wrong))
        self.assertIn('must leave the model after 1 to 5 of its 6 layers, got 6', self.refusal('--draft', 'exit:6'))
        self.assertIn('--spec-depth must be 0 to 64, got 65', self.refusal('--spec-depth', '65', code=2))
        self.assertIn('--draft is for --spec draft or auto', self.refusal('--spec', 'ngram', '--draft', DRAFT))
        self.assertIn('--draft /nowhere.gguf', self.refusal('--draft', '/nowhere.gguf'))

    def test_a_model_without_a_head_of_its_own_is_named(self):
        self.assertIn('--draft mtp: ', self.refusal('--draft', 'mtp'))
        self.assertIn('the model carries no head that guesses ahead', self.refusal('--draft', 'mtp'))

    def test_medusa_heads_of_another_model_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_heads(folder, n_more=32)
            self.assertRegex(self.refusal('--draft', folder),
                             r'--draft: .*: medusa_lm_head.safetensors: tensor "0.0.linear.weight": must have shape '
                             r'\[(\d+), \1\] for this model, has \[(\d+), \2\]')
            self.assertIn('--draft is for --spec draft or auto', self.refusal('--draft', folder, '--spec', 'ngram'))
            os.rename(os.path.join(folder, 'medusa_lm_head.safetensors'), os.path.join(folder, 'medusa_lm_head.pt'))
            self.assertIn('medusa_lm_head.pt: is a pickle', self.refusal('--draft', folder))

    def test_an_eagle_head_of_another_model_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bundled_eagle(folder, hidden_size=64)
            self.assertRegex(self.refusal('--draft', folder),
                             r'--draft: .*: config.json: key "hidden_size": the head is for states of 64 numbers, the model has')
            write_bundled_eagle(folder, eagle_config={'eagle_aux_hidden_state_layer_ids': [1, 2]})
            self.assertIn('tensor "fc.weight": must have shape', self.refusal('--draft', folder))

    def test_the_bench_draws_the_curve_and_compares_the_answers(self):
        done = quire('bench', BUNDLED, '--draft', DRAFT, '--batch', '1,3', '--generate', '24', '--repeat', '1', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line['users'] for line in lines], [1, 3])
        for line in lines:
            self.assertGreater(line['gain'], 0)
            self.assertLessEqual(line['accepted'], 1)
