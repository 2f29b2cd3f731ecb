"""Lesson 1: the known mistakes of each exercise, the likeliest first, and the hint that names each."""

from __future__ import annotations

from ..engine import Mistake, Near, WrongValue

RNN_STATES = [
    Mistake(
        "stuck",
        "Every step starts again from first_state: the state that a step makes is never handed to the next.",
        {"previous": "first state"},
    ),
    Mistake(
        "no_state",
        "The state of the step before is not used at all. Without W h the network has no memory.",
        {"previous": "none"},
    ),
    Mistake(
        "start_ignored",
        "The first step starts from zeros, not from the first_state that is handed in.",
        {"start": "zeros"},
    ),
    Mistake(
        "w_transposed",
        "W is used the wrong way round. A row of W makes one new unit, so for states that lie in rows "
        "the product is h @ W.T; W is square, so nothing complains.",
        {"transpose_w": True},
    ),
    Mistake(
        "no_tanh",
        "The sum is never put through tanh, so the states can grow.",
        {"activation": "identity"},
    ),
    Mistake(
        "sigmoid",
        "You squash with the sigmoid. That is what a gate does; a state goes through tanh and may be "
        "negative.",
        {"activation": "sigmoid"},
    ),
    Mistake("relu", "You used relu. The state of this network goes through tanh.", {"activation": "relu"}),
    Mistake(
        "bias_outside",
        "The bias is added after the tanh. It belongs to the sum inside.",
        {"inside": "without bias"},
    ),
    Mistake(
        "state_outside",
        "Only the input goes through tanh; W h is added afterwards. Both belong to the sum inside.",
        {"inside": "input only"},
    ),
    Mistake(
        "each_alone",
        "The state and the input each go through a tanh of their own. First add, then one tanh.",
        {"inside": "each alone"},
    ),
    Mistake(
        "residual",
        "You add the new state to the old one. Here a step replaces the state.",
        {"inside": "residual"},
    ),
    Mistake("no_bias", "The bias b is left out.", {"bias_times": 0.0}),
    Mistake(
        "bias_twice",
        "The bias is counted twice. PyTorch's layers keep two bias vectors; here there is one.",
        {"bias_times": 2.0},
    ),
    Mistake("backward", "The inputs are read from the last to the first.", {"order": "backward"}),
    Mistake(
        "shifted",
        "Position t holds the state before input t was read. The first entry should already have read "
        "input 0.",
        {"returned": "before"},
    ),
]

DECAY_BOUND = [
    Mistake(
        "eigenvalue",
        "You took the largest eigenvalue. It tells the rate in the very long run, but a matrix can "
        "stretch a vector by more than that first; a bound needs the largest singular value.",
        {"quantity": "largest eigenvalue"},
    ),
    Mistake(
        "squared",
        "Your factor is the square of the right one: the eigenvalues of W^T W are squared singular values.",
        {"quantity": "squared singular value"},
    ),
    Mistake(
        "smallest",
        "You took the smallest singular value. It bounds from below; for the most that can be left, "
        "take the largest.",
        {"quantity": "smallest singular value"},
    ),
    Mistake(
        "sum",
        "You added the singular values up. A vector cannot be stretched along all of them at once.",
        {"quantity": "sum of singular values"},
    ),
    Mistake(
        "mean",
        "You averaged the singular values. An average is no bound: some direction is stretched by more.",
        {"quantity": "mean singular value"},
    ),
    Mistake(
        "frobenius",
        "That is the Frobenius norm, the default of torch.linalg.norm. It bounds too, but far more "
        "loosely: ask for the norm of order 2.",
        {"quantity": "frobenius"},
    ),
    Mistake(
        "largest_entry",
        "You took the largest entry of W. One entry says nothing about a vector that meets them all.",
        {"quantity": "largest entry"},
    ),
    Mistake(
        "largest_row",
        "You took the largest row sum: the matrix norm for the largest entry of a vector, not for its "
        "length.",
        {"quantity": "largest row"},
    ),
    Mistake(
        "determinant",
        "You took the determinant. It tells how volumes change; a length can grow while the volume shrinks.",
        {"quantity": "determinant"},
    ),
    Mistake(
        "one_step",
        "The distance is not used: this is the bound for a single step.",
        {"power": "none"},
    ),
    Mistake(
        "times",
        "You multiplied by the distance. Each step multiplies again, so the distance is a power.",
        {"power": "times"},
    ),
    Mistake(
        "one_more",
        "There is one factor too many: from h_(T-k) to h_T are k steps.",
        {"power": "one more"},
    ),
    Mistake(
        "one_less", "There is one factor too few: distance 0 means no step at all.", {"power": "one less"}
    ),
]

REMAINING_GRADIENT = [
    Mistake(
        "first_output",
        "You followed the first output back, and it depends on the first input alone. Take the last one.",
        {"output": "first"},
    ),
    Mistake(
        "all_outputs",
        "You followed the sum of all outputs back. Every input is then close to some output, and "
        "nothing seems to fade.",
        {"output": "all"},
    ),
    Mistake(
        "batch_axis",
        "The last output of the last example was taken: outputs is (B, T, H), and positions are its "
        "second axis.",
        {"output": "last example"},
    ),
    Mistake(
        "no_direction",
        "The direction is not used: you followed the sum of all units back.",
        {"use_direction": False},
    ),
    Mistake(
        "not_flipped",
        "The curve runs from the farthest input to the nearest. Entry 0 is distance 0, the last input.",
        {"flipped": False},
    ),
    Mistake(
        "not_divided",
        "The curve is not divided by its value at distance 0, so layers of different sizes cannot be "
        "compared.",
        {"divide_by": "nothing"},
    ),
    Mistake(
        "divided_by_farthest",
        "You divided by the farthest input's norm. Divide by that of the last input, which has "
        "distance 0: turn the curve round first, or take the entry at the other end.",
        {"divide_by": "farthest"},
    ),
    Mistake(
        "divided_by_total",
        "You divided by the sum of the curve. That gives shares; here distance 0 is to be 1.",
        {"divide_by": "total"},
    ),
    Mistake(
        "plain_sum",
        "You added the gradient's entries up. Positive and negative ones cancel: take the norm.",
        {"norm": "plain sum"},
    ),
    Mistake(
        "absolute_values",
        "You added absolute values. The norm asked for is the Euclidean one: the root of the sum of squares.",
        {"norm": "absolute values"},
    ),
    Mistake("no_root", "You added squares and took no root.", {"norm": "squares"}),
    Mistake(
        "norm_of_mean",
        "You averaged the gradients over the batch and then took the norm, so that examples cancel. "
        "First the norm, then the average.",
        {"norm": "norm of mean"},
    ),
    Mistake(
        "largest_of_batch",
        "You kept the largest norm of the batch at each position. Average over the batch.",
        {"norm": "largest of batch"},
    ),
    Mistake(
        "first_example",
        "Only the first example of the batch was measured. Average over all of them.",
        {"norm": "first example"},
    ),
    Mistake(
        "rows_first",
        "You divided each example by its own value at distance 0 and averaged then: an example with a "
        "small one outweighs all others. First average, then divide once.",
        {"norm": "rows first"},
    ),
]

FORGET_BIAS = [
    Mistake(
        "input_gate",
        "You set the input gate's bias. PyTorch stacks the gates as input, forget, cell, output.",
        {"gate": "input"},
    ),
    Mistake(
        "cell_gate",
        "You set the bias of the cell's new content. PyTorch stacks the gates as input, forget, cell, "
        "output.",
        {"gate": "cell"},
    ),
    Mistake(
        "output_gate",
        "You set the output gate's bias. PyTorch stacks the gates as input, forget, cell, output.",
        {"gate": "output"},
    ),
    Mistake(
        "all_gates",
        "You set the biases of all four gates, not of the forget gate alone.",
        {"gate": "all"},
    ),
    Mistake(
        "doubled",
        "Both bias vectors hold the value. PyTorch adds them, so the gate gets twice as much.",
        {"written": "both"},
    ),
    Mistake(
        "second_kept",
        "bias_hh still holds what it held before, and PyTorch adds it to the value in bias_ih.",
        {"written": "first only"},
    ),
    Mistake(
        "first_kept",
        "bias_ih still holds what it held before, and PyTorch adds it to the value in bias_hh.",
        {"written": "second only"},
    ),
    Mistake("added", "You added the value to the old bias. Set it.", {"written": "added"}),
    Mistake(
        "gate_value",
        "You stored sigmoid(value). The gate applies the sigmoid itself: store the value.",
        {"written": "gate value"},
    ),
    Mistake(
        "minus",
        "The sign is turned round. A large positive bias keeps the forget gate open, which keeps the memory.",
        {"written": "minus"},
    ),
    Mistake(
        "first_layer",
        "Only the first layer was changed. An LSTM can have several: l0, l1, ...",
        {"where": "first layer"},
    ),
    Mistake("last_layer", "Only the last layer was changed.", {"where": "last layer"}),
    Mistake(
        "forward_only",
        "The backward direction was left as it was: its names end in _reverse.",
        {"where": "forward only"},
    ),
    Mistake(
        "unchanged",
        "The LSTM that was handed in has not changed. Did you change a copy of it, or a copy of its biases?",
        {"how": "a copy"},
    ),
    Mistake(
        "new_parameters",
        "You put new parameters into the LSTM. An optimizer that was made before still holds the old "
        "ones: write into those that are there.",
        {"how": "new parameters"},
    ),
    Mistake(
        "frozen",
        "The biases no longer take a gradient, so they cannot be trained. Set them under "
        "torch.no_grad() and leave requires_grad alone.",
        {"how": "frozen"},
    ),
    Mistake(
        "others_zeroed",
        "The other gates' biases were set to zero. Leave them as they are.",
        {"also": "other gates to zero"},
    ),
]


def horizons(first: float, second: float, third: float) -> dict[str, Near]:
    """What a reader predicts for the forget biases 0, 1 and 2, in steps."""
    values = {"bias 0": first, "bias 1": second, "bias 2": third}
    return {name: Near(value, absolute=0.01) for name, value in values.items()}


HORIZON = [
    WrongValue(
        "one_short",
        "These are the last distances with more than a millionth left. Asked is the first with less.",
        horizons(19, 44, 108),
    ),
    WrongValue(
        "not_rounded",
        "A distance is a whole number of steps: round up to the first that is below.",
        {
            "bias 0": Near(19.93, absolute=0.05),
            "bias 1": Near(44.1, absolute=0.05),
            "bias 2": Near(108.85, absolute=0.06),
        },
    ),
    WrongValue(
        "mixed_logarithms",
        "Two kinds of logarithm got mixed: divide log10 by log10, or natural by natural.",
        horizons(9, 20, 48),
    ),
    WrongValue(
        "doubled",
        "You counted the bias twice. set_forget_bias makes the sum of PyTorch's two biases the value.",
        horizons(20, 109, 762),
    ),
    WrongValue(
        "same_gate",
        "You kept the gate at one half for every bias. The gate is sigmoid(bias).",
        horizons(20, 20, 20),
    ),
    WrongValue(
        "closing",
        "The sign is turned round: a larger bias opens the gate further, so the memory lasts longer.",
        horizons(20, 11, 7),
    ),
    WrongValue(
        "thousandth",
        "This is where a thousandth is left. Asked is a millionth.",
        horizons(10, 23, 55),
    ),
    WrongValue(
        "proportional",
        "The distance is not proportional to the bias: gates multiply, and what they multiply is "
        "sigmoid(bias).",
        horizons(20, 40, 60),
    ),
]

CATCHES_CUT = [
    Mistake(
        "every_step",
        "Your test lets a program pass that cuts the gradient at every step. Its outputs are all "
        "right: only a gradient can tell.",
        {"cut": "every step"},
    ),
    Mistake(
        "every_16",
        "Your test lets a program pass that cuts the gradient every 16 steps. Read a longer sequence.",
        {"cut": "every 16"},
    ),
    Mistake(
        "window",
        "Your test lets a program pass whose gradient reaches back 10 steps and no further.",
        {"cut": "window"},
    ),
    Mistake(
        "thrown_away",
        "Your test lets a program pass that throws its state away every 16 steps.",
        {"cut": "thrown away"},
    ),
    Mistake(
        "first_input",
        "Your test lets a program pass in which the very first input gets no gradient. Look at every "
        "position.",
        {"cut": "first input"},
    ),
    Mistake(
        "one_position",
        "Your test lets a program pass in which one position in the middle gets no gradient. Look at "
        "every position.",
        {"cut": "one position"},
    ),
    Mistake(
        "second_example",
        "Your test lets a program pass that cuts the gradient of all examples but the first. Give it "
        "more than one, and look at each.",
        {"cut": "other examples"},
    ),
    Mistake(
        "one_feature",
        "Your test lets a program pass in which one number of every input gets no gradient. Look at "
        "each number, not at their norm.",
        {"cut": "one feature"},
    ),
]

ANSWER_LOSS = [
    Mistake(
        "detached",
        "The values are right, but the gradient ends at the border of a chunk: nothing before it can "
        "be learned.",
        {"carried": "detached"},
    ),
    Mistake(
        "state_lost",
        "Every chunk starts from an empty state, so the answer knows the last chunk alone.",
        {"carried": "nothing"},
    ),
    Mistake(
        "reads_first",
        "The answer is read after the first token, before there was anything to remember.",
        {"read_at": "first"},
    ),
    Mistake(
        "reads_before_last",
        "The answer is read one token too early: the cue is the last token.",
        {"read_at": "before last"},
    ),
    Mistake(
        "reads_mean",
        "The answer is read from the mean of all states. That hides the question of how long a state lasts.",
        {"read_at": "mean"},
    ),
    Mistake(
        "batch_axis",
        "Every row is answered from the last row of the batch: positions are the second axis.",
        {"read_at": "last example"},
    ),
    Mistake(
        "softmax_twice",
        "cross_entropy applies a softmax of its own. Probabilities lie within 0 and 1, so a second "
        "softmax leaves them nearly equal and the gradient small.",
        {"scores": "softmax twice"},
    ),
    Mistake(
        "no_logarithm",
        "nll_loss wants logarithms of probabilities, not probabilities.",
        {"scores": "nll of softmax"},
    ),
    Mistake(
        "softmax_batch",
        "The softmax runs over the batch. Each row's classes are to share one.",
        {"scores": "softmax over batch"},
    ),
    Mistake("summed", "The loss is summed over the batch. Its mean was asked for.", {"scores": "sum"}),
    Mistake(
        "negated",
        "The sign of the loss is turned round: training would make it worse.",
        {"scores": "negated"},
    ),
]
