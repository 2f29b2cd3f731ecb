# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 5: Several heads
#
# Six exercises on [lesson 5](../notebooks/05_multi_head.ipynb). You split and merge heads, predict what they cost, take over
# the weights of PyTorch's module, write heads that share their keys and values, repair a program that trains although it
# is wrong, and switch heads off to see which are needed.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 5, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it.
# The hints are folded, and each says more than the one before.
#
# **How long:** about two hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, T queries, S keys, H heads, and the width D of a head, which is
# $d_{model} / H$.

# %% [markdown] tags=["solution-only"]
# # Solutions 5: Several heads
#
# The [exercises of lesson 5](../exercises/05_multi_head.ipynb) with an answer to each. It is one answer of many: a check accepts
# any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import copy
import math

import torch
from torch import Tensor, nn

from attnlab import plots, seed, training
from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.checks import check, progress
from attnlab.checks.ch05_multi_head.puzzle import as_vectors, reporter
from attnlab.multihead import MultiHeadAttention

torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## 1. Split and merge
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** These two short functions stand in every Transformer, and a wrong one has the right shape.
# Here they have to work with any number of axes before the positions. Where the width cannot be shared out, the error
# has to say so in numbers: whoever meets it stands in the middle of a large model.
#
# [Head](../book/pages/glossary.md#head) $h$ gets the columns from $hD$ up to $(h+1)D$ of every token, and in the merge
# its numbers go back to the same place.

# %%
def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut each token's vector into one piece for each head.

    x: (..., T, d_model), with any number of axes before the positions, also none.
    num_heads: H, the number of heads.

    Returns (..., H, T, D), where D = d_model / H.
    Raises ValueError if d_model is no multiple of H; its message names both numbers.
    """
    # BEGIN SOLUTION
    *lead, T, d_model = x.shape
    if d_model % num_heads:
        raise ValueError(f"num_heads: expected a divisor of {d_model}, got {num_heads}")
    pieces = x.reshape(*lead, T, num_heads, d_model // num_heads)  # (..., T, H, D)
    return pieces.transpose(-3, -2)  # (..., H, T, D)
    # END SOLUTION


# %% tags=["check"]
check("multi_head.split_heads", split_heads)

# %%
def merge_heads(heads: Tensor) -> Tensor:
    """Put the pieces of each token side by side again: what split_heads did, undone.

    heads: (..., H, T, D), with any number of axes before the heads, also none.

    Returns (..., T, H * D), the pieces in the order of the heads.
    """
    # BEGIN SOLUTION
    *lead, H, T, D = heads.shape
    return heads.transpose(-3, -2).reshape(*lead, T, H * D)  # (..., T, H * D)
    # END SOLUTION


# %% tags=["check"]
check("multi_head.merge_heads", merge_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two things happen, and they are not the same: an axis is cut in two, and an axis moves. Which tool of PyTorch does
# which? Write down the shape after each of them.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Try it with a tensor in which every number is the index of its token, as the lesson does. In each head, the rows must
# be the tokens in their order. For any number of axes: how can you name the last axes without knowing how many come
# before?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Cut the last axis in two, the heads before their width, and keep all other axes as they are (`*lead, T, d_model =
# x.shape`). Then `transpose` two axes, counted from the end. To merge, go the same way back: first transpose, then make
# one axis of the last two. `reshape` copies where `view` would refuse.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`x.view(B, H, T, D)` in one step.** The shape is right, no error is raised, and it will train. But a view reads the
#   numbers in the order in which they lie: the first head gets whole tokens, cut into pieces, and never sees the last ones.
# - **Merge with `reshape` alone.** The same mistake, backward. If both are made, they even undo each other, so that a
#   round trip shows nothing.
# - **Name the new axes `(D, H)`.** Then each head takes columns from all over the token. It trains as well as the right
#   one, but weights that are copied from elsewhere land in the wrong heads.
# - **`transpose(1, 2)`.** Right for four axes. With one more or one less, the numbers 1 and 2 mean other axes.
# - **Let PyTorch complain.** It says that a shape is invalid for an input of some size. It does not say that ten columns
#   cannot be shared out to four heads.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** Before a model is built, somebody has to say how large it will be. Numbers that you can work
# out on paper are also the cheapest test of code. Fill in all seven predictions before you run anything. Then run the
# check, and the measurement below it.
#
# A module has $d_{model} = 96$ and 8 heads. Its four projections (queries, keys, values, output) have no
# biases. A batch has B = 2 sequences, with T = 5 queries and S = 7 keys each.
#
# 1. How many [parameters](../book/pages/glossary.md#parameter) does it have?
# 2. Now only 2 heads answer: there are 2 heads of keys and values, each as wide as before, and each serves 4 of the 8
#    heads that ask. How many parameters?
# 3. Back to 8 and 8. Scores are divided by the root of which number?
# 4. How many numbers do the [attention weights](../book/pages/glossary.md#attention-weight) of the batch hold, all heads
#    together?
# 5. The same, where 8 heads ask and 2 answer.
# 6. `nn.MultiheadAttention(96, 8, batch_first=True)` is called with such a batch and nothing else. How many axes do the
#    weights have that it returns?
# 7. The 8 heads are put into another order: the rows of `w_q.weight`, `w_k.weight` and `w_v.weight`, a head at a time,
#    and the columns of `w_o.weight` in the same order. The output of the module: `"changes"` or `"stays"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "parameters, 8 heads": None,
# STUB     "parameters, 8 heads ask and 2 answer": None,
# STUB     "number under the root": None,
# STUB     "numbers in the weights, 8 heads": None,
# STUB     "numbers in the weights, 8 heads ask and 2 answer": None,
# STUB     "axes of PyTorch's weights": None,
# STUB     "heads in another order, output": None,
# STUB }
prediction = {
    "parameters, 8 heads": 4 * 96 * 96,
    "parameters, 8 heads ask and 2 answer": 2 * 96 * 96 + 2 * 96 * 24,
    "number under the root": 96 / 8,
    "numbers in the weights, 8 heads": 2 * 8 * 5 * 7,
    "numbers in the weights, 8 heads ask and 2 answer": 2 * 8 * 5 * 7,
    "axes of PyTorch's weights": 3,
    "heads in another order, output": "stays",
}
# END SOLUTION

# %% tags=["check"]
check("multi_head.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Draw the four matrices with their sizes. What does the number of heads change in them? And how wide is the input of
# each: does a head see a part of the token, or all of it?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two heads of keys, as wide as before, are $2 D$ columns. For the weights: each head that asks has one row of weights for
# each of its queries, and in it one number for each key.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Two of the matrices stay square, and two become narrower, by the same factor as the number of heads. What PyTorch does
# with the tables of the heads stands in the lesson, where its module is compared with ours. For the last one, write the
# output as a sum over the heads: each head's output times its own part of $W^O$.
#
# </details>
#
# Now test your predictions. The cell measures nothing until all seven are there.

# %%
def measure_predictions() -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(0))
    query, memory = torch.randn(2, 5, 96, generator=g), torch.randn(2, 7, 96, generator=g)
    module = MultiHeadAttention(96, 8, bias=False)
    grouped = MultiHeadAttention(96, 8, num_kv_heads=2, bias=False)
    theirs = nn.MultiheadAttention(96, 8, batch_first=True)
    plain = module(query, memory)

    order = torch.randperm(8, generator=g)
    columns = torch.arange(96).view(8, 12)[order].flatten()  # those of each head, reordered
    reordered = copy.deepcopy(module)
    for projection in (reordered.w_q, reordered.w_k, reordered.w_v):
        projection.weight.data = projection.weight.data[columns]
    reordered.w_o.weight.data = reordered.w_o.weight.data[:, columns]
    return {
        "1. parameters": sum(p.numel() for p in module.parameters()),
        "2. parameters, 2 heads answer": sum(p.numel() for p in grouped.parameters()),
        "3. number under the root": module.d_head,
        "4. numbers in the weights": plain.weights.numel(),
        "5. numbers in the weights, 2 heads answer": grouped(query, memory).weights.numel(),
        "6. axes of PyTorch's weights": theirs(query, memory, memory)[1].ndim,
        "7. largest change of the output": (
            (plain.output - reordered(query, memory).output).abs().max().item()
        ),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured:,.2f}".removesuffix(".00"))

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Eight heads need eight sets of matrices."** The columns of one matrix are shared out among the heads. Each head
#   reads the whole token and makes an eighth of the columns.
# - **"Fewer heads that answer make everything smaller."** The queries are as many as before, and so are the outputs that
#   $W^O$ mixes. Only keys and values are fewer. That is the point of it: in a model that writes text, keys and values of
#   all earlier tokens have to be kept.
# - **"Then the weights are fewer, too."** A row of weights belongs to a query. Every head that asks has its own.
# - **"The root of $d_{model}$."** It is the width of the token. In the score of one head, only $D$ products are added up.
# - **"PyTorch returns the weights of every head."** It returns their mean, unless told otherwise, with
#   `average_attn_weights=False`. A mean map shows a head that does not exist.
# - **"The order of the heads matters."** The output is a sum over the heads. Heads have no rank and no fixed job: number
#   three in one model has nothing to do with number three in another.

# %% [markdown]
# ## 3. PyTorch's weights in your hands
#
# *Implement. Difficulty 3, about 25 minutes.*
#
# **Why it is worth doing.** Sooner or later you take over a model that somebody else trained. Its weights come as a
# dictionary of tensors, and nothing in it says which row does what. If one thing is misread, the shapes still fit.
#
# You compute what `nn.MultiheadAttention` computes, without it, from its `state_dict()`. The tall matrix `in_proj_weight`
# holds, from top to bottom, the matrices of queries, keys and values. `out_proj` is the fourth
# [projection](../book/pages/glossary.md#projection). All of them are kept as in `nn.Linear`, as (out, in), and all have
# biases. Return the weights of each head, not their mean.
#
# There is a trap. Unless it is told `batch_first=True`, PyTorch's module takes the *first* axis for time, and the second
# for the batch. See what happens to somebody who does not know. The cell changes the second sequence of a batch. Does the
# output of the first one change?

# %%
g = torch.Generator().manual_seed(seed(0))
x = torch.randn(2, 5, 12, generator=g)  # (B, T, d_model)
changed = x.clone()
changed[1] += 1.0  # the second sequence alone
for told in (False, True):
    theirs = nn.MultiheadAttention(12, num_heads=3, batch_first=told)
    before, _ = theirs(x, x, x)
    after, _ = theirs(changed, changed, changed)
    print(f"batch_first={told}: first sequence the same?", torch.allclose(before[0], after[0]))

# %% [markdown]
# With the default, the two sequences attended to each other, and no error was raised. Your function takes the same word,
# with the same default, and does the right thing in both cases. You may use what you wrote in exercise 1, and
# `scaled_dot_product_attention`.

# %%
def like_torch(
    state: dict[str, Tensor], num_heads: int, x: Tensor, batch_first: bool = False
) -> tuple[Tensor, Tensor]:
    """Self-attention as nn.MultiheadAttention with these weights computes it.

    state: its state_dict(): in_proj_weight (3 * d_model, d_model), in_proj_bias
        (3 * d_model,), out_proj.weight (d_model, d_model) and out_proj.bias (d_model,).
    num_heads: H, a divisor of d_model.
    x: (T, B, d_model), or, with batch_first, (B, T, d_model).

    Returns the output, its axes in the order of those of x, and the weights (B, H, T, T).
    Changes none of its inputs.
    """
    # BEGIN SOLUTION
    if not batch_first:
        x = x.transpose(0, 1)  # (B, T, d_model)
    thirds = zip(state["in_proj_weight"].chunk(3), state["in_proj_bias"].chunk(3), strict=True)
    query, key, value = (
        split_heads(nn.functional.linear(x, weight, bias), num_heads)  # (B, H, T, D)
        for weight, bias in thirds
    )
    result = scaled_dot_product_attention(query, key, value)  # weights: (B, H, T, T)
    merged = merge_heads(result.output)  # (B, T, d_model)
    output = nn.functional.linear(merged, state["out_proj.weight"], state["out_proj.bias"])
    return output if batch_first else output.transpose(0, 1), result.weights
    # END SOLUTION


# %% tags=["check"]
check("multi_head.like_torch", like_torch)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with `batch_first=True`, and make the queries alone. Which rows of the tall matrix do they need, and which entries
# of the tall bias? What does `nn.Linear` do with a matrix that it keeps as (out, in)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `chunk(3)` cuts along the first axis. `nn.functional.linear(x, weight, bias)` multiplies as `nn.Linear` does. For the
# other order of axes, do not write everything again: what can you do to `x` before, and to the output after?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# If time comes first, exchange the two first axes of `x`. Cut matrix and bias into three, project, split each result,
# attend, merge, and project once more with the weights of `out_proj`. If you exchanged axes at the beginning, exchange
# them in the output, but not in the weights, which have the batch first in any case.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Read the first axis as the batch, always.** This is the trap of the cell above. The output has the right
#   shape, so only its numbers tell. The weights have (T, H, B, B) then, and where B and T are equal, not even that shows.
# - **Multiply by `weight` where `weight.T` is meant.** The matrices are square, so both fit.
# - **Leave the biases out.** PyTorch starts them at zero: a test with a new module passes. With trained weights it would
#   not. So a test should fill everything with random numbers.
# - **Take the thirds in another order, or head by head.** Some models do keep query, key and value of each head together.
#   Only their code, or a comparison of numbers, can tell which is the case.
# - **Return the weights as PyTorch does by default.** Those are a mean over the heads, in which a sharp head and a
#   blurred one cannot be told apart.

# %% [markdown]
# ## 4. Grouped heads
#
# *Implement. Difficulty 3, about 25 minutes.*
#
# **Why it is worth doing.** A model that writes text keeps the keys and values of all earlier tokens, for every head.
# To keep fewer, many of today's models let several heads share them [@ainslie2023]: H heads ask, and only $H_{kv}$
# heads answer. The asking heads stand in groups of neighbours. With 4 that ask and 2 that answer, heads 0 and 1 use the
# first answering head, heads 2 and 3 the second one. With $H_{kv} = 1$ all share one; with $H_{kv} = H$ it is the
# module of the lesson.
#
# Keep the names `w_q`, `w_k`, `w_v` and `w_o`: the check loads weights of its own into your module. None of the four has a
# bias. `w_k` and `w_v` have $H_{kv} D$ outputs, the other two $d_{model}$. Numbers that do not divide each other are
# refused in the constructor, with an error that names both.

# %%
class GroupedQueryAttention(nn.Module):
    """Attention in which each answering head serves a group of asking heads.

    d_model: width of a token's vector.
    num_heads: H, the heads that ask; each is D = d_model / H wide.
    num_kv_heads: the heads that answer, with keys and values; each serves H / num_kv_heads.
    Raises ValueError if num_heads does not divide d_model, or num_kv_heads does not divide
    num_heads; its message names the two numbers that do not fit.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"num_heads: expected a divisor of {d_model}, got {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_kv_heads: expected a divisor of {num_heads}, got {num_kv_heads}"
            )
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        narrow = num_kv_heads * (d_model // num_heads)
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, narrow, bias=False)
        self.w_v = nn.Linear(d_model, narrow, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        # END SOLUTION

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Let every query attend to every key that the mask allows, in each head by itself.

        query: (B, T, d_model). key, value: (B, S, d_model).
        mask: boolean (T, S), True = may attend, for all sequences and heads; None = all may.
            A query that may attend to nothing gets zeros, as its weights and as its output,
            and leaves all gradients finite.
        Returns the output (B, T, d_model) and the weights (B, H, T, S).
        """
        # BEGIN SOLUTION
        q = split_heads(self.w_q(query), self.num_heads)  # (B, H, T, D)
        k = split_heads(self.w_k(key), self.num_kv_heads)  # (B, H_kv, S, D)
        v = split_heads(self.w_v(value), self.num_kv_heads)  # (B, H_kv, S, D)
        group = self.num_heads // self.num_kv_heads
        k, v = (part.repeat_interleave(group, dim=1) for part in (k, v))  # (B, H, S, D)
        result = scaled_dot_product_attention(q, k, v, mask)  # weights: (B, H, T, S)
        return self.w_o(merge_heads(result.output)), result.weights
        # END SOLUTION


# %% tags=["check"]
check("multi_head.GroupedQueryAttention", GroupedQueryAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the module of the lesson first, and check it with as many heads that answer as ask. Then ask what is smaller when
# fewer answer: which projections, and which tensors after the split?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Queries are split into H heads, keys and values into fewer. Before they meet, keys and values need a head for each head
# that asks. Write down for a small case, with 4 and 2, which answering head each asking head needs: is it
# `[0, 0, 1, 1]` or `[0, 1, 0, 1]`? PyTorch has a function for each of the two.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `repeat` lays the whole row out again and again; `repeat_interleave` repeats each entry before it goes on to the next.
# Along which axis, and how often? In the constructor, `%` tells whether one number divides another: look twice, and put
# both numbers into each message. `scaled_dot_product_attention` takes care of the mask and its empty rows.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`k.repeat(1, group, 1, 1)`, or `tile`.** It lays out `[0, 1, 0, 1]` where `[0, 0, 1, 1]` is meant. A model that is
#   trained with it works: its heads get used to their partners. A model that was trained elsewhere, and loaded, does not.
# - **Divide by the root of $d_{model}$.** A score is a sum of $D$ products, however many heads answer.
# - **Let pass what does not divide.** With 6 heads that ask and 4 that answer, `6 // 4` is 1, and the trouble shows much later,
#   as two sizes that do not match in the middle of a product.
# - **Return one table of weights for each answering head.** They share keys, not queries: each asking head has weights
#   of its own.
# - **Make the values from `key`.** In self-attention the two are one tensor, and nobody notices.

# %% [markdown]
# ## 5. The program that trains anyway
#
# *Repair. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A loss that falls is the proof that most people accept. The program below was written for one
# head, and later extended to several. It has **two** faults. Find both and repair them; nothing else has to change.

# %%
def multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """Self-attention of each sequence in x (B, T, d_model) by several heads, without a mask.

    w_q, w_k, w_v, w_o: (d_model, d_model), applied as x @ w. Returns (B, T, d_model).
    """
    B, T, d_model = x.shape
    D = d_model // num_heads
    query, key, value = (  # (B, H, T, D) each
        (x @ w).view(B, T, num_heads, D).transpose(1, 2) for w in (w_q, w_k, w_v)
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(D)  # (B, H, T, T)
    # BEGIN SOLUTION
    # STUB weights = torch.softmax(scores, dim=2)  # (B, H, T, T)
    # STUB output = weights @ value  # (B, H, T, D)
    # STUB return output.reshape(B, T, d_model) @ w_o
    weights = torch.softmax(scores, dim=-1)  # (B, H, T, T)
    output = (weights @ value).transpose(1, 2)  # (B, T, H, D)
    return output.reshape(B, T, d_model) @ w_o
    # END SOLUTION


# %% [markdown]
# Does it train? The job is that of the lesson: report at each position the two tokens before it, in order. The model
# below has four heads and uses whatever `multi_head` is in your notebook. It is trained on texts of 12 tokens. Then it is
# asked about texts of that length, and about shorter ones. **Look at the first bar, then at the others.**

# %%
class TwoBack(nn.Module):
    """Reports the two tokens before each position through one `multi_head`."""

    def __init__(self, num_tokens: int = 8, length: int = 12, d_model: int = 32) -> None:
        super().__init__()
        self.token = nn.Embedding(num_tokens, d_model)
        self.place = nn.Embedding(length, d_model)
        self.matrices = nn.ParameterList(
            torch.randn(d_model, d_model) / math.sqrt(d_model) for _ in range(4)
        )
        self.readout = nn.Linear(d_model, 2 * num_tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]  # (B, T, d_model)
        logits = self.readout(multi_head(x, *self.matrices, num_heads=4))
        return logits.unflatten(-1, (2, -1))[:, 2:]  # (B, T - 2, 2, num_tokens)


def two_back(g: torch.Generator, length: int, batch_size: int = 32):
    while True:
        tokens = torch.randint(8, (batch_size, length), generator=g)  # (B, T)
        yield tokens, torch.stack([tokens[:, 1:-1], tokens[:, :-2]], dim=-1)  # (B, T - 2, 2)


torch.manual_seed(seed(0))
g = torch.Generator().manual_seed(seed(1))
model = TwoBack()
training.fit(model, two_back(g, 12), steps=500, lr=3e-3)

shares = {}
for length in (12, 10, 8, 6):
    tokens, targets = next(two_back(g, length, batch_size=512))
    right = (model(tokens).argmax(dim=-1) == targets).all(dim=-1)  # (B, T - 2)
    shares[f"{length} tokens"] = right.float().mean().item()
plots.bars(
    shares, y="share of positions with both tokens right", guides={"chance": 1 / 64},
    alt="One bar for each length of text: the share of positions with both tokens right, for "
        "texts as long as those of the training and for three shorter lengths.",
)

# %% tags=["check"]
check("multi_head.multi_head", multi_head)

# %% [markdown] tags=["exercise-only"]
# With the program as it is given, the first bar is at or near one: it learned its job, whatever is wrong with it. The
# others are low. Nothing but the length has changed. What in the program could depend on it?

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not read the code first. Give the program cases whose result you know. What comes out where all tokens and all heads
# hand over the same values? And where all scores are alike, so that each position gets the mean?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With one head the scores had three axes, $(B, T, S)$. Which number had the axis of the keys then, and which one has it
# now? Print the sums of the weights along it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The other fault is in the way back from the heads to the tokens. Compare the order of the axes before the last reshape
# with the order that it reads them in. In exercise 1 you did it right.
#
# </details>

# %% [markdown] tags=["solution-only"]
# All four bars reach one now: a repaired program does what it learned at lengths that it never met.
#
# ### Why the tempting answers are wrong
#
# - **"It learns the job, so it is right."** A network learns round many a fault, as long as the fault is always the
#   same. The merge without a transpose mixes positions and heads in a fixed pattern. At a length of 12 the model gets used
#   to that pattern. At another length it is another pattern.
# - **"It needs more training, or more data."** At the length of the training nothing is missing.
# - **`dim=2` is the axis of the keys.** It was, with three axes. Now it is that of the queries: each key shares itself out.
#   An axis that is counted from the end, `dim=-1`, would have stayed right. Alone, this fault moves the bars only a little, and it
#   too is told by sums, not by a loss.
# - **`dim=1`.** That is the axis of the heads. They would compete with each other.
# - **Change the split.** It was right. A split with the same fault as the merge undoes it in shape, not in content: each
#   head would see a part of the text.

# %% [markdown]
# ## 6. Switch heads off
#
# *Explore. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A map shows where a head looks. Whether the head is needed is another question, and people
# have answered it too fast in both directions. The attention below has four heads. Its weights were set by hand for this
# exercise, so that you can find out everything about it. It names at each position the token one step back, and the token
# two steps back. **Look at the four maps first: which heads would you say do the work?**

# %%
attention = reporter()  # its output rates the 16 tokens, for one step back and for two
g = torch.Generator().manual_seed(seed(2))
tokens = torch.randint(16, (256, 12), generator=g)  # (B, T)
vectors, mask = as_vectors(tokens), causal_mask(12)  # (B, T, d_model), (T, T)
maps = attention(vectors, mask=mask).weights.mean(dim=0)  # (H, T, T)
plots.small_multiples(
    list(maps), titles=[f"head {h}" for h in range(4)], mask=mask,
    alt="Attention weights of four heads. Heads 0 and 3 look one step back, head 3 with much "
        "of its weight elsewhere; head 1 looks at the token itself, very sharply; head 2 "
        "looks two steps back.",
)

# %% [markdown]
# To switch a head off, its columns of $W^O$ are set to zero, as in the lesson. **Change `off` and run the cell again, as
# often as you need:** single heads first, then pairs.

# %%
off = []  # the heads to switch off, for instance [0] or [1, 3]


def shares_right(off: list[int]) -> dict[str, float]:
    """Share of positions at which each of the two tokens is named, without these heads."""
    reduced = copy.deepcopy(attention)
    for head in off:
        reduced.w_o.weight[:, head * 16 : (head + 1) * 16] = 0.0
    rated = reduced(vectors, mask=mask).output[:, 2:, :32].unflatten(-1, (2, 16))
    wanted = torch.stack([tokens[:, 1:-1], tokens[:, :-2]], dim=-1)  # (B, T - 2, 2)
    right = (rated.argmax(dim=-1) == wanted).float().mean(dim=(0, 1))  # (2,)
    return {"one step back": right[0].item(), "two steps back": right[1].item()}


plots.bars(
    shares_right(off), y="share of positions with the right token", guides={"chance": 1 / 16},
    alt="Two bars: the share of positions with the right token, for one step back and for two "
        "steps back, without the heads that are switched off.",
)

# %% [markdown]
# What did you find? A token is *lost* where its bar falls to chance. Heads are counted from 0.
#
# 1. Without which head is two steps back lost?
# 2. You switch off one head at a time, the others being on. How many of the heads show a loss?
# 3. One step back is lost only if two heads are off together. Which two? One of `"0 and 1"`, `"0 and 2"`, `"0 and 3"`,
#    `"1 and 2"`, `"1 and 3"`, `"2 and 3"`.
# 4. Which head can be off, whatever else is on or off, without making a difference?

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "two steps back is lost without head": None,
# STUB     "heads that show a loss when off alone": None,
# STUB     "one step back is lost without heads": None,
# STUB     "nothing ever needs head": None,
# STUB }
findings = {
    "two steps back is lost without head": 2,
    "heads that show a loss when off alone": 1,
    "one step back is lost without heads": "0 and 3",
    "nothing ever needs head": 1,
}
# END SOLUTION

# %% tags=["check"]
check("multi_head.findings", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not answer from the maps. Set `off = [0]`, then `off = [1]`, and so on, and write down both bars each time.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Some heads are not missed when they are off alone. That has two possible reasons: nobody needs what they do, or somebody
# else does it too. How can you tell the two apart?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# There are six pairs. Look for a pair that loses something which neither of its heads loses alone. The head that is in no
# such pair, and loses nothing alone, is the one of question 4.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Head 1 matters most: its map is the sharpest."** Its columns of $W^O$ are zero. What it finds reaches nobody. A map
#   shows where a head looks, not what becomes of it.
# - **"Head 3 does nothing: its map is blurred, and without it nothing is lost."** It does what head 0 does, more weakly, and
#   steps in when head 0 is gone.
# - **"Head 0 is not needed either."** Not while head 3 is there. Switching off one at a time shows what the *others* can do
#   without a head. For what it does, switch off its stand-ins as well.
# - **"Two jobs, so two heads show a loss."** Only the job that a single head does shows.
#
# In trained models such stand-ins are common. Lesson 17 looks for them in a real one.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 6, on positions: how a set becomes a sequence. The papers behind these exercises are @vaswani2017
# (section 3.2.2) and, for grouped heads, @ainslie2023.

# %%
progress("multi_head")
