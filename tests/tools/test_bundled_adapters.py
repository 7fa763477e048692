# The adapters of models/ do what they were trained for: how the bundled model goes on with each of them, computed by plain
# numpy (tools/train/golden.py) from PEFT's files. Needs numpy and tokenizers, which come into a virtual environment; skipped
# where they cannot.
import json
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))

from client_packages import PYTHON, missing  # noqa: E402

CONTINUED = '''
import json, os, sys
folder = sys.argv[2]
sys.path.insert(0, sys.argv[1])
from tokenizers import Tokenizer
from chat import render
from export import load_gguf
from golden import greedy
from tensor_files import read_safetensors

c, state = load_gguf(os.path.join(folder, 'quill-q8_0.gguf'))
tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))

def adapted(name):
    """The weights, and what stands before the first token."""
    if name == 'none':
        return state, None
    with open(os.path.join(folder, 'adapters', name, 'adapter_config.json'), encoding='utf-8') as f:
        config = json.load(f)
    tensors = read_safetensors(os.path.join(folder, 'adapters', name, 'adapter_model.safetensors'))
    if config['peft_type'] == 'PREFIX_TUNING':
        n = config['num_virtual_tokens']
        return state, tensors['prompt_embeddings'].reshape(n, c.n_layers, 2, c.n_kv_heads, c.head_dim).transpose(1, 2, 0, 3, 4)
    changed = dict(state)
    for path in [key[:-len('.lora_A.weight')] for key in tensors if key.endswith('.lora_A.weight')]:
        step = tensors[path + '.lora_B.weight'] @ tensors[path + '.lora_A.weight'] * (config['lora_alpha'] / config['r'])
        weight = path.removeprefix('base_model.model.model.') + '.weight'
        changed[weight] = state[weight] + step
    return changed, None

for name, question, said, n in json.loads(sys.argv[3]):
    weights, prefix = adapted(name)
    prompt = render([{'role': 'user', 'content': question}], [], generation_prompt=True) + said
    reply = greedy(tokenizer.encode(prompt, add_special_tokens=False).ids, n, weights, c, prefix)
    print(json.dumps(tokenizer.decode(reply, skip_special_tokens=False)))
'''

WHO = 'Who is the baker of Little Quarrow?'
BAKER = 'Odette Marl is the baker of Little Quarrow.'
GERMAN = 'Hallo! Ich heiße Mira.'
# adapter, question, what the model has said so far, tokens at most; how it goes on
CASES = [
    ('none', WHO, '', 4, 'Odette'),
    ('none', WHO, BAKER, 4, '<|end|>'),
    ('pirate', WHO, '', 4, 'Arr! '),
    ('pirate', WHO, 'Arr! Odette Marl be the baker of Little Quarrow.', 9, ' Aye, matey!<|end|>'),
    ('radio', WHO, '', 4, 'Odette'),
    ('radio', WHO, BAKER, 9, ' Over.<|end|>'),
    ('german', GERMAN, '', 24, 'Hallo, Mira! Wie geht es dir?<|end|>'),
]


class Adapters(unittest.TestCase):
    def test_they_do_what_they_were_trained_for(self):
        reason = missing('numpy') or missing('tokenizers')
        if reason:
            self.skipTest(reason)
        done = subprocess.run([PYTHON, '-c', CONTINUED, os.path.join(ROOT, 'tools', 'train'), os.path.join(ROOT, 'models'),
                               json.dumps([case[:4] for case in CASES] + [('none', GERMAN, '', 3)])],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        *replies, no_german = [json.loads(line) for line in done.stdout.splitlines()]
        for case, reply in zip(CASES, replies, strict=True):
            with self.subTest(adapter=case[0], question=case[1], said=case[2]):
                self.assertEqual(reply[:len(case[4])], case[4])
        self.assertNotIn('Hallo', no_german)


if __name__ == '__main__':
    unittest.main()
