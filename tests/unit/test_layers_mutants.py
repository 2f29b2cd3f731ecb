"""Break the layers line by line: the tests of test_layers.py must notice every time."""

import pytest

import attnlab.layers.blocks
import attnlab.layers.sublayers
from tests.unit.mutants import Mutants

SUBLAYER_MUTANTS = [
    ("centred = x - x.mean(dim=-1, keepdim=True)", "centred = x"),
    ("centred = x - x.mean(dim=-1, keepdim=True)", "centred = x - x.mean()"),
    ("x.mean(dim=-1, keepdim=True)", "x.mean(dim=0, keepdim=True)"),
    ("centred.square().mean(dim=-1, keepdim=True)", "x.var(dim=-1, keepdim=True)"),
    ("centred.square().mean(dim=-1, keepdim=True)", "centred.square().sum(dim=-1, keepdim=True)"),
    ("centred.square().mean(dim=-1, keepdim=True)", "centred.square().mean()"),
    ("(variance + eps).sqrt()", "(variance.sqrt() + eps)"),
    ("(variance + eps).sqrt()", "variance.sqrt()"),
    ("(variance + eps).sqrt()", "(variance + 1e-5).sqrt()"),
    ("(variance + eps).sqrt()", "(variance + eps)"),
    ("normed if weight is None else normed * weight", "normed"),
    ("normed if bias is None else normed + bias", "normed"),
    ("normed if bias is None else normed + bias", "normed if bias is None else normed - bias"),
    ("            if width < 1:\n", "            if width < 0:\n"),
    ("if activation not in _ACTIVATIONS:", "if False:"),
    ("self.w_1 = nn.Linear(d_model, d_ff, bias=bias)", "self.w_1 = nn.Linear(d_model, d_ff)"),
    ("self.w_2 = nn.Linear(d_ff, d_model, bias=bias)", "self.w_2 = nn.Linear(d_ff, d_model)"),
    ("for linear in (self.w_1, self.w_2):", "for linear in (self.w_1,):"),
    ("            nn.init.xavier_uniform_(linear.weight)\n", ""),
    ("                nn.init.zeros_(linear.bias)\n", "                pass\n"),
    ("_ACTIVATIONS[self.activation](self.w_1(x))", "F.relu(self.w_1(x))"),
    ("_ACTIVATIONS[self.activation](self.w_1(x))", "self.w_1(x)"),
    ('"gelu": F.gelu', '"gelu": F.silu'),
    ("self.w_2(self.dropout(inner))", "self.w_2(inner)"),
    ("self.w_2(self.dropout(inner))", "self.dropout(self.w_2(inner))"),
    ("nn.LayerNorm(d_model, eps=eps, bias=bias)", "nn.LayerNorm(d_model, bias=bias)"),
    ("nn.LayerNorm(d_model, eps=eps, bias=bias)", "nn.LayerNorm(d_model, eps=eps)"),
    ("self.after(x, sublayer(self.before(x)))", "self.after(x, sublayer(x))"),
    ("self.after(x, sublayer(self.before(x)))", "self.after(self.before(x), sublayer(self.before(x)))"),
    ("summed: Tensor = x + self.dropout(y)", "summed: Tensor = self.dropout(y)"),
    ("summed: Tensor = x + self.dropout(y)", "summed: Tensor = x + y"),
    ("summed: Tensor = x + self.dropout(y)", "summed: Tensor = self.dropout(x + y)"),
    ("self.norm(x + self.dropout(y))", "x + self.norm(self.dropout(y))"),
    ("self.norm(x + self.dropout(y))", "self.norm(self.dropout(x + y))"),
    ("self.norm(x + self.dropout(y))", "self.norm(x + y)"),
    ("self.norm(x + self.dropout(y))", "self.norm(x) + self.dropout(y)"),
    ("if not 0.0 <= share <= 1.0:", "if False:"),
    ("return nn.Dropout(share)", "return nn.Dropout(1 - share)"),
    ("return nn.Dropout(share)", "return nn.Dropout(0.0)"),
]
# (what is there, what a slip would make of it); the first text stands exactly once in the source.
BLOCK_MUTANTS = [
    ('{"pre": PreNorm, "post": PostNorm}', '{"pre": PostNorm, "post": PreNorm}'),
    ("self.around_self.before(x),\n            mask=mask,", "x,\n            mask=mask,"),
    ("self.around_self.before(x),\n            mask=mask,", "self.around_self.before(x),"),
    ("            rotate=rotate,\n", ""),
    ("            score_bias=score_bias,\n", ""),
    ("            cache=cache,\n", ""),
    (
        "EncoderLayerOutput(self.around_feed_forward(x, self.feed_forward), attended.weights)",
        "EncoderLayerOutput(self.around_self(x, self.feed_forward), attended.weights)",
    ),
    (
        "EncoderLayerOutput(self.around_feed_forward(x, self.feed_forward), attended.weights)",
        "EncoderLayerOutput(self.feed_forward(x), attended.weights)",
    ),
    (
        "EncoderLayerOutput(self.around_feed_forward(x, self.feed_forward), attended.weights)",
        "EncoderLayerOutput(x, attended.weights)",
    ),
    (
        "self.around_self.before(x), mask=mask, cache=cache, need_weights=need_weights",
        "x, mask=mask, cache=cache, need_weights=need_weights",
    ),
    (
        "self.around_self.before(x), mask=mask, cache=cache, need_weights=need_weights",
        "self.around_self.before(x), mask=mask, need_weights=need_weights",
    ),
    (
        "self.around_self.before(x), mask=mask, cache=cache, need_weights=need_weights",
        "self.around_self.before(x), cache=cache, need_weights=need_weights",
    ),
    (
        "self.around_self.before(x), mask=mask, cache=cache, need_weights=need_weights",
        "self.around_self.before(x), mask=mask, cache=cache",
    ),
    ("            self.around_cross.before(x),\n", "            x,\n"),
    ("            self.around_cross.before(x),\n", "            self.around_self.before(x),\n"),
    ("            _not_yet_held(memory, memory_cache),\n", "            memory,\n"),
    ("            _not_yet_held(memory, memory_cache),\n", "            x,\n"),
    ("            mask=memory_mask,\n", ""),
    ("            mask=memory_mask,\n", "            mask=mask,\n"),
    ("            cache=memory_cache,\n", ""),
    ("            cache=memory_cache,\n", "            cache=cache,\n"),
    ("x = self.around_cross.after(x, crossed.output)", "x = self.around_cross.after(x, x)"),
    ("x = self.around_cross.after(x, crossed.output)", "x = crossed.output"),
    ("output = self.around_feed_forward(x, self.feed_forward)", "output = x"),
    ("(output, attended.weights, crossed.weights)", "(output, crossed.weights, attended.weights)"),
    ("(output, attended.weights, crossed.weights)", "(output, attended.weights, attended.weights)"),
    (
        "MultiHeadAttention.from_torch(theirs.multihead_attn)",
        "MultiHeadAttention.from_torch(theirs.self_attn)",
    ),
    ("(theirs.norm1, theirs.norm2, theirs.norm3)", "(theirs.norm1, theirs.norm3, theirs.norm2)"),
    ("(theirs.norm1, theirs.norm2))", "(theirs.norm2, theirs.norm1))"),
    ("    if norm not in _RESIDUALS:\n", "    if False:\n"),
    ("if cache is None or cache.length == 0:", "if True:"),
    ("if cache.length != memory.shape[-2]:", "if False:"),
    ("return memory[..., :0, :]", "return memory"),
    ("    if len(dropouts) > 1:\n", "    if False:\n"),
    ('"dropout": dropouts.pop(),', '"dropout": 0.0,'),
    ('"pre" if theirs.norm_first else "post"', '"post" if theirs.norm_first else "pre"'),
    ('        "activation": _activation_of(theirs),\n', ""),
    ('        "eps": theirs.norm1.eps,\n', ""),
    ('        "bias": linear.bias is not None,\n', ""),
    ("if activation is F.relu or isinstance(activation, nn.ReLU):", "if True:"),
    ("if activation is F.relu or isinstance(activation, nn.ReLU):", "if activation is F.relu:"),
    (' and activation.approximate == "none"', ""),
    ("part.to(weight.dtype).to_empty", "part.to_empty"),
    ("    ours.feed_forward.w_1.load_state_dict(theirs.linear1.state_dict())\n", ""),
    ("    ours.feed_forward.w_2.load_state_dict(theirs.linear2.state_dict())\n", ""),
    (
        "        residual.norm.load_state_dict(norm.state_dict())\n",
        "        nn.init.ones_(residual.norm.weight)\n",
    ),
    ("    if not isinstance(theirs, expected):\n", "    if False:\n"),
]
HEADS = "d_model, num_heads, num_kv_heads=num_kv_heads, dropout=dropout, bias=bias"
NETWORK = "FeedForward(d_model, d_ff, dropout=dropout, activation=activation, bias=bias)"
LAST = "self.around_feed_forward = residual(d_model, dropout=dropout, eps=eps, bias=bias)"
TWICE = [  # stand in both classes; the first place in one of them is broken
    (HEADS, HEADS.replace("num_kv_heads=num_kv_heads, ", "")),
    (HEADS, HEADS.replace("dropout=dropout, ", "")),
    (HEADS, HEADS.replace(", bias=bias", "")),
    (NETWORK, NETWORK.replace("activation=activation, ", "")),
    (NETWORK, NETWORK.replace("dropout=dropout, ", "")),
    (LAST, LAST.replace("eps=eps, ", "")),
    (LAST, LAST.replace("dropout=dropout, ", "")),
    (LAST, "self.around_feed_forward = self.around_self"),
    ("x = self.around_self.after(x, attended.output)", "x = self.around_self.after(x, x)"),
    ("x = self.around_self.after(x, attended.output)", "x = attended.output"),
    ('with torch.device("meta"):', "if True:"),
    ("return ours.train(theirs.training)", "return ours"),
    ("ours.self_attention = MultiHeadAttention.from_torch(theirs.self_attn)", "pass"),
]

SUBLAYERS = Mutants(attnlab.layers.sublayers, "test_layers.py")
BLOCKS = Mutants(attnlab.layers.blocks, "test_layers.py")


@pytest.mark.parametrize("room", [SUBLAYERS, BLOCKS], ids=["sublayers", "blocks"])
def test_the_source_as_it_stands_passes(room):
    assert room.first_failure(room.source) is None


@pytest.mark.parametrize(("there", "slip"), SUBLAYER_MUTANTS)
def test_mutant_of_a_sublayer_is_noticed(there, slip):
    SUBLAYERS.require_noticed(there, slip)


@pytest.mark.parametrize(("there", "slip"), BLOCK_MUTANTS)
def test_mutant_of_a_layer_is_noticed(there, slip):
    BLOCKS.require_noticed(there, slip)


@pytest.mark.parametrize("layer", ["EncoderLayer", "DecoderLayer"])
@pytest.mark.parametrize(("there", "slip"), TWICE)
def test_mutant_of_either_layer_is_noticed(layer, there, slip):
    before, start, body = BLOCKS.source.partition(f"class {layer}(nn.Module):")
    assert there in body
    found = BLOCKS.first_failure(before + start + body.replace(there, slip, 1))
    assert found is not None, f"no test notices {slip!r} for {there!r} in {layer}"
