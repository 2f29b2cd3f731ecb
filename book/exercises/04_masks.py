# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 4: Masks
#
# Six exercises on [lesson 4](../notebooks/04_masks.ipynb). You build every mask of a translator, predict what wrong
# masks do, repair a program that hides its NaN, find out by gradients who depends on whom, explore how far a stack of
# masks sees, and write a test that finds a leak.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 3, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. You may leave an exercise out: nothing after it breaks. The hints are
# folded, and each says more than the one before.
#
# **How long:** about two hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, T queries, S keys. A [mask](../book/pages/glossary.md#mask) is
# boolean, and True means *may attend*.

# %% [markdown] tags=["solution-only"]
# # Solutions 4: Masks
#
# The [exercises of lesson 4](../exercises/04_masks.ipynb) with an answer to each. It is one answer of many: a check
# accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before
# you read its solution; what you found yourself stays with you.

# %%
import contextlib
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import plots, seed
from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.checks import check, progress

torch.set_num_threads(1)  # programs this small are not faster on two

# %% [markdown]
# ## 1. The three masks of a translator
#
# *Implement. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** A translator attends in three places, and each needs a mask of its own. Swap two of them,
# or move one by a place, and nothing fails: the model trains, and is worse than it should be or better than it can be.
#
# The **encoder** reads the source: each source position may see every real source token. The **decoder** writes the
# target: a target position may see itself and what comes before it, as long as it is a real token. In
# [cross-attention](../book/pages/glossary.md#cross-attention) target positions ask and the source answers: each may
# see every real source token.
#
# A decoder need not ask for all positions at once. Here T queries ask, which stand at the target's positions `start`,
# `start + 1` and so on. The keys are *all* `num_target` positions of the target: those before `start`, which were kept,
# and also those after the last query, which are not written yet.
#
# [Padding](../book/pages/glossary.md#padding) stands behind the real tokens. A mask hides it as a *key*. A query that
# is padding itself is treated like any other query.

# %%
def translator_masks(
    source_lengths: Tensor,
    target_lengths: Tensor,
    num_source: int,
    num_target: int,
    num_queries: int,
    start: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Build the masks of encoder, decoder and cross-attention: boolean, True = may attend.

    source_lengths, target_lengths: (B,), integers, how many tokens of each are real.
    num_source: S, the number of source positions, padding included.
    num_target: the number of target positions, padding included.
    num_queries: T, how many target positions ask.
    start: the target position of the first of them; start + T is at most num_target.

    Returns three masks, together as a tuple, each of a shape that broadcasts to the one here:
    encoder (B, S, S), decoder (B, T, num_target) and cross (B, T, S).
    """
    # BEGIN SOLUTION
    source = torch.arange(num_source) < source_lengths[:, None]   # (B, S)
    source = source[:, None, :]                                   # (B, 1, S)
    keys = torch.arange(num_target)                               # (num_target,)
    target = (keys < target_lengths[:, None])[:, None, :]         # (B, 1, num_target)
    places = start + torch.arange(num_queries)[:, None]           # (T, 1)
    return source, (keys <= places) & target, source
    # END SOLUTION


# %% tags=["check"]
check("masks.translator_masks", translator_masks)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For each of the three, ask two questions. Whose tokens are the keys? And is there a future that must be hidden? Only
# one of the three has one.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A key is real where its number is below the length: compare `torch.arange(...)` with the lengths, which need a second
# axis for that. Then put in an axis of length 1 for the queries. For the triangle, write down the place of each query
# as a column and the number of each key as a row.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The places are `start + torch.arange(num_queries)[:, None]`, of shape (T, 1). A decoder's key is allowed where its
# number is not above the place of the query *and* it is real. Encoder and cross-attention need nothing but the padding
# mask of the source, (B, 1, S).
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`tril(num_target - num_queries)`, as in the lesson.** There, the last query was the newest position and had no
#   keys after it. Here the table of keys may go on. The triangle must begin where the first query stands.
# - **The mask of the target for the cross-attention.** The keys of the cross-attention are source tokens. If source and
#   target are padded to the same length, the wrong mask even fits.
# - **A triangle for the cross-attention or for the encoder.** The source is there before the first word is written.
# - **`<=` for the padding.** Columns count from 0, so a sequence of three tokens has the columns 0, 1 and 2.
# - **Padding on the rows.** A row that is emptied stops a padding query, which nobody reads. It does not stop a real
#   query from reading padding.
# - **"The decoder needs no padding mask, the triangle hides what comes later."** With padding *behind* the tokens that is
#   true for every real query. It is no longer true when padding stands in front, as in exercise 6.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** You read a mask in a strange program, and have to say what it does before you run it. This
# is the lesson's example: three tokens, all [scores](../book/pages/glossary.md#score) zero, the values 1, 2 and 4. So an
# output is the mean of the values that it may see. `causal` is the causal mask of this course. Fill in all seven
# predictions before you run anything; a third may be written as `1 / 3` or `0.33`.
#
# 1. `causal` goes into `nn.MultiheadAttention` as `attn_mask`, as it is. The first output?
# 2. A mask of 0 (allowed) and minus infinity (hidden), causal, is turned into booleans by `.bool()` and goes into
#    `F.scaled_dot_product_attention`. The second output?
# 3. The mask is `causal & padding`, where only the first token is real. The third output?
# 4. The mask is `causal | padding`, where the first two tokens are real. The first output?
# 5. The mask hides every key from the query, and hidden scores are filled with -1e9 before the softmax, in `float32`.
#    The output?
# 6. The hidden weights of `causal` are set to zero *after* the softmax. The first row of weights then sums to?
# 7. In half precision, the lowest number of the type is added for each of two masks, and both hide every key. The
#    output is `"nan"`, the `"mean"`, `"zero"`, or there is an `"error"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "1. course's mask in nn.MultiheadAttention, first output": None,
# STUB     "2. additive mask after .bool(), second output": None,
# STUB     "3. causal & padding of length 1, third output": None,
# STUB     "4. causal | padding of length 2, first output": None,
# STUB     "5. every key filled with -1e9, output": None,
# STUB     "6. zeroed after the softmax, first row's sum": None,
# STUB     "7. twice the lowest number added in half precision, output": None,
# STUB }
prediction = {
    "1. course's mask in nn.MultiheadAttention, first output": 3,
    "2. additive mask after .bool(), second output": 4,
    "3. causal & padding of length 1, third output": 1,
    "4. causal | padding of length 2, first output": 1.5,
    "5. every key filled with -1e9, output": 7 / 3,
    "6. zeroed after the softmax, first row's sum": 1 / 3,
    "7. twice the lowest number added in half precision, output": "nan",
}
# END SOLUTION

# %% tags=["check"]
check("masks.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Draw the table of three rows and three columns for each mask, and mark what the row in question may see. For 1, the
# lesson says what True means to that module.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `.bool()` turns 0 into False and every other number into True. `&` asks for both, `|` for one of the two. For 5, think
# of what a softmax does with three equal numbers, however low they are.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In 1 and 2 the masks arrive inverted: each query sees what it should not see. In 6 nobody divides again after the
# softmax. In 7, the lowest number added to itself falls off the end of the format: what is it then, and what does a
# softmax make of a row of nothing else?
#
# </details>
#
# Now test your predictions. The cell measures nothing until all seven are there.

# %%
def measure_predictions() -> dict[str, float]:
    zeros, values = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]])  # (T, 1), (S, 1)
    causal, sdpa = causal_mask(3), F.scaled_dot_product_attention
    module = nn.MultiheadAttention(1, 1, bias=False, batch_first=True)
    for weight in (module.in_proj_weight, module.out_proj.weight):
        nn.init.ones_(weight)  # projections that change nothing
    by_module, _ = module(zeros[None], zeros[None], values[None], attn_mask=causal)
    additive = torch.zeros(3, 3).masked_fill(~causal, -math.inf)
    first, two = torch.arange(3) < 1, torch.arange(3) < 2  # (S,): the real tokens
    filled = torch.full((1, 3), -1e9).softmax(dim=-1) @ values
    late = torch.zeros(3, 3).softmax(dim=-1) * causal  # (T, S)
    lowest = torch.finfo(torch.float16).min
    half = (torch.zeros(1, 3, dtype=torch.float16) + lowest + lowest).softmax(dim=-1)
    return {
        "1. first output of the module": by_module[0, 0].item(),
        "2. second output with .bool()": sdpa(zeros, zeros, values, additive.bool())[1].item(),
        "3. third output with &": sdpa(zeros, zeros, values, causal & first)[2].item(),
        "4. first output with |": sdpa(zeros, zeros, values, causal | two)[0].item(),
        "5. output, all filled": filled.item(),
        "6. sum of the first row": late[0].sum().item(),
        "7. output in half precision": (half @ values.half()).item(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured:.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"A mask is a mask."** In `nn.MultiheadAttention` True means *may not*. The first query then sees the second and the
#   third value and not its own.
# - **"`.bool()` only changes the type."** The allowed 0 becomes False and the hidden minus infinity True: the sense is
#   turned round. From additive to *may attend*, write `mask == 0`.
# - **"The third token is padding, so its output is zero."** The mask hides padding as a key. The third query asks like
#   any other, and sees the first token.
# - **"-1e9 hides everything, so the output is zero."** Three equal scores give three equal weights, and the output is the
#   mean of what was to be hidden.
# - **"The lowest number is safe in half precision, since the format has it."** Once, it is. Twice, or with a negative
#   score, it is minus infinity, and a row of that is NaN.

# %% [markdown]
# ## 3. Repair a program that hides its NaN
#
# *Repair. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** `nan_to_num` at the end of a program is a sign that somebody once saw a NaN and did not find
# out where it came from. The program below runs, its output is always finite, and it has **two** faults. The second
# one shows only when the first is gone. Find both, so that the program does all that its docstring says, in `float32`
# and in [half precision](../book/pages/glossary.md#half-precision).

# %%
def attend(
    query: Tensor, key: Tensor, value: Tensor, causal: Tensor, padding: Tensor
) -> Tensor:
    """Attention under two masks: a query sees the keys that both of them allow.

    query: (B, T, d_k). key: (B, S, d_k). value: (B, S, d_v). All float32, or all float16.
    causal: boolean (T, S). padding: boolean (B, 1, S). In both, True = may attend.

    Returns the output (B, T, d_v), in the number type of the inputs. A query to which no key
    is left gets zeros. The gradients of query, key and value are finite, whatever the masks.
    """
    # BEGIN SOLUTION
    # STUB mask = causal + padding  # (B, T, S)
    # STUB scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (B, T, S)
    # STUB lowest = torch.finfo(scores.dtype).min
    # STUB scores = scores + torch.zeros_like(scores).masked_fill(~mask, lowest)
    # STUB weights = scores.softmax(dim=-1)  # (B, T, S)
    # STUB return torch.nan_to_num(weights @ value)  # (B, T, d_v)
    mask = causal & padding  # (B, T, S)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (B, T, S)
    empty = ~mask.any(dim=-1, keepdim=True)  # (B, T, 1)
    scores = scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0.0)
    weights = scores.softmax(dim=-1).masked_fill(empty, 0.0)  # (B, T, S)
    return weights @ value  # (B, T, d_v)
    # END SOLUTION


# %% tags=["check"]
check("masks.attend", attend)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Print the mask of a small example, with one sequence shorter than the other. Does it hide what each of the two masks
# hides?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Adding works for masks made of numbers. What does `True + False` give, as a tensor? Then take a query from which all
# keys are hidden: print its scores just before the softmax, in both number types, and with scores around -20.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Joining is done with `&`. For the second fault, do not look for a better number: find the rows without any key first
# (`mask.any(dim=-1, keepdim=True)`), give them harmless scores before the softmax and zeros after it. Then nothing is
# left for `nan_to_num` to do.
#
# </details>
#
# The next cell shows a query without any key, in half precision: its output, and whether the gradient of the values is
# finite. Look at it before and after your repair.

# %%
def empty_row(function: Callable[..., Tensor]) -> None:
    query = torch.tensor([[[7.0]]], dtype=torch.float16)              # (B, T, d_k)
    key = torch.tensor([[[-3.0], [-2.5]]], dtype=torch.float16)       # (B, S, d_k)
    value = torch.tensor([[[6.0], [8.0]]], dtype=torch.float16).requires_grad_()  # (B, S, d_v)
    causal, padding = torch.zeros(1, 2).bool(), torch.zeros(1, 1, 2).bool()
    output = function(query, key, value, causal, padding)
    (gradient,) = torch.autograd.grad(output.sum(), value)
    print("output:                ", output.flatten().tolist())
    print("gradient of the values:", gradient.flatten().tolist())


empty_row(attend)

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Leave the `+`, since it worked for the additive masks.** Between two truth values `+` means *or*: a key is let
#   through when one mask allows it. As the causal mask lets each query see itself, no row was ever empty, and so the
#   second fault could not be seen.
# - **Take away `nan_to_num` alone.** In half precision the NaN is now in the output, too. In `float32` nothing changes:
#   the lowest number swallows the score, all scores of the row are equal, and the query reads the mean of what is
#   hidden.
# - **Fill with minus infinity and keep `nan_to_num`.** The output is right. But the weights are NaN before it is cleaned,
#   and the gradient of *every* value in that sequence is NaN.
# - **Fill with a larger number, such as -1e4.** It exists in half precision, and an empty row still attends to everything
#   alike. And a score may be lower still: then the hidden keys get all the weight.
# - **Look for empty rows in each mask by itself.** With padding in front of the tokens, a query may be left without a key
#   by the two together, although each alone leaves it some.
#
# There are other good ways. One is to fill with the lowest number (not to add it), and to set all hidden weights to zero
# after the softmax: no row is ever NaN, and in an empty row every weight is hidden.

# %% [markdown]
# ## 4. Who depends on whom
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A mask is a promise: this output does not depend on that input. Here is the tool that
# holds any program to it, also one whose masks you cannot see. It needs one forward pass and no training.
#
# Output $t$ depends on input $j$ if at least one number of the output has a
# [derivative](../book/pages/glossary.md#gradient) other than zero with respect to at least one number of the input, in
# at least one sequence. A hidden key has a derivative of *exactly* zero, so no tolerance is needed.

# %%
def dependencies(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Find out by gradients which outputs of a function depend on which inputs, at this x.

    function: takes (B, T, D) and returns (B, T', D'); T' need not be T. It treats each
        sequence by itself, but perhaps not alike: hand it all of x, not one at a time.
        Some outputs, or all, may depend on no input, even if the function has parameters.
    x: (B, T, D); it does not ask for a gradient yet.

    Returns a boolean table (T', T): entry (t, j) is True where output t depends on input j,
    in one sequence at least.
    """
    # BEGIN SOLUTION
    x = x.clone().requires_grad_()
    output = function(x)  # (B, T', D')
    table = torch.zeros(output.shape[1], x.shape[1], dtype=torch.bool)  # (T', T)
    if not output.requires_grad:
        return table
    for t in range(output.shape[1]):
        for number in output[:, t].sum(dim=0):  # D' numbers; sequences do not mix
            (gradient,) = torch.autograd.grad(  # (B, T, D); zeros where no path leads to x
                number, x, retain_graph=True, materialize_grads=True
            )
            table[t] |= (gradient != 0).any(dim=-1).any(dim=0)
    return table
    # END SOLUTION


# %% tags=["check"]
check("masks.dependencies", dependencies)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `torch.autograd.grad` follows *one number* back to all inputs at once. So you need a loop over the outputs, and none
# over the inputs. And the inputs must ask for a gradient: make a copy that does.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# An output has D' numbers. Their plain sum may depend on nothing although each of them does: think of probabilities,
# which sum to 1. Follow each number back for itself, or a sum with random weights. What comes back has the shape
# (B, T, D): what do you ask of it?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `(gradient != 0).any(dim=-1).any(dim=0)` is one row of the table, from a gradient with respect to all inputs. Keep
# the graph from one call to the next with `retain_graph=True`. An output that nothing can change has `requires_grad`
# False, and one that depends on the function's own parameters alone has no path to the inputs. For that one,
# `materialize_grads=True` gives zeros in place of an error.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`output[:, t].sum()`.** Numbers that balance each other have a sum that depends on nothing. The outputs of a layer
#   norm do, and so do those of a softmax.
# - **`output[:, t].square().sum()`, or the sum of `abs()`.** The first is fixed where the length of the output is, as
#   behind a norm, and the second where all numbers are positive, as behind a softmax. What remains is chance: rounding.
# - **`gradient.sum(dim=-1) != 0`.** A difference of two inputs has the derivatives 1 and -1. Ask whether *any* number of
#   the gradient differs from zero, or take absolute values first.
# - **`gradient[0]`.** Masks differ from sequence to sequence, so a leak may show in one alone.
# - **`.backward()` in a loop.** Gradients add up in `x.grad`. With a causal mask you will not even notice, since each row
#   holds the links of the rows above it anyway.
# - **`gradient.abs() > 1e-3`.** A leak that is weak now may be strong after training. Exactly zero is what a mask
#   promises.
# - **Change the input and compare the outputs.** This works, too, but needs a tolerance, and one forward pass for
#   every input.

# %% [markdown]
# ## 5. How far a stack sees
#
# *Explore. Difficulty 1, about 20 minutes.*
#
# **Why it is worth doing.** A mask hides a key from one layer. What the layer below has already moved to another place
# is not hidden by it. So what a *stack* of layers sees is not what its masks say, and long texts are read with
# windows for this very reason.
#
# The function `reach` follows the masks from the bottom layer to the top one: what a position knows after a layer is
# all that was known at the positions which it may see. Change the four numbers, run both cells, and look at the last
# map. `window` counts the keys that a query sees, its own one included.

# %%
length, window, layers = 16, 4, 3  # change these: up to 40 places and 6 layers
open_layer = None                  # or the number of a layer without a mask; 0 is the bottom


def reach(masks: list[Tensor]) -> Tensor:
    """Which inputs each output of a stack depends on, from the layers' masks, bottom first."""
    seen = torch.eye(len(masks[0]), dtype=torch.bool)  # at the bottom each is only itself
    for mask in masks:
        seen = (mask.float() @ seen.float()) > 0       # (T, T)
    return seen


causal = causal_mask(length)               # (T, T)
near = causal & ~causal.tril(-window)      # (T, T): causal, and no further back than that
masks = [near] * layers
if open_layer is not None:
    masks[open_layer] = torch.ones_like(near)
maps = [reach(masks[:count]) for count in range(1, layers + 1)]
print("inputs that the last output depends on:", int(maps[-1][-1].sum()))
print("outputs that depend on a later input:  ", int(maps[-1].triu(1).any(dim=-1).sum()))

# %%
titles = [f"layers: {count}" for count in range(1, layers + 1)]
ticks = [str(place) if place % 5 == 0 else "" for place in range(length)]
plots.small_multiples([seen.float() for seen in maps], x="inputs", y="outputs", titles=titles,
                      rows=ticks, columns=ticks, label="depends (1) or not (0)",
                      alt="One map for each number of layers, outputs by inputs. With a "
                          "causal window, the band below the diagonal grows with each layer.")

# %% [markdown]
# Answer from what you find. The last three questions are about masks without a window: set it to the length.

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "3 layers, window 5: inputs that the last output depends on": None,  # of 40, say
# STUB     "window 3: layers until the last output depends on 9 inputs": None,
# STUB     "6 causal layers: outputs that depend on a later input, of 16": None,
# STUB     "4 layers, one without a mask: outputs that depend on a later input, of 16": None,
# STUB     "does it matter which of the 4 layers lacks its mask": None,  # "yes" or "no"
# STUB }
findings = {
    "3 layers, window 5: inputs that the last output depends on": 13,
    "window 3: layers until the last output depends on 9 inputs": 4,
    "6 causal layers: outputs that depend on a later input, of 16": 0,
    "4 layers, one without a mask: outputs that depend on a later input, of 16": 15,
    "does it matter which of the 4 layers lacks its mask": "no",
}
# END SOLUTION

# %% tags=["check"]
check("masks.reach", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Change one number at a time, and predict what the printed lines will say before you run the cell.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# How many inputs does the last output depend on with one layer, with two, with three? By how much does the number
# grow each time, and why is that not the window?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the last two questions set `window` to 16, `layers` to 4, and `open_layer` to each of 0, 1, 2 and 3. Which output
# has no later input at all?
#
# </details>
#
# Does a real stack behave as the masks say? If you have written `dependencies`, the next cell asks the gradients of
# one, with the same masks: each layer adds what attention finds to what stood there before.

# %%
def stack(x: Tensor) -> Tensor:
    for mask in masks:
        x = x + scaled_dot_product_attention(x, x.flip(-1), x, mask).output  # (B, T, D)
    return x


x = torch.randn(1, length, 3, generator=torch.Generator().manual_seed(seed(0)))  # (B, T, D)
agrees = "waits for dependencies"
with contextlib.suppress(NotImplementedError):
    agrees = torch.equal(dependencies(stack, x), maps[-1])
print("gradients and masks agree:", agrees)

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Layers times window.** The windows of two layers overlap at one place, the own one. So each layer adds a window less
#   one: with $n$ layers of window $w$ an output sees $1 + n(w - 1)$ inputs.
# - **"The window is what it sees."** That is the bottom layer. A model with a short window and many layers reads a long
#   text, if only through many hands.
# - **"Through many layers a little of the future comes in."** No: a layer looks at places no later than its own, and these
#   have looked at none later than theirs.
# - **"One layer without a mask does little harm, the others are right."** It carries what stands at the last place to all
#   the others. Masks above it hide nothing that has already moved, and masks below it come too early. Only the last
#   output has no future to depend on. This is why *every* layer needs its mask.

# %% [markdown]
# ## 6. A test that finds the leak
#
# *Write a test. Difficulty 3, about 25 minutes.*
#
# **Why it is worth doing.** A [leak](../book/pages/glossary.md#leak) makes every curve look better. Nobody goes looking
# for a fault in a model that is too good, so a test has to. This one must know more than a shifted triangle.
#
# Your test is given an attention function, called as `attend(x, real)`. Here `x` is (B, T, D), and `real` is boolean,
# (B, T): True where a token is real, False where it is padding. Padding may stand in front of the real tokens, as it
# does when texts of different length are continued, or behind them, or both. The function returns (B, T, D). It
# promises this: **the output at a real token depends on every real token of its own sequence up to its own
# place, itself included, and on nothing else.** Nothing else is promised: not how it weighs what it sees, and not what it
# gives at the places of padding. Every sequence has a real token, and T may be anything up to 16.
#
# The check hands your test four right functions and twelve wrong ones. Refuse a wrong one with an `assert` that fails,
# and let a right one pass, also if it computes in another number type. Your test is run some thirty times, so keep it
# small: two or three sequences of about ten places are enough.

# %%
def test_masking(attend: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Fail with an AssertionError if this function shows a token too much, or too little.

    attend: takes x (B, T, D) and real (B, T), returns the output (B, T, D).
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 9, 4, generator=g).requires_grad_()  # (B, T, D)
    real = torch.ones(2, 9, dtype=torch.bool)  # (B, T)
    real[1, :5] = False  # padding in front: behind, the triangle would hide it anyway
    output = attend(x, real)  # (B, T, D)
    for b, t in real.nonzero().tolist():
        number = output[b, t] @ torch.randn(4, generator=g).to(output.dtype)
        (gradient,) = torch.autograd.grad(number, x, retain_graph=True)  # (B, T, D)
        expected = torch.zeros_like(real)
        expected[b, : t + 1] = real[b, : t + 1]
        seen = (gradient != 0).any(dim=-1)  # (B, T): all sequences, not only its own
        assert torch.equal(seen, expected), f"output {t} of sequence {b}"
    # END SOLUTION


# %% tags=["check"]
check("masks.test_masking", test_masking)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What should the table of exercise 4 look like for one sequence? A test may compare all of it with what was promised:
# then it finds what is seen too much, and what is seen too little. But one sequence alone cannot show everything.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Choose the example so that every rule has something to hide. Where must padding stand, so that the triangle does not
# hide it by itself? What do you see only with two sequences, and only if their padding differs? And what only if
# they are long?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take two sequences of eight places or more, one without padding and one with several places of padding in front. For
# every real place `(b, t)`, follow a random mixture of its numbers back to *all* of `x`, and ask where the gradient is
# not zero. That must be the real places of sequence `b` up to `t`, and no other.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Put the padding behind the tokens.** Then the triangle hides it from every real place, and a program that forgets
#   the padding passes.
# - **Only look at what comes later.** A program that hides too much leaks nothing. It is wrong all the same: it reads less
#   of the text than it could.
# - **Look at the gradient of the sequence's own inputs.** A program that mixes the sequences of a batch passes. In use,
#   your answer would depend on who else is asking.
# - **Compare outputs with a tolerance after changing an input.** It can be done, but a hidden score that was set to a low number
#   instead of minus infinity lets very little through, less than a comfortable tolerance.
# - **Test with short sequences.** Tables of fixed size are a common reason for a mask that ends too early.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 5, on several heads: several questions at once. The paper behind these exercises is
# @vaswani2017 (section 3.2.3).

# %%
progress("masks")
