"""Known mistakes of lesson 9 in the loss and the training loop: names, switches, and hints.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

# --- label smoothing --------------------------------------------------------------------------------------

SMOOTHED_LOSS = (
    Mistake(
        "spread_over_all",
        "The share is spread over all tokens, as the lesson and PyTorch do. Here the target keeps what is "
        "left, and padding gets nothing.",
        {"spread": "all tokens"},
    ),
    Mistake(
        "padding_gets_a_share",
        "Padding gets a share. It is never an answer, so nothing should pull towards it. How many tokens are "
        "left to share?",
        {"spread": "padding too"},
    ),
    Mistake(
        "target_gets_a_share",
        "The target gets a share on top of what it keeps. The share is for the others.",
        {"spread": "all real tokens"},
    ),
    Mistake(
        "shares_too_thin",
        "The shares of one place do not sum to 1. Count the tokens that get one: which two do not?",
        {"spread": "too thin"},
    ),
    Mistake(
        "swapped",
        "The target gets the small share and the others the large one.",
        {"spread": "swapped"},
    ),
    Mistake("not_smoothed", "This is the loss without smoothing.", {"spread": "nothing"}),
    Mistake(
        "padding_counted_in_mean",
        "Padding costs nothing, but it is counted when the mean is taken: the more padding a batch has, the "
        "better it looks.",
        {"mean": "all places"},
    ),
    Mistake(
        "padding_costs",
        "Places of padding cost something, as if the model had to predict padding there.",
        {"padding": "counted"},
    ),
    Mistake("summed", "The loss is a sum. Its mean over the real tokens was asked for.", {"mean": "sum"}),
    Mistake(
        "mean_of_rows",
        "The mean is taken row by row first, so that a token of a short text counts for more than one of a "
        "long text.",
        {"mean": "rows"},
    ),
    Mistake(
        "mean_over_classes",
        "The mean is taken over the tokens of the vocabulary as well. Over these there is a sum.",
        {"mean": "tokens and classes"},
    ),
    Mistake(
        "empty_nan",
        "A batch of nothing but padding gives NaN: nothing was divided by nothing. One such batch and every "
        "weight is NaN.",
        {"empty": "nan"},
    ),
    Mistake(
        "zero_times_infinity",
        "Where the logit of padding is minus infinity, the loss is NaN: a share of zero meets an infinite "
        "logarithm. What has no share must not be multiplied at all.",
        {"impossible": "multiplied"},
    ),
    Mistake(
        "log_of_softmax",
        "Where a model is sure and wrong, your loss is too small: a probability below what float32 can hold "
        "has lost its logarithm. Which function never makes the probability?",
        {"logarithm": "of a softmax"},
    ),
    Mistake(
        "wrong_axis",
        "The softmax runs along the wrong axis. The logits of one place lie along the last one, however many "
        "stand before it.",
        {"axis": 1},
    ),
    Mistake(
        "divergence",
        "This is the divergence: the entropy of the shares was taken away. Its gradient is the same, but it "
        "is another number.",
        {"constant": "divergence"},
    ),
    Mistake(
        "padding_is_zero",
        "You take 0 for the number of padding. It is an argument: other vocabularies number it otherwise.",
        {"padding_is": "zero"},
    ),
)

# --- the training loop ------------------------------------------------------------------------------------

TRAIN = (
    Mistake(
        "reads_the_answer",
        "The model reads at each place the very token that it is asked for. What is it given in use, when "
        "that token is not there yet?",
        {"pairing": "the answer"},
    ),
    Mistake(
        "padding_counted",
        "The loss asks for padding too. Half the places of a batch may be padding, and they are "
        "the easy half.",
        {"padding": "counted"},
    ),
    Mistake(
        "clipped_too_late",
        "The gradient is not clipped when the step is made. What does clipping after the step change, if the "
        "next thing is to clear the gradient?",
        {"clipped": "too late"},
    ),
    Mistake(
        "asks_the_same",
        "The model is asked for the token that it has just read. It learns to repeat.",
        {"pairing": "the same"},
    ),
    Mistake(
        "shifted_twice",
        "The target is shifted two places: the model is asked for the token after the next.",
        {"pairing": "two on"},
    ),
    Mistake(
        "padding_in_the_mean",
        "Padding costs nothing, but it is counted when the mean is taken.",
        {"padding": "counted in the mean"},
    ),
    Mistake(
        "clipped_by_value",
        "Each number of the gradient is clipped for itself, which turns its direction. Clip the norm of the "
        "whole.",
        {"clipped": "by value"},
    ),
    Mistake(
        "never_cleared",
        "The gradients of all steps add up. Something must clear them once a step.",
        {"cleared": "never"},
    ),
    Mistake(
        "cleared_too_soon",
        "The gradient is cleared between its computation and the step: the step has nothing to go by.",
        {"cleared": "too soon"},
    ),
    Mistake(
        "no_warm_up",
        "The learning rate does not rise: every step has the full rate.",
        {"rate": "constant"},
    ),
    Mistake(
        "warm_up_from_zero",
        "The warm-up counts from 0, so the first step has a rate of zero and the batch is lost.",
        {"rate": "rises from 0"},
    ),
    Mistake(
        "softmax_twice",
        "cross_entropy applies a softmax of its own. Give it the logits.",
        {"loss": "of probabilities"},
    ),
    Mistake("summed", "The loss is a sum. Its mean over the real tokens was asked for.", {"loss": "summed"}),
    Mistake(
        "optimiser_anew",
        "Each step begins with a new optimiser, which has forgotten the gradients before.",
        {"optimiser": "new each step"},
    ),
)
