"""Properties that any attention must have, each as a function that raises an AssertionError.

A contract takes a function and an input, tries the function, and returns nothing where the property holds.
Where it does not, the message says which position broke it and by how much. The unit tests, the checks of the
exercises and the lessons use the same contracts.

A function under contract maps ``(..., T, D)`` to ``(..., T, D')``: positions on the last axis but one. It may
return a tensor, or a tuple whose first entry is that tensor, such as an
:class:`~attnlab.attention.AttentionOutput` and the results of layers and models. A mask is closed over::

    contracts.causal(lambda x: attention(x, causal_mask(x.shape[-2])), x)

Where a contract says so, the input may also be token numbers ``(B, T)``.

Noise and permutations come from ``generator``; where it is left out, from a fresh one with a fixed seed, so
that a verdict never changes from run to run. Tolerances are absolute, and where they are left out they follow
the type of the numbers: 1e-10 for float64, 1e-5 for float32, 2e-2 below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.attention import AttentionOutput

__all__ = [
    "batch_independent",
    "cache_equal",
    "causal",
    "causal_by_change",
    "causal_by_gradient",
    "eval_deterministic",
    "gradients_finite",
    "masked_rows_zero",
    "padding_blind",
    "permutation_equivariant",
    "rotary_shift_invariant",
    "rows_sum_to_one",
    "weights_explain_output",
]

Result = Tensor | tuple[Any, ...]
"""A tensor, or a tuple that begins with it."""
Attend = Callable[[Tensor], Result]
AttendWithMask = Callable[[Tensor, Tensor, Tensor, Tensor], Result]

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
        x: ``(B, T, D)``, or token numbers ``(B, T)``, with at least two different sequences.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If a sequence's output depends on its neighbours.
        ValueError: If there are fewer than two sequences.
    """
    if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:
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


def gradients_finite(function: Callable[..., Result], *inputs: Tensor) -> None:
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
        module: Called as ``module(*inputs)``. Its training mode, and that of each part, is put back
            afterwards.
        inputs: What it is called with.

    Raises:
        AssertionError: If two calls differ.
    """
    with _evaluating(module):
        first, second = _output(module(*inputs)), _output(module(*inputs))
    _require(
        torch.equal(first, second),
        f"two calls after eval() differ by up to {(first - second).abs().max().item():.3g}. "
        "Is dropout still on?",
    )


def cache_equal(
    run: Callable[[Tensor, Any], Result],
    x: Tensor,
    new_cache: Callable[[], Any],
    *,
    splits: Sequence[Sequence[int]] | None = None,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    """Read in chunks with a cache, a sequence gives what it gives at once without one.

    Args:
        run: Called as ``run(x, None)`` with the whole input and as ``run(chunk, cache)`` with each chunk in
            turn; it returns ``(..., T, D')`` for the T positions that it was given.
        x: ``(..., T, D)``, or token numbers ``(B, T)``, with at least two positions.
        new_cache: Called without arguments, makes an empty cache; one for each split.
        splits: Lengths of the chunks, such as ``[[6, 1, 1]]``, each adding up to T. Where they are left out:
            the whole, single positions, a prompt and then single positions, and five splits at random.
        generator: Source of the random splits.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If an output differs; the message names the split, the position and the chunk.
        ValueError: If there are fewer than two positions, or a split does not add up to T.
    """
    axis = -2 if x.is_floating_point() else -1
    if x.ndim < 2 or x.shape[axis] < 2:
        raise ValueError(f"x: expected at least two positions, got shape {tuple(x.shape)}")
    length = x.shape[axis]
    splits = _some_splits(length, _generator(generator)) if splits is None else splits
    for split in splits:
        if sum(split) != length or min(split) < 1:
            raise ValueError(
                f"splits: expected lengths above 0 that add up to T = {length}, got {list(split)}"
            )
    with torch.no_grad():
        whole = _output(run(x, None))  # (..., T, D')
        outputs = whole.shape[-2]
        _require(outputs == length, f"expected an output for each of the {length} positions, got {outputs}")
        for split in splits:
            cache, start = new_cache(), 0
            for number, size in enumerate(split):
                received = _output(run(x.narrow(axis, start, size), cache))
                expected = whole[..., start : start + size, :]
                _require_chunk(received, expected, start, f"split {list(split)}: chunk {number}", tolerance)
                start += size


def rotary_shift_invariant(
    rotate: Callable[[Tensor, int], Tensor],
    query: Tensor,
    key: Tensor,
    *,
    shifts: Sequence[int] = (1, 2, 5),
    tolerance: float | None = None,
) -> None:
    """Scores between rotated queries and keys depend on distance, and on distance alone.

    Three things are tried: a row rotated by itself at its own offset is what it is in the sequence; moving
    queries and keys on by the same number of positions changes no score; moving the queries alone does. The
    first is what a cache relies on, and the third refuses a rotation that does nothing.

    Args:
        rotate: Called as ``rotate(heads, offset)`` with ``(..., T, D)`` and the position of the first row.
        query: ``(..., T, D)`` with at least two positions.
        key: ``(..., S, D)``.
        shifts: By how many positions to move, each above 0.
        tolerance: Largest allowed difference, in units of the largest score where that is above 1.

    Raises:
        AssertionError: If one of the three does not hold; the message says which.
        ValueError: If there are fewer than two positions, or a shift is below 1.
    """
    _num_positions(query)
    if not shifts or min(shifts) < 1:
        raise ValueError(f"shifts: expected numbers above 0, got {list(shifts)}")
    with torch.no_grad():
        for offset in (0, *shifts):
            _require_rows_alone(rotate, query, offset, tolerance)
        scores = rotate(query, 0) @ rotate(key, 0).transpose(-2, -1)  # (..., T, S)
        allowed = _tolerance(scores, tolerance) * max(1.0, scores.abs().max().item())
        for shift in shifts:
            moved = rotate(query, shift)  # (..., T, D)
            words = f"moving queries and keys on by {shift} changes a score"
            _require_close(moved @ rotate(key, shift).transpose(-2, -1), scores, allowed, words)
            change = (moved @ rotate(key, 0).transpose(-2, -1) - scores).abs().max().item()
            _require(
                change > allowed,
                f"moving the queries alone on by {shift} changes no score by more than {change:.3g}: "
                "the rotation tells no positions apart",
            )


def _require(holds: bool, message: str) -> None:
    # Not an assert statement: a contract must also hold under ``python -O``.
    if not holds:
        raise AssertionError(message)


def _output(result: Result) -> Tensor:
    output: Tensor = result[0] if isinstance(result, tuple) else result
    return output


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; every part may have had a mode of its own."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _some_splits(length: int, generator: torch.Generator) -> list[list[int]]:
    """Ways to cut a length into chunks: none, all, a prompt and then single ones, and five at random."""
    prompt = (length + 1) // 2
    splits = [[length], [1] * length, [prompt] + [1] * (length - prompt)]
    for _ in range(5):
        cuts = torch.rand(length - 1, generator=generator) < 0.5  # whether to cut after each position
        edges = [0, *(int(place) + 1 for place in cuts.nonzero()), length]
        splits.append([stop - start for start, stop in zip(edges[:-1], edges[1:], strict=True)])
    return splits


def _require_rows_alone(
    rotate: Callable[[Tensor, int], Tensor], heads: Tensor, offset: int, tolerance: float | None
) -> None:
    """Rows rotated together from ``offset`` on are what each is when rotated by itself where it stands."""
    together = rotate(heads, offset)
    shapes = f"shape {tuple(together.shape)} against {tuple(heads.shape)}"
    _require(together.shape == heads.shape, f"the rotation changes the shape: {shapes}")
    allowed = _tolerance(heads, tolerance) * max(1.0, heads.abs().max().item())
    for row in range(heads.shape[-2]):
        alone = rotate(heads[..., row : row + 1, :], offset + row)
        words = f"row {row} rotated from offset {offset} on is another than alone with offset {offset + row}"
        _require_close(alone, together[..., row : row + 1, :], allowed, words)


def _require_chunk(
    received: Tensor, expected: Tensor, start: int, chunk: str, tolerance: float | None
) -> None:
    """What came of the chunk that begins at ``start`` is what is expected of it, position by position."""
    shapes = f"shape {tuple(received.shape)} against {tuple(expected.shape)}"
    _require(received.shape == expected.shape, f"{chunk}: {shapes}")
    for place in range(expected.shape[-2]):
        here, there = received[..., place : place + 1, :], expected[..., place : place + 1, :]
        message = f"{chunk}, position {start + place} of the sequence differs from the uncached output"
        _require_close(here, there, tolerance, message)


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
