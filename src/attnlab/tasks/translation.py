"""Translation pairs in real languages, written on the reader's machine: nothing is downloaded.

A value (a day, a moment, an amount of money, a number) is drawn, then written twice: in English and in
another language. The languages differ in earnest: French has ``1,75 franc suisse`` in the singular, the clock
turns from 12 to 24 hours, German says the units before the tens, Chinese puts the year first.

Spaces that do not break (U+00A0, U+202F), which the CLDR puts into numbers and times, become plain spaces, so
that the text is what a keyboard types. Another version of the CLDR may word a phrase otherwise; with the same
versions the same seed gives the same pairs, in each process.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch

from attnlab.tasks.dates import Link, link_dates
from attnlab.tasks.phrases import LOCALES, PHRASES

__all__ = ["KINDS", "LANGUAGES", "MOST_OF_A_KIND", "TranslationPair", "split_pairs", "translation_pairs"]

#: The languages to translate into.
LANGUAGES = tuple(language for language in LOCALES if language != "en")
#: The kinds of phrase: "Tuesday, September 3, 2024"; "September 3, 2024"; "September 3, 3:07 PM";
#: "1.75 Swiss francs"; "twenty-one".
KINDS = tuple(PHRASES)
#: More pairs than this of one kind are refused: there are only so many days and small numbers.
MOST_OF_A_KIND = 20_000


class TranslationPair(NamedTuple):
    """One phrase in English and in another language.

    Attributes:
        source: The English text.
        target: The same in the other language.
        kind: Which kind of phrase it is, one of :data:`KINDS`.
        links: For dates, which stretch of the target says what which stretch of the source says, in
            characters; see :func:`attnlab.tasks.gold_alignment`. Empty for the other kinds.
    """

    source: str
    target: str
    kind: str
    links: tuple[Link, ...] = ()


def translation_pairs(
    num_pairs: int,
    *,
    language: str = "fr",
    kinds: Sequence[str] | None = None,
    seed: int | torch.Generator = 0,
) -> list[TranslationPair]:
    """English phrases with their translations, no English phrase twice.

    Each kind gets the same number of pairs, to within one, and the kinds are shuffled together. Days lie
    between 1900 and 2099; numbers are below 100,000 and amounts lie between 1 and 100,000, short ones as
    often as long ones as far as there are enough.

    Args:
        num_pairs: number of pairs.
        language: what to translate into, one of :data:`LANGUAGES`: "fr", "de", "es" or "zh".
        kinds: which kinds of phrase, of :data:`KINDS`; all five where it is left out.
        seed: an integer, or a generator to draw one from.

    Returns:
        ``num_pairs`` pairs whose sources are all different.

    Raises:
        ValueError: if the language or a kind is unknown, a kind is named twice or none is named,
            ``num_pairs`` < 1, or more than :data:`MOST_OF_A_KIND` pairs of one kind are asked for.
    """
    kinds = KINDS if kinds is None else tuple(kinds)
    _check_request(num_pairs, language, kinds)
    rng = _random_from(seed)
    pairs: list[TranslationPair] = []
    for number, kind in enumerate(kinds):
        share = num_pairs // len(kinds) + (number < num_pairs % len(kinds))
        draw, write = PHRASES[kind]
        seen: set[Hashable] = set()
        while len(seen) < share:
            value = draw(rng)
            if value not in seen:
                seen.add(value)
                source, target = write(value, "en"), write(value, language)
                links = link_dates(source, target)
                pairs.append(TranslationPair(source.text, target.text, kind, links))
    rng.shuffle(pairs)
    return pairs


def split_pairs(
    pairs: Sequence[TranslationPair], num_held_out: int, *, seed: int | torch.Generator = 0
) -> tuple[list[TranslationPair], list[TranslationPair]]:
    """Put some sources aside, to test with what was never trained on.

    A source that occurs several times goes to one side with all its pairs; upper and lower case count as the
    same.

    Args:
        pairs: what to split.
        num_held_out: number of sources to hold out.
        seed: an integer, or a generator to draw one from; decides which sources are held out.

    Returns:
        ``(train, held_out)``, each in the order of ``pairs``.

    Raises:
        ValueError: if ``num_held_out`` is not between 1 and the number of different sources less one.
    """
    sources = sorted({pair.source.casefold() for pair in pairs})
    if not 1 <= num_held_out < len(sources):
        raise ValueError(
            f"num_held_out: expected at least 1 and fewer than the {len(sources)} different sources, "
            f"got {num_held_out}"
        )
    held_out = set(_random_from(seed).sample(sources, num_held_out))
    sides: tuple[list[TranslationPair], list[TranslationPair]] = ([], [])
    for pair in pairs:
        sides[pair.source.casefold() in held_out].append(pair)
    return sides


def _check_request(num_pairs: int, language: str, kinds: Sequence[str]) -> None:
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"kinds: expected some of {', '.join(KINDS)}, got {kind!r}")
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds: expected at least one kind, and none twice, got {tuple(kinds)}")
    if num_pairs < 1:
        raise ValueError(f"num_pairs: expected at least 1, got {num_pairs}")
    if num_pairs > MOST_OF_A_KIND * len(kinds):
        raise ValueError(
            f"num_pairs: expected at most {MOST_OF_A_KIND * len(kinds)}, that is {MOST_OF_A_KIND} of each "
            f"kind, got {num_pairs}"
        )


def _random_from(seed: int | torch.Generator) -> random.Random:
    if isinstance(seed, torch.Generator):
        seed = int(torch.randint(2**62, (), generator=seed, device=seed.device))
    return random.Random(seed)
