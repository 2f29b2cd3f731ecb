"""What lesson 3 defines in its own cells is what the library holds, and what PyTorch computes."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import attention as library

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/03_query_key_value.py"
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
WIDTHS = {"d_model": 6, "d_k": 4, "d_v": 3}


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {"math": math, "torch": torch, "nn": nn, "F": F}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, dtype, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(dtype, *leading):
    shapes = [(5, 16), (7, 16), (7, 3)]
    return [draw(*leading, *shape, dtype=dtype, seed=number) for number, shape in enumerate(shapes)]


def close(received, expected):
    torch.testing.assert_close(received, expected, rtol=0, atol=TOLERANCE[expected.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_loop_is_the_library_function(lesson, dtype):
    Q, K, V = inputs(dtype)
    close(lesson["attention_loop"](Q, K, V), library.scaled_dot_product_attention(Q, K, V).output)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_the_matrices_are_the_library_function_and_torch(lesson, dtype, leading):
    Q, K, V = inputs(dtype, *leading)
    output, weights = lesson["attention"](Q, K, V)
    expected = library.scaled_dot_product_attention(Q, K, V)
    close(output, expected.output)
    close(weights, expected.weights)
    close(output, F.scaled_dot_product_attention(Q, K, V))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_module_is_the_library_module(lesson, dtype):
    torch.manual_seed(0)
    ours, theirs = lesson["SelfAttention"](**WIDTHS).to(dtype), library.SelfAttention(**WIDTHS).to(dtype)
    theirs.load_state_dict(ours.state_dict())  # the same names and shapes, or this raises
    x = draw(2, 5, 6, dtype=dtype, seed=9)
    output, weights = ours(x)
    expected = theirs(x)
    close(output, expected.output)
    close(weights, expected.weights)
    close(output, F.scaled_dot_product_attention(*(x @ w.T for w in ours.parameters())))
    probe = draw(2, 5, 3, dtype=dtype, seed=10)
    mine = torch.autograd.grad((output * probe).sum(), list(ours.parameters()))
    reference = torch.autograd.grad((expected.output * probe).sum(), list(theirs.parameters()))
    for gradient, other in zip(mine, reference, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=10 * TOLERANCE[dtype])


def test_the_measures_of_saturation(lesson):
    even, settled = torch.zeros(10, 8), 1000.0 * torch.eye(8)
    assert lesson["entropy_share"](even) == pytest.approx(1.0)
    assert lesson["entropy_share"](settled) == pytest.approx(0.0, abs=1e-6)
    lesson["generator"] = torch.Generator().manual_seed(0)
    assert lesson["softmax_gradient"](settled) == pytest.approx(0.0, abs=1e-6)
    assert lesson["softmax_gradient"](even) > 0.1


def test_the_lookup_model_scales_what_it_says(lesson):
    torch.manual_seed(0)
    model = lesson["Lookup"](16, 0.25)
    keys, values, queries = torch.tensor([[0, 1, 2]]), torch.tensor([[5, 6, 7]]), torch.tensor([1])
    pairs = model.name(keys) + model.content(values)
    query, key, value = model.w_q(model.name(queries))[:, None], model.w_k(pairs), model.w_v(pairs)
    found = library.scaled_dot_product_attention(query, key, value).output[:, 0]
    torch.testing.assert_close(
        model(keys, values, queries), model.readout(model.w_o(found)), rtol=0, atol=1e-5
    )
