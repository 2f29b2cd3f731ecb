"""Fill prose, and undo it: references and citations come back where the text around them is recognisable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from . import citations, references
from .citations import Library
from .references import Numbers

TOKEN = re.compile(r"\w+|\s|[^\w\s]")
CONTEXT = 3


@dataclass(frozen=True)
class Piece:
    """A stretch of prose as the manuscript has it and as readers see it; ``mark`` where these may differ."""

    raw: str
    shown: str
    mark: bool = False


@dataclass(frozen=True)
class Filler:
    """What the marks of one notebook are filled with."""

    numbers: Numbers
    library: Library
    folder: str

    def pieces(self, text: str, lenient: bool = False) -> list[Piece]:
        """Cut a text into pieces. Raises ``ValueError`` for a mark that cannot be filled.

        With ``lenient`` such a mark stays as it is written.
        """
        marks = [(match, True) for match in references.find(text)[0]]
        marks += [(match, False) for match in citations.find(text)]
        out, at = [], 0
        for match, is_number in sorted(marks, key=lambda mark: mark[0].start()):
            if match.start() < at:
                continue
            raw = text[match.start() : match.end()]
            try:
                shown = (
                    references.one(match, self.numbers) if is_number else self.library.one(match, self.folder)
                )
            except ValueError:
                if not lenient:
                    raise
                shown = raw
            out += [Piece(text[at : match.start()], text[at : match.start()]), Piece(raw, shown, mark=True)]
            at = match.end()
        return [piece for piece in [*out, Piece(text[at:], text[at:])] if piece.raw]

    def fill(self, text: str, lenient: bool = False) -> str:
        """Return the text that readers see."""
        return "".join(piece.shown for piece in self.pieces(text, lenient))


@dataclass
class Lost:
    """A mark that did not come back by its place; ``edited`` is the text that stands there now, if any."""

    piece: Piece
    before: list[str]
    after: list[str]
    edited: str | None
    where: int


@dataclass
class Edited:
    """A text edited by a reader: its tokens, those that may take a mark, and the marks already placed."""

    tokens: list[str]
    free: list[bool]
    placed: dict[int, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def new(cls, text: str) -> "Edited":
        """A text with no older version."""
        tokens = TOKEN.findall(text)
        return cls(tokens, [True] * len(tokens))

    def place(self, start: int, stop: int, raw: str) -> None:
        """Put a mark in the place of tokens."""
        self.placed[start] = (stop, raw)
        self.free[start:stop] = [False] * (stop - start)

    def text(self) -> str:
        """Return the text with its marks."""
        out, at = [], 0
        while at < len(self.tokens):
            stop, words = self.placed.get(at, (at + 1, self.tokens[at]))
            out.append(words)
            at = stop
        return "".join(out)


def align(pieces: Sequence[Piece], text: str, where: int) -> tuple[Edited, list[Lost]]:
    """Put the marks of the old text into the edited one, by what stands around them."""
    old: list[str] = []
    spans: list[tuple[Piece, int, int]] = []
    for piece in pieces:
        start = len(old)
        old += TOKEN.findall(piece.shown)
        if piece.mark:
            spans.append((piece, start, len(old)))
    edited = Edited.new(text)
    to_new: dict[int, int] = {}
    for block in SequenceMatcher(None, old, edited.tokens, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            to_new[block.a + step] = block.b + step
            edited.free[block.b + step] = False
    lost = []
    for piece, start, stop in spans:
        at = to_new.get(start)
        whole = at is not None and all(to_new.get(start + step) == at + step for step in range(stop - start))
        if at is not None and whole and _anchored(old, edited.tokens, to_new, start, stop):
            edited.place(at, at + stop - start, piece.raw)
            continue
        for step in range(start, stop):
            if step in to_new:
                edited.free[to_new[step]] = True
        before, after = _words(old[:start])[-CONTEXT:], _words(old[stop:])[:CONTEXT]
        lost.append(Lost(piece, before, after, _between(edited.tokens, to_new, start, stop), where))
    return edited, lost


def recover(lost: Lost, texts: Sequence[Edited]) -> bool:
    """Place a mark whose text moved: where its value stands beside a known word, or is long enough alone."""
    wanted = TOKEN.findall(lost.piece.shown)
    found: list[tuple[int, Edited, int]] = []
    for text in texts:
        for at in range(len(text.tokens) - len(wanted) + 1):
            stop = at + len(wanted)
            if text.tokens[at:stop] == wanted and all(text.free[at:stop]) and _bounded(text.tokens, at, stop):
                found.append((_likeness(lost, text.tokens, at, stop), text, at))
    if not found:
        return False
    found.sort(key=lambda entry: -entry[0])
    best = [entry for entry in found if entry[0] == found[0][0]]
    telling = len(lost.piece.shown) >= 4 or not lost.piece.shown.isalnum()
    if len(best) > 1 or (best[0][0] == 0 and not telling):
        return False
    _, text, at = best[0]
    text.place(at, at + len(wanted), lost.piece.raw)
    return True


def _anchored(old: list[str], new: list[str], to_new: dict[int, int], start: int, stop: int) -> bool:
    """Return whether a neighbouring word of the old text is still the neighbour."""
    before = next((place for place in range(start - 1, -1, -1) if not old[place].isspace()), None)
    after = next((place for place in range(stop, len(old)) if not old[place].isspace()), None)
    if before is None and after is None:
        return True
    left = before is not None and before in to_new and _only_space(new, to_new[before] + 1, to_new[start])
    right = after is not None and after in to_new and _only_space(new, to_new[stop - 1] + 1, to_new[after])
    return left or right


def _only_space(tokens: list[str], start: int, stop: int) -> bool:
    return start <= stop and all(token.isspace() for token in tokens[start:stop])


def _between(new: list[str], to_new: dict[int, int], start: int, stop: int) -> str | None:
    """Return what stands now between the neighbours of a mark; None where these are gone too."""
    left, right = to_new.get(start - 1, -1 if start == 0 else None), to_new.get(stop)
    if left is None:
        return None
    if right is None:
        right = next((place for place in range(left + 1, len(new)) if new[place].isspace()), len(new))
    text = "".join(new[left + 1 : right]).strip()
    return text or None


def _words(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not token.isspace()]


def _bounded(tokens: list[str], start: int, stop: int) -> bool:
    """Return whether tokens are no part of a longer number: 0.18 does not stand in 10.184 or in 3.0.18."""
    before = "".join(tokens[max(start - 2, 0) : start])
    after = "".join(tokens[stop : stop + 2])
    return not re.search(r"[\w]$|\d\.$", before) and not re.match(r"\w|\.\d", after)


def _likeness(lost: Lost, tokens: list[str], start: int, stop: int) -> int:
    """Return how many neighbouring words are those of the old text, counted outwards."""
    before, after = _words(tokens[:start])[-CONTEXT:], _words(tokens[stop:])[:CONTEXT]
    score = 0
    for ours, theirs in ((lost.before[::-1], before[::-1]), (lost.after, after)):
        for one, other in zip(ours, theirs, strict=False):
            if one != other:
                break
            score += 1
    return score
