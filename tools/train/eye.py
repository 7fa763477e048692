"""The eye of the vision model: SigLIP's vision tower and LLaVA's projector, with transformers' names.

No class token and no norm before the layers: the patches' last states, as they are before the tower's last norm, go through
the projector and stand where the template writes <|image|>. (Zhai et al. 2023, "Sigmoid loss for language image
pre-training"; Liu et al. 2023, "Visual instruction tuning".)
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pictures import SIZE, Picture

MEAN, SPREAD = 0.5, 0.25  # of pixels in [0, 1]
EPS = 1e-6


@dataclass
class Eye:
    n_embd: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_ff: int = 512
    patch: int = 8

    @property
    def n_side(self) -> int:
        return SIZE // self.patch

    @property
    def n_patches(self) -> int:
        return self.n_side ** 2


EYES = {'test': Eye(n_embd=32, n_layers=1, n_heads=2, n_ff=64), 'vision': Eye()}


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate='tanh')


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
        self.self_attn = EyeAttention(e)
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(e.n_embd, eps=EPS) for _ in range(2))
        self.mlp = nn.ModuleDict({'fc1': nn.Linear(e.n_embd, e.n_ff), 'fc2': nn.Linear(e.n_ff, e.n_embd)})

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp['fc2'](gelu(self.mlp['fc1'](self.layer_norm2(x))))


def places_at_start(e: Eye) -> Tensor:
    """[n_patches, n_embd]: sines and cosines of both coordinates, from which training goes on. Begun at random, it takes
    longer to find out which patches are neighbours."""
    rates = 3 * 10.0 ** (-2 * torch.arange(e.n_embd // 4) / (e.n_embd // 4))
    at = torch.cartesian_prod(torch.arange(e.n_side), torch.arange(e.n_side))[..., None] * rates  # [n_patches, 2, n_embd / 4]
    return torch.cat([at.sin(), at.cos()], -1).flatten(1) / 2


class Tower(nn.Module):
    def __init__(self, e: Eye):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.patch_embedding = nn.Conv2d(3, e.n_embd, e.patch, e.patch)
        self.embeddings.position_embedding = nn.Embedding(e.n_patches, e.n_embd, _weight=places_at_start(e))
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(EyeLayer(e) for _ in range(e.n_layers))
        for name, p in self.encoder.named_parameters():
            if p.dim() == 2:  # what is added to a state starts small
                nn.init.normal_(p, std=0.01 if name.endswith(('out_proj.weight', 'fc2.weight')) else 0.02)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels [n, 3, SIZE, SIZE]; out [n, n_patches, n_embd]"""
        x = self.embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2) + self.embeddings.position_embedding.weight
        for layer in self.encoder.layers:
            x = layer(x)
        return x


class Projector(nn.Module):
    def __init__(self, n_eye: int, n_embd: int):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(n_eye, n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(gelu(self.linear_1(x)))


def pixels_of(pictures: list[Picture]) -> Tensor:
    x = torch.from_numpy(np.stack([p.pixels for p in pictures])).float() / 255
    return ((x - MEAN) / SPREAD).permute(0, 3, 1, 2)
