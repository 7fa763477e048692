"""A Llama in PyTorch, names as Hugging Face writes them, with what decoding needs and nothing else.

Grouped-query attention with four query heads to a key head, rotary positions in halves (as Hugging Face; GGUF wants
pairs, export.py turns them), SwiGLU, RMSNorm, the embedding used again as the output matrix.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import Config


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rope_table(c: Config, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin, [n, head_dim / 2] f32 each."""
    rates = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * rates
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [rows, heads, n, head_dim]"""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.n_embd, c.n_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.n_embd, c.n_kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.n_embd, c.n_kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.n_heads * c.head_dim, c.n_embd, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: list[Tensor] | None) -> Tensor:
        """x [rows, n, n_embd]. `past` holds the keys and values before x, and takes up the new ones."""
        rows, n, _ = x.shape
        q, k, v = (p(x).view(rows, n, -1, self.c.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            past[:] = [k, v]
        n_keys = k.shape[2]
        mask = torch.ones(n, n_keys, dtype=torch.bool, device=x.device).tril(n_keys - n) if 1 < n < n_keys else None
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=1 < n == n_keys, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).reshape(rows, n, -1))


class Mlp(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.gate_proj = nn.Linear(c.n_embd, c.n_ff, bias=False)
        self.up_proj = nn.Linear(c.n_embd, c.n_ff, bias=False)
        self.down_proj = nn.Linear(c.n_ff, c.n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(c.n_embd, c.norm_eps), Attention(c)
        self.post_attention_layernorm, self.mlp = RMSNorm(c.n_embd, c.norm_eps), Mlp(c)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: list[Tensor] | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c.n_vocab, c.n_embd)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.n_layers))
        self.norm = RMSNorm(c.n_embd, c.norm_eps)
        self.tables: tuple[Tensor, Tensor] | None = None
        self.reset()

    def reset(self) -> None:
        """Outputs of the blocks start small, so that depth does not grow the residual."""
        for name, p in self.named_parameters():
            if p.dim() == 2:
                small = name.endswith(('o_proj.weight', 'down_proj.weight'))
                nn.init.normal_(p, std=0.02 / (2 * self.c.n_layers) ** 0.5 if small else 0.02)

    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def hidden(self, ids: Tensor, past: list[list[Tensor]] | None = None, start: int = 0, inputs: Tensor | None = None) -> Tensor:
        """ids [rows, n] at positions start…; out [rows, n, n_embd]. `inputs` [rows, n, n_embd] stand for the embedding of ids."""
        if self.tables is None or self.tables[0].device != ids.device:
            self.tables = rope_table(self.c, self.c.n_ctx, ids.device)
        cos, sin = (t[start:start + ids.shape[1]] for t in self.tables)
        x = self.embed_tokens(ids) if inputs is None else inputs
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, None if past is None else past[i])
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed_tokens.weight)

    def loss(self, ids: Tensor, weight: Tensor) -> Tensor:
        """Sum over tokens of weight · cross entropy of predicting it. ids, weight [rows, n]; weight[:, 0] is 0.
        The output matrix is applied only where something is to be learned."""
        hidden = self.hidden(ids)[:, :-1]
        counts = weight[:, 1:] > 0
        logits = self.logits(hidden[counts])
        return (F.cross_entropy(logits.float(), ids[:, 1:][counts], reduction='none') * weight[:, 1:][counts]).sum()


@torch.no_grad()
def greedy(model: Model, prompt: list[int], end: int, max_tokens: int) -> list[int]:
    """The most likely continuation, up to and without the end token."""
    device = model.embed_tokens.weight.device
    past: list[list[Tensor]] = [[] for _ in model.layers]
    ids, out, start = torch.tensor([prompt], device=device), [], 0
    while len(out) < max_tokens and start + ids.shape[1] <= model.c.n_ctx:
        token = int(model.logits(model.hidden(ids, past, start)[:, -1]).argmax())
        if token == end:
            break
        out.append(token)
        start += ids.shape[1]
        ids = torch.tensor([[token]], device=device)
    return out
