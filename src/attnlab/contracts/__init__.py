"""What any attention, and the program around it, must hold to: functions that raise an AssertionError.

A contract takes a function and an input, tries the function, and returns nothing where the property holds.
Where it does not, the message says which position broke it and by how much. The unit tests, the checks of the
exercises and the lessons use the same contracts.

A function under contract maps ``(..., T, D)`` to ``(..., T, D')``: positions on the last axis but one. It may
return a tensor, or a tuple whose first entry is that tensor, such as an
:class:`~attnlab.attention.AttentionOutput` and the results of layers and models. A mask is closed over::

    contracts.causal(lambda x: attention(x, causal_mask(x.shape[-2])), x)

Where a contract says so, the input may also be token numbers ``(B, T)``.

Noise and permutations come from ``generator``; where it is left out, from a fresh one with a fixed seed, so
that a verdict never changes from run to run. Tolerances are absolute, and where they are left out they follow
the type of the numbers: 1e-10 for float64, 1e-5 for float32, 2e-2 below.
"""

from attnlab.contracts.dependence import (
    batch_independent,
    causal,
    causal_by_change,
    causal_by_gradient,
    padding_blind,
    permutation_equivariant,
)
from attnlab.contracts.programs import (
    layers_distinct,
    next_token_asked,
    norm_standardises,
    padding_costs_nothing,
    reads_memory,
    same_in_pieces,
    scaled_by_width,
)
from attnlab.contracts.repetition import cache_equal, eval_deterministic
from attnlab.contracts.rotation import rotary_shift_invariant
from attnlab.contracts.weights import (
    gradients_finite,
    masked_rows_zero,
    rows_sum_to_one,
    weights_explain_output,
)

__all__ = [
    "batch_independent",
    "cache_equal",
    "causal",
    "causal_by_change",
    "causal_by_gradient",
    "eval_deterministic",
    "gradients_finite",
    "layers_distinct",
    "masked_rows_zero",
    "next_token_asked",
    "norm_standardises",
    "padding_blind",
    "padding_costs_nothing",
    "permutation_equivariant",
    "reads_memory",
    "rotary_shift_invariant",
    "rows_sum_to_one",
    "same_in_pieces",
    "scaled_by_width",
    "weights_explain_output",
]
