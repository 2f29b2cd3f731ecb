"""The layers against PyTorch's own: the norm, the sublayers, the encoder's and the decoder's layer."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab import contracts
from attnlab.attention import causal_mask, padding_mask
from attnlab.cache import LayerCache
from attnlab.layers import (
    DecoderLayer,
    DecoderLayerOutput,
    EncoderLayer,
    EncoderLayerOutput,
    FeedForward,
    PostNorm,
    PreNorm,
    layer_norm,
)

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
KINDS = ["encoder", "decoder"]
THEIRS = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}
few_examples = settings(max_examples=12, deadline=None, derandomize=True)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ours_of(kind):
    return EncoderLayer if kind == "encoder" else DecoderLayer


def fill(module):
    """Draw every parameter, so that no bias is zero and no norm's factor one."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(0.4 * draw(*parameter.shape, seed=100 + number))
    return module


def assert_close(received, expected, dtype=torch.float64):
    torch.testing.assert_close(received, expected, rtol=0, atol=TOLERANCE[dtype])


def assert_gradients_close(outputs, leaves, dtype=torch.float64):
    """The same gradients for pairs of leaves, up to the rounding of their size."""
    found = []
    for output, mine in zip(outputs, zip(*leaves, strict=True), strict=True):
        probe = (output * draw(*output.shape, seed=9, dtype=dtype)).sum()
        found.append(torch.autograd.grad(probe, mine))
    for received, expected in zip(*found, strict=True):
        scale = max(1.0, expected.abs().max().item())
        assert_close(received / scale, expected / scale, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    leading=st.sampled_from([(), (3,), (2, 3)]),
    width=st.integers(2, 9),
    eps=st.sampled_from([1e-5, 1e-2, 1.0]),
    learned=st.booleans(),
)
@few_examples
def test_layer_norm_equals_torch_in_value_and_gradient(dtype, leading, width, eps, learned):
    x = draw(*leading, width, dtype=dtype).requires_grad_()
    weight, bias = (draw(width, seed=seed, dtype=dtype).requires_grad_() for seed in (1, 2))
    given_to_both = (weight, bias) if learned else (None, None)
    ours = layer_norm(x, *given_to_both, eps)
    theirs = F.layer_norm(x, (width,), *given_to_both, eps)
    assert_close(ours, theirs, dtype)
    leaves = [x, weight, bias] if learned else [x]
    assert_gradients_close((ours, theirs), [(leaf, leaf) for leaf in leaves], dtype)


def test_layer_norm_worked_out_by_hand():
    # Mean 1/4, variance 3/16 (not 1/4, which division by 3 would give): the first entry is 0.75 / 0.4330.
    normed = layer_norm(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    torch.testing.assert_close(normed, torch.tensor([1.7320, -0.5773, -0.5773, -0.5773]), rtol=0, atol=1e-4)
    assert layer_norm(torch.full((4,), 3.0)).tolist() == [0.0] * 4
    # eps stands inside the root: 0.5 / sqrt(0.25 + 0.75).
    torch.testing.assert_close(layer_norm(torch.tensor([0.0, 1.0]), eps=0.75), torch.tensor([-0.5, 0.5]))


def test_layer_norm_of_a_constant_has_finite_gradients():
    contracts.gradients_finite(layer_norm, torch.full((2, 4), 3.0))


@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("gelu", F.gelu)])
@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward_is_two_maps_with_an_activation_between(activation, function, bias):
    network, x = fill(FeedForward(4, 7, activation=activation, bias=bias).double()), draw(2, 3, 4)
    inner = x @ network.w_1.weight.T + (network.w_1.bias if bias else 0.0)
    expected = function(inner) @ network.w_2.weight.T + (network.w_2.bias if bias else 0.0)
    assert_close(network(x), expected)
    assert len(list(network.parameters())) == (4 if bias else 2)


def test_feed_forward_starts_xavier_uniform_without_biases():
    torch.manual_seed(0)
    network = FeedForward(40, 60)
    for linear in (network.w_1, network.w_2):
        assert 0.95 * (6 / 100) ** 0.5 < linear.weight.abs().max() <= (6 / 100) ** 0.5
        assert (linear.bias == 0).all()


def test_feed_forward_drops_inner_entries_in_training_mode():
    torch.manual_seed(0)
    network = FeedForward(1, 4000, dropout=0.25)
    with torch.no_grad():
        network.w_1.bias.fill_(1.0)
        network.w_2.weight.fill_(1 / 4000)
    zeros = torch.zeros(1, 1)
    assert network(zeros).item() != pytest.approx(1.0, abs=1e-4)
    assert network(zeros).item() == pytest.approx(1.0, abs=0.05)
    assert network.eval()(zeros).item() == pytest.approx(1.0)


def test_where_the_norm_stands():
    x = draw(2, 3, 4)
    for wrapper in (fill(PreNorm(4, eps=0.5).double()), fill(PostNorm(4, eps=0.5).double())):
        if isinstance(wrapper, PreNorm):
            expected = x + 2.0 * wrapper.norm(x) + 1.0
        else:
            expected = wrapper.norm(3.0 * x + 1.0)
        assert_close(wrapper(x, lambda y: 2.0 * y + 1.0), expected)
        assert_close(wrapper.after(x, 2.0 * wrapper.before(x) + 1.0), expected)
        assert wrapper.norm.eps == 0.5
    assert [name for name, _ in PreNorm(4, bias=False).named_parameters()] == ["norm.weight"]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_drops_what_the_sublayer_gives_and_never_the_input(norm):
    torch.manual_seed(0)
    residual = (PreNorm if norm == "pre" else PostNorm)(8, dropout=0.75)
    residual.norm = nn.Identity()
    x = torch.ones(500, 8)
    summed = residual(x, lambda y: 2.0 * y)
    assert summed.unique().tolist() == [1.0, 9.0]
    assert (summed == 1.0).double().mean().item() == pytest.approx(0.75, abs=0.03)
    contracts.eval_deterministic(_Closed(residual), x)


class _Closed(nn.Module):
    def __init__(self, residual):
        super().__init__()
        self.residual = residual

    def forward(self, x):
        return self.residual(x, lambda y: 2.0 * y)


def pairs_of_parameters(ours, theirs):
    """Our parameters beside PyTorch's, without the attention's, whose parity is held elsewhere."""
    names = [("feed_forward.w_1", "linear1"), ("feed_forward.w_2", "linear2"), ("around_self.norm", "norm1")]
    if isinstance(ours, DecoderLayer):
        names += [("around_cross.norm", "norm2"), ("around_feed_forward.norm", "norm3")]
        names += [("cross_attention.w_o", "multihead_attn.out_proj")]
    else:
        names += [("around_feed_forward.norm", "norm2")]
    names += [("self_attention.w_o", "self_attn.out_proj")]
    mine, reference = dict(ours.named_parameters()), dict(theirs.named_parameters())
    return [
        (mine[f"{left}.{part}"], reference[f"{right}.{part}"])
        for left, right in names
        for part in ("weight", "bias")
        if f"{right}.{part}" in reference
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@few_examples
def test_layer_equals_torch_in_value_and_gradient(dtype, norm_first, kind, data):
    activation = data.draw(st.sampled_from(["relu", "gelu", F.gelu, nn.ReLU(), nn.GELU()]))
    bias, batch_first = data.draw(st.booleans()), data.draw(st.booleans())
    theirs = fill(
        THEIRS[kind](
            6, 2, 10, 0.0, activation, 1e-3, batch_first=batch_first, norm_first=norm_first, bias=bias
        ).to(dtype)
    )
    ours = ours_of(kind).from_torch(theirs)
    x, memory = (draw(3, length, 6, seed=length, dtype=dtype).requires_grad_() for length in (4, 7))
    causal, real, source = causal_mask(4), padding_mask([4, 2, 1], 4), padding_mask([5, 7, 1], 7)
    inputs = [x] if kind == "encoder" else [x, memory]
    masks = [causal & real] if kind == "encoder" else [causal & real, source]
    if kind == "encoder":
        hidden = {"src_mask": ~causal, "src_key_padding_mask": ~real[:, 0]}
    else:
        hidden = {"tgt_mask": ~causal, "tgt_key_padding_mask": ~real[:, 0]}
        hidden["memory_key_padding_mask"] = ~source[:, 0]
    leaves = [(tensor, tensor) for tensor in inputs] + pairs_of_parameters(ours, theirs)
    for need_weights in (False, True):
        received = ours(*inputs, *masks, need_weights=need_weights).output
        expected = theirs(*(tensor if batch_first else tensor.transpose(0, 1) for tensor in inputs), **hidden)
        expected = expected if batch_first else expected.transpose(0, 1)
        assert_close(received, expected, dtype)
        assert_gradients_close((received, expected), leaves, dtype)


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_of_the_attentions_inside_equal_torch(norm_first):
    theirs = fill(nn.TransformerDecoderLayer(6, 2, 10, 0.0, batch_first=True, norm_first=norm_first).double())
    ours = DecoderLayer.from_torch(theirs)
    x, memory, weight = draw(3, 4, 6), draw(3, 7, 6, seed=1), draw(3, 4, 6, seed=2)
    (ours(x, memory, causal_mask(4)).output * weight).sum().backward()
    (theirs(x, memory, tgt_mask=~causal_mask(4)) * weight).sum().backward()
    for mine, reference in (
        (ours.self_attention, theirs.self_attn),
        (ours.cross_attention, theirs.multihead_attn),
    ):
        for kind in ("weight", "bias"):
            received = [getattr(mine, name).get_parameter(kind).grad for name in ("w_q", "w_k", "w_v")]
            expected = reference.get_parameter(f"in_proj_{kind}").grad
            torch.testing.assert_close(torch.cat(received), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_copy_of_torch_is_a_copy(kind):
    theirs = THEIRS[kind](6, 2, 10, 0.25, dtype=torch.float64).eval()
    state = torch.get_rng_state()
    ours = ours_of(kind).from_torch(theirs)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(part.training for part in ours.modules())
    assert all(part.training for part in ours_of(kind).from_torch(theirs.train()).modules())
    assert all(
        parameter.dtype == torch.float64 and parameter.requires_grad for parameter in ours.parameters()
    )
    assert {part.p for part in ours.modules() if isinstance(part, nn.Dropout)} == {0.25}
    assert ours.self_attention.dropout == 0.25
    count = sum(parameter.numel() for parameter in theirs.parameters())
    assert sum(parameter.numel() for parameter in ours.parameters()) == count
    before = [parameter.clone() for parameter in ours.parameters()]
    fill(theirs)
    assert all(torch.equal(now, then) for now, then in zip(ours.parameters(), before, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_ours_has_not_is_refused(kind):
    with pytest.raises(TypeError, match=rf"theirs: expected an nn\.{THEIRS[kind].__name__}, got Linear"):
        ours_of(kind).from_torch(nn.Linear(2, 2))
    for activation in (F.silu, nn.GELU("tanh")):
        with pytest.raises(ValueError, match="theirs: expected an activation of ReLU or exact GELU"):
            ours_of(kind).from_torch(THEIRS[kind](6, 2, 10, activation=activation))
    theirs = THEIRS[kind](6, 2, 10, dropout=0.1)
    theirs.dropout2.p = 0.3
    with pytest.raises(ValueError, match=r"theirs: .*dropout.*\[0.1, 0.3\]"):
        ours_of(kind).from_torch(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_in_a_list_are_distinct_and_start_unequal(kind):
    torch.manual_seed(0)
    one, layers = ours_of(kind)(8, 2, 16), nn.ModuleList(ours_of(kind)(8, 2, 16) for _ in range(4))
    parameters = list(layers.parameters())
    count = sum(parameter.numel() for parameter in one.parameters())
    assert sum(parameter.numel() for parameter in parameters) == 4 * count
    assert len({parameter.data_ptr() for parameter in parameters}) == len(parameters)
    matrices = [parameter for parameter in parameters if parameter.ndim == 2]
    for number, matrix in enumerate(matrices):
        assert all(
            not torch.equal(matrix, other) for other in matrices[:number] if other.shape == matrix.shape
        )


def make_decoder(**options):
    return fill(DecoderLayer(6, 3, 10, **options).double())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_cross_attention_follows_the_memory_mask_and_not_the_targets(norm):
    layer, x, memory = make_decoder(norm=norm), draw(2, 4, 6), draw(2, 7, 6, seed=1)
    source = padding_mask([5, 7], 7)
    result = layer(x, memory, causal_mask(4), source, need_weights=True)
    assert isinstance(result, DecoderLayerOutput)
    assert result.self_weights.shape == (2, 3, 4, 4) and result.cross_weights.shape == (2, 3, 4, 7)
    contracts.rows_sum_to_one(result.self_weights, causal_mask(4))
    contracts.rows_sum_to_one(result.cross_weights, source[:, None])
    assert (result.cross_weights[1] > 0).all()  # the first target position sees the last source position
    contracts.padding_blind(
        lambda memory: layer(x, memory, causal_mask(4), source).output,
        memory,
        source[:, 0],
        compare=torch.ones(2, 4, dtype=torch.bool),
    )
    contracts.causal(lambda x: layer(x, memory, causal_mask(4), source).output, x)
    silent = layer(x, memory, causal_mask(4), source)
    assert silent.self_weights is None and silent.cross_weights is None
    assert_close(silent.output, result.output)


@pytest.mark.parametrize("norm", ["pre", "post"])
@given(cuts=st.sets(st.integers(1, 5)), masked=st.booleans())
@few_examples
def test_cached_decoder_equals_uncached_for_any_split(norm, cuts, masked):
    layer, x, memory = make_decoder(norm=norm), draw(2, 6, 6), draw(2, 7, 6, seed=1)
    source = padding_mask([5, 7], 7) if masked else None
    expected = layer(x, memory, causal_mask(6), source, need_weights=True)
    cache, memory_cache = LayerCache(), LayerCache()
    edges = [0, *sorted(cuts), 6]
    outputs = []
    for start, end in zip(edges, edges[1:], strict=False):
        result = layer(
            x[:, start:end],
            # What is held is not computed again: from the second call on, numbers that nobody reads.
            memory if start == 0 else torch.full_like(memory, torch.nan),
            causal_mask(end - start, end),
            source,
            cache=cache,
            memory_cache=memory_cache,
            need_weights=True,
        )
        assert (cache.length, memory_cache.length) == (end, 7)
        assert_close(result.cross_weights, expected.cross_weights[:, :, start:end])
        outputs.append(result.output)
    assert_close(torch.cat(outputs, dim=1), expected.output)


def test_a_memory_of_another_length_is_refused():
    layer, x, memory_cache = make_decoder(), draw(2, 1, 6), LayerCache()
    layer(x, draw(2, 7, 6), memory_cache=memory_cache)
    with pytest.raises(ValueError, match="memory_cache: .*S = 5 .*got 7"):
        layer(x, draw(2, 5, 6), memory_cache=memory_cache)


def double(heads, offset):
    return heads * (1.0 + offset + torch.arange(heads.shape[-2], dtype=heads.dtype))[:, None]


@pytest.mark.parametrize("norm", ["pre", "post"])
@given(cuts=st.sets(st.integers(1, 5)), num_kv_heads=st.sampled_from([1, 2, 4]))
@few_examples
def test_cached_encoder_layer_equals_uncached_for_any_split(norm, cuts, num_kv_heads):
    layer = fill(EncoderLayer(8, 4, 10, norm=norm, num_kv_heads=num_kv_heads).double())
    x, bias = draw(2, 6, 8), draw(4, 6, 6, seed=1)
    expected = layer(x, causal_mask(6), rotate=double, score_bias=bias, need_weights=True)
    assert isinstance(expected, EncoderLayerOutput) and expected.weights.shape == (2, 4, 6, 6)
    cache = LayerCache()
    edges = [0, *sorted(cuts), 6]
    for start, end in zip(edges, edges[1:], strict=False):
        result = layer(
            x[:, start:end],
            causal_mask(end - start, end),
            rotate=double,
            score_bias=bias[:, start:end, :end],
            cache=cache,
        )
        assert result.weights is None
        assert_close(result.output, expected.output[:, start:end])


def test_hooks_reach_the_attention():
    layer, x = fill(EncoderLayer(8, 4, 10, num_kv_heads=2).double()), draw(2, 6, 8)
    assert layer.self_attention.num_kv_heads == 2
    plain = layer(x).output
    for changed in ({"rotate": double}, {"score_bias": draw(4, 6, 6)}, {"mask": causal_mask(6)}):
        assert not torch.allclose(layer(x, **changed).output, plain)
    decoder = DecoderLayer(8, 4, 10, num_kv_heads=2)
    assert decoder.self_attention.num_kv_heads == decoder.cross_attention.num_kv_heads == 2


@pytest.mark.parametrize("kind", KINDS)
def test_options_reach_every_part(kind):
    layer = ours_of(kind)(8, 4, 10, dropout=0.25, norm="pre", activation="gelu", eps=0.5, bias=False)
    norms = [part for part in layer.modules() if isinstance(part, nn.LayerNorm)]
    assert len(norms) == (2 if kind == "encoder" else 3)
    assert {norm.eps for norm in norms} == {0.5}
    assert all("bias" not in name for name, _ in layer.named_parameters())
    assert {part.p for part in layer.modules() if isinstance(part, nn.Dropout)} == {0.25}
    attentions = [part for part in layer.modules() if hasattr(part, "num_heads")]
    assert [part.dropout for part in attentions] == [0.25] * (len(norms) - 1)
    assert layer.feed_forward.activation == "gelu" and layer.feed_forward.w_1.out_features == 10
    assert ours_of(kind).from_torch(THEIRS[kind](8, 4, 10)).around_self.norm.eps == 1e-5
    assert type(layer.around_self).__name__ == "PreNorm"
    assert type(ours_of(kind)(8, 4, 10).around_feed_forward).__name__ == "PostNorm"


def test_dropout_is_off_in_evaluation_and_on_in_training():
    x, memory = draw(2, 4, 8), draw(2, 7, 8, seed=1)
    for make, inputs in ((EncoderLayer, [x]), (DecoderLayer, [x, memory])):
        torch.manual_seed(0)
        layer = make(8, 2, 10, dropout=0.5)
        layer = layer.double().eval()
        assert torch.equal(layer(*inputs).output, layer(*inputs).output)
        layer.train()
        assert not torch.equal(layer(*inputs).output, layer(*inputs).output)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: EncoderLayer(8, 2, 10, norm="both"), "norm: expected one of pre, post, got 'both'"),
        (lambda: DecoderLayer(8, 2, 10, norm="both"), "norm: expected one of pre, post, got 'both'"),
        (lambda: EncoderLayer(10, 4, 10), "num_heads: .*d_model = 10, got 4"),
        (lambda: FeedForward(4, 0), "d_ff: .*got 0"),
        (lambda: FeedForward(0, 4), "d_model: .*got 0"),
        (lambda: FeedForward(4, 4, activation="tanh"), "activation: expected one of relu, gelu, got 'tanh'"),
        (lambda: FeedForward(4, 4, dropout=1.5), "dropout: .*1.5"),
        (lambda: PreNorm(4, dropout=-0.5), "dropout: .*-0.5"),
    ],
)
def test_errors_name_the_argument(build, words):
    with pytest.raises(ValueError, match=words):
        build()
