r"""A walk through the tiles of chunked attention, with what each row carries in view.

After a tile with scores :math:`s` and values :math:`v`, a row's running maximum :math:`m`, sum :math:`\ell`
and output :math:`a` become

.. math::
    m' = \max(m, \max s), \quad \ell' = e^{m - m'} \ell + \textstyle\sum e^{s - m'}, \quad
    a' = e^{m - m'} a + \textstyle\sum e^{s - m'} v

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, section 3; Dao et al.,
"FlashAttention", 2022, section 3.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["TileWalk"]

_MOST = 10


class TileWalk(CourseWidget):
    """Take one tile of scores after another and see what each row carries on.

    Args:
        scores: tensor or array of shape (T, S), both from 1 to 10: scaled scores.
        values: shape (S,), one number for each key.
        query_tile: queries in a tile, from 1 to T.
        key_tile: keys in a tile, from 1 to S.
        step: how many tiles are done at first. Tiles run along the keys, then down the queries.

    Raises:
        TypeError: ``scores`` or ``values`` do not hold real numbers.
        ValueError: shapes that do not fit, numbers that are not finite, a setting out of its range.

    Example:
        >>> TileWalk([[0.0, 0.0]], [1.0, 3.0], query_tile=1, key_tile=1, step=2).output().tolist()
        [2.0]
    """

    _esm, _css = browser_code(Path(__file__).parent)

    scores = traitlets.Bytes().tag(sync=True)  # float32, (T, S)
    values = traitlets.Bytes().tag(sync=True)  # float32, (S,)
    query_tile = traitlets.Int(1).tag(sync=True)
    key_tile = traitlets.Int(1).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(
        self, scores: Any, values: Any, *, query_tile: int = 2, key_tile: int = 2, step: int = 0
    ) -> None:
        self._scores, self._values = as_float32("scores", scores), as_float32("values", values)
        shape = self._scores.shape
        if len(shape) != 2 or max(shape) > _MOST:
            raise ValueError(f"scores: expected shape (T, S), both at most {_MOST}, got {shape}")
        if self._values.shape != shape[1:]:
            raise ValueError(f"values: expected one for each key, {shape[1:]}, got {self._values.shape}")
        super().__init__(
            scores=self._scores.tobytes(),
            values=self._values.tobytes(),
            query_tile=query_tile,
            key_tile=key_tile,
            step=step,
        )

    @traitlets.validate("query_tile", "key_tile", "step")
    def _check_setting(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        # Smaller tiles are more steps: a step may stand beyond the last tile, and then all are done.
        low, high = {
            "query_tile": (1, self._scores.shape[0]),
            "key_tile": (1, self._scores.shape[1]),
            "step": (0, self._scores.size),
        }[name]
        if not low <= value <= high:
            raise OutOfRange(f"{name}: expected a whole number from {low} to {high}, got {value}")
        return value

    def tiles(self) -> list[tuple[slice, slice]]:
        """Rows and columns of each tile, in the order of the walk."""
        num_queries, num_keys = self._scores.shape
        return [
            (
                slice(row, min(row + self.query_tile, num_queries)),
                slice(at, min(at + self.key_tile, num_keys)),
            )
            for row in range(0, num_queries, self.query_tile)
            for at in range(0, num_keys, self.key_tile)
        ]

    def running(self) -> npt.NDArray[np.float64]:
        """Maximum, sum and output (not yet divided) of each row after the tiles done: (3, T)."""
        maximum = np.full(len(self._scores), -np.inf)
        total, gathered = np.zeros_like(maximum), np.zeros_like(maximum)
        for rows, keys in self.tiles()[: self.step]:
            scores, values = (x.astype(np.float64) for x in (self._scores[rows, keys], self._values[keys]))
            raised = np.maximum(maximum[rows], scores.max(axis=1))
            terms, correction = np.exp(scores - raised[:, None]), np.exp(maximum[rows] - raised)
            total[rows] = correction * total[rows] + terms.sum(axis=1)
            gathered[rows] = correction * gathered[rows] + terms @ values
            maximum[rows] = raised
        return np.stack([maximum, total, gathered])

    def output(self) -> npt.NDArray[np.float64]:
        """The output so far, divided by the sum; NaN for a row that has seen no tile: (T,)."""
        _maximum, total, gathered = self.running()
        with np.errstate(invalid="ignore"):
            divided: npt.NDArray[np.float64] = gathered / total
        return divided

    def corrections(self) -> npt.NDArray[np.float64]:
        """By what the last tile multiplied the old sum of each of its rows; NaN for all other rows: (T,)."""
        factors = np.full(len(self._scores), np.nan)
        done = min(self.step, len(self.tiles()))
        if done:
            rows, keys = self.tiles()[done - 1]
            before = self._scores[rows, : keys.start].astype(np.float64)
            earlier = before.max(axis=1, initial=-np.inf)
            after = np.maximum(earlier, self._scores[rows, keys].max(axis=1))
            factors[rows] = np.exp(earlier - after)
        return factors

    def summary(self) -> str:
        num_queries, num_keys = self._scores.shape
        count = len(self.tiles())
        return f"{num_queries} × {num_keys} scores, {min(self.step, count)} of {count} tiles done"
