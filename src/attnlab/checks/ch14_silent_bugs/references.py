"""Right answers of lesson 14, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Piece = tuple[Tensor, Tensor]

# --- the loss of micro-batches ------------------------------------------------------------------------------


def loss_of_pieces(
    pieces: Sequence[Piece],
    pad: int,
    *,
    mean: str = "over all tokens",
    padding: str = "left out",
    mark: str = "given",
    used: str = "all",
    logits: str = "as they are",
    empty: str = "zero",
) -> Tensor:
    """The mean cross-entropy over the real tokens of all pieces, ``(logits (B, T, V), labels (B, T))``."""
    mark_of_padding = pad if mark == "given" else 0
    kept = pieces[-1:] if used == "last" else pieces
    sums, counts, rows = [], [], []
    for given, labels in kept:
        real = labels != mark_of_padding  # (B, T)
        each = _each(given, labels, logits)  # (B, T)
        counted = torch.ones_like(real) if padding == "counted" else real
        sums.append((each * counted).sum() if padding == "counted" else each[real].sum())
        counts.append(labels.numel() if padding in ("counted", "in the number") else int(real.sum()))
        rows.append(len(labels))
    lowest = 1 if empty == "zero" else 0
    total, number = torch.stack(sums), torch.tensor(counts)
    if mean == "of means":
        return (total / number.clamp(min=lowest)).mean()
    if mean == "by rows":
        shares = torch.tensor(rows) / sum(rows)
        return (shares * total / number.clamp(min=lowest)).sum()
    if mean == "sum of means":
        return (total / number.clamp(min=lowest)).sum()
    if mean == "sum":
        return total.sum()
    return total.sum() / number.sum().clamp(min=lowest)


def _each(logits: Tensor, labels: Tensor, how: str) -> Tensor:
    """The loss at each place, ``(B, T)``; at a label that is no class, that of class 0."""
    classes = labels.clamp(min=0)
    if how == "of probabilities":
        logits = logits.softmax(dim=-1)
    return F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")


# --- what Adam remembers ------------------------------------------------------------------------------------


def adam_moves(
    gradients: Sequence[float],
    lr: float,
    clip: float,
    warmup: int,
    *,
    clipped: str = "before",
    correction: str = "both",
    memory: str = "kept",
    root: str = "root",
    warmed: str = "rate",
    start: str = "from one",
    betas: str = "in order",
    sign: str = "down",
    eps: str = "outside",
) -> Tensor:
    """By how much each step of Adam moves one parameter that has these gradients, ``(steps,)``."""
    beta_1, beta_2 = (0.9, 0.98) if betas == "in order" else (0.98, 0.9)
    mean = square = 0.0
    moves = []
    for step, given in enumerate(gradients, start=1):
        g = float(given)
        factor = _factor(step, warmup, start)
        if clipped == "before":
            g = max(-clip, min(clip, g))
        elif clipped == "to the bound":
            g = math.copysign(clip, g) if g else 0.0
        g = g * factor if warmed == "gradient" else g
        mean = beta_1 * mean + (1 - beta_1) * g
        square = beta_2 * square + (1 - beta_2) * g * g
        first = mean / (1 - beta_1**step) if correction in ("both", "mean alone") else mean
        second = square / (1 - beta_2**step) if correction == "both" else square
        if memory == "none":
            first, second = g, g * g
        size = math.sqrt(second) if root == "root" else second
        move = first / (size + 1e-8 if eps == "outside" else math.sqrt(second + 1e-8))
        move = max(-clip, min(clip, move)) if clipped == "the move" else move
        rate = lr if warmed != "rate" else lr * factor
        moves.append(rate * move if sign == "up" else -rate * move)
    return torch.tensor(moves)


def _factor(step: int, warmup: int, start: str) -> float:
    if start == "from zero":
        step -= 1
    elif start == "inverted":
        return max(1.0, warmup / step)
    return min(1.0, step / warmup) if warmup else 1.0


# --- attention with heads, for the tests that are judged ----------------------------------------------------


def attend(
    x: Tensor,
    read: Tensor,
    real: Tensor,
    num_heads: int,
    *,
    axis: str = "keys",
    divisor: str = "head",
    heads: str = "transposed",
    reads: str = "given",
    mask: str = "given",
    masked: str = "before",
    batch: str = "own",
    last_head: str = "as all",
) -> Tensor:
    """Every token of ``x`` (B, T, D) attends to the real ones (B, S) of ``read`` (B, S, D), in each head."""
    read = x[:, :1].expand_as(read) if reads == "x" else read
    read = read.roll(1, dims=0) if batch == "neighbour" else read
    query, key = _split(x, num_heads, heads), _split(read, num_heads, heads)  # (B, H, T or S, d_k)
    width = x.shape[-1] if divisor == "model" else query.shape[-1]
    scores = query @ key.mT / (1.0 if divisor == "none" else math.sqrt(width))  # (B, H, T, S)
    hidden = real[:, None, None] if mask == "inverted" else ~real[:, None, None]  # (B, 1, 1, S)
    if mask == "last token let in":
        last = real.cumsum(dim=1).argmax(dim=1)  # (B,)
        hidden = hidden & (torch.arange(real.shape[1]) != last[:, None] + 1)[:, None, None]
    if mask == "first row for all":
        hidden = hidden[:1]
    if mask != "ignored" and masked == "before":
        scores = scores.masked_fill(hidden, -1e9)
    weights = scores.softmax(dim=-1 if axis == "keys" else -2)
    if masked == "after":
        weights = weights.masked_fill(hidden, 0.0)
    mixed = weights @ key  # (B, H, T, d_k)
    if last_head == "first":
        mixed = torch.cat([mixed[:, :-1], mixed[:, :1]], dim=1)
    return mixed.transpose(1, 2).flatten(2) if heads == "transposed" else mixed.reshape(x.shape)


def _split(x: Tensor, num_heads: int, heads: str) -> Tensor:
    if heads == "transposed":
        parts = x.reshape(*x.shape[:2], num_heads, x.shape[2] // num_heads)  # (B, T, H, d_k)
        return parts.transpose(1, 2)  # (B, H, T, d_k)
    return x.reshape(len(x), num_heads, x.shape[1], -1)  # (B, H, T, d_k), wrongly filled


# --- a training program with three bugs ---------------------------------------------------------------------


def batch_loss(
    weights: Mapping[str, Tensor],
    pieces: Sequence[Piece],
    num_heads: int,
    *,
    shift: str = "next",
    ahead: int = 0,
    places: str = "along the sequence",
    divisor: str = "head",
    axis: str = "keys",
    heads: str = "transposed",
    crossed: str = "source",
    padding: str = "hidden",
    mean: str = "over all tokens",
    counted: str = "real",
) -> Tensor:
    """The loss of a small translator on pieces ``(source (B, S), target (B, T + 1))`` padded with 0."""
    total, number, means = [], [], []
    for source, target in pieces:
        read, asked = _shifted(target, shift)
        memory = _placed(weights["source"][source], weights["place"], places)  # (B, S, D)
        x = _placed(weights["target"][read], weights["place"], places)  # (B, T, D)
        options = {"divisor": divisor, "axis": axis, "heads": heads}
        T = x.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool).tril(ahead)  # (T, T)
        x = x + _mix(x, x, causal, num_heads, **options)
        real = (source != 0)[:, None, None]  # (B, 1, 1, S)
        real = {"hidden": real, "inverted": ~real, "seen": torch.ones_like(real)}[padding]
        if crossed == "target":
            memory, real = x, torch.ones(1, 1, 1, 1, dtype=torch.bool)
        x = x + _mix(x, memory, real, num_heads, **options)
        logits = x @ weights["output"]  # (B, T, V)
        each = F.cross_entropy(logits.transpose(1, 2), asked, reduction="none")  # (B, T)
        kept = torch.ones_like(each) if counted == "all" else (asked != 0).float()
        total.append((each * kept).sum())
        number.append(each.new_tensor(each.numel()) if counted == "all in the mean" else kept.sum())
        means.append(total[-1] / number[-1])
    if mean == "of means":
        return torch.stack(means).mean()
    return torch.stack(total).sum() / torch.stack(number).sum()


def _shifted(target: Tensor, shift: str) -> Piece:
    return {
        "next": (target[:, :-1], target[:, 1:]),
        "zero": (target[:, 1:], target[:, 1:]),
        "same": (target[:, :-1], target[:, :-1]),
        "two": (target[:, :-2], target[:, 2:]),
    }[shift]


def _placed(x: Tensor, table: Tensor, places: str) -> Tensor:
    if places == "none":
        return x
    return x + (table[: x.shape[1]] if places == "along the sequence" else table[: len(x), None])


def _mix(x: Tensor, read: Tensor, mask: Tensor, h: int, *, divisor: str, axis: str, heads: str) -> Tensor:
    query, key = _split(x, h, heads), _split(read, h, heads)  # (B, H, T or S, d_k)
    width = {"head": query.shape[-1], "model": x.shape[-1], "none": 1}[divisor]
    scores = (query @ key.mT / math.sqrt(width)).masked_fill(~mask, -1e9)  # (B, H, T, S)
    mixed = scores.softmax(dim=-1 if axis == "keys" else -2) @ key  # (B, H, T, d_k)
    return mixed.transpose(1, 2).flatten(2) if heads == "transposed" else mixed.reshape(x.shape)
