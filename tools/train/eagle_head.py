"""An EAGLE-3 head in PyTorch, names as such heads are published, and how it learns (Li et al. 2025).

A row is a token and the state behind the tokens before it: at first fc of states of the target, then what the head itself
left. Learning goes several rounds on from there, as drafting does, so that the head knows its own states ("training-time
test"): in round r a row sees the keys of the target's states up to r tokens back, and of the rounds since.
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import Config
from export import write_json
from model import Mlp, Model, RMSNorm, rope_table, rotate
from tensor_files import read_safetensors, rows_of, write_safetensors

DECAY = 0.8  # of a round's loss to the one before
TAPS_KEY = 'eagle_aux_hidden_state_layer_ids'
Keys = list[tuple[Tensor, Tensor]]


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(2 * c.n_embd, c.n_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(2 * c.n_embd, c.n_kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(2 * c.n_embd, c.n_kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.n_heads * c.head_dim, c.n_embd, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: Keys) -> Tensor:
        """x [rows, n, 2 · n_embd], round len(past), whose keys `past` takes up."""
        rows, n, _ = x.shape
        q, k, v = (p(x).view(rows, n, -1, self.c.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        shared = self.c.n_heads // self.c.n_kv_heads
        q, k, v = rotate(q, cos, sin), rotate(k, cos, sin).repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        past.append((k, v))
        r, scale = len(past) - 1, self.c.head_dim ** -0.5
        known = torch.ones(n, n, dtype=torch.bool).tril(-r)
        scores = [(q @ past[0][0].transpose(2, 3)).float().masked_fill(~known, -torch.inf) * scale]
        own = [tuple(F.pad(t, (0, 0, r - i, 0))[:, :, :n] for t in past[i]) for i in range(1, r + 1)]
        scores += [(q * key).sum(-1, keepdim=True).float() * scale for key, _ in own]
        shares = torch.softmax(torch.cat(scores, -1), -1).to(v.dtype)
        out = shares[..., :n] @ past[0][1]
        for i, (_, value) in enumerate(own):
            out = out + shares[..., n + i:n + i + 1] * value
        return self.o_proj(out.transpose(1, 2).reshape(rows, n, -1))


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.input_layernorm, self.hidden_norm = RMSNorm(c.n_embd, c.norm_eps), RMSNorm(c.n_embd, c.norm_eps)
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.post_attention_layernorm = RMSNorm(c.n_embd, c.norm_eps)

    def forward(self, token: Tensor, state: Tensor, cos: Tensor, sin: Tensor, past: Keys) -> Tensor:
        both = torch.cat((self.input_layernorm(token), self.hidden_norm(state)), -1)
        x = state + self.self_attn(both, cos, sin, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(nn.Module):
    """`c` is the head's own shape, of the target's width. `tokens`: those that it knows, ascending."""

    def __init__(self, c: Config, taps: list[int], tokens: Tensor):
        super().__init__()
        self.c, self.taps = c, taps
        self.fc, self.midlayer = nn.Linear(len(taps) * c.n_embd, c.n_embd, bias=False), Layer(c)
        self.norm, self.lm_head = RMSNorm(c.n_embd, c.norm_eps), nn.Linear(c.n_embd, len(tokens), bias=False)
        self.register_buffer('tokens', tokens, persistent=False)

    @torch.no_grad()
    def begin(self, model: Model, spread: float) -> None:
        """As the target tells its next token: fc gives its last states, which have this spread, norm and matrix are its own."""
        self.fc.weight.zero_()
        self.fc.weight[:, -self.c.n_embd:] = torch.eye(self.c.n_embd) / spread
        for p in self.midlayer.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        nn.init.zeros_(self.midlayer.self_attn.o_proj.weight)
        nn.init.zeros_(self.midlayer.mlp.down_proj.weight)
        self.norm.weight.copy_(model.norm.weight)
        self.lm_head.weight.copy_(model.embed_tokens.weight[self.tokens])

    def logits(self, x: Tensor) -> Tensor:
        return self.lm_head(self.norm(x))


# ---- the folder ----------------------------------------------------------------------------------------------------

def save(head: Head, folder: str) -> None:
    c = head.c
    tensors = {'d2t': rows_of((head.tokens - torch.arange(len(head.tokens))).numpy())}
    tensors |= {name: rows_of(p.detach().numpy()) for name, p in head.named_parameters()}
    write_safetensors(os.path.join(folder, 'model.safetensors'), tensors, 'bf16', whole=('d2t',))
    write_json(os.path.join(folder, 'config.json'), {
        'architectures': ['LlamaForCausalLMEagle3'], 'model_type': 'llama', 'hidden_size': c.n_embd, 'intermediate_size': c.n_ff,
        'num_hidden_layers': 1, 'num_attention_heads': c.n_heads, 'num_key_value_heads': c.n_kv_heads, 'head_dim': c.head_dim,
        'hidden_act': 'silu', 'rms_norm_eps': c.norm_eps, 'rope_theta': c.rope_theta, 'vocab_size': c.n_vocab,
        'draft_vocab_size': len(head.tokens), 'torch_dtype': 'bfloat16', 'eagle_config': {TAPS_KEY: head.taps}})


def load(folder: str) -> Head:
    """A folder that save() wrote."""
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        h = json.load(f)
    c = Config(n_vocab=h['vocab_size'], n_embd=h['hidden_size'], n_layers=1, n_heads=h['num_attention_heads'],
               n_kv_heads=h['num_key_value_heads'], head_dim=h['head_dim'], n_ff=h['intermediate_size'],
               rope_theta=h['rope_theta'], norm_eps=h['rms_norm_eps'])
    tensors = {name: torch.from_numpy(x.copy()) for name, x in read_safetensors(os.path.join(folder, 'model.safetensors')).items()}
    offsets = tensors.pop('d2t').long()
    head = Head(c, h['eagle_config'][TAPS_KEY], offsets + torch.arange(len(offsets)))
    head.load_state_dict(tensors)
    return head.eval()


# ---- learning ------------------------------------------------------------------------------------------------------

@torch.no_grad()
def states_behind(model: Model, ids: Tensor, taps: list[int]) -> Tensor:
    """ids [rows, n] to [rows, n, taps · n_embd]: the residual stream behind so many layers each."""
    found: list[Tensor] = []
    hooks = [model.layers[i - 1].register_forward_hook(lambda _m, _i, out: found.append(out)) for i in taps]
    model.hidden(ids)
    for hook in hooks:
        hook.remove()
    return torch.cat(found, -1)


@dataclass
class Rows:
    """Of conversations: their ids [rows, n], the target's states [rows, n, taps · n_embd], and how much each id counts."""
    ids: Tensor
    states: Tensor
    counts: Tensor


@torch.no_grad()
def wanted(head: Head, model: Model, states: Tensor) -> Tensor:
    """The target's distribution over the tokens that the head knows, from its last states [n, n_embd]."""
    known = model.embed_tokens.weight[head.tokens].to(states.dtype)
    return torch.softmax(F.linear(model.norm(states), known).float(), -1)


def learn(head: Head, model: Model, x: Rows, n_rounds: int) -> tuple[Tensor, Tensor]:
    """The loss; and of every round [n_rounds, rows, n]: how often the guess of id i and all before it are right, at i. What does
    not count fully, and what has not so many rounds before it, is right nowhere."""
    n, d = x.ids.shape[1] - 1, model.c.n_embd
    cos, sin = rope_table(head.c, n, x.ids.device)
    token = model.embed_tokens(x.ids[:, 1:]).to(x.states.dtype)
    state, past, loss = head.fc(x.states[:, :-1]), [], torch.zeros(())
    right = F.pad(torch.ones(x.ids.shape[0], n - 1, dtype=torch.bool), (0, 1))
    coming = F.pad(x.ids[:, 2:], (0, 1))  # what row i guesses
    weight = F.pad(x.counts[:, 2:], (0, 1)).clone()
    found = torch.zeros(n_rounds, *x.ids.shape, dtype=torch.bool)
    for r in range(n_rounds):
        state = head.midlayer(token, state, cos, sin, past)
        weight[:, :r] = 0
        right = (F.pad(right, (1, 0))[:, :n] if r > 0 else right).clone()
        picked = weight > 0
        logits = head.logits(state[picked]).float()
        each = -(wanted(head, model, x.states[:, 1:, -d:][picked]) * torch.log_softmax(logits, -1)).sum(-1)
        loss = loss + DECAY ** r * (each * weight[picked]).sum() / weight.sum().clamp(min=1)
        right[picked] &= head.tokens[logits.argmax(-1)] == coming[picked]
        right &= picked
        found[r, :, 2:] = (right & (weight >= 1))[:, :n - 1]
        state = F.pad(state, (0, 0, 1, 0))[:, :n]
    return loss, found
