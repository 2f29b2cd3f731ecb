"""The tool that looks into a real model: it runs the lesson's own functions, and notices what is outgrown."""

import json
import shutil

import pytest
import torch

from attnlab import pretrained
from attnlab.measured.real_heads import reference_of
from tools import real_heads
from tools.languages import ROOT


@pytest.fixture
def root(tmp_path):
    for name in (real_heads.LESSON, real_heads.STORE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in json.loads((ROOT / real_heads.STORE).read_text(encoding="utf-8"))["sources"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_what_is_stored_is_up_to_date():
    assert list(real_heads.problems()) == []


def test_a_changed_cell_is_told_and_a_figure_is_not(root):
    lesson = root / real_heads.LESSON
    text = lesson.read_text(encoding="utf-8")
    lesson.write_text(text.replace('y="accuracy of the probe"', 'y="accuracy"'), encoding="utf-8")
    assert list(real_heads.problems(root)) == []
    lesson.write_text(text.replace("row[..., asks] = -1", "row[..., asks] = 0"), encoding="utf-8")
    (found,) = real_heads.problems(root)
    assert "stale: the cells" in found


def test_a_changed_file_and_a_missing_one_are_told(root):
    encoder = root / "src/attnlab/pretrained/encoder.py"
    encoder.write_text(encoder.read_text(encoding="utf-8") + "\nx = 1\n", encoding="utf-8")
    (found,) = real_heads.problems(root)
    assert "encoder.py changed" in found
    (root / real_heads.STORE).unlink()
    assert real_heads.main([], root) == 1
    (found,) = real_heads.problems(root)
    assert "nothing was measured" in found


def test_a_lesson_without_the_cells_is_refused(root):
    lesson = root / real_heads.LESSON
    text = lesson.read_text(encoding="utf-8")
    lesson.write_text(text.replace("def clauses(", "def phrases("), encoding="utf-8")
    with pytest.raises(ValueError, match="expected one cell that begins with 'def clauses"):
        real_heads.cells(root)


def test_without_the_weights_nothing_is_written(root, monkeypatch):
    monkeypatch.setattr(pretrained, "find_minilm", lambda: None)
    with pytest.raises(FileNotFoundError, match="all-MiniLM-L6-v2"):
        real_heads.store(root)


def test_a_packed_tensor_comes_back():
    output = torch.randn(2, 3, 4)
    stored = {
        "reference": {
            "tokens": [[1, 2, 3]] * 2,
            "lengths": [3, 2],
            "output": real_heads.pack(output),
            "program": "none",
        }
    }
    assert torch.equal(reference_of(stored).output, output)


def test_the_lesson_measures_with_its_own_functions(root):
    """A made-up encoder, in which every word looks at the word before it."""

    class Backwards:
        def __call__(self, tokens, mask=None):
            length = tokens.shape[1]
            weights = torch.eye(length).roll(-1, dims=1)[None, None, None].expand(1, len(tokens), 2, -1, -1)
            states = torch.nn.functional.one_hot(tokens % 50, 50).float()
            return pretrained.TextEncoderOutput(states, (states, states), weights)

    class Pieces:
        def encode(self, words):
            numbers = [sum(map(ord, word)) for word in words]
            return [0, *numbers, 0], list(range(1, len(words) + 1))

    reference = {
        "tokens": [[1, 2, 3], [4, 5, 0]],
        "lengths": [3, 2],
        "output": real_heads.pack(torch.zeros(2, 3, 50)),
        "program": "none",
    }
    found = real_heads.measure(Backwards(), Pieces(), reference, root)
    assert found["difference"] == 1.0
    shape = found["looks"]["test"]["shape"]
    assert shape[1:] == [1, 2] and len(found["probed"]) == 2
    assert all(0 <= share <= 1 for layer in found["probed"] for pair in layer for share in pair)
