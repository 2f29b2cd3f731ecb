"""Known mistakes of lesson 17's exercises, the likeliest first."""

from __future__ import annotations

from ..engine import Mistake, WrongValue

DETECT = (
    Mistake(
        "copy_itself",
        "Your induction score counts the weight on the earlier copy of the present token. What does an "
        "induction head want to hand over: that copy, or what came next?",
        {"place": "the copy"},
    ),
    Mistake(
        "before_the_copy",
        "Your induction score looks on the other side of the earlier copy. Which neighbour of it is the "
        "answer?",
        {"place": "before the copy"},
    ),
    Mistake(
        "all_rows",
        "Your induction score is divided by all positions. Which of them could score at all?",
        {"rows": "all"},
    ),
    Mistake(
        "first_row_counted",
        "Your previous-token score is divided by T. How many positions have one before them?",
        {"divided_by": "T"},
    ),
    Mistake(
        "own_position",
        "Your previous-token score reads the main diagonal: the weight that a position gives itself.",
        {"back": "none"},
    ),
    Mistake(
        "two_back",
        "Your previous-token score reads a diagonal that is one too far: two positions back.",
        {"back": "two places"},
    ),
    Mistake(
        "strongest_only",
        "You count how often the position before gets the most weight. The score asks how much it gets.",
        {"back": "strongest"},
    ),
    Mistake(
        "newest_only",
        "You count one earlier copy alone. A token may have stood before more than once, and an induction "
        "head may share its weight among these places.",
        {"several": "newest"},
    ),
    Mistake(
        "averaged_copies",
        "You average over the earlier copies. What should a head score that puts all its weight on two of "
        "them, half on each?",
        {"several": "averaged"},
    ),
    Mistake(
        "swapped",
        "Your two scores have changed places. Which one does the docstring name first?",
        {"order": "induction, previous"},
    ),
)

ABLATE = (
    Mistake(
        "zero",
        "You put zeros in place of a head. The layers behind have never seen such a vector; which one is "
        "usual for that head?",
        {"filler": "zero"},
    ),
    Mistake(
        "each_string",
        "You take the mean of each string by itself. It still tells strings apart: is all information gone?",
        {"filler": "mean of each string"},
    ),
    Mistake(
        "each_position",
        "You take the mean over the strings alone. It still tells positions apart: is all information gone?",
        {"filler": "mean of each position"},
    ),
    Mistake(
        "one_number",
        "You average over the entries of the vector as well, so that one number fills it.",
        {"filler": "one number"},
    ),
    Mistake(
        "all_heads",
        "You take the mean over all heads. Each head's vectors have a meaning of their own.",
        {"filler": "mean of all heads"},
    ),
    Mistake(
        "kept",
        "You replaced the heads that were to stay, and kept those that were to go.",
        {"which": "kept"},
    ),
    Mistake(
        "from_one", "You count heads from one. Which number has the first?", {"which": "counted from one"}
    ),
    Mistake(
        "view",
        "You reshaped where axes have to change places: entries of one head end up in another token.",
        {"merged": "reshaped"},
    ),
    Mistake(
        "transposed",
        "You multiplied by the transpose of the matrix. On which side do the tokens stand?",
        {"mixed": "transposed"},
    ),
)

PATCH = (
    Mistake(
        "crossed",
        "Every string gets patched at the positions of all strings. How does an index pair a row with its "
        "own position?",
        {"where": "crossed"},
    ),
    Mistake(
        "reversed",
        "You carry the run into the clean one. Which run is to be repaired, and which one repairs?",
        {"direction": "run into clean"},
    ),
    Mistake(
        "everywhere",
        "You carry the head over at all positions. Then you cannot tell where the information is.",
        {"where": "everywhere"},
    ),
    Mistake(
        "one_before",
        "You patch one position too early. Where does the docstring say to patch?",
        {"where": "one before"},
    ),
    Mistake(
        "from_there_on",
        "You patch the position and all that follow. One position was asked for.",
        {"where": "from there on"},
    ),
    Mistake(
        "all_heads",
        "You carry all heads over. Then you cannot tell which of them had the information.",
        {"carried": "all heads"},
    ),
)

COMPARE = (
    Mistake(
        "head_from_test",
        "You chose the head on the half that tests it. The best of many is best partly by luck.",
        {"head_from": "tested"},
    ),
    Mistake(
        "head_from_both",
        "You chose the head on both halves together, so that the test half had its say in the choice.",
        {"head_from": "both"},
    ),
    Mistake(
        "share_from_choice",
        "You report the share on the half that chose the head: the number that luck has raised.",
        {"share_from": "chosen"},
    ),
    Mistake(
        "share_from_both",
        "You report the head's share over both halves, and one of them chose it.",
        {"share_from": "both"},
    ),
    Mistake(
        "offset_from_test",
        "Your baseline chose its offset on the test half. It should have the chances that the head had.",
        {"offset_from": "tested"},
    ),
    Mistake(
        "offset_from_both",
        "Your baseline chose its offset on both halves. It should have the chances that the head had.",
        {"offset_from": "both"},
    ),
    Mistake(
        "chance",
        "Your baseline draws an offset at random. The rule to beat is blind to grammar, not to numbers: it "
        "takes the commonest.",
        {"offset_from": "chance"},
    ),
    Mistake(
        "baseline_from_choice",
        "Your baseline is measured on the half where its offset was chosen, the head on the other one.",
        {"baseline_from": "chosen"},
    ),
    Mistake(
        "baseline_from_both",
        "Your baseline is measured on both halves, the head on one.",
        {"baseline_from": "both"},
    ),
)

STRIPE = "induction head, how many places back on a string of period 6"
NO_PREVIOUS = "previous-token head removed, the induction head's weight on the stripe"
NO_INDUCTION = "induction head removed, the previous-token score"
NEW_SYMBOLS = "symbols never seen in training, built by hand: the answers"
ONE_OF_TWO = "one of two equal heads zeroed, the largest logit"
FIRST_COPY = "right answers in the first copy of a random string"

WRONG = (
    WrongValue(
        "whole_period",
        "A whole period back stands the copy of the present token. An induction head looks at what followed.",
        {STRIPE: 6},
    ),
    WrongValue(
        "past_the_copy",
        "That is on the far side: count from the copy, six places back, toward the present.",
        {STRIPE: 7},
    ),
    WrongValue(
        "heads_alone",
        "The induction head's own matrices stay. But what do its keys say when nothing was brought to them?",
        {NO_PREVIOUS: "stays"},
    ),
    WrongValue(
        "stripe_rises",
        "Nothing is added that could draw the weight to the stripe. What made it stand out before?",
        {NO_PREVIOUS: "rises"},
    ),
    WrongValue(
        "backwards",
        "A layer is not changed by what a later one does. In which order do they run?",
        {NO_INDUCTION: "falls"},
    ),
    WrongValue(
        "backwards_up",
        "A layer is not changed by what a later one does, for better or worse.",
        {NO_INDUCTION: "rises"},
    ),
    WrongValue(
        "by_heart",
        "The rule compares symbols and copies one. Does it name any of them?",
        {NEW_SYMBOLS: "wrong"},
    ),
    WrongValue(
        "not_needed",
        "Two equal heads add up. What is left of a sum of two equal terms without one?",
        {ONE_OF_TWO: "stays"},
    ),
    WrongValue(
        "all_gone",
        "Two equal heads add up, and one of them is still there.",
        {ONE_OF_TWO: "is gone"},
    ),
    WrongValue(
        "from_the_start",
        "In the first copy nothing stood before that could be copied, and the order is random.",
        {FIRST_COPY: "most"},
    ),
)
