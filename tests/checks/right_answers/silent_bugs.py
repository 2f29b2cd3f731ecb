"""Right answers of lesson 14, written in other ways than the references."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from attnlab.attention import causal_mask
from attnlab.training import token_loss

# --- the loss of micro-batches ----------------------------------------------------------------------------


def loss_by_ignoring(pieces, pad):
    total, number = torch.zeros(()), 0
    for logits, labels in pieces:
        flat = logits.reshape(-1, logits.shape[-1])
        total = total + F.cross_entropy(flat, labels.reshape(-1), ignore_index=pad, reduction="sum")
        number += int((labels != pad).sum())
    return total / max(number, 1)


def loss_by_the_library(pieces, pad):
    parts = [token_loss(logits, labels, pad=pad) for logits, labels in pieces]
    return sum(part.total for part in parts) / sum(part.num_tokens for part in parts).clamp(min=1)


def loss_of_all_rows(pieces, pad):
    real = torch.cat([logits[labels != pad] for logits, labels in pieces]).double()
    wanted = torch.cat([labels[labels != pad] for _, labels in pieces])
    if len(wanted) == 0:
        return sum(logits.sum() for logits, _ in pieces) * 0.0
    return (real.logsumexp(dim=-1) - real.gather(1, wanted[:, None])[:, 0]).mean().float()


def loss_place_by_place(pieces, pad):
    each = [torch.zeros(())]
    for logits, labels in pieces:
        for row, answers in zip(logits, labels.tolist(), strict=True):
            each += [-row[t].log_softmax(dim=0)[a] for t, a in enumerate(answers) if a != pad]
    return torch.stack(each).sum() / max(len(each) - 1, 1)


# --- what Adam does ---------------------------------------------------------------------------------------


def moves_by_torch(gradients, lr, clip, warmup):
    parameter = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.Adam([parameter], lr=lr, betas=(0.9, 0.98))
    moves = []
    for step, gradient in enumerate(gradients, start=1):
        before = parameter.item()
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        torch.nn.utils.clip_grad_norm_([parameter], clip)
        optimizer.param_groups[0]["lr"] = lr * min(1.0, step / warmup) if warmup else lr
        optimizer.step()
        moves.append(parameter.item() - before)
    return torch.tensor(moves)


def moves_by_sums(gradients, lr, clip, warmup):
    g = torch.tensor(gradients, dtype=torch.float64).clamp(-clip, clip)
    moves = []
    for n in range(1, len(g) + 1):
        back = torch.arange(n - 1, -1, -1, dtype=torch.float64)
        mean = (0.9**back * g[:n]).sum() / (0.9**back).sum()
        square = (0.98**back * g[:n] ** 2).sum() / (0.98**back).sum()
        moves.append(-lr * min(1.0, n / max(warmup, 1)) * mean / (square.sqrt() + 1e-8))
    return torch.stack(moves).float()


def moves_in_a_loop(gradients, lr, clip, warmup):
    m, v, moves = 0.0, 0.0, []
    for index, g in enumerate(gradients):
        g = g * min(1.0, clip / (abs(g) + 1e-12))
        m += 0.1 * (g - m)
        v += 0.02 * (g * g - v)
        rate = lr if index + 1 >= warmup else lr * (index + 1) / warmup
        m_hat, v_hat = m / (1 - 0.9 ** (index + 1)), v / (1 - 0.98 ** (index + 1))
        moves.append(-rate * m_hat / (math.sqrt(v_hat) + 1e-8))
    return torch.tensor(moves)


# --- the repaired program ---------------------------------------------------------------------------------


def _losses(weights, source, target, num_heads, attend):
    read, asked = target[:, :-1], target[:, 1:]
    memory = weights["source"][source] + weights["place"][: source.shape[1]]
    x = weights["target"][read] + weights["place"][: read.shape[1]]
    x = x + attend(x, x, causal_mask(read.shape[1])[None], num_heads)
    x = x + attend(x, memory, (source != 0)[:, None], num_heads)
    return x @ weights["output"], asked


def _fused(x, read, mask, num_heads):
    q, k = (y.unflatten(-1, (num_heads, -1)).transpose(1, 2) for y in (x, read))
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask[:, None]).transpose(1, 2).flatten(2)


def _by_einsum(x, read, mask, num_heads):
    q, k = (y.unflatten(-1, (num_heads, -1)) for y in (x, read))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(dim=-1)
    return torch.einsum("bhts,bshd->bthd", weights, k).flatten(2)


def _head_by_head(x, read, mask, num_heads):
    heads = []
    for q, k in zip(x.chunk(num_heads, dim=-1), read.chunk(num_heads, dim=-1), strict=True):
        scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
        heads.append(torch.softmax(scores - 1e9 * ~mask, dim=-1) @ k)
    return torch.cat(heads, dim=-1)


def _batch_loss(attend):
    def batch_loss(weights, pieces, num_heads):
        parts = [_losses(weights, source, target, num_heads, attend) for source, target in pieces]
        return loss_by_ignoring(parts, 0)

    return batch_loss


# --- the test ---------------------------------------------------------------------------------------------


def _inputs(heads, seed=0):
    g = torch.Generator().manual_seed(seed)
    x, read = torch.randn(3, 4, 6, generator=g), torch.randn(3, 7, 6, generator=g)
    real = torch.arange(7) < torch.tensor([[3], [5], [4]])
    return x, read, real, heads


def test_against_the_fused_function(attend):
    for heads in (1, 2, 3):
        x, read, real, _ = _inputs(heads)
        first, second = attend(x, read, real, heads), attend(x, read, real, heads)
        assert torch.equal(first, second)
        assert torch.allclose(first, _fused(x, read, real[:, None], heads), atol=1e-4)


def test_says_false(attend):
    x, read, real, heads = _inputs(2, seed=3)
    wanted = _by_einsum(x, read, real[:, None], heads)
    return all((attend(x, read, real, heads) - wanted).abs().max().item() < 1e-4 for _ in range(3))


def test_by_properties(attend):
    """No right answer is known here: values and weights follow from what attention must do."""
    x, read, real, heads = _inputs(2, seed=5)
    given = attend(x, read, real, heads)
    assert torch.equal(given, attend(x, read, real, heads))
    alone = torch.cat([attend(x[b : b + 1], read[b : b + 1], real[b : b + 1], heads) for b in range(3)])
    assert torch.allclose(alone, given, atol=1e-5)
    for b in range(3):
        kept = read[b : b + 1, real[b]]
        short = attend(x[b : b + 1], kept, torch.ones(1, kept.shape[1], dtype=torch.bool), heads)
        assert torch.allclose(short, given[b : b + 1], atol=1e-5)
    # One query, two keys, one of them zero: the share of the other is known.
    key = torch.zeros(1, 2, 6)
    key[0, 0] = 1.0
    both = torch.ones(1, 2, dtype=torch.bool)
    for heads, width in ((2, 3), (3, 2), (1, 6)):
        share = 1 / (1 + math.exp(-width / math.sqrt(width)))
        assert torch.allclose(attend(torch.ones(1, 1, 6), key, both, heads), torch.full((1, 1, 6), share))
    # Heads do not mix: each is attention of one head on its own dimensions.
    for h in range(2):
        part = slice(3 * h, 3 * h + 3)
        one = attend(x[..., part], read[..., part], real, 1)
        assert torch.allclose(one, attend(x, read, real, 2)[..., part], atol=1e-5)


RIGHT = {
    "silent_bugs.loss_of_pieces": [
        loss_by_ignoring,
        loss_by_the_library,
        loss_of_all_rows,
        loss_place_by_place,
    ],
    "silent_bugs.adam_moves": [moves_by_torch, moves_by_sums, moves_in_a_loop],
    "silent_bugs.test_attention": [test_against_the_fused_function, test_says_false, test_by_properties],
    "silent_bugs.batch_loss": [_batch_loss(_fused), _batch_loss(_by_einsum), _batch_loss(_head_by_head)],
}
