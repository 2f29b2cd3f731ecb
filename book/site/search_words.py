"""Words for the search: Chinese has no spaces, so that what is looked for stands inside a phrase."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

CHINESE = re.compile(r"([\u3400-\u9fff\uf900-\ufaff]+)")


class CourseWords(SearchEnglish):
    """English, and in it Chinese phrases with their single letters and pairs of letters.

    The search itself finds three letters and more inside a longer word.
    """

    def split(self, input: str) -> list[str]:
        words: list[str] = super().split(input)
        for word in [word for word in words if CHINESE.search(word)]:
            for part in CHINESE.split(word):
                if CHINESE.fullmatch(part):
                    words += [part[i : i + size] for size in (1, 2) for i in range(len(part) + 1 - size)]
                elif part:
                    words.append(part)
        return words


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_search_language(CourseWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
