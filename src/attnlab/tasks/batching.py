"""Rows of numbers to batches: padding, buckets by length, and unknown tokens at random.

Axes: B = pairs in a batch, S = tokens of the longest source of the batch, T = of its longest target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import torch
from torch import Tensor

from attnlab.tasks.tokens import BOS, EOS, PAD, UNK

__all__ = ["batches", "epoch_batches", "pad_rows", "random_unknowns"]

Row = Sequence[int]
Batch = tuple[tuple[Tensor, Tensor], Tensor]

#: How many batches are sorted by length together. More leave less padding, but make an order less random.
BATCHES_IN_A_POOL = 20


def pad_rows(rows: Sequence[Row], *, pad: int = PAD, device: torch.device | str | None = None) -> Tensor:
    """Rows of different lengths as one tensor, filled up at the end.

    Args:
        rows: B rows of numbers; an empty row becomes padding throughout.
        pad: the number to fill up with.
        device: where the tensor is to be.

    Returns:
        ``int64``, (B, T) with T the length of the longest row.

    Raises:
        ValueError: if there are no rows, or a row holds the number of the padding.
    """
    if not rows:
        raise ValueError("rows: expected at least one row, got none")
    for number, row in enumerate(rows):
        if pad in row:
            raise ValueError(f"rows: expected none to hold pad = {pad}, got {list(row)} as row {number}")
    longest = max(map(len, rows))
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int64, device=device)


def batches(
    pairs: Sequence[tuple[Row, Row]],
    batch_size: int,
    generator: torch.Generator,
    *,
    pad: int = PAD,
    bos: int = BOS,
    eos: int = EOS,
) -> Iterator[Batch]:
    """Batches without end, as :func:`attnlab.training.fit` takes them: one epoch after another.

    Each epoch holds every pair once, in an order of its own; :func:`epoch_batches` says how.

    Args:
        pairs: sources and targets as numbers, without special tokens.
        batch_size: pairs in a batch, B.
        generator: the source of randomness; the tensors are made on its device.
        pad, bos, eos: the numbers of the special tokens.

    Returns:
        An endless iterator over ``((source, target_in), target_out)``: (B, S), (B, T) and (B, T), ``int64``.

    Raises:
        ValueError: as :func:`epoch_batches` does.
    """
    _check_pairs(pairs, batch_size, pad, bos, eos)
    return _endless(pairs, batch_size, generator, pad, bos, eos)


def _endless(
    pairs: Sequence[tuple[Row, Row]],
    batch_size: int,
    generator: torch.Generator,
    pad: int,
    bos: int,
    eos: int,
) -> Iterator[Batch]:
    while True:
        yield from epoch_batches(pairs, batch_size, generator, pad=pad, bos=bos, eos=eos)


def epoch_batches(
    pairs: Sequence[tuple[Row, Row]],
    batch_size: int,
    generator: torch.Generator,
    *,
    pad: int = PAD,
    bos: int = BOS,
    eos: int = EOS,
) -> Iterator[Batch]:
    """Every pair once, in batches of pairs of similar length.

    The pairs are shuffled, then sorted by length within pools of twenty batches and cut into batches, and the
    batches are shuffled: little padding, and still another order in each epoch. Only one batch may be
    smaller than the others. Where a batch holds

    =========================  ==================================================
    source ``a b``             ``a b eos``
    what the decoder is given  ``bos x y z``: the target shifted by one
    what it is to write        ``x y z eos``
    =========================  ==================================================

    Args:
        pairs: sources and targets as numbers, without special tokens; see
            :meth:`attnlab.tasks.Vocabulary.encode`.
        batch_size: pairs in a batch, B.
        generator: the source of randomness; the tensors are made on its device.
        pad, bos, eos: the numbers of the special tokens.

    Returns:
        An iterator over ``((source, target_in), target_out)``: (B, S), (B, T) and (B, T), all ``int64``.

    Raises:
        ValueError: if there are no pairs, ``batch_size`` < 1, a row holds a special token, or two special
            tokens are the same. ``pad`` equal to ``eos`` is refused since padding is left out of the loss:
            the model would never learn to end a text.
    """
    _check_pairs(pairs, batch_size, pad, bos, eos)
    return (
        _batch(chosen, generator.device, pad, bos, eos) for chosen in _buckets(pairs, batch_size, generator)
    )


def _buckets(
    pairs: Sequence[tuple[Row, Row]], batch_size: int, generator: torch.Generator
) -> Iterator[list[tuple[Row, Row]]]:
    order = _shuffled(len(pairs), generator)
    pool_size = batch_size * BATCHES_IN_A_POOL
    pools = [order[start : start + pool_size] for start in range(0, len(order), pool_size)]
    # By both lengths together; what is equally long stays in its shuffled order.
    by_length = [sorted(pool, key=lambda index: sum(map(len, pairs[index]))) for pool in pools]
    cut = [
        pool[start : start + batch_size] for pool in by_length for start in range(0, len(pool), batch_size)
    ]
    for number in _shuffled(len(cut), generator):
        yield [pairs[index] for index in cut[number]]


def _shuffled(count: int, generator: torch.Generator) -> list[int]:
    order: list[int] = torch.randperm(count, generator=generator, device=generator.device).tolist()
    return order


def _batch(chosen: Sequence[tuple[Row, Row]], device: torch.device, pad: int, bos: int, eos: int) -> Batch:
    source = pad_rows([[*source, eos] for source, _ in chosen], pad=pad, device=device)  # (B, S)
    target = pad_rows([[bos, *target] for _, target in chosen], pad=pad, device=device)  # (B, T)
    target_out = pad_rows([[*target, eos] for _, target in chosen], pad=pad, device=device)  # (B, T)
    return (source, target), target_out


def _check_pairs(pairs: Sequence[tuple[Row, Row]], batch_size: int, pad: int, bos: int, eos: int) -> None:
    if not pairs:
        raise ValueError("pairs: expected at least one pair, got none")
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
    if pad == eos:
        raise ValueError(
            f"pad: expected another number than eos, got {pad} for both: padding is left out of the loss, "
            "so that the model would never learn to end a text"
        )
    special = {pad, bos, eos}
    if len(special) < 3:
        raise ValueError(f"bos: expected another number than pad = {pad} and eos = {eos}, got {bos}")
    for number, pair in enumerate(pairs):
        if not special.isdisjoint(chain(*pair)):
            raise ValueError(
                f"pairs: expected rows without the special tokens {sorted(special)}, "
                f"got {pair} as pair {number}"
            )


def random_unknowns(
    tokens: Tensor,
    probability: float,
    generator: torch.Generator,
    *,
    unk: int = UNK,
    special: Sequence[int] = (PAD, BOS, EOS),
) -> Tensor:
    """Replace tokens by the unknown one at random, so that a model learns to live with unknown words.

    In training no word is unknown, and the vector of ``unk`` would stay the noise that it began as.

    Args:
        tokens: numbers of tokens, any shape, such as a source (B, S).
        probability: share of the tokens to replace.
        generator: the source of randomness, on the device of the tokens.
        unk: the number of the unknown token.
        special: numbers that are never replaced.

    Returns:
        A new tensor of the same shape; ``tokens`` is left as it is.

    Raises:
        ValueError: if the probability lies outside 0 to 1.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability: expected 0 to 1, got {probability}")
    chosen = torch.rand(tokens.shape, generator=generator, device=tokens.device) < probability
    ordinary = ~torch.isin(tokens, torch.tensor(special, device=tokens.device))
    return tokens.masked_fill(chosen & ordinary, unk)
