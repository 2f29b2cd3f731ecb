"""Quizzes: the folds of a notebook get the shape that the site's script and its print style work on.

In the notebook an option is ``<details><summary>option</summary>``, its explanation, and ``</details>``.
Here each question becomes a block that says which options are right, formulas in options become formulas,
and the answers are set once more at the end, for print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
OPENING = re.compile(r"<details><summary>(.*)</summary>\s*", re.S)
CLOSING = "</details>"
NUMBER = re.compile(r"(\d+)\.")
FORMULA = re.compile(r"\$([^$]+)\$")
VERDICTS = {"Right.": "right", "Wrong.": "wrong"}


def shape_quizzes(app: Sphinx, doctree: nodes.document) -> None:
    """Give every section called Quiz that holds folds its shape."""
    for section in list(doctree.findall(nodes.section)):
        folds = any(isinstance(part, nodes.raw) and OPENING.fullmatch(part.astext()) for part in section)
        if folds and section.next_node(nodes.title).astext() == "Quiz":
            shape(section)


def shape(section: nodes.section) -> None:
    """Sort the parts of a section into questions, their options, and the answers."""
    parts = list(section.children)
    start = next((place for place, part in enumerate(parts) if number_of(part)), len(parts))
    questions: list[list[nodes.Node]] = []
    for part in parts[start:]:
        if number_of(part):
            questions.append([])
        questions[-1].append(part)
    advice = [block("quiz-advice", *parts[1:start])]
    shaped = [question(inside) for inside in questions]
    section.children = []
    section += [
        parts[0],
        block("quiz", *advice, *(one for one, _ in shaped), answers([a for _, a in shaped])),
    ]


def block(name: str, *inside: nodes.Node) -> nodes.container:
    """A part of a quiz; Sphinx writes it as a division of that class."""
    return nodes.container("", *inside, classes=[name])


def number_of(part: nodes.Node) -> str:
    """The number that a paragraph begins with in bold, if it opens a question."""
    found = NUMBER.fullmatch(opening_words(part))
    return found[1] if found else ""


def opening_words(part: nodes.Node | None) -> str:
    """What a paragraph begins with, if that is bold."""
    inside = part.children if isinstance(part, nodes.paragraph) else []
    first = next((child for child in inside if child.astext()), None)  # MyST may put an empty text before it
    return first.astext() if isinstance(first, nodes.strong) else ""


def question(parts: list[nodes.Node]) -> tuple[nodes.container, nodes.list_item]:
    """The block of a question, and the entry of the answers that belongs to it."""
    text: list[nodes.Node] = []
    options: list[nodes.Node] = []
    answer = nodes.enumerated_list("", enumtype="loweralpha", suffix=".")
    waiting = iter(parts)
    for part in waiting:
        opening = OPENING.fullmatch(part.astext()) if isinstance(part, nodes.raw) else None
        if not opening:
            text.append(part)
            continue
        why = list(until_closed(waiting))
        verdict = VERDICTS.get(opening_words(why[0] if why else None), "")
        if not verdict:
            LOGGER.warning(
                "quiz: an option does not say Right or Wrong: %s", opening[1], location=part, type="quiz"
            )
        options += [
            raw(f'<details class="quiz-option" data-verdict="{verdict}"><summary>'),
            *inline(opening[1]),
        ]
        options += [raw("</summary>\n"), block("quiz-why", *why), raw("</details>\n")]
        answer += nodes.list_item("", *(entry.deepcopy() for entry in why))
    return block("quiz-question", block("quiz-text", *text), *options), nodes.list_item("", answer)


def until_closed(waiting: Iterator[nodes.Node]) -> Iterator[nodes.Node]:
    """What stands inside a fold."""
    for part in waiting:
        if isinstance(part, nodes.raw) and part.astext().strip() == CLOSING:
            return
        yield part


def inline(text: str) -> Iterator[nodes.Node]:
    """The text of an option: HTML, and formulas between dollar signs where it holds no code."""
    for piece in re.split(r"(<code>.*?</code>)", text, flags=re.S):
        if piece.startswith("<code>"):
            yield raw(piece)
            continue
        for place, part in enumerate(FORMULA.split(piece)):
            if part:
                yield nodes.math(part, part) if place % 2 else raw(part)


def raw(text: str) -> nodes.raw:
    """HTML that is written as it stands."""
    return nodes.raw("", text, format="html")


def answers(entries: list[nodes.list_item]) -> nodes.container:
    """What print shows after the questions; on a screen it is hidden."""
    title = nodes.paragraph("", "", nodes.strong("", "Answers"))
    return block("quiz-answers", title, nodes.enumerated_list("", *entries, enumtype="arabic", suffix="."))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", shape_quizzes, priority=400)  # before formulas are kept with what closes them
    return {"parallel_read_safe": True, "parallel_write_safe": True}
