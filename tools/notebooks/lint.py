"""Find numbers in prose that look like results and were typed by hand.

A result belongs to a claim, so that the text cannot say what the notebook does not compute. A number is let
pass where its sentence cites a source, where the code cells hold the same number, where it is a label or a
setting (Section 3.2, torch 2.13, a learning rate of ...), or where it is marked as given, ``[[=0.1]]``.
"""

import re
from collections.abc import Collection

from .markdown import LINK, MATH, mask, prose_only
from .references import REFERENCE

_NUMBER = r"(?<![\w.,\-\u2013])[+\-\u2212]?\d[\d,]*(?:\.\d+)?(?!\d|\.\d)"
_DECIMAL = r"(?<![\w.,\-\u2013])[+\-\u2212]?\d+\.\d+(?!\d|\.\d|e[\-\u2212]?\d|[MB]\b)"
_WORD = r"two|three|four|five|six|seven|eight|nine|ten"
_SPACE = r"[ \u00a0\u202f]?"
RESULT = re.compile(
    rf"(?P<percent>{_NUMBER}{_SPACE}(?:%|per ?cent\b|(?:percentage )?points?\b))"
    rf"|(?P<factor>{_NUMBER}{_SPACE}(?:\u00d7(?!\s?\d)|x\b(?!\s?\d)|-?fold\b)"
    rf"|(?:{_NUMBER}|\b(?:{_WORD}|twelve|twenty|a hundred))[ -]times\b|\btwice as\b)"
    rf"|(?P<decimal>{_DECIMAL})"
    rf"|(?P<count>\b(?:(?:\d+|{_WORD}) (?:out )?of|one (?:in|out of)) (?:\d+|{_WORD}|twenty)\b)",
    re.I,
)
CITED = re.compile(
    r"\bet al\b|\[@|(?<![\w@])@[a-z]+\d{4}|\{cite|\b[A-Z][\w-]+,? \(?(?:19|20)\d\d[a-z]?\)"
    r"|\]\(https?:|ar[xX]iv|doi\.org"
)
LABEL = re.compile(
    r"(?:^#+ |\b(?:sections?|sec\.|lessons?|chapters?|figures?|figs?\.|tables?|eqs?\.|equations?|exercises?"
    r"|heads?|cells?|versions?|release|v|python|(?:py)?torch|numpy|matplotlib|jupyter book|cuda|llama|gpt"
    r"|cc[ -]by|apache)"
    r"[ -]?(?:\(|(?:>=|\u2265) ?|(?:[\d.]+(?:,? (?:and|to|or) |, ))+)?)\Z",
    re.I | re.M,
)
SETTING = re.compile(
    r"\b(?:learning rate|dropout|weight decay|momentum|temperature|label smoothing|epsilon|betas?|probability"
    r"|threshold|level|lr|\u03b2.?|\u03b5)(?: (?:rate|of|to|is|at|=|\d\.\d+ and))* ?\Z",
    re.I,
)
MEASURED = re.compile(
    r"\baccura(?:te|cy|cies)|\bloss\b|\berror|\brecall\b|likelihood|perplex|\bscore[sd]?\b|reach|achieve|obtain"
    r"|\b(?:fell|rose|(?:fall|drop|rise|gain)s?)\b|^\s*\|",
    re.I,
)
SENTENCE_END = re.compile(r"\n\s*\n|(?<=[.!?])\s+(?=[A-Z*\[@])|(?<=;)\s|\n(?=\s*[|#\-*>]|\s*\d+\. )")
ROW_HEAD = re.compile(r"\s*\|[^|\n]*\Z")
GIVEN = "<!-- given -->"


def typed(text: str, known: Collection[float] = frozenset()) -> list[tuple[int, str]]:
    """Return offset and text of the numbers that look like results and that nothing vouches for.

    ``known`` holds the numbers of the code cells.
    """
    clear = mask(prose_only(text), MATH, LINK, REFERENCE)
    cuts = [0, *[match.end() for match in SENTENCE_END.finditer(clear)], len(clear)]
    found = []
    for begin, end in zip(cuts, cuts[1:], strict=False):
        if CITED.search(text, begin, end):
            continue
        measured = bool(MEASURED.search(text[begin:end]))
        for match in RESULT.finditer(clear, begin, end):
            before, after = clear[begin : match.start()], clear[match.end() :]
            vouched = not measured and _vouched(match[0], str(match.lastgroup), known)
            if not (vouched or _named(match, before, after)):
                found.append((match.start(), match[0]))
    return found


def typed_on_page(text: str) -> list[tuple[int, str]]:
    """Return line and text of typed results on a page; a line that holds ``<!-- given -->`` is let pass."""
    lines = text.split("\n")
    places = [(text.count("\n", 0, offset), shown) for offset, shown in typed(text)]
    return [(number + 1, shown) for number, shown in places if GIVEN not in lines[number]]


def _named(match: re.Match[str], before: str, after: str) -> bool:
    """Return whether the number names something, or was chosen and not measured."""
    kind, shown = match.lastgroup, match[0]
    if LABEL.search(before):
        return True
    if kind == "decimal":
        return shown in ("0.0", "1.0") or bool(SETTING.search(before) or ROW_HEAD.match(before))
    return kind == "percent" and bool(re.match(r" (?:confidence|credible)", after))


def _vouched(shown: str, kind: str, known: Collection[float]) -> bool:
    """Return whether the code holds the same number: then it is a setting (0.9 may be, 0.90 is a result)."""
    if kind not in ("decimal", "percent") or re.search(r"\.\d+0\b", shown):
        return False
    digits = re.match(r"[+\-]?[\d.]+", shown.replace(",", "").replace("\u2212", "-"))
    if not digits:
        return False
    number = float(digits[0])
    return round(number / 100 if kind == "percent" else number, 11) in known
