"""Solution pages: what the exercise page does not show is folded, each under a name of its own.

A page of solutions has the cells of its exercise notebook, some of them with an answer, and some more. Folded
are the cells that the exercise notebook lacks or has with other content, and the outputs that an answer
changed. What checks say stays in sight: it gives nothing away.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import page_links
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
CELL_LINES = 10_000  # MyST-NB counts the lines of cell number n from here times n + 1
NUMBER = re.compile(r"(\d+)\.")
ANSWER, EXPLANATION, RESULT = "solution", "explanation", "result"


class Fold(nodes.General, nodes.Element):
    """What is closed until a reader opens it; ``label`` is the text that opens it."""


def fold_solutions(app: Sphinx, doctree: nodes.document) -> None:
    """Fold the solutions of the page that was read, if it is one of solutions."""
    match = page_links.CHAPTER.fullmatch(app.env.docname)
    source = Path(app.env.doc2path(app.env.docname))
    if not match or match[1] != "solutions" or source.suffix != ".ipynb":
        return
    exercises = source.parent.parent / "exercises" / source.name
    if not exercises.exists():
        LOGGER.warning(
            "solutions without exercises/%s: nothing is folded", source.name, location=app.env.docname
        )
        return
    app.env.note_dependency(str(exercises))
    kinds = kinds_of(cells_of(source), cells_of(exercises))
    labels = Labels()
    for section in doctree.findall(nodes.section):
        fold_section(section, kinds, labels)


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def kinds_of(solved: list[dict[str, Any]], given: list[dict[str, Any]]) -> dict[int, str]:
    """What there is to fold, by the place of the cell in the notebook of solutions."""
    known = {cell["id"]: cell for cell in given}
    kinds = {}
    for place, cell in enumerate(solved):
        before = known.get(cell["id"])
        if before is None:
            kinds[place] = EXPLANATION
        elif text(before) != text(cell):
            kinds[place] = ANSWER if cell["cell_type"] == "code" else EXPLANATION
        elif "check" not in cell["metadata"].get("tags", []) and shown(before) != shown(cell):
            kinds[place] = RESULT
    return kinds


def text(cell: dict[str, Any]) -> str:
    """The text of a cell; a notebook may hold it as lines."""
    return "".join(cell["source"])


def shown(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell without their running numbers."""
    return [
        {name: value for name, value in output.items() if name != "execution_count"}
        for output in cell.get("outputs", [])
    ]


class Labels:
    """Names folds so that no two of a page are called the same."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()

    def name(self, kind: str, exercise: str) -> str:
        """The next name for a fold of this kind in an exercise, which may have no number."""
        label = f"Show the {kind}" + (f" of exercise {exercise}" if exercise else "")
        self.used[label] += 1
        return label if self.used[label] == 1 else f"{label}, part {self.used[label]}"


def fold_section(section: nodes.section, kinds: dict[int, str], labels: Labels) -> None:
    """Fold what stands directly in a section; cells that follow one another share a fold."""
    exercise = exercise_of(section)
    page = isinstance(section.parent, nodes.document)
    kept: list[nodes.Node] = []
    run: list[tuple[str, nodes.Node]] = []
    for part, place in placed(section):
        kind = kinds.get(place, "")
        if isinstance(part, nodes.section | nodes.title) or (page and kind == EXPLANATION):
            kind = ""  # a title is never folded, nor the words with which a page begins
        if kind == RESULT:
            if exercise:
                fold_output(part, labels.name(RESULT, exercise))
            kind = ""
        if kind:
            run.append((kind, part))
            continue
        kept += [*folded(run, exercise, labels), part]
        run = []
    section.children = []
    section += [*kept, *folded(run, exercise, labels)]


def placed(section: nodes.section) -> Iterator[tuple[nodes.Node, int]]:
    """The parts of a section, each with the place of its cell; -1 where none is known."""
    place = -1
    for part in section.children:
        place = part.line // CELL_LINES - 1 if part.line else place
        yield part, place


def exercise_of(section: nodes.Node | None) -> str:
    """The number of the exercise to which a section belongs; empty if there is none."""
    while isinstance(section, nodes.section):
        title = section.next_node(nodes.title)
        if title and (found := NUMBER.match(title.astext())):
            return found[1]
        section = section.parent
    return ""


def folded(run: list[tuple[str, nodes.Node]], exercise: str, labels: Labels) -> list[nodes.Node]:
    """A fold of the parts of some cells; none for none."""
    if not run:
        return []
    kind = ANSWER if any(kind == ANSWER for kind, _ in run) else EXPLANATION
    return [Fold("", *(part for _, part in run), label=labels.name(kind, exercise))]


def fold_output(cell: nodes.Node, label: str) -> None:
    """Fold the outputs of a cell whose code the exercise has as well."""
    for output in list(cell.findall(nodes.container)):
        if output.get("nb_element") == "cell_code_output":
            fold = Fold("", label=label)
            output.replace_self(fold)
            fold += output


def visit_fold(translator: HTML5Translator, node: Fold) -> None:
    label = html.escape(node["label"])
    translator.body.append(f'<details class="solution-fold">\n<summary>{label}</summary>\n')


def depart_fold(translator: HTML5Translator, node: Fold) -> None:
    translator.body.append("</details>\n")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_node(Fold, html=(visit_fold, depart_fold))
    app.connect("doctree-read", fold_solutions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
