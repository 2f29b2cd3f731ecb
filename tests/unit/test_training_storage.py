"""The file of tensors: what was written is read, damage is noticed, the old file stays until the end."""

import os

import pytest
import torch
from safetensors.torch import save, save_file

from attnlab.training import storage
from attnlab.training.storage import read_document, read_file, write_file

# By name, so that a module with a slip can take the place of the right one.
READERS = {"file": lambda path: read_file(path), "document": lambda path: read_document(path)}
TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2]), "c": torch.tensor(0.5)}


def same(received, expected):
    return received.keys() == expected.keys() and all(
        torch.equal(received[name], expected[name]) and received[name].dtype == expected[name].dtype
        for name in expected
    )


def test_what_was_written_is_read(tmp_path):
    write_file(tmp_path / "file", TENSORS, {"step": 3, "name": "ß"})
    tensors, document = read_file(tmp_path / "file")
    assert same(tensors, TENSORS)
    assert document == read_document(str(tmp_path / "file")) == {"step": 3, "name": "ß"}
    write_file(str(tmp_path / "file"), {}, {})
    assert read_file(str(tmp_path / "file")) == ({}, {})


def test_views_and_gradients_are_no_hindrance(tmp_path):
    whole = torch.arange(12.0, requires_grad=True)
    write_file(tmp_path / "file", {"whole": whole, "turned": whole.reshape(3, 4).T, "part": whole[3:5]}, {})
    tensors, _ = read_file(tmp_path / "file")
    assert torch.equal(tensors["turned"], whole.detach().reshape(3, 4).T)
    assert torch.equal(tensors["part"], torch.tensor([3.0, 4.0]))


def test_what_was_read_does_not_hang_on_the_file(tmp_path):
    write_file(tmp_path / "file", TENSORS, {})
    tensors, _ = read_file(tmp_path / "file")
    (tmp_path / "file").write_bytes(bytes((tmp_path / "file").stat().st_size))
    assert same(tensors, TENSORS)


@pytest.mark.parametrize("place", range(0, 24))
def test_a_changed_byte_of_a_tensor_is_noticed(place, tmp_path):
    write_file(tmp_path / "file", {"a": TENSORS["a"]}, {"step": 3})
    content = bytearray((tmp_path / "file").read_bytes())
    content[-1 - place] ^= 1
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="file: damaged, the content does not match its digest"):
        read_file(tmp_path / "file")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'step\\": 3', b'step\\": 4'),
        (b'"c":{', b'"x":{'),
        (b'"shape":[2,3]', b'"shape":[3,2]'),
        (b"I64", b"F64"),
    ],
)
def test_a_changed_header_is_noticed(old, new, tmp_path):
    write_file(tmp_path / "file", TENSORS, {"step": 3})
    content = (tmp_path / "file").read_bytes()
    assert content.count(old) == 1
    (tmp_path / "file").write_bytes(content.replace(old, new))
    with pytest.raises(ValueError, match="file: damaged, the content does not match its digest"):
        read_file(tmp_path / "file")


@pytest.mark.parametrize("kind", list(READERS))
def test_what_is_no_file_of_ours_is_refused(kind, tmp_path):
    read, path = READERS[kind], tmp_path / "file"
    path.write_bytes(b"hello, this is no file of tensors")
    with pytest.raises(ValueError, match="file: damaged, or no safetensors file"):
        read(path)
    save_file(TENSORS, path)
    with pytest.raises(ValueError, match="file: expected a file written by this library"):
        read(path)
    header = {"format": "attnlab", "version": "1", "document": "{}", "sha256": ""}
    for key in ("document", "sha256"):
        save_file(TENSORS, path, {name: text for name, text in header.items() if name != key})
        with pytest.raises(ValueError, match="file: damaged, its header lacks"):
            read(path)
    save_file(TENSORS, path, header | {"document": "{"})
    with pytest.raises(ValueError, match="file: damaged"):
        read(path)


@pytest.mark.parametrize("kind", list(READERS))
@pytest.mark.parametrize("version", ["2", "10", "", "new"])
def test_a_newer_version_is_refused(kind, version, tmp_path):
    header = {"format": "attnlab", "version": version, "document": "{}", "sha256": ""}
    save_file(TENSORS, tmp_path / "file", header)
    with pytest.raises(ValueError, match=f"file: expected a format of version 1 at most, got '{version}'"):
        READERS[kind](tmp_path / "file")


def test_no_file_is_an_error_of_its_own(tmp_path):
    for read in (read_file, read_document):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none")


@pytest.mark.parametrize("document", [{"a": (1, 2)}, {1: 2}, {"a": float("nan")}])
def test_a_document_that_json_would_change_is_refused(document, tmp_path):
    with pytest.raises(ValueError, match="document: expected what JSON can hold unchanged"):
        write_file(tmp_path / "file", {}, document)
    assert os.listdir(tmp_path) == []


class Unwritable:
    """Stands in for the module `os`: the file cannot be put in its place."""

    fsync, getpid = staticmethod(os.fsync), staticmethod(os.getpid)

    @staticmethod
    def replace(source, target):
        assert storage_reads(source) == {"step": 2}  # whole before it takes the old one's place
        raise OSError("no")


def storage_reads(path):
    return read_document(path)


def test_an_old_file_stays_whole_where_the_new_one_cannot_be_written(tmp_path):
    write_file(tmp_path / "file", TENSORS, {"step": 1})
    right = storage.os
    storage.os = Unwritable
    try:
        with pytest.raises(OSError, match="no"):
            write_file(tmp_path / "file", TENSORS, {"step": 2})
    finally:
        storage.os = right
    assert read_document(tmp_path / "file") == {"step": 1}
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "none" / "file", TENSORS, {})


def test_the_file_is_plain_safetensors(tmp_path):
    write_file(tmp_path / "file", TENSORS, {})
    content = (tmp_path / "file").read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert content[8 : 8 + size].lstrip().startswith(b"{")
    plain = save(TENSORS)
    assert content[8 + size :] == plain[8 + int.from_bytes(plain[:8], "little") :]
