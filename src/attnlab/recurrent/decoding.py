"""Greedy decoding: take the likeliest token, hand it back in, until every row has ended."""

import torch
from torch import Tensor

from .encoder_decoder import AttentiveGRUEncoderDecoder, GRUEncoderDecoder

__all__ = ["greedy_decode"]


@torch.no_grad()
def greedy_decode(
    model: GRUEncoderDecoder | AttentiveGRUEncoderDecoder, source: Tensor, *, max_length: int
) -> Tensor:
    """Let the model write the target by itself, one token at a time.

    Args:
        model: a recurrent encoder-decoder.
        source: token ids ``(B, S)``; rows of different lengths end in padding.
        max_length: the most tokens to write.

    Returns:
        Token ids ``(B, <= max_length)`` without ``bos``; what follows ``eos`` in a row is padding.

    Raises:
        ValueError: If ``max_length`` < 1, or the source is not one that the model can read.
    """
    if max_length < 1:
        raise ValueError(f"max_length: expected at least 1, got {max_length}")
    encoded, state = model.encode(source), None
    token = torch.full_like(source[:, :1], model.bos)  # (B, 1)
    finished = torch.zeros_like(token, dtype=torch.bool)  # (B, 1)
    written: list[Tensor] = []
    while len(written) < max_length and not bool(finished.all()):
        decoded = model.decode(token, encoded, state)
        state = decoded.state
        # A row that has ended is still computed with the others, but what it says no longer counts.
        token = decoded.logits[:, -1:].argmax(dim=-1).masked_fill(finished, model.pad)  # (B, 1)
        finished = finished | (token == model.eos)
        written.append(token)
    return torch.cat(written, dim=1)
