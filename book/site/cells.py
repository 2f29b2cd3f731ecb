"""Cells and tables: what is folded, and what scrolls by itself when a screen is narrow."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

SETUP_PROMPT = "Set-up: run this first where the course is not installed"


def fold_setup(app: Sphinx, doctree: nodes.document) -> None:
    """Fold the cell that installs the course: it is for notebooks and tells a reader of the page nothing."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and "tag_setup" in cell["classes"]:
            cell.update_basic_atts({"classes": ["setup"]})
            cell["hide_mode"] = "all"
            cell["prompt_show"] = cell["prompt_hide"] = SETUP_PROMPT


def visit_fold(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    """A fold whose only name is its visible text, so that what is read out is what is seen."""
    prompt = node["prompt_show"].replace("source", "code").replace("content", "cell")
    classes = " ".join(["fold", *node["classes"]])
    translator.body.append(f'<details class="{classes}">\n<summary>{html.escape(prompt)}</summary>\n')


def depart_fold(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    translator.body.append("</details>\n")


class BoxTables(SphinxPostTransform):
    """Put each table in a box that scrolls, so that a wide table does not widen the page."""

    default_priority = 200
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for table in list(self.document.findall(nodes.table)):
            box = nodes.container(classes=["scroll", "table-box"])
            table.parent.replace(table, box)  # replace_self would give the box the id of the table
            box += table


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", fold_setup)
    app.add_node(HideCodeCellNode, override=True, html=(visit_fold, depart_fold))
    app.add_post_transform(BoxTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
