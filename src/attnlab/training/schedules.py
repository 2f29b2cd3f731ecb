"""Learning rates by step: plain functions, each the factor by which the base rate is multiplied.

Steps count from 1, and no schedule is zero at the first. For :func:`attnlab.training.fit` everything but the
step is fixed beforehand: ``schedule=functools.partial(warmup_cosine, warmup=100, total=1000)``.
"""

import math

__all__ = ["constant", "warmup_cosine", "warmup_inverse_sqrt"]


def constant(step: int) -> float:
    """Always 1.

    Args:
        step: from 1 on.

    Raises:
        ValueError: if ``step`` < 1.
    """
    _check("step", step, 1)
    return 1.0


def warmup_cosine(step: int, *, warmup: int, total: int, floor: float = 0.0) -> float:
    r"""Rise in a straight line to 1, then fall along half a cosine to ``floor``.

    Up to step ``warmup`` it is ``step / warmup``; from there to ``total``

    .. math:: f + \tfrac12 (1 - f) \left(1 + \cos \pi \frac{step - warmup}{total - warmup}\right)

    and ``floor`` ever after.

    Args:
        step: from 1 on.
        warmup: the step that reaches 1; 0 for none.
        total: the step that reaches ``floor``.
        floor: f, the factor that is left at the end.

    Raises:
        ValueError: if ``step`` < 1, ``warmup`` < 0, ``total`` < 1 or < ``warmup``, or ``floor`` lies outside
            0 to 1.

    Source: the cosine of Loshchilov & Hutter 2017 (SGDR), section 3, without restarts.
    """
    _check("step", step, 1)
    _check("warmup", warmup, 0)
    _check("total", total, max(1, warmup))
    if not 0.0 <= floor <= 1.0:
        raise ValueError(f"floor: expected a factor between 0 and 1, got {floor}")
    if step <= warmup:
        return step / warmup
    if step >= total:
        return floor
    return floor + (1 - floor) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


def warmup_inverse_sqrt(step: int, *, d_model: int, warmup: int) -> float:
    r"""Rise in a straight line, then fall with the square root of the step.

    .. math:: d_{model}^{-0.5} \cdot \min(step^{-0.5},\; step \cdot warmup^{-1.5})

    This is the rate itself, not a share of one: use it with ``lr=1.0``. The peak,
    ``(d_model · warmup)^-0.5``, is at step ``warmup``.

    Args:
        step: from 1 on.
        d_model: width of the model.
        warmup: the step of the peak; 0 for none, which leaves ``(d_model · step)^-0.5``.

    Raises:
        ValueError: if ``step`` or ``d_model`` < 1, or ``warmup`` < 0.

    Source: Vaswani et al. 2017, section 5.3, equation 3.
    """
    _check("step", step, 1)
    _check("d_model", d_model, 1)
    _check("warmup", warmup, 0)
    falling = step**-0.5
    rising = step * warmup**-1.5 if warmup > 0 else math.inf
    return float(d_model**-0.5 * min(falling, rising))


def _check(name: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise ValueError(f"{name}: expected at least {lowest}, got {value}")
