"""The task of writing a block: the same for pre-norm and post-norm, but for the place of the norm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..answers import Answer
from ..compare import expect_close, expect_tensor, normal
from ..modules import ModuleTask, load
from ..tasks import Call, Mistake
from ..verdict import Failed
from .dropout import SIZES as SMALL
from .dropout import Dropping, where_it_drops
from .inputs import OTHER_SIZES, SIZES, block_parameters, mask, stream

_DROPPING_TOKENS = 40


def _block_probes(g: torch.Generator) -> list[Any]:
    weights, small = block_parameters(g), block_parameters(g, SMALL)
    other = block_parameters(g, OTHER_SIZES)
    tokens = stream(g, _DROPPING_TOKENS, 1, 4)
    return [
        Call(SIZES, weights, stream(g)),
        Call(SIZES, weights, stream(g), mask(g, 4, empty=True)),
        Call(OTHER_SIZES, other, stream(g, B=2, T=3, width=8)),
        Call(SMALL, small, tokens, training=False),
        Call(SMALL, small, tokens, training=True),
    ]


def block_task(
    name: str, title: str, reference: Callable[..., nn.Module], norm_at: str, mistakes: Sequence[Mistake]
) -> ModuleTask:
    """A task for one of the two blocks; they differ in the place of the norm and in nothing else."""

    def observe(answer: Any, sizes: Any, weights: Any, x: Tensor, *allowed: Tensor, **mode: bool) -> Any:
        if mode:
            return tuple(where_it_drops(answer, norm_at, weights, x, **mode))
        return answer(sizes, weights, x, *allowed)

    task = ModuleTask(
        f"block.{name}", title, reference, probes=_block_probes, observe=observe, mistakes=mistakes
    )

    def expect_block(answer: Any, sizes: Any, weights: Any, *inputs: Tensor) -> None:
        expected = task.adapt(reference)(sizes, weights, *inputs)
        expect_close(answer(sizes, weights, *inputs), expected.detach(), "the output")

    @task.case("the output, without a mask", 2)
    def _(answer: Any, g: torch.Generator) -> None:
        expect_block(answer, SIZES, block_parameters(g), stream(g))

    @task.case("with attention and network silent", 1)
    def _(answer: Any, g: torch.Generator) -> None:
        weights = block_parameters(g)
        for silent in ("self_attention.w_o", "feed_forward.w_2"):
            for part in ("weight", "bias"):
                weights[f"{silent}.{part}"] = torch.zeros_like(weights[f"{silent}.{part}"])
        expect_block(answer, SIZES, weights, stream(g))

    @task.case("a mask hides tokens, and may hide all of them", 1)
    def _(answer: Any, g: torch.Generator) -> None:
        weights, x = block_parameters(g), stream(g)
        expect_block(answer, SIZES, weights, x, mask(g, 4, empty=True))
        for allowed in (mask(g), mask(g, 4)):
            expect_block(answer, SIZES, weights, x, allowed)
            expect_in_training(answer, task.adapt(reference), SIZES, weights, x, allowed)

    @task.case("every parameter learns, and the gradient gets through", 1)
    def _(answer: Any, g: torch.Generator) -> None:
        expect_learning(
            answer, task.adapt(reference), SIZES, block_parameters(g), normal(g, 4, 5, 6), stream(g)
        )

    @task.case("dropout acts on what attention and network give, in training alone", 2)
    def _(answer: Any, g: torch.Generator) -> None:
        weights = block_parameters(g, SMALL)
        tokens = stream(g, _DROPPING_TOKENS, 1, 4)
        resting = where_it_drops(answer, norm_at, weights, tokens, training=False)
        if resting != Dropping("nothing", "nothing"):
            raise Failed("after eval() a dropout above zero still changes the output")
        seen = where_it_drops(answer, norm_at, weights, tokens, training=True)
        for part, what in seen._asdict().items():
            if what == "nothing":
                raise Failed(f"training gives the same as evaluation: nothing of the {part}'s is dropped")
            if what != "f":
                raise Failed(f"in training, dropout around the {part} does something else than was asked")

    @task.case("other sizes, one mask for the whole batch", 1, hidden=True)
    def _(answer: Any, g: torch.Generator) -> None:
        weights = block_parameters(g, OTHER_SIZES)
        x = stream(g, B=2, T=7, width=8)
        expect_block(answer, OTHER_SIZES, weights, x, mask(g, T=7, empty=True))
        expect_block(answer, OTHER_SIZES, weights, stream(g, B=3, T=1, width=8))

    return task


def _trained(answer: Any, sizes: Any, weights: Any) -> nn.Module:
    module: nn.Module = answer.build(sizes)
    load(module, weights)
    return module.train()


def expect_in_training(answer: Any, right: Any, sizes: Any, weights: Any, *inputs: Tensor) -> None:
    """``Failed`` unless a module gives in training what the right one gives; nothing is dropped."""
    given, wanted = (Answer(_trained(each, sizes, weights))(*inputs) for each in (answer, right))
    expect_close(given, wanted.detach(), "the output in training")


def expect_learning(
    answer: Any, right: Any, sizes: Any, weights: Any, direction: Tensor, x: Tensor, *others: Tensor
) -> None:
    """``Failed`` unless in training output and gradients, of every parameter and of ``x``, are right."""
    found: list[dict[str, Tensor | None]] = []
    for each in (answer, right):
        module, read = _trained(each, sizes, weights), x.clone().requires_grad_()
        output = module(read, *others)
        expect_tensor(output, tuple(x.shape), "the output")
        if not output.requires_grad:
            raise Failed("no gradient reaches the parameters")
        (output * direction).sum().backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        found.append({"the input": read.grad, **gradients})
    for name, wanted in found[1].items():
        assert wanted is not None
        gradient = found[0].get(name)
        if gradient is None:
            raise Failed(f"no gradient reaches {name}")
        expect_close(gradient, wanted, f"the gradient of {name}", absolute=1e-4, relative=1e-3)


def expect_gradients(module: nn.Module, names: Iterable[str]) -> None:
    """``Failed`` unless each of these parameters has a gradient that is finite and not zero."""
    found = dict(module.named_parameters())
    for name in names:
        gradient = found[name].grad if name in found else None
        if gradient is None or not gradient.isfinite().all() or not gradient.any():
            raise Failed(f"no gradient reaches {name}")
