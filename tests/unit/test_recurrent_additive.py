"""Additive attention: its formula, its masks, its errors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.attention import AttentionOutput, padding_mask
from attnlab.recurrent.additive import AdditiveAttention


def attention(d_query=3, d_key=4, d_hidden=5, dtype=torch.float64):
    torch.manual_seed(0)
    return AdditiveAttention(d_query, d_key, d_hidden).to(dtype)


def inputs(batch=2, queries=3, keys=4, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(batch, length, width, generator=g).to(dtype)
        for length, width in ((queries, 3), (keys, 4), (keys, 6))
    )


def test_it_is_the_papers_formula_in_one_line():
    module, (query, key, value) = attention(), inputs()
    received = module(query, key, value)
    summed = query[:, :, None] @ module.w_query.weight.T + key[:, None] @ module.w_key.weight.T
    scores = (torch.tanh(summed) * module.v.weight[0]).sum(-1)
    torch.testing.assert_close(received.scores, scores)
    torch.testing.assert_close(received.weights, scores.softmax(-1))
    torch.testing.assert_close(received.output, scores.softmax(-1) @ value)


@settings(deadline=None, derandomize=True, max_examples=10)
@given(batch=st.integers(1, 3), queries=st.integers(1, 4), keys=st.integers(1, 4), seed=st.integers(0, 99))
def test_it_is_the_papers_formula_written_out(batch, queries, keys, seed):
    module = attention()
    query, key, value = inputs(batch, queries, keys, seed=seed)
    mask = torch.rand(batch, queries, keys, generator=torch.Generator().manual_seed(seed)) < 0.7
    received = module(query, key, value, mask)
    assert isinstance(received, AttentionOutput)
    w, u, v = (layer.weight for layer in (module.w_query, module.w_key, module.v))
    for b in range(batch):
        for t in range(queries):
            scores = [(v[0] @ torch.tanh(w @ query[b, t] + u @ key[b, s])).item() for s in range(keys)]
            torch.testing.assert_close(received.scores[b, t].tolist(), scores)
            shares = [torch.tensor(e).exp().item() * bool(mask[b, t, s]) for s, e in enumerate(scores)]
            total = sum(shares) or 1.0
            expected = torch.tensor([share / total for share in shares], dtype=torch.float64)
            torch.testing.assert_close(received.weights[b, t], expected, rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(received.output[b, t], expected @ value[b], rtol=1e-6, atol=1e-6)


def test_the_keys_are_the_values_where_none_are_given():
    module, (query, key, _) = attention(), inputs()
    assert torch.equal(module(query, key).output, module(query, key, key).output)


def test_projected_keys_may_be_used_for_many_queries_in_turn():
    module, (query, key, value) = attention(), inputs()
    whole = module(query, key, value, padding_mask([2, 4]))
    projected = module.w_key(key)
    for t in range(3):
        one = module.attend(query[:, t : t + 1], projected, value, padding_mask([2, 4]))
        torch.testing.assert_close(one.output, whole.output[:, t : t + 1])


def test_it_has_three_matrices_and_no_bias():
    shapes = {name: tuple(parameter.shape) for name, parameter in attention().named_parameters()}
    assert shapes == {"w_query.weight": (5, 3), "w_key.weight": (5, 4), "v.weight": (1, 5)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_row_that_may_attend_to_nothing_gives_zeros_and_finite_gradients(dtype):
    module = attention(dtype=dtype)
    query, key, value = (tensor.requires_grad_() for tensor in inputs(dtype=dtype))
    mask = torch.tensor([[[False] * 4], [[True, False, False, True]]])
    received = module(query, key, value, mask)
    assert not received.output[0].any()
    assert not received.weights[0].any()
    torch.testing.assert_close(received.weights[1].sum(-1), torch.ones(3, dtype=dtype))
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way, either
        received.output.sum().backward()
    for tensor in (query, key, value, *module.parameters()):
        assert tensor.grad.isfinite().all()
    assert not key.grad[0].any()
    assert not value.grad[1, 1:3].any()


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (3, 1), (2, 1, 4), (1, 3, 4), (2, 3, 4), ()])
def test_a_mask_broadcasts_to_the_scores(shape):
    module, (query, key, value) = attention(), inputs()
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.6
    received = module(query, key, value, mask)
    expected = module(query, key, value, mask.expand(2, 3, 4))
    torch.testing.assert_close(received, expected)


Q, K, V = inputs()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: AdditiveAttention(0, 4, 5), ValueError, "d_query: expected .*got 0"),
        (lambda: AdditiveAttention(3, 0, 5), ValueError, "d_key: expected .*got 0"),
        (lambda: AdditiveAttention(3, 4, 0), ValueError, "d_hidden: expected .*got 0"),
        (lambda: attention()(Q[0], K), ValueError, r"query: expected \(B, T, d_query = 3\), got \(3, 3\)"),
        (lambda: attention()(K, K), ValueError, r"query: expected \(B, T, d_query = 3\), got \(2, 4, 4\)"),
        (lambda: attention()(Q, K[0]), ValueError, r"key: expected \(B, S, d_key = 4\), got \(4, 4\)"),
        (lambda: attention()(Q, Q), ValueError, r"key: expected \(B, S, d_key = 4\), got \(2, 3, 3\)"),
        (lambda: attention()(Q, K[:1]), ValueError, "key: expected the batch size of query, 2, got 1"),
        (
            lambda: attention()(Q, K, V[:, :2]),
            ValueError,
            r"value: expected one row for each key, \(2, 4\), got",
        ),
        (lambda: attention()(Q, K, V[0]), ValueError, r"value: expected one row for each key, \(2, 4\), got"),
        (lambda: attention()(Q, K, V, torch.ones(2, 1, 4)), TypeError, "mask: expected a boolean .*float32"),
        (
            lambda: attention()(Q, K, V, torch.ones(2, 3, 5).bool()),
            ValueError,
            r"mask: .*\(2, 3, 4\), got \(2, 3, 5\)",
        ),
        (
            lambda: attention()(Q, K, V, torch.ones(5, 2, 3, 4).bool()),
            ValueError,
            r"mask: .*got \(5, 2, 3, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
