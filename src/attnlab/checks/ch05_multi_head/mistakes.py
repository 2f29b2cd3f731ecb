"""Lesson 5, known mistakes with attention by several heads: name, switches, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

# --- torch's weights --------------------------------------------------------------------------------------

_SCALE_MODEL = Mistake(
    "scale_d_model",
    "The scores are divided by the root of the token's width. Each head divides by the root of its own: how "
    "many numbers meet in one of its scores?",
    {"divisor": "d_model"},
)
_NO_SCALE = Mistake(
    "no_scale",
    "The scores are not scaled. What keeps their spread at 1, whatever the width of a head?",
    {"divisor": "nothing"},
)
_SPLIT_VIEW = Mistake(
    "split_view",
    "A view alone makes the heads: the shape is right, but each head holds a run of tokens in pieces. No "
    "head sees the whole sequence.",
    {"split": "view"},
)
_MERGE_VIEW = Mistake(
    "merge_view",
    "The heads are merged without moving their axis back: a row of the result mixes several positions of "
    "one head.",
    {"merge": "view"},
)

TORCH = (
    Mistake(
        "always_batch_first",
        "You read the first axis as the batch, always. PyTorch's module puts time first unless told "
        "otherwise: your sequences attend to each other, position by position.",
        {"reads": "batch first"},
    ),
    Mistake(
        "always_time_first",
        "You read the first axis as time, always. With batch_first it is the batch: then your sequences "
        "attend to each other.",
        {"reads": "time first"},
    ),
    Mistake(
        "inverted",
        "You turn the axes where they are right, and leave them where they are not. What does your "
        "attention expect, and when is that what came?",
        {"reads": "inverted"},
    ),
    Mistake(
        "not_turned_back",
        "The output has the batch first where the input had time first. It should come out as it went in.",
        {"gives": "batch first"},
    ),
    Mistake(
        "thirds_kqv",
        "The first two thirds of in_proj_weight have changed places: what you use for the keys makes the "
        "queries, and the other way round.",
        {"thirds": "kqv"},
    ),
    Mistake(
        "thirds_vkq",
        "The first third of in_proj_weight and the last have changed places. Look at the order in its name "
        "in the paper's formula.",
        {"thirds": "vkq"},
    ),
    Mistake(
        "thirds_qvk",
        "The second third of in_proj_weight and the last have changed places: values are looked up, and "
        "keys handed over.",
        {"thirds": "qvk"},
    ),
    Mistake(
        "by_head",
        "You take in_proj_weight as a stack of heads, each with its queries, keys and values. Some models "
        "store it so. Here all queries come first.",
        {"thirds": "by head"},
    ),
    Mistake(
        "every_third",
        "You take every third row of in_proj_weight. The thirds are blocks: all rows of the queries lie "
        "together.",
        {"thirds": "every third row"},
    ),
    Mistake(
        "in_turned",
        "The vectors are multiplied by the input matrices the wrong way up. PyTorch keeps a matrix as "
        "(out, in), and a square one fits either way.",
        {"in_turned": True},
    ),
    Mistake(
        "out_turned",
        "The vectors are multiplied by the output matrix the wrong way up. PyTorch keeps a matrix as "
        "(out, in), and a square one fits either way.",
        {"out_turned": True},
    ),
    Mistake(
        "no_in_bias",
        "The biases of queries, keys and values are left out. PyTorch starts them at zero, so a new module "
        "does not show it; a trained one does.",
        {"in_bias": False},
    ),
    Mistake(
        "no_out_bias",
        "The bias behind the output matrix is left out. PyTorch starts it at zero, so a new module does not "
        "show it; a trained one does.",
        {"out_bias": False},
    ),
    Mistake(
        "no_out",
        "The heads stand side by side, and nothing mixes them: the fourth projection is missing.",
        {"out": False},
    ),
    _SPLIT_VIEW,
    _MERGE_VIEW,
    _SCALE_MODEL,
    _NO_SCALE,
    Mistake(
        "weights_averaged",
        "You return the mean of the weights over the heads. PyTorch's module does so by default; here the "
        "table of each head is asked for.",
        {"shown": "mean"},
    ),
)

# --- grouped heads ----------------------------------------------------------------------------------------

GROUPED = (
    Mistake(
        "tiled",
        "The answering heads are laid out in turn, the whole row again and again. Neighbours among the "
        "asking heads belong to one group: should their keys and values not be the same?",
        {"keys": "tiled", "values": "tiled"},
    ),
    Mistake(
        "keys_tiled",
        "The keys are laid out in turn, and the values each repeated: a query finds a key of one group and "
        "gets the value of another.",
        {"keys": "tiled"},
    ),
    Mistake(
        "values_tiled",
        "The values are laid out in turn, and the keys each repeated: a query finds a key of one group and "
        "gets the value of another.",
        {"values": "tiled"},
    ),
    Mistake(
        "first_for_all",
        "The first answering head serves all that ask; the others are never used.",
        {"keys": "first", "values": "first"},
    ),
    _SCALE_MODEL,
    _NO_SCALE,
    _SPLIT_VIEW,
    Mistake(
        "split_view_answers",
        "A view alone makes the heads of keys and values: the shape is right, but each head holds a run of "
        "tokens in pieces.",
        {"split_kv": "view"},
    ),
    _MERGE_VIEW,
    Mistake(
        "no_out",
        "The heads stand side by side, and nothing mixes them: w_o is not used.",
        {"out": False},
    ),
    Mistake(
        "values_from_key",
        "The values are made from the key input. With self-attention nobody would notice; here the two "
        "inputs differ.",
        {"source": "key"},
    ),
    Mistake(
        "axis_queries",
        "The softmax runs over the queries. With an axis for the heads, each axis counted from the front "
        "has another number.",
        {"axis": -2},
    ),
    Mistake(
        "axis_heads",
        "The softmax runs over the heads: they compete with each other. It is the keys that compete, in "
        "each head for itself.",
        {"axis": 1},
    ),
    Mistake(
        "mask_ignored",
        "The mask makes no difference. A hidden key has to be taken out before the softmax.",
        {"masking": "ignored"},
    ),
    Mistake(
        "mask_inverted",
        "The mask is read the wrong way round: in this course True means that the query may attend to the "
        "key.",
        {"masking": "inverted"},
    ),
    Mistake(
        "empty_nan",
        "A query that may attend to nothing gets NaN: its row holds nothing but minus infinity. It should "
        "get zeros.",
        {"empty": "nan"},
    ),
    Mistake(
        "empty_uniform",
        "A query that may attend to nothing attends to everything alike: in its row all scores are equally "
        "low. It should get zeros.",
        {"empty": "uniform"},
    ),
    Mistake(
        "weights_averaged",
        "You return the mean of the weights over the heads. The table of each head is asked for.",
        {"shown": "mean"},
    ),
    Mistake(
        "weights_of_groups",
        "You return one table of weights for each answering head. Each asking head has a table of its own.",
        {"shown": "one a group"},
    ),
    Mistake(
        "torch_refuses",
        "Where heads cannot be shared out evenly, your class leaves the error to PyTorch, whose message "
        "speaks of shapes. Look first, and raise a ValueError that names both numbers.",
        {"refusal": "torch"},
    ),
    Mistake(
        "not_refused",
        "Numbers that do not divide each other are accepted, and what is left over is lost in a rounded-down "
        "quotient.",
        {"refusal": "none"},
    ),
    Mistake(
        "groups_not_refused",
        "You look whether the width can be shared out to the heads. Can the heads be shared out to those "
        "that answer?",
        {"refusal": "heads alone"},
    ),
    Mistake(
        "asserted",
        "You refuse with an assert. Python can be run without those: what a caller may get wrong deserves a "
        "ValueError.",
        {"refusal": "assert"},
    ),
    Mistake(
        "one_number",
        "Your error does not name both numbers. Who reads it has to know which two do not fit.",
        {"refusal": "one number"},
    ),
)

# --- repair -----------------------------------------------------------------------------------------------

REPAIR = (
    Mistake(
        "axis_queries",
        "The softmax still runs over the queries. Along which axis do the scores of one query lie, now that "
        "there is an axis for the heads?",
        {"axis": -2},
    ),
    _MERGE_VIEW,
    Mistake(
        "axis_heads",
        "The softmax runs over the heads now: they compete with each other. It is the keys that compete, in "
        "each head for itself.",
        {"axis": 1},
    ),
    Mistake(
        "axis_batch",
        "The softmax runs over the batch now: sequences that have nothing to do with each other compete.",
        {"axis": 0},
    ),
    Mistake(
        "merge_interleaved",
        "The numbers of the heads are shuffled into each other now, one of each head in turn. Each head's "
        "piece should stay in one piece, as the split made it.",
        {"merge": "interleaved"},
    ),
    Mistake(
        "merge_turned",
        "Two axes have moved on the way to the merge, where one should: a head's piece no longer holds the "
        "numbers of one token.",
        {"merge": "turned"},
    ),
    Mistake(
        "split_view",
        "Now the split is wrong, which was right: a view alone gives each head a run of tokens in pieces.",
        {"split": "view"},
    ),
    Mistake(
        "split_interleaved",
        "Now the split is another one than before: each head gets columns from all over the token. It was "
        "right as it was.",
        {"split": "interleaved"},
    ),
    _SCALE_MODEL,
    _NO_SCALE,
    Mistake(
        "no_out",
        "The output matrix is no longer used. It was right as it was.",
        {"mixed": "not at all"},
    ),
    Mistake(
        "keys_from_w_q",
        "The keys are made with the matrix of the queries now. That was right as it was.",
        {"found_by": "w_q"},
    ),
)
