r"""BERT's encoder, built of this course's layers, and the names that its published weights have.

.. math:: x_p = \operatorname{LayerNorm}(E_{token} + P_p + S_0)

goes through post-norm layers with GELU. ``E`` is the table of tokens, ``P`` of positions, and ``S`` marks the
first and the second text of a pair; here there is one text, so ``S_0`` is added everywhere.

Axes: B batch, T positions, H heads, L layers. Source: Devlin et al. 2019, section 3.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.layers import EncoderLayer
from attnlab.pretrained.files import MINILM_SHA256, read_weights

__all__ = ["EncoderConfig", "TextEncoder", "TextEncoderOutput", "load_encoder"]

#: What the published files call each part of a layer, and what it is called here.
_LAYER_NAMES = {
    "attention.self.query": "self_attention.w_q",
    "attention.self.key": "self_attention.w_k",
    "attention.self.value": "self_attention.w_v",
    "attention.output.dense": "self_attention.w_o",
    "attention.output.LayerNorm": "around_self.norm",
    "intermediate.dense": "feed_forward.w_1",
    "output.dense": "feed_forward.w_2",
    "output.LayerNorm": "around_feed_forward.norm",
}
_NAMES = {
    "embeddings.word_embeddings": "tokens",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
}
#: In the files, and of no use to a sentence encoder: a table of 0, 1, 2, ..., and a head for another task.
_UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of an encoder.

    Attributes:
        vocab_size: rows of the table of tokens.
        max_length: rows of the table of positions.
        d_model: width of a token's vector.
        num_heads: heads in each layer, H.
        d_ff: width inside the feed-forward network.
        num_layers: L.
        eps: added to the variance inside a norm's root.
    """

    vocab_size: int
    max_length: int
    d_model: int
    num_heads: int
    d_ff: int
    num_layers: int
    eps: float = 1e-12

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> EncoderConfig:
        """The sizes that a published ``config.json`` states.

        Raises:
            ValueError: if it describes another kind of model.
        """
        stated = json.loads(Path(path).read_text(encoding="utf-8"))
        for name, wanted in (("model_type", "bert"), ("hidden_act", "gelu")):
            if stated.get(name) != wanted:
                raise ValueError(f"path: expected {name} = {wanted!r}, got {stated.get(name)!r}")
        if stated.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError(f"path: expected absolute positions, got {stated['position_embedding_type']!r}")
        return cls(
            stated["vocab_size"],
            stated["max_position_embeddings"],
            stated["hidden_size"],
            stated["num_attention_heads"],
            stated["intermediate_size"],
            stated["num_hidden_layers"],
            stated["layer_norm_eps"],
        )


class TextEncoderOutput(NamedTuple):
    """What a :class:`TextEncoder` computed.

    Attributes:
        output: the last layer's ``(B, T, d_model)``.
        states: what each layer was given, and the output: L + 1 tensors ``(B, T, d_model)``.
        weights: attention weights ``(L, B, H, T, T)``.
    """

    output: Tensor
    states: tuple[Tensor, ...]
    weights: Tensor


class TextEncoder(nn.Module):
    """Tokens to vectors, each of which knows the whole text.

    Args:
        config: the sizes.

    Source: Devlin et al. 2019, section 3.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length, config.d_model)
        self.segments = nn.Embedding(2, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=config.eps)
        self.layers = nn.ModuleList(
            EncoderLayer(
                config.d_model, config.num_heads, config.d_ff, norm="post", activation="gelu", eps=config.eps
            )
            for _ in range(config.num_layers)
        )

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> TextEncoderOutput:
        """Read texts.

        Args:
            tokens: ``(B, T)``, numbers of pieces.
            mask: Boolean ``(B, 1, T)``, True = a real token, as :func:`attnlab.attention.padding_mask` gives.

        Raises:
            ValueError: if the texts are longer than the table of positions.
        """
        length = tokens.shape[-1]
        if length > self.config.max_length:
            raise ValueError(f"tokens: expected at most {self.config.max_length} positions, got {length}")
        places = self.positions.weight[:length] + self.segments.weight[0]  # (T, d_model)
        states, weights = [self.norm(self.tokens(tokens) + places)], []
        for layer in self.layers:
            result = layer(states[-1], mask, need_weights=True)
            states.append(result.output)
            weights.append(result.weights)
        return TextEncoderOutput(states[-1], tuple(states), torch.stack(weights))

    def load_published(self, published: Mapping[str, Tensor]) -> None:
        """Take over weights under the names that BERT's files give them.

        Raises:
            ValueError: if a tensor is missing, has a name that is not known, or another shape.
        """
        renamed = {_renamed(name): tensor for name, tensor in published.items() if name not in _UNUSED}
        own = {name: tuple(tensor.shape) for name, tensor in self.state_dict().items()}
        given = {name: tuple(tensor.shape) for name, tensor in renamed.items()}
        for name in sorted(own.keys() | given.keys()):
            if own.get(name) != given.get(name):
                raise ValueError(
                    f"published: expected {name} of shape {own.get(name)}, got {given.get(name)}"
                )
        self.load_state_dict(renamed)


def _renamed(name: str) -> str:
    """Our name for a published tensor; a name that is not known stays as it is."""
    part, _, last = name.rpartition(".")
    if part in _NAMES:
        return f"{_NAMES[part]}.{last}"
    pieces = part.split(".", 3)  # encoder.layer.NUMBER.part
    if pieces[:2] == ["encoder", "layer"] and pieces[-1] in _LAYER_NAMES:
        return f"layers.{pieces[2]}.{_LAYER_NAMES[pieces[3]]}.{last}"
    return name


def load_encoder(folder: str | os.PathLike[str], *, sha256: str = MINILM_SHA256) -> TextEncoder:
    """The encoder in a model's folder, in evaluation mode.

    Args:
        folder: holds ``config.json`` and ``model.safetensors``.
        sha256: what the file of weights must have as its digest; that of all-MiniLM-L6-v2 where it is left
            out.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the weights are not the ones expected, or do not fit.
    """
    folder = Path(folder)
    published = read_weights(folder / "model.safetensors", sha256)
    with torch.device("meta"):  # no weights drawn, so that the global generator stays as it is
        encoder = TextEncoder(EncoderConfig.read(folder / "config.json"))
    encoder.to_empty(device="cpu")
    encoder.load_published(published)
    return encoder.eval()
