"""Known mistakes of lesson 6: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

SINUSOIDAL = (
    Mistake(
        "offset_ignored",
        "The offset makes no difference: every call begins at place 0. If five tokens were read before, at "
        "which place does the next one stand?",
        {"offsets": "ignored"},
    ),
    Mistake(
        "along_the_batch",
        "The rows are added along the batch: each sequence gets a vector of its own, and all its places "
        "get the same one. Which axis of x is time?",
        {"added": "along the batch"},
    ),
    Mistake(
        "odd_refused",
        "A module of odd width cannot be made. There is one cosine fewer than sines then: how many columns "
        "have an odd number?",
        {"odd_width": "refused"},
    ),
    Mistake(
        "last_row_for_all",
        "The row of the last place is added to all places: the table was indexed with one place where a "
        "stretch of it is needed.",
        {"added": "last row"},
    ),
    Mistake(
        "first_row_for_all",
        "The row of the first place is added to all places. Each place of the sequence has a row of its own.",
        {"added": "first row"},
    ),
    Mistake(
        "sine_alone",
        "The odd columns hold sines as well. That is the first half of the formula; which function belongs "
        "to the other number of each pair?",
        {"odd_columns": "sine"},
    ),
    Mistake(
        "odd_columns_empty",
        "The odd columns are zero: only the first half of the formula is there.",
        {"odd_columns": "empty"},
    ),
    Mistake(
        "cosine_at_own_rate",
        "Sine and cosine of a pair turn at different rates: the cosine's exponent was made from its own "
        "column. A pair is one hand of a clock. It has one angle.",
        {"odd_columns": "cosine of its own angle"},
    ),
    Mistake(
        "swapped",
        "Sines and cosines have changed places. What do the first two numbers of place 0 have to be?",
        {"odd_columns": "swapped"},
    ),
    Mistake(
        "halves",
        "All sines come first and all cosines after them. In the paper the two of a pair are neighbours.",
        {"order": "halves"},
    ),
    Mistake(
        "exponent_i",
        "The hands turn too fast: the exponent runs from 0 to a half only. Look at the 2 in front of i.",
        {"exponent": "i / width"},
    ),
    Mistake(
        "exponent_4i",
        "The hands slow down too soon: the 2 in front of i was counted twice, once in the even numbers and "
        "once more.",
        {"exponent": "4i / width"},
    ),
    Mistake(
        "exponent_sign",
        "Later pairs turn faster than the first one. Each hand should be slower than the one before: which "
        "sign has the exponent?",
        {"exponent": "positive"},
    ),
    Mistake(
        "odd_width_from_next",
        "Where the width is odd, the rates are those of the next even width. Cut what is too much, but let "
        "the width in the exponent be the one that was asked for.",
        {"exponent": "2i / next even width"},
    ),
    Mistake(
        "odd_last_empty",
        "Where the width is odd, the last column is zero. It is an even column: it has lost its cosine, "
        "not its sine.",
        {"last": "nothing"},
    ),
    Mistake(
        "from_one",
        "Places are counted from 1. The first row belongs to place 0.",
        {"first_place": 1},
    ),
    Mistake(
        "positions_alone",
        "The rows of the table are returned alone. The tokens have to be in the result, too.",
        {"embeddings": "left out"},
    ),
    Mistake(
        "embeddings_scaled",
        "The tokens are multiplied by the root of the width. The paper does so where it makes them; this "
        "module only adds.",
        {"embeddings": "scaled"},
    ),
    Mistake(
        "learnt",
        "The table is a parameter, so an optimizer would change it. These positions come from a formula: "
        "how does a module keep a tensor that is not learnt?",
        {"held": "parameter"},
    ),
    Mistake(
        "promoted",
        "Half precision goes in and float32 comes out: a sum takes the wider of two number types. The result "
        "should have that of the embeddings, whatever the table has.",
        {"numbers": "promoted"},
    ),
    Mistake(
        "past_the_end",
        "A place past the end of the table gives no ValueError. A slice does not complain by itself: it is "
        "shorter, and what happens then depends on the shapes.",
        {"limit": "none"},
    ),
    Mistake(
        "end_without_offset",
        "The length is held against the end of the table, but not where it begins. The last place is "
        "further on when there is an offset.",
        {"limit": "length"},
    ),
    Mistake(
        "end_too_soon",
        "The last place of the table is refused. A table of n rows has the places 0 to n - 1.",
        {"limit": "one less"},
    ),
)

ROTATE = (
    Mistake(
        "places_counted",
        "The positions that are given make no difference: places are counted from 0 in every call. Then a "
        "key that comes later, alone, stands at place 0 as well.",
        {"places": "counted"},
    ),
    Mistake(
        "places_of_the_first",
        "All sequences get the positions of the first one. Each sequence of the batch has a row of its own.",
        {"places": "of the first sequence"},
    ),
    Mistake(
        "always_neighbours",
        "Neighbours are turned, whatever pairs were asked for. That is one layout of two.",
        {"read": "neighbours"},
    ),
    Mistake(
        "always_halves",
        "The first half is turned with the second, whatever pairs were asked for. That is one layout of two.",
        {"read": "halves"},
    ),
    Mistake(
        "written_as_halves",
        "The turned numbers are right, but not all are where they were: all first ones come before all "
        "second ones. Scores do not show it, since queries and keys are shuffled alike.",
        {"written": "halves"},
    ),
    Mistake(
        "written_as_neighbours",
        "The turned numbers are right, but not all are where they were: each second one comes right after "
        "its first. Scores do not show it, since queries and keys are shuffled alike.",
        {"written": "neighbours"},
    ),
    Mistake(
        "from_the_new_first",
        "The second number of a pair is made from the first one after it was turned. Both need the old ones.",
        {"turn": "from the new first"},
    ),
    Mistake(
        "backward",
        "The pairs turn the other way. At a right angle, where does (1, 0) go: to (0, 1) or to (0, -1)?",
        {"turn": "backward"},
    ),
    Mistake(
        "both_plus",
        "Both sines have a plus. Then lengths change, and it is no turn: take the pair (1, 1) at half a "
        "right angle.",
        {"turn": "both plus"},
    ),
    Mistake(
        "reflected",
        "The second row has its minus in the wrong place: that is a mirror, not a turn. At angle zero "
        "every pair should stay as it is.",
        {"turn": "reflected"},
    ),
    Mistake(
        "exponent_i",
        "The pairs turn too fast: the exponent runs from 0 to a half only. Look at the 2 in front of i.",
        {"exponent": "i / width"},
    ),
    Mistake(
        "exponent_4i",
        "The pairs slow down too soon: the 2 in front of i was counted twice, or the width was taken as "
        "the number of pairs.",
        {"exponent": "4i / width"},
    ),
    Mistake(
        "width_of_all_heads",
        "The rates come from the width of all heads together. A head is turned for itself: which width "
        "does it have?",
        {"width": "all heads"},
    ),
    Mistake(
        "from_one",
        "One is added to each position. No score shows it, but place 0 should not be turned at all.",
        {"places": "from one"},
    ),
    Mistake(
        "promoted",
        "Half precision goes in and float32 comes out: a product takes the wider of two number types. The "
        "result should have that of the heads.",
        {"numbers": "promoted"},
    ),
    Mistake(
        "angles_rounded",
        "With heads in half precision, the angles are worked out in half precision as well. At a late place "
        "an angle is a large number: how far apart are two neighbours of that size in this format?",
        {"numbers": "angles rounded"},
    ),
)


HALF_SPLIT_WEIGHTS = (
    Mistake(
        "across_heads",
        "The rows are sorted across all heads, so that numbers of one head land in another. A pair lies "
        "within a head.",
        {"scope": "all heads"},
    ),
    Mistake(
        "values_sorted",
        "The rows of the values are sorted as well. Are values ever turned? What comes out of the head is "
        "now in another order.",
        {"values": "sorted"},
    ),
    Mistake(
        "way_back",
        "This is the way back: it leads from half-split to interleaved. Where does number 1 of a head, the "
        "second of its first pair, have to go?",
        {"direction": "back"},
    ),
    Mistake(
        "keys_left",
        "The queries are sorted and the keys are not. A score multiplies number by number: both have to "
        "stand in the same order.",
        {"keys": "kept"},
    ),
    Mistake(
        "columns",
        "The columns are sorted. They belong to the token that comes in; what is turned are the numbers "
        "that come out, and they are the rows of the weight.",
        {"axis": "columns"},
    ),
    Mistake(
        "heads_last",
        "The rows are cut as if the heads took turns, row by row. The rows of one head lie together.",
        {"scope": "heads last"},
    ),
    Mistake(
        "halves_swapped",
        "The second numbers of the pairs come before the first ones. Then every pair turns the other way.",
        {"scope": "halves swapped"},
    ),
)
