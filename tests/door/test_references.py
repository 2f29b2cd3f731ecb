"""The bibliography's source parses, has the fields that a reader needs, and each paper once."""

import re
from collections import Counter
from pathlib import Path

import pytest
from pybtex.database import parse_file

PATH = Path(__file__).resolve().parents[2] / "book/references.bib"
ENTRIES = parse_file(str(PATH), bib_format="bibtex").entries
TEXT = PATH.read_text(encoding="utf-8")
VENUES = {
    "article": "journal",
    "inproceedings": "booktitle",
    "mastersthesis": "school",
    "phdthesis": "school",
    "book": "publisher",
    "misc": "howpublished",
    "techreport": "institution",
}


def test_every_entry_of_the_file_is_read():
    keys = re.findall(r"^@\w+\{([^,\s]+),$", TEXT, re.M)
    assert keys == list(ENTRIES) and len(keys) == TEXT.count("\n@")


@pytest.mark.parametrize("field", ["title", "doi", "eprint", "url"])
def test_no_paper_stands_twice(field):
    values = [
        re.sub(r"[{}\s]+", " ", entry.fields[field]).casefold()
        for entry in ENTRIES.values()
        if field in entry.fields
    ]
    assert [value for value, count in Counter(values).items() if count > 1] == []


def test_entries_stand_in_order_of_year_and_key():
    keys = list(ENTRIES)
    assert keys == sorted(keys, key=lambda key: (ENTRIES[key].fields["year"], key))


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_has_what_a_reader_needs(key):
    entry = ENTRIES[key]
    fields = entry.fields
    assert entry.persons.get("author"), "no author"
    missing = [name for name in ("title", "year", "url", VENUES[entry.type]) if not fields.get(name)]
    assert missing == []
    assert fields["url"].startswith("https://")


@pytest.mark.parametrize("key", ENTRIES)
def test_the_key_is_the_first_authors_family_name_and_the_year(key):
    family = "".join(ENTRIES[key].persons["author"][0].last_names).casefold()
    assert re.fullmatch(rf"{re.sub(r'[^a-z]', '', family)}{ENTRIES[key].fields['year']}[a-z]?", key)


@pytest.mark.parametrize("key", ENTRIES)
def test_numbers_have_their_forms(key):
    fields = ENTRIES[key].fields
    assert re.fullmatch(r"(?:19|20)\d\d", fields["year"])
    assert re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", "10.1000/none"))
    assert re.fullmatch(r"\d+(?:--\d+)?", fields.get("pages", "1--2"))
    if "eprint" in fields:
        assert re.fullmatch(r"\d{4}\.\d{4,5}", fields["eprint"]) and fields["archiveprefix"] == "arXiv"
        assert 0 <= int(fields["year"]) - 2000 - int(fields["eprint"][:2]) <= 3
    assert "arxiv.org" not in fields["url"] or fields["url"].endswith(f"/abs/{fields['eprint']}")
