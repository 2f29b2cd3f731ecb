"""Right answers to the exercises of lesson 3."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import contracts
from attnlab.attention import scaled_dot_product_attention
from attnlab.checks.ch03_query_key_value import references

# --- the function -----------------------------------------------------------------------------------------


def by_loops(query, key, value, mask=None):
    lead = query.shape[:-2]
    parts = (query, key, value) if mask is None else (query, key, value, mask.expand(*lead, *mask.shape[-2:]))
    flat = [part.reshape(-1, *part.shape[-2:]) for part in parts]
    outputs, weights = [], []
    for b in range(flat[0].shape[0]):
        for t in range(query.shape[-2]):
            row = torch.zeros(key.shape[-2])
            seen = [s for s in range(key.shape[-2]) if mask is None or bool(flat[3][b, t, s])]
            if seen:
                scores = torch.stack([flat[0][b, t].dot(flat[1][b, s]) for s in seen])
                row[seen] = (
                    torch.exp(scores / math.sqrt(key.shape[-1]))
                    / torch.exp(scores / math.sqrt(key.shape[-1])).sum()
                )
            weights.append(row)
            outputs.append((row[:, None] * flat[2][b]).sum(dim=0))
    shape = (*lead, query.shape[-2], -1)
    return torch.stack(outputs).reshape(shape), torch.stack(weights).reshape(shape)


def by_einsum(query, key, value, mask=None):
    scores = torch.einsum("...td,...sd->...ts", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf))
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True).clamp(min=-1e30))
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("...ts,...sv->...tv", weights, value), weights


def by_fused_call(query, key, value, mask=None):
    eye = torch.eye(key.shape[-2]).expand(*key.shape[:-1], key.shape[-2])
    everything = torch.cat([value, eye], dim=-1)
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    both = F.scaled_dot_product_attention(query, key, everything, attn_mask=mask)
    if mask is not None:
        both = both.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return both[..., : value.shape[-1]], both[..., value.shape[-1] :]


def scaled_first(query, key, value, mask=None):
    root = query.shape[-1] ** 0.25
    scores = (query / root) @ (key / root).transpose(-2, -1)
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num(0.0)
    return weights @ value, weights


def in_double(query, key, value, mask=None):
    output, weights, _scores = scaled_dot_product_attention(
        query.double(), key.double(), value.double(), mask
    )
    return output.float(), weights.float()


def gives_double(query, key, value, mask=None):
    return references.attention(query.double(), key.double(), value.double(), mask)


def of_the_course(query, key, value, mask=None):
    result = scaled_dot_product_attention(query, key, value, mask)
    return [result.output, result.weights]


# --- the module -------------------------------------------------------------------------------------------


class _Own(nn.Module):
    """The names and sizes of the exercise; ``mix`` does the rest."""

    def __init__(self, d_model, d_k, d_v, dropout=0.0):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(d_model, d_k, bias=False) for _ in range(2))
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.dropout = dropout

    def drop(self, weights):
        return F.dropout(weights, self.dropout, training=self.training)


class ByEinsum(_Own):
    def forward(self, x, mask=None):
        _, weights = by_einsum(self.w_q(x), self.w_k(x), self.w_v(x), mask)
        return torch.einsum("bts,bsv->btv", self.drop(weights), self.w_v(x)), weights


class OwnDropout(_Own):
    def drop(self, weights):
        if not self.training or not self.dropout:
            return weights
        keep = torch.bernoulli(torch.full_like(weights, 1 - self.dropout))
        return weights * keep / (1 - self.dropout)

    def forward(self, x, mask=None):
        weights = by_loops(self.w_q(x), self.w_k(x), self.w_v(x), mask)[1]
        return self.drop(weights) @ self.w_v(x), weights


class Doubled(_Own):
    def forward(self, x, mask=None):
        q, k, v = (layer(x).double() for layer in (self.w_q, self.w_k, self.w_v))
        weights = scaled_dot_product_attention(q, k, v, mask).weights
        return (self.drop(weights) @ v).float(), weights.float()


class WeightsFirst(_Own):
    """Dropout on weights, the product with x before the projection: another order of the same product."""

    def forward(self, x, mask=None):
        _, weights = scaled_first(self.w_q(x), self.w_k(x), self.w_v(x), mask)
        return (self.drop(weights) @ x) @ self.w_v.weight.T, weights


# --- the repaired program ---------------------------------------------------------------------------------


def attend_by_einsum(x, w_q, w_k, w_v):
    scores = torch.einsum("btm,mk,nk,bsn->bts", x, w_q, w_k, x) / w_q.shape[1] ** 0.5
    return torch.einsum("bts,bsm,mv->btv", scores.softmax(-1), x, w_v)


def attend_fused(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def attend_by_loop(x, w_q, w_k, w_v):
    return torch.stack([by_loops(each @ w_q, each @ w_k, each @ w_v)[0] for each in x])


def attend_transposed(x, w_q, w_k, w_v):
    scores = (x @ w_k) @ (x @ w_q).mT / math.sqrt(w_k.shape[1])  # keys in rows: the softmax runs over them
    return scores.softmax(dim=1).mT @ (x @ w_v)


# --- a test that finds the bugs ---------------------------------------------------------------------------


def _inputs():
    g = torch.Generator().manual_seed(4)
    query, key, value = (torch.randn(2, n, d, generator=g) for n, d in ((3, 4), (6, 4), (6, 5)))
    mask = torch.rand(2, 3, 6, generator=g) < 0.6
    mask[:, 0], mask[:, 1, 0], mask[:, 1, 1] = False, True, False
    return query, key, value, mask


def judge_by_another_program(attention):
    """Compares everything with the loop above, and says yes or no instead of raising."""
    query, key, value, mask = _inputs()
    pairs = [
        (given, wanted)
        for inputs in ((query, key, value), (query, key, value, mask))
        for given, wanted in zip(attention(*inputs), by_loops(*inputs), strict=True)
    ]
    return all(bool(torch.allclose(given.to(wanted), wanted, atol=1e-5)) for given, wanted in pairs)


def judge_by_the_fused_call(attention):
    query, key, value, mask = _inputs()
    for extra in ((), (mask,)):
        for given, wanted in zip(
            attention(query, key, value, *extra), by_fused_call(query, key, value, *extra), strict=True
        ):
            assert (given - wanted).abs().max() < 1e-4


def judge_by_properties(attention):
    """What must be true of the weights, and one score read back from their logarithms."""
    query, key, value, mask = _inputs()
    contracts.rows_sum_to_one(attention(query, key, value, mask)[1], mask)
    output, weights = attention(query, key, value)
    contracts.rows_sum_to_one(weights)
    gaps = weights.double().log().diff(dim=-1)
    scores = (query @ key.mT).double() / 2  # the root of a width of four
    assert (gaps - scores.diff(dim=-1)).abs().max() < 1e-3
    assert torch.allclose(output.double(), (weights @ value.to(weights)).double(), atol=1e-4)


RIGHT = {
    "query_key_value.attention": [
        by_loops,
        by_einsum,
        by_fused_call,
        scaled_first,
        in_double,
        gives_double,
        of_the_course,
    ],
    "query_key_value.SelfAttention": [ByEinsum, OwnDropout, Doubled, WeightsFirst],
    "query_key_value.attend": [attend_by_einsum, attend_fused, attend_by_loop, attend_transposed],
    "query_key_value.test_attention": [
        judge_by_another_program,
        judge_by_the_fused_call,
        judge_by_properties,
    ],
}
