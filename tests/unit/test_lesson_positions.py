"""What lesson 6 defines in its own cells is what the library holds."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import contracts, positions
from attnlab.attention import causal_mask
from attnlab.multihead import MultiHeadAttention

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/06_positions.py"


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {"math": math, "torch": torch, "nn": nn, "F": F, "causal_mask": causal_mask}
    names |= {"MultiHeadAttention": MultiHeadAttention, "generator": torch.Generator().manual_seed(0)}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("length", "d_model"), [(1, 1), (5, 8), (7, 3), (3, 33)])
def test_the_sinusoids_are_those_of_the_library(lesson, length, d_model):
    taught = lesson["sinusoidal_positions"](length, d_model)
    assert torch.equal(taught, positions.sinusoidal_positions(length, d_model))


@pytest.mark.parametrize("offset", [0, 5, 1000])
def test_both_rotations_are_those_of_the_library(lesson, offset):
    heads = draw(2, 3, 6, 16)
    pairs = [
        ("rotate_interleaved", positions.InterleavedRotary),
        ("rotate_half_split", positions.HalfSplitRotary),
    ]
    for name, held in pairs:
        expected = held(16, offset + 6)(heads, offset)
        torch.testing.assert_close(lesson[name](heads, offset), expected, rtol=0, atol=1e-6)
        contracts.rotary_shift_invariant(lesson[name], heads[0, 0], heads[1, 1])


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_the_bias_is_that_of_the_library(lesson, num_heads):
    taught = lesson["alibi_bias"](num_heads, 6)
    torch.testing.assert_close(taught, positions.alibi_bias(num_heads, 6), rtol=0, atol=1e-6)


def test_the_jobs_ask_for_what_the_lesson_says(lesson):
    (tokens, mask), targets = next(lesson["three_back"](length=9, batch_size=4))
    assert torch.equal(targets[:, 3:], tokens[:, :-3]) and bool((targets[:, :3] == -100).all())
    assert torch.equal(mask, causal_mask(9))
    (tokens, _), targets = next(lesson["latest"](length=30, batch_size=4))
    for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        seen = 0
        for token, target in zip(row, wanted, strict=True):
            seen = token or seen
            assert target == seen


@pytest.mark.parametrize("kind", ["none", "learned", "sinusoidal", "rotary", "ALiBi"])
def test_every_model_is_causal_and_knows_places_where_it_should(lesson, kind):
    torch.manual_seed(0)
    model = lesson["OneAttention"](kind, longest=12)
    tokens = torch.randint(16, (2, 6), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[:, 4:] = (tokens[:, 4:] + 1) % 16
    before, after = model(tokens, causal_mask(6)), model(changed, causal_mask(6))
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=0, atol=1e-5)
    order = [2, 0, 1, 5, 3, 4]
    shuffled = model(tokens[:, order])
    same = bool((shuffled - model(tokens)[:, order]).abs().max() < 1e-4)
    assert same == (kind == "none")
