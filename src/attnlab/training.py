"""One small training loop, for any model and any stream of ``(inputs, targets)``.

A step draws a batch, computes the loss, and updates every parameter by the Adam rule; the gradient is clipped
to a norm of ``clip`` before. Sources: Kingma & Ba 2015 (Adam), Pascanu et al. 2013, section 3.2 (clipping by
norm).
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam, Optimizer
from tqdm import tqdm

Loss = Callable[[Any, Tensor], Tensor]


@dataclass
class History:
    """What a training run left behind, one entry a step.

    Attributes:
        losses: the loss of each batch, before the update that it caused (nats for the default loss).
        gradient_norms: the norm of the whole gradient, before clipping.
        stopped_early: whether ``stop_below`` ended the run.
    """

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    stopped_early: bool = False

    @property
    def steps(self) -> int:
        """How many updates were made."""
        return len(self.losses)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats: logits (…, V) against targets (…), the classes on the *last* axis.

    PyTorch's own function wants the classes on the second axis, which is silently wrong for (B, T, V)
    wherever T equals V.

    Raises:
        ValueError: if the shapes do not fit.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets: expected {tuple(logits.shape[:-1])}, the shape of the logits without their last axis, "
            f"got {tuple(targets.shape)}"
        )
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def fit(
    model: nn.Module,
    batches: Iterable[tuple[Any, Tensor]],
    *,
    steps: int,
    lr: float,
    clip: float | None = 1.0,
    stop_below: float | None = None,
    loss: Loss = cross_entropy,
    optimizer: Optimizer | None = None,
    progress: bool = False,
) -> History:
    """Train ``model`` in place, for at most ``steps`` batches.

    Args:
        model: called as ``model(inputs)``, or as ``model(*inputs)`` where the inputs are a tuple. It is put
            into training mode for the run and afterwards back into the mode it was in.
        batches: gives ``(inputs, targets)``; drawn from as long as the run lasts and no further.
        steps: the most updates to make.
        lr: the learning rate of Adam.
        clip: the largest norm of the gradient; ``None`` leaves it as it is.
        stop_below: stop after the first batch whose loss is below this.
        loss: ``loss(prediction, targets)``, a scalar.
        optimizer: used in place of Adam; its own learning rate is then left alone.
        progress: show a bar on stderr.

    Returns:
        The losses and gradient norms of the steps that were made.

    Raises:
        ValueError: if ``steps`` < 1, ``lr`` or ``clip`` is not positive, or the batches end too soon.
    """
    if steps < 1:
        raise ValueError(f"steps: expected at least 1, got {steps}")
    if lr <= 0:
        raise ValueError(f"lr: expected a positive learning rate, got {lr}")
    if clip is not None and clip <= 0:
        raise ValueError(f"clip: expected a positive norm or None, got {clip}")
    optimizer = Adam(model.parameters(), lr=lr) if optimizer is None else optimizer
    history, was_training = History(), model.training
    stream = iter(batches)
    model.train()
    try:
        with tqdm(total=steps, disable=not progress, file=sys.stderr, leave=False) as bar:
            while history.steps < steps and not history.stopped_early:
                batch = next(stream, None)
                if batch is None:
                    raise ValueError(f"batches: ended after {history.steps} of {steps} steps")
                _update(model, batch, optimizer, loss, clip, history)
                history.stopped_early = stop_below is not None and history.losses[-1] < stop_below
                bar.update()
    finally:
        model.train(was_training)
    return history


def _update(
    model: nn.Module,
    batch: tuple[Any, Tensor],
    optimizer: Optimizer,
    loss: Loss,
    clip: float | None,
    history: History,
) -> None:
    """One step; its loss and gradient norm are added to ``history``."""
    inputs, targets = batch
    prediction = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    value = loss(prediction, targets)
    optimizer.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    # An infinite bound only measures.
    norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf") if clip is None else clip)
    optimizer.step()
    history.losses.append(value.item())
    history.gradient_norms.append(norm.item())
