"""Lesson 8's checks: what is special to this set. What holds for every set is in ``test_catalogue``."""

import functools
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import layers
from attnlab.attention import causal_mask, padding_mask
from attnlab.checks import engine
from attnlab.checks.ch08_encoder_decoder import decoder, layer, machines, references, values
from attnlab.checks.engine import load_tasks
from attnlab.training import token_cross_entropy
from attnlab.transformer import pad_by_length, shift_right, teacher_forcing_pair
from tests.checks.right_answers import encoder_decoder as right

evaluate = functools.partial(engine.evaluate, seconds=60)  # a busy machine must not fail a test

TASK = {task.name: task for task in load_tasks().values() if task.lesson == "encoder_decoder"}
NOTEBOOK = Path(__file__).parents[2] / "exercises" / "08_encoder_decoder.ipynb"


def cells(start: str) -> str:
    """The code cell of the exercise notebook that begins so."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    (source,) = [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and "".join(cell["source"]).startswith(start)
    ]
    return source


def run(*starts: str) -> dict:
    names: dict = {}
    for start in ("import contextlib", *starts):
        exec(compile(cells(start), start, "exec"), names)
    return names


def test_the_set_mixes_five_kinds_and_names_its_answers_as_the_notebook_does() -> None:
    assert {task.kind for task in TASK.values()} == {"implement", "predict", "repair", "test", "explore"}
    assert [task.kind for task in TASK.values()].count("implement") == 2
    assert sum(len(task.mistakes) for task in TASK.values()) >= 60
    text = NOTEBOOK.read_text(encoding="utf-8")
    for name, task in TASK.items():
        assert f'check(\\"{task.task_id}\\", {name})' in text


# --- the program to repair --------------------------------------------------------------------------------


def test_the_program_that_is_given_is_no_attempt() -> None:
    given = run("def training_loss")["training_loss"]
    for seed in range(3):
        report = evaluate(TASK["training_loss"], given, seed=seed)
        assert not report.attempted and report.points == 0 and not report.hints, report


@pytest.mark.parametrize(
    ("repairs", "left", "points"),
    [
        (("mask",), ("shifted_twice", "diluted"), 1),
        (("shift",), ("targets_mask", "diluted"), 1),
        (("mean",), ("targets_mask", "shifted_twice"), 0),
        (("mask", "shift"), ("diluted",), 2),
        (("mask", "mean"), ("shifted_twice",), 1),
        (("shift", "mean"), ("targets_mask",), 2),
        (("mask", "shift", "mean"), (), 5),
        (("no mask",), ("shifted_twice", "diluted", "cross_unmasked"), 0),
        (("mask", "no shift", "mean"), ("last_column_lost",), 2),
    ],
)
def test_a_half_repaired_program_is_told_what_is_left(repairs, left, points) -> None:
    source = cells("def training_loss")
    changes = {
        "mask": ("mask, target_real)", "mask, source_real)"),
        "no mask": ("mask, target_real)", "mask, None)"),
        "shift": ("    logits, labels = logits[:, :-1], labels[:, 1:] ", "    # "),
        "no shift": ("rows[:, :-1], rows[:, 1:]", "rows[:, :-1], rows[:, :-1]"),
        "mean": ("return (each * (labels != pad)).mean()", "return each[labels != pad].mean()"),
    }
    for repair in repairs:
        before, after = changes[repair]
        assert source.count(before) == 1
        source = source.replace(before, after)
    names: dict = {}
    exec(cells("import contextlib") + "\n" + source, names)
    report = evaluate(TASK["training_loss"], names["training_loss"])
    assert report.attempted and set(report.mistakes) == set(left), report
    assert report.points == points, report


# --- wrong answers that nobody foresaw --------------------------------------------------------------------


class _Half(layer.DecoderLayer):
    """The residual connections carry half of the stream."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        output, weights = super().forward(x, memory, mask, memory_mask)
        return output - x / 2, weights


class _NoGradient(layer.DecoderLayer):
    """Nothing is learned through the memory."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory.detach(), mask, memory_mask)


class _OneSublayerDrops(layer.DecoderLayer):
    """Nothing that the feed-forward network gives is dropped."""

    def _around(self, name, x, sublayer, norm):
        share, self._share = self._share, 0.0 if name == "feed" else self._share
        try:
            return super()._around(name, x, sublayer, norm)
        finally:
            self._share = share


@pytest.mark.parametrize(("wrong", "lost"), [(_Half, 4), (_NoGradient, 1), (_OneSublayerDrops, 2)])
def test_other_wrong_layers_are_caught(wrong, lost) -> None:
    report = evaluate(TASK["DecoderLayer"], wrong)
    assert not report.passed and report.max_points - report.points >= lost, report


def test_a_layer_says_in_words_what_is_missing() -> None:
    class OtherNames(nn.Module):
        def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
            super().__init__()
            self.attention = nn.Linear(d_model, d_model)

    report = evaluate(TASK["DecoderLayer"], OtherNames)
    assert report.points == 0 and "keep the names of the stub" in repr(report)
    report = evaluate(TASK["DecoderLayer"], layer.DecoderLayer(6, 2, 10))
    assert report.points == 0 and "the class itself" in repr(report)


def _floats(targets, lengths, bos, pad):
    return tuple(side.float() for side in references.training_pair(targets, lengths, bos, pad))


def _hides_from_the_first_end(targets, lengths, bos, pad):
    """Takes 2 for eos, whatever stands there: one place of filler is left."""
    ends = (targets == 2).int().cumsum(dim=1) > 1
    inputs, _ = references.training_pair(targets, lengths, bos, pad)
    return inputs, targets.masked_fill(ends, -100)


def _in_place(targets, lengths, bos, pad):
    wanted = references.training_pair(targets, lengths, bos, pad)
    targets[:, 0] = bos
    return wanted


@pytest.mark.parametrize("wrong", [_floats, _hides_from_the_first_end, _in_place])
def test_other_wrong_pairs_are_caught(wrong) -> None:
    report = evaluate(TASK["training_pair"], wrong)
    assert not report.passed, report
    assert ("changes its first argument" in repr(report)) == (wrong is _in_place)


def test_what_is_read_behind_the_end_is_up_to_the_answer_but_must_be_a_token() -> None:
    def other(filler):
        def pair(targets, lengths, bos, pad):
            inputs, labels = references.training_pair(targets, lengths, bos, pad)
            return inputs.masked_fill(labels == -100, filler), labels

        return pair

    assert evaluate(TASK["training_pair"], other(0), hidden=True).passed
    report = evaluate(TASK["training_pair"], other(-1))
    assert not report.passed and "no token" in repr(report)


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_earns_nothing(verdict) -> None:
    report = evaluate(TASK["test_token_loss"], lambda program: verdict)
    assert report.points == 0 and not report.mistakes


def test_a_test_that_compares_to_the_last_digit_refuses_right_programs() -> None:
    def too_strict(program):
        logits, rows = torch.randn(2, 3, 9), torch.tensor([[1, 3, 4, 2], [1, 2, 8, 8]])
        assert program(logits, rows, 8).double() == references.token_loss(logits, rows, 8).double()

    report = evaluate(TASK["test_token_loss"], too_strict)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_the_lessons_oracles_alone_find_the_shifts_and_miss_other_bugs() -> None:
    def oracles(program):
        rows = torch.tensor([[1, 3, 0, 5, 6, 2], [1, 7, 2, 8, 8, 8]])
        for ahead in (0, 1, 2):
            told = F.pad(rows, (0, 1), value=8)[:, ahead : ahead + 5]
            assert (program(50.0 * F.one_hot(told, 9), rows, 8) < 1e-4) == (ahead == 1)

    report = evaluate(TASK["test_token_loss"], oracles)
    assert 0 < report.points < report.max_points
    assert not {"no_shift", "shifted_twice"} & set(report.mistakes)
    assert {"diluted", "summed"} <= set(report.mistakes)


# --- the references and the library are the same ----------------------------------------------------------


def test_the_layer_equals_the_course() -> None:
    g = torch.Generator().manual_seed(3)
    theirs = layers.DecoderLayer(6, 2, 10, norm="pre")
    ours = layer.DecoderLayer(6, 2, 10)
    names = {"around_self.norm": "norm_self", "around_cross.norm": "norm_cross"}
    names["around_feed_forward.norm"] = "norm_feed_forward"
    weights = decoder._weights(g, decoder.SIZES)
    ours.load_state_dict(weights)
    renamed = {new: old for old, new in names.items()}
    theirs.load_state_dict(
        {renamed.get(name.rsplit(".", 1)[0], name.rsplit(".", 1)[0]) + "." + name.rsplit(".", 1)[1]: tensor
         for name, tensor in weights.items()}
    )  # fmt: skip
    x, memory = decoder._pair(g)
    masks = causal_mask(4), padding_mask((5, 7, 0), 7)
    output, crossed = ours(x, memory, *masks)
    wanted = theirs(x, memory, *masks, need_weights=True)
    torch.testing.assert_close(output, wanted.output)
    torch.testing.assert_close(crossed, wanted.cross_weights)


def test_pairs_and_losses_equal_the_library() -> None:
    g = torch.Generator().manual_seed(5)
    targets, lengths = torch.randint(3, 20, (3, 6), generator=g), torch.tensor([2, 6, 4])
    inputs, labels = references.training_pair(targets, lengths, 1, 2)
    assert torch.equal(inputs, shift_right(targets, 1))
    assert torch.equal(labels, pad_by_length(targets, lengths, pad=-100))
    rows = F.pad(pad_by_length(targets, lengths, pad=0), (1, 0), value=1)
    logits = torch.randn(3, 6, 20, generator=g)
    wanted = token_cross_entropy(logits, teacher_forcing_pair(rows)[1], pad=0)
    torch.testing.assert_close(references.token_loss(logits, rows, 0), wanted)
    loss = references.training_loss(
        lambda source, mask: source, lambda *_: logits, torch.ones(3, 4, dtype=torch.long), rows, 0
    )
    torch.testing.assert_close(loss, wanted)


# --- predictions and findings follow from a computation ---------------------------------------------------


def test_the_predictions_are_what_the_library_measures() -> None:
    def size(**changes):
        sizes = {"d_model": values.D_MODEL, "num_heads": 4, "d_ff": values.D_FF} | changes
        return sum(p.numel() for p in layers.DecoderLayer(**sizes, norm="pre").parameters())

    g = torch.Generator().manual_seed(0)
    module = layers.DecoderLayer(values.D_MODEL, 4, values.D_FF, norm="pre")
    y = torch.randn(1, values.TARGET, values.D_MODEL, generator=g)
    tables = [
        module(y, torch.randn(1, n, values.D_MODEL, generator=g), need_weights=True).cross_weights
        for n in (values.SOURCE, 2 * values.SOURCE)
    ]
    answer = {
        values.ROWS: tables[0].shape[-2],
        values.PARAMETERS: size(),
        values.HEADS: "stay" if size(num_heads=8) == size() else "grow",
        values.WIDTHS: size(d_model=2 * values.D_MODEL, d_ff=2 * values.D_FF) / size(),
        values.LONGER: tables[1].numel() / tables[0].numel(),
        values.COUNTED: len(["a", "b", "c", "eos"]),
        values.CHANGED: "ALL ",
    }
    assert evaluate(TASK["prediction"], answer).passed
    encoder_layer = sum(p.numel() for p in layers.EncoderLayer(values.D_MODEL, 4, values.D_FF).parameters())
    report = evaluate(TASK["prediction"], answer | {values.PARAMETERS: encoder_layer})
    assert report.mistakes == ("encoder_layer",)
    assert "stub" not in cells("prediction = {") and set(run("prediction = {")["prediction"]) == set(answer)


def _verdict(number: int, S: int, T: int, real: int) -> str:
    """What the map of a machine says, read as the exercise asks to."""
    names = run("def influence")
    moved = names["influence"](machines.machine(number), S, T, real) > 0
    memory, outputs = moved[:real], moved[S:]
    triangle = torch.ones(T, T, dtype=torch.bool).tril()
    if memory[:, real:S].any():
        return "encoder sees padding"
    if not memory[:, :real].all():
        return "encoder is causal"
    if outputs[:, real:S].any():
        return "decoder sees padding"
    if not outputs[:, :real].any():
        return "source unread"
    if (outputs[:, S:] & ~triangle).any():
        return "future seen"
    return "right" if torch.equal(outputs[:, S:], triangle) else "short memory"


@pytest.mark.parametrize("sizes", [(7, 8, 4), (9, 6, 5), (6, 12, 6)])
def test_the_maps_show_the_faults_that_the_check_expects(sizes) -> None:
    found = {f"machine {number}": _verdict(number, *sizes) for number in range(1, 6)}
    if sizes[0] == sizes[2]:
        found["machine 1"] = machines.FAULTS[0]  # without padding this fault cannot show
    assert evaluate(TASK["findings"], found).passed, found


def test_one_fault_cannot_be_seen_at_the_sizes_given() -> None:
    source = cells("number = 1")
    assert "S, T, real_tokens = 5, 4, 3" in source
    found = {f"machine {number}": _verdict(number, 5, 4, 3) for number in range(1, 6)}
    report = evaluate(TASK["findings"], found)
    assert report.points == report.max_points - 1 and report.mistakes == ("looks_right",)
    assert _verdict(3, 5, 5, 3) == "short memory"


def test_a_machine_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to 5, got 6"):
        machines.machine(6)


# --- right in what comes out, and wrong in something else -------------------------------------------------


class _KeysWithoutGradient(right.OfTheCourse):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.drop(self.self_attention(self.norm_self(x), mask=mask).output)
        output, weights, _ = self.cross_attention(self.norm_cross(x), memory.detach(), memory, memory_mask)
        x = x + self.drop(output)
        return x + self.drop(self.feed_forward(self.norm_feed_forward(x))), weights


class _NormNotLearnt(right.OfTheCourse):
    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.norm_cross.requires_grad_(False)


class _MaskedInEvaluationAlone(right.OfTheCourse):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, None if self.training else mask, memory_mask)


class _OneRowForAll(right.OfTheCourse):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, None if memory_mask is None else memory_mask[:, :1])


class _MasksTogetherAlone(right.OfTheCourse):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, None if mask is None else memory_mask)


class _DropsVectors(right.OfTheCourse):
    def drop(self, y):
        return F.dropout1d(y, self.share, self.training)


class _DropsAlike(right.OfTheCourse):
    def drop(self, y):
        return y * F.dropout(torch.ones_like(y[:1]), self.share, self.training)


class _DropsLess(right.OfTheCourse):
    def drop(self, y):
        if not self.training:
            return y
        return y * torch.bernoulli(torch.full_like(y, 1 - self.share / 3)) / (1 - self.share)


@pytest.mark.parametrize(
    ("wrong", "lost"),
    [
        (_KeysWithoutGradient, 1),
        (_NormNotLearnt, 1),
        (_MaskedInEvaluationAlone, 1),
        (_OneRowForAll, 2),
        (_MasksTogetherAlone, 2),
        (_DropsVectors, 2),
        (_DropsAlike, 2),
        (_DropsLess, 2),
    ],
)
def test_a_layer_is_right_in_training_in_its_gradients_and_for_every_mask(wrong, lost) -> None:
    report = evaluate(TASK["DecoderLayer"], wrong)
    assert report.points == report.max_points - lost and not report.mistakes, report


def test_no_number_has_its_meaning_by_itself() -> None:
    def one_begins(targets, lengths, bos, pad):
        return references.training_pair(targets, lengths, 1, pad)

    def two_ends(targets, lengths, bos, pad):
        ends = (targets == 2).int()
        labels = targets.masked_fill(ends.cumsum(dim=1) > ends, -100)
        return references.training_pair(targets, lengths, bos, pad)[0], labels

    for wrong in (one_begins, two_ends):
        assert not evaluate(TASK["training_pair"], wrong).passed


def test_a_loss_that_cannot_be_followed_back_is_none() -> None:
    def number(*args):
        return torch.tensor(references.training_loss(*args).item())

    @torch.no_grad()
    def without(*args):
        return references.training_loss(*args)

    for wrong in (number, without):
        report = evaluate(TASK["training_loss"], wrong)
        assert report.points == report.max_points - 1 and "no gradient" in repr(report), report


def test_three_wrong_programs_differ_only_where_there_is_padding() -> None:
    g = torch.Generator().manual_seed(0)
    logits, rows = torch.randn(2, 5, 10, generator=g), torch.tensor([[1, 3, 0, 5, 6, 2], [1, 7, 4, 0, 8, 2]])
    right_one = references.token_loss(logits, rows, 9)
    losses = [references.token_loss(logits, rows, 9, **m.switches) for m in TASK["test_token_loss"].mistakes]
    assert sum(bool(torch.isclose(loss, right_one)) for loss in losses) == 3
