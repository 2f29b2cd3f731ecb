# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 9: Translation
#
# Six exercises on [lesson 9](../notebooks/09_translation.ipynb). You predict what three searches find, write a beam search and a
# loss with label smoothing, test greedy decoding, and repair a training loop. The last is a mini-project: a translator of your own, for a pair of
# languages that you choose.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell.
# Then run the check below it, as often as you like. It gives points, and where it knows your mistake, it names it.
# You may leave an exercise out: nothing after it breaks. The hints are folded, and each says more than the one before.
#
# **How long:** about an hour and three quarters for the first five, and an hour or two for the mini-project. Each one says its difficulty,
# from 1 to 3. Nothing trains for more than a few seconds until you begin the mini-project.
#
# The letters are those of the lesson: B rows, T places of the target, V tokens in the vocabulary, K beams.

# %% [markdown] tags=["solution-only"]
# # Solutions 9: Translation
#
# The [exercises of lesson 9](../exercises/09_translation.ipynb) with an answer to each. It is one answer of many: a check accepts
# any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import contextlib
import functools
import math
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import plots, seed, tasks, training
from attnlab.checks import check, progress
from attnlab.export import Tokeniser, TrainedTranslator, load_translator, save_translator
from attnlab.tasks import BOS, EOS, PAD
from attnlab.transformer import Transformer, TransformerConfig

torch.set_flush_denormal(True)    # numbers below 1e-38 count as 0: they are slow
torch.set_num_threads(1)          # models this small are not faster on two

# %% [markdown]
# ## 1. Three searches
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** A model gives probabilities; which text comes out is decided by the search. On a model
# this small you can follow each search by hand, and see that "the best text" depends on what you call best.
#
# A model knows the end, E, and the words A, B and many others. Its first token is E with probability 1/2 and A with probability 2/5.
# The rest is spread evenly over a hundred other words. After A it is certain of B, and after B, as after each of
# the hundred others, of E. So the text *A B E* has three tokens, and *E* has one: the end counts.
#
# The score of a text is the sum of the logarithms (natural ones) of its probabilities, either as it is ("by probability") or
# divided by the number of tokens ("by the mean"). Beam search is that of the lesson: of all continuations the K
# likeliest are kept, what ends is set aside, and here it goes on until nothing is left to go on.
#
# 1. What does [greedy decoding](../book/pages/glossary.md#greedy-decoding) find: `"E"`, `"A B E"` or `"C E"`, where C is one of the hundred?
# 2. And a [beam](../book/pages/glossary.md#beam-search) of 2, by probability?
# 3. A beam of 2, by the mean?
# 4. A beam of 2, by the mean, in a program that stops as soon as one text has ended?
# 5. The score of *A B E* by the mean, to two decimals at least.
# 6. P(A) is lowered, and what it loses goes to the hundred other words; P(E) stays. Below which P(A) does a beam of 2
#    choose *E* by the mean, too?

# %%
# BEGIN SOLUTION
# STUB searches = {
# STUB     "greedy": None,
# STUB     "beam of 2, by probability": None,
# STUB     "beam of 2, by the mean": None,
# STUB     "the same, but it stops when one text has ended": None,
# STUB     "score of A B E, by the mean": None,
# STUB     "P(A) below which E wins by the mean": None,
# STUB }
searches = {
    "greedy": "E",
    "beam of 2, by probability": "E",
    "beam of 2, by the mean": "A B E",
    "the same, but it stops when one text has ended": "E",
    "score of A B E, by the mean": math.log(0.4) / 3,
    "P(A) below which E wins by the mean": 0.5**3,
}
# END SOLUTION

# %% tags=["check"]
check("translation.searches", searches)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down the two likeliest first tokens. Greedy keeps one of them, a beam of 2 both. Which texts can each search still reach?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A certain step has probability 1, and the logarithm of 1 is 0. So the sum for *A B E* has one term that is not zero. By the mean it is
# divided by the number of all its terms.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# At the border the two means are equal: $\tfrac13 \ln P(A) = \ln P(E)$. Solve for $P(A)$.
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def measure_searches() -> None:
    first_step = {"E": 0.5, "A": 0.4, "C": 0.001}
    print("first step:", first_step)
    texts = {"E": [0.5], "A B E": [0.4, 1, 1], "C E": [0.001, 1]}
    for text, steps in texts.items():
        total = sum(map(math.log, steps))
        print(f"{text:5} | sum {total:6.3f} | mean {total / len(steps):6.3f}")
    for p in (0.16, 0.14, 0.12, 0.10):
        other = (0.5 - p) / 100
        means = {"E": math.log(0.5), "A B E": math.log(p) / 3, "C E": math.log(other) / 2}
        print(f"P(A) = {p:.2f}: by the mean {max(means, key=means.get)}")


if None not in searches.values():
    measure_searches()

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Greedy sees that A is followed by certain steps."** Greedy has chosen E before it could see anything of the kind.
# - **"By probability *A B E* wins, for it is more certain."** Its later steps are. But a text is as likely as all its steps together, and the first
#   one costs more than half.
# - **"The end is no token."** The model has to predict it like any other. Whoever leaves it out of the count divides by nothing where
#   the text is empty.
# - **"The search may stop at the first end."** At that moment one text has ended, the short one. By the mean the better one is
#   two steps away. Which texts a search returns must not depend on who ends first.
# - **"E wins when it is the likelier one."** By probability, yes. The mean divides the logarithm of the long text by three, so
#   it has to be much less likely before it loses.

# %% [markdown]
# ## 2. Beam search
#
# *Implement. Difficulty 3, about 30 minutes.*
#
# **Why it is worth doing.** You will meet beam search in every translator and speech recogniser, and in many programs it stops too soon or loses
# track of which beginning a token belongs to. Such a search still returns good texts, only not the best ones. So nobody notices.
#
# Write it for one source. The model comes as a function: beginnings in, log-probabilities of the next token out.
#
# - Start with one beginning, `[BOS]`. At each step continue all beginnings by all tokens. Of all these continuations together keep the `beam_size`
#   with the highest sum of log-probabilities (all of them, where there are fewer). A continuation of probability zero (minus infinity) is none.
# - Those of them that end in `EOS` are set aside for good. The others are the beginnings of the next step.
# - Go on until nothing is left to go on, or `max_length` tokens are written (`EOS` counts, `BOS` does not). You may stop earlier where
#   that cannot change the result, and nowhere else.
# - The score of a text of $n$ tokens, `EOS` counted, is its sum of log-probabilities divided by $n^{\,a}$, where $a$ is `length_penalty`. Return the
#   ended text with the best score. If none has ended, return the best of the beginnings, cut off as they are.

# %%
def beam_search(
    next_log_probs: Callable[[Tensor], Tensor],
    beam_size: int,
    max_length: int,
    length_penalty: float = 0.0,
) -> tuple[list[int], float]:
    """The best text that beam search finds.

    next_log_probs: called with beginnings (N, L), int64, each with BOS in front; returns
        (N, V), the log-probability of each next token. N may be any number from 1 on.
    beam_size: K, how many continuations are kept at each step.
    max_length: the most tokens of a text, without BOS, with EOS.
    length_penalty: the power of the length that a sum of log-probabilities is divided by.

    Returns the text's tokens, without BOS and with EOS if it has ended, and its score.
    """
    # BEGIN SOLUTION
    going: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(max_length):
        rows = torch.tensor([[BOS, *tokens] for _, tokens in going])         # (N, L)
        so_far = torch.tensor([log_p for log_p, _ in going])                 # (N,)
        total = so_far[:, None] + next_log_probs(rows)                       # (N, V)
        best, place = total.flatten().topk(min(beam_size, total.numel()))    # (K,), (K,)
        kept = [
            (log_p, [*going[index // total.shape[1]][1], index % total.shape[1]])
            for log_p, index in zip(best.tolist(), place.tolist())
            if log_p > -math.inf
        ]
        ended += [text for text in kept if text[1][-1] == EOS]
        going = [text for text in kept if text[1][-1] != EOS]
        if not going:
            break

    def score(text: tuple[float, list[int]]) -> float:
        return text[0] / len(text[1]) ** length_penalty

    chosen = max(ended or going, key=score)
    return chosen[1], score(chosen)
    # END SOLUTION


# %% tags=["check"]
check("translation.beam_search", beam_search)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Keep two lists of pairs (sum of log-probabilities, tokens): beginnings that go on, and texts that have ended. What happens to the two in one step? Write
# that step for a beam of 1 first.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For N beginnings the model gives a table (N, V). Add the sum of each beginning to its row, and the K largest of the whole table are the
# ones to keep. A place in the flattened table tells you two things.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `topk` of the flattened table gives values and places: `place // V` is the beginning, `place % V` the token. Build the new tokens from
# *that* beginning. Do not look at scores until the loop is over: within a step all texts are equally long.
#
# </details>
#
# Try it on the model of exercise 1. The tokens are `EOS` = 2, A = 3, B = 4.

# %%
def small_model(beginnings: Tensor) -> Tensor:
    """Log-probabilities (N, 105) of what follows the last token of each beginning (N, L)."""
    table = torch.zeros(105, 105)
    table[BOS, [EOS, 3]], table[BOS, 5:] = torch.tensor([0.5, 0.4]), 0.001
    table[3, 4] = table[4, EOS] = 1.0
    table[5:, EOS] = 1.0
    return table[beginnings[:, -1]].log()


with contextlib.suppress(NotImplementedError):
    for beam_size, length_penalty in [(1, 1.0), (2, 0.0), (2, 1.0)]:
        tokens, score = beam_search(small_model, beam_size, 10, length_penalty)
        print(f"K = {beam_size}, penalty {length_penalty}: {tokens}, score {score:.3f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Stop when K texts have ended.** They may be K short, unlikely ones, while the good one is still being written. You may stop when no
#   beginning can overtake the best text any more. By probability that is as soon as none has a higher sum, since sums only fall. With
#   a length penalty a score may still rise.
# - **Start with K copies of `[BOS]`.** Copies have the same continuations. The K best are then K times the same one, for ever: greedy search,
#   K times as slow.
# - **Let each beginning keep its own best continuation.** That is K greedy searches side by side. The point of a beam is that a beginning may have several
#   heirs, and another none.
# - **Let another continuation move up where one has ended, or let the ended keep a place for good.** Many programs do the one or the other. Both are searches, of another
#   width than the one that was asked for, and with a length penalty they find other texts.
# - **Choose the tokens and forget the parents.** `topk` puts the continuations into a new order. The first of them seldom belongs to the
#   first beginning.
# - **Continue what has ended.** What a model says after `EOS` means nothing: in training nothing ever followed.

# %% [markdown]
# ## 3. A test for greedy decoding
#
# *Write a test. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** Decoding a batch is where translators go wrong without a sound: one row ends, another does not, and what stands
# behind the end is noise that somebody prints. A test with two short rows finds most of it.
#
# Your test is given a program, `greedy(table, max_length)`. The model is a table: `table[b, i, j]` is the
# [logit](../book/pages/glossary.md#logit) of token j after token i, for row b. The program should return tokens (B, L): in each row the likeliest next
# token, again and again, from `BOS` on; without `BOS`, with `EOS`, and nothing but `PAD` behind it. It never predicts `PAD` or `BOS`,
# whatever their logits. It stops when every row has ended, each at its own step, so that L is the length of the longest row, or after `max_length` tokens. A row that has not ended by then is cut off as it is.
#
# The check hands your test three right programs and ten wrong ones. Refuse a wrong one with an `assert` that fails. The helper
# makes tables that say what you like. What a row says *after* its `EOS` is up to you, too.

# %%
def says(*rows: list[int]) -> Tensor:
    """Logits (B, 8, 8) of models that say these rows: all 0, but for a 5 on what is said next.

    A token is followed by the same token each time: says([3, 4, EOS], [5, EOS]).
    """
    table = torch.zeros(len(rows), 8, 8)                              # (B, V, V)
    for number, row in enumerate(rows):
        for token, following in zip([BOS, *row], row):
            table[number, token, following] = 5.0
    return table


def test_greedy(greedy: Callable[[Tensor, int], Tensor]) -> None:
    """Fail with an AssertionError if this program is wrong.

    greedy: called as greedy(table, max_length), table (B, V, V); returns tokens (B, L).
    """
    # BEGIN SOLUTION
    tokens = greedy(says([3, 4, 5, EOS, 6], [4, EOS, 6, 7], [5, 6, EOS, 3]), 6)
    expected = [[3, 4, 5, EOS], [4, EOS, PAD, PAD], [5, 6, EOS, PAD]]
    assert tokens.tolist() == expected, "rows of different lengths"

    tokens = greedy(says([5, 6, 5], [4, EOS]), 3)
    assert tokens.tolist() == [[5, 6, 5], [4, EOS, PAD]], "a row that never ends"

    table = says([3, EOS])
    table[:, :, PAD], table[:, :, BOS] = 9.0, 8.0
    assert greedy(table, 4).tolist() == [[3, EOS]], "what must never be predicted"
    # END SOLUTION


# %% tags=["check"]
check("translation.test_greedy", test_greedy)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make three rows of different lengths with `says`, and write down by hand what should come back. Compare all of it, its shape as well.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Some wrong programs differ only where a row goes on talking after its end, or where a row never ends. What do your rows say after `EOS`? Which `max_length` do
# you ask for?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Three calls do it: rows of lengths 2, 3 and 4 that talk on after `EOS`; a row that says 5, 6, 5, 6 for ever beside one that ends, with a limit of 3; and a table
# whose largest logits are those of `PAD` and `BOS`.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Test one row alone.** Everything that goes wrong between rows passes: who waits for whom, and what stands behind the end.
# - **Give all rows one length.** Then all end at the same step, and a program that waits for that moment looks right.
# - **Compare only up to the first `EOS`.** That is what a decoder of text does, and why nobody sees the noise. But the next program may
#   read the whole row.
# - **Let nothing follow `EOS` in the table.** A program that goes on may then happen to say something harmless.

# %% [markdown]
# ## 4. Label smoothing that knows padding
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** [Label smoothing](../book/pages/glossary.md#label-smoothing) is one line in PyTorch, but that line gives a share to
# [padding](../book/pages/glossary.md#padding) as well. Many programs for translation use another convention. Written by hand it is a place for classic faults: padding that counts, a logarithm of zero, a batch that
# makes everything NaN.
#
# In this convention the target $y$ is asked for with $1 - \varepsilon$. The other tokens *but for padding* share $\varepsilon$ evenly, and padding gets nothing.
# For $V = 5$, padding 0, $\varepsilon = \tfrac25$ and target 2 the shares are $q = (0, \tfrac{2}{15}, \tfrac35, \tfrac{2}{15}, \tfrac{2}{15})$.
# The [loss](../book/pages/glossary.md#loss) is the mean over the $N$ real tokens of the whole batch,
#
# $$L = -\frac1N \sum_{n=1}^{N} \sum_{v=1}^{V} q_{nv} \ln p_{nv} .$$
#
# Places whose target is padding are in neither the sum nor in $N$. Three things must hold besides. A batch of nothing but padding costs 0 (and its gradient is zero). The
# logit of padding may be minus infinity at every place, for a model that never predicts it: then the loss and its gradient are finite. And the logits may have any number of leading axes.

# %%
class SmoothedLoss(nn.Module):
    """Cross-entropy with label smoothing that gives padding no share.

    smoothing: the share ε, at least 0 and below 1, that is spread over the other tokens.
    pad: the number of padding, one of the V tokens.
    """

    def __init__(self, smoothing: float, pad: int = 0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.smoothing, self.pad = smoothing, pad
        # END SOLUTION

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean loss over real tokens, in nats: one number.

        logits: (..., V), V at least 3. targets: (...), int64, from 0 to V - 1; pad is padding.
        """
        # BEGIN SOLUTION
        log_p = logits.log_softmax(dim=-1)                                # (..., V)
        share = self.smoothing / (logits.shape[-1] - 2)
        shares = torch.full_like(logits, share)                           # (..., V)
        shares = shares.scatter(-1, targets[..., None], 1 - self.smoothing)
        shares[..., self.pad] = 0.0
        terms = shares * log_p.masked_fill(shares == 0, 0.0)              # (..., V)
        real = targets != self.pad                                        # (...)
        return -terms[real].sum() / real.sum().clamp(min=1)
        # END SOLUTION


# %% tags=["check"]
check("translation.SmoothedLoss", SmoothedLoss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Build the table of shares first, in the shape of the logits, and compare a row of it with the example. Which tokens share, and how many are they?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.full_like` and `scatter` make the shares, from `targets[..., None]`. Then one column is set to zero. Which places enter the sum? What is $N$ if there are none,
# and by what may you divide then?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Zero times minus infinity is NaN. So do not multiply where the share is zero: fill these logarithms with 0 first (`masked_fill`). Take the sum over `terms[real]`, and divide by
# `real.sum().clamp(min=1)`.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`F.cross_entropy(..., label_smoothing=ε, ignore_index=pad)`.** It leaves out *places* of padding, but at each real place the padding's column gets
#   $\varepsilon / V$, and so does the target. Where the logit of padding is minus infinity, the loss is infinite.
# - **Divide $\varepsilon$ by $V - 1$.** That counts padding among those who share. The shares no longer sum to 1, or padding gets one.
# - **`nn.KLDivLoss`.** It takes the entropy of the shares away. The gradient is the same, but the number is another one, and with `reduction="mean"` it is
#   divided by V as well.
# - **Take the logarithm of a softmax.** Where a probability is zero in float32, its logarithm is minus infinity. `log_softmax` never gets there.
# - **Take the mean of each row, then the mean of rows.** A token of a short text then counts for more than one of a long text, and a row of padding for as much as any other.

# %% [markdown]
# ## 5. Repair a training loop
#
# *Repair. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** A wrong training loop seldom raises an error. It shows a curve, and the curve falls. The loop below has **three** faults, and its curve looks
# better than that of the right one. Find and repair all three; nothing else has to change.
#
# The task is small: telephone numbers, read out digit by digit in another language. The model is small, too: one
# [cross-attention](../book/pages/glossary.md#cross-attention) between embeddings. It is right as it is. Leave it alone.

# %%
class SmallTranslator(nn.Module):
    """Embeddings, one cross-attention and a readout."""

    def __init__(self, num_source: int, num_target: int, width: int, longest: int = 12):
        super().__init__()
        self.source = nn.Embedding(num_source, width)
        self.target = nn.Embedding(num_target, width)
        self.place = nn.Embedding(longest, width)
        self.output = nn.Linear(width, num_target)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Source (B, S) and the target so far (B, T) to logits (B, T, V)."""
        places = self.place.weight                                       # (longest, D)
        keys = self.source(source) + places[: source.shape[1]]           # (B, S, D)
        queries = self.target(target_in) + places[: target_in.shape[1]]  # (B, T, D)
        scores = queries @ keys.mT / math.sqrt(keys.shape[-1])           # (B, T, S)
        scores = scores.masked_fill((source == PAD)[:, None], -math.inf)
        return self.output(queries + scores.softmax(dim=-1) @ keys)      # (B, T, V)


def from_weights(weights: dict[str, Tensor]) -> SmallTranslator:
    """The model that has these weights."""
    sizes = [*weights["source.weight"].shape, len(weights["target.weight"])]
    model = SmallTranslator(sizes[0], sizes[2], sizes[1], len(weights["place.weight"]))
    model.load_state_dict(weights)
    return model


# %% [markdown]
# The loop should do this. At each place the model reads the tokens of the target before it and is asked for the next one; the loss is the mean over real tokens, without smoothing;
# the [learning rate](../book/pages/glossary.md#learning-rate) rises in a straight line to `lr` at step `warmup` and stays there; the norm of the whole
# [gradient](../book/pages/glossary.md#gradient) is clipped to `clip` before it is used; and the optimiser is AdamW with its defaults.

# %%
def train(
    weights: dict[str, Tensor],
    batches: list[tuple[Tensor, Tensor]],
    lr: float,
    clip: float,
    warmup: int,
) -> tuple[list[float], dict[str, Tensor]]:
    """Train a SmallTranslator, one step for each batch.

    weights: where to start. batches: source (B, S) and target (B, T), padded at the end;
        a row of the target reads BOS x y EOS PAD.
    lr: the highest learning rate. clip: the largest norm of the gradient. warmup: steps.

    Returns the loss of each step and the weights after the last.
    """
    model = from_weights(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for step, (source, target) in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, step / warmup)
        # BEGIN SOLUTION
        # STUB logits = model(source, target[:, 1:])                         # (B, T - 1, V)
        # STUB labels = target[:, 1:]                                        # (B, T - 1)
        # STUB loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        # STUB optimizer.zero_grad()
        # STUB loss.backward()
        # STUB optimizer.step()
        # STUB nn.utils.clip_grad_norm_(model.parameters(), clip)
        logits = model(source, target[:, :-1])                               # (B, T - 1, V)
        labels = target[:, 1:]                                               # (B, T - 1)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        # END SOLUTION
        losses.append(loss.item())
    return losses, model.state_dict()


# %% tags=["check"]
check("translation.train", train)

# %% [markdown]
# Look at what the loop does before you read it. The cell trains for about a second and draws the loss; below the figure stands what the model writes when it has
# to read its own tokens, as in use.

# %%
def phone_numbers(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Numbers of 3 to 8 digits, (count, 9), and how they read in translation, (count, 10)."""
    digits = torch.randint(10, (count, 8), generator=generator)              # (B, 8)
    lengths = torch.randint(3, 9, (count, 1), generator=generator)           # (B, 1)
    place = torch.arange(8)
    source = torch.full((count, 9), PAD)
    target = torch.full((count, 10), PAD)
    source[:, :8] = (digits + 4).masked_fill(place >= lengths, PAD)
    target[:, 1:9] = ((3 * digits + 5) % 10 + 4).masked_fill(place >= lengths, PAD)
    source.scatter_(1, lengths, EOS)
    target.scatter_(1, lengths + 1, EOS)
    target[:, 0] = BOS
    return source, target


@torch.no_grad()
def read_out(model: nn.Module, source: Tensor) -> Tensor:
    """Greedy decoding of source (B, S): BOS and nine tokens, (B, 10), PAD after EOS."""
    tokens = torch.full((len(source), 1), BOS)                               # (B, 1)
    for _ in range(9):
        ended = (tokens == EOS).any(dim=1)                                   # (B,)
        newest = model(source, tokens)[:, -1].argmax(dim=-1)                 # (B,)
        tokens = torch.cat([tokens, newest.masked_fill(ended, PAD)[:, None]], dim=1)
    return tokens


torch.manual_seed(seed(0))
start = SmallTranslator(14, 14, 32).state_dict()
numbers = torch.Generator().manual_seed(seed(1))
losses, trained = train(start, [phone_numbers(64, numbers) for _ in range(300)], 0.02, 1.0, 30)
source, target = phone_numbers(500, numbers)
written = read_out(from_weights(trained), source)
right = (written == target).all(dim=1).float().mean().item()
plots.lines(
    range(1, 301), {"loss (nats)": losses}, marks=False, log="y",
    roles={"loss (nats)": "a"}, x="training steps", y="loss",
    alt="The loss over 300 training steps, on a logarithmic axis. It falls.",
)

# %%
late = sum(losses[-20:]) / 20
print(f"loss in the last steps {late:.1f}, share of numbers read out rightly {right:.2f}")

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A loss that is near zero while the model can write nothing: what does the model know in training that it does not know in use? Feed it one row by hand, and write
# down for one place what it reads and what it is asked for.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Over which places goes the mean? Compute the loss of one batch twice, the second time with two more columns of padding at its end. Should it change?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The third fault lies in the order of the last lines. Follow the gradient: where is it made, where used, where changed, where thrown away? (The lesson leaves that part to the library, in
# which clipping comes right after the way back.)
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The loss is nearly zero, so it has learnt."** It has learnt to copy the token that it is given. In use that token is not there yet. A loss that is too good is
#   the surest sign of a leak (lesson 4).
# - **Shift both by one.** `target[:, :-1]` for both teaches the model to repeat what it has just read. Shift what is read against what is asked, once.
# - **Ask for padding as well, "since it is easy to learn".** That is the trouble: the easy places make the mean small, the more so the more padding a batch has, and they take a
#   share of each step.
# - **Clip anywhere.** After the step it changes a gradient that is cleared next: there is no error, and nothing is clipped. Before the way back there is nothing to clip yet.

# %% [markdown]
# ## 6. Mini-project: a translator of your own
#
# *Measure. Difficulty 3, about one to two hours; each training run takes up to a minute.*
#
# **Why it is worth doing.** So far somebody else chose the sizes. Here you have a pair of languages, a budget and a judge, as in work. What gets you from 80 to 98 of a hundred is what you find out from
# your errors.
#
# **The task.** Choose two of English (`"en"`), French (`"fr"`), German (`"de"`), Spanish (`"es"`) and Chinese (`"zh"`), in either direction, but another pair than the lesson's. Train a translator for the
# five kinds of phrase of the lesson. Hand in its file, written by `save_translator`, of at most 400 kB. The check loads the file, translates 200 phrases that it draws anew each time, and counts those that
# are right in every character (what runs on far behind the longest right one is cut off). An [exact match](../book/pages/glossary.md#exact-match) of [[=0.80]], [[=0.90]], [[=0.95]] and [[=0.98]] earns points. So that luck costs nobody a point, a result within one standard error below a mark is let pass.
#
# **What counts as yours.** The file translates, not your program: Babel knows all the answers, and a function that asks Babel would be a dictionary that you did not write. The check
# knows how large a file is, but two things it cannot know, and leaves to your honour:
#
# - *The budget.* Training may take 60 CPU-seconds on your machine, measured by `hand_in`. One run counts, the one whose file you hand in; how often you tried does not. If you took longer, say so: it costs one point, and the others stay.
# - *The reserved phrases.* About one phrase in ten is kept for judging. `draw_pairs` leaves them out of what it gives you to train on. Look at your errors on reserved phrases as often as you like, but do not train on them.

# %%
def reserved(english: str) -> bool:
    """Whether a phrase is kept for judging; its English words decide."""
    return zlib.crc32(english.casefold().encode()) % 10 == 0


def draw_pairs(
    pair: tuple[str, str], count: int, *, number: int = 0, judging: bool = False
) -> list[tuple[str, str, str]]:
    """Phrases (source, target, kind): of `count` drawn those to train on, or to judge with."""
    other = next(language for language in pair if language != "en")
    english = tasks.translation_pairs(count, language=other, seed=number)
    drawn = {"en": [phrase.source for phrase in english]}
    for language in pair:
        if language != "en":
            phrases = tasks.translation_pairs(count, language=language, seed=number)
            drawn[language] = [phrase.target for phrase in phrases]
    rows = zip(drawn[pair[0]], drawn[pair[1]], english)
    return [
        (source, target, phrase.kind)
        for source, target, phrase in rows
        if reserved(phrase.source) == judging
    ]


draw_pairs(("de", "zh"), 20)[:3]

# %% [markdown]
# Write the training. All parts are in the library, as in the lesson: `Tokeniser.from_texts`, `tasks.learn_merges`, `Transformer`, `tasks.batches`, `training.fit`, `training.token_cross_entropy`, `training.warmup_cosine`.

# %%
# BEGIN SOLUTION
# STUB pair = None    # the language to read and the one to write, such as ("en", "de")
pair = ("en", "es")
# END SOLUTION


def train_translator(pairs: list[tuple[str, str, str]]) -> TrainedTranslator:
    """Train a translator.

    pairs: source, target and kind of each phrase to train on, about 20,000.
    Returns the model, in evaluation mode, with the tokenisers of both sides.
    """
    # BEGIN SOLUTION
    source_side = Tokeniser.from_texts([source for source, _, _ in pairs], lower_case=True)
    target_side = Tokeniser.from_texts([target for _, target, _ in pairs])
    rows = [(source_side.encode(row[0]), target_side.encode(row[1])) for row in pairs]
    torch.manual_seed(seed(2))
    model = Transformer(
        TransformerConfig(
            source_vocab_size=len(source_side.vocabulary), d_model=64, num_heads=4, d_ff=256,
            target_vocab_size=len(target_side.vocabulary), num_encoder_layers=2,
            num_decoder_layers=2, dropout=0.0, norm="pre", max_length=64,
        )
    )
    steps = 800
    training.fit(
        model, tasks.batches(rows, 64, torch.Generator().manual_seed(seed(3))), steps=steps,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98)),
        clip=1.0, loss=training.token_cross_entropy,
        schedule=functools.partial(training.warmup_cosine, warmup=200, total=steps),
    )
    return TrainedTranslator(model.eval(), source_side, target_side)
    # END SOLUTION


# %% [markdown]
# The next cell trains, as soon as `pair` names two languages, and measures what it takes. It counts CPU-seconds, so that a busy machine costs you nothing.

# %% tags=["nbval-ignore-output"]
def hand_in(pair: tuple[str, str] | None, train: Callable) -> dict | None:
    """Train, measure and save; without a pair, nothing."""
    if pair is None:
        return None
    phrases = draw_pairs(pair, 22_000, number=seed(0))
    started = time.process_time()
    translator = train(phrases)
    seconds = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "translator.safetensors"
        save_translator(path, translator)
        content = path.read_bytes()
    print(f"{seconds:.0f} of 60 CPU-seconds, {len(content) / 1000:.0f} of 400 kB")
    return {"pair": pair, "model": content, "CPU seconds": seconds}


project = hand_in(pair, train_translator)

# %% tags=["check"]
check("translation.project", project)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with the lesson's sizes, its 800 steps and its schedule, and one change: the languages. Then let the cell below say which kind of phrase fails.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# If number words fail and all else is right, look at how the language builds them. If a language is *read* whose number words are
# compounds, its source needs what the lesson gave to such a target. Chinese has no spaces to cut at.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# German: `pieces="subwords"` and `merges=tasks.learn_merges(texts, 60)`, on the side that is German. Chinese: `pieces="characters"`. Only the source may be put into lower case. If all kinds
# are a little wrong, the steps are too few, or the rate does not fall to zero by the last of them.
#
# </details>
#
# Where are your errors? The cell translates reserved phrases of its own and counts by kind.

# %% tags=["nbval-ignore-output"]
def look_at_errors(project: dict | None, count: int = 3_000) -> None:
    """Exact match by kind on reserved phrases, and a few wrong translations."""
    if project is None:
        return
    phrases = draw_pairs(project["pair"], count, number=seed(1), judging=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "translator.safetensors"
        path.write_bytes(project["model"])
        answers = load_translator(path).translate([source for source, _, _ in phrases])
    for kind in tasks.KINDS:
        pairs = [(answer, row[1]) for answer, row in zip(answers, phrases) if row[2] == kind]
        right = [answer == target for answer, target in pairs]
        print(f"{kind:12} {sum(right) / len(right):.2f}")
    wrong = [(row, answer) for answer, row in zip(answers, phrases) if answer != row[1]]
    for (source, target, _), answer in wrong[:4]:
        print(f"{source}\n    wanted   {target}\n    received {answer}")


look_at_errors(project)

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **A larger model.** Twice the width makes each step far more costly, and the budget then allows so few steps that it is worse. These phrases
#   do not lack room; they need the last steps, in which the rate gets small.
# - **Words for German.** A German number below a million is one word. A vocabulary of words has never seen most of them, and a fifth of all phrases fails at once.
# - **Lower case on both sides.** The source loses nothing by it. The target is judged in every character: *dienstag* is wrong in German.
# - **Stop when the loss looks flat.** While the rate is high, the loss stays up. Most of the last factor of ten is won while the rate falls.
# - **Train on the reserved phrases, too.** The number would rise, and say nothing any more.

# %% [markdown]
# ## Where you stand
#
# The papers behind these exercises are @vaswani2017 (sections 5 and 6) and @szegedy2016 (section 7). Next, lesson 13 asks what attention costs when
# texts get long.

# %%
progress("translation")
