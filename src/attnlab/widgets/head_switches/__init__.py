r"""Heads switched off: what is left of the sum over heads, and how often a model is then right.

The output of multi-head attention is a sum, :math:`\sum_h o_h W^O_h`, where :math:`W^O_h` are the rows of
:math:`W^O` that belong to head h (Vaswani et al. 2017, section 3.2.2, written head by head). A linear readout
keeps it a sum: the logits are the bias and one part for each head.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["HeadSwitches"]

_MOST_HEADS, _MOST_OUTPUTS, _MOST_CLASSES, _MOST_EXAMPLES = 8, 4, 32, 8
_Numbers = npt.NDArray[np.float64]


class HeadSwitches(CourseWidget):
    """Switch the heads of a trained model on and off: the sum over heads, and the measured accuracy.

    A set of heads is a number from 0 to 2^H − 1 whose bit h, worth 2^h, says that head h is on.

    Args:
        measured: shape (2^H, R + 1), H from 1 to 8, R from 1 to 4: for each set of heads the share of
            positions, from 0 to 1, at which each of R outputs is right, and at which all are.
        parts: shape (P, H + 1, R, V): for P examples, 1 to 8, what each head and, as the last, the bias adds
            to the logits of V classes, 2 to 32.
        right: shape (P, R): the right class of each output, from 0 to V − 1.
        outputs: R texts, what the outputs are called.
        heads_on: the set of heads at first; None means all.
        example: which example is chosen at first, from 0.

    Raises:
        TypeError: what should be numbers is not.
        ValueError: shapes that do not fit, shares outside 0 to 1, classes that are not there, a setting out
            of its range.

    Example:
        >>> parts = [[[[2.0, 0.0]], [[0.0, 3.0]], [[0.0, 0.0]]]]  # one example, two heads and the bias
        >>> measured = [[0.5, 0.5], [0.9, 0.9], [0.6, 0.6], [1.0, 1.0]]
        >>> widget = HeadSwitches(measured, parts, [[0]], outputs=["answer"], heads_on=1)
        >>> widget.logits().tolist(), widget.named().tolist()
        ([[2.0, 0.0]], [0])
    """

    _esm, _css = browser_code(Path(__file__).parent)

    outputs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # [P, H, R, V]
    measured = traitlets.Bytes().tag(sync=True)  # float32, (2^H, R + 1)
    parts = traitlets.Bytes().tag(sync=True)  # float32, (P, H + 1, R, V)
    right = traitlets.Bytes().tag(sync=True)  # uint8, (P, R)
    heads_on = traitlets.Int(0).tag(sync=True)
    example = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        measured: Any,
        parts: Any,
        right: Any,
        *,
        outputs: Sequence[str],
        heads_on: int | None = None,
        example: int = 0,
    ) -> None:
        self._parts = _parts(parts)
        P, sources, R, V = self._parts.shape
        self._measured = _shares(measured, (2 ** (sources - 1), R + 1))
        self._right = _classes(right, (P, R), V)
        texts = list(outputs)
        if isinstance(outputs, str) or len(texts) != R or not all(str(text).strip() for text in texts):
            raise ValueError(f"outputs: expected {R} texts that are not empty, got {outputs!r}")
        super().__init__(
            outputs=texts,
            shape=[P, sources - 1, R, V],
            measured=self._measured.tobytes(),
            parts=self._parts.tobytes(),
            right=self._right.tobytes(),
            heads_on=len(self._measured) - 1 if heads_on is None else heads_on,
            example=example,
        )

    @traitlets.validate("heads_on", "example")
    def _check_index(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        last = {"heads_on": len(self._measured), "example": len(self._parts)}[name] - 1
        if not 0 <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from 0 to {last}, got {value}")
        return int(value)

    def is_on(self) -> npt.NDArray[np.bool_]:
        """Which parts count: (H + 1,), the heads and, always, the bias."""
        count = self._parts.shape[1]
        return np.array([bool(self.heads_on >> h & 1) for h in range(count - 1)] + [True])

    def logits(self) -> _Numbers:
        """The sum over the heads that are on, with the bias: (R, V)."""
        logits: _Numbers = self._parts[self.example].astype(np.float64)[self.is_on()].sum(axis=0)
        return logits

    def contributions(self) -> _Numbers:
        """What each part adds to the logit of the right class, less what it adds on average: (H + 1, R)."""
        parts = self._parts[self.example].astype(np.float64)
        right = self._right[self.example].astype(np.int64)
        contributions: _Numbers = parts[:, np.arange(len(right)), right] - parts.mean(axis=-1)
        return contributions

    def probabilities(self) -> _Numbers:
        """Softmax of the logits: (R, V), rows sum to 1."""
        logits = self.logits()
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probabilities: _Numbers = shares / shares.sum(axis=-1, keepdims=True)
        return probabilities

    def named(self) -> npt.NDArray[np.int64]:
        """The class that each output names: (R,), the first of the highest logits."""
        named: npt.NDArray[np.int64] = self.logits().argmax(axis=-1)
        return named

    def accuracy(self) -> _Numbers:
        """The measured shares for the heads that are on: (R + 1,), each output and all of them."""
        accuracy: _Numbers = self._measured[self.heads_on].astype(np.float64)
        return accuracy

    def summary(self) -> str:
        P, H, R, V = self.shape
        return f"{H} heads, {R} outputs, {V} classes, {P} examples"


def _parts(parts: Any) -> npt.NDArray[np.float32]:
    """Check the parts of the logits, (P, H + 1, R, V)."""
    table = as_float32("parts", parts)
    limits = ((1, _MOST_EXAMPLES), (2, _MOST_HEADS + 1), (1, _MOST_OUTPUTS), (2, _MOST_CLASSES))
    if table.ndim != 4 or not all(
        low <= n <= high for n, (low, high) in zip(table.shape, limits, strict=True)
    ):
        raise ValueError(f"parts: expected shape (P, H + 1, R, V) within {limits}, got {table.shape}")
    return table


def _shares(measured: Any, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Check the measured shares, (2^H, R + 1)."""
    table = as_float32("measured", measured)
    if table.shape != shape:
        raise ValueError(f"measured: expected shape (2^H, R + 1) = {shape}, got {table.shape}")
    if table.min() < 0 or table.max() > 1:
        raise ValueError(f"measured: expected shares from 0 to 1, got {table.min()} to {table.max()}")
    return table


def _classes(right: Any, shape: tuple[int, int], count: int) -> npt.NDArray[np.uint8]:
    """Check the right classes, (P, R)."""
    table = as_float32("right", right)
    if table.shape != shape:
        raise ValueError(f"right: expected shape (P, R) = {shape}, got {table.shape}")
    if table.min() < 0 or table.max() >= count or (table != np.floor(table)).any():
        raise ValueError(f"right: expected whole numbers from 0 to {count - 1}, got {table.tolist()}")
    return table.astype(np.uint8)
