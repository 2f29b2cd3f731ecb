"""Lesson 8, the shift: the task, its cases and what its mistakes are told apart by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..compare import flat
from ..engine import Failed, FunctionTask, expect_pair, expect_tensor
from . import mistakes as known
from . import references

BOTH = ("inputs", "labels")
BOS, EOS, PAD = 1, 2, 30
OTHER_BOS, OTHER_EOS = 27, 25  # no number has its meaning by itself


def _targets(
    g: torch.Generator, lengths: tuple[int, ...], T: int, filler: int, *, bos: int = BOS, eos: int = EOS
) -> tuple[Tensor, Tensor, int, int]:
    """Sentences of letters, all different in a row, that end in eos; behind it the filler."""
    targets = torch.stack([3 + torch.randperm(20, generator=g)[:T] for _ in lengths])  # (B, T)
    counts = torch.tensor(lengths)
    places = torch.arange(T)
    targets = targets.masked_fill(places == counts[:, None] - 1, eos)
    return targets.masked_fill(places >= counts[:, None], filler), counts, bos, filler


_LENGTHS = (3, 6, 1, 4)


def _read_and_said(answer: Any, targets: Tensor, lengths: Tensor, bos: int, pad: int) -> tuple[Any, ...]:
    """Labels, what is read where something is to be said, and whether all that is read are tokens."""
    inputs, labels = expect_pair(answer(targets, lengths, bos, pad), BOTH)
    labels = expect_tensor(labels, _shape_of(labels), "the labels", dtype=torch.int64)
    inputs = expect_tensor(inputs, _shape_of(inputs), "the inputs", dtype=torch.int64)
    if inputs.shape != targets.shape:
        return inputs, labels, False
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    tokens = int(inputs.min()) >= 0 and int(inputs.max()) <= max(int(targets.max()), bos, pad)
    return inputs.masked_fill(~real, 0), labels, tokens


def _shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


TRAINING_PAIR = FunctionTask(
    "encoder_decoder.training_pair",
    "The shift",
    references.training_pair,
    probes=lambda g: [_targets(g, _LENGTHS, 6, PAD), _targets(g, _LENGTHS, 6, EOS)],
    observe=_read_and_said,
    mistakes=known.TRAINING_PAIR,
)


def _expect_training_pair(answer: Any, given: tuple[Tensor, Tensor, int, int], which: str) -> None:
    inputs, labels = expect_pair(answer(*given), BOTH)
    shape = tuple(given[0].shape)
    inputs = expect_tensor(inputs, shape, "the inputs", dtype=torch.int64)
    labels = expect_tensor(labels, shape, "the labels", dtype=torch.int64)
    wanted = references.training_pair(*given)
    if which in ("labels", "both"):
        _expect_tokens(labels, wanted[1], "the labels")
    if which in ("inputs", "both"):
        real = torch.arange(shape[1]) < given[1][:, None]
        _expect_tokens(inputs[real], wanted[0][real], "the inputs at real tokens")
        if inputs.min() < 0 or inputs.max() > max(int(given[0].max()), *given[2:]):
            raise Failed("the inputs hold a number that is no token")


def _expect_tokens(given: Tensor, wanted: Tensor, name: str) -> None:
    wrong = sum(a != b for a, b in zip(flat(given), flat(wanted), strict=True))
    if wrong:
        raise Failed(f"{name}: {wrong} of {wanted.numel()} are wrong")


@TRAINING_PAIR.case("two tables of whole numbers, each as wide as the targets", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs, labels = expect_pair(answer(*_targets(g, _LENGTHS, 6, PAD)), BOTH)
    expect_tensor(inputs, (4, 6), "the inputs", dtype=torch.int64)
    expect_tensor(labels, (4, 6), "the labels", dtype=torch.int64)


@TRAINING_PAIR.case("what is to be said", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_training_pair(answer, _targets(g, _LENGTHS, 6, PAD), "labels")
    _expect_training_pair(answer, _targets(g, _LENGTHS, 6, 2, bos=OTHER_BOS, eos=OTHER_EOS), "labels")


@TRAINING_PAIR.case("what is read", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_training_pair(answer, _targets(g, _LENGTHS, 6, PAD), "inputs")
    _expect_training_pair(answer, _targets(g, _LENGTHS, 6, 2, bos=OTHER_BOS, eos=OTHER_EOS), "inputs")


@TRAINING_PAIR.case("filled up with eos, the end is still to be said", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_training_pair(answer, _targets(g, (3, 5, 2), 5, EOS), "both")
    other = _targets(g, (3, 5, 2), 5, OTHER_EOS, bos=OTHER_BOS, eos=OTHER_EOS)
    _expect_training_pair(answer, other, "both")


@TRAINING_PAIR.case("one sentence, one with no token at all, padding numbered 0", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_training_pair(answer, _targets(g, (4,), 7, 0), "both")
    _expect_training_pair(answer, _targets(g, (0, 2, 8), 8, EOS), "both")
    _expect_training_pair(answer, _targets(g, (1, 1), 1, PAD), "both")
