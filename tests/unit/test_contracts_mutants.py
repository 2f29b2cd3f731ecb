"""Break the contracts line by line: the tests of test_contracts.py must notice every time."""

from attnlab.contracts import dependence, repetition, rotation, shared, weights
from tests.unit.mutants import Mutants, judging

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
WEIGHTS = [
    ("require(lowest >= 0,", "require(True,"),
    ('require_finite("weights", weights)', "pass"),
    ("worst == 0,", "True,"),
    ("hidden = weights.masked_fill(mask, 0.0)", "hidden = weights.masked_fill(~mask, 0.0)"),
    ("expected = mask.any(dim=-1).to(weights.dtype)", "pass"),
    ("expected = mask.any(dim=-1).to(weights.dtype)", "expected = sums = weights.sum(dim=-1)"),
    ("sums = weights.sum(dim=-1)\n    distance", "sums = weights.sum(dim=-2)\n    distance"),
    ("distance.max().item() <= tolerance_for(weights, tolerance)", "distance.min().item() <= 1e-5"),
    ("result.weights @ value, result.output", "result.output, result.output"),
    ("if result.weights is None:", "if False:"),
    ("mask[-1] = False", "mask[-1, 0] = False"),
    ('require(size == 0, f"a query that may', 'require(True, f"a query that may'),
    ("    gradients_finite(lambda q, k, v: attend(q, k, v, mask), query, key, value)\n", ""),
    ('require_finite(f"the gradient of input {number}", gradient)', "pass"),
    ('    require_finite("output", output)\n    size', "    size"),
]
DEPENDENCE = [
    ("received = output_of(attend(x[..., order, :]))", "received = expected"),
    ("expected = output_of(attend(x))[..., order, :]", "expected = output_of(attend(x[..., order, :]))"),
    ("(torch.arange(size), torch.arange(size).flip(0))", "(torch.arange(size),)"),
    ("    causal_by_change(attend, x, generator=generator)\n", ""),
    ("    causal_by_gradient(attend, x, generator=generator)\n", ""),
    ("changed[..., last + 1 :, :] += 3.0", "changed[..., last + 1 :, :] += 0.0"),
    ("changed[..., last + 1 :, :] += 3.0", "changed[..., last + 2 :, :] += 3.0"),
    ("after[..., : last + 1, :],", "before[..., : last + 1, :],"),
    ("later = gradient[..., position + 1 :, :]", "later = gradient[..., position + 2 :, :]"),
    ("source_position = position + 1 + int", "source_position = int"),
    ("        require(\n            leak == 0,", "        require(\n            leak <= 1e-6,"),
    ("if real.shape != x.shape[:-1]:", "if False:"),
    ("if bool(real.all()):", "if False:"),
    ("compare = real if compare is None else compare", "compare = real"),
    ("torch.where(real[..., None], x, x + 3.0", "torch.where(~real[..., None], x, x + 3.0"),
    ("torch.where(real[..., None], x, x + 3.0", "torch.where(real[..., None], x, x + 0.0"),
    ("else gradient[~real]", "else 0.0 * gradient[~real]"),
    ('require(leak == 0, f"a real output', 'require(leak <= 1e-6, f"a real output'),
    ("alone = output_of(attend(x[item : item + 1]))[0]", "alone = output_of(attend(x))[item]"),
    ("if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:", "if False:"),
    (
        "if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:",
        "if x.ndim < 3 or x.shape[0] < 2:",
    ),
]
REPETITION = [
    ("torch.equal(first, second),", "True,"),
    ("    module.eval()\n", "    pass\n"),
    ("part.training = training", "pass"),
    ("part.training = training", "part.training = modes[0][1]"),
    ("    try:\n        yield\n    finally:\n", "    if True:\n        yield\n        return\n"),
    ("axis = -2 if x.is_floating_point() else -1", "axis = -2"),
    ("axis = -2 if x.is_floating_point() else -1", "axis = -1"),
    ("if x.ndim < 2 or x.shape[axis] < 2:", "if False:"),
    ("if sum(split) != length or min(split) < 1:", "if min(split) < 1:"),
    ("if sum(split) != length or min(split) < 1:", "if sum(split) > length or min(split) < 1:"),
    ("if sum(split) != length or min(split) < 1:", "if sum(split) != length:"),
    ("require(outputs == length,", "require(True,"),
    ("cache, start = new_cache(), 0", "cache, start = None, 0"),
    (
        "        for split in splits:\n            cache, start = new_cache(), 0\n",
        "        cache = new_cache()\n        for split in splits:\n            start = 0\n",
    ),
    ("for number, size in enumerate(split):", "for number, size in enumerate(split[:1]):"),
    ("x.narrow(axis, start, size), cache", "x.narrow(axis, 0, start + size), None"),
    ("expected = whole[..., start : start + size, :]", "expected = received"),
    ("                start += size\n", ""),
    ('require(received.shape == expected.shape, f"{chunk}: {shapes}")', "pass"),
    ("for place in range(expected.shape[-2]):", "for place in range(expected.shape[-2] - 1):"),
    ("position {start + place} of the sequence", "position {place} of the sequence"),
    ("require_close(here, there, tolerance, message)", "require_close(here, there, 10.0, message)"),
    ("require_close(here, there, tolerance, message)", "require_close(here, there, None, message)"),
    ("for _ in range(5):", "for _ in range(0):"),
    ("splits = [[length], [1] * length, [prompt]", "splits = [[length], [prompt]"),
]
ROTATION = [
    ("            _require_rows_alone(rotate, query, offset, tolerance)\n", "            pass\n"),
    ("for offset in (0, *shifts):", "for offset in (0,):"),
    ("if not shifts or min(shifts) < 1:", "if not shifts:"),
    ("if not shifts or min(shifts) < 1:", "if min(shifts) < 0:"),
    ("    num_positions(query)\n", ""),
    ("require_close(moved @ rotate(key, shift).transpose(-2, -1), scores, allowed, words)", "pass"),
    ("change > allowed,", "True,"),
    ("change > allowed,", "change >= 0.0,"),
    (
        "(moved @ rotate(key, 0).transpose(-2, -1) - scores)",
        "(moved @ rotate(key, shift).transpose(-2, -1) - scores)",
    ),
    ("require(together.shape == heads.shape,", "require(True,"),
    ("max(1.0, scores.abs().max().item())", "1.0"),
    (
        "alone = rotate(heads[..., row : row + 1, :], offset + row)",
        "alone = rotate(heads[..., row : row + 1, :], row)",
    ),
]
SHARED = [
    ("if x.ndim < 2 or x.shape[-2] < 2:", "if False:"),
    ("        raise AssertionError(message)", "        pass"),
    ('    require_finite("output", received)\n', ""),
    ("result[0] if isinstance(result, tuple) else result", "result"),
    ("difference.max().item() <= allowed,", "difference.mean().item() <= allowed,"),
    ("torch.float64: 1e-10", "torch.float64: 1e-5"),
    ("torch.float32: 1e-5", "torch.float32: 1e-10"),
    ("_TOLERANCE[tensor.dtype] if tolerance is None else tolerance", "_TOLERANCE[tensor.dtype]"),
]
USERS = [weights, dependence, repetition, rotation]
ROOMS = {
    "weights": (Mutants(weights, "test_contracts.py"), WEIGHTS),
    "dependence": (Mutants(dependence, "test_contracts.py"), DEPENDENCE),
    "repetition": (Mutants(repetition, "test_contracts.py"), REPETITION),
    "rotation": (Mutants(rotation, "test_contracts.py"), ROTATION),
    "shared": (Mutants(shared, "test_contracts.py", users=USERS), SHARED),
}

test_the_source_as_it_stands_passes, test_mutant_is_noticed = judging(ROOMS)
