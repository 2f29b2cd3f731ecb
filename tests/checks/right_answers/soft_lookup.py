"""Right answers of lesson 2, written in other ways than the references."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.recurrent import AdditiveAttention

# --- a lookup by distance ---------------------------------------------------------------------------------


def lookup_by_loops(queries, keys, values, temperature):
    lead, (T, D), S = queries.shape[:-2], queries.shape[-2:], keys.shape[-2]
    answers, weights = [], []
    tables = zip(
        queries.reshape(-1, T, D),
        keys.reshape(-1, S, D),
        values.reshape(-1, S, values.shape[-1]),
        strict=True,
    )
    for table_queries, table_keys, table_values in tables:
        for q in table_queries:
            scores = torch.stack([-((q - k) ** 2).sum() / (2 * temperature) for k in table_keys])
            kernel = torch.exp(scores - scores.max())
            share = kernel / kernel.sum()
            weights.append(share)
            answers.append(sum(w * v for w, v in zip(share, table_values, strict=True)))
    return torch.stack(answers).reshape(*lead, T, -1), torch.stack(weights).reshape(*lead, T, S)


def lookup_by_products(queries, keys, values, temperature):
    scores = torch.einsum("...td,...sd->...ts", queries, keys) - keys.square().sum(-1)[..., None, :] / 2
    weights = torch.softmax(scores / temperature, dim=-1)
    return torch.einsum("...ts,...sv->...tv", weights, values), weights


def lookup_in_double(queries, keys, values, temperature):
    squared = torch.cdist(queries.double(), keys.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2
    logs = F.log_softmax(-squared / (2 * temperature), dim=-1)
    weights = logs.exp()
    return weights @ values.double(), weights


def lookup_fused(queries, keys, values, temperature):
    bias = -keys.square().sum(-1)[..., None, :] / (2 * temperature)
    bias = bias.expand(*queries.shape[:-1], keys.shape[-2])
    answers = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=bias.contiguous(), scale=1 / temperature
    )
    return answers, ((queries @ keys.mT) / temperature + bias).softmax(-1)


def lookup_by_logsumexp(queries, keys, values, temperature):
    scaled_queries, scaled_keys = queries / temperature**0.5, keys / temperature**0.5
    scores = -0.5 * (scaled_queries.unsqueeze(-2) - scaled_keys.unsqueeze(-3)).pow(2).sum(-1)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    return [weights.matmul(values), weights]


def lookup_least_taken_off(queries, keys, values, temperature):
    squared = ((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(-1)
    kernel = torch.exp((squared.min(dim=-1, keepdim=True).values - squared) / (2 * temperature))
    weights = kernel / kernel.sum(dim=-1, keepdim=True)
    return weights @ values, weights


# --- a lookup by distance as one by dot products ----------------------------------------------------------


def products_divided_by_the_root(queries, keys, temperature):
    root = math.sqrt(temperature)
    queries, keys = queries / root, keys / root
    return (
        torch.cat([queries, torch.ones(*queries.shape[:-1], 1)], -1),
        torch.cat([keys, -0.5 * (keys * keys).sum(-1, keepdim=True)], -1),
    )


def products_of_two_more(queries, keys, temperature):
    """The whole squared distance, the query's own part included."""
    one = torch.ones_like
    q, k = queries.norm(dim=-1, keepdim=True) ** 2, keys.norm(dim=-1, keepdim=True) ** 2
    new_queries = torch.cat([queries, -q / 2, one(q)], dim=-1) / temperature
    return new_queries, torch.cat([keys, one(k), -k / 2], dim=-1)


def products_in_squares(queries, keys, temperature):
    """Half of the square, number by number, in double width."""
    new_queries = torch.cat([queries, torch.full_like(queries, -0.5)], dim=-1).double()
    return new_queries, torch.cat([keys, keys**2], dim=-1).double() / temperature


def products_of_one_length(queries, keys, temperature):
    """With one number more than needed, which the queries do not read."""
    new = F.pad(keys, (0, 2))
    new[..., -1] = 1.7
    new[..., -2] = -torch.einsum("...d,...d->...", keys, keys) / 2
    asked = F.pad(F.pad(queries, (0, 1), value=1.0), (0, 1))
    return asked / temperature, new


# --- one step of a decoder that attends -------------------------------------------------------------------


class _Step(nn.Module):
    def __init__(self, d_token, d_state, d_key, d_hidden):
        super().__init__()
        self.w_query, self.w_key = (nn.Linear(width, d_hidden, bias=False) for width in (d_state, d_key))
        self.v = nn.Linear(d_hidden, 1, bias=False)
        self.cell = nn.GRUCell(d_token + d_key, d_state)


class StepStateByState(_Step):
    def forward(self, token, state, states):
        scores = [self.v(torch.tanh(self.w_query(state) + self.w_key(h))) for h in states.unbind(1)]
        weights = torch.softmax(torch.cat(scores, dim=1), dim=1)
        context = sum(weights[:, j : j + 1] * states[:, j] for j in range(states.shape[1]))
        return self.cell(torch.cat((token, context), 1), state), context, weights


class StepByEinsum(_Step):
    def forward(self, token, state, states):
        asked = torch.einsum("bd,hd->bh", state, self.w_query.weight)
        found = torch.einsum("bsd,hd->bsh", states, self.w_key.weight)
        scores = torch.einsum("bsh,h->bs", (asked.unsqueeze(1) + found).tanh(), self.v.weight[0])
        weights = scores.softmax(-1)
        context = torch.einsum("bs,bsd->bd", weights, states)
        return [self.cell(torch.cat([token, context], -1), state), context, weights]


class StepInDouble(_Step):
    def forward(self, token, state, states):
        pairs = torch.cat(
            [self.w_query(state)[:, None].expand(-1, states.shape[1], -1), self.w_key(states)], 2
        )
        first, second = pairs.double().chunk(2, dim=2)
        weights = F.softmax((first + second).tanh() @ self.v.weight.double().T, dim=1)  # (B, S, 1)
        context = (weights.mT @ states.double())[:, 0]
        new = self.cell(torch.hstack([token, context.float()]), state)
        return new, context.float(), weights[..., 0]


class StepGatesByHand(_Step):
    """The package's attention, loaded into it by name, and the GRU's gates written out."""

    def forward(self, token, state, states):
        attention = AdditiveAttention(state.shape[1], states.shape[2], self.v.in_features)
        for name in ("w_query", "w_key", "v"):
            setattr(attention, name, getattr(self, name))
        context, weights, _scores = attention(state[:, None], states)
        context, weights = context.squeeze(1), weights.squeeze(1)
        cell, read = self.cell, torch.cat([token, context], dim=-1)
        reset, update, fresh = (read @ cell.weight_ih.T + cell.bias_ih).chunk(3, dim=1)
        old_reset, old_update, old = (state @ cell.weight_hh.T + cell.bias_hh).chunk(3, dim=1)
        update = torch.sigmoid(update + old_update)
        fresh = torch.tanh(fresh + torch.sigmoid(reset + old_reset) * old)
        return update * state + (1 - update) * fresh, context, weights


# --- tests for any soft lookup ----------------------------------------------------------------------------


def judge_by_derivatives(look_up):
    """The weights are the derivatives of the answers with respect to the values."""
    torch.manual_seed(3)
    queries, keys = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 6, 4, dtype=torch.float64)
    values = torch.randn(2, 6, 2, dtype=torch.float64)
    by_value = torch.autograd.functional.jacobian(lambda v: look_up(queries, keys, v), values)
    weights = by_value[:, :, 0, :, :, 0]  # (B, T, B, S)
    own = torch.stack([weights[b, :, b] for b in range(2)])
    if (own <= 0).any() or (own.sum(-1) - 1).abs().max() > 1e-6:
        return False
    if weights[0, :, 1].any() or weights[1, :, 0].any():
        return False
    answers = look_up(queries, keys, values)
    if not torch.allclose(own @ values, answers):
        return False
    if not torch.allclose(look_up(queries, keys.flip(1), values.flip(1)), answers):
        return False
    by_query = torch.autograd.functional.jacobian(lambda q: look_up(q, keys, values), queries)
    for b in range(2):
        for t in range(3):
            mine = by_query[b, t].abs().sum(dim=0)  # (B, T, D)
            others = mine.sum(-1)
            if others[b, t] == 0 or others.sum() - others[b, t] > 1e-9:
                return False
    return True


def judge_by_unit_vectors(look_up):
    g = torch.Generator().manual_seed(8)
    queries, keys, values = (torch.randn(3, n, 2, generator=g) for n in (4, 6, 6))
    queries.requires_grad_()
    weights = look_up(queries, keys, torch.eye(6).repeat(3, 1, 1)).double()
    assert weights.min() > 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4).double(), atol=1e-5, rtol=1e-5)
    answers = look_up(queries, keys, values).double()
    torch.testing.assert_close(answers, weights @ values.double(), atol=1e-5, rtol=1e-4)
    for b in range(3):
        for t in range(4):
            one = look_up(queries[b, t].view(1, 1, 2), keys[b : b + 1], values[b : b + 1]).double()
            torch.testing.assert_close(one[0, 0], answers[b, t], atol=1e-5, rtol=1e-4)
    turned = look_up(queries, keys.roll(2, 1), values.roll(2, 1)).double()
    torch.testing.assert_close(turned, answers, atol=1e-5, rtol=1e-4)
    answers[..., 0].sum().backward()
    assert queries.grad is not None and queries.grad.abs().sum(-1).min() > 0


def judge_one_table_at_a_time(look_up):
    generator = torch.Generator().manual_seed(1)
    q, k = torch.randn(2, 2, 3, generator=generator), torch.randn(2, 4, 3, generator=generator)
    v = torch.randn(2, 4, 5, generator=generator)
    weights = torch.stack([look_up(q, k, 3.0 * torch.eye(4).expand(2, 4, 4))[:, t] for t in range(2)], 1) / 3
    answers = look_up(q, k, v)
    parts = torch.cat([look_up(q[b : b + 1, :], k[b : b + 1], v[b : b + 1]) for b in range(2)])
    first = look_up(q[:, :1], k, v)
    order = torch.randperm(4, generator=generator)
    leaf = q.clone().requires_grad_()
    output = look_up(leaf, k, v)
    return bool(
        (weights > 0).all()
        and ((weights.sum(-1) - 1).abs() < 1e-4).all()
        and ((answers - (weights.to(answers.dtype) @ v.to(answers.dtype))).abs() < 1e-4).all()
        and ((parts - answers).abs() < 1e-4).all()
        and ((first - answers[:, :1]).abs() < 1e-4).all()
        and ((look_up(q, k[:, order], v[:, order]) - answers).abs() < 1e-4).all()
        and output.requires_grad
        and (torch.autograd.grad((output**3).sum(), leaf)[0] != 0).any()
    )


RIGHT = {
    "soft_lookup.kernel_lookup": [
        lookup_by_loops,
        lookup_by_products,
        lookup_in_double,
        lookup_fused,
        lookup_by_logsumexp,
        lookup_least_taken_off,
    ],
    "soft_lookup.as_dot_products": [
        products_divided_by_the_root,
        products_of_two_more,
        products_in_squares,
        products_of_one_length,
    ],
    "soft_lookup.AttentiveStep": [StepStateByState, StepByEinsum, StepInDouble, StepGatesByHand],
    "soft_lookup.test_lookup": [judge_by_derivatives, judge_by_unit_vectors, judge_one_table_at_a_time],
}
