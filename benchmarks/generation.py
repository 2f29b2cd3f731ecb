"""Generating text with a decoder-only model: with a cache of keys and values against without.

python -m benchmarks generation
"""

from collections.abc import Sequence
from functools import partial

import torch

from attnlab.decoder_only import DecoderOnly, DecoderOnlyConfig, generate
from benchmarks.harness import Report, milliseconds, ratio, take_turns

LENGTHS = (64, 128, 256, 512, 1024)
CACHED, UNCACHED = "cached", "uncached"


def model(length: int) -> DecoderOnly:
    """A model of the size that the course trains on characters, untrained."""
    return DecoderOnly(
        DecoderOnlyConfig(vocab_size=96, d_model=128, num_heads=4, num_layers=4, d_ff=512, max_length=length)
    )


def write(gpt: DecoderOnly, length: int, use_cache: bool) -> torch.Tensor:
    """A text of this many tokens, (1, length)."""
    prompt = torch.zeros(1, 1, dtype=torch.long)
    return generate(gpt, prompt, length - 1, temperature=0.0, use_cache=use_cache)


def run(report: Report, *, lengths: Sequence[int] = LENGTHS, rounds: int = 3) -> None:
    """Print how many times as fast the cache makes it, at every length of text."""
    report.title(
        "generation: a decoder-only model with a cache against without",
        "4 layers, d_model 128, 4 heads, one text, begun by one token, the likeliest token each time",
    )
    report.line(f"\n{'tokens':>6}{'cached, a second':>18}{'uncached, a second':>20}  uncached / cached")
    for length in lengths:
        calls = {name: partial(write, model(length), length, name == CACHED) for name in (CACHED, UNCACHED)}
        long = length > 256  # seconds without a cache: once is enough
        times = take_turns(calls, rounds=1 if long else rounds, warm_up=not long)
        faster = ratio(times, UNCACHED, CACHED)
        words = f"{faster:.1f}"
        if length == LENGTHS[-1]:
            words = report.at_least(f"generation, {length} tokens, cached, times as fast", faster, 10)
        speeds = [1000 * (length - 1) / milliseconds(times, name) for name in (CACHED, UNCACHED)]
        report.line(f"{length:>6}{speeds[0]:>18.0f}{speeds[1]:>20.0f}  {words}")
