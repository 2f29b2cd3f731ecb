"""Right answers of lesson 7, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own are in ``attnlab.layers``; the tests hold the two together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.layers import FeedForward
from attnlab.multihead import MultiHeadAttention

Function = Callable[[Tensor], Tensor]

# --- the norm -----------------------------------------------------------------------------------------------

_AXES = {"width": (-1,), "positions": (-2,), "positions and width": (-2, -1), "batch": (0,)}


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float = 1e-5,
    *,
    over: str = "width",
    variance: str = "mean of squared distances",
    eps_at: str = "inside the root",
    root: str = "root",
    centred: bool = True,
    affine: str = "weight, then bias",
    learns: str = "through all",
) -> Tensor:
    """The layer norm of ``x`` (..., d_model) with ``weight`` and ``bias``, both (d_model,)."""
    axes = _AXES[over]
    mean = x.mean(dim=axes, keepdim=True)
    if learns == "not through mean and variance":
        mean = mean.detach()
    if variance == "mean of squares less squared mean":
        spread = x.square().mean(dim=axes, keepdim=True) - mean.square()
    elif variance == "about zero":
        spread = x.square().mean(dim=axes, keepdim=True)
    else:
        spread = (x - mean).square().mean(dim=axes, keepdim=True)
    if variance == "unbiased":
        spread = x.var(dim=axes, keepdim=True)
    if learns == "not through mean and variance":
        spread = spread.detach()
    eps = 1e-5 if eps_at == "inside, always the same" else eps
    spread = spread + (eps if eps_at.startswith("inside") else 0.0)
    divisor = spread.sqrt() if root == "root" else spread
    divisor = divisor + (eps if eps_at == "outside the root" else 0.0)
    normed = (x - mean if centred else x) / divisor
    return {
        "weight, then bias": normed * weight + bias,
        "bias, then weight": (normed + bias) * weight,
        "no weight": normed + bias,
        "no bias": normed * weight,
        "weight from one": normed * (1 + weight) + bias,
    }[affine]


class LayerNorm(nn.Module):
    """The norm with its two vectors; the constructor's keywords turn mistakes on."""

    def __init__(self, d_model: int, eps: float = 1e-5, *, start: str = "neutral", **switches: Any) -> None:
        super().__init__()
        zeros, ones = torch.zeros(d_model), torch.ones(d_model)
        self.weight = nn.Parameter({"zeros": zeros, "random": torch.randn(d_model)}.get(start, ones))
        self.bias = nn.Parameter(zeros.clone())
        self._eps, self._switches = eps, switches

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to the same shape."""
        return layer_norm(x, self.weight, self.bias, self._eps, **self._switches)


# --- the blocks ---------------------------------------------------------------------------------------------


class Block(nn.Module):
    """An encoder block; the keywords say where each thing stands, and turn mistakes on.

    ``norm_at`` is "after the sum" in post-norm and "before f" in pre-norm.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        *,
        norm_at: str = "after the sum",
        residual: str = "both",
        added_to: str = "stream",
        network_reads: str = "stream",
        norms: str = "own",
        order: str = "attention, network",
        masking: str = "given",
        dropped: str = "f",
        when: str = "training",
    ) -> None:
        super().__init__()
        in_attention = dropout if dropped in ("inside", "inside alone", "inside attention") else 0.0
        in_network = dropout if dropped in ("inside", "inside alone", "inside network") else 0.0
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout=in_attention)
        self.feed_forward = FeedForward(d_model, d_ff, dropout=in_network)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self._norm_at, self._residual, self._added_to = norm_at, residual, added_to
        self._network_reads, self._norms, self._order = network_reads, norms, order
        self._masking, self._dropout, self._dropped, self._when = masking, dropout, dropped, when

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``x`` (B, T, d_model) with a mask (T, T) or (B, T, T) to the same shape."""
        if mask is not None and self._masking != "given":
            mask = None if self._masking == "ignored" else ~mask
        start = x
        parts = ["attention", "network"]
        for step, part in enumerate(parts if self._order == "attention, network" else parts[::-1]):
            second = step == 1
            read = start if second and self._network_reads == "start" else x
            base = start if second and self._added_to == "start" else x
            x = self._around(part, base, read, mask)
        return x

    def _around(self, part: str, base: Tensor, read: Tensor, mask: Tensor | None) -> Tensor:
        norm, at = self._norm(part), self._norm_at
        if at == "before f, sum of the normed":
            base = read = norm(read)
        elif at in ("before f", "before f and after the sum"):
            read = norm(read)
        y = self.drop(self.given_by(part, self.drop(read, "read", part), mask), "f", part)
        y = norm(y) if at == "after f" else y
        total = base + y if self._residual in ("both", part) else y
        total = self.drop(total, "sum", part)
        return norm(total) if at in ("after the sum", "before f and after the sum") else total

    def given_by(self, part: str, x: Tensor, mask: Tensor | None) -> Tensor:
        """What attention or the network makes of ``x`` (B, T, d_model)."""
        if part == "network":
            return self.feed_forward(x)  # type: ignore[no-any-return]
        return self.self_attention(x, mask=mask).output  # type: ignore[no-any-return]

    def _norm(self, part: str) -> Function:
        first = (part == "attention") != (self._norms == "swapped")
        if self._norms == "no second" and part == "network":
            return nn.Identity()
        return self.norm_1 if first or self._norms == "first twice" else self.norm_2

    def drop(self, tensor: Tensor, place: str, part: str) -> Tensor:
        """Dropout, if this is where and when this block has it; the check puts its own here."""
        active = {"training": self.training, "always": True, "never": False, "evaluation": not self.training}
        here = self._dropped if self._dropped in ("sum", "read", "inside alone") else "f"
        if place != here or not active[self._when] or self._dropout == 0.0:
            return tensor
        if self._dropped == "f of attention" and part == "network":
            return tensor
        if self._dropped == "f, not rescaled":
            return tensor * (torch.rand_like(tensor) >= self._dropout)
        return nn.functional.dropout(tensor, self._dropout)


def post_norm_block(*sizes: Any, **keywords: Any) -> Block:
    """The paper's block."""
    return Block(*sizes, **keywords)


def pre_norm_block(*sizes: Any, **keywords: Any) -> Block:
    """The block that norms what attention and network read."""
    return Block(*sizes, **{"norm_at": "before f", **keywords})


class Encoder(nn.Module):
    """A pre-norm stack with a norm at its end; ``made`` and ``ends`` and the block's keywords spoil it."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        depth: int,
        *,
        made: str = "one by one",
        ends: str = "last norm",
        masked: str = "every layer",
        **switches: Any,
    ) -> None:
        super().__init__()

        def layer() -> Block:
            return pre_norm_block(d_model, num_heads, d_ff, **switches)

        layers = [layer() for _ in range(depth)]
        if made == "one object":
            layers = layers[:1] * depth
        elif made == "copies":
            layers = [copy.deepcopy(layers[0]) for _ in layers]
        self.layers = nn.ModuleList(layers)
        self.last_norm = nn.LayerNorm(d_model)
        self._ends, self._masked = ends, masked

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``x`` (B, T, d_model) with a mask (T, T) or (B, T, T) to the same shape."""
        for number, layer in enumerate(self.layers):
            x = layer(x, mask if self._masked == "every layer" or number == 0 else None)
        return self.last_norm(x) if self._ends == "last norm" else x


# --- the probe ----------------------------------------------------------------------------------------------

_LENGTHS: dict[str, Callable[[Tensor], Tensor]] = {
    "length": lambda g: g.norm(),
    "squared": lambda g: g.square().sum(),
    "absolute values": lambda g: g.abs().sum(),
    "root mean square": lambda g: g.square().mean().sqrt(),
    "largest": lambda g: g.abs().max(),
    "plain sum": lambda g: g.sum(),
    "mean of tokens": lambda g: g.norm(dim=-1).mean(),
    "first sequence": lambda g: g[0].norm(),
}


def gradient_by_layer(
    layers: Sequence[Function],
    x: Tensor,
    direction: Tensor,
    *,
    length: str = "length",
    end: str = "direction",
    order: str = "first layer first",
    kept: str = "all",
    relative: str = "no",
    through: str = "the whole stack",
) -> Tensor:
    """Length of the gradient at the input of each layer, and at the end: (depth + 1,)."""
    stream = [x.detach().clone().requires_grad_()]  # (B, T, d_model) each
    for layer in layers:
        stream.append(layer(stream[-1]))
    gradients = _gradients(stream, direction, end)
    if through == "each layer alone":
        gradients = [*_alone(layers, stream, direction), direction]
    lengths = torch.stack([_LENGTHS[length](gradient) for gradient in gradients])
    if relative != "no":
        lengths = lengths / lengths[-1 if relative == "to the end" else 0]
    lengths = {"all": lengths, "no end": lengths[:-1], "no start": lengths[1:]}[kept]
    return lengths if order == "first layer first" else lengths.flip(0)


def _alone(layers: Sequence[Function], stream: list[Tensor], direction: Tensor) -> list[Tensor]:
    """The gradient of each layer as if it were the last one."""
    found: list[Tensor] = []
    for layer, given in zip(layers, stream, strict=False):
        leaf = given.detach().requires_grad_()
        found += torch.autograd.grad((layer(leaf) * direction).sum(), leaf)
    return found


def _gradients(stream: list[Tensor], direction: Tensor, end: str) -> list[Tensor]:
    last = stream[-1]
    if end == "every layer":
        total = torch.stack([(x * direction).sum() for x in stream[1:]]).sum()
    else:
        total = {
            "direction": (last * direction).sum(),
            "ones": last.sum(),
            "squares": last.square().sum(),
            "mean": (last * direction).mean(),
        }[end]
    return list(torch.autograd.grad(total, stream))
