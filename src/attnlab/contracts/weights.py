"""Contracts of the weights: rows that sum to one, rows that see nothing, gradients that stay finite."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.attention import AttentionOutput
from attnlab.contracts.shared import (
    AttendWithMask,
    Result,
    output_of,
    place_of,
    require,
    require_close,
    require_finite,
    tolerance_for,
)

__all__ = ["gradients_finite", "masked_rows_zero", "rows_sum_to_one", "weights_explain_output"]


def rows_sum_to_one(weights: Tensor, mask: Tensor | None = None, *, tolerance: float | None = None) -> None:
    """Each row of attention weights is a distribution over the keys that the mask allows.

    Args:
        weights: ``(..., T, S)``.
        mask: Boolean, True = may attend, broadcasting to ``(..., T, S)``. Hidden keys must have a weight of
            exactly zero, and a row with no key at all must be zeros.
        tolerance: Largest allowed distance of a sum from 1.

    Raises:
        AssertionError: If a weight is negative or not finite, a hidden key has weight, or a sum is off.
    """
    require_finite("weights", weights)
    lowest = weights.min().item() if weights.numel() else 0.0
    require(lowest >= 0, f"a weight is negative: {lowest:.3g}. Weights come out of a softmax, 0 or more")
    expected = torch.ones_like(weights[..., 0])
    if mask is not None:
        mask = mask.expand(weights.shape)
        hidden = weights.masked_fill(mask, 0.0)
        worst = hidden.max().item()
        require(
            worst == 0,
            f"{place_of(hidden)} has weight {worst:.3g} on a key that the mask hides. Is the mask inverted?",
        )
        expected = mask.any(dim=-1).to(weights.dtype)
    sums = weights.sum(dim=-1)
    distance = (sums - expected).abs()
    worst_row = distance.argmax()
    require(
        distance.max().item() <= tolerance_for(weights, tolerance),
        f"{place_of(distance, 'row')} sums to {sums.flatten()[worst_row].item():.4g}, "
        f"expected {expected.flatten()[worst_row].item():.0f}. Softmax over the wrong axis, or dropout?",
    )


def weights_explain_output(result: AttentionOutput, value: Tensor, *, tolerance: float | None = None) -> None:
    """The weights that are shown are the weights that were used: weights @ value gives the output.

    Args:
        result: What the attention returned, without dropout.
        value: ``(..., S, d_v)``, the values that it was given.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If the weights are missing, or their weighted sum of the values is not the output.
    """
    if result.weights is None:
        raise AssertionError("the result holds no weights")
    require_close(result.weights @ value, result.output, tolerance, "weights @ value differs from the output")


def masked_rows_zero(attend: AttendWithMask, query: Tensor, key: Tensor, value: Tensor) -> None:
    """A query that may attend to nothing gets zeros, and no gradient becomes NaN.

    Args:
        attend: Attention called as ``attend(query, key, value, mask)``.
        query: ``(..., T, d_k)`` with at least two queries: the first sees all keys, the last none.
        key: ``(..., S, d_k)``.
        value: ``(..., S, d_v)``.

    Raises:
        AssertionError: If the empty row is not zeros, or an output or a gradient is not finite.
    """
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    mask[-1] = False
    with torch.no_grad():
        output = output_of(attend(query, key, value, mask))
    require_finite("output", output)
    size = output[..., -1, :].abs().max().item()
    require(size == 0, f"a query that may attend to nothing gets up to {size:.3g}, expected zeros")
    gradients_finite(lambda q, k, v: attend(q, k, v, mask), query, key, value)


def gradients_finite(function: Callable[..., Result], *inputs: Tensor) -> None:
    """The gradient of the summed output is finite for every input.

    Args:
        function: Called as ``function(*inputs)``.
        inputs: Floating-point tensors.

    Raises:
        AssertionError: If a gradient holds NaN or infinity.
    """
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = output_of(function(*leaves))
    gradients = torch.autograd.grad(output.float().sum(), leaves, allow_unused=True)
    for number, gradient in enumerate(gradients):
        if gradient is not None:
            require_finite(f"the gradient of input {number}", gradient)
