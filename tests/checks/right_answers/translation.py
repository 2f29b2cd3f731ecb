"""Right answers of lesson 9, written in other ways than the references."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checks.ch09_translation.loop import from_weights
from attnlab.checks.ch09_translation.project import Example
from attnlab.tasks import BOS, EOS, PAD
from attnlab.training import smoothed_targets, token_cross_entropy

# --- beam search ------------------------------------------------------------------------------------------


def beam_by_topk(next_log_probs, beam_size, max_length, length_penalty=0.0):
    """All in tensors: the ended stay in a list, the beginnings in one matrix."""
    rows, sums = torch.full((1, 1), BOS), torch.zeros(1)
    ended = []
    for _ in range(max_length):
        total = sums[:, None] + next_log_probs(rows)  # (N, V)
        best, place = total.flatten().topk(min(beam_size, total.numel()))
        best, place = best[best > -math.inf], place[best > -math.inf]
        rows = torch.cat([rows[place // total.shape[1]], (place % total.shape[1])[:, None]], dim=1)
        done = rows[:, -1] == EOS
        ended += list(zip(best[done], rows[done, 1:], strict=True))
        rows, sums = rows[~done], best[~done]
        if not len(rows):
            break
    candidates = ended or list(zip(sums, rows[:, 1:], strict=True))
    scores = [total / len(tokens) ** length_penalty for total, tokens in candidates]
    best_one = max(range(len(scores)), key=lambda i: scores[i].item())
    return candidates[best_one][1], scores[best_one]


def beam_one_beginning_at_a_time(next_log_probs, beam_size, max_length, length_penalty=0.0):
    """The model is asked for one beginning at a time; a heap keeps the best."""
    going, ended = [(0.0, (BOS,))], []
    while going and len(going[0][1]) <= max_length:
        options = []
        for so_far, tokens in going:
            row = next_log_probs(torch.tensor([tokens]))[0].double().tolist()
            options += [(so_far + p, (*tokens, v)) for v, p in enumerate(row) if p > -math.inf]
        kept = heapq.nlargest(beam_size, options)
        going = [text for text in kept if text[1][-1] != EOS]
        ended += [
            (total / (len(tokens) - 1) ** length_penalty, tokens)
            for total, tokens in kept
            if tokens[-1] == EOS
        ]
    if ended:
        score, tokens = max(ended)
    else:
        total, tokens = max(going)
        score = total / (len(tokens) - 1) ** length_penalty
    return list(tokens[1:]), score


def beam_that_stops_early(next_log_probs, beam_size, max_length, length_penalty=0.0):
    """Stops where nothing can change: by probability, once no beginning is likelier than the best text."""
    going, ended = {(): 0.0}, {}
    for n in range(1, max_length + 1):
        table = next_log_probs(torch.tensor([[BOS, *tokens] for tokens in going])).tolist()
        options = {
            (*tokens, v): so_far + p
            for (tokens, so_far), row in zip(going.items(), table, strict=True)
            for v, p in enumerate(row)
            if math.isfinite(p)
        }
        kept = dict(sorted(options.items(), key=lambda item: item[1], reverse=True)[:beam_size])
        ended |= {tokens: total / n**length_penalty for tokens, total in kept.items() if tokens[-1] == EOS}
        going = {tokens: total for tokens, total in kept.items() if tokens[-1] != EOS}
        if not going or (length_penalty == 0 and ended and max(ended.values()) >= max(going.values())):
            break
    found = ended or {tokens: total / len(tokens) ** length_penalty for tokens, total in going.items()}
    best = max(found, key=found.get)
    return best, torch.tensor(found[best])


def beam_in_numpy(next_log_probs, beam_size, max_length, length_penalty=0.0, *, wide=np.float64):
    """Sums and places are numpy's, and so are the numbers that are returned."""
    going, ended = [(wide(0), ())], []
    while going and len(going[0][1]) < max_length:
        rows = torch.tensor([[BOS, *map(int, tokens)] for _, tokens in going])
        table = next_log_probs(rows).numpy().astype(wide) + np.array([[total] for total, _ in going])
        kept = [
            (table.flat[i], (*going[i // table.shape[1]][1], i % table.shape[1]))
            for i in np.argsort(-table, axis=None, kind="stable")[:beam_size]
            if np.isfinite(table.flat[i])
        ]
        ended += [text for text in kept if text[1][-1] == EOS]
        going = [text for text in kept if text[1][-1] != EOS]
    best = max(ended or going, key=lambda text: text[0] / len(text[1]) ** length_penalty)
    return list(best[1]), best[0] / len(best[1]) ** length_penalty


# --- a test of greedy decoding ----------------------------------------------------------------------------


def _says(*rows):
    table = torch.zeros(len(rows), 8, 8)
    for number, row in enumerate(rows):
        for token, following in itertools.pairwise([BOS, *row]):
            table[number, token, following] = 5.0
    return table


def greedy_by_hand(greedy):
    assert greedy(_says([3, 4, 5, EOS, 6], [4, EOS, 6, 7], [5, 6, EOS, 3]), 6).tolist() == [
        [3, 4, 5, EOS],
        [4, EOS, PAD, PAD],
        [5, 6, EOS, PAD],
    ]
    assert greedy(_says([5, 6, 5], [4, EOS]), 3).tolist() == [[5, 6, 5], [4, EOS, PAD]]
    table = _says([3, EOS])
    table[:, :, [PAD, BOS]] = 9.0
    assert greedy(table, 4).tolist() == [[3, EOS]]


def greedy_by_properties(greedy):
    """Random tables; asks of each row what must be true of it."""
    g = torch.Generator().manual_seed(1)
    for _ in range(20):
        table = torch.randn(5, 7, 7, generator=g)
        table[:, :, [PAD, BOS]] += torch.rand((), generator=g) * 4
        limit = int(torch.randint(2, 7, (), generator=g))
        tokens = greedy(table, limit)
        if tokens.shape[0] != 5 or not 1 <= tokens.shape[1] <= limit:
            return False
        lengths = []
        for row, model in zip(tokens.tolist(), table, strict=True):
            last, wanted = BOS, []
            while len(wanted) < limit and last != EOS:
                last = 2 + int(model[last, 2:].argmax())
                wanted.append(last)
            lengths.append(len(wanted))
            if row != wanted[: len(row)] + [PAD] * (len(row) - len(wanted)) or len(row) < len(wanted):
                return False
        if tokens.shape[1] != max(lengths):
            return False
    return True


def greedy_against_one_row_at_a_time(greedy):
    tables = torch.stack(list(_says([4, 6, 3, EOS, 7], [7, EOS, 3, 5], [6, 5, 6], [3, 4, EOS])))
    tables[:, :, PAD], tables[:, :, BOS] = 6.0, 7.0
    together = greedy(tables, 5)
    assert together.shape == (4, 5)
    wanted = [[4, 6, 3, EOS, PAD], [7, EOS, PAD, PAD, PAD], [6, 5, 6, 5, 6], [3, 4, EOS, PAD, PAD]]
    for row, right in zip(together, wanted, strict=True):
        torch.testing.assert_close(row, torch.tensor(right))
    assert greedy(tables[:2], 9).shape == (2, 4)


# --- label smoothing --------------------------------------------------------------------------------------


class _Smoothing(nn.Module):
    def __init__(self, smoothing, pad=0):
        super().__init__()
        self.smoothing, self.pad = smoothing, pad


class OfTheLibrary(_Smoothing):
    """The library's shares, in double precision."""

    def forward(self, logits, targets):
        shares = smoothed_targets(targets, logits.shape[-1], pad=self.pad, label_smoothing=self.smoothing)
        log_p = logits.double().log_softmax(-1).masked_fill(shares == 0, 0.0)
        real = (targets != self.pad).sum()
        return (-(shares * log_p).sum() / real.clamp(min=1)).float()


class PlaceByPlace(_Smoothing):
    """A loop over the real places."""

    def forward(self, logits, targets):
        total, count = logits.masked_fill(logits.isinf(), 0.0).sum() * 0.0, 0
        for row, target in zip(logits.flatten(0, -2), targets.flatten().tolist(), strict=True):
            if target == self.pad:
                continue
            log_p = row - torch.logsumexp(row, dim=0)
            others = [v for v in range(len(row)) if v not in (self.pad, target)]
            total = total - (1 - self.smoothing) * log_p[target]
            total = total - self.smoothing / len(others) * log_p[others].sum()
            count += 1
        return total / max(count, 1)


class SumsOfLogits(_Smoothing):
    """Cross-entropy of the target, and the mean over the others from a sum without padding's column."""

    def forward(self, logits, targets):
        keep = targets != self.pad
        x, y = logits[keep], targets[keep]  # (N, V), (N,)
        without = torch.cat([x[:, : self.pad], x[:, self.pad + 1 :]], dim=1)  # (N, V - 1)
        whole = torch.logsumexp(x, dim=1)
        own = x.gather(1, y[:, None])[:, 0]
        others = whole - (without.sum(dim=1) - own) / (x.shape[1] - 2)
        each = (1 - self.smoothing) * (whole - own) + self.smoothing * others
        return each.sum() / max(len(y), 1)


class WithABuffer(nn.Module):
    """Shares by comparison, from numbers that the module keeps in buffers."""

    def __init__(self, smoothing, pad=0):
        super().__init__()
        self.register_buffer("smoothing", torch.tensor(smoothing, dtype=torch.float64))
        self.register_buffer("pad", torch.tensor(pad))

    def forward(self, logits, targets):
        tokens = torch.arange(logits.shape[-1])
        share = self.smoothing / (len(tokens) - 2)
        shares = torch.where(tokens == targets[..., None], 1 - self.smoothing, share)
        counted = (tokens != self.pad) & (targets != self.pad)[..., None]
        log_p = torch.where(counted, logits.double().log_softmax(-1), 0.0)
        real = (targets != self.pad).sum().clamp(min=1)
        return (torch.einsum("...v,...v->...", shares, log_p).sum() / -real).float()


# --- the training loop ------------------------------------------------------------------------------------


def loop_with_library_loss(weights, batches, lr, clip, warmup):
    model = from_weights(weights).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for step, (source, target) in enumerate(batches, start=1):
        optimizer.param_groups[0]["lr"] = lr * min(1.0, step / warmup)
        loss = token_cross_entropy(model(source, target[:, :-1]), target[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, model.state_dict()


def loop_with_scheduler(weights, batches, lr, clip, warmup):
    model = from_weights(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, foreach=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / warmup))
    losses = torch.zeros(len(batches))
    for number, (source, target) in enumerate(batches):
        asked = target[:, 1:].masked_fill(target[:, 1:] == PAD, -100)
        loss = F.cross_entropy(model(source, target[:, :-1]).mT, asked)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        norm = torch.cat([g.flatten() for g in grads]).norm()
        for g in grads:
            g.mul_((clip / (norm + 1e-6)).clamp(max=1.0))
        optimizer.step()
        schedule.step()
        losses[number] = loss.detach()
    return losses, dict(model.named_parameters())


def loop_over_real_places(weights, batches, lr, clip, warmup):
    model = from_weights(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for step, (source, target) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = lr * (step + 1) / warmup if step < warmup else lr
        optimizer.zero_grad()
        real = target[:, 1:] != PAD
        log_p = model(source, target)[:, :-1][real].double().log_softmax(-1)
        loss = -log_p.gather(-1, target[:, 1:][real][:, None]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
        optimizer.step()
        losses.append(loss.item())
    return tuple(losses), model.state_dict()


RIGHT = {
    "translation.beam_search": [
        *(beam_by_topk, beam_one_beginning_at_a_time, beam_that_stops_early, beam_in_numpy),
    ],
    "translation.test_greedy": [
        greedy_by_hand,
        greedy_by_properties,
        greedy_against_one_row_at_a_time,
    ],
    "translation.SmoothedLoss": [OfTheLibrary, PlaceByPlace, SumsOfLogits, WithABuffer],
    "translation.train": [loop_with_library_loss, loop_with_scheduler, loop_over_real_places],
    # A trained model takes longer than a test may: the solution's notebook, which is run by the tests of the
    # notebooks, hands one in. These translate without a model, each another pair.
    "translation.project": [Example(("en", "es")), Example(("de", "zh")), Example(("fr", "en"))],
}
