"""Multi-head self-attention, with its weights and without, against ``nn.MultiheadAttention``.

Forward runs in evaluation mode without gradients, where PyTorch's module is one operator: the counter of
memory does not see inside it, so there the growth of the process is judged. Forward and backward runs in
training mode, with the gradients of input and parameters. Both modules have equal parameters.

    python -m benchmarks attention
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attnlab.multihead import MultiHeadAttention
from benchmarks.harness import Report, Times, apart, milliseconds, ratio, take_turns
from benchmarks.memory import MIB, Memory, in_mib, measure

D_MODEL, NUM_HEADS = 256, 4
LENGTHS = (128, 256, 512, 1024, 2048)
OURS, OURS_EXPLICIT = "ours, without weights", "ours, with weights"
THEIRS, THEIRS_EXPLICIT = "nn.MultiheadAttention, without", "nn.MultiheadAttention, with"
VARIANTS = (OURS, OURS_EXPLICIT, THEIRS, THEIRS_EXPLICIT)
MODES = ("forward", "forward and backward")


def modules() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Ours and PyTorch's, with equal weights."""
    theirs = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)
    return MultiHeadAttention.from_torch(theirs), theirs


def variants(length: int, mode: str) -> dict[str, Callable[[], object]]:
    """The calls to compare at one length: each computes an output, and in the second mode its gradients."""
    x = torch.randn(1, length, D_MODEL, generator=torch.Generator().manual_seed(length))  # (B, T, d_model)
    ours, theirs = modules()
    outputs: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
        OURS: lambda x: ours(x, need_weights=False),
        OURS_EXPLICIT: lambda x: ours(x),
        THEIRS: lambda x: theirs(x, x, x, need_weights=False),
        THEIRS_EXPLICIT: lambda x: theirs(x, x, x, average_attn_weights=False),
    }
    training = mode == MODES[1]
    x.requires_grad_(training)
    for module in (ours, theirs):
        module.train(training)

    def call(variant: str) -> object:
        if not training:
            with torch.inference_mode():
                return outputs[variant](x)
        module = ours if variant in (OURS, OURS_EXPLICIT) else theirs
        # What else the call returns is held until the end, as by a caller who asked for it.
        returned = outputs[variant](x)
        return returned, torch.autograd.grad(returned[0].sum(), [x, *module.parameters()])

    return {variant: partial(call, variant) for variant in VARIANTS}


def memory(variant: str, length: int, mode: str) -> Memory:
    """Peak memory of one variant, in the process that this is called in."""
    variants(8, mode)[variant]()  # whatever is loaded at the first call is loaded now
    return measure(variants(length, mode)[variant])


def run(report: Report, *, lengths: Sequence[int] = LENGTHS, rounds: int = 15) -> None:
    """Print time and memory of every variant at every length, in both modes."""
    report.title(
        "attention: ours against nn.MultiheadAttention",
        f"self-attention of one sequence of T tokens, d_model {D_MODEL}, {NUM_HEADS} heads, equal weights",
        "time and counted: ratios to ours without weights; resident: growth of the process",
    )
    for mode in MODES:
        report.line(f"\n{mode}")
        report.line(
            f"{'T':>5}  {'variant':<31}{'ms':>9}{'time':>7}{'counted':>9}{'MiB':>9}{'resident MiB':>14}"
        )
        for length in lengths:
            times = take_turns(variants(length, mode), rounds=rounds)
            found = apart(memory, [(variant, length, mode) for variant in VARIANTS])
            _print_length(report, mode, length, times, dict(zip(VARIANTS, found, strict=True)))


def _print_length(report: Report, mode: str, length: int, times: Times, found: dict[str, Memory]) -> None:
    for variant in VARIANTS:
        memory = found[variant]
        report.line(
            f"{length:>5}  {variant:<31}{milliseconds(times, variant):>9.2f}"
            f"{ratio(times, variant, OURS):>7.2f}{memory.counted / found[OURS].counted:>9.2f}"
            f"{memory.counted / MIB:>9.1f}{in_mib(memory.resident):>14}"
        )
    what = f"attention, {mode}, T = {length}"
    words = f"time {report.at_most(f'{what}, time', ratio(times, OURS, THEIRS), 1.0)}"
    ours, theirs = found[OURS], found[THEIRS]
    if mode == MODES[1]:
        words += f"; memory {report.at_most(f'{what}, memory', ours.counted / theirs.counted, 1.0)}"
    elif ours.resident is not None and theirs.resident is not None:
        share = ours.resident / max(theirs.resident, 1)
        words += f"; resident memory {report.at_most(f'{what}, resident memory', share, 1.0)}"
    report.line(f"       without weights, ours / nn.MultiheadAttention: {words}")
    if length == 1024:
        share = ours.counted / found[OURS_EXPLICIT].counted
        words = report.at_most(f"{what}, memory of explicit", share, 0.3)
        report.line(f"       ours, without weights / with: memory {words}")
    report.line()
