"""The joining of a widget's browser code. Python alone is needed: the website's build reads this file too."""

from __future__ import annotations

from pathlib import Path

__all__ = ["browser_code"]

_HERE = Path(__file__).parent


def browser_code(folder: Path, *more: str) -> tuple[str, str]:
    """Join the shared part with the module and the style sheet in ``folder``, named like the folder.

    Further modules of the folder stand between the two, in the order of their names.

    Args:
        folder: the folder of the widget.
        more: names of further shared parts that this widget needs, "map" for ``_map.js`` and ``_map.css``.

    Returns:
        The ES module and the style sheet, as text.
    """

    def joined(kind: str) -> str:
        own = folder / f"{folder.name}.{kind}"
        others = sorted(path for path in folder.glob(f"*.{kind}") if path != own)
        shared = [_HERE / f"_{name}.{kind}" for name in ("shared", *more)]
        parts = (*shared, *others, own)
        return "\n".join(part.read_text(encoding="utf-8") for part in parts)

    return joined("js"), joined("css")
