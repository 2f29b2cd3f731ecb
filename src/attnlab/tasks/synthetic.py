"""Synthetic problems: recall, pair lookup, reversal and copy-back, drawn on the spot.

Each function draws one fresh batch from a ``torch.Generator`` that the caller passes in, and returns
``(inputs, targets)``, the pair that :func:`attnlab.training.fit` expects. The same generator state gives the
same batch. Axes: B = examples in a batch, T = positions.
"""

import torch
from torch import Tensor

__all__ = ["IGNORE", "copy_back", "pair_lookup", "recall", "reversal"]

#: The target of a position that has no right answer: the number that PyTorch's cross-entropy leaves out
#: (``ignore_index``) unless it is told another.
IGNORE = -100


def recall(
    batch_size: int, distractors: int, generator: torch.Generator, *, num_symbols: int = 8
) -> tuple[Tensor, Tensor]:
    """One symbol to remember, then distractors, then a cue that asks for it.

    A row reads ``start, symbol, distractor × N, cue``. Distractors are drawn from the same symbols, so that
    only the place of a symbol tells whether it matters. Guessing is right with probability ``1 /
    num_symbols``.

    Args:
        batch_size: number of rows, B.
        distractors: how many symbols stand between the one to remember and the cue, N.
        generator: the source of randomness.
        num_symbols: size of the alphabet. Symbols are ``0 … num_symbols - 1``, the start mark is
            ``num_symbols``, the cue is ``num_symbols + 1``: an embedding needs ``num_symbols + 2`` rows.

    Returns:
        ``tokens`` (B, distractors + 3) and ``targets`` (B,), both ``int64``.

    Raises:
        ValueError: if ``batch_size`` < 1, ``distractors`` < 0 or ``num_symbols`` < 2.

    Source: the recall problems of Hochreiter & Schmidhuber 1997, section 5, in their smallest form.
    """
    _at_least("batch_size", batch_size, 1)
    _at_least("distractors", distractors, 0)
    _at_least("num_symbols", num_symbols, 2)
    shape = (batch_size, distractors + 3)
    tokens = torch.randint(num_symbols, shape, generator=generator, device=generator.device)  # (B, T)
    tokens[:, 0] = num_symbols
    tokens[:, -1] = num_symbols + 1
    return tokens, tokens[:, 1].clone()


def pair_lookup(
    batch_size: int, pairs: int, generator: torch.Generator, *, num_symbols: int = 16
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Key-value pairs, and a query that equals one of the keys: the answer is the value beside it.

    The keys of a row are all different, so that the answer is unique. Values may repeat. Guessing is right
    with probability ``1 / num_symbols``.

    Args:
        batch_size: number of rows, B.
        pairs: pairs in a row, P.
        generator: the source of randomness.
        num_symbols: size of the alphabet that keys and values are drawn from, each ``0 … num_symbols - 1``.

    Returns:
        ``(keys, values, queries), targets``: keys and values (B, P), queries and targets (B,), all ``int64``.
        :func:`attnlab.training.fit` calls a model as ``model(keys, values, queries)``.

    Raises:
        ValueError: if ``batch_size`` or ``pairs`` < 1, ``num_symbols`` < 2, or there are more pairs than
            symbols.

    Source: the associative recall task of Graves et al. 2014, section 4.3, with pairs in place of lists.
    """
    _at_least("batch_size", batch_size, 1)
    _at_least("pairs", pairs, 1)
    _at_least("num_symbols", num_symbols, 2)
    if pairs > num_symbols:
        raise ValueError(
            f"pairs: expected at most num_symbols={num_symbols}, since keys do not repeat, got {pairs}"
        )
    device = generator.device
    # Sorting random numbers shuffles each row on its own; torch.randperm would shuffle one row at a time.
    shuffled = torch.rand(batch_size, num_symbols, generator=generator, device=device).argsort(dim=-1)
    keys = shuffled[:, :pairs]  # (B, P)
    values = torch.randint(num_symbols, (batch_size, pairs), generator=generator, device=device)  # (B, P)
    asked = torch.randint(pairs, (batch_size, 1), generator=generator, device=device)  # (B, 1)
    queries = keys.gather(1, asked).squeeze(1)  # (B,)
    targets = values.gather(1, asked).squeeze(1)  # (B,)
    return (keys, values, queries), targets


def reversal(
    batch_size: int, length: int, generator: torch.Generator, *, num_symbols: int = 8
) -> tuple[Tensor, Tensor]:
    """Symbols, and the same symbols from the last to the first.

    Every symbol is drawn on its own, so that only the position that faces a target tells it: target ``t`` is
    token ``T - 1 - t``. Guessing is right with probability ``1 / num_symbols``.

    Args:
        batch_size: number of rows, B.
        length: symbols in a row, T.
        generator: the source of randomness.
        num_symbols: size of the alphabet. Symbols are ``0 … num_symbols - 1``: an embedding needs
            ``num_symbols`` rows.

    Returns:
        ``tokens`` and ``targets``, both (B, T) and ``int64``.

    Raises:
        ValueError: if ``batch_size`` or ``length`` < 1, or ``num_symbols`` < 2.

    Source: the sequence reversal of Grefenstette et al. 2015, "Learning to Transduce with Unbounded Memory".
    """
    _at_least("batch_size", batch_size, 1)
    _at_least("length", length, 1)
    _at_least("num_symbols", num_symbols, 2)
    tokens = torch.randint(num_symbols, (batch_size, length), generator=generator, device=generator.device)
    return tokens, tokens.flip(1)  # both (B, T)


def copy_back(
    batch_size: int,
    length: int,
    distance: int,
    generator: torch.Generator,
    *,
    num_symbols: int = 8,
    ignore: int = IGNORE,
) -> tuple[Tensor, Tensor]:
    """Symbols, and at each position the symbol that stood ``distance`` positions before.

    Target ``t`` is token ``t - distance``. The first ``distance`` positions have nothing to copy: their
    target is ``ignore``, which a loss has to leave out. Every symbol is drawn on its own, so that guessing is
    right with probability ``1 / num_symbols``.

    Args:
        batch_size: number of rows, B.
        length: symbols in a row, T.
        distance: how far back the answer stands; 0 asks for the token itself.
        generator: the source of randomness.
        num_symbols: size of the alphabet. Symbols are ``0 … num_symbols - 1``: an embedding needs
            ``num_symbols`` rows.
        ignore: the target of a position without an answer. The default is what PyTorch's cross-entropy leaves
            out by itself.

    Returns:
        ``tokens`` and ``targets``, both (B, T) and ``int64``.

    Raises:
        ValueError: if ``batch_size`` or ``length`` < 1, ``num_symbols`` < 2, ``ignore`` is one of the
            symbols, or ``distance`` lies outside ``0 … length - 1``: no position would have an answer.

    Source: the copy task of Graves et al. 2014, section 4.1, as a stream with an answer at each position.
    """
    _at_least("batch_size", batch_size, 1)
    _at_least("length", length, 1)
    _at_least("num_symbols", num_symbols, 2)
    if not 0 <= distance < length:
        raise ValueError(f"distance: expected 0 to length - 1 = {length - 1}, got {distance}")
    if 0 <= ignore < num_symbols:
        raise ValueError(f"ignore: expected a number that is no symbol 0 to {num_symbols - 1}, got {ignore}")
    tokens = torch.randint(num_symbols, (batch_size, length), generator=generator, device=generator.device)
    targets = torch.full_like(tokens, ignore)  # (B, T)
    targets[:, distance:] = tokens[:, : length - distance]
    return tokens, targets


def _at_least(name: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise ValueError(f"{name}: expected at least {lowest}, got {value}")
