"""Lesson 5's answers that are values: what is predicted, and what is found by switching heads off."""

from __future__ import annotations

from ..values import Choice, Near, Spec, WrongValue

PREDICTED: dict[str, Spec] = {
    "parameters, 8 heads": Near(36864),
    "parameters, 8 heads ask and 2 answer": Near(23040),
    "number under the root": Near(12),
    "numbers in the weights, 8 heads": Near(560),
    "numbers in the weights, 8 heads ask and 2 answer": Near(560),
    "axes of PyTorch's weights": Near(3),
    "heads in another order, output": Choice("stays", options=("changes", "stays")),
}

WRONGLY_PREDICTED = [
    WrongValue(
        "three_matrices",
        "You counted the matrices of queries, keys and values. What mixes the heads behind them?",
        {"parameters, 8 heads": 27648},
    ),
    WrongValue(
        "wide_heads",
        "You gave each head matrices of the whole width. The columns of one such matrix are shared out "
        "among the heads.",
        {"parameters, 8 heads": 294912},
    ),
    WrongValue(
        "with_biases",
        "You counted biases too. These projections have none.",
        {"parameters, 8 heads": 37248},
    ),
    WrongValue(
        "one_matrix",
        "That is one of the matrices. How many are there?",
        {"parameters, 8 heads": 9216},
    ),
    WrongValue(
        "one_head",
        "That is the share of a single head. All of them are asked for.",
        {"parameters, 8 heads": 4608},
    ),
    WrongValue(
        "nothing_saved",
        "With fewer heads that answer, two of the matrices have fewer rows. Which two?",
        {"parameters, 8 heads ask and 2 answer": 36864},
    ),
    WrongValue(
        "all_narrow",
        "You made all of the matrices narrower. There are as many heads that ask as before, and they are "
        "merged as before.",
        {"parameters, 8 heads ask and 2 answer": 9216},
    ),
    WrongValue(
        "one_narrow",
        "You made one matrix narrower. Heads that answer have a key and a value each.",
        {"parameters, 8 heads ask and 2 answer": 29952},
    ),
    WrongValue(
        "narrow_no_out",
        "You left out the matrix that mixes the heads. Those that ask are as many as before.",
        {"parameters, 8 heads ask and 2 answer": 13824},
    ),
    WrongValue(
        "root_model",
        "That is the width of the token. How many numbers meet in the score of one head?",
        {"number under the root": 96},
    ),
    WrongValue(
        "root_heads",
        "That is the number of heads. The root belongs to the width of what is multiplied.",
        {"number under the root": 8},
    ),
    WrongValue(
        "root_taken",
        "You gave the root itself. The number below it is asked for.",
        {"number under the root": Near(12**0.5, absolute=0.01)},
    ),
    WrongValue(
        "one_table",
        "That is one table for each sequence. Each head has a softmax of its own.",
        {"numbers in the weights, 8 heads": 70},
    ),
    WrongValue(
        "one_sequence",
        "That is for one sequence. There are two in the batch.",
        {"numbers in the weights, 8 heads": 280},
    ),
    WrongValue(
        "square_tables",
        "Your tables are square. Their rows are the queries; what are their columns?",
        {"numbers in the weights, 8 heads": 400},
    ),
    WrongValue(
        "widths_too",
        "You counted the width of a head too. It was summed away in the dot product: a score is one number.",
        {"numbers in the weights, 8 heads": 6720},
    ),
    WrongValue(
        "tables_shared",
        "You counted a table for each head that answers. A row of weights belongs to a query: who has "
        "queries of its own?",
        {"numbers in the weights, 8 heads ask and 2 answer": 140},
    ),
    WrongValue(
        "torch_gives_all",
        "PyTorch's module computes a table for each head. What does it do with them before it returns, "
        "unless told otherwise?",
        {"axes of PyTorch's weights": 4},
    ),
    WrongValue(
        "heads_have_places",
        "The output is a sum over the heads, each through rows of W^O of its own. Does a sum know in "
        "which order its terms stand?",
        {"heads in another order, output": "changes"},
    ),
]

PAIRS = ("0 and 1", "0 and 2", "0 and 3", "1 and 2", "1 and 3", "2 and 3")

FOUND: dict[str, Spec] = {
    "two steps back is lost without head": Near(2),
    "heads that show a loss when off alone": Near(1),
    "one step back is lost without heads": Choice("0 and 3", options=PAIRS),
    "nothing ever needs head": Near(1),
}

WRONGLY_FOUND = [
    WrongValue(
        "sharpest_for_two",
        "That head has the sharpest map. Switch it off and read the bar of two steps back.",
        {"two steps back is lost without head": 1},
    ),
    WrongValue(
        "near_for_two",
        "That head looks one step back. Its map says so, and the bar of two steps back stays without it.",
        {"two steps back is lost without head": 0},
    ),
    WrongValue(
        "blurred_for_two",
        "That head spreads its weights, but switched off it does not move the bar of two steps back.",
        {"two steps back is lost without head": 3},
    ),
    WrongValue(
        "all_at_work",
        "You counted the heads that do something. Count those whose loss shows while all others are on.",
        {"heads that show a loss when off alone": 3},
    ),
    WrongValue(
        "one_for_each_job",
        "There are two jobs, but not one head for each. Switch each head off alone and watch both bars.",
        {"heads that show a loss when off alone": 2},
    ),
    WrongValue(
        "all_four",
        "Three of them are not missed when off alone. Did you put a head back before the next went off?",
        {"heads that show a loss when off alone": 4},
    ),
    WrongValue(
        "none_alone",
        "One of the heads cannot be missed even alone. Watch the bar of two steps back.",
        {"heads that show a loss when off alone": 0},
    ),
    WrongValue(
        "first_and_far",
        "With these two off, it is two steps back that is lost. One step back is still named: by whom?",
        {"one step back is lost without heads": "0 and 2"},
    ),
    WrongValue(
        "first_and_sharpest",
        "With these two off, one step back is still named. A sharp map is no proof of use.",
        {"one step back is lost without heads": "0 and 1"},
    ),
    WrongValue(
        "stand_in_and_far",
        "With these two off, it is two steps back that is lost. One step back is still named: by whom?",
        {"one step back is lost without heads": "2 and 3"},
    ),
    WrongValue(
        "blurred_unused",
        "Alone it is not missed, and its map is blurred. Leave it off, and switch off a second head.",
        {"nothing ever needs head": 3},
    ),
    WrongValue(
        "first_unused",
        "Alone it is not missed. But that is so of others too: leave it off, and switch off a second head.",
        {"nothing ever needs head": 0},
    ),
    WrongValue(
        "far_unused",
        "Switch it off alone, and look at the bar of two steps back.",
        {"nothing ever needs head": 2},
    ),
]
