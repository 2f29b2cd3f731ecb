# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 13: Long sequences
#
# Six exercises on [lesson 13](../notebooks/13_long_sequences.ipynb). You write the online softmax with hidden scores,
# causal attention in tiles with its backward pass, and a cache that forgets; predict what a model takes and count it;
# repair linear attention that reads ahead; and write a test for programs that work in tiles.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 5, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. You may leave an exercise out: nothing after it breaks. The hints are
# folded, and each says more than the one before.
#
# **How long:** about two and a half hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, T queries, S keys, $m$ a running maximum and $\ell$ a running sum.

# %% [markdown] tags=["solution-only"]
# # Solutions 13: Long sequences
#
# The [exercises of lesson 13](../exercises/13_long_sequences.ipynb) with an answer to each. It is one answer of many: a
# check accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise
# before you read its solution; what you found yourself stays with you.

# %%
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.checks import check, progress
from attnlab.memory import MIB, counted_peak

torch.set_num_threads(1)  # programs this small are not faster on two

# %% [markdown]
# ## 1. The online softmax
#
# *Implement. Difficulty 1, about 20 minutes.*
#
# **Why it is worth doing.** All exact attention in little memory rests on these few lines. The [online
# softmax](../book/pages/glossary.md#online-softmax) of the lesson took it for granted that every tile has a score. With
# masks that is not so: a tile may be hidden from a row altogether, and then its scores are $-\infty$. That is where
# programs turn into NaN.
#
# For each row find the largest score $m$ of all tiles, and the sum $\ell = \sum_j e^{s_j - m}$. Take the tiles one at a
# time, as if each were gone when the next one comes. A hidden score is $-\infty$ and adds nothing. A row that sees no
# score at all has $m = -\infty$ and $\ell = 0$.

# %%
def online_softmax(tiles: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Maximum and sum of each row, from tiles of its scores.

    tiles: at least one tensor (B, n) of scores; n differs from tile to tile, B does not.
        -inf marks a hidden score.

    Returns the maximum (B, 1), and the sum (B, 1) of the exponentials of the scores less
    that maximum.
    """
    # BEGIN SOLUTION
    m = torch.full_like(tiles[0][:, :1], -math.inf)                  # (B, 1)
    ell = torch.zeros_like(m)                                        # (B, 1)
    for tile in tiles:
        m_new = torch.maximum(m, tile.amax(dim=-1, keepdim=True))    # (B, 1)
        base = m_new.masked_fill(m_new == -math.inf, 0.0)            # nothing seen: take 0 off
        ell = (m - base).exp() * ell + (tile - base).exp().sum(dim=-1, keepdim=True)
        m = m_new
    return m, ell
    # END SOLUTION


# %% tags=["check"]
check("long_sequences.online_softmax", online_softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Carry two numbers for each row from tile to tile. What are they before the first tile? What is the largest of no
# numbers, and what is an empty sum?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The terms of the old sum were made with the old maximum. By which factor are they too large when the maximum has
# risen? Write the formula of the lesson; a keepdim saves you from wrong shapes.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Infinity less infinity is NaN. Where the new maximum is still minus infinity, take another number off, any finite one:
# all exponentials are zero there anyway. But keep the maximum itself as it is, for the next tile.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Begin with the maximum 0.** A row whose scores are all far below zero keeps it, and all its terms vanish: the sum is
#   0 and the output is divided by it.
# - **Add the new terms, then correct.** The new terms were made with the new maximum. Correct the old ones alone.
# - **Replace NaN by 0 at the end.** In the second tile the sum is multiplied by NaN, and NaN it stays, though keys have
#   come. What can be repaired at the end is only the row that saw none.
# - **Use one maximum for all rows.** It gives no overflow. But a row whose scores lie two hundred below has only terms
#   of $e^{-200}$, which is 0 in single precision.

# %% [markdown]
# ## 2. Attention in tiles, forward and backward
#
# *Implement. Difficulty 3, about 45 minutes.*
#
# **Why it is worth doing.** The lesson's program has no [mask](../book/pages/glossary.md#mask). A decoder needs one, and
# it has to be the same in both directions. Here you also see why the order of the two passes is what it is: what does the
# backward pass need that only the forward pass can give?
#
# Write *causal* [chunked attention](../book/pages/glossary.md#chunked-attention) and its gradients. Cut the keys into tiles
# of `key_chunk`; the queries can stay together. The last query stands at the last key: query $i$ sees key $j$ where $j \le
# i + S - T$. If there are more queries than keys, the first ones see nothing. Their outputs are zeros, and so are the
# gradients that come through them.
#
# You are given $G$, the gradient of the output. Do not use autograd: the point is to do without what it would keep.

# %%
def chunked_attention(
    query: Tensor, key: Tensor, value: Tensor, grad: Tensor, key_chunk: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Causal attention and its gradients, with scores for at most key_chunk keys at a time.

    query: (B, T, d_k). key: (B, S, d_k). value: (B, S, d_v).
    grad: (B, T, d_v), the gradient of the output.
    key_chunk: how many keys a tile has; the last tile may have fewer.

    Returns the output (B, T, d_v) and the gradients of query, key and value.
    """
    # BEGIN SOLUTION
    T, S, root = query.shape[1], key.shape[1], math.sqrt(query.shape[-1])
    places = torch.arange(T)[:, None] + S - T                            # (T, 1)

    def masked_scores(start: int) -> Tensor:
        part = key[:, start : start + key_chunk]                         # (B, n, d_k)
        seen = torch.arange(start, start + part.shape[1]) <= places      # (T, n)
        return (query @ part.mT / root).masked_fill(~seen, -math.inf)    # (B, T, n)

    m = torch.full_like(query[..., :1], -math.inf)                       # (B, T, 1)
    ell, a = torch.zeros_like(m), torch.zeros_like(grad)                 # a: (B, T, d_v)
    for start in range(0, S, key_chunk):
        scores = masked_scores(start)
        m_new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        base = m_new.masked_fill(m_new == -math.inf, 0.0)
        correction, terms = (m - base).exp(), (scores - base).exp()
        ell = correction * ell + terms.sum(dim=-1, keepdim=True)
        a = correction * a + terms @ value[:, start : start + key_chunk]
        m = m_new
    m, ell = m.masked_fill(ell == 0, 0.0), ell.masked_fill(ell == 0, 1.0)
    output = a / ell                                                     # (B, T, d_v)

    gradients = [torch.zeros_like(x) for x in (query, key, value)]
    mean = (grad * output).sum(dim=-1, keepdim=True)                     # (B, T, 1)
    for start in range(0, S, key_chunk):
        part = slice(start, start + key_chunk)
        weights = (masked_scores(start) - m).exp() / ell                 # (B, T, n)
        by_score = weights * (grad @ value[:, part].mT - mean) / root    # (B, T, n)
        gradients[0] += by_score @ key[:, part]
        gradients[1][:, part] = by_score.mT @ query
        gradients[2][:, part] = weights.mT @ grad
    return output, *gradients
    # END SOLUTION


# %% tags=["check"]
check("long_sequences.chunked_attention", chunked_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the forward pass first and run the check: it says whether the output is right. It is exercise 1 with a third
# running quantity. Put the scores of one tile, mask included, into a function of their own. You will call it twice.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For the backward pass go through the tiles again. A tile's weights are its exponentials less the row's final maximum,
# over the row's final sum. Then follow the lesson: the gradient of the values first, then that of the weights, then of the
# scores.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# What the softmax subtracts is the dot product of a row of the gradient with the same row of the output: one number for
# each query, made before the loop. The scores were divided by a root, so their gradient is divided by it as well. Each tile
# owns its keys and values, but all tiles add to the queries. For rows that see nothing, set the maximum to 0 and the sum to 1
# before you divide.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Subtract the mean over the tile.** The slopes of a softmax know the whole row: raising one score lowers all other
#   weights, those of other tiles too. That sum is $g \cdot o$.
# - **Leave the mask out the second time, "the forward pass has hidden those keys".** What is worked out again knows of no
#   mask. A hidden key would get weight, and a gradient.
# - **Count queries and keys from 0 alike.** It fits for $T = S$. With more keys than queries, the queries are the newest
#   positions, and would be kept from seeing keys that came long before.
# - **Correct the sum and forget the output.** Both are sums of the same exponentials. The quotient is then wrong from the
#   first tile on in which the maximum rises.

# %% [markdown]
# ## 3. Predict the memory of a model
#
# *Predict, then count. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** "Out of memory" comes after an hour's wait, or not at all if you can do this sum first.
#
# The model has 6 layers, 8 heads of width $d_k = d_v = 64$, and computes in single precision. A batch has 3 sequences of
# length 2048. MiB means $2^{20}$ bytes. Attention is explicit, as in the lesson, where nothing else is said.
#
# - `"one layer, scores and weights, MiB"`: both matrices, all heads, all sequences.
# - `"one layer, outputs of all heads, MiB"`.
# - `"training, weights kept by six layers, MiB"`: the backward pass of a softmax needs the weights and not the scores.
# - `"length 4096, scores and weights, times"`: by which factor the first number changes with the length.
# - `"16 heads of width 32, scores and weights, times"`: by which factor, with as wide a model.
# - `"half precision, scores and weights, times"`: by which factor, if a number takes two bytes.
# - `"chunked, numbers kept a query beside its output"`: what the lesson's forward pass saves for one query of one head.
# - `"linear, numbers in the state of one head"`: all that is carried from token to token.

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "one layer, scores and weights, MiB": None,
# STUB     "one layer, outputs of all heads, MiB": None,
# STUB     "training, weights kept by six layers, MiB": None,
# STUB     "length 4096, scores and weights, times": None,
# STUB     "16 heads of width 32, scores and weights, times": None,
# STUB     "half precision, scores and weights, times": None,
# STUB     "chunked, numbers kept a query beside its output": None,
# STUB     "linear, numbers in the state of one head": None,
# STUB }
matrix = 3 * 8 * 2048 * 2048 * 4 / 2**20    # one (B, H, T, T) in MiB
prediction = {
    "one layer, scores and weights, MiB": 2 * matrix,
    "one layer, outputs of all heads, MiB": 3 * 8 * 2048 * 64 * 4 / 2**20,
    "training, weights kept by six layers, MiB": 6 * matrix,
    "length 4096, scores and weights, times": 4,
    "16 heads of width 32, scores and weights, times": 2,
    "half precision, scores and weights, times": 0.5,
    "chunked, numbers kept a query beside its output": 2,      # the maximum and the sum
    "linear, numbers in the state of one head": 64 * 65,
}
# END SOLUTION

# %% tags=["check"]
check("long_sequences.memory", prediction)

# %% [markdown]
# Then count. The cell runs one such layer, and smaller ones for the factors. Change the sizes and see whether your formula
# still holds.

# %%
def explicit(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT    # (B, H, T, S)
    weights = F.softmax(scores, dim=-1)                       # (B, H, T, S)
    return weights @ value                                    # (B, H, T, d_v)


def layer_mib(B: int, H: int, T: int, D: int, dtype: torch.dtype = torch.float32) -> float:
    """The most that explicit attention holds at once, its output included."""
    with torch.inference_mode():
        qkv = torch.zeros(3, B, H, T, D, dtype=dtype)
        return counted_peak(lambda: explicit(*qkv)) / MIB


if None not in prediction.values():
    predicted = sum(list(prediction.values())[:2])
    print(f"one layer: predicted {predicted:.1f} MiB, counted {layer_mib(3, 8, 2048, 64):.1f}")
    small = layer_mib(1, 8, 512, 64)
    print(f"twice as long: {layer_mib(1, 8, 1024, 64) / small:.2f} times, with the output")
    print(f"more heads:    {layer_mib(1, 16, 512, 32) / small:.2f} times, with the output")
    half = layer_mib(1, 8, 512, 64, torch.float16)
    print(f"half precision: {half / small:.2f} times")

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down the shape of each tensor first, with all its axes. The number of entries is their product.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Which of the sizes stand in the shape of the scores: sequences, heads, queries, keys, width? A factor that is not in the
# shape changes nothing.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scores and weights have a shape without the width, outputs one without the keys. For the state, look at what the lesson
# adds up from token to token: there are two sums, one above the fraction line and one below.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Sixteen heads of half the width take the same."** Queries, keys and values do. A matrix of scores has no axis of the
#   width, and there are more of them, one for each head.
# - **"Half precision takes a quarter."** That is the effect of half the *length*. Here the numbers stay as many.
# - **"Training keeps one layer's weights at a time."** The backward pass begins when the forward pass has ended, so all six
#   layers have to wait.
# - **"Linear attention's state is $d_k \times d_v$."** That is the numerator. The denominator's sum of features is another
#   $d_k$ numbers.

# %% [markdown]
# ## 4. A sliding cache
#
# *Implement. Difficulty 2, about 30 minutes.*
#
# **Why it is worth doing.** When a model writes a text token by token, the keys and values of earlier tokens do not change.
# So they are kept, in a *cache*. It grows with the text, unless attention has a [sliding
# window](../book/pages/glossary.md#sliding-window): then the oldest can go, and the memory of a chat stays the same however
# long it gets. The trap is that tokens may come one at a time or several at once.
#
# Each call brings $n$ new tokens, which stand behind all that came before. A query sees its own position and the
# `window - 1` before it, be they in the cache or among the new ones, and nothing later. Return the outputs, and the cache for
# the next call: the keys and values of the newest `window - 1` positions, the oldest first, or of all positions while there
# are fewer. In the first call the cache is `None`.

# %%
def cached_step(
    query: Tensor, key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor] | None, window: int
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Let n new tokens attend to themselves and to what the cache holds.

    query, key: (B, n, d_k). value: (B, n, d_v).
    cache: keys (B, c, d_k) and values (B, c, d_v) of the positions before, or None.
    window: how many positions a query sees, its own included; at least 1.

    Returns the output (B, n, d_v), and the new cache: its keys and its values, together as a
    tuple, of min(window - 1, all positions so far) positions.
    """
    # BEGIN SOLUTION
    if cache is None:
        cache = key[:, :0], value[:, :0]
    held = cache[0].shape[1]
    keys = torch.cat([cache[0], key], dim=1)                           # (B, held + n, d_k)
    values = torch.cat([cache[1], value], dim=1)                       # (B, held + n, d_v)
    at = held + torch.arange(query.shape[1])[:, None]                  # (n, 1)
    to = torch.arange(keys.shape[1])                                   # (held + n,)
    seen = (to <= at) & (to > at - window)                             # (n, held + n)
    output = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
    first = max(0, keys.shape[1] - (window - 1))
    return output, (keys[:, first:], values[:, first:])
    # END SOLUTION


# %% tags=["check"]
check("long_sequences.cached_step", cached_step)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Put old and new keys into one list first. At which place of this list does the first new query stand?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two comparisons make the mask: not after the query's place, and not further back than the window. Only when all queries have
# looked may anything be let go.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A slice from `-(window - 1)` on keeps too much when the window is 1, for `-0` is 0. Compute where the kept part begins, and
# do not let it fall below 0.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Cut to the window, then attend.** With one new token it fits. With three, the first of them may look two positions
#   further back than the last, and those are gone.
# - **Attend to all that the cache holds.** With one new token it fits again, since the cache was cut. Of several, the last
#   sees too far back and the first sees those behind it.
# - **Keep `window` positions.** The next query is itself one of its window. It needs one position less from the past.
# - **Count the new queries from 0.** They stand behind the cache. Counted from 0, they see the oldest keys and not
#   themselves.

# %% [markdown]
# ## 5. Repair a program that reads ahead
#
# *Repair. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A causal model that sees a little of the future trains wonderfully and writes badly: when it
# writes, there is no future to see. In [linear attention](../book/pages/glossary.md#linear-attention) no mask shows where it
# leaks. The program below should let each position see itself and those before it. It has **two** faults. Repair both, and
# change nothing else.

# %%
def causal_linear(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal linear attention, one position at a time, with the features elu(x) + 1.

    query, key: (T, d_k). value: (T, d_v). Returns the output (T, d_v).
    """
    q, k = F.elu(query) + 1, F.elu(key) + 1                   # (T, d_k) each
    state = torch.zeros(key.shape[-1], value.shape[-1])       # (d_k, d_v)
    # BEGIN SOLUTION
    # STUB total = k.sum(dim=0)                                      # (d_k,)
    # STUB outputs = []
    # STUB for t in range(len(q)):
    # STUB     divisor = (q[t] @ total).clamp(min=1e-6)
    # STUB     outputs.append(q[t] @ state / divisor)                # (d_v,)
    # STUB     state = state + torch.outer(k[t], value[t])           # (d_k, d_v)
    total = torch.zeros(key.shape[-1])                        # (d_k,)
    outputs = []
    for t in range(len(q)):
        state = state + torch.outer(k[t], value[t])           # (d_k, d_v)
        total = total + k[t]                                  # (d_k,)
        divisor = (q[t] @ total).clamp(min=1e-6)
        outputs.append(q[t] @ state / divisor)                # (d_v,)
    # END SOLUTION
    return torch.stack(outputs)                               # (T, d_v)


# %% tags=["check"]
check("long_sequences.causal_linear", causal_linear)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What should the first position give, which sees only itself? Try it. Then change the last key and look which outputs
# change.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two things are added up over the positions, one above the fraction line and one below. At position `t`, which positions
# must be in each?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The sum below the line is made before the loop, of all keys. The one above is read before the position itself has been added.
# Treat both alike.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"A sum of keys is no content, so it cannot leak."** It tells how many keys of which kind are still to come. A model
#   finds and uses that.
# - **Add later keys to the state as well, "so that both fit".** Then the output is that of attention without a mask.
# - **Leave the order, and start the loop's sum with the first key.** Each position would see one too many below the line and
#   one too few above.
# - **Raise the clamp until the first output looks right.** The clamp is for sums that vanish. The first output is wrong because
#   its state is empty.

# %% [markdown]
# ## 6. A test for tiles
#
# *Write a test. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** A program that works in tiles can be right on every small example and wrong on the first real
# one: a single tile needs no correction. So the example has to be chosen with the program's weak places in mind.
#
# Your test is given a function that is called as `attend(query, key, value)` and returns the output of attention, without a
# mask. Some of the functions work in tiles of at most four keys. The check hands it four right ones and nine wrong ones. All
# run and return the right shape.
#
# Refuse a wrong function with an `assert` that fails. Let a right one pass: it may add in another order or compute in
# another number type, so that single precision can be off by a few parts in a hundred thousand. You may compare with
# `F.scaled_dot_product_attention`. A right function has finite outputs even where scores are in the hundreds.

# %%
def test_tiles(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Fail with an AssertionError if this attention function is wrong.

    attend: called as attend(query, key, value) with (B, T, d_k), (B, S, d_k), (B, S, d_v);
    returns the output (B, T, d_v).
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    query = torch.randn(2, 3, 5, generator=g)                  # (B, T, d_k)
    key = torch.randn(2, 10, 5, generator=g)                   # (B, S, d_k), 2.5 tiles
    value = torch.randn(2, 10, 6, generator=g)                 # (B, S, d_v)
    rising = key * torch.linspace(0.5, 3.0, 10)[:, None]       # later keys have larger scores
    far_apart = query * torch.tensor([1.0, 200.0, 5.0])[:, None]
    for q, k in [(query, rising), (far_apart, key), (60 * query, rising)]:
        output = attend(q, k, value)
        expected = F.scaled_dot_product_attention(q.double(), k.double(), value.double())
        assert output.isfinite().all(), "an output is not finite"
        assert torch.allclose(output.double(), expected, atol=1e-3), "an output is wrong"
    # END SOLUTION


# %% tags=["check"]
check("long_sequences.test_tiles", test_tiles)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# List what a tiled program has to get right: the last tile, the maximum, two corrections, more keys than queries, widths
# that differ. For each, which inputs would show it if it were wrong?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A correction that is left out shows only where the maximum rises from one tile to the next. A maximum that is left out shows
# only where scores are large. And a maximum that belongs to another row shows only where rows are far apart.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take more keys than queries, not a multiple of four, and values of another width. Call the function with several sets of
# inputs: ordinary ones, keys that get longer towards the end, and queries of which one is two hundred times as long as another.
# Ask for finite numbers and for closeness.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **One random example.** Its scores are small, so a missing maximum does no harm. If its first tile happens to hold the
#   largest scores, a missing correction does little, too.
# - **Large scores in every row.** Then one maximum for all rows is good enough. It takes a row far below.
# - **As many keys as queries, and 8 of them.** A program that stops at T keys passes, and so does one that forgets a last, smaller
#   tile.
# - **Compare to two digits.** A program that rounds its inputs to half precision passes.

# %% [markdown]
# ## Where you stand
#
# The papers behind these exercises are @milakov2018 (section 3) for the online softmax, @dao2022 (section 3.1 and appendix B)
# for the tiles, @beltagy2020 (section 3.1) for the window and @katharopoulos2020 (sections 3.2 and 3.4) for linear attention.

# %%
progress("long_sequences")
