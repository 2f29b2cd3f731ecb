"""A trained translator that runs in the page: each word as it is written, and where every head looked.

The browser reads the file that :func:`attnlab.export.save_translator` writes, with 8 bits a weight, and
computes the Transformer (Vaswani et al. 2017, section 3) with every attention weight. The weights are no
trait: the page asks the kernel for them, or on the website loads a file when the reader asks. So they are in
no saved state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traitlets

from .._base import CourseWidget, browser_code

__all__ = ["TranslatorExplorer", "WrittenWord"]

_LIKELIEST = 5
_MOST_PHRASES = 200  # what a page counts through in a few seconds


@dataclass(frozen=True)
class WrittenWord:
    """One step of greedy search, as the page shows it.

    Attributes:
        top: the five likeliest next tokens with their probabilities; the first of them is written.
        cross: weights over the S source tokens, nested lists ``[layer][head][S]``.
        itself: weights over the t tokens before, the begin among them, ``[layer][head][t]``.
    """

    top: list[tuple[str, float]]
    cross: list[list[list[float]]]
    itself: list[list[list[float]]]


class TranslatorExplorer(CourseWidget):
    """Type a phrase, and watch a trained translator write it word by word.

    Args:
        path: the file of a translator, as :func:`attnlab.export.save_translator` writes it.
        held_out: pairs of a source and its translation that were in no training, at most 200; the page counts
            on them what becomes of the translations when a part is taken away.
        text: the phrase at first.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no translator's, or ``held_out`` holds something else than such pairs.
    """

    _esm, _css = browser_code(Path(__file__).parent)

    text = traitlets.Unicode("Wednesday, July 4, 1984").tag(sync=True)
    language = traitlets.Unicode().tag(sync=True)
    held_out = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    # Where a website keeps the files: {name, label, address, kilobytes, measured}. A notebook has none.
    files = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, path: str | Path, held_out: Sequence[Any] = (), *, text: str = "Wednesday, July 4, 1984"
    ) -> None:
        from attnlab.export import load_translator

        self._file = Path(path).read_bytes()
        self._translator = load_translator(path)
        language = str(self._translator.about.get("language", "translation"))
        super().__init__(text=text, language=language, held_out=_pairs(held_out))
        self.on_msg(self._send_weights)

    def _send_weights(self, _: Any, content: Any, __: Any) -> None:
        """Answer a page that asks for the weights."""
        if content == {"kind": "weights"}:
            self.send({"kind": "weights"}, [self._file])

    def written(self) -> list[WrittenWord]:
        """What the page shows of the phrase by greedy search, computed by PyTorch from the same file.

        Returns:
            One step for each token, the end among them; none for an empty phrase.

        Raises:
            ValueError: the phrase is longer than the model can read.
        """
        import torch

        from attnlab.tasks import BOS, EOS, PAD

        text = self.text.strip()
        if not text:
            return []
        model, target = self._translator.model, self._translator.target
        tokens = [BOS]
        steps: list[WrittenWord] = []
        with torch.no_grad():
            encoded = model.encode(self._translator.source_rows([text]))
            while len(steps) < model.config.max_length and tokens[-1] != EOS:
                decoded = model.decode(
                    torch.tensor([tokens]), encoded.memory, encoded.mask, need_weights=True
                )
                assert decoded.cross_weights is not None and decoded.self_weights is not None
                logits = decoded.logits[0, -1].double()  # (V,)
                logits[[PAD, BOS]] = -torch.inf  # never written
                likeliest = logits.softmax(dim=-1).topk(_LIKELIEST)
                numbers = likeliest.indices.tolist()
                names = [target.vocabulary.tokens[number] for number in numbers]
                steps.append(
                    WrittenWord(
                        list(zip(names, likeliest.values.tolist(), strict=True)),
                        [weights[0, :, -1].tolist() for weights in decoded.cross_weights],
                        [weights[0, :, -1].tolist() for weights in decoded.self_weights],
                    )
                )
                tokens.append(numbers[0])
        return steps

    def translation(self) -> str:
        """The text that greedy search writes for the phrase; empty for an empty one."""
        text = self.text.strip()
        return self._translator.translate([text])[0] if text else ""

    def summary(self) -> str:
        return f"English to {self.language}, {len(self._file) // 1000} kB of weights"


def _pairs(held_out: Sequence[Any]) -> list[list[str]]:
    """Pairs of texts, from pairs of texts or from the pairs that ``tasks`` makes."""
    pairs = [
        [pair.source, pair.target] if hasattr(pair, "source") else list(pair)  # a TranslationPair or a tuple
        for pair in held_out
    ]
    if len(pairs) > _MOST_PHRASES:
        raise ValueError(f"held_out: expected at most {_MOST_PHRASES} pairs, got {len(pairs)}")
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(text, str) and text for text in pair):
            raise ValueError(f"held_out: expected pairs of two texts, got {pair!r}")
    return pairs
