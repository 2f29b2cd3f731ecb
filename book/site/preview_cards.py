"""Pictures for previews: the title of a page beside a map of attention, drawn when the site is built.

The letters are those of the headings. The map is a causal softmax of scores that follow from the page's name,
so each page has its own, and always the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import math
import random
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE = (1200, 630)  # what previews are cut to
PAGE, TEXT, SOFT = (20, 24, 30), (221, 226, 234), (154, 165, 182)
COLD, HOT = (27, 33, 42), (175, 86, 244)  # a weight of zero, and the colour of weights
NAME = "Attention Lab"
TOKENS, CELL, GAP = 9, 44, 4


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """The font of the headings."""
    # Found without importing the package: it is wanted for its font alone.
    spec = importlib.util.find_spec("ziamath")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "fonts" / "STIXTwoMath-Regular.ttf"
    return ImageFont.truetype(path, size)


def weights(seed: str) -> list[list[float]]:
    """A causal map, (TOKENS, TOKENS), whose rows sum to one."""
    draw = random.Random(hashlib.sha256(seed.encode()).digest())
    rows = []
    for query in range(TOKENS):
        exponentials = [math.exp(2 * draw.gauss(0, 1)) for _ in range(query + 1)]
        total = sum(exponentials)
        rows.append([e / total for e in exponentials] + [0.0] * (TOKENS - query - 1))
    return rows


def lines(text: str, size: int, width: int) -> list[str]:
    """The text broken between words, so that no line is wider; a longer word stands alone."""
    broken = [""]
    for word in text.split():
        longer = f"{broken[-1]} {word}".strip()
        if broken[-1] and font(size).getlength(longer) > width:
            broken.append(word)
        else:
            broken[-1] = longer
    return broken


def card(title: str, *, part: str, seed: str) -> bytes:
    """A PNG picture of 1200 by 630 pixels.

    Args:
        title: of the page.
        part: the part of the course that it belongs to; may be empty.
        seed: what decides the map.
    """
    picture = Image.new("RGB", SIZE, PAGE)
    pen = ImageDraw.Draw(picture)
    left, width = 70, 580
    for i, row in enumerate(weights(seed)):
        for j, weight in enumerate(row):
            x, y = SIZE[0] - 60 - (TOKENS - j) * (CELL + GAP), 99 + i * (CELL + GAP)
            share = math.sqrt(weight) if j <= i else 0
            colour = tuple(round(cold + share * (hot - cold)) for cold, hot in zip(COLD, HOT, strict=True))
            pen.rounded_rectangle((x, y, x + CELL, y + CELL), 6, fill=colour)
    pen.text((left, 70), NAME, font=font(38), fill=SOFT)
    size = next((size for size in (84, 68, 56) if len(lines(title, size, width)) <= 3), 46)
    pen.multiline_text(
        (left, SIZE[1] / 2),
        "\n".join(lines(title, size, width)),
        font=font(size),
        fill=TEXT,
        anchor="lm",
        spacing=14,
    )
    pen.text((left, SIZE[1] - 70), part, font=font(30), fill=SOFT, anchor="ls")
    file = io.BytesIO()
    picture.quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()
