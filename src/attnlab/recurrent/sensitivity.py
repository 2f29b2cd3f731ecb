"""How much of an early input is left in the last output, measured by gradients."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["gradient_by_distance"]


def gradient_by_distance(
    last_output: Callable[[Tensor], Tensor], inputs: Tensor, generator: torch.Generator
) -> Tensor:
    """How much the last output depends on each earlier input, measured by gradients.

    One random direction of the output is followed back to every input, and the norm of what arrives is
    averaged over the batch. Use float64: in float32 the gradient of a plain RNN is zero after some sixty
    steps.

    Args:
        last_output: maps inputs (B, T, D) to the output of the last position (B, H).
        inputs: (B, T, D), floating point.
        generator: draws the direction.

    Returns:
        (T,): entry ``k`` is the norm for the input ``k`` steps before the last one, divided by entry 0.

    Raises:
        ValueError: if ``inputs`` is not (B, T, D), or the last output does not depend on the last input.

    Source: the sensitivity studied by Hochreiter 1991, Bengio et al. 1994 and Pascanu et al. 2013, section 2.
    """
    if inputs.dim() != 3:
        raise ValueError(f"inputs: expected (B, T, D), got {tuple(inputs.shape)}")
    inputs = inputs.detach().requires_grad_()
    output = last_output(inputs)  # (B, H)
    direction = torch.randn(output.shape, generator=generator, dtype=output.dtype, device=output.device)
    (gradient,) = torch.autograd.grad(output, inputs, direction)  # (B, T, D)
    norms: Tensor = gradient.norm(dim=-1).mean(dim=0).flip(0)  # (T,) from the last position backwards
    nearest = norms[0].item()
    if nearest == 0 or not math.isfinite(nearest):
        raise ValueError(f"last_output: expected a gradient at the last input to compare with, got {nearest}")
    return norms / nearest
