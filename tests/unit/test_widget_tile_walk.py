"""The Python side of the tile walk: it carries what chunked attention does, and refuses what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.widgets import TileWalk


def numbers(T=5, S=7, seed=0):
    g = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(T, S, generator=g), torch.randn(S, generator=g)


def walk(T=5, S=7, **settings):
    return TileWalk(*numbers(T, S), **settings)


@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (5, 7), (3, 2), (4, 4)])
def test_at_the_end_each_row_has_its_softmax(tile):
    scores, values = (x.double() for x in numbers())
    widget = walk(query_tile=tile[0], key_tile=tile[1])
    widget.step = len(widget.tiles())
    maximum, total, gathered = widget.running()
    np.testing.assert_allclose(maximum, scores.amax(1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        total, (scores - scores.amax(1, keepdim=True)).exp().sum(1), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(gathered / total, scores.softmax(1) @ values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(widget.output(), scores.softmax(1) @ values, rtol=0, atol=1e-12)


def test_after_each_tile_a_row_has_the_softmax_of_the_keys_it_has_seen():
    scores, values = (x.double() for x in numbers())
    widget = walk(query_tile=2, key_tile=3)
    assert np.isnan(widget.output()).all()
    for step, seen in enumerate(
        ([3, 0, 0], [6, 0, 0], [7, 0, 0], [7, 3, 0], [7, 6, 0], [7, 7, 0], [7, 7, 3]), 1
    ):
        widget.step = step
        for i, output in enumerate(widget.output()):
            keys = seen[i // 2]
            if keys:
                wanted = scores[i, :keys].softmax(0) @ values[:keys]
                assert output == pytest.approx(wanted.item(), abs=1e-12)
            else:
                assert np.isnan(output)


def test_a_correction_is_how_far_the_maximum_rose():
    widget = TileWalk([[1.0, 0.0, 3.0, 2.0], [2.0, 1.0, 0.0, 1.0]], np.ones(4), step=1)
    np.testing.assert_allclose(widget.corrections(), [0, 0])  # nothing was there before
    widget.step = 2
    np.testing.assert_allclose(widget.corrections(), [np.exp(-2), 1])
    widget.query_tile = 1
    np.testing.assert_allclose(widget.corrections(), [np.exp(-2), np.nan])
    widget.step = 0
    assert np.isnan(widget.corrections()).all()


def test_the_tiles_cover_every_score_once():
    for query_tile, key_tile in ((1, 1), (2, 3), (4, 5), (5, 7)):
        covered = np.zeros((5, 7))
        for rows, keys in walk(query_tile=query_tile, key_tile=key_tile).tiles():
            covered[rows, keys] += 1
            assert rows.stop - rows.start <= query_tile and keys.stop - keys.start <= key_tile
        assert (covered == 1).all()


def test_a_step_beyond_the_last_tile_is_the_end():
    widget = walk(query_tile=5, key_tile=7, step=35)
    end = walk(query_tile=5, key_tile=7, step=1)
    np.testing.assert_array_equal(widget.running(), end.running())
    np.testing.assert_array_equal(widget.corrections(), end.corrections())
    assert repr(widget) == "TileWalk(5 × 7 scores, 1 of 1 tiles done)"


def test_the_numbers_travel_as_float32():
    widget = walk(query_tile=2, key_tile=3, step=4)
    state = widget.get_state()
    buffers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    assert {name: len(part) for name, part in buffers.items()} == {"scores": 140, "values": 28}
    for name, wanted in zip(("scores", "values"), numbers(), strict=True):
        np.testing.assert_array_equal(np.frombuffer(buffers[name], "<f4"), wanted.flatten())
    rest = {name: part for name, part in state.items() if name not in {*buffers, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 900
    assert repr(widget) == "TileWalk(5 × 7 scores, 4 of 9 tiles done)"


def test_the_code_is_one_module_without_imports():
    lines = [line.strip() for line in TileWalk._esm.splitlines()]
    assert [line for line in lines if line.startswith(("import", "export"))] == ["export default { render };"]
    assert len(TileWalk._esm) + len(TileWalk._css) < 40_000


@pytest.mark.parametrize(
    ("scores", "values", "says"),
    [
        (np.ones(4), np.ones(4), r"scores: expected shape \(T, S\), both at most 10, got \(4,\)"),
        (np.ones((11, 2)), np.ones(2), r"scores: .* got \(11, 2\)"),
        (np.ones((2, 11)), np.ones(11), r"scores: .* got \(2, 11\)"),
        (np.ones((2, 3)), np.ones(2), r"values: expected one for each key, \(3,\), got \(2,\)"),
        (np.ones((2, 3)), np.ones((3, 1)), r"values: .* got \(3, 1\)"),
        ([[]], [], "scores: expected at least one number"),
        ([[1.0, float("-inf")]], [1.0, 1.0], "scores: expected finite numbers"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(scores, values, says):
    with pytest.raises(ValueError, match=says):
        TileWalk(scores, values, query_tile=1, key_tile=1)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="values: expected a tensor or an array of real numbers"):
        TileWalk([[1.0, 2.0]], ["one", "two"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("query_tile", 0), ("query_tile", 6), ("key_tile", 0), ("key_tile", 8), ("step", -1), ("step", 36)],
)
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value):
    widget = walk()
    before = getattr(widget, setting)
    for change in (setattr, lambda widget, name, value: widget.set_state({name: value})):
        with pytest.raises(ValueError, match=f"{setting}: expected a whole number from"):
            change(widget, setting, value)
    assert getattr(widget, setting) == before
    with pytest.raises(ValueError, match=f"{setting}: expected a whole number from"):
        TileWalk(*numbers(), **{setting: value})
