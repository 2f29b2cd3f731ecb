"""Dates in any language, with the place of weekday, day, month and year in the text: a gold alignment.

Attention of a trained translator may be compared with it: where a French ``septembre`` is written, a model
that aligns looks at ``September``. Nobody has to label anything, since the date is written from its parts.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

from babel.core import Locale
from babel.dates import DateTimeFormat, get_date_format

if TYPE_CHECKING:
    from attnlab.tasks.translation import TranslationPair

__all__ = ["Link", "Written", "gold_alignment", "link_dates", "plain_spaces", "write_date"]

Style = Literal["full", "long"]

_PLAIN_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " "})
#: The first letter of a field in a CLDR pattern, and what the field says.
_FIELDS = {"E": "weekday", "d": "day", "M": "month", "y": "year"}


class Link(NamedTuple):
    """A stretch of the target and the stretch of the source that says the same.

    Attributes:
        field: "weekday", "day", "month" or "year".
        target_start, target_stop: The characters ``target[target_start:target_stop]``.
        source_start, source_stop: The characters ``source[source_start:source_stop]``.
    """

    field: str
    target_start: int
    target_stop: int
    source_start: int
    source_stop: int


class Written(NamedTuple):
    """A phrase as text, and for a date where each of its parts stands.

    Attributes:
        text: The phrase, with plain spaces.
        spans: For each field ("weekday", "day", "month", "year") the characters ``text[start:stop]``.
    """

    text: str
    spans: dict[str, tuple[int, int]]


def plain_spaces(text: str) -> str:
    """The text with plain spaces in the place of those that do not break a line, U+00A0 and U+202F."""
    return text.translate(_PLAIN_SPACES)


def write_date(day: datetime.date, style: Style, locale: str) -> Written:
    """Write a date as Babel's ``format_date`` does, and keep the place of each part.

    Args:
        day: the date.
        style: "full" (with the weekday) or "long".
        locale: the name of a language as Babel knows it, such as "en_US".

    Returns:
        The text and the spans of its fields.

    Source: Unicode Technical Standard 35, part 4, "Date Format Patterns".
    """
    values = DateTimeFormat(day, Locale.parse(locale))
    text, spans = "", {}
    for literal, field in _pieces(style, locale):
        text += literal
        if field:
            start = len(text)
            text += plain_spaces(values[field])
            spans[_FIELDS[field[0]]] = (start, len(text))
    return Written(text, spans)


@cache
def _pieces(style: Style, locale: str) -> list[tuple[str, str]]:
    """The pattern as literal text, each with the field that follows it ("" at the end)."""
    pattern = plain_spaces(str(get_date_format(style, locale=locale).format))
    return re.findall(r"(.*?)(?:%\((\w+)\)s|$)", pattern)


def link_dates(source: Written, target: Written) -> tuple[Link, ...]:
    """Link what says the same: field by field, and where both write the same digits, digit by digit.

    Args:
        source: a date.
        target: the same date, in another language.

    Returns:
        The links, in the order of the target. A field that only one of the two writes has none.
    """
    links = []
    for field, (start, stop) in target.spans.items():
        begin, end = source.spans[field]
        if source.text[begin:end] == target.text[start:stop]:
            links += [
                Link(field, start + i, start + i + 1, begin + i, begin + i + 1) for i in range(end - begin)
            ]
        else:
            links.append(Link(field, start, stop, begin, end))
    return tuple(links)


def gold_alignment(
    pair: TranslationPair, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> list[frozenset[int]]:
    """For each token of the target the tokens of the source that say the same.

    The tokens may be words, sub-words or characters, as long as joining them gives the text back. A token
    that overlaps a field belongs to it, so that a space in front does no harm.

    Args:
        pair: a pair of the kind ``"full_date"`` or ``"long_date"``.
        source_tokens: the source cut into tokens, S of them, in the case of the source or folded.
        target_tokens: the target cut into tokens, T of them.

    Returns:
        T sets of indices from ``0 … S - 1``. A set is empty for a token without a counterpart, such as a
        comma or the Spanish "de": leave these out when you count. Where the decoder is given ``bos`` first,
        row ``t`` of its cross-attention writes target token ``t``: compare ``weights[t].argmax()`` with set
        ``t``.

    Raises:
        ValueError: if the pair is no date, or the tokens do not join to its texts.
    """
    if not pair.links:
        raise ValueError(f"pair: expected a date, full or long, got the kind {pair.kind!r}")
    for name, tokens, text in (
        ("source_tokens", source_tokens, pair.source),
        ("target_tokens", target_tokens, pair.target),
    ):
        if "".join(tokens).casefold() != text.casefold():
            raise ValueError(f"{name}: expected tokens that join to {text!r}, got {list(tokens)}")
    source_spans = _token_spans(source_tokens)
    gold = []
    for start, stop in _token_spans(target_tokens):
        linked = [link for link in pair.links if link.target_start < stop and start < link.target_stop]
        gold.append(
            frozenset(
                index
                for index, (begin, end) in enumerate(source_spans)
                if any(link.source_start < end and begin < link.source_stop for link in linked)
            )
        )
    return gold


def _token_spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    stops = list(accumulate(map(len, tokens)))
    return list(zip([0, *stops[:-1]], stops, strict=True))
