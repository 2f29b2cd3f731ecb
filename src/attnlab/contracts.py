"""Properties that any attention must have, each as a function that raises an AssertionError.

A contract takes a function and an input, tries the function, and returns nothing where the property holds.
Where it does not, the message says which position broke it and by how much. The unit tests, the checks of the
exercises and the lessons use the same contracts.

A function under contract maps ``(..., T, D)`` to ``(..., T, D')``: positions on the last axis but one. It may
return a tensor or an :class:`~attnlab.attention.AttentionOutput`. A mask is closed over::

    contracts.causal(lambda x: attention(x, causal_mask(x.shape[-2])), x)

Noise and permutations come from ``generator``; where it is left out, from a fresh one with a fixed seed, so
that a verdict never changes from run to run. Tolerances are absolute, and where they are left out they follow
the type of the numbers: 1e-10 for float64, 1e-5 for float32, 2e-2 below.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlab.attention import AttentionOutput

__all__ = [
    "batch_independent",
    "causal",
    "causal_by_change",
    "causal_by_gradient",
    "eval_deterministic",
    "gradients_finite",
    "masked_rows_zero",
    "padding_blind",
    "permutation_equivariant",
    "rows_sum_to_one",
    "weights_explain_output",
]

Attend = Callable[[Tensor], Tensor | AttentionOutput]
AttendWithMask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor | AttentionOutput]

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-2}


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
    _require_finite("weights", weights)
    lowest = weights.min().item() if weights.numel() else 0.0
    _require(lowest >= 0, f"a weight is negative: {lowest:.3g}. Weights come out of a softmax, 0 or more")
    expected = torch.ones_like(weights[..., 0])
    if mask is not None:
        mask = mask.expand(weights.shape)
        hidden = weights.masked_fill(mask, 0.0)
        worst = hidden.max().item()
        _require(
            worst == 0,
            f"{_where(hidden)} has weight {worst:.3g} on a key that the mask hides. Is the mask inverted?",
        )
        expected = mask.any(dim=-1).to(weights.dtype)
    sums = weights.sum(dim=-1)
    distance = (sums - expected).abs()
    worst_row = distance.argmax()
    _require(
        distance.max().item() <= _tolerance(weights, tolerance),
        f"{_where(distance, 'row')} sums to {sums.flatten()[worst_row].item():.4g}, "
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
    _require_close(
        result.weights @ value, result.output, tolerance, "weights @ value differs from the output"
    )


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
    order = _unsettling_permutation(num_positions, _generator(generator))
    expected = _output(attend(x))[..., order, :]
    received = _output(attend(x[..., order, :]))
    _require_close(
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
    source = _generator(generator)
    before = _output(attend(x))
    for last in range(_num_positions(x) - 1):
        changed = x.clone()
        changed[..., last + 1 :, :] += 3.0 * _noise_like(changed[..., last + 1 :, :], source)
        after = _output(attend(changed))
        _require_close(
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
    source = _generator(generator)
    leaf = x.detach().clone().requires_grad_()
    output = _output(attend(leaf))
    for position in range(_num_positions(x) - 1):
        # Random weights, since a plain sum of outputs may have no gradient by symmetry.
        probe = (output[..., position, :] * _noise_like(output[..., position, :], source)).sum()
        (gradient,) = torch.autograd.grad(probe, leaf, retain_graph=True)
        later = gradient[..., position + 1 :, :].abs().amax(dim=-1)  # (..., T - position - 1)
        leak = later.max().item()
        source_position = position + 1 + int(later.argmax()) % later.shape[-1]
        _require(
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
    source = _generator(generator)
    leaf = x.detach().clone().requires_grad_()
    before = _output(attend(leaf))
    after = _output(attend(torch.where(real[..., None], x, x + 3.0 * _noise_like(x, source))))
    _require_close(after[compare], before[compare], tolerance, "changing the padding changes a real output")
    (gradient,) = torch.autograd.grad((before[compare] * _noise_like(before[compare], source)).sum(), leaf)
    leak = gradient[~real].abs().max().item()
    _require(leak == 0, f"a real output depends on the padding: gradient {leak:.3g}, expected 0")


def batch_independent(attend: Attend, x: Tensor, *, tolerance: float | None = None) -> None:
    """Each sequence alone gives what it gives in the batch.

    Args:
        attend: Attention without a mask that is tied to the batch, ``(B, T, D)`` to ``(B, T, D')``.
        x: ``(B, T, D)`` with at least two different sequences.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If a sequence's output depends on its neighbours.
        ValueError: If there are fewer than two sequences.
    """
    if x.ndim < 3 or x.shape[0] < 2:
        raise ValueError(f"x: expected (B, T, D) with at least two sequences, got {tuple(x.shape)}")
    together = _output(attend(x))
    for item in range(x.shape[0]):
        alone = _output(attend(x[item : item + 1]))[0]
        _require_close(
            alone, together[item], tolerance, f"sequence {item} alone differs from itself in the batch"
        )


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
        output = _output(attend(query, key, value, mask))
    _require_finite("output", output)
    size = output[..., -1, :].abs().max().item()
    _require(size == 0, f"a query that may attend to nothing gets up to {size:.3g}, expected zeros")
    gradients_finite(lambda q, k, v: attend(q, k, v, mask), query, key, value)


def gradients_finite(function: Callable[..., Tensor | AttentionOutput], *inputs: Tensor) -> None:
    """The gradient of the summed output is finite for every input.

    Args:
        function: Called as ``function(*inputs)``.
        inputs: Floating-point tensors.

    Raises:
        AssertionError: If a gradient holds NaN or infinity.
    """
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = _output(function(*leaves))
    gradients = torch.autograd.grad(output.float().sum(), leaves, allow_unused=True)
    for number, gradient in enumerate(gradients):
        if gradient is not None:
            _require_finite(f"the gradient of input {number}", gradient)


def eval_deterministic(module: nn.Module, *inputs: Tensor) -> None:
    """In evaluation the module gives the same answer twice, bit for bit.

    Args:
        module: Called as ``module(*inputs)``. Its training mode is put back afterwards.
        inputs: What it is called with.

    Raises:
        AssertionError: If two calls differ.
    """
    was_training = module.training
    module.eval()
    try:
        first, second = _output(module(*inputs)), _output(module(*inputs))
    finally:
        module.train(was_training)
    _require(
        torch.equal(first, second),
        f"two calls after eval() differ by up to {(first - second).abs().max().item():.3g}. "
        "Is dropout still on?",
    )


def _require(holds: bool, message: str) -> None:
    # Not an assert statement: a contract must also hold under ``python -O``.
    if not holds:
        raise AssertionError(message)


def _output(result: Tensor | AttentionOutput) -> Tensor:
    return result.output if isinstance(result, AttentionOutput) else result


def _generator(generator: torch.Generator | None) -> torch.Generator:
    return torch.Generator().manual_seed(0) if generator is None else generator


def _noise_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    # Drawn on the CPU, so that the same generator serves every device.
    return torch.randn(tensor.shape, generator=generator).to(tensor)


def _unsettling_permutation(size: int, generator: torch.Generator) -> Tensor:
    """A permutation that is neither the identity nor the reversal, which some faults survive."""
    settled = (torch.arange(size), torch.arange(size).flip(0))
    while True:
        order = torch.randperm(size, generator=generator)
        if not any(torch.equal(order, other) for other in settled):
            return order


def _num_positions(x: Tensor) -> int:
    if x.ndim < 2 or x.shape[-2] < 2:
        raise ValueError(f"x: expected (..., T, D) with at least two positions, got {tuple(x.shape)}")
    return x.shape[-2]


def _tolerance(tensor: Tensor, tolerance: float | None) -> float:
    return _TOLERANCE[tensor.dtype] if tolerance is None else tolerance


def _require_finite(name: str, tensor: Tensor) -> None:
    _require(bool(tensor.isfinite().all()), f"{name}: expected finite numbers, found NaN or infinity")


def _require_close(received: Tensor, expected: Tensor, tolerance: float | None, message: str) -> None:
    _require(
        received.shape == expected.shape,
        f"{message}: shape {tuple(received.shape)} against {tuple(expected.shape)}",
    )
    _require_finite("output", received)
    _require_finite("output", expected)
    difference = (received - expected).abs()
    if difference.numel() == 0:
        return
    allowed = _tolerance(expected, tolerance)
    _require(
        difference.max().item() <= allowed,
        f"{message}: {_where(difference)} differs by {difference.max().item():.3g}, "
        f"allowed are {allowed:.0e}",
    )


def _where(tensor: Tensor, noun: str = "entry") -> str:
    """Where the largest entry is, as words: ``entry (1, 0, 3)``."""
    place = torch.unravel_index(tensor.argmax(), tensor.shape)
    return f"{noun} ({', '.join(str(int(index)) for index in place)})"
