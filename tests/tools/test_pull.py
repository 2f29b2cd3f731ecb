"""What a reader edits in Jupyter comes back to the manuscript, or nothing is written."""

import random

import nbformat
import pytest

LESSON, WORK = "book/lessons/01_back.py", "book/exercises/01_back.py"
NOTEBOOK, STUBS, SOLUTIONS = "notebooks/01_back.ipynb", "exercises/01_back.ipynb", "solutions/01_back.ipynb"


def markdown(source, **metadata):
    return nbformat.v4.new_markdown_cell(source, metadata=metadata)


def code(source, **metadata):
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def source(place, old, new):
    """Return a change of one cell's source."""

    def work(node):
        assert old in node.cells[place].source
        node.cells[place].source = node.cells[place].source.replace(old, new)

    return work


def pulled(lab, name, work, *more):
    """Change a notebook, pull it, and return the manuscript's text."""
    lab.change(name, work)
    assert lab("pull", lab.root / name, *more) == []
    return lab.read(LESSON if name == NOTEBOOK else WORK)


@pytest.mark.parametrize("name", [NOTEBOOK, STUBS, SOLUTIONS])
def test_without_an_edit_the_manuscript_keeps_its_bytes(built, name):
    before = built.snapshot()
    assert built("pull", built.root / name) == [] and built.snapshot() == before


@pytest.mark.parametrize("name", [NOTEBOOK, STUBS, SOLUTIONS])
def test_outputs_and_what_jupyter_adds_are_no_edit(built, name):
    text = built.read(LESSON), built.read(WORK)

    def work(node):
        node.metadata["toc"] = {"x": 1}
        node.metadata.kernelspec.name = "conda-env"
        for cell in node.cells:
            cell.metadata.update({"collapsed": True, "scrolled": False, "editable": True})
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], 77

    built.change(name, work)
    assert built("pull", built.root / name) == [] and (built.read(LESSON), built.read(WORK)) == text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "The score is",
            "Our score is",
            "Our score is [[score:.2f]], that is [[score:.0%]], of [[n]] trials. This is old "
            "[@vaswani2017, section 3.2].",
        ),
        (
            "that is 18%, of 4 trials",
            "or 18% of all 4 trials",
            "[[score:.2f]], or [[score:.0%]] of all [[n]] trials. This is old [@",
        ),
        (
            "# Looking back\n\nThe score is 0.18, that",
            "# Looking back\n\nNew words.\n\nThe score is 0.18, that",
            "#\n# New words.\n#\n# The score is [[score:.2f]]",
        ),
        ("of 4 trials. This is old", "of 4 trials", "of [[n]] trials [@vaswani2017, section 3.2]."),
        (
            "The score is 0.18, that is 18%, of 4 trials.",
            "Of 4 trials 18% succeed: 0.18.",
            "Of [[n]] trials [[score:.0%]] succeed: [[score:.2f]].",
        ),
    ],
)
def test_edited_prose_gets_its_references_back(built, old, new, expected):
    text = pulled(built, NOTEBOOK, source(0, old, new))
    assert expected in text, text
    assert built("build") == [] and built("pull", built.root / NOTEBOOK) == []


def test_only_the_edited_cell_changes(built):
    before = built.read(LESSON)
    text = pulled(built, NOTEBOOK, source(5, "The end.", "The very end."))
    assert text == before.replace("The end.", "The very end.")


def test_an_edited_value_stays_as_edited_with_a_warning(built):
    text = pulled(built, NOTEBOOK, source(0, "0.18", "0.19"))
    assert "The score is 0.19, that is [[score:.0%]]" in text
    assert (
        built.said[0] == f"{LESSON}:7: warning: [[score:.2f]] was shown as '0.18' and is now '0.19': "
        "kept as it was edited, without the reference"
    )


def test_a_deleted_value_is_named(built):
    text = pulled(built, NOTEBOOK, source(0, "of 4 trials. ", ""))
    assert "[[n]]" not in text and "[[n]] was shown as '4' and is gone from the text" in built.said[0]


def test_a_value_elsewhere_is_not_taken_for_a_reference(built):
    """The old 4 is gone; the 4 of a new sentence with other words around it is not it."""

    def work(node):
        node.cells[0].source = node.cells[0].source.replace(", of 4 trials", "")
        node.cells[5].source = "The end. Lesson 4 comes next."

    text = pulled(built, NOTEBOOK, work)
    assert "Lesson 4 comes next" in text and "[[n]]" not in text


def test_references_typed_in_jupyter_are_kept(built):
    text = pulled(built, NOTEBOOK, source(5, "The end.", "The end: [[n]] and [@hochreiter1997]."))
    assert "# The end: [[n]] and [@hochreiter1997]." in text
    assert (
        built("build") == [] and "The end: 4 and ([Hochreiter and Schmidhuber, 1997](" in built.cell(5).source
    )


def test_a_split_cell_takes_its_references_along(built):
    def split(node):
        first, second = node.cells[0].source.split(", of 4")
        node.cells[0].source = first
        node.cells.insert(1, markdown("of 4" + second))

    text = pulled(built, NOTEBOOK, split)
    assert (
        "# The score is [[score:.2f]], that is [[score:.0%]]\n\n# %% [markdown]\n# of [[n]] trials. This "
        "is old [@v" in text
    )


def test_code_tags_new_moved_and_deleted_cells(built):
    def work(node):
        cells = node.cells
        end = cells.pop()
        later = cells.pop()
        later.metadata["tags"] = ["hide-cell", "check"]
        cells[2].source = cells[2].source.replace("  # a comment", "")
        del cells[3]
        node.cells = [
            cells[0],
            end,
            *cells[1:],
            code("%matplotlib inline\nprint(3)", tags=["new"]),
            later,
            nbformat.v4.new_raw_cell("raw"),
        ]

    text = pulled(built, NOTEBOOK, work)
    assert (
        text.index("The end.") < text.index("import claim") < text.index("%matplotlib") < text.index("later")
    )
    assert (
        "claim(" not in text
        and "n = 4 + 0 * seed(1)\n" in text
        and '# %% tags=["new"]\n# %matplotlib inline\nprint(3)\n' in text
    )
    assert '# %% tags=["hide-cell", "check"]\nprint("later")\n' in text and "# %% [raw]\n# raw\n" in text
    assert built("pull", built.root / NOTEBOOK) == [
        "book/lessons/01_back.py:1: changed since notebooks/01_back.ipynb "
        "was built; bring back the manuscript of that time (git), pull, and join the two with git"
    ]


def test_a_cell_may_change_its_kind(built):
    def work(node):
        node.cells[5] = code("print('end')", tags=[])
        node.cells[5].id = "01_back-004"

    assert pulled(built, NOTEBOOK, work).endswith("\n\n# %%\nprint('end')\n")


def test_ids_that_were_dropped_are_found_again_by_text(built):
    def work(node):
        for cell in node.cells:
            cell.id = nbformat.v4.new_raw_cell("").id
        node.cells[5].source = "The end. Really."

    before = built.read(LESSON)
    assert pulled(built, NOTEBOOK, work) == before.replace("The end.", "The end. Really.")


@pytest.mark.parametrize(
    ("name", "place", "old", "new", "before", "after"),
    [
        (
            SOLUTIONS,
            2,
            "    y = x + 1\n    return y",
            "    return 1 + x",
            "    y = x + 1\n    return y\n",
            "    return 1 + x\n",
        ),
        (
            SOLUTIONS,
            2,
            "    return y",
            "    return y\n    # done",
            "    return y\n",
            "    return y\n    # done\n",
        ),
        (SOLUTIONS, 2, "x + 1.", "the next number.", "Return x + 1.", "Return the next number."),
        (SOLUTIONS, 3, "x / 2", "0.5 * x", "x / 2", "0.5 * x"),
        (SOLUTIONS, 3, "last = 1", "last = 2", "last = 1", "last = 2"),
        (SOLUTIONS, 3, "last = 1", "last = 1\nmore = 2", "last = 1", "last = 1\nmore = 2"),
        (SOLUTIONS, 5, "two is wrong", "two is right", "two is wrong", "two is right"),
        (STUBS, 2, "x + 1.", "the next number.", "Return x + 1.", "Return the next number."),
        (
            STUBS,
            2,
            'raise NotImplementedError("your turn")',
            "return None",
            "    # BEGIN SOLUTION\n    y",
            "    # BEGIN SOLUTION\n    # STUB return None\n    y",
        ),
        (
            STUBS,
            3,
            "    return ...",
            "    half = ...\n    return half",
            "    # STUB return ...\n",
            "    # STUB half = ...\n    # STUB return half\n",
        ),
        (STUBS, 3, "last = 1", "first = 0\nlast = 1", "last = 1", "first = 0\nlast = 1"),
        (STUBS, 0, "Add one.", "Add one, please.", "Add one.", "Add one, please."),
    ],
)
def test_an_edit_in_either_notebook_keeps_the_solution_marks(built, name, place, old, new, before, after):
    text = built.read(WORK)
    assert before in text
    expected = text.replace(before, after)
    assert pulled(built, name, source(place, old, new)) == expected
    assert built("build", "--force") == []


def test_a_new_cell_of_a_solution_gives_nothing_away(built):
    text = pulled(built, SOLUTIONS, lambda node: node.cells.insert(4, code("print(add(2))")))
    assert 'last = 1\n\n# %% tags=["solution-only"]\nprint(add(2))\n\n# %% tags=["check"]' in text
    assert "tagged solution-only" in built.said[0]
    assert built("build", "--force") == [] and "add(2)" not in built.read(STUBS)


def test_deleting_a_cell_of_an_exercise_keeps_what_only_the_solution_has(built):
    text = pulled(built, STUBS, lambda node: node.cells.pop())
    assert "not attempted yet" not in text and text.endswith("# Adding two is wrong.\n")


def test_both_notebooks_of_an_exercise_can_be_pulled_together(built):
    built.change(SOLUTIONS, source(2, "x + 1\n", "1 + x\n"))
    text = pulled(built, STUBS, source(0, "Add one.", "Add 1."), built.root / SOLUTIONS)
    assert "# Add 1." in text and "y = 1 + x" in text and "# BEGIN SOLUTION" in text


@pytest.mark.parametrize(
    ("name", "work", "complaint"),
    [
        (
            NOTEBOOK,
            lambda node: (
                node.cells.append(markdown("![a](attachment:a.png)"))
                or node.cells[-1].update(attachments={"a.png": {"image/png": "eA=="}})
            ),
            f"{NOTEBOOK}:1: cell 6 holds a pasted picture",
        ),
        (
            NOTEBOOK,
            lambda node: node.metadata.pop("attnlab"),
            f"{NOTEBOOK}:1: it does not say which manuscript",
        ),
        (
            NOTEBOOK,
            lambda node: node.metadata.attnlab.update(manuscript="x"),
            f"{LESSON}:1: changed since {NOTEBOOK} was",
        ),
        (NOTEBOOK, source(5, "The end.", "a\n# %%\n"), None),
        (NOTEBOOK, source(4, 'print("later")', '"""\n# %% no\n"""'), f"{LESSON}:"),
        (
            STUBS,
            source(2, '\n    raise NotImplementedError("your turn")', ""),
            f"{WORK}:14: a stub cannot be empty",
        ),
        (
            SOLUTIONS,
            source(3, "(x):\n    return x / 2\nlast", "(y):\n    a\n    b\n    c"),
            f"{WORK}:21: the edit crosses",
        ),
    ],
)
def test_what_cannot_be_placed_is_an_error_and_nothing_is_written(built, name, work, complaint):
    built.change(name, work)
    before = built.snapshot()
    complaints = built("pull", built.root / name)
    if complaint is None:
        assert complaints == []
    else:
        assert complaints and complaints[0].startswith(complaint), complaints
        assert built.snapshot() == before


def test_two_notebooks_that_disagree_write_nothing(built):
    built.change(STUBS, source(2, "x + 1.", "one more."))
    built.change(SOLUTIONS, source(2, "x + 1.", "the next."))
    before = built.snapshot()
    assert built("pull", built.root / STUBS, built.root / SOLUTIONS) == [
        f"{WORK}:12: both notebooks changed this cell"
    ]
    assert built.snapshot() == before


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("book/pages/x.ipynb", "{}", "not a notebook of this book"),
        ("notebooks/09_x.ipynb", "{}", "it has no manuscript"),
        (NOTEBOOK, "{", "cannot be read"),
    ],
)
def test_other_files_are_refused(built, name, text, complaint):
    built.write(name, text)
    assert complaint in built("pull", built.root / name)[0]


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_random_edits_of_solutions_come_back_or_are_refused(built, start):
    """Whatever lines change: the manuscript gives the edited notebook again, or keeps its bytes."""
    before, node = built.read(WORK), built.notebook(SOLUTIONS)
    placed = 0
    for number in range(start, start + 8):
        chance = random.Random(number)
        name = chance.choice([SOLUTIONS, STUBS])
        place = chance.choice([2, 3])
        lines = built.cell(place, name).source.split("\n")
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(lines))
            lines[at : at + chance.randint(0, 2)] = [f"    new_{number} = {at}"] * chance.randint(0, 2)
        stored = built.read(name)
        built.change(name, source(place, built.cell(place, name).source, "\n".join(lines)))
        if built("pull", built.root / name):
            assert built.read(WORK) == before
        else:
            placed += 1
            text = built.read(WORK)
            assert text.count("# BEGIN SOLUTION") == text.count("# END SOLUTION") == 2
        built.write(WORK, before).write(name, stored)
    assert placed and node


def test_a_value_whose_neighbours_all_changed_is_not_taken_for_the_reference(built):
    text = pulled(built, NOTEBOOK, lambda node: node.cells[0].update(source="Chapter 4 follows."))
    assert "# Chapter 4 follows.\n" in text and "[[n]]" not in text


def test_a_manuscript_that_would_not_give_the_edited_notebook_is_not_written(built, monkeypatch):
    """Whatever goes wrong on the way back is found before anything is written."""
    monkeypatch.setattr("tools.notebooks.plan.text", lambda manuscript, _: manuscript.text)
    built.change(NOTEBOOK, source(5, "The end.", "The very end."))
    before = built.snapshot()
    complaint = f"{NOTEBOOK}:1: cell 5 cannot be brought back to {LESSON}:23: 'The very end.'"
    assert built("pull", built.root / NOTEBOOK) == [complaint]
    assert built.snapshot() == before
