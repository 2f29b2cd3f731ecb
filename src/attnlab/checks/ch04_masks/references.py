"""Right answers of lesson 4, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own masks and attention are in ``attnlab.attention``; the tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# --- each mask of a translator ----------------------------------------------------------------------------


def translator_masks(
    source_lengths: Tensor,
    target_lengths: Tensor,
    num_source: int,
    num_target: int,
    num_queries: int,
    start: int = 0,
    *,
    triangle: str = "from start",
    real: str = "below",
    hides: str = "keys",
    combine: str = "and",
    sense: str = "may",
    encoder: str = "source",
    cross: str = "source",
) -> tuple[Tensor, Tensor, Tensor]:
    """Masks (B, S, S), (B, T, num_target) and (B, T, S) of encoder, decoder and cross-attention."""
    batch = len(source_lengths)
    places = start + torch.arange(num_queries)[:, None]  # (T, 1)
    padding = _real(target_lengths, num_target, real)[:, None, :]  # (B, 1, num_target)
    encoded = _real(source_lengths, num_source, real)[:, None, :]  # (B, 1, S)
    crossed = encoded if cross != "target" else _real(target_lengths, num_source, real)[:, None, :]
    rows = places < target_lengths[:, None, None]  # (B, T, 1)
    source_rows = torch.arange(num_source)[:, None] < source_lengths[:, None, None]  # (B, S, 1)
    if hides == "rows":
        padding, encoded, crossed = rows, source_rows, rows
    elif hides == "keys and rows":
        padding, encoded, crossed = padding & rows, encoded & source_rows, crossed & rows
    if encoder == "everything":
        encoded = torch.ones_like(encoded)
    elif encoder == "causal":
        encoded = encoded & torch.ones(num_source, num_source, dtype=torch.bool).tril()
    if cross == "everything":
        crossed = torch.ones_like(crossed)
    elif cross == "causal":
        crossed = crossed & (torch.arange(num_source) <= places)
    decoded = _COMBINED[combine](_triangle(places, num_target, start, triangle), padding)
    masks = (
        encoded.expand(batch, num_source, num_source),
        decoded.expand(batch, num_queries, num_target),
        crossed.expand(batch, num_queries, num_source),
    )
    if sense == "may not":
        return ~masks[0], ~masks[1], ~masks[2]
    return masks


def _real(lengths: Tensor, columns: int, real: str) -> Tensor:
    """Which columns are real tokens, (B, S)."""
    last = lengths[:, None] + {"below": 0, "up to": 1, "below the last": -1}[real]
    return torch.arange(columns) < last


def _triangle(places: Tensor, num_keys: int, start: int, triangle: str) -> Tensor:
    """Which keys come no later than each query's place, (T, num_keys)."""
    keys = torch.arange(num_keys)
    if triangle == "later ones":
        return keys >= places
    shifts = {
        "from start": 0,
        "left edge": -start,
        "right edge": num_keys - len(places) - start,
        "start taken away": -2 * start,
        "next too": 1,
        "before only": -1,
    }
    return keys <= places + shifts[triangle]


_COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "and": lambda causal, padding: causal & padding,
    "or": lambda causal, padding: causal | padding,
    "differs": lambda causal, padding: causal ^ padding,
    "triangle alone": lambda causal, padding: causal & torch.ones_like(padding),
    "padding alone": lambda causal, padding: padding & torch.ones_like(causal),
}

# --- attention under two masks ----------------------------------------------------------------------------


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: Tensor,
    padding: Tensor,
    *,
    combine: str = "and",
    sense: str = "may",
    hidden: str = "-inf, empty rows apart",
    scale: str = "root",
) -> Tensor:
    """Attention (B, T, d_v) under masks (T, S) and (B, 1, S), in the number type of the inputs."""
    mask = _COMBINED[combine](causal, padding)  # (B, T, S)
    mask = mask if sense == "may" else ~mask
    width = query.shape[-1]
    divisor = {"root": math.sqrt(width), "none": 1.0}[scale]
    scores = (query / divisor) @ key.transpose(-2, -1)  # (B, T, S)
    return _HIDDEN[hidden](scores, mask, value)


def _apart(scores: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    empty = ~mask.any(dim=-1, keepdim=True)  # (B, T, 1)
    weights = _filled(scores, mask, -math.inf).masked_fill(empty, 0.0).softmax(dim=-1)
    return weights.masked_fill(empty, 0.0) @ value


def _filled(scores: Tensor, mask: Tensor, number: float) -> Tensor:
    return scores.masked_fill(~mask, number)


def _added(scores: Tensor, mask: Tensor, number: float) -> Tensor:
    return scores + torch.zeros_like(scores).masked_fill(~mask, number)


def _lowest(scores: Tensor) -> float:
    return torch.finfo(scores.dtype).min


Hide = Callable[[Tensor, Tensor, Tensor], Tensor]
_HIDDEN: dict[str, Hide] = {
    "-inf, empty rows apart": _apart,
    "lowest added, output cleaned": lambda s, m, v: torch.nan_to_num(
        _added(s, m, _lowest(s)).softmax(dim=-1) @ v
    ),
    "lowest added": lambda s, m, v: _added(s, m, _lowest(s)).softmax(dim=-1) @ v,
    "lowest filled": lambda s, m, v: _filled(s, m, _lowest(s)).softmax(dim=-1) @ v,
    "-1e9 filled": lambda s, m, v: _filled(s, m, -1e9).softmax(dim=-1) @ v,
    "-1e9 filled, empty rows apart": lambda s, m, v: (
        _filled(s, m, -1e9).softmax(dim=-1).masked_fill(~m.any(dim=-1, keepdim=True), 0.0) @ v
    ),
    "-inf": lambda s, m, v: _filled(s, m, -math.inf).softmax(dim=-1) @ v,
    "-inf, output cleaned": lambda s, m, v: torch.nan_to_num(_filled(s, m, -math.inf).softmax(dim=-1) @ v),
    "-inf added, weights cleaned": lambda s, m, v: _added(s, m, -math.inf).softmax(dim=-1).nan_to_num() @ v,
    "after the softmax": lambda s, m, v: (s.softmax(dim=-1) * m) @ v,
    "score 0": lambda s, m, v: _filled(s, m, 0.0).softmax(dim=-1) @ v,
}

# --- which outputs depend on which inputs -----------------------------------------------------------------

Program = Callable[[Tensor], Tensor]


def dependencies(
    function: Program,
    x: Tensor,
    *,
    outputs: str = "each number",
    gathered: str = "any",
    sequences: str = "all",
    rows: str = "each alone",
    above: float = 0.0,
    returned: str = "outputs by inputs",
) -> Tensor:
    """Boolean (T', T): whether output t has a derivative other than zero at input j, by gradients."""
    leaf = x.detach().clone().requires_grad_()
    output = function(leaf)  # (B, T', D')
    table = []
    for t in range(output.shape[1]):
        places = {"each alone": output[:, t : t + 1], "added up": output[:, : t + 1], "whole": output}[rows]
        numbers = list(
            places.sum(dim=(0, 1))
        )  # D' of them; sequences do not mix, so that their sum tells all
        numbers = {
            "each number": numbers,
            "summed": [sum(numbers)],
            "squared": [places.square().sum()],
            "without signs": [places.abs().sum()],
            "first number": numbers[:1],
        }[outputs]
        gradients = [_gradient(number, leaf) for number in numbers]
        table.append(torch.stack([_found(each, gathered, sequences, above) for each in gradients]).any(dim=0))
    result = torch.stack(table)  # (T', T)
    return result.T if returned == "inputs by outputs" else result


def _gradient(total: Tensor, leaf: Tensor) -> Tensor:
    """Gradient (B, T, D) of one number; zeros where there is no path."""
    if not total.requires_grad:
        return torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(total, leaf, retain_graph=True, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def _found(gradient: Tensor, gathered: str, sequences: str, above: float) -> Tensor:
    """At which inputs a gradient (B, T, D) is not zero, (T,)."""
    if sequences == "first":
        gradient = gradient[:1]
    elif sequences == "averaged":
        gradient = gradient.mean(dim=0, keepdim=True)
    if gathered == "summed":
        gradient = gradient.sum(dim=-1, keepdim=True)
    elif gathered == "first number":
        gradient = gradient[..., :1]
    sizes = gradient if gathered == "positive" else gradient.abs()
    return (sizes > above).any(dim=-1).any(dim=0)


# --- causal self-attention of a padded batch ---------------------------------------------------------------


def padded_attention(
    x: Tensor,
    real: Tensor,
    *,
    triangle: str = "own place and before",
    padding: str = "hidden",
    combine: str = "and",
    hiding: str = "before the softmax",
    mixing: str = "nothing",
) -> Tensor:
    """Self-attention of x (B, T, D) in which a position sees the real ones, (B, T), up to its own."""
    places = torch.arange(x.shape[1])
    if padding == "as in the first":
        real = real[:1].expand(len(real), -1)
    elif padding == "next to real seen":
        real = real | F.pad(real[:, 1:], (0, 1))
    later = places - places[:, None]  # (T, T): how far key j comes after query t
    mask = _COMBINED[combine](_TRIANGLES[triangle](later), real[:, None])  # (B, T, T)
    scores = x @ x.flip(-1).transpose(1, 2) / math.sqrt(x.shape[-1])  # (B, T, T)
    if hiding == "after the softmax":
        return (scores.softmax(dim=-1) * mask) @ x
    if hiding == "weakly":
        return scores.masked_fill(~mask, -8.0).softmax(dim=-1) @ x
    output = _apart(scores, mask, x)
    return output + 0.1 * x.mean(dim=0) if mixing == "sequences" else output


_TRIANGLES: dict[str, Callable[[Tensor], Tensor]] = {
    "own place and before": lambda later: later <= 0,
    "next too": lambda later: later <= 1,
    "before only": lambda later: later < 0,
    "window of 3": lambda later: (later <= 0) & (later > -3),
    "first 6 rows only": lambda later: (later <= 0) | (torch.arange(len(later)) >= 6)[:, None],
}

# --- what a stack of masks lets through -------------------------------------------------------------------


def reach(masks: Sequence[Tensor]) -> Tensor:
    """Which inputs each output of a stack depends on, (T, T), from the masks of its layers, bottom first."""
    seen = torch.eye(len(masks[0]), dtype=torch.bool)
    for mask in masks:
        seen = (mask.double() @ seen.double()) > 0  # (T, T)
    return seen


def window_mask(length: int, window: int) -> Tensor:
    """Causal, and no further back than ``window`` keys, the own one included: (T, T)."""
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return causal & ~causal.tril(-window)


# --- the three tokens of the lesson -----------------------------------------------------------------------


def outputs_of_three_tokens() -> dict[str, float]:
    """What the predictions are about, computed: all scores are zero, the values are 1, 2 and 4."""
    zeros, value = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]])
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    additive = torch.zeros(3, 3).masked_fill(~causal, -math.inf)
    nothing, lowest = torch.zeros(3, 3, dtype=torch.bool), torch.finfo(torch.float16).min
    with torch.random.fork_rng(devices=[]):
        module = nn.MultiheadAttention(1, 1, bias=False, batch_first=True)
    for weight in (module.in_proj_weight, module.out_proj.weight):
        nn.init.ones_(weight)

    def sdpa(mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(zeros, zeros, value, mask)

    filled = torch.zeros(3, 3).masked_fill(~nothing, -1e9).softmax(dim=-1) @ value
    return {
        "module": module(zeros[None], zeros[None], value[None], attn_mask=causal)[0][0, 0].item(),
        "bool": sdpa(additive.bool())[1].item(),
        "and": sdpa(causal & (torch.arange(3) < 1))[2].item(),
        "or": sdpa(causal | (torch.arange(3) < 2))[0].item(),
        "filled": filled[0].item(),
        "after": (torch.zeros(3, 3).softmax(dim=-1) * causal)[0].sum().item(),
        "half": ((torch.zeros(3, 3).half() + lowest + lowest).softmax(dim=-1) @ value.half())[0].item(),
    }
