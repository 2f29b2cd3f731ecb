"""What lesson 4 asks as a number or a word: the right values, computed, and the known wrong ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..values import Choice, Near, WrongValue
from . import references


def predictions() -> dict[str, Any]:
    seen = references.outputs_of_three_tokens()

    def number(name: str) -> Near:
        return Near(seen[name], absolute=0.04)

    return {
        "1. course's mask in nn.MultiheadAttention, first output": number("module"),
        "2. additive mask after .bool(), second output": number("bool"),
        "3. causal & padding of length 1, third output": number("and"),
        "4. causal | padding of length 2, first output": number("or"),
        "5. every key filled with -1e9, output": number("filled"),
        "6. zeroed after the softmax, first row's sum": number("after"),
        "7. twice the lowest number added in half precision, output": Choice(
            "nan" if seen["half"] != seen["half"] else "mean", ("nan", "mean", "zero", "error")
        ),
    }


WORDS = ("yes", "no")


def findings() -> dict[str, Any]:
    def seen(layers: int, window: int) -> int:
        return int(references.reach([references.window_mask(40, window)] * layers)[-1].sum())

    causal, everything = references.window_mask(16, 16), torch.ones(16, 16, dtype=torch.bool)

    def future(masks: list[Tensor]) -> int:
        return int(references.reach(masks).triu(1).any(dim=-1).sum())

    opened = [future([everything if layer == place else causal for layer in range(4)]) for place in range(4)]
    return {
        "3 layers, window 5: inputs that the last output depends on": Near(seen(3, 5)),
        "window 3: layers until the last output depends on 9 inputs": Near(
            next(layers for layers in range(1, 20) if seen(layers, 3) >= 9)
        ),
        "6 causal layers: outputs that depend on a later input, of 16": Near(future([causal] * 6)),
        "4 layers, one without a mask: outputs that depend on a later input, of 16": Near(opened[0]),
        "does it matter which of the 4 layers lacks its mask": Choice(
            "no" if len(set(opened)) == 1 else "yes", WORDS
        ),
    }


_TWO_KEYS = "Count the keys that the row in question may see, and take the mean of their values. "

PREDICTIONS = (
    WrongValue(
        "one_sense",
        "You read True as may attend. What does it mean to this module?",
        {"1. course's mask in nn.MultiheadAttention, first output": 1},
    ),
    WrongValue(
        "no_sense",
        "The mask does hide something from the first query. Which of its three keys are True?",
        {"1. course's mask in nn.MultiheadAttention, first output": Near(7 / 3, absolute=0.04)},
    ),
    WrongValue(
        "bool_keeps_sense",
        "You took .bool() to keep the sense of the mask. Which of the two numbers 0 and minus infinity does "
        "it turn into True?",
        {"2. additive mask after .bool(), second output": 1.5},
    ),
    WrongValue(
        "bool_hides_nothing",
        "You took the mask to hide nothing. Which of the two numbers 0 and minus infinity does .bool() turn "
        "into False?",
        {"2. additive mask after .bool(), second output": Near(7 / 3, absolute=0.04)},
    ),
    WrongValue(
        "padding_forgotten",
        _TWO_KEYS + "You let the third query see the padding.",
        {"3. causal & padding of length 1, third output": Near(7 / 3, absolute=0.04)},
    ),
    WrongValue(
        "row_of_padding",
        "You emptied the row of a query that is padding. The mask hides padding as a key: which keys has the "
        "third query left?",
        {"3. causal & padding of length 1, third output": 0},
    ),
    WrongValue(
        "or_is_and",
        _TWO_KEYS + "With | a key is let through when either rule allows it.",
        {"4. causal | padding of length 2, first output": 1},
    ),
    WrongValue(
        "zero_by_itself",
        "Zeros do not come by themselves. When all scores of a row are the same number, what does the "
        "softmax make of them?",
        {"5. every key filled with -1e9, output": 0},
    ),
    WrongValue(
        "renormalised",
        "Nobody divides again: what is set to zero after the softmax is lost from the row.",
        {"6. zeroed after the softmax, first row's sum": 1},
    ),
    WrongValue(
        "half_holds",
        "You took the sum of the two to be a number like any other. How far down does half precision go?",
        {"7. twice the lowest number added in half precision, output": "mean"},
    ),
    WrongValue(
        "half_zero",
        "You expected zeros. Every score is minus infinity now; subtract the largest from each, as a softmax "
        "does. What is infinity minus infinity?",
        {"7. twice the lowest number added in half precision, output": "zero"},
    ),
)

REACH = (
    WrongValue(
        "own_place_each_time",
        "You counted a whole window for each layer. The windows of two layers overlap at one place: how many "
        "new ones does a layer add?",
        {"3 layers, window 5: inputs that the last output depends on": 15},
    ),
    WrongValue(
        "own_place_never",
        "You left out the own place, which every output depends on.",
        {"3 layers, window 5: inputs that the last output depends on": 12},
    ),
    WrongValue(
        "layers_do_not_add",
        "You gave what one layer sees. The layer above it looks at positions that have looked further back.",
        {"3 layers, window 5: inputs that the last output depends on": 5},
    ),
    WrongValue(
        "whole_windows",
        "You counted a whole window for each layer. The windows of two layers overlap at one place: how many "
        "new ones does a layer add?",
        {"window 3: layers until the last output depends on 9 inputs": 3},
    ),
    WrongValue(
        "one_layer_more",
        "One layer fewer is enough. Count the first layer, too.",
        {"window 3: layers until the last output depends on 9 inputs": 5},
    ),
    WrongValue(
        "future_through_layers",
        "A layer looks at positions no later than its own, and these have looked at none later than theirs. "
        "Where would the future come in?",
        {"6 causal layers: outputs that depend on a later input, of 16": 15},
    ),
    WrongValue(
        "others_repair",
        "The other masks do not take back what the open layer has moved.",
        {"4 layers, one without a mask: outputs that depend on a later input, of 16": 0},
    ),
    WrongValue(
        "last_has_no_future",
        "One output cannot depend on anything later, whatever the masks are.",
        {"4 layers, one without a mask: outputs that depend on a later input, of 16": 16},
    ),
    WrongValue(
        "layer_counts",
        "Try the open layer in each place, and compare the top maps row by row. Below the open layer, and "
        "above it, does any row lose a column?",
        {"does it matter which of the 4 layers lacks its mask": "yes"},
    ),
)
