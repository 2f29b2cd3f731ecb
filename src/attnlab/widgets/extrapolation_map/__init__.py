"""A map of accuracies: kinds of positions by the length of the test, for one job or several.

Nothing is trained here. The widget is handed the accuracies that a lesson measured. It shows them as a map,
and beside it all kinds at the chosen length, each with what it had at the length that it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["ExtrapolationMap"]

_MOST = 8


class ExtrapolationMap(CourseWidget):
    """Choose a job, a kind of positions and a length, and see what is left of the trained length's accuracy.

    Args:
        results: for each job, for each kind of positions, for each length of the test, the accuracy that was
            measured, from 0 to 1: ``{"latest": {"rotary": {48: 0.99, 64: 0.98}}}``. All jobs have the same
            kinds, and all kinds the same lengths; 1 to 8 of each.
        trained: the length of the training sequences, in tokens; one of the lengths.
        kind: the kind that is chosen at first, the first one if None.
        length: the length that is chosen at first, ``trained`` if None.

    Raises:
        TypeError: the accuracies are no real numbers.
        ValueError: jobs, kinds or lengths do not fit each other, a length is not on the map, an accuracy is
            not from 0 to 1.

    Example:
        >>> ExtrapolationMap({"copy": {"none": {8: 0.5, 16: 0.25}}}, trained=8).change().tolist()
        [[0.0, -0.25]]
    """

    _esm, _css = browser_code(Path(__file__).parent, "map")

    jobs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode()).tag(sync=True)
    lengths = traitlets.List(traitlets.Int()).tag(sync=True)
    measured = traitlets.Bytes().tag(sync=True)  # float32, (J, K, L)
    trained = traitlets.Int().tag(sync=True)  # of `lengths`
    job = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)  # of `kinds`
    column = traitlets.Int(0).tag(sync=True)  # of `lengths`

    def __init__(
        self,
        results: Mapping[str, Mapping[str, Mapping[int, Any]]],
        *,
        trained: int,
        kind: str | None = None,
        length: int | None = None,
    ) -> None:
        jobs, kinds, lengths = _axes(results)
        self._measured = as_float32(
            "results", [[list(at.values()) for at in of.values()] for of in results.values()]
        )
        if self._measured.min() < 0 or self._measured.max() > 1:
            worst = max(self._measured.min(), self._measured.max(), key=lambda value: abs(value - 0.5))
            raise ValueError(f"results: expected accuracies from 0 to 1, got {worst:g}")
        self._counts = {"job": len(jobs), "row": len(kinds), "column": len(lengths)}
        super().__init__(
            jobs=jobs,
            kinds=kinds,
            lengths=lengths,
            measured=self._measured.tobytes(),
            trained=_index("trained", trained, lengths),
            row=0 if kind is None else _index("kind", kind, kinds),
            column=_index("length", trained if length is None else length, lengths),
        )

    @traitlets.validate("job", "row", "column")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not 0 <= value < self._counts[name]:
            raise OutOfRange(f"{name}: expected 0 to {self._counts[name] - 1}, got {value}")
        return int(value)

    def accuracies(self, job: str | None = None) -> npt.NDArray[np.float64]:
        """The accuracies of a job, by default the one shown: (K, L)."""
        index = self.job if job is None else _index("job", job, self.jobs)
        accuracies: npt.NDArray[np.float64] = self._measured[index].astype(np.float64)
        return accuracies

    def change(self, job: str | None = None) -> npt.NDArray[np.float64]:
        """How far each accuracy lies above that of the same kind at the trained length: (K, L)."""
        accuracies = self.accuracies(job)
        change: npt.NDArray[np.float64] = accuracies - accuracies[:, self.trained, None]
        return change

    def summary(self) -> str:
        return (
            f"{' and '.join(self.jobs)}: {len(self.kinds)} kinds of positions at {len(self.lengths)} lengths"
        )


def _axes(results: Mapping[str, Mapping[str, Mapping[int, Any]]]) -> tuple[list[str], list[str], list[int]]:
    """The jobs, kinds and lengths of the results, which must be the same everywhere and in the same order."""
    jobs = list(results)
    kinds = list(results[jobs[0]]) if jobs else []
    lengths = list(results[jobs[0]][kinds[0]]) if kinds else []
    for name, values in (("jobs", jobs), ("kinds", kinds), ("lengths", lengths)):
        if not 1 <= len(values) <= _MOST:
            raise ValueError(f"results: expected 1 to {_MOST} {name}, got {len(values)}")
    if lengths != sorted(lengths) or lengths[0] < 1:
        raise ValueError(f"results: expected rising positive lengths, got {lengths}")
    for job, of in results.items():
        if list(of) != kinds:
            raise ValueError(f"results: expected the kinds {kinds} in job {job!r}, got {list(of)}")
        for kind, at in of.items():
            if list(at) != lengths:
                raise ValueError(
                    f"results: expected the lengths {lengths} for {kind!r} in {job!r}, got {list(at)}"
                )
    return jobs, kinds, lengths


def _index(name: str, value: Any, values: Sequence[Any]) -> int:
    if value not in values:
        raise ValueError(f"{name}: expected one of {list(values)}, got {value!r}")
    return values.index(value)
