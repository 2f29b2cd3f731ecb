# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Several heads
#
# **Why several heads?**
#
# One [head](../book/pages/glossary.md#head) costs three matrices. Eight heads, each an eighth as wide, cost the same
# three matrices. So what is gained by cutting them up? You will prove that one head cannot do a certain small job, and
# watch two heads do it.
#
# **You will be able to**
#
# - split a tensor into heads and merge it again, and say what happens to the numbers in memory;
# - write multi-head attention as a module and show that it equals a loop over heads, and PyTorch's module;
# - prove what one head with a linear readout cannot do, and measure what two can;
# - recognise the reshape that mixes tokens and trains anyway.
#
# **Before you start** you should know lessons 3 and 4.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import torch
from torch import nn

from attnlab import claim, contracts, plots, seed, training
from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.widgets import HeadSplitExplorer, HeadSwitches

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## One row, one whole
#
# In lesson 3 the token *lost* asked two things at once: by whom, and what? Its row of
# [weights](../book/pages/glossary.md#attention-weight) had one whole to share, and the answers *Mia* and *keys* could
# not have more than half each. Here are the queries and keys of that lesson again. The four columns stand for person,
# action, thing, and one that is not used.

# %%
tokens = ["Mia", "lost", "her", "keys"]
Q = torch.tensor([[0.0, 2.0, 0.0, 0.0], [2.0, 0.0, 2.0, 0.0],
                  [3.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])    # (T, 4)
K = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0],
                  [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])    # (S, 4)
V = 2 * K                                                         # (S, 4)

# %% [markdown]
# Now cut the columns in two. The first head gets person and action, the second one the rest. Each computes its own
# [scores](../book/pages/glossary.md#score), over two columns, and its own [softmax](../book/pages/glossary.md#softmax).
# For *lost* the first head has the query $(2, 0)$, which fits the key $(2, 0)$ of *Mia* alone: the score is
# $2 \cdot 2 / \sqrt 2 \approx$ [[=2.83]], and three other keys score 0. The second head has $(2, 0)$ as well, in other
# columns, and there only *keys* fits. **What are the two rows of *lost*?** Look at the second row of each map.

# %%
halves = [scaled_dot_product_attention(Q[:, part], K[:, part], V[:, part])
          for part in (slice(0, 2), slice(2, 4))]
claim("lost_to_mia", halves[0].weights[1, 0].item(), at_least=0.849, at_most=0.850)
claim("lost_to_keys", halves[1].weights[1, 3].item(), at_least=0.849, at_most=0.850)
plots.small_multiples([half.weights for half in halves], rows=tokens, columns=tokens,
                      titles=["head 1: person, action", "head 2: thing"],
                      alt="Attention weights of two heads. In the row of lost, the first head "
                          "looks mostly at Mia and the second one mostly at keys.")

# %% [markdown]
# The first head gives *Mia* [[lost_to_mia:.2f]] and the second gives *keys* [[lost_to_keys:.2f]]. Each answer has a
# softmax of its own, so neither pays for the other. The outputs of the heads stand side by side, as the columns did.
# That is [multi-head attention](../book/pages/glossary.md#multi-head-attention) [@vaswani2017, section 3.2.2]:
#
# $$\begin{aligned}
# \operatorname{MultiHead}(X) &= \left[\, head_1 \,\middle|\, \dots \,\middle|\, head_h \,\right] W^O, \\
# head_i &= \operatorname{Attention}(X W^Q_i,\, X W^K_i,\, X W^V_i) .
# \end{aligned}$$
#
# Each of the $h$ heads is $d_k = d_v = d_{model} / h$ wide. A last matrix $W^O$, $d_{model}$ by $d_{model}$, mixes
# what the heads found. Note that each head divides by $\sqrt{d_k}$, the root of its own width (lesson 3 has the
# common confusion).
#
# ## Splitting is a matter of memory
#
# In code nobody keeps $h$ small matrices. One matrix makes all queries at once, $(T, d_{model})$, and the columns are
# then cut into $h$ groups. The axis of the heads must come to the front, so that one matrix product serves all heads.
# Two steps do it. Take $T = 3$ tokens, $d_{model} = 4$, $h = 2$, and follow the twelve numbers.

# %%
x = torch.arange(12).view(3, 4)    # (T, d_model): each row is a token
x

# %%
groups = x.view(3, 2, 2)           # (T, H, D): the same memory, read in pairs
heads = groups.transpose(0, 1)     # (H, T, D): the same memory, another order of walking
heads

# %% [markdown]
# Head 1 holds the first two columns of every token, head 2 the last two. `view` only changes how the row of twelve
# numbers is divided. `transpose` only changes the *strides*: how far apart in memory two neighbours along each axis
# stand. Nothing has been copied.

# %%
print("x:     ", tuple(x.shape), "strides", x.stride())
print("heads: ", tuple(heads.shape), "strides", heads.stride())
print("same memory:", heads.data_ptr() == x.data_ptr())

# %% [markdown]
# :::{admonition} The common confusion: view against transpose
# :class: caution
# `x.view(2, 3, 2)` has the shape $(H, T, D)$, too. It raises no error, and it is wrong: it cuts the row of twelve numbers
# into two halves, and each half into three pairs. Rows of a head are then no longer tokens. Whenever an axis must move,
# `transpose` (or `permute`) moves it; `view` never does.
# :::
#
# To see it, let every number be the index of the token that it belongs to. A right head has the tokens 0, 1, 2 in its
# rows.

# %%
token_index = torch.arange(3)[:, None].expand(3, 4)    # (T, d_model): the token of each number
print("right:", token_index.reshape(3, 2, 2).transpose(0, 1).tolist())
print("wrong:", token_index.reshape(2, 3, 2).tolist())

# %% [markdown]
# In the wrong one, the first head has token 0 twice and then token 1. It never sees token 2. Merging is the same walk
# back: move the head axis behind the positions, then read the two last axes as one.

# %%
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, T, num_heads, d_model // num_heads).transpose(1, 2)    # (B, H, T, D)


def merge_heads(heads):
    B, H, T, D = heads.shape
    return heads.transpose(1, 2).reshape(B, T, H * D)                       # (B, T, d_model)


x = torch.randn(2, 5, 12, generator=generator)
claim("round_trip", (merge_heads(split_heads(x, 3)) - x).abs().max().item(), equals=0.0)

# %% [markdown]
# Back and forth changes nothing: the largest difference is [[round_trip:.0f]]. Why `reshape` and not `view` in the
# merge? After the transpose the numbers of one token no longer lie side by side, and `view`, which never copies, would
# refuse. `reshape` copies where it must.
#
# What does each head get of the four tokens of the first section? In these maps a dark cell is a number that the head
# holds. Compare the right split, above, with the wrong one.

# %%
places = torch.arange(16).view(4, 4)                                    # (T, d_model)
splits = {"right": places.view(4, 2, 2).transpose(0, 1),                # (H, T, D)
          "wrong": places.view(2, 4, 2)}                                # (H, T, D)
held = {f"{name}, head {h + 1}": torch.isin(places, split[h].flatten()).float()
        for name, split in splits.items() for h in (0, 1)}              # (T, d_model) each
plots.small_multiples(list(held.values()), titles=list(held), rows=tokens, x="columns",
                      y="tokens", label="held by the head",
                      alt="Which numbers of four tokens each of two heads holds. Split right, "
                          "head 1 has columns 0 and 1 of every token and head 2 the others. "
                          "Split wrongly, head 1 has all of Mia and lost, and head 2 all of "
                          "her and keys.")

# %% [markdown]
# The right heads have two columns of every token. The wrong ones have every column of two tokens.
#
# ## See it move
#
# Here are the queries of those four tokens on their way through two heads and back. Press ▶ and follow one number. It
# keeps its name: `b2` is column 2 of *lost*, the token b. The strip shows where it lies in memory. **At which of the
# six steps do numbers move in memory, and at which only the strides?**

# %%
HeadSplitExplorer(tokens, Q, K, V, heads=2, chosen=6)

# %% [markdown]
# Numbers move twice. Attention writes its outputs to new memory, head by head, and the merge copies them back into the
# order of tokens. `view` and the two transposes only change strides. At the fourth step the widget shows where the
# chosen row looks: in head 2, *lost* gives *keys* [[lost_to_keys:.2f]], as in the second map of this lesson.
#
# Now switch the bug on and go through the steps again. All shapes fit. But the first head has both halves of *Mia* and
# of *lost* as rows, and nothing of *keys*. So *lost* looks at a piece of *Mia* instead, with the same certainty. A
# hatched number stands in a row that is not its token's.
#
# ## The module

# %%
class MultiHeadAttention(nn.Module):
    """Attention by several heads; queries from one sequence, keys and values from another."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads: expected a divisor of {d_model}, got {num_heads}")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, query, key, value, mask=None):                  # (B, T or S, d_model)
        Q, K, V = (split_heads(project(x), self.num_heads)            # (B, H, T or S, D)
                   for project, x in [(self.w_q, query), (self.w_k, key), (self.w_v, value)])
        result = scaled_dot_product_attention(Q, K, V, mask)          # weights: (B, H, T, S)
        return self.w_o(merge_heads(result.output)), result.weights   # output: (B, T, d_model)


# %% [markdown]
# [Self-attention](../book/pages/glossary.md#self-attention) passes one tensor as query, key and value. A
# [mask](../book/pages/glossary.md#mask) $(T, S)$ holds for all heads alike. We compare with a loop that takes the
# columns of one head after the other, as in the first section:

# %%
def by_loop(module, x):
    D = x.shape[-1] // module.num_heads
    outputs = []
    for h in range(module.num_heads):
        part = slice(h * D, (h + 1) * D)                              # the columns of head h
        Q, K, V = (x @ linear.weight[part].T
                   for linear in (module.w_q, module.w_k, module.w_v))
        outputs.append(scaled_dot_product_attention(Q, K, V).output)  # (B, T, D)
    return torch.cat(outputs, dim=-1) @ module.w_o.weight.T           # (B, T, d_model)


torch.manual_seed(seed(0))
module = MultiHeadAttention(d_model=12, num_heads=3)
output, weights = module(x, x, x)
claim("loop_difference", (output - by_loop(module, x)).abs().max().item(), at_most=1e-6)

# %% [markdown]
# The largest difference is [[loop_difference:.1g]]. PyTorch has the module built in. It keeps $W^Q$, $W^K$ and $W^V$ as
# one tall matrix, and returns the mean of the weights over the heads unless told otherwise.

# %%
def copy_to_torch(module):
    theirs = nn.MultiheadAttention(module.w_q.in_features, module.num_heads, bias=False,
                                   batch_first=True).to(module.w_q.weight.dtype)
    parts = [module.w_q.weight, module.w_k.weight, module.w_v.weight]
    theirs.in_proj_weight.data = torch.cat(parts).detach()            # (3 d_model, d_model)
    theirs.out_proj.weight.data = module.w_o.weight.detach()
    return theirs


differences = {}
for name, dtype in [("float32", torch.float32), ("float64", torch.float64)]:
    ours, y = module.to(dtype), x.to(dtype)
    expected = copy_to_torch(ours)(y, y, y, average_attn_weights=False)
    received = ours(y, y, y)
    differences[name] = max((a - b).abs().max().item() for a, b in zip(received, expected))
module.float()
claim("torch_single", differences["float32"], at_most=1e-6)
claim("torch_double", differences["float64"], at_most=1e-12)

# %% [markdown]
# For the outputs and the weights of all heads, the largest difference from PyTorch's is [[torch_single:.1g]] in single
# and [[torch_double:.1g]] in double precision. The course's package holds the module as
# `attnlab.multihead.MultiHeadAttention`, with biases and a check of every shape. Does the number of heads change the cost? Count the
# [parameters](../book/pages/glossary.md#parameter) of a module with $d_{model} = 64$:

# %%
counts = {h: sum(p.numel() for p in MultiHeadAttention(64, h).parameters())
          for h in (1, 2, 4, 8)}
claim("parameters", counts[1], equals=16384)
claim("parameters_differ", max(counts.values()) - min(counts.values()), equals=0)

# %% [markdown]
# [[parameters:,.0f]], which is $4\, d_{model}^2$, and the numbers for 1, 2, 4 and 8 heads differ by
# [[parameters_differ:.0f]]. Splitting is free in parameters. (It is not free in memory: there are $h$ tables of
# weights in place of one.)
#
# ## A job that one head cannot do
#
# **The job.** At each position, report the two tokens before it, in order. A *linear readout*, one matrix on the output
# of attention, must name the token one step back and the token two steps back.
#
# **Why one head must fail.** Let a query see exactly two tokens, and let values come from tokens alone, not from
# places. Write $v_a$ for the value of token $a$. Whatever the scores, one head outputs a mixture. After $a, b$ it is
#
# $$o_{ab} = p\, v_a + (1 - p)\, v_b , \qquad\text{and after } b, a\text{:}\qquad o_{ba} = q\, v_a + (1-q)\, v_b ,$$
#
# where $p$ and $q$ are the shares of token $a$. They may differ, for they may depend on place and content. After $a, a$
# the output is $v_a$, after $b, b$ it is $v_b$.
#
# To tell $a$ from $b$ at the *first* place, a linear readout compares a number $f(o)$, linear in $o$, with a threshold.
# It must be above after $a, a$ and below after $b, b$, so $f(v_a) > f(v_b)$. It must be above after $a, b$ and below
# after $b, a$. Since $f(o)$ grows with the share of $a$, this needs $p > q$.
#
# To tell them apart at the *second* place, it compares another number $g(o)$. Again $g(v_a) > g(v_b)$, from $a, a$ and
# $b, b$. But now $a, b$ must be below and $b, a$ above: $q > p$. Both cannot be. No choice of weights, no training and
# no width helps. With two heads there are two mixtures, and nothing contradicts.
#
# **The measurement.** A proof holds under its assumptions; a model has more than two tokens to look at. So we train.
# Queries and keys know their places, each by a learnt vector; values do not. The number of heads is all that changes.

# %%
class LastTokens(nn.Module):
    """Reports at each position the `back` tokens before it, through one attention."""

    def __init__(self, attention, back, num_tokens=16, length=16, d_model=64, between=None):
        super().__init__()
        self.back, self.attention = back, attention
        self.token = nn.Embedding(num_tokens, d_model)
        self.place = nn.Parameter(0.5 * torch.randn(length, d_model))
        self.between = between                                     # a layer before the readout
        self.readout = nn.Linear(d_model, back * num_tokens)
        self.register_buffer("mask", causal_mask(length))

    def forward(self, tokens):                                     # (B, T)
        x = self.token(tokens)                                     # (B, T, d_model)
        placed = x + self.place
        output, _ = self.attention(placed, placed, x, self.mask)
        if self.between is not None:
            output = output + self.between(output)
        logits = self.readout(output)                              # (B, T, back * num_tokens)
        return logits.unflatten(-1, (self.back, -1))[:, self.back:]


def last_tokens(back, batch_size=64):
    while True:
        tokens = torch.randint(16, (batch_size, 16), generator=generator)              # (B, T)
        earlier = [tokens.roll(step, dims=1) for step in range(1, back + 1)]
        yield tokens, torch.stack(earlier, dim=-1)[:, back:]    # (B, T - back, back)


# %%
def train(attention, back, between=None):
    model = LastTokens(attention, back, between=between)
    training.fit(model, last_tokens(back), steps=600, lr=3e-3)
    return model


@torch.no_grad()
def accuracy(model):
    """Share of positions at which all tokens are right."""
    tokens, targets = next(last_tokens(model.back, batch_size=512))
    right = model(tokens).argmax(dim=-1) == targets                # (B, T, back)
    return right.all(dim=-1).float().mean().item()


torch.manual_seed(seed(0))
two_back = {h: train(MultiHeadAttention(64, h), back=2) for h in (1, 2)}
four_back = {h: train(MultiHeadAttention(64, h), back=4) for h in (1, 8)}

# %% [markdown]
# **Before you look:** a guess that knows nothing is right on both tokens with probability
# $1/16^2$. Where will one head end?

# %%
shares = {f"{back} tokens, {h} head{'s' * (h > 1)}": accuracy(model)
          for back, models in [(2, two_back), (4, four_back)] for h, model in models.items()}
claim("one_head", shares["2 tokens, 1 head"], at_most=0.25)
claim("two_heads", shares["2 tokens, 2 heads"], at_least=0.99)
claim("one_head_four", shares["4 tokens, 1 head"], at_most=0.02)
claim("eight_heads_four", shares["4 tokens, 8 heads"], at_least=0.95)
plots.bars(shares, y="share of positions with all tokens right",
           roles={name: "wrong" if "1 head" in name else "a" for name in shares},
           alt="Share of positions with all tokens right. For two tokens one head stays low "
               "and two heads reach one; for four tokens one head is at zero and eight heads "
               "are at or near one.")

# %% [markdown]
# For two tokens back, one head is right at [[one_head:.0%]] of positions, two heads at [[two_heads:.0%]]. For four
# tokens back it is [[one_head_four:.2%]] with one head and [[eight_heads_four:.0%]] with eight. The parameters are the
# same in number.
#
# ## "One head cannot attend to two things"
#
# So one often reads, and the proof seems to say it. Read its assumptions again: the *readout was linear*. The mixture
# $p\, v_a + (1-p)\, v_b$ with $p \neq \tfrac12$ is a different point for every ordered pair. The information is there;
# a linear readout cannot take it out. Put a small network with a bend between attention and readout, and train one
# head again:

# %%
def small_network(d_model=64):
    return nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(),
                         nn.Linear(4 * d_model, d_model))


torch.manual_seed(seed(0))
with_network = train(MultiHeadAttention(64, 1), back=2, between=small_network())
claim("one_head_with_network", accuracy(with_network), at_least=0.99)

# %% [markdown]
# [[one_head_with_network:.0%]]. One head did attend to two things, and the network behind it told them apart. Every
# Transformer block has such a network (lesson 7). So the popular sentence is half right: with several heads, *attention
# itself* keeps answers apart, and later layers need not disentangle them.
#
# ## What the two heads do
#
# Which head looks where? Take the model with two heads that solved the job, and average its weights over many texts.
# Look at where each row is dark.

# %%
@torch.no_grad()
def mean_weights(model):
    tokens, _ = next(last_tokens(model.back, batch_size=256))
    x = model.token(tokens)
    placed = x + model.place
    return model.attention(placed, placed, x, model.mask)[1].mean(dim=0)    # (H, T, S)


maps = mean_weights(two_back[2])
plots.small_multiples(list(maps), titles=["head 1", "head 2"], mask=causal_mask(16),
                      alt="Mean attention weights of two heads. From the third row on, one "
                          "head looks at the token one step back and the other at two steps "
                          "back.")

# %%
def weight_at(maps, step):
    """Mean weight of each head on the token `step` positions back, from the third row on."""
    return torch.stack([m.diagonal(-step)[2 - min(step, 2):].mean() for m in maps])


one_back, two_steps = weight_at(maps, 1), weight_at(maps, 2)           # (H,) each
best = max(min(one_back[0], two_steps[1]), min(one_back[1], two_steps[0])).item()
claim("division_of_labour", best, at_least=0.5)

# %% [markdown]
# One head took the step of one and the other the step of two: each puts at least [[division_of_labour:.2f]] of its
# weight there on average. Nobody told them. Which of the two takes which is decided by the random start.
#
# A map shows where a head looks. What it is *needed* for is shown by taking it away. To set the rows of one head to zero
# before $W^O$ is the same as setting its columns of $W^O$ to zero.

# %%
@torch.no_grad()
def without_head(model, head):
    """Accuracy on (one step back, two steps back) when one head is switched off."""
    weight, D = model.attention.w_o.weight, 32
    kept = weight.clone()
    weight[:, head * D:(head + 1) * D] = 0.0
    tokens, targets = next(last_tokens(2, batch_size=512))
    right = (model(tokens).argmax(dim=-1) == targets).float().mean(dim=(0, 1))     # (back,)
    weight.copy_(kept)
    return right


losses = [without_head(two_back[2], head) for head in (0, 1)]          # (back,) each
near = int(one_back.argmax())                                          # the head of step one
lost = {"step": losses[near][0].item(), "other": losses[near][1].item()}
claim("lost_with_its_head", lost["step"], at_most=0.3)
claim("kept_by_the_other", lost["other"], at_least=0.9)

# %% [markdown]
# With the head of step one switched off, the token one step back is named at [[lost_with_its_head:.0%]] of positions,
# and the token two steps back still at [[kept_by_the_other:.0%]]. Here each head has one job. In large models many heads
# share jobs, and switching one off often changes little (lessons 16 and 17).
#
# ## Switch heads off
#
# Eight heads and four tokens are a richer case: 256 sets of heads can be left on. To measure all of them, attention
# need run only once, because its output is a sum over heads:
#
# $$\operatorname{MultiHead}(X) = \sum_{i=1}^{h} head_i\, W^O_i ,$$
#
# where $W^O_i$ are the $d_k$ rows of $W^O$ that meet the columns of head $i$. The readout is linear. So each head has
# its part of the [logits](../book/pages/glossary.md#logit), and so has the bias of the readout.

# %%
@torch.no_grad()
def parts_of_logits(model, texts):
    """What each head, and last the bias, adds to the logits: (H + 1, B, T - back, back, V)."""
    layer, x = model.attention, model.token(texts)                    # x: (B, T, d_model)
    placed = x + model.place
    Q, K, V = (split_heads(project(y), layer.num_heads)               # (B, H, T, D)
               for project, y in [(layer.w_q, placed), (layer.w_k, placed), (layer.w_v, x)])
    heads = scaled_dot_product_attention(Q, K, V, model.mask).output  # (B, H, T, D)
    W_O = layer.w_o.weight.T.unflatten(0, (layer.num_heads, 1, -1))   # (H, 1, D, d_model)
    outputs = heads.transpose(0, 1) @ W_O                             # (H, B, T, d_model)
    parts = outputs @ model.readout.weight.T                          # (H, B, T, back * V)
    bias = model.readout.bias.expand_as(parts[:1])
    return torch.cat([parts, bias]).unflatten(-1, (model.back, -1))[:, :, model.back:]


texts, targets = next(last_tokens(4, batch_size=128))                 # (B, T), (B, T - 4, 4)
parts = parts_of_logits(four_back[8], texts)                          # (9, B, T - 4, 4, V)
with torch.no_grad():
    claim("sum_over_heads", (parts.sum(dim=0) - four_back[8](texts)).abs().max().item(),
          at_most=1e-4)

# %% [markdown]
# The sum of all parts differs from the model's own logits by at most [[sum_over_heads:.1g]]. Now a loop over sets of
# heads. A number from 0 to 255 names a set: head 1 is on if its last bit is 1, head 2 if the one before is, and so on.

# %%
shares = torch.zeros(256, 5)                      # right at 1, 2, 3, 4 back; at all four
for heads_on in range(256):
    kept = [h for h in range(8) if heads_on >> h & 1] + [8]           # and the bias
    right = parts[kept].sum(dim=0).argmax(dim=-1) == targets          # (B, T - 4, 4)
    shares[heads_on, :4] = right.float().mean(dim=(0, 1))
    shares[heads_on, 4] = right.all(dim=-1).float().mean()

without = [255] + [255 - 2**h for h in range(8)]                      # all on; one head off
plots.matrix(shares[without], rows=["none", *(f"head {h + 1}" for h in range(8))],
             columns=["1", "2", "3", "4", "all"], x="tokens back", y="switched off",
             label="share of positions",
             alt="Share of positions that are right with one of eight heads off. Most cells "
                 "are at or near one; without some heads one of the four tokens is lost, "
                 "without others nothing much changes.")

# %%
every, *single = shares[without, 4].tolist()    # all four right; with one head off
two_off = {(a, b): shares[255 - 2**a - 2**b, 4].item() for a in range(8) for b in range(a)}
extra = {(a, b): single[a] + single[b] - every - left for (a, b), left in two_off.items()}
a, b = max(extra, key=extra.get)             # together they cost most above the sum
claim("all_heads", every, at_least=0.95)
claim("hardest_to_miss", min(single), at_most=0.7)
claim("easiest_to_miss", max(single), at_least=0.9)
claim("one_cost", every - single[a], at_least=0.005, at_most=0.8)
claim("other_cost", every - single[b], at_least=0.005, at_most=0.8)
claim("cost_of_both", every - two_off[a, b], at_least=0.2)
claim("cost_above_the_sum", extra[a, b], at_least=0.1)

# %% [markdown]
# Some heads have a job of their own: without one of them all four tokens are right at only [[hardest_to_miss:.0%]] of
# positions, in place of [[all_heads:.0%]]. Others share: one can go, and [[easiest_to_miss:.0%]] remain. But two that
# share can stand in for each other only as long as one is there. Of one pair, the first head costs [[one_cost:.0%]] of
# positions when it is off alone, and the second [[other_cost:.0%]]. Both together cost [[cost_of_both:.0%]], about
# [[cost_above_the_sum:.0%]] more than the sum. **Can you find this pair below?**

# %%
HeadSwitches(shares, parts[:, :2, 0].transpose(0, 1), targets[:2, 0],  # two texts
             outputs=["1 back", "2 back", "3 back", "4 back"])

# %% [markdown]
# A column of the table is one sum, and the highest of its 16 logits names the token. Switch all heads off, and add one
# after the other. A head with a job of its own adds much in one column. Where several small parts make up a column, no
# one of them is needed and they are not free either. That is what taking *one* head away cannot show.
#
# ## The bug that trains anyway
#
# What if the split is the wrong `view` from above, and the merge its mirror image? Shapes fit, no error is raised.
# **Will the loss fall?**

# %%
class WrongSplit(MultiHeadAttention):
    """As above, with view in place of view and transpose."""

    def forward(self, query, key, value, mask=None):
        B, T, d_model = query.shape
        Q, K, V = (project(x).view(B, self.num_heads, T, -1)          # (B, H, T, D), wrongly
                   for project, x in [(self.w_q, query), (self.w_k, key), (self.w_v, value)])
        result = scaled_dot_product_attention(Q, K, V, mask)
        return self.w_o(result.output.reshape(B, T, d_model)), result.weights


torch.manual_seed(seed(0))
wrong = train(WrongSplit(64, 2), back=2)
claim("wrong_split", accuracy(wrong), at_least=0.84, at_most=0.88)
claim("places_that_see", 12 / 14, at_least=0.857, at_most=0.858)

# %% [markdown]
# It does. The wrong model reaches [[wrong_split:.0%]]: enough to be taken for one that wants a little more training. It
# wants something else. The first head holds the first 8 tokens, two halves of each, and the second head the last 8. No
# head sees across the cut. Of the 14 places that are judged, the two behind the cut lack what they need, and
# $12/14 \approx$ [[places_that_see:.0%]]. No training will help them.
#
# Two [contracts](../book/pages/glossary.md#contract) look at the untrained module: a shuffle of the tokens should shuffle
# the outputs, and a [causal mask](../book/pages/glossary.md#causal-mask) should hide the future. **Which will notice?**

# %%
x = torch.randn(1, 6, 64, generator=generator)                        # (B, T, d_model)
for name, attention in [("right", MultiHeadAttention(64, 2)), ("wrong", WrongSplit(64, 2))]:
    for contract, mask in [(contracts.permutation_equivariant, None),
                           (contracts.causal, causal_mask(6))]:
        try:
            contract(lambda x, attend=attention, mask=mask: attend(x, x, x, mask)[0], x)
            verdict = "holds"
        except AssertionError:
            verdict = "broken"
        print(f"{name} split, {contract.__name__}: {verdict}")

# %% [markdown]
# Only the shuffle does. Pieces of tokens stand in the order of the tokens, so the causal mask still hides the future. One
# property is no proof; test several.
#
# ## What this lesson did not show
#
# The proof is about one layer, values without places and a linear readout; take one away and it falls, as you saw. The
# measurement is one task, of which we knew in advance that it needs several answers at once. It does not say that eight
# heads are better than four elsewhere: @vaswani2017 (table 3, rows A) found one head worse than eight and thirty-two
# slightly worse, too. Over [[eight_heads_four:seeds]] seeds, eight heads reached
# [[eight_heads_four:range:.2f]] on four tokens.
#
# ## Takeaways
#
# - Splitting cuts the columns into heads and moves the head axis forward: `view`, then `transpose`. Merging goes back the
#   same way.
# - Multi-head attention equals a loop over heads, costs $4\,d_{model}^2$ parameters whatever $h$ is, and equals PyTorch's
#   module to rounding.
# - One head gives one mixture for each position. A linear readout cannot take two ordered answers out of it; two heads, or
#   a small network behind one head, can.
# - A `view` that should have been a `transpose` trains anyway. A shuffle of the tokens finds it before training.

# %% [markdown]
# ## Quiz
#
# 1. `x` has the shape $(B, T, d_{model})$. Which line splits it into $h$ heads of shape $(B, h, T, d_k)$?
#
#    - [ ] `x.view(B, h, T, d_k)` :: The shape is right and the content is not: each head gets a run of whole tokens cut into
#      pieces, in place of a group of columns from every token.
#    - [x] `x.view(B, T, h, d_k).transpose(1, 2)` :: First the columns are cut into groups, then the axis of the heads moves
#      before the positions.
#    - [ ] `x.view(B, T, d_k, h).permute(0, 3, 1, 2)` :: Each head gets every $h$-th column. It is a consistent choice, and
#      trains well, but it is not what others store: weights copied from another model land in the wrong heads.
#
# 2. A module with $d_{model} = 512$ goes from 8 heads to 16. What grows?
#
#    - [ ] the number of parameters, twofold :: The projections stay $512 \times 512$. Each head gets half as many columns.
#    - [ ] nothing at all :: Parameters do not grow. But each head keeps a table of weights of its own.
#    - [x] the memory for attention weights, twofold :: There are $h$ tables of $T \times S$ weights.
#    - [ ] the width of each head, twofold :: It shrinks: $d_k = d_{model} / h$ goes from 64 to 32.
#
# 3. Why can one head with a linear readout not report the last two tokens in order?
#
#    - [x] The two reports ask one mixture for shares in opposite orders. :: Both tokens stand in it. The first report
#      needs $p \gt q$, the second one $q \gt p$.
#    - [ ] One head sees one token only. :: It sees all that the mask allows. Its output is a mixture of them.
#    - [ ] Its width is too small. :: The proof does not mention the width. With all columns in one head it is as wide as it
#      can be.
#    - [ ] The mixture has lost which token came first, whatever its shares are. :: It holds that wherever the shares differ:
#      with a small network before the readout, one head did the job.
#
# 4. What does $W^O$ do?
#
#    - [ ] It averages the outputs of the heads, so that none counts more than another. :: An average would throw away
#      which head found what. Each head has rows of its own in $W^O$.
#    - [x] It mixes the outputs of the heads, which stand side by side, into one vector. :: It is $d_{model}$ by $d_{model}$,
#      and can weigh each number of each head differently.
#    - [ ] It makes the weights of each head sum to one. :: The softmax has done that, in each head for itself.
#
# 5. You switch one head of a trained model off, and the accuracy stays the same. What do you conclude?
#
#    - [ ] The head does nothing. :: Another head may do the same job and stand in for it.
#    - [ ] The head is broken and should be trained again. :: Nothing says that it fails at what it does.
#    - [x] On this data the other heads can do without it. :: That is all that taking one head away shows. Switch off two
#      together, and the result may be another one.

# %% [markdown]
# ## Where to go from here
#
# Shuffle the tokens and every head gives the same answers. In lesson 6 positions make a sequence out of a set.
#
# **Papers.** @vaswani2017 (section 3.2.2 and table 3) introduced heads and varied their number.
