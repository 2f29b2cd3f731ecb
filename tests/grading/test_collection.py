"""Submissions are found however they were handed in, none is left out, no archive writes where it likes."""

import os
import stat
import zipfile

import pytest

from attnlab.grading.collection import collect, printable
from attnlab.grading.unpack import ArchiveLimits, unpack

NOTEBOOK = '{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}'


def write(path, text=NOTEBOOK):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def archive(path, *members):
    """A zip file; a member is a name, or a ZipInfo with what stands in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member in members:
            name, text = member if isinstance(member, tuple) else (member, NOTEBOOK)
            file.writestr(name, text)
    return path


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "submissions"
    folder.mkdir()
    return folder


def names(source, tmp_path):
    return {one.name: one for one in collect(source, tmp_path / "scratch")}


def test_a_file_is_a_submission_and_a_folder_is_a_student(source, tmp_path):
    write(source / "anna.ipynb")
    write(source / "ben.py", "x = 1")
    write(source / "carla" / "set3.ipynb")
    write(source / "carla" / "deeper" / "set4.ipynb")
    found = names(source, tmp_path)
    assert list(found) == ["anna.ipynb", "ben.py", "carla/deeper/set4.ipynb", "carla/set3.ipynb"]
    assert [one.student for one in found.values()] == ["anna", "ben", "carla", "carla"]
    assert all(one.path.is_file() and not one.problem for one in found.values())


def test_canvas_names_give_student_number_and_lateness(source, tmp_path):
    write(source / "lovelaceada_LATE_321_654_set3.ipynb")
    write(source / "turingalan_322_655_set3-1.ipynb")
    ada, alan = names(source, tmp_path).values()
    assert (ada.student, ada.number, ada.late) == ("lovelaceada", "321", True)
    assert (alan.student, alan.number, alan.late) == ("turingalan", "322", False)


@pytest.mark.parametrize("inside", ["", "/"])
def test_moodle_names_give_student_and_number(inside, source, tmp_path):
    write(source / f"Ada Lovelace_321_assignsubmission_file_{inside}set3.ipynb")
    (ada,) = names(source, tmp_path).values()
    assert (ada.student, ada.number) == ("Ada Lovelace", "321")


def test_what_cannot_be_graded_is_a_row_with_a_reason(source, tmp_path):
    write(source / "anna.pdf", "%PDF")
    write(source / "ben" / "readme.txt")
    (source / "carla").mkdir()
    write(source / "dora.zip", "no archive")
    archive(source / "emil.zip", "letter.txt")
    found = names(source, tmp_path)
    assert list(found) == ["anna.pdf", "ben", "carla", "dora.zip", "emil.zip"]
    assert all(one.path is None for one in found.values())
    assert "this has .pdf" in found["anna.pdf"].problem
    assert found["ben"].problem == found["carla"].problem == "there is no notebook in this folder"
    assert found["dora.zip"].problem == "the archive cannot be opened: BadZipFile"
    assert found["emil.zip"].problem == "there is no notebook in the archive"


def test_links_and_special_files_are_not_followed(source, tmp_path):
    secret = write(tmp_path / "secret.ipynb")
    (source / "anna.ipynb").symlink_to(secret)
    (source / "ben").symlink_to(tmp_path)
    os.mkfifo(source / "carla.ipynb")
    (source / "dora").mkdir()
    (source / "dora" / "set3.ipynb").symlink_to(secret)
    found = names(source, tmp_path)
    assert [one.problem for one in found.values()] == [
        "a symbolic link is not followed",
        "a symbolic link is not followed",
        "it is not a plain file",
        "a symbolic link is not followed",
    ]


def test_what_systems_leave_behind_is_no_submission(source, tmp_path):
    for name in (".DS_Store", "anna/.git/x.ipynb", "anna/.ipynb_checkpoints/x.ipynb", "anna/set3.ipynb"):
        write(source / name)
    write(source / ".ipynb")  # an odd name, but a student's
    assert list(names(source, tmp_path)) == [".ipynb", "anna/set3.ipynb"]


def test_scripts_beside_a_notebook_are_its_helpers(source, tmp_path):
    write(source / "anna" / "set3.ipynb")
    write(source / "anna" / "helper.py")
    write(source / "ben" / "set3.py")
    assert list(names(source, tmp_path)) == ["anna/set3.ipynb", "ben/set3.py"]


def test_names_are_shown_on_one_line_and_differ(source, tmp_path):
    raw = os.fsencode(source)
    for name in (b"x\n.ipynb", b"x\r.ipynb", b"x\xff.ipynb", "a\u202eb.ipynb".encode()):
        with open(raw + b"/" + name, "w", encoding="utf-8") as file:
            file.write(NOTEBOOK)
    found = names(source, tmp_path)
    assert sorted(found) == ["a?b.ipynb", "x?.ipynb", "x?.ipynb (2)", "x?.ipynb (3)"]
    assert len(printable("x" * 10_000)) == 200


def test_a_zip_file_is_read_like_a_folder(tmp_path):
    source = archive(tmp_path / "all.zip", "class/anna.ipynb", "class/ben/set3.ipynb", "__MACOSX/x.ipynb")
    found = names(source, tmp_path)
    assert list(found) == ["anna.ipynb", "ben/set3.ipynb"]
    assert found["anna.ipynb"].path.read_text(encoding="utf-8") == NOTEBOOK
    assert found["anna.ipynb"].path.is_relative_to(tmp_path / "scratch")


def test_an_archive_of_a_student_is_opened_once(source, tmp_path):
    inner = archive(tmp_path / "inner.zip", "deep.ipynb")
    archive(source / "anna.zip", "set3.ipynb", ("more.zip", inner.read_bytes()))
    assert list(names(source, tmp_path)) == ["anna.zip/set3.ipynb"]


def link(name):
    member = zipfile.ZipInfo(name)
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("../../out.ipynb", "", "leads out"),
        ("/etc/out.ipynb", "", "leads out"),
        ("C:\\out.ipynb", "", "leads out"),
        ("..\\out.ipynb", "", "leads out"),
        (link("link.ipynb"), "/etc/passwd", "is not followed"),
        ("bomb.ipynb", " " * 5_000_000, "larger than 1 MiB"),
    ],
)
def test_a_member_with_a_trick_is_refused_and_the_others_are_read(name, text, reason, tmp_path):
    path = archive(tmp_path / "a.zip", (name, text), "good.ipynb")
    limits = ArchiveLimits(member_bytes=1 << 20)
    refused, good = unpack(path, tmp_path / "deep" / "scratch", limits)
    assert refused.path is None and reason in refused.problem
    assert good.path.read_text(encoding="utf-8") == NOTEBOOK
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(written) == ["a.zip", "deep/scratch/00001.ipynb"]


def test_a_size_that_the_archive_lies_about_does_not_count(tmp_path):
    path = archive(tmp_path / "a.zip", ("x.ipynb", "y" * 3_000_000))
    raw = path.read_bytes()
    size = (3_000_000).to_bytes(4, "little")
    path.write_bytes(raw.replace(size, (1).to_bytes(4, "little")))
    (found,) = unpack(path, tmp_path / "scratch", ArchiveLimits(member_bytes=1 << 20))
    assert found.path is None and found.problem
    assert not any(path.stat().st_size > 1 << 20 for path in (tmp_path / "scratch").iterdir())


def test_too_many_members_and_too_many_bytes_are_told_for_each(tmp_path):
    path = archive(tmp_path / "a.zip", *(f"{i}.ipynb" for i in range(6)))
    limits = ArchiveLimits(members=4, total_bytes=3 * len(NOTEBOOK))
    found = list(unpack(path, tmp_path / "scratch", limits))
    assert [bool(one.problem) for one in found] == [False, False, False, True, True, True]
    assert "more than 4 entries" in found[-1].problem


def test_a_name_that_stands_twice_is_read_once(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive(tmp_path / "a.zip", ("x.ipynb", "first"), ("x.ipynb", "second"))
    first, second = unpack(path, tmp_path / "scratch")
    assert first.path.read_text(encoding="utf-8") == "first"
    assert second.problem == "its name stands twice in the archive"


def test_a_password_is_told(tmp_path):
    path = archive(tmp_path / "a.zip", "x.ipynb")
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + offset] |= 1
    path.write_bytes(raw)
    (found,) = unpack(path, tmp_path / "scratch")
    assert found.problem == "it is protected by a password"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        collect(tmp_path / "nowhere", tmp_path)
