"""The Python side of the training map: what it reads out of the curves, sends and refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.widgets import TrainingMap

GUESS = 1.6


def curves():
    """2 depths, 3 rates, 10 points: (4, 2, 3, 10), all different."""
    whole = np.arange(4 * 2 * 3 * 10).reshape(4, 2, 3, 10) % 100
    whole[2, 1, 0] = 165  # post-norm, no warm-up: at a guess
    whole[2, 1, 1] = 200  # far above it
    whole[2, 1, 2, 4:] = 255  # broken off
    return whole


def shown(**settings):
    settings = {"depths": [1, 6], "rates": [0.001, 0.005, 0.02], "steps": 300, "guess": GUESS, **settings}
    return TrainingMap(settings.pop("curves", curves()), **settings)


@pytest.mark.parametrize("kind", range(4))
def test_each_kind_is_read_at_its_own_place(kind):
    widget = shown(norm=("pre", "post")[kind // 2], warmup=bool(kind % 2))
    expected = np.where(curves()[kind] == 255, np.inf, curves()[kind] / 100)
    np.testing.assert_array_equal(widget.losses(), expected)
    np.testing.assert_array_equal(widget.final_losses(), expected[..., -2:].mean(axis=-1))
    other = shown(norm=("post", "pre")[kind // 2], warmup=bool(kind % 2)).losses()
    np.testing.assert_array_equal(widget.losses(("post", "pre")[kind // 2]), other)


def test_what_learnt_stayed_and_diverged_is_told_apart():
    assert shown(norm="post").outcomes() == [["learnt"] * 3, ["guess", "diverged", "diverged"]]
    edge = np.full((4, 2, 3, 10), 152)
    edge[0, 0] = np.array([151, 153, 167])[:, None]
    assert shown(curves=edge).outcomes()[0] == ["learnt", "guess", "guess"]
    edge[0, 0] = np.array([169, 254, 255])[:, None]
    assert shown(curves=edge).outcomes()[0] == ["diverged"] * 3


def test_the_curves_travel_as_one_byte_each():
    widget = shown(curves=torch.from_numpy(curves()), depth=6, rate=0.02, norm="post")
    state = widget.get_state()
    buffers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    assert set(buffers) == {"curves"}
    np.testing.assert_array_equal(np.frombuffer(buffers["curves"], np.uint8), curves().ravel())
    rest = {name: part for name, part in state.items() if name not in {"curves", "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 900
    assert (widget.row, widget.column) == (1, 2)
    assert len(TrainingMap._esm) + len(TrainingMap._css) < 40_000
    assert repr(widget) == "TrainingMap(2 depths by 3 learning rates, post-norm without warm-up)"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"curves": curves()[:3]}, r"curves: expected shape \(4, 2, 3, P\).* got \(3, 2, 3, 10\)"),
        ({"curves": curves() - 1}, "curves: expected 0 to 255, got -1 to 254"),
        ({"curves": curves() + 1}, "curves: expected 0 to 255, got 1 to 256"),
        ({"steps": 301}, "steps: expected a multiple of the 10 points"),
        ({"depths": [6, 1]}, "depths: expected 1 to 12 rising"),
        ({"rates": [0.0, 0.005, 0.02]}, "rates: expected 1 to 12 rising positive"),
        ({"guess": float("nan")}, "guess: expected a positive loss, got nan"),
        ({"norm": "none"}, 'norm: expected "pre" or "post"'),
        ({"depth": 3}, r"depth: expected one of \[1, 6\], got 3"),
        ({"rate": 0.1}, "rate: expected one of .*, got 0.1"),
    ],
)
def test_what_does_not_fit_is_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        shown(**settings)


def test_curves_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="curves: expected integers, got float64"):
        shown(curves=curves() / 100)


@pytest.mark.parametrize(("setting", "value"), [("row", 2), ("column", -1), ("norm", "both")])
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value):
    widget = shown()
    before = getattr(widget, setting)
    with pytest.raises(ValueError, match=f"{setting}: expected"):
        widget.set_state({setting: value})
    assert getattr(widget, setting) == before


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(shown().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]
