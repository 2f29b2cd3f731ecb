"""The Python side of the widgets: what they accept, what they send to the browser, what they compute."""

from __future__ import annotations

import json
import sys
import types

import anywidget._util
import numpy as np
import pytest
import torch

from attnlab import plots
from attnlab.widgets import AttentionExplorer, GradientExplorer, _base

WORDS = ["the", "cat", "sat"]


def tensors(heads=2, length=3, width=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(heads, length, width, generator=generator) for _ in range(2)]


def curves(length=8):
    steps = torch.arange(length, dtype=torch.float64)
    return {"fast": 1e-9**steps, "slow": 0.9**steps}


# --- what is sent
# ---------------------------------------------------------------------------------------------


def test_attention_sends_float32_bytes_in_order():
    query, key = tensors()
    widget = AttentionExplorer(WORDS, query, key)
    assert widget.shape == [2, 3, 5]
    np.testing.assert_array_equal(np.frombuffer(widget.query, "<f4").reshape(2, 3, 5), query.numpy())
    np.testing.assert_array_equal(np.frombuffer(widget.key, "<f4").reshape(2, 3, 5), key.numpy())


def test_numbers_are_little_endian_bytes_whatever_the_machine_or_the_source():
    big_endian = np.array([[1.0, -2.5]], dtype=">f8")
    widget = AttentionExplorer(["one"], big_endian, big_endian)
    assert widget.query == b"\x00\x00\x80\x3f\x00\x00\x20\xc0"


@pytest.mark.parametrize("form", ["tensor", "needs gradient", "transposed", "array", "lists"])
def test_every_form_of_the_same_numbers_sends_the_same_bytes(form):
    query, key = tensors(heads=1)
    given = {
        "tensor": lambda part: part[0],
        "needs gradient": lambda part: part[0].clone().requires_grad_(),
        "transposed": lambda part: part[0].T.contiguous().T,
        "array": lambda part: part[0].numpy(),
        "lists": lambda part: part[0].tolist(),
    }[form]
    expected = AttentionExplorer(WORDS, query, key)
    widget = AttentionExplorer(WORDS, given(query), given(key))
    assert (widget.query, widget.key) == (expected.query, expected.key)


def test_the_caller_may_change_the_tensors_afterwards():
    query, key = tensors()
    widget = AttentionExplorer(WORDS, query, key)
    before = widget.weights()
    query.zero_()
    np.testing.assert_array_equal(widget.weights(), before)


def test_a_state_holds_no_long_list_and_little_beyond_its_numbers():
    query, key = tensors(heads=4, length=3, width=64)
    widget = AttentionExplorer(WORDS, query, key)
    state = widget.get_state()
    numbers = {name: part for name, part in state.items() if isinstance(part, bytes)}
    assert {name: len(part) for name, part in numbers.items()} == {
        name: 4 * 4 * 3 * 64 for name in ("query", "key")
    }
    rest = {name: part for name, part in state.items() if name not in {*numbers, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1200
    assert len(state["_esm"]) + len(state["_css"]) < 40_000


def test_curves_are_sent_one_after_the_other():
    widget = GradientExplorer(curves())
    sent = np.frombuffer(widget.curves, "<f4").reshape(2, 8)
    np.testing.assert_allclose(sent[1], 0.9 ** np.arange(8), rtol=1e-6)
    assert widget.names == ["fast", "slow"]


# --- what is computed
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("head", "dimensions", "temperature"), [(0, 5, 1.0), (1, 2, 0.3), (1, 4, 3.7)])
def test_weights_are_those_of_torch(mask, scaled, head, dimensions, temperature):
    query, key = tensors()
    widget = AttentionExplorer(
        WORDS, query, key, mask=mask, scaled=scaled, head=head, dimensions=dimensions, temperature=temperature
    )
    used = [part[head, :, :dimensions].double() for part in (query, key)]
    identity = torch.eye(3, dtype=torch.float64)  # as values: the output is then the weights themselves
    expected = torch.nn.functional.scaled_dot_product_attention(
        *used,
        identity,
        is_causal=mask == "causal",
        scale=1 / (temperature * (dimensions**0.5 if scaled else 1)),
    )
    np.testing.assert_allclose(widget.weights(), expected.numpy(), rtol=0, atol=1e-12)


def test_weights_follow_the_settings():
    widget = AttentionExplorer(WORDS, *tensors())
    first = widget.weights()
    widget.temperature = 4.0
    assert widget.weights().max() < first.max()


def test_huge_scores_do_not_overflow():
    query = np.array([[1e18], [-1e18]])
    np.testing.assert_array_equal(AttentionExplorer(["a", "b"], query, query).weights(), np.eye(2))


def test_gradient_at_a_distance_is_what_a_float32_holds():
    widget = GradientExplorer(curves(), distance=2)
    assert widget.at() == {"fast": pytest.approx(1e-18, rel=1e-6), "slow": pytest.approx(0.81, rel=1e-6)}
    assert widget.at(5)["fast"] == pytest.approx(1e-45, rel=0.5)  # the last float32 above 0
    assert widget.at(6)["fast"] == 0.0


# --- what is refused
# ------------------------------------------------------------------------------------------

NOT_FINITE = [float("nan"), float("inf"), 1e39]


@pytest.mark.parametrize(
    ("tokens", "query", "key", "says"),
    [
        ([], np.ones((0, 2)), np.ones((0, 2)), "tokens: expected at least one token"),
        (["a"], np.ones((2, 3)), np.ones((2, 3)), r"query: expected shape .* T = 1 tokens, got \(2, 3\)"),
        (["a"], np.ones((1, 3)), np.ones((2, 3)), r"key: expected shape .* T = 1 tokens, got \(2, 3\)"),
        (
            ["a"],
            np.ones((1, 3)),
            np.ones((1, 4)),
            r"key: expected the shape of query, \(1, 1, 3\), got \(1, 1, 4\)",
        ),
        (["a"], np.ones(3), np.ones(3), "query: expected shape"),
        (["a"], np.ones((1, 1, 1, 3)), np.ones((1, 1, 1, 3)), "query: expected shape"),
        (["a"], np.ones((1, 0)), np.ones((1, 0)), "query: expected at least one number"),
        *[(["a"], [[1.0, bad]], [[1.0, 1.0]], "query: expected finite numbers") for bad in NOT_FINITE],
        *[(["a"], [[1.0, 1.0]], [[1.0, bad]], "key: expected finite numbers") for bad in NOT_FINITE],
    ],
)
def test_attention_refuses_what_does_not_fit(tokens, query, key, says):
    with pytest.raises(ValueError, match=says):
        AttentionExplorer(tokens, query, key)


@pytest.mark.parametrize(
    ("tokens", "query", "says"),
    [
        ("ab", np.ones((2, 3)), "tokens: expected a sequence of words, got one str"),
        (["a", 2], np.ones((2, 3)), "tokens: expected text, got int 2"),
        (["a", "b"], [["x"], ["y"]], "query: expected a tensor or an array of real numbers, got list"),
        (["a", "b"], [[1j], [1j]], "query: expected a tensor or an array of real numbers"),
    ],
)
def test_attention_refuses_wrong_types(tokens, query, says):
    with pytest.raises(TypeError, match=says):
        AttentionExplorer(tokens, query, np.ones((2, 3)))


SETTINGS = [
    ("temperature", 0.0, "above 0"),
    ("temperature", -1.0, "above 0"),
    ("temperature", float("inf"), "finite"),
    ("temperature", float("nan"), "finite"),
    ("dimensions", 0, "from 1 to 5"),
    ("dimensions", 6, "from 1 to 5"),
    ("head", -1, "from 0 to 1"),
    ("head", 2, "from 0 to 1"),
    ("row", 3, "from 0 to 2"),
    ("mask", "padding", '"none" or "causal"'),
]


@pytest.mark.parametrize(("setting", "value", "says"), SETTINGS)
def test_a_setting_out_of_range_is_refused_and_changes_nothing(setting, value, says):
    with pytest.raises(ValueError, match=f"{setting}: .*{says}"):
        AttentionExplorer(WORDS, *tensors(), **{setting: value})
    widget = AttentionExplorer(WORDS, *tensors())
    before = getattr(widget, setting)
    with pytest.raises(ValueError, match=says):
        setattr(widget, setting, value)
    with pytest.raises(ValueError, match=says):  # this is how a value from the browser comes in
        widget.set_state({setting: value})
    assert getattr(widget, setting) == before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "curves: expected 1 to 6 models, got 0"),
        ({f"m{i}": [1.0, 0.5] for i in range(7)}, "curves: expected 1 to 6 models, got 7"),
        ({" ": [1.0, 0.5]}, "names that are text and not empty"),
        ({"a": [1.0]}, r"at least 2, got \(1,\)"),
        ({"a": [[1.0, 0.5]]}, r"expected shape \(distances,\)"),
        ({"a": []}, "at least one number"),
        ({"a": [1.0, -0.5]}, "never negative, got -0.5"),
        ({"a": [1.0, float("nan")]}, "expected finite numbers"),
        ({"a": [2.0, 1.0]}, "expected 1 at distance 0, got 2.0"),
        ({"a": [0.0, 0.0]}, "expected 1 at distance 0, got 0.0"),
        ({"a": [1.0, 0.5], "b": [1.0, 0.5, 0.2]}, "one length, got {'a': 2, 'b': 3}"),
    ],
)
def test_gradient_refuses_what_does_not_fit(given, says):
    with pytest.raises(ValueError, match=says):
        GradientExplorer(given)


def test_gradient_refuses_what_is_no_mapping():
    with pytest.raises(TypeError, match="curves: expected a mapping"):
        GradientExplorer([[1.0, 0.5]])


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("distance", 8, "from 0 to 7, got 8"),
        ("distance", -1, "from 0 to 7, got -1"),
        ("hidden", ["none such"], "expected names out of"),
        ("roles", {"fast": "purple"}, "roles: expected one of"),
        ("roles", {"none such": "a"}, "roles: expected names out of"),
    ],
)
def test_gradient_settings_out_of_range_are_refused(setting, value, says):
    with pytest.raises(ValueError, match=says):
        GradientExplorer(curves(), **{setting: value})


def test_a_distance_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="from 0 to 7, got 8"):
        GradientExplorer(curves()).at(8)


# --- what they look like
# --------------------------------------------------------------------------------------


def test_text_for_pages_that_cannot_show_a_widget_is_the_same_every_time():
    texts = [repr(AttentionExplorer(WORDS, *tensors())) for _ in range(2)]
    assert texts == ["AttentionExplorer(3 tokens, 2 heads, d_k = 5)"] * 2
    assert repr(GradientExplorer(curves())) == "GradientExplorer(fast, slow, distances 0 to 7)"


def test_models_take_free_colours_in_turn():
    assert GradientExplorer(curves()).roles == ["a", "b"]
    three = {name: [1.0, 0.5] for name in ("x", "y", "z")}
    assert GradientExplorer(three, roles={"y": "a"}).roles == ["b", "a", "c"]


@pytest.mark.parametrize("widget", [AttentionExplorer, GradientExplorer])
def test_browser_code_is_one_module_without_imports(widget):
    lines = [line.strip() for line in widget._esm.splitlines()]
    assert not [line for line in lines if line.startswith(("import ", "import(", "export {"))]
    assert [line for line in lines if line.startswith("export")] == ["export default { render };"]
    assert "http" not in widget._esm.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in widget._css


@pytest.mark.parametrize("role", ["query", "key", "value", "weight", "wrong", "a", "b", "c", "d", "e", "f"])
def test_colours_are_those_of_the_figures(role):
    assert f"light-dark({plots.COLOURS[role]}, " in _declaration(role)


def _declaration(role: str) -> str:
    return next(line for line in GradientExplorer._css.splitlines() if line.strip().startswith(f"--{role}: "))


# --- running a cell again
# -------------------------------------------------------------------------------------


class Shell:
    """Stands for the notebook's shell: it knows which cell runs, and in which run."""

    def __init__(self):
        self.cell, self.run = "cell-1", 0

    def get_parent(self):
        return {"metadata": {"cellId": self.cell}, "header": {"msg_id": f"run-{self.run}"}}


@pytest.fixture
def shell(monkeypatch):
    shell = Shell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    monkeypatch.setattr(_base.CourseWidget, "_made_by_cell", {})
    return shell


def is_closed(widget):
    return widget.comm is None


def test_a_cell_that_runs_again_replaces_its_widgets(shell):
    first = [GradientExplorer(curves()) for _ in range(2)]
    assert not any(map(is_closed, first))  # one run may make several
    shell.run += 1
    again = GradientExplorer(curves())
    assert all(map(is_closed, first))
    assert all(is_closed(widget.layout) for widget in first)
    assert not is_closed(again)


def test_other_cells_keep_their_widgets(shell):
    kept = GradientExplorer(curves())
    shell.cell, shell.run = "cell-2", 1
    AttentionExplorer(WORDS, *tensors())
    assert not is_closed(kept)


def test_without_a_notebook_nothing_is_closed(monkeypatch):
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: None)
    widgets = [GradientExplorer(curves()) for _ in range(2)]
    assert not any(map(is_closed, widgets))


# --- Colab
# ----------------------------------------------------------------------------------------------------


def test_colab_is_asked_once_to_allow_widgets(monkeypatch):
    asked = []
    output = types.ModuleType("google.colab.output")
    output._widgets = types.SimpleNamespace(_installed_url="https://colab.example/manager.js")
    output.enable_custom_widget_manager = lambda: asked.append(True)
    for name in ("google", "google.colab"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    anywidget._util.enable_custom_widget_manager_once.cache_clear()
    try:
        widget = GradientExplorer(curves())  # before it is shown: it may be shown within a box only
        assert asked == [True]
        data, metadata = widget._repr_mimebundle_()
        assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
        assert "colab.example" in json.dumps(metadata)
        assert asked == [True]
    finally:
        anywidget._util.enable_custom_widget_manager_once.cache_clear()
