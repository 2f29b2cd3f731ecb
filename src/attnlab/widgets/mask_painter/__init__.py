r"""Who may look at whom: a mask to paint on, and what it does to every row of weights.

Row i of the weights is a softmax over the keys that query i may see:
:math:`w_{ij} = M_{ij} e^{s_{ij}} / \sum_l M_{il} e^{s_{il}}`, and zeros where it may see none
(Vaswani et al. 2017, section 3.2.3, for the mask).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["MaskPainter"]

_PRESETS = ("none", "causal", "padding", "both", "window")
_MOST = 16  # queries or keys: what a hand can paint
_Mask = npt.NDArray[np.bool_]


class MaskPainter(CourseWidget):
    """Paint the cells of a mask, and watch each row of weights share its whole out anew.

    Args:
        scores: tensor or array of shape (T, S), T and S at most 16: scores before a mask, without a unit.
        mask: the mask at first: booleans that broadcast to (T, S), or the name of a preset: "none", "causal"
            (the last query stands at the last key), "padding" (the keys behind ``length``), "both" of these,
            or "window" (its own key and the ones before it, ``window`` in all, without padding).
        length: how many of the S keys are real, the first ones; None means all.
        window: width of the preset "window", in keys, at least 1.
        inverted: read True as *may not attend*, as ``nn.MultiheadAttention`` does. The presets are the same
            booleans in both readings: that is the mistake to see.
        row: which query is chosen at first, from 0.

    Raises:
        TypeError: ``scores`` does not hold real numbers, or ``mask`` is neither booleans nor a name.
        ValueError: shapes that do not fit, numbers that are not finite, a setting out of its range.

    Example:
        >>> MaskPainter([[0.0, 0.0], [0.0, 0.0]], "causal").weights()
        array([[1. , 0. ],
               [0.5, 0.5]])
    """

    _esm, _css = browser_code(Path(__file__).parent)

    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # [T, S]
    scores = traitlets.Bytes().tag(sync=True)  # float32, (T, S)
    # One byte a cell, 0 or 1, (T, S). The browser sends a memoryview.
    mask = traitlets.Bytes().tag(sync=True, from_json=lambda sent, _: bytes(sent))
    length = traitlets.Int().tag(sync=True)
    window = traitlets.Int(2).tag(sync=True)
    inverted = traitlets.Bool(False).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        scores: Any,
        mask: Any = "none",
        *,
        length: int | None = None,
        window: int = 2,
        inverted: bool = False,
        row: int = 0,
    ) -> None:
        self._scores = _table(scores)
        shape = self._scores.shape
        real = shape[1] if length is None else length
        cells = _preset(mask, shape, real, window) if isinstance(mask, str) else _booleans(mask, shape)
        super().__init__(
            shape=list(shape),
            scores=self._scores.tobytes(),
            mask=cells.tobytes(),
            length=real,
            window=window,
            inverted=inverted,
            row=row,
        )

    @traitlets.validate("mask")
    def _check_mask(self, proposal: Any) -> bytes:
        cells = bytes(proposal["value"])
        if len(cells) != self._scores.size or not set(cells) <= {0, 1}:
            raise OutOfRange(f"mask: expected {self._scores.size} bytes that are 0 or 1, got {len(cells)}")
        return cells

    @traitlets.validate("length", "window", "row")
    def _check_number(self, proposal: Any) -> int:
        num_queries, num_keys = self._scores.shape
        name, value = proposal["trait"].name, proposal["value"]
        first, last = {"length": (0, num_keys), "window": (1, num_keys), "row": (0, num_queries - 1)}[name]
        if not first <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from {first} to {last}, got {value}")
        return int(value)

    def preset(self, name: str) -> _Mask:
        """The booleans of a preset, in the course's sense.

        Returns:
            Array of shape (T, S), True = may attend.

        Raises:
            ValueError: there is no preset of this name.
        """
        return _preset(name, self._scores.shape, self.length, self.window)

    def allowed(self) -> _Mask:
        """Which query may see which key, as the mask is read now.

        Returns:
            Array of shape (T, S), True = may attend.
        """
        painted = np.frombuffer(self.mask, dtype=np.uint8).reshape(self._scores.shape) == 1
        allowed: _Mask = painted ^ self.inverted
        return allowed

    def weights(self) -> npt.NDArray[np.float64]:
        """The weights that the browser shows now, as it computes them: in float64 from float32 numbers.

        Returns:
            Array of shape (T, S): row i holds what query i gives to each key. It sums to 1, or is all zeros
            where the query may see no key.
        """
        allowed = self.allowed()
        scores = np.where(allowed, self._scores.astype(np.float64), -np.inf)
        largest = scores.max(axis=-1, keepdims=True)
        # A row without a key gets harmless numbers first and zeros afterwards, so that NaN never arises.
        shares = np.where(allowed, np.exp(scores - np.where(np.isfinite(largest), largest, 0.0)), 0.0)
        sums = shares.sum(axis=-1, keepdims=True)
        weights: npt.NDArray[np.float64] = shares / np.where(sums > 0, sums, 1.0)
        return weights

    def summary(self) -> str:
        num_queries, num_keys = self.shape
        return f"{num_queries} queries, {num_keys} keys, {int(self.allowed().sum())} cells allowed"


def _table(scores: Any) -> npt.NDArray[np.float32]:
    """Check the scores, (T, S)."""
    table = as_float32("scores", scores)
    if table.ndim != 2 or max(table.shape) > _MOST:
        raise ValueError(f"scores: expected shape (T, S) with at most {_MOST} of each, got {table.shape}")
    return table


def _preset(name: str, shape: tuple[int, ...], length: int, window: int) -> _Mask:
    """The booleans of a preset, (T, S)."""
    num_queries, num_keys = shape
    query = np.arange(num_queries)[:, None] + num_keys - num_queries  # the last one stands at the last key
    key = np.arange(num_keys)
    real = np.broadcast_to(key < length, shape)
    masks = {
        "none": np.ones(shape, dtype=bool),
        "causal": key <= query,
        "padding": real,
        "both": (key <= query) & real,
        "window": (key <= query) & (key > query - window) & real,
    }
    if name not in masks:
        raise ValueError(f"mask: expected one of {_PRESETS}, got {name!r}")
    return masks[name]


def _booleans(mask: Any, shape: tuple[int, ...]) -> _Mask:
    """A mask as booleans of the shape of the scores."""
    array = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if array.dtype != bool:
        raise TypeError(f"mask: expected booleans or one of {_PRESETS}, got {array.dtype}")
    try:
        return np.ascontiguousarray(np.broadcast_to(array, shape))
    except ValueError as error:
        raise ValueError(f"mask: expected a shape that broadcasts to {shape}, got {array.shape}") from error
