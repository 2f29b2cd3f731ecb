"""The translators that the website runs: train them, save them, measure what happens without their parts.

``python -m tools.translators --write`` runs lesson 9's own cells once for each language and keeps the file
that the lesson itself writes. For French it trains a second one, whose decoder has no causal mask: it reaches
a loss near zero and translates nothing. Then it takes away each part of each translator and counts the exact
matches that are left among held-out phrases. It takes some five minutes on one core.

Files and figures are stored in ``book/translators``. ``python -m tools.translators`` alone says what is wrong
with them, as ``make check`` does: a file that is missing or is not the one that was measured, a bar that is
missed, or a lesson and a library that have changed since.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.languages import BARS, LESSON, ROOT, cells_for, code_of, loaded_sources
from tools.notebooks import sources
from tools.notebooks.files import read, write

if TYPE_CHECKING:
    from attnlab.export import TrainedTranslator
    from attnlab.tasks import TranslationPair
    from attnlab.transformer import Transformer

FOLDER = "book/translators"
STORE = f"{FOLDER}/effects.json"
LANGUAGES = tuple(BARS)
#: French once more, trained without a causal mask.
NO_MASK = "fr-no-mask"
NAMES = (*LANGUAGES, NO_MASK)
#: Phrases on which the effect of a part is measured; all 1,000 decide whether 8 bits lose anything.
MEASURED = 500
MOST_LOST = 2
TRAIN = "model, history = fit("
SAVE = "save_translator(path"
_AGAIN = "run `python -m tools.translators --write`"


def file_of(name: str, root: Path = ROOT) -> Path:
    """The file of a translator, one of :data:`NAMES`."""
    return root / FOLDER / f"translator-{name}.safetensors"


def run_lesson(language: str, stop: str, root: Path = ROOT, **others: object) -> dict[str, Any]:
    """Run the lesson's cells for a language, up to the one that holds ``stop``; the names that they leave.

    ``others`` replace names once they are imported, such as ``Transformer``.
    """
    names: dict[str, Any] = {"__name__": "lesson"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells_for(language, root):
            exec(compile("\n" * (cell.line - 1) + cell.source, LESSON, "exec"), names)
            names |= {name: value for name, value in others.items() if name in names}
            if stop in cell.source:
                return names
    raise ValueError(f"{LESSON}: expected a cell with {stop}")


def make(name: str, root: Path = ROOT) -> dict[str, Any]:
    """Train one translator, write its file, and measure it: its entry of the store."""
    from attnlab.export import TrainedTranslator, load_translator, save_translator
    from tools.taken_away import WithoutCausalMask

    os.environ["SEED_SHIFT"] = "0"
    path = file_of(name, root)
    if name == NO_MASK:
        names = run_lesson("fr", TRAIN, root, Transformer=WithoutCausalMask)
        about = {"language": "fr", "causal_mask": False}
        trained = TrainedTranslator(names["model"], names["source_side"], names["target_side"], about)
        digest = save_translator(path, trained)
    else:
        names = run_lesson(name, SAVE, root)
        trained = names["trained"]
        digest = save_translator(path, trained)
    translator = load_translator(path)
    held_out = names["held_out"]
    entry: dict[str, Any] = {
        "digest": digest,
        "file": hashlib.sha256(path.read_bytes()).hexdigest(),
        "phrases": MEASURED,
        "loss": round(sum(names["history"].losses[-50:]) / 50, 5),
    }
    if name == NO_MASK:
        model = WithoutCausalMask.like(translator.model)
        return entry | {"exact_match": share_right(translator, held_out[:MEASURED], model)}
    return (
        entry
        | {"right_of_1000": round(1000 * share_right(translator, held_out))}
        | {"right_with_32_bits": round(1000 * share_right(trained, held_out))}
        | {"exact_match": share_right(translator, held_out[:MEASURED])}
        | {"effects": effects(translator, held_out[:MEASURED])}
    )


def share_right(
    translator: TrainedTranslator, pairs: Sequence[TranslationPair], model: Transformer | None = None
) -> float:
    """The share of exact matches by greedy search, with another model in the translator's place if given."""
    from dataclasses import replace

    translator = translator if model is None else replace(translator, model=model)
    answers = translator.translate([pair.source for pair in pairs])
    return sum(answer == pair.target for answer, pair in zip(answers, pairs, strict=True)) / len(pairs)


def effects(translator: TrainedTranslator, pairs: Sequence[TranslationPair]) -> dict[str, Any]:
    """The share of exact matches without each part: heads by ``[where][layer][head]``, and the others."""
    from tools.taken_away import single_parts, taken_away

    shares = {
        name: share_right(translator, pairs, taken_away(translator.model, part))
        for name, part in single_parts(translator.model.config).items()
    }
    config = translator.model.config
    counts = {"encoder": config.num_encoder_layers, "self": config.num_decoder_layers}
    counts["cross"] = config.num_decoder_layers
    heads = {
        where: [
            [shares[f"{where} {layer} {head}"] for head in range(config.num_heads)] for layer in range(count)
        ]
        for where, count in counts.items()
    }
    layers = [shares[f"cross {layer}"] for layer in range(config.num_decoder_layers)]
    switches = {name: shares[name] for name in ("positions", "scale", "causal")}
    return {"heads": heads, "crossLayers": layers, **switches}


def store(entries: dict[str, Any], root: Path = ROOT) -> None:
    """Write the entries of all translators, made in this process, with what they depend on."""
    content = {
        "code": code_of(root),
        "date": date.today().isoformat(),
        "sources": sources.moving(sources.hashes(root, loaded_sources(root))),
        "torch": version("torch"),
        "translators": entries,
    }
    write(root / STORE, json.dumps(content, indent=1) + "\n")


def stored(root: Path = ROOT) -> dict[str, Any]:
    """What :func:`store` wrote; empty where nothing was."""
    path = root / STORE
    return json.loads(read(path)) if path.exists() else {}


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the stored translators. Runs nothing, and needs no torch."""
    if not (root / LESSON).exists():
        return
    content = stored(root)
    for name in NAMES:
        yield from _problems_of(name, content.get("translators", {}).get(name, {}), root)
    for what in sources.outdated(root, content, LESSON, code_of(root)) if content else ():
        yield f"{STORE}:1: {what}; {_AGAIN}"


def _problems_of(name: str, entry: dict[str, Any], root: Path) -> Iterator[str]:
    path = file_of(name, root)
    if not entry or not path.exists():
        yield f"{STORE}:1: there is no translator {name}, or it was not measured; {_AGAIN}"
        return
    if hashlib.sha256(path.read_bytes()).hexdigest() != entry["file"]:
        yield f"{STORE}:1: {path.name} is not the file that was measured; {_AGAIN}"
    if name == NO_MASK:
        if entry["loss"] > 0.02 or entry["exact_match"] > 0.02:
            yield f"{STORE}:1: {name} should learn its task and translate nothing, got {entry}"
        return
    if entry["exact_match"] < BARS[name]:
        yield f"{STORE}:1: {name} reaches {entry['exact_match']}, the bar is {BARS[name]}"
    if abs(entry["right_with_32_bits"] - entry["right_of_1000"]) > MOST_LOST:
        yield f"{STORE}:1: {name} gets {entry['right_of_1000']} right, {entry['right_with_32_bits']} in full"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Make and store all translators, or say what is wrong with those that are stored."""
    parser = argparse.ArgumentParser(prog="python -m tools.translators", description=__doc__)
    parser.add_argument("--write", action="store_true", help="train, save, measure and store all of them")
    if parser.parse_args(argv).write:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        entries = {}
        for name in NAMES:
            entries[name] = make(name, root)
            print(f"{name:11} exact match {entries[name]['exact_match']:.3f}", flush=True)
        store(entries, root)
    found = list(problems(root))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
