"""Lesson 14's own properties give the verdicts of the library's, and its right program is right."""

import ast
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import contracts, training
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import sinusoidal_positions
from attnlab.tasks import BOS, EOS, PAD

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/14_silent_bugs.py"
OURS = {
    "scaled_by_width",
    "norm_standardises",
    "layers_distinct",
    "reads_memory",
    "next_token_asked",
    "padding_costs_nothing",
    "same_in_pieces",
}
#: What finds each bug, and nothing else does.
FOUND_BY = {
    "OverQueries": {"causal", "rows sum to one", "blind to padding", "root of d_k"},
    "RootOfModel": {"root of d_k"},
    "NoTranspose": {"order does not count", "blind to padding"},
    "AlwaysDropping": {
        "causal",
        "order does not count",
        "blind to padding",
        "alone as in the batch",
        "the same twice",
    },
    "NoCausalMask": {"causal"},
    "PaddingInverted": {"blind to padding"},
    "CrossReadsTarget": {"causal", "hears the source"},
    "PlacesAlongBatch": {"alone as in the batch"},
    "WrongNorm": {"norm: mean 0, variance 1"},
    "TiedLayers": {"layers are distinct"},
    "ShiftZero": {"asks for the next token"},
    "ShiftTwo": {"asks for the next token"},
    "PaddingCounted": {"padding costs nothing"},
    "MeanOfMeans": {"the same in pieces"},
}


def seed(number):
    return number


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {
        **{"math": math, "torch": torch, "nn": nn, "F": F, "seed": seed},
        **{"contracts": contracts, "sinusoidal_positions": sinusoidal_positions, "training": training},
        **{"BOS": BOS, "EOS": EOS, "PAD": PAD},
    }
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def found(lesson, program):
    return {label for label, check in lesson["properties"](program).items() if lesson["refuses"](check)}


def test_the_right_program_has_every_property(lesson):
    assert len(lesson["properties"](lesson["Program"]())) == 13
    assert found(lesson, lesson["Program"]()) == set()


@pytest.mark.parametrize("bug", FOUND_BY)
def test_each_bug_is_found_by_just_these_properties(lesson, bug):
    assert found(lesson, lesson[bug]()) == FOUND_BY[bug]


@pytest.mark.parametrize("bug", ["Program", *FOUND_BY])
def test_the_librarys_contracts_say_what_the_lessons_own_say(lesson, bug):
    own = found(lesson, lesson[bug]())
    library = {**lesson, **{name: getattr(contracts, name) for name in OURS}}
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", "") in ("properties", "refuses")]
    exec(compile(tree, MANUSCRIPT.name, "exec"), library)
    assert lesson.keys() >= OURS
    assert found(library, library[bug]()) == own


@pytest.mark.parametrize("masked", [False, True])
def test_the_attention_is_the_library_module(lesson, masked):
    torch.manual_seed(0)
    ours, theirs = lesson["Attention"](lesson["Program"](), 8, 2), MultiHeadAttention(8, 2, bias=True)
    for name in ("w_q", "w_k", "w_v", "w_o"):
        getattr(theirs, name).load_state_dict(getattr(ours, name).state_dict())
    x, read = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
    mask = torch.ones(5, 7, dtype=torch.bool).tril(1) if masked else None
    expected = theirs(x, read, mask=mask)
    output, weights = ours(x, read, mask)
    torch.testing.assert_close(output, expected.output, rtol=0, atol=1e-6)
    torch.testing.assert_close(weights, expected.weights, rtol=0, atol=1e-6)


def test_the_loss_is_the_librarys(lesson):
    logits = torch.randn(4, 5, 13, generator=torch.Generator().manual_seed(0))
    _, target = lesson["draw"](4, torch.Generator().manual_seed(1), longest=3)
    given = lesson["Program"]().loss([(logits[:1], target[:1]), (logits[1:], target[1:])])
    torch.testing.assert_close(given, training.token_cross_entropy(logits, target, pad=PAD))


def test_numbers_are_written_in_the_code_and_sorted_by_length(lesson):
    source, target = lesson["draw"](50, torch.Generator().manual_seed(0))
    lengths = []
    for read, written in zip(source.tolist(), target.tolist(), strict=True):
        number = read[: read.index(EOS)]
        lengths.append(len(number))
        answer = [(3 * (digit - 3) + 5) % 10 + 3 for digit in number]
        assert [token for token in written if token != PAD] == [BOS, *answer, EOS]
        assert set(read[len(number) + 1 :]) <= {PAD}
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(2, 7))


class Oracle(nn.Module):
    """Knows the code, and says the token after those it has read."""

    def forward(self, source, read):
        said = torch.where(source > 2, (3 * (source - 3) + 5) % 10 + 3, source)
        return F.one_hot(said[:, : read.shape[1]], 13).float()


class Late(Oracle):
    """Makes one slip, in the first token of the first number."""

    def forward(self, source, read):
        logits = super().forward(source, read)
        logits[0, 0] = logits[0, 0].roll(1)
        return logits


def test_exact_match_counts_whole_numbers(lesson):
    assert lesson["exact_match"](Oracle(), count=20) == 1.0
    assert lesson["exact_match"](Late(), count=20) == pytest.approx(0.95)
