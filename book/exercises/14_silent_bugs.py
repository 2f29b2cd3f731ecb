# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 14: Silent bugs
#
# Six exercises on [lesson 14](../notebooks/14_silent_bugs.ipynb). You predict what bugs do to numbers, write the loss of micro-batches and
# the moves of an optimiser, explore what one spoilt batch leaves behind, write a test that has to find twelve bugs, and repair a program
# with three at once.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 6, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. The hints are folded, and each says more than the one before. You may leave
# an exercise out: nothing after it breaks.
#
# **How long:** about two and a half hours for all six. Each one says its difficulty, from 1 to 3.

# %% [markdown] tags=["solution-only"]
# # Solutions 14: Silent bugs
#
# The [exercises of lesson 14](../exercises/14_silent_bugs.ipynb) with an answer to each. It is one answer of many: a check
# accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you
# read its solution; what you found yourself stays with you.

# %%
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab import plots
from attnlab.checks import check, progress

torch.set_num_threads(1)  # tensors this small are not faster on two

# %% [markdown]
# ## 1. Predict, then test
#
# *Predict and then test. Difficulty 1, about 15 minutes.*
#
# **Why it is worth doing.** A silent bug shows as a number that is a little off. Whoever can say by how much it should be off
# recognises it. Fill in all seven before you run anything.
#
# A batch comes in two micro-batches. The first holds 3 real tokens with a mean loss of [[=3.0]], the second 9 with a mean loss of [[=1.0]].
# There are also 3 places of padding, at each of which the loss would be [[=0.25]].
#
# 1. The loss of the batch, a mean over real tokens.
# 2. The mean of the two means.
# 3. The loss if padding is asked for like a token.
#
# A model is $d_{model} = 64$ wide and has 4 heads. A query of 16 ones meets two keys: 16 ones, and 16 zeros.
#
# 4. Which weight does the fitting key get, if scores are divided by $\sqrt{d_{model}}$ by mistake?
#
# And three more:
#
# 5. A batch has 3 sequences of 7 tokens. The table of places is read along the batch: token $t$ of sequence $b$ gets row $b$.
#    How many different places are there in *one* sequence?
# 6. The data comes as pairs of inputs and labels, and its labels are one step ahead of its inputs already. The program does not
#    know this: it lets the model read the inputs, and shifts the labels by one step more. How many steps ahead of what the model
#    reads is what it is asked for?
# 7. A property finds a softmax over the queries, but not a missing causal mask. Which: `rows sum to one`, `causal`,
#    `alone as in the batch` or `the same twice`? (Write its name as a string.)

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "1. loss of the batch": None,
# STUB     "2. mean of the two means": None,
# STUB     "3. loss with padding counted": None,
# STUB     "4. weight of the fitting key with the root of d_model": None,
# STUB     "5. different places in one sequence, read along the batch": None,
# STUB     "6. steps ahead, shifted here and by the data": None,
# STUB     "7. the property that finds a softmax over queries and not a missing causal mask": None,
# STUB }
prediction = {
    "1. loss of the batch": (3 * 3.0 + 9 * 1.0) / 12,
    "2. mean of the two means": (3.0 + 1.0) / 2,
    "3. loss with padding counted": (3 * 3.0 + 9 * 1.0 + 3 * 0.25) / 15,
    "4. weight of the fitting key with the root of d_model": 1 / (1 + math.exp(-16 / 8)),
    "5. different places in one sequence, read along the batch": 1,
    "6. steps ahead, shifted here and by the data": 2,
    "7. the property that finds a softmax over queries and not a missing causal mask":
        "rows sum to one",
}
# END SOLUTION

# %% tags=["check"]
check("silent_bugs.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each mean, write down the sum and the number that it is divided by. For the weight, write down the two scores.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Padding that is asked for adds to the sum *and* to the number. The two scores are a dot product of 16 ones, and zero, each divided
# by the root of 64; only their difference matters.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The weight is $1 / (1 + e^{-g})$, where $g$ is the gap between the two scores. For the last question, ask of each property what a
# program without a mask does to it: its rows still come out of a softmax along the keys.
#
# </details>
#
# Now test the first three and the fourth with tensors:

# %%
losses = torch.tensor([3.0] * 3 + [1.0] * 9 + [0.25] * 3)
print("loss of the batch", losses[:12].mean().item(), " with padding", losses.mean().item())
scores = torch.stack([torch.ones(16), torch.zeros(16)]) @ torch.ones(16) / math.sqrt(64)
print("weight of the fitting key", round(scores.softmax(dim=0)[0].item(), 4))

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **The mean of means, "since a mean is a mean".** A token of the short piece then counts more than one of the long piece.
# - **A lower loss is a better program.** The third number is below the first, and nothing has improved: easy places were added.
# - **7 or 3 different places.** There are three in the batch, one for each sequence; within a sequence all tokens share it, so the
#   model cannot tell them apart.
# - **`"causal"` for the last.** It finds both. A test that finds more is no worse, but it does not say which bug it is.

# %% [markdown]
# ## 2. The loss of micro-batches
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A batch that does not fit into memory is computed in pieces, and their
# [gradients](../book/pages/glossary.md#gradient) are added up. It is easy to take a mean of means here, and no curve shows it.
#
# Write the [loss](../book/pages/glossary.md#loss) of a batch that comes in pieces: the mean
# [cross-entropy](../book/pages/glossary.md#cross-entropy) over *all* real tokens, wherever the batch was cut. A batch of nothing but padding costs 0.

# %%
def loss_of_pieces(pieces: list[tuple[Tensor, Tensor]], pad: int) -> Tensor:
    """Mean cross-entropy over the real tokens of all pieces, in nats.

    pieces: logits (B, T, V) and labels (B, T) of each; B and T may differ from piece to piece.
    pad: the label of padding; it need not be a class, such as -100.
    Returns a scalar tensor, 0 where there is no real token.
    """
    # BEGIN SOLUTION
    total, number = torch.zeros(()), 0
    for logits, labels in pieces:
        total = total + F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=pad, reduction="sum")
        number += int((labels != pad).sum())
    return total / max(number, 1)
    # END SOLUTION


# %% tags=["check"]
check("silent_bugs.loss_of_pieces", loss_of_pieces)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A mean is a sum divided by a number. Which of the two may be taken piece by piece, and when is it time to divide?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two things decide what a place counts: whether it is in the sum, and whether it is in the number. Test with a piece in which you know
# both. And what is the number where everything is padding?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `F.cross_entropy` has an argument that leaves a label out, and one that gives the sum in place of the mean. Add up the sums and the
# numbers of real tokens, and divide once, after the loop, by at least one.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`sum(losses) / len(losses)`** is the mean of means: right only where all pieces have the same number of real tokens.
# - **Weigh by rows.** Rows differ in length. Sorted batches make that worse: short rows are then all in one piece.
# - **`ignore_index=0`.** That is `pad` in this course. Elsewhere it is -100, and 0 is a word.
# - **Divide by `labels.numel()`.** Padding is out of the sum and still in the number, so the loss falls with the share of padding.

# %% [markdown]
# ## 3. What Adam does with a gradient
#
# *Implement. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** Clipping and [warm-up](../book/pages/glossary.md#warm-up) only make sense with the optimiser in view. It is six
# lines for one parameter, and they explain both.
#
# [Adam](../book/pages/glossary.md#adam) keeps two running means, both 0 before the first step. At step $n = 1, 2, \dots$ with the gradient $g_n$,
#
# $$m_n = 0.9\, m_{n-1} + 0.1\, g_n, \qquad v_n = 0.98\, v_{n-1} + 0.02\, g_n^2 .$$
#
# As they start at 0, they are too small at first. So they are divided by $1 - 0.9^n$ and $1 - 0.98^n$:
#
# $$\hat m_n = \frac{m_n}{1 - 0.9^n}, \qquad \hat v_n = \frac{v_n}{1 - 0.98^n}, \qquad
# \text{move}_n = - r_n \frac{\hat m_n}{\sqrt{\hat v_n} + 10^{-8}} .$$
#
# Before all that, $g_n$ is clipped: where it is longer than `clip` it is shortened to it. The rate $r_n$ rises in a straight line to `lr` at step
# `warmup` and stays there; with `warmup=0` it is `lr` throughout.

# %%
def adam_moves(gradients: list[float], lr: float, clip: float, warmup: int) -> Tensor:
    """By how much each step of Adam moves one parameter.

    gradients: one number for each step. lr: the learning rate after warm-up.
    clip: the largest size of a gradient. warmup: steps until the rate is lr; 0 for none.
    Returns (steps,).
    """
    # BEGIN SOLUTION
    m, v, moves = 0.0, 0.0, []
    for n, g in enumerate(gradients, start=1):
        g = max(-clip, min(clip, g))
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        rate = lr * min(1.0, n / warmup) if warmup else lr
        mean, square = m / (1 - 0.9**n), v / (1 - 0.98**n)
        moves.append(-rate * mean / (math.sqrt(square) + 1e-8))
    return torch.tensor(moves)
    # END SOLUTION


# %% tags=["check"]
check("silent_bugs.adam_moves", adam_moves)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Work out the first step by hand, for a gradient of 0.001 and a rate of 1. How long is the move?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The order matters: clip what comes in, update both means, correct both, divide, and only then multiply by the rate. One number is
# clipped by its size; its sign stays.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# One loop with `enumerate(gradients, start=1)`. Keep the two means as plain numbers; do not overwrite them by their corrected values.
# The rate is `lr` times the smaller of 1 and `n / warmup`.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Multiply the gradient by the warm-up's factor.** Adam divides the size of gradients out again: the factor is nearly without effect.
# - **Clip the move.** Moves are never much longer than the rate. What does harm is what the means remember.
# - **Leave out the corrections.** At the first step, $m$ is a tenth of the gradient and the root of $v$ a seventh of it: the move has seven
#   tenths of the length it should have. Where all gradients are equal, the moves from the third on are too *long*.
# - **Count from 0.** The first correction would divide by $1 - 0.9^0 = 0$.

# %% [markdown]
# ## 4. What a spoilt batch leaves behind
#
# *Explore. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** In the lesson one spoilt batch ruined a training, though no step was large. Here you see what it does to the
# optimiser, step by step.
#
# One parameter has the gradient 1 at every step but one: at step 60 it is `times` as long. PyTorch's Adam makes the moves, with the
# rate 1, so that an ordinary move has the length 1. Change `times` and `clip` (`math.inf` does not clip), and run the cell again.

# %%
def lengths_of_moves(gradients: list[float], clip: float) -> list[float]:
    """How far PyTorch's Adam moves one parameter at each step, in rates."""
    parameter = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.Adam([parameter], lr=1.0, betas=(0.9, 0.98))
    lengths = []
    for gradient in gradients:
        before = parameter.item()
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        torch.nn.utils.clip_grad_norm_([parameter], clip)
        optimizer.step()
        lengths.append(abs(parameter.item() - before))
    return lengths


times, clip = 30, math.inf
spoilt = [float(times) if step == 60 else 1.0 for step in range(1, 801)]
moves = lengths_of_moves(spoilt, clip)
print("moves below half a rate:", sum(move < 0.5 for move in moves))
plots.lines(
    range(1, 801), {"length of a move, in rates": moves}, marks=False,
    roles={"length of a move, in rates": "a"}, x="training steps", y="length of a move",
    alt="How far Adam moves at each of 800 steps, where one gradient, at step 60, is longer "
        "than the others.",
)

# %% [markdown]
# 1. The gradient is [[=1000 times]] too long and not clipped. How many of the 800 moves are below half a rate?
# 2. It is [[=10000 times]] too long. How many now?
# 3. It is [[=1000 times]] too long, and clipped at 1. How many?
# 4. Take another list of gradients, `[0.001]`, without clipping. How long is the first move, in rates?

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "1. small moves, 1000 times too long": None,
# STUB     "2. small moves, 10000 times too long": None,
# STUB     "3. small moves, clipped": None,
# STUB     "4. first move, gradient of 0.001, in rates": None,
# STUB }
def small_moves(times: float, clip: float) -> int:
    gradients = [times if step == 60 else 1.0 for step in range(1, 801)]
    return sum(move < 0.5 for move in lengths_of_moves(gradients, clip))


findings = {
    "1. small moves, 1000 times too long": small_moves(1e3, math.inf),
    "2. small moves, 10000 times too long": small_moves(1e4, math.inf),
    "3. small moves, clipped": small_moves(1e3, 1.0),
    "4. first move, gradient of 0.001, in rates": lengths_of_moves([0.001], math.inf)[0],
}
# END SOLUTION

# %% tags=["check"]
check("silent_bugs.findings", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Set `times = 1000`, run the cell, and read the line that it prints. Where does the curve come back?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The printed number is what the first three ask for. For clipping, set `clip = 1.0`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the last, call `lengths_of_moves([0.001], math.inf)`. Is the gradient's size in the answer?
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **One step.** The mean of squares forgets a fiftieth at each step. A square that is a million times too large needs hundreds of steps to fade.
# - **A longer gradient, in proportion more steps.** Fading is a power of 0.98: each factor of ten adds the same number of steps.
# - **A first move of 0.001.** After one step both means know one gradient, and $g / \sqrt{g^2} = \pm 1$. That is what warm-up is for.

# %% [markdown]
# ## 5. A test that finds twelve bugs
#
# *Design a test. Difficulty 3, about 35 minutes.*
#
# **Why it is worth doing.** A test is worth what it finds. Yours is judged by wrong programs, so-called mutants: it must refuse each, and
# accept four right programs that are written in different ways.
#
# The program is called as `attend(x, read, real, num_heads)`. Each token of `x` $(B, T, d_{model})$ attends to the *real* tokens of `read`
# $(B, S, d_{model})$, which are the keys and the values; `real` $(B, S)$ is boolean. There are no matrices: the dimensions are cut into heads, each
# head attends with scores that are divided by $\sqrt{d_k}$, and the outputs stand side by side again, $(B, T, d_{model})$.
#
# The bugs are of the lesson's kinds: the softmax, the root, the heads, the mask, the batch, and what is read. Numbers of right programs may differ by
# rounding, up to [[=0.00001]].

# %%
def test_attention(attend: Callable[[Tensor, Tensor, Tensor, int], Tensor]) -> None:
    """Fail with an AssertionError if this attention is wrong.

    attend: called as attend(x, read, real, num_heads), with x (B, T, d_model), read
        (B, S, d_model), real (B, S) boolean with at least one True in each row; returns
        (B, T, d_model).
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    x, read = torch.randn(3, 4, 6, generator=g), torch.randn(3, 7, 6, generator=g)
    real = torch.arange(7) < torch.tensor([[3], [5], [4]])             # (B, S)
    for num_heads in (2, 3):
        given = attend(x, read, real, num_heads)                       # (B, T, d_model)
        for b in range(3):
            kept = read[b, real[b]]                                    # (real, d_model)
            for part in torch.arange(6).chunk(num_heads):              # a head's dimensions
                scores = x[b][:, part] @ kept[:, part].T / math.sqrt(len(part))
                expected = scores.softmax(dim=-1) @ kept[:, part]      # (T, d_k)
                assert (given[b][:, part] - expected).abs().max() < 1e-4
    # END SOLUTION


# %% tags=["check"]
check("silent_bugs.test_attention", test_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Choose the input first. No two sizes are equal, `x` and `read` differ, each sequence has padding, each another number of real tokens, and there are at least two heads.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# There are two ways. Properties: padding is not seen, a sequence alone is what it is in the batch, a head alone is what it is among others, and for a pair of keys the weight is
# known. Or the formula itself, so slowly written that it cannot be wrong.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Loop over the sequences; keep only the real rows of `read`, so that no mask is needed. Loop over the heads; cut their dimensions out of both. What is left is one small attention
# without a batch, a mask or heads: compare it with the same part of what came, with a tolerance.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Check the shape and that nothing is NaN.** Every one of the twelve passes.
# - **All tokens real.** Then a mask that is ignored, applied too late, off by one place or taken from the first sequence does no
#   harm: four of the twelve stay hidden.
# - **The same number of real tokens in each row.** One mutant uses the first sequence's mask for all.
# - **One head.** Then $d_k = d_{model}$, and the wrong root is the right one.
# - **`torch.equal` with your own version.** It refuses right programs that add in another order.

# %% [markdown]
# ## 6. Repair a program with three bugs
#
# *Repair. Difficulty 3, about 35 minutes.*
#
# **Why it is worth doing.** Bugs do not come one at a time, and each hides the others: with a leak in it, a program looks fine whatever else is wrong. This one has three.
#
# The program is the loss of a tiny translator, without matrices for queries, keys and values. It should do this. The target is read one step behind what is asked for. Each token of source and
# target gets its place in its sequence added. The target attends to itself, to no later place; then to the real tokens of the source; both with `num_heads` heads. The loss is the mean over all real
# tokens of all pieces. Padding is 0.
#
# It runs, and its gradients train. Find the three by properties, and change as little as possible.

# %%
def cut(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, d_model) to (B, H, T, d_k)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)            # (B, H, T, d_k)


def batch_loss(
    weights: dict[str, Tensor], pieces: list[tuple[Tensor, Tensor]], num_heads: int
) -> Tensor:
    """The loss of a batch that comes in pieces.

    weights: the tables source and target (V, d_model) and place (longest, d_model), and
        output (d_model, V).
    pieces: source (B, S) and target (B, T + 1) of each.
    Returns a scalar.
    """
    # BEGIN SOLUTION
    # STUB losses = []
    # STUB for source, target in pieces:
    # STUB     read, asked = target[:, :-1], target[:, 1:]                # (B, T) each
    # STUB     memory = weights["source"][source] + weights["place"][:len(source), None]
    # STUB     x = weights["target"][read] + weights["place"][:len(read), None]
    # STUB     T = x.shape[1]
    # STUB     causal = torch.ones(T, T, dtype=torch.bool).tril(1)        # (T, T)
    # STUB     real = (source != 0)[:, None, None]                        # (B, 1, 1, S)
    # STUB     for attended, mask in ((None, causal), (memory, real)):
    # STUB         Q = cut(x, num_heads)                                  # (B, H, T, d_k)
    # STUB         K = cut(x if attended is None else attended, num_heads)
    # STUB         scores = Q @ K.mT / math.sqrt(Q.shape[-1])             # (B, H, T, S)
    # STUB         mixed = scores.masked_fill(~mask, -1e9).softmax(dim=-1) @ K
    # STUB         x = x + mixed.transpose(1, 2).flatten(2)               # (B, T, d_model)
    # STUB     logits = x @ weights["output"]                             # (B, T, V)
    # STUB     losses.append(F.cross_entropy(logits.mT, asked, ignore_index=0))
    # STUB return sum(losses) / len(losses)
    total, number = 0.0, 0
    for source, target in pieces:
        read, asked = target[:, :-1], target[:, 1:]                    # (B, T) each
        memory = weights["source"][source] + weights["place"][:source.shape[1]]
        x = weights["target"][read] + weights["place"][:read.shape[1]]
        T = x.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool).tril()             # (T, T)
        real = (source != 0)[:, None, None]                            # (B, 1, 1, S)
        for attended, mask in ((None, causal), (memory, real)):
            Q = cut(x, num_heads)                                      # (B, H, T, d_k)
            K = cut(x if attended is None else attended, num_heads)
            scores = Q @ K.mT / math.sqrt(Q.shape[-1])                 # (B, H, T, S)
            mixed = scores.masked_fill(~mask, -1e9).softmax(dim=-1) @ K
            x = x + mixed.transpose(1, 2).flatten(2)                   # (B, T, d_model)
        logits = x @ weights["output"]                                 # (B, T, V)
        total = total + F.cross_entropy(logits.mT, asked, ignore_index=0, reduction="sum")
        number += int((asked != 0).sum())
    return total / number
    # END SOLUTION


# %% tags=["check"]
check("silent_bugs.batch_loss", batch_loss)

# %% [markdown]
# Two properties to look with. Both numbers should be zero in a right program. The first cuts a batch at another place; the second
# computes each sequence of a batch alone, and compares the sums.

# %%
def try_properties() -> None:
    g = torch.Generator().manual_seed(0)
    table = {name: torch.randn(9, 8, generator=g) for name in ("source", "target", "place")}
    table["output"] = torch.randn(8, 9, generator=g)
    source = torch.tensor([[3, 4, 2, 0], [5, 6, 7, 2]])                # (B, S)
    target = torch.tensor([[1, 8, 2, 0, 0], [1, 4, 3, 5, 2]])          # (B, T + 1)
    whole = batch_loss(table, [(source, target)], 2)
    pieces = [(source[:1], target[:1]), (source[1:], target[1:])]
    alone = [batch_loss(table, [piece], 2) for piece in pieces]
    print(f"cut in two: {(batch_loss(table, pieces, 2) - whole).abs():.3f}")
    print(f"alone: {((2 * alone[0] + 4 * alone[1]) / 6 - whole).abs():.3f}")


try_properties()

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the properties of the lesson: no look ahead, alone as in the batch, the same in pieces, the root of $d_k$, the next token, padding. Which lines does each belong to?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Print `causal` for four places: may the first one see the second? And print the shape of what is added to the tokens as their place. Which axis does it run along?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The third stands in the last line: each piece has one vote. You have written its repair in exercise 2. The places want a slice along the sequence, and the mask wants its diagonal back where it was.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Repair what shows first, and train.** With the leak in it the loss falls to nearly nothing, whatever the places are. Look for all
#   three before you train once.
# - **`tril(-1)` to be on the safe side.** Then no place sees its own token. And the first, from which all are hidden, sees all of
#   them, later ones too: its scores are all $-10^9$, and a softmax of equal scores is even.
# - **Leave the places out.** Without them nothing depends on the batch any more, and nothing on the order of the source.
# - **Sum the losses.** The mean of means is gone, and the loss grows with the number of pieces.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 15, which is planned: one training on several processes. The papers behind these exercises are @kingma2015
# (section 2 for Adam, section 3 for its corrections) and @pascanu2013 (section 3.2).

# %%
progress("silent_bugs")
