"""Markdown inside a line, as HTML and back: Markdown does not reach into a ``<summary>``.

Only what an option of a quiz needs: code, bold, italics and formulas. A formula stays as it is, since
notebooks look for formulas in HTML, too.
"""

import html
import re

from .markdown import MATH, TICKS

_STYLES = (("strong", "**"), ("em", "*"))
_KEPT = re.compile(rf"(?P<code>{TICKS.pattern})|(?P<math>{MATH.pattern})", re.S)
_HTML = re.compile(r"<code>(?P<code>.*?)</code>|(?P<math>" + MATH.pattern + r")|</?(?P<tag>strong|em)>", re.S)


def to_html(text: str) -> str:
    """Return a line of Markdown as HTML."""
    out, at = [], 0
    for match in _KEPT.finditer(text):
        out += [_styled(text[at : match.start()]), _kept(match)]
        at = match.end()
    return "".join([*out, _styled(text[at:])])


def _kept(match: re.Match[str]) -> str:
    if match["math"]:
        return match["math"]
    ticks = str(match["t"])
    return f"<code>{html.escape(match['code'][len(ticks) : -len(ticks)], quote=False)}</code>"


def _styled(text: str) -> str:
    text = html.escape(text, quote=False)
    for tag, sign in _STYLES:
        text = re.sub(
            rf"(?<![\w*]){re.escape(sign)}(?=[^\s*])(.+?)(?<=[^\s*]){re.escape(sign)}(?![\w*])",
            rf"<{tag}>\1</{tag}>",
            text,
            flags=re.S,
        )
    return text


def from_html(text: str) -> str:
    """Return the Markdown that ``to_html`` made HTML of. Raises ``ValueError`` for other tags."""
    out, at = [], 0
    signs = dict(_STYLES)
    for match in _HTML.finditer(text):
        out.append(_plain(text[at : match.start()]))
        if match["tag"]:
            out.append(signs[match["tag"]])
        elif match["math"]:
            out.append(match["math"])
        else:
            code = html.unescape(match["code"])
            ticks = "``" if "`" in code else "`"
            out.append(f"{ticks}{code}{ticks}")
        at = match.end()
    return "".join([*out, _plain(text[at:])])


def _plain(text: str) -> str:
    if "<" in text:
        raise ValueError(
            f"{text.strip()!r}: an option holds text, `code`, $formulas$, **bold** and *italics*"
        )
    return html.unescape(text)


def refused(text: str) -> str | None:
    """Return why a line of Markdown cannot become HTML and come back; None if it can."""
    for match in _KEPT.finditer(text):
        if match["math"] and re.search("[<>&]", match["math"]):
            return r"write \lt, \gt and \text{and} in its formula: < and & are signs of HTML"
        if match["math"] and match["math"].startswith("$$"):
            return "a displayed formula does not fit into an option"
    try:
        same = from_html(to_html(text)) == text
    except ValueError as error:
        return str(error)
    return None if same else "only text, `code`, $formulas$, **bold** and *italics* are understood"
