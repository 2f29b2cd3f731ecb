"""Right answers to the exercises of lesson 17."""

from collections import Counter

import torch

# --- detectors --------------------------------------------------------------------------------------------


def detect_by_loops(weights, tokens):
    B, H, T, _ = weights.shape
    previous, induction, rows = torch.zeros(H), torch.zeros(H), 0
    for b in range(B):
        for t in range(T):
            if t:
                previous += weights[b, :, t, t - 1]
            places = [j for j in range(1, t + 1) if tokens[b, j - 1] == tokens[b, t]]
            rows += bool(places)
            for j in places:
                induction += weights[b, :, t, j]
    return previous / (B * (T - 1)), induction / max(rows, 1)


def detect_by_einsum(weights, tokens):
    T = tokens.shape[1]
    before = torch.eye(T).roll(-1, dims=1).tril(-1)
    same = (tokens[:, :, None] == tokens[:, None, :]).float()
    follows = torch.einsum("bts,sj->btj", same * torch.ones(T, T).tril(-1), torch.diag(torch.ones(T - 1), 1))
    previous = torch.einsum("bhts,ts->h", weights, before) / before.sum() / len(weights)
    seen = follows.amax(dim=-1).sum()
    return previous, torch.einsum("bhts,bts->h", weights, follows) / seen.clamp(min=1)


def detect_in_double(weights, tokens):
    wide = weights.double()
    previous = torch.stack([wide[:, :, t, t - 1] for t in range(1, wide.shape[-1])]).mean(dim=(0, 1))
    shifted = torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], dim=1)
    match = (tokens.unsqueeze(2) == shifted.unsqueeze(1)).tril()
    mass = torch.where(match.unsqueeze(1), wide, 0).sum(-1).transpose(1, 2)  # (B, T, H)
    rows = match.any(-1)
    return previous, mass[rows].mean(0) if rows.any() else torch.zeros(wide.shape[1], dtype=wide.dtype)


# --- ablation ---------------------------------------------------------------------------------------------


def ablate_head_by_head(heads, w_o, removed):
    B, H, T, D = heads.shape
    output = torch.zeros(B, T, w_o.shape[1])
    for head in range(H):
        part = heads[:, head]
        if head in removed:
            part = part.reshape(-1, D).mean(dim=0).expand(B, T, D)
        output = output + part @ w_o[head * D : (head + 1) * D]
    return output


def ablate_by_where(heads, w_o, removed):
    gone = torch.zeros(heads.shape[1], dtype=torch.bool)
    gone[list(removed)] = True
    mean = heads.mean(dim=2, keepdim=True).mean(dim=0, keepdim=True)
    left = torch.where(gone[:, None, None], mean, heads)
    return left.permute(0, 2, 1, 3).flatten(2) @ w_o


def ablate_by_einsum(heads, w_o, removed):
    wide = heads.double().clone()
    for head in removed:
        wide[:, head] = heads.double()[:, head].mean(dim=(0, 1))
    matrix = w_o.double().reshape(heads.shape[1], heads.shape[3], -1)
    return torch.einsum("bhtd,hdm->btm", wide, matrix).float()


# --- patching ---------------------------------------------------------------------------------------------


def patch_by_loop(heads, clean, head, positions):
    result = heads.clone()
    for row, position in enumerate(positions.tolist()):
        result[row, head, position] = clean[row, head, position]
    return result


def patch_by_index(heads, clean, head, positions):
    rows = torch.arange(len(heads))
    result = heads.clone()
    result[rows, head, positions] = clean[rows, head, positions]
    return result


def patch_by_mask(heads, clean, head, positions):
    B, H, T, _ = heads.shape
    spots = (
        torch.nn.functional.one_hot(positions, T).bool()[:, None] & (torch.arange(H) == head)[None, :, None]
    )
    return torch.where(spots[..., None], clean, heads)


# --- a control for a syntactic claim ----------------------------------------------------------------------


def compare_by_counting(chosen_hits, tested_hits, chosen_offsets, tested_offsets):
    counts = [sum(column) for column in zip(*chosen_hits.tolist(), strict=True)]
    head = counts.index(max(counts))
    column = [row[head] for row in tested_hits.tolist()]
    offset = Counter(chosen_offsets.tolist()).most_common(1)[0][0]
    held = tested_offsets.tolist()
    return head, sum(column) / len(column), held.count(offset) / len(held)


def compare_in_tensors(chosen_hits, tested_hits, chosen_offsets, tested_offsets):
    head = chosen_hits.sum(dim=0).argmax()
    values, counts = chosen_offsets.unique(return_counts=True)
    baseline = tested_offsets.eq(values[counts.argmax()]).double().mean()
    return head, tested_hits[:, head].double().mean(), baseline


def compare_as_a_list(chosen_hits, tested_hits, chosen_offsets, tested_offsets):
    head = max(range(chosen_hits.shape[1]), key=lambda h: int(chosen_hits[:, h].sum()))
    offset = max(set(chosen_offsets.tolist()), key=chosen_offsets.tolist().count)
    hits = tested_hits[:, head]
    return [
        head,
        hits.sum().item() / len(hits),
        (tested_offsets == offset).sum().item() / len(tested_offsets),
    ]


RIGHT = {
    "circuits.detect": [detect_by_loops, detect_by_einsum, detect_in_double],
    "circuits.ablate": [ablate_head_by_head, ablate_by_where, ablate_by_einsum],
    "circuits.patch": [patch_by_loop, patch_by_index, patch_by_mask],
    "circuits.compare": [compare_by_counting, compare_in_tensors, compare_as_a_list],
}
