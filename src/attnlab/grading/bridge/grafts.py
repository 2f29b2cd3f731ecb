"""Gradients across the bridge: the graph of a result stays on the side that computed it."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Source(Protocol):
    """The side that asks the other one for gradients."""

    def pull(
        self, graph: int, gradients: list[Tensor | None], inputs: list[Tensor]
    ) -> list[Tensor | None]: ...

    def drop(self, graph: int) -> None: ...


class _Link:
    """A graph on the other side; when nobody needs it any more, the other side is told."""

    def __init__(self, source: Source, graph: int) -> None:
        self.source, self.graph = source, graph

    def __del__(self) -> None:
        self.source.drop(self.graph)


class _Graft(torch.autograd.Function):
    """Grows results that came from the other side onto the graph of this side."""

    @staticmethod
    def forward(
        ctx: Any, link: _Link, results: list[Tensor], _: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        # Not kept by save_for_backward, which refuses an input that was changed since: the other side has its
        # own copies, and these serve for second derivatives alone.
        ctx.link, ctx.inputs = link, inputs
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        link: _Link = ctx.link
        pulled = link.source.pull(link.graph, list(gradients), list(ctx.inputs))
        return (None, None, None, *pulled)


def graft(source: Source, graph: int, results: list[Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The results, so that their gradients flow through the other side to ``inputs``."""
    # The anchor asks for a gradient where no input does: the results depend on weights of the other side.
    anchor = torch.empty(0, requires_grad=True)
    grown: tuple[Tensor, ...] = _Graft.apply(  # type: ignore[no-untyped-call]
        _Link(source, graph), results, anchor, *inputs
    )
    return grown


def product(
    outputs: list[Tensor], inputs: list[Tensor], gradients: list[Tensor | None], *, again: bool
) -> list[Tensor | None]:
    """The product of gradients of ``outputs`` with the Jacobian, None where nothing arrives.

    ``again`` keeps a graph of it, for second derivatives.
    """
    pairs = [(one, given) for one, given in zip(outputs, gradients, strict=True) if given is not None]
    asking = [place for place, one in enumerate(inputs) if one.requires_grad]
    found: list[Tensor | None] = [None] * len(inputs)
    if pairs and asking:
        given = torch.autograd.grad(
            [one for one, _ in pairs],
            [inputs[place] for place in asking],
            [gradient for _, gradient in pairs],
            allow_unused=True,
            retain_graph=True,
            create_graph=again,
        )
        for place, gradient in zip(asking, given, strict=True):
            found[place] = gradient
    return found
