r"""Choosing the next token: temperature, top-k and top-p, each a function on logits.

With logits :math:`l` over a vocabulary of V tokens, temperature :math:`\tau` gives the probabilities

.. math:: p_i = \frac{\exp(l_i / \tau)}{\sum_j \exp(l_j / \tau)}

Top-k keeps the k likeliest tokens. Top-p keeps the fewest tokens, likeliest first, whose probabilities sum to
at least p. A token that is not kept gets a logit of :math:`-\infty`, so that the softmax of what remains sums
to 1.

:func:`choose_tokens` applies them in this order: temperature, top-k, top-p. So the temperature does not
change what top-k keeps but does change what top-p keeps, and top-p takes its share of what top-k has left.

Where two tokens are equally likely, the one with the lower number comes first: in top-k, in top-p and in the
greedy choice.

Sources: Fan et al., "Hierarchical Neural Story Generation", 2018 (top-k); Holtzman et al., "The Curious Case
of Neural Text Degeneration", 2020 (top-p).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["apply_temperature", "check_sampling", "choose_tokens", "keep_top_k", "keep_top_p"]


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide the logits by the temperature: below 1 the likeliest gain, above 1 all draw level.

    Args:
        logits: ``(..., V)``.
        temperature: Above 0.

    Returns:
        The scaled logits ``(..., V)``.

    Raises:
        TypeError: If the logits are not floating-point numbers.
        ValueError: If the logits have no entry, or the temperature is not a finite number above 0.
    """
    _check_logits(logits)
    if not 0.0 < temperature < math.inf:
        raise ValueError(f"temperature: expected a finite number above 0, got {temperature}")
    return logits / temperature


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits of each row, exactly k of them even where some are equal.

    Args:
        logits: ``(..., V)``.
        k: How many to keep, 1 or more; with V or more all are kept. Among equal logits the lower token
            numbers are kept.

    Returns:
        Logits ``(..., V)``, with -inf for what is not kept.

    Raises:
        TypeError: If the logits are not floating-point numbers.
        ValueError: If the logits have no entry, or ``k`` is below 1.

    Source: Fan et al. 2018, section 5.4.
    """
    _check_logits(logits)
    if k < 1:
        raise ValueError(f"k: expected at least 1 token to keep, got {k}")
    best = _likeliest_first(logits)[..., :k]  # (..., k)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, best, True)  # (..., V)
    return logits.masked_fill(~kept, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens, likeliest first, that hold a probability of at least p together.

    Args:
        logits: ``(..., V)``.
        p: Above 0, at most 1. The likeliest token is always kept; with 1 all are. Among equally likely
            tokens the lower numbers come first.

    Returns:
        Logits ``(..., V)``, with -inf for what is not kept.

    Raises:
        TypeError: If the logits are not floating-point numbers.
        ValueError: If the logits have no entry, or ``p`` lies outside 0 to 1.

    Source: Holtzman et al. 2020, section 3.1.
    """
    _check_logits(logits)
    if not 0.0 < p <= 1.0:
        raise ValueError(f"p: expected a probability above 0 and at most 1, got {p}")
    if p == 1.0:
        return logits  # rounding may bring the sum of the first few to 1.0 already
    order = _likeliest_first(logits)  # (..., V)
    mass = _probabilities(logits).gather(-1, order).cumsum(dim=-1)  # (..., V)
    # A token is dropped where those before it reach p already: the first never is, and the one that crosses
    # p is not.
    enough = torch.cat([torch.zeros_like(mass[..., :1], dtype=torch.bool), mass[..., :-1] >= p], dim=-1)
    dropped = torch.zeros_like(enough).scatter(-1, order, enough)  # back in the order of the vocabulary
    return logits.masked_fill(dropped, -math.inf)


def choose_tokens(
    logits: Tensor,
    *,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Draw one token from each row of logits: by temperature, then top-k, then top-p.

    Args:
        logits: ``(..., V)``, finite or -inf, with at least one finite logit in each row.
        generator: Source of the draws, on any device; it may be left out where the temperature is 0.
        temperature: 0 takes the largest logit, the lowest number where there are several, and draws nothing.
        top_k: How many tokens to choose among; all where it is left out.
        top_p: Probability that the tokens to choose among hold together; all where it is left out.

    Returns:
        Token numbers ``(...)``, int64.

    Raises:
        TypeError: If the logits are not floating-point numbers.
        ValueError: If a logit is NaN or infinite, a row is -inf throughout, an argument is out of range, or
            there is no generator to draw from.
    """
    check_sampling(generator=generator, temperature=temperature, top_k=top_k, top_p=top_p)
    _check_logits(logits)
    if not bool(logits.amax(dim=-1).isfinite().all()):
        raise ValueError(
            "logits: expected finite numbers, or -inf for what is left out, and one finite number a row"
        )
    if temperature == 0.0:
        return _likeliest_first(logits)[..., 0]
    # With the largest logit at 0 a small temperature makes nothing overflow but what is hopeless anyway.
    logits = apply_temperature(logits - logits.amax(dim=-1, keepdim=True), temperature)
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    assert generator is not None
    # Drawn where the generator lives, so that one on the CPU serves every device.
    rows = _probabilities(logits).reshape(-1, logits.shape[-1]).to(generator.device)  # (rows, V)
    return torch.multinomial(rows, 1, generator=generator).to(logits.device).reshape(logits.shape[:-1])


def check_sampling(
    *, generator: torch.Generator | None, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    """Refuse what :func:`choose_tokens` could not draw by, before anything is computed.

    Args:
        generator: As in :func:`choose_tokens`, like the other three.
        temperature: 0 or above, finite.
        top_k: None, or 1 or more.
        top_p: None, or above 0 and at most 1.

    Raises:
        ValueError: If one of them is out of range, or there is no generator and the temperature is not 0.
    """
    if not 0.0 <= temperature < math.inf:
        raise ValueError(f"temperature: expected a finite number, 0 or above, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: expected None or at least 1, got {top_k}")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p: expected None or a probability above 0 and at most 1, got {top_p}")
    if generator is None and temperature > 0.0:
        raise ValueError("generator: expected a torch.Generator to draw from, or temperature = 0, got None")


def _likeliest_first(logits: Tensor) -> Tensor:
    """The token numbers of each row from the largest logit down, ``(..., V)``; equal ones in their order."""
    return logits.argsort(dim=-1, descending=True, stable=True)


def _probabilities(logits: Tensor) -> Tensor:
    """Softmax over the vocabulary, in float32 at least: sums of half-precision numbers stop growing early."""
    return logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _check_logits(logits: Tensor) -> None:
    if not logits.is_floating_point():
        raise TypeError(f"logits: expected a floating-point tensor, got {logits.dtype}")
    if logits.ndim < 1 or logits.shape[-1] < 1:
        raise ValueError(f"logits: expected (..., V) with V of at least 1, got shape {tuple(logits.shape)}")
