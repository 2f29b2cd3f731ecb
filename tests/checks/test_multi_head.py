"""What is special to lesson 5's exercises; what holds for every set stands in ``test_catalogue``."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import torch
from torch import nn

from attnlab.checks import engine
from attnlab.checks.ch05_multi_head import GROUPED, guesses, inputs, puzzle, references
from attnlab.checks.engine import load_tasks
from attnlab.multihead import MultiHeadAttention, merge_heads, split_heads
from tools.notebooks.manuscript import load
from tools.notebooks.solutions import view

matplotlib.use("Agg")
# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASK = {task.name: task for task in load_tasks().values() if task.lesson == "multi_head"}
ROOT = Path(__file__).parents[2]


def generator(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


@functools.cache
def cells(variant: str) -> tuple[str, ...]:
    """The code cells of the ``exercise`` or the ``solution``."""
    manuscript = load(ROOT / "book/exercises/05_multi_head.py", ROOT, "exercise")
    return tuple(shown.source for shown in view(manuscript, variant) if shown.cell.kind == "code")


def run(variant: str, *marks: str) -> dict[str, Any]:
    """The names that the imports and the cells with these marks leave behind."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for mark in ("import copy", *marks):
        (source,) = (cell for cell in cells(variant) if mark in cell)
        exec(compile(source, mark, "exec"), names)
    return names


# --- split and merge --------------------------------------------------------------------------------------


def test_split_and_merge_are_the_librarys() -> None:
    x = torch.randn(2, 7, 5, 12, generator=generator())
    heads = references.split_heads(x, 3)
    assert torch.equal(heads, split_heads(x, 3))
    assert torch.equal(references.merge_heads(heads), merge_heads(heads))


def test_two_mirrored_mistakes_survive_a_round_trip_but_not_the_checks() -> None:
    def split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        return x.view(*x.shape[:-2], num_heads, x.shape[-2], -1)

    def merge(heads: torch.Tensor) -> torch.Tensor:
        return heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)

    x = torch.randn(2, 5, 12, generator=generator())
    assert torch.equal(merge(split(x, 3)), x)
    assert evaluate(TASK["merge_heads"], merge).mistakes == ("merge_view",)
    report = evaluate(TASK["split_heads"], split)
    assert not report.passed and "split_view" in report.mistakes


@pytest.mark.parametrize("made", [lambda x, n: x.chunk(n, -1), lambda x, n: x, lambda x, n: x.numpy()])
def test_an_unforeseen_split_is_refused(made: Any) -> None:
    assert evaluate(TASK["split_heads"], made).points == 0


def test_the_heads_in_another_order_are_refused() -> None:
    report = evaluate(TASK["split_heads"], lambda x, n: split_heads(x, n).flip(-3))
    assert report.points <= 2
    report = evaluate(TASK["merge_heads"], lambda heads: merge_heads(heads.flip(-3)))
    assert report.points <= 1


def test_changing_the_input_in_place_is_told() -> None:
    def split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        return split_heads(x.mul_(2), num_heads)

    assert "changes" in repr(evaluate(TASK["split_heads"], split))


@pytest.mark.parametrize(
    ("error", "earned"),
    [
        (ValueError("10 columns, 4 heads; 7 columns, 12 heads"), 1),
        (ValueError("104 columns, 712 heads"), 0),
        (ValueError("4 heads do not fit, nor do 12"), 0),
        (ValueError("width of 10 and of 7 (line 4 of cell 12)"), 0),
        (TypeError("10 columns, 4 heads; 7 columns, 12 heads"), 0),
        (UnicodeError("10 and 4, 7 and 12"), 1),  # a kind of ValueError
    ],
    ids=repr,
)
def test_a_refusal_is_a_value_error_that_names_both_numbers(error: Exception, earned: int) -> None:
    def split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        if x.shape[-1] % num_heads:
            raise error
        return split_heads(x, num_heads)

    assert evaluate(TASK["split_heads"], split).points == 4 + earned


@pytest.mark.parametrize("name", ["split_heads", "merge_heads", "like_torch", "multi_head"])
def test_a_function_that_returns_nothing_is_no_attempt(name: str) -> None:
    report = evaluate(TASK[name], lambda *args: None)
    assert not report.attempted and report.points == 0


# --- torch's weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_reference_is_what_torch_and_the_library_compute(batch_first: bool) -> None:
    state, num_heads, x, first = inputs.torch_inputs(generator(), batch_first=batch_first)
    output, weights = references.like_torch(state, num_heads, x, first)
    for given, wanted in zip((output, weights), inputs.theirs(state, num_heads, x, first), strict=True):
        torch.testing.assert_close(given, wanted)
    theirs = nn.MultiheadAttention(12, num_heads)
    theirs.load_state_dict(state)
    ours = MultiHeadAttention.from_torch(theirs)(x if first else x.transpose(0, 1))
    torch.testing.assert_close(weights, ours.weights)


def test_the_trap_costs_the_points_of_time_first_alone() -> None:
    def trapped(state: Any, num_heads: int, x: torch.Tensor, batch_first: bool = False) -> Any:
        return references.like_torch(state, num_heads, x, True)

    report = evaluate(TASK["like_torch"], trapped)
    assert report.points == 5 and report.mistakes == ("always_batch_first",)


def test_the_default_of_batch_first_has_to_be_torchs() -> None:
    def other_default(state: Any, num_heads: int, x: torch.Tensor, batch_first: bool = True) -> Any:
        return references.like_torch(state, num_heads, x, batch_first)

    assert evaluate(TASK["like_torch"], other_default).points == 5


def test_the_cell_about_the_trap_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    run("exercise", "changed[1] += 1.0")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("? ")[1] for line in lines] == ["False", "True"]


# --- grouped heads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
def test_the_grouped_reference_is_the_librarys_module(num_kv_heads: int) -> None:
    sizes = {"d_model": 18, "num_heads": 6, "num_kv_heads": num_kv_heads}
    weights = inputs.parameters(generator(), sizes)
    given = inputs.sequences(generator(1))
    mask = inputs.random_mask(generator(2), empty=True)
    library = MultiHeadAttention(18, 6, num_kv_heads=num_kv_heads, bias=False)
    library.load_state_dict(weights)
    expected = library(*given, mask)
    output, table = GROUPED.adapt(references.GroupedQueryAttention)(sizes, weights, *given, mask)
    torch.testing.assert_close(output, expected.output)
    torch.testing.assert_close(table, expected.weights)


def test_each_answering_head_serves_neighbours() -> None:
    heads = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1)
    assert references.spread(heads, 2, "each repeated").flatten().tolist() == [10, 10, 20, 20]
    assert references.spread(heads, 2, "tiled").flatten().tolist() == [10, 20, 10, 20]


def test_projections_of_another_size_or_with_biases_are_told_in_words() -> None:
    class Wide(references.GroupedQueryAttention):
        def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
            super().__init__(d_model, num_heads, num_heads)

    class Biased(references.GroupedQueryAttention):
        def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
            super().__init__(d_model, num_heads, num_kv_heads)
            self.w_o = nn.Linear(d_model, d_model)

    assert "w_k.weight has shape (18, 18), expected (6, 18)" in repr(evaluate(GROUPED, Wide))
    assert "w_o.bias" in repr(evaluate(GROUPED, Biased))


def test_cutting_the_graph_costs_the_points_of_the_gradients() -> None:
    class Cut(references.GroupedQueryAttention):
        def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            q = self.w_q(query).detach()
            output, weights = super().forward(query, key, value, mask)
            return output.detach() + 0 * self.w_o(q), weights

    report = evaluate(GROUPED, Cut)
    assert report.points == GROUPED.max_points - 1 and "no gradient reaches w_q" in repr(report)


# --- repair -----------------------------------------------------------------------------------------------


def test_the_program_given_is_no_attempt() -> None:
    names = run("exercise", "def multi_head(")
    report = evaluate(TASK["multi_head"], names["multi_head"])
    assert not report.attempted and report.points == 0 and not report.hints


@pytest.mark.parametrize(
    ("repaired", "left"),
    [({"axis": -2}, "axis_queries"), ({"merge": "view"}, "merge_view")],
    ids=["merge", "axis"],
)
def test_a_half_repaired_program_gets_a_point_and_is_told_what_is_left(repaired: Any, left: str) -> None:
    report = evaluate(TASK["multi_head"], functools.partial(references.multi_head, **repaired))
    assert report.attempted and report.points == 1 and report.mistakes == (left,)


def test_the_repaired_program_is_the_librarys_module() -> None:
    x, *matrices, num_heads = inputs.matrices_and_heads(generator())
    library = MultiHeadAttention(12, num_heads, bias=False)
    names = ("w_q", "w_k", "w_v", "w_o")
    library.load_state_dict({f"{n}.weight": w.T for n, w in zip(names, matrices, strict=True)})
    torch.testing.assert_close(references.multi_head(x, *matrices, num_heads), library(x).output)


def test_the_program_given_learns_its_job_and_fails_at_other_lengths() -> None:
    given = run("exercise", "def multi_head(", "class TwoBack")["shares"]
    assert given["12 tokens"] > 0.95
    assert all(given[f"{length} tokens"] < 0.4 for length in (10, 8, 6))
    repaired = run("solution", "def multi_head(", "class TwoBack")["shares"]
    assert all(share > 0.99 for share in repaired.values())


# --- predictions and findings -----------------------------------------------------------------------------


def test_predictions_are_what_the_notebooks_cell_measures() -> None:
    names = run("solution", "prediction = {", "def measure_predictions")
    measured = [float(value) for value in names["measure_predictions"]().values()]
    specs = list(guesses.PREDICTED.values())
    assert all(spec.matches(value) for spec, value in zip(specs[:6], measured[:6], strict=True))
    assert measured[6] < 1e-5 and specs[6].example() == "stays"


def test_wrong_predictions_differ_from_right_ones() -> None:
    for wrong in guesses.WRONGLY_PREDICTED:
        for part, value in wrong.switches.items():
            value = value.example() if hasattr(value, "example") else value
            assert not guesses.PREDICTED[part].matches(value), wrong.key


def test_findings_follow_from_switching_heads_off() -> None:
    names = run("exercise", "attention = reporter()", "off = []")
    chance = 1 / puzzle.NUM_TOKENS

    def lost(*off: int) -> list[bool]:
        shares = names["shares_right"](list(off)).values()
        assert all(share > 0.99 or share < 2 * chance for share in shares), "neither kept nor lost"
        return [share < 0.5 for share in shares]

    assert lost() == [False, False]
    alone = {head: lost(head) for head in range(4)}
    needed_for_two = [head for head, (_one, two) in alone.items() if two]
    pairs = [pair for pair in itertools.combinations(range(4), 2) if lost(*pair)[0]]
    others = {head: [h for h in range(4) if h != head] for head in range(4)}
    idle = [
        head
        for head in range(4)
        if all(
            lost(*off) == lost(head, *off)
            for size in range(4)
            for off in itertools.combinations(others[head], size)
        )
    ]
    found = {
        "two steps back is lost without head": needed_for_two,
        "heads that show a loss when off alone": [sum(any(both) for both in alone.values())],
        "one step back is lost without heads": [f"{a} and {b}" for a, b in pairs],
        "nothing ever needs head": idle,
    }
    assert found == {part: [spec.example()] for part, spec in guesses.FOUND.items()}


def test_the_sharpest_map_is_that_of_the_head_that_nothing_needs() -> None:
    maps = run("exercise", "attention = reporter()")["maps"]
    sharpness = maps[:, 2:].amax(dim=-1).mean(dim=-1)
    idle = guesses.FOUND["nothing ever needs head"].example()
    assert int(sharpness.argmax()) == idle
    assert int(sharpness.argmin()) == 3  # the stand-in


# --- right where one looks first, and wrong elsewhere -----------------------------------------------------


def test_a_split_that_counts_axes_up_to_four_is_caught() -> None:
    def up_to_four(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        return split_heads(x if x.ndim <= 4 else x.flatten(0, 1), num_heads)

    def merged_up_to_five(heads: torch.Tensor) -> torch.Tensor:
        return merge_heads(heads if heads.ndim <= 5 else heads.flatten(0, 1))

    assert evaluate(TASK["split_heads"], up_to_four).points == 4
    assert evaluate(TASK["merge_heads"], merged_up_to_five).points == 3


def test_a_number_type_that_is_not_kept_is_told() -> None:
    report = evaluate(TASK["split_heads"], lambda x, num_heads: references.split_heads(x.float(), num_heads))
    assert "float64 was expected" in repr(report)


def test_widths_known_by_heart_are_not_all_that_is_refused() -> None:
    def by_heart(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        if (x.shape[-1], num_heads) in ((10, 4), (7, 12)):
            raise ValueError(f"{x.shape[-1]} columns, {num_heads} heads")
        return references.split_heads(x, num_heads, refusal="none")

    report = evaluate(TASK["split_heads"], by_heart)
    assert report.points == 4 and "other widths" in repr(report)


def test_the_order_of_axes_cannot_be_guessed_from_the_sizes() -> None:
    def guesses_it(state: Any, num_heads: int, x: torch.Tensor, batch_first: bool = False) -> Any:
        return references.like_torch(state, num_heads, x, x.shape[0] < x.shape[1])

    assert evaluate(TASK["like_torch"], guesses_it).points <= 3


def grouped(change: Any) -> type[nn.Module]:
    """A class that is right but for what ``change(output, module)`` makes of its output."""

    class Changed(references.GroupedQueryAttention):
        def forward(self, *inputs: Any) -> Any:
            output, weights = super().forward(*inputs)
            return change(output, self), weights

    return Changed


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda output, module: nn.functional.dropout(output, 0.1, module.training), "in training"),
        (lambda output, module: (output + output.detach()) / 2, "the gradient of w_q"),
        (lambda output, module: output.squeeze(0), "shape (1, 4, 18)"),
    ],
    ids=["dropout", "half of the gradient", "squeezed"],
)
def test_a_module_that_is_wrong_now_and_then_loses_a_point(change: Any, told: str) -> None:
    report = evaluate(GROUPED, grouped(change))
    assert report.points == GROUPED.max_points - 1 and told in repr(report) and not report.mistakes


@pytest.mark.parametrize("hidden", ["-20 filled", "minus infinity added, weights cleaned"])
def test_masks_that_are_nearly_right_lose_a_point(hidden: str) -> None:
    class NearlyRight(references.GroupedQueryAttention):
        def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            q, k, v = self.split(query, key, value)
            scores = q @ k.mT / q.shape[-1] ** 0.5
            shown = torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask
            if hidden == "-20 filled":
                weights = scores.masked_fill(~shown, -20.0).softmax(dim=-1) * shown
            else:
                added = torch.zeros(shown.shape).masked_fill(~shown, -torch.inf)
                weights = (scores + added).softmax(dim=-1).nan_to_num()
            return self.w_o(merge_heads(weights @ v)), weights

        def split(self, query: Any, key: Any, value: Any) -> Any:
            _d_model, asks, answers = self._sizes
            k, v = split_heads(self.w_k(key), answers), split_heads(self.w_v(value), answers)
            group = asks // answers
            spread = (part.repeat_interleave(group, dim=1) for part in (k, v))
            return (split_heads(self.w_q(query), asks), *spread)

    report = evaluate(GROUPED, NearlyRight)
    assert report.points == GROUPED.max_points - 1
    assert ("where scores are large" if hidden == "-20 filled" else "NaN") in repr(report)


def test_a_repair_for_more_than_one_sequence_alone_is_caught() -> None:
    report = evaluate(TASK["multi_head"], lambda *inputs: references.multi_head(*inputs).squeeze(0))
    assert report.points == 2


@pytest.mark.parametrize(("order", "named"), [((1, 0, 2), "kqv"), ((0, 2, 1), "qvk"), ((2, 1, 0), "vkq")])
def test_thirds_that_change_places_are_named_with_their_biases(order: tuple[int, ...], named: str) -> None:
    def changed(state: Any, num_heads: int, x: torch.Tensor, batch_first: bool = False) -> Any:
        theirs = nn.MultiheadAttention(x.shape[-1], num_heads, batch_first=batch_first)
        tall = {name: tensor.chunk(3) for name, tensor in state.items() if name.startswith("in_")}
        mixed = {name: torch.cat([thirds[i] for i in order]) for name, thirds in tall.items()}
        theirs.load_state_dict({**state, **mixed})
        return theirs(x, x, x, average_attn_weights=False)

    assert evaluate(TASK["like_torch"], changed).mistakes == (f"thirds_{named}",)
