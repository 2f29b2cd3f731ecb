# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 17: Circuits
#
# Five exercises on [lesson 17](../notebooks/17_circuits.ipynb). You write detectors for heads, switch heads off, predict what a
# circuit does when a part is missing, repair a patch, and put a claim about syntax to the test.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 4, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it. The hints are folded, and each says more than the one before.
#
# **How long:** about an hour and a half for all five. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B strings, H heads, T positions, D numbers a head.

# %% [markdown] tags=["solution-only"]
# # Solutions 17: Circuits
#
# The [exercises of lesson 17](../exercises/17_circuits.ipynb) with an answer to each. It is one answer of many: a check accepts
# any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import torch
from torch import Tensor

from attnlab import plots, seed
from attnlab.checks import check, progress
from attnlab.checks.ch17_circuits.references import circuit
from attnlab.multihead import merge_heads

# %% [markdown]
# ## 1. Two detectors
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A model of thirty layers has a thousand heads. Nobody looks at a thousand maps. Two numbers a head are enough
# to find the few that an experiment should begin with.
#
# - The **previous-token score** is the mean weight on the position before, over all positions that have one.
# - The **[induction](../book/pages/glossary.md#induction-head) score** is the weight on positions that come right *after* an earlier copy
#   of the present token: for position $t$, all $j \le t$ with `tokens[j - 1] == tokens[t]`, their weights added up. It is averaged over
#   the positions $t$ that have such a $j$; where there is none in the whole batch, it is 0.

# %%
def detect(weights: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Previous-token score and induction score of each head.

    weights: (B, H, T, T), maps of a causal model: zero above the diagonal, rows sum to 1.
    tokens: (B, T), whole numbers.

    Returns the previous-token score (H,) and the induction score (H,).
    """
    # BEGIN SOLUTION
    previous = weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))  # (H,)
    follows = torch.zeros(weights[:, 0].shape, dtype=torch.bool)               # (B, T, T)
    follows[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    follows = follows.tril()                                                   # j <= t
    have_one = follows.any(dim=-1)                                             # (B, T)
    on_them = (weights * follows[:, None]).sum(dim=-1)                         # (B, H, T)
    induction = on_them.sum(dim=(0, 2)) / have_one.sum().clamp(min=1)          # (H,)
    return previous, induction
    # END SOLUTION


# %% tags=["check"]
check("circuits.detect", detect)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# On a map, the position before lies on a diagonal. Which one? And how many entries does it have?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For the second score, first make a boolean table (B, T, T) of the places that count. Compare all tokens with all tokens, then think where
# the comparison with token $j - 1$ has to be written.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Write the comparison of `tokens[:, :, None]` with the tokens up to the last but one into columns 1 and on, and keep the lower triangle. A
# row of the table without any True does not count: divide by the number of the other rows.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Take the weight on the earlier copy itself.** That is a head that looks for equal tokens. It hands over what is already known.
# - **Average over all positions.** Where no token has stood before, no head can score. A perfect induction head would then look worse on
#   strings with few repeats.
# - **Average over the copies.** A head that shares its weight between two right places is right.
# - **Count the strongest position only.** A head may give the position before a third of its weight, more than any other, and do its work.

# %% [markdown]
# ## 2. Switch heads off
#
# *Implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** A score says what a head looks like; an [ablation](../book/pages/glossary.md#ablation) says whether the rest can
# do without it. The cut has to be in the right place: after the heads have handed over, before the output matrix mixes them.
#
# Replace what a removed head hands over by its mean over all strings and all positions, one vector for the head. Then put the heads side
# by side and multiply by `w_o`.

# %%
def ablate(heads: Tensor, w_o: Tensor, removed: list[int]) -> Tensor:
    """The output of an attention layer with some of its heads removed.

    heads: (B, H, T, D), what each head hands over.
    w_o: (H * D, d_model); a token, a row of H * D numbers, is multiplied by it from the left.
    removed: the heads to remove, counted from 0; it may be empty.

    Returns the output (B, T, d_model). Changes none of its inputs.
    """
    # BEGIN SOLUTION
    left = heads.clone()
    for head in removed:
        left[:, head] = heads[:, head].mean(dim=(0, 1))    # (D,) for all strings and positions
    return merge_heads(left) @ w_o                          # (B, T, H * D) -> (B, T, d_model)
    # END SOLUTION


# %% tags=["check"]
check("circuits.ablate", ablate)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three steps: copy, replace, mix. Which axes have to vanish, for one vector of D numbers to be left of a head?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The heads stand on axis 1, the tokens on axis 2. Before they can stand side by side in each token, these two have to change places.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For one head, `heads[:, head]` has the shape (B, T, D): take its mean over the first two axes. `merge_heads` from lesson 5 does the rest,
# and the product with the matrix comes last.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Put zeros.** It removes the information, and more: the layers behind are used to the head's mean, and meet a vector that they never saw.
#   What you then measure is partly that surprise.
# - **Take the mean of each string, or of each position.** It still tells strings, or positions, apart. Information is left.
# - **Reshape (B, H, T, D) to (B, T, H * D).** The shape is right and the tokens are mixed up.
# - **Write into `heads`.** The next ablation would begin with a head that is gone already.

# %% [markdown]
# ## 3. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** If you understand a circuit, you can say what happens when a part is missing. The circuit is the one that the lesson
# built by hand: a previous-token head, then an induction head. "Removed" means replaced by its mean.
#
# 1. A string repeats with period 6. How many places back does the induction head look, in the second copy? Give a number.
# 2. The previous-token head is removed. The induction head's weight on the stripe: `"falls"`, `"stays"` or `"rises"`?
# 3. The induction head is removed. The previous-token score: `"falls"`, `"stays"` or `"rises"`?
# 4. The string is of symbols that were in no other string. The answers in its second copy: `"right"` or `"wrong"`?
# 5. Two equal induction heads add up their outputs into the logits. One is replaced by zeros. The largest logit: `"halves"`, `"stays"`, or
#    `"is gone"`?
# 6. In the *first* copy of a random string, how many answers are right: `"few"` or `"most"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "induction head, how many places back on a string of period 6": None,
# STUB     "previous-token head removed, the induction head's weight on the stripe": None,
# STUB     "induction head removed, the previous-token score": None,
# STUB     "symbols never seen in training, built by hand: the answers": None,
# STUB     "one of two equal heads zeroed, the largest logit": None,
# STUB     "right answers in the first copy of a random string": None,
# STUB }
prediction = {
    "induction head, how many places back on a string of period 6": 5,
    "previous-token head removed, the induction head's weight on the stripe": "falls",
    "induction head removed, the previous-token score": "stays",
    "symbols never seen in training, built by hand: the answers": "right",
    "one of two equal heads zeroed, the largest logit": "halves",
    "right answers in the first copy of a random string": "few",
}
# END SOLUTION

# %% tags=["check"]
check("circuits.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down a string such as *A B C D E F A B*. Which position does the last B look at, and what does it find there?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For each removal ask: which of the two heads runs first, and what does the other one read?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Without the previous-token head all keys say the same. What does a softmax make of equal scores? And two equal heads are a sum of two equal
# terms.
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def measure_predictions() -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(0))
    order = torch.randperm(40, generator=g)
    period, tokens = 6, order[:6].repeat(2)                              # (T,)
    first, second, output = circuit(tokens, 40)
    cut_first, cut_second, _ = circuit(tokens, 40, previous=False)
    still_first = circuit(tokens, 40, induction=False)[0]
    stripe = -(period - 1)                                               # which diagonal
    right = output[:-1].argmax(dim=-1) == tokens[1:]                     # (T - 1,)
    return {
        "1. places back": 11 - second[11].argmax(),
        "2. weight on the stripe": second.diagonal(stripe)[1:].mean(),
        "2. the same, without the first head": cut_second.diagonal(stripe)[1:].mean(),
        "3. previous-token score": first.diagonal(-1).mean(),
        "3. the same, without the second head": still_first.diagonal(-1).mean(),
        "4. share right in the second copy": right[period:].float().mean(),
        "5. largest logit with one head / with two": output.max() / (output + output).max(),
        "6. share right in the first copy": right[: period - 1].float().mean(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {float(measured):.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Six places back."** There stands the copy of the present symbol. What followed it stands one place nearer.
# - **"The induction head stays as it is, its own weights were not touched."** Its matrices stay. Its keys are made from what the first head brought.
# - **"It has never seen these symbols."** The rule compares and copies. It names no symbol.
# - **"Without one of two equal heads nothing changes."** The largest logit halves, and is still the largest: so the *answer* stays, and an ablation that
#   looks at answers alone sees nothing.

# %% [markdown]
# ## 4. Repair a patch
#
# *Repair. Difficulty 3, about 15 minutes.*
#
# **Why it is worth doing.** [Activation patching](../book/pages/glossary.md#activation-patching) is a few lines of indexing, and indexing goes wrong
# without an error. The program below is to carry *one* head's vector, at *one* position of each string, from a clean run into another. It has **two**
# faults. Find both and repair them.

# %%
def patch(heads: Tensor, clean: Tensor, head: int, positions: Tensor) -> Tensor:
    """Heads of a run, of which one is that of a clean run, at one position of each string.

    heads, clean: (B, H, T, D), what the heads hand over in the two runs.
    head: which head to carry over.
    positions: (B,) whole numbers, one position for each string: its own.

    Returns the patched heads (B, H, T, D). Changes none of its inputs.
    """
    # BEGIN SOLUTION
    # STUB patched = clean.clone()
    # STUB patched[:, head, positions] = heads[:, head, positions]
    # STUB return patched
    patched = heads.clone()
    rows = torch.arange(len(heads))                                        # (B,)
    patched[rows, head, positions] = clean[rows, head, positions]          # (B, D)
    return patched
    # END SOLUTION


# %% tags=["check"]
check("circuits.patch", patch)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Call the program with two strings of zeros, a clean run of ones, and two different positions. Where are the ones afterwards, and where should they be?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A colon takes all rows. What does a colon and a list of positions give: each row with its own position, or each row with all of them?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Two lists of the same length are read in pairs. Which list of numbers belongs to the rows? And ask of the first line: which run should be left where
# nothing is patched?
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"`[:, head, positions]` has the right shape to be assigned."** It has, and it patches every string at the positions of all. The experiment then finds
#   more restored answers than there should be, and at the wrong places.
# - **Patch the whole head.** Then you learn that the head matters, not where.
# - **Start from the clean run.** Then the other run is carried into the clean one. That is an experiment, too: it asks what breaks the answer, not what
#   brings it. Whoever mixes them up reads the figure the wrong way round.
# - **Write into `heads`, to save a copy.** The unpatched run is gone, and all later comparisons are with a patched one.

# %% [markdown]
# ## 5. A control for a claim about syntax
#
# *Implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** "This head finds the object of a verb in [[=nine of ten]] sentences" may be true and mean nothing. Somebody looked at all heads and
# kept the best, and a rule that counts places may do as well. The function gives the three numbers that such a claim has to state.
#
# Choose the head that is right most often in the first half of the sentences. Report its share in the second half. The baseline is treated just so: the
# commonest offset of the first half, and its share in the second. (In the check no two heads and no two offsets tie for the first place.)

# %%
def compare(
    chosen_hits: Tensor, tested_hits: Tensor, chosen_offsets: Tensor, tested_offsets: Tensor
) -> tuple[int, float, float]:
    """A head's share of right looks, and that of the best fixed offset.

    chosen_hits: boolean (N, H), whether each head looks at the target, in the choosing half.
    tested_hits: boolean (M, H), the same in the half to test on.
    chosen_offsets: whole numbers (N,), where the target stands, counted from the asking word.
    tested_offsets: (M,), the same in the half to test on.

    Returns the head, its share, and the share of the offset.
    """
    # BEGIN SOLUTION
    head = int(chosen_hits.float().mean(dim=0).argmax())
    share = tested_hits[:, head].float().mean().item()
    offset = chosen_offsets.mode().values
    baseline = (tested_offsets == offset).float().mean().item()
    return head, share, baseline
    # END SOLUTION


# %% tags=["check"]
check("circuits.compare", compare)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two things are chosen, and two are measured. On which half does each of the four happen?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The mean of a column of hits is a head's share. For the offsets, `Tensor.mode` finds the commonest.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Both choices use the first half alone, both shares the second half alone. For the baseline, compare all offsets of the second half with the one chosen.
#
# </details>
#
# How much does luck give? Here no head knows anything: 72 heads are right by chance, in [[=3 of 10]] sentences. The cell runs once `compare` is written. Look
# at the distance between the two bars, and change the number of sentences.

# %%
def by_luck(sentences: int, repeats: int = 200) -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(1))
    best, tested = 0.0, 0.0
    for _ in range(repeats):
        luck = torch.rand(2, sentences, 72, generator=g) < 0.3               # (2, N, H)
        chosen_hits, tested_hits = luck
        offsets = torch.zeros(sentences, dtype=torch.int64)
        head, share, _ = compare(chosen_hits, tested_hits, offsets, offsets)
        best += chosen_hits[:, head].float().mean().item() / repeats
        tested += share / repeats
    return {"on the half that chose it": best, "on the other half": tested}


try:
    figure = plots.bars(by_luck(sentences=20), y="share of right looks",
                        guides={"chance": 0.3},
                        alt="Shares of the best of 72 heads that guess: on the half that "
                            "chose it far above chance, on the other half at chance.")
except NotImplementedError:
    figure = None
figure

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Choose and report on the same half.** The figure shows what that gives to heads that know nothing.
# - **Choose on all sentences, "to have more of them".** Then the test half has had its say.
# - **Give the baseline the test half to choose its offset by.** It is then a little too strong, and the comparison unfair in the other direction.
# - **Compare with chance, one word in so many.** A rule that knows no grammar but counts places is far better than chance.

# %% [markdown]
# ## Where you stand
#
# The papers behind these exercises are @olsson2022 for the scores, @meng2022 for patching, and @clark2019 (section 4.2) for heads and fixed offsets.

# %%
progress("circuits")
