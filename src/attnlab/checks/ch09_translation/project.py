"""The mini-project of lesson 9: a saved translator, judged by what it makes of phrases that nobody has seen.

The learner hands in the *bytes of the file*, not a function: the check loads the model itself, so that what
translates is a model of bounded size and not a program that looks the answer up. Phrases are drawn anew at
each check, from those that the exercise reserves for it (see ``reserved``).

One line of the answer cannot be checked, the CPU seconds that the training took: they are the learner's word.
"""

from __future__ import annotations

import functools
import os
import random
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnlab.tasks import KINDS, LANGUAGES
from attnlab.tasks.phrases import PHRASES

from ..tasks import Mistake, Task
from ..verdict import Failed, NothingYet
from .modelfile import load_model

PHRASES_JUDGED = 200
MOST_BYTES = 400_000
CPU_SECONDS = 60
SPOKEN = ("en", *LANGUAGES)
PARTS = ("pair", "model", "CPU seconds")
_ONE_IN = 10  # phrases are reserved

Pair = tuple[str, str]


@dataclass(frozen=True)
class Phrase:
    """One phrase to judge with: how it is written in both languages, and of which kind it is."""

    source: str
    target: str
    kind: str


def reserved(english: str) -> bool:
    """Whether a phrase is kept for the judge, decided by its English words: about one in ten is."""
    return zlib.crc32(english.casefold().encode()) % _ONE_IN == 0


@functools.lru_cache(maxsize=8)
def phrases(pair: Pair, seed: int) -> tuple[Phrase, ...]:
    """Reserved phrases of all kinds, as many of each; as ``translation_pairs`` draws them, but not twice.

    They are written in the other languages only when it is known that they are reserved, which is quicker.
    """
    source, target = pair
    rng = random.Random(seed)
    found: list[Phrase] = []
    for kind in KINDS:
        draw, write = PHRASES[kind]
        seen: set[Hashable] = set()
        while len(seen) < PHRASES_JUDGED // len(KINDS):
            value = draw(rng)
            if value not in seen and reserved(write(value, "en").text):
                seen.add(value)
                found.append(Phrase(write(value, source).text, write(value, target).text, kind))
    return tuple(found)


Translate = Callable[[Sequence[Phrase]], list[str]]


class Example:
    """A translator without a model, for the tests of the check: right but for one planted fault."""

    def __init__(self, pair: Pair = ("en", "es"), fault: str = "") -> None:
        self.pair, self.fault = pair, fault
        self.seconds = 900.0 if fault == "over_budget" else 40.0

    def __call__(self, asked: Sequence[Phrase]) -> list[str]:
        return [SPOILT[self.fault](phrase) if self.fault in SPOILT else phrase.target for phrase in asked]


#: What each fault makes of a phrase.
SPOILT: Mapping[str, Callable[[Phrase], str]] = {
    "number_words": lambda phrase: "" if phrase.kind == "number_words" else phrase.target,
    "lower_case": lambda phrase: phrase.target.casefold(),
    "spaces_lost": lambda phrase: "".join(phrase.target.split()),
    "end_lost": lambda phrase: phrase.target + phrase.target[-1:] * 3,
    "source_repeated": lambda phrase: phrase.source,
    "nothing_learnt": lambda phrase: "",
}


class HandedIn:
    """What was handed in: a language pair, a way to translate, and how long it says that it took."""

    def __init__(self, pair: Pair, translate: Translate, seconds: float) -> None:
        self.pair, self.seconds, self._translate = pair, seconds, translate
        self._seen: dict[int, tuple[str, ...]] = {}

    def translations(self, seed: int) -> tuple[str, ...]:
        """The translations of the phrases of a seed; all cases ask for the same ones."""
        if seed not in self._seen:
            self._seen[seed] = tuple(self._translate(phrases(self.pair, seed)))
        return self._seen[seed]

    def share(self, seed: int) -> float:
        """The share of phrases that are right in every character."""
        wanted = [phrase.target for phrase in phrases(self.pair, seed)]
        return sum(map(str.__eq__, self.translations(seed), wanted)) / len(wanted)


class ProjectTask(Task):
    """The answer is a dict: a language pair, the bytes of a saved translator (or its path), and a time."""

    def __init__(self, task_id: str, title: str, *, mistakes: Sequence[Mistake]) -> None:
        super().__init__(task_id, title, kind="measure", mistakes=mistakes)
        self._last: tuple[object, HandedIn] | None = None

    def adapt(self, answer: object) -> HandedIn:
        if self._last is None or self._last[0] is not answer:
            self._last = (answer, self._opened(answer))
        return self._last[1]

    def _opened(self, answer: object) -> HandedIn:
        if type(answer) is Example:
            return HandedIn(answer.pair, answer, answer.seconds)
        if callable(answer):
            raise NothingYet("hand in what hand_in(...) returns, a dict")
        if type(answer) is not dict or not set(PARTS) <= answer.keys():
            raise Failed(f"a dict with {', '.join(map(repr, PARTS))} is wanted, as hand_in(...) makes it")
        pair, seconds = _pair(answer["pair"]), _seconds(answer["CPU seconds"])
        model = load_model(_content(answer["model"]))

        def translate(asked: Sequence[Phrase]) -> list[str]:
            return model([phrase.source for phrase in asked], [phrase.target for phrase in asked])

        return HandedIn(pair, translate, seconds)

    def right(self) -> object:
        return Example()

    def answer_with(self, *mistakes: Mistake) -> object:
        # German, since it has capitals to lose.
        return Example(("en", "de"), mistakes[0].key)

    def diagnose(self, answer: HandedIn, generator: Callable[[], torch.Generator]) -> tuple[Mistake, ...]:
        """The mistake whose translations these are, but for one in five: a model is never quite one thing."""
        seed = _seed(generator())
        asked, given = phrases(answer.pair, seed), answer.translations(seed)
        for mistake in self.mistakes:
            if mistake.key in SPOILT:
                expected = [SPOILT[mistake.key](phrase) for phrase in asked]
                changed = [i for i, phrase in enumerate(asked) if expected[i] != phrase.target]
                if mistake.key == "number_words":  # that kind alone fails, in whatever way
                    right = [given[i] == phrase.target for i, phrase in enumerate(asked)]
                    others = [right[i] for i in range(len(asked)) if i not in changed]
                    if not _mostly(right[i] for i in changed) and _mostly(others):
                        return (mistake,)
                elif mistake.key == "end_lost":  # a model goes on with whatever it likes
                    longer = [len(given[i]) > len(phrase.target) for i, phrase in enumerate(asked)]
                    begun = [given[i].startswith(phrase.target) for i, phrase in enumerate(asked)]
                    if _mostly(map(bool.__and__, longer, begun)):
                        return (mistake,)
                elif _mostly(given[i] == expected[i] for i in changed):
                    return (mistake,)
            elif mistake.key == "over_budget" and answer.seconds > CPU_SECONDS:
                return (mistake,)
        return ()


def _mostly(found: Any) -> bool:
    results = list(found)
    return bool(results) and sum(results) >= 0.8 * len(results)


def _pair(pair: Any) -> Pair:
    if type(pair) not in (tuple, list) or len(pair) != 2 or any(type(side) is not str for side in pair):
        raise Failed("'pair' should hold two languages, the one to read and the one to write")
    if pair[0] == pair[1] or pair[0] not in SPOKEN or pair[1] not in SPOKEN:
        raise Failed(f"'pair' should hold two different ones of {', '.join(SPOKEN)}")
    return pair[0], pair[1]


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:  # type: ignore[operator]
        raise Failed("'CPU seconds' should be a number of seconds, as hand_in(...) measures it")
    return float(value)  # type: ignore[arg-type]


def _content(model: object) -> bytes:
    """The file, from its bytes or from its path."""
    if isinstance(model, str | os.PathLike):
        if not os.path.isfile(model):
            raise Failed("there is no file at the path under 'model'")
        if os.path.getsize(model) > MOST_BYTES:
            raise Failed(_TOO_LARGE)
        with open(model, "rb") as file:
            model = file.read()
    if type(model) is not bytes:
        raise Failed("'model' should be the bytes of the file that save_translator wrote")
    if len(model) > MOST_BYTES:
        raise Failed(_TOO_LARGE)
    return model


_TOO_LARGE = f"the file is larger than {MOST_BYTES // 1000} kB"


def _seed(g: torch.Generator) -> int:
    return int(torch.randint(2**31, (), generator=g))


MISTAKES = (
    Mistake(
        "number_words",
        "Number words fail, and all else is right. Look at some of them in the language that you write: "
        "how many of these words has the vocabulary seen? (The lesson met this in German.)",
        {"fault": "number_words"},
    ),
    Mistake(
        "lower_case",
        "The translations are right but for capitals. Which of the two sides may be put into lower case?",
        {"fault": "lower_case"},
    ),
    Mistake(
        "spaces_lost",
        "The translations are right but for their spaces. The tokens of the lesson carry theirs with them.",
        {"fault": "spaces_lost"},
    ),
    Mistake(
        "end_lost",
        "The translations are right and then go on. Does the loss ask for the end, and is its number "
        "another than that of padding?",
        {"fault": "end_lost"},
    ),
    Mistake(
        "source_repeated",
        "The model gives the source back. Do the rows that it was trained on hold the source twice?",
        {"fault": "source_repeated"},
    ),
    Mistake(
        "nothing_learnt",
        "The model ends every text at once. Look at its loss while it trains: does it fall at all?",
        {"fault": "nothing_learnt"},
    ),
    Mistake(
        "over_budget",
        "By your own clock the training took longer than the budget allows. What takes the time: the "
        "size of the model, the number of steps, or padding?",
        {"fault": "over_budget"},
    ),
)


def _at_least(level: float) -> Callable[[HandedIn, torch.Generator], None]:
    """A case: the share of right phrases, or one standard error of such a share less, is that high."""
    luck = (level * (1 - level) / PHRASES_JUDGED) ** 0.5

    def run(answer: HandedIn, g: torch.Generator) -> None:
        seed = _seed(g)
        share = answer.share(seed)
        if share < level - luck:
            raise Failed(f"{share:.3f} of the phrases are right; {_worst(answer, seed)}")

    return run


def _worst(answer: HandedIn, seed: int) -> str:
    asked, given = phrases(answer.pair, seed), answer.translations(seed)
    right = {
        kind: sum(
            phrase.target == text for phrase, text in zip(asked, given, strict=True) if phrase.kind == kind
        )
        for kind in KINDS
    }
    kind = min(right, key=lambda kind: right[kind])
    return f"fewest of the kind {kind}: {right[kind]} of {sum(phrase.kind == kind for phrase in asked)}"


def define_project() -> ProjectTask:
    """The task with its cases; called once, when the tasks before it have been defined."""
    task = ProjectTask("translation.project", "Mini-project: a translator of your own", mistakes=MISTAKES)

    @task.case("a translator of at most 400 kB that loads and translates", 1)
    def _(answer: HandedIn, g: torch.Generator) -> None:
        answer.translations(_seed(g))

    for level, points in ((0.80, 2), (0.90, 1), (0.95, 1), (0.98, 1)):
        task.case(f"exact match of {level:.2f} on phrases it has never seen", points)(_at_least(level))

    @task.case("trained within 60 CPU-seconds, by your own clock", 1)
    def _(answer: HandedIn, g: torch.Generator) -> None:
        if answer.seconds > CPU_SECONDS:
            raise Failed("the training took longer, by your own clock")

    return task
