"""A map of trainings: depth, learning rate, norm and warm-up, with the loss curve of every cell.

Nothing is trained here. The widget is handed curves that were measured, and shows the mean of the last fifth
of each, beside the curve that the other norm had at the same depth and rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, browser_code

__all__ = ["TrainingMap"]

_NOT_FINITE = 255
_MOST = 12
_NEAR = 0.05  # this near to the loss of a guess, relatively, nothing was learnt


class TrainingMap(CourseWidget):
    """Choose norm and warm-up, see the last loss at each depth and rate, and compare two curves.

    Args:
        curves: tensor or array of integers from 0 to 255, shape (4, D, R, P): loss curves in hundredths of a
            nat, of pre-norm without and with warm-up, then of post-norm without and with it. 254 stands for
            any larger loss, and 255 for one that was not finite.
        depths: D numbers of layers, rising.
        rates: R learning rates, rising, without a unit.
        steps: training steps of a run; a point of a curve is the mean of ``steps / P`` of them.
        guess: the loss of a guess, in nats.
        norm: "pre" or "post", what is shown at first.
        warmup: whether the runs with warm-up are shown at first.
        depth: the depth that is selected at first, the first one if None.
        rate: the learning rate that is selected at first, the first one if None.

    Raises:
        TypeError: ``curves`` does not hold integers.
        ValueError: shapes that do not fit, numbers out of range, a depth or a rate that is not on the map.

    Example:
        >>> curves = np.full((4, 1, 1, 5), 20)
        >>> TrainingMap(curves, depths=[6], rates=[0.005], steps=50, guess=1.61).final_losses().tolist()
        [[0.2]]
    """

    _esm, _css = browser_code(Path(__file__).parent, "map")

    curves = traitlets.Bytes().tag(sync=True)  # uint8, (2 norms, 2 warm-ups, D, R, P)
    depths = traitlets.List(traitlets.Int()).tag(sync=True)
    rates = traitlets.List(traitlets.Float()).tag(sync=True)
    steps = traitlets.Int().tag(sync=True)
    guess = traitlets.Float().tag(sync=True)
    norm = traitlets.Unicode("pre").tag(sync=True)
    warmup = traitlets.Bool(False).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)  # of `depths`
    column = traitlets.Int(0).tag(sync=True)  # of `rates`

    def __init__(
        self,
        curves: Any,
        *,
        depths: Sequence[int],
        rates: Sequence[float],
        steps: int,
        guess: float,
        norm: str = "pre",
        warmup: bool = False,
        depth: int | None = None,
        rate: float | None = None,
    ) -> None:
        for name, values in (("depths", depths), ("rates", rates)):
            if not 1 <= len(values) <= _MOST or sorted({*values}) != list(values) or values[0] <= 0:
                raise ValueError(f"{name}: expected 1 to {_MOST} rising positive numbers, got {list(values)}")
        self._curves = _checked(curves, len(depths), len(rates), steps)
        if not (math.isfinite(guess) and guess > 0):
            raise ValueError(f"guess: expected a positive loss, got {guess}")
        self._counts = {"row": len(depths), "column": len(rates)}
        super().__init__(
            curves=self._curves.tobytes(),
            depths=list(depths),
            rates=list(rates),
            steps=steps,
            guess=guess,
            norm=norm,
            warmup=warmup,
            row=_index("depth", depth, depths),
            column=_index("rate", rate, rates),
        )

    @traitlets.validate("row", "column")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not 0 <= value < self._counts[name]:
            raise OutOfRange(f"{name}: expected 0 to {self._counts[name] - 1}, got {value}")
        return int(value)

    @traitlets.validate("norm")
    def _check_norm(self, proposal: Any) -> str:
        if proposal["value"] not in ("pre", "post"):
            raise OutOfRange(f'norm: expected "pre" or "post", got {proposal["value"]!r}')
        return str(proposal["value"])

    def losses(self, norm: str | None = None) -> npt.NDArray[np.float64]:
        """The curves of a norm, by default the one shown, in nats: (D, R, P); infinite where it broke off."""
        whole = self._curves[int((norm or self.norm) == "post"), int(self.warmup)]
        return np.where(whole == _NOT_FINITE, np.inf, whole / 100)

    def final_losses(self, norm: str | None = None) -> npt.NDArray[np.float64]:
        """The mean of the last fifth of each curve, in nats: (D, R)."""
        losses = self.losses(norm)
        last = math.ceil(losses.shape[-1] / 5)
        means: npt.NDArray[np.float64] = losses[..., -last:].mean(axis=-1)
        return means

    def outcomes(self, norm: str | None = None) -> list[list[str]]:
        """What became of each run: "learnt" something, stayed at a "guess", or "diverged"; D lists of R.

        Diverged is a run that broke off, or whose last loss is more than a twentieth above that of a guess.
        A last loss at most a twentieth off counts as a guess.
        """

        def outcome(loss: float) -> str:
            if loss > (1 + _NEAR) * self.guess:
                return "diverged"
            return "guess" if loss >= (1 - _NEAR) * self.guess else "learnt"

        return [[outcome(float(loss)) for loss in row] for row in self.final_losses(norm)]

    def summary(self) -> str:
        warm = "with warm-up" if self.warmup else "without warm-up"
        return f"{len(self.depths)} depths by {len(self.rates)} learning rates, {self.norm}-norm {warm}"


def _checked(curves: Any, depths: int, rates: int, steps: int) -> npt.NDArray[np.uint8]:
    """The curves as uint8 of shape (2, 2, D, R, P)."""
    array = np.asarray(curves)
    if array.dtype.kind not in "iu":
        raise TypeError(f"curves: expected integers, got {array.dtype}")
    if array.ndim != 4 or array.shape[:3] != (4, depths, rates) or array.shape[3] < 2:
        raise ValueError(f"curves: expected shape (4, {depths}, {rates}, P), P at least 2, got {array.shape}")
    if array.min() < 0 or array.max() > _NOT_FINITE:
        raise ValueError(f"curves: expected 0 to 255, got {array.min()} to {array.max()}")
    if steps < 1 or steps % array.shape[3]:
        raise ValueError(f"steps: expected a multiple of the {array.shape[3]} points of a curve, got {steps}")
    return array.astype(np.uint8).reshape(2, 2, depths, rates, -1)


def _index(name: str, value: float | None, values: Sequence[float]) -> int:
    if value is None:
        return 0
    if value not in values:
        raise ValueError(f"{name}: expected one of {list(values)}, got {value}")
    return list(values).index(value)
