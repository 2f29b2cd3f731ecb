"""The Python side of the soft lookup explorer: what it computes, sends and refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.attention import scaled_dot_product_attention
from attnlab.checks.ch02_soft_lookup.references import kernel_lookup
from attnlab.widgets import SoftLookupExplorer

KEYS = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]  # N, E, S, W, all of length 1
VALUES = [1.0, 2.0, 4.0, 3.0]
NAMES = ["N", "E", "S", "W"]
QUERIES = [(0.6, 0.8), (-0.24, 0.52), (0.0, 0.0), (1.6, -1.6)]
TEMPERATURES = [0.02, 0.2, 1.0, 10.0]


def explorer(**settings):
    settings = {"names": NAMES, "query": (0.6, 0.8), "stretched": "E", **settings}
    return SoftLookupExplorer(KEYS, VALUES, **settings)


def as_tensors(widget):
    """Query (1, 2), keys (S, 2) and values (S, 1) of a widget, in float64."""
    query = torch.tensor([[widget.x, widget.y]], dtype=torch.float64)
    return query, torch.from_numpy(widget.key_points()), torch.tensor(VALUES, dtype=torch.float64)[:, None]


# --- what is computed
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stretch", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("query", QUERIES)
def test_by_dot_product_it_is_the_attention_of_the_library(query, temperature, stretch):
    widget = explorer(query=query, temperature=temperature, stretch=stretch)
    q, k, v = as_tensors(widget)
    expected = scaled_dot_product_attention(q * 2**0.5 / temperature, k, v)  # it divides by the root of 2
    np.testing.assert_allclose(widget.weights(), expected.weights[0].numpy(), rtol=0, atol=1e-12)
    assert widget.answer() == pytest.approx(expected.output.item(), abs=1e-12)


@pytest.mark.parametrize("stretch", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("query", QUERIES)
def test_by_distance_it_is_the_kernel_lookup_of_the_checks(query, temperature, stretch):
    widget = explorer(query=query, temperature=temperature, stretch=stretch, score="distance")
    output, weights = kernel_lookup(*as_tensors(widget), temperature)
    np.testing.assert_allclose(widget.weights(), weights[0].numpy(), rtol=0, atol=1e-12)
    assert widget.answer() == pytest.approx(output.item(), abs=1e-12)


@pytest.mark.parametrize("score", ["dot", "distance"])
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("query", QUERIES)
def test_the_slope_is_that_of_automatic_differentiation(query, temperature, score):
    widget = explorer(query=query, temperature=temperature, stretch=1.3, score=score)
    q, k, v = as_tensors(widget)
    q.requires_grad_()
    scores = q @ k.T if score == "dot" else -((q[:, None] - k) ** 2).sum(dim=-1) / 2
    (slope,) = torch.autograd.grad(((scores / temperature).softmax(dim=-1) @ v).sum(), q)
    np.testing.assert_allclose(widget.slope(), slope[0].numpy(), rtol=1e-9, atol=1e-12)


def test_with_keys_of_one_length_the_scores_agree_and_else_long_keys_gain():
    weights = {}
    for stretch in (1.0, 1.5):
        for score in ("dot", "distance"):
            weights[score, stretch] = explorer(temperature=0.2, score=score, stretch=stretch).weights()
    np.testing.assert_allclose(weights["dot", 1.0], weights["distance", 1.0], rtol=0, atol=1e-12)
    assert weights["dot", 1.5][1] > weights["dot", 1.5][0]  # the long key wins
    assert weights["distance", 1.5][1] < weights["distance", 1.0][1]  # it is further away


@pytest.mark.parametrize("score", ["dot", "distance"])
def test_cold_weights_approach_those_of_the_limit(score):
    limit = explorer(temperature=0, score=score)
    np.testing.assert_array_equal(limit.weights(), [1, 0, 0, 0])
    assert limit.answer() == 1.0
    np.testing.assert_array_equal(limit.slope(), [0, 0])
    cold = explorer(temperature=0.005, score=score)
    np.testing.assert_allclose(cold.weights(), limit.weights(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("score", ["dot", "distance"])
@pytest.mark.parametrize("temperature", [0.0, 0.001])
def test_at_a_tie_no_temperature_chooses(temperature, score):
    widget = explorer(query=(0.48, 0.48), temperature=temperature, score=score)
    np.testing.assert_allclose(widget.weights(), [0.5, 0.5, 0, 0], rtol=0, atol=1e-12)


def test_keys_that_a_float32_cannot_tell_apart_tie_in_the_limit():
    angles = np.deg2rad(np.arange(0, 360, 45))  # in float32 not quite of one length
    keys = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    for score in ("dot", "distance"):
        widget = SoftLookupExplorer(keys, angles, temperature=0, score=score)
        np.testing.assert_allclose(widget.weights(), np.full(8, 1 / 8))
    widget.x = 0.04
    assert widget.weights().argmax() == 2 and widget.weights().max() == 1


def test_hot_the_answer_is_the_mean_of_all_values():
    assert explorer(temperature=1e9).answer() == pytest.approx(np.mean(VALUES), abs=1e-8)


def test_huge_scores_do_not_overflow():
    widget = SoftLookupExplorer([[1e30, 0.0], [-1e30, 0.0]], [1.0, 2.0], query=(1e30, 0.0))
    np.testing.assert_array_equal(widget.weights(), [1, 0])


# --- what is sent
# ---------------------------------------------------------------------------------------------


def test_numbers_travel_as_float32_bytes_and_the_rest_is_small():
    widget = SoftLookupExplorer(torch.tensor(KEYS, requires_grad=True), torch.tensor(VALUES)[:, None])
    state = widget.get_state()
    numbers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    np.testing.assert_array_equal(np.frombuffer(numbers["keys_xy"], "<f4").reshape(4, 2), KEYS)
    np.testing.assert_array_equal(np.frombuffer(numbers["values"], "<f4"), VALUES)
    assert set(numbers) == {"keys_xy", "values"}
    rest = {name: part for name, part in state.items() if name not in {*numbers, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000
    assert not [name for name, part in rest.items() if isinstance(part, list) and len(part) > 12]
    assert widget.names == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("farthest", "stretched", "reach"),
    [
        (1.0, None, 1.0),
        (1.0, "E", 1.6),
        (1.1, None, 1.6),
        (0.03, None, 0.04),
        (70, None, 80),
        (81, None, 100),
    ],
)
def test_the_plane_holds_every_key_at_its_longest(farthest, stretched, reach):
    widget = SoftLookupExplorer(np.multiply(KEYS, farthest), VALUES, names=NAMES, stretched=stretched)
    assert widget.reach == pytest.approx(reach)
    widget = SoftLookupExplorer(np.zeros((2, 2)), [1.0, 2.0])
    assert widget.reach == 1.0


def test_text_for_pages_that_cannot_show_it():
    assert repr(explorer()) == "SoftLookupExplorer(4 keys, scored by dot product, temperature 1)"


def test_browser_code_is_one_module_without_imports():
    lines = [line.strip() for line in SoftLookupExplorer._esm.splitlines()]
    assert not [line for line in lines if line.startswith(("import ", "import(", "export {"))]
    assert [line for line in lines if line.startswith("export")] == ["export default { render };"]
    assert "http" not in SoftLookupExplorer._esm.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in SoftLookupExplorer._css


# --- what is refused
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "values", "says"),
    [
        (np.ones((1, 2)), [1.0], r"keys: expected shape \(S, 2\) with S from 2 to 12, got \(1, 2\)"),
        (np.ones((13, 2)), np.ones(13), r"keys: .* got \(13, 2\)"),
        (np.ones((3, 3)), np.ones(3), r"keys: .* got \(3, 3\)"),
        (np.ones(4), np.ones(4), r"keys: .* got \(4,\)"),
        (KEYS, np.ones(3), r"values: expected shape \(S,\) or \(S, 1\) with S = 4 keys, got \(3,\)"),
        (KEYS, np.ones((4, 2)), r"values: .* got \(4, 2\)"),
        ([[0.0, float("nan")], [1.0, 0.0]], [1.0, 2.0], "keys: expected finite numbers"),
        (KEYS, [1.0, 2.0, float("inf"), 0.0], "values: expected finite numbers"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(keys, values, says):
    with pytest.raises(ValueError, match=says):
        SoftLookupExplorer(keys, values)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="values: expected a tensor or an array of real numbers"):
        SoftLookupExplorer(KEYS, ["deep", "shallow", "deep", "deep"])


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("names", ["N", "E", "S"], "names: expected 4 different texts"),
        ("names", ["N", "E", "S", "E"], "names: expected 4 different texts"),
        ("names", ["N", "E", "S", " "], "names: expected 4 different texts"),
        ("stretched", "NE", "stretched: expected None or one of"),
        ("query", (0.0,), "query and axes: expected two of each, got 1 and 2"),
        ("query", (0.0, 1.7), "y: expected a finite number from -1.6 to 1.6, got 1.7"),
        ("axes", ("east",), "query and axes: expected two of each, got 2 and 1"),
    ],
)
def test_arguments_out_of_range_are_refused(setting, value, says):
    with pytest.raises(ValueError, match=says):
        explorer(**{setting: value})


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("x", 1.7, "from -1.6 to 1.6"),
        ("y", float("nan"), "finite"),
        ("temperature", -0.1, "from 0 to inf"),
        ("temperature", float("inf"), "finite"),
        ("stretch", 0.4, "from 0.5 to 1.5"),
        ("stretch", 1.6, "from 0.5 to 1.5"),
        ("score", "cosine", '"dot" or "distance"'),
    ],
)
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value, says):
    widget = explorer()
    before = getattr(widget, setting)
    with pytest.raises(ValueError, match=f"{setting}: .*{says}"):
        setattr(widget, setting, value)
    with pytest.raises(ValueError, match=says):  # this is how a value from the browser comes in
        widget.set_state({setting: value})
    assert getattr(widget, setting) == before


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(explorer().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]
