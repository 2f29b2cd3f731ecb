"""Data for the experiments: small problems made on the spot, never downloaded.

Each function draws one fresh batch from a ``torch.Generator`` that the caller passes in, and returns
``(inputs, targets)``, the pair that :func:`attnlab.training.fit` expects. The same generator state gives the
same batch. Axes: B = examples in a batch, T = positions.
"""

import torch
from torch import Tensor


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


def _at_least(name: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise ValueError(f"{name}: expected at least {lowest}, got {value}")
