"""An examination of the live translator's engine: what the browser is asked, and what PyTorch answers.

One examination holds files to read, texts to cut, sentences whose every number is compared, and sentences to
translate. The tests sit it with the engine as it is and with deliberate faults in it: what cannot tell these
apart is no test.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Error, Page
from torch import Tensor

from attnlab.export import TrainedTranslator
from attnlab.tasks import EOS, UNK
from attnlab.transformer import Transformer, beam_search, greedy_decode
from tools.taken_away import WithoutCausalMask, taken_away

FOLDER = Path(__file__).resolve().parents[2] / "src" / "attnlab" / "widgets" / "translator_explorer"
TOLERANCE = 2e-5
SHOWN = 5  # mistakes: one is enough to know
PARTS = ("numbers", "greedy", "beam", "cut", "tokenise", "decode")

#: What the browser does with an examination. Numbers come back as the bytes of a Float32Array.
HARNESS = """
export function sit(exam) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const text = (numbers) => {
    const raw = new Uint8Array(Float32Array.from(numbers).buffer);
    let letters = "";
    for (let at = 0; at < raw.length; at += 8192)
      letters += String.fromCharCode(...raw.subarray(at, at + 8192));
    return btoa(letters);
  };
  const models = (globalThis.models ??= {});
  const messages = {};
  const open = ([name, file]) => {
    try {
      models[name] = readTranslator(bytes(file));
      return [name, "read"];
    } catch (error) {
      messages[name] = error.message;
      return [name, error instanceof TranslatorFileError ? error.kind : String(error)];
    }
  };
  const numbers = ({ model, ids, target, ablation }) => {
    const encoded = models[model].encode(ids, ablation);
    const state = models[model].start(encoded, ablation);
    const found = encoded.attention.flat().flatMap((weights) => [...weights]);
    target.forEach((id, place) => {
      if (place) state.push(id);
      const { logits, self, cross } = state.next();
      found.push(...logits, ...[...self.flat(), ...cross.flat()].flatMap((weights) => [...weights]));
    });
    const unseen = models[model].start(encoded, ablation);
    target.slice(1).forEach((id) => unseen.push(id));
    return text([...found, ...unseen.next().logits]);
  };
  const greedy = ({ model, text: source, options }) => {
    const { ids, text: written, steps } = models[model].greedy(source, options);
    const top = steps.map((step) => step.top);
    const counts = (part) => part.map((heads) => heads.map((weights) => weights.length));
    const looked = steps.map(({ self, cross }) => [self, cross].map(counts));
    return { ids, text: written, top, looked };
  };
  const beam = ({ model, text: source, options }) => models[model].beam(source, options).candidates;
  const cut = ({ model, side, text: whole }) => models[model][side].cut(whole);
  const decode = ({ model, ids }) => models[model].detokenise(ids);
  const tokenise = ({ model, text: whole }) => {
    const { tokens, ids, unknown, tooLong } = models[model].tokenise(whole);
    return { tokens, ids: [...ids], unknown, tooLong };
  };
  const answers = { messages, files: Object.fromEntries(Object.entries(exam.files).map(open)) };
  for (const [part, answer] of Object.entries({ numbers, greedy, beam, cut, tokenise, decode }))
    answers[part] = exam[part].map(answer);
  return answers;
}
"""


def engine_source() -> str:
    """The engine's modules, joined as the widget's module has them."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("engine*.js")))


@dataclass
class Exam:
    """Questions by their part, and for each what PyTorch answers."""

    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    questions: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {part: [] for part in PARTS})
    answers: dict[str, list[Any]] = field(default_factory=lambda: {part: [] for part in PARTS})

    def ask(self, part: str, answer: Any, **question: Any) -> None:
        self.questions[part].append(question)
        self.answers[part].append(answer)


def model_of(translator: TrainedTranslator, ablation: Mapping[str, Any]) -> Transformer:
    """The model that answers: with parts taken away, and without a causal mask if it was trained so."""
    causal = translator.about.get("causal_mask", True)
    return taken_away(translator.model, {"causal": causal} | dict(ablation))


@torch.no_grad()
def all_numbers(model: Transformer, source: Tensor, target: Tensor) -> np.ndarray:
    """Encoder attention, then for each target token its logits and what it looked at, all in one row."""
    encoded = model.encode(source, need_weights=True)
    assert encoded.weights is not None
    parts = [weights[0].flatten() for weights in encoded.weights]
    whole = None
    if not isinstance(model, WithoutCausalMask):
        whole = model.decode(target, encoded.memory, encoded.mask, need_weights=True)
    for place in range(target.shape[1]):
        decoded = whole or model.decode(
            target[:, : place + 1], encoded.memory, encoded.mask, need_weights=True
        )
        assert decoded.self_weights is not None and decoded.cross_weights is not None
        parts.append(decoded.logits[0, place])
        parts += [weights[0, :, place, : place + 1].flatten() for weights in decoded.self_weights]
        parts += [weights[0, :, place].flatten() for weights in decoded.cross_weights]
    parts.append(decoded.logits[0, -1])  # once more, asked for without looking at those before
    return torch.cat(parts).numpy()


def ask_numbers(
    exam: Exam, name: str, translator: TrainedTranslator, source: str, target: str, **ablation: Any
) -> None:
    """Every number of a sentence and its given translation."""
    ids = translator.source_rows([source])  # (1, S)
    begun = torch.tensor([[translator.model.config.bos, *translator.target.encode(target)]])  # (1, T)
    answer = all_numbers(model_of(translator, ablation), ids, begun)
    question = {"model": name, "ids": ids[0].tolist(), "target": begun[0].tolist(), "ablation": ablation}
    exam.ask("numbers", answer, **question)


def ask_greedy(
    exam: Exam,
    name: str,
    translator: TrainedTranslator,
    sources: list[str],
    max_length: int | None = None,
    **ablation: Any,
) -> None:
    """Greedy search of some sentences."""
    model = model_of(translator, ablation)
    longest = max_length or model.config.max_length
    rows = greedy_decode(model, translator.source_rows(sources), max_length=longest)
    options = {"ablation": ablation} | ({"maxLength": max_length} if max_length else {})
    for source, row in zip(sources, rows.tolist(), strict=True):
        exam.ask("greedy", _written(translator, row), model=name, text=source, options=options)


def ask_beam(
    exam: Exam,
    name: str,
    translator: TrainedTranslator,
    sources: list[str],
    size: int = 4,
    penalty: float = 0.0,
    max_length: int | None = None,
    **ablation: Any,
) -> None:
    """Beam search of some sentences: every candidate with its score."""
    model = model_of(translator, ablation)
    longest = max_length or model.config.max_length
    result = beam_search(
        model,
        translator.source_rows(sources),
        beam_size=size,
        max_length=longest,
        length_penalty=penalty,
    )
    options = {"ablation": ablation, "size": size, "lengthPenalty": penalty}
    options |= {"maxLength": max_length} if max_length else {}
    for source, rows, scores, finished in zip(sources, *map(Tensor.tolist, result), strict=True):
        answer = [
            _written(translator, row) | {"score": score, "finished": ended}
            for row, score, ended in zip(rows, scores, finished, strict=True)
            if score > -np.inf
        ]
        exam.ask("beam", answer, model=name, text=source, options=options)


def _written(translator: TrainedTranslator, row: list[int]) -> dict[str, Any]:
    ids = [number for number in row if number != translator.model.config.pad]
    return {"ids": ids, "text": translator.target.decode(ids)}


def ask_text(exam: Exam, name: str, translator: TrainedTranslator, texts: list[str]) -> None:
    """How texts are cut on both sides, and what the model reads of them."""
    for text in texts:
        for side in ("source", "target"):
            exam.ask("cut", getattr(translator, side).cut(text), model=name, side=side, text=text)
        pieces = translator.source.cut(text)
        numbers = translator.source.encode(text)
        unknown = dict.fromkeys(piece for piece, number in zip(pieces, numbers, strict=True) if number == UNK)
        answer = {
            "tokens": [*pieces, translator.source.vocabulary.tokens[EOS]],
            "ids": [*numbers, EOS],
            "unknown": list(unknown),
            "tooLong": len(numbers) + 1 > translator.model.config.max_length,
        }
        exam.ask("tokenise", answer, model=name, text=text)


def sit(page: Page, exam: Exam, source: str | None = None) -> dict[str, Any]:
    """What the engine, or a faulty one, answers in the browser; models that it has read stay on the page."""
    module = (engine_source() if source is None else source) + HARNESS
    questions = {
        "files": {name: base64.b64encode(content).decode() for name, (content, _) in exam.files.items()}
    } | exam.questions
    # As text: Playwright takes long over many small values.
    answers: dict[str, Any] = json.loads(
        page.evaluate(
            """async ([module, exam]) => {
              const address = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
              try {
                return JSON.stringify((await import(address)).sit(JSON.parse(exam)));
              } finally {
                URL.revokeObjectURL(address);
              }
            }""",
            [module, json.dumps(questions)],
        )
    )
    return answers


def mistakes(page: Page, exam: Exam, source: str | None = None) -> list[str]:
    """Where the engine's answers are not PyTorch's, the first few; an exception is a mistake too."""
    try:
        given = sit(page, exam, source)
    except Error as error:
        return [str(error).splitlines()[0]]
    found = [
        f"file {name}: {given['files'][name]}, expected {kind}"
        for name, (_, kind) in exam.files.items()
        if given["files"][name] != kind
    ]
    for part, compare in COMPARE.items():
        for question, expected, answer in zip(
            exam.questions[part], exam.answers[part], given[part], strict=True
        ):
            if wrong := compare(expected, answer):
                found.append(f"{part} {question}: {wrong}")
    return found[:SHOWN]


def _compare_numbers(expected: np.ndarray, answer: str) -> str:
    numbers = np.frombuffer(base64.b64decode(answer), "<f4")
    if numbers.shape != expected.shape:
        return f"{numbers.shape} numbers, expected {expected.shape}"
    worst = float(np.abs(numbers - expected).max())
    return "" if worst <= TOLERANCE else f"off by {worst}"


def _compare_greedy(expected: dict[str, Any], answer: dict[str, Any]) -> str:
    if [answer["ids"], answer["text"]] != [expected["ids"], expected["text"]]:
        return f"{answer['text']!r}, expected {expected['text']!r}"
    for place, (top, (own, cross)) in enumerate(zip(answer["top"], answer["looked"], strict=True)):
        shares = [share for _, share in top]
        likeliest = top[0][0] == answer["ids"][place] and shares == sorted(shares, reverse=True)
        if len(top) != 5 or not likeliest or not 0 < sum(shares) <= 1 + 1e-6:
            return f"step {place}: the likeliest are {top}"
        if {n for heads in own for n in heads} != {place + 1} or len({n for h in cross for n in h}) != 1:
            return f"step {place}: it looked at {own} and {cross} tokens"
    return ""


def _compare_beam(expected: list[dict[str, Any]], answer: list[dict[str, Any]]) -> str:
    scores = [candidate.pop("score") for candidate in answer]
    wanted = [{key: c[key] for key in ("ids", "text", "finished")} for c in expected]
    off = max((abs(score - c["score"]) for score, c in zip(scores, expected, strict=False)), default=0.0)
    # A score is a sum of logarithms, one for each token, and each may be off by what a logit may be.
    return "" if answer == wanted and off <= 20 * TOLERANCE else f"{answer} off by {off}, expected {wanted}"


def _compare_plainly(expected: Any, answer: Any) -> str:
    return "" if answer == expected else f"{answer}, expected {expected}"


COMPARE: dict[str, Callable[[Any, Any], str]] = {
    "numbers": _compare_numbers,
    "greedy": _compare_greedy,
    "beam": _compare_beam,
    "cut": _compare_plainly,
    "tokenise": _compare_plainly,
    "decode": _compare_plainly,
}


def rewritten(
    content: bytes,
    document: Callable[[dict[str, Any]], Any] = lambda document: None,
    header: Callable[[dict[str, Any]], Any] = lambda header: None,
) -> bytes:
    """A translator's file whose document and header were changed in place, with the digest that then fits."""
    size = int.from_bytes(content[:8], "little")
    table, numbers = json.loads(content[8 : 8 + size]), content[8 + size :]
    inner = json.loads(table["__metadata__"]["attnlab"])
    document(inner)
    inner["sha256"] = "0" * 64
    table["__metadata__"]["attnlab"] = json.dumps(inner, ensure_ascii=False)
    header(table)
    text = json.dumps(table).encode()
    blank = len(text).to_bytes(8, "little") + text + numbers
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


def with_about(translator: TrainedTranslator, **about: Any) -> TrainedTranslator:
    """The same translator with something else said about it."""
    return dataclasses.replace(translator, about=about)
