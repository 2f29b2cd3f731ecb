# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 1: The limits of recurrence
#
# Seven exercises on [lesson 1](../notebooks/01_recurrence_limits.ipynb). You write a recurrent network, bound its gradient,
# measure a GRU, set an LSTM's memory, predict how long it lasts, design a test, and repair a program that never learns.
#
# **How it works.** Replace `raise NotImplementedError("your turn")` by your code (in exercises 5 and 7, change what stands there), run
# the cell, then run the check below it. A check gives points, and where it knows your mistake, it names it. You may leave an exercise out: nothing after it breaks. The hints
# are folded, and each says more than the one before.
#
# **How long:** about two hours for all seven. Each one says its difficulty, from 1 to 3.

# %% [markdown] tags=["solution-only"]
# # Solutions 1: The limits of recurrence
#
# The [exercises of lesson 1](../exercises/01_recurrence_limits.ipynb) with an answer to each. It is one answer of many: a check accepts
# any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import contextlib
import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import plots, recurrent, seed
from attnlab.checks import check, progress
from attnlab.tasks import recall

torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## 1. A recurrent network by hand
#
# *Implement. Difficulty 1, about 15 minutes.*
#
# **Why it is worth doing.** All that the lesson says about fading follows from one line, $h_t = \tanh(W h_{t-1} + U x_t + b)$. The lesson
# wrote it for one sequence. Write it for a batch, and you will know which product goes which way round, and why
# no step can be started early.

# %%
def rnn_states(
    inputs: torch.Tensor,
    first_state: torch.Tensor,
    W: torch.Tensor,
    U: torch.Tensor,
    b: torch.Tensor,
) -> torch.Tensor:
    """All states of a plain recurrent network, for a batch.

    inputs: (B, T, D). first_state: (B, H), the state before the first input.
    W: (H, H), from state to state. U: (H, D), from input to state. b: (H,).
    Returns (B, T, H); position t holds the state after input t was read.
    """
    # BEGIN SOLUTION
    state, states = first_state, []
    for t in range(inputs.shape[1]):
        state = torch.tanh(state @ W.T + inputs[:, t] @ U.T + b)  # (B, H)
        states.append(state)
    return torch.stack(states, dim=1)                             # (B, T, H)
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.rnn_states", rnn_states)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# You need a loop over positions, not over the batch, and a variable that holds the state while the loop goes on.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In the formula, $h$ is a column, and $W h$ puts the matrix first. Here, the states of a batch lie in *rows*, (B, H). Transpose both
# sides: what is $(W h)^\top$?
#
# </details>
# <details><summary>Hint 3</summary>
#
# $(W h)^\top = h^\top W^\top$, so for rows the product is `state @ W.T`, and likewise for `inputs[:, t]`, which is (B, D). Collect the
# states in a list, and join them with `torch.stack(states, dim=1)`.
#
# </details>

# %% [markdown] tags=["solution-only"]
# **Why the tempting answers are wrong.** `state @ W` runs without a complaint, since $W$ is square: it uses the transpose. A network written
# so even trains, since the transpose of a random matrix is as good a start; but with weights loaded from PyTorch it computes nonsense. `torch.stack(states)`
# without `dim=1` gives (T, B, H), and if B equals T, nobody notices.

# %% [markdown]
# ## 2. How much of the gradient can be left
#
# *Derive and implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** "Gradients vanish" is a sentence; a bound is a proof. You will also see what this one does not prove.
#
# One step multiplies a gradient by $\operatorname{diag}(1 - h_t^2)\, W$. The entries of the diagonal matrix lie between 0 and 1. Find
# the smallest factor that no single step can exceed, whatever the inputs, and from it a bound for `distance` steps.

# %%
def decay_bound(W: torch.Tensor, distance: int) -> float | torch.Tensor:
    """A bound on what the length of a gradient is multiplied by, over some steps back.

    W: (H, H), from state to state. distance: how many steps, 0 or more.
    Returns one number, as a float or a tensor; it must hold for every W and every input.
    """
    # BEGIN SOLUTION
    return torch.linalg.matrix_norm(W, ord=2) ** distance
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.decay_bound", decay_bound)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# If a matrix $A$ makes no vector longer than $a$ times its length, and $B$ none longer than $b$ times, what holds for $A B$? So bound
# one step first.
#
# </details>
# <details><summary>Hint 2</summary>
#
# By how much can a matrix stretch a vector, at most? Its largest eigenvalue does not say: try $\begin{pmatrix} 0.5 & 10 \\ 0 & 0.5 \end{pmatrix}$ on
# $(0, 1)$.
#
# </details>
# <details><summary>Hint 3</summary>
#
# It is the largest [singular value](../book/pages/glossary.md#singular-value), which `torch.linalg` has as the matrix norm of order 2. The steps
# multiply.
#
# </details>

# %% [markdown]
# The next cells measure what is really left: a random gradient at the last state is followed back to the first state, and the length that
# arrives is divided by the length that was sent. $W$ is scaled so that its largest singular value is just below 1. Your bound is drawn when there is one. Look at how far apart the
# lines are.

# %%
def left_of_gradient(layer, distance, generator):
    """A gradient's length after `distance` steps back, divided by its length at the start."""
    width = layer.hidden_size
    shape = (1, distance, width)                                               # (B, T, D)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64)
    first = torch.zeros(1, 1, width, dtype=torch.float64, requires_grad=True)  # (layers, B, H)
    _, last = layer(inputs, first)                                             # (layers, B, H)
    direction = torch.randn(last.shape, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(last, first, direction)
    return (gradient.norm() / direction.norm()).item()


torch.manual_seed(seed(0))
layer = nn.RNN(32, 32, batch_first=True).double()
with torch.no_grad():
    layer.weight_hh_l0 *= 0.95 / torch.linalg.matrix_norm(layer.weight_hh_l0, ord=2)

# %%
g = torch.Generator().manual_seed(seed(0))
distances = list(range(1, 31))
lines = {"measured": [left_of_gradient(layer, k, g) for k in distances]}
with contextlib.suppress(NotImplementedError):
    W = layer.weight_hh_l0.detach()                                            # (H, H)
    lines["your bound"] = [float(decay_bound(W, k)) for k in distances]
plots.lines(distances, lines, log="y", marks=False, roles={"measured": "a"},
            x="steps back", y="part of the gradient that is left",
            alt="The part of a gradient that is left, over thirty steps back, on a log axis. "
                "The measured line falls steeply. The right bound lies above it everywhere "
                "and falls slowly.")

# %% [markdown] tags=["solution-only"]
# The bound holds, and it is far from what happens: the direction that $W$ stretches most comes out pointing elsewhere, and tanh takes off some more.
#
# **Why the tempting answers are wrong.** The largest *eigenvalue* comes closer to the measured rate, and it is no bound: a matrix can
# stretch a vector by far more than any of its eigenvalues before the powers settle down. The next cell shows one: first the square of its largest eigenvalue,
# then what two steps can really do. The Frobenius norm, the default of
# `torch.linalg.norm`, is a bound, but it grows with the number of units, so it proves nothing for a real layer. And `torch.linalg.eigvalsh(W.T @ W)`
# gives squared singular values: take the root.

# %% tags=["solution-only"]
skewed = torch.tensor([[0.5, 10.0], [0.0, 0.5]])
torch.linalg.eigvals(skewed).abs().max() ** 2, torch.linalg.matrix_norm(skewed @ skewed, ord=2)

# %% [markdown]
# ## 3. Measure a GRU
#
# *Measure. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A curve of gradients by distance tells, before you train a network, how far back it will find it easy to learn. It takes five
# lines, and many ways to get them wrong still give a curve that falls.
#
# Follow the last output back: take the gradient of $\sum_j \text{direction}_j \cdot \text{output}_j$ at the *last* position with respect to every input. At each
# position, take the Euclidean norm of each example's gradient and average over the batch. Divide the whole curve by its value at distance 0.

# %%
def remaining_gradient(
    layer: nn.Module, inputs: torch.Tensor, direction: torch.Tensor
) -> torch.Tensor:
    """How much gradient of the last output arrives at each input.

    layer: a recurrent layer, batch first; layer(inputs) gives (outputs, last state),
        outputs (B, T, H).
    inputs: (B, T, D); they do not ask for a gradient yet.
    direction: (B, H), the weights of the last output's numbers in the sum.
    Returns (T,): entry k is for the input k steps before the last one, divided by entry 0.
    """
    # BEGIN SOLUTION
    inputs = inputs.clone().requires_grad_()
    outputs, _ = layer(inputs)                              # (B, T, H)
    total = (direction * outputs[:, -1]).sum()              # one number
    (gradient,) = torch.autograd.grad(total, inputs)        # (B, T, D)
    norms = gradient.norm(dim=-1).mean(dim=0).flip(0)       # (T,) the last input comes first
    return norms / norms[0]
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.remaining_gradient", remaining_gradient)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Autograd follows gradients back only to tensors that ask for one, and these inputs do not. Make a copy that does, so that the caller's
# tensor stays as it is.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.autograd.grad(number, inputs)` returns a tuple with one gradient, (B, T, D). The examples of a batch do not mix, so one number, a sum
# over all of them, serves the whole batch.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The copy is `inputs.clone().requires_grad_()`, the number `(direction * outputs[:, -1]).sum()`. Of the gradient, take first the norm over D, then the mean
# over B, then turn the curve round with `.flip(0)`, then divide by its first entry.
#
# </details>
#
# Now use it on three untrained layers. **Guess first:** a GRU is newer than an LSTM. Does it keep more? Compare the slopes in the figure.

# %%
g = torch.Generator().manual_seed(seed(1))
inputs = torch.randn(8, 80, 32, generator=g, dtype=torch.float64)  # (B, T, D)
direction = torch.randn(8, 32, generator=g, dtype=torch.float64)   # (B, H)
curves = {}
with contextlib.suppress(NotImplementedError):
    for name, kind in {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}.items():
        torch.manual_seed(seed(1))
        untrained = kind(32, 32, batch_first=True).double()
        curves[name] = remaining_gradient(untrained, inputs, direction)  # (T,)

# %%
def picture():
    return plots.lines(range(80), curves, log="y", marks=False,
                       x="distance to the last input, in steps",
                       y="gradient, relative to distance 0",
                       alt="Gradient against distance on a log axis, for a plain network, a "
                           "GRU and an LSTM, all untrained: three almost straight lines that "
                           "fall, the plain network's steepest.")


picture() if curves else print("The figure appears when remaining_gradient is written.")

# %% [markdown] tags=["solution-only"]
# As it comes from PyTorch, the GRU loses its gradient about as fast as the LSTM. Having gates is not enough: what counts is where they
# stand. All biases start near 0, and there a gate lets about half pass at each step. Exercise 4 changes that.
#
# **Why the tempting answers are wrong.** Following `outputs.sum()` back makes every input close to *some* output, so nothing seems to fade. `gradient.sum(-1)` lets positive and negative entries cancel. `gradient.mean(0).norm(dim=-1)` lets the examples cancel. And dividing each
# example by its own value first gives an example whose last gradient happens to be small more weight than the others.

# %% [markdown]
# ## 4. Set the forget bias
#
# *Implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** One line decides how long an LSTM remembers at the start of training. It looks easy, and the check knows more than a dozen ways to
# get it wrong without an error message.
#
# The lesson's function served one layer. Write it for any number of layers, and for both directions.

# %%
def set_forget_bias(lstm: nn.LSTM, value: float) -> None:
    """Make the forget gate's bias `value` in every layer and direction of an LSTM, in place.

    PyTorch stacks the gates as input, forget, cell, output, H numbers each. Each layer and
    direction has two bias vectors, which it adds: bias_ih_l0 and bias_hh_l0, bias_ih_l1 ...,
    bias_ih_l0_reverse ... All other numbers of the LSTM stay as they are, and it can still
    be trained.
    """
    # BEGIN SOLUTION
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with torch.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias_ih"):
                parameter[forget] = value
            elif name.startswith("bias_hh"):
                parameter[forget] = 0.0
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.set_forget_bias", set_forget_bias)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The forget gate is the second of four blocks of H numbers. Which slice is that?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `lstm.named_parameters()` gives every parameter with its name, whatever the number of layers and directions.
#
# </details>
# <details><summary>Hint 3</summary>
#
# A parameter that takes a gradient may only be written into under `torch.no_grad()`. Write the value into one of the two vectors and 0 into the other.
#
# </details>

# %% [markdown] tags=["solution-only"]
# **Why the tempting answers are wrong.** Writing the value into *both* vectors doubles it, since PyTorch adds them. Writing it into `bias_ih` alone leaves a
# random rest in `bias_hh`. PyTorch's order is input, forget, cell, output, while ONNX stores input, output, forget, cell: a slice
# that is right in one place is wrong in another. Assigning a new `nn.Parameter` gives the right numbers, but an optimiser that was made before still
# trains the old ones, and nothing tells you.

# %% [markdown]
# ## 5. Predict, then test: how far does a cell remember?
#
# *Predict. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A rule that you derived is worth something once it has met a measurement, above all where the two differ.
#
# Think of the cell alone. Each step back multiplies a gradient by the forget gate, and before training the gate stands at $\sigma(b_f)$. For the
# forget biases 0, 1 and 2: what is the *first distance, in whole steps, at which less than a millionth is left*? Put the three numbers in the place of
# `None` before you run the measurement.

# %%
# BEGIN SOLUTION
# STUB horizon = {"bias 0": None, "bias 1": None, "bias 2": None}
def first_distance_below(left, bias):
    gate = 1 / (1 + math.exp(-bias))
    return math.ceil(math.log(left) / math.log(gate))


horizon = {f"bias {bias}": first_distance_below(1e-6, bias) for bias in (0, 1, 2)}
# END SOLUTION

# %% tags=["check"]
check("recurrence_limits.horizon", horizon)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# After $k$ steps, $f^k$ is left. With bias 0 the gate is one half. How often must you halve to come below a millionth?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Solve $f^k < 10^{-6}$ for $k$ by taking logarithms. The logarithm of $f$ is negative, so dividing by it turns the sign round.
#
# </details>
# <details><summary>Hint 3</summary>
#
# $k$ is $\ln 10^{-6} / \ln f$, rounded up, with $f = 1/(1+e^{-b})$.
#
# </details>
#
# Now the test. The next cell measures whole LSTMs with these biases, and then the same LSTMs with one thing removed: the weights from state to state. **Guess:**
# will the whole LSTM lose its gradient earlier than you predicted, or later?

# %%
def measured_horizon(bias, connected):
    """The first distance with less than a millionth of the gradient, in an untrained LSTM."""
    torch.manual_seed(seed(2))
    lstm = recurrent.set_forget_bias(nn.LSTM(64, 64, batch_first=True).double(), bias)
    if not connected:
        nn.init.zeros_(lstm.weight_hh_l0)
    g = torch.Generator().manual_seed(seed(2))
    inputs = torch.randn(8, 400, 64, generator=g, dtype=torch.float64)              # (B, T, D)
    curve = recurrent.gradient_by_distance(lambda x: lstm(x)[0][:, -1], inputs, g)  # (T,)
    return int((curve < 1e-6).nonzero()[0])


for bias in (0, 1, 2):
    print(f"bias {bias}: you predicted {horizon[f'bias {bias}']}, "
          f"the whole LSTM gives {measured_horizon(bias, True)}, "
          f"without weights from state to state {measured_horizon(bias, False)}")

# %% [markdown]
# Without weights from state to state, the LSTM comes close to the cell alone. Where does the whole LSTM get the rest? Think about it before you
# open the solution.

# %% [markdown] tags=["solution-only"]
# Your rule describes the cell, and where only the cell is left, it comes close. What it lacks is the second way back: the state $h$ feeds all
# three gates and the new content at the next step, so a gradient can also leave the cell, pass through a matrix and come back. Each step then
# offers several paths, and here their sum is larger than what the cell keeps alone. Take the weights from state to state away, and the
# detours are gone: the last number in each row shows it. (Two things explain the small difference that remains there. The input still moves the gates
# about $\sigma(b_f)$, and at distance 0, which the curve is divided by, the last input acts through the output gate as well.)
#
# **Why the tempting answers are wrong.** A gate of one half for every bias predicts that the bias has no effect; the measurement says otherwise. With the bias counted twice, as PyTorch does when both vectors hold it, the prediction for bias 1 becomes that for bias 2. And `log10` divided by a natural
# logarithm gives a number that looks reasonable.

# %% [markdown]
# ## 6. Design a test: catch a cut gradient
#
# *Design a test. Difficulty 3, about 25 minutes.*
#
# **Why it is worth doing.** A `detach()` too many changes no output. The program runs, the loss may even fall, but what lies behind
# the cut is never learned. Only a test that looks at gradients can tell.
#
# Your test gets a program: a function from inputs (B, T, 3), floating point, to outputs (B, T, H). A right program is one in which *every number of every
# input can reach the last output*, however faintly. Right programs come in many kinds (plain, gated, without any recurrence). Wrong ones cut
# the gradient somewhere: at every step, every 16 steps, for some position, for some example of the batch, for some number of an input.

# %%
def catches_cut(program) -> None:
    """Raise AssertionError if some number of some input cannot reach the last output.

    program: maps inputs (B, T, 3) to outputs (B, T, H), for any B and T;
        position t has read inputs 0 to t.
    Returns nothing where the program is right.
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 40, 3, generator=g, dtype=torch.float64)  # (B, T, D)
    inputs.requires_grad_()
    outputs = program(inputs)                                         # (B, T, H)
    (gradient,) = torch.autograd.grad(outputs[:, -1].sum(), inputs)   # (B, T, D)
    assert (gradient != 0).all(), "some input cannot reach the last output"
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.catches_cut", catches_cut)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Changing an input and looking at the outputs is no use: a cut need not change any value. Measure what exercise 3 measured. Which part of it
# would hide a cut?
#
# </details>
# <details><summary>Hint 2</summary>
#
# How small is the gradient behind a cut, and how small may it be in a right program that reads forty inputs? That decides what to compare
# with, and in which floating-point type. Then go through the list of wrong programs above: what must your inputs have for each to show?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Behind a cut the gradient is exactly 0; in a right program it may be a millionth of a millionth, so compare with 0, in float64. Take several
# examples and some forty positions, follow the sum of the last outputs back, and look at *each* entry of the gradient, (B, T, 3), not at a norm.
#
# </details>

# %% [markdown] tags=["solution-only"]
# **Why the tempting answers are wrong.** A test of values passes every wrong program but one. A threshold such as a millionth refuses a right program whose gradient
# is small: vanishing and cut are two different faults, and this test is for the second. A batch of one hides a cut between examples, ten positions hide a
# cut every 16, and a norm over D hides a lost number.

# %% [markdown]
# ## 7. Repair: the network that never learns
#
# *Repair. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** Silent faults are found by reading with a suspicion. This program runs, gives a loss of a plausible size and never
# learns the recall task. Long sequences are read in chunks of 8 tokens, and the answer is to be read after the last token. There are three faults. One
# keeps the loss near that of a guess, one keeps it from ever coming near zero, and one does no harm on this task, but would on others.

# %%
def answer_loss(
    embedding: nn.Module,
    layer: nn.Module,
    readout: nn.Module,
    tokens: torch.Tensor,
    targets: torch.Tensor,
) -> torch.Tensor:
    """The mean cross-entropy of the answers that are read after the last token.

    embedding: tokens (B, T) -> (B, T, D).
    layer: a GRU, batch first; layer(part, state) gives (outputs, state).
    readout: (B, H) -> logits (B, classes), the scores before a softmax.
    tokens: (B, T). targets: (B,), the right classes.
    Returns a number, whose gradient reaches every token.
    """
    # BEGIN SOLUTION
    # STUB state, outputs = None, []
    # STUB for part in embedding(tokens).split(8, dim=1):         # (B, 8, D)
    # STUB     output, state = layer(part, state)                 # (B, 8, H)
    # STUB     outputs.append(output)
    # STUB     state = state.detach()
    # STUB states = torch.cat(outputs, dim=1)                     # (B, T, H)
    # STUB probabilities = readout(states[:, -2]).softmax(dim=-1) # (B, classes)
    # STUB return F.cross_entropy(probabilities, targets)
    state, outputs = None, []
    for part in embedding(tokens).split(8, dim=1):  # (B, 8, D)
        output, state = layer(part, state)          # (B, 8, H)
        outputs.append(output)
    states = torch.cat(outputs, dim=1)              # (B, T, H)
    logits = readout(states[:, -1])                 # (B, classes)
    return F.cross_entropy(logits, targets)
    # END SOLUTION

# %% tags=["check"]
check("recurrence_limits.answer_loss", answer_loss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Ask three questions. Which state is the answer read from? What does `F.cross_entropy` expect? How far back does the gradient get?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Compare each line with the docstring, and look up what `F.cross_entropy` does with its first argument. Then follow the state from one chunk to
# the next: what does each line do to its value, and what to its gradient?
#
# </details>
# <details><summary>Hint 3</summary>
#
# After the last token means position -1. `F.cross_entropy` wants logits, and applies a softmax of its own. `detach()` cuts the gradient between chunks: it
# belongs in programs that train on endless text and give up the past on purpose. Here the past is the point.
#
# </details>
#
# Then let it learn: 150 steps on a recall over 12 distractors, so that the symbol and the question lie in different chunks. The thin line is the loss of a
# guess. A program that learns leaves it for good and comes close to zero. (Read the numbers at the axis, too: a line that only wanders about the loss of a guess fills
# the whole height of the figure.)

# %%
torch.manual_seed(seed(3))
g = torch.Generator().manual_seed(seed(3))
embedding, readout = nn.Embedding(10, 32), nn.Linear(32, 8)
layer = recurrent.set_chrono_bias(nn.GRU(32, 32, batch_first=True), 15, g)
parameters = [*embedding.parameters(), *layer.parameters(), *readout.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-2)

losses = []
for _ in range(150):
    loss = answer_loss(embedding, layer, readout, *recall(64, 12, g))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
plots.lines(range(150), {"loss": losses}, marks=False, x="step", y="loss, in nats",
            guides={"a guess": math.log(8)},
            alt="The loss over 150 steps, with a thin line at the loss of a guess. The "
                "repaired program leaves the line and comes close to zero; the broken one "
                "stays near it.")

# %% [markdown] tags=["solution-only"]
# The line falls to almost zero: the network has learned the recall.
#
# **Why the tempting answers are wrong.** Removing only the `softmax` leaves the loss at that of a guess: the symbol lies behind
# the cut. Removing only the `detach()` lets the network learn, but the loss stays high: probabilities lie between 0 and 1, so the second softmax can give
# the right class at most $e / (e + 7)$. With `states[:, -2]` the cue has not been read; here there is only one question, so the network can answer all the same. On
# a task with two questions it could not. `states[:, 0]` is read before the symbol was seen. Putting `state = None` in the place of `state.detach()` looks like a clean start, and throws the symbol
# away together with the gradient. And the mean of all states learns here even with the cut left in: it gives the first
# states a direct way to the answer, and so hides the question of this lesson.

# %% [markdown]
# ## Where you stand

# %%
progress("recurrence_limits")
