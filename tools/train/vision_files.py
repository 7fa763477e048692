"""The vision model's files: LLaVA's folder as transformers reads it, and the part before the language model as GGUF.

The folder has the names of transformers' LLaVA with a SigLIP tower, and the language model whole. The GGUF file is what
llama.cpp calls an mmproj: architecture `clip`, projector `mlp`, tower and projector in F16, to be used with the language
model's own file. `clip.vision.feature_layer` says that all layers are gone through; without it the last would be left out.
"""
from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import numpy as np
import torch

from chat import CONTROL
from export import about_facts, hf_config, read_tokenizer, write_beside, write_json
from eye import EPS, MEAN, SPREAD, pixels_of
from make_model import F32, I32, TYPES, Facts
from pictures import SIZE, picture
from tensor_files import Rows, rows_of, write_gguf, write_safetensors

if TYPE_CHECKING:
    from vision import Seeing

IMAGE_ID = CONTROL.index('<|image|>')
NAME = 'Quill vision'
CLOSE = 1e-4  # of logits, to transformers'
CHECKED = 50  # pictures

GGUF_LAYER = {'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.out_proj': 'attn_out',
              'layer_norm1': 'ln1', 'layer_norm2': 'ln2', 'mlp.fc1': 'ffn_up', 'mlp.fc2': 'ffn_down'}
GGUF_REST = {'embeddings.patch_embedding.weight': 'v.patch_embd.weight', 'embeddings.patch_embedding.bias': 'v.patch_embd.bias',
             'embeddings.position_embedding.weight': 'v.position_embd.weight'}


def write_folder(folder: str, model: Seeing, tokenizer_path: str) -> None:
    e, text = model.eye, hf_config(model.base.c, 'f32')
    parts = {'vision_tower.vision_model.': model.tower, 'multi_modal_projector.': model.projector, 'language_model.model.': model.base}
    tensors = {prefix + name: rows_of(x.numpy()) for prefix, part in parts.items() for name, x in part.state_dict().items()}
    for kind, value in (('weight', 1), ('bias', 0)):  # transformers' tower has it; LLaVA reads before it
        tensors[f'vision_tower.vision_model.post_layernorm.{kind}'] = rows_of(np.full(e.n_embd, value, np.float32))
    vision = {'model_type': 'siglip_vision_model', 'hidden_size': e.n_embd, 'intermediate_size': e.n_ff, 'num_hidden_layers': e.n_layers,
              'num_attention_heads': e.n_heads, 'image_size': SIZE, 'patch_size': e.patch, 'hidden_act': 'gelu_pytorch_tanh',
              'layer_norm_eps': EPS, 'vision_use_head': False}
    config = {'architectures': ['LlavaForConditionalGeneration'], 'model_type': 'llava', 'text_config': text, 'vision_config': vision,
              'image_token_index': IMAGE_ID, 'image_seq_length': e.n_patches, 'projector_hidden_act': 'gelu_pytorch_tanh',
              'vision_feature_layer': -1, 'vision_feature_select_strategy': 'full', 'tie_word_embeddings': True, 'torch_dtype': 'float32'}
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, 'model.safetensors'), tensors, 'f32')
    write_beside(folder, config, read_tokenizer(tokenizer_path))
    write_json(os.path.join(folder, 'preprocessor_config.json'),
               {'image_processor_type': 'SiglipImageProcessor', 'size': {'height': SIZE, 'width': SIZE}, 'do_resize': True, 'do_rescale': True,
                'rescale_factor': 1 / 255, 'do_normalize': True, 'image_mean': [MEAN] * 3, 'image_std': [SPREAD] * 3})


# ---- GGUF ----------------------------------------------------------------------------------------------------------

def tower_name(name: str) -> str:
    if name in GGUF_REST:
        return GGUF_REST[name]
    layer, rest = name.removeprefix('encoder.layers.').split('.', 1)
    part, kind = rest.rsplit('.', 1)
    return f'v.blk.{layer}.{GGUF_LAYER[part]}.{kind}'


def mmproj_tensors(model: Seeing) -> dict[str, Rows]:
    out = {tower_name(name): rows_of(x.numpy()) for name, x in model.tower.state_dict().items()}
    for ours, theirs in (('linear_1', 'mm.0'), ('linear_2', 'mm.2')):
        linear = getattr(model.projector, ours)
        out |= {f'{theirs}.weight': rows_of(linear.weight.detach().numpy()), f'{theirs}.bias': rows_of(linear.bias.detach().numpy())}
    return out


def write_mmproj(path: str, model: Seeing) -> None:
    e, facts, tensors = model.eye, Facts(), mmproj_tensors(model)
    about_facts(facts, NAME, sum(x.n_values() for x in tensors.values()), 'clip', 'mmproj')
    facts.u32('general.file_type', TYPES['f16'][1])
    facts.u32('general.quantization_version', 2)
    facts.flag('clip.has_vision_encoder', True)
    facts.text('clip.projector_type', 'mlp')
    facts.flag('clip.use_gelu', True)
    for key, value in (('image_size', SIZE), ('patch_size', e.patch), ('embedding_length', e.n_embd), ('feed_forward_length', e.n_ff),
                       ('block_count', e.n_layers), ('attention.head_count', e.n_heads), ('projection_dim', model.base.c.n_embd)):
        facts.u32('clip.vision.' + key, value)
    facts.f32('clip.vision.attention.layer_norm_epsilon', EPS)
    for key, number in (('image_mean', MEAN), ('image_std', SPREAD)):
        facts.array('clip.vision.' + key, F32, 3, struct.pack('<3f', *[number] * 3))
    facts.array('clip.vision.feature_layer', I32, 1, struct.pack('<i', e.n_layers))
    write_gguf(path, facts, tensors, 'f16')


# ---- against transformers ------------------------------------------------------------------------------------------

def differences(model: Seeing, folder: str) -> bool:
    """Whether greedy answers and logits are those of transformers with the folder."""
    from transformers import LlavaForConditionalGeneration
    theirs = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    largest, equal = 0.0, 0
    for i in range(CHECKED):
        p = picture('both', f'check/{i}')
        mine, first = model.answer(p)
        ids = torch.tensor([[*model.before(), *[IMAGE_ID] * model.eye.n_patches, *model.asked(p.question)]])
        given = {'input_ids': ids, 'attention_mask': torch.ones_like(ids), 'pixel_values': pixels_of([p])}
        with torch.no_grad():
            largest = max(largest, float((theirs(**given).logits[0, -1] - first).abs().max()))
            out = theirs.generate(**given, max_new_tokens=8, do_sample=False)[0, ids.shape[1]:].tolist()
        equal += model.tokenizer.decode(out) == mine
    print(f'vision: {equal} of {CHECKED} greedy answers equal transformers\', largest difference of logits {largest:.1e}')
    return equal == CHECKED and largest <= CLOSE
