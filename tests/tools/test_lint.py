"""Numbers typed by hand: which are found, and how well over whole texts."""

import ast
import json
import re
from pathlib import Path

import pytest

from tools.notebooks import code, lint

CORPUS = Path(__file__).with_name("lint_corpus")
TRUE = re.compile(r"\{\{R\|(.*?)\}\}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Accuracy is 0.93, up 12 %.", ["0.93", "12 %"]),
        ("It is 3.5 times faster, 4× smaller, 2-fold in all.", ["3.5 times", "4×", "2-fold"]),
        ("Seven of ten were right; twice as many as before.", ["Seven of ten", "twice as"]),
        ("See Section 3.2, Figure 2.1, Python 3.11, torch 2.13.0, and 28 × 28 inputs.", []),
        ("Python 3.11, 3.12 or 3.13, torch 2.6 to 2.13.", []),
        ("Vaswani et al. (2017) report 28.4 BLEU.", []),
        ("As @vaswani2017 says, 28.4 BLEU.", []),
        ("They reach 28.4 BLEU [@v2017]. We reach 20.1.", ["20.1"]),
        ("A learning rate of 0.01 and $x = 0.93$ and `0.93`.", []),
        ("Noise of 0.25. A level of 0.98, and 0.98.", ["0.98"]),
        ("A loss of 0.25.", ["0.25"]),
        ("A decay of [[=0.9]], see https://x.org/v1.25 and [[a:.2f]].", []),
        ("```python\nx = 0.5 # 93 %\n```\nAnd 93 %.", ["93 %"]),
        ("```{note}\nWe got 93 %.\n```", ["93 %"]),
        ("| model | loss |\n|--|--|\n| 0.3 | 0.7 |", ["0.7"]),
        ("In 2017, on 8 cards, for 3.5 days it ran.", ["3.5"]),
    ],
)
def test_what_looks_like_a_result(text, found):
    known = code.literals(ast.parse("noise = 0.25\nclaim('s', x, at_least=0.98)"))
    assert [shown for _, shown in lint.typed(text, known)] == found


def score(name):
    """Return right hits, false alarms and misses over one text."""
    marked = (CORPUS / f"{name}.md").read_text(encoding="utf-8")
    text, spans, at = "", [], 0
    for match in TRUE.finditer(marked):
        text += marked[at : match.start()]
        spans.append((len(text), len(text) + len(match[1])))
        text += match[1]
        at = match.end()
    text += marked[at:]
    known = code.literals(ast.parse(json.loads((CORPUS / "code.json").read_text(encoding="utf-8"))[name]))
    hits = [(start, start + len(shown)) for start, shown in lint.typed(text, known)]
    right = [span for span in spans if any(start < span[1] and span[0] < stop for start, stop in hits)]
    false = [text[a - 30 : b] for a, b in hits if not any(a < stop and start < b for start, stop in spans)]
    return len(right), false, [text[a:b] for a, b in spans if (a, b) not in right]


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.md")))
def test_quality_on_whole_texts(name):
    right, false, missed = score(name)
    assert right >= 10
    assert right / (right + len(false)) >= 0.85, false
    assert right / (right + len(missed)) >= 0.8, missed
