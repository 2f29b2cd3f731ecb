# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Masks
#
# **Who may look at whom?**
#
# In lesson 3 every [query](../book/pages/glossary.md#query) could attend to every [key](../book/pages/glossary.md#key).
# Often that must not be. A [mask](../book/pages/glossary.md#mask) is a table of yes and no that says which query may
# see which key. It is three lines of code, and the source of more silent mistakes than any other three lines of a
# [Transformer](../book/pages/glossary.md#transformer).
#
# **You will be able to**
#
# - build the three masks that a Transformer needs, causal, padding and cross, and combine them;
# - translate between the three conventions for a mask, and tell from one small input which one a function has;
# - write a [softmax](../book/pages/glossary.md#softmax) that survives a row without any key, in value, in gradient and
#   in half precision;
# - find a leak from the future with a gradient, and recognise one from a loss that is too good.
#
# **Before you start** you should know lesson 3, and how PyTorch lines up axes of different length
# (broadcasting).
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, contracts, plots, seed, training
from attnlab.attention import SelfAttention
from attnlab.widgets import MaskPainter

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## Two reasons to hide a key
#
# **The future.** A model that writes text predicts each [token](../book/pages/glossary.md#token) from those before it.
# In training the whole text is there, and all positions are computed at once. Nothing but a mask keeps position 3
# from reading token 4, which is the answer that it is asked for.
#
# **Padding.** Sequences of a [batch](../book/pages/glossary.md#batch) share one tensor, so short ones are filled up
# with a token that means nothing. This filling is [padding](../book/pages/glossary.md#padding). A real token must
# not attend to it, or its output would depend on how long its neighbours in the batch happen to be.
#
# Write the mask as a matrix $M$ with a row for each of the $T$ queries and a column for each of the $S$ keys.
# $M_{ij}$ is true where query $i$ **may** attend to key $j$. The softmax then shares out the weight among the allowed
# keys only:
#
# $$w_{ij} = \frac{M_{ij}\, e^{s_{ij}}}{\sum_{l} M_{il}\, e^{s_{il}}} .$$
#
# ## By hand
#
# Three tokens with the [values](../book/pages/glossary.md#value) 1, 2 and 4. Let all
# [scores](../book/pages/glossary.md#score) be zero, so that $e^{s} = 1$ and every allowed key counts alike. Each
# position may see itself and what came before. This is the [causal mask](../book/pages/glossary.md#causal-mask), a
# triangle:

# %%
causal = torch.ones(3, 3, dtype=torch.bool).tril()    # (T, S): ones on and below the diagonal
causal

# %% [markdown]
# The first query sees one value, 1. The second sees two, and their mean is $(1 + 2)/2 = 1.5$. The third sees all
# three: $(1 + 2 + 4)/3 = 7/3$. In code the hidden scores become $-\infty$ before the softmax, since
# $e^{-\infty} = 0$:

# %%
def masked_attention(Q, K, V, mask):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])    # (..., T, S)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights @ V, weights                                  # (..., T, d_v), (..., T, S)


zeros, V = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]])    # (T, 1), (S, 1)
by_formula, weights = masked_attention(zeros, zeros, V, causal)
claim("second_output", by_formula[1].item(), equals=1.5)
claim("third_output", by_formula[2].item(), at_least=2.3333, at_most=2.3334)
by_formula.flatten(), weights

# %% [markdown]
# The same numbers, and each row of weights sums to one over what it may see.
#
# Why *before* the softmax? It would be easier to set the hidden weights to zero afterwards. **Guess what the rows
# would then sum to.**

# %%
late = torch.zeros(3, 3).softmax(dim=-1) * causal    # (T, S): zeroed after the softmax
claim("late_first_row", late[0].sum().item(), at_least=0.333, at_most=0.334)
late.sum(dim=-1)

# %% [markdown]
# The first row sums to [[late_first_row:.2f]], and only the last one to a whole: the hidden keys have still taken their
# share, since their scores stand in the sum below the fraction line. The output shrinks, and by an amount that depends
# on the future, which was to be hidden.
#
# ## Causal, with fewer queries than keys
#
# When a model writes, it adds one token at a time, and the keys of the earlier ones are kept (lesson 11). Then
# $T < S$, and the question is where the triangle starts. The queries are the *newest* positions. So the last query
# must see the last key, and the diagonal moves right by $S - T$:

# %%
def causal_mask(num_queries, num_keys):
    everything = torch.ones(num_queries, num_keys, dtype=torch.bool)
    return everything.tril(diagonal=num_keys - num_queries)      # (T, S)


print(causal_mask(5, 5).int())
print(causal_mask(2, 5).int())

# %% [markdown]
# The second table is the last two rows of the first, as it must be: which of the queries you ask in one call must not
# change whom they may look at. A triangle that starts at the left edge, `tril()` without the shift, would let the
# newest token see the oldest two keys only.
#
# ## Padding
#
# The [padding mask](../book/pages/glossary.md#padding-mask) comes from the lengths. Three sequences of 5, 2 and 3 tokens share a tensor of $S = 5$ columns. Column $j$ is real where $j$ is smaller than
# the length. The result gets an axis of length 1 in the middle, for the queries: what is padding is padding for all
# of them.

# %%
def padding_mask(lengths, max_len):
    real = torch.arange(max_len) < torch.as_tensor(lengths)[:, None]    # (B, S)
    return real[:, None, :]                                             # (B, 1, S)


lengths = [5, 2, 3]
padding_mask(lengths, 5).int()

# %% [markdown]
# Masks of one convention combine by `&`: a key must be allowed by both. The shapes $(T, S)$ and $(B, 1, S)$ broadcast
# to $(B, T, S)$, a matrix for each sequence.
#
# In the next figure, look at the last columns of the second and the third map. They are hidden from everybody, also
# from the rows of the padding itself.

# %%
both = causal_mask(5, 5) & padding_mask(lengths, 5)    # (B, T, S)
x = torch.randn(3, 5, 8, generator=generator)          # (B, T, D)
output, weights = masked_attention(x, x, x, both)
plots.small_multiples(
    list(weights), mask=both.numpy(), titles=[f"{n} real tokens" for n in lengths],
    alt="Attention weights of three sequences under a causal and a padding mask. Hidden cells "
        "are hatched: everything above the diagonal, and the columns behind each sequence's "
        "length. In each row the allowed weights share the whole.")

# %% [markdown]
# The rows of padding still get weights and an output. That does no harm as long as nobody reads them: the
# [loss](../book/pages/glossary.md#loss) leaves them out (lesson 9).
#
# Does the mask do what it is for? The [contract](../book/pages/glossary.md#contract) `padding_blind` replaces the
# padding by noise and demands that no real output changes, and that no gradient reaches the padding.

# %%
real = padding_mask(lengths, 5)[:, 0]                  # (B, S)
contracts.padding_blind(lambda x: masked_attention(x, x, x, both)[0], x, real)
try:
    contracts.padding_blind(lambda x: F.scaled_dot_product_attention(x, x, x), x, real)
except AssertionError as error:
    print("without a mask:", str(error).split(":")[0])

# %% [markdown]
# ## Cross
#
# In a translator the queries come from the target and the keys from the source
# ([cross-attention](../book/pages/glossary.md#cross-attention), lesson 8). The mask then has $T$ rows for the target
# and $S$ columns for the source, and what it hides is the padding of the *source*. There is no triangle: every target
# word may read the whole source, which is finished before the first word is written.

# %%
source_lengths, T, S = [4, 7, 5], 3, 7
Q, K, V = (torch.randn(3, length, 8, generator=generator) for length in (T, S, S))
cross = padding_mask(source_lengths, S)                # (B, 1, S), for T queries alike
output, weights = masked_attention(Q, K, V, cross)
claim("cross_hidden", weights.masked_fill(cross, 0.0).sum().item(), equals=0.0)
weights.shape, output.shape

# %% [markdown]
# The weight that falls on padding is [[cross_hidden:.0f]] in total.
#
# :::{admonition} The common confusion: does True mean "look" or "do not look"?
# :class: caution
# PyTorch itself says both. In `F.scaled_dot_product_attention` True means *may attend*; in `nn.MultiheadAttention` and
# in `nn.Transformer` True means *may not*. A third form is additive: a number is added to the score, $0$ for allowed
# and $-\infty$ for hidden. The shapes are the same, so the wrong one raises no error. This course has one convention,
# True = may attend.
# :::
#
# We settle it with the example from above, whose last two outputs should be [[second_output:.1f]] and
# [[third_output:.2f]]. Each way of calling gets the mask
# in its own convention; the last one gets the causal mask with the wrong sense.

# %%
def by_module(mask):
    module = nn.MultiheadAttention(1, 1, bias=False, batch_first=True)
    for weight in (module.in_proj_weight, module.out_proj.weight):
        nn.init.ones_(weight)                          # projections that change nothing
    return module(zeros[None], zeros[None], V[None], attn_mask=mask)[0][0]


V = torch.tensor([[1.0], [2.0], [4.0]])                # (S, 1)
additive = torch.zeros(3, 3).masked_fill(~causal, -math.inf)
sdpa = F.scaled_dot_product_attention
answers = {"boolean, may": sdpa(zeros, zeros, V, causal),
           "additive": sdpa(zeros, zeros, V, additive),
           "boolean, may not": by_module(~causal),
           "inverted": sdpa(zeros, zeros, V, ~causal)}
for name, answer in answers.items():
    print(f"{name:17}", [round(number, 2) for number in answer.flatten().tolist()])

# %% [markdown]
# Three agree. The inverted mask gives the first query the mean of 2 and 4, the second one the 4, and the third,
# which may see nothing, zero. Keep this input: three tokens, all scores zero, three values whose means differ. It
# tells the conventions apart in one call, in any library.
#
# To translate: from *may not* to *may* write `~mask`; from additive to *may* write `mask == 0`. What you must not do
# is to *add* a boolean mask. `scores + mask.float()` adds 1 to the allowed scores and hides nothing:

# %%
added = (torch.zeros(3, 3) + causal.float()).softmax(dim=-1)    # (T, S)
future = added.masked_fill(causal, 0.0).sum(dim=-1)             # (T,) weight on later keys
claim("added_future", future[0].item(), at_least=0.4, at_most=0.45)

# %% [markdown]
# The first token now gives [[added_future:.0%]] of its weight to the future.
#
# ## A row that may see nothing
#
# It happens: a sequence of length zero, a window that holds only padding, two masks combined that leave nothing. What
# should the output be? The formula says $0/0$. Let the second of two queries be such a row.

# %%
keep = torch.tensor([[True, True], [False, False]])    # (T, S)
zeros = torch.zeros(2, 1)                              # (T, 1) and (S, 1)
V = torch.tensor([[2.0, 4.0], [6.0, 8.0]], requires_grad=True)    # (S, d_v)
output, _ = masked_attention(zeros, zeros, V, keep)
output.detach()

# %% [markdown]
# Not a number. And it spreads: in the next layer that row is a key and a value, and every query that touches it
# becomes NaN as well. Two repairs are common. Filling with a large negative number instead of $-\infty$ makes all
# scores of the row equal, so the row becomes the mean of what it must not see. Replacing NaN afterwards gives the
# right output. **But what does it give in the backward pass?**

# %%
filled = torch.zeros(2, 2).masked_fill(~keep, -1e9).softmax(dim=-1) @ V    # (T, d_v)
repaired = torch.nan_to_num(output)                                        # (T, d_v)
(gradient,) = torch.autograd.grad(repaired.sum(), V)                       # (S, d_v)
print("filled with -1e9:", filled[1].tolist())
print("NaN replaced:    ", repaired[1].tolist(), " gradient of V:", gradient.tolist())

# %% [markdown]
# The output is clean, and the gradient of *every* value is NaN. The gradient of $V$ is $W^\top$, the weights transposed,
# times the gradient of the output. The replaced row hands back a zero, its weights are still NaN, and
# $0 \cdot \mathrm{NaN}$ is NaN. One optimiser step later the parameters behind $V$ are NaN, and the forward pass gave
# no warning.
#
# So the row must never be NaN in the first place. Give it harmless scores *before* the softmax and zeros *after* it:

# %%
def masked_softmax(scores, mask):
    empty = ~mask.any(dim=-1, keepdim=True)                      # (..., T, 1)
    allowed = scores.masked_fill(~mask, -math.inf)               # (..., T, S)
    weights = allowed.masked_fill(empty, 0.0).softmax(dim=-1)    # an empty row: zeros, no NaN
    return weights.masked_fill(empty, 0.0)                       # its weights become zero


def attention(Q, K, V, mask):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])    # (..., T, S)
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


output, _ = attention(zeros, zeros, V, keep)
(gradient,) = torch.autograd.grad(output.sum(), V)               # (S, d_v)
output.detach(), gradient

# %% [markdown]
# Zeros, and a finite gradient. This is the rule of the whole course, and the contract `masked_rows_zero` holds every
# attention in it to that rule. PyTorch's own function gives zeros here, too.

# %%
Q, K, V = (torch.randn(2, length, 4, generator=generator) for length in (3, 5, 5))
contracts.masked_rows_zero(lambda *inputs: attention(*inputs)[0], Q, K, V)

# %% [markdown]
# ## See it move
#
# Here is the third map of the figure on padding again, to paint on: three real tokens and two of padding. Press a cell,
# drag over several, or press a number at the edge for its whole row or column. Begin with *none*, and hide one key from
# one query. **Which weights change, and by what factor?**

# %%
MaskPainter(x[2] @ x[2].T / math.sqrt(8), "both", length=lengths[2])    # scores (T, S)

# %% [markdown]
# The keys that are left keep their proportions. Each share is divided by what they held together, so the row sums to one
# again, and no other row moves. Hide a row's last key, and the row becomes zeros. Then choose the window: each query sees
# its own key and the one before it, and for the last query both are padding. Nobody set out to make that empty row.
#
# Now choose *causal*, and let True mean *may not attend*. The booleans in the corners stay as they are. The first
# query sees the future and not itself, the last one sees nothing, and every number is finite. Nothing in the picture
# looks like an error, which is why the test with three tokens is worth keeping.

# %% [markdown]
# ## Half precision
#
# Large models compute in 16 bits, in [half precision](../book/pages/glossary.md#half-precision). The format `float16` ends at about 65,504. So $-10^9$ is not a number it has, and
# code that fills with it fails as soon as somebody switches to half precision:

# %%
half = torch.tensor([[-20.0, -17.0]], dtype=torch.float16)    # (T, S) scores
nothing = torch.zeros(1, 2, dtype=torch.bool)                 # both keys hidden
try:
    half.masked_fill(~nothing, -1e9)
except RuntimeError as error:
    print(str(error).split(" without")[0])

# %% [markdown]
# The next idea is to *add* the lowest number that the format has. A negative score is below zero already, so the sum
# falls off the end and becomes $-\infty$; with every key hidden, the row is NaN again. Masks that are added together
# do the same. A boolean mask has no such number in it:

# %%
lowest = torch.finfo(torch.float16).min                       # the lowest float16
half_results = {"finfo.min added": (half + lowest).softmax(dim=-1),
                "two masks added": (torch.zeros_like(half) + lowest + lowest).softmax(dim=-1),
                "boolean mask": masked_softmax(half, nothing)}
for name, result in half_results.items():
    print(f"{name:16}", result[0].tolist())

# %% [markdown]
# ## A leak
#
# Shift the triangle by one and every position sees the next token, the one that it should predict. This is a
# [leak](../book/pages/glossary.md#leak). Nothing fails. Training even looks splendid. To see
# what that means we train on tokens that *cannot* be predicted: each is drawn at random from $8$, independent of all
# others. The best possible loss is then $\ln 8$, the [entropy](../book/pages/glossary.md#entropy) of the draw. The model is the
# smallest that can cheat: one head, and a learnt vector for each place, so that it knows where it stands.

# %%
class NextToken(nn.Module):
    """Predicts from each position the token after it."""

    def __init__(self, num_tokens, length, d_model):
        super().__init__()
        self.token = nn.Embedding(num_tokens, d_model)
        self.place = nn.Parameter(torch.randn(length, d_model))
        self.head = SelfAttention(d_model)
        self.readout = nn.Linear(d_model, num_tokens)

    def forward(self, tokens, mask):                       # (B, T), (T, T)
        x = self.token(tokens) + self.place                # (B, T, d_model)
        return self.readout(self.head(x, mask).output)     # (B, T, num_tokens)


# %% [markdown]
# Two runs that differ in the number behind `tril`. **Which loss will go below $\ln 8$, and what would you conclude if
# you saw only that curve?**

# %%
num_tokens, length = 8, 12


def random_text(mask):
    while True:
        text = torch.randint(num_tokens, (64, length + 1), generator=generator)    # (B, T + 1)
        yield (text[:, :-1], mask), text[:, 1:]    # and the next tokens


def train(diagonal):
    torch.manual_seed(seed(0))
    model = NextToken(num_tokens, length, d_model=32)
    mask = torch.ones(length, length, dtype=torch.bool).tril(diagonal)             # (T, T)
    return model, training.fit(model, random_text(mask), steps=250, lr=1e-2).losses


(fair, fair_losses), (leaky, leaky_losses) = train(diagonal=0), train(diagonal=1)
plots.lines(range(1, 251), {"right mask": fair_losses, "shifted by one": leaky_losses},
            roles={"right mask": "a", "shifted by one": "wrong"}, marks=False,
            x="training steps", y="loss (nats)", guides={"entropy of the tokens": math.log(8)},
            alt="Training loss on random tokens. With the right mask it stays at the entropy "
                "of the tokens. With a mask that is shifted by one it falls far below.")

# %%
entropy = math.log(num_tokens)
claim("fair_excess", sum(fair_losses[-50:]) / 50 - entropy, at_least=-0.01, at_most=0.02)
claim("leaky_loss", sum(leaky_losses[-50:]) / 50, at_most=0.4)
fresh = next(random_text(causal_mask(length, length)))
with torch.no_grad():
    caught = training.cross_entropy(leaky(*fresh[0]), fresh[1]).item()
claim("leaky_in_use", caught, at_least=2.5)

# %% [markdown]
# With the right mask the loss stays within [[fair_excess:.3f]] of the entropy: there is nothing to learn. With the
# shifted one it falls to [[leaky_loss:.2f]]. Only the last position, which has no next token to look at, must still
# guess. A loss below the entropy of the data is not skill. In use there is no future to read. Given the right mask,
# the same model has a loss of [[leaky_in_use:.1f]], worse than guessing, which would be $\ln 8 \approx$ [[=2.08]].
#
# On real text nobody knows the entropy, so the curve alone does not convict. What does is the gradient. If output $t$
# depends on input $j$, then the [gradient](../book/pages/glossary.md#gradient) of output $t$ with respect to input $j$ is not zero. Here is that
# table for both masks, each row divided by its largest entry. Look above the diagonal.

# %%
def draw_inputs(model):
    tokens = torch.randint(num_tokens, (1, length), generator=generator)
    return (model.token(tokens) + model.place).detach()                        # (1, T, D)


def influence(model, mask):
    """Length of the gradient of each output with respect to each input vector, (T, T)."""
    x = draw_inputs(model).requires_grad_()
    output = model.head(x, mask).output[0]                                     # (T, D)
    rows = []
    for t in range(length):
        direction = torch.randn(32, generator=generator)
        (gradient,) = torch.autograd.grad(output[t] @ direction, x, retain_graph=True)
        rows.append(gradient[0].norm(dim=-1))                                  # (T,)
    table = torch.stack(rows)
    return table / table.amax(dim=-1, keepdim=True)                            # (T, T)


right, shifted = causal_mask(length, length), torch.ones(length, length).bool().tril(1)
tables = [influence(fair, right), influence(leaky, shifted)]
plots.small_multiples(tables, titles=["right mask", "shifted by one"],
                      x="inputs", y="outputs", label="influence",
                      alt="Two maps of how much each output depends on each input. With the "
                          "right mask everything above the diagonal is zero. With the shifted "
                          "mask nearly all of the influence stands one place above it.")

# %%
above = [table.triu(1).sum().item() for table in tables]
claim("no_future", above[0], equals=0.0)
claim("some_future", above[1], at_least=6.0)


def verdict(model, mask):
    try:
        contracts.causal_by_gradient(lambda x: model.head(x, mask), draw_inputs(model))
        return "no leak"
    except AssertionError as error:
        return str(error).split(":")[0]


print("right mask:    ", verdict(fair, right))
print("shifted by one:", verdict(leaky, shifted))

# %% [markdown]
# Above the diagonal the left table adds up to exactly [[no_future:.0f]], the right one to [[some_future:.1f]]. The
# leaking model has learnt to read one place ahead and nothing else; only the last position, where no place is left,
# spreads its attention. The
# contract `causal_by_gradient` does the same and names the first place. It needs one forward pass and no training, so
# there is no reason to train a model before asking it.
#
# ## What a mask does not save
#
# A hidden score is computed and then thrown away. The table of scores has $T \cdot S$ entries whether they are used
# or not. That is what people mean when they say that attention costs $n^2$. How much is it for one head and one
# sequence, with 4 bytes a number?

# %%
gibibytes = {n: n * n * 4 / 2**30 for n in (16384, 131072)}
claim("gibibytes_short", gibibytes[16384], equals=1.0)
claim("gibibytes_long", gibibytes[131072], equals=64.0)

# %% [markdown]
# At 16,384 tokens the table takes [[gibibytes_short:.0f]] GiB, and at 131,072 it takes
# [[gibibytes_long:.0f]] GiB. Kernels that never store the table, and masks that let whole blocks of it be skipped, are
# the subject of lesson 13.
#
# ## What this lesson did not show
#
# The leak here was blatant, and the data had no pattern of its own. On text, a leak through one head of many lowers
# the loss by less, and only the gradient or a change of the input shows it. A mask also hides a key from *one*
# layer. What an earlier layer has already moved to another position stays there, which is why every layer needs its
# mask. And a causal mask gives order to the attention, but a position in the middle still cannot tell how its allowed
# keys are ordered; that takes positions (lesson 6).
#
# ## Takeaways
#
# - A mask is a boolean table, queries by keys. Causal hides the future and ends at the last key; padding hides what is
#   not real; cross-attention needs the padding mask of the source. They combine with `&`.
# - Three conventions exist. Three tokens with zero scores and the values 1, 2, 4 tell them apart.
# - A row without keys must become zeros *before* NaN arises: harmless scores first, zeros afterwards. Repairs after
#   the softmax leave NaN in the gradient, and large negative numbers fail in half precision.
# - A loss below the entropy of the data is a leak. The gradient of each output with respect to each input finds it
#   before any training.

# %% [markdown]
# ## Quiz
#
# 1. A text of 4 tokens is already read and its keys are kept. 2 new tokens arrive. Which keys may the *first* of the two
#    new queries see?
#
#    - [ ] the first key only :: This is what a triangle gives that starts at the left edge, `tril()` without a shift. The
#      new queries do not stand at the beginning of the text.
#    - [x] the first five :: It is the fifth token, so it sees the four kept keys and its own. The diagonal is shifted by
#      $S - T = 4$.
#    - [ ] all six :: Then it would see the token after it, the one that it is to predict.
#
# 2. You want to pass this course's causal mask to `nn.MultiheadAttention`. What do you write?
#
#    - [x] `attn_mask=~mask` :: There, True means *may not*. The complement turns one sense into the other.
#    - [ ] `attn_mask=mask` :: No error is raised: the shape is right. But the first query would see the future and not
#      itself.
#    - [ ] `attn_mask=mask.float()` :: A float mask is added to the scores. Ones and zeros hide nothing; hidden cells need
#      $-\infty$.
#    - [ ] `attn_mask=mask.T` :: The transpose lets each query see itself and what comes *after* it, in one convention and
#      something else in the other.
#
# 3. Somebody multiplies the weights by the mask *after* the softmax. All scores are equal, and a causal mask of 4 tokens is
#    used. What is wrong with the first row?
#
#    - [ ] It is NaN. :: The softmax of finite scores is finite. NaN comes from a row in which every score is $-\infty$.
#    - [x] It sums to a quarter, since three hidden keys took their share. :: Hidden scores still stand in the sum below the
#      fraction line.
#    - [ ] Nothing: the hidden weights are zero, and the others are as they were. :: They are, but what the others have
#      does not add up to one, and how much is missing depends on tokens that the query must not see.
#
# 4. In a batch for translation the source has $S = 9$ columns and the target $T = 6$. Which mask does cross-attention need?
#
#    - [ ] a causal mask of shape $(6, 9)$ :: The source is complete before the first target word is written. There is no
#      future to hide.
#    - [ ] the padding mask of the target, of shape $(B, 1, 6)$ :: Its columns are target positions. The keys come from the
#      source, which has nine.
#    - [x] the padding mask of the source, of shape $(B, 1, 9)$ :: It hides the columns that are not real, from each of the
#      six queries alike.
#
# 5. After a week of work, your new model has a loss far below that of every published model on the same text. What do you
#    try first?
#
#    - [ ] a longer run with the same settings, to see how far the loss falls :: A leak gets more perfect with training,
#      and tells you nothing.
#    - [ ] a smaller learning rate :: It changes how fast a leak is learnt.
#    - [x] the gradient of an early output with respect to a later input :: It must be exactly zero. It costs one forward and
#      one backward pass, and needs no training.
#    - [ ] dropout on the attention weights :: It makes the shortcut a little noisier. The future stays visible.

# %% [markdown]
# ## Where to go from here
#
# One row of weights has one whole to share. In lesson 5 several heads ask several questions at once.
#
# **Papers.** @vaswani2017 (section 3.2.3) has the three uses of attention in the Transformer, and the mask of $-\infty$
# in the decoder.
