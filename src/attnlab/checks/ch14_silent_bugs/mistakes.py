"""Known mistakes of lesson 14's exercises, the likeliest first."""

from __future__ import annotations

from ..engine import Between, Mistake, Near, WrongValue

COUNTS = "1. loss of the batch"
MEANS = "2. mean of the two means"
PADDED = "3. loss with padding counted"
PAIR = "4. weight of the fitting key with the root of d_model"
PLACES = "5. different places in one sequence, read along the batch"
AHEAD = "6. steps ahead, shifted here and by the data"
FINDER = "7. the property that finds a softmax over queries and not a missing causal mask"
FINDERS = ("rows sum to one", "causal", "alone as in the batch", "the same twice")

PREDICTION = (
    WrongValue(
        "means_as_loss",
        "That gives each micro-batch one vote, the short one too. Over how many tokens does the mean go?",
        {COUNTS: Near(2.0, absolute=0.005)},
    ),
    WrongValue(
        "loss_as_means",
        "That is the mean over tokens. Here each of the two means counts once.",
        {MEANS: Near(1.5, absolute=0.005)},
    ),
    WrongValue(
        "places_counted_in_mean_alone",
        "You divided by all places, and left out what padding adds to the sum. Here it is asked for as well.",
        {PADDED: Near(1.2, absolute=0.005)},
    ),
    WrongValue(
        "padding_left_out",
        "That leaves padding out. What does it add to the sum, and what to the number?",
        {PADDED: Near(1.5, absolute=0.005)},
    ),
    WrongValue(
        "right_root",
        "That is the weight with the right root. The slip divides by a root that is twice as large.",
        {PAIR: Near(0.982, absolute=0.002)},
    ),
    WrongValue(
        "not_divided",
        "That leaves the division out. The slip divides, by too much.",
        {PAIR: Near(1.0, absolute=0.002)},
    ),
    WrongValue(
        "places_of_sequence",
        "So it would be along the sequence. Along the batch, all tokens of a sequence get one row of the "
        "table.",
        {PLACES: Near(7)},
    ),
    WrongValue(
        "places_of_batch",
        "The batch gets three different places, one for each sequence. How many are in *one* of them?",
        {PLACES: Near(3)},
    ),
    WrongValue(
        "one_ahead",
        "The data is shifted by one already, and the program shifts once more.",
        {AHEAD: Near(1)},
    ),
    WrongValue(
        "zero_ahead",
        "Two shifts in the same direction do not cancel.",
        {AHEAD: Near(0)},
    ),
    WrongValue(
        "causal_finds_both",
        "A missing causal mask breaks that one, too.",
        {FINDER: "causal"},
    ),
)

LOSS = (
    Mistake(
        "mean_of_means",
        "Each piece has one vote here, however many tokens it holds. What does a token of a short piece "
        "count, and one of a long piece?",
        {"mean": "of means"},
    ),
    Mistake(
        "padding_in_number",
        "Padding is not in the sum, but it is in the number that you divide by.",
        {"padding": "in the number"},
    ),
    Mistake(
        "padding_counted",
        "Padding is asked for like a token. It is easy to learn, and makes the mean small.",
        {"padding": "counted"},
    ),
    Mistake(
        "pad_is_zero",
        "You leave out what is 0, whatever `pad` says.",
        {"mark": "zero"},
    ),
    Mistake(
        "by_rows",
        "You weigh the pieces by their rows. Rows differ in length: what is it that a mean goes over?",
        {"mean": "by rows"},
    ),
    Mistake(
        "sum_of_means",
        "The means are added up. With more pieces the loss grows, and the gradient with it.",
        {"mean": "sum of means"},
    ),
    Mistake(
        "not_divided",
        "This is the sum. It grows with the batch, and so do the steps of a plain optimiser.",
        {"mean": "sum"},
    ),
    Mistake(
        "last_piece",
        "Only the last piece is in the result. What became of the others?",
        {"used": "last"},
    ),
    Mistake(
        "softmax_twice",
        "Cross-entropy takes logits and does the softmax itself. Here it is done twice.",
        {"logits": "of probabilities"},
    ),
    Mistake(
        "empty_batch",
        "A batch of nothing but padding has no tokens, and you divide by their number.",
        {"empty": "nan"},
    ),
)

MOVES = (
    Mistake(
        "no_correction",
        "The two running means begin at 0 and are too small at first. What divides that out?",
        {"correction": "none"},
    ),
    Mistake(
        "correction_of_mean_alone",
        "Only the mean of the gradients is corrected for its start at 0; so must the mean of the squares be.",
        {"correction": "mean alone"},
    ),
    Mistake(
        "not_clipped",
        "The gradients reach the means as they are. Clipping comes first.",
        {"clipped": "never"},
    ),
    Mistake(
        "move_clipped",
        "You clip the move. What is to be bounded is what the optimiser remembers.",
        {"clipped": "the move"},
    ),
    Mistake(
        "lengthened",
        "Each gradient gets the length of the bound, the short ones too. Clipping never lengthens.",
        {"clipped": "to the bound"},
    ),
    Mistake(
        "gradient_warmed",
        "Warm-up multiplies the rate. You multiply the gradient, whose size Adam divides out again.",
        {"warmed": "gradient"},
    ),
    Mistake(
        "not_warmed",
        "The rate is the same at each step. Where is the warm-up?",
        {"warmed": "never"},
    ),
    Mistake(
        "from_zero",
        "The first step has the rate 0: steps are counted from 1.",
        {"start": "from zero"},
    ),
    Mistake(
        "uphill",
        "These moves go along the gradient. Training goes down.",
        {"sign": "up"},
    ),
    Mistake(
        "betas_swapped",
        "The two rates of forgetting are exchanged: squares are remembered for longer.",
        {"betas": "swapped"},
    ),
    Mistake(
        "no_root",
        "Divided by the mean of the squares itself, without its root, a long gradient gives a short step.",
        {"root": "none"},
    ),
    Mistake(
        "no_memory",
        "This knows the newest gradient alone. What do the two running means hold of the older ones?",
        {"memory": "none"},
    ),
)

STEPS = "1. small moves, 1000 times too long"
LONGER = "2. small moves, 10000 times too long"
STEPS_CLIPPED = "3. small moves, clipped"
FIRST = "4. first move, gradient of 0.001, in rates"

FINDINGS = (
    WrongValue(
        "all_after",
        "That counts every step after the spoilt one. The line comes back: when is it above a half again?",
        {STEPS: Near(740, absolute=5)},
    ),
    WrongValue(
        "one_step",
        "One gradient was spoilt, but more than one move is small. Look to the right of it.",
        {STEPS: Near(1, absolute=4)},
    ),
    WrongValue(
        "ten_times_as_many",
        "Ten times as long, but not ten times as many: the memory shrinks by the same share at each step.",
        {LONGER: Between(3000, 6000)},
    ),
    WrongValue(
        "as_many",
        "A longer gradient is remembered for longer. Change the size in the cell, and count again.",
        {LONGER: Near(434, absolute=12)},
    ),
    WrongValue(
        "dip_when_clipped",
        "With clipping at 1 the spoilt gradient is as long as any other. Is there a dip at all?",
        {STEPS_CLIPPED: Near(434, absolute=12)},
    ),
    WrongValue(
        "first_is_tenth",
        "A tenth of the gradient enters the mean, but the correction for the start divides by a tenth.",
        {FIRST: Near(0.1, absolute=0.03)},
    ),
    WrongValue(
        "first_is_gradient",
        "Plain descent would move by that. Adam divides by the root of the square: what is left of the size?",
        {FIRST: Near(0.001, absolute=0.0005)},
    ),
)

MUTANTS = (
    Mistake(
        "over_queries",
        "A softmax over the queries passes your test. What does each row sum to?",
        {"axis": "queries"},
    ),
    Mistake(
        "root_of_model", "A division by the root of the model's width passes your test.", {"divisor": "model"}
    ),
    Mistake("not_divided", "Scores that are not divided at all pass your test.", {"divisor": "none"}),
    Mistake(
        "no_transpose",
        "Heads that are cut without the transpose pass your test. Shuffle the tokens.",
        {"heads": "reshaped"},
    ),
    Mistake(
        "mask_inverted", "A mask that is read the other way round passes your test.", {"mask": "inverted"}
    ),
    Mistake("mask_ignored", "A program that ignores the mask passes your test.", {"mask": "ignored"}),
    Mistake(
        "masked_after",
        "Weights that are masked after the softmax pass. Do rows still sum to 1?",
        {"masked": "after"},
    ),
    Mistake(
        "one_too_many",
        "A mask that lets in one place of padding passes your test.",
        {"mask": "last token let in"},
    ),
    Mistake(
        "mask_of_first",
        "The first sequence's mask, used for the whole batch, passes your test.",
        {"mask": "first row for all"},
    ),
    Mistake(
        "neighbour",
        "A program that reads the neighbour in the batch passes your test.",
        {"batch": "neighbour"},
    ),
    Mistake("deaf", "A program that never reads what it is given to read passes your test.", {"reads": "x"}),
    Mistake(
        "last_head", "A program that hands out the first head twice passes your test.", {"last_head": "first"}
    ),
)

PROGRAM = (
    Mistake(
        "one_ahead",
        "A place sees the one after it, and so the token that it is asked for. Change a "
        "later token: does an earlier place notice?",
        {"ahead": 1},
    ),
    Mistake(
        "along_batch",
        "All tokens of a sequence get the same place. Is a sequence alone what it is in the batch?",
        {"places": "along the batch"},
    ),
    Mistake(
        "mean_of_means",
        "Each piece has one vote, however many tokens it holds. Cut the batch elsewhere: does the loss stay?",
        {"mean": "of means"},
    ),
    Mistake(
        "root_of_model",
        "Scores are divided by the root of the model's width. Over how many numbers does "
        "a dot product go in one head?",
        {"divisor": "model"},
    ),
    Mistake("not_divided", "Scores are not divided any more.", {"divisor": "none"}),
    Mistake(
        "over_queries",
        "The softmax runs over the queries. Who shares out the attention?",
        {"axis": "queries"},
    ),
    Mistake(
        "no_transpose",
        "The heads are cut along the wrong axis. Do positions still belong together?",
        {"heads": "reshaped"},
    ),
    Mistake(
        "blind_to_itself",
        "A place no longer sees its own token: the mask has lost its diagonal.",
        {"ahead": -1},
    ),
    Mistake("no_causal", "Every place sees all later ones. Which of them hold the answer?", {"ahead": 99}),
    Mistake(
        "no_places",
        "There are no places at all now, where they should have another axis.",
        {"places": "none"},
    ),
    Mistake("reads_the_answer", "The program reads the very token that it is asked for.", {"shift": "zero"}),
    Mistake(
        "says_what_it_reads", "The program is asked for the token that it has just read.", {"shift": "same"}
    ),
    Mistake("two_ahead", "The program is asked for the token after the next.", {"shift": "two"}),
    Mistake("padding_seen", "The padding of the source is attended to.", {"padding": "seen"}),
    Mistake("padding_inverted", "The source's mask is read the other way round.", {"padding": "inverted"}),
    Mistake("padding_counted", "Padding is asked for like a token.", {"counted": "all"}),
    Mistake(
        "padding_in_number",
        "Padding is not in the sum, but in the number that it is divided by.",
        {"counted": "all in the mean"},
    ),
    Mistake(
        "deaf",
        "The cross-attention reads the target. Change the source: does anything change?",
        {"crossed": "target"},
    ),
)
