"""Bring an edited code cell of an exercise or a solution back, with the solution marks kept."""

from difflib import SequenceMatcher

from .solutions import DEFAULT, Line, Shown, classify, shown


class CannotPlace(Exception):
    """An edit crosses a solution mark; ``offset`` is the line of the cell, counted from 0."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset


def restore(source: str, variant: str, edited: str) -> tuple[str, list[str]]:
    """Return the manuscript's source for an edited cell, and remarks. Raises ``CannotPlace``.

    ``source`` is what the manuscript holds, ``edited`` what the notebook of ``variant`` now shows.
    """
    lines = classify(source)[0]
    visible = shown(lines, variant)
    if not any(line.part == "begin" for line in lines):
        return edited, []
    weaver = _Weaver(lines, visible, variant)
    wanted = edited.split("\n")
    matcher = SequenceMatcher(None, [line.text for line in visible], wanted, autojunk=False)
    for what, first, last, begin, end in matcher.get_opcodes():
        if what == "equal":
            for place in range(first, last):
                weaver.keep(place)
        else:
            weaver.change(first, last, wanted[begin:end])
    weaver.rest()
    return "\n".join(weaver.out), weaver.remarks


class _Weaver:
    """Weaves new lines between those that the notebook does not show."""

    def __init__(self, lines: list[Line], visible: list[Shown], variant: str) -> None:
        self.lines, self.visible, self.variant = lines, visible, variant
        self.out: list[str] = []
        self.remarks: list[str] = []
        self.at = 0

    def keep(self, place: int) -> None:
        """Keep a visible line, and the hidden ones before it."""
        self._advance(self.visible[place].origin)
        self.out.append(self.lines[self.at].text)
        self.at += 1

    def change(self, first: int, last: int, new: list[str]) -> None:
        """Put new lines in the place of the visible lines from ``first`` to ``last``."""
        if first == last:
            self._insert(first, new)
            return
        origins = [self.visible[place].origin for place in range(first, last)]
        sides = {self._side(origin) for origin in origins}
        if len(sides) > 1 or self._marks(origins[0], origins[-1]):
            if len(new) != last - first or len(new) == 1:
                what = "the edit crosses a solution mark: edit inside and outside it one at a time"
                raise CannotPlace(origins[0], what)
            for step, text in enumerate(new):
                self.change(first + step, first + step + 1, [text])
            return
        self._advance(origins[0])
        hidden = [
            line.text
            for place, line in enumerate(self.lines[origins[0] : origins[-1] + 1], origins[0])
            if place not in origins
        ]
        if sides == {"stub"}:
            self._stub(origins[0], new, hidden)
        else:
            self.out += [*hidden, *new]
        self.at = origins[-1] + 1

    def rest(self) -> None:
        """Keep what follows the last visible line."""
        self._advance(len(self.lines))

    def _side(self, origin: int) -> str:
        part = self.lines[origin].part
        return {"plain": "outside", "solution": "inside"}.get(part, "stub")

    def _advance(self, origin: int) -> None:
        while self.at < origin:
            self.out.append(self.lines[self.at].text)
            self.at += 1

    def _marks(self, before: int, after: int) -> bool:
        """Return whether a solution begins or ends between two lines."""
        return any(line.part in ("begin", "end") for line in self.lines[before + 1 : after])

    def _insert(self, place: int, new: list[str]) -> None:
        """Add lines between two visible ones."""
        before = self.visible[place - 1].origin if place else -1
        after = self.visible[place].origin if place < len(self.visible) else len(self.lines)
        sides = {self._side(near) for near in (before, after) if 0 <= near < len(self.lines)}
        crossing = self._marks(before, after)
        if sides == {"stub"} and not crossing and before >= 0 and after < len(self.lines):
            self._advance(after)
            self.out += [self._as_stub(text) for text in new]
        elif not crossing and "stub" not in sides:
            # What is hidden here can only be the solution's own stub lines, which may stand before or after.
            self._advance(after)
            self.out += new
        elif self.variant == "exercise":
            self._insert_beside_stub(before, new)
        else:
            self._insert_beside_solution(before, after, new)

    def _insert_beside_solution(self, before: int, after: int, new: list[str]) -> None:
        """Lines at the edge of a solution go inside it: there they give nothing away."""
        if before < 0 or self.lines[before].part != "solution":
            begin = next(place for place in range(before + 1, after) if self.lines[place].part == "begin")
            self._advance(begin + 1)
        self.out += new
        self.remarks.append("lines added at the edge of a solution were put inside it")

    def _insert_beside_stub(self, before: int, new: list[str]) -> None:
        """Lines before or after a stub belong to the exercise itself, outside the solution."""
        if before >= 0 and self.lines[before].part in ("stub", "begin"):
            end = next(place for place in range(self.at, len(self.lines)) if self.lines[place].part == "end")
            self._advance(end + 1)
        self.out += new
        self.remarks.append("lines added beside a stub were put outside the solution")

    def _stub(self, first: int, new: list[str], hidden: list[str]) -> None:
        """Replace the lines of a stub; a solution without its own stub lines gets them."""
        if not any(text.strip() for text in new):
            raise CannotPlace(first, f"a stub cannot be empty: leave {DEFAULT!r} or another line")
        if self.lines[first].part == "begin":
            self.out.append(self.lines[first].text)
        self.out += [self._as_stub(text) for text in new]
        self.out += hidden

    @staticmethod
    def _as_stub(text: str) -> str:
        bare = text.lstrip(" \t")
        return f"{text[: len(text) - len(bare)]}# STUB {bare}".rstrip() if bare else "# STUB"
