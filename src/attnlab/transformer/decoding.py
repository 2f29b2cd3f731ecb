r"""Decoding: from a source to the target that the model finds likely, token by token.

Both searches feed back one token at a time and keep the keys and values of earlier ones. Neither ever
predicts ``pad`` or ``bos``: padding is no word, and the logit of a token that is never a label means nothing.
The probabilities are those of the other tokens, and sum to 1 over them.

Axes: B batch, S source positions, K beams, V target vocabulary, L tokens predicted.

Sources: greedy search is folklore; beam search as in Vaswani et al. 2017, section 6.1, with another penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from attnlab.transformer.beams import BeamResult, Beams
from attnlab.transformer.config import TransformerConfig

__all__ = ["Translator", "beam_search", "greedy_decode"]


class _Cache(Protocol):
    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""


class _Encoded(Protocol):
    @property
    def memory(self) -> Tensor:
        """``(B, S, d_model)``."""

    @property
    def mask(self) -> Tensor:
        """Boolean ``(B, 1, S)``, True = may attend."""


class _Decoded(Protocol):
    @property
    def logits(self) -> Tensor:
        """``(B, T, V)``."""


CacheT = TypeVar("CacheT", bound=_Cache)


class Translator(Protocol[CacheT]):
    """What the searches need of a model; :class:`~attnlab.transformer.Transformer` has it."""

    @property
    def config(self) -> TransformerConfig:
        """Of which ``pad``, ``bos``, ``eos`` and ``max_length`` are read."""

    def modules(self) -> Iterator[nn.Module]:
        """The model and its parts, whose training modes are put back after the search."""

    def eval(self) -> object:
        """Turn dropout off."""

    def encode(self, source: Tensor) -> _Encoded:
        """Read the source ``(B, S)`` once."""

    def new_cache(self) -> CacheT:
        """Make an empty cache for one search."""

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor, *, cache: CacheT) -> _Decoded:
        """Read the newest tokens of the ``target``, ``(B, T)``; those before them are in the ``cache``.

        ``memory`` and ``memory_mask`` are what :meth:`encode` made of the source.
        """


@torch.no_grad()
def greedy_decode(model: Translator[CacheT], source: Tensor, *, max_length: int) -> Tensor:
    """Take the likeliest next token, again and again, until each row has ended.

    A row that has ended gets ``pad``, and the search stops once all have.

    Args:
        model: Put into evaluation for the search; its training modes are put back afterwards.
        source: Token ids ``(B, S)``, padded at the end.
        max_length: The most tokens to predict, ``eos`` among them; at most the model's own.

    Returns:
        Token ids ``(B, L)`` with ``L <= max_length``: without ``bos``, with ``eos``, and ``pad`` behind it. A
        row that does not end within ``max_length`` has no ``eos``.

    Raises:
        ValueError: If ``max_length`` is below 1 or above the model's, or the source does not fit the model.
        TypeError: If the source holds no integers.
    """
    config = model.config
    _check_max_length(max_length, config)
    with _in_evaluation(model):
        encoded, cache = model.encode(source), model.new_cache()
        newest = source.new_full((source.shape[0],), config.bos)  # (B,)
        finished = torch.zeros_like(newest, dtype=torch.bool)  # (B,)
        columns: list[Tensor] = []
        while len(columns) < max_length and not (columns and bool(finished.all())):
            log_probs = _next_log_probs(model, newest, encoded.memory, encoded.mask, cache)  # (B, V)
            newest = log_probs.argmax(dim=-1).masked_fill(finished, config.pad)
            finished = finished | (newest == config.eos)
            columns.append(newest)
    return torch.stack(columns, dim=1)  # (B, L)


@torch.no_grad()
def beam_search(
    model: Translator[CacheT], source: Tensor, *, beam_size: int, max_length: int, length_penalty: float = 1.0
) -> BeamResult:
    r"""Follow the K likeliest beginnings at once, and rank what comes of them.

    At each step every beginning is continued by every token, and of all these the K likeliest are taken.
    Those that end in ``eos`` are set aside as finished and never continued; the others are the next
    beginnings. Of the finished ones the best K are kept. The search of a row stops when there are K of them
    and no beginning scores higher than the worst as it stands, or nothing is left to continue, or at
    ``max_length``. With a penalty of 0 nothing better can then come; with another one a beginning may still
    rise as it grows, and is not waited for. A beam of 1 is greedy search.

    The score of a hypothesis of n tokens, ``eos`` among them, is

    .. math:: \frac{\log P(y_1, \dots, y_n \mid \text{source})}{n^{\text{length\_penalty}}}

    0 ranks by probability, which favours short answers; 1 by the mean for each token. The score ranks what is
    finished: beginnings are of one length, so among them it makes no difference. (The paper
    uses the penalty of Wu et al. 2016, which divides by ``((5 + n) / 6) ** alpha`` instead.)

    Args:
        model: Put into evaluation for the search; its training modes are put back afterwards.
        source: Token ids ``(B, S)``, padded at the end.
        beam_size: Number of beams K.
        max_length: The most tokens to predict, ``eos`` among them; at most the model's own.
        length_penalty: Power of the length that log-probabilities are divided by; 0 or more.

    Returns:
        Tokens ``(B, K, L)``, scores ``(B, K)`` and which are finished ``(B, K)``, the best first.

    Raises:
        ValueError: If a number is out of range, or the source does not fit the model.
        TypeError: If the source holds no integers.
    """
    config = model.config
    _check_max_length(max_length, config)
    if beam_size < 1:
        raise ValueError(f"beam_size: expected at least 1, got {beam_size}")
    if not 0.0 <= length_penalty < math.inf:
        raise ValueError(f"length_penalty: expected a number of 0 or more, got {length_penalty}")
    with _in_evaluation(model):
        encoded, cache = model.encode(source), model.new_cache()
        copies = torch.arange(source.shape[0], device=source.device).repeat_interleave(beam_size)  # (B * K,)
        memory, memory_mask = encoded.memory[copies], encoded.mask[copies]
        beams = Beams(encoded.memory, config, beam_size, max_length, length_penalty)
        for _ in range(max_length):
            log_probs = _next_log_probs(model, beams.newest(), memory, memory_mask, cache)  # (B * K, V)
            cache.select(beams.advance(log_probs))
            if beams.all_stopped():
                break
    return beams.result()


def _next_log_probs(
    model: Translator[CacheT], newest: Tensor, memory: Tensor, memory_mask: Tensor, cache: CacheT
) -> Tensor:
    """Log-probabilities of what follows the newest token ``(B,)``: ``(B, V)``, for pad and bos -inf."""
    logits = model.decode(newest[:, None], memory, memory_mask, cache=cache).logits[:, -1]  # (B, V)
    never = torch.tensor([model.config.pad, model.config.bos], device=logits.device)
    return logits.index_fill(-1, never, -math.inf).log_softmax(dim=-1)


@contextmanager
def _in_evaluation(model: Translator[CacheT]) -> Iterator[None]:
    # Each part's own mode is put back: somebody may train a model with one part in evaluation.
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _check_max_length(max_length: int, config: TransformerConfig) -> None:
    if not 1 <= max_length <= config.max_length:
        raise ValueError(
            f"max_length: expected 1 to {config.max_length}, the max_length of the model, got {max_length}"
        )
