"""How long a lesson takes: minutes to read, counted; seconds to run, measured. Both rounded coarsely.

The text says ``[[how-long:read]]`` and ``[[how-long:run]]``.
"""

import ast
import functools
import re
from pathlib import Path

from . import code
from .manuscript import Manuscript
from .markdown import LINK, MATH, mask, prose_only

# What a person who follows each step takes for a word, a line of code that is not folded, a formula on a line
# of its own, and a figure or widget, in seconds.
WORD, LINE, FORMULA, FIGURE = 0.5, 3.0, 20.0, 40.0
ROUNDED_TO = 5
WIDGETS = Path(__file__).resolve().parents[2] / "src" / "attnlab" / "widgets"
STEPS = (5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600)
# A measurement up to this share above the stored step, or down to this share of it, changes nothing.
ABOVE, BELOW = 1.25, 0.4


def reading(manuscript: Manuscript) -> int:
    """Return the minutes that a lesson takes to read, rounded to five."""
    seconds = 0.0
    for cell in manuscript.of_kind("markdown"):
        text = mask(prose_only(cell.source), LINK)
        seconds += WORD * len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", mask(text, MATH)))
        seconds += FORMULA * len(re.findall(r"\$\$.+?\$\$", text, re.S))
    for cell in manuscript.of_kind("code"):
        if "hide-input" not in cell.tags:
            seconds += LINE * sum(bool(line.strip()) for line in cell.source.split("\n"))
        seconds += FIGURE * _figures(cell.source)
    return max(ROUNDED_TO, round(seconds / 60 / ROUNDED_TO) * ROUNDED_TO)


def _figures(source: str) -> int:
    """Return how many pictures and widgets a cell draws: calls of ``plots``, and of widgets."""
    drawing = "|".join(sorted(code.DRAWING))
    return len(
        re.findall(rf"\bplots\.(?:{drawing}|small_multiples)\(|^(?:{'|'.join(_widgets())})\(", source, re.M)
    )


@functools.cache
def _widgets() -> tuple[str, ...]:
    """Return the names of the course's widgets."""
    tree = code.parse((WIDGETS / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]
    return tuple(alias.name for node in imports for alias in node.names)


def step(cpu: float, stored: int | None) -> int:
    """Return the seconds to run as the text says them, for a run of ``cpu`` CPU-seconds.

    A machine is never equally fast twice: the stored step stays while the run is not far from it.
    """
    if stored and BELOW * stored <= cpu <= ABOVE * stored:
        return stored
    return next((seconds for seconds in STEPS if cpu <= seconds), STEPS[-1])


def words(seconds: int) -> str:
    """Return seconds in words: ``20 seconds``, ``a minute and a half``, ``3 minutes``."""
    special = {60: "a minute", 90: "a minute and a half", 450: "7 minutes and a half"}
    if seconds in special:
        return special[seconds]
    return f"{seconds} seconds" if seconds < 60 else f"{seconds // 60} minutes"


def shown(manuscript: Manuscript, seconds: int | None) -> dict[str, str]:
    """Return what the references of a lesson to its duration are filled with."""
    return {
        "read": f"{reading(manuscript)} minutes",
        **({"run": words(seconds)} if seconds else {}),
    }
