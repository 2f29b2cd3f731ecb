"""Reading :class:`torch.nn.Transformer`: its sizes as a configuration, its parts as ours."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from torch import nn

from attnlab.layers import DecoderLayer, EncoderLayer
from attnlab.transformer.config import TransformerConfig

__all__ = ["TorchParts", "config_from_torch", "parts_from_torch"]


class TorchParts(NamedTuple):
    """Copies of the parts of an :class:`torch.nn.Transformer`, as ours.

    Attributes:
        encoder_layers: One for each of theirs.
        encoder_norm: The norm behind the encoder, or an identity.
        decoder_layers: One for each of theirs.
        decoder_norm: The norm behind the decoder, or an identity.
    """

    encoder_layers: list[EncoderLayer]
    encoder_norm: nn.Module
    decoder_layers: list[DecoderLayer]
    decoder_norm: nn.Module


def config_from_torch(theirs: nn.Transformer, **fields: Any) -> TransformerConfig:
    """The configuration whose stacks are as large as PyTorch's.

    Args:
        theirs: Built of PyTorch's own encoder and decoder.
        fields: What its stacks do not say, such as the vocabularies. Left out, these are of three tokens, the
            marks alone: enough for stacks without embeddings.

    Raises:
        TypeError: If it is no :class:`torch.nn.Transformer` of PyTorch's own parts.
        ValueError: If a value does not fit, or only one of the stacks ends in a norm.
    """
    _require_own_parts(theirs)
    norms = {stack: getattr(theirs, stack).norm is not None for stack in ("encoder", "decoder")}
    if norms["encoder"] != norms["decoder"]:
        raise ValueError(f"theirs: expected a final norm behind both stacks or none, got {norms}")
    layer = EncoderLayer.from_torch(theirs.encoder.layers[0])
    read: dict[str, Any] = {
        "source_vocab_size": 3,
        "target_vocab_size": 3,
        "d_model": theirs.d_model,
        "num_heads": layer.self_attention.num_heads,
        "d_ff": layer.feed_forward.w_1.out_features,
        "num_encoder_layers": len(theirs.encoder.layers),
        "num_decoder_layers": len(theirs.decoder.layers),
        "dropout": layer.feed_forward.dropout.p,
        "norm": "pre" if theirs.encoder.layers[0].norm_first else "post",
        "final_norm": norms["encoder"],
        "activation": layer.feed_forward.activation,
    }
    return TransformerConfig(**{**read, **fields})


def parts_from_torch(theirs: nn.Transformer) -> TorchParts:
    """Copy PyTorch's layers and final norms; the copies share nothing with them.

    Raises:
        TypeError: If it is no :class:`torch.nn.Transformer` of PyTorch's own parts.
        ValueError: If a layer has what ours has not.
    """
    _require_own_parts(theirs)
    return TorchParts(
        [EncoderLayer.from_torch(layer) for layer in theirs.encoder.layers],
        _copy_norm(theirs.encoder.norm),
        [DecoderLayer.from_torch(layer) for layer in theirs.decoder.layers],
        _copy_norm(theirs.decoder.norm),
    )


def _copy_norm(norm: nn.Module | None) -> nn.Module:
    return nn.Identity() if norm is None else copy.deepcopy(norm)


def _require_own_parts(theirs: object) -> None:
    if not isinstance(theirs, nn.Transformer):
        raise TypeError(f"theirs: expected an nn.Transformer, got {type(theirs).__name__}")
    for stack, kind in ((theirs.encoder, nn.TransformerEncoder), (theirs.decoder, nn.TransformerDecoder)):
        if not isinstance(stack, kind):
            raise TypeError(f"theirs: expected an nn.{kind.__name__} in it, got {type(stack).__name__}")
