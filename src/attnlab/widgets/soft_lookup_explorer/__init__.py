r"""A query among keys in a plane: every weight, the looked-up value, and how it changes with the query.

The weights are :math:`\mathrm{softmax}(s / \tau)` over the keys, with the score :math:`s_j = q \cdot k_j`, or
:math:`s_j = -\lVert q - k_j \rVert^2 / 2`, which makes it kernel regression (Nadaraya 1964, Watson 1964). The
answer is :math:`o = \sum_j w_j v_j`. At temperature 0 stands the limit, the value of the highest score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import FLOAT32, CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["SoftLookupExplorer"]

_MOST_KEYS = 12
_TIE = 1e-6  # scores this close, relative to the largest, are equal to a float32
_SHORTEST, _LONGEST = 0.5, 1.5  # times which the stretched key may get
_ROUND = (1, 1.6, 2, 4, 5, 8, 10)  # a fortieth of each is a round step


class SoftLookupExplorer(CourseWidget):
    """Drag a query among keys, cool it and warm it, and watch what it looks up.

    Args:
        keys: tensor or array of shape (S, 2), 2 to 12 points of the plane.
        values: shape (S,) or (S, 1), one number for each key.
        names: S different texts, one for each key; without them "1" to "S".
        query: where the query stands at first, two numbers within ``reach``, the half width of the plane.
        score: "dot" for the dot product, "distance" for minus half the squared distance.
        temperature: divides the scores, without a unit; 0 is the hard lookup, where ties share equally.
        stretched: name of a key that readers may make longer or shorter, or None.
        stretch: the length of that key at first, as a multiple from 0.5 to 1.5.
        axes: what the two directions are called.
        unit: unit of the values, as text after a number.

    Raises:
        TypeError: ``keys`` or ``values`` does not hold real numbers.
        ValueError: shapes that do not fit, numbers that are not finite, names that are empty or not
            different, a setting out of its range.

    Example:
        >>> SoftLookupExplorer([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0], query=(0.5, 0.5)).answer()
        1.5
    """

    _esm, _css = browser_code(Path(__file__).parent)

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    axes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    unit = traitlets.Unicode("").tag(sync=True)
    keys_xy = traitlets.Bytes().tag(sync=True)  # float32, (S, 2)
    values = traitlets.Bytes().tag(sync=True)  # float32, (S,)
    reach = traitlets.Float(1.0).tag(sync=True)
    x = traitlets.Float(0.0).tag(sync=True)
    y = traitlets.Float(0.0).tag(sync=True)
    score = traitlets.Unicode("dot").tag(sync=True)
    temperature = traitlets.Float(1.0).tag(sync=True)
    stretched = traitlets.Int(-1).tag(sync=True)  # which key, -1 for none
    stretch = traitlets.Float(1.0).tag(sync=True)

    def __init__(
        self,
        keys: Any,
        values: Any,
        *,
        names: Sequence[str] | None = None,
        query: tuple[float, float] = (0.0, 0.0),
        score: str = "dot",
        temperature: float = 1.0,
        stretched: str | None = None,
        stretch: float = 1.0,
        axes: tuple[str, str] = ("x", "y"),
        unit: str = "",
    ) -> None:
        self._points, self._numbers = _table(keys, values)
        texts = _names(names, len(self._points))
        if stretched is not None and stretched not in texts:
            raise ValueError(f"stretched: expected None or one of {texts}, got {stretched!r}")
        index = -1 if stretched is None else texts.index(stretched)
        self._reach = _reach(self._points, index)
        if len(query) != 2 or len(axes) != 2:
            raise ValueError(f"query and axes: expected two of each, got {len(query)} and {len(axes)}")
        super().__init__(
            names=texts,
            axes=list(axes),
            unit=unit,
            keys_xy=self._points.tobytes(),
            values=self._numbers.tobytes(),
            reach=self._reach,
            x=float(query[0]),
            y=float(query[1]),
            score=score,
            temperature=temperature,
            stretched=index,
            stretch=stretch,
        )

    @traitlets.validate("x", "y", "temperature", "stretch")
    def _check_number(self, proposal: Any) -> float:
        name, value = proposal["trait"].name, float(proposal["value"])
        low, high = {"temperature": (0.0, math.inf), "stretch": (_SHORTEST, _LONGEST)}.get(
            name, (-self._reach, self._reach)
        )
        if not (math.isfinite(value) and low <= value <= high):
            raise OutOfRange(f"{name}: expected a finite number from {low:g} to {high:g}, got {value}")
        return value

    @traitlets.validate("score")
    def _check_score(self, proposal: Any) -> str:
        if proposal["value"] not in ("dot", "distance"):
            raise OutOfRange(f'score: expected "dot" or "distance", got {proposal["value"]!r}')
        return str(proposal["value"])

    def key_points(self) -> npt.NDArray[np.float64]:
        """The keys as they stand now, the stretched one at its length: (S, 2)."""
        points = self._points.astype(np.float64)
        if self.stretched >= 0:
            points[self.stretched] *= self.stretch
        return points

    def scores(self) -> npt.NDArray[np.float64]:
        """The score of each key, not yet divided by the temperature: (S,)."""
        x, y = self.key_points().T
        across, up = self.x - x, self.y - y
        dot = self.score == "dot"
        scores: npt.NDArray[np.float64] = self.x * x + self.y * y if dot else -(across * across + up * up) / 2
        return scores

    def weights(self) -> npt.NDArray[np.float64]:
        """What the query gives to each key, as the browser computes it: (S,), sums to 1.

        At temperature 0 the highest score has all; scores that a float32 could not tell apart share equally.
        """
        scores = self.scores()
        if self.temperature == 0:
            shares = (scores.max() - scores <= _TIE * np.abs(scores).max()).astype(np.float64)
        else:
            shares = np.exp((scores - scores.max()) / self.temperature)
        weights: npt.NDArray[np.float64] = shares / shares.sum()
        return weights

    def answer(self) -> float:
        """The looked-up value, in the unit of the values."""
        return float(self.weights() @ self._numbers.astype(np.float64))

    def slope(self) -> npt.NDArray[np.float64]:
        r"""How the answer changes when the query moves: (2,), in units of the values.

        It is :math:`\frac 1 \tau \sum_j w_j (k_j - \bar k) v_j`, the same for both scores. At temperature 0
        it is 0, and at a tie there is none.
        """
        if self.temperature == 0:
            return np.zeros(2)
        points, weights = self.key_points(), self.weights()
        off_mean = points - weights @ points  # (S, 2)
        slope: npt.NDArray[np.float64] = (weights * self._numbers) @ off_mean / self.temperature
        return slope

    def summary(self) -> str:
        kind = {"dot": "dot product", "distance": "distance"}[self.score]
        return f"{len(self._points)} keys, scored by {kind}, temperature {self.temperature:g}"


def _table(keys: Any, values: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Check keys and values, and give them the shapes (S, 2) and (S,)."""
    points, numbers = as_float32("keys", keys), as_float32("values", values)
    if points.ndim != 2 or points.shape[1] != 2 or not 2 <= len(points) <= _MOST_KEYS:
        raise ValueError(f"keys: expected shape (S, 2) with S from 2 to {_MOST_KEYS}, got {points.shape}")
    if numbers.shape not in ((len(points),), (len(points), 1)):
        raise ValueError(
            f"values: expected shape (S,) or (S, 1) with S = {len(points)} keys, got {numbers.shape}"
        )
    return points.astype(FLOAT32), numbers.reshape(-1).astype(FLOAT32)


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    """One text for each key, all different."""
    texts = [str(n + 1) for n in range(count)] if names is None else list(names)
    if len(texts) != count or len(set(texts)) != count or not all(str(text).strip() for text in texts):
        raise ValueError(f"names: expected {count} different texts that are not empty, got {texts}")
    return texts


def _reach(keys: npt.NDArray[np.float32], stretched: int) -> float:
    """Half the width of the plane, a round number: it holds all keys at any length that they may get."""
    farthest = np.abs(keys.astype(np.float64)).max(axis=1)
    if stretched >= 0:
        farthest[stretched] *= _LONGEST
    largest = float(farthest.max()) or 1.0
    unit = float(10.0 ** math.floor(math.log10(largest)))
    # A float32 just above a round number counts as that number.
    return next(float(n * unit) for n in _ROUND if largest <= n * unit * (1 + 1e-6))
