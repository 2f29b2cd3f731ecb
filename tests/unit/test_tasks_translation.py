"""Translation pairs: right text, no source twice, the same everywhere."""

import datetime
import random
from decimal import Decimal

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab.tasks import KINDS, LANGUAGES, phrases, split_pairs, translation_pairs

few_examples = settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
MOMENT = datetime.datetime(2024, 9, 3, 15, 7)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (
            "full_date",
            MOMENT.date(),
            {
                "en": "Tuesday, September 3, 2024",
                "fr": "mardi 3 septembre 2024",
                "de": "Dienstag, 3. September 2024",
                "es": "martes, 3 de septiembre de 2024",
                "zh": "2024年9月3日星期二",
            },
        ),
        (
            "long_date",
            datetime.date(1950, 8, 1),
            {
                "en": "August 1, 1950",
                "fr": "1 août 1950",
                "de": "1. August 1950",
                "es": "1 de agosto de 1950",
                "zh": "1950年8月1日",
            },
        ),
        (
            "date_time",
            MOMENT,
            {
                "en": "September 3, 3:07 PM",
                "fr": "3 septembre, 15:07",
                "de": "3. September, 15:07",
                "es": "3 de septiembre, 15:07",
                "zh": "9月3日 15:07",
            },
        ),
        ("number_words", 0, {"en": "zero", "fr": "zéro", "de": "null", "es": "cero", "zh": "零"}),
        (
            "number_words",
            90_871,
            {
                "en": "ninety thousand, eight hundred and seventy-one",
                "fr": "quatre-vingt-dix mille huit cent soixante et onze",
                "de": "neunzigtausendachthunderteinundsiebzig",
                "es": "noventa mil ochocientos setenta y uno",
                "zh": "九万零八百七十一",
            },
        ),
    ],
)
def test_phrases_are_written_as_each_language_writes_them(kind, value, written):
    assert {
        language: phrases.PHRASES[kind].write(value, language).text for language in phrases.LOCALES
    } == written


def test_amounts_follow_each_languages_plural():
    def write(amount, currency, language):
        return phrases.PHRASES["currency"].write((Decimal(amount), currency), language).text

    assert write("1.75", "CHF", "en") == "1.75 Swiss francs"
    assert write("1.75", "CHF", "fr") == "1,75 franc suisse"
    assert write("2345.60", "USD", "fr") == "2 345,60 dollars des États-Unis"
    assert write("2345.60", "USD", "de") == "2.345,60 US-Dollar"
    assert write("1", "JPY", "es") == "1 yen japonés"
    assert write("12345", "JPY", "zh") == "12,345日元"


@pytest.mark.parametrize("language", LANGUAGES)
def test_sources_are_unique_kinds_are_even_and_spaces_are_plain(language):
    pairs = translation_pairs(403, language=language)
    assert len(pairs) == len({pair.source for pair in pairs}) == 403
    counts = {kind: sum(pair.kind == kind for pair in pairs) for kind in KINDS}
    assert sorted(counts.values()) == [80, 80, 81, 81, 81]
    for pair in pairs:
        assert pair.source and pair.target
        for text in (pair.source, pair.target):
            assert all(not character.isspace() or character == " " for character in text)
    # The kinds are mixed: no long stretch of one.
    kinds = [pair.kind for pair in pairs]
    assert set(kinds[:50]) == set(kinds[-50:]) == set(KINDS)


def drawn(kind, count=2000):
    return [phrases.PHRASES[kind].draw(random.Random(seed)) for seed in range(count)]


@pytest.mark.parametrize("kind", ["full_date", "long_date"])
def test_days_are_spread_over_two_centuries(kind):
    years = [day.year for day in drawn(kind)]
    assert min(years) in range(1900, 1905) and max(years) in range(2095, 2100)
    assert {day.weekday() for day in drawn(kind)} == set(range(7))


def test_minutes_are_spread_over_a_leap_year():
    moments = drawn("date_time")
    assert {moment.month for moment in moments} == set(range(1, 13))
    assert {moment.hour for moment in moments} == set(range(24))
    assert {moment.minute for moment in moments} == set(range(60))
    assert {moment.year for moment in moments} == {2024}


def test_numbers_and_amounts_are_short_as_often_as_long():
    numbers = drawn("number_words")
    assert min(numbers) == 0 and 80_000 < max(numbers) < 100_000
    assert all(300 < sum(number < 10**digits for number in numbers) / digits < 600 for digits in (2, 3, 4))
    amounts = drawn("currency")
    assert {currency for _, currency in amounts} == {"USD", "EUR", "GBP", "JPY", "CHF", "CAD"}
    assert all(amount.as_tuple().exponent == (0 if currency == "JPY" else -2) for amount, currency in amounts)
    for yen in (True, False):
        chosen = [amount for amount, currency in amounts if (currency == "JPY") == yen]
        assert 1 <= min(chosen) < 2 and 50_000 < max(chosen) < 100_000
        for digits in (1, 2, 3, 4):
            share = sum(amount < 10**digits for amount in chosen) / len(chosen)
            assert abs(share - digits / 5) < 0.08


def test_the_seed_alone_decides():
    first = translation_pairs(60, seed=5)
    random.seed(1)
    torch.manual_seed(1)
    assert translation_pairs(60, seed=5) == first
    assert translation_pairs(60, seed=6) != first
    by_generator = [translation_pairs(60, seed=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert by_generator[0] == by_generator[1]
    generator = torch.Generator().manual_seed(5)
    assert translation_pairs(60, seed=generator) != translation_pairs(60, seed=generator)
    # The English phrases do not hang on the language.
    assert [pair.source for pair in translation_pairs(60, language="zh", seed=5)] == [p.source for p in first]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_pairs": 0}, "num_pairs: .*at least 1, got 0"),
        ({"num_pairs": 5, "language": "it"}, "language: .*fr, de, es, zh, got 'it'"),
        ({"num_pairs": 5, "language": "en"}, "language: .*got 'en'"),
        ({"num_pairs": 5, "kinds": ["full_date", "poem"]}, "kinds: .*full_date.*got 'poem'"),
        ({"num_pairs": 5, "kinds": []}, "kinds: expected at least one"),
        ({"num_pairs": 5, "kinds": ["currency", "currency"]}, "kinds: .*none twice"),
        ({"num_pairs": 100_001}, "num_pairs: .*at most 100000.*20000 of each.*got 100001"),
        ({"num_pairs": 20_001, "kinds": ["currency"]}, "num_pairs: .*at most 20000.*got 20001"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(arguments, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        translation_pairs(**arguments)


@given(num_pairs=st.integers(2, 40), data=st.data(), seed=st.integers(0, 99))
@few_examples
def test_no_source_stands_on_both_sides(num_pairs, data, seed):
    pairs = translation_pairs(num_pairs, kinds=["number_words", "currency"], seed=seed)
    pairs = [*pairs, pairs[0]._replace(target="another"), pairs[-1]._replace(source=pairs[-1].source.upper())]
    held_out = data.draw(st.integers(1, num_pairs - 1))
    train, held = split_pairs(pairs, held_out, seed=seed)
    sources = [{pair.source.casefold() for pair in side} for side in (train, held)]
    assert not sources[0] & sources[1]
    assert len(sources[1]) == held_out
    assert [pair for pair in pairs if pair in train] == train and [p for p in pairs if p in held] == held
    assert len(train) + len(held) == len(pairs)
    assert split_pairs(pairs, held_out, seed=seed) == (train, held)


def test_another_seed_holds_out_others():
    pairs = translation_pairs(60)
    assert split_pairs(pairs, 20, seed=0) != split_pairs(pairs, 20, seed=1)
    assert {pair.kind for pair in split_pairs(pairs, 20)[1]} == set(KINDS)


@pytest.mark.parametrize("num_held_out", [0, -1, 6, 7])
def test_both_sides_must_get_something(num_held_out):
    pairs = translation_pairs(6)
    with pytest.raises(ValueError, match=f"^num_held_out: .*the 6 different sources, got {num_held_out}"):
        split_pairs(pairs, num_held_out)


def test_dates_carry_links_and_nothing_else_does():
    for pair in translation_pairs(40, language="es"):
        assert (pair.links != ()) == pair.kind.endswith("_date")
        digits = [link for link in pair.links if link.field == "year"]
        if digits:
            source = "".join(pair.source[link.source_start : link.source_stop] for link in digits)
            target = "".join(pair.target[link.target_start : link.target_stop] for link in digits)
            assert source == pair.source[-4:] and target == pair.target[-4:]
