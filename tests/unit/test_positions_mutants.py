"""Break the positions line by line: their tests must notice every time."""

import pytest

from attnlab.positions import alibi, rotary, tables
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
TABLES = [
    ("if length < 0:", "if False:"),
    ("    if d_model < 1:\n", "    if False:\n"),
    ("torch.arange(length, dtype=torch.float64", "torch.arange(1, length + 1, dtype=torch.float64"),
    ("position * 10_000.0 ** (-even / d_model)", "position.float() * 10_000.0 ** (-even / d_model).float()"),
    ("torch.arange(0, d_model, 2, dtype=torch.float64", "torch.arange(0, d_model, 2, dtype=torch.float32"),
    ("10_000.0 ** (-even / d_model)", "10_000.0 ** (even / d_model)"),
    ("10_000.0 ** (-even / d_model)", "10_000.0 ** (-even / 2 / d_model)"),
    ("10_000.0 ** (-even / d_model)", "1_000.0 ** (-even / d_model)"),
    ("10_000.0 ** (-even / d_model)", "10_000.0 ** (-even / (d_model + d_model % 2))"),
    ("table[:, 0::2] = angle.sin()", "table[:, 0::2] = angle.cos()"),
    ("table[:, 1::2] = angle[:, : d_model // 2].cos()", "table[:, 1::2] = angle[:, : d_model // 2].sin()"),
    (
        "table[:, 1::2] = angle[:, : d_model // 2].cos()",
        "table[:, 1::2] = angle[:, (d_model + 1) // 2 - d_model // 2 :].cos()",
    ),
    ("angle[:, : d_model // 2].cos()", "angle.cos()"),
    ("dtype=torch.get_default_dtype() if dtype is None else dtype", "dtype=torch.get_default_dtype()"),
    ("persistent=False)", "persistent=True)"),
    (
        'self.register_buffer("table", sinusoidal_positions(max_length, d_model), persistent=False)',
        "self.table = sinusoidal_positions(max_length, d_model)",
    ),
    ("if (before.dtype, before.device) != (now.dtype, now.device):", "if False:"),
    ("if (before.dtype, before.device) != (now.dtype, now.device):", "if before.dtype != now.dtype:"),
    ("if (before.dtype, before.device) != (now.dtype, now.device):", "if before.device != now.device:"),
    ("dtype=now.dtype, device=now.device)", "device=now.device)"),
    ("dtype=now.dtype, device=now.device)", "dtype=now.dtype)"),
    ("nn.Parameter(torch.empty(max_length, d_model))", "torch.empty(max_length, d_model)"),
    ("nn.Parameter(torch.empty(max_length, d_model))", "nn.Parameter(torch.empty(d_model, max_length))"),
    ("nn.init.normal_(self.table, std=0.02)", "nn.init.zeros_(self.table)"),
    ("nn.init.normal_(self.table, std=0.02)", "nn.init.normal_(self.table)"),
    ("        if size < 1:", "        if False:"),
    ("        if size < 1:", "        if size < 0:"),
    ("if embeddings.ndim < 2 or embeddings.shape[-1] != d_model:", "if embeddings.ndim < 2:"),
    ("if embeddings.ndim < 2 or embeddings.shape[-1] != d_model:", "if embeddings.shape[-1] != d_model:"),
    ("    if offset < 0:", "    if False:"),
    ("length = embeddings.shape[-2]", "length = embeddings.shape[0]"),
    ("if offset + length > max_length:", "if length > max_length:"),
    ("if offset + length > max_length:", "if offset + length >= max_length:"),
    ("if offset + length > max_length:", "if False:"),
    ("table[offset : offset + length]", "table[:length]"),
    ("table[offset : offset + length]", "table[offset : offset + 1]"),
    ("table[offset : offset + length]", "table[-length:]"),
]
ROTARY = [
    ("        _check_even(d_head)\n", ""),
    ("if max_length < 1:", "if max_length < 0:"),
    ("if not base > 0:", "if base < 0:"),
    ("if not base > 0:", "if base <= 0:"),
    ("base: float = 10_000.0", "base: float = 1_000.0"),
    ("self.base = d_head, max_length, float(base)", "self.base = d_head, max_length, 10_000.0"),
    ('self.register_buffer("cos", cos, persistent=False)', 'self.register_buffer("cos", cos)'),
    ('self.register_buffer("sin", sin, persistent=False)', "self.sin = sin"),
    ("if heads.ndim < 2 or heads.shape[-1] != self.d_head:", "if heads.ndim < 2:"),
    ("if heads.ndim < 2 or heads.shape[-1] != self.d_head:", "if heads.shape[-1] != self.d_head:"),
    ("if offset < 0:", "if False:"),
    ("length = heads.shape[-2]", "length = heads.shape[0]"),
    ("if offset + length > self.max_length:", "if length > self.max_length:"),
    ("if offset + length > self.max_length:", "if offset + length >= self.max_length:"),
    ("rows = slice(offset, offset + length)", "rows = slice(length)"),
    ("rows = slice(offset, offset + length)", "rows = slice(offset, offset + 1)"),
    (".to(heads.dtype)", ""),
    (
        "position * self.base ** (-even / self.d_head)",
        "position.float() * self.base ** (-even / self.d_head).float()",
    ),
    (
        "torch.arange(0, self.d_head, 2, dtype=torch.float64",
        "torch.arange(0, self.d_head, 2, dtype=torch.float32",
    ),
    ("self.base ** (-even / self.d_head)", "self.base ** (even / self.d_head)"),
    ("self.base ** (-even / self.d_head)", "self.base ** (-2 * even / self.d_head)"),
    ("self.base ** (-even / self.d_head)", "self.base ** (-even / 2 / self.d_head)"),
    ("position * self.base **", "self.base **"),
    ("dtype = torch.promote_types(dtype, torch.float32)", "pass"),
    ("dtype = torch.promote_types(dtype, torch.float32)", "dtype = torch.float32"),
    ("dtype = torch.promote_types(dtype, torch.float32)", "dtype = torch.float64"),
    ("angle.cos().to(device, dtype), angle.sin()", "angle.sin().to(device, dtype), angle.cos()"),
    ("if (before.dtype, before.device) != (self.cos.dtype, self.cos.device):", "if False:"),
    (
        "if (before.dtype, before.device) != (self.cos.dtype, self.cos.device):",
        "if before.dtype != self.cos.dtype:",
    ),
    ("self.cos, self.sin = self._tables(", "self.cos, _ = self._tables("),
    ("heads[..., 0::2], heads[..., 1::2]", "heads[..., 1::2], heads[..., 0::2]"),
    ("(even * cos - odd * sin, even * sin + odd * cos)", "(even * cos + odd * sin, odd * cos - even * sin)"),
    ("(even * cos - odd * sin, even * sin + odd * cos)", "(even * cos - odd * sin, even * sin - odd * cos)"),
    ("(even * cos - odd * sin, even * sin + odd * cos)", "(even * cos - odd * sin, odd * sin + even * cos)"),
    ("dim=-1)  # (..., T, D/2, 2)", "dim=-2)"),
    ("heads.chunk(2, dim=-1)", "heads.chunk(2, dim=-1)[::-1]"),
    ("heads.chunk(2, dim=-1)", "(heads[..., 0::2], heads[..., 1::2])"),
    (
        "(first * cos - second * sin, first * sin + second * cos)",
        "(first * cos + second * sin, second * cos - first * sin)",
    ),
    (
        "(first * cos - second * sin, first * sin + second * cos)",
        "(first * cos - second * sin, first * cos + second * sin)",
    ),
    ("torch.arange(d_head).view(-1, 2).T.flatten()", "torch.arange(d_head).view(2, -1).T.flatten()"),
    ("torch.arange(d_head).view(-1, 2).T.flatten()", "torch.arange(d_head)"),
    ("if d_head < 2 or d_head % 2:", "if d_head % 2:"),
    ("if d_head < 2 or d_head % 2:", "if d_head < 2:"),
]
ALIBI = [
    ("if num_heads < 1:", "if num_heads < 0:"),
    ("2 ** (num_heads.bit_length() - 1)", "2 ** num_heads.bit_length()"),
    ("2 ** (num_heads.bit_length() - 1)", "num_heads"),
    ("_geometric(2 * power)[0::2]", "_geometric(2 * power)[1::2]"),
    ("_geometric(2 * power)[0::2]", "_geometric(2 * power)"),
    ("_geometric(power) + _geometric(2 * power)[0::2]", "_geometric(2 * power)[0::2] + _geometric(power)"),
    ("2.0 ** (-8.0 * head / num_heads)", "2.0 ** (-8.0 / num_heads)"),
    ("2.0 ** (-8.0 * head / num_heads)", "2.0 ** (-head)"),
    ("2.0 ** (-8.0 * head / num_heads)", "2.0 ** (8.0 * head / num_heads)"),
    ("range(1, num_heads + 1)", "range(num_heads)"),
    ("torch.tensor(slopes[:num_heads], dtype=dtype, device=device)", "torch.tensor(slopes[:num_heads])"),
    ("torch.tensor(slopes[:num_heads], dtype=dtype, device=device)", "torch.tensor(slopes, dtype=dtype)"),
    ("num_keys = num_queries if num_keys is None else num_keys", "num_keys = num_queries"),
    ("if number < 0:", "if False:"),
    ("offset = num_keys - num_queries if offset is None else offset", "offset = offset or 0"),
    ("offset = num_keys - num_queries if offset is None else offset", "offset = num_keys - num_queries"),
    ("offset = num_keys - num_queries if offset", "offset = num_queries - num_keys if offset"),
    ("[:, None] + offset", "[:, None] - offset"),
    ("[:, None] + offset", "[:, None]"),
    ("-slopes[:, None, None]", "slopes[:, None, None]"),
    ("(query_at - key_at).abs()", "(query_at - key_at)"),
    ("(query_at - key_at).abs()", "(query_at - key_at).clamp(min=0)"),
    ("(query_at - key_at).abs()", "(query_at - key_at).square()"),
    ("alibi_slopes(num_heads, dtype=torch.float64", "alibi_slopes(num_heads, dtype=torch.float32"),
    ("torch.arange(num_keys, dtype=torch.float64", "torch.arange(num_keys, dtype=torch.bfloat16"),
    ("dtype=torch.get_default_dtype() if dtype is None else dtype", "dtype=torch.get_default_dtype()"),
]
ROOMS = {
    "tables": (Mutants(tables, "test_positions.py"), TABLES),
    "rotary": (Mutants(rotary, "test_positions_rotary.py"), ROTARY),
    "alibi": (Mutants(alibi, "test_positions_alibi.py"), ALIBI),
}


@pytest.mark.parametrize("room", ROOMS)
def test_the_source_as_it_stands_passes(room):
    mutants, _ = ROOMS[room]
    assert mutants.first_failure(mutants.source) is None


@pytest.mark.parametrize(
    ("room", "there", "slip"),
    [
        pytest.param(room, *mutant, id=f"{room}-{number:02d}")
        for room, (_, mutants) in ROOMS.items()
        for number, mutant in enumerate(mutants)
    ],
)
def test_mutant_is_noticed(room, there, slip):
    ROOMS[room][0].require_noticed(there, slip)
