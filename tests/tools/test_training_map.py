"""The map's tool: it runs the lesson's own cells, stores curves, and notices what has outgrown them."""

import json

import pytest

from attnlab import training
from attnlab.training import NotFiniteError
from tools import training_map
from tools.notebooks import sources

LESSON = """# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # The block

# %%
class History:
    def __init__(self, losses):
        self.losses = losses


PreNormBlock, PostNormBlock = "pre", "post"

# %%
def train(block, warmup=0, depth=6, rate=0.005):
    if block == "post" and rate > 0.02:
        from attnlab.training import NotFiniteError
        raise NotFiniteError("loss", 21, History([0.5] * 20))
    return {"history": History([depth / 100 + rate + warmup / 1000] * 300)}


runs = {"pre-norm": train(PreNormBlock)}

# %%
raise RuntimeError("what follows the first trainings is not run")
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SEED_SHIFT", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in (training_map.LESSON, training_map.STORE):
        (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / training_map.LESSON).write_text(LESSON, encoding="utf-8")
    return tmp_path


def test_every_cell_is_trained_in_its_order(root):
    values = training_map.run_all(root)
    assert len(values) == 4 * 5 * 7 * 30
    assert list(values[:30]) == [1] * 30  # one layer, the smallest rate
    assert values[4 * 7 * 30] == 12  # twelve layers
    assert values[5 * 7 * 30] == 11  # one layer with warm-up
    broken = (2 * 5 * 7 + 6) * 30  # post-norm, one layer, the largest rate
    assert list(values[broken : broken + 30]) == [50] * 2 + [training_map.NOT_FINITE] * 28


def test_a_curve_is_made_of_means_in_hundredths():
    assert training_map.curve([0.1] * 10 + [0.2, 0.4] * 5, 20) == [10, 30]
    assert training_map.curve([99.0] * 20, 20) == [training_map.LARGEST] * 2
    assert training_map.curve([0.5] * 15, 30) == [50, 255, 255]


def test_a_run_that_breaks_off_is_kept():
    def train(block, **settings):
        raise NotFiniteError("loss", 21, training.History(losses=[0.5] * 20))

    assert training_map.measure(train, object) == [50] * 2 + [255] * 28


def test_a_map_that_is_missing_or_outgrown_is_told(root, monkeypatch, capsys):
    assert training_map.main([], root) == 1
    assert "was not measured" in capsys.readouterr().out
    monkeypatch.setattr(training_map, "loaded_sources", lambda root: ["src/attnlab/part.py"])
    part = root / "src/attnlab/part.py"
    part.write_text("x = 1\n", encoding="utf-8")
    assert training_map.main(["--write"], root) == 0
    capsys.readouterr()
    part.write_text("x = 2\n", encoding="utf-8")
    (found,) = training_map.problems(root)
    assert "stale: src/attnlab/part.py changed" in found
    assert sources.hashes(root, ["src/attnlab/part.py"])
    part.write_text("x = 1\n", encoding="utf-8")
    lesson = root / training_map.LESSON
    lesson.write_text(LESSON.replace("depth / 100", "depth / 50"), encoding="utf-8")
    (found,) = training_map.problems(root)
    assert "stale: the cells" in found
    lesson.write_text(LESSON, encoding="utf-8")
    store = root / training_map.STORE
    entry = json.loads(store.read_text(encoding="utf-8"))
    store.write_text(json.dumps(entry | {"depths": [1]}), encoding="utf-8")
    assert "another grid" in next(iter(training_map.problems(root)))
    store.write_text(json.dumps(entry | {"curves": entry["curves"][4:]}), encoding="utf-8")
    assert "numbers in the curves" in next(iter(training_map.problems(root)))


def test_a_lesson_that_does_not_train_is_refused(root):
    (root / training_map.LESSON).write_text(LESSON.replace("runs =", "other ="), encoding="utf-8")
    with pytest.raises(ValueError, match="expected a cell with runs"):
        training_map.cells(root)
