# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 7: The block
#
# Six exercises on [lesson 7](../notebooks/07_block.ipynb). You write a layer norm and both kinds of block, predict what
# a norm does to signals and gradients, build a probe and explore deep stacks with it, repair a stack that trains all
# the same, and write a test that finds bugs.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 5, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. The hints are folded, and each says more than the one before. You may leave
# an exercise out: nothing after it breaks.
#
# **How long:** about two hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, T tokens, and the widths $d_{model}$ and $d_{ff}$.

# %% [markdown] tags=["solution-only"]
# # Solutions 7: The block
#
# The [exercises of lesson 7](../exercises/07_block.ipynb) with an answer to each. It is one answer of many: a check
# accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you
# read its solution; what you found yourself stays with you.

# %%
import contextlib
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import plots, seed
from attnlab.checks import check, progress
from attnlab.layers import EncoderLayer, FeedForward
from attnlab.multihead import MultiHeadAttention

torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## 1. A layer norm by hand
#
# *Implement. Difficulty 1, about 15 minutes.*
#
# **Why it is worth doing.** Weights that others have trained were trained with one exact
# [norm](../book/pages/glossary.md#layer-normalisation). A norm that differs in the fourth digit trains well by itself, and makes nonsense
# of theirs. The lesson has the function; here it becomes a module that can take any weights, and any tokens.
#
# $$\operatorname{LayerNorm}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta ,$$
#
# $$\mu = \frac{1}{d_{model}} \sum_i x_i, \qquad \sigma^2 = \frac{1}{d_{model}} \sum_i (x_i - \mu)^2 .$$
#
# $\gamma$ is the parameter `weight`, and starts as ones; $\beta$ is `bias`, and starts as zeros. Each token is
# treated by itself. The check also tries tokens that are tiny, constant, or a thousand away from zero. Write the
# steps yourself; PyTorch's own layer norm is what you compare with, not what you call.

# %%
class LayerNorm(nn.Module):
    """Give each token mean 0 and variance 1, then stretch and shift it as learnt.

    d_model: width of a token's vector. eps: added to the variance.
    Holds the parameters weight and bias, both (d_model,), and nothing else that is saved.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model), any number of axes before the last. Returns the same shape."""
        # BEGIN SOLUTION
        centred = x - x.mean(dim=-1, keepdim=True)                     # (..., d_model)
        variance = centred.square().mean(dim=-1, keepdim=True)         # (..., 1)
        return centred / (variance + self.eps).sqrt() * self.weight + self.bias
        # END SOLUTION


# %% tags=["check"]
check("block.LayerNorm", LayerNorm)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Start with one token, $(1, 0, 0, 0)$, which the lesson works out by hand. Then give it two axes in front, and ask of
# each mean: over which numbers does it run, and what is its shape?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two things are easily half right. PyTorch's `std` and `var` divide by one less than the width unless they are told
# otherwise. And the small constant must be able to act when all numbers of a token are alike: where does it stand in
# the formula?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take the mean off first (`keepdim=True` keeps the axis for the subtraction), and work on with what is left. Its mean
# square is the variance. Both vectors are an `nn.Parameter`, so that they are trained and loaded.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`(x - mean) / (x.std(dim=-1, keepdim=True) + eps)`.** Two slips in one line: the unbiased variance, and the
#   constant outside the root. At a width of 768 nobody sees the first; the second shows only on tiny tokens.
# - **The mean of the squares less the square of the mean.** On paper it is the same. A thousand away from zero, both
#   terms are about a million, float32 has seven digits, and the variance is what the last of them say.
# - **Average over `dim=1`.** That axis holds the tokens: a norm over it lets a token see its neighbours, the later
#   ones too.
# - **`self.weight = torch.ones(d_model)`.** A plain tensor is no parameter: it is not trained, not saved, and stays
#   behind when the module moves to another device.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** All that the lesson found about deep stacks follows from what a norm does to a vector and
# to a gradient. Whoever can say it beforehand needs no table of recipes. Fill in all six predictions before you run
# anything. All modules are new, so norms have the weight 1 and the bias 0. Leave $\epsilon$ out of account.
#
# 1. A vector $x$ is multiplied by 10. The length of its layer norm: `"grows"`, `"stays"` or `"shrinks"`?
# 2. A [gradient](../book/pages/glossary.md#gradient) comes back through the norm. Its length when the norm was given
#    $10\,x$, divided by its length when it was given $x$: which number?
# 3. A pre-norm block reads $10\,x$ in the place of $x$. The length of what its attention adds to the stream: `"grows"`,
#    `"stays"` or `"shrinks"`?
# 4. One of six tokens is changed. How many of the six does a layer norm then give another result for?
# 5. Attention and network are silent, $f(x) = 0$. Sixty such pre-norm blocks, without a last norm. The output is the
#    input (`"stays"`), or is not (`"changes"`)?
# 6. Sixty such post-norm blocks. The input has the size 3, where the size is the root mean square of the numbers. Which
#    size has the output?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "1. layer norm of 10 x": None,
# STUB     "2. gradient through the norm at 10 x, times": None,
# STUB     "3. what a pre-norm block's attention adds to 10 x": None,
# STUB     "4. tokens that change in the norm": None,
# STUB     "5. silent pre-norm blocks, output": None,
# STUB     "6. silent post-norm blocks, size of the output": None,
# STUB }
prediction = {
    "1. layer norm of 10 x": "stays",
    "2. gradient through the norm at 10 x, times": 0.1,
    "3. what a pre-norm block's attention adds to 10 x": "stays",
    "4. tokens that change in the norm": 1,
    "5. silent pre-norm blocks, output": "stays",
    "6. silent post-norm blocks, size of the output": 1,
}
# END SOLUTION

# %% tags=["check"]
check("block.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For the first, put $10\,x$ into the formula. What becomes of $\mu$, and what of $\sigma$? For the last two, write the
# two blocks down, $x + f(\operatorname{LayerNorm}(x))$ and $\operatorname{LayerNorm}(x + f(x))$, and put 0 for
# $f$.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For the second, think of a small step. If $h$ moves the norm of $x$ by some amount, which step moves the norm of
# $10\,x$ by the same amount? A gradient says how far the result moves for a step of 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Attention in a pre-norm block reads $\operatorname{LayerNorm}(x)$: your first answer says what that does. And a norm
# of what is already normed changes nothing more, so sixty of them do what one does.
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def silent(norm: str) -> EncoderLayer:
    """A block of the course whose attention and network give zero."""
    layer = EncoderLayer(16, 4, 64, norm=norm)
    for linear in (layer.self_attention.w_o, layer.feed_forward.w_2):
        nn.init.zeros_(linear.weight)
    return layer


def through(norm: str, x: Tensor) -> Tensor:
    for _ in range(60):
        x = silent(norm)(x).output  # (B, T, d_model)
    return x


def measure_predictions() -> dict[str, float]:
    torch.manual_seed(seed(0))
    x, direction = torch.randn(2, 3, 6, 16)  # (B, T, d_model) each
    norm, attention, leaf = nn.LayerNorm(16), MultiHeadAttention(16, 4), x.requires_grad_()
    near, far = (
        torch.autograd.grad((norm(times * leaf) * direction).sum() / times, leaf)[0].norm()
        for times in (1, 10)
    )
    lengths = [norm(times * x).norm() for times in (1, 10)]
    added = [attention(norm(times * x)).output.norm() for times in (1, 10)]
    changed = x.detach().clone()
    changed[:, 2] += torch.randn(16)
    moved = (norm(changed) - norm(x)).abs().amax(dim=(0, 2)) > 1e-4  # (T,)
    sized = 3 * x / x.square().mean().sqrt()
    return {
        "1. length of the norm of 10 x, divided by that of x": lengths[1] / lengths[0],
        "2. length of the gradient at 10 x, divided by that at x": far / near,
        "3. length of what is added at 10 x, divided by that at x": added[1] / added[0],
        "4. tokens that change": moved.sum(),
        "5. largest change by sixty pre-norm blocks": (through("pre", x) - x).abs().max(),
        "6. size after sixty post-norm blocks": through("post", sized).square().mean().sqrt(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured:.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The norm of a large vector is large."** Mean and deviation grow with the vector, and cancel. A norm passes on a
#   direction and no size. For the same reason the addition of a pre-norm block does not depend on how large the stream
#   has become: later layers say as much as earlier ones, but to a louder stream.
# - **"Then the gradient stays, too."** The result is the same at $x$ and at $10\,x$, so near $10\,x$ it takes ten
#   times the step to change it as much. A norm divides the gradient by the size of what it was given. This is
#   why the last layers of a deep pre-norm stack get short gradients from the norm at its end.
# - **"All tokens change, a norm averages."** It averages over the numbers of one token.
# - **"Silent blocks do nothing."** In pre-norm that is so. In post-norm the sum itself is normed, and a size of 3
#   becomes 1 at the first norm.

# %% [markdown]
# ## 3. Both blocks
#
# *Implement. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** The two blocks have the same parts, the same parameters and the same shapes. Weights made
# for one load into the other without a complaint. After this exercise you will see the difference at a glance.
#
# Take the parts from the course, `MultiHeadAttention(d_model, num_heads)` and `FeedForward(d_model, d_ff)`, and
# `nn.LayerNorm`. Attention is called as `attention(x, mask=mask).output`. Each block has four parts with the names
# `self_attention`, `feed_forward`, `norm_1` (attention's) and `norm_2` (the network's); the check loads weights under
# these names, and knows no others. [Dropout](../book/pages/glossary.md#dropout) acts on what attention gives and on what the network gives,
# before it is added, in training alone; here it acts nowhere else.
#
# First the paper's block: attention, then the network, and each sum goes through a norm.

# %%
class PostNormBlock(nn.Module):
    """The paper's encoder block: LayerNorm(x + f(x)), for attention and then for the network.

    d_model: width of a token's vector. num_heads: heads of attention.
    d_ff: width inside the network. dropout: share that is dropped, from 0 up to 1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (B, T, d_model). mask: boolean (T, T) or (B, T, T), True = may attend.

        Returns (B, T, d_model).
        """
        # BEGIN SOLUTION
        attended = self.self_attention(x, mask=mask).output            # (B, T, d_model)
        x = self.norm_1(x + self.dropout(attended))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))
        # END SOLUTION


# %% tags=["check"]
check("block.PostNormBlock", PostNormBlock)

# %% [markdown]
# Now the block of most later models: the norm stands on what attention and network read. The norm at the end of a stack
# is not the block's affair.

# %%
class PreNormBlock(nn.Module):
    """The pre-norm encoder block: x + f(LayerNorm(x)), for attention and then for the network.

    The arguments and the names of the parts are those of PostNormBlock.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (B, T, d_model). mask: boolean (T, T) or (B, T, T), True = may attend.

        Returns (B, T, d_model).
        """
        # BEGIN SOLUTION
        attended = self.self_attention(self.norm_1(x), mask=mask).output    # (B, T, d_model)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm_2(x)))
        # END SOLUTION


# %% tags=["check"]
check("block.PreNormBlock", PreNormBlock)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Draw the stream as a line from left to right, with two places where something is added. In each block, where does the
# norm sit: on the line, or on the branch that leaves it?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A block is two steps of one kind, first with attention, then with the network. Each step has an `x` that comes in and
# an `x` that goes out, and the second step starts from what the first one gave. A layer for dropout, made in the
# constructor, knows by itself whether the module is in training.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A step of the paper's block is `x = norm(x + dropout(f(x)))`. In pre-norm the norm moves to the inside of `f`, and the
# first `x` of the sum stays as it came: do not overwrite it with the normed one.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`x = self.norm_1(x)`, then `x + f(x)`.** One variable too few. The sum then starts from the normed vector, and the
#   stream goes through every norm, as in post-norm. With silent parts a pre-norm block must leave its input as it is.
# - **`x + self.norm_1(f(x))`.** A norm stands in the line, so it looks right. But it gives what is added a size of 1
#   whatever the part wanted to say, and what the part reads is not normed at all.
# - **One norm for both steps.** It has the right shape, and the other norm's parameters do nothing.
# - **`F.dropout(attended, p)`.** Its default is to drop, also after `eval()`.
# - **Hand the share on, `MultiHeadAttention(..., dropout=dropout)`.** Many models do. It is one more place, on the
#   attention weights, and this exercise did not ask for it.

# %% [markdown]
# ## 4. A gradient probe, and what it finds
#
# *Measure and explore. Difficulty 3, about 35 minutes.*
#
# **Why it is worth doing.** When a deep model does not learn, the first question is: does the gradient arrive? A probe
# answers it before a single training step, and for any stack.
#
# Send $x$ through the layers, one after the other. Follow $\sum \text{direction} \odot \text{output}$ back, where the
# output is that of the *last* layer and the sum runs over all its numbers. For each layer, give the Euclidean length of
# the gradient at what the layer reads, all numbers of the batch together. One entry more belongs to the end: the
# gradient at the output itself.

# %%
def gradient_by_layer(
    layers: Sequence[Callable[[Tensor], Tensor]], x: Tensor, direction: Tensor
) -> Tensor:
    """How long the gradient is at each place of a stack.

    layers: one or more functions or modules, each from (B, T, d_model) to the same shape.
    x: (B, T, d_model), what the first layer reads; it does not ask for a gradient yet.
    direction: (B, T, d_model), the weights of the output's numbers in the sum.
    Returns (depth + 1,): entry i is for the input of layer i, the last one for the output.
    Changes none of its inputs.
    """
    # BEGIN SOLUTION
    stream = [x.clone().requires_grad_()]                       # (B, T, d_model) each
    for layer in layers:
        stream.append(layer(stream[-1]))
    total = (stream[-1] * direction).sum()                      # one number
    gradients = torch.autograd.grad(total, stream)              # (B, T, d_model) each
    return torch.stack([gradient.norm() for gradient in gradients])     # (depth + 1,)
    # END SOLUTION


# %% tags=["check"]
check("block.gradient_by_layer", gradient_by_layer)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Keep everything that passes: a list that begins with the input, and to which each layer's output is added. Autograd
# follows gradients back only to tensors that ask for one. Which one has to ask, so that all later ones do?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.autograd.grad(number, list_of_tensors)` gives one gradient for each tensor of the list, also for those in the
# middle of the computation. Which number do you follow back?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The list begins with `x.clone().requires_grad_()`, the number is `(stream[-1] * direction).sum()`, and the length of
# a tensor is its `.norm()`, without a `dim`.
#
# </details>
#
# Now explore. The next cell makes untrained stacks of three kinds. It multiplies the last matrix of attention and that
# of the network by a *factor*, which is a power of the depth: $\text{depth}^{p}$. So $p = 0$ changes nothing, and with
# $p = -1$ a stack of 64 layers has these matrices divided by 64. The *ratio* is the gradient's length at the first layer,
# divided by its length at the output. It is averaged over three stacks (the geometric mean). The pre-norm stacks end
# without a last norm, so that you see what the blocks do by themselves.

# %%
def make_stack(kind: str, depth: int, factor: float) -> list[Callable[[Tensor], Tensor]]:
    """Untrained blocks of one kind: "pre-norm", "post-norm" or "no norm"."""
    layers = [
        EncoderLayer(32, 4, 128, norm="post" if kind == "post-norm" else "pre").double()
        for _ in range(depth)
    ]
    for layer in layers:
        if kind == "no norm":
            layer.around_self.norm = layer.around_feed_forward.norm = nn.Identity()
        with torch.no_grad():
            layer.self_attention.w_o.weight *= factor
            layer.feed_forward.w_2.weight *= factor
    return [lambda x, layer=layer: layer(x).output for layer in layers]


def ratio(kind: str, depth: int, power: float) -> float:
    """Gradient at the first layer, divided by that at the output; three stacks averaged."""
    logs = []
    for number in range(3):
        torch.manual_seed(seed(number))
        x, direction = torch.randn(2, 4, 8, 32, dtype=torch.float64)  # (B, T, d_model) each
        lengths = gradient_by_layer(make_stack(kind, depth, depth**power), x, direction)
        logs.append((lengths[0] / lengths[-1]).log())
    return torch.stack(logs).mean().exp().item()


# %% [markdown]
# Change `kind`, `depths` and `powers`, run the cell, look, and change again. The figure appears when your probe is
# written. The axis of the depth is logarithmic, and the other one is where ratios run away.

# %%
# BEGIN SOLUTION
# STUB kind, depths, powers = "pre-norm", [4, 16, 64], [0]
kind, depths, powers = "pre-norm", [4, 16, 64], [0, -0.25, -0.5, -1]
# END SOLUTION


def explore() -> plots.Picture:
    series = {f"power {p}": [ratio(kind, depth, p) for depth in depths] for p in powers}
    for name, values in series.items():
        print(name, *(f"{value:.2f}" for value in values))
    far = max(max(values) for values in series.values()) > 20
    return plots.lines(depths, series, x=f"depth of the {kind} stack, in blocks",
                       log="xy" if far else "x",
                       y="gradient, first layer / output",
                       alt="Ratio of the gradient at the first layer to that at the output, "
                           "over the depth of the stack, one line for each power.")


picture = None
with contextlib.suppress(NotImplementedError):
    picture = explore()
picture

# %% tags=["solution-only"]
for kind in ("post-norm", "no norm"):
    print(kind, *(f"{ratio(kind, depth, 0):.3g}" for depth in (4, 16, 64)))

# %% [markdown]
# What did you find?
#
# 1. Pre-norm, power 0: the ratio at depth 64 is how many times the ratio at depth 16? Give a number.
# 2. Pre-norm: which power, the closest one to 0, keeps the ratio from growing with the depth? Steps of a quarter are
#    fine enough.
# 3. Power 0, no norm, depth 16: is the ratio `"below a thousandth"`, `"above a thousand"` or `"in between"`?
# 4. Power 0, post-norm, depth 64: the same question.

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "pre-norm, power 0, depth 16 to 64, ratio times": None,
# STUB     "pre-norm, power closest to 0 that stops the growth": None,
# STUB     "no norm, depth 16, ratio": None,
# STUB     "post-norm, depth 64, ratio": None,
# STUB }
growth = ratio("pre-norm", 64, 0) / ratio("pre-norm", 16, 0)
findings = {
    "pre-norm, power 0, depth 16 to 64, ratio times": growth,
    "pre-norm, power closest to 0 that stops the growth": -0.5,
    "no norm, depth 16, ratio": "above a thousand",
    "post-norm, depth 64, ratio": "in between",
}
# END SOLUTION

# %% tags=["check"]
check("block.findings", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The numbers are printed above the figure. For the second question put several powers into `powers` at once, negative
# ones, and look for lines that do not rise.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Think before you try powers. Independent terms add their *variances*. How does the size of the sum then grow with the
# number of layers? Each layer's term should shrink as much.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The size grows like the root of the depth. What you want to multiply each term by is one divided by that. For the third
# and fourth question set `kind`, and read the number at that depth.
#
# </details>

# %% [markdown] tags=["solution-only"]
# In pre-norm each layer adds a term to the gradient, as it does to the signal, and independent terms add their variances:
# the length grows like the root of the depth. With the power of minus one half the terms of all layers together have
# the variance that one had, whatever the depth. GPT-2 starts its residual layers like this [@radford2019, section 2.3].
#
# ### Why the tempting answers are wrong
#
# - **"The gradient grows like the depth."** Lengths of independent terms do not add up. Their squares do.
# - **A power of minus one.** It stops the growth, and makes each layer whisper: in a deep stack all blocks together change the
#   stream by next to nothing at the start.
# - **"Without norms gradients vanish."** Each layer adds to what comes back, as it adds to the stream that goes forward, and nothing
#   takes the size back. The gradient explodes.
# - **"In post-norm gradients vanish."** The norm divides the gradient on its way back by about as much as the layer has
#   made it longer. In an untrained stack it arrives, give or take some factor. What ails post-norm is what the lesson
#   measured: tokens grow alike, and a step moves the output far.
# - **Detach between the layers.** Such a probe measures a deep stack as many stacks of a single layer. It finds nothing
#   wrong with any of them.

# %% [markdown]
# ## 5. Repair a stack that trains
#
# *Repair. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** The program below runs, its loss falls, and its shapes are right. It is neither as deep nor of
# the kind that its name says. It has **two** faults. Find both and repair them; nothing else has to change, and the names
# stay.

# %%
class Layer(nn.Module):
    """A pre-norm block without dropout."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        # BEGIN SOLUTION
        # STUB x = self.norm_1(x)                                # (B, T, d_model)
        # STUB x = x + self.self_attention(x, mask=mask).output
        # STUB x = self.norm_2(x)
        # STUB return x + self.feed_forward(x)
        x = x + self.self_attention(self.norm_1(x), mask=mask).output    # (B, T, d_model)
        return x + self.feed_forward(self.norm_2(x))
        # END SOLUTION


class Encoder(nn.Module):
    """A pre-norm stack of depth layers, each with weights of its own, and a norm at the end.

    Each layer draws its weights at random, independently of the others.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, depth: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        # STUB layer = Layer(d_model, num_heads, d_ff)
        # STUB self.layers = nn.ModuleList([layer] * depth)
        self.layers = nn.ModuleList(Layer(d_model, num_heads, d_ff) for _ in range(depth))
        # END SOLUTION
        self.last_norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (B, T, d_model). mask: boolean (T, T) or (B, T, T). Returns (B, T, d_model)."""
        for layer in self.layers:
            x = layer(x, mask)                                 # (B, T, d_model)
        return self.last_norm(x)


# %% tags=["check"]
check("block.Encoder", Encoder)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not read the code first. Ask what must be true. How many parameters should a stack of three layers have, compared
# with one of a single layer? And what does a pre-norm layer do to its input when its attention and its network are
# silent?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Silence one `Layer`, as the lesson does (zeros in `w_o` and `w_2`), and compare its output with its input. Then print
# `stack.layers[0] is stack.layers[1]`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In `Layer.forward`, follow the variable `x`: after its first line, what the layer was given is nowhere any more. In the
# constructor of `Encoder`, one object is made. Copies of it would start alike: how is each layer to get random weights
# of its own?
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"It has norms before attention and network, so it is pre-norm."** What counts is the sum. Here the stream is
#   overwritten with its norm, twice a layer.
# - **"The state dict lists all layers, so they exist."** It lists a name for each place. The names of a shared layer
#   show the same tensor, and the optimiser sees one.
# - **`copy.deepcopy(layer)`.** Now there are as many parameters as there should be, but all layers start with the same
#   weights. Training parts them; a random start was meant.
# - **Add a norm after each layer instead.** It makes the sizes look healthy, and the stack is still not pre-norm.

# %% [markdown]
# ## 6. A test that finds the bugs
#
# *Write a test. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** A second opinion on numbers is at hand, `F.layer_norm`. It seems that one comparison is
# enough. It is not: most wrong norms are right on most inputs. What makes a test good here is what it is fed.
#
# Your test is given a function `norm(x, weight, bias, eps)`. The check hands it four right ones, written in different
# ways, and ten wrong ones. Each wrong one runs, and returns the right shape. Refuse a wrong function with an `assert` that
# fails. Let a right one pass: right ones may compute in another number type, so convert before you compare, and they
# round differently. For plain tokens they agree to a ten-thousandth. A thousand away from zero, float32 has few digits
# left for what differs between a token's numbers, and right ones agree to about a hundredth.

# %%
def test_layer_norm(norm) -> None:
    """Fail with an AssertionError if this layer norm is wrong.

    norm: called as norm(x, weight, bias, eps) with x (B, T, d_model) in float32, weight and
        bias (d_model,) and a number eps above zero; returns (B, T, d_model).
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(2, 6, generator=g)                      # (d_model,) each
    plain = torch.randn(2, 5, 6, generator=g) + 0.5                    # (B, T, d_model)
    cases = [
        (plain, 1e-5, 1e-4),           # sums, the variance, weight and bias
        (plain, 0.5, 1e-4),            # is eps the one that was given?
        (0.001 * plain, 1e-5, 1e-4),   # does eps stand inside the root?
        (1000 + plain, 1e-5, 0.02),    # are the digits lost far from zero?
    ]
    for x, eps, tolerance in cases:
        expected = F.layer_norm(x, (6,), weight, bias, eps)
        off = (norm(x, weight, bias, eps).to(expected) - expected).abs().max()
        assert off < tolerance, f"off by {off:.2g}"
    # END SOLUTION


# %% tags=["check"]
check("block.test_layer_norm", test_layer_norm)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make all sizes different and the width small, and choose a weight and a bias that are not neutral. Compare with
# `F.layer_norm`. Which wrong norms does that leave?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The constant $\epsilon$ is so small that plain tokens do not show what is done with it. For which tokens is it as large as
# the variance? And how do you see whether the `eps` that you hand over is the one that is used?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compare on four inputs: plain tokens with the usual `eps`, plain tokens with a large one, tokens of the size of a thousandth,
# and tokens around a thousand. The last comparison needs a wider tolerance than the others.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **One comparison on `torch.randn` at a width of 512.** The unbiased variance differs by a thousandth there, and passes
#   many tolerances. At a width of 6 it stands out.
# - **`weight = ones`, `bias = zeros`.** Then nothing shows in which order the two act, or that one is missing.
# - **Check that the mean is 0 and the variance 1.** An honest property, and blind to everything that is done with
#   $\epsilon$, weight and bias.
# - **One tight tolerance for all.** A thousand away from zero it refuses right programs, since each rounds in its own
#   way. One wide tolerance for all lets the unbiased variance pass.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 8: a second kind of block, and the whole machine of the paper. The papers behind these exercises are
# @ba2016 (section 3), @vaswani2017 (section 3.1) and @xiong2020.

# %%
progress("block")
