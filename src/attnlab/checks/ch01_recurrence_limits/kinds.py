"""How the answers of lesson 1 are looked at where a plain comparison of results is not enough.

Four kinds: an answer that gives one number, of whatever type; one that changes a layer in place; one
that gives a loss, whose gradient matters as much as its value; and a test of programs that differ in nothing
but their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..answers import Answer, Outcome
from ..compare import expect_callable, normal
from ..judge import Implementation, JudgeTask
from ..tasks import FunctionTask, Mistake
from ..verdict import Failed, NothingYet

Layer = TypeVar("Layer", bound=nn.Module)


def uniform_layer(layer: Layer, generator: torch.Generator) -> Layer:
    """The layer with weights drawn from the generator, large enough that nothing fades within a check."""
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.rand(parameter.shape, generator=generator, device="cpu")
            parameter.copy_(1.6 * drawn - 0.8)
    return layer


class _NumberAnswer(Answer):
    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        value = super().__call__(*args, **kwargs)
        if value is None or value is Ellipsis:
            raise NothingYet("nothing was returned; is a return missing?")
        if type(value) is torch.Tensor and value.numel() != 1:
            raise Failed(f"one number is wanted, but this is a tensor of shape {tuple(value.shape)}")
        if type(value) is torch.Tensor and value.is_complex():
            raise Failed("a real number is wanted, but this is complex")
        if type(value) not in (int, float, torch.Tensor):
            raise Failed(f"one number is wanted, but this is {type(value).__name__}")
        return torch.tensor(float(value), dtype=torch.float64)


class NumberTask(FunctionTask):
    """The answer gives one number: a Python number or a tensor that holds one are the same to it."""

    def adapt(self, answer: object) -> Answer:
        return _NumberAnswer(expect_callable(answer, "a function"))


class _ForgetBiasAnswer:
    """Calls the answer on an LSTM made for it, and says what has become of the LSTM."""

    def __init__(self, answer: object) -> None:
        self._function = expect_callable(answer, "a function")

    def __call__(self, sizes: dict[str, Any], seed: int, value: float) -> tuple[Any, ...]:
        """(Forget gate's bias, the other gates' biases, is the rest as it was, same objects, trainable)."""
        generator = torch.Generator().manual_seed(seed)
        lstm = uniform_layer(nn.LSTM(**sizes), generator)
        objects = dict(lstm.named_parameters())
        weights = {name: tensor.detach().clone() for name, tensor in objects.items() if "weight" in name}
        self._function(lstm, value)
        now = dict(lstm.named_parameters())
        if now.keys() != objects.keys():
            raise Failed("the LSTM should keep all its parameters under their names")
        biases = torch.stack([first + second for first, second in _bias_pairs(now)]).detach()  # (layers, 4 H)
        forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
        others = torch.cat([biases[:, : forget.start], biases[:, forget.stop :]], dim=1)
        return (
            biases[:, forget].clone(),
            others,
            all(torch.equal(now[name], tensor) for name, tensor in weights.items()),
            all(now[name] is tensor for name, tensor in objects.items()),
            all(tensor.requires_grad for tensor in now.values()),
        )


def _bias_pairs(parameters: dict[str, nn.Parameter]) -> Iterator[tuple[Tensor, Tensor]]:
    """The two bias vectors of each layer and direction; PyTorch adds them."""
    for name in parameters:
        if name.startswith("bias_ih"):
            yield parameters[name], parameters[name.replace("bias_ih", "bias_hh")]


class ForgetBiasTask(FunctionTask):
    """The answer changes an LSTM in place. Its cases call ``answer(sizes, seed, value)``."""

    def adapt(self, answer: object) -> Any:
        return _ForgetBiasAnswer(answer)


class _LossAnswer:
    """Calls the answer on a small model made for it, and gives the loss and its gradient at early tokens."""

    def __init__(self, answer: object) -> None:
        self._function = expect_callable(answer, "a function")

    def __call__(self, seed: int, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """(Loss as a scalar, gradient at the embeddings that only the first eight tokens use)."""
        generator = torch.Generator().manual_seed(seed)
        embedding = uniform_layer(nn.Embedding(12, 3), generator)
        layer = uniform_layer(nn.GRU(3, 4, batch_first=True), generator)
        readout = uniform_layer(nn.Linear(4, 5), generator)
        tokens = torch.randint(6, (batch, length), generator=generator)  # (B, T)
        tokens[:, :8] += 6
        targets = torch.randint(5, (batch,), generator=generator)  # (B,)
        loss = self._function(embedding, layer, readout, tokens, targets)
        if loss is None or loss is Ellipsis:
            raise NothingYet("nothing was returned; is a return missing?")
        if type(loss) is not torch.Tensor or loss.dim() != 0:
            raise Failed("the loss should be a tensor that holds one number")
        if not loss.requires_grad:
            raise Failed("the loss has no gradient at all")
        (gradient,) = torch.autograd.grad(loss, embedding.weight, allow_unused=True)
        early = torch.zeros(6, 3) if gradient is None else gradient[6:]
        return loss.detach().clone(), early.detach().clone()


class LossTask(FunctionTask):
    """The answer gives a loss. ``answer(seed, batch, length)`` is the loss and its gradient."""

    def adapt(self, answer: object) -> Any:
        return _LossAnswer(answer)

    def combinations(self) -> Iterator[tuple[Mistake, ...]]:
        """Single mistakes and pairs as ever, and the program as it is given, which holds more than two."""
        yield from super().combinations()
        yield tuple(mistake for mistake in self.mistakes if mistake.key in self.untouched)


class GradientJudgeTask(JudgeTask):
    """The answer is a test of programs, (B, T, 3) to (B, T, H), that may differ in their gradients alone."""

    absolute = 0.0  # a gradient that has faded is small, and not the same as none

    def behaviour(self, program: Implementation) -> list[Outcome]:
        """The outputs for some inputs, and the gradient of the last one."""
        inputs = normal(torch.Generator().manual_seed(0), 2, 32, 3, dtype=torch.float64).requires_grad_()
        outputs = program(inputs)
        (gradient,) = torch.autograd.grad(outputs[:, -1].sum(), inputs)
        return [Outcome(outputs), Outcome(gradient)]
