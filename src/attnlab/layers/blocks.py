"""The layers of the encoder and the decoder: sublayers in their order, each inside its residual connection.

Axes: B batch, T positions of the sequence that is read or written, S positions that are attended to, H heads.

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.1 and figure 1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.layers.sublayers import Activation, FeedForward, PostNorm, PreNorm, Residual
from attnlab.multihead import KeyValueStore, MultiHeadAttention, Rotation

__all__ = ["DecoderLayer", "DecoderLayerOutput", "EncoderLayer", "EncoderLayerOutput", "Norm"]

Norm = Literal["pre", "post"]

_RESIDUALS: dict[str, type[Residual]] = {"pre": PreNorm, "post": PostNorm}
TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


class EncoderLayerOutput(NamedTuple):
    """What an :class:`EncoderLayer` computed.

    Attributes:
        output: ``(..., T, d_model)``.
        weights: Attention weights ``(..., H, T, S)``; None where they were not asked for.
    """

    output: Tensor
    weights: Tensor | None


class DecoderLayerOutput(NamedTuple):
    """What a :class:`DecoderLayer` computed.

    Attributes:
        output: ``(..., T, d_model)``.
        self_weights: Weights among the target's positions ``(..., H, T, T)``, with a cache over all positions
            held; None where they were not asked for.
        cross_weights: Weights over the memory ``(..., H, T, S)``; None where they were not asked for.
    """

    output: Tensor
    self_weights: Tensor | None
    cross_weights: Tensor | None


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network. With a causal mask, the block of a decoder-only model.

    Args:
        d_model: Width of a token's vector.
        num_heads: Number of heads.
        d_ff: Width inside the feed-forward network.
        num_kv_heads: Number of heads of keys and values; ``num_heads`` where it is left out.
        dropout: On the attention weights, inside the feed-forward network and on each sublayer's output.
        norm: ``"post"`` as in the paper, or ``"pre"``.
        activation: ``"relu"`` or ``"gelu"``.
        eps: Added to the variance inside a norm's root.
        bias: Whether linear maps and norms add a bias.

    Raises:
        ValueError: If an argument is out of its range or another word than those named.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        norm: Norm = "post",
        activation: Activation = "relu",
        eps: float = 1e-5,
        bias: bool = True,
    ) -> None:
        super().__init__()
        residual = _residual_class(norm)
        self.self_attention = MultiHeadAttention(
            d_model, num_heads, num_kv_heads=num_kv_heads, dropout=dropout, bias=bias
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout, activation=activation, bias=bias)
        self.around_self = residual(d_model, dropout=dropout, eps=eps, bias=bias)
        self.around_feed_forward = residual(d_model, dropout=dropout, eps=eps, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        rotate: Rotation | None = None,
        score_bias: Tensor | None = None,
        cache: KeyValueStore | None = None,
        need_weights: bool = False,
    ) -> EncoderLayerOutput:
        """Send a sequence through the layer.

        Arguments after ``x``, ``(..., T, d_model)``, and errors are those of
        :meth:`attnlab.multihead.MultiHeadAttention.forward`.

        Returns:
            The output ``(..., T, d_model)`` with the weights ``(..., H, T, S)``.
        """
        attended = self.self_attention(
            self.around_self.before(x),
            mask=mask,
            rotate=rotate,
            score_bias=score_bias,
            cache=cache,
            need_weights=need_weights,
        )
        x = self.around_self.after(x, attended.output)
        return EncoderLayerOutput(self.around_feed_forward(x, self.feed_forward), attended.weights)

    @classmethod
    def from_torch(cls, theirs: nn.TransformerEncoderLayer) -> EncoderLayer:
        """Copy PyTorch's layer; the copy shares nothing with it. Ours is batch-first whatever theirs is.

        Raises:
            TypeError: If it is no :class:`torch.nn.TransformerEncoderLayer`.
            ValueError: If its activation is not ReLU or exact GELU, or its dropouts differ.
        """
        _require_type(theirs, nn.TransformerEncoderLayer)
        with torch.device("meta"):  # no weights drawn, so that the global generator stays as it is
            ours = cls(**_sizes_of(theirs))
        ours.self_attention = MultiHeadAttention.from_torch(theirs.self_attn)
        _copy_rest(ours, theirs, (ours.around_self, ours.around_feed_forward), (theirs.norm1, theirs.norm2))
        return ours.train(theirs.training)


class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention over the memory, then the feed-forward network.

    Arguments and errors are those of :class:`EncoderLayer`.

    Source: Vaswani et al. 2017, sections 3.1 and 3.2.3.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        norm: Norm = "post",
        activation: Activation = "relu",
        eps: float = 1e-5,
        bias: bool = True,
    ) -> None:
        super().__init__()
        residual = _residual_class(norm)
        self.self_attention = MultiHeadAttention(
            d_model, num_heads, num_kv_heads=num_kv_heads, dropout=dropout, bias=bias
        )
        self.cross_attention = MultiHeadAttention(
            d_model, num_heads, num_kv_heads=num_kv_heads, dropout=dropout, bias=bias
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout, activation=activation, bias=bias)
        self.around_self = residual(d_model, dropout=dropout, eps=eps, bias=bias)
        self.around_cross = residual(d_model, dropout=dropout, eps=eps, bias=bias)
        self.around_feed_forward = residual(d_model, dropout=dropout, eps=eps, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        cache: KeyValueStore | None = None,
        memory_cache: KeyValueStore | None = None,
        need_weights: bool = False,
    ) -> DecoderLayerOutput:
        """Send the target through the layer.

        Args:
            x: The target ``(..., T, d_model)``.
            memory: The encoder's output ``(..., S, d_model)``.
            mask: For the self-attention; broadcasts to ``(..., T, T)``, with a cache over all positions held.
            memory_mask: For the cross-attention; broadcasts to ``(..., T, S)``. The target's mask has no say
                there.
            cache: Keys and values of the target's earlier positions; ``x`` holds the newest ones.
            memory_cache: Keys and values of the memory: empty at the first call, which fills it. Later calls
                use what it holds, and look at nothing of the memory but its length.
            need_weights: False leaves the weights out and uses the fused kernel.

        Returns:
            The output ``(..., T, d_model)`` with both attentions' weights.

        Raises:
            TypeError: If a mask is not boolean, or types differ.
            ValueError: If shapes do not fit together, or ``memory_cache`` holds a memory of another length.
        """
        attended = self.self_attention(
            self.around_self.before(x), mask=mask, cache=cache, need_weights=need_weights
        )
        x = self.around_self.after(x, attended.output)
        crossed = self.cross_attention(
            self.around_cross.before(x),
            _not_yet_held(memory, memory_cache),
            mask=memory_mask,
            cache=memory_cache,
            need_weights=need_weights,
        )
        x = self.around_cross.after(x, crossed.output)
        output = self.around_feed_forward(x, self.feed_forward)
        return DecoderLayerOutput(output, attended.weights, crossed.weights)

    @classmethod
    def from_torch(cls, theirs: nn.TransformerDecoderLayer) -> DecoderLayer:
        """Copy PyTorch's layer; the copy shares nothing with it. Ours is batch-first whatever theirs is.

        Raises:
            TypeError: If it is no :class:`torch.nn.TransformerDecoderLayer`.
            ValueError: If its activation is not ReLU or exact GELU, or its dropouts differ.
        """
        _require_type(theirs, nn.TransformerDecoderLayer)
        with torch.device("meta"):
            ours = cls(**_sizes_of(theirs))
        ours.self_attention = MultiHeadAttention.from_torch(theirs.self_attn)
        ours.cross_attention = MultiHeadAttention.from_torch(theirs.multihead_attn)
        _copy_rest(
            ours,
            theirs,
            (ours.around_self, ours.around_cross, ours.around_feed_forward),
            (theirs.norm1, theirs.norm2, theirs.norm3),
        )
        return ours.train(theirs.training)


def _residual_class(norm: str) -> type[Residual]:
    if norm not in _RESIDUALS:
        raise ValueError(f"norm: expected one of {', '.join(_RESIDUALS)}, got {norm!r}")
    return _RESIDUALS[norm]


def _not_yet_held(memory: Tensor, cache: KeyValueStore | None) -> Tensor:
    """The part of the memory whose keys and values are still to be computed: all of it, or nothing."""
    if cache is None or cache.length == 0:
        return memory
    if cache.length != memory.shape[-2]:
        raise ValueError(
            f"memory_cache: expected it empty or with the S = {memory.shape[-2]} positions of the memory, "
            f"got {cache.length}"
        )
    return memory[..., :0, :]


def _sizes_of(theirs: TorchLayer) -> dict[str, Any]:
    """What our constructor needs to make the layer that PyTorch's is."""
    linear = theirs.linear1
    dropouts = {
        theirs.self_attn.dropout,
        *(part.p for part in theirs.children() if isinstance(part, nn.Dropout)),
    }
    if len(dropouts) > 1:
        raise ValueError(f"theirs: expected one share of dropout for the layer, got {sorted(dropouts)}")
    return {
        "d_model": linear.in_features,
        "num_heads": theirs.self_attn.num_heads,
        "d_ff": linear.out_features,
        "dropout": dropouts.pop(),
        "norm": "pre" if theirs.norm_first else "post",
        "activation": _activation_of(theirs),
        "eps": theirs.norm1.eps,
        "bias": linear.bias is not None,
    }


def _activation_of(theirs: TorchLayer) -> str:
    activation = theirs.activation
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    raise ValueError(f"theirs: expected an activation of ReLU or exact GELU, got {activation}")


def _copy_rest(
    ours: EncoderLayer | DecoderLayer,
    theirs: TorchLayer,
    residuals: tuple[Residual, ...],
    norms: tuple[nn.LayerNorm, ...],
) -> None:
    """Copy what is not attention: type, device and numbers."""
    weight = theirs.linear1.weight
    for part in (ours.feed_forward, *residuals):
        part.to(weight.dtype).to_empty(device=weight.device)
    ours.feed_forward.w_1.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.w_2.load_state_dict(theirs.linear2.state_dict())
    for residual, norm in zip(residuals, norms, strict=True):
        residual.norm.load_state_dict(norm.state_dict())


def _require_type(theirs: object, expected: type[nn.Module]) -> None:
    if not isinstance(theirs, expected):
        raise TypeError(f"theirs: expected an nn.{expected.__name__}, got {type(theirs).__name__}")
