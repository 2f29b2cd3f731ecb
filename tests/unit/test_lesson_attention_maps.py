"""What lesson 16 defines in its own cells does what the text says, and is what the library holds."""

import ast
import math
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from attnlab import plots, training
from attnlab.attention import causal_mask, masked_softmax
from attnlab.checks.ch16_attention_maps import references
from attnlab.layers import PreNorm
from attnlab.multihead import MultiHeadAttention, merge_heads, split_heads
from attnlab.positions import sinusoidal_positions

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/16_attention_maps.py"


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {
        "math": math, "torch": torch, "nn": nn, "F": F, "Tensor": Tensor, "NamedTuple": NamedTuple,
        "Figure": Figure, "plots": plots, "training": training, "causal_mask": causal_mask,
        "masked_softmax": masked_softmax, "merge_heads": merge_heads, "split_heads": split_heads,
        "sinusoidal_positions": sinusoidal_positions, "TOKENS": ["^", *"abcdef", *"01234567"],
    }  # fmt: skip
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def generator(number=0):
    return torch.Generator().manual_seed(number)


def rows(*shape):
    return torch.randn(*shape, generator=generator()).softmax(dim=-1)


@pytest.fixture(scope="module")
def model(lesson):
    torch.manual_seed(0)
    return lesson["Reader"]().requires_grad_(False)


# --- the notes --------------------------------------------------------------------------------------------


def test_notes_alternate_and_keep_their_digits(lesson):
    tokens, following = lesson["notes"](50, generator())
    assert tokens.shape == following.shape == (50, 18)
    assert torch.equal(tokens[:, 1:], following[:, :-1])
    assert (tokens[:, 0] == 0).all()
    letters, digits = tokens[:, 1::2], tokens[:, 2::2]
    assert (letters >= 1).all() and (letters <= 6).all() and (digits >= 7).all() and (digits <= 14).all()
    for text in tokens.tolist():
        pairs = set(zip(text[1::2], text[2::2], strict=False))
        assert len({letter for letter, _ in pairs}) == len(pairs)


def test_kinds_and_sources(lesson):
    tokens = lesson["encode"]("^ a 3 b 7 a 3 b")
    kinds = {name: flags[0].nonzero().flatten().tolist() for name, flags in lesson["kinds"](tokens).items()}
    assert kinds == {"known": [5, 7], "new": [1, 3], "digit": [2, 4, 6]}
    copies, digits = (cells[0].nonzero().tolist() for cells in lesson["sources"](tokens))
    assert copies == [[5, 1], [7, 3]] and digits == [[5, 2], [7, 4]]


# --- the model --------------------------------------------------------------------------------------------


def test_a_layer_is_the_library_attention_in_a_pre_norm_residual(lesson):
    torch.manual_seed(0)
    ours, theirs, around = lesson["Layer"](12, 3), MultiHeadAttention(12, 3, bias=False), PreNorm(12)
    theirs.load_state_dict({name: w for name, w in ours.state_dict().items() if not name.startswith("norm")})
    x, mask = torch.randn(2, 5, 12, generator=generator()), causal_mask(5)
    output, weights, values = ours(x, mask)
    expected = theirs(around.before(x), mask=mask)
    torch.testing.assert_close(output, around.after(x, expected.output), rtol=0, atol=1e-6)
    torch.testing.assert_close(weights, expected.weights, rtol=0, atol=1e-6)
    torch.testing.assert_close(values, split_heads(ours.w_v(ours.norm(x)), 3), rtol=0, atol=1e-6)


def test_an_edit_replaces_the_weights_that_are_used(lesson, model):
    tokens, _ = lesson["notes"](2, generator())
    first = model(tokens, edits=(None, torch.zeros_like))
    assert not first.maps[1].any() and first.maps[0].any()
    assert not torch.allclose(first.logits, model(tokens).logits)
    same = model(tokens, edits=(None, lambda weights: weights.clone()))
    assert torch.equal(same.logits, model(tokens).logits)


# --- measures ---------------------------------------------------------------------------------------------


def test_shift_goes_from_none_to_everything(lesson):
    a, b = torch.tensor([[100.0, 0, 0]]), torch.tensor([[0, 100.0, 0]])
    assert lesson["shift"](a, b).item() == pytest.approx(1) and lesson["shift"](a, a + 5).item() == 0
    half = torch.tensor([[50.0, 50.0, -50.0]])
    assert lesson["shift"](a, half).item() == pytest.approx(0.5)


def test_entropy_and_divergence(lesson):
    even, sure, other = torch.full((1, 4), 0.25), torch.eye(4)[:1], torch.eye(4)[1:2]
    assert lesson["entropy"](even).item() == pytest.approx(math.log(4))
    assert lesson["entropy"](sure).item() == pytest.approx(0, abs=1e-6)
    assert lesson["divergence"](sure, other).item() == pytest.approx(1, abs=1e-6)
    assert lesson["divergence"](even, even).item() == pytest.approx(0, abs=1e-6)
    zero = torch.zeros(1, 4).requires_grad_()
    lesson["divergence"](zero + sure, even).sum().backward()
    assert zero.grad.isfinite().all()


def test_ranks_share_ties(lesson):
    assert lesson["ranks"](torch.tensor([3.0, 1.0, 3.0, 7.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_removal_is_what_the_exercise_asks_for(lesson, model):
    tokens, _ = lesson["notes"](3, generator(), pairs=3)
    expected = references.removal_effects(lambda tokens, mask: model(tokens, mask).logits, tokens)
    torch.testing.assert_close(lesson["removal_effects"](model, tokens), expected)
    assert expected.tril(-1).any() and not expected.triu().any()


def test_without_start_shares_out_what_the_start_mark_had(lesson):
    weights = masked_softmax(torch.randn(2, 3, 5, 5, generator=generator()), causal_mask(5))
    kept = lesson["without_start"](weights)
    assert not kept[..., 1:, 0].any() and torch.equal(kept[..., 0, :], weights[..., 0, :])
    torch.testing.assert_close(kept.sum(dim=-1), torch.ones(2, 3, 5))
    torch.testing.assert_close(kept[..., 4, 1] / kept[..., 4, 2], weights[..., 4, 1] / weights[..., 4, 2])


# --- rollout ----------------------------------------------------------------------------------------------


def test_rollout_is_the_loop_and_what_the_exercise_asks_for(lesson):
    maps = rows(3, 2, 4, 5, 5)
    flow = lesson["rollout"](maps)
    torch.testing.assert_close(flow, references.rollout(maps))
    looped = torch.tensor([lesson["rollout_loop"](maps[:, b].mean(dim=1).tolist()) for b in range(2)])
    torch.testing.assert_close(flow, looped)


# --- other weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_lower_keeps_output_sum_and_signs(lesson, seed):
    w = torch.randn(12, generator=generator(seed)).softmax(dim=-1)
    V = torch.randn(12, 4, generator=generator(seed + 10))
    for key in (0, 7):
        other = lesson["lower"](w, V, key)
        assert other.min() >= 0 and other[key] < w[key] - 1e-4
        assert other.sum().item() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(other @ V.double(), w.double() @ V.double(), rtol=0, atol=1e-6)


def test_lower_finds_that_nothing_can_move(lesson):
    w = torch.randn(5, generator=generator()).softmax(dim=-1)
    V = torch.randn(5, 4, generator=generator(1))  # five conditions on five weights
    torch.testing.assert_close(lesson["lower"](w, V, 2).float(), w)
    torch.testing.assert_close(lesson["farthest"](w, V).float(), w)


def test_lower_goes_all_the_way_where_a_twin_takes_over(lesson):
    V = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0]])
    other = lesson["lower"](torch.tensor([0.5, 0.2, 0.3]), V, 0)
    torch.testing.assert_close(other, torch.tensor([0.0, 0.7, 0.3], dtype=torch.float64))
