"""Lesson 6's predictions, and what is found by exploring how far ALiBi reaches."""

from __future__ import annotations

import math

from ..values import Choice, Near, Spec, WrongValue

OUTPUT = ("changes", "stays")
CHANGE = ("grows", "stays", "shrinks")

SWAPPED = "two other tokens swapped, this token's output"
ITSELF = "PE(10) · PE(10), width 64"
FURTHER = "PE(103) · PE(107) against PE(3) · PE(7)"
TURNED = "rotary score, places 12 and 2"
PRICED = "ALiBi, weight four places back / weight here"
VALUES = "values turned too, all moved on by 7, outputs"

PREDICTION: dict[str, Spec] = {
    SWAPPED: Choice("stays", options=OUTPUT),
    ITSELF: Near(32, relative=0.001),
    FURTHER: Choice("equal", options=("larger", "equal", "smaller")),
    TURNED: Near(math.cos(1.0), absolute=0.01),
    PRICED: Near(math.exp(-2), absolute=0.006),
    VALUES: Choice("change", options=("change", "stay")),
}

WRONG_PREDICTIONS = [
    WrongValue(
        "order_is_seen",
        "An output is a sum over the keys, and a sum does not know in which order its terms stand.",
        {SWAPPED: "changes"},
    ),
    WrongValue(
        "one_for_each_number",
        "You counted 1 for each number of the row. A pair gives sine squared plus cosine squared: how many "
        "pairs are there?",
        {ITSELF: Near(64, relative=0.001)},
    ),
    WrongValue(
        "one_in_all",
        "One pair gives sine squared plus cosine squared, which is 1. How many pairs are there?",
        {ITSELF: Near(1, relative=0.001)},
    ),
    WrongValue(
        "length_for_product",
        "That is the length of the row. The dot product with itself is the square of it.",
        {ITSELF: Near(math.sqrt(32), relative=0.01)},
    ),
    WrongValue(
        "fades_with_place",
        "Two sums of cosines: which angles stand in them, once sine and cosine of a pair are put together? "
        "Late places are not weaker than early ones.",
        {FURTHER: "smaller"},
    ),
    WrongValue(
        "grows_with_place",
        "Two sums of cosines: which angles stand in them, once sine and cosine of a pair are put together? "
        "The angles grow with the place, the sines and cosines do not.",
        {FURTHER: "larger"},
    ),
    WrongValue(
        "angles_added",
        "That is the cosine of both angles together. When two arrows turn the same way, what is left "
        "between them?",
        {TURNED: Near(math.cos(1.4), absolute=0.01)},
    ),
    WrongValue(
        "cosines_alone",
        "That is the product of the two cosines. Each arrow has a second number, its sine, and it belongs "
        "to the dot product.",
        {TURNED: Near(math.cos(1.2) * math.cos(0.2), absolute=0.01)},
    ),
    WrongValue(
        "not_turned",
        "That is the score before turning. The two stand at different places, so they are turned by "
        "different angles.",
        {TURNED: Near(1.0, absolute=1e-4)},
    ),
    WrongValue(
        "sine_for_cosine",
        "That is the sine of the angle between them. A dot product of two arrows of length 1 is the other "
        "one.",
        {TURNED: Near(math.sin(1.0), absolute=0.01)},
    ),
    WrongValue(
        "degrees",
        "That is nearly 1: the cosine was taken in degrees. The angle is in radians, and 1 radian is about "
        "57 degrees.",
        {TURNED: Near(math.cos(math.radians(1.0)), absolute=5e-5)},
    ),
    WrongValue(
        "slope_as_factor",
        "You multiplied by a half for each place. The slope is taken from the score, and a softmax makes "
        "an exponential of that.",
        {PRICED: Near(0.0625, absolute=0.005)},
    ),
    WrongValue(
        "score_for_weight",
        "That is by how much the scores differ. The weights are what the softmax makes of them.",
        {PRICED: Near(-2, absolute=0.01)},
    ),
    WrongValue(
        "slope_forgotten",
        "You took the whole distance from the score. The slope says how much of it.",
        {PRICED: Near(math.exp(-4), absolute=0.003)},
    ),
    WrongValue(
        "farther_is_dearer",
        "That is the other way round: the key here against the key four places back.",
        {PRICED: Near(math.exp(2), absolute=0.05)},
    ),
    WrongValue(
        "values_in_the_score",
        "The weights stay, as you say. But what they mix are the values, and each one is turned further "
        "than before.",
        {VALUES: "stay"},
    ),
]


def reach(slope: float, length: int) -> float:
    """Mean distance of the keys that the last query sees, under their weights, where all scores are "
    "zero."""
    weights = [math.exp(-slope * distance) for distance in range(length)]
    return sum(distance * weight for distance, weight in enumerate(weights)) / sum(weights)


FLATTEST = 2.0**-8
LAST = "from 8 to 16 heads, reach of the last head"
FIRST = "from 8 to 16 heads, reach of the first head"
LONG = "8 heads, length 8192, reach of the last head"
LEAST = "12 heads, number of the head that reaches least"

REACH: dict[str, Spec] = {
    LAST: Choice("stays", options=CHANGE),
    FIRST: Choice("shrinks", options=CHANGE),
    LONG: Near(reach(FLATTEST, 8192), relative=0.03),
    LEAST: Near(9, absolute=0.1),
}

WRONG_REACH = [
    WrongValue(
        "more_heads_reach_further",
        "More heads lie closer together, but where does the row of slopes end, however many there are?",
        {LAST: "grows"},
    ),
    WrongValue(
        "last_head_shrinks",
        "Was that the same head in both runs? The last of 16 heads has the number 16, and its slope is the "
        "last of the row.",
        {LAST: "shrinks"},
    ),
    WrongValue(
        "first_head_fixed",
        "The row of slopes ends at the same number always, but it begins with its own ratio. What is the "
        "ratio for 16 heads?",
        {FIRST: "stays"},
    ),
    WrongValue(
        "first_head_grows",
        "The first slope for 16 heads is nearer to 1 than that for 8: is a steeper price a longer reach?",
        {FIRST: "grows"},
    ),
    WrongValue(
        "half_the_length",
        "Half of the length is the reach of a head without any price. Does the flattest head still pay "
        "none over so many places?",
        {LONG: Near(8191 / 2, relative=0.03)},
    ),
    WrongValue(
        "read_at_512",
        "That is its reach at length 512, where it still grows. Add the longer length to the list.",
        {LONG: Near(reach(FLATTEST, 512), relative=0.03)},
    ),
    WrongValue(
        "read_at_64",
        "That is its reach at length 64, where the whole sequence is near. Add the longer length to the "
        "list.",
        {LONG: Near(reach(FLATTEST, 64), relative=0.03)},
    ),
    WrongValue(
        "slopes_sorted",
        "The first head has the steepest slope where the number of heads is a power of two. Is 12 one?",
        {LEAST: Near(1, absolute=0.1)},
    ),
    WrongValue(
        "counted_from_zero",
        "Heads are counted from 1 here, and in the figure.",
        {LEAST: Near(8, absolute=0.1)},
    ),
    WrongValue(
        "last_of_twelve",
        "The heads that were added bend the line down and then up again: which one lies lowest?",
        {LEAST: Near(12, absolute=0.1)},
    ),
]
