"""What lesson 5's checks hand to the answers: all sizes distinct, no softmax saturated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..compare import normal

State = dict[str, Tensor]


def torch_inputs(
    g: torch.Generator, d_model: int = 12, num_heads: int = 3, B: int = 2, T: int = 5, *, batch_first: bool
) -> tuple[State, int, Tensor, bool]:
    """Weights as PyTorch's module names them, none of them small, and an input in the order asked for."""
    state = {
        "in_proj_weight": normal(g, 3 * d_model, d_model) / d_model**0.5,
        "in_proj_bias": 0.5 * normal(g, 3 * d_model),
        "out_proj.weight": normal(g, d_model, d_model) / d_model**0.5,
        "out_proj.bias": 0.5 * normal(g, d_model),
    }
    x = 1.3 * normal(g, B, T, d_model)
    return state, num_heads, x if batch_first else x.transpose(0, 1).contiguous(), batch_first


def theirs(state: State, num_heads: int, x: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """What PyTorch's own module gives with these weights."""
    module = nn.MultiheadAttention(x.shape[-1], num_heads, batch_first=batch_first, dtype=x.dtype)
    module.load_state_dict(state)
    with torch.no_grad():
        output, weights = module(x, x, x, average_attn_weights=False)
    return output, weights


def parameters(g: torch.Generator, sizes: dict[str, int]) -> State:
    """Weights of the four projections, of a size that keeps scores unsaturated."""
    width = sizes["d_model"]
    narrow = width // sizes["num_heads"] * sizes["num_kv_heads"]
    rows = {"w_q": width, "w_k": narrow, "w_v": narrow, "w_o": width}
    return {f"{name}.weight": normal(g, n, width) / width**0.5 for name, n in rows.items()}


def sequences(
    g: torch.Generator, B: int = 5, T: int = 4, S: int = 7, d_model: int = 18
) -> tuple[Tensor, ...]:
    """Inputs for queries, keys and values: all different, and more keys than queries."""
    return 1.3 * normal(g, B, T, d_model), 1.3 * normal(g, B, S, d_model), normal(g, B, S, d_model)


def random_mask(g: torch.Generator, T: int = 4, S: int = 7, *, empty: bool) -> Tensor:
    """A random mask (T, S): each row hides a key and shows one; with ``empty``, the last row shows none."""
    order = torch.rand(T, S, generator=g).argsort(dim=-1)
    seen = (torch.rand(T, S, generator=g) < 0.5) & (order != 0) | (order == 1)
    if empty:
        seen[-1] = False
    return seen


def matrices_and_heads(
    g: torch.Generator, B: int = 2, T: int = 5, d_model: int = 12, num_heads: int = 3
) -> tuple[Any, ...]:
    """An input, four matrices and the number of heads."""
    matrices = [normal(g, d_model, d_model) / d_model**0.5 for _ in range(4)]
    return (1.3 * normal(g, B, T, d_model), *matrices, num_heads)
