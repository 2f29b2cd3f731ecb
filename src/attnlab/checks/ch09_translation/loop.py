"""The training loop of lesson 9's repair, with a switch for every known mistake, and its small model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.tasks import PAD


class SmallTranslator(nn.Module):
    """Embeddings, one cross-attention and a readout; the exercise shows the same class."""

    def __init__(self, num_source: int, num_target: int, width: int, longest: int = 12) -> None:
        super().__init__()
        self.source = nn.Embedding(num_source, width)
        self.target = nn.Embedding(num_target, width)
        self.place = nn.Embedding(longest, width)
        self.output = nn.Linear(width, num_target)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Source (B, S) and target so far (B, T) to logits (B, T, V)."""
        places = self.place.weight  # (longest, D)
        keys = self.source(source) + places[: source.shape[1]]  # (B, S, D)
        queries = self.target(target_in) + places[: target_in.shape[1]]  # (B, T, D)
        scores = queries @ keys.mT / math.sqrt(keys.shape[-1])  # (B, T, S)
        scores = scores.masked_fill((source == PAD)[:, None], -math.inf)
        logits: Tensor = self.output(queries + scores.softmax(dim=-1) @ keys)  # (B, T, V)
        return logits


def from_weights(weights: Mapping[str, Tensor]) -> SmallTranslator:
    """The model that has these weights."""
    (num_source, width), num_target = weights["source.weight"].shape, len(weights["target.weight"])
    model = SmallTranslator(num_source, num_target, width, len(weights["place.weight"]))
    model.load_state_dict(dict(weights))
    return model


def train(
    weights: Mapping[str, Tensor],
    batches: Sequence[tuple[Tensor, Tensor]],
    lr: float,
    clip: float,
    warmup: int,
    *,
    pairing: str = "next",
    padding: str = "left out",
    clipped: str = "before the step",
    cleared: str = "each step",
    rate: str = "rises",
    loss: str = "of logits",
    optimiser: str = "kept",
) -> tuple[list[float], dict[str, Tensor]]:
    """One step of training a batch; the losses, and the weights after the last step."""
    model = from_weights(weights)
    adam = _Adam(list(model.parameters()))
    losses: list[float] = []
    held: list[Tensor] = []
    for step, (source, target) in enumerate(batches, start=1):
        if optimiser == "new each step":
            adam = _Adam(adam.parameters)
        now = 1.0 if rate == "constant" else min(1.0, (step - (rate == "rises from 0")) / warmup)
        target_in, target_out = _shifted(target, pairing)
        value = _loss(model(source, target_in), target_out, padding, loss)
        gradients = list(torch.autograd.grad(value, adam.parameters))
        if cleared == "never" and losses:
            gradients = [new + old for new, old in zip(gradients, held, strict=True)]
        gradients = held = _clipped(gradients, clip, clipped)
        if cleared != "too soon":
            adam.step(gradients, lr * now)
        losses.append(value.item())
    return losses, {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


class _Adam:
    """The rule of ``torch.optim.AdamW`` with its defaults; loading that one takes longer than a check may."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self._steps = parameters, 0
        self._means = [torch.zeros_like(parameter) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        """Move the parameters by one step."""
        self._steps += 1
        held = zip(self.parameters, gradients, self._means, self._squares, strict=True)
        for parameter, gradient, mean, square in held:
            parameter.mul_(1 - 0.01 * lr)
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            size = (square / (1 - 0.999**self._steps)).sqrt() + 1e-8
            parameter.sub_(lr * mean / (1 - 0.9**self._steps) / size)


def _clipped(gradients: list[Tensor], clip: float, how: str) -> list[Tensor]:
    if how == "by value":
        return [gradient.clamp(-clip, clip) for gradient in gradients]
    if how == "too late":
        return gradients
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * min(1.0, clip / (float(norm) + 1e-6)) for gradient in gradients]


def _shifted(target: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
    return {
        "next": (target[:, :-1], target[:, 1:]),
        "the answer": (target[:, 1:], target[:, 1:]),
        "the same": (target[:, :-1], target[:, :-1]),
        "two on": (target[:, :-2], target[:, 2:]),
    }[pairing]


def _loss(logits: Tensor, targets: Tensor, padding: str, loss: str) -> Tensor:
    if loss == "of probabilities":
        logits = logits.softmax(dim=-1)
    each = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")  # (B, T)
    real = targets != PAD
    if padding == "counted":
        real = torch.ones_like(real)
    total = each[real].sum()
    if loss == "summed":
        return total
    return total / (targets.numel() if padding == "counted in the mean" else real.sum())
