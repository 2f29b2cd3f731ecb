"""What lesson 9's checks hand to an answer: models in tables, batches, the weights of a small model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.tasks import BOS, EOS, PAD

from ..engine import normal
from . import loop
from .references import NextLogProbs

V = 7  # padding, begin, end and four words


def two_words(g: torch.Generator) -> NextLogProbs:
    """P(E) = .5, P(A) = .4, P(C) = .1; after A comes B, after B and C the end; the words in any order."""
    a, b, c, _ = (torch.randperm(4, generator=g) + EOS + 1).tolist()
    log_probs = torch.full((V, V), -math.inf)
    log_probs[BOS, [EOS, a, c]] = torch.tensor([0.5, 0.4, 0.1]).log()
    log_probs[[a, b, c], [b, EOS, EOS]] = 0.0
    return lambda beginnings: log_probs[beginnings[:, -1]]


def late(g: torch.Generator) -> NextLogProbs:
    """P(E) = .3, P(A) = .6; after A comes B with .9 or the end, after B the end: two end before A B E."""
    a, b, c, _ = (torch.randperm(4, generator=g) + EOS + 1).tolist()
    log_probs = torch.full((V, V), -math.inf)
    log_probs[BOS, [EOS, a, c]] = torch.tensor([0.3, 0.6, 0.1]).log()
    log_probs[a, [b, EOS]] = torch.tensor([0.9, 0.1]).log()
    log_probs[[b, c], EOS] = 0.0
    return lambda beginnings: log_probs[beginnings[:, -1]]


def crowded(g: torch.Generator) -> NextLogProbs:
    """P(E) = .40, P(A) = .35, P(C) = .25; then A B (.55) or A D (.45), A B x, A D E and C F E.

    By the mean a beam of 2 finds A D E; C F E would be better, but C is third when E ends. B leads to little.
    """
    a, b, c, d, f = (torch.randperm(6, generator=g)[:5] + EOS + 1).tolist()
    log_probs = torch.full((9, 9), -math.inf)
    log_probs[BOS, [EOS, a, c]] = torch.tensor([0.40, 0.35, 0.25]).log()
    log_probs[a, [b, d]] = torch.tensor([0.55, 0.45]).log()
    log_probs[b, [EOS, a, c, f]] = torch.tensor([0.28, 0.24, 0.24, 0.24]).log()
    log_probs[[d, c, f], [EOS, f, EOS]] = 0.0
    return lambda beginnings: log_probs[beginnings[:, -1]]


def language(g: torch.Generator, *, ends: float = 0.0, spread: float = 1.0, V: int = V) -> NextLogProbs:
    """A random model of the last two tokens and of the place; it never predicts padding or the begin."""
    last, before = 1.5 * spread * normal(g, V, V), 0.8 * spread * normal(g, V, V)
    place = 0.3 * normal(g, 32, V)
    place[:, EOS] += ends
    place[:, [PAD, BOS]] = -math.inf

    def next_log_probs(beginnings: Tensor) -> Tensor:
        one_before = beginnings[:, -2] if beginnings.shape[1] > 1 else beginnings[:, -1]
        logits = last[beginnings[:, -1]] + before[one_before] + place[beginnings.shape[1]]  # (N, V)
        return logits.log_softmax(dim=-1)

    return next_log_probs


def table(g: torch.Generator, *rows: list[int]) -> Tensor:
    """Logits (B, V, V) of models that say these rows; whatever else they are asked is random."""
    table = normal(g, len(rows), V, V)
    for number, row in enumerate(rows):
        for token, following in zip([BOS, *row], row, strict=False):
            table[number, token, following] = 4.0
    return table


def batch(g: torch.Generator, *shape: int, pad: int = 0, classes: int = 9) -> tuple[Tensor, Tensor]:
    """Logits (B, T, V) and targets (B, T), padded at the end: one row full, one of nothing but padding."""
    B, T = shape
    logits = 1.5 * normal(g, B, T, classes)
    targets = torch.randint(classes - 1, shape, generator=g)
    targets = targets + (targets >= pad)  # every number but that of padding
    lengths = torch.randint(1, T, (B, 1), generator=g)  # (B, 1)
    lengths[0], lengths[-1] = T, 0
    return logits, targets.masked_fill(torch.arange(T) >= lengths, pad)


def training(
    g: torch.Generator, *lengths: int, padded: bool = True, scale: float = 0.7
) -> tuple[Any, list[tuple[Tensor, Tensor]]]:
    """Weights of a small model, and for each length T a batch: sources (4, T - 2) and targets (4, T)."""
    model = loop.SmallTranslator(8, 11, 5)
    weights = {name: scale * normal(g, *tensor.shape) for name, tensor in model.state_dict().items()}
    batches = []
    for length in lengths:
        source = torch.randint(4, 8, (4, length - 2), generator=g)
        target = torch.randint(4, 11, (4, length), generator=g)
        target[:, 0], target[:, -1] = BOS, EOS
        if padded:
            for row, end in enumerate((length - 3, length - 2, length - 3)):
                target[row, end], target[row, end + 1 :], source[row, end - 1 :] = EOS, PAD, PAD
        batches.append((source, target))
    return weights, batches
