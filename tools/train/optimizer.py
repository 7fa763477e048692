"""Muon for the matrices inside the layers, AdamW for the rest.

Muon steps along the orthogonalised momentum: every direction of a matrix moves equally far, which for small models saves
a third or more of the steps over AdamW. The matrices of one shape are stacked and treated in one go. The step is scaled
by 0.2·sqrt(larger side), as large as AdamW's, so both share one learning rate.
(Jordan et al. 2024, "Muon"; the scale after Liu et al. 2025, "Muon is scalable for LLM training".)
"""
from __future__ import annotations

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # pulls every singular value to about 1 within five rounds
ROUNDS = 5


def orthogonalised(m: Tensor, dtype: torch.dtype) -> Tensor:
    """m [n, rows, columns]: about U·Vᵀ of each."""
    a, b, c = NEWTON_SCHULZ
    wide = m.shape[1] <= m.shape[2]
    x = (m if wide else m.transpose(1, 2)).to(dtype)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return (x if wide else x.transpose(1, 2)).float()


class Muon:
    """`dtype` of the orthogonalisation's products: bf16 is exact enough, and slow where it is emulated."""

    def __init__(self, parameters: list[nn.Parameter], weight_decay: float, dtype: torch.dtype, momentum: float = 0.95):
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for p in parameters:
            by_shape.setdefault(p.shape, []).append(p)
        self.groups = list(by_shape.values())
        self.momenta = [torch.zeros(len(g), *g[0].shape, device=g[0].device) for g in self.groups]
        self.weight_decay, self.momentum, self.dtype = weight_decay, momentum, dtype

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for group, m in zip(self.groups, self.momenta):
            grad = torch.stack([p.grad for p in group])
            m.mul_(self.momentum).add_(grad)
            update = orthogonalised(grad + self.momentum * m, self.dtype)
            scale = 0.2 * max(m.shape[1:]) ** 0.5
            for p, u in zip(group, update):
                p.mul_(1 - lr * self.weight_decay).add_(u, alpha=-lr * scale)

    def state_dict(self) -> dict:
        return {'momenta': self.momenta}

    def load_state_dict(self, state: dict) -> None:
        for mine, theirs in zip(self.momenta, state['momenta']):
            mine.copy_(theirs)


ENDS = ('embed', 'readout')  # in the names of matrices that Muon leaves to AdamW
ADAM_PART = 0.3  # of the learning rate: the embedding is the output matrix too, and large steps there upset the start


class Optimizer:
    """Both, with one learning rate and one clip of the gradient's norm."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, weight_decay: float = 0.05, clip: float = 1.0):
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.all = [p for _, p in named]
        inside = [p.dim() == 2 and not any(end in n for end in ENDS) for n, p in named]
        self.muon = Muon([p for p, i in zip(self.all, inside) if i], weight_decay, dtype)
        self.adam = torch.optim.AdamW([p for p, i in zip(self.all, inside) if not i], betas=(0.9, 0.95), weight_decay=0.0)
        self.clip = clip

    def step(self, lr: float) -> float:
        """Returns the gradient's norm before clipping; gradients are gone afterwards."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.all, self.clip))
        for group in self.adam.param_groups:
            group['lr'] = lr * ADAM_PART
        self.adam.step()
        self.muon.step(lr)
        for p in self.all:
            p.grad = None
        return norm

    def state_dict(self) -> dict:
        return {'adam': self.adam.state_dict(), 'muon': self.muon.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.adam.load_state_dict(state['adam'])
        self.muon.load_state_dict(state['muon'])
