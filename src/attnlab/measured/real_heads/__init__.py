"""What the heads of all-MiniLM-L6-v2 do on the sentences of lesson 17, for readers without its weights.

``python -m tools.real_heads --write``, in a copy of the course's repository and with the weights, runs the
lesson's own functions and writes the file that is read here.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

__all__ = ["RealHeads", "Reference", "real_heads"]


@dataclass(frozen=True)
class Reference:
    """What another program computed with the same weights.

    Attributes:
        tokens: int64 ``(B, T)``, padded.
        lengths: int64 ``(B,)``, real tokens of each text.
        output: float32 ``(B, T, d_model)``, the last layer's; at padding it says nothing.
        program: the program and its version.
    """

    tokens: Tensor
    lengths: Tensor
    output: Tensor
    program: str


@dataclass(frozen=True)
class RealHeads:
    """Measurements on a model's heads and vectors.

    Attributes:
        looks: for each half of the sentences, int64 ``(N, L, H)``: the word that each head looks at.
        probed: float32 ``(L + 1, 2, 2)``, accuracy of probes: by layer, task or control, same words or new.
        difference: largest difference of our encoder's output from the reference.
        reference: what the other program computed.
        date: the day of the measurement, as year-month-day.
    """

    looks: dict[str, Tensor]
    probed: Tensor
    difference: float
    reference: Reference
    date: str


def real_heads() -> RealHeads:
    """The measurements that belong to lesson 17."""
    stored = json.loads(files(__name__).joinpath("real_heads.json").read_text(encoding="utf-8"))
    return RealHeads(
        {half: _unpack(packed, torch.uint8).long() for half, packed in stored["looks"].items()},
        torch.tensor(stored["probed"]),
        stored["difference"],
        reference_of(stored),
        stored["date"],
    )


def reference_of(stored: dict[str, Any]) -> Reference:
    """The other program's part of the file."""
    kept = stored["reference"]
    return Reference(
        torch.tensor(kept["tokens"]),
        torch.tensor(kept["lengths"]),
        _unpack(kept["output"], torch.float32),
        kept["program"],
    )


def _unpack(packed: dict[str, Any], dtype: torch.dtype) -> Tensor:
    raw = zlib.decompress(base64.b64decode(packed["zlib"]))
    return torch.frombuffer(bytearray(raw), dtype=dtype).view(packed["shape"])
