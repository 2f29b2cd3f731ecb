"""Lesson 16's answers that are numbers and words: predictions, the sink, claims read off a map."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import Choice, Near, WrongValue
from . import references
from .puzzle import SINK, encode, hand_made, mystery_maps

ROWS = ("always 1", "1 on average", "always below 1")
CHANGES = ("grow", "stay", "shrink")
VERDICTS = ("holds", "refuted")
TEXT_B = "^ a 3 b 7 c 1 c 1 b"
TEXT_C = "^ a 3 b 7 c 1 c 1 c"

PREDICTED: dict[str, Choice | Near] = {
    "rollout, third token to first": Near(0.25, absolute=0.005),
    "40 keys, d_v = 16, free directions": Near(23),
    "12 keys, d_v = 16, free directions": Near(0),
    "rows of weights after dropout": Choice("1 on average", options=ROWS),
    "mean of heads 1, 1, 0, 0": Near(0.5, absolute=0.001),
    "a key is hidden, weights of the others": Choice("grow", options=CHANGES),
}
WRONG_PREDICTIONS = (
    WrongValue(
        "no_residual",
        "That is the product of the maps alone. Each layer counts half, and half is what a position keeps.",
        {"rollout, third token to first": 1},
    ),
    WrongValue(
        "last_map_only",
        "In the last map the third token does not look at the first. But what stands at the second by then?",
        {"rollout, third token to first": 0},
    ),
    WrongValue(
        "half_once",
        "The path has two steps, one in each layer. How much does each let through?",
        {"rollout, third token to first": 0.5},
    ),
    WrongValue(
        "sum_forgotten",
        "You counted the conditions on the output. There is one more on the weights themselves.",
        {"40 keys, d_v = 16, free directions": 24},
    ),
    WrongValue(
        "below_zero",
        "With more conditions than keys nothing is free. There is no less than that.",
        {"12 keys, d_v = 16, free directions": -5},
    ),
    WrongValue(
        "dropout_shared",
        "Dropout comes after the softmax, and nothing divides by a sum again.",
        {"rows of weights after dropout": "always 1"},
    ),
    WrongValue(
        "dropout_not_rescaled",
        "What is left is made larger, by one over the share that is kept.",
        {"rows of weights after dropout": "always below 1"},
    ),
    WrongValue(
        "hidden_leaves_a_gap",
        "Hidden before the softmax, a key takes no share. What do the others then sum to?",
        {"a key is hidden, weights of the others": "stay"},
    ),
)


def found_sink() -> Mapping[str, Near]:
    """Where the sink is, and what queries behind it give it, measured on the maps."""
    head = mystery_maps()[SINK["layer"], SINK["head"]]  # (T, T)
    weight = head[SINK["key"] + 1 :, SINK["key"]].mean().item()
    return {**{name: Near(number) for name, number in SINK.items()}, "weight": Near(weight, absolute=0.01)}


def sink_over(start: int) -> float:
    """The mean weight of the sink over the queries from ``start`` on."""
    return mystery_maps()[SINK["layer"], SINK["head"], start:, SINK["key"]].mean().item()


WRONG_SINKS = (
    WrongValue(
        "even_head",
        "The first key of the even head gets much from early queries, which see few keys. Does it get more "
        "than its equal share?",
        {"layer": 0, "head": 1, "key": 0},
    ),
    WrongValue(
        "loud_row",
        "That is the largest single weight, from one query. A sink takes weight from most queries.",
        {"layer": 1, "head": 1, "key": 6},
    ),
    WrongValue(
        "counted_from_one",
        "Right place, but counted from one. Layers, heads and keys are counted as Python does.",
        {"layer": 2, "head": 3, "key": 4},
    ),
    WrongValue(
        "all_rows",
        "You averaged over all queries, those that cannot see the key among them. The mask makes their "
        "weight zero.",
        {"weight": Near(sink_over(0), absolute=0.01)},
    ),
    WrongValue(
        "own_row",
        "The key's own query is among those that you averaged. Asked for are the queries behind it.",
        {"weight": Near(sink_over(SINK["key"]), absolute=0.01)},
    ),
)


def measured_claims() -> Mapping[str, Choice | Near]:
    """What removing tokens says of the four claims, measured on the model that was made by hand."""
    last_b = _last_row(TEXT_B)
    last_c = _last_row(TEXT_C)
    return {
        "the 7 matters": _verdict(last_b[4] > 0.1),
        "the first b does not matter": _verdict(last_b[3] < 0.1),
        "each 1 matters": _verdict(min(last_c[6], last_c[8]) > 0.1),
        "the token before matters": _verdict(last_b[8] > 0.1),
        "effect of hiding the first b": Near(last_b[3], absolute=0.01),
    }


def _last_row(text: str) -> list[float]:
    """The shift of the last query's prediction for each hidden key."""
    effects = references.removal_effects(lambda tokens, mask: hand_made(tokens, mask)[0], encode(text))
    row: list[float] = effects[0, -1].tolist()
    return row


def _verdict(holds: bool) -> Choice:
    return Choice("holds" if holds else "refuted", options=VERDICTS)


WRONG_CLAIMS = (
    WrongValue(
        "contents_come_from_elsewhere",
        "In layer 2 the b has no weight. Hide it in both layers and look at the answer: what did layer 1 "
        "carry to the 7?",
        {"the first b does not matter": "holds"},
    ),
    WrongValue(
        "copies",
        "Each 1 has half of the weight. Hide one, and see who takes over.",
        {"each 1 matters": "holds"},
    ),
    WrongValue(
        "dark_cell_in_layer_one",
        "In layer 1 the last query looks at the token before it. Does anything in layer 2 use what it "
        "found there? Hide it and see.",
        {"the token before matters": "holds"},
    ),
    WrongValue(
        "nothing_matters",
        "Not every claim read off a map is wrong. Hide the 7 and compare the predictions.",
        {"the 7 matters": "refuted"},
    ),
    WrongValue(
        "weight_for_effect",
        "That is the weight of the first b in layer 2. The effect is how far the prediction shifts when it "
        "is hidden.",
        {"effect of hiding the first b": Near(0, absolute=0.01)},
    ),
)
