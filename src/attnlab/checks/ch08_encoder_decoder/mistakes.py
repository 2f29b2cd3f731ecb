"""Known mistakes of lesson 8: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

DECODER_LAYER = (
    Mistake(
        "cross_targets_mask",
        "Cross-attention is given the target's mask. Its keys are source tokens: which of the two masks has "
        "a column for each of them?",
        {"cross_mask": "other"},
    ),
    Mistake(
        "memory_asks",
        "In cross-attention the memory asks and the target is searched. The layer makes one vector for each "
        "target token: who has to ask?",
        {"asks": "memory"},
    ),
    Mistake(
        "cross_unmasked",
        "memory_mask makes no difference, so the target attends to the source's padding too.",
        {"cross_mask": "none"},
    ),
    Mistake(
        "self_unmasked",
        "mask makes no difference, so a target token sees those after it.",
        {"self_mask": "none"},
    ),
    Mistake(
        "self_memorys_mask",
        "Self-attention is given memory_mask. Its keys are target tokens, and that mask speaks of source "
        "tokens.",
        {"self_mask": "other"},
    ),
    Mistake(
        "target_alone",
        "Cross-attention searches the target. Then nothing of the source ever reaches the decoder.",
        {"found_in": "target"},
    ),
    Mistake(
        "memory_normed",
        "The memory goes through a norm of this layer. The norm before a sublayer treats what asks; what is "
        "asked comes finished out of the encoder.",
        {"memory_norm": True},
    ),
    Mistake(
        "norm_after",
        "The norms stand after the sums. That is post-norm, the paper's order; here each norm stands before "
        "its sublayer.",
        {"norm": "after"},
    ),
    Mistake(
        "normed_stream",
        "The sublayer's output is added to what the norm gave. The residual connection goes around the norm "
        "as well: what came in is added, as it was.",
        {"added_to": "normed"},
    ),
    Mistake(
        "cross_not_added",
        "Cross-attention replaces the stream: after it, the target's tokens are known by what they found "
        "alone. A way around this sublayer is missing.",
        {"added_to": "stream, but not in cross"},
    ),
    Mistake(
        "cross_first",
        "Cross-attention comes first. Here the target's tokens look at each other before they look at the "
        "source.",
        {"order": "cross, self, feed"},
    ),
    Mistake(
        "one_attention",
        "Both attentions use the weights of self_attention. Looking among the target's tokens and looking "
        "into the source are learned apart.",
        {"attentions": "self alone"},
    ),
    Mistake(
        "one_norm",
        "All three sublayers use norm_self. Each has a norm of its own.",
        {"norms": "first"},
    ),
    Mistake(
        "raw_keys",
        "In self-attention the queries went through the norm, but keys and values did not. All three come "
        "from the same vectors.",
        {"self_keys": "raw"},
    ),
    Mistake(
        "self_weights",
        "The weights that you return are those of self-attention. Asked for are those over the source.",
        {"returned": "self"},
    ),
    Mistake(
        "mean_weights",
        "The weights that you return are a mean over the heads. Each head looks elsewhere: keep them apart.",
        {"returned": "mean"},
    ),
    Mistake(
        "dropout_never",
        "Nothing is ever dropped, in training either.",
        {"dropped": "never"},
    ),
    Mistake(
        "dropout_always",
        "Dropout goes on after eval(). A function of torch does not know in which mode your module is.",
        {"dropped": "always"},
    ),
    Mistake(
        "dropout_stream",
        "Dropout acts after the addition, so numbers of the stream itself are lost. It belongs to what a "
        "sublayer gives, while that is still by itself.",
        {"dropped": "stream"},
    ),
    Mistake(
        "dropout_everywhere",
        "Dropout acts inside the attentions and the feed-forward network as well. Here it acts on what they "
        "give, and nowhere else.",
        {"dropped": "everywhere"},
    ),
    Mistake(
        "dropout_inside",
        "Dropout acts inside the attentions and the feed-forward network, but not on what they give.",
        {"dropped": "inside"},
    ),
)

TRAINING_PAIR = (
    Mistake(
        "hidden_by_value",
        "What equals the filler is hidden. Where the data is filled up with eos, the true end is hidden with "
        "it, and a model trained so never learns to stop. What else tells you where a sentence ends?",
        {"hidden": "by value"},
    ),
    Mistake(
        "no_shift",
        "Nothing is shifted: each position reads the very token that it has to say.",
        {"read": "as it is"},
    ),
    Mistake(
        "shifted_twice",
        "Both sides are shifted: each position has to say the token after the next. The inputs begin one "
        "place earlier already, with bos.",
        {"said": "next"},
    ),
    Mistake(
        "without_bos",
        "The rows are cut as if they began with bos, which they do not. So the first word is read, but never "
        "has to be said.",
        {"read": "cut", "said": "cut"},
    ),
    Mistake(
        "end_lost",
        "One token too many is hidden, the last real one. That is eos, and without it a model never learns "
        "to stop.",
        {"hidden": "one short"},
    ),
    Mistake(
        "one_more",
        "One token too few is hidden: the first one behind the end has to be said, too.",
        {"hidden": "one more"},
    ),
    Mistake(
        "nothing_hidden",
        "Nothing behind the end is hidden from the loss, so most of a short row's loss is about filler.",
        {"hidden": "nothing"},
    ),
    Mistake(
        "both_begin",
        "Inputs and labels both begin with bos: they are the same, and the model has to say what it has just "
        "read.",
        {"said": "what is read"},
    ),
    Mistake(
        "rolled",
        "The inputs begin with what stood at the end of the row: rolling carries it to the front. What "
        "should be read before the first word?",
        {"read": "rolled"},
    ),
    Mistake(
        "reads_ahead",
        "The inputs are shifted to the other side: each position reads a token that comes after the one it "
        "has to say.",
        {"read": "ahead"},
    ),
    Mistake(
        "ignored_as_input",
        "The inputs hold -100. It is no token, so a table of embeddings has no row for it. Hide on one side "
        "alone.",
        {"read": "from labels"},
    ),
    Mistake(
        "hidden_where_filler_is_read",
        "Labels are hidden where the filler is read. That is one place late: the first filler is still asked "
        "for, at the place that reads the end.",
        {"hidden": "by value read"},
    ),
    Mistake(
        "first_hidden",
        "The first word is hidden from the loss. It is what a model has to say after bos.",
        {"hidden": "first too"},
    ),
    Mistake(
        "inverted",
        "The sentence is hidden and what stands behind it is asked for: the comparison is the wrong "
        "way round.",
        {"hidden": "inverted"},
    ),
    Mistake(
        "returned_swapped",
        "The two parts are returned in the other order: first what is read, then what is to be said.",
        {"returned": "labels, inputs"},
    ),
)
