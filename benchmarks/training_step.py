"""One step of training, forward, loss, backward and AdamW: our encoder-decoder against ``nn.Transformer``.

Both begin with the same weights, get the same padded batch and masks of the same meaning, and use PyTorch's
AdamW as it comes.

    python -m benchmarks training_step
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.attention import causal_mask, padding_mask
from attnlab.transformer import EncoderDecoder
from benchmarks.harness import Report, milliseconds, ratio, take_turns


class Shape(NamedTuple):
    """Sizes of model and batch."""

    d_model: int
    num_heads: int
    num_layers: int  # of the encoder, and again of the decoder
    d_ff: int
    batch: int
    length: int  # of source and target


SMALL = Shape(d_model=64, num_heads=4, num_layers=2, d_ff=256, batch=64, length=16)
LARGE = Shape(d_model=256, num_heads=8, num_layers=2, d_ff=1024, batch=16, length=32)
OURS, THEIRS = "ours", "nn.Transformer"


def pytorch_model(shape: Shape, norm: str, dropout: float) -> nn.Transformer:
    """PyTorch's module; its encoder is handed in, or it would warn about a fast path it cannot take."""
    width, layers, norm_first = shape.d_model, shape.num_layers, norm == "pre"
    layer = nn.TransformerEncoderLayer(
        width, shape.num_heads, shape.d_ff, dropout, batch_first=True, norm_first=norm_first
    )
    encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
    return nn.Transformer(
        width,
        shape.num_heads,
        num_decoder_layers=layers,
        dim_feedforward=shape.d_ff,
        dropout=dropout,
        custom_encoder=encoder,
        batch_first=True,
        norm_first=norm_first,
    )


def forwards(shape: Shape, norm: str, dropout: float) -> dict[str, tuple[nn.Module, Callable[[], Tensor]]]:
    """Each model in training mode, and its forward pass over the same batch, masks included."""
    generator = torch.Generator().manual_seed(shape.d_model)
    batch, length = shape.batch, shape.length
    source, target = torch.randn(2, batch, length, shape.d_model, generator=generator)
    source_lengths, target_lengths = torch.randint(length // 2, length + 1, (2, batch), generator=generator)
    real_source = padding_mask(source_lengths, length)  # (B, 1, S)
    real_target = padding_mask(target_lengths, length)  # (B, 1, T)
    causal = causal_mask(length)  # (T, T)
    theirs = pytorch_model(shape, norm, dropout)
    ours = EncoderDecoder.from_torch(theirs)
    target_mask = causal & real_target  # (B, T, T)
    masks = {
        "tgt_mask": ~causal,
        "src_key_padding_mask": ~real_source[:, 0],
        "tgt_key_padding_mask": ~real_target[:, 0],
        "memory_key_padding_mask": ~real_source[:, 0],
    }
    return {
        OURS: (ours, lambda: ours(source, target, real_source, target_mask, real_source)),
        THEIRS: (theirs, lambda: theirs(source, target, **masks)),
    }


def steps(shape: Shape, norm: str, dropout: float) -> dict[str, Callable[[], object]]:
    """The calls to compare, each one step of training."""

    def step(model: nn.Module, forward: Callable[[], Tensor]) -> Callable[[], object]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def once() -> None:
            optimizer.zero_grad()
            forward().square().mean().backward()
            optimizer.step()

        return once

    return {name: step(*pair) for name, pair in forwards(shape, norm, dropout).items()}


def run(report: Report, *, shapes: Sequence[Shape] = (SMALL, LARGE), rounds: int = 15) -> None:
    """Print the time of a step for each shape, pre- and post-norm, without dropout and with."""
    report.title("training_step: our encoder-decoder against nn.Transformer")
    report.line(
        f"\n{'d_model':>7}{'heads':>6}{'layers':>7}{'d_ff':>6}{'B':>4}{'T':>4}{'norm':>6}{'dropout':>8}"
        f"{'ours ms':>9}{'theirs ms':>10}  ours / theirs"
    )
    for shape in shapes:
        for norm in ("pre", "post"):
            for dropout in (0.0, 0.1):
                times = take_turns(steps(shape, norm, dropout), rounds=rounds)
                what = f"training step, d_model = {shape.d_model}, {norm}-norm, dropout {dropout}"
                layers = f"{shape.num_layers}+{shape.num_layers}"
                report.line(
                    f"{shape.d_model:>7}{shape.num_heads:>6}{layers:>7}{shape.d_ff:>6}{shape.batch:>4}"
                    f"{shape.length:>4}{norm:>6}{dropout:>8}{milliseconds(times, OURS):>9.1f}"
                    f"{milliseconds(times, THEIRS):>10.1f}  "
                    f"{report.at_most(what, ratio(times, OURS, THEIRS), 1.0)}"
                )
