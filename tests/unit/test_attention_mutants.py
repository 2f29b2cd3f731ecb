"""Break the attention code line by line: the tests of test_attention.py must notice every time."""

import importlib.util
import inspect
import itertools
import sys
import types
from pathlib import Path

import pytest

import attnlab.attention as attention

SOURCE = Path(attention.__file__).read_text(encoding="utf-8")
PUBLIC_FUNCTIONS = [name for name in attention.__all__ if name != "AttentionOutput"]

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
    ("_with_four_axes(~mask.any(dim=-1, keepdim=True))", "_with_four_axes(~mask.all(dim=-1, keepdim=True))"),
    ("mask = _with_four_axes(mask) | empty", "mask = _with_four_axes(~mask) | empty"),
    ("mask = _with_four_axes(mask) | empty", "mask = None"),
    ("        output = output.masked_fill(empty, 0.0)\n", "        pass\n"),
    ("attn_mask=mask, dropout_p=dropout_p)", "attn_mask=None, dropout_p=dropout_p)"),
    ("attn_mask=mask, dropout_p=dropout_p)", "attn_mask=mask)"),
    ("tensor[(None,) * max(0, 4 - tensor.ndim)]", "tensor"),
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
    ("if _broadcast(_shape(mask), scores_shape) != scores_shape:", "if False:"),
    (
        "if _broadcast(_shape(mask), scores_shape) != scores_shape:",
        "if _broadcast(_shape(mask), scores_shape) is None:",
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
]


def load_tests():
    """A private copy of the test module, whose names may be exchanged."""
    path = Path(__file__).with_name("test_attention.py")
    spec = importlib.util.spec_from_file_location("attention_tests_for_mutants", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def calls_of(function):
    """The arguments of every call that the parametrize marks of a test ask for."""
    axes = []
    for mark in getattr(function, "pytestmark", []):
        names = mark.args[0] if isinstance(mark.args[0], (list, tuple)) else (mark.args[0],)
        axes.append(
            [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in mark.args[1]]
        )
    for choice in itertools.product(*axes):
        yield {name: value for part in choice for name, value in part.items()}


def first_failure(source):
    """The name of the first test that fails on this source; None where all pass."""
    mutant = types.ModuleType("attention_mutant")
    exec(compile(source, "attention_mutant", "exec"), vars(mutant))
    mutant.AttentionOutput = attention.AttentionOutput  # isinstance must go on working
    for name in PUBLIC_FUNCTIONS:
        setattr(TESTS, name, getattr(mutant, name))
    functions = inspect.getmembers(TESTS, inspect.isfunction)
    for name, function in sorted(
        functions, key=lambda item: hasattr(item[1], "hypothesis")
    ):  # quick ones first
        if name.startswith("test_"):
            for arguments in calls_of(function):
                try:
                    function(**arguments)
                except (Exception, pytest.fail.Exception):
                    return name
    return None


TESTS = load_tests()


def test_the_source_as_it_stands_passes():
    assert first_failure(SOURCE) is None


@pytest.mark.parametrize(("there", "slip"), MUTANTS, ids=[f"{number:02d}" for number in range(len(MUTANTS))])
def test_mutant_is_noticed(there, slip):
    assert SOURCE.count(there) == 1, (
        f"the mutant's text stands {SOURCE.count(there)} times in the source: {there}"
    )
    assert first_failure(SOURCE.replace(there, slip)) is not None, f"no test notices {slip!r} for {there!r}"
