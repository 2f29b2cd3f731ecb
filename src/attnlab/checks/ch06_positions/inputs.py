"""Inputs of lesson 6's exercises, what is seen of a module, and the scores that two layouts share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..answers import Answer, outcome_of
from ..compare import normal
from .references import rotate

WEIGHTS = ("w_q", "w_k", "w_v")


def module_probes(g: torch.Generator) -> list[Any]:
    return [
        ({"d_model": 6, "max_length": 12}, normal(g, 2, 5, 6), 0),
        ({"d_model": 7, "max_length": 12}, normal(g, 3, 4, 7), 0),
        ({"d_model": 5, "max_length": 12}, normal(g, 2, 4, 5), 3),
        ({"d_model": 4, "max_length": 9}, normal(g, 2, 5, 4), 4),
        ({"d_model": 4, "max_length": 9}, normal(g, 2, 5, 4), 5),
        ({"d_model": 4, "max_length": 5}, normal(g, 2, 6, 4), 0),
        ({"d_model": 6, "max_length": 9}, normal(g, 2, 5, 6).half(), 1),
    ]


def added(answer: Any, sizes: dict[str, int], x: Tensor, *offset: int) -> Any:
    """What a module with these sizes makes of ``x`` from this offset on, in evaluation."""
    return Answer(answer.build(sizes).eval())(x, *offset)


def observe_module(answer: Any, sizes: dict[str, int], x: Tensor, offset: int) -> tuple[Any, ...]:
    """Whether it can be made, whether something is learnt, and the result, or the name of the error."""
    built = outcome_of(answer.build, sizes)
    if built.error is not None:
        return (False,)
    module = built.value
    outcome = outcome_of(Answer(module.eval()), x, offset)
    learnt = any(parameter.requires_grad for parameter in module.parameters())
    if x.dtype == torch.float16:  # two right programs differ in the last digit of this format
        return True, learnt, outcome.error, getattr(outcome.value, "dtype", None) == x.dtype
    return True, learnt, outcome.error, outcome.value


def observe_turned(answer: Any, heads: Tensor, positions: Tensor, pairs: Tensor) -> Any:
    """The turned heads; of half precision, whether they are that still, and near which turn they are."""
    turned = answer(heads, positions, pairs)
    if heads.dtype != torch.float16 or type(turned) is not Tensor or turned.shape != heads.shape:
        return turned
    turns = (rotate(heads, positions, pairs, numbers=numbers) for numbers in ("kept", "angles rounded"))
    # Near on the whole: two programs that do the same differ in the last digits of this format.
    near = [bool((turned.double() - turn.double()).abs().mean() < 0.05) for turn in turns]
    return turned.dtype == heads.dtype, *near


def interleaved(width: int) -> Tensor:
    """The pairs (0, 1), (2, 3), ... as ``(D/2, 2)``."""
    return torch.arange(width).view(-1, 2)


def half_split(width: int) -> Tensor:
    """The pairs (0, D/2), (1, D/2 + 1), ... as ``(D/2, 2)``."""
    return torch.arange(width).view(2, -1).T.contiguous()


def placed_heads(g: torch.Generator, *sizes: int, latest: int = 40) -> tuple[Tensor, Tensor]:
    """Heads ``(B, H, T, D)``, and positions ``(B, T)`` that rise differently in each sequence."""
    B, _H, T, _D = sizes
    steps = torch.randint(1, 4, (B, T), generator=g)
    starts = torch.randint(2, max(latest - 3 * T, 3), (B, 1), generator=g) + torch.arange(B)[:, None]
    return normal(g, *sizes), starts + steps.cumsum(dim=1)


def trained_weights(g: torch.Generator, num_heads: int, d_head: int, d_model: int) -> tuple[Any, ...]:
    """Three weights ``(H D, d_model)`` as ``nn.Linear`` keeps them, and the number of heads."""
    width = num_heads * d_head
    return *(normal(g, width, d_model) / d_model**0.5 for _ in WEIGHTS), num_heads


def rotary_scores(x: Tensor, w_q: Tensor, w_k: Tensor, positions: Tensor, pairs: Tensor) -> Tensor:
    """Scores ``(B, H, T, T)`` of ``x`` (B, T, d_model) under rotary positions."""
    B, T, _ = x.shape
    query, key = (
        rotate((x @ w.T).view(B, T, -1, 2 * len(pairs)).transpose(1, 2), positions, pairs) for w in (w_q, w_k)
    )
    return query @ key.transpose(-2, -1)


def rotate_probes(g: torch.Generator) -> list[Any]:
    """Heads, positions and pairs: both layouts, and late positions in half precision."""
    return [
        (*placed_heads(g, 3, 2, 4, 8), interleaved(8)),
        (*placed_heads(g, 2, 3, 5, 6), half_split(6)),
        (*placed_heads(g, 2, 3, 4, 6), interleaved(6)),
        late_and_half(g),
    ]


def late_and_half(g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Heads in half precision, at positions of which it has every other one alone, and pairs in any order."""
    heads, positions = placed_heads(g, 2, 3, 5, 8)
    return heads.half(), positions + 3000, torch.randperm(8, generator=g).view(4, 2)
