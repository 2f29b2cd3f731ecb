r"""Rotary positions as clocks: each pair of numbers of a query and a key is a hand that turns with its place.

At place :math:`p` pair :math:`i` is turned by :math:`p \, b^{-2i/D}`; neighbours make a pair, as in the
paper. The score is the dot product of the turned query and the turned key, not divided by a root.
Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, section 3.2.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["RotaryExplorer"]

_WIDEST = 32
_RANGES = {"query_place": (0, 63), "key_place": (0, 63), "shift": (0, 192), "base": (2, 1e6)}


class RotaryExplorer(CourseWidget):
    """Move a query and a key, alone or together, and watch what each pair adds to their score.

    Args:
        query: tensor or array of shape (D,), before it is turned; D is even, from 2 to 32.
        key: the same shape.
        query_place: place of the query at first, from 0 to 63.
        key_place: place of the key at first, from 0 to 63.
        shift: how many places both stand further, from 0 to 192.
        base: what the angles are powers of, from 2 to 1,000,000, without a unit.

    Raises:
        TypeError: ``query`` or ``key`` does not hold real numbers.
        ValueError: shapes that do not fit, numbers that are not finite, a setting out of its range.

    Example:
        >>> RotaryExplorer([1.0, 0.0], [1.0, 0.0], query_place=5, key_place=5, shift=100).score()
        1.0
    """

    _esm, _css = browser_code(Path(__file__).parent)

    query = traitlets.Bytes().tag(sync=True)  # float32, (D,)
    key = traitlets.Bytes().tag(sync=True)  # float32, (D,)
    query_place = traitlets.Int(0).tag(sync=True)
    key_place = traitlets.Int(0).tag(sync=True)
    shift = traitlets.Int(0).tag(sync=True)
    base = traitlets.Float(10_000.0).tag(sync=True)

    def __init__(
        self,
        query: Any,
        key: Any,
        *,
        query_place: int = 0,
        key_place: int = 0,
        shift: int = 0,
        base: float = 10_000.0,
    ) -> None:
        self._vectors = as_float32("query", query), as_float32("key", key)
        shape = self._vectors[0].shape
        if len(shape) != 1 or shape[0] % 2 or shape[0] > _WIDEST:
            raise ValueError(f"query: expected shape (D,), D even and at most {_WIDEST}, got {shape}")
        if self._vectors[1].shape != shape:
            raise ValueError(f"key: expected the shape of the query, {shape}, got {self._vectors[1].shape}")
        super().__init__(
            query=self._vectors[0].tobytes(),
            key=self._vectors[1].tobytes(),
            query_place=query_place,
            key_place=key_place,
            shift=shift,
            base=base,
        )

    @traitlets.validate("query_place", "key_place", "shift", "base")
    def _check_setting(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        low, high = _RANGES[name]
        if not (math.isfinite(value) and low <= value <= high):
            raise OutOfRange(f"{name}: expected a number from {low:g} to {high:g}, got {value}")
        return value

    def speeds(self) -> npt.NDArray[np.float64]:
        """The turn of each pair from one place to the next, in radians: (D/2,)."""
        width = len(self._vectors[0])
        speeds: npt.NDArray[np.float64] = self.base ** (-np.arange(0, width, 2) / width)
        return speeds

    def _turned(self, vector: npt.NDArray[np.float32], places: Any) -> npt.NDArray[np.float64]:
        """A vector turned for each of P places: (P, D/2, 2)."""
        angles = np.multiply.outer(np.asarray(places, dtype=np.float64), self.speeds())
        first, second = vector.astype(np.float64).reshape(-1, 2).T
        cos, sin = np.cos(angles), np.sin(angles)
        return np.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)

    def hands(self) -> npt.NDArray[np.float64]:
        """Query and key, turned as their places and the shift ask: (2, D/2, 2)."""
        places = (self.query_place, self.key_place)
        turned = [
            self._turned(vector, [place + self.shift])[0]
            for vector, place in zip(self._vectors, places, strict=True)
        ]
        return np.stack(turned)

    def products(self) -> npt.NDArray[np.float64]:
        """What each pair adds to the score: (D/2,)."""
        query, key = self.hands()
        products: npt.NDArray[np.float64] = (query * key).sum(axis=-1)
        return products

    def score(self) -> float:
        """The dot product of the turned query and the turned key."""
        return float(self.products().sum())

    def scores_by_key_place(self) -> npt.NDArray[np.float64]:
        """The score with the key at each of the places 0 to 63, all shifted: (64,)."""
        keys = self._turned(self._vectors[1], np.arange(_RANGES["key_place"][1] + 1) + self.shift)
        scores: npt.NDArray[np.float64] = (keys * self.hands()[0]).sum(axis=(-2, -1))
        return scores

    def summary(self) -> str:
        pairs = len(self._vectors[0]) // 2
        places = f"query at {self.query_place + self.shift}, key at {self.key_place + self.shift}"
        return f"{pairs} pair{'s' if pairs > 1 else ''}, {places}, base {self.base:g}"
