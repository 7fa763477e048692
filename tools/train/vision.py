#!/usr/bin/env python3
"""Gives the bundled model eyes: a small ViT and a projector before it, trained on drawn pictures (LLaVA's construction).

    tools/train/vision.py --base build/train/small/checkpoint.pt --out build/train/vision
    tools/train/vision.py … --shape test --steps 50       to try the tool

The picture's patches stand where the template writes <|image|>, one token each. The language model stays as it is unless
--tune: a frozen one keeps its own answers exactly. Written are tensors under the names of transformers' LLaVA with a CLIP
tower (`vision_tower`, `multi_modal_projector`, `language_model`), with config.json. (Liu et al. 2023, "Visual instruction
tuning".)
"""
from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import loop  # noqa: E402
from card import CARD, write_block  # noqa: E402
from chat import BEGIN, CONTROL, END  # noqa: E402
from distill import load_model  # noqa: E402
from export import hf_config, read_tokenizer, rows_of, tokenizer_config, write_json  # noqa: E402
from model import Model  # noqa: E402
from pictures import CHOICES, SIZE, Picture, picture  # noqa: E402
from tasks.core import SPLITS  # noqa: E402
from tensor_files import write_safetensors  # noqa: E402

IMAGE_ID = CONTROL.index('<|image|>')
MEAN, SPREAD = 0.5, 0.25  # of pixels in [0, 1]
ANSWER_TOKENS = 8


@dataclass
class Eye:
    n_embd: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_ff: int = 512
    patch: int = 8

    @property
    def n_patches(self) -> int:
        return (SIZE // self.patch) ** 2


EYES = {'test': Eye(n_embd=32, n_layers=1, n_heads=2, n_ff=64), 'vision': Eye()}


class EyeAttention(nn.Module):
    def __init__(self, e: Eye):
        super().__init__()
        self.n_heads = e.n_heads
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(e.n_embd, e.n_embd) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class EyeLayer(nn.Module):
    def __init__(self, e: Eye):
        super().__init__()
        self.self_attn, self.layer_norm1, self.layer_norm2 = EyeAttention(e), nn.LayerNorm(e.n_embd), nn.LayerNorm(e.n_embd)
        self.mlp = nn.ModuleDict({'fc1': nn.Linear(e.n_embd, e.n_ff), 'fc2': nn.Linear(e.n_ff, e.n_embd)})

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        y = self.mlp['fc1'](self.layer_norm2(x))
        return x + self.mlp['fc2'](y * torch.sigmoid(1.702 * y))  # CLIP's quick GELU


class Tower(nn.Module):
    """CLIP's vision model, with its names."""

    def __init__(self, e: Eye):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.class_embedding = nn.Parameter(torch.randn(e.n_embd) * 0.02)
        self.embeddings.patch_embedding = nn.Conv2d(3, e.n_embd, e.patch, e.patch, bias=False)
        self.embeddings.position_embedding = nn.Embedding(e.n_patches + 1, e.n_embd)
        nn.init.normal_(self.embeddings.position_embedding.weight, std=0.02)
        self.pre_layrnorm = nn.LayerNorm(e.n_embd)  # the spelling is CLIP's
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(EyeLayer(e) for _ in range(e.n_layers))
        self.post_layernorm = nn.LayerNorm(e.n_embd)  # CLIP's, for its pooled output; LLaVA reads before it

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels [n, 3, SIZE, SIZE]; out [n, n_patches, n_embd]"""
        patches = self.embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        first = self.embeddings.class_embedding.expand(len(pixels), 1, -1)
        x = self.pre_layrnorm(torch.cat([first, patches], 1) + self.embeddings.position_embedding.weight)
        for layer in self.encoder.layers:
            x = layer(x)
        return x[:, 1:]


class Projector(nn.Module):
    def __init__(self, n_eye: int, n_embd: int):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(n_eye, n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(F.gelu(self.linear_1(x)))


def pixels_of(pictures: list[Picture]) -> Tensor:
    x = torch.from_numpy(np.stack([p.pixels for p in pictures])).float() / 255
    return ((x - MEAN) / SPREAD).permute(0, 3, 1, 2)


class Seeing(nn.Module):
    def __init__(self, base: Model, eye: Eye, tokenizer: Tokenizer, tune: bool):
        super().__init__()
        self.eye, self.tokenizer, self.base = eye, tokenizer, base.requires_grad_(tune)
        self.tower, self.projector = Tower(eye), Projector(eye.n_embd, base.c.n_embd)

    def prompt(self, question: str) -> list[int]:
        of = self.tokenizer.token_to_id
        return [of(BEGIN), of('<|user|>'), *[IMAGE_ID] * self.eye.n_patches, *self.tokenizer.encode(question, add_special_tokens=False).ids,
                of(END), of('<|assistant|>')]

    def logits(self, ids: Tensor, pixels: Tensor) -> Tensor:
        inputs = self.base.embed_tokens(ids)
        seen = self.projector(self.tower(pixels)).flatten(0, 1)
        inputs = inputs.masked_scatter((ids == IMAGE_ID)[..., None], seen.to(inputs.dtype))
        return self.base.logits(self.base.hidden(ids, inputs=inputs))

    def loss(self, pictures: list[Picture]) -> Tensor:
        rows = [(self.prompt(p.question), [*self.tokenizer.encode(p.answer, add_special_tokens=False).ids, self.tokenizer.token_to_id(END)])
                for p in pictures]
        n = max(len(a) + len(b) for a, b in rows)
        ids, counts = torch.zeros(len(rows), n, dtype=torch.long), torch.zeros(len(rows), n, dtype=torch.bool)
        for i, (a, b) in enumerate(rows):
            ids[i, :len(a) + len(b)] = torch.tensor(a + b)
            counts[i, len(a):len(a) + len(b)] = True
        return F.cross_entropy(self.logits(ids, pixels_of(pictures))[:, :-1][counts[:, 1:]], ids[:, 1:][counts[:, 1:]])

    @torch.no_grad()
    def answer(self, p: Picture) -> str:
        ids, pixels = self.prompt(p.question), pixels_of([p])
        n = len(ids)
        while len(ids) < n + ANSWER_TOKENS:
            token = int(self.logits(torch.tensor([ids]), pixels)[0, -1].argmax())
            if token == self.tokenizer.token_to_id(END):
                break
            ids.append(token)
        return self.tokenizer.decode(ids[n:])


def write(folder: str, model: Seeing, tokenizer_path: str) -> None:
    os.makedirs(folder, exist_ok=True)
    e, c = model.eye, model.base.c
    parts = {'vision_tower.vision_model.': model.tower, 'multi_modal_projector.': model.projector, 'language_model.model.': model.base}
    tensors = {prefix + name: x.detach() for prefix, part in parts.items() for name, x in part.state_dict().items()}
    write_safetensors(os.path.join(folder, 'model.safetensors'), {name: rows_of(x.numpy()) for name, x in tensors.items()}, 'f32')
    text = hf_config(c, 'f32')
    vision = {'model_type': 'clip_vision_model', 'hidden_size': e.n_embd, 'intermediate_size': e.n_ff, 'num_hidden_layers': e.n_layers,
              'num_attention_heads': e.n_heads, 'image_size': SIZE, 'patch_size': e.patch, 'hidden_act': 'quick_gelu',
              'layer_norm_eps': 1e-5, 'projection_dim': e.n_embd}
    write_json(os.path.join(folder, 'config.json'),
               {'architectures': ['LlavaForConditionalGeneration'], 'model_type': 'llava', 'text_config': text, 'vision_config': vision,
                'image_token_index': IMAGE_ID, 'image_seq_length': e.n_patches, 'projector_hidden_act': 'gelu', 'tie_word_embeddings': True,
                'vision_feature_layer': -1, 'vision_feature_select_strategy': 'default', 'torch_dtype': 'float32'})
    write_json(os.path.join(folder, 'preprocessor_config.json'),
               {'image_processor_type': 'CLIPImageProcessor', 'size': {'height': SIZE, 'width': SIZE}, 'do_center_crop': False,
                'do_resize': True, 'do_rescale': True, 'rescale_factor': 1 / 255, 'do_normalize': True, 'image_mean': [MEAN] * 3,
                'image_std': [SPREAD] * 3})
    write_json(os.path.join(folder, 'tokenizer.json'), read_tokenizer(tokenizer_path))
    write_json(os.path.join(folder, 'tokenizer_config.json'), tokenizer_config())


def table(model: Seeing, n: int) -> str:
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for split in SPLITS[1:]:
        for i in range(n):
            p = picture(split, f'eval/{i}')
            right[p.kind, split].append(model.answer(p) == p.answer)
    rows = []
    for kind, choices in CHOICES.items():
        cells = [right[kind, split] for split in SPLITS[1:]]
        shown = ' | '.join(f'{100 * sum(c) / len(c):.1f}' if c else '-' for c in cells)
        rows.append(f'| {kind} | {shown} | {100 / choices:.1f} | {sum(map(len, cells))} |')
    return '\n'.join(['| % right | ' + ' | '.join(SPLITS[1:]) + ' | chance | n |', '|' + ' --- |' * 6, *rows])


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    loop.add_arguments(parser, 6000, 1e-3)
    parser.add_argument('--base', required=True, help='checkpoint of the target')
    parser.add_argument('--tokenizer', help='default: beside the base\'s folder')
    parser.add_argument('--shape', choices=sorted(EYES), default='vision')
    parser.add_argument('--tune', action='store_true', help='train the language model, too')
    parser.add_argument('--rows', type=int, default=32, help='pictures a step')
    parser.add_argument('--n', type=int, default=200, help='pictures of each split to measure with')
    parser.add_argument('--card', nargs='?', const=CARD, help='write the table into this model card')
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.tokenizer = args.tokenizer or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(args.base))), 'tokenizer.json')
    model = Seeing(load_model(args.base, torch.device('cpu')), EYES[args.shape], Tokenizer.from_file(args.tokenizer), args.tune)
    done = loop.fit(model, lambda i: model.loss([picture('train', f'{args.seed}/{i}/{j}') for j in range(args.rows)]), args)
    write(os.path.join(args.out, 'hf'), model, args.tokenizer)
    text = table(model, args.n)
    print(text)
    if args.card and done:
        n = sum(x.numel() for part in (model.tower, model.projector) for x in part.parameters())
        write_block(args.card, 'vision', 'tools/train/vision.py', f'{n / 1e6:.2f} M parameters before the model, {args.steps} steps.\n\n{text}')


if __name__ == '__main__':
    main(sys.argv[1:])
