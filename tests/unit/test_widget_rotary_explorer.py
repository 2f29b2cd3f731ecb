"""The Python side of the rotary explorer: it turns as the library does, and refuses what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.positions import InterleavedRotary
from attnlab.widgets import RotaryExplorer

WIDTH = 6
PLACES = [(0, 0, 0), (5, 3, 0), (3, 40, 7), (63, 63, 192), (63, 0, 192)]


def vectors(width=WIDTH, seed=0):
    return torch.randn(2, width, generator=torch.Generator().manual_seed(seed))


def explorer(places=(5, 3, 0), width=WIDTH, **settings):
    query_place, key_place, shift = places
    return RotaryExplorer(
        *vectors(width), query_place=query_place, key_place=key_place, shift=shift, **settings
    )


@pytest.mark.parametrize("base", [10.0, 10_000.0, 1e6])
@pytest.mark.parametrize("width", [2, 6, 32])
@pytest.mark.parametrize("places", PLACES)
def test_it_turns_as_the_library_does(places, width, base):
    widget = explorer(places, width, base=base)
    turn = InterleavedRotary(width, 256, base=base).double()
    turned = [
        turn(vector.double()[None], place + places[2])[0]
        for vector, place in zip(vectors(width), places[:2], strict=True)
    ]
    np.testing.assert_allclose(widget.hands().reshape(2, -1), torch.stack(turned), rtol=0, atol=1e-12)
    products = (turned[0] * turned[1]).unflatten(0, (-1, 2)).sum(dim=-1)
    np.testing.assert_allclose(widget.products(), products, rtol=0, atol=1e-12)
    assert widget.score() == pytest.approx((turned[0] @ turned[1]).item(), abs=1e-12)


def test_a_shift_of_both_turns_the_hands_and_leaves_every_product():
    widget = explorer((5, 3, 0))
    hands, products = widget.hands(), widget.products()
    widget.shift = 100
    assert np.abs(widget.hands() - hands).max() > 0.5
    np.testing.assert_allclose(widget.products(), products, rtol=0, atol=1e-12)
    widget.key_place = 4  # and the distance does matter
    assert np.abs(widget.products() - products).max() > 0.1


def test_a_larger_base_turns_more_slowly():
    slow, fast = explorer(base=1e6).speeds(), explorer(base=10.0).speeds()
    assert slow[0] == fast[0] == 1.0 and (slow[1:] < fast[1:]).all()
    np.testing.assert_allclose(fast, [1, 10 ** (-1 / 3), 10 ** (-2 / 3)])


@pytest.mark.parametrize("shift", [0, 50])
def test_the_curve_holds_the_score_of_each_place_of_the_key(shift):
    widget = explorer((20, 0, shift))
    curve = widget.scores_by_key_place()
    assert curve.shape == (64,)
    for place in (0, 7, 20, 63):
        widget.key_place = place
        assert curve[place] == pytest.approx(widget.score(), abs=1e-12)


def test_the_numbers_travel_as_float32():
    widget = explorer(width=16)
    state = widget.get_state()
    buffers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    assert {name: len(part) for name, part in buffers.items()} == {"query": 64, "key": 64}
    for name, vector in zip(("query", "key"), vectors(16), strict=True):
        np.testing.assert_array_equal(np.frombuffer(buffers[name], "<f4"), vector)
    rest = {name: part for name, part in state.items() if name not in {*buffers, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 900
    assert repr(widget) == "RotaryExplorer(8 pairs, query at 5, key at 3, base 10000)"
    assert repr(explorer((1, 2, 30), 2)) == "RotaryExplorer(1 pair, query at 31, key at 32, base 10000)"


def test_the_code_is_one_module_without_imports():
    lines = [line.strip() for line in RotaryExplorer._esm.splitlines()]
    assert [line for line in lines if line.startswith(("import", "export"))] == ["export default { render };"]
    assert len(RotaryExplorer._esm) + len(RotaryExplorer._css) < 40_000


@pytest.mark.parametrize(
    ("query", "key", "says"),
    [
        (np.ones(3), np.ones(3), r"query: expected shape \(D,\), D even and at most 32, got \(3,\)"),
        (np.ones(34), np.ones(34), r"query: .* got \(34,\)"),
        (np.ones((1, 4)), np.ones(4), r"query: .* got \(1, 4\)"),
        (np.ones(4), np.ones(2), r"key: expected the shape of the query, \(4,\), got \(2,\)"),
        ([], [], "query: expected at least one number"),
        ([1.0, float("inf")], [1.0, 1.0], "query: expected finite numbers"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(query, key, says):
    with pytest.raises(ValueError, match=says):
        RotaryExplorer(query, key)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="key: expected a tensor or an array of real numbers"):
        RotaryExplorer([1.0, 0.0], ["east", "north"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("query_place", -1),
        ("query_place", 64),
        ("key_place", 64),
        ("shift", 193),
        ("base", 1.0),
        ("base", 2e6),
        ("base", float("nan")),
    ],
)
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value):
    widget = explorer()
    before = getattr(widget, setting)
    for change in (setattr, lambda widget, name, value: widget.set_state({name: value})):
        with pytest.raises(ValueError, match=f"{setting}: expected a number from"):
            change(widget, setting, value)
    assert getattr(widget, setting) == before
    with pytest.raises(ValueError, match=f"{setting}: expected a number from"):
        RotaryExplorer([1.0, 0.0], [1.0, 0.0], **{setting: value})


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(explorer().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]
