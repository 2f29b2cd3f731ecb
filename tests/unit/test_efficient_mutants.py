"""Break the efficient kinds of attention line by line: their tests must notice every time."""

import pytest

from attnlab.efficient import chunked, linear, tiling
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
TILING = [
    ("if window < 1:", "if window < 0:"),
    ("num_keys = num_queries if num_keys is None else num_keys", "num_keys = num_queries"),
    ("offset = num_keys - num_queries if offset is None else offset", "offset = num_keys - num_queries"),
    ("offset = num_keys - num_queries if offset", "offset = num_queries - num_keys if offset"),
    ("return seen & ~causal_mask(", "return seen & causal_mask("),
    ("return seen & ~causal_mask(", "return seen | ~causal_mask("),
    ("offset=offset - window)", "offset=offset - window + 1)"),
    ("offset=offset - window)", "offset=offset - window - 1)"),
    ("offset=offset - window)", "offset=-window)"),
    ("        offset = num_keys - num_queries\n", "        offset = 0\n"),
    ("        offset = num_keys - num_queries\n", "        offset = num_queries - num_keys\n"),
    ("min(start + self.query_chunk, num_queries)", "start + self.query_chunk"),
    ("max(0, start + offset - self.window + 1)", "max(0, start + offset - self.window)"),
    ("max(0, start + offset - self.window + 1)", "max(0, start + offset - self.window + 2)"),
    ("max(0, start + offset - self.window + 1)", "start + offset - self.window + 1"),
    ("max(0, start + offset - self.window + 1)", "0"),
    ("min(num_keys, stop + offset) if self.causal", "num_keys if self.causal"),
    ("min(num_keys, stop + offset) if self.causal", "min(num_keys, start + offset) if self.causal"),
    ("min(num_keys, stop + offset) if self.causal", "min(num_keys, stop + offset + 1) if self.causal"),
    ("range(first, last, self.key_chunk)", "range(0, last, self.key_chunk)"),
    ("range(first, last, self.key_chunk)", "range(first, last, self.query_chunk)"),
    ("min(key_start + self.key_chunk, last)", "key_start + self.key_chunk"),
    ("part = mask[..., queries, keys]", "part = mask[..., keys, queries]"),
    ("part = mask[..., queries, keys]", "part = mask.clone()[..., queries, keys]"),
    ("allowed = part if allowed is None else part & allowed", "allowed = part"),
    (
        "allowed = part if allowed is None else part & allowed",
        "allowed = part if allowed is None else allowed",
    ),
    ("part & allowed", "part | allowed"),
    ("        if not self.causal:\n            return None\n", ""),
    ("keys.stop - 1 > queries.start + offset", "keys.stop - 1 > queries.stop + offset"),
    ("keys.stop - 1 > queries.start + offset", "keys.stop > queries.start + offset"),
    (
        "keys.start <= queries.stop - 1 + offset - self.window",
        "keys.start <= queries.start + offset - self.window",
    ),
    (
        "keys.start <= queries.stop - 1 + offset - self.window",
        "keys.start < queries.stop - 1 + offset - self.window",
    ),
    (
        "keys.start <= queries.stop - 1 + offset - self.window",
        "keys.start <= queries.stop + offset - self.window",
    ),
    ("if not (late or early):", "if not late:"),
    ("if not (late or early):", "if not early:"),
    ("if not (late or early):", "if False:"),
    ("queries.stop, device=device)[:, None] + offset", "queries.stop, device=device)[:, None]"),
    ("torch.arange(keys.start, keys.stop, device=device)", "torch.arange(keys.start, keys.stop)"),
    ("torch.arange(keys.start, keys.stop, device=device)", "torch.arange(0, keys.stop - keys.start)"),
    ("seen = key_at <= query_at", "seen = key_at < query_at"),
    ("seen = key_at <= query_at", "seen = key_at >= query_at"),
    ("key_at > query_at - self.window", "key_at >= query_at - self.window"),
    ("seen if self.window is None else seen & (key_at", "seen if True else seen & (key_at"),
]
CHUNKED = [
    ("Tiling(query_chunk, key_chunk, causal))", "Tiling(query_chunk, key_chunk, False))"),
    ("Tiling(query_chunk, key_chunk, causal))", "Tiling(key_chunk, query_chunk, causal))"),
    ("query, key, value, mask, Tiling(", "query, key, value, None, Tiling("),
    ("causal=True, window=window)", "causal=True)"),
    ("causal=True, window=window)", "causal=True, window=window + 1)"),
    ('    _check_at_least_one("window", window)\n', ""),
    ('    _check_at_least_one("query_chunk", tiling.query_chunk)\n', ""),
    ('    _check_at_least_one("key_chunk", tiling.key_chunk)\n', ""),
    ("leading = _check_inputs(query, key, value, mask, None)", "leading = query.shape[:-2]"),
    ("mask = mask.expand(*mask.shape[:-2], query.shape[-2], key.shape[-2])", "pass"),
    ("work = torch.promote_types(query.dtype, torch.float32)", "work = query.dtype"),
    ("work = torch.promote_types(query.dtype, torch.float32)", "work = torch.float32"),
    ("-math.inf, dtype=work)", "0.0, dtype=work)"),
    ("-math.inf, dtype=work)", "-1e3, dtype=work)"),
    ("torch.maximum(before, scores.amax(dim=-1, keepdim=True))", "scores.amax(dim=-1, keepdim=True)"),
    ("torch.maximum(before, scores.amax(dim=-1, keepdim=True))", "torch.maximum(before, scores.amax())"),
    ("torch.maximum(before, scores.amax(dim=-1, keepdim=True))", "torch.zeros_like(before)"),
    ("after.masked_fill(after == -math.inf, 0.0)", "after"),
    ("(scores - level).exp_(), (before - level).exp_()", "(scores - level).exp_(), (level - before).exp_()"),
    ("(scores - level).exp_(), (before - level).exp_()", "scores.exp(), torch.ones_like(level)"),
    ("            total[..., queries, :] *= correction\n", ""),
    ("            output[..., queries, :] *= correction\n", ""),
    ("total[..., queries, :] += exponentials.sum(", "total[..., queries, :] = exponentials.sum("),
    ("exponentials.sum(dim=-1, keepdim=True)", "exponentials.mean(dim=-1, keepdim=True)"),
    ("output[..., queries, :] += exponentials @", "output[..., queries, :] = exponentials @"),
    (
        "exponentials @ value[..., keys, :].to(work)",
        "exponentials @ value[..., : exponentials.shape[-1], :].to(work)",
    ),
    ("            highest[..., queries, :] = after\n", ""),
    ("highest.masked_fill_(empty, 0.0)", "pass"),
    ("total.masked_fill_(empty, 1.0)", "pass"),
    ("output = output.div_(total).to(query.dtype)", "output = output.to(query.dtype)"),
    ("output = output.div_(total).to(query.dtype)", "output = output.div_(total)"),
    (
        "output, highest, total)\n        ctx.tiling",
        "output, highest + total.log(), torch.ones_like(total))\n        ctx.tiling",
    ),
    (
        "output, highest, total)\n        ctx.tiling",
        "output, highest, torch.ones_like(total))\n        ctx.tiling",
    ),
    (
        "_TiledGradient.apply(grad, ctx.tiling, *ctx.saved_tensors)",
        "_TiledGradient.forward(ctx, grad, ctx.tiling, *ctx.saved_tensors)",
    ),
    (
        "(grad.to(work) * output.to(work)).sum(dim=-1, keepdim=True)",
        "(grad.to(work) * output.to(work)).sum(dim=-2, keepdim=True)",
    ),
    (
        "(grad.to(work) * output.to(work)).sum(dim=-1, keepdim=True)",
        "(grad.to(work) * output.to(work)).mean(dim=-1, keepdim=True)",
    ),
    (
        "scores = _scores(query_part, key_part, allowed, work)",
        "scores = _scores(query_part, key_part, None, work)",
    ),
    ("(scores - highest[..., queries, :]).exp_()", "scores.exp_()"),
    (".exp_().div_(total[..., queries, :])", ".exp_()"),
    ("grad_value[..., keys, :] += weights", "grad_value[..., keys, :] = weights"),
    ("grad_value[..., keys, :] += weights.transpose(-2, -1) @ grad_part", "pass"),
    ("weights * (grad_weights - mean[..., queries, :])", "weights * grad_weights"),
    ("weights * (grad_weights - mean[..., queries, :])", "weights * (grad_weights + mean[..., queries, :])"),
    ("weights * (grad_weights - mean[..., queries, :])", "(grad_weights - mean[..., queries, :])"),
    ("mean[..., queries, :]) / math.sqrt(query.shape[-1])", "mean[..., queries, :])"),
    ("mean[..., queries, :]) / math.sqrt(query.shape[-1])", "mean[..., queries, :]) / query.shape[-1]"),
    ("grad_query[..., queries, :] += grad_scores", "grad_query[..., queries, :] = grad_scores"),
    ("grad_query[..., queries, :] += grad_scores", "grad_query[..., queries, :] -= grad_scores"),
    ("grad_key[..., keys, :] += grad_scores", "grad_key[..., keys, :] = grad_scores"),
    (
        "grad_key[..., keys, :] += grad_scores.transpose(-2, -1)",
        "grad_key[..., keys, :] += weights.transpose(-2, -1)",
    ),
    ("tuple(tensor.to(query.dtype) for tensor in grads)", "tuple(grads[::-1])"),
    ("        raise RuntimeError(\n", "        return (None,) * 9\n        raise RuntimeError(\n"),
    (
        "tiling.tiles(query.shape[-2], key.shape[-2], mask",
        "tiling.tiles(query.shape[-2], key.shape[-2], None",
    ),
    (
        "tiling.tiles(query.shape[-2], key.shape[-2], mask",
        "tiling.tiles(key.shape[-2], query.shape[-2], mask",
    ),
    ("(query.to(work) / math.sqrt(query.shape[-1]))", "query.to(work)"),
    ("(query.to(work) / math.sqrt(query.shape[-1]))", "(query.to(work) / query.shape[-1])"),
    ("(query.to(work) / math.sqrt(query.shape[-1]))", "(query / math.sqrt(query.shape[-1])).to(work)"),
    ("scores.masked_fill_(~allowed, -math.inf)", "scores.masked_fill_(allowed, -math.inf)"),
    ("scores.masked_fill_(~allowed, -math.inf)", "scores.masked_fill_(~allowed, -10.0)"),
    ("scores.masked_fill_(~allowed, -math.inf)", "scores"),
    ("if number < 1:", "if number < 0:"),
]
LINEAR = [
    ("x.relu() + x.clamp(max=0.0).exp()", "F.elu(x) + 1"),
    ("x.relu() + x.clamp(max=0.0).exp()", "x.relu()"),
    ("x.relu() + x.clamp(max=0.0).exp()", "torch.where(x > 0, x + 1, x.exp())"),
    ("x.relu() + x.clamp(max=0.0).exp()", "x.exp()"),
    ("x.relu() + x.clamp(max=0.0).exp()", "x.relu() + x.clamp(min=0.0).exp()"),
    ("    _check_inputs(query, key, value, None, None)\n    query_features", "    query_features"),
    ("    _check_inputs(query, key, value, None, None)\n    length", "    length"),
    (
        "return _normalised(query_features @ state).to(query.dtype)",
        "return _normalised(query_features @ state)",
    ),
    (
        "return _normalised(query_features @ state).to(query.dtype)",
        "return (query_features @ state)[..., :-1]",
    ),
    ("if key.shape[-2] != length:", "if key.shape[-2] < length:"),
    ("if key.shape[-2] != length:", "if False:"),
    ("if chunk < 1:", "if chunk < 0:"),
    ("F.pad(added, (0, 0, 0, 0, 1, 0)).cumsum(dim=-3)[..., :-1, :, :]", "added.cumsum(dim=-3)"),
    ("F.pad(added, (0, 0, 0, 0, 1, 0)).cumsum(dim=-3)[..., :-1, :, :]", "added.cumsum(dim=-3) - added"),
    ("F.pad(added, (0, 0, 0, 0, 1, 0)).cumsum(dim=-3)[..., :-1, :, :]", "F.pad(added, (0, 0, 0, 0, 1, -1))"),
    ("key_features.transpose(-2, -1)).tril()", "key_features.transpose(-2, -1))"),
    ("key_features.transpose(-2, -1)).tril()", "key_features.transpose(-2, -1)).tril(-1)"),
    ("key_features.transpose(-2, -1)).tril()", "key_features.transpose(-2, -1)).triu()"),
    ("query_features @ state + within @ value_and_one", "within @ value_and_one"),
    ("query_features @ state + within @ value_and_one", "query_features @ state"),
    ("sums.flatten(-3, -2)[..., :length, :]", "sums.flatten(-3, -2)"),
    ("sums.flatten(-3, -2)[..., :length, :]).to(query.dtype)", "sums.flatten(-3, -2)[..., :length, :])"),
    ("work = torch.promote_types(query.dtype, torch.float32)", "work = query.dtype"),
    ("work = torch.promote_types(query.dtype, torch.float32)", "work = torch.float32"),
    ("(0, 1), value=1.0)", "(0, 1))"),
    (
        "elu_features(query.to(work)), elu_features(key.to(work))",
        "query.to(work), elu_features(key.to(work))",
    ),
    (
        "elu_features(query.to(work)), elu_features(key.to(work))",
        "elu_features(query.to(work)), key.to(work)",
    ),
    ("count = -(-length // chunk)", "count = length // chunk"),
    ("(0, 0, 0, count * chunk - length)", "(0, 0, count * chunk - length, 0)"),
    ("total.masked_fill(total == 0.0, 1.0)", "total"),
    ("total.masked_fill(total == 0.0, 1.0)", "(total + 1e-6)"),
    ("sums[..., :-1] / total", "sums[..., 1:] / total"),
]
ROOMS = {
    "tiling": (Mutants(tiling, "test_efficient_tiling.py", keep=["Tile"]), TILING),
    "chunked": (Mutants(chunked, "test_efficient_chunked.py"), CHUNKED),
    "linear": (Mutants(linear, "test_efficient_linear.py"), LINEAR),
}


@pytest.mark.parametrize("room", ROOMS)
def test_the_source_as_it_stands_passes(room):
    mutants, _ = ROOMS[room]
    assert mutants.first_failure(mutants.source) is None


@pytest.mark.parametrize(
    ("room", "there", "slip"),
    [
        pytest.param(room, *mutant, id=f"{room}-{number:02d}")
        for room, (_, mutants) in ROOMS.items()
        for number, mutant in enumerate(mutants)
    ],
)
def test_mutant_is_noticed(room, there, slip):
    ROOMS[room][0].require_noticed(there, slip)
