"""How the answers of lesson 9 are looked at where a plain comparison of results is not enough.

Two kinds: a search that returns a text and its score, in whatever types; and a training loop that returns its
losses and its weights, of which the weights are judged by what the model with them says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..answers import Answer
from ..compare import expect_callable, expect_pair, expect_tensor
from ..tasks import FunctionTask, Mistake
from ..values import plain
from ..verdict import Failed, NothingYet
from .loop import from_weights


def _number(value: object, name: str) -> float:
    value = plain(value)
    if type(value) is Tensor and value.numel() == 1 and not value.is_complex():
        value = value.item()
    if type(value) not in (int, float):
        raise Failed(f"{name} should be a number, but this is {type(value).__name__}")
    return float(value)  # type: ignore[arg-type]


def _row(value: object) -> list[int]:
    """Token ids as plain whole numbers, from a list, a tuple or a tensor (L,)."""
    if type(value) is Tensor:
        if value.dim() != 1 or value.is_floating_point() or value.is_complex():
            raise Failed("the tokens should be one row of whole numbers")
        value = value.tolist()
    if type(value) not in (list, tuple):
        raise Failed(f"the tokens should be a list, but this is {type(value).__name__}")
    assert isinstance(value, list | tuple)
    return [_token(token) for token in value]


def _token(value: object) -> int:
    value = plain(value)
    if type(value) is Tensor and value.numel() == 1 and not value.is_floating_point():
        value = value.item()
    if type(value) is not int:
        raise Failed(f"each token should be a whole number, but one is {type(value).__name__}")
    return value


class _SearchAnswer(Answer):
    def __call__(self, *args: Any, **kwargs: Any) -> tuple[list[int], float]:
        tokens, score = expect_pair(super().__call__(*args, **kwargs), ("the tokens", "the score"))
        return _row(tokens), _number(score, "the score")


class SearchTask(FunctionTask):
    """The answer searches, and returns (token ids, score); lists or tensors, numbers or tensors."""

    def adapt(self, answer: object) -> Answer:
        return _SearchAnswer(expect_callable(answer, "a function"))


Batch = tuple[Tensor, Tensor]


class _LoopAnswer(Answer):
    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """(Losses (steps,), logits of the trained model for the first batch)."""
        losses, trained = expect_pair(super().__call__(*args, **kwargs), ("the losses", "the weights"))
        weights, batches = args[0], args[1]
        return _losses(losses, len(batches)), _logits(trained, weights, batches[0])


def _losses(losses: object, steps: int) -> Tensor:
    if type(losses) is Tensor:
        losses = losses.reshape(-1).tolist()
    if losses is None:
        raise NothingYet("the losses: nothing was returned")
    if type(losses) not in (list, tuple) or len(losses) != steps:  # type: ignore[arg-type]
        raise Failed("the losses should be a list with one number for each batch")
    return torch.tensor([_number(loss, "each loss") for loss in losses])  # type: ignore[attr-defined]


def _logits(trained: object, weights: dict[str, Tensor], batch: Batch) -> Tensor:
    if not issubclass(type(trained), dict):
        raise Failed("the weights should be the model's state_dict()")
    assert isinstance(trained, dict)
    missing = sorted(weights.keys() - dict.keys(trained))
    if missing:
        raise Failed(f"the weights lack {', '.join(missing)}")
    state = {
        name: expect_tensor(dict.__getitem__(trained, name), tuple(tensor.shape), name)
        for name, tensor in weights.items()
    }
    if not all(math.isfinite(float(tensor.sum())) for tensor in state.values()):
        raise Failed("the weights hold NaN or infinity")
    source, target = batch
    with torch.no_grad():
        logits: Tensor = from_weights(state)(source, target[:, :-1])
    return logits


class LoopTask(FunctionTask):
    """The answer trains. ``answer(weights, batches, lr, clip, warmup)`` is (losses, logits afterwards)."""

    def adapt(self, answer: object) -> Answer:
        return _LoopAnswer(expect_callable(answer, "a function"))

    def combinations(self) -> Iterator[tuple[Mistake, ...]]:
        """Single mistakes; the program as it is given, which holds more than two; then the pairs.

        Of the pairs those come first that half a repair leaves.
        """
        planted = tuple(mistake for mistake in self.mistakes if mistake.key in self.untouched)
        yield from ((mistake,) for mistake in self.mistakes)
        yield planted
        pairs: Sequence[tuple[Mistake, ...]] = [pair for pair in super().combinations() if len(pair) == 2]
        yield from sorted(pairs, key=lambda pair: sum(mistake not in planted for mistake in pair))
