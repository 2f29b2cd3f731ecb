"""The live translator's engine computes what PyTorch computes, in Chromium, from the same files.

Sentences, seeds and files are those of the lesson; the reference is computed by PyTorch when the tests run.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Error, Page

from attnlab import tasks
from attnlab.export import TrainedTranslator, load_translator
from benchmarks.translator import in_the_browser
from tests.site.engine_exam import (
    Exam,
    ask_beam,
    ask_greedy,
    ask_numbers,
    ask_text,
    engine_source,
    mistakes,
    rewritten,
    sit,
)
from tests.site.engine_models import VARIANTS, small_exam, small_translator
from tools import translators
from tools.taken_away import single_parts

pytestmark = pytest.mark.browser

HELD_OUT = 500
AT_A_TIME = 50  # sentences: no call should last long on a slow machine


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """What PyTorch does here is too small for several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def page(browser: Browser, tmp_path: Path, serve_folder: Callable[[Path], str]) -> Iterator[Page]:
    """An empty page on the local server."""
    (tmp_path / "index.html").write_text("<!doctype html><title>Engine</title>", encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(serve_folder(tmp_path))
    yield page
    context.close()


@functools.cache
def held_out(language: str) -> list[tasks.TranslationPair]:
    """The lesson's held-out phrases."""
    pairs = tasks.translation_pairs(21_000, language=language, seed=0)
    return tasks.split_pairs(pairs, 1_000, seed=1)[1]


def stored(name: str) -> tuple[bytes, TrainedTranslator]:
    path = translators.file_of(name)
    return path.read_bytes(), load_translator(path)


@pytest.mark.parametrize("first", range(0, HELD_OUT, HELD_OUT // 5))  # so that none of them takes long
def test_every_number_and_every_search_of_500_held_out_sentences_is_pytorchs(page: Page, first: int) -> None:
    content, translator = stored("fr")
    pairs = held_out("fr")[first : first + HELD_OUT // 5]
    assert mistakes(page, Exam({"fr": (content, "read")})) == []
    assert len(pairs) == 100
    for start in range(0, len(pairs), AT_A_TIME):
        exam, some = Exam(), pairs[start : start + AT_A_TIME]
        for pair in some:
            ask_numbers(exam, "fr", translator, pair.source, pair.target)
        sources = [pair.source for pair in some]
        ask_greedy(exam, "fr", translator, sources)
        ask_beam(exam, "fr", translator, sources)
        assert mistakes(page, exam) == []


@pytest.mark.parametrize("name", [name for name in translators.NAMES if name != "fr"])
def test_the_other_translators_are_pytorchs_too(page: Page, name: str) -> None:
    content, translator = stored(name)
    pairs = held_out(translator.about["language"])[:AT_A_TIME]
    exam = Exam({name: (content, "read")})
    for pair in pairs:
        ask_numbers(exam, name, translator, pair.source, pair.target)
        ask_text(exam, name, translator, [pair.source, pair.target])
    # What is trained without a mask ends by chance, so that its texts are as long as it is let write.
    ask_greedy(exam, name, translator, [pair.source for pair in pairs], max_length=24)
    ask_beam(exam, name, translator, [pair.source for pair in pairs[:10]], max_length=24)
    assert mistakes(page, exam) == []


def test_what_is_taken_away_is_taken_away_as_in_pytorch(page: Page) -> None:
    content, translator = stored("fr")
    exam = Exam({"fr": (content, "read")})
    pair = held_out("fr")[0]
    parts = single_parts(translator.model.config)
    assert len(parts) == 3 * 2 * 4 + 2 + 3
    together = {"heads": [{"where": "self", "layer": 1, "head": 2}], "positions": False, "causal": False}
    for part in [*parts.values(), together]:
        ask_numbers(exam, "fr", translator, pair.source, pair.target, **part)
        ask_greedy(exam, "fr", translator, [pair.source], max_length=12, **part)
    ask_beam(exam, "fr", translator, [pair.source], max_length=8, causal=False)
    assert mistakes(page, exam) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_kinds_of_model_are_computed_as_well(page: Page, variant: str) -> None:
    assert mistakes(page, small_exam(variant)) == []


TEXTS = [
    "",
    " ",
    "Tuesday, SEPTEMBER 3, 2024",
    "tuesday , september  3 ,2024",
    "1.75 Swiss francs",
    "Blursday, July 4 and Blursday again",
    "<script>alert(1)</script> <img src=x onerror=alert(1)> &amp; </textarea>",
    "🕰️ 👩‍👩‍👧‍👦 🇫🇷 12:30 PM 🎉",
    "2024年9月3日 星期二",
    "الثلاثاء ٣ سبتمبر ٢٠٢٤",
    "मंगलवार ३ सितम्बर",
    "İSTANBUL ΣΊΣΥΦΟΣ ẞ ﬁn ǅ",
    "x²+½ Ⅳ ⅷ _ snake_case e\u0301",
    "a\x1cb\x85c\u200bd\ufeffe\u202f1\u00a02\u3000",
    "tab\tline\nreturn\r\n  4  ",
    "__proto__ constructor <unk> <pad> <eos>",
    "zweihundertfünfundsiebzigtausend neun",
]


@pytest.mark.parametrize("name", ["fr", "de", "zh"])
def test_any_text_is_cut_as_python_cuts_it(page: Page, name: str) -> None:
    content, translator = stored(name)
    exam = Exam({name: (content, "read")})
    ask_text(exam, name, translator, [*TEXTS, "September " * 1000, "x" * 10_000, "🎉" * 5_000])
    short = [text for text in TEXTS if len(translator.source.cut(text)) < 64]
    ask_greedy(exam, name, translator, short, max_length=20)
    assert len(short) >= 15
    assert mistakes(page, exam) == []


def test_every_known_character_is_cut_as_python_cuts_it(page: Page) -> None:
    content, translator = stored("de")
    # Of the scripts of many thousand characters one in fifty: they are letters, all alike.
    many = [(0x3400, 0xA000), (0xAC00, 0xD7A4), (0x17000, 0x18D00), (0x20000, 0x40000)]
    skipped = {code for first, last in many for code in range(first, last) if code % 50}
    known = (
        chr(code)
        for code in range(sys.maxunicode + 1)
        if code not in skipped and unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")
    )
    # The browser may know a newer version of Unicode, or an older one: what it does not know is not asked.
    letters = page.evaluate("letters => letters.filter((letter) => !/\\p{Cn}/u.test(letter))", list(known))
    assert len(letters) > 30_000
    texts = [f"ab{letter}b1 {letter} 2" for letter in letters]
    exam = Exam({"de": (content, "read")})
    for side in ("source", "target"):
        for text in texts:
            exam.ask("cut", getattr(translator, side).cut(text), model="de", side=side, text=text)
    assert mistakes(page, exam) == []


def test_a_text_that_is_too_long_is_refused_in_words(page: Page) -> None:
    content, translator = stored("fr")
    assert mistakes(page, Exam({"fr": (content, "read")})) == []
    long = "one " * 64
    with pytest.raises(Error, match="expected 1 to 64 tokens, got 65"):
        page.evaluate("text => models.fr.greedy(text.trim())", long)
    with pytest.raises(ValueError, match="at most max_length"):
        translator.translate([long.strip()])
    with pytest.raises(Error, match="expected token numbers from 0 to"):
        page.evaluate("() => models.fr.greedy([5000, 2])")


def damaged_files(content: bytes) -> dict[str, tuple[bytes, str]]:
    """Files that cannot be used, each with the kind of error that the engine has to give."""
    weight = len(content) - 1000
    flipped = content[:weight] + bytes([content[weight] ^ 1]) + content[weight + 1 :]
    size = int.from_bytes(content[:8], "little")
    digest = content.index(b'sha256\\": \\"') + len(b'sha256\\": \\"')
    digit = b"0" if content[digest : digest + 1] != b"0" else b"1"
    cases = {
        "empty": (b"", "damaged"),
        "seven bytes": (content[:7], "damaged"),
        "half a header": (content[: size // 2], "damaged"),
        "half": (content[: len(content) // 2], "damaged"),
        "one byte short": (content[:-1], "damaged"),
        "a page that says not found": (b"<!doctype html><title>404</title>" * 9, "damaged"),
        "a flipped bit": (flipped, "damaged"),
        "a wrong digest": (content[:digest] + digit + content[digest + 1 :], "damaged"),
        "a byte more": (content + b"\0", "damaged"),
        "a header that is a list": ((2).to_bytes(8, "little") + b"[]", "damaged"),
        "a header that is null": ((4).to_bytes(8, "little") + b"null", "damaged"),
        "another safetensors file": ((2).to_bytes(8, "little") + b"{}", "other"),
    }
    return cases | changed_files(content)


def changed_files(content: bytes) -> dict[str, tuple[bytes, str]]:
    """Files whose digest fits what was done to them."""

    def document(change: Callable[[dict], object]) -> bytes:
        return rewritten(content, change)

    def header(change: Callable[[dict], object]) -> bytes:
        return rewritten(content, header=change)

    w_q = "stacks.encoder_layers.0.self_attention.w_q.weight"
    beyond = [10**9, 10**9 + 4096]
    return {
        "a newer version": (document(lambda d: d.update(version=2)), "newer"),
        "a version in words": (document(lambda d: d.update(version="1")), "newer"),
        "another format": (document(lambda d: d.update(format="other")), "other"),
        "no configuration": (document(lambda d: d.pop("config")), "damaged"),
        "no tokens": (document(lambda d: d["source"].pop("tokens")), "damaged"),
        "a token more": (document(lambda d: d["target"]["tokens"].append("more")), "damaged"),
        "unknown pieces": (document(lambda d: d["source"].update(pieces="bytes")), "damaged"),
        "merges that are null": (document(lambda d: d["target"].update(merges=None)), "damaged"),
        "another width": (document(lambda d: d["config"].update(d_model=20)), "damaged"),
        "three heads": (document(lambda d: d["config"].update(num_heads=3)), "damaged"),
        "nine layers": (document(lambda d: d["config"].update(num_decoder_layers=9)), "damaged"),
        "a layer left over": (document(lambda d: d["config"].update(num_decoder_layers=1)), "damaged"),
        "a tensor missing": (header(lambda h: h.pop(w_q)), "damaged"),
        "scales missing": (header(lambda h: h.pop(w_q + ".scale")), "damaged"),
        "a tensor of another shape": (header(lambda h: h[w_q].update(shape=[4, 25])), "damaged"),
        "a tensor beyond the end": (header(lambda h: h[w_q].update(data_offsets=beyond)), "damaged"),
        "a tensor that is null": (header(lambda h: h.update({w_q: None})), "damaged"),
        "a type of number that is not used": (header(lambda h: h[w_q].update(dtype="F16")), "damaged"),
    }


def test_a_file_that_cannot_be_used_is_refused_and_named(page: Page, tmp_path: Path) -> None:
    files = damaged_files(small_translator("as in the lesson", tmp_path)[0].read_bytes())
    assert mistakes(page, Exam(files)) == []
    for name, (bad, _) in files.items():
        path = tmp_path / "bad.safetensors"
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="bad.safetensors"):
            load_translator(path)
            pytest.fail(f"Python reads a file with {name}", pytrace=False)


def test_a_file_that_claims_a_million_layers_costs_the_page_nothing(page: Page) -> None:
    content, _ = stored("fr")
    claimed = rewritten(content, lambda document: document["config"].update(num_decoder_layers=10**6))
    assert mistakes(page, Exam({"claimed": (claimed, "damaged")})) == []


def test_a_model_that_the_page_cannot_run_is_refused_in_words(page: Page) -> None:
    content, _ = stored("fr")
    gelu = rewritten(content, lambda document: document["config"].update(activation="gelu"))
    assert mistakes(page, Exam({"gelu": (gelu, "other")})) == []


def test_errors_of_files_are_sentences_for_readers(page: Page, tmp_path: Path) -> None:
    files = damaged_files(small_translator("as in the lesson", tmp_path)[0].read_bytes())
    said = sit(page, Exam(files))["messages"]
    wanted = {"damaged": "is damaged. Load it again.", "newer": "newer version", "other": "not the file"}
    assert set(said) == set(files)
    for name, (_, kind) in files.items():
        assert wanted[kind] in said[name] and said[name].endswith(".")


def test_a_small_translator_is_read_from_a_part_of_a_larger_buffer(page: Page, tmp_path: Path) -> None:
    """A notebook sends the file as a view of a message, which need not begin at 0."""
    path, _ = small_translator("as in the lesson", tmp_path)
    language = page.evaluate(
        """async ([module, file]) => {
          const address = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
          const { readTranslator } = await import(address);
          const whole = new Uint8Array(file.length + 3);
          whole.set(file, 3);
          return readTranslator(new Uint8Array(whole.buffer, 3)).language;
        }""",
        [f"{engine_source()}\nexport {{ readTranslator }};", list(path.read_bytes())],
    )
    assert language == "small"


def test_the_benchmark_translates_in_the_browser() -> None:
    sources = [pair.source for pair in held_out("fr")[:3]]
    # A thread holds one Playwright at most, and other tests keep theirs open.
    with ThreadPoolExecutor(max_workers=1) as pool:
        times, loading, megabytes = pool.submit(in_the_browser, "fr", sources).result()
    assert len(times) == 3 and min(times) > 0 and loading > 0
    # The weights alone take one megabyte; what a page holds besides does not depend on the machine.
    assert 0.9 < megabytes <= 10
