"""Nothing that a learner gets with an exercise gives its solution away: notebook, page, download, search."""

from __future__ import annotations

import copy
import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.site import leaks
from tests.site.leaks import MANUSCRIPTS, ROOT, Solution, Texts

STEMS = sorted(path.stem for path in (ROOT / "exercises").glob("*.ipynb"))
PAGES = re.findall(r"file: exercises/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
TEXT_FILES = {".html", ".ipynb", ".md", ".txt", ".py", ".js", ".json", ".svg"}


@cache
def planted(stem: str) -> list[Solution]:
    return leaks.solutions_of(MANUSCRIPTS / f"{stem}.py")


def read(*parts: str | Path) -> str:
    return Path(*parts).read_text(encoding="utf-8")


# --- what is looked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", sorted(path.stem for path in MANUSCRIPTS.glob("*.py")))
def test_every_solution_has_a_mark_that_its_exercise_does_not_show(stem: str) -> None:
    found = planted(stem)
    assert [one for one in found if one.code] and [one for one in found if one.words]
    assert [one.where for one in found if not one.code and not one.words] == []


@pytest.mark.parametrize("stem", STEMS)
def test_the_marks_are_those_of_the_solution_notebook(stem: str) -> None:
    told = leaks.leaks(planted(stem), leaks.notebook_texts(read(ROOT, "solutions", f"{stem}.ipynb")))
    assert told == {one.where: [*one.code, *one.words] for one in planted(stem)}


@pytest.mark.parametrize("stem", PAGES)
def test_the_marks_are_found_on_the_page_of_solutions(stem: str, site_folder: Path) -> None:
    """What is not found on this page could not be found on that of the exercises either."""
    told = leaks.leaks(planted(stem), Texts.of(read(site_folder, "solutions", f"{stem}.html")))
    assert told == {one.where: [*one.code, *one.words] for one in planted(stem)}


# --- where it must not be --------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_an_exercise_notebook_holds_no_solution(stem: str) -> None:
    texts = leaks.notebook_texts(read(ROOT, "exercises", f"{stem}.ipynb"))
    assert leaks.leaks(planted(stem), texts) == {}


@pytest.mark.parametrize("stem", PAGES)
def test_a_page_of_exercises_and_its_downloads_hold_no_solution(stem: str, site_folder: Path) -> None:
    files = [
        path
        for path in site_folder.rglob(f"*{stem}*")
        if "exercises" in path.relative_to(site_folder).parts and path.suffix in TEXT_FILES
    ]
    offered = site_folder / "_sources" / "exercises" / f"{stem}.ipynb"
    assert {site_folder / "exercises" / f"{stem}.html", offered} <= set(files)
    for path in files:
        texts = leaks.notebook_texts(read(path)) if path.suffix == ".ipynb" else Texts.of(read(path))
        assert leaks.leaks(planted(stem), texts) == {}, path


@pytest.mark.parametrize("stem", PAGES)
def test_the_search_does_not_find_a_page_of_exercises_by_its_solution(stem: str, site_folder: Path) -> None:
    index = read(site_folder, "searchindex.js")
    telling = leaks.telling_words(MANUSCRIPTS / f"{stem}.py", read(ROOT, "exercises", f"{stem}.ipynb"))
    assert len(telling) > 10
    assert leaks.index_words(index, f"exercises/{stem}")
    assert leaks.index_words(index, f"exercises/{stem}") & telling == set()
    assert len(leaks.index_words(index, f"solutions/{stem}") & telling) > 10


# --- that it would be found ------------------------------------------------------------------------------

STEM = STEMS[0]


def leak_into(book: dict[str, Any], place: str, text: str) -> None:
    """Give a text away at a place of a notebook."""
    code = next(cell for cell in book["cells"] if cell["cell_type"] == "code" and cell["outputs"])
    coloured = "".join(f"<span>{html.escape(word)}</span>" for word in re.split(r"(\W+)", text))
    match place:
        case "a comment":
            code["source"] = [*code["source"], "\n", f"# {text}"]
        case "a new cell":
            book["cells"].append({"cell_type": "markdown", "source": f"Try\n\n    {text}\n", "metadata": {}})
        case "the metadata of a cell":
            code["metadata"]["answer"] = {"text": text}
        case "the metadata of the notebook":
            book["metadata"][text] = True
        case "what a cell printed":
            code["outputs"].append({"output_type": "stream", "name": "stdout", "text": [f"{text}\n"]})
        case "coloured output":
            data = {"text/html": f"<pre>{coloured}</pre>"}
            code["outputs"].append({"output_type": "display_data", "data": data, "metadata": {}})
        case "the description of a figure":
            about = {"image/png": {"alt": text}}
            code["outputs"].append(
                {"output_type": "display_data", "data": {"image/png": ""}, "metadata": about}
            )


PLACES = [
    "a comment",
    "a new cell",
    "the metadata of a cell",
    "the metadata of the notebook",
    "what a cell printed",
    "coloured output",
    "the description of a figure",
]


@pytest.mark.parametrize("kind", ["code", "words"])
@pytest.mark.parametrize("place", PLACES)
def test_a_leak_in_a_notebook_is_found(place: str, kind: str) -> None:
    book = json.loads(read(ROOT, "exercises", f"{STEM}.ipynb"))
    one, text = something_secret(kind)
    doctored = copy.deepcopy(book)
    leak_into(doctored, place, text)
    assert leaks.leaks(planted(STEM), leaks.notebook_texts(json.dumps(book))) == {}
    assert one.where in leaks.leaks(planted(STEM), leaks.notebook_texts(json.dumps(doctored)))


def something_secret(kind: str) -> tuple[Solution, str]:
    """A solution, and the text of it that has one of its marks, as the manuscript writes it."""
    one = next(one for one in planted(STEM) if (one.code if kind == "code" else one.words))
    lines = read(MANUSCRIPTS, f"{STEM}.py").splitlines()
    if kind == "code":
        return one, next(line.strip() for line in lines if leaks.code_of(line) == one.code[-1])
    return one, next(line for line in lines if one.words[0][:20] in leaks.letters(line)) + lines[
        next(n for n, line in enumerate(lines) if one.words[0][:20] in leaks.letters(line)) + 1
    ].removeprefix("#")


@pytest.mark.parametrize("kind", ["code", "words"])
@pytest.mark.parametrize(
    "form",
    ["<pre>{coloured}</pre>", "<!-- {text} -->", '<p title="{text}">Why?</p>', "<script>{text}</script>"],
)
def test_a_leak_on_a_page_is_found(form: str, kind: str, site_folder: Path) -> None:
    page = read(site_folder, "exercises", f"{STEM}.html")
    one, text = something_secret(kind)
    coloured = "".join(f"<span>{html.escape(word)}</span>" for word in re.split(r"(\W+)", text))
    leak = form.format(text=html.escape(text), coloured=coloured)
    doctored = page.replace("</article>", f"{leak}</article>")
    assert doctored != page
    assert one.where in leaks.leaks(planted(STEM), Texts.of(doctored))


def test_a_solution_in_a_hint_leaves_no_mark(tmp_path: Path) -> None:
    """Where the exercise itself says all of a solution there is nothing to look for, and that is told."""
    given = "# %%\ndef answer(x):\n    # BEGIN SOLUTION\n    return x.softmax(dim=-1)\n    # END SOLUTION\n"
    path = tmp_path / "01_given.py"
    path.write_text(given, encoding="utf-8")
    assert [len(one.code) for one in solutions_at(path)] == [1]
    path.write_text(f"{given}\n# %% [markdown]\n# Write `return x.softmax(dim=-1)`.\n", encoding="utf-8")
    assert [len(one.code) for one in solutions_at(path)] == [0]


def solutions_at(path: Path) -> list[Solution]:
    """The solutions of a manuscript that lies outside the repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaks, "ROOT", path.parent)
        return leaks.solutions_of(path)


def test_a_leak_in_the_search_is_found(site_folder: Path) -> None:
    raw = read(site_folder, "searchindex.js")
    index = json.loads(raw.removeprefix("Search.setIndex(").removesuffix(")"))
    telling = leaks.telling_words(MANUSCRIPTS / f"{STEM}.py", read(ROOT, "exercises", f"{STEM}.ipynb"))
    page = index["docnames"].index(f"exercises/{STEM}")
    word = next(word for word in sorted(telling) if isinstance(index["terms"].get(word), int))
    index["terms"][word] = [index["terms"][word], page]
    doctored = f"Search.setIndex({json.dumps(index)})"
    assert leaks.index_words(doctored, f"exercises/{STEM}") & telling == {word}
