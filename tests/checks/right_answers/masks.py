"""Right answers of lesson 4, written in other ways than the references."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from attnlab import contracts
from attnlab.attention import causal_mask, padding_mask, scaled_dot_product_attention

# --- the masks of a translator ----------------------------------------------------------------------------


def masks_by_loops(source_lengths, target_lengths, num_source, num_target, num_queries, start=0):
    batch = len(source_lengths)
    encoder = torch.zeros(batch, num_source, num_source, dtype=torch.bool)
    decoder = torch.zeros(batch, num_queries, num_target, dtype=torch.bool)
    cross = torch.zeros(batch, num_queries, num_source, dtype=torch.bool)
    for b in range(batch):
        encoder[b, :, : source_lengths[b]] = True
        cross[b, :, : source_lengths[b]] = True
        for i in range(num_queries):
            decoder[b, i, : min(start + i + 1, int(target_lengths[b]))] = True
    return encoder, decoder, cross


def masks_of_the_course(source_lengths, target_lengths, num_source, num_target, num_queries, start=0):
    source = padding_mask(source_lengths, num_source)
    decoder = causal_mask(num_queries, num_target, offset=start) & padding_mask(target_lengths, num_target)
    return [source, decoder, source]


def masks_cut_out(source_lengths, target_lengths, num_source, num_target, num_queries, start=0):
    whole = torch.ones(num_target, num_target).tril()[start : start + num_queries]  # (T, num_target)
    target = torch.stack([(torch.arange(num_target) < n).float() for n in target_lengths])
    source = torch.stack([(torch.arange(num_source) < n).float() for n in source_lengths])
    decoder = torch.einsum("ts,bs->bts", whole, target) > 0
    ones = torch.ones(num_queries)
    return (
        torch.einsum("t,bs->bts", torch.ones(num_source), source).bool(),
        decoder,
        torch.einsum("t,bs->bts", ones, source).bool(),
    )


# --- attention under two masks ----------------------------------------------------------------------------


def attend_row_by_row(query, key, value, causal, padding):
    rows = []
    for b in range(query.shape[0]):
        for t in range(query.shape[1]):
            keys = (causal[t] & padding[b, 0]).nonzero().flatten()
            if len(keys):
                scores = key[b, keys] @ query[b, t] / math.sqrt(query.shape[-1])
                rows.append(scores.softmax(dim=0) @ value[b, keys])
            else:
                rows.append(query[b, t, 0] * 0 + key[b].sum() * 0 + value[b, 0] * 0)
    return torch.stack(rows).reshape(*query.shape[:2], value.shape[-1])


def attend_in_double(query, key, value, causal, padding):
    q, k, v = query.double(), key.double(), value.double()
    scores = torch.einsum("btd,bsd->bts", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~(causal & padding), -1e30).softmax(-1) * (causal & padding)
    return torch.einsum("bts,bsv->btv", weights, v).to(value.dtype)


def attend_fused(query, key, value, causal, padding):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=causal & padding)


def attend_of_the_course(query, key, value, causal, padding):
    return scaled_dot_product_attention(query, key, value, causal * padding).output


def attend_cleaned_weights(query, key, value, causal, padding):
    # Filled, not added: the way back through masked_fill gives zeros, so that no NaN arrives.
    scores = (query @ key.mT) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~causal, -math.inf).masked_fill(~padding, -math.inf).softmax(-1)
    return torch.nan_to_num(weights) @ value


def attend_lowest_filled(query, key, value, causal, padding):
    mask = torch.logical_and(causal, padding)
    scores = torch.matmul(query / math.sqrt(query.shape[-1]), key.transpose(1, 2))
    weights = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(dim=2)
    return (weights * mask.to(weights.dtype)) @ value


# --- which outputs depend on which inputs -----------------------------------------------------------------


def dependencies_by_jacobian(function, x):
    jacobian = torch.autograd.functional.jacobian(lambda x: function(x), x)  # (B, T', D', B, T, D)
    return (jacobian != 0).any(-1).any(3).any(2).any(0)


def dependencies_by_direction(function, x):
    leaf = x.detach().double().requires_grad_() if x.dtype == torch.float64 else x.clone().requires_grad_()
    output = function(leaf)
    rows = []
    for t in range(output.shape[1]):
        total = torch.tensor(0.0)
        if output.requires_grad:
            number = (output[:, t] * torch.randn(output[:, t].shape)).sum()
            (total,) = torch.autograd.grad(number, leaf, retain_graph=True, allow_unused=True)
        reached = torch.zeros(x.shape[1]) if total is None or total.dim() == 0 else total.abs().amax((0, 2))
        rows.append(reached > 0)
    return torch.stack(rows)


def dependencies_by_backward(function, x):
    num_outputs = function(x).shape[1]
    table = torch.zeros(num_outputs, x.shape[1], dtype=torch.bool)
    for t in range(num_outputs):
        for b in range(x.shape[0]):
            leaf = x.clone().requires_grad_()
            output = function(leaf)[b, t]
            if not output.requires_grad:
                continue
            for d in range(len(output)):
                leaf.grad = None
                output[d].backward(retain_graph=True)
                if leaf.grad is None:  # the function's own parameters, and no input
                    continue
                for j in range(x.shape[1]):
                    table[t, j] = table[t, j] or bool((leaf.grad[:, j] != 0).any())
    return table


# --- tests that find the leak -----------------------------------------------------------------------------


def judge_by_jacobian(attend):
    torch.manual_seed(1)
    x = torch.randn(2, 8, 3, dtype=torch.float64)
    real = torch.tensor([[True] * 8, [False] * 3 + [True] * 5])
    jacobian = torch.autograd.functional.jacobian(lambda x: attend(x, real), x)  # (B, T, D, B, T, D)
    seen = (jacobian != 0).any(dim=-1).any(dim=2)  # (B, T, B, T)
    wanted = torch.zeros_like(seen)
    for b in range(2):
        wanted[b, :, b] = real[b] & torch.ones(8, 8, dtype=torch.bool).tril()
    return bool((seen[real] == wanted[real]).all())


def judge_sequence_by_sequence(attend):
    g = torch.Generator().manual_seed(5)
    x = torch.randn(3, 10, 2, generator=g)
    real = torch.stack([torch.arange(10) >= 2, torch.arange(10) < 7, torch.arange(10) >= 5])
    for b in range(3):
        leaf = x.clone().requires_grad_()
        output = attend(leaf, real)[b].double()
        for t in real[b].nonzero().flatten().tolist():
            leaf.grad = None
            (output[t] * torch.tensor([0.7, -1.9])).sum().backward(retain_graph=True)
            found = leaf.grad.abs().sum(dim=2) > 0
            for j in range(10):
                assert found[b, j] == (real[b, j] and j <= t)
            found[b] = False
            assert not found.any()


def judge_by_changes(attend):
    """Without gradients: one input is changed, and the outputs are compared closely."""
    g = torch.Generator().manual_seed(2)
    x = torch.randn(2, 9, 3, generator=g, dtype=torch.float64)
    real = torch.ones(2, 9, dtype=torch.bool)
    real[0, :4] = False
    before = attend(x, real)
    for b in range(2):
        for j in range(9):
            changed = x.clone()
            changed[b, j] += torch.randn(3, generator=g, dtype=torch.float64)
            moved = (attend(changed, real) - before).abs().amax(-1) > 1e-9  # (B, T)
            wanted = torch.zeros_like(moved)
            wanted[b, j:] = real[b, j]
            if bool((moved != wanted)[real].any()):
                return False
    return True


def judge_with_contracts(attend):
    x = torch.randn(2, 10, 4, generator=torch.Generator().manual_seed(4))
    real = torch.arange(10) >= torch.tensor([[0], [4]])
    contracts.causal_by_gradient(lambda x: attend(x, torch.ones(x.shape[:2], dtype=torch.bool)), x)
    contracts.padding_blind(lambda x: attend(x, real), x, real)
    contracts.batch_independent(lambda x: attend(x, torch.ones(x.shape[:2], dtype=torch.bool)), x)
    leaf = x.clone().requires_grad_()
    for t in range(4, 10):
        (gradient,) = torch.autograd.grad(attend(leaf, real)[1, t].square().sum(), leaf)
        assert bool((gradient[1, 4 : t + 1] != 0).any(dim=-1).all())


RIGHT = {
    "masks.translator_masks": [masks_by_loops, masks_of_the_course, masks_cut_out],
    "masks.attend": [
        attend_row_by_row,
        attend_in_double,
        attend_fused,
        attend_of_the_course,
        attend_cleaned_weights,
        attend_lowest_filled,
    ],
    "masks.dependencies": [
        dependencies_by_jacobian,
        dependencies_by_direction,
        dependencies_by_backward,
    ],
    "masks.test_masking": [
        judge_by_jacobian,
        judge_sequence_by_sequence,
        judge_by_changes,
        judge_with_contracts,
    ],
}
