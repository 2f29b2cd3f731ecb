"""Right answers to the exercises of lesson 5."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.multihead import MultiHeadAttention
from attnlab.multihead import merge_heads as course_merge
from attnlab.multihead import split_heads as course_split

# --- split and merge --------------------------------------------------------------------------------------


def _width(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError(f"{num_heads} heads cannot share {x.shape[-1]} columns")
    return x.shape[-1] // num_heads


def split_by_slices(x, num_heads):
    D = _width(x, num_heads)
    return torch.stack([x[..., h * D : (h + 1) * D] for h in range(num_heads)], dim=-3)


def split_by_chunks(x, num_heads):
    if divmod(x.size(-1), num_heads)[1]:
        raise ValueError(f"d_model={x.size(-1)} is no multiple of num_heads={num_heads}")
    return torch.stack(x.chunk(num_heads, dim=-1)).movedim(0, -3)


def split_by_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, _width(x, num_heads))).swapaxes(-2, -3).contiguous()


def split_by_loops(x, num_heads):
    D = _width(x, num_heads)
    heads = torch.empty(*x.shape[:-2], num_heads, x.shape[-2], D, dtype=x.dtype)
    for h in range(num_heads):
        for d in range(D):
            heads[..., h, :, d] = x[..., h * D + d]
    return heads


def merge_by_cat(heads):
    return torch.cat(heads.unbind(dim=-3), dim=-1)


def merge_by_flatten(heads):
    return heads.movedim(-3, -2).flatten(start_dim=-2)


def merge_by_contiguous_view(heads):
    moved = heads.transpose(-2, -3).contiguous()
    return moved.view(*moved.shape[:-2], -1)


def merge_by_loops(heads):
    H, T, D = heads.shape[-3:]
    merged = torch.zeros(*heads.shape[:-3], T, H * D, dtype=heads.dtype)
    for h in range(H):
        merged[..., h * D : (h + 1) * D] = heads[..., h, :, :]
    return merged


# --- with torch's weights ---------------------------------------------------------------------------------


def by_torchs_module(state, num_heads, x, batch_first=False):
    module = nn.MultiheadAttention(x.shape[-1], num_heads, batch_first=batch_first, dtype=x.dtype)
    module.load_state_dict(state)
    return module(x, x, x, average_attn_weights=False)


def by_torchs_function(state, num_heads, x, batch_first=False):
    if batch_first:
        x = x.transpose(0, 1)
    output, weights = F.multi_head_attention_forward(
        x, x, x, x.shape[-1], num_heads, state["in_proj_weight"], state["in_proj_bias"], None, None, False,
        0.0, state["out_proj.weight"], state["out_proj.bias"], average_attn_weights=False,
    )  # fmt: skip
    return (output.transpose(0, 1) if batch_first else output), weights


def by_the_courses_module(state, num_heads, x, batch_first=False):
    ours = MultiHeadAttention(x.shape[-1], num_heads)
    parts = zip("qkv", state["in_proj_weight"].chunk(3), state["in_proj_bias"].chunk(3), strict=True)
    names = {"w_o.weight": state["out_proj.weight"], "w_o.bias": state["out_proj.bias"]}
    for name, weight, bias in parts:
        names |= {f"w_{name}.weight": weight, f"w_{name}.bias": bias}
    ours.load_state_dict(names)
    result = ours(x if batch_first else x.transpose(0, 1))
    return (result.output if batch_first else result.output.transpose(0, 1)), result.weights


def by_einsum(state, num_heads, x, batch_first=False):
    """One tall product, no axis moved until the end, in double precision inside."""
    letters = "btm" if batch_first else "tbm"
    state = {name: tensor.double() for name, tensor in state.items()}
    weight = state["in_proj_weight"].unflatten(0, (3, num_heads, -1))
    bias = state["in_proj_bias"].unflatten(0, (3, 1, num_heads, 1, -1))
    q, k, v = torch.einsum(f"{letters},phdm->pbhtd", x.double(), weight) + bias
    weights = (torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])).softmax(-1)
    out = state["out_proj.weight"].unflatten(1, (num_heads, -1))
    output = torch.einsum(f"bhts,bhsd,mhd->{letters}", weights, v, out) + state["out_proj.bias"]
    return output.float(), weights.float()


def by_a_loop_over_heads(state, num_heads, x, batch_first=False):
    d_model = x.shape[-1]
    D = d_model // num_heads
    x = x if batch_first else x.permute(1, 0, 2)
    everything = x @ state["in_proj_weight"].T + state["in_proj_bias"]
    outputs, tables = state["out_proj.bias"], []
    for h in range(num_heads):
        q, k, v = (everything[..., i * d_model + h * D : i * d_model + (h + 1) * D] for i in range(3))
        tables.append((q @ k.mT / D**0.5).softmax(dim=-1))
        outputs = outputs + tables[-1] @ v @ state["out_proj.weight"][:, h * D : (h + 1) * D].T
    return (outputs if batch_first else outputs.permute(1, 0, 2)), torch.stack(tables, dim=1)


# --- grouped heads ----------------------------------------------------------------------------------------


class _Own(nn.Module):
    """The names and sizes of the exercise; ``forward`` differs."""

    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"no fit: d_model {d_model}, num_heads {num_heads}, kv {num_kv_heads}")
        self.H, self.kv, self.D = num_heads, num_kv_heads, d_model // num_heads
        self.w_q, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.w_k, self.w_v = (nn.Linear(d_model, self.kv * self.D, bias=False) for _ in range(2))


class ByGroups(_Own):
    """No key is repeated: the asking heads get an axis for their group."""

    def forward(self, query, key, value, mask=None):
        q = self.w_q(query).unflatten(-1, (self.kv, -1, self.D))  # (B, T, H_kv, group, D)
        k, v = (w(x).unflatten(-1, (self.kv, self.D)) for w, x in ((self.w_k, key), (self.w_v, value)))
        scores = torch.einsum("btghd,bsgd->bghts", q, k) / self.D**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        output = torch.einsum("bghts,bsgd->btghd", weights, v).flatten(2)
        return self.w_o(output), weights.flatten(1, 2)


class ByALoop(_Own):
    def forward(self, query, key, value, mask=None):
        outputs, tables = [], []
        for h in range(self.H):
            mine = slice(h * self.D, (h + 1) * self.D)
            partner = h // (self.H // self.kv)
            theirs = slice(partner * self.D, (partner + 1) * self.D)
            scores = self.w_q(query)[..., mine] @ self.w_k(key)[..., theirs].mT * self.D**-0.5
            if mask is not None:
                nothing = ~mask.any(-1, keepdim=True)
                scores = torch.where(mask | nothing, scores, -torch.inf)
            table = scores.softmax(-1)
            tables.append(table if mask is None else table.masked_fill(nothing, 0.0))
            outputs.append(tables[-1] @ self.w_v(value)[..., theirs])
        return self.w_o(torch.cat(outputs, -1)), torch.stack(tables, 1)


class Fused(_Own):
    """torch's own grouped attention for the output, an identity in place of the values for the weights."""

    def forward(self, query, key, value, mask=None):
        q, k = course_split(self.w_q(query), self.H), course_split(self.w_k(key), self.kv)
        v = course_split(self.w_v(value), self.kv)
        eye = torch.eye(key.shape[1]).expand(*v.shape[:2], -1, -1)
        both = F.scaled_dot_product_attention(
            q, k, torch.cat([v, eye], dim=-1), attn_mask=mask, enable_gqa=True
        )
        if mask is not None:
            both = both.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        return self.w_o(course_merge(both[..., : self.D])), both[..., self.D :]


class OfTheCourse(MultiHeadAttention):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__(d_model, num_heads, num_kv_heads=num_kv_heads, bias=False)

    def forward(self, query, key, value, mask=None):
        result = super().forward(query, key, value, mask)
        return result.output, result.weights


class InDouble(_Own):
    def forward(self, query, key, value, mask=None):
        index = torch.arange(self.H) // (self.H // self.kv)
        q = course_split(self.w_q(query), self.H).double()
        k, v = (course_split(x, self.kv).double()[:, index] for x in (self.w_k(key), self.w_v(value)))
        scores = (q / self.D**0.25) @ (k / self.D**0.25).mT
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
        powers = torch.where(seen, scores.exp(), 0.0)
        weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-300)
        return self.w_o(course_merge(weights @ v).float()), weights.float()


# --- repair -----------------------------------------------------------------------------------------------


def repaired(x, w_q, w_k, w_v, w_o, num_heads):
    B, T, d_model = x.shape
    D = d_model // num_heads
    query, key, value = ((x @ w).view(B, T, num_heads, D).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(D), dim=3)
    return (weights @ value).permute(0, 2, 1, 3).reshape(B, T, d_model) @ w_o


def repaired_by_turning(x, w_q, w_k, w_v, w_o, num_heads):
    """The table is turned, so that its axis 2 is that of the keys."""
    B, T, d_model = x.shape
    query, key, value = (course_split(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(key @ query.mT / query.shape[-1] ** 0.5, dim=2).mT
    return torch.cat((weights @ value).unbind(1), dim=-1) @ w_o


def repaired_fused(x, w_q, w_k, w_v, w_o, num_heads):
    heads = (course_split(x @ w, num_heads) for w in (w_q, w_k, w_v))
    return course_merge(F.scaled_dot_product_attention(*heads)) @ w_o


def repaired_in_double(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = ((x.double() @ w.double()).unflatten(-1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    weights = (torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v).flatten(2).float() @ w_o


RIGHT = {
    "multi_head.split_heads": [
        split_by_slices,
        split_by_chunks,
        split_by_unflatten,
        split_by_loops,
        course_split,
    ],
    "multi_head.merge_heads": [
        merge_by_cat,
        merge_by_flatten,
        merge_by_contiguous_view,
        merge_by_loops,
        course_merge,
    ],
    "multi_head.like_torch": [
        by_torchs_module,
        by_torchs_function,
        by_the_courses_module,
        by_einsum,
        by_a_loop_over_heads,
    ],
    "multi_head.GroupedQueryAttention": [ByGroups, ByALoop, Fused, OfTheCourse, InDouble],
    "multi_head.multi_head": [repaired, repaired_by_turning, repaired_fused, repaired_in_double],
}
