"""What the pages of feedback and the summary share: one HTML frame without a script, on light and on dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["document", "heading", "paragraph", "plain", "table", "write_page"]

LONGEST_TEXT = 1_000
"""Characters of one text on a page: what comes from a submission may be long."""

# The course's colours: "value" for right, "wrong", "weight" for links and bars.
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --paper: #ffffff; --line: #b9c0c8; --right: #0d6b62;
  --wrong: #4d0316; --bar: #a921da; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14181e; --line: #4b545e;
  --right: #4bfccd; --wrong: #ff6f95; --bar: #af56f4; } }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 1rem; max-width: 60rem; overflow-wrap: anywhere; }
h2 { margin-top: 2rem; } caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
table { border-collapse: collapse; width: 100%; overflow-wrap: break-word; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem;
  border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
.right { color: var(--right); font-weight: 600; } .wrong { color: var(--wrong); font-weight: 600; }
.wide { overflow-x: auto; } svg text { fill: var(--ink); font: 14px system-ui, sans-serif; }
@media print { :root { --ink: #000; --paper: #fff; } }
"""
# Nothing may be loaded or run, even if a text should escape its escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page.

    Args:
        title: its title and first heading, plain text.
        parts: pieces of HTML, below the heading.
    """
    shown = plain(title)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{shown}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{shown}</h1>",
            *parts,
            "</main>\n</body>\n</html>\n",
        ]
    )


def heading(text: str) -> str:
    """A heading of the second level from plain text."""
    return f"<h2>{plain(text)}</h2>"


def paragraph(text: str, label: str = "") -> str:
    """A paragraph.

    Args:
        text: plain text.
        label: a word before it, made bold.
    """
    before = f"<strong>{html.escape(label)}:</strong> " if label else ""
    return f"<p>{before}{plain(text)}</p>"


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    """A table whose first cells name their rows.

    Args:
        caption: what it shows.
        head: the columns' names.
        rows: plain texts.
        numbers: columns that are set to the right.
    """
    right = set(numbers)

    def cell(tag: str, index: int, text: str, scope: str = "") -> str:
        kind = ' class="number"' if index in right else ""
        return f"<{tag}{scope}{kind}>{plain(text)}</{tag}>"

    lines = [
        '<div class="wide" tabindex="0" role="region" aria-label="' + plain(caption) + '">',
        f"<table><caption>{plain(caption)}</caption>",
        "<thead><tr>"
        + "".join(cell("th", index, text, ' scope="col"') for index, text in enumerate(head))
        + "</tr></thead><tbody>",
    ]
    for row in rows:
        first, *rest = row
        cells = [cell("th", 0, first, ' scope="row"')]
        cells += [cell("td", index, text) for index, text in enumerate(rest, start=1)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def plain(text: str) -> str:
    """Plain text as HTML: escaped, cut where it is longer than a page needs, without control characters.

    Characters that cannot be shown, or that turn the direction of writing, become ``?``.
    """
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text[:LONGEST_TEXT])
    return html.escape(shown) + (" … (cut)" if len(text) > LONGEST_TEXT else "")


def write_page(path: Path, text: str) -> None:
    """Write a page in UTF-8; half a surrogate pair becomes a question mark.

    Args:
        path: the file; its folder is made.
        text: the page.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
