"""Five sealed machines for lesson 8's exercise "Read the map": each an encoder and a decoder, some at fault.

A machine maps a source (B, S, D) and a target (B, T, D), vectors already, to the memory (B, S, D) and the
outputs (B, T, D).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...attention import causal_mask, scaled_dot_product_attention

WIDTH = 8

FAULTS = ("decoder sees padding", "encoder is causal", "short memory", "future seen", "right")
"""What is the matter with machine 1, 2, 3, 4, 5."""

_REACH = 4

Machine = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def machine(number: int) -> Machine:
    """Machine 1 to 5, called as ``machine(1)(source, target, real)``.

    ``real`` is boolean (B, S), True = a source token that is not padding.

    Raises:
        ValueError: If there is no machine of this number.
    """
    if number not in range(1, len(FAULTS) + 1):
        raise ValueError(f"number: expected 1 to {len(FAULTS)}, got {number}")
    fault = FAULTS[number - 1]
    generator = torch.Generator().manual_seed(number)
    maps = torch.randn(10, WIDTH, WIDTH, generator=generator) / WIDTH**0.5

    def attend(x: Tensor, asked: Tensor, mask: Tensor, first: int) -> Tensor:
        query, key, value = x @ maps[first], asked @ maps[first + 1], asked @ maps[first + 2]
        return x + scaled_dot_product_attention(query, key, value, mask).output  # (B, T, D)

    def run(source: Tensor, target: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        known = real[:, None, :]  # (B, 1, S)
        encoder_mask = known & causal_mask(source.shape[1]) if fault == "encoder is causal" else known
        memory = attend(source, source, encoder_mask, 0)  # (B, S, D)
        triangle = causal_mask(target.shape[1])  # (T, T)
        if fault == "future seen":
            triangle = torch.ones_like(triangle)
        elif fault == "short memory":
            triangle = triangle.triu(1 - _REACH)
        x = attend(target, target, triangle, 3)  # (B, T, D)
        cross_mask = torch.ones_like(known) if fault == "decoder sees padding" else known
        x = attend(x, memory, cross_mask, 6)  # (B, T, D)
        return memory, x + torch.tanh(x @ maps[9])

    return run
