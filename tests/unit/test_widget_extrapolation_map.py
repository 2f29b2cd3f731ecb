"""The Python side of the extrapolation map: what it reads out of a lesson's results, sends and refuses."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

from attnlab.widgets import ExtrapolationMap

RESULTS = {
    "near": {"none": {8: 0.5, 16: 0.25, 32: 0.125}, "rotary": {8: 1.0, 16: 0.75, 32: 0.5}},
    "far": {"none": {8: 0.0, 16: 0.375, 32: 0.25}, "rotary": {8: 0.875, 16: 1.0, 32: 0.625}},
}


def shown(**settings):
    return ExtrapolationMap(settings.pop("results", RESULTS), **{"trained": 16, **settings})


def without(job, kind=None, length=None):
    """The results with one part taken away."""
    results = copy.deepcopy(RESULTS)
    del (results[job] if length is None else results[job][kind])[kind if length is None else length]
    return results


def test_each_job_is_read_at_its_own_place():
    widget = shown()
    for number, job in enumerate(("near", "far")):
        expected = [[*at.values()] for at in RESULTS[job].values()]
        np.testing.assert_array_equal(widget.accuracies(job), expected)
        widget.job = number
        np.testing.assert_array_equal(widget.accuracies(), expected)
    np.testing.assert_array_equal(widget.change(), [[-0.375, 0, -0.125], [-0.125, 0, -0.375]])
    np.testing.assert_array_equal(widget.change("near"), [[0.25, 0, -0.125], [0.25, 0, -0.25]])


def test_the_accuracies_travel_as_float32():
    widget = shown(kind="rotary", length=32)
    state = widget.get_state()
    buffers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    assert {name: len(part) for name, part in buffers.items()} == {"measured": 4 * 2 * 2 * 3}
    sent = np.frombuffer(widget.measured, "<f4").reshape(2, 2, 3)
    np.testing.assert_array_equal(sent[1], widget.accuracies("far"))
    rest = {name: part for name, part in state.items() if name not in {"measured", "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 900
    assert (widget.trained, widget.row, widget.column) == (1, 1, 2)
    assert (shown().row, shown().column) == (0, 1)  # at first the trained length
    assert repr(widget) == "ExtrapolationMap(near and far: 2 kinds of positions at 3 lengths)"


def test_tensors_count_as_numbers():
    results = {"copy": {"none": {8: torch.tensor(0.5), 16: np.float32(0.25)}}}
    np.testing.assert_array_equal(ExtrapolationMap(results, trained=8).accuracies(), [[0.5, 0.25]])


def test_the_code_is_one_module_without_imports():
    lines = [line.strip() for line in ExtrapolationMap._esm.splitlines()]
    assert [line for line in lines if line.startswith(("import", "export"))] == ["export default { render };"]
    assert len(ExtrapolationMap._esm) + len(ExtrapolationMap._css) < 40_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"results": {}}, "results: expected 1 to 8 jobs, got 0"),
        ({"results": {"near": {}}}, "results: expected 1 to 8 kinds, got 0"),
        ({"results": {"near": {"none": {}}}}, "results: expected 1 to 8 lengths, got 0"),
        ({"results": without("far", "none")}, r"expected the kinds .* in job 'far', got \['rotary'\]"),
        (
            {"results": without("far", "none", 8)},
            r"expected the lengths .* for 'none' in 'far', got \[16, 32\]",
        ),
        ({"results": {"a": {"b": {16: 0.5, 8: 0.5}}}}, "expected rising positive lengths"),
        ({"results": {"a": {"b": {0: 0.5, 16: 0.5}}}}, "expected rising positive lengths"),
        ({"results": {"a": {"b": {16: 1.5}}}}, "expected accuracies from 0 to 1, got 1.5"),
        ({"results": {"a": {"b": {16: -0.5}}}}, "expected accuracies from 0 to 1, got -0.5"),
        ({"results": {"a": {"b": {16: float("nan")}}}}, "results: expected finite numbers"),
        ({"trained": 12}, r"trained: expected one of \[8, 16, 32\], got 12"),
        ({"kind": "ALiBi"}, "kind: expected one of .*, got 'ALiBi'"),
        ({"length": 64}, "length: expected one of .*, got 64"),
    ],
)
def test_what_does_not_fit_is_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        shown(**settings)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="results: expected a tensor or an array of real numbers"):
        ExtrapolationMap({"copy": {"none": {8: "half"}}}, trained=8)


@pytest.mark.parametrize(("setting", "value"), [("job", 2), ("row", -1), ("column", 3)])
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value):
    widget = shown()
    before = getattr(widget, setting)
    with pytest.raises(ValueError, match=f"{setting}: expected"):
        widget.set_state({setting: value})
    assert getattr(widget, setting) == before


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(shown().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]
