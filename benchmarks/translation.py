"""Words per second of translation: greedy search in a batch and one sentence at a time, and beam search.

The model has the size of the course's translator. It is untrained, which does not change the work of a
word, and never ends a sentence by itself, so that each is as long as is asked for. A token counts as a word.

    python -m benchmarks translation
"""

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.transformer import Transformer, TransformerConfig, beam_search, greedy_decode
from benchmarks.harness import Report, milliseconds, ratio, take_turns

VOCABULARY, SOURCE_LENGTH, TARGET_LENGTH, BATCH, BEAMS = 300, 12, 16, 64, 4


def model() -> Transformer:
    """The translator, whose rows for the end mark are zero: its logit is 0 and never among the largest."""
    translator = Transformer(
        TransformerConfig(
            source_vocab_size=VOCABULARY,
            target_vocab_size=VOCABULARY,
            d_model=64,
            num_heads=4,
            d_ff=256,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dropout=0.0,
            norm="pre",
            max_length=64,
        )
    )
    with torch.no_grad():
        translator.target_embedding.weight[translator.config.eos] = 0.0
    return translator


def searches(sentences: int, length: int) -> dict[str, tuple[int, Callable[[], Tensor]]]:
    """Each way to translate: how many sentences it takes at a time, and the call, which returns tokens."""
    translator = model()
    first_word = 3  # behind pad, bos and eos
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(first_word, VOCABULARY, (sentences, SOURCE_LENGTH), generator=generator)

    def greedy(source: Tensor) -> Tensor:
        return greedy_decode(translator, source, max_length=length)

    def beam(source: Tensor) -> Tensor:
        return beam_search(translator, source, beam_size=BEAMS, max_length=length).tokens[:, 0]

    return {
        f"greedy, batch of {sentences}": (sentences, lambda: greedy(source)),
        "greedy, single": (1, lambda: greedy(source[:1])),
        f"beam of {BEAMS}, batch of {sentences}": (sentences, lambda: beam(source)),
        f"beam of {BEAMS}, single": (1, lambda: beam(source[:1])),
    }


def run(report: Report, *, sentences: int = BATCH, length: int = TARGET_LENGTH, rounds: int = 9) -> None:
    """Print words per second of every search, and how that compares with greedy search in a batch."""
    report.title(
        "translation: words per second",
        f"2+2 layers, d_model 64, 4 heads, vocabulary {VOCABULARY}; {SOURCE_LENGTH} words into {length}",
        "a second's words depend on the machine; ratios are to greedy search in a batch, above 1 is faster",
    )
    ways = searches(sentences, length)
    for name, (_, search) in ways.items():
        if search().shape[1] != length:
            raise RuntimeError(f"{name}: expected {length} words a sentence, got {search().shape[1]}")
    times = take_turns({name: search for name, (_, search) in ways.items()}, rounds=rounds)
    base = next(iter(ways))
    report.line(f"\n{'search':<24}{'words a second':>16}{'ratio':>8}")
    for name, (count, _) in ways.items():
        speed = 1000 * count * length / milliseconds(times, name)
        faster = count / sentences / ratio(times, name, base)
        report.line(f"{name:<24}{speed:>16,.0f}{faster:>8.2f}")
