"""The predictions and findings of lesson 8, and the known wrong ones."""

from __future__ import annotations

from ..engine import Choice, Near, WrongValue
from .machines import FAULTS

# --- predict, then test -----------------------------------------------------------------------------------

D_MODEL, D_FF = 64, 256
SOURCE, TARGET = 9, 6

ROWS = "cross-attention, rows of one head's table"
PARAMETERS = "parameters of the decoder layer"
HEADS = "8 heads instead of 4, parameters"
WIDTHS = "d_model and d_ff doubled, parameters, times"
LONGER = "source doubled, weights in cross-attention's tables, times"
COUNTED = "targets that the loss counts"
CHANGED = "last source word replaced, outputs that change"

SIZE_WORDS = ("grow", "stay", "shrink")
CHANGED_WORDS = ("all", "only the last", "none")


def parameters(d: int, d_ff: int, *, attentions: int = 2, norms: int = 3, biases: bool = True) -> int:
    """Parameters of a layer with so many attentions and norms around one feed-forward network."""
    matrices = attentions * 4 * d**2 + 2 * d * d_ff
    return matrices + (attentions * 4 * d + d_ff + d if biases else 0) + norms * 2 * d


def prediction() -> dict[str, Choice | Near]:
    """What is right."""
    growth = parameters(2 * D_MODEL, 2 * D_FF) / parameters(D_MODEL, D_FF)
    return {
        ROWS: Near(TARGET),
        PARAMETERS: Near(parameters(D_MODEL, D_FF)),
        HEADS: Choice("stay", options=SIZE_WORDS),
        WIDTHS: Near(growth, absolute=0.1),
        LONGER: Near(2),
        COUNTED: Near(4),
        CHANGED: Choice("all", options=CHANGED_WORDS),
    }


PREDICTION_WRONG = (
    WrongValue(
        "source_asks",
        "That is how many tokens the source has. A row belongs to a query: which side asks?",
        {ROWS: SOURCE},
    ),
    WrongValue(
        "both_ask",
        "You joined the two sentences into one. In cross-attention one side asks and the other is asked.",
        {ROWS: SOURCE + TARGET},
    ),
    WrongValue(
        "encoder_layer",
        "That is an encoder layer. A decoder layer has one sublayer more, and what belongs to it.",
        {PARAMETERS: parameters(D_MODEL, D_FF, attentions=1, norms=2)},
    ),
    WrongValue(
        "no_biases",
        "The biases are missing. Every projection adds one, and so do both maps of the feed-forward network.",
        {PARAMETERS: parameters(D_MODEL, D_FF, biases=False)},
    ),
    WrongValue(
        "matrices_alone",
        "Those are the matrices alone. Biases and norms hold numbers, too.",
        {PARAMETERS: parameters(D_MODEL, D_FF, biases=False, norms=0)},
    ),
    WrongValue(
        "two_norms",
        "One norm is missing. How many sublayers are there?",
        {PARAMETERS: parameters(D_MODEL, D_FF, norms=2)},
    ),
    WrongValue(
        "no_norms",
        "The norms are missing. Each has a factor and a shift for every number of a vector.",
        {PARAMETERS: parameters(D_MODEL, D_FF, norms=0)},
    ),
    WrongValue(
        "heads_add",
        "More heads are narrower heads: they share out the same matrices among them.",
        {HEADS: "grow"},
    ),
    WrongValue(
        "heads_thin",
        "More heads are narrower heads, but there are more of them: all together they are as wide as before.",
        {HEADS: "shrink"},
    ),
    WrongValue(
        "width_linear",
        "A matrix has a width on both of its sides. What becomes of its size if both double?",
        {WIDTHS: Near(2, absolute=0.05)},
    ),
    WrongValue(
        "length_squared",
        "That is how self-attention grows, where the same tokens ask and are asked. Here one side alone has "
        "become longer.",
        {LONGER: 4},
    ),
    WrongValue(
        "length_free",
        "You gave how the outputs grow, which is not at all. The table of weights has a column for each "
        "source token.",
        {LONGER: 1},
    ),
    WrongValue(
        "bos_counted",
        "You counted bos as well. It is read before the first word; nobody has to say it.",
        {COUNTED: 5},
    ),
    WrongValue(
        "end_left_out",
        "You left out the end. If nothing ever asks for eos, a model never learns to stop.",
        {COUNTED: 3},
    ),
    WrongValue(
        "padding_counted",
        "You counted padding. What is to be said there is left out of the loss.",
        {COUNTED: 6},
    ),
    WrongValue(
        "source_is_causal",
        "The triangle belongs to the target. The source is complete before the first word is written: who "
        "may look at its last word?",
        {CHANGED: "only the last"},
    ),
    WrongValue(
        "source_unread",
        "Then the source could say anything. Through which sublayer does it get into the decoder?",
        {CHANGED: "none"},
    ),
)

# --- read the map -----------------------------------------------------------------------------------------

WORDS = (
    "right",
    "future seen",
    "decoder sees padding",
    "encoder sees padding",
    "encoder is causal",
    "source unread",
    "short memory",
)


def found() -> dict[str, Choice]:
    """What is the matter with each machine."""
    return {f"machine {number}": Choice(fault, options=WORDS) for number, fault in enumerate(FAULTS, start=1)}


FOUND_WRONG = (
    WrongValue(
        "looks_right",
        "At the sizes given this machine does look right. One of them does not stand a longer target.",
        {"machine 3": "right"},
    ),
    WrongValue(
        "padding_in_encoder",
        "Something of padding arrives in the outputs. Now look at the rows of the memory: does it get in "
        "there already?",
        {"machine 1": "encoder sees padding"},
    ),
    WrongValue(
        "triangle_of_the_decoder",
        "There is a triangle where none belongs, but look at which rows and columns it stands in. What the "
        "decoder does is in the rows of the outputs.",
        {"machine 2": "future seen"},
    ),
    WrongValue(
        "triangle_is_right",
        "A triangle is right where a sentence is being written. The source is complete before it is read.",
        {"machine 2": "right"},
    ),
    WrongValue(
        "full_is_right",
        "All cells of the target are filled. Which of them would tell a writer what it has not written yet?",
        {"machine 4": "right"},
    ),
    WrongValue(
        "empty_is_wrong",
        "This machine's outputs leave the columns of padding and the later target tokens empty, as they "
        "should.",
        {"machine 5": "short memory"},
    ),
    WrongValue(
        "padding_is_right",
        "Compare the columns of padding with those of the other machines: they should move nothing.",
        {"machine 1": "right"},
    ),
)
