"""Lesson 8, the decoder layer: the task, its cases and what its mistakes are told apart by."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from ...attention import causal_mask, padding_mask
from ..engine import Call, Failed, ModuleTask, expect_close, expect_pair, expect_tensor, normal
from ..modules import load
from . import layer
from . import mistakes as known

PARTS = ("output", "weights")
SIZES = {"d_model": 6, "num_heads": 2, "d_ff": 10}
DROPPING = {**SIZES, "dropout": 0.25}


@functools.cache
def _shapes(**sizes: Any) -> dict[str, tuple[int, ...]]:
    state = layer.DecoderLayer(**sizes).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def _weights(g: torch.Generator, sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Weights for all parts: no bias or norm that could be left out unnoticed, no saturated softmax."""
    weights = {}
    for name, shape in _shapes(**sizes).items():
        drawn = normal(g, *shape)
        is_factor = name.startswith("norm") and name.endswith("weight")
        weights[name] = drawn / shape[1] ** 0.5 if len(shape) == 2 else 0.4 * drawn + float(is_factor)
    return weights


def _pair(g: torch.Generator, B: int = 3, T: int = 4, S: int = 7, d_model: int = 6) -> tuple[Tensor, Tensor]:
    """A target (B, T, d_model) and a memory (B, S, d_model) that no norm leaves as they are."""
    return 1.5 * normal(g, B, T, d_model) + 0.5, 1.5 * normal(g, B, S, d_model) - 0.5


def _masks(T: int, lengths: tuple[int, ...], S: int) -> tuple[Tensor, Tensor]:
    return causal_mask(T), padding_mask(lengths, S)  # (T, T), (B, 1, S)


def _rows(g: torch.Generator, *shape: int) -> Tensor:
    """A random mask (B, T, S) in which each row is another; the last row of all shows nothing."""
    order = torch.rand(*shape, generator=g).argsort(dim=-1)
    allowed = (order == 0) | (torch.rand(*shape, generator=g) < 0.5) & (order != 1)
    allowed[-1, -1] = False
    return allowed


def _layer_probes(g: torch.Generator) -> list[Any]:
    return _layer_probes_of(g.initial_seed())


@functools.lru_cache(maxsize=2)
def _layer_probes_of(seed: int) -> list[Any]:
    """Kept, since hundreds of mistaken layers may be tried on them in one check."""
    g = torch.Generator().manual_seed(seed)
    weights, square = _weights(g, SIZES), _pair(g, T=5, S=5)
    return [
        Call(SIZES, weights, *square, *_masks(5, (3, 5, 4), 5)),
        Call(SIZES, weights, *_pair(g)),
        Call(SIZES, weights, *_pair(g), *_masks(4, (5, 7, 0), 7)),
        Call(weights, *square, training=False),
        Call(weights, *square, training=True),
    ]


def _observe_layer(answer: Any, *args: Any, **mode: Any) -> Any:
    return _dropout_pattern(answer, *args, **mode) if mode else answer(*args)


_SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")


def _dropout_pattern(answer: Any, *args: Any, training: bool) -> tuple[tuple[float, ...], ...]:
    """For each sublayer, while the others give nothing: what its numbers are multiplied by."""
    return tuple(
        layer.dropped_shares(*outputs) for outputs in _one_speaking(answer, *args, training=training)
    )


def _one_speaking(
    answer: Any, weights: dict[str, Tensor], x: Tensor, memory: Tensor, *, training: bool
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each sublayer the output with dropout, without any sublayer, and with this one but no dropout."""
    plain, dropping = answer.build(SIZES).eval(), answer.build(DROPPING).train(training)

    def output(module: nn.Module, *speaking: str) -> Tensor:
        load(module, layer.silent(weights, *(part for part in _SUBLAYERS if part not in speaking)))
        return _first(module(x.clone(), memory.clone()), x)

    nothing = output(plain)
    return [(output(dropping, part), nothing, output(plain, part)) for part in _SUBLAYERS]


def _first(result: Any, x: Tensor) -> Tensor:
    return expect_tensor(expect_pair(result, PARTS)[0], tuple(x.shape), "the output")


DECODER_LAYER = ModuleTask(
    "encoder_decoder.DecoderLayer",
    "The decoder layer",
    layer.DecoderLayer,
    probes=_layer_probes,
    observe=_observe_layer,
    mistakes=known.DECODER_LAYER,
)
_RIGHT_LAYER = DECODER_LAYER.adapt(layer.DecoderLayer)


def _expect_layer(answer: Any, *args: Any) -> None:
    output, weights = expect_pair(answer(*args), PARTS)
    wanted = _RIGHT_LAYER(*args)
    expect_close(weights, wanted[1].detach(), "the cross-attention weights")
    expect_close(output, wanted[0].detach(), "the output")


@DECODER_LAYER.case("returns output and cross-attention weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    output, weights = expect_pair(answer(SIZES, _weights(g, SIZES), *_pair(g)), PARTS)
    expect_tensor(output, (3, 4, 6), "the output")
    expect_tensor(weights, (3, 2, 4, 7), "the cross-attention weights")


@DECODER_LAYER.case("output and weights, without masks", 3)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_layer(answer, SIZES, _weights(g, SIZES), *_pair(g))


@DECODER_LAYER.case("each mask in its place", 2)
def _(answer: Any, g: torch.Generator) -> None:
    weights, pair = _weights(g, SIZES), _pair(g)
    own, others = _masks(4, (5, 7, 0), 7)
    # Then both masks with a row of its own for each token of each sentence, and each mask alone.
    for masks in ((own, others), (_rows(g, 3, 4, 4), _rows(g, 3, 4, 7)), (own, None), (None, others)):
        _expect_layer(answer, SIZES, weights, *pair, *masks)


@DECODER_LAYER.case("what stands at the source's padding changes nothing", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights, (x, memory), masks = _weights(g, SIZES), _pair(g), _masks(4, (5, 7, 3), 7)
    other = torch.where(masks[1].transpose(1, 2), memory, memory + 2.0)  # (B, S, d_model)
    before = _first(answer(SIZES, weights, x, memory, *masks), x)
    expect_close(_first(answer(SIZES, weights, x, other, *masks), x), before, "the output with other padding")
    expect_close(before, _RIGHT_LAYER(SIZES, weights, x, memory, *masks)[0].detach(), "the output")


@DECODER_LAYER.case("in training: the output, and the gradients of memory, target and every parameter", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights, pair, masks = _weights(g, SIZES), _pair(g), _masks(4, (5, 7, 3), 7)
    direction = normal(g, 3, 4, 6)
    given, wanted = (_learning(each, weights, pair, masks, direction) for each in (answer, _RIGHT_LAYER))
    for name, tensor in wanted.items():
        found = given.get(name)
        if found is None:
            raise Failed(f"no {name}")
        assert tensor is not None
        expect_close(found, tensor, name, absolute=1e-4, relative=1e-3)


def _learning(
    answer: Any, weights: dict[str, Tensor], pair: Any, masks: Any, direction: Tensor
) -> dict[str, Tensor | None]:
    """Output of a layer in training, without dropout, and the gradients of all that goes into it."""
    module = answer.build(SIZES)
    load(module, weights)
    x, memory = (part.clone().requires_grad_() for part in pair)
    output, _ = expect_pair(module.train()(x, memory, *masks), PARTS)
    expect_tensor(output, tuple(x.shape), "the output")
    if not output.requires_grad:
        raise Failed("no gradient reaches the parameters")
    (output * direction).sum().backward()
    gradients = {"the target": x.grad, "the memory": memory.grad}
    gradients |= {name: part.grad for name, part in module.named_parameters()}
    found = {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    return {"output in training": output.detach(), **found}


@DECODER_LAYER.case("dropout, in training alone and on what each sublayer gives", 2)
def _(answer: Any, g: torch.Generator) -> None:
    weights, pair = _weights(g, SIZES), _pair(g, B=12, T=5, S=5)
    if _dropout_pattern(answer, weights, *pair, training=False) != ((1.0,),) * 3:
        raise Failed("after eval() a dropout above zero still changes the output")
    seen = _one_speaking(answer, weights, *pair, training=True)
    for name, outputs in zip(("self-attention", "cross-attention", "feed-forward"), seen, strict=True):
        shares = layer.dropped_shares(*outputs)
        if shares == (1.0,):
            raise Failed(f"in training nothing of what {name} gives is dropped")
        if shares != (0.0, 1.3):
            raise Failed(f"in training, what {name} adds is not dropped or rescaled as nn.Dropout does it")
        odd = layer.odd_dropping(*outputs, DROPPING["dropout"])
        if odd is not None:
            raise Failed(f"in training, of what {name} adds {odd}")


@DECODER_LAYER.case("other sizes, both sides of one length, a mask for each sentence", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    sizes = {"d_model": 9, "num_heads": 3, "d_ff": 5}
    pair = _pair(g, B=2, T=4, S=4, d_model=9)
    own, others = _masks(4, (2, 4), 4)
    own = (own & padding_mask((3, 4), 4)).clone()  # (B, T, T)
    _expect_layer(answer, sizes, _weights(g, sizes), *pair, own, others.expand(2, 4, 4).clone())
    _expect_layer(answer, sizes, _weights(g, sizes), *_pair(g, B=1, T=1, S=5, d_model=9))
