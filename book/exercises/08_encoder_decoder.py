# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 8: Encoder and decoder
#
# Six exercises on [lesson 8](../notebooks/08_encoder_decoder.ipynb). You write the decoder layer and the shift,
# predict shapes and sizes, repair a loss that is silently wrong, write a test that finds a wrong shift, and tell from
# a map what is the matter with sealed machines.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell.
# (In exercise 4, change what stands there.) Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. You may leave an exercise out: nothing after it breaks. The hints are
# folded, and each says more than the one before.
#
# **How long:** about an hour and three quarters for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sentences, S source tokens, T target tokens, V tokens in the vocabulary, H
# heads.

# %% [markdown] tags=["solution-only"]
# # Solutions 8: Encoder and decoder
#
# The [exercises of lesson 8](../exercises/08_encoder_decoder.ipynb) with an answer to each. It is one answer of many:
# a check accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise
# before you read its solution; what you found yourself stays with you.

# %%
import contextlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import layers, plots, seed
from attnlab.attention import causal_mask, padding_mask
from attnlab.checks import check, progress
from attnlab.checks.ch08_encoder_decoder.machines import WIDTH, machine
from attnlab.layers import FeedForward
from attnlab.multihead import MultiHeadAttention

torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## 1. The decoder layer
#
# *Implement. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** The [decoder](../book/pages/glossary.md#decoder) layer is where two sentences meet, and
# where most faults in a translation model are made: who asks, which mask, what is added to what. Written out line by
# line, each of these is a choice that you make.
#
# The lesson's layer wraps each sublayer in a class that hides the norm. Here you write the
# [pre-norm](../book/pages/glossary.md#pre-norm-and-post-norm) layer out, with
# [dropout](../book/pages/glossary.md#dropout):
#
# $$x \leftarrow x + \operatorname{dropout}(\operatorname{sublayer}(\operatorname{norm}(x)))$$
#
# one after the other for self-attention among the target's tokens,
# [cross-attention](../book/pages/glossary.md#cross-attention) to the [memory](../book/pages/glossary.md#encoder-memory)
# and the feed-forward network, in this order. Dropout acts there and nowhere else, and only in training. The memory
# needs no norm: it comes finished out of the encoder.
#
# The parts are those of lessons 5 and 7: `MultiHeadAttention(d_model, num_heads)`, which is called as
# `attention(query, key, value, mask)` and returns something that has an `.output` and, for each head, `.weights`; and
# `FeedForward(d_model, d_ff)`. Keep the names `self_attention`, `cross_attention`, `feed_forward`, `norm_self`,
# `norm_cross` and `norm_feed_forward` (each norm an `nn.LayerNorm`): the check loads weights of its own into your
# layer, and knows no other names.

# %%
class DecoderLayer(nn.Module):
    """One pre-norm layer of the decoder.

    d_model: width of a token's vector. num_heads: heads of each attention.
    d_ff: width inside the feed-forward network.
    dropout: share of what each sublayer gives that is set to zero in training, from 0 up to 1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_self = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_feed_forward = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Let the target's tokens look at each other, then at the source, then think.

        x: (B, T, d_model), the target. memory: (B, S, d_model), what the encoder returned.
        mask: (T, T) or (B, T, T), which target tokens a target token sees.
        memory_mask: (B, 1, S) or (B, T, S), which source tokens it sees.
        Both masks are boolean, True = may attend; None = sees all.
        Returns the output (B, T, d_model) and the weights of the cross-attention (B, H, T, S).
        Changes none of its inputs.
        """
        # BEGIN SOLUTION
        normed = self.norm_self(x)                                      # (B, T, d_model)
        x = x + self.dropout(self.self_attention(normed, normed, normed, mask).output)
        crossed = self.cross_attention(self.norm_cross(x), memory, memory, memory_mask)
        x = x + self.dropout(crossed.output)                            # (B, T, d_model)
        x = x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))
        return x, crossed.weights                      # (B, T, d_model), (B, H, T, S)
        # END SOLUTION


# %% tags=["check"]
check("encoder_decoder.DecoderLayer", DecoderLayer)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the six names and one dropout for the constructor. Then write `forward` as three statements of the same
# form, `x = x + ...`. Before each, say aloud: who asks, who is asked, and how many tokens does each side have?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In self-attention queries, keys and values are all the same, the target after its norm, so give the norm's result a
# name. In cross-attention the two sides differ. A mask has a column for each key: that says which of the two
# masks belongs to which attention.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The second statement: the normed target asks, the memory as it is serves for keys and for values, with
# `memory_mask`. Keep what this call returns: you need its `.output` for the sum, through the `nn.Dropout` that you
# made in the constructor, and its `.weights` at the end.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Give cross-attention the target's mask.** Where both sentences have the same number of tokens it fits. Then a
#   target token sees the source only up to its own place, and the source's padding as well.
# - **Let the memory ask.** "The encoder sends its result to the decoder" sounds like it. The output would have a row
#   for each source token, and where both lengths are the same, target tokens would read what comes after them.
# - **Norm the memory, too.** The encoder's stack has a norm of its own at its end. And this norm is trained for the
#   stream of the target.
# - **`x = norm(x)`, then `x = x + sublayer(x)`.** What is carried on is the normed vector, so the stream is scaled
#   anew at each sublayer, and gradients no longer have a way straight through.
# - **Dropout after the sum.** Then numbers of the stream are lost for all layers that follow, and not only what one
#   sublayer had to say.

# %% [markdown]
# ## 2. The shift
#
# *Implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** Shift by none, and a model learns to repeat. Shift by two, and it skips. Hide the end
# together with the padding, and it never stops. None of the three raises an error, and in all three the
# [loss](../book/pages/glossary.md#loss) falls.
#
# The data comes without `bos`, and each sentence ends in `eos`. To make all rows equally long, whoever collected it
# filled them up with a token of their choice. It may be one that means padding, or it may be `eos` again:
# `[5, 6, eos, eos, eos]` with a length of 3. Make of it what the decoder reads and what it has to say. Position $t$
# reads the tokens before token $t$, `bos` first of all, and has to say token $t$. Behind a sentence's end there is
# nothing to be said: put `-100` there, the number that `F.cross_entropy` leaves out. What is *read* there is up to you,
# but it has to be a token.

# %%
def training_pair(
    targets: Tensor, lengths: Tensor, bos: int, pad: int
) -> tuple[Tensor, Tensor]:
    """What the decoder reads, and what it has to say.

    targets: (B, T) token numbers; each row is a sentence that ends in eos, then filler.
    lengths: (B,) number of real tokens of each row, its eos included; 0 where there is none.
    bos: the token that is read before the first word.
    pad: the token that rows are filled up with; it may be the same as eos.

    Returns the inputs (B, T) and the labels (B, T), both of the type of targets. Behind the
    end of a sentence, labels are -100. Changes none of its inputs.
    """
    # BEGIN SOLUTION
    first = torch.full_like(targets[:, :1], bos)                             # (B, 1)
    inputs = torch.cat([first, targets[:, :-1]], dim=1)                      # (B, T)
    behind = torch.arange(targets.shape[1]) >= lengths[:, None]              # (B, T)
    return inputs, targets.masked_fill(behind, -100)
    # END SOLUTION


# %% tags=["check"]
check("encoder_decoder.training_pair", training_pair)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the row `[5, 6, eos, eos, eos]` with length 3 on paper. Below it, write what each position reads, and below
# that, what it has to say. Which of your two rows is the given one, apart from what is hidden?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The labels are the targets, in their places. It is the inputs that begin one place earlier, so that the last token
# falls out on the right. To hide what stands behind the end, do not ask which token it is. Ask where it stands.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.arange(T)` holds the places. Compare it with `lengths[:, None]`: that is (T,) against (B, 1), so the result is
# (B, T). `masked_fill` makes a copy. The inputs are a column of `bos` and all columns of the targets but the last,
# joined with `torch.cat`.
#
# </details>
#
# Look at two rows, once your function is written. The first is the one above, filled up with `eos`, which is 2 here.

# %%
with contextlib.suppress(NotImplementedError):
    rows = torch.tensor([[5, 6, 2, 2, 2], [7, 3, 4, 8, 2]])                  # (B, T)
    for name, side in zip(("reads", "says"), training_pair(rows, torch.tensor([3, 5]), 1, 2)):
        print(f"{name:6}", side.tolist())

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Hide what equals `pad`.** With padding of its own it is right. Filled up with `eos`, the true end is hidden as
#   well, `eos` is never the answer, and the model never learns to stop.
# - **Hide from `lengths - 1` on.** It looks like a careful count from zero, and hides the true end in every row, full
#   ones included.
# - **`targets[:, :-1]` and `targets[:, 1:]`.** That line is for rows which begin with `bos`. Here it never asks for
#   the first word, and cuts a column off.
# - **`targets.roll(1, dims=1)`.** It shifts, but what falls out on the right comes in on the left.
# - **Hide first, then shift.** Then `-100` is among the inputs, and an embedding has no such row.

# %% [markdown]
# ## 3. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** Shapes and counts are the cheapest test there is: a model that has other numbers than you
# predicted is not the model you meant. Fill in all seven predictions before you run anything.
#
# Take a decoder layer with $d_{model} = 64$, 4 heads and $d_{ff} = 256$, as in exercise 1, with all biases. The source
# has 9 tokens and the target 6.
#
# 1. In cross-attention, each head has a table of weights. How many rows does it have?
# 2. How many [parameters](../book/pages/glossary.md#parameter) does the layer have?
# 3. The layer is built with 8 heads instead of 4. Does the number of parameters `"grow"`, `"stay"` or `"shrink"`?
# 4. Both widths are doubled, $d_{model}$ and $d_{ff}$. By which factor does the number of parameters change, to one
#    digit after the point?
# 5. The length of the source is doubled. By which factor does the number of weights in cross-attention's tables change?
# 6. A target row is `[bos, a, b, c, eos, pad, pad]`. How many targets does the loss count?
# 7. The last word of the source is replaced by another. Which outputs of the decoder change: `"all"`, `"only the
#    last"` or `"none"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "cross-attention, rows of one head's table": None,
# STUB     "parameters of the decoder layer": None,
# STUB     "8 heads instead of 4, parameters": None,
# STUB     "d_model and d_ff doubled, parameters, times": None,
# STUB     "source doubled, weights in cross-attention's tables, times": None,
# STUB     "targets that the loss counts": None,
# STUB     "last source word replaced, outputs that change": None,
# STUB }
prediction = {
    "cross-attention, rows of one head's table": 6,
    "parameters of the decoder layer": 16 * 64**2 + 19 * 64,
    "8 heads instead of 4, parameters": "stay",
    "d_model and d_ff doubled, parameters, times": 4.0,
    "source doubled, weights in cross-attention's tables, times": 2,
    "targets that the loss counts": 4,
    "last source word replaced, outputs that change": "all",
}
# END SOLUTION

# %% tags=["check"]
check("encoder_decoder.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# List what the layer holds: two attentions with four projections each, one feed-forward network with two maps, three
# norms. A projection of width $d$ is a $d \times d$ matrix and $d$ biases. And a norm?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two heads of width 16 and one of width 32 are cut out of the same matrices. For the factors, look for the term that
# is largest: is a width in it once or squared? And which side of the table of weights is the source's?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# One attention has $4d^2 + 4d$ parameters, the feed-forward network $2\,d\,d_{ff} + d_{ff} + d$, each norm $2d$. As to
# the row of tokens, write below each one what has to be said after it. As to the last question: which of the source's
# words may a target token look at, and which of the three masks has a triangle?
#
# </details>
#
# Now test your predictions. The cell measures nothing until all seven are there.

# %%
def measure_predictions() -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(0))

    def build(d_model=64, num_heads=4, d_ff=256):
        return layers.DecoderLayer(d_model, num_heads, d_ff, norm="pre").eval()

    def size(layer):
        return sum(p.numel() for p in layer.parameters())

    layer = build()
    y, memory = (torch.randn(2, n, 64, generator=g) for n in (6, 9))    # (B, T or S, d_model)
    longer, other = torch.cat([memory, memory], dim=1), memory.clone()
    other[:, -1] += 1.0
    before, after = (
        layer(y, m, causal_mask(6), need_weights=True) for m in (memory, other)
    )
    tables = [layer(y, m, need_weights=True).cross_weights for m in (memory, longer)]
    row = torch.tensor([1, 3, 4, 5, 2, 0, 0])                           # bos a b c eos pad pad
    return {
        "1. rows": tables[0].shape[-2],
        "2. parameters": size(layer),
        "3. parameters with 8 heads": size(build(num_heads=8)),
        "4. both widths doubled, times": size(build(d_model=128, d_ff=512)) / size(layer),
        "5. source doubled, weights, times": tables[1].numel() / tables[0].numel(),
        "6. targets counted": (row[1:] != 0).sum().item(),
        "7. outputs of 6 that change": (before.output != after.output).any(-1)[0].sum().item(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured:.6g}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Nine rows, since the encoder sends nine vectors."** Rows belong to queries, and it is the target that asks.
# - **Count an encoder layer.** A decoder layer has one attention more, and one norm more.
# - **"More heads, more parameters."** Heads share out the same matrices: each becomes narrower.
# - **"Double the width, double the number."** A matrix is wide on both sides. The factor falls just short of
#   four, since biases and norms only double.
# - **"Double the length, and the table grows by its square."** That is self-attention. Here only one side of
#   the table grows.
# - **Count `bos`, or leave out `eos`.** Nobody has to say the one; and without the other no sentence ends.
# - **"Only the last output, since the mask is causal."** The triangle lies among the target's tokens. The source is
#   complete before the first word is written, and every output may look at all of it.

# %% [markdown]
# ## 4. Repair: a mask and a target
#
# *Repair. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** The parts of this program are right; the joints are not. It runs, its loss falls, and a
# model that is trained with it translates, badly. It has **three** faults. One is in what cross-attention may see,
# one in what is to be said, one in the mean.
#
# In this data source and target are padded to the same width. That is why a wrong mask fits.

# %%
def training_loss(encode, decode, source: Tensor, rows: Tensor, pad: int) -> Tensor:
    """The mean loss of one batch, over all real tokens that the decoder has to say.

    encode: encode(source, mask) gives the memory (B, S, d_model);
        mask broadcasts to (B, S, S).
    decode: decode(inputs, memory, mask, memory_mask) gives logits (B, T, V) for the next
        token; mask broadcasts to (B, T, T), memory_mask to (B, T, S).
    source: (B, S) token numbers, padded at the end.
    rows: (B, T + 1) token numbers; each begins with bos and ends with eos, then padding.
    pad: the token number of padding, which is no other token's.

    Masks are boolean, True = may attend. Returns a tensor that holds one number, from which
    gradients flow back.
    """
    inputs, labels = rows[:, :-1], rows[:, 1:]                       # (B, T) each
    source_real = (source != pad)[:, None]                           # (B, 1, S)
    target_real = (inputs != pad)[:, None]                           # (B, 1, T)
    memory = encode(source, source_real)                             # (B, S, d_model)
    mask = causal_mask(inputs.shape[1]) & target_real                # (B, T, T)
    # BEGIN SOLUTION
    # STUB logits = decode(inputs, memory, mask, target_real)               # (B, T, V)
    # STUB logits, labels = logits[:, :-1], labels[:, 1:]                   # say the next token
    # STUB each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    # STUB return (each * (labels != pad)).mean()                           # padding adds nothing
    logits = decode(inputs, memory, mask, source_real)               # (B, T, V)
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")    # (B, T)
    return each[labels != pad].mean()
    # END SOLUTION


# %% tags=["check"]
check("encoder_decoder.training_loss", training_loss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the program with one short row, `[bos, a, eos, pad, pad]`. After each line, write down what every tensor
# holds. What is the label of the position that reads `bos`? How many targets are there, and by how many is divided?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Three tests need no training. A decoder that is sure of the next token must have no loss: has it, here? Add more
# padding to the rows: does the mean change? Change the memory where the source is padding: does anything change?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A mask has a column for each *key*, and in cross-attention the keys are source tokens. Count the shifts: the first
# line has one. In the mean, what has been multiplied by zero is still one of the numbers that `.mean()` counts.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The target's mask belongs to the decoder, so it belongs to all of the decoder."** A mask belongs to keys. With
#   this one, target tokens look at the source's padding, and do not look at real source words that stand further to
#   the right than the target is long.
# - **Remove the mask, since the encoder has hidden the padding already.** It hid it as a key, in its own attention.
#   The memory still has a vector at each place of padding.
# - **Repair the shift in the first line instead.** With `labels = rows[:, :-1]` up there and the second shift left in,
#   each label is the right token. But the last column of labels is lost, and with it the end of every row that has no
#   padding.
# - **Leave the mean: "it is only a constant factor."** It changes from batch to batch with the share of padding, so
#   batches of short sentences count for less, and losses of two runs cannot be compared.
# - **Take the mean of each sentence first.** Then a word of a short sentence counts for more than one of a long
#   sentence.

# %% [markdown]
# ## 5. A test that finds a wrong shift
#
# *Write a test. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** Two shifts, or none, raise no error, and the loss falls either way. A test of four lines
# finds both in a moment, in any program, without training. You will want to run it on code that is not yours.
#
# Your test is given a program that turns [logits](../book/pages/glossary.md#logit) into a loss. The check hands it
# four right ones, written in different ways, and ten wrong ones. Some shift by none or by two. Others treat padding
# wrongly, leave tokens out, or take another mean. Each wrong one runs and returns one number.
#
# Refuse a wrong program with an `assert` that fails. Let a right one pass: right ones may round differently in the last
# digits or compute in another number type, so compare with a tolerance.

# %%
def test_token_loss(program) -> None:
    """Fail with an AssertionError if this program computes a wrong loss.

    program: called as program(logits, rows, pad); returns a tensor that holds one number.
        logits: (B, T, V), at position t those after rows[:, : t + 1] was read.
        rows: (B, T + 1) token numbers; each begins with bos, ends with eos, then padding.
        pad: the token number of padding; any number from 0 to V - 1 that no other token has.
        A right program gives the mean cross-entropy over all tokens behind bos that are not
        padding, in nats. Every row has at least one such token.
    """
    # BEGIN SOLUTION
    bos, eos, pad = 1, 2, 9
    rows = torch.tensor([[bos, 3, 4, 0, 5, eos], [bos, 6, eos, pad, pad, pad]])   # (B, T + 1)

    for ahead, zero in [(0, False), (1, True), (2, False)]:
        told = F.pad(rows, (0, 1), value=pad)[:, ahead : ahead + 5]               # (B, T)
        oracle = 50.0 * F.one_hot(told, 10)                                       # (B, T, V)
        assert (program(oracle, rows, pad) < 1e-4) == zero, f"the oracle {ahead} ahead"

    logits = torch.randn(2, 5, 10, generator=torch.Generator().manual_seed(0))    # (B, T, V)
    right = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=pad)
    assert abs(program(logits, rows, pad) - right) < 1e-4, "another mean"
    # END SOLUTION


# %% tags=["check"]
check("encoder_decoder.test_token_loss", test_token_loss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The lesson has a test for the shift: logits that are sure of the token $k$ places ahead. For which $k$ must the loss
# be zero? Which two must have a loss? That finds the shifts. What else could be wrong, while a loss of zero stays zero?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Take two rows of unequal length, one of them with padding, and logits that are wrong everywhere, each by another
# amount: random ones. What number must come out? Some library knows it. And which number is your padding? A program
# that takes 0 for padding is right as long as it is 0.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad)` is the mean that is asked for, if
# `labels` are the right columns of the rows. Let padding be another number than 0, and let 0 be a word that occurs.
#
# </details>

# %% [markdown] tags=["solution-only"]
# The second half alone would do: random logits tell every wrong program from a right one. The oracles are worth their
# lines all the same, since they say *which* shift is wrong.
#
# ### Why the tempting answers are wrong
#
# - **Only the oracle of the next token.** It refuses both wrong shifts. But a loss of zero stays zero when it is
#   summed instead of averaged, when padding dilutes it, or when a token is left out.
# - **Rows without padding, or of one length.** Three of the wrong programs differ from a right one only there.
# - **Padding numbered 0, as everywhere.** A program that has the 0 written into it passes.
# - **Ask that the loss be near $\ln V$ for logits of zero.** It is, whatever the shift, and whatever is left out.
# - **Compare with `==`.** A right program that adds in another order is refused for its last digit.

# %% [markdown]
# ## 6. Read the map
#
# *Explore. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** You will be given models whose code you cannot read. Which input moves which output can
# always be measured, and one picture of it tells most faults in the joints apart.
#
# Here are five sealed machines, each with an encoder and a decoder. One is right, four are at fault. The map shows, as
# in the lesson, how strongly each input (columns) moves each vector that comes out (rows): first the memory, then the
# outputs. What is exactly zero is hatched. Before you run anything, draw the map of a right machine on paper: which
# cells must be empty?
#
# Then change `number` from 1 to 5, and **change the sizes too**: one fault cannot be seen at those given. For each
# machine choose one of these words:
#
# - `"right"`: nothing is the matter
# - `"future seen"`: a target token sees those after it
# - `"decoder sees padding"`: cross-attention sees the source's padding
# - `"encoder sees padding"`: real source tokens see padding
# - `"encoder is causal"`: a source token sees none after it
# - `"source unread"`: the decoder does not look at the source
# - `"short memory"`: the decoder forgets the beginning of its own target

# %%
def influence(run, S: int, T: int, real_tokens: int) -> Tensor:
    """Length of the gradient of each vector that comes out by each input, (S + T, S + T)."""
    g = torch.Generator().manual_seed(seed(0))
    source, target = (torch.randn(1, n, WIDTH, generator=g) for n in (S, T))   # (B, S or T, D)
    inputs = source.requires_grad_(), target.requires_grad_()
    outputs = torch.cat(run(*inputs, padding_mask([real_tokens], S)[:, 0]), dim=1)[0]
    rows = []
    for output in outputs:
        direction = torch.randn(WIDTH, generator=g)
        gradients = torch.autograd.grad(
            output @ direction, inputs, retain_graph=True, materialize_grads=True
        )
        rows.append(torch.cat(gradients, dim=1)[0].norm(dim=-1))               # (S + T,)
    table = torch.stack(rows)                                                  # (S + T, S + T)
    return table / table.amax(dim=-1, keepdim=True)


# %% [markdown]
# Source tokens are called s1, s2 and so on, target tokens t1, t2, and what is padding in the source is marked with a p.
# The rows of the memory at padding are left out: what comes out there must never be read.

# %%
number = 1                           # change this: 1 to 5
S, T, real_tokens = 5, 4, 3          # and these: source and target tokens; real source tokens

moved = influence(machine(number), S, T, real_tokens)
kept = [*range(real_tokens), *range(S, S + T)]
names = [f"s{i + 1}" if i < real_tokens else f"p{i + 1}" for i in range(S)]
names += [f"t{i + 1}" for i in range(T)]
plots.matrix(
    moved[kept],
    rows=[("memory " if i < S else "output ") + names[i] for i in kept],
    columns=names,
    mask=moved[kept] > 0,
    x="inputs: source, then target",
    y="what comes out",
    label="influence",
    alt="Map of which input moves which vector that comes out, for the machine and the sizes "
        "chosen. Cells that are exactly zero are hatched.",
)

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "machine 1": None,
# STUB     "machine 2": None,
# STUB     "machine 3": None,
# STUB     "machine 4": None,
# STUB     "machine 5": None,
# STUB }
findings = {
    "machine 1": "decoder sees padding",
    "machine 2": "encoder is causal",
    "machine 3": "short memory",
    "machine 4": "future seen",
    "machine 5": "right",
}
# END SOLUTION

# %% tags=["check"]
check("encoder_decoder.findings", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four blocks: memory by source, memory by target, outputs by source, outputs by target. In a right machine one of
# these is full but for padding, one is empty, one is full but for padding again, one is a triangle. Which is which?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# What belongs to the encoder shows in the rows of the memory, and then in the outputs as well, since they read it.
# What belongs to the decoder shows in the rows of the outputs alone. Where a column of padding is not empty, look in
# which rows.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Two machines look right at the sizes given. Make the target longer, 8 tokens say, and compare their lower right
# blocks: a right one has a full triangle below its diagonal.
#
# </details>

# %% [markdown] tags=["solution-only"]
# Machine 1 fills the columns of padding in the rows of the outputs, and leaves them empty in those of the memory: its
# encoder is right, and its cross-attention has no mask. Machine 2 has a triangle among the rows of the memory, where
# none belongs. Machine 4 has none among the outputs, where one does. Machine 3 looks right until the target has five
# tokens; then the lower left corner of its triangle is empty.
#
# ### Why the tempting answers are wrong
#
# - **"Machine 1: the encoder sees padding."** Then the columns of padding would be filled among the rows of the
#   memory, too.
# - **"Machine 2 is right: a Transformer is causal."** The decoder is. The source is complete before it is read, and an
#   encoder that cannot look ahead throws away half of what it could know.
# - **"Machine 3 is right."** At four tokens it is. A test at one size tests that size.
# - **"A pale cell is an empty cell."** What matters is the hatch: exactly zero. A small influence is an influence.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 9, where this machine learns to translate. The paper behind these exercises is @vaswani2017
# (sections 3.1 and 3.2.3).

# %%
progress("encoder_decoder")
