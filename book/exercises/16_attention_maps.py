# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 16: Attention maps
#
# Five exercises on [lesson 16](../notebooks/16_attention_maps.ipynb). You predict what maps and their arithmetic give, build
# attention rollout, measure what is missed when a token is gone, find the sink among heads that only look like one, and
# refute claims that were read off a map.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell.
# Then run the check below it, as often as you like. It gives points, and where it knows your mistake, it names it.
# The hints are folded, and each says more than the one before.
#
# **How long:** about an hour and a quarter for all five. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: L layers, B sequences, H heads, T positions.

# %% [markdown] tags=["solution-only"]
# # Solutions 16: Attention maps
#
# The [exercises of lesson 16](../exercises/16_attention_maps.ipynb) with an answer to each. It is one answer of many: a check
# accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab import plots, seed
from attnlab.attention import causal_mask
from attnlab.checks import check, progress
from attnlab.checks.ch16_attention_maps.puzzle import encode, hand_made, mystery_maps

# %% [markdown]
# ## 1. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** Most misreadings of maps are small sums that nobody did. Fill in all six before you run
# anything. Then run the check, and the measurement below it.
#
# 1. In both layers of a model the third token looks at the second with all of its
#    [weight](../book/pages/glossary.md#attention-weight), the second at the first, and the first at itself. How much of the
#    first token does [rollout](../book/pages/glossary.md#attention-rollout) give to the third? Give a number.
# 2. A [head](../book/pages/glossary.md#head) has values that are $d_v = 16$ wide, and a query sees 40 keys. In how many
#    independent directions can its weights move without a change of the output, if they keep their sum and signs are no
#    matter?
# 3. The same for 12 keys.
# 4. A program returns its weights after [dropout](../book/pages/glossary.md#dropout), in training. Its rows sum to
#    `"always 1"`, `"1 on average"` or `"always below 1"`?
# 5. Four heads give a word the weights 1, 1, 0 and 0. What does a map show that averages over heads?
# 6. A key that had weight is hidden by the [mask](../book/pages/glossary.md#mask). What do the weights of the other keys
#    do: `"grow"`, `"stay"` or `"shrink"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "rollout, third token to first": None,
# STUB     "40 keys, d_v = 16, free directions": None,
# STUB     "12 keys, d_v = 16, free directions": None,
# STUB     "rows of weights after dropout": None,
# STUB     "mean of heads 1, 1, 0, 0": None,
# STUB     "a key is hidden, weights of the others": None,
# STUB }
prediction = {
    "rollout, third token to first": 1 / 4,
    "40 keys, d_v = 16, free directions": 40 - (16 + 1),
    "12 keys, d_v = 16, free directions": 0,
    "rows of weights after dropout": "1 on average",
    "mean of heads 1, 1, 0, 0": 1 / 2,
    "a key is hidden, weights of the others": "grow",
}
# END SOLUTION

# %% tags=["check"]
check("attention_maps.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For rollout, draw three dots for each layer. A half of each dot comes from straight below, a half from where the map
# points. Follow the paths from the third dot at the top to the first at the bottom.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# An output of $d_v$ numbers fixes $d_v$ sums of the weights. Which sum must stay besides these? And what if there are fewer
# keys than conditions?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Dropout with the share $p$ sets a weight to zero, or divides it by $1 - p$. What is the mean of the two? And where does a
# mask act: before the softmax, or after it?
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def measure_predictions() -> dict[str, object]:
    g = torch.Generator().manual_seed(seed(0))
    torch.manual_seed(seed(1))
    A = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])                    # (T, T)
    step = (A + torch.eye(3)) / 2
    free = {n: n - torch.linalg.matrix_rank(
        torch.cat([torch.randn(n, 16, generator=g), torch.ones(n, 1)], dim=1)).item()
        for n in (40, 12)}
    weights = torch.randn(2000, 8, generator=g).softmax(dim=-1)
    sums = F.dropout(weights, 0.4).sum(dim=-1)
    scores = torch.randn(5, generator=g)
    others = scores[1:].softmax(dim=-1) / scores.softmax(dim=-1)[1:]
    return {"1. rollout, third to first": (step @ step)[2, 0].item(),
            "2. free directions, 40 keys": free[40],
            "3. free directions, 12 keys": free[12],
            "4. mean, smallest and largest row sum": [
                round(x.item(), 1) for x in (sums.mean(), sums.min(), sums.max())],
            "5. mean of the four heads": torch.tensor([1.0, 1, 0, 0]).mean().item(),
            "6. smallest factor of the other weights is above 1": bool(others.min() > 1)}


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The third token looks at the second, so nothing comes from the first."** The upper map speaks of what stands at the
#   second place by then, and half of that has come from the first.
# - **Forget the sum.** The weights must still sum to one: a condition on top of the $d_v$ of the output.
# - **"Rows sum to one, it is a softmax."** Dropout comes after it, and what is left is scaled, not divided by its sum.
# - **"Hidden keys leave a gap."** That would be so if weights were set to zero after the softmax. A mask acts before it, so
#   that the others share the whole.

# %% [markdown]
# ## 2. Attention rollout
#
# *Implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A map of an upper layer speaks of places, not of tokens. Rollout is the simplest way to follow
# the weight down to the tokens, and half a dozen slightly wrong versions of it are about, all of which draw a nice picture.
#
# $$\hat A = \tfrac12 A + \tfrac12 I, \qquad R = \hat A_L \cdots \hat A_2 \hat A_1 ,$$
#
# where $A$ is the average of a layer's heads.

# %%
def rollout(maps: Tensor) -> Tensor:
    """What each position of the last layer is made of, by attention rollout.

    maps: (L, B, H, T, T), the weights of all layers, the first one first; rows sum to 1.

    Returns (B, T, T): row t says how much of each input token there is at position t.
    Changes none of its inputs.
    """
    # BEGIN SOLUTION
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    flow = identity
    for weights in maps:                                                     # (B, H, T, T)
        step = (weights.mean(dim=1) + identity) / 2                          # (B, T, T)
        flow = step @ flow                                                   # (B, T, T)
    return flow
    # END SOLUTION


# %% tags=["check"]
check("attention_maps.rollout", rollout)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with one layer. What is the rollout of a layer that attends to nothing new, each token to itself? And what of the
# identity $I$, which is the map of the residual connection?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Check the row sums after each layer. And think of the order: a row of the *last* map is asked first. Its columns are
# positions of the layer below, and so are the rows of the next matrix.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Start from the identity and go through the layers from below. In each: average over the axis of heads, add the identity,
# halve, and put this matrix to the *left* of what you have so far.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Multiply the maps alone.** The residual connection keeps a token's own vector through all layers. Without it, the
#   tokens that heads do not look at vanish from the picture.
# - **Add the identity without halving.** Rows then sum to two in each layer, and to $2^L$ at the end.
# - **Multiply in the other order.** Matrices do not commute. A row of the last map must meet the rows of the map below.
# - **Average the layers.** That shows which links exist somewhere, not the paths that they make together.
# - **Take the largest head.** Some programs do so, to see more. It is another method, and its rows do not sum to one.

# %% [markdown]
# ## 3. What is missed when it is gone
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** This is the experiment that a map cannot replace. Once you have it as a function, you can hold
# every reading of a map against it.
#
# The model is handed in as a function `predict(tokens, mask)`. To remove token $j$, hide it from all *other* positions; it
# still sees itself, so that its own row stays as it is. Start from a [causal
# mask](../book/pages/glossary.md#causal-mask). The effect is the shift of the prediction: half of the summed differences
# of the two probability distributions.

# %%
def removal_effects(predict, tokens: Tensor) -> Tensor:
    """How far each query's prediction shifts when a token is hidden from the others.

    predict: called as predict(tokens, mask) with a boolean mask (T, T), True = may attend;
        returns logits (B, T, V).
    tokens: (B, T).

    Returns (B, T, T): entry (t, j) is the effect on query t of removing token j, from 0 to 1.
    """
    # BEGIN SOLUTION
    T = tokens.shape[1]
    before = predict(tokens, causal_mask(T)).softmax(dim=-1)                 # (B, T, V)
    effects = []
    for j in range(T):
        mask = causal_mask(T)                                                # (T, T)
        mask[:, j] = False
        mask[j, j] = True
        after = predict(tokens, mask).softmax(dim=-1)                        # (B, T, V)
        effects.append((before - after).abs().sum(dim=-1) / 2)               # (B, T)
    return torch.stack(effects, dim=-1)                                      # (B, T, T)
    # END SOLUTION


# %% tags=["check"]
check("attention_maps.removal_effects", removal_effects)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# One removal first. Write down the mask of four tokens in which nobody but token 1 sees token 1. Is it a row or a column
# that changed?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each removal starts from a fresh mask, or the hidden tokens add up. And compare what a reader of the predictions sees:
# probabilities, not logits.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For each removal you get one number a query: shape (B, T). These are the *columns* of the result. On which axis must
# `torch.stack` put them?
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Hide a row of the mask.** That takes away what one query *sees*. To remove a token, take it from the sight of others.
# - **Hide the token from itself as well.** Its own row then changes, and the first position is left with nothing.
# - **Compare logits.** Add a number to all logits, and no prediction changes; the difference does.
# - **Leave out the absolute value.** Both distributions sum to one, so signed differences cancel to zero, always.
# - **Set weights to zero after the softmax.** This is another removal: the other keys do not take over. It asks what the
#   token *contributed*, not what the model does without it.

# %% [markdown]
# ## 4. Find the sink
#
# *Measure. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A dark column is not yet an [attention sink](../book/pages/glossary.md#attention-sink). Under a
# causal mask the first query can see nothing but the first key, and the second must choose from two: early columns are dark
# in *every* head. And one dark cell is not a column.
#
# Below are two layers of three heads on one text of ten tokens. In exactly one head, most queries behind a certain key give
# it far more than their equal share. Which one is it, and how much do the queries *behind* that key give it on average?

# %%
unknown = mystery_maps()                                                     # (2, 3, 10, 10)
plots.small_multiples(
    [head for layer in unknown for head in layer],
    titles=[f"layer {layer}, head {head}" for layer in (0, 1) for head in (0, 1, 2)],
    mask=causal_mask(10),
    alt="Six maps of ten tokens under a causal mask. Several have dark cells or dark columns, "
        "and one of them is a sink.")

# %%
# BEGIN SOLUTION
# STUB sink = {"layer": None, "head": None, "key": None, "weight": None}   # counted from 0
# What each key gets from later queries, by layer and head: (L, H, 7).
received = torch.stack([unknown[..., j + 1:, j].mean(dim=-1) for j in range(7)], dim=-1)
share = torch.stack([(1 / torch.arange(j + 2.0, 11)).mean() for j in range(7)])          # (7,)
layer, head, key = torch.unravel_index((received - share).argmax(), received.shape)
sink = {"layer": layer.item(), "head": head.item(), "key": key.item(),
        "weight": received[layer, head, key].item()}
# END SOLUTION

# %% tags=["check"]
check("attention_maps.sink", sink)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What would the columns of a head look like that spreads its weight evenly over all that it may see? One of the six is such
# a head. Compare the others with it.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For each head and key, take the mean over the rows *below* the diagonal of that column: the queries that come later. Leave
# out keys that hardly any query comes after.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A query at position $t$ sees $t + 1$ keys, so its equal share is $1 / (t + 1)$. Subtract the mean of these shares from
# the mean weight. The largest difference is the sink's.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Take the first key of the even head.** Its column is dark at the top because early queries have little choice.
# - **Take the darkest cell.** One query that looks hard at one key is looking something up. A sink takes from most.
# - **Average over all ten rows.** Queries before the key cannot see it. Their zeros come from the mask.
# - **Include the key's own row.** It answers another question: what the token does when it is its own turn.
#
# Whether a sink *says* anything does not show in a map. For that you look at its value, or take it away.

# %% [markdown]
# ## 5. Refute what a map seems to say
#
# *Explore. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** "The map shows that the model uses this word" is written every day. Here you decide by
# experiment. The model `hand_made(tokens, mask)` reads notes as in the lesson: it has two layers of one head, and its
# parameters were set by hand. It returns logits over the digits, and its maps.
#
# The figure shows both maps for a text that ends with `b`, which was followed by `7` before. Change `text` and look at the
# other text, too: it ends with `c`, which was followed by `1` twice.

# %%
text = "^ a 3 b 7 c 1 c 1 b"          # and then: "^ a 3 b 7 c 1 c 1 c"
words = text.split()
made_maps = hand_made(encode(text))[1]                                       # (2, 1, T, T)
plots.small_multiples(
    [layer[0] for layer in made_maps], titles=["layer 1", "layer 2"],
    rows=words, columns=words,
    mask=causal_mask(len(words)),
    alt="Two maps of one text. In layer 1 each token looks at the token before it. In layer 2 "
        "known letters look at the digit behind their earlier copy, all other tokens at the "
        "start mark.")

# %% [markdown]
# Four claims about the prediction of the **last** token:
#
# 1. *The 7 matters.* (Text ending with `b`: layer 2 gives it nearly all of the weight.)
# 2. *The first b does not matter.* (Text ending with `b`: layer 2 gives it no weight.)
# 3. *Each 1 matters.* (Text ending with `c`: layer 2 gives each of them half of the weight.)
# 4. *The token before matters.* (Text ending with `b`: in layer 1 the last token gives it nearly all of the weight.)
#
# Say of each whether it `"holds"` or is `"refuted"`: a token matters if hiding it from the others shifts the prediction by
# more than [[=0.1]]. And give the effect of hiding the first `b`, in the text that ends with `b`.

# %%
# BEGIN SOLUTION
# STUB claims = {
# STUB     "the 7 matters": None,
# STUB     "the first b does not matter": None,
# STUB     "each 1 matters": None,
# STUB     "the token before matters": None,
# STUB     "effect of hiding the first b": None,
# STUB }
def last_row(text: str) -> Tensor:
    effects = removal_effects(lambda tokens, mask: hand_made(tokens, mask)[0], encode(text))
    return effects[0, -1]                                                    # (T,)


with_b, with_c = last_row("^ a 3 b 7 c 1 c 1 b"), last_row("^ a 3 b 7 c 1 c 1 c")
truth = {True: "holds", False: "refuted"}
claims = {
    "the 7 matters": truth[bool(with_b[4] > 0.1)],
    "the first b does not matter": truth[bool(with_b[3] <= 0.1)],
    "each 1 matters": truth[bool(with_c[6] > 0.1 and with_c[8] > 0.1)],
    "the token before matters": truth[bool(with_b[8] > 0.1)],
    "effect of hiding the first b": with_b[3].item(),
}
# END SOLUTION

# %% tags=["check"]
check("attention_maps.claims", claims)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# You have written the tool in exercise 3. It wants a function that returns logits alone; `hand_made` returns a pair.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Take the last row of the effects, and read it beside the words. Which entries are not near zero? For the third claim the
# text has to be the other one.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `lambda tokens, mask: hand_made(tokens, mask)[0]` is the function to hand in. The first `b` stands at position 3, the 7 at
# position 4, and the two 1s at 6 and 8.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"No weight, so not used."** Layer 1 carried the `b` to the 7. Layer 2 finds the 7 *because* a `b` stands there by now.
# - **"Half of the weight, so half of the answer."** Hide one 1, and the softmax gives the other all of the weight.
# - **"A weight of nearly one must do something."** In layer 1 every token looks one back. Nobody uses what the last token
#   found there: its own question is made from itself.
# - **"So maps are worthless."** The first claim holds. A map is a good place to find a claim, and no place to prove it.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 17, which switches heads off and asks what they compute. The papers behind these exercises are
# @abnar2020 (section 3) and @jain2019 (section 4).

# %%
progress("attention_maps")
