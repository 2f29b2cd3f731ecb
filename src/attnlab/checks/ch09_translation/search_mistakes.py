"""Known mistakes of lesson 9 in searching: what each is called, its switches, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

import math

from ..tasks import Mistake
from ..values import Near, WrongValue

# --- predict: three searches ------------------------------------------------------------------------------

SEARCHES = (
    WrongValue(
        "greedy_looks_ahead",
        "Greedy takes the likeliest next token and never asks what it leads to. What does the first step "
        "offer it?",
        {"greedy": "A B E"},
    ),
    WrongValue(
        "certainty_for_probability",
        "After A all is certain, but A itself is not. The probability of a text is the product over all its "
        "steps.",
        {"beam of 2, by probability": "A B E"},
    ),
    WrongValue(
        "mean_for_sum",
        "By the mean a long text has more tokens to divide by, and two of its three are free here. "
        "Compute both means.",
        {"beam of 2, by the mean": "E"},
    ),
    WrongValue(
        "beam_waits",
        "A search that stops at the first text that ends has seen one step here. Which texts have ended by "
        "then?",
        {"the same, but it stops when one text has ended": "A B E"},
    ),
    WrongValue(
        "score_without_end",
        "You divided by the words alone. The end is a token that the model has to predict, and it counts.",
        {"score of A B E, by the mean": Near(math.log(0.4) / 2, absolute=0.006)},
    ),
    WrongValue(
        "score_with_begin",
        "You counted the begin mark as a token. It is given, not predicted.",
        {"score of A B E, by the mean": Near(math.log(0.4) / 4, absolute=0.006)},
    ),
    WrongValue(
        "score_not_divided",
        "That is the sum of the logarithms. By the mean it is divided by how many terms it has.",
        {"score of A B E, by the mean": Near(math.log(0.4), absolute=0.006)},
    ),
    WrongValue(
        "score_positive",
        "A probability is at most 1. Of which sign is its logarithm?",
        {"score of A B E, by the mean": Near(-math.log(0.4) / 3, absolute=0.006)},
    ),
    WrongValue(
        "score_probability",
        "That is a mean probability. Scores are logarithms: stay with them until the end.",
        {"score of A B E, by the mean": Near(0.4 ** (1 / 3), absolute=0.006)},
    ),
    WrongValue(
        "score_mean_of_probabilities",
        "You took the mean of the probabilities. The score is the mean of their logarithms.",
        {"score of A B E, by the mean": Near(0.8, absolute=0.006)},
    ),
    WrongValue(
        "threshold_of_sums",
        "Where P(A) is as large as P(E), the two are equally likely as texts. The mean divides one "
        "of the two logarithms by more than the other.",
        {"P(A) below which E wins by the mean": Near(0.5, absolute=0.01)},
    ),
    WrongValue(
        "threshold_without_end",
        "You compared with a mean over the words alone. How many tokens does the text A B have with its end?",
        {"P(A) below which E wins by the mean": Near(0.25, absolute=0.01)},
    ),
    WrongValue(
        "threshold_turned",
        "You took the power on the wrong side. Write both means down, set them equal, and solve for the "
        "logarithm of P(A).",
        {"P(A) below which E wins by the mean": Near(0.5 ** (1 / 3), absolute=0.01)},
    ),
)

# --- beam search ------------------------------------------------------------------------------------------

BEAM_SEARCH = (
    Mistake(
        "stops_at_first_end",
        "The text that ended first is returned. A better one may still be on its way: when is it certain "
        "that none is?",
        {"stop": "first end"},
    ),
    Mistake(
        "stops_at_enough",
        "The search stops as soon as as many texts have ended as there are beams. They may all be worse than "
        "one that is still being written.",
        {"stop": "enough ended"},
    ),
    Mistake(
        "stops_when_none_is_likelier",
        "The search stops when no beginning is likelier than a text that has ended. That is certain by "
        "probability. With a length penalty a longer text may still get the better score.",
        {"stop": "none likelier"},
    ),
    Mistake(
        "stops_when_none_is_better_yet",
        "The search stops when no beginning has a better score than a text that has ended. With a length "
        "penalty a score may still rise: how, if the next steps are certain?",
        {"stop": "none better so far"},
    ),
    Mistake(
        "beam_shrinks",
        "Each text that ends leaves the beam narrower for those that go on. At each step as many "
        "continuations are kept as the beam is wide, however many have ended before.",
        {"ended": "keeps its place"},
    ),
    Mistake(
        "ended_compete",
        "Texts that have ended compete with beginnings for the places of the beam, at each step anew. What "
        "has ended is set aside for good.",
        {"ended": "competes"},
    ),
    Mistake(
        "ended_make_room",
        "Where a continuation ends, another one moves up into its place, so that more are kept than the beam "
        "is wide. Those that end are among the ones that are kept.",
        {"ended": "makes room"},
    ),
    Mistake(
        "chosen_by_sum",
        "Of the ended texts the likeliest is returned, whatever the length penalty. Which number ranks them?",
        {"chosen": "by sum"},
    ),
    Mistake(
        "extends_the_ended",
        "A text that has ended is continued like a beginning. What follows the end is nothing that a model "
        "was ever trained on.",
        {"ended": "extended"},
    ),
    Mistake(
        "no_beam",
        "This finds what greedy search finds, whatever the beam. Are your beginnings perhaps copies of one? "
        "At the first step there is just one beginning.",
        {"width": "one"},
    ),
    Mistake(
        "each_its_own",
        "Each beginning keeps its own best continuation. All continuations of all beginnings compete "
        "together, so that one beginning may have several heirs and another none.",
        {"width": "each its own"},
    ),
    Mistake(
        "parent_lost",
        "The new token is put behind the wrong beginning. A place among all continuations says two things: "
        "which beginning, and which token.",
        {"parent": "same place"},
    ),
    Mistake(
        "last_step_alone",
        "Beginnings are compared by their last step alone. A probability of a text is a product over all its "
        "steps: what becomes of it in logarithms?",
        {"total": "last"},
    ),
    Mistake(
        "begin_counted",
        "The begin mark is counted as a token when the score is made. It is given, not predicted.",
        {"counted": "with the begin"},
    ),
    Mistake(
        "end_not_counted",
        "The end is not counted as a token when the score is made. The model had to predict it like any "
        "other.",
        {"counted": "without the end"},
    ),
    Mistake(
        "penalty_ignored",
        "The length makes no difference, whatever the length penalty.",
        {"penalty": "ignored"},
    ),
    Mistake(
        "penalty_multiplies",
        "The length penalty works the wrong way round. Scores are negative: what does a factor above 1 do to "
        "a long text?",
        {"penalty": "multiplies"},
    ),
    Mistake(
        "unfinished_competes",
        "A text that the length limit cut off competes with those that have ended. It has not paid for its "
        "end yet, and is taken only where nothing has ended.",
        {"unfinished": "competes"},
    ),
    Mistake(
        "log_probability_returned",
        "The second part that you return is the sum of the logarithms. The score is what the texts were "
        "ranked by.",
        {"told": "log-probability"},
    ),
    Mistake(
        "begin_returned",
        "The tokens that you return still have the begin mark in front.",
        {"returned": "with the begin"},
    ),
    Mistake(
        "end_dropped",
        "The tokens that you return lack the end. Without it nobody can tell a text that has ended from one "
        "that was cut off.",
        {"returned": "without the end"},
    ),
    Mistake(
        "one_too_many",
        "Texts may get one token longer than the limit. The begin mark is no part of the length, and the end "
        "is.",
        {"limit": 1},
    ),
    Mistake(
        "one_too_few",
        "The search ends one token before the limit. The begin mark is no part of the length.",
        {"limit": -1},
    ),
)

# --- a test of greedy decoding ----------------------------------------------------------------------------


def _bug(key: str, what: str, **switches: object) -> Mistake:
    return Mistake(key, f"Your test lets pass a program in which {what}", switches)


TEST_GREEDY = (
    _bug(
        "goes_on",
        "a row that has ended goes on. What stands behind the end while another row is still being written?",
        after="goes on",
    ),
    _bug("repeats_the_end", "the end is said again and again. It should be said once.", after="the end"),
    _bug(
        "stops_at_first",
        "all rows stop when one has ended. Let the rows have different lengths.",
        stop="one ended",
    ),
    _bug(
        "waits_for_all_at_once",
        "nobody stops before all rows end at the same step. How wide should the result be?",
        stop="all at once",
    ),
    _bug(
        "predicts_padding",
        "padding can be predicted, and the begin mark too. Give one of them the highest logit.",
        never="nothing",
    ),
    _bug("begin_kept", "the begin mark is returned.", returned="with the begin"),
    _bug("end_dropped", "the end is replaced by padding.", returned="without the end"),
    _bug(
        "first_table",
        "every row is read from the model of the first row. Let the rows say different things.",
        rows="first",
    ),
    _bug(
        "ended_by_force",
        "a row that the limit cuts off is given an end that it never said. Try a row that never ends.",
        cut_off="ended by force",
    ),
    _bug(
        "one_too_many",
        "a row may get one token longer than the limit. Try a row that never ends.",
        limit=1,
    ),
)
