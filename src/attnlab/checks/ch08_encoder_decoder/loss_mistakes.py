"""Known mistakes of lesson 8 in losses: the program to repair, and the mutants that a test has to refuse."""

from __future__ import annotations

from ..tasks import Mistake

TRAINING_LOSS = (
    Mistake(
        "targets_mask",
        "Cross-attention is given a mask of the target's padding. It fits, since both sides have the same "
        "width. Whose tokens are the keys there?",
        {"cross_mask": "target"},
    ),
    Mistake(
        "shifted_twice",
        "The target is shifted twice: each position has to say the token after the next. Where in the "
        "program does position t first get its label?",
        {"shift": "twice"},
    ),
    Mistake(
        "diluted",
        "Padding adds nothing to the sum, but the sum is still divided by all positions, padding among them. "
        "The more of it a batch has, the smaller the loss looks.",
        {"mean": "diluted"},
    ),
    Mistake(
        "cross_unmasked",
        "Cross-attention is given no mask. That the encoder has hidden the padding does not hide it here: "
        "its vectors are part of the memory.",
        {"cross_mask": "none"},
    ),
    Mistake(
        "encoder_unmasked",
        "The encoder is given no mask, so real source tokens attend to padding.",
        {"encoder_mask": "none"},
    ),
    Mistake(
        "no_shift",
        "Nothing is shifted any more: each position has to say what it has just read.",
        {"shift": "never"},
    ),
    Mistake(
        "last_column_lost",
        "The labels are the right ones, but there is one column less of them than of inputs: the end of a "
        "row without padding is never asked for.",
        {"shift": "late"},
    ),
    Mistake(
        "reads_the_answer",
        "The decoder is given the labels to read: the answer stands in the input.",
        {"shift": "reads the answer"},
    ),
    Mistake(
        "not_causal",
        "The decoder's own mask hides padding alone, so each position sees the token it has to say.",
        {"decoder_mask": "padding"},
    ),
    Mistake(
        "padding_counted",
        "Padding is counted among the targets: a model is rewarded for saying it.",
        {"mean": "all"},
    ),
    Mistake(
        "summed",
        "The losses are added up and not divided, so a larger batch has a larger loss and larger steps.",
        {"mean": "sum"},
    ),
    Mistake(
        "mean_of_sentences",
        "The mean is taken for each sentence first, so a word of a short sentence counts for more than one "
        "of a long sentence. Asked for is one mean over all real tokens.",
        {"mean": "sentences"},
    ),
    Mistake(
        "softmax_twice",
        "Probabilities go into the cross-entropy, which takes logits and applies a softmax of its own.",
        {"squash": "twice"},
    ),
)

_PASSES = "Your test lets pass a program {}"


def _bug(key: str, what: str, **switches: object) -> Mistake:
    return Mistake(key, _PASSES.format(what), switches)


TOKEN_LOSS = (
    _bug(
        "no_shift",
        "without a shift: it asks for the token that was just read. For which logits would its loss be zero?",
        shift=0,
    ),
    _bug(
        "shifted_twice",
        "that shifts by two: it asks for the token after the next. For which logits would its loss be zero?",
        shift=2,
    ),
    _bug(
        "padding_counted",
        "that counts padding among the targets. Does your batch hold a row with padding?",
        mean="all",
    ),
    _bug(
        "diluted",
        "in which padding adds nothing to the sum, yet is counted in what the sum is divided by. A loss of "
        "zero stays zero, whatever it is divided by.",
        mean="diluted",
    ),
    _bug(
        "end_lost",
        "that leaves out the last real token of each row. Do your logits say something wrong there?",
        counted="without the end",
    ),
    _bug(
        "first_lost",
        "that leaves out the first word of each row. Do your logits say something wrong there?",
        counted="without the first",
    ),
    _bug(
        "summed",
        "that adds losses up and does not divide. A loss of zero is no mean and no sum: take "
        "one that is not.",
        mean="sum",
    ),
    _bug(
        "mean_of_sentences",
        "that takes the mean of the sentences' means. Where the sentences of a batch are of different "
        "length, that is another number.",
        mean="sentences",
    ),
    _bug(
        "first_sentence",
        "that looks at the first sentence of the batch alone.",
        counted="first sentence",
    ),
    _bug(
        "zero_is_padding",
        "that takes 0 for padding, whatever it is told. Which numbers do your tokens have?",
        padding="zero",
    ),
)
