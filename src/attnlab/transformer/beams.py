"""What a beam search holds: the beginnings that go on, and the hypotheses that are finished.

Axes: B batch, K beams, V target vocabulary, L tokens.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.transformer.config import TransformerConfig

__all__ = ["BeamResult", "Beams"]


class BeamResult(NamedTuple):
    """The hypotheses of a beam search, the best first: finished ones by score, then unfinished ones by score.

    Attributes:
        tokens: ``(B, K, L)`` without ``bos``, with ``eos``, and ``pad`` behind it.
        scores: ``(B, K)``: log-probability in nats divided by ``n ** length_penalty``, n being the number of
            tokens with ``eos``. Minus infinity where there are fewer hypotheses than beams; such a row is all
            ``pad``.
        finished: Boolean ``(B, K)``, whether the hypothesis ended with ``eos`` rather than at ``max_length``.
    """

    tokens: Tensor
    scores: Tensor
    finished: Tensor


class Beams:
    """The beginnings of every row that go on, and the hypotheses that are finished.

    Args:
        memory: ``(B, S, d_model)``, whose number of rows, type and device are taken.
        config: Of which ``pad``, ``bos`` and ``eos`` are read.
        beam_size: Number of beams K.
        max_length: The most tokens of a hypothesis.
        length_penalty: Power of the length that log-probabilities are divided by.
    """

    def __init__(
        self,
        memory: Tensor,
        config: TransformerConfig,
        beam_size: int,
        max_length: int,
        length_penalty: float,
    ) -> None:
        self.config, self.length_penalty, self.step = config, length_penalty, 0
        shape = (memory.shape[0], beam_size)
        self.tokens = torch.full((*shape, max_length), config.pad, device=memory.device)  # (B, K, L)
        # One beginning is there at first, the empty one; K copies of it would stay copies for ever.
        self.log_probs = memory.new_full(shape, -math.inf)  # (B, K)
        self.log_probs[:, 0] = 0.0
        self.done_tokens = self.tokens.clone()  # (B, K, L)
        self.done_scores = torch.full_like(self.log_probs, -math.inf)  # (B, K)

    def newest(self) -> Tensor:
        """The token that each beginning ends in, ``(B * K,)``."""
        if self.step == 0:
            return self.tokens.new_full((self.log_probs.numel(),), self.config.bos)
        return self.tokens[:, :, self.step - 1].flatten()

    def advance(self, log_probs: Tensor) -> Tensor:
        """Continue by one token, given ``(B * K, V)``; which row each beginning came from, ``(B * K,)``."""
        num_rows, beam_size = self.log_probs.shape
        vocab_size = log_probs.shape[-1]
        total = self.log_probs[:, :, None] + log_probs.view(num_rows, beam_size, vocab_size)  # (B, K, V)
        self.log_probs, place = total.flatten(1).topk(beam_size)  # both (B, K)
        parent, token = place // vocab_size, place % vocab_size
        self.tokens = _take(self.tokens, parent)
        self.tokens[:, :, self.step] = token
        self.step += 1
        self._set_aside(token == self.config.eos)
        first_row = torch.arange(num_rows, device=parent.device)[:, None] * beam_size  # (B, 1)
        return (first_row + parent).flatten()

    def _set_aside(self, ended: Tensor) -> None:
        """Move what has ended ``(B, K)`` to the finished, of which the best K stay."""
        ended_scores = self._scores().masked_fill(~ended, -math.inf)  # (B, K)
        scores = torch.cat((self.done_scores, ended_scores), dim=1)  # (B, 2K)
        tokens = torch.cat((self.done_tokens, self.tokens), dim=1)  # (B, 2K, L)
        self.done_scores, best = scores.topk(self.done_scores.shape[1])  # (B, K)
        self.done_tokens = _take(tokens, best)
        worst = self.done_scores[:, -1:]  # (B, 1), minus infinity while fewer than K are finished
        running = self._scores().masked_fill(ended, -math.inf)  # (B, K)
        decided = (running <= worst).all(dim=1, keepdim=True)  # (B, 1)
        self.log_probs = self.log_probs.masked_fill(ended | decided, -math.inf)

    def _scores(self) -> Tensor:
        return self.log_probs / math.pow(self.step, self.length_penalty)  # (B, K)

    def all_stopped(self) -> bool:
        """Whether nothing is left to continue."""
        return not bool(self.log_probs.isfinite().any())

    def result(self) -> BeamResult:
        """Finished hypotheses by score, then the beginnings that ``max_length`` cut off, by score."""
        beam_size = self.done_scores.shape[1]
        running, order = self._scores().sort(dim=1, descending=True)  # (B, K)
        scores = torch.cat((self.done_scores, running), dim=1)  # (B, 2K)
        tokens = torch.cat((self.done_tokens, _take(self.tokens, order)), dim=1)  # (B, 2K, L)
        real = scores.isfinite()  # (B, 2K)
        finished = real & (torch.arange(2 * beam_size, device=scores.device) < beam_size)
        # Each half is in order already: bring what is real to the front, and keep its order.
        front = real.byte().argsort(dim=1, descending=True, stable=True)[:, :beam_size]  # (B, K)
        real = real.gather(1, front)  # (B, K)
        return BeamResult(
            _take(tokens, front).masked_fill(~real[:, :, None], self.config.pad)[:, :, : self.step],
            scores.gather(1, front),
            finished.gather(1, front),
        )


def _take(tokens: Tensor, beams: Tensor) -> Tensor:
    """The tokens ``(B, *, L)`` of these beams ``(B, K)``: ``(B, K, L)``."""
    return tokens.gather(1, beams[:, :, None].expand(-1, -1, tokens.shape[-1]))
