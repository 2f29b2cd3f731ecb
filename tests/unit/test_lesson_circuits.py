"""Lesson 17's own functions do what its text says, and what is stored fits its sentences."""

import ast
import itertools
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.attention import causal_mask, padding_mask, scaled_dot_product_attention
from attnlab.checks.ch17_circuits import references
from attnlab.measured.real_heads import real_heads
from attnlab.multihead import MultiHeadAttention, merge_heads, split_heads
from attnlab.positions import sinusoidal_positions

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/17_circuits.py"
CONSTANTS = {"NUM_SYMBOLS", "HALVES", "ENDINGS", "BETWEEN"}


@pytest.fixture(scope="module")
def lesson():
    """The functions, classes and constants of the manuscript, and nothing else of it."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))

    def kept(node):
        if isinstance(node, ast.Assign):
            names = {name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)}
            return bool(names & CONSTANTS)
        return isinstance(node, ast.FunctionDef | ast.ClassDef)

    tree.body = [node for node in tree.body if kept(node)]
    names = {"math": math, "itertools": itertools, "torch": torch, "nn": nn, "F": F}
    names |= {
        function.__name__: function
        for function in (
            causal_mask, padding_mask, scaled_dot_product_attention, merge_heads, split_heads,
            sinusoidal_positions,
        )
    }  # fmt: skip
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def test_loop_and_matrices_agree_where_a_copy_was_seen(lesson):
    tokens = torch.tensor([2, 0, 3, 1, 2, 0, 0, 3])
    by_loop = lesson["induction_loop"](tokens)
    weights, answers = lesson["induction_matrices"](tokens, 4)
    known = by_loop.any(dim=-1)
    assert known.tolist() == [False] * 4 + [True] * 4
    torch.testing.assert_close(weights[known], by_loop[known], rtol=0, atol=1e-6)
    torch.testing.assert_close(by_loop[5], F.one_hot(torch.tensor(2), 8).float())
    torch.testing.assert_close(by_loop[6], torch.tensor([0, 0, 0.5, 0, 0, 0, 0.5, 0]))
    _, second, output = references.circuit(tokens, 4)
    torch.testing.assert_close(second, weights)
    torch.testing.assert_close(output, answers)


def test_strings_repeat_and_what_is_known_can_be_known(lesson):
    tokens, targets, known, period = lesson["repeated"](50, torch.Generator().manual_seed(0))
    assert tokens.shape == targets.shape == (50, 48)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert period.min() >= 8 and period.max() < 24
    for row, length in zip(tokens, period.flatten().tolist(), strict=True):
        assert len(set(row[:length].tolist())) == length
        assert torch.equal(row[length:], row[:-length])
    assert torch.equal(known, torch.arange(48) >= period)


def test_a_layer_is_the_library_attention_with_places_in_queries_and_keys(lesson):
    torch.manual_seed(0)
    layer = lesson["AttentionLayer"](12, 3)
    theirs = MultiHeadAttention(12, 3, bias=False)
    theirs.load_state_dict({name: value for name, value in layer.state_dict().items() if "norm" not in name})
    x, places = torch.randn(2, 5, 12), torch.randn(5, 12)
    content = layer.norm(x)
    expected = theirs(content + places, content + places, content, causal_mask(5))
    output, weights = layer(x, places, lambda heads: heads)
    torch.testing.assert_close(output, x + expected.output)
    torch.testing.assert_close(weights, expected.weights)


def test_an_edit_reaches_the_heads_of_its_layer(lesson):
    torch.manual_seed(0)
    model = lesson["AttentionOnly"](2, num_heads=2, d_model=8).eval()
    tokens = torch.randint(64, (3, 10))
    seen = {}
    plain, maps = model.run(tokens, lambda layer, heads: seen.setdefault(layer, heads))
    assert maps.shape == (2, 3, 2, 10, 10)
    assert {layer: heads.shape for layer, heads in seen.items()} == {0: (3, 2, 10, 4), 1: (3, 2, 10, 4)}
    torch.testing.assert_close(model(tokens), plain)
    edit = lesson["without"]((1, 0))
    assert edit(0, seen[0]).equal(seen[0])
    cut = edit(1, seen[1])
    assert cut[:, 1].equal(seen[1][:, 1])
    torch.testing.assert_close(cut[:, 0], seen[1][:, 0].mean(dim=(0, 1)).expand(3, 10, 4))
    assert not torch.allclose(model.run(tokens, edit)[0], plain)


def test_detectors_are_those_of_the_exercises(lesson):
    g = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, (4, 12), generator=g)
    scores = torch.randn(4, 3, 12, 12, generator=g).masked_fill(~causal_mask(12), -torch.inf)
    maps = scores.softmax(dim=-1)
    known = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).any(dim=-1)
    previous, induction = references.detect(maps, tokens)
    torch.testing.assert_close(lesson["previous_score"](maps), previous)
    torch.testing.assert_close(lesson["induction_score"](maps, tokens, known), induction)


def test_twins_differ_in_two_symbols_of_the_first_copy(lesson):
    clean, twin, first, other = lesson["twins"](100, torch.Generator().manual_seed(0))
    assert ((clean != twin).sum(dim=-1) == 2).all()
    assert torch.equal(clean[:, 12:], twin[:, 12:])
    assert ((other - first) >= 2).all() and (other + 1 < 12).all()
    rows = torch.arange(100)
    assert torch.equal(twin[rows, other], twin[rows, first + 12])  # the asked symbol has moved there
    assert not (clean[rows, first + 1] == twin[rows, other + 1]).any()


def test_a_patch_changes_one_layer_at_the_positions_named(lesson):
    lesson["rows"] = torch.arange(2)
    lesson["clean_heads"] = {0: torch.ones(2, 2, 4, 3), 1: torch.ones(2, 2, 4, 3)}
    edit = lesson["patched"](1, (1,), torch.tensor([2, 0]))
    zeros = torch.zeros(2, 2, 4, 3)
    assert edit(0, zeros).equal(zeros)
    changed = edit(1, zeros)
    assert changed.sum() == 6 and changed[0, 1, 2].all() and changed[1, 1, 0].all()


def test_wilson_solves_its_equation(lesson):
    for share, n in ((0.5, 40), (0.0, 10), (1.0, 144), (0.93, 128)):
        for bound in lesson["wilson"](share, n):
            spread = math.sqrt(max(0.0, bound * (1 - bound)) / n)
            assert abs(bound - share) == pytest.approx(1.96 * spread, abs=1e-7)


def test_sentences_point_at_what_they_say(lesson):
    nouns = {half: set(words["objects"].split()) for half, words in lesson["HALVES"].items()}
    verbs = {half: set(words["verbs"].split()) for half, words in lesson["HALVES"].items()}
    for half in ("choose", "test"):
        for relation, words, asks, target, decoy in lesson["examples"](half):
            if relation == "verb to object":
                assert words[asks] in verbs[half] and words[target] in nouns[half]
            elif relation == "noun to determiner":
                assert words[asks] in nouns[half] and words[target] in ("the", "a", "his")
            elif relation == "object farther off":
                assert words[target] in nouns[half] and asks < decoy < target
                assert words[decoy] in ("care", "war", "room", "moment", "reason")
            else:
                assert words[asks] in ("she", "he") and target in (0, 2)
                women = lesson["HALVES"][half]["names"].split()[::2]
                assert (words[target] in women) == (words[asks] == "she")
    assert not nouns["choose"] & nouns["test"] and not verbs["choose"] & verbs["test"]
    names = [set(lesson["HALVES"][half]["names"].split()) for half in ("choose", "test")]
    assert not names[0] & names[1]


def test_no_offset_is_right_in_more_than_half_of_the_sentences(lesson):
    for half, relation in itertools.product(
        ("choose", "test"), ("verb to object", "noun to determiner", "pronoun to name")
    ):
        offsets = lesson["offsets"](half, relation)
        assert offsets.unique(return_counts=True)[1].max() <= len(offsets) / 2


def test_the_probe_separates_what_a_line_separates(lesson):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=g)
    labels = (x[:, 0] > 0).long()
    assert lesson["probe_accuracy"](x[:150], labels[:150], x[150:], labels[150:]) > 0.9
    shuffled = labels[torch.randperm(200, generator=g)]
    assert lesson["probe_accuracy"](x[:150], shuffled[:150], x[150:], shuffled[150:]) < 0.7


def test_a_control_label_belongs_to_a_word(lesson):
    real, *controls = lesson["label_sets"]()
    assert len(controls) == 5
    assert real["choose"].float().mean() == 0.5
    for control in controls:
        for half in ("choose", "test"):
            words = [lesson["examples"](half)[i][1][p] for i, p, _ in lesson["tagged"](half)]
            assert len(set(zip(words, control[half].tolist(), strict=True))) == len(set(words))


def test_what_is_stored_fits_the_sentences(lesson):
    stored = real_heads()
    for half, looks in stored.looks.items():
        examples = lesson["examples"](half)
        assert looks.shape == (len(examples), 6, 12)
        for (_, words, asks, _, _), found in zip(examples, looks, strict=True):
            assert found.max() < len(words) and not (found == asks).any()
    assert stored.probed.shape == (7, 2, 2)
    assert stored.reference.output.shape == (*stored.reference.tokens.shape, 384)
    assert stored.reference.lengths.max() == stored.reference.tokens.shape[1]
    assert 0 < stored.difference < 1e-5
