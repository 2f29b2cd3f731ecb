"""What all widgets share: their common base class, checked arrays, and the joining of their browser code.

The browser gets one ES module for each widget, with no import in it: the shared part (``_shared.js``)
followed by the widget's own. Style sheets are joined in the same way. Numbers travel as little-endian float32
bytes, a fifth of what a list of numbers needs as JSON.
"""

from __future__ import annotations

from typing import Any

import anywidget
import numpy as np
import numpy.typing as npt
import traitlets

from ._joined import browser_code

__all__ = ["FLOAT32", "CourseWidget", "OutOfRange", "as_float32", "browser_code"]

#: How numbers are sent to the browser.
FLOAT32 = np.dtype("<f4")


class OutOfRange(traitlets.TraitError, ValueError):
    """A trait was given a value outside of its range.

    A ``ValueError`` for the caller. It is a ``TraitError`` too, because only then traitlets puts the old
    value back when the bad one came from the browser.
    """


def as_float32(argument: str, value: Any) -> npt.NDArray[np.float32]:
    """Copy a tensor, an array or nested lists of real numbers into a float32 array.

    Args:
        argument: name of the argument, for messages.
        value: the numbers. A tensor may need gradients and may be on any device.

    Raises:
        TypeError: these are no numbers.
        ValueError: there are none, or one of them is not finite or too large for float32.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    try:
        wide = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{argument}: expected a tensor or an array of real numbers, got {type(value).__name__}"
        ) from error
    if wide.size == 0:
        raise ValueError(f"{argument}: expected at least one number, got shape {wide.shape}")
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.ascontiguousarray(wide, dtype=FLOAT32)
    if not np.isfinite(narrow).all():
        bad = wide[~np.isfinite(narrow)][0]
        raise ValueError(f"{argument}: expected finite numbers that a float32 can hold, got {bad}")
    return narrow


def _current_run() -> tuple[str, str] | None:
    """The cell that runs now and the identity of this run, where the notebook's front end names them."""
    try:
        from IPython.core.getipython import get_ipython

        message = get_ipython().get_parent()  # type: ignore[union-attr]
        return str(message["metadata"]["cellId"]), str(message["header"]["msg_id"])
    except (AttributeError, ImportError, KeyError, TypeError, LookupError):
        return None


class CourseWidget(anywidget.AnyWidget):
    """Base of the widgets. Running a cell again replaces the widgets that it made before.

    Jupyter keeps every widget that was ever made, and saves all of them in the notebook. So a notebook would
    grow with every run of a cell. A widget therefore closes those that an earlier run of its own cell has
    left.
    """

    _made_by_cell: dict[str, tuple[str, list[CourseWidget]]] = {}

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        run = _current_run()
        if run is not None:
            self._replace_earlier(*run)

    def _replace_earlier(self, cell: str, run: str) -> None:
        last_run, widgets = self._made_by_cell.get(cell, (run, []))
        if last_run != run:
            for widget in widgets:
                widget.close()
            widgets = []
        self._made_by_cell[cell] = (run, [*widgets, self])

    def close(self) -> None:
        """Remove the widget from all pages that show it, and from the kernel, with its layout."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()

    def summary(self) -> str:
        """What the widget holds, in a few words: this stands where no widget can be shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"
