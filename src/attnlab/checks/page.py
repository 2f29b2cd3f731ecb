"""A report as HTML: without a script, and readable without its colours and without its style."""

from __future__ import annotations

import html

from .verdict import CaseResult, Report, number

# The course's colours for "value" (right) and "wrong", on light and on dark pages.
_STYLE = """<style>
.attnlab-report { --right: #128379; --wrong: #4d0316; --other: #5c6670;
  border-left: 4px solid var(--other); padding: 0.2em 0.9em; margin: 0.3em 0; }
html[data-theme="dark"] .attnlab-report, body[data-jp-theme-light="false"] .attnlab-report,
html[theme="dark"] .attnlab-report { --right: #4bfccd; --wrong: #ff2863; --other: #a3acb6; }
.attnlab-report.right { border-left-color: var(--right); }
.attnlab-report.wrong { border-left-color: var(--wrong); border-left-style: double; }
.attnlab-report p, .attnlab-report ul { margin: 0.3em 0; }
.attnlab-report ul { padding-left: 1.2em; }
</style>"""


def render(report: Report) -> str:
    """The report as one HTML block; everything that comes from the answer is escaped."""
    title = html.escape(report.title)
    kind = "right" if report.passed else "wrong" if report.attempted else "other"
    parts = [
        _STYLE,
        f'<div class="attnlab-report {kind}" role="group" aria-label="Check: {title}">',
        f"<p><strong>{title}</strong>: {html.escape(report.verdict)}</p>",
    ]
    if report.attempted:
        parts += ["<ul>", *(_item(*told) for told in report.told()), "</ul>"]
        parts += [_advice(label, text) for label, text in report.advice()]
    parts += [_advice("note", text) for text in report.notes]
    return "\n".join([*parts, "</div>"])


def _item(result: CaseResult, message: str) -> str:
    points = f"({number(result.points)} of {number(result.max_points)})"
    text = f"<br>{html.escape(message)}" if message else ""
    return f"<li><strong>{result.status}</strong> {html.escape(result.name)} {points}{text}</li>"


def _advice(label: str, text: str) -> str:
    return f"<p><strong>{label.capitalize()}:</strong> {html.escape(text)}</p>"
