"""Chunked and sliding-window attention against the explicit one, in value, gradient and memory."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnlab import contracts
from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.efficient import chunked_attention, sliding_window_attention, sliding_window_mask
from benchmarks.memory import counted_peak

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
EVERY_TYPE = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LENGTHS = st.integers(1, 7)
CHUNKS = st.integers(1, 8)
LEADING = st.sampled_from(
    [((), (), ()), ((2, 3),) * 3, ((2, 3), (1, 3), (3,)), ((), (4,), (4,)), ((2,), (), (3, 2))]
)
few_examples = settings(max_examples=25, deadline=None, derandomize=True)
quick_examples = settings(max_examples=4, deadline=None, derandomize=True)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw_inputs(leading, num_queries, num_keys, d_k, d_v, *, seed=0, dtype=torch.float64):
    """Query, key and value that all differ, each with its own leading axes."""
    return (
        draw(*leading[0], num_queries, d_k, seed=seed, dtype=dtype),
        draw(*leading[1], num_keys, d_k, seed=seed + 1, dtype=dtype),
        draw(*leading[2], num_keys, d_v, seed=seed + 2, dtype=dtype),
    )


def draw_mask(*shape, seed=0):
    """A random mask; some rows allow nothing."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.4


def output_and_gradients(function, inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    weighted = (output * draw(*output.shape, seed=9, dtype=output.dtype)).sum()
    return [output.detach(), *torch.autograd.grad(weighted, leaves)]


def assert_equal_to_explicit(function, inputs, mask, *, sizes=(1.0, 1.0, 1.0, 1.0)):
    """The output and the three gradients agree; ``sizes`` says what their rounding is measured against."""
    received = output_and_gradients(function, inputs)
    expected = output_and_gradients(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask).output, inputs
    )
    for mine, reference, size in zip(received, expected, sizes, strict=True):
        assert mine.shape == reference.shape and mine.dtype == reference.dtype
        torch.testing.assert_close(mine, reference, rtol=0, atol=size * TOLERANCE[mine.dtype])


def test_weights_worked_out_by_hand():
    # Scores ln 3 and 0 after the division by sqrt(4), one key in each tile: weights 3/4 and 1/4.
    query = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    key = torch.tensor([[math.log(3.0), 5.0, 0.0, 0.0], [0.0, 0.0, 7.0, 0.0]])
    value = torch.tensor([[4.0], [8.0]])
    torch.testing.assert_close(chunked_attention(query, key, value, key_chunk=1), torch.tensor([[5.0]]))


X = draw(2, 4, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((X, X[..., :2], X), {}, ValueError, "key: .*d_k = 3, got 2"),
        ((X, X, X[:, :3]), {}, ValueError, "value: .*S = 4"),
        ((X[0, 0], X, X), {}, ValueError, "query: .*two axes"),
        ((X[0, 0], X, X), {"causal": True}, ValueError, "query: .*two axes"),
        ((X, X, X.float()), {}, TypeError, "value: .*float64.*float32"),
        ((X, X, X, torch.zeros(4, 4)), {}, TypeError, "mask: .*boolean"),
        ((X, X, X, causal_mask(4, 5)), {}, ValueError, r"mask: .*\(2, 4, 4\).*\(4, 5\)"),
        ((X, X, X), {"query_chunk": 0}, ValueError, "query_chunk: expected at least 1, got 0"),
        ((X, X, X), {"key_chunk": 0}, ValueError, "key_chunk: expected at least 1, got 0"),
    ],
)
def test_errors_name_the_argument(arguments, options, error, words):
    with pytest.raises(error, match=f"^{words}"):
        chunked_attention(*arguments, **options)


def test_errors_of_a_window_name_the_argument():
    with pytest.raises(ValueError, match="^window: expected at least 1, got 0"):
        sliding_window_attention(X, X, X, 0)
    with pytest.raises(ValueError, match="^query_chunk: .*-1"):
        sliding_window_attention(X, X, X, 2, query_chunk=-1)
    with pytest.raises(ValueError, match="^key_chunk: .*-1"):
        sliding_window_attention(X, X, X, 2, key_chunk=-1)
    with pytest.raises(ValueError, match="^key: .*d_k = 3, got 2"):
        sliding_window_attention(X, X[..., :2], X, 2)


@both_types
def test_several_tiles_with_every_size_different(dtype):
    # 7 = 3 + 3 + 1 queries, 9 = 4 + 4 + 1 keys; the mask differs in each sequence and head.
    inputs = draw_inputs(((2, 3),) * 3, 7, 9, 5, 6, dtype=dtype)
    mask = draw_mask(2, 3, 7, 9)
    mask[0, 1, 2] = False
    for causal, allowed in ((False, mask), (True, mask & causal_mask(7, 9))):
        assert_equal_to_explicit(
            lambda q, k, v, causal=causal: chunked_attention(
                q, k, v, mask, causal=causal, query_chunk=3, key_chunk=4
            ),
            inputs,
            allowed,
        )
    assert_equal_to_explicit(lambda q, k, v: chunked_attention(q, k, v, query_chunk=3), inputs, None)
    assert_equal_to_explicit(
        lambda q, k, v: sliding_window_attention(q, k, v, 3, query_chunk=3, key_chunk=4),
        inputs,
        sliding_window_mask(7, 9, window=3),
    )


@both_types
@few_examples
@given(data=st.data())
def test_chunked_equals_explicit_in_value_and_gradient(dtype, data):
    leading, num_queries, num_keys = (data.draw(choices) for choices in (LEADING, LENGTHS, LENGTHS))
    d_k, d_v, seed = (data.draw(st.integers(1, 9)) for _ in range(3))
    inputs = draw_inputs(leading, num_queries, num_keys, d_k, d_v, seed=seed, dtype=dtype)
    joint = torch.broadcast_shapes(*leading[:2])
    shapes = [
        (num_keys,),
        (1, num_keys),
        (num_queries, 1),
        (*joint, num_queries, num_keys),
        (1,) * len(joint),
    ]
    shape = data.draw(st.sampled_from([None, (num_queries, num_keys), *shapes]))
    mask = None if shape is None else draw_mask(*shape, seed=seed)
    causal, query_chunk, key_chunk = data.draw(st.booleans()), data.draw(CHUNKS), data.draw(CHUNKS)
    band = causal_mask(num_queries, num_keys) if causal else None
    allowed = band if mask is None else mask if band is None else mask & band
    assert_equal_to_explicit(
        lambda q, k, v: chunked_attention(
            q, k, v, mask, causal=causal, query_chunk=query_chunk, key_chunk=key_chunk
        ),
        inputs,
        allowed,
    )


@both_types
@few_examples
@given(
    leading=LEADING,
    num_queries=LENGTHS,
    num_keys=LENGTHS,
    window=st.integers(1, 9),
    query_chunk=CHUNKS,
    key_chunk=CHUNKS,
)
def test_sliding_window_equals_explicit_in_value_and_gradient(
    dtype, leading, num_queries, num_keys, window, query_chunk, key_chunk
):
    assert_equal_to_explicit(
        lambda q, k, v: sliding_window_attention(
            q, k, v, window, query_chunk=query_chunk, key_chunk=key_chunk
        ),
        draw_inputs(leading, num_queries, num_keys, 4, 5, dtype=dtype),
        sliding_window_mask(num_queries, num_keys, window=window),
    )


@pytest.mark.parametrize("dtype", EVERY_TYPE)
@quick_examples
@given(leading=st.sampled_from([(), (3,), (2, 3)]), num_keys=LENGTHS, key_chunk=CHUNKS)
def test_row_without_keys_is_zero_with_finite_gradients(dtype, leading, num_keys, key_chunk):
    contracts.masked_rows_zero(
        lambda q, k, v, mask: chunked_attention(q, k, v, mask, query_chunk=3, key_chunk=key_chunk),
        *draw_inputs((leading,) * 3, 4, num_keys, 3, 3, dtype=dtype),
    )


def test_queries_before_all_keys_are_zero_with_finite_gradients():
    inputs = draw_inputs(((2,),) * 3, 5, 2, 3, 4)
    for function in (
        lambda q, k, v: chunked_attention(q, k, v, causal=True, query_chunk=2, key_chunk=2),
        lambda q, k, v: sliding_window_attention(q, k, v, 2, query_chunk=2, key_chunk=2),
    ):
        output, *gradients = output_and_gradients(function, inputs)
        assert (output[:, :3] == 0).all() and (output[:, 3:] != 0).all()
        assert (gradients[0][:, :3] == 0).all() and all(gradient.isfinite().all() for gradient in gradients)


def test_no_step_of_the_backward_pass_is_nan():
    query, key, value = (tensor.requires_grad_() for tensor in draw_inputs(((),) * 3, 3, 4, 5, 6))
    mask = torch.tensor([[True], [False], [True]])
    with torch.autograd.set_detect_anomaly(True):
        chunked_attention(query, key, value, mask, key_chunk=2).sum().backward()


@pytest.mark.parametrize("level", [1e4, -1e4])
@both_types
def test_large_scores_lose_nothing(dtype, level):
    # Width 4: the query is halved, so that the scores are whole numbers, exact in both types, near 10,000.
    query = torch.tensor([[2.0, 2, 0, 0], [2, 4, 0, 0], [-2, 2, 0, 0]], dtype=dtype)
    near = torch.tensor([0.0, 1.0, -1.0, 2.0, -2.0], dtype=dtype)
    key = torch.stack([torch.full_like(near, level), near, near, near], dim=1)
    for key_chunk in (1, 2, 5):
        assert_equal_to_explicit(
            lambda q, k, v, size=key_chunk: chunked_attention(q, k, v, key_chunk=size),
            (query, key, draw(5, 3, dtype=dtype)),
            None,
            sizes=(1.0, 1e4, 1.0, 1.0),  # the gradient of the query is made of keys near 10,000
        )
    # 10,000 apart: the largest score takes all, whichever tile it stands in.
    apart = torch.tensor([[0.0], [level], [-level], [level / 2]], dtype=dtype)
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0]], dtype=dtype)
    best = 2.0 if level > 0 else 3.0
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        one = torch.ones(1, 1, dtype=dtype)
        assert chunked_attention(one, apart[order], values[order], key_chunk=1).item() == best


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    inputs = draw_inputs(((2,),) * 3, 9, 40, 15, 5, dtype=dtype)
    wide = [tensor.float() for tensor in inputs]
    received = output_and_gradients(lambda q, k, v: chunked_attention(q, k, v, key_chunk=4), inputs)
    assert all(tensor.dtype == dtype for tensor in received)
    expected = output_and_gradients(lambda q, k, v: chunked_attention(q, k, v, key_chunk=4), wide)
    unit = torch.finfo(dtype).eps
    assert torch.equal(received[0], expected[0].to(dtype))
    for mine, reference in zip(received, expected, strict=True):
        torch.testing.assert_close(mine.float(), reference, rtol=2 * unit, atol=2 * unit)
    # 64 products of 40 * 40 add up to more than float16 holds.
    large = torch.full((1, 64), 40.0, dtype=dtype)
    assert (chunked_attention(large, large, large) == 40.0).all()


@pytest.mark.parametrize("name", ["chunked", "window"])
def test_a_second_derivative_is_an_error_and_not_a_wrong_number(name):
    query, key, value = (tensor.requires_grad_() for tensor in draw_inputs(((),) * 3, 3, 4, 5, 6))
    functions = {
        "chunked": lambda: chunked_attention(query, key, value),
        "window": lambda: sliding_window_attention(query, key, value, 2),
    }
    # A plain sum: its gradient is a constant, and still the second derivative is not zero.
    gradients = torch.autograd.grad(functions[name]().sum(), (query, key, value), create_graph=True)
    assert all(gradient.requires_grad for gradient in gradients)
    for gradient in gradients:
        with pytest.raises(RuntimeError, match="no second derivative.*scaled_dot_product_attention"):
            torch.autograd.grad(gradient.pow(2).sum(), query, retain_graph=True)
    # Without a second derivative asked for, create_graph does no harm.
    (plain,) = torch.autograd.grad(functions[name]().sum(), query)
    assert torch.equal(plain, gradients[0])


def test_one_input_alone_can_have_a_gradient():
    inputs = draw_inputs(((2, 3), (1, 3), (3,)), 4, 5, 3, 2)
    whole = output_and_gradients(chunked_attention, inputs)[1:]
    for index, expected in enumerate(whole):
        leaves = [tensor.clone().requires_grad_(index == at) for at, tensor in enumerate(inputs)]
        output = chunked_attention(*leaves)
        (output * draw(*output.shape, seed=9)).sum().backward()
        torch.testing.assert_close(leaves[index].grad, expected, rtol=0, atol=1e-12)
        assert all(leaf.grad is None for at, leaf in enumerate(leaves) if at != index)


def test_causal_output_does_not_know_the_future():
    x = draw(2, 6, 4)
    contracts.causal(lambda x: chunked_attention(x, x, x, causal=True, query_chunk=4, key_chunk=3), x)
    contracts.causal(lambda x: sliding_window_attention(x, x, x, 3, query_chunk=4, key_chunk=3), x)


def test_inputs_stay_as_they_are():
    inputs = draw_inputs(((2,),) * 3, 5, 6, 3, 3)
    mask = draw_mask(5, 6)
    before = [tensor.clone() for tensor in (*inputs, mask)]
    output_and_gradients(lambda q, k, v: chunked_attention(q, k, v, mask, causal=True, key_chunk=2), inputs)
    assert all(torch.equal(tensor, kept) for tensor, kept in zip((*inputs, mask), before, strict=True))


def test_without_keys_every_output_is_zero():
    query, key, value = draw_inputs(((2,),) * 3, 3, 0, 4, 5)
    output, *gradients = output_and_gradients(chunked_attention, (query, key, value))
    assert torch.equal(output, torch.zeros(2, 3, 5, dtype=torch.float64))
    assert [gradient.shape for gradient in gradients] == [query.shape, key.shape, value.shape]


def test_gradient_is_that_of_finite_differences():
    inputs = [tensor.requires_grad_() for tensor in draw_inputs(((2,), (), (2,)), 4, 5, 3, 2)]
    mask = draw_mask(4, 5)
    mask[1] = False
    assert torch.autograd.gradcheck(
        lambda q, k, v: chunked_attention(q, k, v, mask, query_chunk=3, key_chunk=2), inputs
    )
    assert torch.autograd.gradcheck(
        lambda q, k, v: sliding_window_attention(q, k, v, 2, query_chunk=3, key_chunk=2), inputs
    )


def test_sizes_larger_than_the_chunks_that_are_used_by_default():
    inputs = draw_inputs(((),) * 3, 300, 600, 4, 3)
    assert_equal_to_explicit(chunked_attention, inputs, None)
    assert_equal_to_explicit(
        lambda q, k, v: chunked_attention(q, k, v, causal=True), inputs, causal_mask(300, 600)
    )
    assert_equal_to_explicit(
        lambda q, k, v: sliding_window_attention(q, k, v, 50),
        inputs,
        sliding_window_mask(300, 600, window=50),
    )


def passes(length, function, *, backward):
    """A call of ``function`` on leaves of this length, forward or forward and backward."""
    leaves = [tensor.requires_grad_() for tensor in draw_inputs(((),) * 3, length, length, 8, 8)]

    def call():
        with torch.set_grad_enabled(backward):
            output = function(*leaves)
            return torch.autograd.grad(output.sum(), leaves) if backward else output

    return call


def flops(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize(("backward", "products"), [(False, 2), (True, 7)])
def test_hidden_tiles_are_not_computed(backward, products):
    # 64 positions in 8 chunks: 64 tiles, 36 of them causal, 15 within a window of 9.
    each = products * 2 * 8 * 8 * 8
    for function, tiles in (
        (lambda *x: chunked_attention(*x, query_chunk=8, key_chunk=8), 64),
        (lambda *x: chunked_attention(*x, causal=True, query_chunk=8, key_chunk=8), 36),
        (lambda *x: sliding_window_attention(*x, 9, query_chunk=8, key_chunk=8), 15),
    ):
        assert flops(passes(64, function, backward=backward)) == tiles * each


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["chunked", "window"])
def test_memory_is_linear_in_the_length(name, backward):
    functions = {
        "chunked": lambda *x: chunked_attention(*x, query_chunk=32, key_chunk=32),
        "window": lambda *x: sliding_window_attention(*x, 48, query_chunk=32, key_chunk=32),
    }
    short, long = (counted_peak(passes(t, functions[name], backward=backward)) for t in (128, 256))
    assert long <= 2.1 * short
    explicit = counted_peak(
        passes(256, lambda *x: scaled_dot_product_attention(*x).output, backward=backward)
    )
    assert explicit > 6 * long
