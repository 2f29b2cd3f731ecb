r"""The whole Transformer: token ids in, logits out.

A token's vector is its row of the embedding table, times :math:`\sqrt{d_{model}}`, plus its position. At the
far end the decoder's vectors meet the table of target embeddings again (tied output), or a matrix of their
own.

=======  =====================================  =======  ==========================
axis     meaning                                axis     meaning
=======  =====================================  =======  ==========================
``B``    batch                                  ``H``    heads
``S``    source positions                       ``V``    target vocabulary
``T``    target positions                       ``D``    width of a head
=======  =====================================  =======  ==========================

Sources: Vaswani et al., "Attention Is All You Need", 2017, sections 3.1, 3.4, 3.5 and 5.4; Press and Wolf,
"Using the Output Embedding to Improve Language Models", 2017, for the tied output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import causal_mask
from attnlab.positions import LearnedPositions, SinusoidalPositions
from attnlab.transformer.config import TransformerConfig
from attnlab.transformer.stacks import DecoderCache, EncoderDecoder

__all__ = ["Decoded", "Encoded", "Transformer"]


class Encoded(NamedTuple):
    """What the encoder made of a batch of sources.

    Attributes:
        memory: ``(B, S, d_model)``.
        mask: Boolean ``(B, 1, S)``, True = a real token, which the target may attend to.
        weights: For each layer the attention weights ``(B, H, S, S)``; None where they were not asked for.
    """

    memory: Tensor
    mask: Tensor
    weights: tuple[Tensor, ...] | None


class Decoded(NamedTuple):
    """What the decoder made of a batch of targets.

    Attributes:
        logits: ``(B, T, V)``; those at position t are for token t + 1.
        self_weights: For each layer the weights ``(B, H, T, T)``, with a cache over all positions held; None
            where they were not asked for.
        cross_weights: For each layer the weights over the source ``(B, H, T, S)``; None where they were not
            asked for.
    """

    logits: Tensor
    self_weights: tuple[Tensor, ...] | None
    cross_weights: tuple[Tensor, ...] | None


class Transformer(nn.Module):
    r"""The encoder-decoder Transformer of the paper, or what the configuration makes of it.

    Rows of a batch are padded at the end. Source padding is never attended to; target padding needs no mask,
    since causality already hides it from everything before it.

    The row of ``pad`` is zero in every embedding table and stays so, with a tied output too: its logit is
    then the constant 0. Embeddings begin as :math:`\mathcal N(0, 1/d_{model})`, so that scaled they have
    variance 1, as the logits of a tied output have. Matrices begin as Xavier uniform.

    Args:
        config: Sizes and choices.

    Attributes:
        config: The same.
        embeddings: One table for both languages if shared, else the source's and the target's.
        stacks: The encoder and the decoder.
        output: The output projection, without a bias; None where it is tied.

    Source: Vaswani et al. 2017.
    """

    pad_row: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        # A shared table stands in the list once, so that a checkpoint holds it once.
        sizes = [config.source_vocab_size]
        if not config.share_embeddings:
            sizes.append(config.target_vocab_size)
        self.embeddings = nn.ModuleList(_embedding(size, config) for size in sizes)
        self.source_positions = _positions(config)
        self.target_positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.stacks = EncoderDecoder(config)
        self.output: nn.Linear | None = None
        if not config.tie_output:
            self.output = nn.Linear(config.d_model, config.target_vocab_size, bias=False)
            nn.init.xavier_uniform_(self.output.weight)
        self.register_buffer("pad_row", torch.tensor([config.pad]), persistent=False)

    @property
    def source_embedding(self) -> nn.Embedding:
        """The table of source embeddings, ``(source_vocab_size, d_model)``."""
        table = self.embeddings[0]
        assert isinstance(table, nn.Embedding)
        return table

    @property
    def target_embedding(self) -> nn.Embedding:
        """The table of target embeddings, ``(target_vocab_size, d_model)``; the source's if shared."""
        table = self.embeddings[-1]
        assert isinstance(table, nn.Embedding)
        return table

    def new_cache(self) -> DecoderCache:
        """An empty cache for :meth:`decode`, good for one batch of sources."""
        return DecoderCache(self.config.num_decoder_layers)

    def encode(self, source: Tensor, *, need_weights: bool = False) -> Encoded:
        """Read the source.

        Args:
            source: Token ids ``(B, S)``, padded with ``pad``.
            need_weights: Whether to return the attention weights too.

        Raises:
            TypeError: If the ids are not integers.
            ValueError: If the shape is not ``(B, S)``, S is above ``max_length``, or an id lies outside the
                vocabulary.
        """
        self._check_tokens("source", source, self.config.source_vocab_size)
        mask = (source != self.config.pad)[:, None, :]  # (B, 1, S)
        x = self._embed(source, self.source_embedding, self.source_positions, offset=0)  # (B, S, d_model)
        memory, weights = self.stacks.encode(x, mask, need_weights=need_weights)
        return Encoded(memory, mask, weights)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        *,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> Decoded:
        """Read the target as far as it is known, and say at each position what may come next.

        Args:
            target: Token ids ``(B, T)`` that begin with ``bos``; with a cache, those that it does not hold
                yet.
            memory: ``(B, S, d_model)`` from :meth:`encode`.
            memory_mask: Boolean ``(B, 1, S)`` from :meth:`encode`.
            cache: From :meth:`new_cache`; used and filled.
            need_weights: Whether to return both attentions' weights too.

        Raises:
            TypeError: If the ids are not integers.
            ValueError: If shapes do not fit together, the target is longer than ``max_length``, or an id lies
                outside the vocabulary.
        """
        held = 0 if cache is None else cache.length
        self._check_tokens("target", target, self.config.target_vocab_size, held)
        if memory.shape[0] != target.shape[0]:
            raise ValueError(
                f"memory: expected one for each of the B = {target.shape[0]} targets, "
                f"got {tuple(memory.shape)}"
            )
        x = self._embed(target, self.target_embedding, self.target_positions, offset=held)  # (B, T, d_model)
        num_new = target.shape[1]
        mask = None  # one token alone is the newest, and sees all that came before it
        if num_new > 1:
            mask = causal_mask(num_new, held + num_new).to(x.device)  # (T, held + T)
        x, self_weights, cross_weights = self.stacks.decode(
            x, memory, mask, memory_mask, cache=cache, need_weights=need_weights
        )
        return Decoded(self._logits(x), self_weights, cross_weights)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits ``(B, T, V)`` for the tokens after each of the target's, given the source ``(B, S)``.

        Args:
            source: Token ids ``(B, S)``.
            target: Token ids ``(B, T)``, one step behind the labels
                (:func:`~attnlab.transformer.teacher_forcing_pair`).

        Raises:
            TypeError: If the ids are not integers.
            ValueError: As in :meth:`encode` and :meth:`decode`.
        """
        encoded = self.encode(source)
        return self.decode(target, encoded.memory, encoded.mask).logits

    def _embed(self, tokens: Tensor, table: nn.Module, positions: nn.Module, *, offset: int) -> Tensor:
        """Scaled embeddings plus positions, after dropout: ``(B, T)`` to ``(B, T, d_model)``."""
        scaled = table(tokens) * math.sqrt(self.config.d_model)  # section 3.4
        dropped: Tensor = self.dropout(positions(scaled, offset=offset))  # section 5.4
        return dropped

    def _logits(self, x: Tensor) -> Tensor:
        """``(B, T, d_model)`` to ``(B, T, V)``."""
        if self.output is not None:
            logits: Tensor = self.output(x)
            return logits
        # The table's own zero gradient for pad does not reach its second use, so the row is cut off here.
        return F.linear(x, self.target_embedding.weight.index_fill(0, self.pad_row, 0.0))

    def _check_tokens(self, name: str, tokens: Tensor, vocab_size: int, held: int = 0) -> None:
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name}: expected token ids of type int64 or int32, got {tokens.dtype}")
        if tokens.ndim != 2 or tokens.numel() == 0:
            raise ValueError(f"{name}: expected (B, length) token ids, got shape {tuple(tokens.shape)}")
        length = held + tokens.shape[1]
        if length > self.config.max_length:
            raise ValueError(
                f"{name}: expected at most max_length = {self.config.max_length} tokens, got {length}"
            )
        smallest, largest = int(tokens.min()), int(tokens.max())
        if smallest < 0 or largest >= vocab_size:
            wrong = smallest if smallest < 0 else largest
            raise ValueError(f"{name}: expected ids from 0 to {vocab_size - 1}, the vocabulary, got {wrong}")


class _NoPositions(nn.Module):
    """Leaves the embeddings as they are: the tokens become a bag, but for the causal mask."""

    def forward(self, embeddings: Tensor, *, offset: int = 0) -> Tensor:
        """``(B, T, d_model)``, unchanged."""
        return embeddings


def _positions(config: TransformerConfig) -> nn.Module:
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.d_model, config.max_length)
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_length)
    return _NoPositions()


def _embedding(vocab_size: int, config: TransformerConfig) -> nn.Embedding:
    table = nn.Embedding(vocab_size, config.d_model, padding_idx=config.pad)
    with torch.no_grad():
        table.weight.normal_(std=config.d_model**-0.5)
        table.weight[config.pad] = 0.0
    return table
