"""ALiBi: the slopes of the paper, and the bias entry by entry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.positions import alibi_bias, alibi_slopes

few_examples = settings(max_examples=25, deadline=None, derandomize=True)

# Worked out from the paper's rule. 8 heads: 1/2, 1/4, ..., 1/256. 16 heads: powers of 2 ** -0.5.
EIGHT = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
SIXTEEN = [0.5 ** (k / 2) for k in range(1, 17)]
SLOPES = {
    1: [1 / 256],
    2: [1 / 16, 1 / 256],
    3: [1 / 16, 1 / 256, 1 / 4],  # those of 2, then the first of 4: 1/4, 1/16, 1/64, 1/256
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: EIGHT,
    12: [*EIGHT, SIXTEEN[0], SIXTEEN[2], SIXTEEN[4], SIXTEEN[6]],
    16: SIXTEEN,
}


@pytest.mark.parametrize(("num_heads", "expected"), SLOPES.items())
def test_slopes_are_those_of_the_paper(num_heads, expected):
    slopes = alibi_slopes(num_heads, dtype=torch.float64)
    assert slopes.tolist() == pytest.approx(expected, abs=1e-15)


@few_examples
@given(num_heads=st.integers(1, 70))
def test_slopes_are_as_many_as_heads_all_different_and_between_0_and_1(num_heads):
    slopes = alibi_slopes(num_heads, dtype=torch.float64)
    assert slopes.shape == (num_heads,)
    assert (slopes > 0).all() and (slopes < 1).all() and slopes.unique().numel() == num_heads


@few_examples
@given(
    num_heads=st.integers(1, 5),
    num_queries=st.integers(0, 6),
    num_keys=st.none() | st.integers(0, 6),
    offset=st.none() | st.integers(-4, 9),
)
def test_bias_entry_by_entry(num_heads, num_queries, num_keys, offset):
    bias = alibi_bias(num_heads, num_queries, num_keys, offset=offset, dtype=torch.float64)
    keys = num_queries if num_keys is None else num_keys
    shift = keys - num_queries if offset is None else offset
    assert bias.shape == (num_heads, num_queries, keys)
    for head, slope in enumerate(alibi_slopes(num_heads, dtype=torch.float64).tolist()):
        expected = [
            [-slope * abs(query + shift - key) for key in range(keys)] for query in range(num_queries)
        ]
        assert bias[head].tolist() == expected


def test_bias_of_the_paper_and_its_mirror_image():
    expected = [[0.0, -1.0, -2.0], [-1.0, 0.0, -1.0], [-2.0, -1.0, 0.0]]
    assert (alibi_bias(8, 3)[0] * 2).tolist() == expected
    assert (alibi_bias(8, 3)[7] * 256).tolist() == expected


@pytest.mark.parametrize(("num_queries", "num_keys"), [(4, 4), (2, 5), (1, 7)])
def test_bias_is_zero_where_a_causal_query_stands(num_queries, num_keys):
    aligned = causal_mask(num_queries, num_keys)
    own = aligned.sum(dim=-1) - 1  # the last key that each query may see
    bias = alibi_bias(2, num_queries, num_keys)
    assert (bias[:, torch.arange(num_queries), own] == 0).all()
    assert (bias[:, -1, -1] == 0).all()
    assert (bias == 0).sum() == 2 * num_queries


def test_attention_falls_off_with_distance_and_the_mask_hides_the_future():
    zeros = torch.zeros(1, 4, 5, 3, dtype=torch.float64)  # (B, H, T, D)
    bias = alibi_bias(4, 5, dtype=torch.float64)
    weights = scaled_dot_product_attention(zeros, zeros, zeros, causal_mask(5), score_bias=bias).weights
    ratio = weights[0, :, -1, 1:] / weights[0, :, -1, :-1]  # each key against the one before it
    expected = alibi_slopes(4, dtype=torch.float64).exp()[:, None].expand(4, 4)
    torch.testing.assert_close(ratio, expected, rtol=0, atol=1e-12)
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_type_asked_for_is_rounded_once(dtype):
    bias = alibi_bias(12, 1, 1500, dtype=dtype)
    assert bias.dtype == dtype and alibi_slopes(12, dtype=dtype).dtype == dtype
    distance = torch.arange(1499, -1, -1, dtype=torch.float64)
    slopes = torch.tensor(SLOPES[12], dtype=torch.float64)
    torch.testing.assert_close(bias[:, 0], (-slopes[:, None] * distance).to(dtype), rtol=1e-15, atol=0)


def test_type_and_device_have_defaults():
    assert alibi_slopes(3).dtype == alibi_bias(3, 2).dtype == torch.get_default_dtype()
    assert alibi_slopes(3, device="meta").is_meta and alibi_bias(3, 2, device="meta").is_meta


def test_impossible_numbers_name_the_argument():
    with pytest.raises(ValueError, match="^num_heads: .*0"):
        alibi_slopes(0)
    with pytest.raises(ValueError, match="^num_heads: .*0"):
        alibi_bias(0, 3)
    with pytest.raises(ValueError, match="^num_queries: .*-1"):
        alibi_bias(2, -1)
    with pytest.raises(ValueError, match="^num_keys: .*-3"):
        alibi_bias(2, 1, -3)
