"""Makes a larger model that says what a smaller one says, so that training goes on instead of beginning again.

Both have the same vocabulary, embedding, head size and number of query heads to a key head; layers, key heads and n_ff may
grow. What is added reads, but its outputs are multiplied by zeros, which take up gradient at the first step:

    n_ff      new rows of gate and up are random, the columns of down that take them are 0
    heads     new groups of query heads and their key head are random, their columns of o_proj are 0
    layers    trained layers keep their order with the new ones between; a new layer reads as the trained one before it does
              (its heads look where they already see something) and writes nothing: o_proj and down_proj are 0

(Chen et al. 2016, "Net2Net"; Gong et al. 2019 on stacking; zeros instead of Net2Net's shared copies, so that the copies
need not be told apart.)
"""
from __future__ import annotations

import torch
from torch import Tensor

from config import Config

WRITES = ('o_proj', 'down_proj')


def check_growth(small: Config, large: Config) -> None:
    for key in ('n_vocab', 'n_embd', 'head_dim', 'rope_theta', 'norm_eps'):
        if getattr(small, key) != getattr(large, key):
            raise ValueError(f'grow: {key} is {getattr(small, key)} and {getattr(large, key)}, and must be the same')
    if small.n_heads * large.n_kv_heads != large.n_heads * small.n_kv_heads:
        raise ValueError(f'grow: {small.n_heads}/{small.n_kv_heads} heads and {large.n_heads}/{large.n_kv_heads} have other groups')
    for key in ('n_layers', 'n_kv_heads', 'n_ff', 'n_ctx'):
        if getattr(small, key) > getattr(large, key):
            raise ValueError(f'grow: {key} {getattr(small, key)} does not fit into {getattr(large, key)}')


def widened(name: str, small: Tensor, shape: torch.Size) -> Tensor:
    """`small` in the first rows and columns: the rest random of the same size where it reads, 0 where it writes."""
    if small.shape == shape:
        return small.clone()
    writes = any(part in name for part in WRITES)
    out = torch.zeros(shape) if writes else torch.randn(shape) * small.float().square().mean().sqrt()
    out[:small.shape[0], :small.shape[1]] = small
    return out


def places(n_small: int, n_large: int) -> list[tuple[int, bool]]:
    """For each layer of the large model: (layer of the small one that it comes from, whether it is that one)."""
    first = [i * n_large // n_small for i in range(n_small)]
    origin = [max(i for i, at in enumerate(first) if at <= layer) for layer in range(n_large)]
    return [(i, first[i] == layer) for layer, i in enumerate(origin)]


def grown(small: dict[str, Tensor], c: Config, large: Config, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of a model of shape `large` with the function of the state `small` of shape `c`. `like` has its shapes."""
    check_growth(c, large)
    out = {name: t.clone() for name, t in small.items() if not name.startswith('layers.')}
    for layer, (origin, same) in enumerate(places(c.n_layers, large.n_layers)):
        for name in (n for n in like if n.startswith(f'layers.{layer}.')):
            theirs = small[name.replace(f'layers.{layer}.', f'layers.{origin}.', 1)]
            if not same and any(part in name for part in WRITES):
                out[name] = torch.zeros_like(like[name])
            elif theirs.dim() == 1:
                out[name] = theirs.clone()
            else:
                out[name] = widened(name, theirs.cpu(), like[name].shape)
    return out
