"""What the cases of lesson 7 hand to an answer: all sizes distinct, nothing saturated, no norm neutral."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..compare import normal
from . import references

SIZES = {"d_model": 6, "num_heads": 2, "d_ff": 10}
OTHER_SIZES = {"d_model": 8, "num_heads": 4, "d_ff": 3}


@functools.cache
def _shapes(kind: Callable[..., nn.Module], sizes: tuple[tuple[str, int], ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what a module of these sizes holds; kept, since each known mistake asks again."""
    return {name: tuple(tensor.shape) for name, tensor in kind(**dict(sizes)).state_dict().items()}


def parameters(
    kind: Callable[..., nn.Module], sizes: dict[str, int], g: torch.Generator
) -> dict[str, Tensor]:
    """Random numbers for everything that the module holds, of a size that keeps a softmax unsaturated."""
    found = {}
    for name, shape in _shapes(kind, tuple(sizes.items())).items():
        drawn = normal(g, *shape)
        if len(shape) == 2:
            found[name] = drawn / shape[1] ** 0.5
        else:
            found[name] = 0.5 * drawn + (1.0 if name.endswith("weight") else 0.0)
    return found


def block_parameters(g: torch.Generator, sizes: dict[str, int] | None = None) -> dict[str, Tensor]:
    """Weights for one block."""
    return parameters(references.Block, sizes or SIZES, g)


def stream(g: torch.Generator, B: int = 4, T: int = 5, width: int = 6) -> Tensor:
    """Tokens (B, T, d_model) of different sizes, away from mean 0: no norm of them is what they were."""
    return (1 + torch.arange(T)[:, None] / 2) * normal(g, B, T, width) + 0.7


def mask(g: torch.Generator, *lead: int, T: int = 5, empty: bool = False) -> Tensor:
    """A random mask (..., T, T): each row hides a key and shows one; with ``empty``, one row shows none."""
    order = torch.rand(*lead, T, T, generator=g).argsort(dim=-1)
    allowed = (torch.rand(*lead, T, T, generator=g) < 0.5) & (order != 0) | (order == 1)
    if empty:
        allowed[..., T - 2, :] = False
    return allowed


def norm_parameters(g: torch.Generator, width: int) -> dict[str, Tensor]:
    """A weight and a bias, neither of them neutral."""
    return {"weight": 1 + 0.5 * normal(g, width), "bias": 0.5 * normal(g, width)}


def far_stream(g: torch.Generator, B: int = 4, T: int = 5, width: int = 6) -> Tensor:
    """Tokens (B, T, d_model) a thousand above or below zero; no two of a token's numbers close together."""
    spread = torch.linspace(-1.5, 1.5, width) + 0.1 * normal(g, B, T, width)
    # Above and below in turn: no one number taken off all tokens brings them back to zero.
    return 1000.0 * (-1.0) ** torch.arange(T)[:, None] + spread


def layer_functions(g: torch.Generator, depth: int, width: int, T: int) -> list[Callable[[Tensor], Tensor]]:
    """Layers (B, T, width) to the same shape, each with weights of its own, that mix tokens and bend."""

    def layer(scale: float) -> Callable[[Tensor], Tensor]:
        across, along = normal(g, T, T) / T**0.5, normal(g, width, width) / width**0.5
        return lambda x: scale * (x + torch.tanh(across @ x @ along))

    return [layer(0.6 + 0.5 * number) for number in range(depth)]


def linear_layers(
    g: torch.Generator, depth: int, width: int
) -> tuple[list[Callable[[Tensor], Tensor]], list[Tensor]]:
    """Layers that multiply each token by a matrix, and the matrices."""
    matrices = [normal(g, width, width) / width**0.5 for _ in range(depth)]

    def layer(matrix: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: x @ matrix

    return [layer(matrix) for matrix in matrices], matrices
