"""Known mistakes of lesson 6 with ALiBi: name, switches, and the hint that names it."""

from __future__ import annotations

from ..tasks import Mistake

ALIBI = (
    Mistake(
        "formula_for_any_number",
        "The formula for powers of two is used for every number of heads. Read again what is done with the "
        "others.",
        {"slopes": "formula for any number"},
    ),
    Mistake(
        "queries_at_the_start",
        "The first query stands at the first key. When there are more keys than queries, the earlier keys "
        "came before all queries: which key does the last query meet?",
        {"queries_at": "start"},
    ),
    Mistake(
        "plus",
        "Distance is rewarded. It is a price: what is added to the score has to make it smaller.",
        {"sign": 1},
    ),
    Mistake(
        "signed",
        "A key after the query gets a bonus: its distance is counted below zero. A distance has no "
        "direction.",
        {"distance": "signed"},
    ),
    Mistake(
        "future_hidden",
        "Keys after the query are hidden. That is what a mask is for; here they have the price of a key as "
        "far before.",
        {"future": "hidden"},
    ),
    Mistake(
        "future_free",
        "Keys after the query cost nothing. Here they have the price of a key as far before.",
        {"future": "free"},
    ),
    Mistake(
        "first_slope_one",
        "Heads are counted from 0 in the exponent, so the steepest slope is 1. The paper's row begins with "
        "its own ratio and ends at 2 to the power -8.",
        {"first": 0},
    ),
    Mistake(
        "halved_each_time",
        "Every slope is half of the one before, however many heads there are. That is right for 8 heads "
        "alone: the row ends at 2 to the power -8.",
        {"slopes": "halved each time"},
    ),
    Mistake(
        "every_other_from_second",
        "The heads that are left take the second, fourth, ... slope of the larger row. Those are the "
        "slopes that are there already.",
        {"slopes": "every other from the second"},
    ),
    Mistake(
        "next_in_the_row",
        "The heads that are left take neighbouring slopes of the larger row. Some of them are there already.",
        {"slopes": "next in the row"},
    ),
    Mistake(
        "larger_power",
        "All heads take their slopes from the larger power of two, so the flattest heads are missing.",
        {"slopes": "larger power"},
    ),
    Mistake(
        "sorted",
        "The slopes are the right ones, sorted by steepness. Trained weights belong to a head by its "
        "number: keep the order of the two rows.",
        {"slopes": "sorted"},
    ),
    Mistake(
        "keys_alone",
        "The bias counts from the first key, not from the query. After a softmax that makes no difference "
        "where nothing lies ahead, since a row differs by a constant; but it is not the table asked for.",
        {"distance": "keys alone"},
    ),
    Mistake(
        "squared",
        "The distance is squared. The price in ALiBi is linear: its name says so.",
        {"distance": "squared"},
    ),
    Mistake(
        "axes_swapped",
        "Rows and columns have changed places. A score table has one row a query.",
        {"axes": "keys, queries"},
    ),
)
