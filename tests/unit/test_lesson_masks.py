"""What lesson 4 defines in its own cells is what the library holds."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import attention as library
from attnlab import contracts

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/04_masks.py"


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {"math": math, "torch": torch, "nn": nn, "F": F, "SelfAttention": library.SelfAttention}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 1), (4, 4), (2, 5), (5, 2), (0, 3)])
def test_the_causal_mask_is_the_one_of_the_library(lesson, num_queries, num_keys):
    expected = library.causal_mask(num_queries, num_keys)
    assert torch.equal(lesson["causal_mask"](num_queries, num_keys), expected)


@pytest.mark.parametrize("lengths", [[5, 2, 3], [0], [5, 5], torch.tensor([1, 4])])
def test_the_padding_mask_is_the_one_of_the_library(lesson, lengths):
    assert torch.equal(lesson["padding_mask"](lengths, 5), library.padding_mask(lengths, 5))


def test_the_attention_is_the_one_of_the_library_also_in_a_row_without_keys(lesson):
    query, key, value = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 5, 6, seed=2)
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(3)) < 0.5
    mask[1, 2] = False
    expected = library.scaled_dot_product_attention(query, key, value, mask)
    output, weights = lesson["attention"](query, key, value, mask)
    torch.testing.assert_close(output, expected.output, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights, expected.weights, rtol=0, atol=1e-12)
    contracts.masked_rows_zero(lambda *inputs: lesson["attention"](*inputs)[0], query, key, value)


def test_the_first_attention_agrees_where_every_row_has_a_key_and_fails_where_the_lesson_says(lesson):
    query, key, value = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 5, 6, seed=2)
    mask = library.causal_mask(3, 5)
    expected = library.scaled_dot_product_attention(query, key, value, mask).output
    torch.testing.assert_close(lesson["masked_attention"](query, key, value, mask)[0], expected)
    with pytest.raises(AssertionError, match="NaN"):
        contracts.masked_rows_zero(lambda *inputs: lesson["masked_attention"](*inputs)[0], query, key, value)
