"""Dates as text with their parts, and which tokens of two languages say the same."""

import datetime

import pytest
from babel.dates import format_date
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab.tasks import (
    LANGUAGES,
    SubwordSplitter,
    TranslationPair,
    fold_case,
    gold_alignment,
    learn_merges,
    split_characters,
    split_folded_words,
    split_words,
    translation_pairs,
)
from attnlab.tasks.dates import link_dates, plain_spaces, write_date
from attnlab.tasks.phrases import LOCALES

few_examples = settings(
    max_examples=15, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)


@pytest.mark.parametrize("style", ["full", "long"])
@pytest.mark.parametrize("language", LOCALES)
@given(day=st.dates(datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)))
@few_examples
def test_a_date_is_babels_and_its_parts_stand_where_they_are_said_to(language, style, day):
    written = write_date(day, style, LOCALES[language])
    assert written.text == format_date(day, style, locale=LOCALES[language])
    parts = {field: written.text[start:stop] for field, (start, stop) in written.spans.items()}
    assert parts.pop("weekday", None) == (
        format_date(day, "EEEE", locale=LOCALES[language]) if style == "full" else None
    )
    assert parts.pop("month") in (format_date(day, "MMMM", locale=LOCALES[language]), str(day.month))
    assert parts == {"day": str(day.day), "year": str(day.year)}


def aligned(language, split_target, day, style="full", split_source=split_words):
    """Each target token with what it is aligned to, commas and the like left out."""
    source, target = (write_date(day, style, LOCALES[name]) for name in ("en", language))
    pair = TranslationPair(source.text, target.text, f"{style}_date", link_dates(source, target))
    source_tokens, target_tokens = split_source(pair.source), split_target(pair.target)
    gold = gold_alignment(pair, source_tokens, target_tokens)
    assert len(gold) == len(target_tokens)
    return [
        (token.strip(), "".join(source_tokens[index] for index in sorted(indices)).strip(), sorted(indices))
        for token, indices in zip(target_tokens, gold, strict=True)
        if indices
    ]


def test_an_alignment_by_hand():
    # Tuesday|,| September |1|3|, |2|0|2|2
    assert aligned("fr", split_words, datetime.date(2022, 9, 13)) == [
        ("mardi", "Tuesday", [0]),
        ("1", "1", [3]),
        ("3", "3", [4]),
        ("septembre", "September", [2]),
        ("2", "2", [6]),
        ("0", "0", [7]),
        ("2", "2", [8]),
        ("2", "2", [9]),
    ]
    assert aligned("zh", split_characters, datetime.date(2022, 11, 3), "long") == [
        ("2", "2", [3]),
        ("0", "0", [4]),
        ("2", "2", [5]),
        ("2", "2", [6]),
        ("1", "November", [0]),
        ("1", "November", [0]),
        ("3", "3", [1]),
    ]
    assert [(token, said) for token, said, _ in aligned("zh", split_characters, datetime.date(2022, 9, 13))][
        -3:
    ] == [
        ("星", "Tuesday"),
        ("期", "Tuesday"),
        ("二", "Tuesday"),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
@given(day=st.dates(datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)))
@few_examples
def test_every_part_of_a_date_is_aligned_with_its_own_word(language, day):
    said = [word for _, word, _ in aligned(language, split_words, day)]
    weekday, month = (format_date(day, pattern, locale="en") for pattern in ("EEEE", "MMMM"))
    digits = [*str(day.day), *str(day.year)]
    assert sorted(word for word in said if word.isdigit()) == sorted(digits)
    assert {word for word in said if not word.isdigit()} == {weekday, month}
    places = [place for _, _, (place,) in aligned(language, split_words, day) if place not in (0, 2)]
    assert sorted(places) == [
        *range(3, 3 + len(str(day.day))),
        *range(4 + len(str(day.day)), 8 + len(str(day.day))),
    ]


def test_subwords_and_folded_sources_are_aligned_too():
    day = datetime.date(2022, 12, 13)
    subwords = SubwordSplitter(learn_merges(["Dienstag Dezember"], 3))
    pieces = aligned("de", subwords, day, split_source=split_folded_words)
    assert "".join(token for token, said, _ in pieces if said == "tuesday") == "Dienstag"
    assert "".join(token for token, said, _ in pieces if said == "december") == "Dezember"
    assert len(pieces) > 10
    # A token that reaches over two parts belongs to both.
    assert aligned("fr", lambda text: [text], day)[0][2] == [0, 2, 3, 4, 6, 7, 8, 9]


def test_only_dates_and_their_own_tokens_can_be_aligned():
    pair = translation_pairs(1, kinds=["full_date"])[0]
    source, target = split_words(pair.source), split_words(pair.target)
    assert gold_alignment(pair, split_words(fold_case(pair.source)), target) == gold_alignment(
        pair, source, target
    )
    with pytest.raises(ValueError, match=r"^source_tokens: .*join to 'T?"):
        gold_alignment(pair, source[1:], target)
    with pytest.raises(ValueError, match=r"^target_tokens: "):
        gold_alignment(pair, source, [*target, "<eos>"])
    other = translation_pairs(1, kinds=["currency"])[0]
    with pytest.raises(ValueError, match=r"^pair: expected a date.*'currency'"):
        gold_alignment(other, split_words(other.source), split_words(other.target))


def test_spaces_that_do_not_break_become_plain():
    assert plain_spaces("3:07\u202fPM, 1\u00a0234") == "3:07 PM, 1 234"


def test_a_word_of_the_same_length_is_aligned_as_a_whole():
    pieces = aligned("de", split_characters, datetime.date(2022, 5, 13), "long", split_characters)
    assert [said for token, said, _ in pieces if token in "Mai"] == ["May"] * 3
