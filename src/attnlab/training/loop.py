"""The training loop.

A step draws a batch (or several micro-batches), computes the loss, and updates every parameter by the Adam
rule; the gradient is clipped to a norm of ``clip`` before. Sources: Kingma & Ba 2015 (Adam), Pascanu et al.
2013, section 3.2 (clipping by norm).
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from tqdm import tqdm

from .losses import TokenLoss, cross_entropy

__all__ = ["History", "NotFiniteError", "fit"]

Batch: TypeAlias = tuple[Any, Tensor]
Loss: TypeAlias = Callable[[Any, Tensor], Tensor | TokenLoss]


@dataclass
class History:
    """What a training run left behind, one entry a step.

    Attributes:
        losses: the loss of each batch, before the update that it caused (nats for the default loss).
        gradient_norms: the norm of the whole gradient, before clipping.
        stopped_early: whether ``stop_below`` ended the run.
        learning_rates: the rate of each update (of the first group of parameters, where there are several).
    """

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    stopped_early: bool = False
    learning_rates: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many updates were made."""
        return len(self.losses)


class NotFiniteError(ArithmeticError):
    """A loss or a gradient was NaN or infinite. The parameters are those of the step before.

    Attributes:
        step: the number of the step that was not made, counted from 1.
        history: the steps that were made.
    """

    def __init__(self, message: str, step: int, history: History) -> None:
        super().__init__(message)
        self.step = step
        self.history = history


def fit(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    steps: int,
    lr: float | None = None,
    clip: float | None = 1.0,
    stop_below: float | None = None,
    loss: Loss = cross_entropy,
    optimizer: Optimizer | None = None,
    schedule: Callable[[int], float] | None = None,
    micro_batches: int = 1,
    history: History | None = None,
    after_step: Callable[[History], object] | None = None,
    progress: bool = False,
) -> History:
    """Train ``model`` in place, for at most ``steps`` updates.

    Args:
        model: called as ``model(inputs)``, or as ``model(*inputs)`` where the inputs are a tuple. It is put
            into training mode for the run and afterwards back into the mode it was in.
        batches: gives ``(inputs, targets)``; drawn from as long as the run lasts and no further.
        steps: the most updates to make.
        lr: the learning rate of Adam; not needed where an optimizer is given.
        clip: the largest norm of the gradient; ``None`` leaves it as it is.
        stop_below: stop after the first batch whose loss is below this.
        loss: ``loss(prediction, targets)``, a scalar or a :class:`TokenLoss`.
        optimizer: used in place of Adam; its own learning rate is then the base.
        schedule: ``schedule(step)`` is the factor of the base rate at each step, counted from 1 over the
            whole history. The base is kept in the optimizer, as ``initial_lr`` of each group.
        micro_batches: how many batches to draw for one update. The gradient is that of the mean over all
            their tokens together, however these are spread. So the loss must be one that counts them, a
            :class:`TokenLoss`, such as :func:`attnlab.training.token_loss`.
        history: an earlier history to go on with: it is added to, and steps are counted from its end.
        after_step: called with the history after each update, to look at the model or to save it.
        progress: show a bar on stderr.

    Returns:
        The losses, gradient norms and learning rates of the steps that were made.

    Raises:
        NotFiniteError: if a loss or a gradient is NaN or infinite. The update is not made.
        TypeError: if there are micro-batches and the loss is a plain scalar.
        ValueError: if ``steps`` or ``micro_batches`` < 1, ``lr`` or ``clip`` is not positive, ``lr`` is
            missing, or the batches end too soon.
    """
    _check_settings(steps, lr, clip, micro_batches, optimizer)
    if optimizer is None:
        assert lr is not None  # checked above
        optimizer = Adam(model.parameters(), lr=lr)
    history = History() if history is None else history
    history.stopped_early = False
    stream, was_training = iter(batches), model.training
    model.train()
    try:
        with tqdm(total=steps, disable=not progress, file=sys.stderr, leave=False) as bar:
            for done in range(steps):
                drawn = list(itertools.islice(stream, micro_batches))
                if len(drawn) < micro_batches:
                    raise ValueError(f"batches: ended after {done} of {steps} steps")
                _update(model, drawn, optimizer, loss, clip, schedule, history)
                bar.update()
                if after_step is not None:
                    after_step(history)
                if stop_below is not None and history.losses[-1] < stop_below:
                    history.stopped_early = True
                    break
    finally:
        model.train(was_training)
    return history


def _check_settings(
    steps: int, lr: float | None, clip: float | None, micro_batches: int, optimizer: Optimizer | None
) -> None:
    if steps < 1:
        raise ValueError(f"steps: expected at least 1, got {steps}")
    if lr is None and optimizer is None:
        raise ValueError("lr: expected a learning rate, or an optimizer that has one, got neither")
    if lr is not None and lr <= 0:
        raise ValueError(f"lr: expected a positive learning rate, got {lr}")
    if clip is not None and clip <= 0:
        raise ValueError(f"clip: expected a positive norm or None, got {clip}")
    if micro_batches < 1:
        raise ValueError(f"micro_batches: expected at least 1, got {micro_batches}")


def _update(
    model: nn.Module,
    drawn: list[Batch],
    optimizer: Optimizer,
    loss: Loss,
    clip: float | None,
    schedule: Callable[[int], float] | None,
    history: History,
) -> None:
    """One step; its loss, gradient norm and learning rate are added to ``history``."""
    step = history.steps + 1
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.zero_grad()
    value = _backward(model, parameters, drawn, loss)
    # An infinite bound only measures.
    norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip).item()
    for name, number in (("loss", value), ("norm of the gradient", norm)):
        if not math.isfinite(number):
            optimizer.zero_grad()
            raise NotFiniteError(
                f"step {step}: the {name} is {number}; the parameters are left as they were before",
                step,
                history,
            )
    if schedule is not None:
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * schedule(step)
    optimizer.step()
    history.losses.append(value)
    history.gradient_norms.append(norm)
    history.learning_rates.append(float(optimizer.param_groups[0]["lr"]))


def _backward(model: nn.Module, parameters: list[nn.Parameter], drawn: list[Batch], loss: Loss) -> float:
    """Leave the gradient of the mean loss on the parameters; return that loss."""
    total, count = 0.0, 0
    for inputs, targets in drawn:
        prediction = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
        value = loss(prediction, targets)
        if not isinstance(value, TokenLoss):
            if len(drawn) > 1:
                raise TypeError(
                    "loss: expected one that counts its tokens (a TokenLoss) where there are micro-batches, "
                    f"since means of unequal batches do not add up, got {type(value).__name__}"
                )
            value = TokenLoss(value, torch.ones((), dtype=torch.int64))
        value.total.backward()  # type: ignore[no-untyped-call]
        total += value.total.item()
        count += int(value.num_tokens)
    # Sums were taken so far: only now is it known over how many tokens the mean goes.
    if count > 1:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad /= count
    return total / max(count, 1)
