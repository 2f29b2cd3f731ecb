"""Attention over long sequences: explicit, fused, chunked, sliding window, linear. Memory, time and error.

Every figure of memory comes from a process of its own. The error is against the same function worked out in
float64 the long way, for the last ``CHECKED`` queries; beside it stands how far the variant is from ordinary
attention, which a window and a linear attention are not meant to equal.

    python -m benchmarks long_sequences
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.efficient import (
    chunked_attention,
    elu_features,
    linear_attention,
    sliding_window_attention,
    sliding_window_mask,
)
from benchmarks.harness import Report, apart, milliseconds, ratio, take_turns
from benchmarks.memory import MIB, Memory, in_mib, measure

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TRAINED_LENGTHS = (1024, 4096)
WIDTH, WINDOW, CHECKED = 64, 128, 128
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
VARIANTS: dict[str, Attend] = {
    "explicit": lambda q, k, v: scaled_dot_product_attention(q, k, v).output,
    "fused": lambda q, k, v: scaled_dot_product_attention(q, k, v, need_weights=False).output,
    "chunked": chunked_attention,
    f"window {WINDOW}": lambda q, k, v: sliding_window_attention(q, k, v, WINDOW),
    "linear": linear_attention,
}


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of one head of one sequence, each (1, 1, T, D)."""
    generator = torch.Generator().manual_seed(length)
    query, key, value = torch.randn(3, 1, 1, length, WIDTH, generator=generator)
    return query, key, value


def call(variant: str, length: int, backward: bool) -> Callable[[], object]:
    """The call to measure: the output, or the gradients of the three inputs as well."""
    attend, tensors = VARIANTS[variant], inputs(length)
    if not backward:

        def forward() -> object:
            with torch.inference_mode():
                return attend(*tensors)

        return forward
    for tensor in tensors:
        tensor.requires_grad_()
    return lambda: torch.autograd.grad(attend(*tensors).sum(), tensors)


def memory(variant: str, length: int, backward: bool) -> Memory:
    """Peak memory of one variant, in the process that this is called in."""
    call(variant, 16, backward)()  # whatever is loaded at the first call is loaded now
    return measure(call(variant, length, backward))


def errors(length: int) -> dict[str, tuple[float, float]]:
    """For each variant the largest distance from its own definition, and from ordinary attention."""
    query, key, value = inputs(length)
    last = query[..., -CHECKED:, :].double()
    keys, values = key.double(), value.double()
    ordinary = scaled_dot_product_attention(last, keys, values).output
    window = sliding_window_mask(last.shape[-2], length, window=WINDOW)
    weights = elu_features(last) @ elu_features(keys).transpose(-2, -1)  # (1, 1, CHECKED, T)
    defined = {
        f"window {WINDOW}": scaled_dot_product_attention(last, keys, values, window).output,
        "linear": weights / weights.sum(-1, keepdim=True) @ values,
    }
    found = {}
    for variant, attend in VARIANTS.items():
        output = attend(query, key, value)[..., -CHECKED:, :].double()
        own = (output - defined.get(variant, ordinary)).abs().max().item()
        found[variant] = (own, (output - ordinary).abs().max().item())
    return found


def run(
    report: Report,
    *,
    lengths: Sequence[int] = LENGTHS,
    trained_lengths: Sequence[int] = TRAINED_LENGTHS,
    rounds: int = 3,
) -> None:
    """Print memory, time and error of every variant at every length."""
    report.title(
        "long_sequences: explicit against fused, chunked, sliding window and linear attention",
        f"one head of one sequence, width {WIDTH}, no mask, the window looks back",
        "less memory: explicit's counted peak divided by the variant's; time: ratio to explicit",
    )
    _print_mode(report, lengths, rounds, backward=False)
    _print_mode(report, trained_lengths, rounds, backward=True)


def _print_mode(report: Report, lengths: Sequence[int], rounds: int, *, backward: bool) -> None:
    report.line(f"\n{'forward and backward' if backward else 'forward'}")
    report.line(
        f"{'T':>6}  {'variant':<11}{'counted MiB':>12}{'resident MiB':>14}{'less memory':>13}"
        + f"{'ms':>10}{'time':>7}"
        + ("" if backward else f"{'error':>10}{'from ordinary':>15}")
    )
    for length in lengths:
        found = apart(memory, [(variant, length, backward) for variant in VARIANTS])
        peaks = dict(zip(VARIANTS, found, strict=True))
        calls = {variant: call(variant, length, backward) for variant in VARIANTS}
        times = take_turns(calls, rounds=rounds)
        distances = {} if backward else errors(length)
        for variant, (counted, resident) in peaks.items():
            line = f"{length:>6}  {variant:<11}{counted / MIB:>12.2f}{in_mib(resident):>14}"
            line += f"{peaks['explicit'].counted / counted:>13.1f}"
            line += f"{milliseconds(times, variant):>10.2f}{ratio(times, variant, 'explicit'):>7.2f}"
            if distances:
                line += f"{distances[variant][0]:>10.0e}{distances[variant][1]:>15.0e}"
            report.line(line)
        if length == LENGTHS[-1]:
            less = peaks["explicit"].counted / peaks["chunked"].counted
            what = f"long sequences, chunked, T = {length}, less memory"
            report.line(f"        explicit / chunked: memory {report.at_least(what, less, 100)}")
