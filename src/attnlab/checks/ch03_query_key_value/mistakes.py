"""Known mistakes of lesson 3: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

SCALE = (
    Mistake(
        "no_scale",
        "The scores are not scaled. A dot product of wider vectors has a wider spread; what keeps that "
        "spread at 1, "
        "whatever the width?",
        {"divisor": "nothing"},
    ),
    Mistake(
        "scale_d_k",
        "The scores are divided by the width itself. The variance of a score grows with the width, but "
        "its typical size "
        "does not grow that fast.",
        {"divisor": "d_k"},
    ),
    Mistake(
        "scale_d_v",
        "The scale comes from the width of the values. Which two vectors meet in a score, and how wide "
        "are they?",
        {"divisor": "sqrt d_v"},
    ),
    Mistake(
        "scale_length",
        "The scale comes from the number of keys. A score is one dot product: it does not know how many "
        "others there are.",
        {"divisor": "sqrt length"},
    ),
    Mistake(
        "scale_inverted",
        "The scores are multiplied where they should be divided: wide vectors now saturate the softmax "
        "even sooner.",
        {"divisor": "1 / sqrt d_k"},
    ),
    Mistake(
        "scale_after",
        "The scaling comes after the softmax, so the rows no longer sum to 1. It has to act while the "
        "scores are still scores.",
        {"divisor": "after the softmax"},
    ),
)

SCALE_MODEL = Mistake(
    "scale_d_model",
    "The scale comes from the width of the token, d_model. A score only ever sees vectors of another width.",
    {"divisor": "sqrt d_model"},
)

AXIS = (
    Mistake(
        "axis_queries",
        "The softmax runs over the queries. Each query spreads its own attention: along which axis do its "
        "scores lie?",
        {"axis": -2},
    ),
    Mistake(
        "axis_batch",
        "The softmax runs over the first axis, the batch: sentences that have nothing to do with each "
        "other compete.",
        {"axis": 0},
    ),
)

ROLES = Mistake(
    "roles",
    "Queries and keys have changed places: the table of scores has one row for each key. It should have "
    "one for each query.",
    {"roles": "key asks"},
)

SQUASH = (
    Mistake(
        "no_softmax",
        "The scores are used as weights as they are. They can be negative and do not sum to 1: what turns "
        "them into shares?",
        {"squash": "nothing"},
    ),
    Mistake(
        "hard",
        "Each query takes its best key alone. That is a look-up, but it has no slope and cannot be "
        "learned: attention mixes.",
        {"squash": "hard"},
    ),
    Mistake(
        "sigmoid",
        "Each score goes through a sigmoid of its own. The keys have to compete for one whole: their "
        "weights sum to 1.",
        {"squash": "sigmoid"},
    ),
)

MASK = (
    Mistake(
        "mask_ignored",
        "The mask makes no difference. Look where in the four steps a hidden key has to be taken out.",
        {"masking": "ignored"},
    ),
    Mistake(
        "mask_inverted",
        "The mask is read the wrong way round: in this course True means that the query may attend to the "
        "key.",
        {"masking": "inverted"},
    ),
    Mistake(
        "mask_zero_score",
        "Hidden keys get the score 0. That is a score like any other, and the softmax gives it weight.",
        {"masking": "zero score"},
    ),
    Mistake(
        "mask_added",
        "The mask is added to the scores as ones and zeros. That favours a key a little; it hides none.",
        {"masking": "added"},
    ),
    Mistake(
        "mask_after",
        "Weights are set to zero after the softmax. The rest of the row no longer sums to 1: hidden keys "
        "took their share first.",
        {"masking": "multiplied after"},
    ),
)

EMPTY = (
    Mistake(
        "empty_nan",
        "A query that may attend to nothing gets NaN: its row holds nothing but minus infinity. It should "
        "get zeros.",
        {"empty": "nan"},
    ),
    Mistake(
        "empty_uniform",
        "A query that may attend to nothing attends to everything alike: in its row all scores are "
        "equally low. It should "
        "get zeros.",
        {"empty": "uniform"},
    ),
    Mistake(
        "empty_nan_cleaned",
        "A query that may attend to nothing gets zeros, but its gradient is NaN: the NaN was cleaned away "
        "after it had been "
        "made, and going backward it is met again.",
        {"empty": "nan cleaned"},
    ),
)

SUMMED = Mistake(
    "sums_keys",
    "The weights are applied to the keys. Keys are what is searched; what does a key hand over when it is "
    "found?",
    {"summed": "key"},
)

RETURNED = (
    Mistake(
        "returns_scores",
        "The second part that you return are the scores. The weights are asked for: the ones that the "
        "values were mixed with.",
        {"returned": "output, scores"},
    ),
    Mistake(
        "returns_swapped",
        "The two parts are returned in the other order: first the output, then the weights.",
        {"returned": "weights, output"},
    ),
)

TIED = (
    Mistake(
        "keys_from_w_q",
        "The keys are made with the matrix of the queries. What a token looks for is not what it can be "
        "found by.",
        {"found_by": "w_q"},
    ),
    Mistake(
        "queries_from_w_k",
        "The queries are made with the matrix of the keys. What a token looks for is not what it can be "
        "found by.",
        {"asks_with": "w_k"},
    ),
)

DROPOUT = (
    Mistake(
        "dropout_always",
        "Dropout goes on after eval(). A function of torch does not know in which mode your module is.",
        {"when": "always"},
    ),
    Mistake(
        "dropout_never",
        "Nothing is ever dropped, in training either.",
        {"when": "never"},
    ),
    Mistake(
        "dropout_inverted",
        "Dropout acts in evaluation and rests in training: the other way round.",
        {"when": "evaluation"},
    ),
    Mistake(
        "dropout_output",
        "Single numbers of the output are dropped. Attention dropout removes whole links: which table "
        "holds the links?",
        {"dropped": "output"},
    ),
    Mistake(
        "dropout_scores",
        "Dropout acts before the softmax. A score of 0 does not take a link away: the softmax gives it "
        "weight.",
        {"dropped": "scores"},
    ),
    Mistake(
        "dropout_not_rescaled",
        "What is left after dropout is not made larger, so outputs are smaller in training than in "
        "evaluation.",
        {"dropped": "weights, not rescaled"},
    ),
    Mistake(
        "dropout_shown",
        "The weights that you return are those after dropout: rows that sum to more or less than 1. "
        "Return the weights "
        "as the softmax made them.",
        {"shown": "after dropout"},
    ),
)
