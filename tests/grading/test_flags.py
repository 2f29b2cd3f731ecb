"""Flags: copies are found behind other names, independent work is not, and ready-made functions are named."""

import json
from pathlib import Path

import pytest

from attnlab.grading.course import all_tasks
from attnlab.grading.forbidden import FORBIDDEN, built_in_flags
from attnlab.grading.similarity import similar_pairs
from attnlab.grading.sources import code_cells, definitions

ATTENTION = "query_key_value.attention"

LOOP = '''
def attention(query, key, value, mask=None):
    """Mix the values."""
    # the scores first
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    highest = scores.amax(dim=-1, keepdim=True)
    highest = torch.where(torch.isinf(highest), torch.zeros_like(highest), highest)
    powers = torch.exp(scores - highest)
    total = powers.sum(dim=-1, keepdim=True)
    weights = torch.where(total > 0, powers / total, torch.zeros_like(powers))
    return weights @ value, weights
'''
RENAMED = '''
def attention(q: Tensor, k: Tensor, v: Tensor, m=None) -> tuple:
    """My own words."""
    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    if m is not None:  # hide
        s = s.masked_fill(~m, -math.inf)
    top = s.amax(dim=-1, keepdim=True)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    e = torch.exp(s - top)
    z = e.sum(dim=-1, keepdim=True)
    w = torch.where(z > 0, e / z, torch.zeros_like(e))
    return w @ v, w
'''
OTHER = """
def attention(query, key, value, mask=None):
    width = query.shape[-1]
    scores = torch.einsum("...td,...sd->...ts", query, key) * width**-0.5
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    empty = ~mask.any(-1, keepdim=True)
    scores = scores.masked_fill(~mask & ~empty, float("-inf"))
    weights = torch.softmax(scores, -1).masked_fill(empty, 0)
    return torch.einsum("...ts,...sv->...tv", weights, value), weights
"""


@pytest.fixture
def notebook(tmp_path):
    def write(name, *cells):
        path = tmp_path / f"{name}.ipynb"
        sources = [{"cell_type": "code", "source": cell} for cell in cells]
        path.write_text(json.dumps({"cells": sources}), encoding="utf-8")
        return path

    return write


def test_a_copy_is_found_behind_other_names_comments_and_layout(notebook):
    files = {"anna": notebook("a", LOOP), "ben": notebook("b", RENAMED), "carla": notebook("c", OTHER)}
    (pair,) = similar_pairs(files)
    assert (pair.first, pair.second, pair.share) == ("anna", "ben", 1.0)
    assert "anna and ben: 100% of the code" in str(pair)


def test_a_copy_in_another_order_and_half_of_one_are_found(notebook):
    helper = "def helper(x):\n    return [max(y * 2, 3) for y in x if y not in (4, 5) and len(x) > y % 7]\n"
    files = {"anna": notebook("a", LOOP, helper), "ben": notebook("b", helper, RENAMED)}
    assert [pair.share for pair in similar_pairs(files)] == [1.0]
    mixed = LOOP + OTHER.replace("attention", "second")
    assert similar_pairs({"anna": notebook("a", LOOP), "ben": notebook("b", mixed)})[0].share == 1.0


def test_independent_work_is_not_a_pair(notebook):
    assert similar_pairs({"anna": notebook("a", LOOP), "carla": notebook("c", OTHER)}) == []


def test_what_the_course_gives_and_what_most_have_says_nothing(notebook):
    assert similar_pairs({"anna": notebook("a", LOOP), "ben": notebook("b", RENAMED)}, [[LOOP]]) == []
    many = {str(i): notebook(str(i), LOOP) for i in range(6)}
    assert similar_pairs(many) == []


def test_short_answers_are_no_pair(notebook):
    short = "def attend(x):\n    return x + 1\n"
    assert similar_pairs({"anna": notebook("a", short), "ben": notebook("b", short)}) == []


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("def attention(q, k, v, m=None): return F.scaled_dot_product_attention(q, k, v)", True),
        (
            "import torch.nn.functional as G\ndef attention(q): return G.scaled_dot_product_attention(q)",
            True,
        ),
        (
            "from torch.nn import scaled_dot_product_attention as f\ndef attention(q): return f(q)",
            True,
        ),
        ("def attention(q): return getattr(F, 'scaled_dot_product_attention')(q)", True),
        ("def helper(q): return F.scaled_dot_product_attention(q)\ndef attention(q): return helper(q)", True),
        (
            "def attention(q): return q.softmax(-1)\ndef other(q): return F.scaled_dot_product_attention(q)",
            False,
        ),
        ("def attention(q): return 'not F.scaled_dot_product_attention'", False),
        ("F.scaled_dot_product_attention", False),
    ],
)
def test_a_ready_made_function_is_named_where_the_answer_uses_it(cell, found, notebook):
    flags = built_in_flags(notebook("a", cell), [ATTENTION])
    assert flags == ([f"{ATTENTION} uses scaled_dot_product_attention"] if found else [])


SOLUTIONS = sorted((Path(__file__).resolve().parents[2] / "solutions").glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_the_courses_own_solutions_are_not_flagged(solution):
    assert built_in_flags(solution, list(all_tasks())) == []


def test_every_rule_is_about_an_exercise_of_the_course():
    assert set(FORBIDDEN) <= set(all_tasks())


def test_an_instructor_names_more(notebook):
    path = notebook("a", "def attend(x): return x.softmax(-1)")
    assert built_in_flags(path, ["query_key_value.attend"]) == []
    more = {"query_key_value.attend": ("softmax",)}
    assert built_in_flags(path, ["query_key_value.attend"], more) == ["query_key_value.attend uses softmax"]


def test_the_last_definition_counts_and_magics_are_passed_over(notebook):
    cells = [
        "%pip install x\ndef attention(q): return F.scaled_dot_product_attention(q)",
        "def attention(q): return q",
    ]
    assert built_in_flags(notebook("a", *cells), [ATTENTION]) == []
    assert set(definitions(cells)) == {"attention"}


@pytest.mark.parametrize(
    "text",
    [
        "{oops",
        "[]",
        '{"cells": 5}',
        '{"cells": [{"cell_type": "code"}]}',
        '{"cells": [5]}',
        "[" * 100_000,
        "\x00",
    ],
)
def test_what_cannot_be_read_has_no_code_and_no_flags(text, tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(text, encoding="utf-8")
    assert code_cells(path) == []
    assert built_in_flags(path, [ATTENTION]) == []
    assert similar_pairs({"a": path, "b": path}) == []


def test_code_that_does_not_parse_or_nests_too_deeply_is_passed_over(notebook):
    deep = "x = " + "(" * 5_000 + ")" * 5_000
    cells = ["def broken(:", deep, "\x00", "def fine(): pass", "-" * 150_000 + "1"]
    assert set(definitions(cells)) == {"fine"}


def test_a_script_and_lines_in_lists_are_read(tmp_path, notebook):
    script = tmp_path / "x.py"
    script.write_text("def attention(): pass\n", encoding="utf-8")
    assert set(definitions(code_cells(script))) == {"attention"}
    assert code_cells(notebook("a", ["x = 1\n", "y = 2"])) == ["x = 1\ny = 2"]
