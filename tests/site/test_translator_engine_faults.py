"""Deliberate faults in the live translator's engine: the examination of the engine finds every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page

from tests.site.engine_exam import Exam, engine_source, mistakes, rewritten
from tests.site.engine_models import small_exam, small_translator

pytestmark = pytest.mark.browser

#: By what goes wrong: the line or a part of it, what stands there instead, and the model that shows it.
FAULTS = {
    # Single operations
    "a product of the wrong column": ("weight[k + 3] * x[i + 3]", "weight[k + 3] * x[i + 2]"),
    "a sum that is left out": ("y[row] = s0 + s1 + (s2 + s3);", "y[row] = s0 + s1 + s2;"),
    "columns behind the last four": ("s0 += weight[k] * x[i];\n    y[row]", "s0 += 0;\n    y[row]"),
    "no bias": ("bias ? bias[row] : 0", "0"),
    "a norm that does not centre": ("(value - mean) * scale", "value * scale"),
    "a norm by the unbiased variance": ("** 2 / x.length", "** 2 / (x.length - 1)"),
    "another epsilon": ("1e-5", "1e-3"),
    "a norm without its bias": (" * norm.weight[i] + norm.bias[i]", " * norm.weight[i]"),
    "a softmax that is not divided": ("(weight) => weight / sum", "(weight) => weight"),
    "a residual that is lost": ("addVectors(x, sublayer(before))", "sublayer(before)"),
    "no ReLU": ("if (inner[i] < 0) inner[i] = 0;", ";"),
    # Embeddings and positions
    "angles of every dimension": ("-(i - (i % 2)) / width", "-i / width"),
    "sine and cosine exchanged": ("i % 2 ? Math.cos", "i % 2 === 0 ? Math.cos"),
    "embeddings that are not scaled": ("value * Math.sqrt(width)", "value"),
    "the next position": ("learned ?? sinusoid(position, width)", "learned ?? sinusoid(position + 1, width)"),
    "learned positions ignored": ("learned ?? sinusoid", "sinusoid", "learned positions"),
    "positions where there are none": ('positions === "none" ||', "", "no positions"),
    "a target that stays at the first place": (
        "this.ids[position], position, this",
        "this.ids[position], 0, this",
    ),
    # Attention
    "scores scaled by the whole width": ("1 / Math.sqrt(size)", "1 / Math.sqrt(width)"),
    "a head that is too narrow": ("(head + 1) * size", "(head + 1) * size - 1"),
    "values of the wrong token": (
        "[weights[head][j], memory.values[j]]",
        "[weights[head][j], memory.values[0]]",
    ),
    "keys in the place of values": ("applyLinear(attention.w_v, x)", "applyLinear(attention.w_k, x)"),
    "the source of the first layer": ("this.sources[number]", "this.sources[0]"),
    "no output projection": (
        "applyLinear(attention.w_o, Float32Array.from(mixed))",
        "Float32Array.from(mixed)",
    ),
    "encoder weights transposed": (
        "flat.set(row, i * row.length)",
        "row.forEach((w, j) => (flat[j * row.length + i] = w))",
    ),
    # The order of the layers
    "the norm behind taken for the one before": (
        '=== "pre" ? sum :',
        '=== "pre" || true ? sum :',
        "the norm behind",
    ),
    "no norm at the encoder's end": ("rows.map((x) => applyNorm(this.weights.encoderNorm, x))", "rows"),
    "no norm at the decoder's end": ("applyNorm(this.weights.decoderNorm, x));\n    if", "x);\n    if"),
    "padding that can be written": ("if (!output) logits[this.config.pad] = 0;", ""),
    "an output that is tied after all": (
        "output ?? target.embedding",
        "target.embedding",
        "an output of its own",
    ),
    # What is kept, and what is taken away
    "values that are not kept": (
        "cache.values.push(...added.values)",
        "cache.values.unshift(...added.values)",
    ),
    "a token that is pushed unread": ("this.next(); // its", "// its", "as in the lesson"),
    "a likeliest next token that is out of date": (
        "this.ids.push(id);\n    this.latest = null;",
        "this.ids.push(id);",
    ),
    "beams that share what they keep": ("keys: [...keys], values: [...values]", "keys, values"),
    "a head that stays": ("if (removed(head)) continue;", ""),
    "a head taken away everywhere": ("head.where === where && ", ""),
    "a head taken away in every layer": (" && head.layer === layer", ""),
    "cross-attention that stays": ('where === "cross" && noSource ? output.fill(0) : output', "output"),
    "positions that stay": (" || ablation.positions === false", ""),
    "a scale that stays": ("ablation.scale === false ? 1 : ", ""),
    "a causal mask that stays": ("this.ablation.causal === false ?", "false ?"),
    "a training without a mask forgotten": (
        "{ causal: this.about.causal_mask ?? true, ...ablation }",
        "ablation",
        "trained without a mask",
    ),
    "a begin that can be written": ("= allowed[this.model.config.bos] = -Infinity", "= -Infinity"),
    # engine_search.js
    "the last of equal tokens": (
        "numbers[places[at - 1]] < numbers[place]",
        "numbers[places[at - 1]] > numbers[place]",
    ),
    "an end that is passed by": (
        "ids.length < maxLength && ids.at(-1) !== model.config.eos",
        "ids.length < maxLength",
    ),
    "a length that is not kept to": ("ids.length < maxLength && ids", "ids.length < 99 && ids"),
    "no length penalty": ("beam.sum / beam.ids.length ** lengthPenalty", "beam.sum"),
    "a beam that stops at the first end": ("done.length < size ? -Infinity", "done.length < 1 ? -Infinity"),
    "a beam that never stops early": ("if (running.every((beam) => score(beam) <= worst)) running = [];", ""),
    "probabilities that are not multiplied": (
        "sum + Math.log(probabilities[id])",
        "Math.log(probabilities[id])",
    ),
    "beams that are not sorted": (".sort((one, other) => other.sum - one.sum)", ""),
    "worst first": ("score(other) - score(one)", "score(one) - score(other)"),
    "a finished text that is continued": ("!ended.includes(beam)", "true"),
    "no end mark": ("[...pieces.map(numberOf), END_OF_TEXT]", "pieces.map(numberOf)"),
    "one token too many": (
        "pieces.length >= model.config.max_length",
        "pieces.length > model.config.max_length",
    ),
    "unknown tokens that are not named": ("!model.source.numbers.has(piece)", "false"),
    "unknown tokens read as padding": ("?? UNKNOWN", "?? 0"),
    # engine_text.js
    "capitals that stay": ("this.lowerCase ? foldCase(text) : text", "text"),
    "Roman numbers as signs": (r"[\p{L}\p{Nl}\p{No}]+", r"\p{L}+"),
    "digits that stick together": (r"`\p{Nd}| ?", r"`\p{Nd}+| ?"),
    "a space before a digit lost to it": (r"(?: (?=\p{Nd}))?", ""),
    "JavaScript's white space": (r"|[${SPACES}]`", r"|\s`"),
    "the last pair first": ("rank(i) < (best < 0 ? Infinity : rank(best))", "rank(i) < Infinity"),
    "a second piece that stays": ("if (found) i++;", ""),
    "a space in front that is lost": ('if (word.startsWith(" "))', "if (false)"),
    "a space behind that is lost": ('if (word.endsWith(" "))', "if (false)"),
    "text behind the end": ("end < 0 ? numbers : numbers.slice(0, end)", "numbers"),
    # engine_file.js and engine_weights.js
    "the scale of the first row": ("data[k] * scales[row]", "data[k] * scales[0]"),
    "no digest": ("sha256(blank) === digest", "true"),
    "a digest that is never right": ('"0".charCodeAt(0)', '"1".charCodeAt(0)'),
    "SHA-256 with another turn": ("turn(e, 25)", "turn(e, 24)"),
    "any version": ("document.version > TRANSLATOR_VERSION", "document.version > 9"),
    "any format": ("document.format !== TRANSLATOR_FORMAT", "false"),
    "tensors of any shape": ("!tensor || String(tensor.shape) !== String(shape)", "!tensor"),
    "tensors left over": ("if (tensors.size) throw", "if (false) throw"),
    "vocabularies of any size": (
        "source.tokens.length !== read || target.tokens.length !== written",
        "false",
    ),
    "numbers beyond the end": (" || from + stop > bytes.length", ""),
    "any activation": ('activation: ["relu"],', ""),
    "two tables where there is one": (
        "config.share_embeddings ? embedding : take",
        "false ? embedding : take",
        "one table for both",
    ),
    "a norm at the end by custom alone": (
        "config.final_norm ?? config.norm",
        "config.norm",
        "no norm at the end",
    ),
    "an error that is no sentence": (
        'throw new TranslatorFileError("damaged", `its parts do not fit',
        'throw new Error(`"damaged", its parts do not fit',
    ),
}


@pytest.fixture(scope="module")
def page(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, serve_folder: Callable[[Path], str]
) -> Iterator[Page]:
    """An empty page on the local server, for all faults."""
    folder = tmp_path_factory.mktemp("engine")
    (folder / "index.html").write_text("<!doctype html><title>Engine</title>", encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(serve_folder(folder))
    yield page
    context.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, str]]:
    """Files of a small translator that must be refused, and how."""
    path, _ = small_translator("as in the lesson", tmp_path_factory.mktemp("files"))
    content = path.read_bytes()
    w_q = "stacks.encoder_layers.0.self_attention.w_q.weight"
    beyond = [len(content), len(content) + 100]
    return {
        "flipped": (content[:-9] + bytes([content[-9] ^ 4]) + content[-8:], "damaged"),
        "newer": (rewritten(content, lambda d: d.update(version=2)), "newer"),
        "other": (rewritten(content, lambda d: d.update(format="other")), "other"),
        "gelu": (rewritten(content, lambda d: d["config"].update(activation="gelu")), "other"),
        "token more": (rewritten(content, lambda d: d["target"]["tokens"].append("q")), "damaged"),
        "no tokens": (rewritten(content, lambda d: d["target"].pop("tokens")), "damaged"),
        "fewer layers": (rewritten(content, lambda d: d["config"].update(num_decoder_layers=1)), "damaged"),
        "shape": (rewritten(content, header=lambda h: h[w_q].update(shape=[4, 25])), "damaged"),
        "beyond": (rewritten(content, header=lambda h: h[w_q].update(data_offsets=beyond)), "damaged"),
    }


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_engine_as_it_is_makes_no_mistake(page: Page, files: dict[str, tuple[bytes, str]]) -> None:
    for variant in {"as in the lesson", *(fault[2] for fault in FAULTS.values() if len(fault) > 2)}:
        assert mistakes(page, small_exam(variant)) == []
    assert mistakes(page, Exam(files)) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(page: Page, files: dict[str, tuple[bytes, str]], name: str) -> None:
    right, wrong, *variant = FAULTS[name]
    source = engine_source()
    assert source.count(right) == 1, f"{right}: expected once in the engine"
    faulty = source.replace(right, wrong)
    exam = small_exam(*variant or ["as in the lesson"])
    assert mistakes(page, exam, faulty) or mistakes(page, Exam(files), faulty)
