"""Programs whose links are known, for lesson 4's exercise "Who depends on whom".

Each maps inputs (B, T, D) to outputs (B, T', D'). A table of links (T', T) says which outputs depend on which
inputs; the programs differ in how such a link may be overlooked.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compare import normal

Program = Callable[[Tensor], Tensor]


def links(g: torch.Generator, *sizes: int) -> Tensor:
    """A table of links (..., T', T), some of them zero: every row has both, and no two rows are alike."""
    num_outputs, num_inputs = sizes[-2:]
    order = torch.rand(sizes[:-2] + (num_inputs,), generator=g).argsort(dim=-1)
    rows = torch.stack([order.roll(t, dims=-1) for t in range(num_outputs)], dim=-2)
    return (rows < 2) * (0.5 + torch.rand(*sizes, generator=g))  # (..., T', T)


def mixture(links: Tensor, readout: Tensor) -> Program:
    """(B, T, D) to (B, T', D'): outputs mix the inputs as the links say."""
    return lambda x: torch.tanh(links @ x @ readout)


def balanced(links: Tensor, readout: Tensor) -> Program:
    """The numbers of each output sum to zero."""

    def function(x: Tensor) -> Tensor:
        mixed = torch.tanh(links @ x @ readout)  # (B, T', D')
        return torch.cat([mixed, -mixed], dim=-1)

    return function


def shares(links: Tensor) -> Program:
    """The two numbers of each output are positive and sum to 1."""

    def function(x: Tensor) -> Tensor:
        share = (links @ x.mean(dim=-1, keepdim=True)).sigmoid()  # (B, T', 1)
        return torch.cat([share, 1.0 - share], dim=-1)

    return function


def hands(links: Tensor) -> Program:
    """Each output is a vector of length 1."""

    def function(x: Tensor) -> Tensor:
        angle = links @ x.mean(dim=-1, keepdim=True)  # (B, T', 1)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)

    return function


def differences(links: Tensor) -> Program:
    """Only differences of an input's numbers matter; the first one of them does not."""
    return lambda x: links @ (x[..., 1:2] - x[..., 2:3])


def signed(links: Tensor) -> Program:
    """The same links in both sequences, with opposite signs."""
    signs = torch.tensor([[[1.0]], [[-1.0]]])
    return lambda x: _whole_batch(signs, x) * (links @ x[..., :1])


def second_number(links: Tensor) -> Program:
    """The second number of an output depends on the second one of an input, and nothing else on anything."""
    return lambda x: torch.cat([torch.zeros_like(x[:, : len(links), :1]), links @ x[..., 1:2]], dim=-1)


def negative(links: Tensor, size: float) -> Program:
    return lambda x: -size * (links @ x.sum(dim=-1, keepdim=True))


def own_links(links: Tensor) -> Program:
    """Links (B, T', T), those of each sequence, or (T', T) for all."""
    return lambda x: (_whole_batch(links, x) if links.dim() == 3 else links) @ x


def _whole_batch(own: Tensor, x: Tensor) -> Tensor:
    """What each sequence has of its own, if all sequences are there."""
    if len(x) != len(own):
        raise ValueError(f"this function is made for {len(own)} sequences, but x has {len(x)}")
    return own


def causal_attention(num_queries: int) -> Program:
    """The last ``num_queries`` outputs of causal attention."""

    def function(x: Tensor) -> Tensor:
        length = x.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()[-num_queries:]
        return F.scaled_dot_product_attention(x[:, -num_queries:], x.flip(-1), x, causal)

    return function


def readout(g: torch.Generator) -> Tensor:
    return normal(g, 3, 2) / 2


def only_second(g: torch.Generator) -> Tensor:
    """Links (2, 3, 5) of two sequences: each has some that the other has not."""
    table = links(g, 3, 5)
    return torch.stack([table, table.roll(1, dims=-1)])
