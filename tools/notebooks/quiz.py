"""Quizzes: from the form that authors write to one that works without a script, and back.

A quiz is a text cell of a lesson that begins with ``## Quiz`` and then holds questions::

    1. Which axis does the softmax of attention run along?

       - [ ] the queries :: Then each key would share itself out. A query has one whole to share out.
       - [x] the keys :: Each query's row sums to one.

In the notebook each option is a fold: ``<details>`` with the option as its summary and the explanation
inside. The website's script makes radio buttons of the same folds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import inline
from .citations import find as citations_in
from .manuscript import Cell, Manuscript
from .markdown import LINK, MATH, TICKS, mask, prose_only

HEADING = "## Quiz"
ADVICE = "*Decide first, then open the option that you chose: it says whether it is right, and why.*"
QUESTIONS = 5
OPTIONS = range(3, 6)
VERDICT = {True: "**Right.**", False: "**Wrong.**"}

_QUESTION = re.compile(r"(?P<number>\d+)\.(?P<text>(?: .*)?)")
_OPTION = re.compile(r"(?P<indent> *)- \[(?P<mark>[ xX])\](?P<text>.*)")
_BETWEEN = re.compile(r"(?:^|(?<=\s))::(?=\s|$)")
_FOLD = re.compile(
    r"<details><summary>(?P<text>[^\0]*?)</summary>\n\n(?P<verdict>\*\*\w+\.\*\*)\s(?P<why>[^\0]*?)\n\n</details>\n?"
)
_SHOWN_QUESTION = re.compile(r"^\*\*(?P<number>\d+)\.\*\* +", re.M)


@dataclass
class Option:
    """An option of a question; ``line`` is its place in the cell, counted from 0."""

    right: bool
    text: str
    why: str
    line: int


@dataclass
class Question:
    """A question: its text, which may be several paragraphs or hold code, and its options."""

    number: int
    text: str
    line: int
    options: list[Option] = field(default_factory=list)


def is_source(text: str) -> bool:
    """Return whether a cell's text is a quiz in the form that authors write."""
    lines = text.split("\n")
    return lines[0].strip() == HEADING and not is_shown(text) and any(map(_QUESTION.fullmatch, lines))


def is_shown(text: str) -> bool:
    """Return whether a cell's text is a quiz in the form that readers see."""
    return text.startswith(f"{HEADING}\n\n{ADVICE}\n")


def parse(text: str) -> tuple[list[Question], list[tuple[int, str]]]:
    """Read a quiz; also return what does not belong in one, as (line counted from 0, complaint)."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n")[1:], 1):
        reader.take(number, line)
    for question in reader.questions:
        question.text = _dedented(question.text)
        for option in question.options:
            option.text, option.why = _halves(option.text)
    return reader.questions, reader.wrong


class _Reader:
    """Takes a quiz line by line."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.wrong: list[tuple[int, str]] = []
        self.fence = False

    def take(self, number: int, line: str) -> None:
        """Take the next line: a question begins, an option begins, or one of them goes on."""
        option = None if self.fence else _OPTION.fullmatch(line)
        question = None if self.fence else _QUESTION.fullmatch(line)
        last = self.questions[-1] if self.questions else None
        if re.match(r" *(```|~~~)", line):
            self.fence = not self.fence
        if question:
            self.questions.append(Question(int(question["number"]), question["text"], number))
        elif last is None:
            if line.strip():
                self.wrong.append((number, "a quiz begins with its first question, '1. ...'"))
        elif option:
            last.options.append(Option(option["mark"] != " ", option["text"].strip(), "", number))
        elif not last.options:
            last.text += f"\n{line}"
        elif line.strip():
            self._go_on(last.options[-1], number, line)

    def _go_on(self, option: Option, number: int, line: str) -> None:
        if line.startswith("  ") and option.line + option.text.count("\n") + 1 == number:
            option.text += f"\n{line.strip()}"
        else:
            self.wrong.append(
                (number, "neither a question, '2. ...', nor an option, '- [ ] option :: explanation'")
            )


def _dedented(text: str) -> str:
    """Take the indentation of a numbered list off a question's further lines."""
    return re.sub(r"^ {1,3}", "", text.strip("\n"), flags=re.M).strip()


def _halves(text: str) -> tuple[str, str]:
    """Cut an option at the ``::`` that stands between it and its explanation."""
    found = _BETWEEN.search(mask(text, TICKS, MATH))
    if not found:
        return text.strip(), ""
    return text[: found.start()].strip(), text[found.end() :].strip()


def complain(manuscript: Manuscript) -> None:
    """Note everything that is wrong with the quizzes of a manuscript."""
    quizzes = [cell for cell in manuscript.of_kind("markdown") if cell.source.startswith(HEADING)]
    for cell in manuscript.of_kind("markdown"):
        if cell not in quizzes:
            for offset, what in _strays(cell.source):
                manuscript.complaints.add(cell.line + offset, what)
    for place, cell in enumerate(quizzes):
        if manuscript.kind != "lesson":
            manuscript.complaints.add(cell.line, "a quiz belongs to a lesson")
        if place:
            manuscript.complaints.add(cell.line, "a second quiz: a lesson has one")
        if any(other.index > cell.index for other in manuscript.of_kind("code")):
            manuscript.complaints.add(cell.line, "code after the quiz: a quiz ends a lesson")
        _judge(manuscript, cell)


def _strays(text: str) -> Iterator[tuple[int, str]]:
    """Yield what looks like a part of a quiz in a cell that is none."""
    for number, line in enumerate(prose_only(text).split("\n")):
        if line.strip() == HEADING:
            yield number, f"'{HEADING}' must be the first line of a cell of its own"
        elif _OPTION.match(line) and _BETWEEN.search(line):
            yield number, f"an option outside a quiz: a quiz is a cell that begins with '{HEADING}'"


def _judge(manuscript: Manuscript, cell: Cell) -> None:
    questions, wrong = parse(cell.source)
    if [question.number for question in questions] != list(range(1, QUESTIONS + 1)):
        numbers = ", ".join(str(question.number) for question in questions) or "none"
        wrong.append(
            (0, f"a quiz has {QUESTIONS} questions, numbered from 1 to {QUESTIONS}; this one has {numbers}")
        )
    for question in questions:
        wrong += _wrong_with(question)
    wrong += _given_away(questions)
    for line, what in sorted(wrong):
        manuscript.complaints.add(cell.line + line, what)


def _wrong_with(question: Question) -> Iterator[tuple[int, str]]:
    """Yield what is missing in one question, or too much."""
    name = f"question {question.number}"
    if not question.text:
        yield question.line, f"{name} asks nothing"
    if len(question.options) not in OPTIONS:
        yield question.line, f"{name} has {len(question.options)} options; 3 to 5 are needed"
    right = sum(option.right for option in question.options)
    if right != 1:
        yield question.line, f"{name} has {right} right options, '- [x]'; exactly one is needed"
    seen: set[str] = set()
    for option in question.options:
        if not option.text:
            yield option.line, f"{name} has an option without a text"
        if not option.why:
            yield (
                option.line,
                f"{name}, option {option.text!r}: no explanation; write '- [ ] option :: explanation'",
            )
        if re.match(r"\*\*(Right|Wrong)\.\*\*", option.why):
            yield option.line, f"{name}, option {option.text!r}: the build writes Right or Wrong before it"
        if " ".join(option.text.split()).casefold() in seen:
            yield option.line, f"{name} has the option {option.text!r} twice"
        seen.add(" ".join(option.text.split()).casefold())
        bare = mask(option.text, TICKS)
        if LINK.search(mask(bare, MATH)) or citations_in(option.text):
            yield (
                option.line,
                f"{name}, option {option.text!r}: an option holds no link: put it into the explanation",
            )
        elif what := inline.refused(option.text):
            yield option.line, f"{name}, option {option.text!r}: {what}"


def _given_away(questions: list[Question]) -> Iterator[tuple[int, str]]:
    """Yield what would let a reader guess the right options without reading."""
    judged = [question for question in questions if sum(option.right for option in question.options) == 1]
    if len(judged) < 2:
        return
    right = [next(place for place, option in enumerate(one.options) if option.right) for one in judged]
    if len(set(right)) == 1:
        yield 0, f"the right option is number {right[0] + 1} in every question: vary its place"
    longest = [max(range(len(one.options)), key=lambda place: len(one.options[place].text)) for one in judged]
    if longest == right:
        yield 0, "the right option is the longest in every question: vary the lengths"


def shown(text: str) -> str:
    """Return a cell's text as readers see it; what is no quiz stays as it is."""
    if not is_source(text):
        return text
    parts = [HEADING, ADVICE]
    for question in parse(text)[0]:
        parts.append(f"**{question.number}.** {question.text}")
        parts += [
            f"<details><summary>{inline.to_html(option.text)}</summary>\n\n"
            f"{VERDICT[option.right]} {option.why}\n\n</details>"
            for option in question.options
        ]
    return "\n\n".join(parts)


def restored(text: str) -> str:
    """Return the source of a quiz that a reader may have edited; what is no quiz stays as it is.

    Raises:
        ValueError: where the folds are no longer whole.
    """
    if not is_shown(text):
        return text
    body = text.removeprefix(f"{HEADING}\n\n{ADVICE}\n").strip("\n")
    starts = list(_SHOWN_QUESTION.finditer(body))
    if not starts or starts[0].start():
        raise ValueError("a quiz begins with its first question, **1.**")
    parts = [HEADING]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        parts += _question(start["number"], body[start.end() : end.start() if end else None])
    return "\n\n".join(parts)


def _question(number: str, body: str) -> Iterator[str]:
    """Yield a question's text and its options as authors write them."""
    text, _, folds = body.partition("<details>")
    yield _indented(f"{number}. {text.strip()}", 3)
    options = []
    rest = f"<details>{folds}".strip("\n") if folds else ""
    while rest:
        fold = _FOLD.match(rest)
        if not fold or fold["verdict"] not in VERDICT.values():
            raise ValueError(
                f"question {number}: an option is <details><summary>option</summary>, an empty line, "
                f"{VERDICT[True]} or {VERDICT[False]} and its explanation, an empty line, </details>"
            )
        mark = "x" if fold["verdict"] == VERDICT[True] else " "
        option = f"- [{mark}] {inline.from_html(fold['text'])} :: {fold['why']}"
        options.append(_indented(f"   {option}", 5))
        rest = rest[fold.end() :].strip("\n")
    if options:
        yield "\n".join(options)


def _indented(text: str, width: int) -> str:
    """Indent every line but the first."""
    return re.sub(r"\n(?=[^\n])", "\n" + " " * width, text)
