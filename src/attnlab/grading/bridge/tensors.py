"""Tensors as a description and raw bytes, and back; what comes in is measured first."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor, nn

from .wire import Buffer, WireError

_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in _DTYPES}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_AXES = 16
_LARGEST = 1 << 40


def travels(value: Tensor) -> bool:
    """Whether a tensor can be sent: dense, on the CPU (or on ``meta``, without numbers), of a known type."""
    plain = type(value) in (Tensor, nn.Parameter) and value.layout == torch.strided
    return (
        plain
        and value.dtype in _NAMES
        and value.dim() <= MOST_AXES
        and (value.device.type in ("cpu", "meta"))
        and not value.is_quantized
    )


def describe(value: Tensor) -> tuple[dict[str, Any], Buffer]:
    """What to say about a tensor, and its numbers."""
    about: dict[str, Any] = {"d": _NAMES[value.dtype], "s": list(value.shape)}
    if value.requires_grad:
        about["r"] = 1 if value.is_leaf else 2
    if type(value) is nn.Parameter:
        about["p"] = 1
    if value.device.type == "meta":
        return {**about, "meta": 1}, b""
    data = value.detach()
    if not data.is_contiguous():
        about["st"] = list(data.stride())
    return about, _raw(data)


def build(about: object, data: bytearray) -> Tensor:
    """The tensor, without a gradient. Raises ``WireError`` where description and bytes do not fit."""
    if type(about) is not dict or about.get("d") not in DTYPES:
        raise WireError("no description of a tensor")
    dtype, shape = DTYPES[about["d"]], whole_numbers(about.get("s"))
    count = 1
    for size in shape:
        count *= size
    if "meta" in about:
        if count > _LARGEST:
            raise WireError("a tensor above the limit")
        return torch.empty(shape, dtype=dtype, device="meta")
    if count * dtype.itemsize != len(data):
        raise WireError("a tensor whose bytes do not fit its shape")
    if dtype == torch.bool and data.strip(b"\0\1"):
        raise WireError("truth values that are neither true nor false")
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    tensor = flat.reshape(shape)
    return _laid_out(tensor, whole_numbers(about["st"])) if "st" in about else tensor


def whole_numbers(value: object) -> list[int]:
    """A short list of numbers from zero up. Raises ``WireError`` for anything else."""
    if type(value) is not list or len(value) > MOST_AXES:
        raise WireError("no list of sizes")
    if any(type(size) is not int or not 0 <= size <= _LARGEST for size in value):
        raise WireError("a size out of bounds")
    return value


def to_numpy(value: Tensor) -> Any:
    """The same numbers as an array of numpy; bfloat16, which numpy lacks, is widened."""
    return (value.float() if value.dtype == torch.bfloat16 else value).contiguous().numpy()


def from_numpy(value: Any) -> Tensor | None:
    """An array's numbers as a tensor; None where torch has no such type."""
    if value.dtype.name not in DTYPES or value.dtype.name == "bfloat16":
        return None
    return torch.from_numpy(numpy.ascontiguousarray(value).reshape(value.shape).copy())


def _raw(data: Tensor) -> Buffer:
    if not data.numel():
        return b""
    flat = data.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def _laid_out(tensor: Tensor, strides: list[int]) -> Tensor:
    """The numbers in the layout that the sender has: some programs work with one layout only."""
    shape = list(tensor.shape)
    if len(strides) != len(shape):
        raise WireError("strides that do not fit a shape")
    if not tensor.numel():
        return tensor
    # An axis of stride 0 repeats one entry: lay that out once, and repeat it.
    repeated = [size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True)]
    kept = [1 if again else size for size, again in zip(shape, repeated, strict=True)]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(kept, strides, strict=True))
    if extent > 16 * tensor.numel() + 4096:
        return tensor  # a few numbers out of a vast tensor: not worth its memory
    compact = tensor
    for axis, again in enumerate(repeated):
        compact = compact.narrow(axis, 0, 1) if again else compact
    try:
        return torch.empty_strided(kept, strides, dtype=tensor.dtype).copy_(compact).expand(shape)
    except RuntimeError:  # entries that share memory in another way
        return tensor
