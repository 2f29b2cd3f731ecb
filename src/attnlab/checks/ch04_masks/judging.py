"""For lesson 4's exercise "A test that finds the leak": examples, a right test, and right programs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..compare import normal
from . import references


def padded_batches(g: torch.Generator) -> list[Any]:
    places = torch.arange(9)
    front, behind, both = places >= 3, places < 7, (places >= 2) & (places < 8)
    return [
        (normal(g, 3, 9, 4, dtype=torch.float64), torch.stack([front, behind, both])),
        (normal(g, 2, 5, 4, dtype=torch.float64), torch.arange(5) >= torch.tensor([[2], [1]])),
    ]


def good_test(attend: Any) -> None:
    g = torch.Generator().manual_seed(0)
    x, real = normal(g, 2, 8, 4).requires_grad_(), torch.arange(8) >= torch.tensor([[0], [5]])
    output = attend(x, real)
    for b, t in real.nonzero().tolist():
        number = output[b, t] @ normal(g, 4).to(output.dtype)
        (gradient,) = torch.autograd.grad(number, x, retain_graph=True)
        wanted = torch.zeros_like(real)
        wanted[b, : t + 1] = real[b, : t + 1]
        assert torch.equal((gradient != 0).any(dim=-1), wanted)


def in_double(x: Tensor, real: Tensor) -> Tensor:
    return references.padded_attention(x.double(), real)


def other_attention(x: Tensor, real: Tensor) -> Tensor:
    """Other scores, other values, what stood there added: nothing but who sees whom was promised."""
    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    seen = causal & real[:, None] | torch.eye(x.shape[1], dtype=torch.bool)  # padding sees itself
    scores = -0.3 * (x[:, :, None] - x[:, None]).square().sum(dim=-1)  # (B, T, T)
    return x + scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ torch.tanh(x)


def place_by_place(x: Tensor, real: Tensor) -> Tensor:
    """Without a mask: each real place gets the keys it may see; places of padding get zeros."""
    output = torch.zeros_like(x)
    for b, t in real.nonzero().tolist():
        seen = x[b, : t + 1][real[b, : t + 1]]  # (keys, D)
        output[b, t] = (seen.flip(-1) @ x[b, t] / x.shape[-1] ** 0.5).softmax(dim=0) @ seen
    return output
