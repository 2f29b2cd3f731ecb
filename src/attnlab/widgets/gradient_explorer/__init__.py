"""How much gradient is left at a distance: one curve for each model, read with a cursor.

A curve holds, for each distance, the norm of the gradient of the last output with respect to the input so
many steps back, divided by its own value at distance 0. So every curve starts at 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import FLOAT32, CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["GradientExplorer"]

_ROLES = ("a", "b", "c", "d", "e", "f")
_NAMED_ROLES = ("query", "key", "value", "weight", "wrong")


class GradientExplorer(CourseWidget):
    """Drag a distance and see what each model has left of its gradient.

    Args:
        curves: for each model (1 to 6 of them) a 1-D tensor or array, all of the same length, at least 2.
            Entry ``n`` is the norm of the gradient at distance ``n`` relative to that at distance 0, without
            a unit. So entry 0 is 1. The browser gets float32: what is smaller than about 1.4e-45 is shown as
            "underflow".
        distance: where the cursor stands at first, in steps.
        hidden: names of models that are switched off at first.
        roles: colours of the lines, as in ``attnlab.plots``; models without one get "a" to "f" in turn.

    Raises:
        TypeError: a curve does not hold real numbers, or ``curves`` is no mapping.
        ValueError: no curve or more than six, an empty name, curves of different or too small length, a
            number that is negative or not finite, a curve that does not start at 1, a distance or a name that
            does not exist.

    Example:
        >>> GradientExplorer({"half": [1, 0.5, 0.25]}, distance=2).at()
        {'half': 0.25}
    """

    _esm, _css = browser_code(Path(__file__).parent)

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    roles = traitlets.List(traitlets.Unicode()).tag(sync=True)
    curves = traitlets.Bytes().tag(sync=True)  # float32, (models, distances)
    distance = traitlets.Int(0).tag(sync=True)
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        curves: Mapping[str, Any],
        *,
        distance: int = 0,
        hidden: tuple[str, ...] | list[str] = (),
        roles: Mapping[str, str] | None = None,
    ) -> None:
        table = _table(curves)
        self._table = table
        super().__init__(
            names=list(curves),
            roles=_colours(list(curves), roles or {}),
            curves=table.tobytes(),
            distance=distance,
            hidden=list(hidden),
        )

    @traitlets.validate("distance")
    def _check_distance(self, proposal: Any) -> int:
        last = self._table.shape[1] - 1
        if not 0 <= proposal["value"] <= last:
            raise OutOfRange(
                f"distance: expected a number of steps from 0 to {last}, got {proposal['value']}"
            )
        return int(proposal["value"])

    @traitlets.validate("hidden")
    def _check_hidden(self, proposal: Any) -> list[str]:
        unknown = [name for name in proposal["value"] if name not in self.names]
        if unknown:
            raise OutOfRange(f"hidden: expected names out of {self.names}, got {unknown}")
        return list(proposal["value"])

    def at(self, distance: int | None = None) -> dict[str, float]:
        """The gradient left at a distance, for every model: what the browser shows.

        Args:
            distance: number of steps back; without it, where the cursor stands.

        Returns:
            For each model, the share of its gradient at distance 0, as the float32 that the browser has; 0.0
            means that it is too small for float32.

        Raises:
            ValueError: there is no such distance.
        """
        steps = self.distance if distance is None else distance
        if not 0 <= steps < self._table.shape[1]:
            raise ValueError(
                f"distance: expected a number of steps from 0 to {self._table.shape[1] - 1}, got {steps}"
            )
        return {name: float(value) for name, value in zip(self.names, self._table[:, steps], strict=True)}

    def summary(self) -> str:
        return f"{', '.join(self.names)}, distances 0 to {self._table.shape[1] - 1}"


def _table(curves: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """Check the curves and stack them, (models, distances)."""
    if not isinstance(curves, Mapping):
        raise TypeError(f"curves: expected a mapping from names to curves, got {type(curves).__name__}")
    if not 1 <= len(curves) <= len(_ROLES):
        raise ValueError(f"curves: expected 1 to {len(_ROLES)} models, got {len(curves)}")
    rows = []
    for name, curve in curves.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"curves: expected names that are text and not empty, got {name!r}")
        row = as_float32(f"curves[{name!r}]", curve)
        if row.ndim != 1 or len(row) < 2:
            raise ValueError(
                f"curves[{name!r}]: expected shape (distances,) with at least 2, got {row.shape}"
            )
        if row.min() < 0:
            raise ValueError(f"curves[{name!r}]: expected norms, which are never negative, got {row.min()}")
        if not np.isclose(row[0], 1, rtol=1e-3):
            raise ValueError(
                f"curves[{name!r}]: expected 1 at distance 0, got {row[0]}; divide the curve by that"
            )
        rows.append(row)
    lengths = {name: len(row) for name, row in zip(curves, rows, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"curves: expected curves of one length, got {lengths}")
    return np.stack(rows).astype(FLOAT32)


def _colours(names: list[str], roles: Mapping[str, str]) -> list[str]:
    """One colour role for each model; those without one take the free letters in turn."""
    for name, role in roles.items():
        if name not in names:
            raise ValueError(f"roles: expected names out of {names}, got {name!r}")
        if role not in (*_ROLES, *_NAMED_ROLES):
            raise ValueError(f"roles: expected one of {(*_ROLES, *_NAMED_ROLES)}, got {role!r}")
    free = (role for role in _ROLES if role not in roles.values())
    return [roles[name] if name in roles else next(free) for name in names]
