"""Known mistakes of lesson 7: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake
from ..values import Between, Near, WrongValue

LAYER_NORM = (
    Mistake(
        "unbiased",
        "The variance is the unbiased one, divided by one less than the width. That estimates the spread of "
        "a whole population from a sample. Is one token's vector a sample here?",
        {"variance": "unbiased"},
    ),
    Mistake(
        "eps_outside",
        "The small constant is added to the standard deviation. Compare with the formula: what stands under "
        "the root?",
        {"eps_at": "outside the root"},
    ),
    Mistake(
        "over_positions",
        "The mean runs over the positions: tokens of one sequence are mixed. A layer norm treats each token "
        "by itself. Which axis holds one token's numbers?",
        {"over": "positions"},
    ),
    Mistake(
        "over_batch",
        "The mean runs over the batch, as a batch norm's does: a sequence's numbers then depend on its "
        "neighbours. Which axis holds one token's numbers?",
        {"over": "batch"},
    ),
    Mistake(
        "over_sequence",
        "There is one mean for a whole sequence, over positions and width together. How many means does a "
        "sequence of five tokens need?",
        {"over": "positions and width"},
    ),
    Mistake(
        "not_centred",
        "The numbers are divided, but the mean is not taken off them: the result has no mean of 0.",
        {"centred": False},
    ),
    Mistake(
        "variance_about_zero",
        "The variance is the mean of the squared numbers. It should be that of their distances from "
        "something.",
        {"variance": "about zero"},
    ),
    Mistake(
        "no_root",
        "You divide by the variance. It is in squared units: what is in the same units as the numbers?",
        {"root": "none"},
    ),
    Mistake(
        "eps_missing",
        "The small constant is left out, so a constant vector gives zero divided by zero.",
        {"eps_at": "nowhere"},
    ),
    Mistake(
        "eps_fixed",
        "The small constant is always the default. Whoever builds the norm may choose another: what was "
        "handed to the constructor?",
        {"eps_at": "inside, always the same"},
    ),
    Mistake(
        "far_from_zero",
        "The variance is the difference of two large numbers, the mean square and the squared mean. Far from "
        "zero nearly all its digits cancel: what could be taken off first?",
        {"variance": "mean of squares less squared mean"},
    ),
    Mistake(
        "no_bias",
        "The learnt bias makes no difference. The formula has two learnt vectors.",
        {"affine": "no bias"},
    ),
    Mistake(
        "no_weight",
        "The learnt weight makes no difference. The formula has two learnt vectors.",
        {"affine": "no weight"},
    ),
    Mistake(
        "bias_first",
        "The bias is added before the weight multiplies, so it is stretched as well. Which of the two comes "
        "last in the formula?",
        {"affine": "bias, then weight"},
    ),
    Mistake(
        "weight_from_one",
        "You multiply by one more than the weight. Then the weight would have to start at zero; here it "
        "starts at one.",
        {"affine": "weight from one"},
    ),
    Mistake(
        "detached",
        "The result is right, and the gradient is not: mean and variance are taken for constants on the way "
        "back. They depend on the token as well.",
        {"learns": "not through mean and variance"},
    ),
    Mistake(
        "starts_silent",
        "The weight starts at zero, so a new norm gives nothing at all. What should it do to a normed vector "
        "before anything is learnt?",
        {"start": "zeros"},
    ),
    Mistake(
        "starts_random",
        "The weight starts at random. What should it do to a normed vector before anything is learnt?",
        {"start": "random"},
    ),
)

OTHER_KIND_POST = Mistake(
    "pre_norm",
    "This is the other block: the norm stands before attention and network, and the sum is left as it is. "
    "In the paper's block, what goes through the norm?",
    {"norm_at": "before f"},
)
OTHER_KIND_PRE = Mistake(
    "post_norm",
    "This is the paper's block: the sum goes through the norm. In a pre-norm block the sum goes through "
    "nothing. What does the norm act on?",
    {"norm_at": "after the sum"},
)
NORMED_SUM = Mistake(
    "adds_to_the_normed",
    "The result is added to the normed vector, so the stream itself goes through every norm. Silence "
    "attention and network: does your block leave its input as it is?",
    {"norm_at": "before f, sum of the normed"},
)
NORM_ON_F = Mistake(
    "norm_on_f",
    "The norm acts on what attention and network give, before it is added. Look at the formula: which of "
    "the three stands inside the norm, the input, the sum or the result?",
    {"norm_at": "after f"},
)
NORM_TWICE = Mistake(
    "norm_before_and_after",
    "There is a norm before and one more after the sum. That is both blocks at once.",
    {"norm_at": "before f and after the sum"},
)

RESIDUAL = (
    Mistake(
        "no_residual",
        "Nothing is added: attention and network replace what they were given. Which path keeps a token's "
        "own vector?",
        {"residual": "none"},
    ),
    Mistake(
        "network_replaces",
        "The network's result replaces the stream; only attention's is added to it. Both parts write a "
        "change.",
        {"residual": "attention"},
    ),
    Mistake(
        "attention_replaces",
        "Attention's result replaces the stream; only the network's is added to it. Both parts write a "
        "change.",
        {"residual": "network"},
    ),
    Mistake(
        "adds_to_the_start",
        "The network's result is added to the block's input, so what attention wrote is lost from the sum. "
        "To what is the second result added?",
        {"added_to": "start"},
    ),
    Mistake(
        "network_reads_the_start",
        "The network reads the block's input, beside attention instead of after it. What has attention "
        "changed by then?",
        {"network_reads": "start"},
    ),
)

NORMS = (
    Mistake(
        "one_norm_twice",
        "The first norm is used twice, and the second not at all. Each part has one of its own.",
        {"norms": "first twice"},
    ),
    Mistake(
        "norms_swapped",
        "The two norms have changed places: the first belongs to attention, the second to the network. "
        "Weights that were made elsewhere would do the wrong thing here.",
        {"norms": "swapped"},
    ),
    Mistake(
        "no_second_norm",
        "Attention has its norm, and the network has none.",
        {"norms": "no second"},
    ),
)

ORDER = Mistake(
    "network_first",
    "The network comes before attention. It would think about tokens that have not yet met.",
    {"order": "network, attention"},
)

MASK = (
    Mistake(
        "mask_ignored",
        "The mask makes no difference. The block has to hand it on: to which of its parts?",
        {"masking": "ignored"},
    ),
    Mistake(
        "mask_inverted",
        "The mask is handed on the wrong way round: True means that a token may be attended to, here as in "
        "the course's attention.",
        {"masking": "inverted"},
    ),
)

DROPOUT = (
    Mistake(
        "dropout_never",
        "Nothing is dropped, in training either.",
        {"when": "never"},
    ),
    Mistake(
        "dropout_always",
        "Dropout goes on after eval(). A function of torch does not know in which mode your module is.",
        {"when": "always"},
    ),
    Mistake(
        "dropout_inverted",
        "Dropout acts in evaluation and rests in training: the other way round.",
        {"when": "evaluation"},
    ),
    Mistake(
        "dropout_on_sum",
        "The whole sum goes through dropout, and parts of the stream are lost with it. What should be "
        "dropped before it is added?",
        {"dropped": "sum"},
    ),
    Mistake(
        "dropout_on_input",
        "Dropout acts on what attention and network read. It should act on what they give.",
        {"dropped": "read"},
    ),
    Mistake(
        "dropout_inside",
        "The share of dropout is handed on to attention and to the network, which drop more inside. Here it "
        "acts on what they give, and nowhere else.",
        {"dropped": "inside"},
    ),
    Mistake(
        "dropout_inside_attention",
        "The share of dropout is handed on to attention, which drops weights of its own. Here dropout acts "
        "on what attention gives, and nowhere else.",
        {"dropped": "inside attention"},
    ),
    Mistake(
        "dropout_inside_network",
        "The share of dropout is handed on to the network, which drops more between its two matrices. Here "
        "dropout acts on what the network gives, and nowhere else.",
        {"dropped": "inside network"},
    ),
    Mistake(
        "dropout_only_inside",
        "Attention and network drop inside, and what they give is added whole. At which point of the block "
        "is dropout asked for?",
        {"dropped": "inside alone"},
    ),
    Mistake(
        "dropout_attention_only",
        "Attention's result goes through dropout, the network's does not.",
        {"dropped": "f of attention"},
    ),
    Mistake(
        "dropout_not_rescaled",
        "What is left after dropout is not made larger, so results are smaller in training than in "
        "evaluation.",
        {"dropped": "f, not rescaled"},
    ),
)

MADE = (
    Mistake(
        "one_object",
        "All places of the list hold one and the same layer: whatever is written into one is in all of them. "
        "How many layers' worth of parameters has the stack?",
        {"made": "one object"},
    ),
    Mistake(
        "copies",
        "The layers are copies, so all start with the same weights. Each should draw its own.",
        {"made": "copies"},
    ),
)

ENDS = Mistake(
    "no_last_norm",
    "The norm at the end is made and not used. Nothing else in a pre-norm stack bounds the sum.",
    {"ends": "no norm"},
)
MASK_FIRST = Mistake(
    "mask_for_first_layer",
    "Only the first layer is given the mask. The others let tokens attend to everything.",
    {"masked": "first layer"},
)

PROBE = (
    Mistake(
        "ones",
        "The last output is summed up plainly. The direction says how each of its numbers counts: where does "
        "it come in?",
        {"end": "ones"},
    ),
    Mistake(
        "each_layer_alone",
        "Each layer's gradient is that of the layer alone, as if it were the last one. A gradient that "
        "comes to a layer has passed through all the layers above it.",
        {"through": "each layer alone"},
    ),
    Mistake(
        "last_first",
        "The lengths come in the order in which gradients travel, last layer first. Asked for is the order "
        "of the layers.",
        {"order": "last layer first"},
    ),
    Mistake(
        "no_end",
        "The entry for the end is missing: the gradient at what the last layer gives.",
        {"kept": "no end"},
    ),
    Mistake(
        "no_start",
        "The entry for what the first layer reads is missing. Does the first layer's input ask for a "
        "gradient?",
        {"kept": "no start"},
    ),
    Mistake(
        "squared",
        "These are squared lengths: the sum of the squares, without its root.",
        {"length": "squared"},
    ),
    Mistake(
        "absolute_values",
        "You add up absolute values. The Euclidean length is the root of a sum of squares.",
        {"length": "absolute values"},
    ),
    Mistake(
        "root_mean_square",
        "The squares are averaged, not summed: that is the size of a typical number, not the length of the "
        "whole.",
        {"length": "root mean square"},
    ),
    Mistake(
        "largest",
        "You took the largest number of each gradient. All its numbers make its length.",
        {"length": "largest"},
    ),
    Mistake(
        "plain_sum",
        "You add up the gradient's numbers, where positive and negative ones cancel. A length has no sign.",
        {"length": "plain sum"},
    ),
    Mistake(
        "mean_of_tokens",
        "Each token's gradient is measured by itself and the lengths are averaged. One length of all numbers "
        "together is asked for.",
        {"length": "mean of tokens"},
    ),
    Mistake(
        "first_sequence",
        "Only the first sequence of the batch is measured.",
        {"length": "first sequence"},
    ),
    Mistake(
        "relative_to_end",
        "The lengths are divided by the one at the end. Asked for are the lengths themselves.",
        {"relative": "to the end"},
    ),
    Mistake(
        "relative_to_start",
        "The lengths are divided by the one at the first layer. Asked for are the lengths themselves.",
        {"relative": "to the start"},
    ),
    Mistake(
        "squares_of_output",
        "You follow the squares of the last output back. Follow its product with the direction.",
        {"end": "squares"},
    ),
    Mistake(
        "mean_of_output",
        "You follow a mean back, so every gradient is smaller by the number of entries. The sum is asked "
        "for.",
        {"end": "mean"},
    ),
    Mistake(
        "every_layer",
        "The direction is applied to the output of every layer, so each adds a gradient of its own. Only the "
        "last output is followed back.",
        {"end": "every layer"},
    ),
)

CHANGES = ("grows", "stays", "shrinks")

PREDICTION = (
    WrongValue(
        "norm_scales",
        "The mean and the root of the variance grow with the vector. What does a fraction do whose two parts "
        "grow alike?",
        {"1. layer norm of 10 x": "grows"},
    ),
    WrongValue(
        "norm_shrinks",
        "A layer norm does not press large numbers down. Multiply x by 10 in the formula and cancel.",
        {"1. layer norm of 10 x": "shrinks"},
    ),
    WrongValue(
        "gradient_stays",
        "The result is the same for x and 10 x. So how much does it take to change it by as much: the same "
        "step, or a longer one?",
        {"2. gradient through the norm at 10 x, times": 1},
    ),
    WrongValue(
        "gradient_grows",
        "Turn it round. A vector ten times as long takes a step ten times as long to change its direction "
        "as much.",
        {"2. gradient through the norm at 10 x, times": 10},
    ),
    WrongValue(
        "gradient_squared",
        "One division by the spread stands in the formula, not two.",
        {"2. gradient through the norm at 10 x, times": Near(0.01, relative=0.01)},
    ),
    WrongValue(
        "addition_grows",
        "Attention does not read the stream. It reads what the norm has made of it.",
        {"3. what a pre-norm block's attention adds to 10 x": "grows"},
    ),
    WrongValue(
        "addition_shrinks",
        "Beside a stream ten times as large, the addition matters less. But is the addition itself smaller?",
        {"3. what a pre-norm block's attention adds to 10 x": "shrinks"},
    ),
    WrongValue(
        "norm_mixes_tokens",
        "A layer norm averages over the numbers of one token. What would have to be averaged for other "
        "tokens to notice?",
        {"4. tokens that change in the norm": 6},
    ),
    WrongValue(
        "others_change",
        "The token that was changed is normed too. Does its result stay?",
        {"4. tokens that change in the norm": Near(0)},
    ),
    WrongValue(
        "silent_pre_changes",
        "Where do the norms of a pre-norm block stand: on the sum, or on the way into attention and network, "
        "which give zero here?",
        {"5. silent pre-norm blocks, output": "changes"},
    ),
    WrongValue(
        "silent_post_stays",
        "The sum goes through every norm, whether anything was added or not.",
        {"6. silent post-norm blocks, size of the output": 3},
    ),
    WrongValue(
        "silent_post_vanishes",
        "Norming what is already normed changes nothing more. The size does not fall from norm to norm.",
        {"6. silent post-norm blocks, size of the output": Between(0.0, 0.5)},
    ),
)

RATIOS = ("below a thousandth", "in between", "above a thousand")

FINDINGS = (
    WrongValue(
        "grows_with_depth",
        "That is the factor of the depth. The gradient grows more slowly: what adds up over the layers, "
        "sizes or variances?",
        {"pre-norm, power 0, depth 16 to 64, ratio times": Between(3.3, 4.7)},
    ),
    WrongValue(
        "depth_no_matter",
        "Look again at the line for power 0: it rises. Divide its value at 64 by the one at 16.",
        {"pre-norm, power 0, depth 16 to 64, ratio times": Between(0.9, 1.15)},
    ),
    WrongValue(
        "ratio_itself",
        "That is about the ratio at 64. Asked for is how many times it is the one at 16.",
        {"pre-norm, power 0, depth 16 to 64, ratio times": Between(4.75, 8.0)},
    ),
    WrongValue(
        "power_one",
        "That stops it, and more: the deeper the stack, the less its layers add. Is there a power closer to "
        "0 that does not grow?",
        {"pre-norm, power closest to 0 that stops the growth": Near(-1.0, absolute=0.15)},
    ),
    WrongValue(
        "power_quarter",
        "The line is flatter than without a factor, and it still rises.",
        {"pre-norm, power closest to 0 that stops the growth": Near(-0.25, absolute=0.1)},
    ),
    WrongValue(
        "power_sign",
        "With a positive power the weights grow with the depth, and the ratio runs away.",
        {"pre-norm, power closest to 0 that stops the growth": Between(0.2, 1.5)},
    ),
    WrongValue(
        "power_none",
        "With power 0 nothing is scaled, and the line rises.",
        {"pre-norm, power closest to 0 that stops the growth": Near(0.0, absolute=0.1)},
    ),
    WrongValue(
        "no_norm_vanishes",
        "Gradients vanish where layers shrink what they are given. Here each layer adds to the stream, and "
        "nothing takes its size back. Which way does the line go?",
        {"no norm, depth 16, ratio": "below a thousandth"},
    ),
    WrongValue(
        "no_norm_harmless",
        "Choose the stack without norms, and read the scale of the axis: each mark on it is a power of ten.",
        {"no norm, depth 16, ratio": "in between"},
    ),
    WrongValue(
        "post_vanishes",
        "That is what one often reads. Look at the figure: does the line fall by many powers of ten?",
        {"post-norm, depth 64, ratio": "below a thousandth"},
    ),
    WrongValue(
        "post_explodes",
        "The norm divides the gradient on its way back as it divides the signal on its way forward. Look at "
        "the scale of the axis.",
        {"post-norm, depth 64, ratio": "above a thousand"},
    ),
)
