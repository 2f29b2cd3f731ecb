"""Contracts of repetition: the same again in evaluation, the same in chunks with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.contracts.shared import Result, generator_or_fixed, output_of, require, require_close

__all__ = ["cache_equal", "eval_deterministic"]


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
        first, second = output_of(module(*inputs)), output_of(module(*inputs))
    require(
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
    splits = _some_splits(length, generator_or_fixed(generator)) if splits is None else splits
    for split in splits:
        if sum(split) != length or min(split) < 1:
            raise ValueError(
                f"splits: expected lengths above 0 that add up to T = {length}, got {list(split)}"
            )
    with torch.no_grad():
        whole = output_of(run(x, None))  # (..., T, D')
        outputs = whole.shape[-2]
        require(outputs == length, f"expected an output for each of the {length} positions, got {outputs}")
        for split in splits:
            cache, start = new_cache(), 0
            for number, size in enumerate(split):
                received = output_of(run(x.narrow(axis, start, size), cache))
                expected = whole[..., start : start + size, :]
                _require_chunk(received, expected, start, f"split {list(split)}: chunk {number}", tolerance)
                start += size


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


def _require_chunk(
    received: Tensor, expected: Tensor, start: int, chunk: str, tolerance: float | None
) -> None:
    """What came of the chunk that begins at ``start`` is what is expected of it, position by position."""
    shapes = f"shape {tuple(received.shape)} against {tuple(expected.shape)}"
    require(received.shape == expected.shape, f"{chunk}: {shapes}")
    for place in range(expected.shape[-2]):
        here, there = received[..., place : place + 1, :], expected[..., place : place + 1, :]
        message = f"{chunk}, position {start + place} of the sequence differs from the uncached output"
        require_close(here, there, tolerance, message)
