"""Lesson 9's checks: what is special to this set; the common test holds what all sets have."""

import ast
import functools
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import tasks, training
from attnlab.checks import engine
from attnlab.checks.ch09_translation import inputs, loop, project, references
from attnlab.checks.engine import load_tasks
from attnlab.checks.verdict import Failed
from attnlab.export import Tokeniser, TrainedTranslator, save_translator
from attnlab.tasks import BOS, EOS, PAD
from attnlab.training import smoothed_targets
from attnlab.transformer import Transformer, TransformerConfig, greedy_decode
from attnlab.transformer import beam_search as library_beam_search

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASK = {task.name: task for task in load_tasks().values() if task.lesson == "translation"}
MANUSCRIPT = Path(__file__).parents[2] / "book" / "exercises" / "09_translation.py"


def test_the_set_ends_in_the_project_and_has_five_kinds() -> None:
    kinds = [task.kind for task in TASK.values()]
    assert kinds == ["predict", "implement", "test", "implement", "repair", "measure"]
    assert list(TASK)[-1] == "project"


# --- predictions follow from a computation ----------------------------------------------------------------


class _Table:
    """A model in a table of log-probabilities (V, V), as the library's searches want one."""

    def __init__(self, log_probs: torch.Tensor) -> None:
        self.log_probs, self.config = log_probs, TransformerConfig(len(log_probs), len(log_probs), 8, 2)

    def modules(self):
        return iter(())

    def eval(self) -> None:
        pass

    def encode(self, source):
        return type("Encoded", (), {"memory": torch.zeros(len(source), 1, 1), "mask": source[:, None] > 0})

    def new_cache(self):
        return type("Cache", (), {"select": staticmethod(lambda rows: None)})

    def decode(self, target, memory, memory_mask, *, cache):
        return type("Decoded", (), {"logits": self.log_probs[target]})


def _model(p_end: float, p_a: float) -> _Table:
    table = torch.zeros(105, 105)
    table[BOS, [EOS, 3]], table[BOS, 5:] = torch.tensor([p_end, p_a]), (1 - p_end - p_a) / 100
    table[3, 4] = table[4, EOS] = 1.0
    table[5:, EOS] = table[[PAD, EOS], EOS] = 1.0
    return _Table(table.log())


def _found(model: _Table, **settings: float) -> tuple[str, float]:
    result = library_beam_search(model, torch.ones(1, 1, dtype=torch.int64), max_length=10, **settings)
    names = {EOS: "E", 3: "A", 4: "B", PAD: ""}
    tokens = result.tokens[0, 0].tolist()
    return " ".join(names[token] for token in tokens).strip(), result.scores[0, 0].item()


def test_the_predictions_are_what_the_library_finds() -> None:
    model, a_is_rare, a_is_less_rare = _model(0.5, 0.4), _model(0.5, 0.124), _model(0.5, 0.126)
    rows = greedy_decode(model, torch.ones(1, 1, dtype=torch.int64), max_length=10)
    mean = _found(model, beam_size=2, length_penalty=1.0)
    assert rows.tolist() == [[EOS]]
    assert _found(a_is_rare, beam_size=2, length_penalty=1.0)[0] == "E"
    assert _found(a_is_less_rare, beam_size=2, length_penalty=1.0)[0] == "A B E"

    def table(beginnings: torch.Tensor) -> torch.Tensor:
        return model.log_probs[beginnings[:, -1]]

    hasty = references.beam_search(table, 2, 10, 1.0, stop="first end")[0]
    answer = {
        "greedy": "E",
        "beam of 2, by probability": _found(model, beam_size=2, length_penalty=0.0)[0],
        "beam of 2, by the mean": mean[0],
        "the same, but it stops when one text has ended": {(EOS,): "E"}[tuple(hasty)],
        "score of A B E, by the mean": mean[1],
        "P(A) below which E wins by the mean": 0.125,
    }
    assert evaluate(TASK["searches"], answer).passed


# --- the references equal the library ---------------------------------------------------------------------


@pytest.mark.parametrize("number", range(20))
def test_by_probability_the_reference_finds_what_the_library_finds(number: int) -> None:
    g = torch.Generator().manual_seed(number)
    logits = 2 * torch.randn(7, 7, generator=g)
    logits[:, EOS] += 1
    logits[:, [PAD, BOS]] = -math.inf
    log_probs = logits.log_softmax(-1)
    model = _Table(log_probs)
    for size in (1, 2, 3):
        source = torch.ones(1, 1, dtype=torch.int64)
        theirs = library_beam_search(model, source, beam_size=size, max_length=30, length_penalty=0.0)
        tokens, score = references.beam_search(lambda rows: log_probs[rows[:, -1]], size, 30)
        assert [token for token in theirs.tokens[0, 0].tolist() if token != PAD] == tokens
        assert theirs.scores[0, 0].item() == pytest.approx(score, abs=1e-4)


def test_the_case_of_the_catalogue() -> None:
    model = inputs.two_words(torch.Generator().manual_seed(0))
    assert references.beam_search(model, 2, 5, 0.0) == ([EOS], pytest.approx(-0.693, abs=1e-3))
    tokens, score = references.beam_search(model, 2, 5, 1.0)
    assert len(tokens) == 3 and tokens[-1] == EOS and score == pytest.approx(-0.305, abs=1e-3)


def test_the_loss_has_the_shares_of_the_library() -> None:
    targets = torch.tensor([[2, 4, 0], [0, 0, 0]])
    shares = smoothed_targets(targets, 5, pad=0, label_smoothing=0.4)
    assert shares[0, 0].tolist() == pytest.approx([0, 0.1333, 0.6, 0.1333, 0.1333], abs=1e-4)
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    wanted = -(shares * logits.log_softmax(-1)).sum() / 2
    assert references.SmoothedLoss(0.4)(logits, targets).item() == pytest.approx(wanted.item(), abs=1e-6)


def test_the_loop_of_the_check_steps_as_pytorch_does() -> None:
    weights, batches = inputs.training(torch.Generator().manual_seed(3), 7, 8, 6, 9)
    model = loop.from_weights(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    wanted = []
    for step, (source, target) in enumerate(batches, start=1):
        optimizer.param_groups[0]["lr"] = 0.05 * min(1.0, step / 3)
        optimizer.zero_grad()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        wanted.append(loss.item())
    losses, trained = loop.train(weights, batches, 0.05, 0.5, 3)
    assert losses == pytest.approx(wanted, rel=1e-4)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained[name], tensor, atol=1e-4, rtol=1e-3)


# --- the program that is given ----------------------------------------------------------------------------


def _train(*, leak: bool, counted: bool, late: bool):
    def train(weights, batches, lr, clip, warmup):
        model = loop.from_weights(weights)
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        losses = []
        for step, (source, target) in enumerate(batches, start=1):
            optimizer.param_groups[0]["lr"] = lr * min(1.0, step / warmup)
            logits = model(source, target[:, 1:] if leak else target[:, :-1])
            loss = F.cross_entropy(
                logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=-100 if counted else PAD
            )
            optimizer.zero_grad()
            loss.backward()
            if not late:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            losses.append(loss.item())
        return losses, model.state_dict()

    return train


def test_the_loop_as_it_is_given_is_no_attempt() -> None:
    report = evaluate(TASK["train"], _train(leak=True, counted=True, late=True))
    assert not report.attempted and report.points == 0 and not report.hints, report


@pytest.mark.parametrize(
    ("faults", "left"),
    [
        ((False, True, True), {"padding_counted", "clipped_too_late"}),
        ((True, False, True), {"reads_the_answer", "clipped_too_late"}),
        ((True, True, False), {"reads_the_answer", "padding_counted"}),
        ((False, False, True), {"clipped_too_late"}),
        ((False, True, False), {"padding_counted"}),
        ((True, False, False), {"reads_the_answer"}),
    ],
)
def test_half_a_repair_is_told_what_is_left(faults: tuple[bool, bool, bool], left: set[str]) -> None:
    leak, counted, late = faults
    report = evaluate(TASK["train"], _train(leak=leak, counted=counted, late=late))
    assert report.attempted and not report.passed and set(report.mistakes) == left, report


def test_the_exercise_shows_the_very_model_of_the_check() -> None:
    def body(source: str) -> list[str]:
        tree = ast.parse(source)
        (found,) = [node for node in tree.body if getattr(node, "name", "") == "SmallTranslator"]
        methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
        plain = [statement for method in methods for statement in method.body]
        kept = [ast.unparse(node) for node in plain if not isinstance(node, ast.AnnAssign)]
        return [text for text in kept if not text.startswith(("'", '"'))]

    shown = body(MANUSCRIPT.read_text(encoding="utf-8"))
    given = body(Path(loop.__file__).read_text(encoding="utf-8"))
    assert shown[:-1] == given[: len(shown) - 1] and len(shown) > 5


# --- what nobody foresaw, and what must earn nothing ------------------------------------------------------


def test_searches_that_are_wrong_in_other_ways_are_caught() -> None:
    def penalises_within_the_search_by_another_length(model, size, limit, penalty=0.0):
        tokens, score = references.beam_search(model, size, limit, penalty / 2)
        return tokens, score

    def twice_the_beam(model, size, limit, penalty=0.0):
        return references.beam_search(model, 2 * size, limit, penalty)

    for wrong in (penalises_within_the_search_by_another_length, twice_the_beam):
        assert not evaluate(TASK["beam_search"], wrong).passed

    report = evaluate(TASK["beam_search"], lambda *args: ("E", -0.7))
    assert report.points == 0 and "the tokens should be a list" in repr(report)


def test_a_loss_that_forgets_the_argument_is_caught() -> None:
    class Fixed(references.SmoothedLoss):
        def __init__(self, smoothing: float, pad: int = 0) -> None:
            super().__init__(0.1, pad)

    report = evaluate(TASK["SmoothedLoss"], Fixed)
    assert not report.passed and report.points <= 3


def test_pytorchs_own_smoothing_is_named() -> None:
    class Usual(nn.Module):
        def __init__(self, smoothing: float, pad: int = 0) -> None:
            super().__init__()
            self.loss = nn.CrossEntropyLoss(ignore_index=pad, label_smoothing=smoothing)

        def forward(self, logits, targets):
            return self.loss(logits.flatten(0, -2), targets.flatten())

    report = evaluate(TASK["SmoothedLoss"], Usual)
    assert not report.passed and report.points <= 2


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(TASK["test_greedy"], lambda greedy: verdict).points == 0


def test_a_test_of_one_row_lets_most_pass() -> None:
    def one_row(greedy):
        table = inputs.table(torch.Generator().manual_seed(0), [3, 4, EOS])
        assert greedy(table, 5).tolist() == [[3, 4, EOS]]

    report = evaluate(TASK["test_greedy"], one_row)
    assert 0 < report.points < 3 and "goes_on" in report.mistakes


# --- the mini-project -------------------------------------------------------------------------------------


@functools.cache
def _file(steps: int, folder: str = "") -> bytes:
    """A translator into Spanish that was trained for some steps, or not at all."""
    pairs = [
        p for p in tasks.translation_pairs(2_000, language="es", seed=5) if not project.reserved(p.source)
    ]
    source = Tokeniser.from_texts([pair.source for pair in pairs], lower_case=True)
    target = Tokeniser.from_texts([pair.target for pair in pairs])
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 256, "num_encoder_layers": 2, "num_decoder_layers": 2}
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            len(source.vocabulary), len(target.vocabulary), **sizes, dropout=0.0, norm="pre", max_length=64
        )
    )
    if steps:
        rows = [(source.encode(pair.source), target.encode(pair.target)) for pair in pairs]
        batches = tasks.batches(rows, 64, torch.Generator().manual_seed(0))
        training.fit(model, batches, steps=steps, lr=3e-3, loss=training.token_cross_entropy)
    path = Path(folder) / f"{steps}.safetensors"
    save_translator(path, TrainedTranslator(model.eval(), source, target))
    return path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("models"))


def _handed_in(content: object, seconds: float = 40.0, pair: tuple[str, str] = ("en", "es")) -> dict:
    return {"pair": pair, "model": content, "CPU seconds": seconds}


def test_a_real_file_is_judged_by_what_it_translates(folder: str) -> None:
    report = evaluate(TASK["project"], _handed_in(_file(40, folder)), fresh=1)
    assert report.attempted and report.points == 2, report  # it loads, and the budget was kept
    assert "of the phrases are right" in repr(report)


def test_the_worst_file_is_judged_well_within_the_time(folder: str) -> None:
    answer = _handed_in(_file(0, folder))  # never ends a text: every row is as long as it may be
    before = time.process_time()
    evaluate(TASK["project"], answer, fresh=1)
    assert time.process_time() - before < 60
    report = engine.evaluate(TASK["project"], answer, fresh=1, seconds=8)
    assert not any(result.status == "stopped" for result in report.results), report


def test_a_path_does_as_well_as_bytes(folder: str) -> None:
    content = _file(0, folder)
    path = Path(folder) / "again.safetensors"
    path.write_bytes(content)
    assert evaluate(TASK["project"], _handed_in(path), fresh=1).points == 2
    assert "no file" in repr(evaluate(TASK["project"], _handed_in(path.with_name("none"))))


def test_the_steps_are_earned_one_by_one() -> None:
    asked = project.phrases(("en", "es"), 1)
    for share, points in ((1.0, 7), (0.965, 6), (0.93, 5), (0.85, 4), (0.7, 2)):
        count = round(share * len(asked))

        def translate(phrases, count=count):
            return [phrase.target if i < count else "" for i, phrase in enumerate(phrases)]

        answer = project.HandedIn(("en", "es"), translate, 40.0)
        earned = 0.0
        for case in TASK["project"].cases:
            try:
                case.run(answer, torch.Generator().manual_seed(0))
                earned += float(case.points)
            except Failed:
                pass
        assert earned == points, share


def test_an_honest_word_about_the_budget_costs_one_point() -> None:
    example = project.Example()
    example.seconds = 61.0
    report = evaluate(TASK["project"], example)
    assert report.points == 6 and report.mistakes == ("over_budget",)


def test_a_function_that_looks_the_answer_up_is_no_file() -> None:
    def babel(texts):
        return texts

    assert not evaluate(TASK["project"], babel).attempted
    report = evaluate(TASK["project"], _handed_in(babel))
    assert report.points == 0 and "bytes of the file" in repr(report)


@pytest.mark.parametrize(
    "answer",
    [
        {"pair": ("en", "es")},
        _handed_in(b""),
        _handed_in(b"\x08" * 100),
        _handed_in(b"\x00" * 500_000),
        _handed_in(b"", pair=("en", "en")),
        _handed_in(b"", pair=("en", "xx")),
        _handed_in(b"", seconds=math.nan),
        "es",
        3.0,
    ],
    ids=["parts", "empty", "noise", "large", "same", "unknown", "nan", "text", "number"],
)
def test_what_is_no_translator_is_told_in_words(answer: object) -> None:
    report = evaluate(TASK["project"], answer)
    assert report.points == 0 and report.attempted
    assert all(result.status == "wrong" for result in report.results), report


def test_a_file_that_declares_a_giant_builds_nothing(folder: str) -> None:
    content = _file(0, folder)
    for small, giant in (
        (b'\\"max_length\\": 64', b'\\"max_length\\": 9999999'),
        (b'\\"d_ff\\": 256', b'\\"d_ff\\": 4000'),
    ):
        assert small in content
        size = int.from_bytes(content[:8], "little") + len(giant) - len(small)
        changed = size.to_bytes(8, "little") + content[8:].replace(small, giant, 1)
        report = evaluate(TASK["project"], _handed_in(changed))
        assert report.points == 0 and "declares" in repr(report), report


def test_phrases_to_judge_with_are_reserved_and_fresh() -> None:
    first, again, other = (project.phrases(("de", "fr"), seed) for seed in (1, 1, 2))
    assert first == again and first != other and len(first) == project.PHRASES_JUDGED
    english = project.phrases(("en", "fr"), 1)
    assert all(project.reserved(phrase.source) for phrase in english)
    share = sum(project.reserved(pair.source) for pair in tasks.translation_pairs(5_000, seed=3)) / 5_000
    assert 0.08 < share < 0.12
    assert [phrase.target for phrase in english] == [phrase.target for phrase in first]


# --- near misses are told apart ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "stops_when_none_is_likelier",
        "stops_when_none_is_better_yet",
        "beam_shrinks",
        "ended_compete",
        "ended_make_room",
        "chosen_by_sum",
    ],
)
def test_a_search_that_treats_the_ended_in_another_way_is_named_by_its_own_mistake(key: str) -> None:
    task = TASK["beam_search"]
    (mistake,) = [mistake for mistake in task.mistakes if mistake.key == key]
    for seed in range(3):
        report = evaluate(task, task.answer_with(mistake), seed=seed)
        assert not report.passed and report.mistakes == (key,), report


def test_a_search_that_knows_the_size_of_the_vocabulary_is_caught() -> None:
    def seven(model, size, limit, penalty=0.0):
        return references.beam_search(lambda rows: model(rows)[:, :7], size, limit, penalty)

    assert not evaluate(TASK["beam_search"], seven).passed


def test_a_loss_of_probabilities_is_caught_where_a_model_is_sure_and_wrong() -> None:
    class Floored(references.SmoothedLoss):
        def forward(self, logits, targets):
            log_p = logits.softmax(-1).clamp(min=1e-9).log()
            return super().forward(log_p.masked_fill(logits == -math.inf, -math.inf), targets)

    assert not evaluate(TASK["SmoothedLoss"], Floored).passed
    named = evaluate(
        TASK["SmoothedLoss"], functools.partial(references.SmoothedLoss, logarithm="of a softmax")
    )
    assert named.mistakes == ("log_of_softmax",)


def test_a_gradient_is_clipped_to_the_norm_that_is_asked_for_and_no_further() -> None:
    def clipped(limit, always):
        def clip(gradients, clip, how):
            norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
            factor = (limit or clip) / (float(norm) + 1e-6)
            return [gradient * (factor if always else min(1.0, factor)) for gradient in gradients]

        return clip

    right = loop._clipped
    for limit, always in ((1.0, False), (None, True)):

        def train(*args, limit=limit, always=always):
            loop._clipped = clipped(limit, always)
            try:
                return loop.train(*args)
            finally:
                loop._clipped = right

        report = evaluate(TASK["train"], train)
        assert report.attempted and not report.passed, report


def test_no_check_pays_for_the_first_optimizer() -> None:
    code = (
        "import time; from attnlab.checks.engine import find; import torch; find('translation.train');"
        "before = time.process_time(); torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]);"
        "print(time.process_time() - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 0.3


def test_a_model_that_goes_on_is_told_so_and_is_cut_off() -> None:
    def goes_on(asked):
        return [phrase.target + " and more" for phrase in asked]

    task, answer = TASK["project"], project.HandedIn(("en", "es"), goes_on, 40.0)
    found = task.diagnose(answer, lambda: torch.Generator().manual_seed(0))
    assert [mistake.key for mistake in found] == ["end_lost"]


def test_the_phrases_to_judge_with_are_those_of_the_course() -> None:
    for phrase in project.phrases(("en", "de"), 3)[::20]:
        same = [
            pair
            for pair in tasks.translation_pairs(4_000, language="de", kinds=[phrase.kind], seed=3)
            if pair.source == phrase.source
        ]
        assert all(pair.target == phrase.target for pair in same)
    assert any(
        phrase.source == pair.source and phrase.target == pair.target
        for phrase in project.phrases(("en", "de"), 3)
        for pair in tasks.translation_pairs(400, language="de", kinds=[tasks.KINDS[0]], seed=3)
    )
