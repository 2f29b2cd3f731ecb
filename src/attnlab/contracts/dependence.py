"""Contracts of dependence: on order, on later positions, on padding, on the neighbours in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.contracts.shared import (
    Attend,
    generator_or_fixed,
    noise_like,
    num_positions,
    output_of,
    require,
    require_close,
)

__all__ = [
    "batch_independent",
    "causal",
    "causal_by_change",
    "causal_by_gradient",
    "padding_blind",
    "permutation_equivariant",
]


def permutation_equivariant(
    attend: Attend, x: Tensor, *, generator: torch.Generator | None = None, tolerance: float | None = None
) -> None:
    """Shuffle the positions of the input, and the outputs are shuffled the same way, otherwise unchanged.

    Args:
        attend: Attention without positions and without a mask, ``(..., T, D)`` to ``(..., T, D')``.
        x: ``(..., T, D)`` with at least three positions: two can only be swapped, and a swap hides much.
        generator: Source of the permutation.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If an output depends on where its token stands.
        ValueError: If there are fewer than three positions.
    """
    num_positions = x.shape[-2]
    if num_positions < 3:
        raise ValueError(f"x: expected at least three positions, got {num_positions}")
    order = _unsettling_permutation(num_positions, generator_or_fixed(generator))
    expected = output_of(attend(x))[..., order, :]
    received = output_of(attend(x[..., order, :]))
    require_close(
        received, expected, tolerance, "shuffling the positions changes more than the order of the outputs"
    )


def causal(attend: Attend, x: Tensor, *, generator: torch.Generator | None = None) -> None:
    """No output depends on a later input: by change, then by gradient.

    Args:
        attend: Attention that must not look ahead, ``(..., T, D)`` to ``(..., T, D')``.
        x: ``(..., T, D)`` with at least two positions.
        generator: Source of the changes.

    Raises:
        AssertionError: If an output depends on a later input.
        ValueError: If there are fewer than two positions.
    """
    causal_by_change(attend, x, generator=generator)
    causal_by_gradient(attend, x, generator=generator)


def causal_by_change(
    attend: Attend, x: Tensor, *, generator: torch.Generator | None = None, tolerance: float | None = None
) -> None:
    """Change every input after a position, and the outputs up to that position stay as they were.

    Arguments and errors are those of :func:`causal`. ``tolerance`` is the largest allowed difference.
    """
    source = generator_or_fixed(generator)
    before = output_of(attend(x))
    for last in range(num_positions(x) - 1):
        changed = x.clone()
        changed[..., last + 1 :, :] += 3.0 * noise_like(changed[..., last + 1 :, :], source)
        after = output_of(attend(changed))
        require_close(
            after[..., : last + 1, :],
            before[..., : last + 1, :],
            tolerance,
            f"changing the inputs after position {last} changes an output at or before it",
        )


def causal_by_gradient(attend: Attend, x: Tensor, *, generator: torch.Generator | None = None) -> None:
    """The gradient of each output with respect to every later input is exactly zero.

    A gradient finds a leak that one change of the input may miss, and needs no tolerance. Arguments and
    errors are those of :func:`causal`.
    """
    source = generator_or_fixed(generator)
    leaf = x.detach().clone().requires_grad_()
    output = output_of(attend(leaf))
    for position in range(num_positions(x) - 1):
        # Random weights, since a plain sum of outputs may have no gradient by symmetry.
        probe = (output[..., position, :] * noise_like(output[..., position, :], source)).sum()
        (gradient,) = torch.autograd.grad(probe, leaf, retain_graph=True)
        later = gradient[..., position + 1 :, :].abs().amax(dim=-1)  # (..., T - position - 1)
        leak = later.max().item()
        source_position = position + 1 + int(later.argmax()) % later.shape[-1]
        require(
            leak == 0,
            f"output {position} depends on input {source_position}, which comes after it: "
            f"gradient {leak:.3g}, expected 0",
        )


def padding_blind(
    attend: Attend,
    x: Tensor,
    real: Tensor,
    *,
    compare: Tensor | None = None,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    """What stands in the padding changes no real output, wherever the padding is.

    Args:
        attend: Attention with its padding mask closed over, ``(B, S, D)`` to ``(B, T, D')``.
        x: ``(B, S, D)``.
        real: Boolean ``(B, S)``, True = a real token. At least one must be False.
        compare: Boolean ``(B, T)``, the outputs that must not change: ``real`` where it is left out. For
            cross-attention, whose outputs belong to other positions, pass all True.
        generator: Source of the changes.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If an output changes with the padding, in value or in gradient.
        ValueError: If ``real`` has the wrong shape or marks no padding.
    """
    if real.shape != x.shape[:-1]:
        raise ValueError(f"real: expected shape {tuple(x.shape[:-1])}, got {tuple(real.shape)}")
    if bool(real.all()):
        raise ValueError("real: expected at least one False, or there is no padding to look at")
    compare = real if compare is None else compare
    source = generator_or_fixed(generator)
    leaf = x.detach().clone().requires_grad_()
    before = output_of(attend(leaf))
    after = output_of(attend(torch.where(real[..., None], x, x + 3.0 * noise_like(x, source))))
    require_close(after[compare], before[compare], tolerance, "changing the padding changes a real output")
    probe = (before[compare] * noise_like(before[compare], source)).sum()
    # What is never read gives no gradient at all: blind to the padding, and to the rest.
    (gradient,) = torch.autograd.grad(probe, leaf, allow_unused=True)
    leak = 0.0 if gradient is None else gradient[~real].abs().max().item()
    require(leak == 0, f"a real output depends on the padding: gradient {leak:.3g}, expected 0")


def batch_independent(attend: Attend, x: Tensor, *, tolerance: float | None = None) -> None:
    """Each sequence alone gives what it gives in the batch.

    Args:
        attend: Attention without a mask that is tied to the batch, ``(B, T, D)`` to ``(B, T, D')``.
        x: ``(B, T, D)``, or token numbers ``(B, T)``, with at least two different sequences.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If a sequence's output depends on its neighbours.
        ValueError: If there are fewer than two sequences.
    """
    if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:
        raise ValueError(f"x: expected (B, T, D) with at least two sequences, got {tuple(x.shape)}")
    together = output_of(attend(x))
    for item in range(x.shape[0]):
        alone = output_of(attend(x[item : item + 1]))[0]
        require_close(
            alone, together[item], tolerance, f"sequence {item} alone differs from itself in the batch"
        )


def _unsettling_permutation(size: int, generator: torch.Generator) -> Tensor:
    """A permutation that is neither the identity nor the reversal, which some faults survive."""
    settled = (torch.arange(size), torch.arange(size).flip(0))
    while True:
        order = torch.randperm(size, generator=generator)
        if not any(torch.equal(order, other) for other in settled):
            return order
