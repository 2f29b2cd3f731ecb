"""Evidence over seeds: measured, quoted, judged, and found stale."""

import json

import pytest

from tools.notebooks.evidence import Evidence, _said

HEAD = "book/lessons/01_back.py"
RANGE = "Over [[score:seeds]] seeds [[score:range:.0%]], in short"


@pytest.fixture
def measured(lab, quick):
    """The small book, with a range quoted, measured over three seeds and built."""
    lab.write("src/attnlab/plots.py", "COLOUR = 'black'\n").edit("The score is", RANGE)
    assert lab("evidence", "-n", "3") == [] and lab("build") == [] and lab("check") == []
    quick.clear()
    return lab


def test_ranges_are_quoted_and_stored(measured):
    assert "Over 3 seeds 18\u201343%, in short 0.18" in measured.cell(0).source
    entry = json.loads(measured.read("notebooks/evidence.json"))["01_back"]
    assert entry["claims"]["score"]["values"] == [0.175125, 0.300125, 0.425125]
    assert entry["shifts"] == [0, 1, 2] and set(entry["versions"]) == {"python"} and len(entry["date"]) == 10
    assert set(entry["sources"]) == {"src/attnlab/__init__.py", "src/attnlab/claims.py"}


def test_the_page_lists_every_claim(measured):
    page = measured.read("notebooks/evidence.md")
    assert "## 1. Looking back" in page and "[The notebook](01_back.ipynb). Measured on 2" in page
    assert "| `score` | at least 0.1, at most 0.9 | 3 | 0.1751 | 0.3001 | 0.4251 |" in page
    assert "| `n` | exactly 4 | 3 | 4 | 4 | 4 |" in page.replace("equals 4", "exactly 4")


def test_counts_stand_in_full_and_no_line_breaks_at_a_minus():
    assert [_said(value) for value in (42000, 44.0, -0.20833, 2.3842e-7)] == [
        "42000",
        "44",
        "\u22120.2083",
        "2.384e\u221207",
    ]


def test_a_later_cell_a_comment_or_a_looser_bound_leaves_it_good(measured, quick):
    measured.edit('print("later")', 'print("now")').edit("# a comment", "# another").edit(
        "at_most=0.9", "at_most=0.95"
    )
    assert measured("build") == [] and measured("check") == [] and quick == ["notebooks"]
    assert "at most 0.95" in measured.read("notebooks/evidence.md")


def test_a_change_of_plots_runs_the_notebook_and_leaves_the_evidence_good(measured, quick):
    measured.edit("black", "red", "src/attnlab/plots.py")
    assert "is older than its code cells or the modules" in measured("check")[0]
    assert measured("build") == [] and measured("check") == [] and "notebooks" in quick


def test_a_tighter_bound_is_judged_at_every_seed(measured):
    complaints = measured.edit("at_most=0.9", "at_most=0.4")("check")
    assert (
        f"{HEAD}:16: claim 'score' is 0.425125 at seed shift 2, should be at least 0.1 and at most 0.4"
        in complaints
    )


@pytest.mark.parametrize(
    ("old", "new", "name", "what"),
    [
        (
            "n = 4",
            "n = 8 - 4",
            HEAD,
            f"{HEAD}:16: evidence for 'score' is stale: the cells that compute it changed since",
        ),
        (
            "SHIFT_STEP = 1000",
            "SHIFT_STEP = 999",
            "src/attnlab/claims.py",
            "src/attnlab/claims.py changed since",
        ),
        ('claim("n", n', 'claim("m", n', HEAD, "claim 'n' is gone"),
        ('claim("n", n', 'claim("m", n', HEAD, f"{HEAD}:17: no evidence over seeds for claim 'm'"),
    ],
)
def test_it_is_stale_when_what_it_measured_changed(measured, old, new, name, what):
    measured.edit(old, new, name)
    if '"m"' in new:
        measured.edit("[[n]]", "[[m]]")
    for command in ("check", "build"):
        assert any(what in text for text in measured(command)), command


def test_a_draft_that_quotes_no_range_may_be_built_ahead_of_its_evidence(measured):
    measured.edit(RANGE, "The score is").edit("n = 4", "n = 8 - 4")
    assert measured("build") == [] and any("is stale" in text for text in measured("check"))


def test_claims_without_evidence_are_found_by_check(built):
    assert built("check") == [
        f"{HEAD}:1: no evidence over seeds for its claims; run `python -m tools.notebooks evidence 01_back`"
    ]
    assert "Not measured over seeds yet." in built.read("notebooks/evidence.md")


def test_evidence_that_no_seed_moves_is_refused(lab, quick):
    lab.edit("seed(1) / 8000 + 0.175", "0.25")
    assert lab("evidence", "-n", "2") == [f"{HEAD}:1: no claim changes with the seed: is seed() used?"]
    assert not (lab.root / "notebooks/evidence.json").exists()


def test_a_claim_that_fails_at_another_seed_is_said_and_stored(lab, quick):
    complaints = lab.edit("at_most=0.9", "at_most=0.4")("evidence")
    assert any("at seed shift 2" in text for text in complaints)
    assert "0.4251" in lab.read("notebooks/evidence.md")


def test_the_kernel_gets_the_shift(rich):
    """One real kernel: the value of shift 1 differs as seed() says."""
    from tools.notebooks.book import Book
    from tools.notebooks.build import Maker
    from tools.notebooks.evidence import Evidence

    book = Book(rich.root)
    one = book.open(*book.select(["01"])[0])
    maker = Maker(book, Evidence.load(book.root))
    run = maker.run(one, "lesson", maker.bare(one, "lesson"), 1)
    assert run.values["score"] == [0.300125] and run.cpu > 0
    assert {"__init__.py", "claims.py", "plots.py", "widgets/__init__.py"} <= set(run.modules)


def test_what_others_measured_meanwhile_is_kept(tmp_path):
    (tmp_path / "notebooks").mkdir()
    first, second = Evidence.load(tmp_path), Evidence.load(tmp_path)
    first.put("01_first", {"claims": {}})
    second.put("02_second", {"claims": {}})
    assert set(Evidence.load(tmp_path).entries) == {"01_first", "02_second"}
