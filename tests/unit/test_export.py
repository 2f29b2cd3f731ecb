"""A translator in a file: 8 bits lose little, what was written is read, and damage is noticed."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save, save_file

from attnlab.export import (
    FORMAT_VERSION,
    Tokeniser,
    TrainedTranslator,
    load_translator,
    quantise_rows,
    restore_rows,
    save_translator,
)
from attnlab.tasks import Vocabulary, learn_merges
from attnlab.transformer import Transformer, TransformerConfig, greedy_decode

SOURCE = Tokeniser(Vocabulary([" may ", "1", "2", "may ", "ä"]), "words", lower_case=True)
MERGES = learn_merges(["zwei", "zwölf", "zwei"], 3)
TARGET = Tokeniser(Vocabulary(["Mai", "e", "i", "z", "zw", "zwe", "zwei"]), "subwords", merges=MERGES)
ABOUT = {"language": "de", "kinds": ["date"]}


def translator(seed=0, **changes):
    config = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config |= {"dropout": 0.3, "norm": "pre", "max_length": 12} | changes
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(len(SOURCE.vocabulary), len(TARGET.vocabulary), **config))
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter)
    return TrainedTranslator(model, SOURCE, TARGET, ABOUT)


def document_of(content):
    size = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["attnlab"])


def rewritten(content, tensors=None, **changes):
    """The file with another document, and with a digest that fits: as a foreign hand would write it."""
    document = document_of(content) | changes | {"sha256": "0" * 64}
    document = {key: value for key, value in document.items() if value is not None}
    blank = save(load(content) if tensors is None else tensors, {"attnlab": json.dumps(document)})
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


# 8 bits by rows


def test_rows_by_hand():
    values, scales = quantise_rows(torch.tensor([[127.0, -63.4, 0.6], [0.0, 0.0, 0.0], [-2.54, 0.02, 1.0]]))
    assert values.tolist() == [[127, -63, 1], [0, 0, 0], [-127, 1, 50]]
    assert values.dtype == torch.int8 and scales.dtype == torch.float32
    torch.testing.assert_close(scales, torch.tensor([1.0, 0.0, 0.02]))
    restored = restore_rows(quantise_rows(torch.tensor([[-2.54, 0.02], [0.0, 0.0]])))
    torch.testing.assert_close(restored, torch.tensor([[-2.54, 0.02], [0.0, 0.0]]))
    assert restored.dtype == torch.float32


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.integers(-30, 30),
    st.integers(0, 9),
)
def test_no_entry_moves_by_more_than_half_a_scale(rows, columns, dtype, power, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, generator=generator, dtype=torch.float64) * 2.0 ** (power / 3)
    matrix = matrix.to(dtype).requires_grad_()
    values, scales = quantise_rows(matrix)
    assert values.shape == matrix.shape and scales.shape == (rows,) and not scales.requires_grad
    assert torch.equal(values.abs().amax(dim=1), torch.full((rows,), 127, dtype=torch.int8))
    error = (restore_rows(quantise_rows(matrix)).double() - matrix.detach().double()).abs()
    assert bool((error <= scales.double()[:, None] * 0.500001).all())


def test_the_smallest_numbers_stay_in_range():
    tiny = torch.tensor([[-3e-45, 1.5e-45, 4.2e-45]])  # float32 has hardly a digit left here
    values, _ = quantise_rows(tiny)
    assert values.sign().tolist() == [[-1, 1, 1]] or not values.any()


@pytest.mark.parametrize("shape", [(3,), (), (2, 3, 4)])
def test_only_matrices_have_rows(shape):
    with pytest.raises(ValueError, match=r"matrix: expected shape \(R, C\), got"):
        quantise_rows(torch.ones(shape))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused(bad, tmp_path):
    with pytest.raises(ValueError, match="matrix: expected finite numbers"):
        quantise_rows(torch.tensor([[1.0, bad]]))
    one = translator()
    one.model.stacks.encoder_norm.bias.data[1] = bad
    with pytest.raises(ValueError, match="NaN or infinity in stacks.encoder_norm.bias"):
        save_translator(tmp_path / "file", one)
    assert not list(tmp_path.iterdir())


# The tokeniser


@pytest.mark.parametrize(
    ("settings", "text", "pieces"),
    [
        ({"lower_case": True}, "Äh, May 2", ["äh", ",", " may ", "2"]),
        ({}, "May 2", ["May ", "2"]),
        ({"pieces": "characters"}, "5月1日", ["5", "月", "1", "日"]),
        ({"pieces": "characters"}, "ab", ["a", "b"]),
        ({"pieces": "subwords", "merges": MERGES}, "zwei", ["zwei"]),
        ({"pieces": "subwords", "merges": MERGES}, "zwölf", ["zw", "ö", "l", "f"]),
        ({"pieces": "subwords", "merges": MERGES, "lower_case": True}, "ZWEI", ["zwei"]),
    ],
)
def test_a_text_is_cut_as_the_record_says(settings, text, pieces):
    tokeniser = Tokeniser(Vocabulary(sorted(set(pieces))[1:]), **settings)
    assert tokeniser.cut(text) == pieces
    numbers = tokeniser.vocabulary.encode(pieces)
    assert tokeniser.encode(text) == numbers and 3 in numbers
    known = [piece for piece in pieces if piece in tokeniser.vocabulary]
    assert tokeniser.decode([number for number in numbers if number != 3]) == "".join(known)
    again = Tokeniser.from_dict(json.loads(json.dumps(tokeniser.to_dict())))
    assert again.cut(text) == pieces and again.to_dict() == tokeniser.to_dict()
    assert again.vocabulary.tokens == tokeniser.vocabulary.tokens


def test_a_tokeniser_from_texts_knows_their_pieces():
    tokeniser = Tokeniser.from_texts(["May 2", "may 1"], lower_case=True)
    assert tokeniser.vocabulary.tokens[4:] == ("1", "2", "may ") and tokeniser.encode("MAY 12") == [6, 4, 5]
    assert Tokeniser.from_texts(["May 2", "may 1"]).vocabulary.tokens[4:] == ("1", "2", "May ", "may ")
    assert Tokeniser.from_texts(["ab"], "characters").vocabulary.tokens[4:] == ("a", "b")
    subwords = Tokeniser.from_texts(["zwei", "zwölf"], "subwords", merges=MERGES)
    assert subwords.cut("zwei") == ["zwei"] and subwords.merges == MERGES
    assert subwords.vocabulary.tokens[4:] == ("f", "l", "zw", "zwei", "ö")


def test_numbers_become_text():
    tokeniser = Tokeniser(Vocabulary(["Mai", " ", "2"]))
    assert tokeniser.decode([4, 5, 6, 2, 5, 0]) == "Mai 2"
    assert tokeniser.decode(torch.tensor([1, 6, 2])) == "2"


def test_other_names_of_the_special_tokens_are_kept():
    vocabulary = Vocabulary(["a"], pad="_", bos="^", eos="$", unk="?")
    assert Tokeniser.from_dict(Tokeniser(vocabulary).to_dict()).vocabulary.tokens == ("_", "^", "$", "?", "a")


def test_unknown_pieces_and_lost_merges_are_refused():
    with pytest.raises(ValueError, match="pieces: expected one of .*subwords.*, got 'bytes'"):
        Tokeniser(Vocabulary(["a"]), "bytes")
    with pytest.raises(ValueError, match="merges: expected none for words, got 3"):
        Tokeniser(Vocabulary(["a"]), "words", merges=MERGES)


# The translator


def test_a_translator_is_greedy_search_between_two_tokenisers():
    one = translator(seed=6)
    texts = ["MAY 2", "ä", "nobody knows 1"]
    source = one.source_rows(texts)
    assert source.tolist() == [[7, 6, 2, 0], [8, 2, 0, 0], [3, 3, 5, 2]]
    expected = [TARGET.decode(row) for row in greedy_decode(one.model, source, max_length=12)]
    assert one.translate(texts) == expected
    assert max(len(TARGET.cut(text)) for text in expected) > 4


def test_a_text_that_is_too_long_or_no_text_is_refused():
    with pytest.raises(ValueError, match="source: expected at most max_length = 12 tokens, got 14"):
        translator().translate(["1" * 13])
    with pytest.raises(ValueError, match="expected at least one"):
        translator().translate([])


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_vocabulary_of_another_size_is_refused(side):
    one = translator()
    parts = {"source": one.source, "target": one.target} | {side: Tokeniser(Vocabulary(["a"]))}
    size = len(getattr(one, side).vocabulary)
    with pytest.raises(ValueError, match=f"{side}: expected a vocabulary of {size} tokens, got 5"):
        TrainedTranslator(one.model, **parts)


# The file


@pytest.mark.parametrize(
    "changes",
    [{}, {"positions": "learned"}, {"norm": "post", "tie_output": False}, {"activation": "gelu"}],
)
def test_what_was_written_is_read(changes, tmp_path):
    one = translator(**changes)
    one.model.train()
    digest = save_translator(tmp_path / "file", one)
    again = load_translator(str(tmp_path / "file"))
    assert again.model.config == one.model.config and again.about == ABOUT and not again.model.training
    assert again.source.to_dict() == SOURCE.to_dict() and again.target.to_dict() == TARGET.to_dict()
    expected = {
        name: restore_rows(quantise_rows(value)) if value.ndim == 2 else value
        for name, value in one.model.state_dict().items()
    }
    received = again.model.state_dict()
    assert received.keys() == expected.keys()
    assert all(torch.equal(received[name], expected[name]) for name in expected)
    # Writing what was read changes nothing: the scales and the whole numbers are found again.
    assert save_translator(tmp_path / "again", again) == digest
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_the_layout_of_the_file(tmp_path):
    one = translator()
    digest = save_translator(tmp_path / "file", one)
    content = (tmp_path / "file").read_bytes()
    tensors, document = load(content), document_of(content)
    assert {name: tensor.dtype for name, tensor in tensors.items() if "encoder_norm" in name} == {
        "stacks.encoder_norm.weight": torch.float32,
        "stacks.encoder_norm.bias": torch.float32,
    }
    table, scale = tensors["embeddings.1.weight"], tensors["embeddings.1.weight.scale"]
    assert table.dtype == torch.int8 and table.shape == (11, 8)
    assert scale.dtype == torch.float32 and scale.shape == (11,)
    assert set(document) == {"sha256", "format", "version", "config", "source", "target", "about"}
    assert document["version"] == FORMAT_VERSION and document["config"] == one.model.config.to_dict()
    assert document["target"]["merges"] == [list(pair) for pair in MERGES]
    blank = content.replace(digest.encode(), b"0" * 64)
    assert document["sha256"] == digest == hashlib.sha256(blank).hexdigest()
    assert "ä" in content.decode("utf-8", errors="ignore")  # letters as they are: a smaller file


def test_half_and_double_precision_are_read_as_float32(tmp_path):
    for dtype in (torch.bfloat16, torch.float64):
        one = translator()
        one.model.to(dtype)
        save_translator(tmp_path / "file", one)
        stored = load((tmp_path / "file").read_bytes()).values()
        assert {tensor.dtype for tensor in stored} == {torch.int8, torch.float32}
        assert {p.dtype for p in load_translator(tmp_path / "file").model.parameters()} == {torch.float32}


def test_every_process_writes_the_same_bytes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    code = (
        "import sys, torch; sys.path.insert(0, '.'); from tests.unit.test_export import *\n"
        "print(save_translator(sys.argv[1], translator()))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(folder / hash_seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert (folder / "1").read_bytes() == (folder / "2").read_bytes()


def test_the_same_process_writes_the_same_bytes_again(tmp_path):
    for number in range(4):  # the order of several keys of metadata would change now and then
        save_translator(tmp_path / f"{number}", translator())
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_text_of_zeros_does_not_mislead_the_digest(tmp_path):
    one = translator()
    zeros = TrainedTranslator(one.model, SOURCE, TARGET, {"note": "0" * 64})
    save_translator(tmp_path / "file", zeros)
    assert load_translator(tmp_path / "file").about == {"note": "0" * 64}


@pytest.mark.parametrize("about", [{1: "one"}, {"pair": (1, 2)}])
def test_what_json_would_change_is_refused(about, tmp_path):
    one = translator()
    with pytest.raises(ValueError, match="about: expected what JSON can hold unchanged"):
        save_translator(tmp_path / "file", TrainedTranslator(one.model, SOURCE, TARGET, about))


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path):
    save_translator(tmp_path / "file", translator())
    before = (tmp_path / "file").read_bytes()
    seen = []

    def stop(*_):
        seen.append((tmp_path / "file").read_bytes() == before)
        raise OSError("no space left")

    right, os.replace = os.replace, stop
    try:
        with pytest.raises(OSError, match="no space left"):
            save_translator(tmp_path / "file", translator(seed=1))
    finally:
        os.replace = right
    assert seen == [True] and (tmp_path / "file").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_new_file_is_on_the_disk_before_it_takes_the_place(tmp_path):
    calls, right = [], (os.fsync, os.replace)
    os.fsync = lambda number: (calls.append("fsync"), right[0](number))
    os.replace = lambda *paths: (calls.append("replace"), right[1](*paths))
    try:
        save_translator(tmp_path / "file", translator())
    finally:
        os.fsync, os.replace = right
    assert calls == ["fsync", "replace"]


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_translator(tmp_path / "file")


@pytest.mark.parametrize("place", [-1, -400, -1300, 9, 60, 170, 400, 900, 1500])
def test_a_changed_byte_is_noticed_wherever_it_is(place, tmp_path):
    save_translator(tmp_path / "file", translator())
    content = bytearray((tmp_path / "file").read_bytes())
    content[place] ^= 1
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="file: (damaged|expected a saved translator)"):
        load_translator(tmp_path / "file")


@pytest.mark.parametrize("length", [0, 7, 8, 100, 2000, -1])
def test_a_file_cut_short_is_noticed(length, tmp_path):
    save_translator(tmp_path / "file", translator())
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:length])
    with pytest.raises(ValueError, match="file: damaged, or no safetensors file"):
        load_translator(tmp_path / "file")


def test_another_digest_is_noticed(tmp_path):
    digest = save_translator(tmp_path / "file", translator())
    content = (tmp_path / "file").read_bytes()
    for other in ("f" * 64, "0" * 64):
        (tmp_path / "file").write_bytes(content.replace(digest.encode(), other.encode()))
        with pytest.raises(ValueError, match="file: damaged, the content does not match its digest"):
            load_translator(tmp_path / "file")


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "file"
    save_translator(path, translator())
    content = path.read_bytes()
    for foreign in (save({"a": torch.zeros(2)}), rewritten(content, format="other")):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match="file: expected a saved translator, got another"):
            load_translator(path)
    save_file({"a": torch.zeros(2)}, path, {"attnlab": "no JSON"})
    with pytest.raises(ValueError, match="file: damaged, its document is not JSON"):
        load_translator(path)


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, "1", None])
def test_a_newer_file_is_refused(version, tmp_path):
    save_translator(tmp_path / "file", translator())
    (tmp_path / "file").write_bytes(rewritten((tmp_path / "file").read_bytes(), version=version))
    with pytest.raises(ValueError, match=f"of version {FORMAT_VERSION} at most, got {version!r}"):
        load_translator(tmp_path / "file")


def test_parts_that_do_not_fit_together_are_refused(tmp_path):
    path = tmp_path / "file"
    save_translator(path, translator())
    content = path.read_bytes()
    path.write_bytes(rewritten(content))
    load_translator(path)
    tensors, document = load(content), document_of(content)
    without = {name: tensor for name, tensor in tensors.items() if name != "stacks.decoder_norm.bias"}
    config = document["config"]
    for spoilt in (
        rewritten(content, tensors=without),
        rewritten(content, config=config | {"d_ff": 13}),
        rewritten(content, config={key: value for key, value in config.items() if key != "norm"}),
        rewritten(content, target=document["target"] | {"tokens": ["a", "b", "c", "d"]}),
        rewritten(content, source=document["source"] | {"pieces": "bytes"}),
        rewritten(content, about=None),
    ):
        path.write_bytes(spoilt)
        with pytest.raises(ValueError, match="file: damaged, its parts do not fit together"):
            load_translator(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_encoder_layers": 2000}, "2001 layers, but the file has"),
        ({"num_decoder_layers": 2}, r"stacks.decoder_layers.1.*the config asks for \(.*the file has none"),
        ({"norm": "post"}, r"stacks.decoder_norm.*the config asks for none, the file has \("),
        ({"d_ff": 10**12}, "the config asks for .*1000000000000"),
        ({"d_model": 10**6, "max_length": 65536}, "the config asks for .*1000000"),
        ({"source_vocab_size": 10**12}, r"the config asks for \(1000000000000"),
        ({"max_length": 10**12}, "max_length: expected at most 65536, got 1000000000000"),
    ],
)
def test_a_file_that_claims_more_than_it_holds_takes_no_memory(changes, message, tmp_path):
    """Each of these asks for more than a machine has, or for layers without end."""
    path = tmp_path / "file"
    save_translator(path, translator())
    content = path.read_bytes()
    config = document_of(content)["config"] | changes
    path.write_bytes(rewritten(content, config=config))
    with pytest.raises(ValueError, match=f"file: damaged, its parts do not fit together.*{message}"):
        load_translator(path)


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="max_length: expected at most 65536, got 65537"):
        save_translator(tmp_path / "file", translator(max_length=65537))
    assert not (tmp_path / "file").exists()
