"""[[name:.2f]]: filling, rounding, and what counts as a reference."""

import re

import pytest

from tools.notebooks import citations, references
from tools.notebooks.citations import Library
from tools.notebooks.prose import Filler
from tools.notebooks.references import Numbers

BIB = r"""
@article{a1997, author = {Hochreiter, Sepp and Schmidhuber, J{\"u}rgen}, title = {Long {LSTM}},
  journal = {NC},
  volume = {9}, number = {8}, pages = {1735--1780}, year = {1997}, doi = {10.1/x<1>}}
@article{b2014, author = {Cho, K. and van Merri{\"e}nboer, B. and Bengio, Y.}, title = {One},
  year = {2014}, eprint = {1.2}}
@inproceedings{c2014, author = {Cho, K. and Other, A. and others}, title = {Two},
  booktitle = {EMNLP}, year = {2014}}
@misc{d1990, author = {Elman, Jeff}, title = {Time}, year = {1990}, url = {https://example.org/t}}
"""


@pytest.fixture
def library(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book/references.bib").write_text(BIB, encoding="utf-8")
    return Library(tmp_path)


@pytest.fixture
def fill(library):
    def filled(text, values=None, seeds=None, folder="notebooks"):
        return Filler(Numbers(values or {}, seeds or {}), library, folder).fill(text)

    return filled


def test_values(fill):
    values = {"a": 0.175, "b": 3, "c": {"x": 1.25, "d_k=4": 2}, "d": [1, 2], "m": -2.04, "z": -0.01}
    assert fill(
        "[[a:.2f]] [[a:.0%]] [[a:.1%]] [[b]] [[c[x]:.1f]] [[c[d_k=4]]] [[d[1]]] [[=0.1]]", values
    ) == ("0.18 18% 17.5% 3 1.3 2 2 0.1")
    assert fill("[[m:+.1f]] [[z:.1f]] [[b:,]]", values) == "\u22122.0 0.0 3"
    assert fill("[[n:.1g]] [[z:.1g]] [[n:.0e]]", {"n": 0.0, "z": -0.0}) == "0 0 0"


def test_ranges_over_seeds(fill):
    seeds = {"a": [0.123, 0.456], "b": [2.9, 3.1]}
    assert fill("[[a:range:.2f]] [[a:range:.0%]] [[b:range:.0f]] n=[[a:seeds]]", {}, seeds) == (
        "0.12\u20130.46 12\u201346% 3 n=2"
    )


@pytest.mark.parametrize(
    "text", ["`[[a]]`", "$[[1, 2]]$", "```\n[[a]]\n```", "~~~python\n[[a]]\n~~~", "[[1], [2]]"]
)
def test_code_is_left_alone(fill, text):
    assert fill(text) == text and references.find(text) == ([], [])


def test_a_directive_is_prose(fill):
    assert (
        fill("```{note}\n[[b]]\n```\n:::{tip}\n[[b]]\n:::", {"b": 1}) == "```{note}\n1\n```\n:::{tip}\n1\n:::"
    )


@pytest.mark.parametrize(
    ("text", "values", "what"),
    [
        ("[[a]]", {"a": 0.5}, "needs a format"),
        ("[[a:.0%]]", {"a": 0.999}, "would be shown as 100%"),
        ("[[a:.1f]]", {"a": 0.01}, "would be shown as 0.0"),
        ("[[a[x]:.1f]]", {"a": {"y": 1.0}}, "a has no [x]"),
        ("[[a:.1f]]", {"a": [1.0]}, "write a[key]"),
        ("[[a:q]]", {"a": 1}, "bad format 'q'"),
        ("[[a:range:.1f]]", {"a": 1.0}, "no evidence for a"),
        ("[[b]]", {}, "no value for b"),
    ],
)
def test_what_cannot_be_filled(fill, text, values, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        fill(text, values)


def test_broken_references_are_found():
    assert references.find("[[a .2f]] and [[b[c]")[1] == [0, 14]


def test_citations_become_links(fill):
    assert (
        fill("As said [@a1997].")
        == "As said ([Hochreiter and Schmidhuber, 1997](bibliography.md#hochreiter-and-schmidhuber-1997))."
    )
    assert fill("@d1990 and @d1990 (section 3) say", folder="exercises") == (
        "[Elman (1990)](../notebooks/bibliography.md#elman-1990) and "
        "[Elman (1990, section 3)](../notebooks/bibliography.md#elman-1990) say"
    )
    assert fill("[@b2014; @c2014, page 4]") == (
        "([Cho et al., 2014a](bibliography.md#cho-et-al-2014a); "
        "[Cho et al., 2014b](bibliography.md#cho-et-al-2014b), page 4)"
    )
    assert fill("@d1990 (a book)") == "[Elman (1990)](bibliography.md#elman-1990) (a book)"


@pytest.mark.parametrize(
    "text", ["`@d1990`", "me@example.org", "@torch.no_grad()", "[x](https://a.b/@d1990)", "a@d1990"]
)
def test_what_is_no_citation(fill, text):
    assert fill(text) == text


@pytest.mark.parametrize("text", ["@nobody1999", "[@nobody1999]", "[@d1990; nobody]"])
def test_unknown_keys_are_refused(fill, text):
    with pytest.raises(ValueError, match="@"):
        fill(text)


def test_the_page_of_references(library):
    page = citations.page(
        library, [("01_x.ipynb", "One", "@c2014 [@a1997]"), ("02_x.ipynb", "Two", "@c2014 @d1990")]
    )
    headings = [line for line in page.splitlines() if line.startswith("##")]
    assert headings == ["## Cho et al. (2014b)", "## Elman (1990)", "## Hochreiter and Schmidhuber (1997)"]
    assert (
        "Sepp Hochreiter, Jürgen Schmidhuber. *Long LSTM*. NC 9(8), 1735\u20131780. [doi:10.1/x<1>](https://doi.org/10.1/x%3C1%3E)"
        in page
    )
    assert "K. Cho, A. Other and others. *Two*." in page
    assert "Cited in [One](01_x.ipynb), [Two](02_x.ipynb)." in page and "<https://example.org/t>" in page


def test_anchors_are_those_of_their_headings(library):
    assert {work.key: work.anchor for work in library.works.values()} == {
        "a1997": "hochreiter-and-schmidhuber-1997",
        "b2014": "cho-et-al-2014a",
        "c2014": "cho-et-al-2014b",
        "d1990": "elman-1990",
    }
