"""The head split explorer in Python: shapes, strides and numbers are those of torch, right and wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.attention import scaled_dot_product_attention
from attnlab.multihead import merge_heads, split_heads
from attnlab.widgets import HeadSplitExplorer

WORDS = ["Mia", "lost", "her"]
STEPS = ["x", "view", "transpose", "attention", "back", "merge"]


def tensors(num_tokens=3, d_model=4, seed=0):
    """Queries, keys and values, (3, T, d_model)."""
    return torch.randn(3, num_tokens, d_model, generator=torch.Generator().manual_seed(seed))


def explorer(num_tokens=3, d_model=4, **settings):
    words = [f"word {n}" for n in range(num_tokens)]
    return HeadSplitExplorer(words, *tensors(num_tokens, d_model), **settings)


def as_torch_does(x, attend, heads, bug):
    """The tensors of all six steps, from torch's own operations."""
    T, d_model = x.shape
    view = x.view(heads, T, -1) if bug else x.view(T, heads, -1)
    split = view if bug else view.transpose(0, 1)
    out = attend(split)
    back = out if bug else out.transpose(0, 1)
    return dict(zip(STEPS, [x, view, split, out, back, back.reshape(T, d_model)], strict=True))


SHAPES = [(3, 4, 2), (3, 4, 1), (3, 4, 4), (6, 8, 4), (5, 6, 3), (2, 8, 2), (1, 6, 2), (1, 1, 1)]


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize(("num_tokens", "d_model", "heads"), SHAPES)
def test_every_step_is_that_of_torch(num_tokens, d_model, heads, bug):
    names = torch.arange(num_tokens * d_model).view(num_tokens, d_model)
    # An attention that leaves every place where it is, and writes new memory, as attention does.
    expected = as_torch_does(
        names, lambda split: split.clone(memory_format=torch.contiguous_format), heads, bug
    )
    for step, tensor in expected.items():
        widget = explorer(num_tokens, d_model, heads=heads, step=step, bug=bug)
        assert widget.tensor_shape() == tuple(tensor.shape)
        strides = zip(tensor.shape, widget.strides(), tensor.stride(), strict=True)
        assert all(ours == theirs for size, ours, theirs in strides if size > 1), step
        np.testing.assert_array_equal(widget.places(), tensor.numpy())
        stored = tensor.as_strided((tensor.numel(),), (1,))
        np.testing.assert_array_equal(widget.memory(), stored.numpy())
        np.testing.assert_array_equal(stored.numpy()[widget.addresses()], tensor.numpy())


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize(("num_tokens", "d_model", "heads"), SHAPES)
def test_numbers_and_weights_are_those_of_the_library(num_tokens, d_model, heads, bug):
    query, key, value = tensors(num_tokens, d_model).double()

    def split(x):
        return x.view(heads, num_tokens, -1) if bug else split_heads(x, heads)

    result = scaled_dot_product_attention(split(query), split(key), split(value))
    for followed, x in [("queries", query), ("keys", key), ("values", value)]:
        expected = as_torch_does(x, lambda _: result.output, heads, bug)
        for step, tensor in expected.items():
            widget = explorer(num_tokens, d_model, heads=heads, step=step, bug=bug, followed=followed)
            np.testing.assert_allclose(widget.numbers(), tensor.numpy(), rtol=0, atol=1e-12)
            np.testing.assert_allclose(widget.weights(), result.weights.numpy(), rtol=0, atol=1e-12)
    if not bug:
        merged = explorer(num_tokens, d_model, heads=heads, step="merge").numbers()
        np.testing.assert_allclose(merged, merge_heads(result.output).numpy(), rtol=0, atol=1e-12)


def test_the_bug_gives_a_head_some_tokens_whole_and_others_not_at_all():
    held = explorer(heads=2, step="transpose", bug=True).places() // 4
    assert [sorted(set(head.ravel().tolist())) for head in held] == [[0, 1], [1, 2]]
    assert held.tolist() == [[[0, 0], [0, 0], [1, 1]], [[1, 1], [2, 2], [2, 2]]]  # as the lesson prints


def test_huge_numbers_do_not_overflow():
    x = [[1e18, 0.0], [0.0, 1e18]]
    np.testing.assert_array_equal(HeadSplitExplorer(["a", "b"], x, x, x).weights(), [np.eye(2)])


# --- what is sent, and what comes back
# ------------------------------------------------------------------------


def test_numbers_travel_as_bytes_and_no_list_is_long():
    state = explorer(6, 8).get_state()
    assert {name: len(part) for name, part in state.items() if isinstance(part, bytes)} == {
        "tensors": 4 * 3 * 6 * 8
    }
    np.testing.assert_array_equal(
        np.frombuffer(state["tensors"], "<f4").reshape(3, 6, 8), tensors(6, 8).numpy()
    )
    rest = {name: part for name, part in state.items() if name not in {"tensors", "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000
    assert max(len(part) for part in rest.values() if isinstance(part, list)) == 6
    assert len(state["_esm"]) + len(state["_css"]) < 45_000


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(explorer(heads=2).get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]


def test_text_for_pages_that_cannot_show_a_widget():
    assert repr(explorer(heads=2)) == "HeadSplitExplorer(3 tokens, d_model = 4, 2 heads)"


# --- what is refused
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"tokens": "Mia"}, TypeError, "tokens: expected a sequence of words, got one str"),
        ({"tokens": []}, ValueError, "tokens: expected 1 to 6, got 0"),
        ({"tokens": ["a"] * 7}, ValueError, "tokens: expected 1 to 6, got 7"),
        ({"query": np.ones((2, 4))}, ValueError, r"query: expected .* \(3, 1 to 8\).* got \(2, 4\)"),
        ({"key": np.ones((3, 5))}, ValueError, r"key: expected .* got \(3, 5\)"),
        ({"value": np.ones(4)}, ValueError, r"value: expected .* got \(4,\)"),
        ({"value": [["x"]]}, TypeError, "value: expected a tensor or an array of real numbers"),
        ({"key": np.full((3, 4), np.nan)}, ValueError, "key: expected finite numbers"),
        ({"heads": 3}, ValueError, "heads: expected a divisor of 4, got 3"),
        ({"heads": 0}, ValueError, "heads: expected a divisor of 4, got 0"),
        ({"step": "split"}, ValueError, "step: expected one of .*, got 'split'"),
        ({"followed": "outputs"}, ValueError, "followed: expected one of .*, got 'outputs'"),
        ({"chosen": 12}, ValueError, "chosen: .* from 0 to 11, got 12"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    query, key, value = tensors()
    with pytest.raises(error, match=says):
        HeadSplitExplorer(**{"tokens": WORDS, "query": query, "key": key, "value": value, **given})


def test_a_width_that_no_phone_can_show_is_refused():
    with pytest.raises(ValueError, match=r"query: expected .* got \(3, 9\)"):
        HeadSplitExplorer(WORDS, *tensors(3, 9))


@pytest.mark.parametrize(("trait", "value"), [("heads", 3), ("step", 6), ("step", -1), ("chosen", 12)])
def test_a_bad_setting_from_the_browser_changes_nothing(trait, value):
    widget = explorer(heads=2, step="merge", chosen=5)
    before = getattr(widget, trait)
    with pytest.raises(ValueError, match=f"{trait}: expected"):
        widget.set_state({trait: value})
    assert getattr(widget, trait) == before
