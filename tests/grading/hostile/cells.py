"""Submissions whose cells are not where, or what, they were: most of them are honest work."""

import copy

from .notebook import ATTACKED, NOTHING, RIGHT, WRONG, Notebook, Targets, code, spoilt


@spoilt(loses=NOTHING)
def saved_by_colab(notebook: Notebook, _: Targets) -> None:
    """is saved by Colab: no ids, its own metadata, widgets without their state"""
    for cell in notebook.cells:
        del cell["id"]
        cell["metadata"] = {"id": "x1y2", "colab": {"base_uri": "https://localhost/"}}
    notebook.data["nbformat_minor"] = 0
    notebook.data["metadata"] = {
        "colab": {"provenance": []},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"a1": {"model_name": "X"}}},
    }


@spoilt(loses=NOTHING)
def checks_deleted(notebook: Notebook, _: Targets) -> None:
    """has no check cell any more"""
    notebook.cells = [cell for i, cell in enumerate(notebook.cells) if i not in notebook.checks()]


@spoilt(loses=NOTHING, rare=True)
def checks_edited(notebook: Notebook, _: Targets) -> None:
    """checks something else than its answers"""
    for place in notebook.checks():
        notebook.cells[place]["source"] = "check('query_key_value.attend', 'give me the points')"


@spoilt(loses=NOTHING, rare=True)
def checks_as_text(notebook: Notebook, _: Targets) -> None:
    """has turned its check cells into text"""
    for place in notebook.checks():
        notebook.cells[place]["cell_type"] = "markdown"


@spoilt(loses=NOTHING)
def cells_copied(notebook: Notebook, _: Targets) -> None:
    """has each of its cells twice, with the same ids"""
    notebook.cells = [copy.deepcopy(cell) for cell in notebook.cells for _ in range(2)]


@spoilt(loses=NOTHING, rare=True)
def answers_moved(notebook: Notebook, _: Targets) -> None:
    """has an answer at the end, and an old try before it"""
    place = notebook.place("attend")
    notebook.cells.append(notebook.cells.pop(place))
    notebook.cells.insert(place, {**notebook.copy_of("attention"), "source": WRONG, "id": "old-try"})


@spoilt()
def answer_as_text(notebook: Notebook, _: Targets) -> None:
    """has turned an answer into text"""
    cell = notebook.cells[notebook.place("attend")]
    cell["cell_type"] = "markdown"


@spoilt()
def answer_renamed(notebook: Notebook, _: Targets) -> None:
    """has given its answer another name"""
    notebook.answer(RIGHT.replace("attend", "my_attend"))


@spoilt()
def answer_deleted(notebook: Notebook, _: Targets) -> None:
    """has deleted an answer"""
    del notebook.cells[notebook.place("attend")]


@spoilt(loses=NOTHING, rare=True)
def setup_deleted(notebook: Notebook, _: Targets) -> None:
    """has neither the set-up cell nor the imports"""
    first = notebook.place("attention")
    notebook.cells = [
        cell for i, cell in enumerate(notebook.cells) if i >= first or cell["cell_type"] != "code"
    ]


@spoilt(loses=NOTHING)
def setup_edited(notebook: Notebook, _: Targets) -> None:
    """ends its process in the set-up cell and loops where the imports were"""
    first = notebook.place("attention")
    places = [i for i, cell in enumerate(notebook.cells) if i < first and cell["cell_type"] == "code"]
    notebook.cells[places[0]]["source"] = "import os\nos._exit(3)"
    notebook.cells[places[1]]["source"] = "while True:\n    pass"


@spoilt(loses=NOTHING, rare=True)
def given_cells_edited(notebook: Notebook, _: Targets) -> None:
    """has spoilt a helper that the course gives"""
    place = next(i for i, cell in enumerate(notebook.cells) if "def score_spread(" in cell["source"])
    notebook.cells[place]["source"] = "def score_spread(*args):\n    return 1 / 0\nspreads = widths = None"
    notebook.answer("exponent = 0.2", "exponent")


@spoilt(loses=NOTHING, rare=True)
def tags_removed(notebook: Notebook, _: Targets) -> None:
    """has other ids, other tags and no order of execution"""
    for number, cell in enumerate(notebook.cells):
        cell["id"], cell["metadata"] = f"cell-{number}", {"tags": ["check", "setup", "solution"]}
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1000 - number


@spoilt(loses=ATTACKED, rare=True)
def wrong_kinds(notebook: Notebook, _: Targets) -> None:
    """answers with a number where a function is asked for"""
    notebook.answer("attend = 5")


@spoilt(loses=NOTHING, rare=True)
def async_and_magics(notebook: Notebook, _: Targets) -> None:
    """uses what only a notebook can: await at the top, help, an assignment from the shell"""
    notebook.insert("import asyncio\nawait asyncio.sleep(0)")
    notebook.insert(
        code("""
        torch.softmax?
        files = !ls
        %timeit -n1 -r1 1 + 1
    """)
    )
