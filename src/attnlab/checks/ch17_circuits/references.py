"""Right answers of lesson 17, with a switch for every known mistake, and a circuit that is built by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import causal_mask
from attnlab.multihead import merge_heads

BOTH = "both"


def detect(
    weights: Tensor,
    tokens: Tensor,
    *,
    back: str = "one place",
    divided_by: str = "rows that have one",
    place: str = "after the copy",
    several: str = "summed",
    rows: str = "with a copy",
    order: str = "previous, induction",
) -> tuple[Tensor, Tensor]:
    """Previous-token and induction score of each head, from maps ``(B, H, T, T)`` and tokens ``(B, T)``."""
    offset = {"one place": -1, "none": 0, "two places": -2}.get(back, -1)
    on_it = weights.diagonal(offset=offset, dim1=-2, dim2=-1)  # (B, H, T + offset)
    if back == "strongest":
        first = weights.argmax(dim=-1)[..., 1:]  # (B, H, T - 1)
        on_it = (first == torch.arange(first.shape[-1])).to(weights.dtype)
    count = on_it.shape[-1] if divided_by == "rows that have one" else weights.shape[-1]
    previous = on_it.sum(dim=-1).mean(dim=0) / count  # (H,)
    found = _found(tokens, place)  # (B, T, T)
    if several == "newest":
        newest = torch.arange(found.shape[-1]) * found
        found = found & (newest == newest.amax(dim=-1, keepdim=True))
    seen = found.any(dim=-1)  # (B, T)
    summed = (weights * found[:, None]).sum(dim=-1)  # (B, H, T)
    if several == "averaged":
        summed = summed / found.sum(dim=-1)[:, None].clamp(min=1)
    counted = seen.sum() if rows == "with a copy" else torch.tensor(seen.numel())
    induction = summed.sum(dim=(0, 2)) / counted.clamp(min=1)  # (H,)
    return (previous, induction) if order == "previous, induction" else (induction, previous)


def _found(tokens: Tensor, place: str) -> Tensor:
    """Where an induction head should look: ``(B, T, T)``."""
    same = tokens[:, :, None] == tokens[:, None, :]  # (B, T, T)
    length = tokens.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril(-1)
    copies = same & earlier
    found = torch.zeros_like(copies)
    if place == "after the copy":
        found[:, :, 1:] = copies[:, :, :-1]
    elif place == "before the copy":
        found[:, :, :-1] = copies[:, :, 1:]
    else:
        found = copies
    return found


def ablate(
    heads: Tensor,
    w_o: Tensor,
    removed: Sequence[int],
    *,
    filler: str = "mean",
    which: str = "removed",
    merged: str = "heads side by side",
    mixed: str = "w_o",
) -> Tensor:
    """Heads ``(B, H, T, D)`` with some replaced by their mean, merged and mixed by ``w_o``."""
    chosen = [head - 1 for head in removed] if which == "counted from one" else list(removed)
    if which == "kept":
        chosen = [head for head in range(heads.shape[1]) if head not in removed]
    fillers = {
        "mean": heads.mean(dim=(0, 2), keepdim=True),
        "zero": torch.zeros_like(heads[:1, :, :1]),
        "mean of each string": heads.mean(dim=2, keepdim=True),
        "mean of each position": heads.mean(dim=0, keepdim=True),
        "one number": heads.mean(dim=(0, 2, 3), keepdim=True),
        "mean of all heads": heads.mean(dim=(0, 1, 2), keepdim=True),
    }
    changed = heads.clone()
    changed[:, chosen] = fillers[filler].expand_as(heads)[:, chosen]
    B, H, T, D = heads.shape
    tokens = merge_heads(changed) if merged == "heads side by side" else changed.reshape(B, T, H * D)
    return tokens @ (w_o if mixed == "w_o" else w_o.T)  # (B, T, d_model)


def patch(
    heads: Tensor,
    clean: Tensor,
    head: int,
    positions: Tensor,
    *,
    where: str = "own",
    carried: str = "one head",
    direction: str = "clean into run",
) -> Tensor:
    """Heads ``(B, H, T, D)`` with one head of each string, at its own position, from the clean run."""
    source, target = (clean, heads) if direction == "clean into run" else (heads, clean)
    length = heads.shape[2]
    at = positions - 1 if where == "one before" else positions  # (B,)
    spots = torch.arange(length) == at[:, None] % length  # (B, T)
    if where == "crossed":
        spots = spots.any(dim=0, keepdim=True).expand_as(spots)
    elif where == "everywhere":
        spots = torch.ones_like(spots)
    elif where == "from there on":
        spots = torch.arange(length) >= positions[:, None]
    chosen = torch.arange(heads.shape[1]) == head if carried == "one head" else torch.ones(heads.shape[1]) > 0
    which = spots[:, None, :, None] & chosen[None, :, None, None]  # (B, H, T, 1)
    return torch.where(which, source, target)


def compare(
    chosen_hits: Tensor,
    tested_hits: Tensor,
    chosen_offsets: Tensor,
    tested_offsets: Tensor,
    *,
    head_from: str = "chosen",
    share_from: str = "tested",
    offset_from: str = "chosen",
    baseline_from: str = "tested",
) -> tuple[int, float, float]:
    """The best head of one half, its share on the other, and that of the commonest offset."""
    hits = {"chosen": chosen_hits, "tested": tested_hits, BOTH: torch.cat([chosen_hits, tested_hits])}
    offsets = {
        "chosen": chosen_offsets,
        "tested": tested_offsets,
        BOTH: torch.cat([chosen_offsets, tested_offsets]),
    }
    head = int(hits[head_from].float().mean(dim=0).argmax())
    share = float(hits[share_from][:, head].float().mean())
    held = offsets[baseline_from]
    if offset_from == "chance":
        return head, share, 1 / len(set(held.tolist()))
    commonest = offsets[offset_from].mode().values
    return head, share, float((held == commonest).float().mean())


def circuit(
    tokens: Tensor, num_symbols: int, *, previous: bool = True, induction: bool = True, beta: float = 30.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The two steps of the lesson, built by hand.

    Args:
        tokens: ``(T,)``, numbers of symbols.
        num_symbols: how many symbols there are.
        previous: False replaces what the previous-token head brings by its mean.
        induction: False does so for what the induction head hands over.
        beta: factor of the scores.

    Returns:
        Weights of the previous-token head and of the induction head ``(T, T)``, and what the second hands
        over, ``(T, num_symbols)``.
    """
    x = F.one_hot(tokens, num_symbols).float()  # (T, V)
    first = torch.diag(torch.ones(len(tokens) - 1), diagonal=-1)  # (T, T)
    brought = first @ x
    if not previous:
        brought = brought.mean(dim=0, keepdim=True).expand_as(brought)
    scores = (beta * x @ brought.T).masked_fill(~causal_mask(len(tokens)), -math.inf)
    second = scores.softmax(dim=-1)  # (T, T)
    output = second @ x
    return first, second, output if induction else output.mean(dim=0, keepdim=True).expand_as(output)
