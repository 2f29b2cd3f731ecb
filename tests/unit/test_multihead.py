"""Multi-head attention against PyTorch's own, its grouped heads, its masks and its cache."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab import contracts
from attnlab.attention import AttentionOutput, causal_mask, padding_mask
from attnlab.cache import LayerCache
from attnlab.multihead import MultiHeadAttention, mask_from_torch, merge_heads, split_heads

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")
few_examples = settings(max_examples=15, deadline=None, derandomize=True)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make(d_model, num_heads, *, dtype=torch.float64, **options):
    """A module whose every parameter is drawn, biases included."""
    module = MultiHeadAttention(d_model, num_heads, **options).to(dtype)
    return fill(module)


def fill(module):
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(0.4 * draw(*parameter.shape, seed=100 + number))
    return module


def assert_close(received, expected, dtype=torch.float64):
    torch.testing.assert_close(received, expected, rtol=0, atol=TOLERANCE[dtype])


def gradients(output, leaves, parameters):
    probe = (output * draw(*output.shape, seed=9, dtype=output.dtype)).sum()
    return torch.autograd.grad(probe, [*leaves, *parameters])


def our_parameters(module):
    """In the order of PyTorch's: the three input weights, the output weight, then the biases likewise."""
    names = [f"{name}.{kind}" for kind in ("weight", "bias") for name in PROJECTIONS]
    found = dict(module.named_parameters())
    return [found[name] for name in names if name in found]


def their_gradients(theirs, output, leaves):
    parameters = [
        theirs.in_proj_weight,
        theirs.out_proj.weight,
        *([] if theirs.in_proj_bias is None else [theirs.in_proj_bias, theirs.out_proj.bias]),
    ]
    found = gradients(output, leaves, parameters)
    inputs, found = found[: len(leaves)], found[len(leaves) :]
    return [
        *inputs,
        *(
            part
            for pair in zip(found[::2], found[1::2], strict=True)
            for part in (*pair[0].chunk(3), pair[1])
        ),
    ]


@st.composite
def torch_masks(draw_from, batch, num_heads, num_queries, num_keys):
    """PyTorch's two masks, True = hidden, of which none hides the first key."""
    shapes = [None, (num_queries, num_keys), (batch * num_heads, num_queries, num_keys)]
    masks = []
    for choices in (shapes, [None, (batch, num_keys)]):
        shape = draw_from(st.sampled_from(choices))
        if shape is not None:
            generator = torch.Generator().manual_seed(draw_from(st.integers(0, 99)))
            shape = torch.rand(*shape, generator=generator) < 0.5
            shape[..., 0] = False
        masks.append(shape)
    return masks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data())
@few_examples
def test_equals_torch_in_value_weights_and_gradient(dtype, data):
    batch, num_heads, num_queries, num_keys = (data.draw(st.integers(1, 4)) for _ in range(4))
    cross, bias, batch_first = (data.draw(st.booleans()) for _ in range(3))
    d_model = num_heads * data.draw(st.integers(1, 3))
    num_keys = num_keys if cross else num_queries
    theirs = fill(nn.MultiheadAttention(d_model, num_heads, bias=bias, batch_first=batch_first).to(dtype))
    ours = MultiHeadAttention.from_torch(theirs)
    hidden, padded = data.draw(torch_masks(batch, num_heads, num_queries, num_keys))
    leaves = [draw(batch, num_queries, d_model, seed=1, dtype=dtype).requires_grad_()]
    if cross:
        leaves += [draw(batch, num_keys, d_model, seed=seed, dtype=dtype).requires_grad_() for seed in (2, 3)]
    given_to_theirs = [x if batch_first else x.transpose(0, 1) for x in (leaves if cross else leaves * 3)]
    expected, expected_weights = theirs(
        *given_to_theirs, attn_mask=hidden, key_padding_mask=padded, average_attn_weights=False
    )
    expected = expected if batch_first else expected.transpose(0, 1)
    expected_gradients = their_gradients(theirs, expected, leaves)
    mask = mask_from_torch(hidden, padded, num_heads=num_heads)
    for need_weights in (True, False):
        result = ours(*leaves, mask=mask, need_weights=need_weights)
        assert_close(result.output, expected, dtype)
        if need_weights:
            assert_close(result.weights, expected_weights, dtype)
        else:
            assert result.weights is None and result.scores is None
        received = gradients(result.output, leaves, our_parameters(ours))
        # A gradient that sums over many positions is larger than an output, and so is its rounding.
        for mine, reference in zip(received, expected_gradients, strict=True):
            scale = max(1.0, reference.abs().max().item())
            assert_close(mine / scale, reference / scale, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copy_of_torch_is_a_copy(dtype):
    theirs = nn.MultiheadAttention(6, 2, dropout=0.25, dtype=dtype).eval()
    state = torch.get_rng_state()
    ours = MultiHeadAttention.from_torch(theirs)
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(ours, MultiHeadAttention) and not ours.training and ours.dropout == 0.25
    assert MultiHeadAttention.from_torch(theirs.train()).training
    assert all(parameter.dtype == dtype and parameter.is_leaf for parameter in ours.parameters())
    assert all(parameter.requires_grad for parameter in ours.parameters())
    before = ours.w_q.weight.clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert torch.equal(ours.w_q.weight, before) and before.abs().sum() > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kdim": 4}, "embed_dim = 6, got kdim = 4"),
        ({"vdim": 5}, "embed_dim = 6, got vdim = 5"),
        ({"add_bias_kv": True}, "add_bias_kv=False"),
        ({"add_zero_attn": True}, "add_zero_attn=False"),
    ],
)
def test_what_ours_has_not_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(6, 2, **options))
    with pytest.raises(TypeError, match="theirs: .*got Linear"):
        MultiHeadAttention.from_torch(nn.Linear(6, 6))


def test_masks_of_torch_mean_the_opposite():
    hidden = torch.tensor([[False, True, True], [False, False, True]])
    padded = torch.tensor([[False, False, True], [False, True, True]])
    assert mask_from_torch(num_heads=2) is None
    assert torch.equal(mask_from_torch(hidden, num_heads=2), ~hidden)
    assert torch.equal(mask_from_torch(None, padded, num_heads=2), ~padded[:, None])
    assert torch.equal(mask_from_torch(hidden, padded, num_heads=2), ~(hidden[None] | padded[:, None]))
    per_head = torch.arange(2 * 3 * 2 * 3).reshape(6, 2, 3) % 5 == 1  # B 2, H 3
    both = mask_from_torch(per_head, padded, num_heads=3)
    assert both.shape == (2, 3, 2, 3)
    for row in range(2):
        for head in range(3):
            assert torch.equal(both[row, head], ~(per_head[row * 3 + head] | padded[row]))


@pytest.mark.parametrize(
    ("masks", "error", "words"),
    [
        ((torch.zeros(2, 3), None), TypeError, "attn_mask: .*float32"),
        ((None, torch.zeros(2, 3)), TypeError, "key_padding_mask: .*float32"),
        ((torch.zeros(3, dtype=torch.bool), None), ValueError, r"attn_mask: .*2 or 3.*\(3,\)"),
        ((None, torch.zeros(1, 2, 3, dtype=torch.bool)), ValueError, r"key_padding_mask: .*\(1, 2, 3\)"),
    ],
)
def test_masks_of_torch_are_checked(masks, error, words):
    with pytest.raises(error, match=words):
        mask_from_torch(*masks, num_heads=2)


def test_heads_are_neighbouring_entries():
    x = torch.arange(12.0).reshape(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.tolist() == [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]]
    assert torch.equal(merge_heads(heads), x)


@given(leading=st.sampled_from([(), (2,), (2, 3)]), sizes=st.tuples(*[st.integers(1, 4)] * 3))
@few_examples
def test_merging_undoes_splitting(leading, sizes):
    num_positions, num_heads, d_head = sizes
    x = draw(*leading, num_positions, num_heads * d_head)
    heads = split_heads(x, num_heads)
    assert heads.shape == (*leading, num_heads, num_positions, d_head)
    assert torch.equal(merge_heads(heads), x)


def test_splitting_and_merging_check_their_input():
    with pytest.raises(ValueError, match=r"x: .*num_heads = 4.*\(2, 10\)"):
        split_heads(draw(2, 10), 4)
    with pytest.raises(ValueError, match=r"x: .*\(8,\)"):
        split_heads(draw(8), 4)
    with pytest.raises(ValueError, match="x: .*num_heads = 0"):
        split_heads(draw(2, 8), 0)
    with pytest.raises(ValueError, match=r"heads: .*\(2, 8\)"):
        merge_heads(draw(2, 8))


def copy_for_full_heads(grouped):
    """Full heads whose keys and values are those of the grouped heads, each repeated for its group."""
    full = make(grouped.w_q.in_features, grouped.num_heads, bias=grouped.w_q.bias is not None)
    copies = grouped.num_heads // grouped.num_kv_heads
    state = grouped.state_dict()
    for name, tensor in state.items():
        if name.startswith(("w_k", "w_v")):
            rows = tensor.reshape(grouped.num_kv_heads, 1, grouped.d_head, *tensor.shape[1:])
            state[name] = rows.expand(-1, copies, *rows.shape[2:]).reshape(-1, *tensor.shape[1:])
    full.load_state_dict(state)
    return full


@pytest.mark.parametrize("need_weights", [True, False])
@given(
    heads=st.sampled_from([(4, 2), (4, 1), (6, 3), (6, 2), (3, 3)]), bias=st.booleans(), masked=st.booleans()
)
@few_examples
def test_grouped_heads_equal_full_heads_with_copied_weights(need_weights, heads, bias, masked):
    num_heads, num_kv_heads = heads
    grouped = make(2 * num_heads, num_heads, num_kv_heads=num_kv_heads, bias=bias)
    assert grouped.w_k.out_features == grouped.w_v.out_features == 2 * num_kv_heads
    x, memory = draw(2, 3, 2 * num_heads), draw(2, 5, 2 * num_heads, seed=1)
    mask = causal_mask(3, 5) if masked else None
    received = grouped(x, memory, mask=mask, need_weights=need_weights)
    expected = copy_for_full_heads(grouped)(x, memory, mask=mask, need_weights=need_weights)
    assert_close(received.output, expected.output)
    if need_weights:
        assert_close(received.weights, expected.weights)


@pytest.mark.parametrize("need_weights", [True, False])
def test_each_answering_head_serves_neighbouring_queries(need_weights):
    attention = MultiHeadAttention(4, 4, num_kv_heads=2)
    with torch.no_grad():
        attention.w_v.weight.zero_()
        attention.w_v.bias.copy_(torch.tensor([10.0, 20.0]))
        attention.w_o.weight.copy_(torch.eye(4))
    output = attention(torch.zeros(1, 4), need_weights=need_weights).output
    assert output.tolist() == [[10.0, 10.0, 20.0, 20.0]]


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((10, 4), {}, "num_heads: .*d_model = 10, got 4"),
        ((12, 6), {"num_kv_heads": 4}, "num_kv_heads: .*num_heads = 6, got 4"),
        ((12, 2), {"num_kv_heads": 4}, "num_kv_heads: .*num_heads = 2, got 4"),
        ((0, 1), {}, "d_model: .*got 0"),
        ((4, 0), {}, "num_heads: .*got 0"),
        ((4, -2), {}, "num_heads: .*got -2"),
        ((4, 2), {"num_kv_heads": 0}, "num_kv_heads: .*got 0"),
        ((4, 2), {"dropout": 1.5}, "dropout: .*1.5"),
        ((4, 2), {"dropout": -0.5}, "dropout: .*-0.5"),
    ],
)
def test_sizes_must_divide(sizes, options, words):
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(*sizes, **options)


def test_parameters_start_as_in_torch():
    torch.manual_seed(0)
    ours, theirs = MultiHeadAttention(64, 4, num_kv_heads=2), nn.MultiheadAttention(64, 4)
    for name in ("w_q", "w_k", "w_v"):
        weight = getattr(ours, name).weight
        bound = math.sqrt(6 / 256)
        assert 0.98 * bound < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(theirs.in_proj_weight.std().item(), rel=0.05)
    assert 0.98 * math.sqrt(6 / 128) < ours.w_o.weight.abs().max() <= math.sqrt(6 / 128)
    assert all((getattr(ours, name).bias == 0).all() for name in PROJECTIONS)
    plain = MultiHeadAttention(6, 2, bias=False)
    assert [name for name, _ in plain.named_parameters()] == [f"{name}.weight" for name in PROJECTIONS]


class Fixed(nn.Module):
    """Self-attention that is always asked for its weights, or never."""

    def __init__(self, attention, need_weights):
        super().__init__()
        self.attention, self.need_weights = attention, need_weights

    def forward(self, x):
        return self.attention(x, need_weights=self.need_weights)


def test_weights_come_back_without_dropout():
    torch.manual_seed(0)
    attention, x = make(8, 2, dropout=0.5), draw(2, 6, 8)
    training = attention.train()(x)
    contracts.rows_sum_to_one(training.weights)
    for need_weights in (True, False):
        attention.train()
        first, second = (attention(x, need_weights=need_weights).output for _ in range(2))
        assert not torch.equal(first, second)
        contracts.eval_deterministic(Fixed(attention, need_weights), x)
    assert_close(training.weights, attention.eval()(x).weights)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_is_the_share_that_was_asked_for(need_weights):
    torch.manual_seed(0)
    attention = MultiHeadAttention(1, 1, dropout=0.25)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.w_v.bias.fill_(1.0)
        attention.w_o.weight.fill_(1.0)
    # One key, so that an output is 0 or 1 / (1 - 0.25).
    output = attention(torch.zeros(4000, 1, 1), need_weights=need_weights).output
    assert output.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert (output == 0).double().mean().item() == pytest.approx(0.25, abs=0.03)


def test_without_weights_the_fused_kernel_runs():
    attention, x = make(8, 2, dtype=torch.float32).eval(), draw(2, 5, 8, dtype=torch.float32)
    for mask in (None, causal_mask(5), padding_mask([3, 5])):
        with torch.profiler.profile() as profile:
            result = attention(x, mask=mask, need_weights=False)
        assert result.weights is None and result.scores is None
        names = {event.key for event in profile.key_averages()}
        assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names, names
        assert "aten::_softmax" not in names


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_a_mask_for_all_heads_equals_one_for_each(leading, need_weights):
    attention, x, memory = make(8, 4), draw(*leading, 3, 8), draw(*leading, 5, 8, seed=1)
    mask = draw(*leading, 3, 5, seed=2) > -0.3
    heads = mask.unsqueeze(-3).expand(*leading, 4, 3, 5)
    received = attention(x, memory, mask=mask, need_weights=need_weights)
    assert received.output.shape == (*leading, 3, 8)
    assert_close(received.output, attention(x, memory, mask=heads, need_weights=need_weights).output)
    if need_weights:
        assert received.weights.shape == received.scores.shape == (*leading, 4, 3, 5)
        contracts.rows_sum_to_one(received.weights, heads)


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_may_differ_from_head_to_head(need_weights):
    attention, x = make(8, 2), draw(3, 4, 8)
    one_head_empty = torch.ones(3, 2, 4, 4, dtype=torch.bool)
    one_head_empty[:, 1] = False
    with torch.no_grad():
        attention.w_o.weight.copy_(torch.eye(8))
        attention.w_o.bias.zero_()
    output = attention(x, mask=one_head_empty, need_weights=need_weights).output
    assert (output[..., 4:] == 0).all() and (output[..., :4] != 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_row_without_keys_has_finite_gradients(need_weights):
    attention = make(8, 2)
    with torch.no_grad():
        attention.w_o.bias.zero_()
    contracts.masked_rows_zero(
        lambda q, k, v, mask: attention(q, k, v, mask, need_weights=need_weights),
        *(draw(2, length, 8, seed=length) for length in (4, 5, 5)),
    )


def test_keeps_every_contract():
    for attention in (make(6, 2), make(6, 6, num_kv_heads=2, bias=False)):
        x, real = draw(3, 5, 6), padding_mask([5, 3, 1])[:, 0]
        contracts.permutation_equivariant(attention, x)
        contracts.batch_independent(attention, x)
        contracts.eval_deterministic(attention, x)
        contracts.causal(lambda x, attend=attention: attend(x, mask=causal_mask(5)), x)
        for tokens in (real, real.flip(1)):
            contracts.padding_blind(
                lambda x, attend=attention, tokens=tokens: attend(x, mask=tokens[:, None]), x, tokens
            )


def test_what_is_left_out_is_taken_from_what_is_there():
    attention, x, memory, value = make(6, 2), draw(2, 3, 6), draw(2, 5, 6, seed=1), draw(2, 5, 6, seed=2)
    assert torch.equal(attention(x).output, attention(x, x, x).output)
    assert torch.equal(attention(x, memory).output, attention(x, memory, memory).output)
    assert not torch.allclose(attention(x, memory).output, attention(x, memory, value).output)


def test_scores_are_divided_by_the_width_of_a_head():
    attention = make(8, 2, bias=False)
    x = draw(3, 8)
    result = attention(x)
    q, k = x @ attention.w_q.weight.T, x @ attention.w_k.weight.T
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        assert_close(result.scores[head], q[:, part] @ k[:, part].T / 2.0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_score_bias_is_added_to_the_scores(need_weights):
    attention, x = make(8, 2), draw(3, 5, 8)
    bias, mask = draw(2, 5, 5, seed=3), causal_mask(5)
    received = attention(x, mask=mask, score_bias=bias, need_weights=need_weights)
    plain = attention(x, mask=mask)
    weights = (plain.scores + bias).masked_fill(~mask, -math.inf).softmax(-1)
    heads = weights @ split_heads(attention.w_v(x), 2)
    assert_close(received.output, attention.w_o(merge_heads(heads)))


def shifted(heads, offset):
    """Stands in for rotary positions: each position multiplies its heads by a number of its own."""
    positions = torch.arange(offset, offset + heads.shape[-2], dtype=heads.dtype)
    return heads * (1.0 + 0.3 * positions)[:, None]


def test_rotate_turns_queries_and_keys_but_no_values():
    attention, x, memory = make(8, 4, num_kv_heads=2), draw(2, 3, 8), draw(2, 5, 8, seed=1)
    received = attention(x, memory, rotate=shifted)
    plain = attention(x, memory)
    factors = 1.0 + 0.3 * torch.arange(5, dtype=torch.float64)
    assert_close(received.scores, plain.scores * factors[:3, None] * factors)
    value = split_heads(attention.w_v(memory), 2).repeat_interleave(2, dim=1)
    assert_close(received.output, attention.w_o(merge_heads(received.weights @ value)))


@st.composite
def chunks(draw_from, total):
    lengths = []
    while sum(lengths) < total:
        lengths.append(draw_from(st.integers(1, total - sum(lengths))))
    return lengths


@given(data=st.data())
@few_examples
def test_cached_equals_uncached_for_any_split(data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    num_kv_heads = data.draw(st.sampled_from([1, 2, 4]))
    rotate = data.draw(st.sampled_from([None, shifted]))
    need_weights = data.draw(st.booleans())
    attention = make(8, 4, num_kv_heads=num_kv_heads, dtype=dtype)
    x = draw(2, 7, 8, dtype=dtype)
    bias = draw(4, 7, 7, seed=4, dtype=dtype)
    expected = attention(x, mask=causal_mask(7), rotate=rotate, score_bias=bias).output
    cache = LayerCache()
    for _ in range(2):
        outputs, start = [], 0
        for length in data.draw(chunks(7)):
            end = start + length
            result = attention(
                x[:, start:end],
                mask=causal_mask(length, end),
                rotate=rotate,
                score_bias=bias[:, start:end, :end],
                cache=cache,
                need_weights=need_weights,
            )
            assert cache.length == end
            outputs.append(result.output)
            start = end
        assert_close(torch.cat(outputs, dim=1), expected, dtype)
        cache.clear()  # the second round finds nothing of the first


def test_gradients_flow_through_a_cache():
    attention, x = make(8, 2), draw(2, 4, 8).requires_grad_()
    cache = LayerCache()
    pieces = [attention(x[:, i : i + 1], cache=cache).output for i in range(4)]
    whole = attention(x, mask=causal_mask(4)).output
    for mine, reference in zip(
        gradients(torch.cat(pieces, dim=1), [x], attention.parameters()),
        gradients(whole, [x], attention.parameters()),
        strict=True,
    ):
        assert_close(mine, reference)


def test_offset_of_the_rotation_is_the_length_of_the_cache():
    offsets = []

    def note(heads, offset):
        offsets.append(offset)
        return heads

    attention, cache = make(4, 2), LayerCache()
    for length in (6, 1, 1, 2):
        attention(draw(1, length, 4), rotate=note, cache=cache)
    assert offsets == [0, 0, 6, 6, 7, 7, 8, 8]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_type_follows_the_module(dtype):
    attention, cache = make(8, 2, dtype=dtype), LayerCache()
    result = attention(draw(2, 3, 8, dtype=dtype), cache=cache)
    assert isinstance(result, AttentionOutput)
    key, _ = cache.extend(draw(2, 2, 1, 4, dtype=dtype), draw(2, 2, 1, 4, dtype=dtype))
    assert result.output.dtype == result.weights.dtype == key.dtype == dtype


X = draw(2, 3, 8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X[..., :6],), r"query: .*d_model = 8.*\(2, 3, 6\)"),
        ((X[0, 0],), r"query: .*\(8,\)"),
        ((X, X[..., :6]), r"key: .*d_model = 8.*\(2, 3, 6\)"),
        ((X, X, X[..., :6]), r"value: .*d_model = 8.*\(2, 3, 6\)"),
        ((X, X, X[:, :2]), "value: .*S = 3.*got 2"),
        ((X, X, X, torch.ones(1, 2, 2, 3, 3, dtype=torch.bool)), r"mask: .*3 axes.*\(1, 2, 2, 3, 3\)"),
        ((X[None], X[None], X[None], torch.ones(2, 3, 3, dtype=torch.bool)), r"mask: .*4 axes.*\(2, 3, 3\)"),
        ((X, X, X, causal_mask(4)), r"mask: .*\(4, 4\)"),
    ],
)
def test_errors_name_the_argument(arguments, words):
    with pytest.raises(ValueError, match=words):
        make(8, 2)(*arguments)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(TypeError, match="mask: expected a boolean"):
        make(8, 2)(X, mask=torch.zeros(3, 3))
