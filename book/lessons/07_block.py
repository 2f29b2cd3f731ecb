# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # The block
#
# **What holds sixty layers together?**
#
# Attention mixes what tokens know. Stack it a few times, and all tokens have become the same token. A
# [Transformer](../book/pages/glossary.md#transformer) wraps it in three plain things, a sum, a norm and a small network,
# and can then be stacked sixty times. You will take each of the three away and see what it was for.
#
# **You will be able to**
#
# - compute a layer norm by hand, and say which variance it uses and where its small constant stands;
# - write both kinds of block, pre-norm and post-norm, and show that they equal the library's;
# - say what a residual connection keeps alive in a deep stack, and measure it before any training;
# - explain from a measurement why post-norm wants a warm-up and pre-norm can do without;
# - remove each part of a block, and say what dropout, clipping and warm-up can and cannot replace.
#
# **Before you start** you should know lessons 3 and 5, and the chain rule.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, plots, seed, tasks, training
from attnlab.layers import EncoderLayer
from attnlab.measured import training_map
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import sinusoidal_positions
from attnlab.widgets import TrainingMap

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## A norm, by hand
#
# [Layer normalisation](../book/pages/glossary.md#layer-normalisation) takes the vector $x$ of one token, $d_{model}$
# numbers, and gives it mean 0 and [variance](../book/pages/glossary.md#variance) 1 [@ba2016, section 3]:
#
# $$\operatorname{LayerNorm}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta ,$$
#
# where $\mu$ is the mean of these numbers and $\sigma^2$ their variance:
#
# $$\mu = \frac{1}{d_{model}} \sum_i x_i, \qquad \sigma^2 = \frac{1}{d_{model}} \sum_i (x_i - \mu)^2 .$$
#
# $\gamma$ and $\beta$ are learnt, one number a dimension, and begin as ones and zeros. $\epsilon$ is small, $10^{-5}$.
#
# By hand, for $(1, 0, 0, 0)$: the mean is $1/4$, the distances from it are $3/4$ for the 1 and $-1/4$ for each 0. Their
# squares sum to $12/16$, so $\sigma^2 = 3/16$ with the root $\sqrt 3 / 4$. The first number becomes $3/\sqrt 3 = \sqrt 3$,
# and the others $-1/\sqrt 3$. The same as a loop:

# %%
def layer_norm_loop(x, eps=1e-5):
    mean = sum(x) / len(x)
    variance = sum((number - mean) ** 2 for number in x) / len(x)
    return [(number - mean) / (variance + eps) ** 0.5 for number in x]


[round(number, 3) for number in layer_norm_loop([1.0, 0.0, 0.0, 0.0])]

# %% [markdown]
# And for all tokens of all sequences at once. Every token is treated by itself: nothing is averaged over positions or
# over the batch.

# %%
def layer_norm(x, weight=None, bias=None, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)                          # (B, T, d_model)
    variance = centred.square().mean(dim=-1, keepdim=True)              # (B, T, 1)
    normed = centred / (variance + eps).sqrt()
    normed = normed if weight is None else normed * weight              # weight: (d_model,)
    return normed if bias is None else normed + bias


x = 3 + 2 * torch.randn(2, 5, 12, generator=generator)                  # (B, T, d_model)
gamma, beta = torch.randn(2, 12, generator=generator)
difference = layer_norm(x, gamma, beta) - F.layer_norm(x, (12,), gamma, beta)
claim("norm_difference", difference.abs().max().item(), at_most=1e-5)

# %% [markdown]
# PyTorch's function differs by about [[norm_difference:.0e]].
#
# :::{admonition} The common confusion: which variance, and where is $\epsilon$?
# :class: caution
# `x.std()` divides by $d_{model} - 1$, the *unbiased* estimate. A layer norm divides by $d_{model}$. And $\epsilon$ stands
# inside the root. Code with the two slips trains well, and gives other numbers than the weights it loads expect. Two
# vectors tell all versions apart.
# :::

# %%
def slip(x, eps=1e-5):
    return (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + eps)


one, constant = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.full((4,), 3.0)
claim("right_first", layer_norm(one)[0].item(), at_least=1.7319, at_most=1.7321)
claim("slip_first", slip(one)[0].item(), at_least=1.4998, at_most=1.5001)
claim("constant_vector", layer_norm(constant).abs().max().item(), equals=0.0)
tiny = 1e-3 * one
claim("tiny_right", layer_norm(tiny)[0].item(), at_least=0.22, at_most=0.24)
claim("tiny_slip", slip(tiny)[0].item(), at_least=1.4)

# %% [markdown]
# The right first number is [[right_first:.4f]], the slip's [[slip_first:.3f]]. A constant vector gives
# [[constant_vector:.0f]] everywhere: without $\epsilon$ it would be $0/0$. For the tiny vector $(0.001, 0, 0, 0)$ the
# place of $\epsilon$ shows: [[tiny_right:.2f]] inside the root, [[tiny_slip:.2f]] outside.
#
# ## A network for each token
#
# Attention moves and mixes: its output is a weighted sum of [values](../book/pages/glossary.md#value), and the values are
# linear in the tokens. In lesson 5 a small network behind one head took out of the mixture what no linear map could. Every
# block has such a [feed-forward network](../book/pages/glossary.md#feed-forward-network) [@vaswani2017, section 3.3]:
#
# $$\operatorname{FFN}(x) = \max(0,\, x W_1 + b_1)\, W_2 + b_2 .$$
#
# $W_1$ leads to a greater width $d_{ff}$, usually $4\, d_{model}$, and $W_2$ back.

# %%
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        for linear in (self.w_1, self.w_2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x):                            # (B, T, d_model)
        return self.w_2(F.relu(self.w_1(x)))         # (B, T, d_ff), then (B, T, d_model)


torch.manual_seed(seed(0))
network, attention = FeedForward(12, 48), MultiHeadAttention(12, 3)
changed = x.clone()
changed[:, 2] += 1.0                                 # another token at position 2
parts = {"network": network, "attention": lambda x: attention(x).output}
moved = {name: (part(changed) - part(x)).abs().amax(dim=(0, 2)) > 1e-4     # (T,)
         for name, part in parts.items()}
{name: flags.int().tolist() for name, flags in moved.items()}

# %% [markdown]
# Change one token: the network's output moves at that position alone, attention's at all. Attention talks between
# tokens, the network thinks about each. It also holds most of the [parameters](../book/pages/glossary.md#parameter):

# %%
def count(module):
    return sum(p.numel() for p in module.parameters())


in_attention, in_network = count(MultiHeadAttention(512, 8)), count(FeedForward(512, 2048))
share = in_network / (in_attention + in_network)
claim("network_share", share, at_least=0.66, at_most=0.67)

# %% [markdown]
# At the paper's widths, $d_{model} = 512$ and $d_{ff} = 2048$, that is [[network_share:.0%]] of a block, $8\,
# d_{model}^2$ against $4\, d_{model}^2$.
#
# ## Adding instead of replacing
#
# Call attention or the network $f$. A [residual connection](../book/pages/glossary.md#residual-connection) adds what $f$
# computes to what it was given [@he2016, section 3]: $y = x + f(x)$. The sum that runs through all layers is the
# [residual stream](../book/pages/glossary.md#residual-stream): each layer reads it and writes a change.
#
# Why? Take the smallest layer, $f(x) = a\, x$ with $a = 0.1$, sixty times. Without the sum, the derivative of the output
# is $a^{60}$. With it, each layer has the derivative $1 + a$:

# %%
replaced, added = 1.0, 1.0
for _ in range(60):
    replaced, added = replaced * 0.1, added * (1 + 0.1)
claim("replaced", replaced, at_least=0.9e-60, at_most=1.1e-60)
claim("added", added, at_least=304, at_most=305)

# %% [markdown]
# [[replaced:.0e]] against [[added:.0f]]. The 1 is a path around every layer, on which nothing is lost. But 304 is not 1:
# the sum *grows*. This is why the norm is there, and why the two come together.
#
# ## Two blocks
#
# The paper norms the sum, $\operatorname{LayerNorm}(x + f(x))$, called *post-norm* [@vaswani2017, section 3.1]. Most later
# models norm what $f$ reads, $x + f(\operatorname{LayerNorm}(x))$, called
# [pre-norm](../book/pages/glossary.md#pre-norm-and-post-norm). Look at which path the sum takes: in pre-norm the stream is
# never touched, in post-norm it goes through every norm.
#
# [Dropout](../book/pages/glossary.md#dropout) stands on $f$'s output, before it is added [@vaswani2017, section 5.4]; many
# implementations, the library's among them, put it on the attention weights and inside the network as well.

# %%
class Block(nn.Module):
    """The parts; a subclass puts them together."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x, mask=None):                                     # (B, T, d_model)
        return self.dropout(self.self_attention(x, mask=mask, need_weights=False).output)

    def transform(self, x):
        return self.dropout(self.feed_forward(x))


class PostNormBlock(Block):
    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attend(x, mask))
        return self.norm_2(x + self.transform(x))


class PreNormBlock(Block):
    def forward(self, x, mask=None):
        x = x + self.attend(self.norm_1(x), mask)
        return x + self.transform(self.norm_2(x))


# %% [markdown]
# The library has both in `attnlab.layers`: `PreNorm` and `PostNorm` are the two sums, and `EncoderLayer` is the block with
# either. Copy the weights, compare the outputs:

# %%
torch.manual_seed(seed(0))
differences = {}
for name, block in [("post", PostNormBlock), ("pre", PreNormBlock)]:
    ours, theirs = block(12, 3, 48), EncoderLayer(12, 3, 48, norm=name)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values())))
    differences[name] = (ours(x) - theirs(x).output).abs().max().item()
claim("block_difference", differences, at_most=1e-5)

# %% [markdown]
# They agree to rounding. The largest difference is [[block_difference[post]:.1g]] for post-norm and
# [[block_difference[pre]:.1g]] for pre-norm.
#
# :::{admonition} The common confusion: where the norm stands
# :class: caution
# Both blocks have the same parts, the same parameters and the same shapes, so weights made for one load into the other
# without an error, and the outputs are wrong. "A norm after each layer" fits both, for pre-norm has one after each layer as
# well: the next layer's. The question to ask is what happens to the *sum*. Silence attention and network, so that $f(x) = 0$: a
# pre-norm block then changes nothing.
# :::

# %%
def silence(block):
    for linear in (block.self_attention.w_o, block.feed_forward.w_2):
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
    return block


pre, post = silence(PreNormBlock(12, 3, 48)), silence(PostNormBlock(12, 3, 48))
claim("silent_pre", (pre(x) - x).abs().max().item(), equals=0.0)
claim("silent_post", (post(x) - x).abs().max().item(), at_least=1)

# %% [markdown]
# Silent, the pre-norm block changes its input by [[silent_pre:.0f]], the post-norm block by up to [[silent_post:.1f]].
#
# ## Sixty layers, before any training
#
# Now stack sixty blocks with random weights and follow a random sequence through them. Beside the two blocks, three with
# something missing:

# %%
class NoResidual(Block):
    def forward(self, x, mask=None):
        return self.transform(self.norm_2(self.attend(self.norm_1(x), mask)))


class NoNorm(Block):
    def forward(self, x, mask=None):
        x = x + self.attend(x, mask)
        return x + self.transform(x)


class Neither(Block):
    def forward(self, x, mask=None):
        return self.transform(self.attend(x, mask))


kinds = {"pre-norm": PreNormBlock, "post-norm": PostNormBlock, "no residual": NoResidual,
         "no norm": NoNorm, "neither": Neither}
roles = {"pre-norm": "a", "post-norm": "b", "no residual": "wrong", "no norm": "c",
         "neither": "f"}

# %% [markdown]
# Three things are measured in each layer. The *size* of the stream is the root mean square of its numbers. The
# *gradient* is its length at the layer's input, for a random direction at the output. And the *distinct share* says how
# much of the stream differs from token to token: with $\bar x$ the mean of the $T$ tokens,
#
# $$\text{distinct share} = \frac{\sum_t \lVert x_t - \bar x \rVert^2}{\sum_t \lVert x_t \rVert^2} .$$
#
# It is 1 where the tokens have nothing in common, and 0 where all are the same. We compute in double precision.

# %%
def distinct_share(x):                                                  # (B, T, d_model)
    apart = x - x.mean(dim=1, keepdim=True)
    return (apart.square().sum() / x.square().sum()).item()


def through(block, depth=60, d_model=64):
    torch.manual_seed(seed(0))
    blocks = nn.ModuleList(block(d_model, 4, 4 * d_model) for _ in range(depth)).double()
    data = torch.Generator().manual_seed(seed(1))
    x, direction = torch.randn(2, 4, 16, d_model, generator=data, dtype=torch.float64)
    stream = [x.requires_grad_()]                                       # (B, T, d_model) each
    for layer in blocks:
        stream.append(layer(stream[-1]))
        stream[-1].retain_grad()
    end = F.layer_norm(stream[-1], (d_model,)) if block is PreNormBlock else stream[-1]
    (end * direction).sum().backward()
    return {"size": [x.square().mean().sqrt().item() for x in stream],
            "gradient": [x.grad.norm().item() for x in stream],
            "distinct": [distinct_share(x) for x in stream],
            "last": blocks[-1].feed_forward.w_2.weight.grad.norm().item()}


deep = {name: through(block) for name, block in kinds.items()}

# %% [markdown]
# **Before you look:** which lines will run away? The first figure is the size, on a log axis.

# %%
def by_layer(what, names, y, alt):
    return plots.lines(range(61), {name: deep[name][what] for name in names}, x="layer", y=y,
                       log="y", roles=roles, marks=False, alt=alt)


size = {name: run["size"][-1] for name, run in deep.items()}
claim("size_neither", size["neither"], at_most=1e-18)
claim("size_no_norm", size["no norm"], at_least=1e6)
claim("size_pre", size["pre-norm"], at_least=4, at_most=10)
claim("gradient_neither", deep["neither"]["gradient"][0] / deep["neither"]["gradient"][-1],
      at_most=1e-16)
by_layer("size", kinds, "size of the stream",
         alt="Size of the stream by layer on a log axis. With neither norm nor residual it "
             "falls by more than twenty orders of magnitude, without the norm it grows by "
             "eight; with a norm it stays near one, and grows slowly in pre-norm.")

# %% [markdown]
# With neither, the signal ends at [[size_neither:.0e]], and the gradient at the first layer is
# [[gradient_neither:.0e]] of that at the last: nothing could be learnt down there. With the sum alone the size reaches
# [[size_no_norm:.0e]]. With a norm all is well, it seems, even without the residual connection. So what is *that* for?
# Look at the distinct share.

# %%
claim("distinct_no_residual", deep["no residual"]["distinct"][5], at_most=1e-20)
claim("distinct_post", deep["post-norm"]["distinct"][-1], at_most=1e-6)
claim("distinct_pre", deep["pre-norm"]["distinct"][-1], at_least=0.04)
by_layer("distinct", ["pre-norm", "post-norm", "no residual"], "distinct share",
         alt="Share of the stream that differs from token to token, by layer, on a log axis. "
             "Without residual connections it falls to the limit of rounding within five "
             "layers; in post-norm it falls steadily through all sixty; in pre-norm it "
             "stays near a tenth.")

# %% [markdown]
# Without residual connections all tokens are one token after five layers: [[distinct_no_residual:.0e]] is what rounding
# leaves. Untrained attention is nearly an average, and an average of averages forgets who was who. @dong2021 (section 2)
# call it [rank collapse](../book/pages/glossary.md#rank-collapse), and prove it for attention alone.
#
# In post-norm each layer adds what all tokens share and the norm then shrinks the rest: [[distinct_post:.0e]] is left
# after sixty. In pre-norm the share is still [[distinct_pre:.2f]]: the token's own vector stays in the sum, and
# its share falls only as the sum grows.
#
# "Without residual connections the gradient vanishes", one often reads. Is that so?

# %%
gradient = {name: run["gradient"][0] / run["gradient"][-1] for name, run in deep.items()}
claim("gradient_kept", gradient["no residual"], at_least=0.02, at_most=5)
claim("gradient_pre", gradient["pre-norm"], at_least=1, at_most=20)
ratio = deep["post-norm"]["last"] / deep["pre-norm"]["last"]
claim("last_layer_ratio", ratio, at_least=3, at_most=10)
claim("variance_a_layer", size["pre-norm"] ** 2 / 60, at_least=0.35, at_most=1.2)

# %% [markdown]
# With norms and no residual connections, the gradient at the first layer is [[gradient_kept:.1f]] times as long as at the
# last ([[gradient_pre:.1f]] times in pre-norm). Over the seeds the factor was [[gradient_kept:range:.1f]]:
# it does not vanish. It is of little use all the same, since above a few layers no token can be told from another. Before training, the sentence is right here only where the norms are missing, too.
#
# **Why a last norm?** In pre-norm each layer adds to the stream, and independent terms add their variances. The variance
# of the stream grows by [[variance_a_layer:.2f]] a layer, over [[variance_a_layer:seeds]] seeds by
# [[variance_a_layer:range:.2f]]. So the stack ends in one norm more, before the readout. It divides by the stream's size, [[size_pre:.1f]], and with the signal
# forwards it divides the gradient backwards: at the last layer it is [[last_layer_ratio:.1f]] times smaller than in
# post-norm. @xiong2020 (section 3.3) derive bounds that differ by $\sqrt{\text{depth}}$, and see in the large gradients of
# post-norm the reason why it needs a [warm-up](../book/pages/glossary.md#warm-up): a learning rate that begins near zero
# and rises.
#
# ## Training: mirror sums
#
# The task: each position must name the sum, modulo 5, of its own symbol and the symbol that faces it from the other end.
# Attention can fetch, and the network can add. One block can learn it, as you will see; we use six, to test the stacking.
# Data are drawn afresh at each step, so nothing can be learnt by heart.

# %%
class Mirror(nn.Module):
    def __init__(self, block, depth=6, dropout=0.0, d_model=32):
        super().__init__()
        self.embedding = nn.Embedding(5, d_model)
        self.register_buffer("places", sinusoidal_positions(6, d_model))
        self.blocks = nn.ModuleList(
            block(d_model, 4, 2 * d_model, dropout) for _ in range(depth))
        has_last_norm = block not in (PostNormBlock, NoNorm)
        self.last_norm = nn.LayerNorm(d_model) if has_last_norm else nn.Identity()
        self.readout = nn.Linear(d_model, 5)

    def stream(self, tokens):                                           # (B, T)
        x = self.embedding(tokens) + self.places                        # (B, T, d_model)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, tokens):
        return self.readout(self.last_norm(self.stream(tokens)))        # (B, T, 5)


def mirror_sums(batch_size, data):
    tokens, facing = tasks.reversal(batch_size, 6, data, num_symbols=5)
    return tokens, (tokens + facing) % 5                                # (B, T) each


# %% [markdown]
# In our warm-up the learning rate rises in a straight line over the first 100 steps. Each run has the same start, the
# same data, 300 steps and the rate 0.005.

# %%
test_tokens, test_sums = mirror_sums(512, torch.Generator().manual_seed(seed(3)))


@torch.no_grad()
def accuracy(model):
    return (model.eval()(test_tokens).argmax(dim=-1) == test_sums).float().mean().item()


def train(block, *, warmup=0, clip=None, steps=300, rate=0.005, **options):
    torch.manual_seed(seed(1))
    model, data = Mirror(block, **options), torch.Generator().manual_seed(seed(2))
    shares = []

    def watch(history):
        if history.steps % 5 == 0:
            with torch.no_grad():
                shares.append(distinct_share(model.stream(test_tokens[:64])))

    history = training.fit(
        model, (mirror_sums(32, data) for _ in range(steps)), steps=steps, clip=clip,
        optimizer=torch.optim.Adam(model.parameters(), lr=rate, fused=True),
        schedule=lambda step: min(1.0, step / max(1, warmup)), after_step=watch)
    return {"accuracy": accuracy(model), "history": history, "distinct": shares,
            "late loss": sum(history.losses[-100:]) / 100}


runs = {"pre-norm": train(PreNormBlock), "post-norm": train(PostNormBlock),
        "post-norm, warm-up": train(PostNormBlock, warmup=100)}

# %% [markdown]
# Guessing has a [loss](../book/pages/glossary.md#loss) of $\ln 5$. Which of the three lines leave it?

# %%
def tens(values):
    return torch.tensor(values).view(-1, 10).mean(dim=1)                # (steps / 10,)


named = {"pre-norm": "a", "post-norm": "b", "post-norm, warm-up": "e"}
claim("pre_norm", runs["pre-norm"]["accuracy"], at_least=0.95)
claim("post_norm", runs["post-norm"]["accuracy"], at_most=0.35)
claim("post_norm_warm", runs["post-norm, warm-up"]["accuracy"], at_least=0.85)
plots.lines(range(10, 301, 10), {n: tens(run["history"].losses) for n, run in runs.items()},
            x="training steps", y="loss (nats)", roles=named, marks=False,
            guides={"guessing": torch.tensor(5.0).log().item()},
            alt="Training loss of three models. Pre-norm falls to nearly zero within 250 "
                "steps; post-norm with warm-up follows later; post-norm without warm-up "
                "stays at the loss of a guess.")

# %% [markdown]
# Without warm-up, pre-norm ends with [[pre_norm:.0%]] of positions right and post-norm with [[post_norm:.0%]], where a
# guess gets 20%. With warm-up, post-norm reaches [[post_norm_warm:.1%]]. What does the warm-up prevent? The distinct share
# at the top of the stack was recorded on the way:

# %%
first = {name: run["distinct"][:24] for name, run in runs.items()}      # every fifth step
lowest = {name: min(shares) for name, shares in first.items()}
claim("lowest_pre", lowest["pre-norm"], at_least=0.002)
claim("lowest_warm", lowest["post-norm, warm-up"], at_least=0.00005)
claim("lowest_post", lowest["post-norm"], at_most=0.00001)
plots.lines(range(5, 121, 5), first, roles=named, log="y",
            x="training steps", y="distinct share, last layer",
            alt="Distinct share of the last layer over the first 120 steps, log axis. "
                "Pre-norm and post-norm with warm-up fall, turn and rise; post-norm without "
                "warm-up falls thousands of times further and stays there.")

# %% [markdown]
# All three fall at first. The quickest way to a better loss is to forget the input and guess evenly, so early steps make
# tokens alike. Pre-norm does not fall below [[lowest_pre:.3f]], warmed-up post-norm not below [[lowest_warm:.4f]], and
# both turn. Post-norm at the full rate falls to [[lowest_post:.0e]] and stays low. All positions now get one answer, and
# the gradient hardly says which token should have got which.
#
# Why does post-norm fall so far? Two things meet. Its norms shrink what differs, layer by layer, as you saw before any
# training. And @liu2020 (section 4) point at [Adam](../book/pages/glossary.md#adam): its first step moves every
# parameter by the learning rate, however long the gradient was, and the same step of the parameters moves post-norm's
# *output* further. The section *Depth, rate and norm* below measures that.

# %% [markdown]
# ## What each remedy does
#
# Three things are often named in one breath as what makes training stable: warm-up,
# [clipping](../book/pages/glossary.md#gradient-clipping) and dropout. Try one at a time, on two stacks that are ill in
# different ways: post-norm, and six blocks without any norm. **Which remedy helps which?**

# %%
runs |= {"post-norm, clipping": train(PostNormBlock, clip=0.5),
         "post-norm, dropout": train(PostNormBlock, dropout=0.1),
         "no norm": train(NoNorm),
         "no norm, warm-up": train(NoNorm, warmup=100),
         "no norm, clipping": train(NoNorm, clip=0.5)}
late = {name: run["late loss"] for name, run in runs.items()}
untreated = {kind: late[kind] for kind in ("post-norm", "no norm")}
claim("untreated", untreated, at_least=0.5)
claim("post_late", {name: late[f"post-norm, {name}"] for name in ("clipping", "dropout")},
      at_least=1.4)
claim("post_warm_late", late["post-norm, warm-up"], at_most=0.6)
claim("no_norm_warm", late["no norm, warm-up"], at_least=0.5)
claim("no_norm_clipped", late["no norm, clipping"], at_most=0.2)
longest = {name: max(run["history"].gradient_norms) for name, run in runs.items()}
claim("longest_no_norm", longest["no norm"], at_least=30)
claim("longest_post", longest["post-norm"], at_most=10)
order = [name for kind in ("post", "no norm") for name in late if kind in name]
plots.bars({name: late[name] for name in order}, y="mean loss of the last 100 steps (nats)",
           roles={name: "b" if "post" in name else "c" for name in order},
           guides={"guessing": torch.tensor(5.0).log().item()},
           alt="Loss late in training. Post-norm is helped by warm-up, not by clipping or "
               "dropout. Without a norm it is clipping that helps, and warm-up does not.")

# %% [markdown]
# - **Warm-up** takes the loss of post-norm from [[untreated[post-norm]:.2f]] to [[post_warm_late:.2f]]. Without norms it is
#   [[no_norm_warm:.2f]] with a warm-up and [[untreated[no norm]:.2f]] without one.
# - **Clipping** does the reverse. Without norms the longest gradient is [[longest_no_norm:.0f]] long; clipped, that stack
#   gets down to [[no_norm_clipped:.2f]]. (A likely reason: Adam remembers long gradients for many steps, and makes small
#   steps meanwhile.) In post-norm the longest is [[longest_post:.1f]], and clipping leaves the loss at
#   [[post_late[clipping]:.2f]]: its trouble is not length.
# - **Dropout** leaves post-norm at [[post_late[dropout]:.2f]]. It is no remedy for training that fails. It is one for
#   training that succeeds too well, when examples are few. So take sixty examples, two blocks, and measure the loss on
#   fresh ones:

# %%
def few_examples(dropout, steps=300):
    torch.manual_seed(seed(1))
    model, data = Mirror(PreNormBlock, depth=2, dropout=dropout), torch.Generator()
    tokens, sums = mirror_sums(60, data.manual_seed(seed(2)))

    def batches():
        while True:
            rows = torch.randint(60, (32,), generator=data)
            yield tokens[rows], sums[rows]

    training.fit(model, batches(), steps=steps, lr=0.005)
    with torch.no_grad():
        return F.cross_entropy(model.eval()(test_tokens).mT, test_sums).item()


fresh = {dropout: few_examples(dropout) for dropout in (0.0, 0.1)}
claim("fresh_loss", fresh[0.0], at_least=1.7)
claim("dropout_gain", fresh[0.0] - fresh[0.1], at_least=0.1)

# %% [markdown]
# It is [[fresh_loss:.1f]] nats without dropout, more than a guess costs, since the model learnt its sixty examples by
# heart. Dropout lowers it by [[dropout_gain:.1f]]. It softens the harm; it does not make sixty examples enough.
#
# ## Without each part
#
# The [ablation](../book/pages/glossary.md#ablation): train the pre-norm stack again with one part of every block gone.
# Which part can be missed?

# %%
class NoAttention(Block):
    def forward(self, x, mask=None):
        return x + self.transform(self.norm_2(x))


class NoFeedForward(Block):
    def forward(self, x, mask=None):
        return x + self.attend(self.norm_1(x), mask)


without = {"nothing removed": runs["pre-norm"]["accuracy"],
           "no norm": runs["no norm"]["accuracy"],
           "no residual": train(NoResidual)["accuracy"],
           "no attention": train(NoAttention)["accuracy"],
           "no feed-forward": train(NoFeedForward)["accuracy"]}
claim("no_norm", without["no norm"], at_least=0.3, at_most=0.97)
claim("no_residual", without["no residual"], at_most=0.3)
claim("no_attention", without["no attention"], at_most=0.3)
claim("no_feed_forward", without["no feed-forward"], at_least=0.8)
claim("single", train(PreNormBlock, depth=1)["accuracy"], at_least=0.97)
claim("single_no_feed_forward", train(NoFeedForward, depth=1)["accuracy"], at_most=0.97)
plots.bars(without, y="share of positions right", guides={"guessing": 0.2},
           roles={name: "a" if name == "nothing removed" else "wrong" for name in without},
           alt="Share of positions right with one part removed. Without residual connections "
               "or without attention the model guesses; without the norm it learns in part; "
               "without the feed-forward network it nearly keeps up.")

# %% [markdown]
# Without residual connections ([[no_residual:.0%]]) or attention ([[no_attention:.0%]]) the model guesses, and without
# norms it gets [[no_norm:.0%]] (over the seeds, [[no_norm:range:.2f]]: it learns late). Without the networks it still gets [[no_feed_forward:.1%]]. That surprises, for the mixture
# is linear in the values. But six softmaxes and a norm bend, too, and here they are enough. With a *single* block the
# network's share shows: [[single:.0%]] with it, [[single_no_feed_forward:.0%]] without. An ablation answers for one task and
# one depth.
#
# ## Sixty layers, or one layer sixty times?
#
# One line of code makes a stack, and three ways of writing it look alike. They are not.

# %%
torch.manual_seed(seed(0))
one_block = PreNormBlock(32, 4, 64)
stacks = {"made one by one": nn.ModuleList(PreNormBlock(32, 4, 64) for _ in range(4)),
          "one object": nn.ModuleList([one_block] * 4),
          "deep copies": nn.ModuleList(copy.deepcopy(one_block) for _ in range(4)),
          "nn.TransformerEncoder": nn.TransformerEncoder(
              nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), num_layers=4).layers}


def start_difference(stack):
    """Largest difference between a weight of the first layer and of the last one."""
    pairs = zip(stack[0].parameters(), stack[3].parameters())
    return max((first - last).abs().max().item() for first, last in pairs)


layers = {name: count(stack) / count(stack[0]) for name, stack in stacks.items()}
apart = {name: start_difference(stack) for name, stack in stacks.items()}
claim("layers", layers["made one by one"], equals=4)
claim("layers_shared", layers["one object"], equals=1)
claim("layers_copied", layers["deep copies"], equals=4)
claim("apart", apart["made one by one"], at_least=0.1)
copies = {name: apart[name] for name in ("deep copies", "nn.TransformerEncoder")}
claim("copies_apart", copies, equals=0)
{name: (layers[name], round(apart[name], 1)) for name in stacks}

# %% [markdown]
# `[block] * 4` is *one* block at four places: [[layers_shared:.0f]] layer's worth of parameters in place of
# [[layers:.0f]]. Deep copies have [[layers_copied:.0f]] layers' worth, but all start with equal weights: they differ by
# [[copies_apart[deep copies]:.0f]], blocks made one by one by up to [[apart:.1f]]. PyTorch's own `nn.TransformerEncoder`
# copies the layer that it is given, and differs by [[copies_apart[nn.TransformerEncoder]:.0f]], too. Training parts the
# copies, for each gets another gradient; still, a random start was meant. Make the blocks one by one.
#
# ## Depth, rate and norm
#
# How far does *one* step of Adam move the output of an untrained stack? The output is compared before and after, and the
# change is divided by the output's length. Compare lines of equal depth, then of equal kind.

# %%
def change_by_one_step(block, depth, rate):
    torch.manual_seed(seed(1))
    model, data = Mirror(block, depth), torch.Generator().manual_seed(seed(2))
    with torch.no_grad():
        before = model.last_norm(model.stream(test_tokens))             # (B, T, d_model)
    training.fit(model, [mirror_sums(128, data)], steps=1, clip=None, lr=rate)
    with torch.no_grad():
        after = model.last_norm(model.stream(test_tokens))
    return ((after - before).norm() / before.norm()).item()


rates = [0.00003, 0.0001, 0.0003, 0.001, 0.003]
change = {f"{name}, {depth} layers":
          [change_by_one_step(kinds[name], depth, rate) for rate in rates]
          for name in ("post-norm", "pre-norm") for depth in (6, 24)}
at = {name: dict(zip(rates, values)) for name, values in change.items()}
claim("change_post", at["post-norm, 6 layers"][0.001], at_least=0.25)
claim("change_pre", at["pre-norm, 6 layers"][0.001], at_most=0.4)
small = {name: step[0.0001] for name, step in at.items()}
ratio = {depth: small[f"post-norm, {depth} layers"] / small[f"pre-norm, {depth} layers"]
         for depth in (6, 24)}
claim("change_ratio", ratio[6], at_least=1.1)
claim("change_ratio_deep", ratio[24], at_least=1.4)
plots.lines(rates, change, x="learning rate of the step", y="change of the output", log="xy",
            roles={name: "b" if "post" in name else "a" for name in change},
            alt="Change of the output by one step over the learning rate, log axes. At the "
                "same rate and depth, post-norm moves further than pre-norm, and deeper "
                "stacks move further than shallow ones.")

# %% [markdown]
# At six layers and the rate 0.001 one step moves the output of post-norm by [[change_post:.2f]] times its length and that of
# pre-norm by [[change_pre:.2f]]. At the rate 0.0001 post-norm moves [[change_ratio:.1f]] times as far at six layers and
# [[change_ratio_deep:.1f]] times at 24; over [[change_ratio:seeds]] seeds these factors were [[change_ratio:range:.1f]] and
# [[change_ratio_deep:range:.1f]]. Warm-up makes the first steps small. Depth moves all lines up, so sixty layers need more
# care in either form.
#
# ## At other depths and rates
#
# You have trained three kinds of stack at six layers and one rate. A map of other depths and rates is more than a lesson's
# minute can train. It was measured beforehand with this lesson's own `train`, with one seed for each cell, and comes with
# the course's library. Do its cells agree with your runs? The figure shows its row of six layers. Look for the range of
# rates at which each line leaves the guess.

# %%
stored = training_map()
guess = torch.tensor(5.0).log().item()


def last_loss(losses):
    return losses[..., -(losses.shape[-1] // 5):].mean(dim=-1)          # of the last fifth


six, rate = stored.depths.index(6), stored.rates.index(0.005)
gaps = {name: abs(last_loss(torch.tensor(run["history"].losses)).item()
                  - last_loss(stored.losses(name))[six, rate].item())
        for name, run in runs.items() if name in stored.kinds}
claim("map_gap", max(gaps.values()), at_most=0.5)
claim("map_runs", len(stored.kinds) * len(stored.depths) * len(stored.rates), at_least=100)
plots.lines(stored.rates,
            {name: last_loss(stored.losses(name))[six].clamp(max=2.5)
             for name in stored.kinds},
            x="learning rate", y="last loss (nats)", log="x", guides={"guessing": guess},
            roles=dict(zip(stored.kinds, ("a", "d", "b", "e"))),
            alt="Last loss of six layers over the learning rate, on a logarithmic axis, for "
                "pre-norm and post-norm, each with and without warm-up. Post-norm without "
                "warm-up stays near guessing at most rates; warm-up widens the range of "
                "rates that work, most of all for pre-norm.")

# %% [markdown]
# Your runs lie within [[map_gap:.3f]] nats of the stored ones. Without warm-up, post-norm is back at the guess at rates at
# which pre-norm still learns. With it, both learn at higher rates than before, and pre-norm gains most.
#
# ## See it move
#
# Here are all [[map_runs:.0f]] runs. Choose a norm, with or without warm-up. Press a cell, or move over the map with the arrow
# keys: the [loss](../book/pages/glossary.md#loss) curve of that run stands beside the curve of the other norm at the same depth
# and rate. A cell with `=` ended no better than a guess.
#
# **What to look for.** Choose post-norm without warm-up and go to deeper stacks: where does it stop learning? Then switch
# warm-up on. How far does the border move? Pre-norm has such a border, too, at higher rates.

# %%
TrainingMap(stored.curves, depths=stored.depths, rates=stored.rates, steps=stored.steps,
            guess=guess, norm="post", depth=6, rate=0.005)

# %% [markdown]
# ## What this lesson did not show
#
# Sixty layers were measured at their start, not trained; what was trained had six. The task is small and the learning
# rate one, chosen high: with a smaller one, or with more steps, post-norm may well learn without warm-up. That tokens
# grow alike *goes with* the failure of post-norm; that it causes it is likely, not proved. Nor is pre-norm better in
# all things: the abstract of @liu2020 finds that what makes a stack easy to train can also limit how good it gets. Over
# [[post_norm_warm:seeds]] seeds the three runs ended at [[pre_norm:range:.3f]] (pre-norm), [[post_norm:range:.3f]]
# (post-norm) and [[post_norm_warm:range:.3f]] (with warm-up).
#
# ## Takeaways
#
# - A layer norm gives each token mean 0 and variance 1: variance divided by $d_{model}$, $\epsilon$ inside the root.
# - Post-norm is $\operatorname{LayerNorm}(x + f(x))$, pre-norm $x + f(\operatorname{LayerNorm}(x))$ with a norm at the end
#   of the stack.
# - The norm keeps the stream's size, the residual connection keeps tokens apart. Sixty layers need both.
# - A step of Adam moves the output of post-norm further than that of pre-norm. At the full rate its tokens become one before
#   it has learnt anything; a warm-up prevents that.
# - Warm-up makes early steps small, clipping bounds long gradients, dropout works against learning by heart. Each cured
#   one illness and left the others as they were.

# %% [markdown]
# ## Quiz
#
# 1. What is the layer norm of $(2, 0)$, with $\epsilon$ left out and no learnt scale?
#
#    - [ ] $(0.71, -0.71)$ :: That divides by the unbiased deviation, $\sqrt 2$. A layer norm divides the sum of squares by
#      the number of entries, here 2, and not by one less.
#    - [x] $(1, -1)$ :: The mean is 1, the distances are 1 and $-1$, and their mean square is 1.
#    - [ ] $(1, 0)$ :: That divides by the length. A layer norm subtracts the mean first.
#    - [ ] $(2, 0)$, as it has no negative entry :: Signs do not matter. Every vector is shifted and scaled.
#
# 2. Where does the gradient of a pre-norm stack find a path on which no norm and no weight stands?
#
#    - [x] along the sums, down to the embedding :: Each block computes $x + f(\dots)$, and the derivative
#      of the first term is 1. The path begins behind the norm at the end of the stack.
#    - [ ] through the attention weights, which are shares of one whole :: They depend on queries and keys, which come from matrices and norms.
#    - [ ] nowhere, as every block begins with a norm :: The norm stands on what $f$ reads. The sum goes past it.
#
# 3. A stack of sixty blocks has norms and no residual connections. What did the untrained stack lose?
#
#    - [ ] the size of its signal :: Each norm brings that back to 1.
#    - [ ] the length of its gradient at the first layer :: That arrived more or less whole.
#    - [x] the differences between its tokens :: After a few layers all positions hold the same vector, so nothing behind
#      them can tell one token from another.
#
# 4. The loss of a six-layer post-norm model stays at that of a guess. Its gradients are about 1 long and no step is NaN. What
#    would you try first?
#
#    - [ ] clipping at 1 :: It changes nothing where gradients are no longer than that.
#    - [ ] more dropout :: It helps a model that has learnt its examples by heart. This one has learnt nothing.
#    - [x] a warm-up, or pre-norm :: The first steps move the output of post-norm too far. A warm-up makes them small; in
#      pre-norm they move it less.
#    - [ ] removing the norms :: Then the signal and the gradients grow with depth, and there is a second illness.
#
# 5. A model of twelve layers has as many parameters as one layer, the embedding aside. What happened?
#
#    - [ ] The layers are deep copies of one that was made before. :: Copies have parameters of their own. They start equal, and each is counted.
#    - [ ] The layers start with equal weights. :: Equal numbers in different tensors are still different parameters.
#    - [ ] Layer norms have no parameters. :: They have two vectors each. Nearly all parameters are in attention and network.
#    - [x] One and the same layer object fills the list. :: PyTorch counts a parameter once, however often it is used. All
#      twelve always have the same weights, also after training.

# %% [markdown]
# ## Where to go from here
#
# In lesson 8 a second kind of block is added, and the two become the machine of the paper.
#
# **Papers.** @ba2016 (section 3) has the norm, @he2016 the residual connection, @vaswani2017 (sections 3.1, 3.3 and 5.3) the
# block and its warm-up. @xiong2020 and @liu2020 explain post-norm's trouble in two ways, and @dong2021 proves why tokens
# grow alike.
