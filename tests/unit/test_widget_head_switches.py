"""The head switches in Python: the sum over heads is what a module with heads taken away gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attnlab.multihead import MultiHeadAttention
from attnlab.widgets import HeadSwitches

HEADS, OUTPUTS, CLASSES, EXAMPLES, WIDTH = 4, 3, 7, 2, 8
NAMES = ["1 back", "2 back", "3 back"]


def numbers(seed=0):
    """What the widget is given, at random: measured, parts, right."""
    draw = np.random.default_rng(seed)
    return {
        "measured": draw.random((2**HEADS, OUTPUTS + 1)),
        "parts": draw.normal(size=(EXAMPLES, HEADS + 1, OUTPUTS, CLASSES)),
        "right": draw.integers(CLASSES, size=(EXAMPLES, OUTPUTS)),
    }


def switches(**settings):
    return HeadSwitches(**{**numbers(), "outputs": NAMES, **settings})


@pytest.fixture(scope="module")
def model():
    """A module, a readout, and what each head adds to the logits of two positions, (P, H + 1, R, V)."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    attention = MultiHeadAttention(WIDTH, HEADS, bias=False).double()
    readout = torch.nn.Linear(WIDTH, OUTPUTS * CLASSES).double()
    x = torch.randn(EXAMPLES, 5, WIDTH, generator=generator, dtype=torch.float64)
    weights = attention(x, x).weights  # (P, H, T, T)
    values = (x @ attention.w_v.weight.T).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    mixed = (weights @ values)[:, :, -1]  # (P, H, D), the last position
    rows = attention.w_o.weight.unflatten(1, (HEADS, -1))  # (d_model, H, D)
    parts = torch.einsum("phd,ohd->pho", mixed, rows) @ readout.weight.T
    bias = readout.bias.expand(EXAMPLES, 1, -1)
    return attention, readout, x, torch.cat([parts, bias], dim=1).unflatten(-1, (OUTPUTS, CLASSES))


@pytest.mark.parametrize("heads_on", range(2**HEADS))
def test_the_sum_is_the_output_of_a_module_without_the_other_heads(model, heads_on):
    attention, readout, x, parts = model
    kept = attention.w_o.weight.detach().clone()
    with torch.no_grad():
        for head in range(HEADS):
            if not heads_on >> head & 1:
                attention.w_o.weight[:, head * WIDTH // HEADS : (head + 1) * WIDTH // HEADS] = 0.0
        expected = readout(attention(x, x).output)[:, -1].unflatten(-1, (OUTPUTS, CLASSES))
        attention.w_o.weight.copy_(kept)
    right = numbers()["right"]
    for example in range(EXAMPLES):
        widget = switches(parts=parts, heads_on=heads_on, example=example)
        logits = expected[example]
        np.testing.assert_allclose(widget.logits(), logits.numpy(), rtol=0, atol=1e-6)  # parts are float32
        np.testing.assert_allclose(widget.probabilities(), logits.softmax(dim=-1).numpy(), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(widget.named(), logits.argmax(dim=-1).numpy())
        above = logits[range(OUTPUTS), right[example]] - logits.mean(dim=-1)
        added = widget.contributions()[widget.is_on()].sum(axis=0)
        np.testing.assert_allclose(added, above.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("heads_on", range(2**HEADS))
def test_the_accuracy_is_the_measured_one_of_this_set(heads_on):
    widget = switches(heads_on=heads_on)
    np.testing.assert_array_equal(widget.accuracy(), numbers()["measured"][heads_on].astype("<f4"))
    assert widget.is_on().tolist() == [heads_on & 2**h > 0 for h in range(HEADS)] + [True]


def test_all_heads_are_on_at_first():
    assert switches().is_on().all()


# --- what is sent, and what comes back
# ------------------------------------------------------------------------


def test_numbers_travel_as_bytes_and_no_list_is_long():
    state = switches().get_state()
    sizes = {name: len(part) for name, part in state.items() if isinstance(part, bytes)}
    assert sizes == {"measured": 4 * 16 * 4, "parts": 4 * 2 * 5 * 3 * 7, "right": 2 * 3}
    np.testing.assert_array_equal(
        np.frombuffer(state["parts"], "<f4").reshape(2, 5, 3, 7), numbers()["parts"].astype("<f4")
    )
    np.testing.assert_array_equal(np.frombuffer(state["right"], "u1").reshape(2, 3), numbers()["right"])
    rest = {name: part for name, part in state.items() if name not in {*sizes, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000
    assert max(len(part) for part in rest.values() if isinstance(part, list)) == 4
    assert len(state["_esm"]) + len(state["_css"]) < 40_000


def test_the_largest_state_fits_a_page():
    largest = HeadSwitches(
        np.zeros((256, 5)), np.zeros((8, 9, 4, 32)), np.zeros((8, 4)), outputs=["a", "b", "c", "d"]
    )
    assert sum(len(part) for part in largest.get_state().values() if isinstance(part, bytes)) < 45_000


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(switches().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]


def test_text_for_pages_that_cannot_show_a_widget():
    assert repr(switches()) == "HeadSwitches(4 heads, 3 outputs, 7 classes, 2 examples)"


# --- what is refused
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"parts": np.zeros((2, 5, 3))}, ValueError, r"parts: expected shape .*, got \(2, 5, 3\)"),
        ({"parts": np.zeros((2, 10, 3, 7))}, ValueError, r"parts: expected shape .*, got \(2, 10, 3, 7\)"),
        ({"parts": np.zeros((2, 5, 3, 1))}, ValueError, "parts: expected shape"),
        ({"parts": np.full((2, 5, 3, 7), np.inf)}, ValueError, "parts: expected finite numbers"),
        ({"parts": [["x"]]}, TypeError, "parts: expected a tensor or an array of real numbers"),
        ({"measured": np.zeros((8, 4))}, ValueError, r"measured: .* = \(16, 4\), got \(8, 4\)"),
        ({"measured": np.full((16, 4), 1.5)}, ValueError, "measured: expected shares from 0 to 1"),
        ({"measured": np.full((16, 4), -0.5)}, ValueError, "measured: expected shares from 0 to 1"),
        ({"right": np.zeros((2, 4))}, ValueError, r"right: .* = \(2, 3\), got \(2, 4\)"),
        ({"right": np.full((2, 3), 7)}, ValueError, "right: expected whole numbers from 0 to 6"),
        ({"right": np.full((2, 3), 0.5)}, ValueError, "right: expected whole numbers from 0 to 6"),
        ({"outputs": ["a", "b"]}, ValueError, "outputs: expected 3 texts"),
        ({"outputs": ["a", "b", " "]}, ValueError, "outputs: expected 3 texts that are not empty"),
        ({"outputs": "abc"}, ValueError, "outputs: expected 3 texts"),
        ({"heads_on": 16}, ValueError, "heads_on: .* from 0 to 15, got 16"),
        ({"example": 2}, ValueError, "example: .* from 0 to 1, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        switches(**given)


@pytest.mark.parametrize(("trait", "value"), [("heads_on", 16), ("heads_on", -1), ("example", 2)])
def test_a_bad_setting_from_the_browser_changes_nothing(trait, value):
    widget = switches(heads_on=5, example=1)
    before = getattr(widget, trait)
    with pytest.raises(ValueError, match=f"{trait}: expected"):
        widget.set_state({trait: value})
    assert getattr(widget, trait) == before
