"""Break the contracts line by line: the tests of test_contracts.py must notice every time."""

import pytest

import attnlab.contracts
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
MUTANTS = [
    # Rows of weights
    ("_require(lowest >= 0,", "_require(True,"),
    ('_require_finite("weights", weights)', "pass"),
    ("worst == 0,", "True,"),
    ("hidden = weights.masked_fill(mask, 0.0)", "hidden = weights.masked_fill(~mask, 0.0)"),
    ("expected = mask.any(dim=-1).to(weights.dtype)", "pass"),
    ("expected = mask.any(dim=-1).to(weights.dtype)", "expected = sums = weights.sum(dim=-1)"),
    ("sums = weights.sum(dim=-1)\n    distance", "sums = weights.sum(dim=-2)\n    distance"),
    ("distance.max().item() <= _tolerance(weights, tolerance)", "distance.min().item() <= 1e-5"),
    ("result.weights @ value, result.output", "result.output, result.output"),
    ("if result.weights is None:", "if False:"),
    # Order
    ("received = _output(attend(x[..., order, :]))", "received = expected"),
    ("expected = _output(attend(x))[..., order, :]", "expected = _output(attend(x[..., order, :]))"),
    ("(torch.arange(size), torch.arange(size).flip(0))", "(torch.arange(size),)"),
    # Causality
    ("    causal_by_change(attend, x, generator=generator)\n", ""),
    ("    causal_by_gradient(attend, x, generator=generator)\n", ""),
    ("changed[..., last + 1 :, :] += 3.0", "changed[..., last + 1 :, :] += 0.0"),
    ("changed[..., last + 1 :, :] += 3.0", "changed[..., last + 2 :, :] += 3.0"),
    ("after[..., : last + 1, :],", "before[..., : last + 1, :],"),
    ("later = gradient[..., position + 1 :, :]", "later = gradient[..., position + 2 :, :]"),
    ("source_position = position + 1 + int", "source_position = int"),
    ("        _require(\n            leak == 0,", "        _require(\n            leak <= 1e-6,"),
    ("if x.ndim < 2 or x.shape[-2] < 2:", "if False:"),
    # Padding
    ("if real.shape != x.shape[:-1]:", "if False:"),
    ("if bool(real.all()):", "if False:"),
    ("compare = real if compare is None else compare", "compare = real"),
    ("torch.where(real[..., None], x, x + 3.0", "torch.where(~real[..., None], x, x + 3.0"),
    ("torch.where(real[..., None], x, x + 3.0", "torch.where(real[..., None], x, x + 0.0"),
    ("leak = gradient[~real]", "leak = 0.0 * gradient[~real]"),
    ('_require(leak == 0, f"a real output', '_require(leak <= 1e-6, f"a real output'),
    # Batch
    ("alone = _output(attend(x[item : item + 1]))[0]", "alone = _output(attend(x))[item]"),
    ("if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:", "if False:"),
    (
        "if x.ndim < (3 if x.is_floating_point() else 2) or x.shape[0] < 2:",
        "if x.ndim < 3 or x.shape[0] < 2:",
    ),
    # Rows that see nothing
    ("mask[-1] = False", "mask[-1, 0] = False"),
    ('_require(size == 0, f"a query that may', '_require(True, f"a query that may'),
    ("    gradients_finite(lambda q, k, v: attend(q, k, v, mask), query, key, value)\n", ""),
    ('_require_finite(f"the gradient of input {number}", gradient)', "pass"),
    ('    _require_finite("output", output)\n    size', "    size"),
    # Evaluation
    ("torch.equal(first, second),", "True,"),
    ("    module.eval()\n", "    pass\n"),
    ("part.training = training", "pass"),
    ("part.training = training", "part.training = modes[0][1]"),
    ("    try:\n        yield\n    finally:\n", "    if True:\n        yield\n        return\n"),
    # Caches
    ("axis = -2 if x.is_floating_point() else -1", "axis = -2"),
    ("axis = -2 if x.is_floating_point() else -1", "axis = -1"),
    ("if x.ndim < 2 or x.shape[axis] < 2:", "if False:"),
    ("if sum(split) != length or min(split) < 1:", "if min(split) < 1:"),
    ("if sum(split) != length or min(split) < 1:", "if sum(split) > length or min(split) < 1:"),
    ("if sum(split) != length or min(split) < 1:", "if sum(split) != length:"),
    ("_require(outputs == length,", "_require(True,"),
    ("cache, start = new_cache(), 0", "cache, start = None, 0"),
    (
        "        for split in splits:\n            cache, start = new_cache(), 0\n",
        "        cache = new_cache()\n        for split in splits:\n            start = 0\n",
    ),
    ("for number, size in enumerate(split):", "for number, size in enumerate(split[:1]):"),
    ("x.narrow(axis, start, size), cache", "x.narrow(axis, 0, start + size), None"),
    ("expected = whole[..., start : start + size, :]", "expected = received"),
    ("                start += size\n", ""),
    ('_require(received.shape == expected.shape, f"{chunk}: {shapes}")', "pass"),
    ("for place in range(expected.shape[-2]):", "for place in range(expected.shape[-2] - 1):"),
    ("position {start + place} of the sequence", "position {place} of the sequence"),
    ("_require_close(here, there, tolerance, message)", "_require_close(here, there, 10.0, message)"),
    ("_require_close(here, there, tolerance, message)", "_require_close(here, there, None, message)"),
    ("for _ in range(5):", "for _ in range(0):"),
    ("splits = [[length], [1] * length, [prompt]", "splits = [[length], [prompt]"),
    # Rotation
    ("            _require_rows_alone(rotate, query, offset, tolerance)\n", "            pass\n"),
    ("for offset in (0, *shifts):", "for offset in (0,):"),
    ("if not shifts or min(shifts) < 1:", "if not shifts:"),
    ("if not shifts or min(shifts) < 1:", "if min(shifts) < 0:"),
    ("    _num_positions(query)\n", ""),
    ("_require_close(moved @ rotate(key, shift).transpose(-2, -1), scores, allowed, words)", "pass"),
    ("change > allowed,", "True,"),
    ("change > allowed,", "change >= 0.0,"),
    (
        "(moved @ rotate(key, 0).transpose(-2, -1) - scores)",
        "(moved @ rotate(key, shift).transpose(-2, -1) - scores)",
    ),
    ("_require(together.shape == heads.shape,", "_require(True,"),
    ("max(1.0, scores.abs().max().item())", "1.0"),
    (
        "alone = rotate(heads[..., row : row + 1, :], offset + row)",
        "alone = rotate(heads[..., row : row + 1, :], row)",
    ),
    # What all share
    ("        raise AssertionError(message)", "        pass"),
    ('    _require_finite("output", received)\n', ""),
    ("result[0] if isinstance(result, tuple) else result", "result"),
    ("difference.max().item() <= allowed,", "difference.mean().item() <= allowed,"),
    ("torch.float64: 1e-10", "torch.float64: 1e-5"),
    ("torch.float32: 1e-5", "torch.float32: 1e-10"),
    ("_TOLERANCE[tensor.dtype] if tolerance is None else tolerance", "_TOLERANCE[tensor.dtype]"),
]

CONTRACTS = Mutants(attnlab.contracts, "test_contracts.py")


def test_the_source_as_it_stands_passes():
    assert CONTRACTS.first_failure(CONTRACTS.source) is None


@pytest.mark.parametrize(("there", "slip"), MUTANTS, ids=[f"{number:02d}" for number in range(len(MUTANTS))])
def test_mutant_is_noticed(there, slip):
    CONTRACTS.require_noticed(there, slip)
