"""What lesson 2 defines in its own cells is what the library holds, and what its formulas say."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import recurrent, tasks

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/02_soft_lookup.py"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
SIZES = (11, 13, 6, 5)  # source and target tokens, width of an embedding, width of a state
MARKS = {"PAD", "BOS", "EOS", "NUM_TOKENS"}


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and its marks: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) or _marks(node)
    ]
    names = {"torch": torch, "nn": nn, "F": F, "recurrent": recurrent, "tasks": tasks}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def _marks(node):
    names = ast.walk(node.targets[0]) if isinstance(node, ast.Assign) else ()
    return any(isinstance(name, ast.Name) and name.id in MARKS for name in names)


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def pair(lesson, dtype):
    """The lesson's model and the library's, with the same parameters."""
    torch.manual_seed(0)
    ours = lesson["WithAttention"](*SIZES).to(dtype)
    theirs = recurrent.AttentiveGRUEncoderDecoder(*SIZES).to(dtype)
    theirs.load_state_dict(ours.state_dict())  # the same names and shapes, or this raises
    return ours, theirs


def tokens(*shape, seed=0):
    return torch.randint(3, 11, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_attention_is_the_additive_attention_of_the_library(lesson, dtype):
    torch.manual_seed(0)
    ours = lesson["AdditiveAttention"](3, 4, 5).to(dtype)
    theirs = recurrent.AdditiveAttention(3, 4, 5).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    query, key, value = (draw(2, n, d, dtype=dtype, seed=n) for n, d in ((3, 3), (7, 4), (7, 6)))
    output, weights = ours(query, key, value)
    expected = theirs(query, key, value)
    torch.testing.assert_close(output, expected.output, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(weights, expected.weights, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_attentive_model_is_the_one_of_the_library_in_values_and_gradients(lesson, dtype):
    ours, theirs = pair(lesson, dtype)
    source, before = tokens(2, 7), tokens(2, 4, seed=1)
    probe = draw(2, 4, SIZES[1], dtype=dtype, seed=2)
    results = [model.decode(before, model.encode(source)) for model in (ours, theirs)]
    for received, expected in zip(*results, strict=True):  # logits, state, weights
        torch.testing.assert_close(received, expected, rtol=0, atol=TOLERANCE[dtype])
    gradients = [
        torch.autograd.grad((result.logits * probe).sum(), list(model.parameters()))
        for result, model in zip(results, (ours, theirs), strict=True)
    ]
    names = [name for name, _ in ours.named_parameters()]
    reference = dict(zip([name for name, _ in theirs.named_parameters()], gradients[1], strict=True))
    for name, gradient in zip(names, gradients[0], strict=True):
        torch.testing.assert_close(gradient, reference[name], rtol=0, atol=10 * TOLERANCE[dtype])


def test_the_attentive_model_goes_on_from_a_state_as_the_library_does(lesson):
    ours, theirs = pair(lesson, torch.float64)
    source, before, state = tokens(2, 7), tokens(2, 3, seed=1), draw(2, 5, seed=4)
    received, expected = (model.decode(before, model.encode(source), state) for model in (ours, theirs))
    torch.testing.assert_close(received.logits, expected.logits, rtol=0, atol=1e-12)
    written = [recurrent.greedy_decode(model, source, max_length=9) for model in (ours, theirs)]
    assert torch.equal(*written)


def test_loop_and_matrices_are_a_softmax_of_squared_distances(lesson):
    queries, keys, values = draw(3, 4), draw(5, 4, seed=1), draw(5, 2, seed=2)
    weights = (-(torch.cdist(queries, keys) ** 2) / (2 * 0.7)).softmax(dim=-1)
    output, received = lesson["kernel_lookup"](queries, keys, values, 0.7)
    torch.testing.assert_close(received, weights)
    torch.testing.assert_close(output, weights @ values)
    torch.testing.assert_close(lesson["lookup_loop"](queries, keys, values, 0.7), weights @ values)


def test_the_dot_lookup_is_torchs_attention_with_its_own_scale(lesson):
    queries, keys, values = draw(3, 4), draw(5, 4, seed=1), draw(5, 2, seed=2)
    expected = F.scaled_dot_product_attention(queries[None], keys[None], values[None], scale=1 / 0.7)[0]
    torch.testing.assert_close(lesson["dot_lookup"](queries, keys, values, 0.7)[0], expected)


@pytest.mark.parametrize("length", [1, 5])
def test_the_batches_are_reversed_rows_shifted_by_one(lesson, length):
    (source, before), target = lesson["reversal"](4, length, torch.Generator().manual_seed(0))
    assert torch.equal(target[:, :-1], source.flip(1))
    assert target[:, -1].eq(2).all()
    assert torch.equal(before[:, 1:], target[:, :-1])
    assert before[:, 0].eq(1).all()
    assert source.min() >= 3
    assert source.max() < lesson["NUM_TOKENS"]


def test_the_compass_points_where_it_says(lesson):
    expected = torch.tensor([[0.0, 1.0], [1.0, 0.0], [math.sqrt(0.5), -math.sqrt(0.5)]])
    torch.testing.assert_close(lesson["compass"]([0.0, 90.0, 135.0]), expected, rtol=0, atol=1e-6)
