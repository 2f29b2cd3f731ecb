"""Complaints: each is one line, ``file:line: what is wrong``, and all are shown at once."""

from collections.abc import Iterable


class Problems(Exception):
    """One or more complaints that stop the work on a manuscript."""

    def __init__(self, items: str | Iterable[str]) -> None:
        given = [items] if isinstance(items, str) else list(items)
        self.items = list(dict.fromkeys(given))
        super().__init__("\n".join(self.items))


class Complaints:
    """A list of complaints about one file, raised together by ``stop``."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.items: list[str] = []

    def add(self, line: int, what: str) -> None:
        """Note that something is wrong at a line, counted from 1."""
        self.items.append(f"{self.where}:{line}: {what}")

    def stop(self) -> None:
        """Raise ``Problems`` where anything was noted."""
        if self.items:
            raise Problems(self.items)
