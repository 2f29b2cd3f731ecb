"""The font of formulas and headings: the part of STIX Two Math that the pages use, cut out at each build.

The font comes with the package ziamath, under the SIL Open Font License 1.1. The repository holds none of it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

MATH = re.compile(r"<math\b.*?</math>", re.DOTALL)
HEADING = re.compile(r"<h[1-4]\b.*?</h[1-4]>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
IDENTIFIER = re.compile(r"<mi>([^<]|&\w+;)</mi>")

#: What is always there: the sign of the root, which stands in no text, and the letters of headings.
ALWAYS = (
    "√"
    + "".join(map(chr, range(0x20, 0x7F)))
    + "\u2212\u2032\u2026\u2013\u2014\u2018\u2019\u201c\u201d\u00d7"
)

#: First letter of each run of letters, length of the run, and where Unicode keeps it in mathematical italics.
ITALIC_RUNS = (("A", 26, 0x1D434), ("a", 26, 0x1D44E), ("Α", 25, 0x1D6E2), ("α", 25, 0x1D6FC))
ITALIC_SINGLE = {
    "h": "ℎ",
    "∂": "𝜕",
    "ϵ": "𝜖",
    "ϑ": "𝜗",
    "ϰ": "𝜘",
    "ϕ": "𝜙",
    "ϱ": "𝜚",
    "ϖ": "𝜛",
    "ı": "𝚤",
    "ȷ": "𝚥",
}


def italic(letter: str) -> str:
    """The letter that a browser draws for an identifier of one letter."""
    if letter in ITALIC_SINGLE:
        return ITALIC_SINGLE[letter]
    for first, length, start in ITALIC_RUNS:
        offset = ord(letter) - ord(first)
        if 0 <= offset < length:
            return chr(start + offset)
    return letter


def characters(pages: Iterable[str]) -> set[str]:
    """Every character that the formulas and headings of the pages need."""
    needed = set(ALWAYS)
    for page in pages:
        for part in [*MATH.findall(page), *HEADING.findall(page)]:
            needed |= set(html.unescape(TAG.sub("", part)))
            needed |= {italic(html.unescape(letter)) for letter in IDENTIFIER.findall(part)}
    return needed


def offer_script_shapes(font: TTFont) -> None:
    """Let a style sheet ask for the shapes that scripts have.

    The font offers them for the script "math" alone, as which only Firefox shapes a formula.
    """
    scripts = {record.ScriptTag: record.Script for record in font["GSUB"].table.ScriptList.ScriptRecord}
    for script in scripts.values():
        script.DefaultLangSys = scripts["math"].DefaultLangSys


def level_scripts(font: TTFont) -> None:
    """Let scripts stand on one line, whatever letter they belong to, as TeX has them.

    A browser lowers a subscript by what its letter reaches below the line, plus a drop, where that is more
    than the usual shift: with the drop of this font, the index of g would stand lower than the one of h.
    """
    constants = font["MATH"].table.MathConstants
    constants.SubscriptBaselineDropMin.Value = 0
    constants.SuperscriptBaselineDropMax.Value = 390


def write_font(pages: Iterable[str], path: Path) -> None:
    """Write a WOFF2 file with the characters that the pages need and the tables that build formulas."""
    options = subset.Options(flavor="woff2", hinting=False, notdef_outline=True, name_IDs=[0, 1, 2, 13, 14])
    options.layout_features = ["kern", "liga", "mark", "mkmk", "ssty", "dtls", "flac"]
    with resources.as_file(resources.files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf") as source:
        font = subset.load_font(str(source), options)
        font.recalcTimestamp = False
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=sorted(map(ord, characters(pages))))
        cutter.subset(font)
        offer_script_shapes(font)
        level_scripts(font)
        subset.save_font(font, str(path), options)
