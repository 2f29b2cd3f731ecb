"""The circuit switches in Python: map and stripe of each set of heads, what is sent, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from attnlab.widgets import CircuitSwitches

FIRST, SECOND = 2, 3
TOKENS = list("CAFCAFC")
STRIPE = {3: [1], 4: [2], 5: [3], 6: [1, 4]}  # by hand: the places after an earlier copy


def maps(length=7, first=FIRST, second=SECOND):
    drawn = np.tril(np.random.default_rng(0).random((2**first, second, length, length)) + 1e-3)
    return drawn / drawn.sum(axis=-1, keepdims=True)


def shares(count=2 ** (FIRST + SECOND)):
    return np.random.default_rng(1).random(count)


def switches(**settings):
    return CircuitSwitches(**{"measured": shares(), "maps": maps(), "tokens": TOKENS, **settings})


def with_cell(place, value):
    changed = maps()
    changed[place] = value
    return changed


def test_the_stripe_lies_after_earlier_copies():
    found = switches().on_stripe()
    assert {t: np.flatnonzero(row).tolist() for t, row in enumerate(found) if row.any()} == STRIPE
    assert switches().row == 3


@pytest.mark.parametrize("heads_on", [0b00000, 0b00001, 0b11010, 0b01111])
def test_a_set_has_its_own_share_and_the_map_of_its_heads_of_layer_1(heads_on):
    widget = switches(heads_on=heads_on, head=2)
    assert widget.accuracy() == shares().astype("<f4")[heads_on]
    assert widget.is_on().tolist() == [heads_on & 2**h > 0 for h in range(FIRST + SECOND)]
    expected = maps()[heads_on % 4, 2]
    np.testing.assert_allclose(widget.weights(), expected, rtol=0, atol=0.5001 / 255)
    on_it = [sum(expected[t][j] for j in places) for t, places in STRIPE.items()]
    assert widget.stripe() == pytest.approx(sum(on_it) / 4, abs=1 / 255)
    another, other_maps = 0b10100, maps()[0b00, 0]
    assert widget.accuracy(another) == shares().astype("<f4")[another]
    np.testing.assert_allclose(widget.weights(another, 0), other_maps, rtol=0, atol=0.5001 / 255)
    on_it = [sum(other_maps[t][j] for j in places) for t, places in STRIPE.items()]
    assert widget.stripe(another, 0) == pytest.approx(sum(on_it) / 4, abs=1 / 255)


def test_all_heads_are_on_at_first():
    assert switches().is_on().all()


def test_numbers_travel_as_bytes_and_the_largest_state_fits_a_page():
    largest = CircuitSwitches(np.zeros(64), maps(24, 3, 3), list("ABCDEFGHIJKL" * 2))
    state = largest.get_state()
    sizes = {name: len(part) for name, part in state.items() if isinstance(part, bytes)}
    assert sizes == {"measured": 4 * 64, "maps": 8 * 3 * 24 * 24}
    rest = {name: part for name, part in state.items() if name not in {*sizes, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1200
    assert len(state["_esm"]) + len(state["_css"]) < 40_000
    again = CircuitSwitches(np.zeros(64), maps(24, 3, 3), list("ABCDEFGHIJKL" * 2)).get_state()
    assert len(json.dumps(again, default=len)) == len(json.dumps(state, default=len))


def test_text_for_pages_that_cannot_show_a_widget():
    assert repr(switches()) == "CircuitSwitches(2 and 3 heads, 7 tokens)"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"measured": shares(16)}, ValueError, r"measured: .* = \(32,\), got \(16,\)"),
        ({"measured": shares() + 0.5}, ValueError, "measured: expected shares from 0 to 1"),
        ({"measured": shares() - 0.5}, ValueError, "measured: expected shares from 0 to 1"),
        ({"measured": np.full(32, np.nan)}, ValueError, "measured: expected finite numbers"),
        ({"measured": ["x"]}, TypeError, "measured: expected a tensor or an array of real numbers"),
        ({"maps": maps()[0]}, ValueError, r"maps: expected shape .*, got \(3, 7, 7\)"),
        ({"maps": maps()[:3]}, ValueError, r"maps: expected shape .*, got \(3, 3, 7, 7\)"),
        ({"maps": maps()[:1]}, ValueError, r"maps: expected shape .*, got \(1, 3, 7, 7\)"),
        ({"maps": maps(6)}, ValueError, r"maps: expected shape \(2\^H, G, 7, 7\)"),
        ({"maps": maps(second=4)}, ValueError, "H and G from 1 to 3"),
        ({"maps": 0.9 * maps()}, ValueError, "maps: .* rows that sum to 1"),
        ({"maps": with_cell((0, 0, 1), [1.5, -0.5, 0, 0, 0, 0, 0])}, ValueError, "that are not negative"),
        ({"maps": with_cell((0, 0, 1), [0.5, 0.0, 0.5, 0, 0, 0, 0])}, ValueError, "on what comes later"),
        ({"tokens": ["A", "B", 1]}, TypeError, "tokens: expected text, got int 1"),
        ({"tokens": "AA"}, ValueError, "tokens: expected 3 to 24, got 2"),
        ({"tokens": ["A"] * 25}, ValueError, "tokens: expected 3 to 24, got 25"),
        ({"tokens": ["long", *TOKENS[1:]]}, ValueError, "texts of 1 to 3 letters"),
        ({"tokens": [" ", *TOKENS[1:]]}, ValueError, "texts of 1 to 3 letters"),
        ({"tokens": "ABCDEFG"}, ValueError, "tokens: expected one that comes again"),
        ({"heads_on": 32}, ValueError, "heads_on: .* from 0 to 31, got 32"),
        ({"head": 3}, ValueError, "head: .* from 0 to 2, got 3"),
        ({"row": 7}, ValueError, "row: .* from 0 to 6, got 7"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        switches(**given)


@pytest.mark.parametrize(("trait", "value"), [("heads_on", 32), ("heads_on", -1), ("head", 3), ("row", -1)])
def test_a_bad_setting_from_the_browser_changes_nothing(trait, value):
    widget = switches(heads_on=5, head=1, row=4)
    before = getattr(widget, trait)
    with pytest.raises(ValueError, match=f"{trait}: expected"):
        widget.set_state({trait: value})
    assert getattr(widget, trait) == before
