"""Citations in prose, and the page of references that they lead to.

``[@vaswani2017, section 3.2]`` and ``@vaswani2017 (section 3.2)`` become links to the entry's heading in
``notebooks/bibliography.md``, which is made from ``book/references.bib``.
"""

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pybtex.database import BibliographyData, Entry, Person, parse_string
from pybtex.richtext import Text

from .files import read
from .manuscript import Manuscript
from .markdown import LINK, mask, prose_only
from .problems import Problems

SOURCE = "book/references.bib"
PAGE = "bibliography.md"
_KEY = r"@(?P<{}>[A-Za-z][\w:-]*\d{{4}}[a-z]?)"
_ONE = re.compile(rf"\s*{_KEY.format('key')}(?:,?\s+(?P<place>[^;\]\[]+?))?\s*\Z", re.S)
CITATION = re.compile(
    rf"\[(?P<group>@[^\[\]]+)\](?!\()"
    rf"|(?<![\w@/.`\[]){_KEY.format('key')}"
    r"(?: \((?P<place>(?:sections?|figures?|tables?|equations?|appendix|chapters?|pages?|theorem)\b"
    r"[^()]*)\))?"
)


@dataclass(frozen=True)
class Work:
    """A cited work as the text names it: ``authors (year)``."""

    key: str
    authors: str
    year: str
    entry: Entry

    @property
    def heading(self) -> str:
        """The heading of its entry."""
        return f"{self.authors} ({self.year})"

    @property
    def anchor(self) -> str:
        """The anchor that GitHub and MyST give the heading."""
        return re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")


class Library:
    """The entries of ``references.bib``; works by the same authors in one year get a, b, ..."""

    def __init__(self, root: Path) -> None:
        path = root / SOURCE
        try:
            data = parse_string(read(path), "bibtex") if path.exists() else BibliographyData()
        except Exception as error:  # pybtex raises several kinds, all about the text
            raise Problems(f"{SOURCE}:{getattr(error, 'lineno', None) or 1}: {error}") from None
        self.works: dict[str, Work] = {}
        named: dict[tuple[str, str], list[str]] = {}
        for key, entry in data.entries.items():
            authors, year = _authors(entry), str(entry.fields.get("year", "undated"))
            named.setdefault((authors, year), []).append(key)
        for (authors, year), keys in named.items():
            for letter, key in zip(string.ascii_lowercase, keys, strict=False):
                suffix = letter if len(keys) > 1 else ""
                self.works[key] = Work(key, authors, year + suffix, data.entries[key])

    def one(self, match: re.Match[str], folder: str) -> str:
        """Return the text that replaces one citation. Raises ``ValueError`` for an unknown key."""
        page = PAGE if folder == "notebooks" else f"../notebooks/{PAGE}"
        if match["group"] is None:
            work = self._work(match["key"])
            place = f", {match['place']}" if match["place"] else ""
            return f"[{work.authors} ({work.year}{place})]({page}#{work.anchor})"
        parts = []
        for part in match["group"].split(";"):
            found = _ONE.match(part)
            if not found:
                raise ValueError(f"{match[0]}: write [@key] or [@key, section 3]")
            work = self._work(found["key"])
            place = f", {found['place']}" if found["place"] else ""
            parts.append(f"[{work.authors}, {work.year}]({page}#{work.anchor}){place}")
        return f"({'; '.join(parts)})"

    def _work(self, key: str) -> Work:
        if key not in self.works:
            raise ValueError(f"@{key}: {SOURCE} has no such key")
        return self.works[key]


def find(text: str) -> list[re.Match[str]]:
    """Return the citations outside code and addresses."""
    return list(CITATION.finditer(mask(prose_only(text), LINK)))


def keys(text: str) -> Iterator[str]:
    """Yield the keys that a text cites."""
    for match in find(text):
        yield from re.findall(_KEY.format("key"), match["group"]) if match["group"] else [match["key"]]


def complain(manuscript: Manuscript, library: Library) -> None:
    """Note the citations of a manuscript that lead nowhere."""
    for cell in manuscript.of_kind("markdown"):
        for match in find(cell.source):
            try:
                library.one(match, "notebooks")
            except ValueError as error:
                manuscript.complaints.add(cell.line_at(match.start()), str(error))


def page(library: Library, texts: Iterable[tuple[str, str, str]]) -> str:
    """Return the page of references. ``texts`` holds (link, title, prose) of everything that may cite."""
    cited: dict[str, list[str]] = {}
    for link, title, prose in texts:
        for key in keys(prose):
            mention = f"[{title}]({link})"
            if mention not in cited.setdefault(key, []):
                cited[key].append(mention)
    lines = ["# Bibliography", "", "The works that the lessons and exercises cite.", ""]
    works = [library.works[key] for key in cited if key in library.works]
    for work in sorted(works, key=lambda work: (work.authors.casefold(), work.year)):
        lines += [
            f"## {work.heading}",
            "",
            _describe(work.entry),
            "",
            f"Cited in {', '.join(cited[work.key])}.",
            "",
        ]
    return "\n".join(lines)


def _authors(entry: Entry) -> str:
    people: list[Person] = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [_plain(" ".join([*person.prelast_names, *person.last_names])) for person in people]
    if not names:
        return _plain(str(entry.fields.get("title", entry.key)))
    if len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names)


def _plain(latex: str) -> str:
    return str(Text.from_latex(latex))


def _describe(entry: Entry) -> str:
    """Return names, title, venue and link of an entry."""
    fields = {
        name: _plain(value)
        for name, value in entry.fields.items()
        if name.lower() not in ("url", "doi", "eprint")
    }
    people = [
        _plain(str(" ".join([*p.first_names, *p.middle_names, *p.prelast_names, *p.last_names])))
        for p in entry.persons.get("author", [])
    ]
    venue = next(
        (
            fields[name]
            for name in ("journal", "booktitle", "school", "publisher", "howpublished", "institution")
            if name in fields
        ),
        "",
    )
    volume = f" {fields['volume']}" if "volume" in fields else ""
    volume += f"({fields['number']})" if volume and "number" in fields else ""
    pages = f", {fields['pages'].replace('--', chr(0x2013))}" if "pages" in fields else ""
    title = f"*{fields.get('title', entry.key)}*."
    parts = [
        f"{_listed(people)}." if people else "",
        title,
        f"{venue}{volume}{pages}." if venue else "",
        _link(entry),
    ]
    return " ".join(part for part in parts if part)


def _listed(people: list[str]) -> str:
    """Return names with commas; BibTeX's ``others`` stands for those who are not named."""
    if people[-1] == "others":
        return f"{', '.join(people[:-1])} and others"
    return ", ".join(people)


def _link(entry: Entry) -> str:
    doi, arxiv, url = (str(entry.fields.get(name, "")) for name in ("doi", "eprint", "url"))
    if doi:
        return f"[doi:{doi}](https://doi.org/{doi.replace('<', '%3C').replace('>', '%3E')})"
    if arxiv:
        return f"[arXiv:{arxiv}](https://arxiv.org/abs/{arxiv})"
    return f"<{url}>" if url else ""
