"""The mask painter in Python: its weights are those of the library, whatever is painted."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.attention import causal_mask, masked_softmax, padding_mask
from attnlab.efficient import sliding_window_mask
from attnlab.widgets import MaskPainter


def scores(num_queries=3, num_keys=5, seed=0):
    return torch.randn(num_queries, num_keys, generator=torch.Generator().manual_seed(seed))


def random_mask(seed, shape=(3, 5)):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5


# --- what is computed
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_weights_are_those_of_the_library(seed, inverted):
    mask = random_mask(seed)
    mask[seed % 3] = seed % 2 == 0  # one whole row of a kind: empty in one of the two readings
    widget = MaskPainter(scores(), mask, inverted=inverted)
    allowed = ~mask if inverted else mask
    np.testing.assert_array_equal(widget.allowed(), allowed.numpy())
    expected = masked_softmax(scores().double(), allowed)
    np.testing.assert_allclose(widget.weights(), expected.numpy(), rtol=0, atol=1e-12)


def test_a_row_sums_to_one_or_is_zeros():
    mask = random_mask(1)
    mask[1] = False
    sums = MaskPainter(scores(), mask).weights().sum(axis=-1)
    np.testing.assert_allclose(sums, mask.any(dim=-1).double().numpy(), rtol=0, atol=1e-12)
    assert not MaskPainter(scores(), "none", inverted=True).weights().any()


@pytest.mark.parametrize(("num_queries", "num_keys"), [(5, 5), (3, 5), (5, 3), (1, 1)])
@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("window", [1, 2])
def test_presets_are_the_masks_of_the_library(num_queries, num_keys, length, window):
    length, window = min(length, num_keys), min(window, num_keys)
    widget = MaskPainter(scores(num_queries, num_keys), length=length, window=window)
    real = padding_mask([length], num_keys)[0]
    expected = {
        "none": torch.ones(num_queries, num_keys, dtype=torch.bool),
        "causal": causal_mask(num_queries, num_keys),
        "padding": real.expand(num_queries, num_keys),
        "both": causal_mask(num_queries, num_keys) & real,
        "window": sliding_window_mask(num_queries, num_keys, window=window) & real,
    }
    for name, mask in expected.items():
        np.testing.assert_array_equal(widget.preset(name), mask.numpy(), err_msg=name)
        same = MaskPainter(scores(num_queries, num_keys), name, length=length, window=window)
        assert same.mask == mask.to(torch.uint8).numpy().tobytes()


def test_an_inverted_causal_mask_shows_the_future_and_leaves_the_last_row_empty():
    widget = MaskPainter(torch.zeros(3, 3), "causal", inverted=True)
    np.testing.assert_array_equal(widget.weights(), [[0, 0.5, 0.5], [0, 0, 1], [0, 0, 0]])


def test_huge_scores_do_not_overflow():
    widget = MaskPainter([[3e38, -3e38, 3e38]], [[True, True, False]])
    np.testing.assert_array_equal(widget.weights(), [[1, 0, 0]])


def test_a_mask_may_broadcast():
    widget = MaskPainter(scores(), padding_mask([2], 5)[0], length=2)
    np.testing.assert_array_equal(widget.allowed(), widget.preset("padding"))


# --- what is sent, and what comes back
# ------------------------------------------------------------------------


def test_numbers_travel_as_bytes_and_no_list_is_long():
    widget = MaskPainter(scores(16, 16), "causal")
    state = widget.get_state()
    sizes = {name: len(part) for name, part in state.items() if isinstance(part, bytes)}
    assert sizes == {"scores": 4 * 16 * 16, "mask": 16 * 16}
    rest = {name: part for name, part in state.items() if name not in {*sizes, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000
    assert max(len(part) for part in rest.values() if isinstance(part, list)) == 2
    assert len(state["_esm"]) + len(state["_css"]) < 41_000


def test_the_scores_are_little_endian_float32_in_order():
    widget = MaskPainter(scores())
    np.testing.assert_array_equal(np.frombuffer(widget.scores, "<f4").reshape(3, 5), scores().numpy())


def test_what_the_browser_paints_arrives_as_a_view_of_memory():
    widget = MaskPainter(scores())
    cells = random_mask(3).to(torch.uint8).numpy().tobytes()
    widget.set_state({"mask": memoryview(cells)})
    assert widget.mask == cells and isinstance(widget.mask, bytes)


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(MaskPainter(scores(), "both").get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]


def test_text_for_pages_that_cannot_show_a_widget():
    assert repr(MaskPainter(scores(), "causal")) == "MaskPainter(3 queries, 5 keys, 12 cells allowed)"


# --- what is refused
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"scores": np.ones(3)}, ValueError, r"scores: expected shape \(T, S\)"),
        ({"scores": np.ones((17, 2))}, ValueError, r"at most 16 of each, got \(17, 2\)"),
        ({"scores": [[1.0, float("inf")]]}, ValueError, "scores: expected finite numbers"),
        ({"scores": [["x"]]}, TypeError, "scores: expected a tensor or an array of real numbers"),
        ({"mask": "triangle"}, ValueError, "mask: expected one of .*, got 'triangle'"),
        ({"mask": torch.ones(3, 5)}, TypeError, "mask: expected booleans or one of .*, got float32"),
        ({"mask": [[1, 0, 1, 0, 1]]}, TypeError, "mask: expected booleans"),
        ({"mask": [True, False]}, ValueError, r"broadcasts to \(3, 5\), got \(2,\)"),
        ({"length": 6}, ValueError, "length: .* from 0 to 5, got 6"),
        ({"length": -1}, ValueError, "length: .* from 0 to 5, got -1"),
        ({"window": 0}, ValueError, "window: .* from 1 to 5, got 0"),
        ({"row": 3}, ValueError, "row: .* from 0 to 2, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        MaskPainter(**{"scores": scores(), **given})


@pytest.mark.parametrize("cells", [bytes(14), bytes(16), b"\x02" * 15])
def test_a_bad_mask_from_the_browser_changes_nothing(cells):
    widget = MaskPainter(scores(), "causal")
    before = widget.mask
    with pytest.raises(ValueError, match="mask: expected 15 bytes that are 0 or 1"):
        widget.set_state({"mask": memoryview(cells)})
    assert widget.mask == before
