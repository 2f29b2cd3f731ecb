"""The two stacks of the Transformer, from vectors to vectors; embeddings are left to the model around them.

Axes: B batch, T target positions, S source positions, H heads.

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.1 and figure 1.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from attnlab.cache import KeyValueCache
from attnlab.layers import DecoderLayer, EncoderLayer
from attnlab.transformer.config import TransformerConfig
from attnlab.transformer.torch_weights import config_from_torch, parts_from_torch

__all__ = ["DecoderCache", "DecoderOutput", "EncoderDecoder", "EncoderOutput"]

_Layer = TypeVar("_Layer", EncoderLayer, DecoderLayer)


class EncoderOutput(NamedTuple):
    """What the encoder's stack computed.

    Attributes:
        output: ``(B, S, d_model)``.
        weights: For each layer the attention weights ``(B, H, S, S)``; None where they were not asked for.
    """

    output: Tensor
    weights: tuple[Tensor, ...] | None


class DecoderOutput(NamedTuple):
    """What the decoder's stack computed.

    Attributes:
        output: ``(B, T, d_model)``.
        self_weights: For each layer the weights among target positions ``(B, H, T, T)``, with a cache over
            all positions held; None where they were not asked for.
        cross_weights: For each layer the weights over the source ``(B, H, T, S)``; None where they were not
            asked for.
    """

    output: Tensor
    self_weights: tuple[Tensor, ...] | None
    cross_weights: tuple[Tensor, ...] | None


class DecoderCache:
    """What the decoder need not compute again while it writes one batch of targets.

    Attributes:
        target: Keys and values of the target positions that were read.
        memory: Keys and values of the source, for the cross-attention: computed at the first call, then kept.
    """

    def __init__(self, num_layers: int) -> None:
        self.target = KeyValueCache(num_layers)
        self.memory = KeyValueCache(num_layers)

    @property
    def length(self) -> int:
        """Number of target positions held."""
        return self.target.length

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order: which beams go on."""
        self.target.select(rows)
        self.memory.select(rows)

    def clear(self) -> None:
        """Forget everything, so that another batch may begin."""
        self.target.clear()
        self.memory.clear()


class EncoderDecoder(nn.Module):
    """Encoder and decoder layers, each stack with the norm at its end that the configuration asks for.

    Every layer is made by itself, so that no two begin with equal weights.

    Args:
        config: Of which the sizes, ``dropout``, ``norm``, ``final_norm`` and ``activation`` are read.

    Attributes:
        encoder_layers: The encoder's layers, the first one first.
        encoder_norm: The norm behind them, or an identity.
        decoder_layers: The decoder's layers.
        decoder_norm: The norm behind them, or an identity.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder_layers = nn.ModuleList(
            _layer(EncoderLayer, config) for _ in range(config.num_encoder_layers)
        )
        self.encoder_norm = _final_norm(config)
        self.decoder_layers = nn.ModuleList(
            _layer(DecoderLayer, config) for _ in range(config.num_decoder_layers)
        )
        self.decoder_norm = _final_norm(config)

    def encode(self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = False) -> EncoderOutput:
        """Send the source's vectors through the encoder.

        Args:
            x: ``(B, S, d_model)``.
            mask: Boolean, True = may attend: ``(S, S)`` or ``(B, S or 1, S)``.
            need_weights: Whether to return the attention weights too.

        Raises:
            ValueError: If shapes do not fit together.
            TypeError: If the mask is not boolean.
        """
        weights = []
        for layer in self.encoder_layers:
            x, attended = layer(x, mask, need_weights=need_weights)
            weights.append(attended)
        return EncoderOutput(self.encoder_norm(x), tuple(weights) if need_weights else None)

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Send the target's vectors through the decoder.

        Args:
            x: ``(B, T, d_model)``; with a cache, the positions that it does not hold yet.
            memory: The encoder's output ``(B, S, d_model)``.
            mask: Among target positions, True = may attend: ``(T, T)`` or ``(B, T or 1, T)``; with a cache
                the last axis is for all positions.
            memory_mask: From target to source, True = may attend: ``(T, S)`` or ``(B, T or 1, S)``.
            cache: Used and filled.
            need_weights: Whether to return both attentions' weights too.

        Raises:
            ValueError: If shapes do not fit together.
            TypeError: If a mask is not boolean.
        """
        self_weights, cross_weights = [], []
        for number, layer in enumerate(self.decoder_layers):
            x, over_target, over_source = layer(
                x,
                memory,
                mask,
                memory_mask,
                cache=None if cache is None else cache.target[number],
                memory_cache=None if cache is None else cache.memory[number],
                need_weights=need_weights,
            )
            self_weights.append(over_target)
            cross_weights.append(over_source)
        output = self.decoder_norm(x)
        if not need_weights:
            return DecoderOutput(output, None, None)
        return DecoderOutput(output, tuple(self_weights), tuple(cross_weights))

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Encode the source, decode the target: ``(B, S, d_model)`` and ``(B, T, d_model)`` to ``(B, T,
        d_model)``.

        ``source_mask`` is for the encoder, ``target_mask`` and ``memory_mask`` are for the decoder: boolean,
        True = may attend. Their shapes and the errors are those of :meth:`encode` and :meth:`decode`.
        """
        memory = self.encode(source, source_mask).output  # (B, S, d_model)
        return self.decode(target, memory, target_mask, memory_mask).output  # (B, T, d_model)

    @classmethod
    def from_torch(cls, theirs: nn.Transformer) -> EncoderDecoder:
        """Copy PyTorch's stacks; the copy shares nothing with them, and is batch-first whatever theirs is.

        PyTorch ends each stack in a norm whether its layers are pre- or post-norm; so does the copy.

        Args:
            theirs: Built of PyTorch's own encoder and decoder.

        Raises:
            TypeError: If it is no :class:`torch.nn.Transformer` of PyTorch's own parts.
            ValueError: If its parts have what ours have not.
        """
        with torch.device("meta"):  # no weights drawn, so that the global generator stays as it is
            ours = cls(config_from_torch(theirs))
        parts = parts_from_torch(theirs)
        ours.encoder_layers, ours.encoder_norm = nn.ModuleList(parts.encoder_layers), parts.encoder_norm
        ours.decoder_layers, ours.decoder_norm = nn.ModuleList(parts.decoder_layers), parts.decoder_norm
        return ours.train(theirs.training)


def _layer(kind: type[_Layer], config: TransformerConfig) -> _Layer:
    return kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=config.dropout,
        norm=config.norm,
        activation=config.activation,
    )


def _final_norm(config: TransformerConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.has_final_norm else nn.Identity()
