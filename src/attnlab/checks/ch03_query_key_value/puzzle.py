"""The program whose scale is to be found out in lesson 3's exercise "Which scale is this?"."""

from __future__ import annotations

import torch
from torch import Tensor

_POWER = 0.2


def colleague_weights(query: Tensor, key: Tensor) -> Tensor:
    """Wrongly scaled attention weights ``(..., T, S)`` of ``(..., T, d_k)`` and ``(..., S, d_k)``."""
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** _POWER  # (..., T, S)
    return torch.softmax(scores, dim=-1)
