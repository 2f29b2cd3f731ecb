"""Right answers to lesson 8's exercises on targets, masks and losses, with a switch for every known mistake.

Axes: B batch, T target positions, S source positions, V tokens known.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100

Encode = Callable[[Tensor, Tensor | None], Tensor]
Decode = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def training_pair(
    targets: Tensor,
    lengths: Tensor,
    bos: int,
    pad: int,
    *,
    read: str = "shifted",
    said: str = "targets",
    hidden: str = "by length",
    returned: str = "inputs, labels",
) -> tuple[Tensor, Tensor]:
    """Targets (B, T) and their lengths (B,) to what is read and what is to be said, (B, T) each."""
    first = torch.full_like(targets[:, :1], bos)  # (B, 1)
    nothing = torch.full_like(first, IGNORED)
    shifted = torch.cat([first, targets[:, :-1]], dim=1)  # (B, T)
    places = torch.arange(targets.shape[1])
    real = {
        "by length": places < lengths[:, None],
        "by value": targets != pad,
        "by value read": shifted != pad,
        "one short": places < lengths[:, None] - 1,
        "one more": places < lengths[:, None] + 1,
        "inverted": places >= lengths[:, None],
        "nothing": torch.ones_like(targets, dtype=torch.bool),
        "first too": (places < lengths[:, None]) & (places > 0),
    }[hidden]
    labels = targets.masked_fill(~real, IGNORED)
    inputs = {
        "shifted": shifted,
        "as it is": targets,
        "rolled": targets.roll(1, dims=1),
        "ahead": torch.cat([targets[:, 1:], first], dim=1),
        "from labels": torch.cat([first, labels[:, :-1]], dim=1),
        "cut": targets[:, :-1],
    }[read]
    labels = {
        "targets": labels,
        "next": torch.cat([labels[:, 1:], nothing], dim=1),
        "cut": labels[:, 1:],
        "what is read": shifted.masked_fill(~real, IGNORED),
    }[said]
    return (inputs, labels) if returned == "inputs, labels" else (labels, inputs)


def token_loss(
    logits: Tensor,
    rows: Tensor,
    pad: int,
    *,
    shift: int = 1,
    counted: str = "real",
    mean: str = "real",
    padding: str = "given",
) -> Tensor:
    """The loss of ``logits`` (B, T, V), said after reading ``rows`` (B, T + 1) up to each position."""
    labels = rows[:, shift:]
    length = min(logits.shape[1], labels.shape[1])
    logits, labels = logits[:, :length], labels[:, :length]
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")  # (B, T)
    real = labels != (pad if padding == "given" else 0)
    if counted == "without the end":
        behind = torch.cat([real[:, 1:], torch.zeros_like(real[:, :1])], dim=1)
        real = real & behind  # the last real token has no real one behind it
    elif counted == "without the first":
        real = real & (torch.arange(length) > 0)
    elif counted == "first sentence":
        each, real = each[:1], real[:1]
    return _mean(each, real, mean)


def _mean(each: Tensor, real: Tensor, mean: str) -> Tensor:
    kept = each * real
    if mean == "all":
        return each.mean()
    if mean == "diluted":
        return kept.mean()
    if mean == "sum":
        return kept.sum()
    if mean == "sentences":
        return (kept.sum(dim=1) / real.sum(dim=1)).mean()
    return kept.sum() / real.sum()


def training_loss(
    encode: Encode,
    decode: Decode,
    source: Tensor,
    rows: Tensor,
    pad: int,
    *,
    encoder_mask: str = "source",
    decoder_mask: str = "causal",
    cross_mask: str = "source",
    shift: str = "once",
    mean: str = "real",
    squash: str = "once",
) -> Tensor:
    """The mean loss of a batch: source (B, S), rows (B, T + 1) from bos to eos."""
    inputs, labels = rows[:, :-1], rows[:, 1:]  # (B, T) each
    if shift == "reads the answer":
        inputs = labels
    elif shift in ("never", "late"):
        labels = inputs
    length = inputs.shape[1]
    known, read = (source != pad)[:, None], (inputs != pad)[:, None]  # (B, 1, S), (B, 1, T)
    triangle = torch.ones(length, length, dtype=torch.bool).tril()  # (T, T)
    mask = read if decoder_mask == "padding" else triangle & read  # (B, 1 or T, T)
    memory = encode(source, known if encoder_mask == "source" else None)
    logits = decode(inputs, memory, mask, {"source": known, "target": read, "none": None}[cross_mask])
    if shift in ("twice", "late"):
        logits, labels = logits[:, :-1], labels[:, 1:]
    if squash == "twice":
        logits = logits.softmax(dim=-1)
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")  # (B, T)
    return _mean(each, labels != pad, mean)
