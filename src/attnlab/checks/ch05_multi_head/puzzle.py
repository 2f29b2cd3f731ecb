"""The attention that is taken apart in lesson 5's exercise "Switch heads off".

Its weights are set by hand, so that it is the same everywhere. It names at each position the token one step
back and the token two steps back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.multihead import MultiHeadAttention

NUM_TOKENS, LENGTH, NUM_HEADS = 16, 12, 4
_D = 16
_TOKEN, _PLACE = slice(0, NUM_TOKENS), slice(NUM_TOKENS, NUM_TOKENS + LENGTH)

# For each head: steps back at which it looks, score there, where it writes (1 or 2 steps back), how loudly.
_HEADS = ((1, 5.0, 1, 1.0), (0, 8.0, 1, 0.0), (2, 4.0, 2, 1.0), (1, 2.2, 1, 0.6))


def as_vectors(tokens: Tensor) -> Tensor:
    """Tokens ``(B, 12)`` as vectors ``(B, 12, 64)``, which hold the token and its place."""
    x = torch.zeros(*tokens.shape, NUM_HEADS * _D)
    x[..., _TOKEN] = torch.nn.functional.one_hot(tokens, NUM_TOKENS).to(x.dtype)
    x[..., _PLACE] = torch.eye(LENGTH, dtype=x.dtype)[: tokens.shape[1]]
    return x


def reporter() -> MultiHeadAttention:
    """The attention, ``(B, 12, 64)`` to ``(B, 12, 64)``.

    In its output, columns 0 to 15 rate the 16 tokens for one step back, columns 16 to 31 for two steps back.
    """
    attention = MultiHeadAttention(NUM_HEADS * _D, NUM_HEADS, bias=False)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        for head, (step, score, target, strength) in enumerate(_HEADS):
            rows = slice(head * _D, (head + 1) * _D)
            places = torch.eye(LENGTH)
            attention.w_q.weight[rows, _PLACE][:LENGTH] = score * _D**0.5 * places
            attention.w_k.weight[rows, _PLACE][:LENGTH] = places.roll(step, dims=0)
            attention.w_v.weight[rows, _TOKEN] = torch.eye(NUM_TOKENS)
            written = slice((target - 1) * NUM_TOKENS, target * NUM_TOKENS)
            attention.w_o.weight[written, rows] = strength * torch.eye(NUM_TOKENS)
    return attention.requires_grad_(False)
