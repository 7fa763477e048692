"""The shapes of the bundled models, and what a token of their text looks like in the files."""
from __future__ import annotations

from dataclasses import asdict, dataclass

LEARN = 1 << 15  # the top bit of a token's 16: the assistant wrote it, so the model learns to


@dataclass
class Config:
    n_vocab: int = 4096
    n_embd: int = 256
    n_layers: int = 6
    n_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 64
    n_ff: int = 768
    n_ctx: int = 8192
    rope_theta: float = 100000.0
    norm_eps: float = 1e-5

    def as_dict(self) -> dict:
        return asdict(self)


# Widths are multiples of 256, so that every matrix can be stored in the 256-wide blocks of Q4_K.
SHAPES = {
    'test': Config(n_embd=64, n_layers=2, n_heads=4, n_kv_heads=1, head_dim=16, n_ff=128),  # seconds, for trying the tools
    'draft': Config(n_embd=256, n_layers=3, n_heads=4, n_kv_heads=1, n_ff=512),   # 2.7 M
    'small': Config(n_embd=256, n_layers=6, n_heads=8, n_kv_heads=2, n_ff=768),   # 6.6 M
    'medium': Config(n_embd=512, n_layers=6, n_heads=8, n_kv_heads=2, n_ff=1536),  # 20 M
}
