"""Contracts of what stands around attention: the root, the layers, the norm, the memory, the shift, the loss.

A loss under contract is called with a list of pieces ``(logits, labels)``, ``(B, T, V)`` and ``(B, T)``: the
parts of one batch that are computed one after another. It returns the loss of the whole batch, a scalar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from attnlab.contracts.shared import (
    Attend,
    generator_or_fixed,
    noise_like,
    output_of,
    require,
    require_close,
)

__all__ = [
    "layers_distinct",
    "next_token_asked",
    "norm_standardises",
    "padding_costs_nothing",
    "reads_memory",
    "same_in_pieces",
    "scaled_by_width",
]

Piece = tuple[Tensor, Tensor]
PiecesLoss = Callable[[Sequence[Piece]], Tensor]


def scaled_by_width(
    weights_of: Callable[[Tensor, Tensor], Tensor], query: Tensor, key: Tensor, *, tolerance: float = 1e-4
) -> None:
    r"""Log weights of a row are apart as its scores are: :math:`q \cdot k_j / \sqrt{d_k}`, the root of D.

    Args:
        weights_of: Called as ``weights_of(query, key)``, gives the weights ``(..., T, S)`` without a mask.
        query: ``(..., T, D)``, D being the width of one head.
        key: ``(..., S, D)`` with at least two keys.
        tolerance: Largest allowed difference of two log weights.

    Raises:
        AssertionError: If the scores are divided by another number, or shared out along another axis.
        ValueError: If there is only one key.
    """
    if key.shape[-2] < 2:
        raise ValueError(f"key: expected at least two keys, got {tuple(key.shape)}")
    logs = weights_of(query, key).log()  # (..., T, S)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., T, S)
    words = f"weights are not those of scores divided by the root of {query.shape[-1]}"
    require_close(logs - logs[..., :1], scores - scores[..., :1], tolerance, words)


def layers_distinct(layers: Iterable[nn.Module]) -> None:
    """No two layers share a parameter.

    Args:
        layers: The layers of one stack.

    Raises:
        AssertionError: If a parameter belongs to two layers; the message names it.
    """
    owners: dict[int, int] = {}
    for number, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            owner = owners.setdefault(id(parameter), number)
            require(owner == number, f"layers {owner} and {number} share the parameter {name}")


def norm_standardises(norm: Callable[[Tensor], Tensor], x: Tensor, *, tolerance: float = 1e-3) -> None:
    """A new norm gives each vector mean 0 and variance 1, the mean of D squares.

    Args:
        norm: A layer norm as it starts, ``(..., D)`` to ``(..., D)``.
        x: ``(..., D)``, no vector of it constant.
        tolerance: Largest allowed distance from 0 and from 1.

    Raises:
        AssertionError: If a mean or a variance is off.
    """
    y = norm(x)  # (..., D)
    mean, variance = y.mean(dim=-1), y.var(dim=-1, correction=0)  # (...) each
    require_close(mean, torch.zeros_like(mean), tolerance, "a normed vector has another mean than 0")
    words = "a normed vector has another variance than 1"
    require_close(variance, torch.ones_like(variance), tolerance, words)


def reads_memory(attend: Attend, memory: Tensor, *, generator: torch.Generator | None = None) -> None:
    """Another memory gives another output, in every sequence of the batch.

    Args:
        attend: Called with the memory ``(B, S, D)``, gives ``(B, T, D')``; all else is closed over.
        memory: ``(B, S, D)``.
        generator: Source of the other memory.

    Raises:
        AssertionError: If a sequence's output stays exactly as it was.
    """
    before = output_of(attend(memory))
    after = output_of(attend(memory + noise_like(memory, generator_or_fixed(generator))))
    change = (after - before).flatten(1).abs().amax(dim=1)  # (B,)
    unmoved = int(change.argmin())
    require(bool((change > 0).all()), f"another memory leaves the output of sequence {unmoved} as it was")


def next_token_asked(shift: Callable[[Tensor], Piece], *, length: int = 5) -> None:
    """At each place the token asked for is the one after the token read, and none is left out.

    Args:
        shift: Called with rows of token ids ``(B, L)``, gives what is read and what is asked, ``(B, L - 1)``.
        length: L, at least 3.

    Raises:
        AssertionError: If what is asked is not the next token, or the first or the last one is lost.
        ValueError: If the length is below 3.
    """
    if length < 3:
        raise ValueError(f"length: expected at least 3, got {length}")
    rows = torch.arange(1, length + 1).expand(2, -1)  # (B, L): the token says where it stands
    read, asked = shift(rows)
    require(read.shape == asked.shape, f"shape {tuple(read.shape)} read, {tuple(asked.shape)} asked")
    ahead = sorted(set((asked - read).flatten().tolist()))
    require(ahead == [1], f"the token asked for is {ahead} places after the one read, expected [1]")
    ends = int(read[0, 0]), int(asked[0, -1])
    require(ends == (1, length), "the first token is not read, or the last one is not asked for")


def padding_costs_nothing(
    loss: PiecesLoss,
    logits: Tensor,
    labels: Tensor,
    *,
    pad: int = 0,
    columns: int = 3,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    """More columns of padding change nothing about the loss.

    Args:
        loss: See the module's docstring.
        logits: ``(B, T, V)``.
        labels: ``(B, T)``.
        pad: The id of padding.
        columns: How many to add.
        generator: Source of the logits at the added places.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If the loss changes.
    """
    more = torch.full_like(labels[:, :1], pad).expand(-1, columns)  # (B, columns)
    noise = noise_like(logits[:, :1].expand(-1, columns, -1), generator_or_fixed(generator))
    longer = torch.cat([logits, noise], dim=1), torch.cat([labels, more], dim=1)
    words = f"{columns} more columns of padding change the loss"
    require_close(loss([longer]), loss([(logits, labels)]), tolerance, words)


def same_in_pieces(
    loss: PiecesLoss, logits: Tensor, labels: Tensor, *, tolerance: float | None = None
) -> None:
    """Wherever a batch is cut into two pieces, the loss is that of the whole.

    Args:
        loss: See the module's docstring.
        logits: ``(B, T, V)`` with at least two rows.
        labels: ``(B, T)``; rows with unequal numbers of real tokens, or there is nothing to find.
        tolerance: Largest allowed difference.

    Raises:
        AssertionError: If a cut changes the loss; the message says which.
        ValueError: If there are fewer than two rows.
    """
    if len(labels) < 2:
        raise ValueError(f"labels: expected at least two rows, got {tuple(labels.shape)}")
    whole = loss([(logits, labels)])
    for cut in range(1, len(labels)):
        pieces = [(logits[:cut], labels[:cut]), (logits[cut:], labels[cut:])]
        words = f"cut after {cut} of {len(labels)} rows, the batch has another loss"
        require_close(loss(pieces), whole, tolerance, words)
