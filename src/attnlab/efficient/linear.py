r"""Linear attention: the exponential of a score is replaced by a product of features.

.. math::
    o_i = \frac{\phi(q_i)^{\top} \sum_j \phi(k_j) v_j^{\top}}{\phi(q_i)^{\top} \sum_j \phi(k_j)},
    \qquad \phi(x) = \operatorname{elu}(x) + 1

The sums over the keys do not depend on the query and are made once: time and memory are linear in the length.
This is another function than softmax attention, not an approximation of it: weights trained with the one are
wrong in the other. There is no division by the root of ``d_k``.

Axes: T = queries, S = keys. Source: Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive
Transformers with Linear Attention", 2020, sections 3.2 and 3.3.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import check_inputs

__all__ = ["causal_linear_attention", "elu_features", "linear_attention"]


def elu_features(x: Tensor) -> Tensor:
    r"""The feature map :math:`\phi(x) = \operatorname{elu}(x) + 1`: x + 1 above 0, :math:`e^x` below.

    Args:
        x: Of any shape.

    Returns:
        Of the shape of ``x``, nowhere negative.

    Source: Katharopoulos et al. 2020, section 3.2.1, equation 7.
    """
    # Equal to F.elu(x) + 1, which would round everything below -17 to 0 in float32. The clamp keeps the
    # exponential of a large x, which would be infinite, out of the gradient.
    return x.relu() + x.clamp(max=0.0).exp()


def linear_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Linear attention in which every query sees every key.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``. Leading axes of query, key and value broadcast against each other.
        value: ``(..., S, d_v)``.

    Returns:
        ``(..., T, d_v)``, of the type of ``query``; half precision is computed in float32. A query whose
        weights are all too small for the type gets zeros.

    Raises:
        TypeError: If the tensors are not of one floating-point type.
        ValueError: If shapes do not fit together.

    Source: Katharopoulos et al. 2020, section 3.2, equations 5 to 7.
    """
    check_inputs(query, key, value)
    query_features, key_features, value_and_one = _prepared(query, key, value)
    state = key_features.transpose(-2, -1) @ value_and_one  # (..., d_k, d_v + 1)
    return _normalised(query_features @ state).to(query.dtype)


def causal_linear_attention(query: Tensor, key: Tensor, value: Tensor, *, chunk: int = 64) -> Tensor:
    """Linear attention in which each position sees itself and the ones before it.

    The positions are taken in chunks: within a chunk the quadratic form is used, and everything before the
    chunk is one state of ``d_k`` by ``d_v + 1`` numbers, so that memory is linear in T.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., T, d_k)``. Leading axes of query, key and value broadcast against each other.
        value: ``(..., T, d_v)``.
        chunk: Number of positions in a chunk. The result does not depend on it.

    Returns:
        ``(..., T, d_v)``, of the type of ``query``; half precision is computed in float32. A query whose
        weights are all too small for the type gets zeros.

    Raises:
        TypeError: If the tensors are not of one floating-point type.
        ValueError: If shapes do not fit together, there are more or fewer keys than queries, or ``chunk`` is
            below 1.

    Source: Katharopoulos et al. 2020, section 3.3.
    """
    check_inputs(query, key, value)
    length = query.shape[-2]
    if key.shape[-2] != length:
        raise ValueError(f"key: expected one row for each of the T = {length} queries, got {key.shape[-2]}")
    if chunk < 1:
        raise ValueError(f"chunk: expected at least 1, got {chunk}")
    query_features, key_features, value_and_one = (
        _in_chunks(tensor, chunk) for tensor in _prepared(query, key, value)
    )  # (..., C, chunk, width)
    added = key_features.transpose(-2, -1) @ value_and_one  # (..., C, d_k, d_v + 1) what each chunk adds
    # What was there before each chunk. Shifted, not subtracted: a later token may not even change a rounding.
    state = F.pad(added, (0, 0, 0, 0, 1, 0)).cumsum(dim=-3)[..., :-1, :, :]  # (..., C, d_k, d_v + 1)
    within = (query_features @ key_features.transpose(-2, -1)).tril()  # (..., C, chunk, chunk)
    sums = query_features @ state + within @ value_and_one  # (..., C, chunk, d_v + 1)
    return _normalised(sums.flatten(-3, -2)[..., :length, :]).to(query.dtype)


def _prepared(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The features, and the values with a column of ones: its weighted sum is the sum of the weights."""
    work = torch.promote_types(query.dtype, torch.float32)
    value_and_one = F.pad(value.to(work), (0, 1), value=1.0)  # (..., S, d_v + 1)
    return elu_features(query.to(work)), elu_features(key.to(work)), value_and_one


def _in_chunks(tensor: Tensor, chunk: int) -> Tensor:
    """(..., T, width) -> (..., C, chunk, width), with rows of zeros at the end where T does not divide."""
    *leading, length, width = tensor.shape
    count = -(-length // chunk)
    return F.pad(tensor, (0, 0, 0, count * chunk - length)).reshape(*leading, count, chunk, width)


def _normalised(sums: Tensor) -> Tensor:
    """The weighted sums ``(..., T, d_v + 1)`` divided by their last column, the sum of the weights."""
    total = sums[..., -1:]  # (..., T, 1)
    return sums[..., :-1] / total.masked_fill(total == 0.0, 1.0)
