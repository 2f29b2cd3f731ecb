"""Known mistakes of lesson 4: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

MASKS = (
    Mistake(
        "right_edge",
        "The triangle ends at the last key. That is right where the last query is the newest position; here "
        "columns may follow that are not written yet. Where does the first query stand?",
        {"triangle": "right edge"},
    ),
    Mistake(
        "left_edge",
        "The triangle begins at the left edge, whatever start is. A query that comes after kept positions "
        "has all of them before it.",
        {"triangle": "left edge"},
    ),
    Mistake(
        "next_too",
        "A query of the decoder sees the position after its own: the one that it is to predict.",
        {"triangle": "next too"},
    ),
    Mistake(
        "before_only",
        "A query of the decoder does not see its own position, and the first one sees nothing at all.",
        {"triangle": "before only"},
    ),
    Mistake(
        "later_ones",
        "The triangle is turned round: a query of the decoder sees itself and what comes after it.",
        {"triangle": "later ones"},
    ),
    Mistake(
        "start_taken_away",
        "The start moves the triangle the wrong way. Do later queries see more keys, or fewer?",
        {"triangle": "start taken away"},
    ),
    Mistake(
        "may_not",
        "The masks say which keys are hidden. In this course True means that the query may attend.",
        {"sense": "may not"},
    ),
    Mistake(
        "joined_or",
        "The decoder's key is let through when one of its two rules allows it. It needs both.",
        {"combine": "or"},
    ),
    Mistake(
        "decoder_no_padding",
        "The decoder sees the target's padding: its mask is the triangle alone.",
        {"combine": "triangle alone"},
    ),
    Mistake(
        "decoder_no_triangle",
        "The decoder sees the future: its mask hides the target's padding and nothing else.",
        {"combine": "padding alone"},
    ),
    Mistake(
        "one_too_many",
        "The first column of the padding counts as real. Columns are counted from 0: which is the last real "
        "one of a sequence of three tokens?",
        {"real": "up to"},
    ),
    Mistake(
        "one_too_few",
        "The last real token is hidden like padding. Columns are counted from 0: which is the last real one "
        "of a sequence of three tokens?",
        {"real": "below the last"},
    ),
    Mistake(
        "rows_for_keys",
        "The padding was laid along the wrong axis: whole queries are silenced, and every other one still "
        "sees the padding. What has to be hidden are keys. Along which axis do they lie?",
        {"hides": "rows"},
    ),
    Mistake(
        "rows_as_well",
        "The rows of padding are emptied as well. Here a mask hides keys; what a row of padding gives is not "
        "read by anybody.",
        {"hides": "keys and rows"},
    ),
    Mistake(
        "cross_target",
        "The mask of the cross-attention is made from the target's lengths. Whose tokens are its keys?",
        {"cross": "target"},
    ),
    Mistake(
        "cross_causal",
        "The cross-attention has a triangle. The whole source is there before the first target word is "
        "written: what is there to hide?",
        {"cross": "causal"},
    ),
    Mistake(
        "cross_open",
        "The cross-attention sees the padding of the source.",
        {"cross": "everything"},
    ),
    Mistake(
        "encoder_causal",
        "The encoder has a triangle. It predicts nothing: each of its words may read the words after it.",
        {"encoder": "causal"},
    ),
    Mistake(
        "encoder_open",
        "The encoder sees the padding of the source.",
        {"encoder": "everything"},
    ),
)

ATTEND = (
    Mistake(
        "joined_or",
        "A key is let through when one of the two masks allows it. To pass, it needs both: what does + do "
        "with two truth values?",
        {"combine": "or"},
    ),
    Mistake(
        "lowest_added_cleaned",
        "What a query without keys gets depends on luck. Adding the lowest number leaves its scores alike, "
        "so it attends to what is hidden; in half precision the sum may fall off the end, and the NaN that "
        "is cleaned from the output comes back in the gradient.",
        {"hidden": "lowest added, output cleaned"},
    ),
    Mistake(
        "cleaned_output",
        "A query without keys gets zeros, but the gradient of the values is NaN: its weights were NaN before "
        "the output was cleaned. The row has to be harmless before the softmax.",
        {"hidden": "-inf, output cleaned"},
    ),
    Mistake(
        "nan",
        "A query without keys gets NaN: its row holds nothing but minus infinity. It should get zeros.",
        {"hidden": "-inf"},
    ),
    Mistake(
        "lowest_added",
        "Adding the lowest number of the type: where all keys are hidden, the query attends to all of them "
        "alike, and in half precision the sum may fall off the end and give NaN.",
        {"hidden": "lowest added"},
    ),
    Mistake(
        "lowest_filled",
        "A query without keys attends to all keys alike, since its scores are all the same lowest number. It "
        "should get zeros.",
        {"hidden": "lowest filled"},
    ),
    Mistake(
        "big_number",
        "-1e9 is not a number that half precision has, and a query without keys attends to all keys alike.",
        {"hidden": "-1e9 filled"},
    ),
    Mistake(
        "no_such_number",
        "In float32 all is right. But -1e9 is not a number that half precision has. Which one is below all "
        "others, in every type?",
        {"hidden": "-1e9 filled, empty rows apart"},
    ),
    Mistake(
        "cleaned_weights",
        "Zeros going forward, NaN in the gradient of queries and keys: the weights were cleaned, but on the "
        "way back through the sum of scores and minus infinity the NaN is met again.",
        {"hidden": "-inf added, weights cleaned"},
    ),
    Mistake(
        "after_softmax",
        "Weights are set to zero after the softmax, so hidden keys keep their share and the rest sums to "
        "less than 1.",
        {"hidden": "after the softmax"},
    ),
    Mistake(
        "score_zero",
        "Hidden keys get the score 0. That is a score like any other, and the softmax gives it weight.",
        {"hidden": "score 0"},
    ),
    Mistake(
        "differs",
        "A key passes when exactly one of the masks allows it. It needs both.",
        {"combine": "differs"},
    ),
    Mistake("padding_lost", "The padding is no longer hidden.", {"combine": "triangle alone"}),
    Mistake("triangle_lost", "The future is no longer hidden.", {"combine": "padding alone"}),
    Mistake(
        "inverted",
        "The mask is read the wrong way round: here True means that the query may attend.",
        {"sense": "may not"},
    ),
    Mistake(
        "no_scale",
        "The scores have lost their scale. That part of the program was right.",
        {"scale": "none"},
    ),
)

DEPENDENCIES = (
    Mistake(
        "outputs_summed",
        "The numbers of an output are added up before the gradient is taken. Where they balance each other, "
        "as the parts of a softmax do, their sum depends on nothing.",
        {"outputs": "summed"},
    ),
    Mistake(
        "outputs_squared",
        "The squares of an output's numbers are added up before the gradient is taken. Where the output's "
        "length is fixed, as behind a norm, that sum depends on nothing.",
        {"outputs": "squared"},
    ),
    Mistake(
        "outputs_without_signs",
        "The sizes of an output's numbers are added up before the gradient is taken. Where all of them are "
        "positive, as behind a softmax, this is their sum, and it may depend on nothing.",
        {"outputs": "without signs"},
    ),
    Mistake(
        "gradient_summed",
        "The gradient's numbers at an input are added up. Positive and negative ones may cancel: what is "
        "asked is whether any of them differs from zero.",
        {"gathered": "summed"},
    ),
    Mistake(
        "first_sequence",
        "Only the first sequence of the batch is looked at. A link may exist in another one alone.",
        {"sequences": "first"},
    ),
    Mistake(
        "sequences_averaged",
        "The gradients of different sequences are averaged with their signs, and may cancel.",
        {"sequences": "averaged"},
    ),
    Mistake(
        "added_up",
        "Each row holds the links of the rows above it as well. Gradients add up in .grad from one "
        "backward pass to the next.",
        {"rows": "added up"},
    ),
    Mistake(
        "whole_output",
        "All rows are alike: the gradient of the whole output was taken. Ask each output for itself.",
        {"rows": "whole"},
    ),
    Mistake(
        "transposed",
        "The table lies on its side: one row for each output, one column for each input.",
        {"returned": "inputs by outputs"},
    ),
    Mistake(
        "threshold",
        "Weak links are missed. A gradient through a hidden key is exactly zero, so there is nothing to "
        "round away.",
        {"above": 1e-3},
    ),
    Mistake(
        "positive_only",
        "Links with a negative derivative are missed. A dependence may go either way.",
        {"gathered": "positive"},
    ),
    Mistake(
        "first_output_number",
        "Only the first number of each output is followed back. Another may depend on more.",
        {"outputs": "first number"},
    ),
    Mistake(
        "first_input_number",
        "Only the first number of each input is looked at. An output may depend on another one alone.",
        {"gathered": "first number"},
    ),
)

_LETS_PASS = "Your test lets a program pass in which {}"


def _bug(key: str, what: str, **switches: str) -> Mistake:
    return Mistake(key, _LETS_PASS.format(what), switches)


MASKING_BUGS = (
    _bug("next_too", "each position sees the next one.", triangle="next too"),
    _bug("future", "each position sees the whole sequence.", combine="padding alone"),
    _bug(
        "padding",
        "real positions see padding. Where must it stand, so that the triangle does not hide it anyway?",
        combine="triangle alone",
    ),
    _bug(
        "padding_or",
        "a key is visible where one of the two rules allows it. Which of the two did you test by itself?",
        combine="or",
    ),
    _bug(
        "next_to_real",
        "the padding's place just before a real token counts as real. Look at each place of the padding.",
        padding="next to real seen",
    ),
    _bug(
        "after_softmax",
        "weights are set to zero after the softmax. No hidden value gets through, but hidden scores have "
        "changed the size of what does.",
        hiding="after the softmax",
    ),
    _bug(
        "weakly",
        "a hidden score becomes a low number instead of minus infinity. What gets through is small. Is your "
        "tolerance smaller?",
        hiding="weakly",
    ),
    _bug(
        "first_padding",
        "every sequence gets the padding of the first. Give it sequences that differ, and look at each.",
        padding="as in the first",
    ),
    _bug(
        "sequences",
        "a sequence depends on the others in its batch. Look at the gradient of all sequences.",
        mixing="sequences",
    ),
    _bug(
        "before_only",
        "a position does not see itself. A mask that hides too much leaks nothing, but it is wrong too.",
        triangle="before only",
    ),
    _bug(
        "window",
        "a position sees no further back than three places. A mask that hides too much leaks nothing, but it "
        "is wrong too.",
        triangle="window of 3",
    ),
    _bug(
        "long",
        "the triangle ends after 6 rows. Shorter sequences are treated well.",
        triangle="first 6 rows only",
    ),
)
