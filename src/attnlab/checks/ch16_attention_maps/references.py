"""Right answers of lesson 16, with a switch for every known mistake."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Predict = Callable[[Tensor, Tensor], Tensor]


def rollout(
    maps: Tensor,
    *,
    residual: str = "half",
    order: str = "upwards",
    heads: str = "mean",
    join: str = "product",
    turned: bool = False,
) -> Tensor:
    """Attention rollout ``(B, T, T)`` of maps ``(L, B, H, T, T)``."""
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    steps = []
    for weights in maps if order == "upwards" else maps.flip(0):
        mixed = {
            "mean": weights.mean(dim=-3),
            "sum": weights.sum(dim=-3),
            "largest": weights.amax(dim=-3),
            "first": weights[..., 0, :, :],
        }[heads]  # (B, T, T)
        steps.append(_with_residual(mixed, identity, residual))
    if join == "last":
        flow = steps[-1]
    elif join == "mean":
        flow = torch.stack(steps).mean(dim=0)
    else:
        flow = steps[0]
        for step in steps[1:]:
            flow = step @ flow if join == "product" else step * flow
    return flow.transpose(-2, -1) if turned else flow


def _with_residual(mixed: Tensor, identity: Tensor, residual: str) -> Tensor:
    if residual == "half":
        return (mixed + identity) / 2
    return mixed + identity if residual == "added" else mixed


def removal_effects(
    predict: Predict,
    tokens: Tensor,
    *,
    hides: str = "key",
    itself: str = "sees",
    measure: str = "half",
    stacked: int = -1,
    masks: str = "fresh",
    visible: str = "causal",
) -> Tensor:
    """Shift of each query's prediction when a key is hidden from all other positions, ``(B, T, T)``."""
    length = tokens.shape[1]
    everything = torch.ones(length, length, dtype=torch.bool)
    whole = everything.tril() if visible == "causal" else everything
    before, mask, effects = predict(tokens, whole), whole.clone(), []
    for j in range(length):
        if masks == "fresh":
            mask = whole.clone()
        if hides == "key":
            mask[:, j] = False
        elif hides == "query":
            mask[j, :] = False
        else:  # everything but the key
            kept = mask[:, j].clone()
            mask = torch.zeros_like(mask)
            mask[:, j] = kept
            mask |= torch.eye(length, dtype=torch.bool)
        if itself == "sees":
            mask[j, j] = True
        effects.append(_difference(before, predict(tokens, mask.clone()), measure))  # (B, T)
    return torch.stack(effects, dim=stacked)


def _difference(before: Tensor, after: Tensor, measure: str) -> Tensor:
    if measure == "logits":
        return (before - after).abs().sum(dim=-1) / 2
    change = before.softmax(dim=-1) - after.softmax(dim=-1)
    if measure == "signed":
        return change.sum(dim=-1) / 2
    if measure == "largest":
        return change.abs().amax(dim=-1)
    return change.abs().sum(dim=-1) / (2 if measure == "half" else 1)
