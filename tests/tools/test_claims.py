"""claim and seed: kind to a learner, exact for the build."""

import math

import numpy as np
import pytest
import torch

from attnlab import claim, claims, seed


@pytest.fixture(autouse=True)
def fresh():
    claims.CLAIMS.clear()
    claims.REFUSED.clear()


def test_inside_its_bounds_a_claim_says_nothing(capsys):
    claim("x", 0.5, at_least=0.5, at_most=0.5)
    claim("y", {"a": 1, "b": [2, 3.0]}, at_least=1)
    claim("z", 4, equals=4)
    assert capsys.readouterr().out == ""
    assert claims.CLAIMS == {"x": [0.5], "y": [{"a": 1, "b": [2, 3.0]}], "z": [4]}


@pytest.mark.parametrize(
    ("value", "bounds", "expected"),
    [
        (0.4, {"at_least": 0.5}, "at least 0.5"),
        (0.6, {"at_most": 0.5}, "at most 0.5"),
        (0.6, {"at_least": 0.1, "at_most": 0.5}, "at least 0.1 and at most 0.5"),
        (5, {"equals": 4}, "exactly 4"),
        ({"a": 1.0, "b": 0.1}, {"at_least": 0.5}, "at least 0.5"),
        (float("nan"), {"at_least": 0.5}, "at least 0.5"),
        (float("inf"), {"at_least": 0.5}, "at least 0.5"),
        ([], {"at_least": 0.5}, "at least 0.5"),
    ],
)
def test_outside_its_bounds_it_says_one_kind_line_and_goes_on(capsys, value, bounds, expected):
    claim("x", value, **bounds)
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "x = " in out and expected in out and "carry on" in out
    assert len(claims.CLAIMS["x"]) == 1


class Hostile:
    shape = ()

    def item(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    [
        "0.5",
        None,
        True,
        object(),
        torch.ones(3),
        np.ones((2, 2)),
        {"a": "b"},
        1j,
        Hostile(),
        print,
        {1: {2: "x"}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_never_raise(capsys, value):
    claim("x", value, at_least=0.5)
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "carry on" in out
    assert claims.CLAIMS == {} and list(claims.REFUSED) == ["x"]


def test_odd_bounds_and_names_never_raise(capsys):
    claim("x", 1.0, at_least="high")
    claim(["x"], "y", at_least=1)
    assert capsys.readouterr().out.count("carry on") == 2


def test_running_a_cell_again_is_remembered_for_the_build():
    claim("x", 1, at_least=0)
    claim("x", 2, at_least=0)
    assert claims.CLAIMS["x"] == [1, 2]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0.123456789, 0.123457),
        (np.float32(0.125), 0.125),
        (torch.tensor(0.25), 0.25),
        (torch.tensor([3]), 3),
        ({64: (1, 2.0)}, {"64": [1, 2.0]}),
        (123456789, 123456789),
    ],
)
def test_values_are_stored_as_plain_numbers(value, stored):
    assert claims.plain(value) == stored
    assert type(claims.plain(value)) is type(stored)


def test_infinities_are_outside_even_without_bounds():
    assert claims.outside(math.inf) == "a finite number"


def test_seed_moves_with_the_shift(monkeypatch):
    monkeypatch.delenv("SEED_SHIFT", raising=False)
    assert seed(7) == 7
    monkeypatch.setenv("SEED_SHIFT", "2")
    assert seed(7) == 2007
    monkeypatch.setenv("SEED_SHIFT", "many")
    assert seed(7) == 7
    assert seed("7") == "7"
