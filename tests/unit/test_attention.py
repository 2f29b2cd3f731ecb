"""The attention functions against PyTorch's own, over random shapes, and at their edges."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab import contracts
from attnlab.attention import (
    AttentionOutput,
    SelfAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
EVERY_TYPE = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LENGTHS = st.integers(1, 7)
WIDTHS = st.integers(1, 9)
few_examples = settings(max_examples=25, deadline=None, derandomize=True)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw_inputs(leading, num_queries, num_keys, d_k, d_v, *, seed=0, dtype=torch.float64):
    """Query, key and value that all differ."""
    return (
        draw(*leading, num_queries, d_k, seed=seed, dtype=dtype),
        draw(*leading, num_keys, d_k, seed=seed + 1, dtype=dtype),
        draw(*leading, num_keys, d_v, seed=seed + 2, dtype=dtype),
    )


def draw_mask(*shape, seed=0):
    """A random mask in which each row allows at least one key."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


def output_and_gradients(function, inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    weighted = (output * draw(*output.shape, seed=9, dtype=output.dtype)).sum()
    return [output.detach(), *torch.autograd.grad(weighted, leaves)]


def assert_equal_to_torch(inputs, mask, need_weights):
    ours = output_and_gradients(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask, need_weights=need_weights).output, inputs
    )
    theirs = output_and_gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), inputs
    )
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=TOLERANCE[mine.dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("need_weights", [True, False])
@given(data=st.data())
@few_examples
def test_equals_torch_in_value_and_gradient(data, dtype, need_weights):
    leading = data.draw(st.sampled_from([(), (3,), (2, 3)]))
    num_queries, num_keys, d_k, d_v = (data.draw(sizes) for sizes in (LENGTHS, LENGTHS, WIDTHS, WIDTHS))
    inputs = draw_inputs(
        leading, num_queries, num_keys, d_k, d_v, seed=data.draw(st.integers(0, 99)), dtype=dtype
    )
    mask_shapes = [(num_queries, num_keys), (1, num_keys), (*leading, num_queries, num_keys)]
    mask_shape = data.draw(st.sampled_from([None, *mask_shapes]))
    mask = None if mask_shape is None else draw_mask(*mask_shape, seed=data.draw(st.integers(0, 99)))
    assert_equal_to_torch(inputs, mask, need_weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("need_weights", [True, False])
@given(masked=st.booleans(), heads=st.sampled_from([1, 3]), num_queries=LENGTHS, num_keys=LENGTHS)
@few_examples
def test_score_bias_equals_torch_in_value_and_gradient(
    dtype, need_weights, masked, heads, num_queries, num_keys
):
    inputs = draw_inputs((2, 3), num_queries, num_keys, 4, 5, dtype=dtype)
    bias = draw(heads, num_queries, num_keys, seed=5, dtype=dtype)
    mask = draw_mask(2, 1, num_queries, num_keys) if masked else None
    added = bias if mask is None else torch.where(mask, bias, -math.inf)
    ours = output_and_gradients(
        lambda q, k, v: (
            scaled_dot_product_attention(q, k, v, mask, score_bias=bias, need_weights=need_weights).output
        ),
        inputs,
    )
    theirs = output_and_gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=added), inputs
    )
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=TOLERANCE[dtype])


def test_score_bias_stands_in_the_scores_and_leaves_an_empty_row_empty():
    query, key, value = draw_inputs((2,), 3, 4, 16, 5)
    bias, mask = draw(3, 4, seed=5), draw_mask(2, 3, 4)
    mask[0, 1] = False
    plain = scaled_dot_product_attention(query, key, value, mask)
    biased = scaled_dot_product_attention(query, key, value, mask, score_bias=bias)
    fused = scaled_dot_product_attention(query, key, value, mask, score_bias=bias, need_weights=False)
    torch.testing.assert_close(biased.scores, plain.scores + bias, rtol=0, atol=1e-12)
    assert (biased.output[0, 1] == 0).all() and (fused.output[0, 1] == 0).all()


@pytest.mark.parametrize(
    ("bias", "error", "words"),
    [
        (torch.zeros(3, 4, dtype=torch.float32), TypeError, "score_bias: expected the type of query"),
        (torch.zeros(3, 4, dtype=torch.bool), TypeError, "score_bias: expected the type of query"),
        (torch.zeros(4, 3, dtype=torch.float64), ValueError, "score_bias: .*got .4, 3."),
        (torch.zeros(7, 2, 3, 4, dtype=torch.float64), ValueError, "score_bias: .*got .7, 2, 3, 4."),
    ],
)
def test_score_bias_that_does_not_fit_is_refused(bias, error, words):
    with pytest.raises(error, match=words):
        scaled_dot_product_attention(*draw_inputs((2,), 3, 4, 5, 6), score_bias=bias)


def test_scores_are_scaled_and_unmasked():
    query, key, value = draw_inputs((2,), 3, 4, 16, 5)
    scores = scaled_dot_product_attention(query, key, value, draw_mask(3, 4)).scores
    torch.testing.assert_close(scores, query @ key.transpose(-2, -1) / 4.0, rtol=0, atol=1e-12)


def test_weights_worked_out_by_hand():
    # Scores ln 3 and 0 after the division by sqrt(4): weights 3/4 and 1/4.
    query = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    key = torch.tensor([[math.log(3.0), 5.0, 0.0, 0.0], [0.0, 0.0, 7.0, 0.0]])
    value = torch.tensor([[4.0], [8.0]])
    result = scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(result.weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(result.output, torch.tensor([[5.0]]))


def test_scale_follows_the_width_of_a_head():
    # 64 wide in 4 heads of 16: the root is 4, not 8.
    query, key = torch.ones(1, 16), torch.stack([torch.ones(16), torch.zeros(16)])
    weights = scaled_dot_product_attention(query, key, key).weights
    torch.testing.assert_close(weights, torch.tensor([[0.9820, 0.0180]]), rtol=0, atol=5e-5)


@pytest.mark.parametrize("need_weights", [True, False])
def test_true_means_may_attend(need_weights):
    zeros, value = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]])
    output = scaled_dot_product_attention(
        zeros, zeros, value, causal_mask(3), need_weights=need_weights
    ).output
    torch.testing.assert_close(output, torch.tensor([[1.0], [1.5], [7 / 3]]))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_row_without_keys_is_zero(dtype, need_weights):
    zeros = torch.zeros(2, 1, dtype=dtype)
    value = torch.tensor([[2.0, 4.0], [6.0, 8.0]], dtype=dtype)
    keep = torch.tensor([[True, True], [False, False]])
    output = scaled_dot_product_attention(zeros, zeros, value, keep, need_weights=need_weights).output
    assert output.dtype == dtype
    assert output.tolist() == [[4.0, 6.0], [0.0, 0.0]]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", EVERY_TYPE)
@given(leading=st.sampled_from([(), (3,), (2, 3), (2, 1, 3)]), num_keys=LENGTHS, d_k=WIDTHS)
@few_examples
def test_row_without_keys_has_finite_gradients(dtype, need_weights, leading, num_keys, d_k):
    contracts.masked_rows_zero(
        lambda q, k, v, mask: scaled_dot_product_attention(q, k, v, mask, need_weights=need_weights),
        *draw_inputs(leading, 4, num_keys, d_k, 3, dtype=dtype),
    )


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_both_paths_agree_beside_a_row_without_keys(leading):
    query, key, value = draw_inputs(leading, 4, 5, 6, 3)
    mask = draw_mask(*leading, 4, 5)
    mask[..., 2, :] = False
    explicit, fused = (
        output_and_gradients(
            lambda q, k, v, needed=needed: (
                scaled_dot_product_attention(q, k, v, mask, need_weights=needed).output
            ),
            (query, key, value),
        )
        for needed in (True, False)
    )
    for mine, other in zip(explicit, fused, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def test_no_step_of_the_backward_pass_is_nan():
    """A NaN that a later step wipes out would still lead anomaly detection astray."""
    query, key, value = (tensor.requires_grad_() for tensor in draw_inputs((), 3, 4, 5, 6))
    mask = torch.tensor([[True], [False], [True]])
    with torch.autograd.set_detect_anomaly(True):
        scaled_dot_product_attention(query, key, value, mask).output.sum().backward()


@pytest.mark.parametrize("need_weights", [True, False])
def test_half_precision_survives_low_scores(need_weights):
    query = torch.ones(2, 1, dtype=torch.float16)
    key = torch.tensor([[-20.0], [-17.0]], dtype=torch.float16)
    for mask in (torch.zeros(2, 2, dtype=torch.bool), torch.tensor([[True, False], [False, False]])):
        result = scaled_dot_product_attention(query, key, key, mask, need_weights=need_weights)
        assert result.output.isfinite().all()
        assert (result.output[1] == 0).all()


def test_half_precision_scales_before_it_multiplies():
    # 64 products of 40 * 40 add up to more than half precision holds, 65504; divided by 8 they do not.
    query = torch.full((1, 64), 40.0, dtype=torch.float16)
    result = scaled_dot_product_attention(query, query, query)
    assert result.scores.item() == 12800.0
    assert result.weights.item() == 1.0


@pytest.mark.parametrize(
    "leading",
    [((2, 3), (1, 3), (3,)), ((2, 3), (2, 1), (2, 1)), ((), (4,), (4,)), ((2, 2, 2),) * 3],
)
def test_leading_axes_broadcast(leading):
    query, key, value = (
        draw(*leading[0], 5, 8),
        draw(*leading[1], 7, 8, seed=1),
        draw(*leading[2], 7, 6, seed=2),
    )
    mask = draw_mask(5, 7)
    explicit = scaled_dot_product_attention(query, key, value, mask).output
    fused = scaled_dot_product_attention(query, key, value, mask, need_weights=False).output
    shape = torch.broadcast_shapes(*leading)
    assert explicit.shape == fused.shape == (*shape, 5, 6)
    expected = F.scaled_dot_product_attention(
        query.expand(*shape, 5, 8), key.expand(*shape, 7, 8), value.expand(*shape, 7, 6), attn_mask=mask
    )
    torch.testing.assert_close(explicit, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(fused, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (4, 2, 3)])
@pytest.mark.parametrize("spread", [False, True])
def test_without_weights_the_fused_kernel_runs(leading, spread):
    query, key, value = draw_inputs(leading, 5, 7, 8, 8, dtype=torch.float32)
    if spread and leading:
        key, value = key[:1], value[:1]
    with torch.profiler.profile() as profile:
        result = scaled_dot_product_attention(query, key, value, draw_mask(5, 7), need_weights=False)
    assert result.weights is None and result.scores is None
    names = {event.key for event in profile.key_averages()}
    expected = len(leading) < 3  # the kernel takes four axes
    assert ("aten::_scaled_dot_product_flash_attention_for_cpu" in names) == expected, names


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_batch_of_nothing_gives_nothing(need_weights):
    query, key, value = draw(0, 5, 8), draw(1, 7, 8), draw(1, 7, 6)
    result = scaled_dot_product_attention(query, key, value, draw_mask(5, 7), need_weights=need_weights)
    assert result.output.shape == (0, 5, 6)


@given(num_queries=LENGTHS, num_keys=LENGTHS, seed=st.integers(0, 99))
@few_examples
def test_weights_are_what_was_used(num_queries, num_keys, seed):
    query, key, value = draw_inputs((2, 3), num_queries, num_keys, 4, 5, seed=seed)
    mask = draw_mask(2, 1, num_queries, num_keys, seed=seed)
    mask[0, 0, -1] = False
    result = scaled_dot_product_attention(query, key, value, mask)
    assert result.weights.shape == (2, 3, num_queries, num_keys)
    contracts.rows_sum_to_one(result.weights, mask)
    contracts.weights_explain_output(result, value)


def test_weights_come_back_without_dropout():
    query, key, value = draw_inputs((2,), 6, 20, 4, 5)
    torch.manual_seed(0)
    result = scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    contracts.rows_sum_to_one(result.weights)
    with pytest.raises(AssertionError, match="weights @ value"):
        contracts.weights_explain_output(result, value)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_keeps_the_mean(need_weights):
    torch.manual_seed(0)
    ones = torch.ones(1, 1000, 2)
    output = scaled_dot_product_attention(
        torch.zeros(1, 400, 1), torch.zeros(1, 1000, 1), ones, dropout_p=0.5, need_weights=need_weights
    ).output
    assert output.std() > 0.01
    assert output.mean().item() == pytest.approx(1.0, abs=0.01)


class WithDropout(nn.Module):
    """Self-attention with dropout, guarded by the training mode or not."""

    def __init__(self, guarded):
        super().__init__()
        self.guarded = guarded

    def forward(self, x):
        dropout_p = 0.5 if self.training or not self.guarded else 0.0
        return scaled_dot_product_attention(x, x, x, dropout_p=dropout_p)


def test_a_module_passes_no_dropout_in_evaluation():
    x = draw(2, 5, 4)
    contracts.eval_deterministic(WithDropout(guarded=True), x)
    with pytest.raises(AssertionError, match="dropout"):
        contracts.eval_deterministic(WithDropout(guarded=False), x)


@pytest.mark.parametrize(
    ("mask", "remedy"),
    [(torch.zeros(3, 3), r"mask == 0"), (torch.ones(3, 3, dtype=torch.long), r"mask\.bool\(\)")],
)
def test_a_mask_of_numbers_is_refused_with_its_remedy(mask, remedy):
    x = draw(3, 4)
    with pytest.raises(TypeError, match=remedy):
        scaled_dot_product_attention(x, x, x, mask)


Q, K, V = draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Q, K[..., :3], V), ["key", "d_k = 4", "got 3"]),
        ((Q, K, V[:, :4]), ["value", "S = 5", "got 4"]),
        ((Q, draw(3, 5, 4), draw(3, 5, 6)), ["key", r"\(2,\)", r"\(3, 5, 4\)"]),
        ((Q, K, draw(3, 5, 6)), ["value", r"\(2,\)", r"\(3, 5, 6\)"]),
        ((Q[0, 0], K, V), ["query", "two axes", r"\(4,\)"]),
        ((Q[..., :0], K[..., :0], V), ["query", "d_k"]),
        ((Q, K, V, causal_mask(3, 4)), ["mask", r"\(2, 3, 5\)", r"\(3, 4\)"]),
        ((Q, K, V, padding_mask([1, 2, 3], 5)), ["mask", r"\(2, 3, 5\)", r"\(3, 1, 5\)"]),
        ((Q, K, V, draw_mask(2, 2, 3, 5)), ["mask", r"\(2, 3, 5\)", r"\(2, 2, 3, 5\)"]),
    ],
)
def test_errors_name_the_argument(arguments, words):
    with pytest.raises(ValueError) as error:
        scaled_dot_product_attention(*arguments)
    for word in words:
        error.match(word)


def test_types_must_agree_and_be_floating_point():
    with pytest.raises(TypeError, match=r"value: .*float64.*float32"):
        scaled_dot_product_attention(Q, K, V.float())
    with pytest.raises(TypeError, match="query: .*int64"):
        scaled_dot_product_attention(Q.long(), K, V)


@pytest.mark.parametrize("dropout_p", [-0.1, 1.1, math.nan])
def test_dropout_is_a_probability(dropout_p):
    with pytest.raises(ValueError, match="dropout_p"):
        scaled_dot_product_attention(Q, K, V, dropout_p=dropout_p)


@given(num_queries=st.integers(0, 6), num_keys=st.integers(0, 6), offset=st.none() | st.integers(-4, 4))
@few_examples
def test_causal_mask_entry_by_entry(num_queries, num_keys, offset):
    mask = causal_mask(num_queries, num_keys, offset=offset)
    shift = num_keys - num_queries if offset is None else offset
    assert mask.dtype == torch.bool and mask.shape == (num_queries, num_keys)
    expected = [[key <= query + shift for key in range(num_keys)] for query in range(num_queries)]
    assert mask.tolist() == expected


def test_causal_mask_aligns_the_ends():
    assert causal_mask(2).tolist() == [[True, False], [True, True]]
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True] * 4]
    assert causal_mask(2, 4, offset=0).tolist() == [[True, False, False, False], [True, True, False, False]]
    with pytest.raises(ValueError, match="num_queries.*-1"):
        causal_mask(-1)
    with pytest.raises(ValueError, match="num_keys.*-2"):
        causal_mask(1, -2)


def test_padding_mask_combines_with_a_causal_one():
    assert padding_mask([1, 3]).tolist() == [[[True, False, False]], [[True, True, True]]]
    assert padding_mask(torch.tensor([0, 2]), 4).tolist() == [[[False] * 4], [[True, True, False, False]]]
    joint = padding_mask([1, 3]) & causal_mask(3)
    assert joint.shape == (2, 3, 3)
    assert joint[0].tolist() == [[True, False, False]] * 3
    assert joint[1].tolist() == causal_mask(3).tolist()


@pytest.mark.parametrize(
    ("lengths", "max_len", "error", "words"),
    [
        ([1, 5], 4, ValueError, r"lengths.*4.*\[1, 5\]"),
        ([-1, 2], None, ValueError, r"lengths.*\[-1, 2\]"),
        ([], None, ValueError, "lengths"),
        (torch.tensor(3), None, ValueError, r"lengths.*\(\)"),
        ([1.5, 2.0], None, TypeError, "lengths.*float32"),
        (torch.tensor([True, False]), None, TypeError, "lengths.*bool"),
    ],
)
def test_padding_mask_checks_the_lengths(lengths, max_len, error, words):
    with pytest.raises(error, match=words):
        padding_mask(lengths, max_len)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_self_attention_equals_torch(dtype, need_weights):
    torch.manual_seed(0)
    attention = SelfAttention(6, 4, 5).to(dtype)
    x, mask = draw(2, 7, 6, dtype=dtype), causal_mask(7)
    result = attention(x, mask, need_weights=need_weights)
    expected = F.scaled_dot_product_attention(
        x @ attention.w_q.weight.T, x @ attention.w_k.weight.T, x @ attention.w_v.weight.T, attn_mask=mask
    )
    assert isinstance(result, AttentionOutput) and result.output.shape == (2, 7, 5)
    assert (result.weights is not None) == (result.scores is not None) == need_weights
    torch.testing.assert_close(result.output, expected, rtol=0, atol=TOLERANCE[dtype])


def test_self_attention_keeps_every_contract():
    torch.manual_seed(0)
    attention = SelfAttention(6, 4, 5).double()
    x = draw(3, 5, 6)
    real = padding_mask([5, 3, 1])[:, 0]
    contracts.permutation_equivariant(attention, x)
    contracts.batch_independent(attention, x)
    contracts.eval_deterministic(attention, x)
    contracts.causal(lambda x: attention(x, causal_mask(5)), x)
    contracts.padding_blind(lambda x: attention(x, padding_mask([5, 3, 1])), x, real)
    contracts.padding_blind(lambda x: attention(x, real.flip(1)[:, None]), x, real.flip(1))


def test_self_attention_widths():
    defaults = SelfAttention(6)
    assert (defaults.w_q.out_features, defaults.w_k.out_features, defaults.w_v.out_features) == (6, 6, 6)
    narrow = SelfAttention(6, 4)
    assert (narrow.w_q.out_features, narrow.w_k.out_features, narrow.w_v.out_features) == (4, 4, 4)
    assert [name for name, _ in narrow.named_parameters()] == ["w_q.weight", "w_k.weight", "w_v.weight"]
    assert all(getattr(SelfAttention(6, bias=True), name).bias is not None for name in ("w_q", "w_k", "w_v"))
    with pytest.raises(ValueError, match="d_v.*0"):
        SelfAttention(6, 4, 0)
    with pytest.raises(ValueError, match=r"x: .*d_model = 6.*\(2, 3, 5\)"):
        defaults(draw(2, 3, 5))
