"""For lesson 13's exercise "A test for tiles": examples, a right test, and right programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compare import normal
from . import references


def examples(g: torch.Generator) -> list[Any]:
    """Sharp rows after a soft tile, rows far apart, more keys than queries and no whole number of tiles."""
    query, key, value = normal(g, 2, 3, 5), normal(g, 2, 10, 5), normal(g, 2, 10, 6)
    rising = key * torch.linspace(0.5, 3.0, 10)[:, None]
    far = query * torch.tensor([1.0, 200.0, 5.0])[:, None]
    return [(query, key, value), (query, rising, value), (far, key, value), (60 * query, rising, value)]


def good_test(attend: Any) -> None:
    g = torch.Generator().manual_seed(0)
    for inputs in examples(g):
        wanted = F.scaled_dot_product_attention(*(tensor.double() for tensor in inputs))
        output = attend(*inputs)
        assert output.isfinite().all()
        assert torch.allclose(output.double(), wanted, atol=1e-3)


def explicit(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


def in_double(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return references.attend_in_tiles(query.double(), key.double(), value.double(), chunk=3)


def from_the_end(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return references.attend_in_tiles(query, key.flip(1), value.flip(1), chunk=2)
