"""What lesson 2's exercise "A test for any soft lookup" works with: examples, and a right test."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..compare import normal


def tables(g: torch.Generator) -> list[tuple[Any, ...]]:
    """Examples on which the wrong programs differ, some of them with gradients."""
    queries, keys = normal(g, 2, 3, 4), normal(g, 2, 5, 4)
    return [
        (queries, keys, normal(g, 2, 5, 6)),
        (queries.clone().requires_grad_(), keys, normal(g, 2, 5, 6)),
        (normal(g, 3, 2, 4), normal(g, 3, 7, 4), torch.eye(7).expand(3, 7, 7)),
    ]


def good_test(look_up: Any) -> None:
    g = torch.Generator().manual_seed(0)
    queries, keys, values = normal(g, 2, 3, 4).requires_grad_(), normal(g, 2, 5, 4), normal(g, 2, 5, 6)
    weights = look_up(queries, keys, torch.eye(5).expand(2, 5, 5)).float()  # (B, T, S)
    assert (weights > 0).all()
    _alike(weights.sum(dim=-1), torch.ones(2, 3))
    answers = look_up(queries, keys, values).float()  # (B, T, d_v)
    _alike(answers, weights @ values)
    order = torch.tensor([3, 0, 4, 1, 2])
    _alike(look_up(queries, keys[:, order], values[:, order]), answers)
    _alike(look_up(queries[1:, :1], keys[1:], values[1:]), answers[1:, :1])
    assert answers.requires_grad
    (gradient,) = torch.autograd.grad(answers.square().sum(), queries)
    assert (gradient != 0).any(dim=-1).all()


def _alike(given: Tensor, wanted: Tensor) -> None:
    assert torch.allclose(given.float(), wanted, atol=1e-5)
