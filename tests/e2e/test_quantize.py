# quire quantize: what it writes, what it says, what it refuses.
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest
import zipfile

from gguf_reader import Gguf
from quire_server import ROOT, binary, eventually, golden_folders, quire

GOLDEN = os.path.join(ROOT, 'build', 'golden', 'models')
SHARED = os.environ.get('QUIRE_SHARED', os.path.join(ROOT, '..', 'shared'))
SLICE = os.path.join(SHARED, 'data', 'models', 'quant-slice')
TYPES = ('q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q2_k', 'q3_k', 'q4_k', 'q5_k', 'q6_k', 'iq4_nl', 'iq4_xs', 'mxfp4',
         'f16', 'bf16', 'iq3_s', 'iq2_xxs', 'iq1_m', 'tq1_0', 'tq2_0', 'nvfp4')


def describe(path):
    return json.loads(quire('inspect', '--json', path).stdout)


def blank_folder(path, n_vocab):
    """A llama of one layer, all zeros."""
    n = 32
    shapes = {'model.embed_tokens': [n_vocab, n], 'model.norm': [n]}
    for part, shape in (('self_attn.q_proj', [n, n]), ('self_attn.k_proj', [n, n]), ('self_attn.v_proj', [n, n]),
                        ('self_attn.o_proj', [n, n]), ('mlp.gate_proj', [n, n]), ('mlp.up_proj', [n, n]),
                        ('mlp.down_proj', [n, n]), ('input_layernorm', [n]), ('post_attention_layernorm', [n])):
        shapes['model.layers.0.' + part] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name + '.weight'] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    os.makedirs(path)
    with open(os.path.join(path, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + bytes(at))
    with open(os.path.join(path, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump({'model_type': 'llama', 'hidden_size': n, 'num_hidden_layers': 1, 'intermediate_size': n,
                   'num_attention_heads': 2, 'num_key_value_heads': 2, 'max_position_embeddings': 64, 'hidden_act': 'silu',
                   'rms_norm_eps': 1e-5, 'vocab_size': n_vocab, 'tie_word_embeddings': True}, file)

# Of folders that are not named as theirs is in a GGUF file.
ARCHITECTURES = {'mistral': 'llama', 'mixtral': 'llama', 'gptneox-serial': 'gptneox', 'olmo3': 'olmo2',
                 'stablelm-parallel': 'stablelm', 'deepseek2-glm': 'deepseek2', 'deepseek2-groups': 'deepseek2',
                 'deepseek2-v3': 'deepseek2', 'granitehybrid-moe': 'granitehybrid',
                 'granitehybrid-bamba': 'granitehybrid', 'falcon-one-norm': 'falcon',
                 'cohere2moe-sum': 'cohere2moe', 'gemma4-global': 'gemma4', 'gemma4-moe': 'gemma4', 'mamba-falcon': 'mamba'}


class Quantize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, 'm.gguf')
        tool = os.path.join(ROOT, 'tools', 'make_model.py')
        subprocess.run(['python3', tool, '--shape', 'custom', '--n-embd', '256', '--head-dim', '64', '--n-heads', '4',
                        '--n-kv-heads', '2', '--n-ff', '288', '--n-layers', '1', '--n-vocab', '400', '--out', cls.model],
                       check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_every_type_is_written_runs_and_is_reported(self):
        tokens = ['--tokens', '1,300,301,302']
        for kind in TYPES:
            with self.subTest(kind):
                out = self.path(kind + '.gguf')
                done = quire('quantize', self.model, out, kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                types = {entry['type']: entry for entry in describe(out)['weights']['types']}
                self.assertTrue(all(entry['supported'] for entry in types.values()))
                self.assertIn(kind, types)
                self.assertIn('f32', types, 'norms are kept')
                line = next(text for text in done.stdout.splitlines() if ' blk.0.attn_q.weight ' in text)
                self.assertRegex(line, r'256 x 256 +f32 +to ' + kind + r' +error 0\.\d{5}, at most ')
                # Rows of 288 are no whole super-blocks: the next larger format, and it is said.
                down = next(text for text in done.stdout.splitlines() if ' blk.0.ffn_down.weight ' in text)
                self.assertEqual('no whole blocks' in down, kind.endswith('_k') or kind[:3] in ('iq1', 'iq2', 'iq3', 'tq1', 'tq2') or kind in ('iq4_xs', 'nvfp4'), down)
                logits = quire('logits', out, *tokens, '--out', self.path('logits.npy'))
                self.assertEqual(logits.returncode, 0, logits.stderr)

    def test_mixes_and_formats_by_part_of_the_name_in_any_case(self):
        quill = os.path.join(ROOT, 'models', 'quill-q8_0.gguf')
        out = self.path('mix.gguf')
        done = quire('quantize', quill, out, 'Q4_K_M', '--tensor-type', 'ffn_gate=Q3_K', '--threads', '1')
        self.assertEqual(done.returncode, 0, done.stderr)
        file = Gguf(out)
        self.assertEqual(file.facts['general.file_type'], 15)
        numbers = {name: kind for name, (_, kind, _) in file.tensors.items()}
        self.assertEqual({part: numbers[f'blk.2.{part}.weight'] for part in ('attn_v', 'attn_q', 'ffn_gate', 'ffn_up')},
                         {'attn_v': 14, 'attn_q': 12, 'ffn_gate': 11, 'ffn_up': 12})
        self.assertEqual(numbers['token_embd.weight'], 14, 'it makes the logits')
        self.assertEqual(quire('generate', out, 'hello', '--max-tokens', '4').returncode, 0)
        for wrong in ('ffn_gate', '=q4_k', 'ffn_gate=q9', 'ffn_gate=q4_k_m'):
            done = quire('quantize', quill, self.path('x'), 'q4_k', '--tensor-type', wrong)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'got "{wrong}"', done.stderr)

    def test_a_folder_becomes_a_file_that_answers_the_same(self):
        for folder in filter(os.path.isdir, golden_folders()):
            name = os.path.basename(folder)
            with self.subTest(name), open(os.path.join(folder, 'expected.json'), encoding='utf-8') as file:
                run = json.load(file)['runs'][0]
                out = self.path(name + '.gguf')
                done = quire('quantize', folder, out, 'f32')
                self.assertEqual(done.returncode, 0, done.stderr)
                told = describe(out)
                self.assertEqual(told['arch'], ARCHITECTURES.get(name, name))
                self.assertEqual([entry['type'] for entry in told['weights']['types']], ['f32'])
                done = quire('generate', out, '--json', '--temp', '0', '--max-tokens', '24', '--kv-type', 'f32', '--tokens',
                             ','.join(map(str, run['prompt_ids'])))
                self.assertEqual(json.loads(done.stdout)['tokens'], run['greedy_ids'][:24], done.stderr)
                self.assertEqual(quire('quantize', folder, self.path('small.gguf'), 'q4_k', '--force').returncode, 0)

    def test_a_folders_tokenizer_goes_along(self):
        folder, out = self.path('folder'), self.path('folder.gguf')
        shutil.copytree(os.path.join(GOLDEN, 'llama'), folder)
        shutil.copy(os.path.join(ROOT, 'models', 'tokenizer.json'), folder)
        with open(os.path.join(folder, 'tokenizer_config.json'), 'w', encoding='utf-8') as file:
            json.dump({'bos_token': '<|begin|>', 'add_bos_token': True, 'tokenizer_class': 'LlamaTokenizer',
                       'chat_template': '{{ messages[0].content }}!'}, file)
        self.assertEqual(quire('quantize', folder, out, 'q8_0').returncode, 0)
        arguments = ('--text', 'Grüße, <|end|> 12 Öfen', '--add-special')
        whole = quire('tokenize', folder, *arguments)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(quire('tokenize', out, *arguments).stdout, whole.stdout)
        # And on into another type, as every GGUF file's facts do.
        self.assertEqual(quire('quantize', out, self.path('again.gguf'), 'q4_0').returncode, 0)
        self.assertEqual(quire('tokenize', self.path('again.gguf'), *arguments).stdout, whole.stdout)

    def test_a_folders_tokenizer_is_said_in_ggufs_tables_too(self):
        folder, out = self.path('tables'), self.path('tables.gguf')
        blank_folder(folder, 4100)  # four more rows than the tokenizer has tokens
        shutil.copy(os.path.join(ROOT, 'models', 'tokenizer.json'), folder)
        with open(os.path.join(folder, 'tokenizer_config.json'), 'w', encoding='utf-8') as file:
            json.dump({'bos_token': '<|begin|>', 'eos_token': '<|end|>', 'add_bos_token': True,
                       'tokenizer_class': 'LlamaTokenizer', 'chat_template': '{{ messages[0].content }}!'}, file)
        done = quire('quantize', folder, out, 'q8_0')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        facts, ours = Gguf(out).facts, Gguf(os.path.join(ROOT, 'models', 'quill-q8_0.gguf')).facts
        self.assertEqual((facts['tokenizer.ggml.model'], facts['tokenizer.ggml.pre']), ('gpt2', 'llama3'))
        for key in ('tokens', 'token_type'):
            self.assertEqual(facts['tokenizer.ggml.' + key][:4096], ours['tokenizer.ggml.' + key])
        self.assertEqual(facts['tokenizer.ggml.merges'], ours['tokenizer.ggml.merges'])
        self.assertEqual(facts['tokenizer.ggml.tokens'][4096:], [f'[PAD{i}]' for i in range(4096, 4100)])
        for key in ('bos_token_id', 'eos_token_id', 'add_bos_token'):
            self.assertEqual(facts['tokenizer.ggml.' + key], ours['tokenizer.ggml.' + key])
        self.assertEqual(facts['tokenizer.chat_template'], '{{ messages[0].content }}!')

    def test_a_broken_folder_writes_nothing(self):
        folder, out = self.path('broken'), self.path('broken.gguf')
        shutil.copytree(os.path.join(GOLDEN, 'llama'), folder)
        config = os.path.join(folder, 'config.json')
        with open(config, encoding='utf-8') as file:
            facts = json.load(file)
        for change, message in (({'num_attention_heads': 3, 'num_key_value_heads': 3},
                                 'model.layers.0.self_attn.k_proj.weight'),
                                ({'model_type': 'rwkv'}, '"rwkv" is not supported')):
            with open(config, 'w', encoding='utf-8') as file:
                json.dump({**facts, **change}, file)
            done = quire('quantize', folder, out, 'q8_0')
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertFalse(os.path.exists(out))

    def test_what_it_refuses(self):
        for arguments, message in (
                ((self.model, self.path('x'), 'q9_9'), 'TYPE "q9_9" is unknown (known: bf16, f16, f32, iq1_m'),
                ((self.path('none'), self.path('x'), 'q4_0'), 'none'),
                ((self.model, self.path('x'), 'q4_0', '--threads', '-1'), '--threads must be 0 to 512, got -1'),
                ((self.model, self.path('no/folder/x'), 'q4_0'), 'no/folder/x')):
            done = quire('quantize', *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(message, done.stderr)
            self.assertFalse(os.path.exists(self.path('x')))

    def bytes_of(self, path):
        with open(path, 'rb') as file:
            return file.read()

    def test_what_is_read_is_never_written(self):
        model, folder = self.path('own.gguf'), self.path('own')
        shutil.copy(self.model, model)
        blank_folder(folder, 400)
        os.symlink(model, self.path('own-link.gguf'))
        os.link(model, self.path('own-hard.gguf'))
        weights = os.path.join(folder, 'model.safetensors')
        os.symlink(weights, self.path('weights'))
        before = self.bytes_of(model), self.bytes_of(weights)
        for source, out in ((model, model), (model, self.path('own-link.gguf')), (model, self.path('own-hard.gguf')),
                            (self.path('own-link.gguf'), model), (folder, weights), (folder, self.path('weights')),
                            (folder, os.path.join(folder, 'config.json')), (folder, folder)):
            for more in ((), ('--force',)):
                with self.subTest(source=source, out=out, more=more):
                    done = quire('quantize', source, out, 'q4_0', *more)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn('OUT ' + out, done.stderr)
        self.assertEqual((self.bytes_of(model), self.bytes_of(weights)), before)
        self.assertTrue(os.path.islink(self.path('own-link.gguf')))

    def test_a_file_that_is_there_is_replaced_only_where_that_is_said(self):
        out = self.path('there.gguf')
        with open(out, 'w', encoding='utf-8') as file:
            file.write('mine')
        done = quire('quantize', self.model, out, 'q4_0')
        self.assertEqual(done.returncode, 1)
        self.assertIn('--force', done.stderr)
        self.assertEqual(self.bytes_of(out), b'mine')
        done = quire('quantize', self.model, out, 'q4_0', '--force')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.bytes_of(out)[:4], b'GGUF')
        self.assertEqual(quire('quantize', self.model, '/dev/null', 'q4_0', '--force').returncode, 1)

    def test_a_signal_leaves_nothing_behind(self):
        big = self.path('big.gguf')
        subprocess.run(['python3', os.path.join(ROOT, 'tools', 'make_model.py'), '--shape', 'custom', '--n-embd', '1024',
                        '--head-dim', '64', '--n-heads', '16', '--n-kv-heads', '4', '--n-ff', '4096', '--n-layers', '6',
                        '--n-vocab', '2000', '--out', big], check=True, capture_output=True)
        folder = self.path('signals')
        os.makedirs(folder)
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            with self.subTest(sent=sent):
                with subprocess.Popen([binary(), 'quantize', big, os.path.join(folder, 'out.gguf'), 'q2_k', '--threads', '1'],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as process:
                    self.assertTrue(eventually(lambda: os.listdir(folder)))
                    process.send_signal(sent)
                    self.assertEqual(process.wait(60), -sent)
                self.assertEqual(os.listdir(folder), [])

    @unittest.skipUnless(os.path.exists(SLICE), f'no test data at {SLICE}')
    def test_real_rows_decode_to_their_truth(self):
        out = self.path('slice.gguf')
        done = quire('quantize', os.path.join(SLICE, 'slice.gguf'), out, 'f32')
        self.assertEqual(done.returncode, 0, done.stderr)
        file = Gguf(out)
        checked = 0
        with zipfile.ZipFile(os.path.join(SLICE, 'dequantized_truth.npz')) as archive:
            for entry in archive.namelist():
                npy = io.BytesIO(archive.read(entry))
                npy.seek(8)
                n_header, = struct.unpack('<H', npy.read(2))
                self.assertIn("'<f4'", npy.read(n_header).decode())
                wanted = npy.read()
                name = entry[:-len('.npy')]
                self.assertEqual(file.tensors[name][1], 0)
                self.assertEqual(file.stored(name)[:len(wanted)], wanted, entry)
                checked += 1
        self.assertGreaterEqual(checked, 2)


if __name__ == '__main__':
    unittest.main()
