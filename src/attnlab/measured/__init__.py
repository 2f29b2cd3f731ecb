"""What takes longer to measure than a lesson may run, measured beforehand and kept with the library.

Lesson 7 draws a map of some hundred short trainings. ``python -m tools.training_map --write``, in a copy of
the course's repository, runs the lesson's own training for each and writes the file that is read here.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib.resources import files

import torch
from torch import Tensor

__all__ = ["LARGEST_LOSS", "NOT_FINITE", "TrainingMapData", "training_map"]

#: Losses are kept in hundredths of a nat. This is the largest one; it also stands for any above it.
LARGEST_LOSS = 254
#: Stands in the place of a loss that was not finite, and of those that were to follow.
NOT_FINITE = 255


@dataclass(frozen=True)
class TrainingMapData:
    """Loss curves over a grid of trainings.

    Attributes:
        kinds: K names of blocks and their schedules, such as "post-norm, warm-up".
        depths: D numbers of layers.
        rates: R learning rates, without a unit.
        steps: number of training steps of each run.
        curves: uint8 of shape (K, D, R, P), the training loss in hundredths of a nat, each the mean of
            ``steps / P`` steps; :data:`LARGEST_LOSS` and :data:`NOT_FINITE` are special.
        date: the day of the measurement, as year-month-day.
    """

    kinds: list[str]
    depths: list[int]
    rates: list[float]
    steps: int
    curves: Tensor
    date: str

    def losses(self, kind: str) -> Tensor:
        """The curves of one kind, float32 of shape (D, R, P) in nats; infinite where a run broke off.

        Raises:
            ValueError: if there is no such kind.
        """
        if kind not in self.kinds:
            raise ValueError(f"kind: expected one of {self.kinds}, got {kind!r}")
        whole = self.curves[self.kinds.index(kind)]
        return torch.where(whole == NOT_FINITE, torch.inf, whole.float() / 100)


def training_map() -> TrainingMapData:
    """The map of lesson 7: depth, learning rate, norm and warm-up."""
    text = files(__name__).joinpath("training_map.json").read_text(encoding="utf-8")
    stored = json.loads(text)
    counts = (len(stored["kinds"]), len(stored["depths"]), len(stored["rates"]), -1)
    flat = torch.frombuffer(bytearray(base64.b64decode(stored["curves"])), dtype=torch.uint8)
    return TrainingMapData(
        stored["kinds"],
        stored["depths"],
        stored["rates"],
        stored["steps"],
        flat.view(counts),
        stored["date"],
    )
