"""Linear attention against its quadratic definition."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab import contracts
from attnlab.attention import scaled_dot_product_attention
from attnlab.efficient import causal_linear_attention, elu_features, linear_attention
from benchmarks.memory import counted_peak

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}
LENGTHS = st.integers(1, 7)
WIDTHS = st.integers(1, 6)
LEADING = st.sampled_from([((), (), ()), ((2, 3),) * 3, ((2, 3), (1, 3), (3,)), ((2,), (), (3, 2))])
few_examples = settings(max_examples=15, deadline=None, derandomize=True)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw_inputs(leading, num_queries, num_keys, d_k, d_v, *, seed=0, dtype=torch.float64):
    return (
        draw(*leading[0], num_queries, d_k, seed=seed, dtype=dtype),
        draw(*leading[1], num_keys, d_k, seed=seed + 1, dtype=dtype),
        draw(*leading[2], num_keys, d_v, seed=seed + 2, dtype=dtype),
    )


def quadratic(query, key, value, causal):
    """The definition: every weight by itself, divided by the sum of its row."""
    weights = (F.elu(query) + 1) @ (F.elu(key) + 1).transpose(-2, -1)  # (..., T, S)
    if causal:
        weights = weights.tril()
    return (weights / weights.sum(dim=-1, keepdim=True)) @ value


def output_and_gradients(function, inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    weighted = (output * draw(*output.shape, seed=9, dtype=output.dtype)).sum()
    return [output.detach(), *torch.autograd.grad(weighted, leaves)]


def assert_equal_to_definition(function, inputs, causal):
    received = output_and_gradients(function, inputs)
    expected = output_and_gradients(lambda q, k, v: quadratic(q, k, v, causal), inputs)
    for mine, reference in zip(received, expected, strict=True):
        assert mine.shape == reference.shape and mine.dtype == reference.dtype
        torch.testing.assert_close(mine, reference, rtol=0, atol=TOLERANCE[mine.dtype])


def test_errors_name_the_argument():
    x = draw(2, 4, 3)
    with pytest.raises(ValueError, match=r"^key: expected one row .*T = 4 .*got 5"):
        causal_linear_attention(x, draw(2, 5, 3), draw(2, 5, 3))
    with pytest.raises(ValueError, match="^chunk: .*0"):
        causal_linear_attention(x, x, x, chunk=0)
    with pytest.raises(ValueError, match="^key: .*d_k = 3, got 2"):
        linear_attention(x, x[..., :2], x)
    with pytest.raises(ValueError, match="^value: .*S = 4"):
        causal_linear_attention(x, x, x[:, :3])
    with pytest.raises(TypeError, match="^value: .*float64.*float32"):
        linear_attention(x, x, x.float())


@both_types
@few_examples
@given(leading=LEADING, num_queries=LENGTHS, num_keys=LENGTHS, d_k=WIDTHS, d_v=WIDTHS, seed=LENGTHS)
def test_equals_its_quadratic_definition(dtype, leading, num_queries, num_keys, d_k, d_v, seed):
    inputs = draw_inputs(leading, num_queries, num_keys, d_k, d_v, seed=seed, dtype=dtype)
    assert_equal_to_definition(linear_attention, inputs, causal=False)


@both_types
@few_examples
@given(leading=LEADING, length=LENGTHS, d_k=WIDTHS, d_v=WIDTHS, chunk=st.integers(1, 9), seed=LENGTHS)
def test_causal_equals_its_quadratic_definition(dtype, leading, length, d_k, d_v, chunk, seed):
    inputs = draw_inputs(leading, length, length, d_k, d_v, seed=seed, dtype=dtype)
    assert_equal_to_definition(
        lambda q, k, v: causal_linear_attention(q, k, v, chunk=chunk), inputs, causal=True
    )


def test_every_size_different():
    assert_equal_to_definition(linear_attention, draw_inputs(((2, 3),) * 3, 7, 9, 4, 5), causal=False)
    for chunk in (1, 3, 64):
        assert_equal_to_definition(
            lambda q, k, v, chunk=chunk: causal_linear_attention(q, k, v, chunk=chunk),
            draw_inputs(((2, 3),) * 3, 7, 7, 4, 5),
            causal=True,
        )
    assert_equal_to_definition(causal_linear_attention, draw_inputs(((),) * 3, 150, 150, 4, 5), causal=True)


def test_weights_worked_out_by_hand():
    # Features 1 + 1 = 2 and e ** 0 = 1: weights 2 and 1, whatever the query.
    key, value = torch.tensor([[1.0], [0.0]]), torch.tensor([[3.0], [9.0]])
    assert linear_attention(torch.tensor([[5.0]]), key, value).item() == pytest.approx(5.0)
    assert causal_linear_attention(key, key, value).flatten().tolist() == pytest.approx([3.0, 5.0])


def test_it_is_another_function_than_softmax_attention():
    inputs = draw_inputs(((),) * 3, 5, 6, 4, 3)
    softmax = scaled_dot_product_attention(*inputs).output
    assert (linear_attention(*inputs) - softmax).abs().max() > 0.1


def test_features_are_elu_and_one():
    x = torch.linspace(-5, 5, 101, dtype=torch.float64)
    torch.testing.assert_close(elu_features(x), F.elu(x) + 1, rtol=0, atol=1e-14)
    at = torch.tensor([-1000.0, -30.0, 0.0, 2.0, 1000.0], requires_grad=True)
    features = elu_features(at)
    assert features.tolist() == pytest.approx([0.0, math.exp(-30), 1.0, 3.0, 1001.0], rel=1e-6)
    (slope,) = torch.autograd.grad(features.sum(), at)
    assert slope.tolist() == pytest.approx([0.0, math.exp(-30), 1.0, 1.0, 1.0], rel=1e-6)


@pytest.mark.parametrize("name", ["full", "causal"])
def test_weights_too_small_for_the_type_give_zeros_with_finite_gradients(name):
    functions = {"full": linear_attention, "causal": causal_linear_attention}
    inputs = draw_inputs(((2,),) * 3, 4, 4, 3, 2, dtype=torch.float32)
    inputs[0][:, 1] = -1000.0
    output, *gradients = output_and_gradients(lambda *x: functions[name](*x), inputs)
    assert (output[:, 1] == 0).all() and (output[:, [0, 2, 3]] != 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_small_feature_still_counts():
    # e ** -30 on both sides: the weights are equal, and the mean is the middle.
    low, value = torch.full((2, 3), -30.0), torch.tensor([[1.0], [2.0]])
    assert linear_attention(low, low, value).flatten().tolist() == pytest.approx([1.5, 1.5])
    assert causal_linear_attention(low, low, value).flatten().tolist() == pytest.approx([1.0, 1.5])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    inputs = draw_inputs(((2,),) * 3, 300, 300, 4, 3, dtype=dtype)
    wide = [tensor.float() for tensor in inputs]
    assert torch.equal(linear_attention(*inputs), linear_attention(*wide).to(dtype))
    assert torch.equal(causal_linear_attention(*inputs), causal_linear_attention(*wide).to(dtype))


def test_causal_output_does_not_know_the_future():
    x = draw(2, 6, 4)
    contracts.causal(lambda x: causal_linear_attention(x, x, x, chunk=4), x)
    contracts.causal(lambda x: causal_linear_attention(x, x, x, chunk=1), x)


def test_a_later_token_does_not_even_change_a_rounding():
    query, key, value = draw_inputs(((),) * 3, 9, 9, 4, 3, dtype=torch.float32)
    before = causal_linear_attention(query, key, value, chunk=3)
    value[5] *= 1e6
    after = causal_linear_attention(query, key, value, chunk=3)
    assert torch.equal(after[:5], before[:5]) and not torch.equal(after[5:], before[5:])


def test_empty_sequences():
    x = torch.zeros(2, 0, 3)
    assert linear_attention(x, x, x).shape == causal_linear_attention(x, x, x).shape == (2, 0, 3)
    assert torch.equal(linear_attention(torch.ones(2, 4, 3), x, x), torch.zeros(2, 4, 3))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["full", "causal"])
def test_memory_is_linear_in_the_length(name, backward):
    functions = {"full": linear_attention, "causal": lambda *x: causal_linear_attention(*x, chunk=16)}

    def peak(length):
        leaves = [tensor.requires_grad_() for tensor in draw_inputs(((),) * 3, length, length, 8, 8)]

        def call():
            with torch.set_grad_enabled(backward):
                output = functions[name](*leaves)
                return torch.autograd.grad(output.sum(), leaves) if backward else output

        return counted_peak(call)

    short, long = peak(512), peak(1024)
    assert long <= 2.1 * short
    assert long < 1024 * 1024 * 8 / 4  # a quarter of what one matrix of weights takes
