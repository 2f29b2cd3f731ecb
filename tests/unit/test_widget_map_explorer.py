"""The map explorer in Python: means and rollout against a loop, what it sends, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.attention import causal_mask, masked_softmax
from attnlab.widgets import MapExplorer, map_explorer

WORDS = ["^", "a", "3", "a"]


def maps(layers=2, heads=3, queries=4, keys=4, mask=None):
    """Weights of a model at random, (L, H, Q, K)."""
    scores = 2 * torch.randn(layers, heads, queries, keys, generator=torch.Generator().manual_seed(0))
    return masked_softmax(scores, mask)


def explorer(**settings):
    mask = causal_mask(4)
    return MapExplorer(
        **{"weights": maps(mask=mask), "tokens": WORDS, "mask": mask, "layer": 1, "head": 2, **settings}
    )


def rollout_by_loop(weights):
    """Rollout after each layer, number by number: half by the mean map, half by staying where one is."""
    L, H, T, _ = weights.shape
    flow, flows = [[float(i == k) for k in range(T)] for i in range(T)], []
    for layer in range(L):
        mixed = [[0.0] * T for _ in range(T)]
        for i in range(T):
            for j in range(T):
                mean = sum(float(weights[layer, h, i, j]) for h in range(H)) / H
                share = mean / 2 + (0.5 if i == j else 0.0)
                for k in range(T):
                    mixed[i][k] += share * flow[j][k]
        flow = mixed
        flows.append(flow)
    return np.array(flows)


def test_each_kind_of_map_is_what_it_says():
    weights = maps(mask=causal_mask(4))
    widget = explorer()
    np.testing.assert_array_equal(widget.map(), weights[1, 2].double())
    widget.shown, widget.layer = "mean", 0
    np.testing.assert_allclose(widget.map(), weights.double().mean(dim=1)[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(widget.rollout(), rollout_by_loop(weights), rtol=0, atol=1e-12)
    widget.shown, widget.layer = "rollout", 1
    np.testing.assert_array_equal(widget.map(), widget.rollout()[1])
    np.testing.assert_allclose(widget.rollout().sum(axis=-1), 1, rtol=0, atol=1e-6)


def test_rollout_by_hand():
    """Three tokens `b 7 b`: the 7 looks at the first b in layer 1, the second b at the 7 in layer 2."""
    weights = [[[[1, 0, 0], [1, 0, 0], [0, 0, 1]]], [[[1, 0, 0], [0, 1, 0], [0, 1, 0]]]]
    rollout = MapExplorer(weights, ["b", "7", "b"]).rollout()
    np.testing.assert_array_equal(rollout[1][2], [0.25, 0.25, 0.5])
    np.testing.assert_array_equal(rollout[0], [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])


def test_the_key_that_gets_most_and_its_share():
    weights = np.array([[[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.25, 0.75]]]])
    assert MapExplorer(weights, ["a", "b", "c"]).gets_most() == (1, 1.25 / 3)
    assert MapExplorer(np.eye(3)[None, None], ["a", "b", "c"]).gets_most() == (
        0,
        1 / 3,
    )  # the first of equals


# --- what is sent, and what comes back
# ------------------------------------------------------------------------


def test_few_weights_travel_as_float32_and_no_list_is_long():
    state = explorer().get_state()
    sizes = {name: len(part) for name, part in state.items() if isinstance(part, bytes)}
    assert sizes == {"weights": 4 * 2 * 3 * 4 * 4, "mask": 16}
    sent = np.frombuffer(state["weights"], "<f4").reshape(2, 3, 4, 4)
    np.testing.assert_array_equal(sent, maps(mask=causal_mask(4)))
    np.testing.assert_array_equal(np.frombuffer(state["mask"], "u1").reshape(4, 4), causal_mask(4))
    rest = {name: part for name, part in state.items() if name not in {*sizes, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 900
    assert max(len(part) for part in rest.values() if isinstance(part, list)) == 4
    assert len(json.dumps(explorer().get_state(), default=len)) == len(json.dumps(state, default=len))


def test_many_weights_travel_as_255ths_of_rows_that_still_sum_to_one():
    weights = maps(12, 12, 13, 13, mask=causal_mask(13))
    widget = MapExplorer(weights, list("abcdefghijklm"))
    sent = np.frombuffer(widget.weights, "u1").reshape(weights.shape)
    assert (sent.sum(axis=-1, dtype=int) == 255).all()
    np.testing.assert_allclose(sent / 255, weights, rtol=0, atol=1 / 255)
    assert (sent[weights == 0] == 0).all()
    widget.layer, widget.head = 11, 3
    np.testing.assert_allclose(widget.map(), sent[11, 3] / 255, rtol=0, atol=1e-12)
    np.testing.assert_allclose(widget.rollout()[-1].sum(axis=-1), 1, rtol=0, atol=1e-12)
    folder = Path(map_explorer.__file__).parent
    own = sum((folder / f"map_explorer.{kind}").stat().st_size for kind in ("js", "css"))
    assert own + 4 * len(widget.weights) / 3 < 60_000
    assert (folder / "map_explorer.js").stat().st_size < 20_000


def test_a_query_that_sees_no_key_stays_empty():
    weights = np.zeros((1, 1, 2, 2))
    weights[0, 0, 1] = 0.5
    widget = MapExplorer(weights, ["a", "b"], shown="rollout")
    np.testing.assert_array_equal(widget.map(), [[0.5, 0], [0.25, 0.75]])


def test_cross_attention_has_keys_of_its_own_and_no_rollout():
    widget = MapExplorer(maps(1, 2, 3, 5), ["x", "y", "z"], keys=list("abcde"), shown="mean")
    assert widget.map().shape == (3, 5)
    assert repr(widget) == "MapExplorer(1 layer, 2 heads, 3 queries, 5 keys)"
    with pytest.raises(ValueError, match="rollout: expected keys and queries to be the same"):
        widget.rollout()
    with pytest.raises(ValueError, match="shown: expected one of"):
        widget.set_state({"shown": "rollout"})


def test_at_first_the_last_row_is_chosen_and_tensors_count_as_numbers():
    widget = explorer(head=torch.tensor(1), layer=np.int64(0))
    assert (widget.layer, widget.head, widget.shown, widget.row) == (0, 1, "head", 3)
    assert repr(widget) == "MapExplorer(2 layers, 3 heads, 4 tokens)"


# --- what is refused
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"weights": np.eye(4)}, ValueError, r"weights: expected shape \(L, H, Q, K\).*got \(4, 4\)"),
        ({"weights": maps(17, 1)}, ValueError, r"weights: expected shape .* got \(17, 1, 4, 4\)"),
        ({"weights": maps(16, 16, 10, 10)}, ValueError, "at most 24576, got 25600; show fewer"),
        ({"weights": [["x"]]}, TypeError, "weights: expected a tensor or an array of real numbers"),
        ({"weights": np.full((1, 1, 4, 4), np.nan)}, ValueError, "weights: expected finite numbers"),
        ({"weights": np.array([[np.eye(4) * 2 - 1 / 4]])}, ValueError, "none below 0, got -0.25"),
        ({"weights": maps() * 1.4}, ValueError, "rows that sum to 1, got 1.4; was dropout on"),
        ({"weights": maps() * 0.6}, ValueError, "rows that sum to 1, got 0.6"),
        ({"weights": maps()}, ValueError, "weights: expected 0 where the mask hides a key"),
        ({"mask": causal_mask(4).int()}, TypeError, "mask: expected booleans"),
        ({"mask": causal_mask(5)}, ValueError, r"mask: expected shape .* \(4, 4\), got \(5, 5\)"),
        ({"tokens": "^a3a"}, TypeError, "tokens: expected a sequence of texts, got one str"),
        ({"tokens": ["^", "a", 3, "a"]}, TypeError, "tokens: expected text, got int 3"),
        ({"tokens": WORDS[:3]}, ValueError, "tokens: expected 4 texts, one for each, got 3"),
        ({"keys": WORDS[:3]}, ValueError, "keys: expected 4 texts, one for each, got 3"),
        ({"weights": maps(1, 1, 4, 3), "mask": None}, ValueError, "keys: expected 3 texts"),
        ({"layer": 2}, ValueError, "layer: expected a whole number from 0 to 1, got 2"),
        ({"head": -1}, ValueError, "head: expected a whole number from 0 to 2, got -1"),
        ({"row": 4}, ValueError, "row: expected a whole number from 0 to 3, got 4"),
        ({"head": 1.0}, TypeError, "head: expected a whole number, got 1.0"),
        ({"shown": "maximum"}, ValueError, "shown: expected one of .*, got 'maximum'"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        explorer(**given)


@pytest.mark.parametrize(("trait", "value"), [("layer", 2), ("head", 3), ("row", -1), ("shown", "all")])
def test_a_bad_setting_from_the_browser_changes_nothing(trait, value):
    widget = explorer()
    before = getattr(widget, trait)
    with pytest.raises(ValueError, match=f"{trait}: expected"):
        widget.set_state({trait: value})
    assert getattr(widget, trait) == before
