"""The exercise that asks for a test of layer norms: right ones, wrong ones, and a test that knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..tasks import Call, Mistake
from . import references
from .inputs import far_stream, norm_parameters, stream

Norm = Callable[..., Tensor]


def judge_probes(g: torch.Generator) -> list[Any]:
    """Tokens of four kinds: plain, tiny, constant, far from zero."""
    weight, bias = norm_parameters(g, 6).values()
    plain = stream(g, B=2, T=3)
    constant, far = torch.full((1, 2, 6), 3.0), far_stream(g, B=2, T=3)
    return [
        Call(plain, weight, bias, 1e-5),
        Call(plain, weight, bias, 0.3),
        Call(1e-3 * plain, weight, bias, 1e-5),
        Call(constant, weight, bias, 1e-5),
        Call(far, weight, bias, 1e-5),
    ]


def a_right_test(norm: Norm) -> None:
    """Each kind of token on which some wrong norm shows, against PyTorch's own."""
    g = torch.Generator().manual_seed(0)
    weight, bias = norm_parameters(g, 6).values()
    plain = stream(g)
    inputs = [(plain, 1e-5, 1e-4), (plain, 0.3, 1e-4), (1e-3 * plain, 1e-5, 1e-4)]
    inputs += [(torch.full((2, 4, 6), 3.0), 1e-5, 1e-4), (far_stream(g), 1e-5, 5e-3)]
    for x, eps, tolerance in inputs:
        expected = F.layer_norm(x, (6,), weight, bias, eps)
        off = (norm(x, weight, bias, eps).to(expected) - expected).abs().max()
        assert off < tolerance, f"off by {off:.2g}"


def _fused(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def _in_double(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return references.layer_norm(x.double(), weight.double(), bias.double(), eps)


def _token_by_token(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    tokens = [references.layer_norm(token, weight, bias, eps) for token in x.reshape(-1, x.shape[-1])]
    return torch.stack(tokens).view_as(x)


OTHER_NORMS: tuple[Norm, ...] = (_fused, _in_double, _token_by_token)


def _bug(key: str, what: str, **switches: Any) -> Mistake:
    return Mistake(key, f"Your test lets pass a norm {what}", switches)


MUTANTS = (
    _bug(
        "unbiased",
        "whose variance is the unbiased one. Does your test compare numbers, and is its width small enough "
        "for the difference to show?",
        variance="unbiased",
    ),
    _bug(
        "eps_outside",
        "that adds its small constant outside the root. For which tokens does so small a number count?",
        eps_at="outside the root",
    ),
    _bug("over_positions", "that averages over the positions.", over="positions"),
    _bug("over_batch", "that averages over the batch.", over="batch"),
    _bug("over_sequence", "that averages over a whole sequence at once.", over="positions and width"),
    _bug(
        "not_centred",
        "that does not take the mean off. Which tokens have a mean other than 0?",
        centred=False,
    ),
    _bug("no_bias", "that forgets the bias.", affine="no bias"),
    _bug(
        "bias_first",
        "that adds the bias before the weight multiplies. With which weights is that the same?",
        affine="bias, then weight",
    ),
    _bug(
        "eps_fixed",
        "that ignores the small constant which it is given.",
        eps_at="inside, always the same",
    ),
    _bug(
        "far_from_zero",
        "that is right near zero and loses its digits far from it. How far are your tokens from zero?",
        variance="mean of squares less squared mean",
    ),
)
