"""Teacher forcing: what is read, what has to be said, and how many tokens count."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab.transformer.shift import pad_by_length, shift_right, teacher_forcing_pair

PAD, BOS, EOS = 0, 1, 2
# Nothing is shrunk: a failure is small already, and the mutants make many.
few_examples = settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)


def random_rows(seed, batch, longest):
    """Rows of bos, words, eos and padding, the first one without padding."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.full((batch, longest + 2), PAD)
    lengths = torch.randint(1, longest + 1, (batch,), generator=generator)
    lengths[0] = longest
    rows[:, 0] = BOS
    for row, length in zip(rows, lengths.tolist(), strict=True):
        row[1 : length + 1] = torch.randint(3, 9, (length,), generator=generator)
        row[length + 1] = EOS
    return rows, lengths


def loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD).item()


def test_exactly_the_real_targets_count():
    inputs, labels = teacher_forcing_pair(torch.tensor([[BOS, 7, EOS, PAD, PAD]]))
    assert inputs.tolist() == [[BOS, 7, EOS, PAD]]
    assert labels.tolist() == [[7, EOS, PAD, PAD]]
    assert int((labels != PAD).sum()) == 2


@given(seed=st.integers(0, 99), batch=st.integers(1, 4), longest=st.integers(3, 8))
@few_examples
def test_only_the_oracle_of_the_next_token_has_no_loss(seed, batch, longest):
    rows, lengths = random_rows(seed, batch, longest)
    rows[0, 1 : longest + 1] = torch.arange(longest) % 6 + 3  # no two neighbours alike
    inputs, labels = teacher_forcing_pair(rows)
    assert int((labels != PAD).sum()) == int(lengths.sum()) + batch
    knows = {shift: 50.0 * F.one_hot(rows.roll(-shift, 1), 9).double()[:, :-1] for shift in (0, 1, 2)}
    assert loss(knows[1], labels) < 1e-6
    assert loss(knows[0], labels) > 5 and loss(knows[2], labels) > 5


@given(seed=st.integers(0, 99), batch=st.integers(1, 4), longest=st.integers(1, 6))
@few_examples
def test_shifting_a_target_undoes_taking_its_beginning_away(seed, batch, longest):
    rows, _ = random_rows(seed, batch, longest)
    inputs, labels = teacher_forcing_pair(rows)
    before = labels.clone()
    assert shift_right(labels, BOS).equal(inputs)
    assert labels.equal(before)


def test_padding_that_looks_like_the_end_is_told_by_length():
    rows = torch.tensor([[5, 6, EOS, EOS, EOS], [7, EOS, EOS, EOS, EOS], [5, 6, 7, 8, EOS]])
    expected = [[5, 6, EOS, -100, -100], [7, EOS, -100, -100, -100], [5, 6, 7, 8, EOS]]
    assert pad_by_length(rows, [3, 2, 5], pad=-100).tolist() == expected
    assert pad_by_length(rows, torch.tensor([3, 2, 5]), pad=PAD)[0].tolist() == [5, 6, EOS, PAD, PAD]
    assert rows[0].tolist() == [5, 6, EOS, EOS, EOS]


def test_what_does_not_fit_is_named():
    rows = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(TypeError, match="rows: expected integer token ids, got torch.float32"):
        teacher_forcing_pair(rows.float())
    with pytest.raises(TypeError, match="target: expected integer token ids, got torch.bool"):
        shift_right(rows.bool(), BOS)
    with pytest.raises(ValueError, match=r"rows: expected \(B, T\) token ids, got shape \(3,\)"):
        teacher_forcing_pair(rows[0])
    with pytest.raises(ValueError, match=r"rows: expected \(B, at least 2\).*got \(2, 1\)"):
        teacher_forcing_pair(rows[:, :1])
    with pytest.raises(ValueError, match="lengths: expected one for each of the 2 rows, got 3"):
        pad_by_length(rows, [1, 2, 3], pad=0)
    with pytest.raises(ValueError, match="lengths"):
        pad_by_length(rows, [1], pad=0)
    with pytest.raises(ValueError, match="lengths"):
        pad_by_length(rows, [1, 4], pad=0)
    with pytest.raises(TypeError, match="rows"):
        pad_by_length(rows.double(), [1, 2], pad=0)
