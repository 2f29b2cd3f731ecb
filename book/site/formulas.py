"""Formulas become MathML when the site is built: no script is needed, and a slip in TeX stops the build."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from myst_parser.mdit_to_docutils.sphinx_ import SphinxRenderer
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)

#: Environments that fill the line and number their rows, and those of the same shape that are only as wide as
#: what they hold: a page numbers its equations itself, and the box around a wide formula scrolls.
COMPACT = {
    "align": "aligned",
    "split": "aligned",
    "gather": "gathered",
    "multline": "gathered",
    "equation": "gathered",
}
#: What closes a phrase and must not begin a line.
CLOSING = re.compile(r"[,.:;?!)\]’”]+")
#: Signs between two terms that Firefox would make as large as a sum.
BINARY = re.compile(r"<mo(?=[^>]*>[⊕⊗⊙]</mo>)")
#: A letter that leans over the place of its subscript, and where the subscript begins.
LEANING = re.compile(r"(<msub(?:sup)?><mi>f</mi><m\w+)")
#: A bracket that grows, and what makes it as tall as a sum with limits, which Firefox measures too early.
OPENING = re.compile(r"<mrow><mo>[(\[{|‖]</mo>")
ROW = re.compile(r"<(/?)mrow>")
TALL = '<mspace height="1.6em" depth="1.2em"/>'
ENVIRONMENT = re.compile(r"\\(begin|end)\{(" + "|".join(COMPACT) + r")\*?\}")


def cell_of(node: nodes.Element) -> str:
    """Which cell of a notebook a formula is in: MyST-NB counts the lines of the n-th cell from 10000 n."""
    cell = (node.line or 0) // 10000
    return f" in cell {cell}" if cell else ""


def convert(translator: HTML5Translator, node: nodes.Element, tex: str, *, display: bool) -> str:
    """MathML for ``tex``; where it cannot be read, a warning that names page and line, and the TeX itself."""
    try:
        return polished(LatexToMathML(fancy_error=False).convert_with_local_state(tex, displaystyle=display))
    except LatexError as error:
        LOGGER.warning("formula %r%s: %s", tex[:80], cell_of(node), error, location=node, type="formula")
        return f'<code class="formula-error">{html.escape(tex)}</code>'


def holds_sum(mathml: str, start: int) -> bool:
    """Whether the row of elements that begins at ``start`` holds a sum with limits below and above."""
    depth = 0
    for tag in ROW.finditer(mathml, start):
        depth += -1 if tag[1] else 1
        if not depth:
            return "<munderover><mo" in mathml[start : tag.end()]
    return False


def polished(mathml: str) -> str:
    """What a typesetter would do by hand: signs and brackets of the right size, a subscript close to f."""
    mathml = BINARY.sub('<mo largeop="false"', mathml)
    mathml = LEANING.sub(r'\1 class="tucked"', mathml)
    if not mathml.startswith('<math display="block">'):
        return mathml
    return OPENING.sub(lambda match: match[0] + TALL * holds_sum(mathml, match.start()), mathml)


def block_tex(node: nodes.math_block) -> str:
    """TeX of a displayed formula with its environments made compact and its lines, if any, aligned."""
    tex = ENVIRONMENT.sub(lambda match: f"\\{match[1]}{{{COMPACT[match[2]]}}}", node.astext()).strip()
    tex = re.sub(r"\\label\{[^}]*\}", "", tex)
    if "\\\\" in tex and "\\begin{" not in tex:
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    return tex


def keep_with_sign(app: Sphinx, doctree: nodes.document) -> None:
    """Keep a formula together with the signs that close it: no line starts with a comma."""
    for formula in list(doctree.findall(nodes.math)):
        parent = formula.parent
        place = parent.index(formula)
        after = parent[place + 1] if place + 1 < len(parent) else None
        closing = CLOSING.match(after) if isinstance(after, nodes.Text) else None
        if closing:
            kept = nodes.inline("", "", formula, nodes.Text(closing[0]), classes=["kept"])
            parent[place : place + 2] = [kept, nodes.Text(after[closing.end() :])]


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line of text."""
    translator.body.append(convert(translator, node, node.astext(), display=False))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A box that holds the formula and, beside it, the number by which the text refers to it."""
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    mathml = convert(translator, node, block_tex(node), display=True)
    translator.body.append(f'<div class="scroll" data-name="Formula">{mathml}</div>')
    if node.get("number"):
        number = get_node_equation_number(translator, node)
        label = f"({number})"
        if node.get("ids"):
            label = f'<a href="#{node["ids"][0]}" title="Link to this equation">{label}</a>'
        translator.body.append(f'<span class="equation-number">{label}</span>')
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def steady_label(renderer: SphinxRenderer) -> str:
    """Label for a numbered amsmath block: its place on the page, where MyST would draw a random one."""
    count = getattr(renderer.document, "numbered_blocks", 0) + 1
    renderer.document.numbered_blocks = count
    return f"{renderer.sphinx_env.docname}-{count}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", keep_with_sign)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    SphinxRenderer._random_label = steady_label  # two builds of the same text must give the same pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
