"""Submissions that are no notebooks, or not quite."""

import json
import os
import stat
import zipfile
from pathlib import Path

from .notebook import ALL, NOTHING, Notebook, Targets, spoilt, written


def raw(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)


@written("empty.ipynb")
def empty(folder: Path, _: Targets) -> None:
    """is an empty file"""
    raw(folder, "empty.ipynb", b"")


@written("broken_json.ipynb")
def broken_json(folder: Path, _: Targets) -> None:
    """breaks off in the middle"""
    notebook = Notebook()
    text = json.dumps(notebook.data)
    raw(folder, "broken_json.ipynb", text[: len(text) // 2].encode())


@written("no_text.ipynb")
def no_text(folder: Path, _: Targets) -> None:
    """is a picture"""
    raw(folder, "no_text.ipynb", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10)


@written("deep_json.ipynb")
def deep_json(folder: Path, _: Targets) -> None:
    """nests lists a million deep"""
    raw(folder, "deep_json.ipynb", b'{"cells": ' + b"[" * 10**6)


@written("other_json.ipynb")
def other_json(folder: Path, _: Targets) -> None:
    """is JSON, and no notebook"""
    raw(folder, "other_json.ipynb", b'[1, 2, {"cells": "none"}]')


@written("odd_cells.ipynb")
def odd_cells(folder: Path, _: Targets) -> None:
    """has cells of odd kinds"""
    cells = [
        5,
        None,
        {},
        {"cell_type": "code"},
        {"cell_type": "code", "source": 7},
        {"cell_type": [], "source": []},
    ]
    cells.append({"cell_type": "code", "source": ["x = 1\n", 5], "metadata": "none"})
    raw(folder, "odd_cells.ipynb", json.dumps({"cells": cells, "metadata": [], "nbformat": "four"}).encode())


@written("huge.ipynb")
def huge(folder: Path, _: Targets) -> None:
    """is 200 MB large"""
    with open(folder / "huge.ipynb", "wb") as file:
        file.write(b'{"cells": [], "padding": "')
        file.truncate(200 * 10**6)


@written("huge_number.ipynb")
def huge_number(folder: Path, _: Targets) -> None:
    """holds a number of a million digits"""
    raw(folder, "huge_number.ipynb", b'{"cells": [], "nbformat": ' + b"9" * 10**6 + b"}")


@written("link.ipynb")
def link(folder: Path, targets: Targets) -> None:
    """is a link to a secret"""
    (folder / "link.ipynb").symlink_to(targets.secret)


@written("linked_folder")
def linked_folder(folder: Path, targets: Targets) -> None:
    """is a link to a folder of secrets"""
    (folder / "linked_folder").symlink_to(targets.secret.parent)


@written("pipe.ipynb")
def pipe(folder: Path, _: Targets) -> None:
    """is a pipe, from which nothing ever comes"""
    os.mkfifo(folder / "pipe.ipynb")


@written("folder.ipynb")
def named_like_a_notebook(folder: Path, _: Targets) -> None:
    """is a folder with the name of a notebook"""
    (folder / "folder.ipynb").mkdir()


@written("locked.zip/../../outside/escaped.ipynb")
def archive_with_paths(folder: Path, _: Targets) -> None:
    """is an archive whose paths lead out of it"""
    with zipfile.ZipFile(folder / "locked.zip", "w") as file:
        file.writestr("../../outside/escaped.ipynb", json.dumps(Notebook().data))


@written("links.zip/link.ipynb")
def archive_with_links(folder: Path, targets: Targets) -> None:
    """is an archive that holds a link to a secret"""
    member = zipfile.ZipInfo("link.ipynb")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "links.zip", "w") as file:
        file.writestr(member, str(targets.secret))


@written("bomb.zip/bomb.ipynb")
def archive_that_bursts(folder: Path, _: Targets) -> None:
    """is an archive of some kilobytes that unpacks to 200 MB"""
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb.ipynb", bytes(200 * 10**6))


@written("no_archive.zip")
def no_archive(folder: Path, _: Targets) -> None:
    """is no archive, in spite of its name"""
    raw(folder, "no_archive.zip", b"PK\x03\x04" + b"?" * 100)


@written("=HYPERLINK(A1)?.ipynb", loses=NOTHING)
def odd_name(folder: Path, _: Targets) -> None:
    """is honest work under a name with a formula and a line break"""
    Notebook().save(folder / "=HYPERLINK(A1)\n.ipynb")


@written("utf16.ipynb", loses=ALL)
def other_encoding(folder: Path, _: Targets) -> None:
    """is honest work in UTF-16"""
    raw(folder, "utf16.ipynb", json.dumps(Notebook().data, ensure_ascii=False).encode("utf-16"))


@written("latin1.ipynb", loses=ALL)
def latin(folder: Path, _: Targets) -> None:
    """is a notebook in Latin-1, with accents"""
    raw(
        folder,
        "latin1.ipynb",
        '{"cells": [{"cell_type": "markdown", "source": "\u00e9\u00e8"}]}'.encode("latin-1"),
    )


@written("bom.ipynb", loses=NOTHING)
def byte_order_mark(folder: Path, _: Targets) -> None:
    """is honest work with a byte order mark, as an editor may save it"""
    raw(folder, "bom.ipynb", json.dumps(Notebook().data).encode("utf-8-sig"))


@spoilt(loses=NOTHING, rare=True)
def half_a_sign(notebook: Notebook, _: Targets) -> None:
    """holds half of a surrogate pair, and zero bytes, in its text and in a cell"""
    notebook.cells[0]["source"] += "\ud800\x00"
    notebook.insert("text = '\ud800\x00'")


@spoilt(loses=NOTHING, rare=True)
def swollen(notebook: Notebook, _: Targets) -> None:
    """holds megabytes of outputs with forged reports in them"""
    report = "Repair a program that runs: 99 of 99 points\n"
    for place in notebook.checks():
        text = report * 20_000
        notebook.cells[place]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
