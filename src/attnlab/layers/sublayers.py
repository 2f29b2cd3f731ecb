r"""The parts of a layer beside attention: the norm, the feed-forward network, the residual connection.

.. math::

    \operatorname{LayerNorm}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta
    \qquad \operatorname{FFN}(x) = f(x W_1 + b_1) W_2 + b_2

where :math:`\mu` and :math:`\sigma^2` are the mean and the (biased) variance of one position's vector and
``f`` is ReLU or GELU. A sublayer stands inside a residual connection in one of two ways:

.. math::

    \text{post: } \operatorname{LayerNorm}(x + \operatorname{Sublayer}(x))
    \qquad \text{pre: } x + \operatorname{Sublayer}(\operatorname{LayerNorm}(x))

Widths: ``d_model`` of a token's vector, ``d_ff`` inside the feed-forward network.

Sources: Vaswani et al., "Attention Is All You Need", 2017, sections 3.1 and 3.3 (post-norm); Ba et al.,
"Layer Normalization", 2016; Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020
(pre-norm against post-norm).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Activation", "FeedForward", "PostNorm", "PreNorm", "Residual", "layer_norm"]

Activation = Literal["relu", "gelu"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Shift and scale each position's vector to mean 0 and variance 1, then stretch and shift it as learned.

    The layers use :class:`torch.nn.LayerNorm`, which is the same function, fused.

    Args:
        x: ``(..., d_model)``.
        weight: ``(d_model,)``, the factors; ones where it is left out.
        bias: ``(d_model,)``, what is added last; zeros where it is left out.
        eps: Added to the variance, inside the root, so that a constant vector gives zeros.

    Returns:
        ``(..., d_model)``.

    Source: Ba et al. 2016.
    """
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)  # divided by d_model, not d_model - 1
    normed = centred / (variance + eps).sqrt()
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, for each position by itself.

    Weights start Xavier uniform, biases at zero.

    Args:
        d_model: Width of a token's vector.
        d_ff: Width between the two maps.
        dropout: Share of the inner entries set to zero at random in training mode.
        activation: ``"relu"`` as in the paper, or ``"gelu"`` (the exact one, by the error function).
        bias: Whether the two maps add a bias.

    Raises:
        ValueError: If a width is below 1, the activation is another word, or ``dropout`` lies outside 0 to 1.

    Source: Vaswani et al. 2017, section 3.3; Hendrycks and Gimpel 2016 for GELU.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        activation: Activation = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, width in (("d_model", d_model), ("d_ff", d_ff)):
            if width < 1:
                raise ValueError(f"{name}: expected a width of at least 1, got {width}")
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(_ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.w_1 = nn.Linear(d_model, d_ff, bias=bias)
        self.w_2 = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = _dropout(dropout)
        for linear in (self.w_1, self.w_2):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to ``(..., d_model)``."""
        inner = _ACTIVATIONS[self.activation](self.w_1(x))  # (..., d_ff)
        output: Tensor = self.w_2(self.dropout(inner))
        return output


class Residual(nn.Module):
    """A residual connection with its norm and its dropout; a subclass says where the norm stands."""

    def __init__(self, d_model: int, *, dropout: float = 0.0, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps, bias=bias)
        self.dropout = _dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer is given, ``(..., d_model)``."""
        raise NotImplementedError

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What comes out, where the sublayer made ``y`` of ``x``; all ``(..., d_model)``."""
        raise NotImplementedError

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Send ``x``, ``(..., d_model)``, through the ``sublayer`` and round it; the shape stays."""
        return self.after(x, sublayer(self.before(x)))


class PreNorm(Residual):
    """The norm stands before the sublayer: ``x + dropout(sublayer(norm(x)))``.

    A stack of such layers ends in a norm of its own, since nothing else bounds the sum.

    Args:
        d_model: Width of a token's vector.
        dropout: Share of the sublayer's output set to zero at random in training mode.
        eps: Added to the variance inside the norm's root.
        bias: Whether the norm adds a bias.

    Raises:
        ValueError: If ``dropout`` lies outside 0 to 1.

    Source: Xiong et al. 2020.
    """

    def before(self, x: Tensor) -> Tensor:
        """The norm of ``x``, ``(..., d_model)``."""
        normed: Tensor = self.norm(x)
        return normed

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """``x`` plus the sublayer's output ``y``, ``(..., d_model)``."""
        summed: Tensor = x + self.dropout(y)
        return summed


class PostNorm(Residual):
    """The norm stands after the sum: ``norm(x + dropout(sublayer(x)))``.

    Arguments and errors are those of :class:`PreNorm`.

    Source: Vaswani et al. 2017, sections 3.1 and 5.4.
    """

    def before(self, x: Tensor) -> Tensor:
        """``x`` as it is."""
        return x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """The norm of ``x`` plus the sublayer's output ``y``, ``(..., d_model)``."""
        normed: Tensor = self.norm(x + self.dropout(y))
        return normed


def _dropout(share: float) -> nn.Dropout:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"dropout: expected a probability between 0 and 1, got {share}")
    return nn.Dropout(share)
