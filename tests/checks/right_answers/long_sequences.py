"""Right answers of lesson 13, written in other ways than the references."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from attnlab import efficient
from attnlab.attention import causal_mask, scaled_dot_product_attention

# --- the online softmax -----------------------------------------------------------------------------------


def online_by_rows(tiles):
    maxima, totals = [], []
    for row in range(tiles[0].shape[0]):
        m, ell = -math.inf, 0.0
        for tile in tiles:
            for score in tile[row].tolist():
                if score > m:
                    m, ell = score, ell * math.exp(m - score) + 1.0
                elif score > -math.inf:
                    ell += math.exp(score - m)
        maxima.append([m])
        totals.append([ell])
    return torch.tensor(maxima), torch.tensor(totals)


def online_by_logarithms(tiles):
    m = tiles[0].new_full((tiles[0].shape[0], 1), -math.inf)
    log = m.clone()  # the logarithm of the whole sum
    for tile in tiles:
        m = torch.maximum(m, tile.max(dim=1, keepdim=True).values)
        log = torch.logaddexp(log, tile.logsumexp(dim=1, keepdim=True))
    return m, torch.where(m == -math.inf, torch.zeros_like(m), (log - m).exp())


def online_in_double(tiles):
    m = torch.cat([tile.double().amax(1, keepdim=True) for tile in tiles], 1)  # (B, number of tiles)
    ell = [
        (tile.double() - top[:, None].nan_to_num(neginf=0)).exp().sum(1)
        for tile, top in zip(tiles, m.T, strict=True)
    ]
    top = m.amax(1, keepdim=True)
    factors = (m - top.masked_fill(top == -math.inf, 0.0)).exp()
    return top.float(), (factors * torch.stack(ell, 1)).sum(1, keepdim=True).float()


# --- attention in tiles -----------------------------------------------------------------------------------


def chunked_by_the_library(query, key, value, grad, key_chunk):
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    output = efficient.chunked_attention(*leaves, causal=True, key_chunk=key_chunk)
    return output.detach(), *torch.autograd.grad(output, leaves, grad)


def chunked_by_autograd(query, key, value, grad, key_chunk):
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    mask = causal_mask(query.shape[1], key.shape[1])
    output = scaled_dot_product_attention(*leaves, mask).output
    return [output.detach(), *torch.autograd.grad(output, leaves, grad)]


def chunked_in_two_passes(query, key, value, grad, key_chunk):
    """First the maximum and the sum of every row in double precision, then everything else."""
    q, k, v, g = (
        x.double() / root
        for x, root in zip((query, key, value, grad), (query.shape[-1] ** 0.5, 1, 1, 1), strict=True)
    )
    T, S = q.shape[1], k.shape[1]
    allowed = torch.tril(torch.ones(T, S, dtype=torch.bool), S - T)
    tiles = list(torch.arange(S).split(key_chunk))
    scores = [torch.einsum("btd,bsd->bts", q, k[:, t]).masked_fill(~allowed[:, t], -1e300) for t in tiles]
    top = torch.stack([s.amax(-1, keepdim=True) for s in scores]).amax(0)
    terms = [(s - top).exp() * allowed[:, t] for s, t in zip(scores, tiles, strict=True)]
    total = sum(e.sum(-1, keepdim=True) for e in terms).clamp(min=1e-300)
    weights = [e / total for e in terms]
    output = sum(w @ v[:, t] for w, t in zip(weights, tiles, strict=True))
    less = (g * output).sum(-1, keepdim=True)
    slopes = [w * (g @ v[:, t].mT - less) for w, t in zip(weights, tiles, strict=True)]
    by_query = sum(z @ k[:, t] for z, t in zip(slopes, tiles, strict=True)) / query.shape[-1] ** 0.5
    by_key = torch.cat([z.mT @ q for z in slopes], dim=1)
    by_value = torch.cat([w.mT @ g for w in weights], dim=1)
    return output.float(), by_query.float(), by_key.float(), by_value.float()


# --- a sliding cache --------------------------------------------------------------------------------------


def step_one_by_one(query, key, value, cache, window):
    keys, values = cache if cache is not None else (key[:, :0], value[:, :0])
    outputs = []
    for t in range(query.shape[1]):
        keys, values = torch.cat([keys, key[:, t : t + 1]], 1), torch.cat([values, value[:, t : t + 1]], 1)
        keys, values = keys[:, -window:], values[:, -window:]
        scores = torch.einsum("bd,bsd->bs", query[:, t], keys) / query.shape[-1] ** 0.5
        outputs.append(torch.einsum("bs,bsv->bv", scores.softmax(-1), values))
    first = keys.shape[1] - min(keys.shape[1], window - 1)
    return torch.stack(outputs, 1), [keys[:, first:], values[:, first:]]


def step_by_the_library(query, key, value, cache, window):
    if cache is not None:
        key, value = torch.cat([cache[0], key], dim=1), torch.cat([cache[1], value], dim=1)
    output = efficient.sliding_window_attention(query, key, value, window)
    drop = max(key.shape[1] + 1 - window, 0)
    return output, (key[:, drop:].clone(), value[:, drop:].clone())


def step_with_a_band(query, key, value, cache, window):
    old = 0 if cache is None else cache[0].shape[1]
    if old:
        key, value = torch.cat([cache[0], key], dim=1), torch.cat([cache[1], value], dim=1)
    n, S = query.shape[1], key.shape[1]
    band = torch.ones(n, S).tril(old).triu(old - window + 1)
    scores = (query.double() @ key.double().mT) * query.shape[-1] ** -0.5
    weights = scores.exp() * band
    output = weights / weights.sum(-1, keepdim=True) @ value.double()
    kept = list(range(S))[max(0, S - window + 1) :]
    return output.to(value.dtype), (key[:, kept], value[:, kept])


# --- linear attention -------------------------------------------------------------------------------------


def linear_by_the_library(query, key, value):
    return efficient.causal_linear_attention(query, key, value, chunk=2)


def linear_by_a_matrix(query, key, value):
    q, k = (torch.where(x > 0, x + 1, x.exp()) for x in (query, key))
    weights = (q @ k.T).tril()
    return weights / weights.sum(dim=1, keepdim=True) @ value


def linear_by_cumulative_sums(query, key, value):
    q, k = F.elu(query.double()) + 1, F.elu(key.double()) + 1
    states = torch.einsum("td,tv->tdv", k, value.double()).cumsum(0)
    found = torch.einsum("td,tdv->tv", q, states) / torch.einsum("td,td->t", q, k.cumsum(0))[:, None]
    return found.float()


# --- a test for tiles -------------------------------------------------------------------------------------


def _wanted(query, key, value):
    return F.scaled_dot_product_attention(query.double(), key.double(), value.double())


def test_by_returning(attend):
    g = torch.Generator().manual_seed(3)
    q, k, v = (
        torch.randn(1, 4, 3, generator=g),
        torch.randn(1, 13, 3, generator=g),
        torch.randn(1, 13, 7, generator=g),
    )
    sharp = torch.cat([0.1 * q[:, :1], 100 * q[:, 1:]], dim=1)
    good = True
    for query, key in ((q, k), (2 * q, k.sort(dim=1).values), (sharp, k), (sharp, k.flip(1))):
        output = attend(query, key, v).double()
        good &= (
            bool(torch.isfinite(output).all()) and (output - _wanted(query, key, v)).abs().max().item() < 1e-3
        )
    return good


def test_by_loops(attend):
    g = torch.Generator().manual_seed(1)
    for size in (0.01, 1.0, 3.0, 30.0):
        for S in (1, 6, 9, 15):
            q = torch.randn(2, 3, 4, generator=g) * torch.tensor([size, 1.0, 40 * size])[:, None]
            k, v = torch.randn(2, S, 4, generator=g), torch.randn(2, S, 2, generator=g)
            torch.testing.assert_close(attend(q, k, v).double(), _wanted(q, k, v), rtol=0, atol=1e-3)


def test_one_row_at_a_time(attend):
    scores = torch.tensor(
        [[-100.0, -75, -50, -25, 0, 25, 50, 75, 100], [90, -90, 100, 0, 50, 95, 101, 99, 98.5]]
    )
    scores = torch.cat([scores, scores.flip(1) - 300, 0.01 * scores])
    value = torch.linspace(-1.0, 2.0, 27).view(1, 9, 3)
    query, key = torch.eye(6)[None] * 6**0.5, scores.T[None].contiguous()
    shares = scores.double().softmax(dim=1) @ value[0].double()
    output = attend(query, key, value)[0].double()
    assert not output.isnan().any() and (output - shares).abs().max() < 1e-3
    part = attend(query[:, :2], key * 0.9173, value)[0].double()
    assert torch.allclose(part, (0.9173 * scores[:2].double()).softmax(1) @ value[0].double(), atol=1e-4)


RIGHT = {
    "long_sequences.online_softmax": [online_by_rows, online_by_logarithms, online_in_double],
    "long_sequences.chunked_attention": [chunked_by_the_library, chunked_by_autograd, chunked_in_two_passes],
    "long_sequences.cached_step": [step_one_by_one, step_by_the_library, step_with_a_band],
    "long_sequences.causal_linear": [linear_by_the_library, linear_by_a_matrix, linear_by_cumulative_sums],
    "long_sequences.test_tiles": [test_by_returning, test_by_loops, test_one_row_at_a_time],
}
