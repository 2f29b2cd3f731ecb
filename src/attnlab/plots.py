"""Figures of the course: tensors in, matplotlib figures out, all in one style.

Every function returns a :class:`Picture`. It is shown when it is the last expression of a cell, carries
its alternative text to Jupyter and to the website, and holds the matplotlib figure as ``.figure``.
Figures are built without ``pyplot``, so no figure stays open and none is drawn twice. The background is
opaque: a figure reads on a light and on a dark page. Colour is never the only sign: lines differ in style and
marker, masked cells are hatched, small matrices show their values.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
from PIL import Image

__all__ = ["COLOURS", "WEIGHT_MAP", "Picture", "bars", "lines", "matrix", "show", "small_multiples", "style"]

#: Colour of each role on a light page; "a" to "f" are for series that are no role.
COLOURS: dict[str, str] = {
    "query": "#042159",
    "key": "#b55312",
    "value": "#128379",
    "weight": "#a921da",
    "wrong": "#4d0316",
    "a": "#2f6fb5",
    "b": "#c2386b",
    "c": "#5d7a12",
    "d": "#7b5ea7",
    "e": "#8a6d3b",
    "f": "#5b6673",
}

#: Every map of numbers from 0 to 1: from the colour of the page to the colour of attention weights.
WEIGHT_MAP = LinearSegmentedColormap.from_list("attnlab_weight", ["#ffffff", COLOURS["weight"]])

_STYLE = Path(__file__).with_name("attnlab.mplstyle")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (9, 3)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MARKERS = "osD^vPX*"
_SERIES = ("a", "b", "c", "d", "e", "f")
_CELL_FOR_VALUE = 0.4  # inches: in smaller cells a written value would run into its neighbour


_P = ParamSpec("_P")


@dataclass(frozen=True)
class Picture:
    """A figure with its alternative text.

    Args:
        figure: the matplotlib figure.
        alt: one or two sentences that say what the figure shows, for those who cannot see it.
    """

    figure: Figure
    alt: str

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def png(self) -> bytes:
        """The figure as PNG bytes. The same figure gives the same bytes."""
        raw = io.BytesIO()
        with style():
            self.figure.savefig(raw, format="png")
        raw.seek(0)
        # A palette keeps a page of figures light; they hold few colours, so nothing is lost to the eye.
        palette = Image.open(raw).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        out = io.BytesIO()
        palette.save(out, format="png", optimize=True)
        return out.getvalue()

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        width, height = (self.figure.get_size_inches() * 100).astype(int).tolist()
        data = {"text/plain": repr(self), "image/png": self.png()}
        return data, {"image/png": {"alt": self.alt, "width": width, "height": height}}


def style() -> Any:
    """Context manager: the course's style sheet for figures that you build yourself."""
    return matplotlib.rc_context(fname=_STYLE)


def _styled(draw: Callable[_P, Picture]) -> Callable[_P, Picture]:
    @functools.wraps(draw)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> Picture:
        with style():
            return draw(*args, **kwargs)

    return wrapped


def show(figure: Figure, *, alt: str) -> Picture:
    """Show a figure of your own as the course's figures are shown.

    Args:
        figure: any matplotlib figure; build it within ``with plots.style():``.
        alt: what the figure shows, in a sentence or two.

    Raises:
        ValueError: if ``alt`` is empty.
    """
    if not alt.strip():
        raise ValueError("alt must say what the figure shows, but it is empty")
    return Picture(figure, alt.strip())


@_styled
def lines(
    positions: Sequence[float],
    series: Mapping[str, Any],
    /,
    *,
    x: str,
    y: str,
    alt: str,
    log: str = "",
    roles: Mapping[str, str] | None = None,
    guides: Mapping[str, float] | None = None,
    marks: bool = True,
    title: str = "",
) -> Picture:
    """One line for each series over common positions.

    Args:
        positions: ``(N,)`` numbers on the horizontal axis.
        series: label to ``(N,)`` values; a value that a log axis cannot show (0, nan) leaves a gap.
        x, y: labels of the axes, with units.
        alt: what the figure shows.
        log: the axes with a logarithmic scale: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
        roles: label to a key of :data:`COLOURS`; the others get neutral colours in order.
        guides: label to a height, drawn as a thin horizontal line (chance, say).
        marks: draw a marker at each position; switch off for long series.
        title: short title, if the text does not give it.

    Raises:
        ValueError: if ``log`` is none of the four, a series has another length than ``positions``, or a role
            is unknown.
    """
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log must be '', 'x', 'y' or 'xy', but it is {log!r}")
    at = _numbers(positions)
    figure, axes = _axes(x, y, title)
    for i, (label, values) in enumerate(series.items()):
        heights = _numbers(values)
        if heights.shape != at.shape:
            raise ValueError(
                f"series {label!r} has shape {heights.shape}, expected {at.shape} like positions"
            )
        axes.plot(
            at,
            np.where(heights > 0, heights, np.nan) if "y" in log else heights,
            label=label,
            color=_colour(label, roles, i),
            linestyle=_DASHES[i % len(_DASHES)],
            marker=_MARKERS[i % len(_MARKERS)] if marks else "",
        )
    drawn = list(axes.lines)
    for height in (guides or {}).values():
        axes.axhline(height, color=COLOURS["f"], linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    _scales(axes, at, log)
    for label, height in (guides or {}).items():
        end = min((0, 1), key=lambda end: _in_the_way(axes, drawn, height, end))
        axes.annotate(label, (end, height), xycoords=("axes fraction", "data"), xytext=(4 - 8 * end, 3),
                      textcoords="offset points", ha=("left", "right")[end], va="bottom", fontsize=8.5,
                      color=COLOURS["f"])  # fmt: skip
    if len(series) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return show(figure, alt=alt)


@_styled
def bars(
    values: Mapping[str, float],
    /,
    *,
    y: str,
    alt: str,
    roles: Mapping[str, str] | None = None,
    guides: Mapping[str, float] | None = None,
    title: str = "",
) -> Picture:
    """One horizontal bar for each label, with its value written at the end.

    Args:
        values: label to height.
        y: what the values are, with units.
        alt: what the figure shows.
        roles: label to a key of :data:`COLOURS`; the others share one neutral colour.
        guides: label to a value, drawn as a thin line across the bars.
        title: short title.
    """
    labels = list(values)
    figure = Figure(figsize=(7, 0.9 + 0.36 * len(labels)))
    axes = figure.subplots()
    colours = [_colour(label, roles, 0) for label in labels]
    drawn = axes.barh(labels, _numbers(list(values.values())), color=colours, height=0.62)
    behind = {"facecolor": "#ffffff", "edgecolor": "none", "pad": 0.5}  # no guide runs through a value
    axes.bar_label(drawn, fmt="%.3g", padding=4, fontsize=9, bbox=behind)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel(y)
    axes.set_title(title)
    for label, value in (guides or {}).items():
        axes.axvline(value, color=COLOURS["f"], linewidth=1, linestyle=(0, (2, 2)))
        axes.annotate(label, (value, 1), xycoords=("data", "axes fraction"), xytext=(0, 2), fontsize=8.5,
                      textcoords="offset points", ha="center", va="bottom", color=COLOURS["f"])  # fmt: skip
    return show(figure, alt=alt)


def matrix(
    weights: Any,
    /,
    *,
    alt: str,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    x: str = "keys",
    y: str = "queries",
    mask: Any = None,
    label: str = "attention weight",
    title: str = "",
) -> Picture:
    """Attention weights as a map, always on 0 to 1.

    Args:
        weights: ``(T, S)`` numbers from 0 to 1.
        alt: what the figure shows.
        rows, columns: ``T`` and ``S`` labels, the tokens; numbers if left out.
        x, y: what the columns and the rows are.
        mask: ``(T, S)`` booleans, True = may attend; the cells that may not are hatched.
        label: what the numbers are, beside the scale.
        title: short title.

    Raises:
        ValueError: if weights are no matrix, leave 0 to 1, or labels or mask do not fit.
    """
    return small_multiples(
        [weights], titles=[title], rows=rows, columns=columns, x=x, y=y, mask=mask, label=label, alt=alt
    )


@_styled
def small_multiples(
    weights: Sequence[Any],
    /,
    *,
    alt: str,
    titles: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    x: str = "keys",
    y: str = "queries",
    mask: Any = None,
    label: str = "attention weight",
) -> Picture:
    """Several maps of attention weights side by side, all on 0 to 1 and with common labels.

    Args:
        weights: maps, each ``(T, S)`` with numbers from 0 to 1, all of one shape.
        alt: what the figure shows.
        titles: one short title a map.
        rows, columns, x, y, label: as in :func:`matrix`.
        mask: ``(T, S)`` booleans for all maps, or ``(N, T, S)``, one mask a map; True = may attend.

    Raises:
        ValueError: as :func:`matrix`, and if the maps are not all of one shape.
    """
    maps = [_unit_matrix(w) for w in weights]
    if len({values.shape for values in maps}) > 1:
        raise ValueError(f"weights must be maps of one shape, but have {[values.shape for values in maps]}")
    count_rows, count_columns = maps[0].shape
    row_labels = _labels(rows, count_rows, "rows")
    column_labels = _labels(columns, count_columns, "columns")
    allowed = _allowed(mask, (len(maps), count_rows, count_columns))
    across = len(maps) if len(maps) < 4 else 2 if len(maps) == 4 else 4  # four read better as two by two
    down = math.ceil(len(maps) / across)
    side = {1: 3.6, 2: 2.8}.get(across, 2.1)  # inches
    cell = side / max(maps[0].shape)
    figure = Figure(figsize=(across * side + 1.0, down * cell * count_rows + 1.0))
    grid = figure.subplots(down, across, squeeze=False)
    image: Any = None
    for axes, values, seen, title in zip(grid.flat, maps, allowed, titles or [""] * len(maps), strict=False):
        image = _map(axes, values, row_labels, column_labels, seen, written=cell >= _CELL_FOR_VALUE)
        axes.set_title(title)
    for axes in grid.flat[len(maps) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel(x)
    for axes in grid[:, 0]:
        axes.set_ylabel(y)
    figure.colorbar(image, ax=grid, label=label, ticks=[0, 0.5, 1], shrink=0.8, pad=0.02)
    return show(figure, alt=alt)


def _map(
    axes: Axes, values: Any, rows: Sequence[str], columns: Sequence[str], allowed: Any, written: bool
) -> Any:
    shown = np.where(allowed, values, 0)
    image = axes.imshow(shown, cmap=WEIGHT_MAP, vmin=0, vmax=1)
    axes.grid(False)
    long = max(map(len, columns)) > 5
    axes.set_xticks(
        range(len(columns)), columns, rotation=45 if long else 0, ha="right" if long else "center"
    )
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for i, j in np.ndindex(values.shape):
        if not allowed[i, j]:
            corner = (j - 0.5, i - 0.5)
            axes.add_patch(
                Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor=COLOURS["wrong"], linewidth=0)
            )
        elif written:
            ink = "#ffffff" if values[i, j] > 0.6 else "#1b2430"
            axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=8.5, color=ink)
    return image


def _axes(x: str, y: str, title: str) -> tuple[Figure, Axes]:
    figure = Figure()
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    return figure, axes


def _scales(axes: Axes, at: Any, log: str) -> None:
    if "x" in log:
        axes.set_xscale("log", base=2 if _powers_of_two(at) else 10)
        if len(at) <= 9:
            axes.set_xticks(at)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_formatter(NullFormatter())
    if "y" in log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _in_the_way(axes: Axes, drawn: Sequence[Line2D], height: float, end: int) -> int:
    """How much of the lines runs where a guide's name would stand: above its left end, 0, or its right, 1."""
    left, right = axes.transAxes.transform([(0.8 * end, 0), (0.8 * end + 0.2, 0)])[:, 0]
    bottom = axes.transData.transform((axes.get_xlim()[0], height))[1]
    spots, found = np.linspace(left, right, 40), 0
    for line in drawn:
        points = axes.transData.transform(np.column_stack(line.get_data()))
        points = points[np.isfinite(points).all(axis=1)]
        if len(points):
            inside = spots[(spots >= points[0, 0]) & (spots <= points[-1, 0])]
            above = np.interp(inside, points[:, 0], points[:, 1]) - bottom
            found += int(((above > 3) & (above < 20)).sum())
    return found


def _powers_of_two(at: Any) -> bool:
    return bool(np.all(at > 0) and np.allclose(np.log2(at), np.round(np.log2(at))))


def _colour(label: str, roles: Mapping[str, str] | None, index: int) -> str:
    role = (roles or {}).get(label, _SERIES[index % len(_SERIES)])
    if role not in COLOURS:
        raise ValueError(
            f"role {role!r} of series {label!r} is unknown, expected one of {', '.join(COLOURS)}"
        )
    return COLOURS[role]


def _numbers(values: Any) -> Any:
    """Tensors, arrays or lists as a numpy array; a tensor may require a gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.itemsize < 4 else values
        return values.numpy()
    if isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        return np.array([v.item() for v in values])
    return np.asarray(values)


def _unit_matrix(weights: Any) -> Any:
    values = _numbers(weights).astype(float)
    if values.ndim != 2:
        raise ValueError(f"weights must be a matrix (T, S), but have shape {values.shape}")
    if not (np.isfinite(values).all() and values.min() >= -1e-6 and values.max() <= 1 + 1e-6):
        raise ValueError(
            f"weights must lie between 0 and 1, but go from {values.min():.3g} to {values.max():.3g}"
        )
    return values


def _allowed(mask: Any, shape: tuple[int, int, int]) -> Any:
    """The mask of every map, ``(N, T, S)``; all True where there is none."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    values = _numbers(mask).astype(bool)
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"mask has shape {values.shape}, expected {shape[1:]} or {shape}") from None


def _labels(labels: Sequence[str] | None, count: int, name: str) -> list[str]:
    if labels is None:
        return [str(i) for i in range(count)]
    if len(labels) != count:
        raise ValueError(f"{name} has {len(labels)} labels, expected {count}")
    return list(labels)
