"""Lesson 7's checks: what is special to the set."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checks import ch07_block as chapter
from attnlab.checks import engine
from attnlab.checks.ch07_block import references
from attnlab.checks.ch07_block.inputs import block_parameters, layer_functions, mask, stream
from attnlab.checks.engine import TASKS, load_tasks
from attnlab.layers import EncoderLayer, layer_norm
from attnlab.multihead import MultiHeadAttention
from tests.checks.right_answers import block as right

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

load_tasks()
TASK = {task.name: task for task in TASKS.values() if task.lesson == "block"}


def test_the_set_mixes_six_kinds() -> None:
    kinds = [task.kind for task in TASK.values()]
    assert kinds == ["implement", "predict", "implement", "implement", "measure", "explore", "repair", "test"]
    assert sum(task.max_points for task in TASK.values()) == 45
    assert all(len(task.mistakes) >= 10 for task in TASK.values())


# --- the references and the library are the same ------------------------------------------------------------


def test_the_norm_equals_the_library_and_torch() -> None:
    g = torch.Generator().manual_seed(0)
    x, (weight, bias) = torch.randn(3, 5, 6, generator=g) + 1, torch.randn(2, 6, generator=g)
    ours = references.layer_norm(x, weight, bias, 0.1)
    torch.testing.assert_close(ours, layer_norm(x, weight, bias, 0.1))
    torch.testing.assert_close(ours, F.layer_norm(x, (6,), weight, bias, 0.1))


@pytest.mark.parametrize(
    ("norm", "block"), [("post", references.post_norm_block), ("pre", references.pre_norm_block)]
)
def test_the_blocks_equal_the_library(norm, block) -> None:
    g = torch.Generator().manual_seed(0)
    ours, theirs = block(6, 2, 10), EncoderLayer(6, 2, 10, norm=norm)
    ours.load_state_dict(block_parameters(g))
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    x, allowed = stream(g), mask(g, 4, empty=True)
    torch.testing.assert_close(ours(x, allowed), theirs(x, allowed).output)


def test_the_probe_measures_what_a_small_step_changes() -> None:
    g = torch.Generator().manual_seed(0)
    layers = _double_layers(g, 3)
    x, direction = (torch.randn(1, 2, 2, generator=g, dtype=torch.float64) for _ in range(2))

    def total(start: int, place: torch.Tensor) -> torch.Tensor:
        for layer in layers[start:]:
            place = layer(place)
        return (place * direction).sum()

    lengths, place = references.gradient_by_layer(layers, x, direction), x
    for start in range(4):
        steps = 1e-6 * torch.eye(4, dtype=torch.float64).view(4, 1, 2, 2)
        slopes = [(total(start, place + s) - total(start, place - s)) / 2e-6 for s in steps]
        assert torch.stack(slopes).norm().item() == pytest.approx(lengths[start].item(), rel=1e-5)
        place = layers[start](place) if start < 3 else place


def _double_layers(g, depth):
    matrices = [torch.randn(2, 2, generator=g, dtype=torch.float64) for _ in range(depth)]
    return [lambda x, m=m: x + torch.tanh(x @ m) for m in matrices]


# --- predictions and findings follow from a computation -----------------------------------------------------


def _size(x: torch.Tensor) -> float:
    return x.square().mean().sqrt().item()


def test_the_predictions_are_what_a_computation_gives() -> None:
    torch.manual_seed(0)
    x, direction = torch.randn(2, 3, 6, 16)
    norm, attention = nn.LayerNorm(16), MultiHeadAttention(16, 4)

    def word(ratio: float) -> str:
        return "stays" if abs(ratio - 1) < 0.01 else "grows" if ratio > 1 else "shrinks"

    def slope(times: int) -> float:
        leaf = (times * x).requires_grad_()
        return torch.autograd.grad((norm(leaf) * direction).sum(), leaf)[0].norm().item()

    changed = x.clone()
    changed[:, 2] += torch.randn(16)
    silent = {}
    for kind, block in (("post", references.post_norm_block), ("pre", references.pre_norm_block)):
        y = 3 * x / _size(x)
        for _ in range(60):
            layer = block(16, 4, 64)
            for linear in (layer.self_attention.w_o, layer.feed_forward.w_2):
                nn.init.zeros_(linear.weight)
            y = layer(y)
        silent[kind] = y
    answers = (
        word(_size(norm(10 * x)) / _size(norm(x))),
        slope(10) / slope(1),
        word(_size(attention(norm(10 * x)).output) / _size(attention(norm(x)).output)),
        int(((norm(changed) - norm(x)).abs().amax(dim=(0, 2)) > 1e-4).sum()),
        "stays" if torch.equal(silent["pre"], 3 * x / _size(x)) else "changes",
        _size(silent["post"]),
    )
    prediction = dict(zip(TASK["prediction"].specs, answers, strict=True))
    assert evaluate(TASK["prediction"], prediction).passed


def _ratio(kind: str, depth: int, power: float, shift: int) -> float:
    """As the exercise's cells have it: the geometric mean over three untrained stacks."""
    logs = []
    for number in range(3):
        torch.manual_seed(number + shift)
        x, direction = torch.randn(2, 4, 8, 32, dtype=torch.float64)
        layers = []
        for _ in range(depth):
            layer = EncoderLayer(32, 4, 128, norm="post" if kind == "post-norm" else "pre").double()
            if kind == "no norm":
                layer.around_self.norm = layer.around_feed_forward.norm = nn.Identity()
            with torch.no_grad():
                layer.self_attention.w_o.weight *= depth**power
                layer.feed_forward.w_2.weight *= depth**power
            layers.append(lambda x, layer=layer: layer(x).output)
        lengths = references.gradient_by_layer(layers, x, direction)
        logs.append((lengths[0] / lengths[-1]).log())
    return torch.stack(logs).mean().exp().item()


@pytest.mark.parametrize("shift", [0, 1000, 2000])
def test_the_findings_are_what_the_probe_finds(shift: int) -> None:
    def band(ratio: float) -> str:
        return "above a thousand" if ratio > 1000 else "in between" if ratio > 0.001 else "below a thousandth"

    powers = [0, -0.25, -0.5, -0.75, -1]
    growth = {p: _ratio("pre-norm", 64, p, shift) / _ratio("pre-norm", 4, p, shift) for p in powers}
    answers = (
        _ratio("pre-norm", 64, 0, shift) / _ratio("pre-norm", 16, 0, shift),
        max(power for power in powers if growth[power] < 1.1),
        band(_ratio("no norm", 16, 0, shift)),
        band(_ratio("post-norm", 64, 0, shift)),
    )
    findings = dict(zip(TASK["findings"].specs, answers, strict=True))
    assert evaluate(TASK["findings"], findings).passed, (findings, growth)


# --- wrong answers that nobody foresaw ----------------------------------------------------------------------


class AveragesOfTwo(right.NormFused):
    def forward(self, x):
        return (super().forward(x) + super().forward(x.roll(1, dims=-1))) / 2


class NormWithBuffers(nn.Module):
    """It computes the right thing, and its vectors are never trained."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_buffer("weight", torch.ones(d_model))
        self.register_buffer("bias", torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)


def test_norms_that_nobody_foresaw_lose_points() -> None:
    assert evaluate(TASK["LayerNorm"], AveragesOfTwo).points <= 2
    report = evaluate(TASK["LayerNorm"], NormWithBuffers)
    assert report.points == 5 and "no gradient reaches weight" in repr(report)


def test_a_norm_that_changes_its_input_is_told_so() -> None:
    class InPlace(right.NormFused):
        def forward(self, x):
            x -= x.mean(dim=-1, keepdim=True)
            return super().forward(x)

    assert "changes its first argument" in repr(evaluate(TASK["LayerNorm"], InPlace))


@pytest.mark.parametrize(("name", "base"), [("PostNormBlock", "PostInSteps"), ("PreNormBlock", "PreInSteps")])
def test_blocks_that_nobody_foresaw_lose_points(name: str, base: str) -> None:
    kind = getattr(right, base)

    class OneAxisMasked(kind):
        def forward(self, x, mask=None):
            return super().forward(x, None if mask is None else mask.transpose(-2, -1))

    class DropsWholeTokens(kind):
        def drop(self, y):
            return F.dropout1d(y, self.share, self.training)

    class DropsHalf(kind):
        def drop(self, y):
            return F.dropout(y, self.share / 2, self.training)

    class Frozen(kind):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            self.norm_2.requires_grad_(False)

    lost = {OneAxisMasked: 1, DropsWholeTokens: 2, DropsHalf: 2, Frozen: 1}
    for wrong, points in lost.items():
        report = evaluate(TASK[name], wrong)
        assert report.points == 7 - points and not report.mistakes, report


def test_a_block_says_in_words_what_is_missing() -> None:
    class OtherNames(nn.Module):
        def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
            super().__init__()
            self.attention = MultiHeadAttention(d_model, num_heads)

    report = evaluate(TASK["PreNormBlock"], OtherNames)
    assert report.points == 0 and "feed_forward.w_1.weight" in repr(report)

    class ReturnsAll(right.PreInSteps):
        def forward(self, x, mask=None):
            return super().forward(x, mask), None

    assert "tuple" in repr(evaluate(TASK["PreNormBlock"], ReturnsAll))


def test_a_probe_that_measures_outputs_earns_next_to_nothing() -> None:
    def sizes(layers, x, direction):
        places = [x]
        for layer in layers:
            places.append(layer(places[-1]))
        return torch.stack([place.norm() for place in places])

    report = evaluate(TASK["gradient_by_layer"], sizes)
    assert report.points == 1 and not report.mistakes

    def numbers(layers, x, direction):
        return right.probe_by_backward(layers, x, direction).tolist()

    assert "list" in repr(evaluate(TASK["gradient_by_layer"], numbers))


def test_layers_of_the_checks_mix_tokens() -> None:
    g = torch.Generator().manual_seed(0)
    (layer,) = layer_functions(g, 1, 3, 5)
    x = torch.randn(2, 5, 3, generator=g)
    changed = x.clone()
    changed[:, 1] += 1
    assert ((layer(changed) - layer(x)).abs().amax(dim=(0, 2)) > 1e-4).all()


# --- the program to be repaired -----------------------------------------------------------------------------


class GivenLayer(right._Parts):
    def forward(self, x, mask=None):
        x = self.norm_1(x)
        x = x + self.self_attention(x, mask=mask).output
        x = self.norm_2(x)
        return x + self.feed_forward(x)


class AsGiven(right._Stack):
    layer = GivenLayer

    def __init__(self, d_model, num_heads, d_ff, depth):
        super().__init__(d_model, num_heads, d_ff, depth)
        self.layers = nn.ModuleList([self.layers[0]] * depth)


def test_the_stack_as_given_is_no_attempt() -> None:
    report = evaluate(TASK["Encoder"], AsGiven)
    assert not report.attempted and report.points == 0 and not report.hints, report


def test_half_repaired_stacks_are_told_what_is_left() -> None:
    class StillShared(AsGiven):
        layer = right.PreInSteps

    class StillNormed(right._Stack):
        layer = GivenLayer

    class Copied(right._Stack):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            self.layers = nn.ModuleList(copy.deepcopy(self.layers[0]) for _ in self.layers)

    for stack, key, points in (
        (StillShared, "one_object", 2),
        (StillNormed, "adds_to_the_normed", 1),
        (Copied, "copies", 4),
    ):
        report = evaluate(TASK["Encoder"], stack)
        assert report.attempted and report.mistakes == (key,) and report.points == points, report


# --- the test that learners write ---------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(TASK["test_layer_norm"], lambda norm: verdict).points == 0


def test_one_comparison_of_plain_tokens_leaves_three_bugs() -> None:
    def plain(norm):
        g = torch.Generator().manual_seed(0)
        x, (weight, bias) = torch.randn(3, 4, 6, generator=g) + 0.5, torch.randn(2, 6, generator=g)
        expected = F.layer_norm(x, (6,), weight, bias)
        assert (norm(x, weight, bias, 1e-5) - expected).abs().max() < 1e-4

    report = evaluate(TASK["test_layer_norm"], plain)
    assert report.points == 3.5
    assert set(report.mistakes) == {"eps_outside", "eps_fixed", "far_from_zero"}


def test_a_test_with_one_tight_tolerance_refuses_right_norms() -> None:
    def tight(norm):
        g = torch.Generator().manual_seed(0)
        x, (weight, bias) = torch.randn(3, 4, 6, generator=g) + 1000, torch.randn(2, 6, generator=g)
        expected = F.layer_norm(x, (6,), weight, bias)
        assert torch.equal(norm(x, weight, bias, 1e-5).float(), expected)

    report = evaluate(TASK["test_layer_norm"], tight)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_right_norms_agree_as_closely_as_the_exercise_promises() -> None:
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        x, (weight, bias) = torch.randn(4, 5, 6, generator=g), torch.randn(2, 6, generator=g)
        for shift, promised in ((0, 1e-4), (1000, 0.02)):
            results = [
                norm(x + shift, weight, bias, 1e-5).double() for norm in TASK["test_layer_norm"].right_ones
            ]
            worst = max((a - b).abs().max().item() for a in results for b in results)
            assert worst < promised / 2, (seed, shift, worst)


def test_the_chapter_has_the_tasks_in_the_order_of_the_text() -> None:
    assert list(TASK.values())[:2] == [chapter.LAYER_NORM, chapter.PREDICTION]
    assert list(TASK.values())[-1] is chapter.TEST_LAYER_NORM


# --- right in what comes out, and wrong in something else ---------------------------------------------------


def test_a_norm_is_right_for_tokens_without_a_batch_and_in_its_gradient() -> None:
    class ThreeAxesAlone(right._Norm):
        def forward(self, x):
            centred = x - x.mean(2, keepdim=True)
            return (
                centred / (centred.square().mean(2, keepdim=True) + self.eps).sqrt() * self.weight + self.bias
            )

    class Constants(right._Norm):
        def forward(self, x):
            with torch.no_grad():
                variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
            return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias

    class OneOffsetForAll(right.NormInDouble):
        def forward(self, x):
            x = x - x.mean()
            variance = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
            return (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt() * self.weight + self.bias

    assert not evaluate(TASK["LayerNorm"], ThreeAxesAlone).passed
    report = evaluate(TASK["LayerNorm"], Constants)
    assert report.mistakes == ("detached",) and report.points == report.max_points - 1, report
    report = evaluate(TASK["LayerNorm"], OneOffsetForAll)
    assert report.mistakes == ("far_from_zero",) and report.points == report.max_points - 1, report


@pytest.mark.parametrize(("name", "base"), [("PostNormBlock", "PostInSteps"), ("PreNormBlock", "PreInSteps")])
def test_a_block_is_right_in_training_in_its_gradient_and_for_one_mask(name: str, base: str) -> None:
    kind = getattr(right, base)

    class NoGradientBefore(kind):
        def forward(self, x, mask=None):
            return super().forward(x.detach(), mask)

    class OneMaskIgnored(kind):
        def forward(self, x, mask=None):
            return super().forward(x, None if mask is not None and mask.dim() == 2 else mask)

    class MaskedInEvaluationAlone(kind):
        def forward(self, x, mask=None):
            return super().forward(x, None if self.training else mask)

    for wrong in (NoGradientBefore, OneMaskIgnored, MaskedInEvaluationAlone):
        report = evaluate(TASK[name], wrong)
        assert report.points == report.max_points - 1 and not report.mistakes, report


def test_a_repaired_stack_can_be_trained() -> None:
    class LayersApart(right._Stack):
        def forward(self, x, mask=None):
            for layer in self.layers:
                x = layer(x.detach(), mask)
            return self.last_norm(x)

    class DropsInTraining(right._Stack):
        def forward(self, x, mask=None):
            return F.dropout(super().forward(x, mask), 0.1, self.training)

    class OneMaskIgnored(right._Stack):
        def forward(self, x, mask=None):
            return super().forward(x, None if mask is not None and mask.dim() == 2 else mask)

    for wrong in (LayersApart, DropsInTraining, OneMaskIgnored):
        assert evaluate(TASK["Encoder"], wrong).points == 3, wrong
