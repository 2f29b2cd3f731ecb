"""The benchmarks run and print their tables. No time is tested."""

import math
import os

import pytest
import torch

from benchmarks import (
    NAMES,
    attention,
    generation,
    grading,
    long_sequences,
    parameters,
    training_step,
    translation,
    translator,
)
from benchmarks.__main__ import main
from benchmarks.harness import Report, apart, ratio, take_turns

TINY_SHAPE = training_step.Shape(d_model=8, num_heads=2, num_layers=1, d_ff=16, batch=2, length=4)
TINY = {
    "attention": (attention, {"lengths": (8,), "rounds": 1}),
    "training_step": (training_step, {"shapes": (TINY_SHAPE,), "rounds": 1}),
    "generation": (generation, {"lengths": (4,), "rounds": 1}),
    "long_sequences": (long_sequences, {"lengths": (160,), "trained_lengths": (8,), "rounds": 1}),
    "translation": (translation, {"sentences": 2, "length": 3, "rounds": 1}),
    "translator": (translator, {"names": ("fr",), "sentences": 2, "rounds": 1}),
    "parameters": (parameters, {"vocabulary": 100}),
    "grading": (grading, {"submissions": 1, "jobs": 1}),
}


@pytest.fixture(autouse=True)
def same_number_of_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


# The harness


def test_turns_alternate_and_every_call_has_as_many():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = take_turns(calls, rounds=3, warm_up=False)
    assert "".join(order) == "abbaab"
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 3, "b": 3}


def test_a_short_call_is_repeated_within_its_turn():
    count = [0]

    def call():
        count[0] += 1

    take_turns({"call": call}, rounds=1, least=0.001)
    assert count[0] > 2


def test_a_ratio_is_the_median_over_the_rounds():
    assert ratio({"a": [2.0, 30.0, 4.0], "b": [1.0, 1.0, 4.0]}, "a", "b") == 2.0


def test_goals_are_judged_as_they_are_printed_and_kept():
    report = Report()
    assert report.at_most("time", 0.93, 1.0) == "goal <= 1.0: 0.93, met"
    assert report.at_most("memory", 1.004, 1.0) == "goal <= 1.0: 1.00, met"
    assert report.at_most("share", 0.31, 0.3) == "goal <= 0.3: 0.31, MISSED"
    assert report.at_least("faster", 9.94, 10) == "goal >= 10: 9.9, MISSED"
    assert report.at_least("less", 360.6, 100) == "goal >= 100: 360.6, met"
    assert report.at_most("unknown", math.nan, 1.0) == "goal <= 1.0: nan, MISSED"
    assert len(report.met) == 3
    assert report.missed[0] == "share: goal <= 0.3: 0.31"


def test_the_summary_names_what_was_missed(capsys):
    report = Report()
    report.at_most("time", 2.0, 1.0)
    report.at_most("memory", 0.5, 1.0)
    report.summary(3.0)
    assert capsys.readouterr().out.split("\n")[1:3] == [
        "1 of 2 goals met, in 3 s.",
        "missed: time: goal <= 1.0: 2.00",
    ]


def test_each_job_has_a_process_of_its_own():
    first, second = apart(os.getpid, [(), ()])
    assert len({first, second, os.getpid()}) == 3


def test_memory_is_measured_in_another_process_as_in_this_one():
    job = (attention.OURS, 8, "forward")
    (there,) = apart(attention.memory, [job])
    assert there.counted == attention.memory(*job).counted > 0


# The benchmarks


def test_every_benchmark_is_tried():
    assert set(TINY) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_prints_its_table(name, capsys, monkeypatch):
    module, sizes = TINY[name]
    if hasattr(module, "apart"):  # processes of their own have a test of their own: they take long to start
        monkeypatch.setattr(module, "apart", lambda function, jobs: [function(*job) for job in jobs])
    if name == "grading":  # what it starts has tests of its own: sandboxes take long to start
        line = "1 submissions: 1 were graded before, 0 could not be graded"
        monkeypatch.setattr(module, "main", lambda command: print(line))
    if name == "translator":  # the browser is tried with the other tests of the page
        monkeypatch.setattr(module, "in_the_browser", lambda name, texts: ([1.0, 2.0, 3.0], 4.0, 5.0))
        monkeypatch.setattr(module, "redrawing", lambda name, phrase: [6.0, 7.0])
    module.run(Report(), **sizes)
    printed = capsys.readouterr().out
    assert printed.startswith(f"\n== {name}: ")
    rows = [line for line in printed.splitlines() if line and line.split()[-1][0].isdigit()]
    assert len(rows) >= {
        "parameters": 2,
        "generation": 1,
        "training_step": 0,
        "grading": 0,
        "translator": 0,
    }.get(name, 4)


def test_the_training_steps_do_the_same_work():
    torch.manual_seed(0)
    for norm in ("pre", "post"):
        pairs = training_step.forwards(TINY_SHAPE, norm, 0.0)
        results = []
        for model, forward in pairs.values():
            output = forward()
            gradients = torch.autograd.grad(output.square().mean(), list(model.parameters()))
            results.append((output, sum(gradient.square().sum() for gradient in gradients)))
        (ours, our_size), (theirs, their_size) = results
        assert torch.allclose(ours, theirs, atol=1e-5)
        assert torch.allclose(our_size, their_size, rtol=1e-4)


def test_the_attentions_compute_the_same():
    for mode in attention.MODES:
        torch.manual_seed(0)
        calls = attention.variants(6, mode)
        results = [call() for call in calls.values()]
        outputs = [result[0] if mode == "forward" else result[0][0] for result in results]
        assert all(torch.allclose(output, outputs[0], atol=1e-6) for output in outputs)
        if mode != "forward":
            assert all(torch.allclose(result[1][0], results[0][1][0], atol=1e-5) for result in results)


def test_errors_of_long_sequences_are_small_where_they_should_be():
    for variant, (own, ordinary) in long_sequences.errors(160).items():
        assert own < 1e-5
        assert (ordinary < 1e-5) == (variant in ("explicit", "fused", "chunked"))


def test_an_untrained_translator_never_ends_a_sentence():
    for _, search in translation.searches(3, 5).values():
        tokens = search()
        assert tokens.shape[1] == 5
        assert (tokens > 2).all()


def test_counts_of_a_hand_sized_model_agree():
    total, embeddings = parameters.count(parameters.paper_base(100))
    assert embeddings == 100 * 512
    attention_layer = 4 * (512 * 512 + 512)
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    norm = 2 * 512
    assert total - embeddings == 6 * (3 * attention_layer + 2 * feed_forward + 5 * norm)


def test_one_benchmark_runs_by_its_name(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    assert main(["parameters"]) == 0
    printed = capsys.readouterr().out
    assert "torch" in printed.splitlines()[1]
    assert [line for line in printed.splitlines() if line.startswith("==")] == [
        "== parameters: the paper's base and big"
    ]


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["attenion"])
    assert "NAME: expected one of attention, training_step" in capsys.readouterr().err
