"""The glossary: in the order of the alphabet, each term once, and with the lesson that introduces it."""

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from tools import chapters

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book/pages/glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+)\n\n((?:[^#\n].*\n|\n)+)", TEXT, flags=re.M))
TERMS = re.findall(r"^### (.+)$", TEXT, re.M)
LESSON = re.compile(r"(\[?)[Ll]essons? (\d+)(?: and (\d+))?(?:\]\(\.\./\.\./notebooks/(\w+)\.ipynb\))?")
SENTENCE = re.compile(r"[.!?](?=\s+[A-Z$[]|\s*\Z)")


def test_every_entry_is_read():
    assert len(TERMS) > 50
    assert list(ENTRIES) == TERMS


def test_terms_stand_in_the_order_of_the_alphabet():
    assert sorted(TERMS, key=str.casefold) == TERMS


def test_no_term_stands_twice():
    assert [term for term, count in Counter(map(str.casefold, TERMS)).items() if count > 1] == []


def test_headings_are_one_title_then_letters_with_their_terms():
    wanted = ["# Glossary"]
    for letter, terms in groupby(TERMS, key=lambda term: term[0].upper()):
        wanted += [f"## {letter}", *(f"### {term}" for term in terms)]
    assert re.findall(r"^#{1,6} .+$", TEXT, re.M) == wanted


def test_an_entry_has_two_to_four_sentences_and_then_its_pointer():
    # The pointer, such as "Introduced in lesson 3.", is the fifth at most.
    lengths = {term: len(SENTENCE.findall(text)) for term, text in ENTRIES.items()}
    assert {term: length for term, length in lengths.items() if not 2 <= length <= 5} == {}
    assert [term for term, text in ENTRIES.items() if "esson" not in text and "](" not in text] == []


def test_a_lesson_is_linked_exactly_if_it_is_here():
    lessons = {lesson.number: lesson for lesson in chapters.lessons_of(chapters.read())}
    wrong = []
    for term, text in ENTRIES.items():
        for bracket, first, second, slug in LESSON.findall(text):
            numbered = [lessons[int(number)] for number in (first, second) if number]
            wanted = [lesson.slug if lesson.here else "" for lesson in numbered]
            if wanted != [slug] * len(numbered) or bool(bracket) != bool(slug):
                wrong.append(f"{term}: lesson {first}")
    assert wrong == []
