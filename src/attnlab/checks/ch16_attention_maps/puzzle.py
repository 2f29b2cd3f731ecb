"""What lesson 16's exercises look into: a model with parameters chosen by hand, and maps with one sink."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import causal_mask, masked_softmax

__all__ = ["SINK", "TOKENS", "encode", "hand_made", "mystery_maps"]

TOKENS = ("^", *"abcdef", *"01234567")
SINK = {"layer": 1, "head": 2, "key": 3}

_WEIGHTS = (0.66, 0.80, 0.71, 0.75, 0.62, 0.78)  # what later queries give the sink


def encode(text: str) -> Tensor:
    """The numbers ``(1, T)`` of a text such as ``"^ a 3 b 7 a"``."""
    return torch.tensor([[TOKENS.index(token) for token in text.split()]])


def hand_made(tokens: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A reader of notes in two layers of one head each, whose parameters were chosen by hand.

    Args:
        tokens: ``(B, T)``.
        mask: Boolean ``(T, T)``, True = may attend; causal where it is left out.

    Returns:
        Logits over the eight digits ``(B, T, 8)`` and maps ``(2, B, T, T)``.
    """
    length = tokens.shape[1]
    mask = causal_mask(length) if mask is None else mask
    named = F.one_hot(tokens, len(TOKENS)).float()  # (B, T, V)
    before = torch.diag(torch.ones(length - 1), -1)  # (T, T): the token before
    first = masked_softmax((12 * before).expand(len(tokens), -1, -1), mask)  # (B, T, T)
    carried = first @ named  # (B, T, V)
    fits = named[..., 1:7] @ carried[..., 1:7].transpose(-2, -1)  # (B, T, T)
    scores = 12 * fits + 6 * named[..., 0][:, None, :]  # the start mark fits everything a little
    second = masked_softmax(scores, mask)  # (B, T, T)
    return 9 * (second @ named)[..., 7:], torch.stack([first, second])


def mystery_maps() -> Tensor:
    """Maps ``(2, 3, 10, 10)``, layers and heads of one text: one head has a sink, others look as if."""
    length = 10
    mask = causal_mask(length)
    g = torch.Generator().manual_seed(16)
    previous = masked_softmax(8 * torch.diag(torch.ones(length - 1), -1), mask)
    even = mask / mask.sum(dim=-1, keepdim=True)
    itself = masked_softmax(5 * torch.eye(length), mask)
    content = masked_softmax(3 * torch.randn(length, length, generator=g), mask)
    loud = even.clone()
    loud[9] = 0.05 / 9
    loud[9, 6] = 0.95
    sink = even.clone()
    sink[3] = torch.tensor([0.3, 0.3, 0.3, 0.1, 0, 0, 0, 0, 0, 0])
    for t, weight in enumerate(_WEIGHTS, start=4):
        sink[t, : t + 1] = (1 - weight) / t
        sink[t, 3] = weight
    return torch.stack([torch.stack([previous, even, itself]), torch.stack([content, loud, sink])])
