"""What lesson 13 defines in its own cells is what the library holds, and what PyTorch computes."""

import ast
import builtins
import math
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import efficient, tasks
from attnlab.memory import MIB, counted_peak, resident_growth

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/13_long_sequences.py"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
WIDTH = 5


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {
        "math": math,
        "time": time,
        "torch": torch,
        "nn": nn,
        "F": F,
        "D": WIDTH,
        "counted_peak": counted_peak,
        "resident_growth": resident_growth,
        "generator": torch.Generator().manual_seed(0),
    }
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def qkv(T, S, *leading, dtype=torch.float64, d_v=3):
    shapes = [(T, WIDTH), (S, WIDTH), (S, d_v)]
    return [draw(*leading, *shape, dtype=dtype, seed=number) for number, shape in enumerate(shapes)]


def close(received, expected, factor=1):
    torch.testing.assert_close(received, expected, rtol=0, atol=factor * TOLERANCE[expected.dtype])


def output_and_gradients(attend, tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = attend(*leaves)
    probe = draw(*output.shape, dtype=output.dtype, seed=9)
    return [output.detach(), *torch.autograd.grad((output * probe).sum(), leaves)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_explicit_and_fused_are_torchs_function(lesson, dtype, leading):
    tensors = qkv(4, 7, *leading, dtype=dtype)
    close(lesson["explicit"](*tensors), F.scaled_dot_product_attention(*tensors))
    close(lesson["fused"](*tensors), F.scaled_dot_product_attention(*tensors))


def test_the_sum_of_one_row_in_tiles_is_that_of_the_whole_row(lesson):
    tiles = [(1.0, -3.0), (5.0,), (2.0, 800.0, 799.0), (-800.0,)]
    m, ell = lesson["online_sum"](tiles)
    whole = [score for tile in tiles for score in tile]
    assert m == 800.0
    assert ell == pytest.approx(sum(math.exp(score - 800.0) for score in whole), abs=1e-12)
    assert lesson["online_sum"]([]) == (-math.inf, 0.0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("c_q", "c_k"), [(1, 1), (2, 3), (3, 2), (9, 9)])
@pytest.mark.parametrize("leading", [(), (2, 3)])
def test_the_forward_pass_is_the_library_function(lesson, dtype, c_q, c_k, leading):
    tensors = qkv(7, 8, *leading, dtype=dtype)
    output, m, ell = lesson["chunked_forward"](*tensors, c_q=c_q, c_k=c_k)
    close(output, efficient.chunked_attention(*tensors))
    scores = lesson["scaled_scores"](*tensors[:2])
    close(m, scores.amax(dim=-1, keepdim=True))
    close(ell, (scores - m).exp().sum(dim=-1, keepdim=True))


def test_large_scores_neither_overflow_nor_vanish(lesson):
    query, key, value = qkv(4, 6)
    query = 500 * query
    for c_k in (1, 2, 6):
        output = lesson["chunked_forward"](query, key, value, c_q=2, c_k=c_k)[0]
        close(output, F.scaled_dot_product_attention(query, key, value))


@pytest.mark.parametrize(("c_q", "c_k"), [(1, 1), (2, 3), (3, 2), (9, 9)])
def test_the_backward_pass_is_that_of_autograd(lesson, c_q, c_k):
    tensors = qkv(7, 8, 2)
    output, m, ell = lesson["chunked_forward"](*tensors, c_q=c_q, c_k=c_k)
    probe = draw(*output.shape, seed=9)
    received = lesson["chunked_backward"](probe, *tensors, output, m, ell, c_q=c_q, c_k=c_k)
    expected = output_and_gradients(F.scaled_dot_product_attention, tensors)[1:]
    for mine, reference in zip(received, expected, strict=True):
        close(mine, reference)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_differentiable_function_is_the_librarys(lesson, dtype):
    tensors = qkv(300, 530, dtype=dtype)  # more than one tile each way
    received = output_and_gradients(lesson["chunked"], tensors)
    expected = output_and_gradients(efficient.chunked_attention, tensors)
    for mine, reference in zip(received, expected, strict=True):
        close(mine, reference, factor=2)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("window", [1, 2, 5, 20])
@pytest.mark.parametrize("c", [1, 4, 30])
def test_the_window_is_the_library_function(lesson, dtype, window, c):
    tensors = qkv(11, 11, 2, dtype=dtype)
    received = output_and_gradients(lambda *x: lesson["windowed"](*x, window=window, c=c), tensors)
    expected = output_and_gradients(lambda *x: efficient.sliding_window_attention(*x, window=window), tensors)
    for mine, reference in zip(received, expected, strict=True):
        close(mine, reference)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_linear_attention_is_the_library_function(lesson, dtype):
    tensors = qkv(4, 7, 2, 3, dtype=dtype)
    close(lesson["phi"](tensors[0]), efficient.elu_features(tensors[0]))
    received = output_and_gradients(lesson["linear"], tensors)
    expected = output_and_gradients(efficient.linear_attention, tensors)
    for mine, reference in zip(received, expected, strict=True):
        close(mine, reference, factor=2)


def test_token_by_token_is_the_causal_library_function(lesson):
    tensors = qkv(9, 9, dtype=torch.float32, d_v=WIDTH)
    close(lesson["linear_by_token"](*tensors), efficient.causal_linear_attention(*tensors))


def test_the_scores_of_the_window_are_counted(lesson):
    # Tiles of 3 queries, window 2: the tiles hold 3*3, 3*4, 3*4 and 1*2 scores.
    assert lesson["tile_keys"](10, window=2, c=3) == 9 + 12 + 12 + 2


def test_the_first_length_below(lesson):
    assert lesson["first_below"](lambda T: 5 * T, lambda T: T * T) == 6


def test_what_is_measured_is_each_length_and_what_it_takes(lesson):
    found = lesson["measure"](lesson["explicit"], [8, 32, 16], D=4)
    assert {T: counted for T, (counted, _grown, _seconds) in found.items()} == {
        T: 8 * T**2 + 4 * T * 4 for T in (8, 16, 32)
    }
    assert [grown for _counted, grown, _seconds in found.values()][1:] == [None, None]
    assert all(seconds >= 0 for _counted, _grown, seconds in found.values())


def test_the_error_is_a_share_of_the_largest_value(lesson):
    output, wanted, values = torch.tensor([1.0, -3.0]), torch.tensor([2.0, -3.5]), torch.tensor([3.0, -8.0])
    assert lesson["error"](output, wanted, values) == pytest.approx(0.125)


def test_the_memory_of_training(lesson):
    tensors = qkv(1024, 1024, dtype=torch.float32)
    taken = {
        name: lesson["bytes_of"](lesson["gradients"], attend, tensors, 1.0) / MIB
        for name, attend in {
            "explicit": lesson["explicit"],
            "loop": lambda *x: lesson["chunked_forward"](*x)[0],
            "chunked": lesson["chunked"],
        }.items()
    }
    assert taken["chunked"] < taken["explicit"] / 4 and taken["loop"] > taken["explicit"] / 2


def test_the_lookup_model_asks_by_name_and_answers_by_content(lesson):
    torch.manual_seed(0)
    model = lesson["Lookup"](lesson["explicit"], 3, d_model=6, num_symbols=9)
    (keys, values, queries), _ = tasks.pair_lookup(4, 5, torch.Generator().manual_seed(0), num_symbols=9)
    query, key = model.w_q(model.name(queries))[:, None], model.w_k(model.name(keys))
    found = F.scaled_dot_product_attention(query, key, model.content(values))[:, 0]
    close(model(keys, values, queries), model.readout(found))


def test_what_a_process_is_sent_is_complete():
    """The functions that the lesson sends to another process use nothing that is not sent with them."""
    text = MANUSCRIPT.read_text(encoding="utf-8")
    tree = ast.parse(text)
    sent = next(
        [element.id for element in node.value.elts]
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "needed"
    )
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert set(sent) <= set(functions)
    known = {"math", "time", "torch", "F", "counted_peak", "resident_growth", *sent, *dir(builtins)}
    for name in sent:
        node = functions[name]
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        own |= {
            part.id
            for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        own |= {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef)}
        assert used <= known | own, name
