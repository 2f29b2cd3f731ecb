"""Right answers to the exercises of lesson 6."""

import math

import torch
from torch import nn

from attnlab import contracts, positions
from attnlab.positions import HalfSplitRotary, InterleavedRotary

# --- sinusoidal positions ---------------------------------------------------------------------------------


class ByExponential(nn.Module):
    """The usual way of tutorials: float32, the rates as an exponential, a buffer that is saved."""

    def __init__(self, d_model, max_length):
        super().__init__()
        table = torch.zeros(max_length, d_model)
        place = torch.arange(max_length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)[:, : d_model // 2]
        self.register_buffer("table", table.unsqueeze(0))

    def forward(self, x, offset=0):
        if offset + x.size(1) > self.table.size(1):
            raise ValueError("too long")
        return x + self.table[:, offset : offset + x.size(1)].type_as(x)


class ByLoops(nn.Module):
    """One number at a time, worked out when it is needed."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.max_length = max_length

    def forward(self, x, offset=0):
        result = x.clone()
        for t in range(x.shape[1]):
            if offset + t >= self.max_length:
                raise ValueError(f"place {offset + t} is past the end")
            for column in range(x.shape[2]):
                angle = (offset + t) / 10_000 ** ((column - column % 2) / x.shape[2])
                result[:, t, column] += math.cos(angle) if column % 2 else math.sin(angle)
        return result


class WiderAndCut(nn.Module):
    """The rates of the width that was asked for, one column cut; a frozen parameter in float64."""

    def __init__(self, d_model, max_length):
        super().__init__()
        column = torch.arange(d_model + d_model % 2)
        place = torch.arange(max_length).double()
        angle = torch.outer(place, 1 / 10_000.0 ** (2 * (column // 2).double() / d_model))
        table = torch.where(column % 2 == 0, angle.sin(), angle.cos())[:, :d_model]
        self.table = nn.Parameter(table, requires_grad=False)

    def forward(self, x, offset=0):
        places = torch.arange(offset, offset + x.shape[-2])
        if len(places) and places[-1] >= len(self.table):
            raise ValueError("max_length")
        return (x + self.table[places]).to(x.dtype)


class ByPhase(nn.Module):
    """A cosine is a sine a quarter turn ahead: one call for all columns, and no table at all."""

    def __init__(self, d_model, max_length):
        super().__init__()
        column = torch.arange(d_model)
        rate = torch.pow(10_000.0, -(column - column % 2) / d_model)
        self.register_buffer("rate", rate)
        self.register_buffer("phase", (column % 2) * math.pi / 2)
        self.max_length = max_length

    def forward(self, x, offset=0):
        stop = offset + x.shape[1]
        if stop > self.max_length:
            raise ValueError(f"offset + T = {stop} is more than max_length = {self.max_length}")
        place = torch.arange(offset, stop, dtype=torch.float32)
        return x + torch.sin(torch.einsum("t,d->td", place, self.rate) + self.phase)[None].to(x)


# --- rotary positions -------------------------------------------------------------------------------------


def by_loops(heads, positions, pairs):
    turned = heads.clone()
    D = heads.shape[-1]
    for i, (first, second) in enumerate(pairs.tolist()):
        angle = positions[:, None, :] * 10_000.0 ** (-2 * i / D)
        a, b = heads[..., first], heads[..., second]
        turned[..., first] = a * torch.cos(angle) - b * torch.sin(angle)
        turned[..., second] = a * torch.sin(angle) + b * torch.cos(angle)
    return turned


def by_complex_numbers(heads, positions, pairs):
    D = heads.shape[-1]
    rate = 1.0 / (10_000.0 ** (torch.arange(0, D, 2).float() / D))
    angle = positions[..., None].float() * rate
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    wide = heads.to(torch.promote_types(heads.dtype, torch.float32))
    both = torch.view_as_complex(wide[..., pairs].contiguous()) * turn
    order = pairs.flatten().argsort()
    return torch.view_as_real(both).flatten(-2)[..., order].to(heads.dtype)


def by_matrices(heads, positions, pairs):
    B, _, T, D = heads.shape
    matrix = torch.zeros(B, T, D, D, dtype=torch.float64)
    for i, (first, second) in enumerate(pairs.tolist()):
        angle = positions.double() / 10_000 ** (2 * i / D)
        matrix[:, :, first, first] = matrix[:, :, second, second] = angle.cos()
        matrix[:, :, first, second] = -angle.sin()
        matrix[:, :, second, first] = angle.sin()
    return torch.einsum("btij,bhtj->bhti", matrix, heads.double()).to(heads.dtype)


def by_rotate_half(heads, positions, pairs):
    """Sorted into halves, turned as in the code for Llama, and sorted back."""
    D = heads.shape[-1]
    order = pairs.T.flatten()
    halves = heads[..., order]
    rate = torch.exp(torch.arange(D // 2) * (-2 * math.log(10_000) / D))
    angle = (positions.unsqueeze(-1) * rate).unsqueeze(1).repeat(1, 1, 1, 2)
    a, b = halves.chunk(2, dim=-1)
    turned = halves * angle.cos() + torch.cat((-b, a), dim=-1) * angle.sin()
    return turned[..., order.argsort()].type_as(heads)


# --- from one layout to the other -------------------------------------------------------------------------


def weights_by_chunks(w_q, w_k, w_v, num_heads):
    def convert(weight):
        parts = [torch.cat((head[0::2], head[1::2])) for head in weight.chunk(num_heads)]
        return torch.cat(parts)

    return convert(w_q), convert(w_k), w_v.clone()


def weights_by_view(w_q, w_k, w_v, num_heads):
    def convert(w):
        return w.view(num_heads, -1, 2, w.shape[1]).transpose(1, 2).reshape(w.shape)

    return [convert(w_q), convert(w_k), w_v]


def weights_by_library(w_q, w_k, w_v, num_heads):
    d_head = len(w_q) // num_heads
    inside = positions.rotary_permutation(d_head)
    order = (torch.arange(num_heads)[:, None] * d_head + inside).flatten()
    return w_q[order], w_k[order], w_v


def weights_by_matrix(w_q, w_k, w_v, num_heads):
    d_head = len(w_q) // num_heads
    one = torch.zeros(d_head, d_head, dtype=torch.float64)
    for i in range(d_head // 2):
        one[i, 2 * i] = one[d_head // 2 + i, 2 * i + 1] = 1
    matrix = torch.block_diag(*[one] * num_heads)
    return matrix @ w_q.double(), matrix @ w_k.double(), w_v.double()


# --- ALiBi ------------------------------------------------------------------------------------------------


def _slopes_as_published(n):
    """Recursive, as in the code that came with the paper."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return _slopes_as_published(closest) + _slopes_as_published(2 * closest)[0::2][: n - closest]


def bias_as_published(num_heads, num_queries, num_keys):
    slopes = torch.tensor(_slopes_as_published(num_heads))
    query = torch.arange(num_keys)[-num_queries:, None]
    key = torch.arange(num_keys)[None, :]
    relative = -torch.abs(key - query)
    return slopes[:, None, None] * relative.unsqueeze(0).expand(num_heads, -1, -1)


def bias_by_loops(num_heads, num_queries, num_keys):
    power = 1
    while 2 * power <= num_heads:
        power *= 2
    bias = torch.zeros(num_heads, num_queries, num_keys)
    for h in range(num_heads):
        slope = 2 ** (-8 * (h + 1) / power) if h < power else 2 ** (-4 * (2 * (h - power) + 1) / power)
        for t in range(num_queries):
            for s in range(num_keys):
                bias[h, t, s] = -slope * abs(t + num_keys - num_queries - s)
    return bias


def bias_in_double(num_heads, num_queries, num_keys):
    return positions.alibi_bias(num_heads, num_queries, num_keys, dtype=torch.float64)


def bias_by_einsum(num_heads, num_queries, num_keys):
    slopes = positions.alibi_slopes(num_heads)
    distance = torch.cdist(
        torch.arange(num_keys - num_queries, num_keys).float()[:, None],
        torch.arange(num_keys).float()[:, None],
    )
    return torch.einsum("h,ts->hts", -slopes, distance)


# --- a test of rotary programs ----------------------------------------------------------------------------


def _scores(rotate, query, key, query_at, key_at):
    return (rotate(query, query_at).double() @ rotate(key, key_at).double().transpose(-2, -1)).float()


def test_by_contract(rotate):
    g = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 3, 2, 4, 6, generator=g)
    starts = torch.tensor([[0], [3], [9]])

    def at(heads, offset):
        return rotate(heads, torch.arange(heads.shape[-2]) + starts + offset)

    contracts.rotary_shift_invariant(at, query, key, shifts=(1, 100, 700), tolerance=1e-3)
    for item in range(3):
        alone = rotate(query[item : item + 1], torch.arange(4)[None] + starts[item])
        torch.testing.assert_close(alone, at(query, 0)[item : item + 1], atol=1e-4, rtol=1e-4)


def test_by_constant_vectors(rotate):
    """One vector everywhere: scores must be constant along diagonals, and not everywhere."""
    g = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=g)
    for start in (0, 90, 900):
        places = torch.arange(start, start + 6)[None]
        scores = _scores(rotate, q.expand(1, 1, 6, 8), k.expand(1, 1, 6, 8), places, places)[0, 0]
        if start == 0:
            first = scores
        assert torch.allclose(scores, first, atol=1e-3)
        assert torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-3)
        assert not torch.allclose(scores, scores[:1, :1].expand(6, 6), atol=1e-2)
    # Distances that are equal in one sequence and not in the other.
    heads = torch.randn(2, 2, 3, 4, generator=g)
    places = torch.tensor([[0, 1, 2], [5, 9, 30]])
    whole = rotate(heads, places)
    assert torch.allclose(whole[1:], rotate(heads[1:], places[1:]), atol=1e-3)
    later = torch.arange(3)[None] + torch.zeros(2, 1, dtype=torch.int64)
    assert not torch.allclose(rotate(heads, later), rotate(heads, later + 4), atol=1e-2)


def test_that_returns_a_verdict(rotate):
    g = torch.Generator().manual_seed(3)
    query, key = torch.randn(2, 2, 1, 5, 4, generator=g)
    at = torch.randint(0, 900, (2, 5), generator=g)
    near = _scores(rotate, query, key, at, at)
    far = _scores(rotate, query, key, at + 60, at + 60)
    mixed = _scores(rotate, query, key, at + torch.tensor([[0], [35]]), at)
    return bool(
        (near - far).abs().max() < 1e-3
        and (near[0] - mixed[0]).abs().max() < 1e-3
        and (near[1] - mixed[1]).abs().max() > 1e-2
    )


# The course's own modules, for the tests that hold them and the checks together.
LAYOUTS = {"interleaved": InterleavedRotary, "half_split": HalfSplitRotary}

RIGHT = {
    "positions.SinusoidalPositions": [ByExponential, ByLoops, WiderAndCut, ByPhase],
    "positions.rotate": [by_loops, by_complex_numbers, by_matrices, by_rotate_half],
    "positions.half_split_weights": [
        weights_by_chunks,
        weights_by_view,
        weights_by_library,
        weights_by_matrix,
    ],
    "positions.alibi_bias": [bias_as_published, bias_by_loops, bias_in_double, bias_by_einsum],
    "positions.test_rotary": [test_by_contract, test_by_constant_vectors, test_that_returns_a_verdict],
}
