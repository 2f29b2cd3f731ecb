"""A trained Transformer with a part taken away: what the page of the live translator does, done by PyTorch.

Each function returns a copy and leaves the model as it is. What is taken away in training would be learnt
around; here it is missing from a model that has learnt to use it.

Axes: B batch, T target positions, S source positions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.multihead import MultiHeadAttention
from attnlab.transformer import Decoded, Transformer, TransformerConfig

__all__ = ["WithoutCausalMask", "attention_of", "single_parts", "taken_away"]

Where = Literal["encoder", "self", "cross"]


class _Prefix:
    """The target as far as it is written: without the causal mask nothing else can be kept."""

    def __init__(self) -> None:
        self.tokens: Tensor | None = None  # (B, T)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        assert self.tokens is not None
        self.tokens = self.tokens[rows]


class WithoutCausalMask(Transformer):
    """The Transformer whose decoder lets every place of the target see all the others.

    Its searches read the whole beginning again for each token. Arguments and errors are those of
    :class:`~attnlab.transformer.Transformer`.
    """

    @classmethod
    def like(cls, model: Transformer) -> WithoutCausalMask:
        """A copy of a model's weights, in evaluation mode."""
        with torch.device("meta"):  # no weights drawn, so that the global generator stays as it is
            other = cls(model.config)
        other.__dict__.update(copy.deepcopy(model).__dict__)
        return other.eval()

    def new_cache(self) -> Any:
        """An empty beginning."""
        return _Prefix()

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        *,
        cache: Any = None,
        need_weights: bool = False,
    ) -> Decoded:
        """As the model does, but each of the T places sees all T; with a cache all that it holds are read."""
        if cache is not None:
            target = target if cache.tokens is None else torch.cat((cache.tokens, target), dim=1)
            cache.tokens = target
        x = self._embed(target, self.target_embedding, self.target_positions, offset=0)  # (B, T, d_model)
        x, self_weights, cross_weights = self.stacks.decode(
            x, memory, None, memory_mask, need_weights=need_weights
        )
        return Decoded(self._logits(x), self_weights, cross_weights)


def attention_of(model: Transformer, where: Where, layer: int) -> MultiHeadAttention:
    """An attention of a model: of the encoder, or the decoder's own or its cross-attention."""
    layers = model.stacks.encoder_layers if where == "encoder" else model.stacks.decoder_layers
    attention = getattr(layers[layer], "cross_attention" if where == "cross" else "self_attention")
    assert isinstance(attention, MultiHeadAttention)
    return attention


@torch.no_grad()
def taken_away(model: Transformer, ablation: Mapping[str, Any]) -> Transformer:
    """A copy of a model without what is named.

    Args:
        model: any Transformer with heads of width D.
        ablation: ``heads``, a list of ``{"where", "layer", "head"}``, which then add nothing;
            ``crossLayers``, decoder layers that look at no source; and ``positions``, ``scale`` (the division
            by the root of D) and ``causal`` (the mask), each taken away where it is False.

    Returns:
        A model that computes without them, in evaluation mode.

    Raises:
        ValueError: if something else is named.
    """
    if unknown := set(ablation) - {"heads", "crossLayers", "positions", "scale", "causal"}:
        raise ValueError(f"ablation: expected parts that can be taken away, got {sorted(unknown)}")
    masked = ablation.get("causal", True)
    left = copy.deepcopy(model).eval() if masked else WithoutCausalMask.like(model)
    for head in ablation.get("heads", ()):
        attention = attention_of(left, head["where"], head["layer"])
        width = attention.d_head
        attention.w_o.weight[:, head["head"] * width : (head["head"] + 1) * width] = 0.0
    for layer in ablation.get("crossLayers", ()):
        attention = attention_of(left, "cross", layer)
        attention.w_o.weight.zero_()
        attention.w_o.bias.zero_()
    if not ablation.get("positions", True):
        for positions in (left.source_positions, left.target_positions):
            for table in (*positions.buffers(), *positions.parameters()):
                table.zero_()
    if not ablation.get("scale", True):
        _undo_scale(left)
    return left


def _undo_scale(model: Transformer) -> None:
    """Queries that are as much longer as the division makes the scores smaller."""
    for attention in model.modules():
        if isinstance(attention, MultiHeadAttention):
            for parameter in attention.w_q.parameters():
                parameter.mul_(math.sqrt(attention.d_head))


def single_parts(config: TransformerConfig) -> dict[str, dict[str, Any]]:
    """Every part that can be taken away, each by a name such as ``"self 0 3"`` (layer 0, head 3)."""
    parts: dict[str, dict[str, Any]] = {}
    counts = {
        "encoder": config.num_encoder_layers,
        "self": config.num_decoder_layers,
        "cross": config.num_decoder_layers,
    }
    for where, count in counts.items():
        for layer in range(count):
            for head in range(config.num_heads):
                parts[f"{where} {layer} {head}"] = {"heads": [{"where": where, "layer": layer, "head": head}]}
    for layer in range(config.num_decoder_layers):
        parts[f"cross {layer}"] = {"crossLayers": [layer]}
    return parts | {switch: {switch: False} for switch in ("positions", "scale", "causal")}
