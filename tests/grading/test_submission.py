"""A submission's file is read as text, or refused with a reason; nothing of it is run or believed."""

import hashlib
import json
import os

import pytest

from attnlab.grading.exercise_sets import NoExercises, exercise_sets, sets_for
from attnlab.grading.submission import Refused, read_submission

MOST = 1 << 20


def notebook(*cells, **more):
    return json.dumps({"cells": list(cells), "nbformat": 4, "nbformat_minor": 5, "metadata": {}, **more})


def cell(source, kind="code", **more):
    return {"cell_type": kind, "source": source, "metadata": {}, **more}


@pytest.fixture
def read(tmp_path):
    def write_and_read(content, name="anna.ipynb"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_submission(path, MOST)

    return write_and_read


def test_code_cells_are_numbered_and_texts_are_kept(read):
    book = read(notebook(cell(["a = 1\n", "b = 2"]), cell("# text", "markdown"), cell("c = 3\r\nd = 4")))
    assert book.code == ((1, "a = 1\nb = 2"), (2, "c = 3\nd = 4")) and book.texts == ("# text",)
    assert len(book.digest) == 64 and not book.script


def test_a_notebook_of_colab_is_read(read):
    book = read(
        b"\xef\xbb\xbf"
        + json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": ["x = 1"], "metadata": {"id": "aB3"}, "outputs": []}
                ],
                "metadata": {"colab": {"provenance": []}, "widgets": {"application/vnd.jupyter": {}}},
                "nbformat": 4,
                "nbformat_minor": 0,
            }
        ).encode()
    )
    assert book.code == ((1, "x = 1"),)


def test_an_old_notebook_is_read(read):
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": "x = 1"}, 7]}, "no sheet"]}
    assert read(json.dumps(old)).code == ((1, "x = 1"),)


@pytest.mark.parametrize("mark", ["# %%", "# In[3]:", "# In[ ]:", "# <codecell>"])
def test_a_script_with_cells_is_read(read, mark):
    book = read(f"import os\n{mark}\nx = 1\n# %% [markdown]\n# def f\n{mark}\ny = 2\n", "anna.py")
    assert [source.strip() for _, source in book.code] == ["import os", "x = 1", "y = 2"]
    assert "def f" in book.texts[0] and not book.script


def test_a_script_without_cells_is_one(read):
    book = read("x = 1\ny = 2\n", "anna.py")
    assert book.code == ((1, "x = 1\ny = 2\n"),) and book.script


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\0" * 50, "empty"),
        (b"{oops", "JSON is broken"),
        (b"[" * 100_000, "JSON is broken"),
        (b'{"cells": 3}', "no cells"),
        (b"[1, 2]", "no cells"),
        (b'"text"', "no cells"),
        (b"PK\3\4rest of an archive", "zip archive"),
        ("x = 'é'".encode("utf-16"), "UTF-8"),
        ('{"cells": [], "a": "é"}'.encode("latin-1"), "UTF-8"),
        (b'{"cells": []}\0', "no text"),
        (b"x" * (MOST + 1), "more than the 1 MiB"),
        (json.dumps({"cells": [{"cell_type": "code", "source": "#" * (MOST - 60)}] * 1}).encode(), None),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(read, content, why):
    if why is None:
        assert read(content).code
        return
    with pytest.raises(Refused, match=why) as caught:
        read(content)
    expected = "" if len(content) > MOST else hashlib.sha256(content).hexdigest()
    assert caught.value.digest == expected or why == "empty"


def test_odd_cells_are_passed_over(read):
    odd = [7, None, {"cell_type": "code"}, cell(["a", 3, "b"]), cell({"x": 1}), {"source": "text"}]
    assert [source for _, source in read(json.dumps({"cells": odd})).code] == ["", "ab", ""]


def test_links_pipes_and_folders_are_refused(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text(notebook(cell("x = 1")), encoding="utf-8")
    link, pipe, folder = tmp_path / "a.ipynb", tmp_path / "b.ipynb", tmp_path / "c.ipynb"
    link.symlink_to(secret)
    os.mkfifo(pipe)
    folder.mkdir()
    for path, why in ((link, "link"), (pipe, "no plain file"), (folder, "plain file|cannot be read")):
        with pytest.raises(Refused, match=why):
            read_submission(path, MOST)
    with pytest.raises(Refused, match="cannot be read"):
        read_submission(tmp_path / "missing.ipynb", MOST)


# --- the course's own notebooks ---------------------------------------------------------------------------


def test_every_exercise_of_the_course_is_in_a_notebook():
    from attnlab.checks.engine import load_tasks

    asked = {task for one in exercise_sets().values() for task in one.answers}
    assert asked == set(load_tasks())


def test_a_set_is_recognised_by_its_checks_or_by_its_names(read):
    known = exercise_sets()
    by_check = read(notebook(cell('check("query_key_value.attention", f)')))
    by_name = read(notebook(cell("def rnn_states(x):\n    pass\nhorizon = {}")))
    assert sets_for(None, by_check, known)[1][0].slug == "query_key_value"
    tasks, sets = sets_for(None, by_name, known)
    assert sets[0].slug == "recurrence_limits" and tasks == list(sets[0].answers)
    with pytest.raises(NoExercises, match="no answer"):
        sets_for(None, read(notebook(cell("print('hello')"))), known)


def test_unknown_exercises_and_folders_are_named(tmp_path):
    with pytest.raises(NoExercises, match="'masks.nonsense'"):
        sets_for(["masks.attend", "masks.nonsense"], None, exercise_sets())
    with pytest.raises(NoExercises, match="no exercise notebooks in"):
        exercise_sets(tmp_path)
