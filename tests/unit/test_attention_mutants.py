"""Break the attention code line by line: the tests of test_attention.py must notice every time."""

import pytest

import attnlab.attention
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
MUTANTS = [
    ("query / math.sqrt(query.shape[-1])", "query"),
    ("query / math.sqrt(query.shape[-1])", "query / query.shape[-1]"),
    ("query / math.sqrt(query.shape[-1])", "query * math.sqrt(query.shape[-1])"),
    ("query / math.sqrt(query.shape[-1])", "query / math.sqrt(query.shape[-2])"),
    (
        "(query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)",
        "(query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1])",
    ),
    (
        "return AttentionOutput(dropped @ value, weights, scores)",
        "return AttentionOutput(dropped @ value, dropped, scores)",
    ),
    (
        "return AttentionOutput(dropped @ value, weights, scores)",
        "return AttentionOutput(weights @ value, weights, scores)",
    ),
    (
        "return AttentionOutput(dropped @ value, weights, scores)",
        "return AttentionOutput(dropped @ value, weights, weights)",
    ),
    ("F.dropout(weights, dropout_p)", "F.dropout(weights, 1 - dropout_p) * 2"),
    ("F.dropout(weights, dropout_p)", "weights * (1 - dropout_p)"),
    ("if dropout_p > 0.0 else weights", "if dropout_p > 0.5 else weights"),
    ("if not 0.0 <= dropout_p <= 1.0:", "if dropout_p < 0.0:"),
    ("if not 0.0 <= dropout_p <= 1.0:", "if dropout_p > 1.0:"),
    ("        return scores.softmax(dim=-1)\n", "        return scores.softmax(dim=-2)\n"),
    ("        return scores.softmax(dim=-1)\n", "        return scores.sigmoid()\n"),
    ("allowed.softmax(dim=-1)", "allowed.softmax(dim=-2)"),
    ("scores.masked_fill(~mask, -math.inf)", "scores.masked_fill(mask, -math.inf)"),
    ("scores.masked_fill(~mask, -math.inf)", "scores.masked_fill(~mask, -1e9)"),
    ("scores.masked_fill(~mask, -math.inf)", "scores.masked_fill(~mask, -10.0)"),
    ("scores.masked_fill(~mask, -math.inf)", "scores.masked_fill(~mask, 0.0)"),
    ("scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0.0)", "scores.masked_fill(~mask, -math.inf)"),
    ("allowed.softmax(dim=-1).masked_fill(empty, 0.0)", "allowed.softmax(dim=-1)"),
    (
        "empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)\n    # -inf",
        "empty = ~mask.all(dim=-1, keepdim=True)\n    # -inf",
    ),
    (
        "empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)\n    # -inf",
        "empty = ~mask.any(dim=-2, keepdim=True)\n    # -inf",
    ),
    (
        "empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)\n        if",
        "empty = ~mask.all(dim=-1, keepdim=True)\n        if",
    ),
    ("added = _with_four_axes(mask) | empty", "added = _with_four_axes(~mask) | empty"),
    ("added = _with_four_axes(mask) | empty", "added = None"),
    ("empty, added = None, _with_four_axes(mask)", "empty, added = None, None"),
    ("empty, added = None, _with_four_axes(mask)", "empty, added = None, _with_four_axes(~mask)"),
    ("if tensor.shape[:-2] != leading:", "if False:"),
    ("if len(above_one) > 1:", "if False:"),
    ("(1,) * (num_axes - len(shape)) + shape", "shape + (1,) * (num_axes - len(shape))"),
    ("above_one.pop() if above_one else 1", "max(sizes)"),
    ("        output = output.masked_fill(empty, 0.0)\n", "        pass\n"),
    ("attn_mask=added, dropout_p=dropout_p)", "attn_mask=None, dropout_p=dropout_p)"),
    ("attn_mask=added, dropout_p=dropout_p)", "attn_mask=added)"),
    ("tensor if tensor.ndim >= 4 else tensor[(None,) * (4 - tensor.ndim)]", "tensor"),
    ("if not need_weights:", "if False:"),
    ("if not tensor.is_floating_point():", "if False:"),
    ("if tensor.dtype != query.dtype:", "if False:"),
    ("if tensor.ndim < 2:", "if False:"),
    ("if query.shape[-1] == 0:", "if False:"),
    ("if key.shape[-1] != query.shape[-1]:", "if False:"),
    ("if value.shape[-2] != key.shape[-2]:", "if False:"),
    ("if joint is None:", "if False:"),
    ("if mask.dtype != torch.bool:", "if mask.is_floating_point():"),
    ("if mask.dtype != torch.bool:", "if mask.dtype == torch.long:"),
    ("if _broadcast(_shape(tensor), scores_shape) != scores_shape:", "if False:"),
    (
        "if _broadcast(_shape(tensor), scores_shape) != scores_shape:",
        "if _broadcast(_shape(tensor), scores_shape) is None:",
    ),
    ("num_keys = num_queries if num_keys is None else num_keys", "num_keys = num_queries"),
    ("if number < 0:", "if False:"),
    ("offset = num_keys - num_queries if", "offset = num_queries - num_keys if"),
    ("offset = num_keys - num_queries if", "offset = 0 if"),
    (".tril(offset)", ".tril(-offset)"),
    (".tril(offset)", ".tril(offset - 1)"),
    (".tril(offset)", ".triu(offset)"),
    ("positions < counts[:, None]", "positions <= counts[:, None]"),
    ("positions < counts[:, None]", "positions >= counts[:, None]"),
    ("(positions < counts[:, None])[:, None, :]", "(positions < counts[:, None])"),
    ("if shortest < 0 or longest > max_len:", "if longest > max_len:"),
    ("if shortest < 0 or longest > max_len:", "if shortest < 0:"),
    ("if counts.ndim != 1 or counts.numel() == 0:", "if counts.ndim != 1:"),
    ("if counts.is_floating_point() or counts.is_complex()", "if counts.is_complex()"),
    ("max_len = longest if max_len is None else max_len", "max_len = longest"),
    ("d_k = d_model if d_k is None else d_k", "d_k = d_model"),
    ("d_v = d_k if d_v is None else d_v", "d_v = d_model if d_v is None else d_v"),
    ("self.w_k = nn.Linear(d_model, d_k, bias=bias)", "self.w_k = self.w_q"),
    ("self.w_v = nn.Linear(d_model, d_v, bias=bias)", "self.w_v = nn.Linear(d_model, d_v)"),
    ("self.w_q = nn.Linear(d_model, d_k, bias=bias)", "self.w_q = nn.Linear(d_model, d_k, bias=False)"),
    ("self.w_q(x), self.w_k(x), self.w_v(x), mask", "self.w_k(x), self.w_q(x), self.w_v(x), mask"),
    ("self.w_q(x), self.w_k(x), self.w_v(x), mask", "self.w_q(x), self.w_k(x), self.w_v(x), None"),
    ("mask, need_weights=need_weights\n", "mask\n"),
    ("if x.ndim < 2 or x.shape[-1] != d_model:", "if x.ndim < 2:"),
    ("if width < 1:", "if False:"),
    ("scores = scores + score_bias", "scores = scores - score_bias"),
    ("scores = scores + score_bias", "scores = scores * score_bias"),
    ("added = bias if added is None else torch.where(added, bias, -math.inf)", "pass"),
    ("torch.where(added, bias, -math.inf)", "torch.where(added, -math.inf, bias)"),
    ("torch.where(added, bias, -math.inf)", "added"),
    ("added = bias if added is None else", "added = bias if added is not None else"),
    ("if score_bias.dtype != query.dtype:", "if score_bias.dtype == torch.bool:"),
    ('_check_fits_scores("score_bias", score_bias, scores_shape)', "pass"),
]

ATTENTION = Mutants(attnlab.attention, "test_attention.py", keep=["AttentionOutput"])


def test_the_source_as_it_stands_passes():
    assert ATTENTION.first_failure(ATTENTION.source) is None


@pytest.mark.parametrize(("there", "slip"), MUTANTS, ids=[f"{number:02d}" for number in range(len(MUTANTS))])
def test_mutant_is_noticed(there, slip):
    ATTENTION.require_noticed(there, slip)
