"""Known mistakes of lesson 13: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

SOFTMAX = (
    Mistake(
        "not_corrected",
        "The old sum is taken over as it is. Its terms were made with the old maximum: what do they become "
        "when the maximum rises?",
        {"update": "not corrected"},
    ),
    Mistake(
        "other_way",
        "The old sum is corrected the wrong way: it grows where it should shrink. Which of the two maxima is "
        "the larger one?",
        {"update": "the other way"},
    ),
    Mistake(
        "nan_at_nothing",
        "A row that has seen no key yet becomes NaN: minus infinity is taken from minus infinity. What "
        "should be subtracted as long as there is nothing?",
        {"empty": "subtracted"},
    ),
    Mistake(
        "tile_maximum",
        "The maximum is that of the newest tile, even where an earlier tile had a larger score.",
        {"level": "tile"},
    ),
    Mistake(
        "from_zero",
        "The maximum begins at 0, so a row whose scores are all negative keeps it. What is the largest of no "
        "scores at all?",
        {"level": "from zero"},
    ),
    Mistake(
        "first_tile_maximum",
        "The maximum is that of the first tile and never rises. A later tile may hold a larger score.",
        {"level": "first tile"},
    ),
    Mistake(
        "all_rows",
        "All rows share one maximum, the largest score of any of them. A row far below it loses all its "
        "terms.",
        {"level": "all rows"},
    ),
    Mistake(
        "new_terms_too",
        "The new terms are corrected along with the old ones. They were made with the new maximum already.",
        {"update": "both"},
    ),
    Mistake(
        "forgotten",
        "The sum is that of the last tile: what came before is lost.",
        {"update": "forgotten"},
    ),
    Mistake(
        "raw",
        "The exponentials are taken of the scores as they are. The sum is to be relative to the maximum, and "
        "large scores overflow without it.",
        {"update": "raw"},
    ),
    Mistake(
        "log_sum_exp",
        "You returned the logarithm of the whole sum, maximum included. Asked for is the sum relative to the "
        "maximum.",
        {"returned": "log-sum-exp"},
    ),
    Mistake(
        "swapped",
        "The two results are in the other order: the maximum comes first.",
        {"returned": "sum and maximum"},
    ),
)

CHUNKED = (
    Mistake(
        "no_scale",
        "The scores are not divided. Dot products of this width are too large for the softmax.",
        {"scale": "none"},
    ),
    Mistake(
        "scale_d_k", "The scores are divided by the width itself, where its root belongs.", {"scale": "d_k"}
    ),
    Mistake(
        "scale_d_v",
        "The scores are divided by the root of the values' width. Which vectors meet in a score?",
        {"scale": "root of d_v"},
    ),
    Mistake(
        "first_at_first",
        "The first query stands at the first key. Here the last query stands at the last key: the queries "
        "are the newest positions.",
        {"mask": "first at first"},
    ),
    Mistake("no_mask", "The future is not hidden: each query sees all keys.", {"mask": "none"}),
    Mistake("before_only", "A query does not see the key at its own position.", {"mask": "before only"}),
    Mistake(
        "turned_round",
        "The mask is turned round: each query sees its own position and what comes after.",
        {"mask": "turned round"},
    ),
    Mistake(
        "output_not_corrected",
        "The running sum is corrected when the maximum rises, the running output is not. It is a sum of the "
        "same kind of terms.",
        {"carry": "output not corrected"},
    ),
    Mistake(
        "sum_not_corrected",
        "The running output is corrected when the maximum rises, the running sum is not.",
        {"carry": "sum not corrected"},
    ),
    Mistake(
        "empty_nan",
        "A query that sees no key gives NaN. It should give zeros, forward and backward.",
        {"empty": "nan"},
    ),
    Mistake(
        "mean_of_tile",
        "What is subtracted in the backward pass is summed over the tile alone. It is a sum over the whole "
        "row, and it can be had without the row.",
        {"mean": "tile"},
    ),
    Mistake(
        "no_mean",
        "The gradient of the scores lacks what the softmax subtracts. If all weights get the same gradient, "
        "what should the scores get?",
        {"mean": "none"},
    ),
    Mistake(
        "grad_scale_left_out",
        "The scores were divided on the way forward, and the gradients of query and key show nothing of it.",
        {"grad_scale": "left out"},
    ),
    Mistake(
        "again_without_mask",
        "The tiles are worked out again without the mask: hidden keys get a gradient.",
        {"again": "without mask"},
    ),
    Mistake(
        "not_divided",
        "The weights of the backward pass are not divided by the sum of their row.",
        {"again": "not divided"},
    ),
    Mistake(
        "last_tile_alone",
        "The gradient of the query is that of the last tile. Every tile adds to it.",
        {"add": "last tile"},
    ),
)

CACHE = (
    Mistake(
        "cut_before",
        "The cache is cut before the new tokens have looked. The first of several new tokens still sees keys "
        "that the last one does not.",
        {"cut": "before"},
    ),
    Mistake(
        "one_more",
        "A query sees one key too many. It counts itself among the window.",
        {"seen": "one more"},
    ),
    Mistake(
        "one_less", "A query sees one key too few: the oldest of the window is missing.", {"seen": "one less"}
    ),
    Mistake(
        "later_ones_too",
        "Of several new tokens, the first sees those after it.",
        {"seen": "later ones too"},
    ),
    Mistake(
        "everything",
        "A query sees every key that is there. With several new tokens at once, that is more than a window.",
        {"seen": "everything"},
    ),
    Mistake(
        "from_zero",
        "The new tokens are counted from 0, as if nothing stood before them.",
        {"places": "from zero"},
    ),
    Mistake(
        "never_cut",
        "The cache is never cut, so it grows with the text.",
        {"keep": "everything"},
    ),
    Mistake(
        "one_too_many",
        "The cache keeps a key that no later query can see.",
        {"keep": "one too many"},
    ),
    Mistake(
        "one_too_few",
        "The cache lets a key go that the next query should still see.",
        {"keep": "one too few"},
    ),
    Mistake(
        "the_oldest",
        "The cache keeps the first keys that came and lets the newest go.",
        {"keep": "the oldest"},
    ),
    Mistake(
        "the_new_ones",
        "The cache keeps the newest call's keys alone. What earlier calls left is lost, although it is still "
        "within the window.",
        {"keep": "the new ones"},
    ),
    Mistake("no_scale", "The scores are not divided by the root of the width.", {"scale": "none"}),
    Mistake(
        "scale_d_v",
        "The scores are divided by the root of the values' width. Which vectors meet in a score?",
        {"scale": "d_v"},
    ),
)

LINEAR = (
    Mistake(
        "total_of_all",
        "The sum below the fraction line runs over all keys, later ones included. Change the last key, and "
        "every output changes.",
        {"total": "all"},
    ),
    Mistake(
        "read_before_add",
        "The state is read before the position has added its own key and value, so no position sees itself.",
        {"order": "first read"},
    ),
    Mistake(
        "elu_alone",
        "The features can be negative, and so can the weights. What makes them positive?",
        {"features": "elu"},
    ),
    Mistake("relu", "The features are zero wherever an entry is negative.", {"features": "relu"}),
    Mistake(
        "exponential", "The features are exponentials of the entries, which are others.", {"features": "exp"}
    ),
    Mistake(
        "scaled",
        "The entries are divided by the root of the width first. That belongs to the softmax; this formula "
        "has no such division.",
        {"features": "scaled"},
    ),
    Mistake(
        "not_normalised",
        "The output is not divided by the sum of the weights.",
        {"total": "none"},
    ),
    Mistake(
        "divided_by_count",
        "The output is divided by the number of keys. The weights do not sum to that.",
        {"total": "count"},
    ),
    Mistake("state_lost", "The state holds the last key and value alone.", {"state": "last"}),
    Mistake(
        "raw_query",
        "The query meets the state as it is. Its features are what belongs there.",
        {"query_features": "none"},
    ),
)

PROGRAMS = (
    Mistake(
        "output_not_corrected",
        "Your test lets pass a program whose running output is not corrected when the maximum rises.",
        {"carry": "output not corrected"},
    ),
    Mistake(
        "sum_not_corrected",
        "Your test lets pass a program whose running sum is not corrected when the maximum rises.",
        {"carry": "sum not corrected"},
    ),
    Mistake(
        "last_tile_lost",
        "Your test lets pass a program that leaves out the last keys where their number is no multiple of "
        "its tile.",
        {"tiles": "whole ones"},
    ),
    Mistake(
        "no_maximum",
        "Your test lets pass a program that subtracts no maximum. What do large scores do to it?",
        {"level": "none"},
    ),
    Mistake(
        "first_tile_maximum",
        "Your test lets pass a program that subtracts the maximum of the first tile. When does that "
        "overflow?",
        {"level": "first tile"},
    ),
    Mistake(
        "one_maximum_for_all",
        "Your test lets pass a program that subtracts one maximum from all rows. A row far below the others "
        "tells.",
        {"level": "all rows"},
    ),
    Mistake(
        "as_many_keys_as_queries",
        "Your test lets pass a program that takes no more keys than there are queries.",
        {"keys": "T"},
    ),
    Mistake(
        "scale_of_the_values",
        "Your test lets pass a program that divides by the root of the values' width.",
        {"scale": "d_v"},
    ),
    Mistake(
        "half_precision",
        "Your test lets pass a program that rounds its inputs to half precision. How close is close?",
        {"work": "half"},
    ),
)
