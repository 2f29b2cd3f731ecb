"""The exercise that asks for a test of attention by its properties: right programs, and a right test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import inputs, references

Attend = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def judge_probes(g: torch.Generator) -> list[Any]:
    """Two and three heads, other lengths."""
    return [inputs.attended(g), inputs.attended(g, heads=3, B=4, T=5, S=7)]


def a_right_test(attend: Attend) -> None:
    """Each query by itself, from the formula, and the same twice."""
    g = torch.Generator().manual_seed(0)
    for x, read, real, heads in judge_probes(g):
        given = attend(x, read, real, heads)
        again = attend(x, read, real, heads)
        assert torch.equal(given, again), "not the same twice"
        assert (given - _query_by_query(x, read, real, heads)).abs().max() < 1e-4


def _query_by_query(x: Tensor, read: Tensor, real: Tensor, num_heads: int) -> Tensor:
    width = x.shape[-1] // num_heads
    output = torch.zeros_like(x)
    for b in range(len(x)):
        kept = read[b][real[b]]  # (real, D)
        for h in range(num_heads):
            part = slice(h * width, (h + 1) * width)
            for t in range(x.shape[1]):
                scores = kept[:, part] @ x[b, t, part] / width**0.5
                output[b, t, part] = scores.softmax(dim=0) @ kept[:, part]
    return output


def _fused(x: Tensor, read: Tensor, real: Tensor, num_heads: int) -> Tensor:
    q, k = (y.reshape(*y.shape[:2], num_heads, -1).transpose(1, 2) for y in (x, read))
    mixed = F.scaled_dot_product_attention(q, k, k, attn_mask=real[:, None, None])
    return mixed.transpose(1, 2).flatten(2)


def _in_double(x: Tensor, read: Tensor, real: Tensor, num_heads: int) -> Tensor:
    return references.attend(x.double(), read.double(), real, num_heads).float()


OTHERS: tuple[Attend, ...] = (_query_by_query, _fused, _in_double)
