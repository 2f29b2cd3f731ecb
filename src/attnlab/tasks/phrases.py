"""The five kinds of phrase: how a value of each is drawn, and how it is written in a language.

Dates, times and currencies are written by Babel from the CLDR, the Unicode Consortium's tables of how each
language writes them; number words by num2words, and for Chinese by cn2an. Spaces that do not break (U+00A0,
U+202F), which the CLDR puts into numbers and times, become plain spaces.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any, NamedTuple

import cn2an
from babel.dates import format_skeleton, format_time, get_datetime_format
from babel.numbers import format_currency, get_currency_precision
from num2words import num2words

from attnlab.tasks.dates import Written, plain_spaces, write_date

__all__ = ["LOCALES", "PHRASES", "Phrase"]

#: The languages, each with the name that Babel knows it by.
LOCALES = {"en": "en_US", "fr": "fr_FR", "de": "de_DE", "es": "es_ES", "zh": "zh_Hans_CN"}
_CURRENCIES = ("USD", "EUR", "GBP", "JPY", "CHF", "CAD")
_FIRST_DAY, _LAST_DAY = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()


class Phrase(NamedTuple):
    """A kind of phrase.

    Attributes:
        draw: Draws a value from a source of randomness; each value is one phrase.
        write: Writes a value in a language, one of :data:`LOCALES`.
    """

    draw: Callable[[random.Random], Hashable]
    write: Callable[[Any, str], Written]


def _draw_day(rng: random.Random) -> datetime.date:
    return datetime.date.fromordinal(rng.randint(_FIRST_DAY, _LAST_DAY))


def _draw_moment(rng: random.Random) -> datetime.datetime:
    """A minute of a leap year; the year is not written."""
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=rng.randrange(366 * 24 * 60))


def _draw_number(rng: random.Random) -> int:
    """A number below 100,000, each length as often as the others, but for shorter ones drawn with it."""
    return rng.randrange(int(10 ** rng.uniform(1, 5)))


def _draw_amount(rng: random.Random) -> tuple[Decimal, str]:
    """From 1 to 100,000, each length as often, in whole cents (yen have none): writing never rounds."""
    currency = rng.choice(_CURRENCIES)
    precision = get_currency_precision(currency)
    cents = int(10 ** rng.uniform(precision, 5 + precision))
    return Decimal(cents).scaleb(-precision), currency


def _write_full_date(day: datetime.date, language: str) -> Written:
    return write_date(day, "full", LOCALES[language])


def _write_long_date(day: datetime.date, language: str) -> Written:
    return write_date(day, "long", LOCALES[language])


def _write_moment(moment: datetime.datetime, language: str) -> Written:
    """Month, day and time, joined as the language joins a date and a time."""
    locale = LOCALES[language]
    joint = str(get_datetime_format("medium", locale=locale)).replace("'", "")
    date = format_skeleton("MMMMd", moment, locale=locale)
    return Written(plain_spaces(joint.format(format_time(moment.time(), "short", locale=locale), date)), {})


def _write_amount(amount: tuple[Decimal, str], language: str) -> Written:
    text = format_currency(*amount, locale=LOCALES[language], format_type="name")
    return Written(plain_spaces(text), {})


def _write_number(number: int, language: str) -> Written:
    text = cn2an.an2cn(number) if language == "zh" else num2words(number, lang=language)
    return Written(plain_spaces(text), {})


#: The kinds of phrase by name.
PHRASES = {
    "full_date": Phrase(_draw_day, _write_full_date),
    "long_date": Phrase(_draw_day, _write_long_date),
    "date_time": Phrase(_draw_moment, _write_moment),
    "currency": Phrase(_draw_amount, _write_amount),
    "number_words": Phrase(_draw_number, _write_number),
}
