"""What lesson 5 defines in its own cells is what the library holds."""

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

from attnlab import contracts, multihead
from attnlab.attention import causal_mask, scaled_dot_product_attention

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/05_multi_head.py"
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {
        "torch": torch,
        "nn": nn,
        "causal_mask": causal_mask,
        "scaled_dot_product_attention": scaled_dot_product_attention,
    }
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def copied(lesson, dtype, d_model=12, num_heads=3):
    """The lesson's module, and the library's with the same weights."""
    torch.manual_seed(0)
    taught = lesson["MultiHeadAttention"](d_model, num_heads).to(dtype)
    held = multihead.MultiHeadAttention(d_model, num_heads, bias=False).to(dtype)
    held.load_state_dict(taught.state_dict())
    return taught, held


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_splitting_and_merging_are_those_of_the_library(lesson, num_heads):
    x = draw(2, 5, 12)
    heads = lesson["split_heads"](x, num_heads)
    assert torch.equal(heads, multihead.split_heads(x, num_heads))
    assert torch.equal(lesson["merge_heads"](heads), multihead.merge_heads(heads))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_module_is_the_one_of_the_library(lesson, dtype):
    taught, held = copied(lesson, dtype)
    query, key, value = (draw(2, n, 12, seed=n, dtype=dtype) for n in (4, 7, 7))
    mask = torch.rand(4, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[2] = False
    expected = held(query, key, value, mask)
    output, weights = taught(query, key, value, mask)
    torch.testing.assert_close(output, expected.output, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(weights, expected.weights, rtol=0, atol=TOLERANCE[dtype])


def test_the_loop_over_heads_gives_the_same(lesson):
    taught, held = copied(lesson, torch.float64)
    x = draw(2, 5, 12)
    torch.testing.assert_close(lesson["by_loop"](taught, x), held(x).output, rtol=0, atol=1e-12)


def test_torch_is_given_the_same_weights(lesson):
    taught, held = copied(lesson, torch.float64)
    theirs = lesson["copy_to_torch"](taught)
    query, key = draw(2, 4, 12), draw(2, 7, 12, seed=1)
    expected = theirs(query, key, key, average_attn_weights=False)[1]
    torch.testing.assert_close(held(query, key).weights, expected, rtol=0, atol=1e-12)


def test_the_wrong_split_is_wrong_as_the_lesson_says(lesson):
    torch.manual_seed(0)
    wrong = lesson["WrongSplit"](12, 3).double()
    x = draw(2, 6, 12)
    with pytest.raises(AssertionError, match="shuffling"):
        contracts.permutation_equivariant(lambda x: wrong(x, x, x)[0], x)
    contracts.causal(lambda x: wrong(x, x, x, causal_mask(6))[0], x)  # the lesson says so, too
    changed = x.clone()
    changed[:, :2] += 1.0  # the first of three heads holds the first two tokens, and no other sees them
    torch.testing.assert_close(wrong(x, x, x)[0][:, 2:], wrong(changed, changed, changed)[0][:, 2:])


def test_the_number_of_heads_must_divide_the_width(lesson):
    with pytest.raises(ValueError, match="divisor of 10, got 4"):
        lesson["MultiHeadAttention"](10, 4)
