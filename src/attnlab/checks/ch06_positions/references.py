"""Right answers of lesson 6, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own positions are ``attnlab.positions``; the tests hold the two together. Angles are worked out in
float64 and the results rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

# What stands in the exponent of the base, from the even number 2i of each pair and the width.
_EXPONENTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "2i / width": lambda even, width: -even / width,
    "i / width": lambda even, width: -even / 2 / width,
    "4i / width": lambda even, width: -2 * even / width,
    "2i / next even width": lambda even, width: -even / (width + width % 2),
    "positive": lambda even, width: even / width,
}


def sinusoids(
    length: int,
    d_model: int,
    *,
    exponent: str = "2i / width",
    odd_columns: str = "cosine",
    order: str = "neighbours",
    last: str = "sine",
    first_place: int = 0,
) -> Tensor:
    """The table of sinusoidal positions ``(T, D)`` in float64."""
    place = torch.arange(length, dtype=torch.float64)[:, None] + first_place  # (T, 1)
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # (ceil(D/2),)
    angle = place * 10_000.0 ** _EXPONENTS[exponent](even, d_model)  # (T, ceil(D/2))
    own = place * 10_000.0 ** _EXPONENTS[exponent](even + 1, d_model)
    sine, cosine = {
        "cosine": (angle.sin(), angle.cos()),
        "sine": (angle.sin(), angle.sin()),
        "empty": (angle.sin(), torch.zeros_like(angle)),
        "cosine of its own angle": (angle.sin(), own.cos()),
        "swapped": (angle.cos(), angle.sin()),
    }[odd_columns]
    if d_model % 2 and last == "nothing":
        sine[:, -1] = 0.0
    if order == "halves":
        return torch.cat((sine, cosine[:, : d_model // 2]), dim=-1)  # (T, D)
    return torch.stack((sine, cosine), dim=-1).flatten(-2)[:, :d_model]  # (T, D)


class SinusoidalPositions(nn.Module):
    """Adds sinusoids to ``(B, T, D)``; the constructor's keywords turn mistakes on."""

    def __init__(
        self,
        d_model: int,
        max_length: int,
        *,
        offsets: str = "used",
        added: str = "along time",
        embeddings: str = "as they are",
        held: str = "buffer",
        limit: str = "offset + length",
        odd_width: str = "allowed",
        numbers: str = "kept",
        **switches: object,
    ) -> None:
        super().__init__()
        if d_model % 2 and odd_width == "refused":
            raise ValueError(f"d_model: {d_model} is odd")
        table = sinusoids(max_length, d_model, **switches).float()  # type: ignore[arg-type]
        if held == "parameter":
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table, persistent=False)
        self._max_length, self._offsets, self._added = max_length, offsets, added
        self._embeddings, self._limit, self._numbers = embeddings, limit, numbers

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """``x`` (B, T, D) with the rows of its places added."""
        length = x.shape[1]
        end = {
            "offset + length": offset + length,
            "length": length,
            "none": 0,
            "one less": offset + length + 1,
        }
        if end[self._limit] > self._max_length:
            raise ValueError(f"x: place {offset + length - 1} is past max_length={self._max_length}")
        start = offset if self._offsets == "used" else 0
        if self._added in ("first row", "last row"):
            rows = self.table[start + (length - 1 if self._added == "last row" else 0)]  # (D,)
        elif self._added == "along the batch":
            rows = self.table[start : start + x.shape[0], None]  # (B, 1, D)
        else:
            rows = self.table[start : start + length]  # (T, D)
        if self._numbers == "kept":
            rows = rows.to(x.dtype)
        if self._embeddings == "left out":
            return rows.expand(x.shape).clone()
        if self._embeddings == "scaled":
            return float(x.shape[-1] ** 0.5) * x + rows
        return x + rows  # (B, T, D)


def rotate(
    heads: Tensor,
    positions: Tensor,
    pairs: Tensor,
    *,
    exponent: str = "2i / width",
    width: str = "head",
    places: str = "given",
    turn: str = "forward",
    read: str = "given pairs",
    written: str = "in place",
    numbers: str = "kept",
) -> Tensor:
    """Heads ``(B, H, T, D)`` at positions ``(B, T)``, each pair of numbers ``(D/2, 2)`` turned."""
    B, H, T, D = heads.shape
    if places == "counted":
        positions = torch.arange(T).expand(B, T)
    elif places == "of the first sequence":
        positions = positions[:1].expand(B, T)
    elif places == "from one":
        positions = positions + 1
    even = torch.arange(0, D, 2, dtype=torch.float64)  # (D/2,)
    rate = 10_000.0 ** _EXPONENTS[exponent](even, H * D if width == "all heads" else D)
    angle = positions.double()[:, None, :, None] * rate  # (B, 1, T, D/2)
    if numbers == "angles rounded":
        angle = (positions.to(heads.dtype)[:, None, :, None] * rate.to(heads.dtype)).double()
    cos, sin = angle.cos(), angle.sin()
    if turn == "backward":
        sin = -sin
    if read == "neighbours":
        pairs = torch.arange(D).view(-1, 2)
    elif read == "halves":
        pairs = torch.arange(D).view(2, -1).T
    wide = heads.double()
    a, b = wide[..., pairs[:, 0]], wide[..., pairs[:, 1]]  # (B, H, T, D/2)
    first = a * cos + b * sin if turn == "both plus" else a * cos - b * sin
    second = (first if turn == "from the new first" else a) * sin + b * cos
    if turn == "reflected":
        second = a * sin - b * cos
    if written == "halves":
        out = torch.cat((first, second), dim=-1)
    elif written == "neighbours":
        out = torch.stack((first, second), dim=-1).flatten(-2)
    else:
        out = torch.empty_like(wide)
        out[..., pairs[:, 0]], out[..., pairs[:, 1]] = first, second
    if numbers == "promoted":
        return out.to(torch.promote_types(heads.dtype, torch.float32))
    return out.to(heads.dtype)


def half_split_weights(
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    num_heads: int,
    *,
    scope: str = "head",
    direction: str = "there",
    keys: str = "sorted",
    values: str = "kept",
    axis: str = "rows",
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights ``(H D, d_model)`` for interleaved pairs, sorted for half-split ones."""
    width = w_q.shape[0]
    if scope == "all heads":
        order = torch.arange(width).view(-1, 2).T.flatten()
    elif scope == "heads last":
        order = torch.arange(width).view(-1, 2, num_heads).transpose(0, 1).flatten()
    elif scope == "halves swapped":
        order = torch.arange(width).view(num_heads, -1, 2).transpose(1, 2).flip(1).flatten()
    else:
        order = torch.arange(width).view(num_heads, -1, 2).transpose(1, 2).flatten()
    if direction == "back":
        order = order.argsort()

    def sort(weight: Tensor) -> Tensor:
        return weight[order] if axis == "rows" else weight[:, order]

    return sort(w_q), sort(w_k) if keys == "sorted" else w_k, sort(w_v) if values == "sorted" else w_v


def alibi_slopes(num_heads: int, *, slopes: str = "paper", first: int = 1) -> Tensor:
    """One slope a head ``(H,)`` in float64."""
    power = 2 ** (num_heads.bit_length() - 1)
    near, far = _geometric(power, first), _geometric(2 * power, first)
    rest = num_heads - power
    chosen = {
        "paper": near + far[0::2][:rest],
        "formula for any number": _geometric(num_heads, first),
        "every other from the second": near + far[1::2][:rest],
        "next in the row": near + far[:rest],
        "larger power": far[:num_heads] if rest else near,
        "sorted": sorted(near + far[0::2][:rest], reverse=True),
        "halved each time": [2.0**-head for head in range(first, first + num_heads)],
    }
    return torch.tensor(chosen[slopes], dtype=torch.float64)


def _geometric(count: int, first: int) -> list[float]:
    return [2.0 ** (-8.0 * head / count) for head in range(first, first + count)]


def alibi_bias(
    num_heads: int,
    num_queries: int,
    num_keys: int,
    *,
    slopes: str = "paper",
    first: int = 1,
    distance: str = "both ways",
    sign: int = -1,
    queries_at: str = "end",
    future: str = "priced",
    axes: str = "queries, keys",
) -> Tensor:
    """What is added to the scores of each head ``(H, T, S)``; the last query meets the last key."""
    offset = num_keys - num_queries if queries_at == "end" else 0
    query_at = torch.arange(num_queries, dtype=torch.float64)[:, None] + offset  # (T, 1)
    key_at = torch.arange(num_keys, dtype=torch.float64)  # (S,)
    ahead = key_at > query_at  # (T, S)
    apart = query_at - key_at
    if distance == "both ways":
        apart = apart.abs()
    elif distance == "keys alone":
        apart = -key_at.expand(num_queries, num_keys)
    elif distance == "squared":
        apart = apart**2
    bias = sign * alibi_slopes(num_heads, slopes=slopes, first=first)[:, None, None] * apart  # (H, T, S)
    if future == "hidden":
        bias = bias.masked_fill(ahead, -torch.inf)
    elif future == "free":
        bias = bias.masked_fill(ahead, 0.0)
    return (bias if axes == "queries, keys" else bias.transpose(-2, -1)).float()


def rotate_by_distance(
    heads: Tensor,
    positions: Tensor,
    *,
    pairs: str = "neighbours",
    base: float = 10_000.0,
    places: str = "given",
    turn: str = "each pair",
    longest: int | None = None,
) -> Tensor:
    """A rotary program, called as ``rotate(heads, positions)``; its keywords make it wrong."""
    B, H, T, D = heads.shape
    if places == "counted":
        positions = torch.arange(T).expand(B, T)
    elif places == "of the first sequence":
        positions = positions[:1].expand(B, T)
    if longest is not None:
        positions = positions.clamp(max=longest - 1)
    even = torch.arange(0, D, 2, dtype=torch.float64)  # (D/2,)
    angle = positions.double()[:, None, :, None] * base ** (-even / D)  # (B, 1, T, D/2)
    cos, sin = angle.cos(), angle.sin()
    wide = heads.double()
    a, b = (wide[..., 0::2], wide[..., 1::2]) if pairs == "neighbours" else wide.chunk(2, dim=-1)
    if turn == "nothing":
        return heads.clone()
    if turn == "added":
        first, second = a + sin, b + cos
    elif turn == "both plus":
        first, second = a * cos + b * sin, a * sin + b * cos
    elif turn == "from the new first":
        first = a * cos - b * sin
        second = first * sin + b * cos
    elif turn == "tables of the other layout":
        angles = torch.cat((angle, angle), dim=-1)  # (B, 1, T, D)
        mine, other = angles[..., 0::2], angles[..., 1::2]
        first, second = a * mine.cos() - b * mine.sin(), b * other.cos() + a * other.sin()
    else:
        first, second = a * cos - b * sin, a * sin + b * cos
    joined = (
        torch.stack((first, second), dim=-1).flatten(-2)
        if pairs == "neighbours"
        else torch.cat((first, second), dim=-1)
    )
    return joined.to(heads.dtype)
