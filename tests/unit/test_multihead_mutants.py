"""Break multi-head attention line by line: the tests of test_multihead.py must notice every time."""

import pytest

import attnlab.multihead
from tests.unit.mutants import Mutants

BOTH_REPEATED = "k, v = k.repeat_interleave(copies, dim=-3), v.repeat_interleave(copies, dim=-3)"
MUTANTS = [
    ("if x.ndim < 2 or num_heads < 1", "if num_heads < 1"),
    ("or num_heads < 1 or", "or"),
    ("or x.shape[-1] % num_heads:", "or False:"),
    (
        "x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)",
        "x.reshape(*x.shape[:-1], x.shape[-1] // num_heads, num_heads).transpose(-1, -2)",
    ),
    ("return pieces.transpose(-3, -2)", "return pieces.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)"),
    ("if heads.ndim < 3:", "if False:"),
    ("heads.transpose(-3, -2).flatten(-2)", "heads.flatten(-3, -2)"),
    ("heads.transpose(-3, -2).flatten(-2)", "heads.permute(*range(heads.ndim - 3), -2, -1, -3).flatten(-2)"),
    ("num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads", "num_kv_heads = num_heads"),
    ("self.d_head = d_model // num_heads", "self.d_head = d_model // num_kv_heads"),
    ("self.w_q = nn.Linear(d_model, d_model, bias=bias)", "self.w_q = nn.Linear(d_model, d_model)"),
    ("self.w_o = nn.Linear(d_model, d_model, bias=bias)", "self.w_o = nn.Linear(d_model, d_model)"),
    ("self.w_o = nn.Linear(d_model, d_model, bias=bias)", "self.w_o = nn.Identity()"),
    ("self.w_k = nn.Linear(d_model, num_kv_heads", "self.w_k = nn.Linear(d_model, num_heads"),
    ("self.w_v = nn.Linear(d_model, num_kv_heads", "self.w_v = nn.Linear(d_model, num_heads"),
    ("        self.reset_parameters()\n", ""),
    ("6.0 / (4 * self.w_q.in_features)", "6.0 / (2 * self.w_q.in_features)"),
    ("nn.init.uniform_(projection.weight, -bound, bound)", "nn.init.zeros_(projection.weight)"),
    ("nn.init.xavier_uniform_(self.w_o.weight)", "nn.init.uniform_(self.w_o.weight, -bound, bound)"),
    ("nn.init.zeros_(projection.bias)", "pass"),
    ("key = query if key is None else key", "key = query"),
    ("value = key if value is None else value", "value = query if value is None else value"),
    ("value = key if value is None else value", "value = key"),
    ("        self._check_widths(query, key, value)\n", ""),
    ("heads_mask = None if mask is None else _mask_with_heads(mask, query.ndim)", "heads_mask = None"),
    ("heads_mask = None if mask is None else _mask_with_heads(mask, query.ndim)", "heads_mask = mask"),
    ("split_heads(self.w_q(query), self.num_heads)", "split_heads(self.w_k(query), self.num_heads)"),
    ("split_heads(self.w_k(key), self", "split_heads(self.w_k(value), self"),
    ("split_heads(self.w_v(value), self", "split_heads(self.w_v(key), self"),
    ("split_heads(self.w_v(value), self", "split_heads(self.w_k(value), self"),
    ("offset = 0 if cache is None else cache.length", "offset = 0"),
    ("q, k = rotate(q, offset), rotate(k, offset)", "q, k = rotate(q, offset), rotate(k, 0)"),
    ("q, k = rotate(q, offset), rotate(k, offset)", "q, k = rotate(q, 0), rotate(k, offset)"),
    ("q, k = rotate(q, offset), rotate(k, offset)", "q = rotate(q, offset)"),
    ("q, k = rotate(q, offset), rotate(k, offset)", "q, k, v = (rotate(t, offset) for t in (q, k, v))"),
    ("            k, v = cache.extend(k, v)\n", "            cache.extend(k, v)\n"),
    ("            k, v = cache.extend(k, v)\n", "            v, k = cache.extend(k, v)\n"),
    ("copies = self.num_heads // self.num_kv_heads", "copies = self.num_kv_heads"),
    (BOTH_REPEATED, "k, v = k.repeat(1, copies, 1, 1), v.repeat(1, copies, 1, 1)"),
    (
        BOTH_REPEATED,
        BOTH_REPEATED.replace("v.repeat_interleave(copies, dim=-3)", "v.repeat(1, copies, 1, 1)"),
    ),
    (
        BOTH_REPEATED,
        BOTH_REPEATED.replace("k.repeat_interleave(copies, dim=-3)", "k.repeat(1, copies, 1, 1)"),
    ),
    ("score_bias=score_bias,\n            dropout_p", "dropout_p"),
    ("self.dropout if self.training else 0.0", "self.dropout"),
    ("self.dropout if self.training else 0.0", "0.0"),
    ("self.dropout if self.training else 0.0", "1 - self.dropout if self.training else 0.0"),
    ("            need_weights=need_weights,\n", ""),
    ("self.w_o(merge_heads(output)), weights, scores)", "merge_heads(output), weights, scores)"),
    ("self.w_o(merge_heads(output)), weights, scores)", "self.w_o(merge_heads(output)), scores, weights)"),
    ("self.w_o(merge_heads(output)), weights, scores)", "self.w_o(merge_heads(output)), weights, None)"),
    ("if tensor.ndim < 2 or tensor.shape[-1] != d_model:", "if tensor.ndim < 2:"),
    ("if tensor.ndim < 2 or tensor.shape[-1] != d_model:", "if tensor.shape[-1] != d_model:"),
    ("        _check_copyable(theirs)\n", ""),
    ('with torch.device("meta"):', "if True:"),
    ("                dropout=theirs.dropout,\n", ""),
    ("bias=theirs.in_proj_bias is not None,", "bias=True,"),
    ("ours.to(weight.dtype).to_empty", "ours.to_empty"),
    ("zip((ours.w_q, ours.w_k, ours.w_v), weight", "zip((ours.w_k, ours.w_q, ours.w_v), weight"),
    ("            ours.w_o.weight.copy_(theirs.out_proj.weight)\n", ""),
    ("ours.w_o.weight.copy_(theirs.out_proj.weight)", "ours.w_o.weight.copy_(theirs.out_proj.weight.T)"),
    ("(*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias)", "theirs.in_proj_bias.chunk(3) * 2"),
    ("return ours.train(theirs.training)", "return ours"),
    ("return ours.train(theirs.training)", "return ours.eval()"),
    ("        allowed = ~attn_mask\n", "        allowed = attn_mask\n"),
    ("real = ~key_padding_mask[:, None, :]", "real = key_padding_mask[:, None, :]"),
    ("real = ~key_padding_mask[:, None, :]", "real = ~key_padding_mask[:, :, None]"),
    ("allowed.reshape(-1, num_heads, *attn_mask.shape[1:])", "allowed[:, None]"),
    (
        "allowed.reshape(-1, num_heads, *attn_mask.shape[1:])",
        "allowed.reshape(num_heads, -1, *attn_mask.shape[1:]).transpose(0, 1)",
    ),
    ("allowed & (real if", "allowed | (real if"),
    ("real if allowed.ndim == 2 else real[:, None]", "real if allowed.ndim == 2 else real"),
    ("            return real\n", "            return None\n"),
    ("    if mask.dtype != torch.bool:", "    if False:"),
    ("    if mask.ndim not in axes:", "    if False:"),
    ("if mask.ndim <= 2 or mask.ndim == query_axes + 1:", "if mask.ndim == query_axes + 1:"),
    ("if mask.ndim <= 2 or mask.ndim == query_axes + 1:", "if mask.ndim <= 2:"),
    ("return mask.unsqueeze(-3)", "return mask.unsqueeze(-4)"),
    ("return mask.unsqueeze(-3)", "return mask"),
    ("    if mask.ndim == query_axes:\n", "    if mask.ndim != 99:\n"),
    ("        if size < 1:\n", "        if size < 0:\n"),
    ("    if d_model % num_heads:\n", "    if False:\n"),
    ("    if num_heads % num_kv_heads:\n", "    if False:\n"),
    ("    if num_heads % num_kv_heads:\n", "    if num_heads < num_kv_heads:\n"),
    ("if not 0.0 <= dropout <= 1.0:", "if dropout < 0.0:"),
    ("if not 0.0 <= dropout <= 1.0:", "if dropout > 1.0:"),
    ("    if not isinstance(theirs, nn.MultiheadAttention):\n", "    if False:\n"),
    ("        if width != theirs.embed_dim:\n", "        if False:\n"),
    ("if theirs.bias_k is not None or theirs.bias_v is not None:", "if False:"),
    ("    if theirs.add_zero_attn:\n", "    if False:\n"),
]

MULTIHEAD = Mutants(attnlab.multihead, "test_multihead.py")


def test_the_source_as_it_stands_passes():
    assert MULTIHEAD.first_failure(MULTIHEAD.source) is None


@pytest.mark.parametrize(("there", "slip"), MUTANTS, ids=[f"{number:02d}" for number in range(len(MUTANTS))])
def test_mutant_is_noticed(there, slip):
    MULTIHEAD.require_noticed(there, slip)
