"""Right answers to the exercises of lesson 16."""

import functools

import torch

# --- rollout ----------------------------------------------------------------------------------------------


def by_loops(maps):
    L, B, _, T, _ = maps.shape
    flow = torch.zeros(B, T, T, dtype=maps.dtype)
    for b in range(B):
        rows = [[float(i == k) for k in range(T)] for i in range(T)]
        for layer in range(L):
            A = maps[layer, b].mean(dim=0).tolist()
            rows = [
                [sum((A[i][j] + (i == j)) / 2 * rows[j][k] for j in range(T)) for k in range(T)]
                for i in range(T)
            ]
        flow[b] = torch.tensor(rows, dtype=maps.dtype)
    return flow


def from_above(maps):
    flow = torch.eye(maps.shape[-1], dtype=maps.dtype).expand(maps.shape[1], -1, -1)
    for weights in reversed(maps):
        A = torch.einsum("bhts->bts", weights) / weights.shape[1]
        flow = 0.5 * flow @ A + 0.5 * flow
    return flow


def in_one_reduction(maps):
    T = maps.shape[-1]
    steps = torch.lerp(maps.double().mean(dim=2), torch.eye(T, dtype=torch.float64), 0.5)
    return functools.reduce(lambda below, step: torch.bmm(step, below), steps).to(maps.dtype)


# --- the effect of removing a token -----------------------------------------------------------------------


def with_exception_for_itself(predict, tokens):
    T = tokens.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    effects = torch.zeros(*tokens.shape, T)
    before = torch.softmax(predict(tokens, causal), dim=-1)
    for j in range(T):
        seen = torch.ones(T, T, dtype=torch.bool)
        seen[:, j] = torch.arange(T) == j
        after = torch.softmax(predict(tokens, causal & seen), dim=-1)
        effects[:, :, j] = 0.5 * torch.sum(torch.abs(after - before), dim=-1)
    return effects


def by_what_is_gained(predict, tokens):
    """Half of all differences is what some digits gain, and also what the others lose."""
    T = tokens.shape[1]
    rows = torch.arange(T)
    before = predict(tokens, rows[:, None] >= rows).double().softmax(dim=-1)
    effects = []
    for j in range(T):
        mask = (rows[:, None] >= rows) & ((rows != j) | (rows[:, None] == j))
        after = predict(tokens, mask).double().softmax(dim=-1)
        effects.append((after - before).clamp(min=0).sum(dim=-1))
    return torch.stack(effects).permute(1, 2, 0).float()


def one_text_at_a_time(predict, tokens):
    T = tokens.shape[1]
    whole = torch.tril(torch.ones(T, T)) == 1
    result = []
    for text in tokens:
        before = predict(text[None], whole).softmax(-1)[0]
        columns = []
        for j in range(T):
            mask = whole.clone()
            mask[j + 1 :, j] = False
            after = predict(text[None], mask).softmax(-1)[0]
            columns.append(1 - torch.minimum(before, after).sum(-1))
        result.append(torch.stack(columns, dim=1))
    return torch.stack(result)


RIGHT = {
    "attention_maps.rollout": [by_loops, from_above, in_one_reduction],
    "attention_maps.removal_effects": [with_exception_for_itself, by_what_is_gained, one_text_at_a_time],
}
