"""The Python side of the translator explorer: what it computes, sends and refuses."""

from __future__ import annotations

import json

import pytest
import torch

from attnlab import tasks
from attnlab.export import load_translator
from attnlab.transformer import greedy_decode
from attnlab.widgets import TranslatorExplorer
from tools import translators

PATH = translators.file_of("fr")
PHRASE = "Tuesday, April 25, 2045"


@pytest.fixture(scope="module")
def translator():
    return load_translator(PATH)


def test_it_writes_what_the_library_translates(translator):
    widget = TranslatorExplorer(PATH, text=PHRASE)
    assert widget.translation() == translator.translate([PHRASE])[0]
    steps = widget.written()
    assert "".join(step.top[0][0] for step in steps[:-1]) == widget.translation()
    assert steps[-1].top[0][0] == "<eos>"
    widget.text = f"  {PHRASE.upper()} "
    assert [step.top for step in widget.written()] == [step.top for step in steps]
    widget.text = " "
    assert widget.written() == [] and widget.translation() == ""


def test_each_step_holds_probabilities_and_the_weights_of_every_head(translator):
    steps = TranslatorExplorer(PATH, text=PHRASE).written()
    source = translator.source_rows([PHRASE])
    with torch.no_grad():
        encoded = translator.model.encode(source)
        target = greedy_decode(translator.model, source, max_length=len(steps))
        begun = torch.cat([torch.full((1, 1), tasks.BOS), target[:, :-1]], dim=1)
        decoded = translator.model.decode(begun, encoded.memory, encoded.mask, need_weights=True)
    logits = decoded.logits[0].double()
    logits[:, [tasks.PAD, tasks.BOS]] = -torch.inf
    expected = logits.softmax(dim=-1)
    for place, step in enumerate(steps):
        shares = [probability for _, probability in step.top]
        torch.testing.assert_close(
            torch.tensor(shares, dtype=torch.float64), expected[place].topk(5).values, atol=1e-6, rtol=0
        )
        for layer in range(2):
            cross, itself = (torch.tensor(part[layer]) for part in (step.cross, step.itself))
            torch.testing.assert_close(cross, decoded.cross_weights[layer][0, :, place], atol=1e-6, rtol=0)
            torch.testing.assert_close(
                itself, decoded.self_weights[layer][0, :, place, : place + 1], atol=1e-6, rtol=0
            )


def test_the_weights_are_sent_when_they_are_asked_for_and_are_in_no_state(monkeypatch):
    widget = TranslatorExplorer(PATH)
    sent = []
    monkeypatch.setattr(widget, "send", lambda content, buffers: sent.append((content, buffers)))
    widget._handle_custom_msg({"kind": "something else"}, [])
    assert sent == []
    widget._handle_custom_msg({"kind": "weights"}, [])
    assert sent == [({"kind": "weights"}, [PATH.read_bytes()])]
    state = widget.get_state()
    assert not [name for name, part in state.items() if isinstance(part, (bytes, memoryview))]
    rest = {name: part for name, part in state.items() if name not in {"_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000


def test_held_out_pairs_are_texts():
    pairs = tasks.translation_pairs(3, language="fr", seed=0)
    widget = TranslatorExplorer(PATH, [*pairs[:2], ("May 1, 2000", "1 mai 2000")])
    assert widget.held_out == [
        *([pair.source, pair.target] for pair in pairs[:2]),
        ["May 1, 2000", "1 mai 2000"],
    ]


def test_text_for_pages_that_cannot_show_it():
    kilobytes = PATH.stat().st_size // 1000
    assert repr(TranslatorExplorer(PATH)) == f"TranslatorExplorer(English to fr, {kilobytes} kB of weights)"


def test_browser_code_is_one_module_without_imports():
    lines = [line.strip() for line in TranslatorExplorer._esm.splitlines()]
    assert not [line for line in lines if line.startswith(("import ", "import(", "export {"))]
    assert [line for line in lines if line.startswith("export")] == ["export default { render };"]
    assert "http" not in TranslatorExplorer._esm.replace("http://www.w3.org/2000/svg", "")
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert danger not in TranslatorExplorer._esm  # what a reader types is text and nothing else
    assert "url(" not in TranslatorExplorer._css


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([("a", "b")] * 201, "held_out: expected at most 200 pairs, got 201"),
        ([("a", "b", "c")], "held_out: expected pairs of two texts"),
        ([("a", 1)], "held_out: expected pairs of two texts"),
        (["a", "b"], "held_out: expected pairs of two texts"),
        ([("", "b")], "held_out: expected pairs of two texts"),
    ],
)
def test_what_is_no_pair_is_refused(pairs, says):
    with pytest.raises(ValueError, match=says):
        TranslatorExplorer(PATH, pairs)


def test_a_file_that_is_no_translator_is_refused(tmp_path):
    with pytest.raises(OSError):
        TranslatorExplorer(tmp_path / "missing")
    path = tmp_path / "cut"
    path.write_bytes(PATH.read_bytes()[:1000])
    with pytest.raises(ValueError):
        TranslatorExplorer(path)


def test_a_phrase_that_is_too_long_is_refused_in_python():
    with pytest.raises(ValueError, match="64"):
        TranslatorExplorer(PATH, text="1" * 64).written()
