"""Right searches and the right loss of lesson 9, with a switch for every known mistake.

They are written for the checks alone. The course's own are ``attnlab.transformer.beam_search``,
``attnlab.transformer.greedy_decode`` and ``attnlab.training.smoothed_targets``; the tests hold them together.
The training loop is in ``loop``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from attnlab.tasks import BOS, EOS, PAD

NextLogProbs: TypeAlias = Callable[[Tensor], Tensor]
_Text: TypeAlias = tuple[float, list[int]]


# --- beam search ------------------------------------------------------------------------------------------


def beam_search(
    next_log_probs: NextLogProbs,
    beam_size: int,
    max_length: int,
    length_penalty: float = 0.0,
    *,
    stop: str = "nothing left",
    ended: str = "set aside",
    width: str = "beam",
    parent: str = "followed",
    total: str = "summed",
    counted: str = "with the end",
    penalty: str = "divides",
    unfinished: str = "last resort",
    returned: str = "with the end",
    told: str = "score",
    chosen: str = "by score",
    limit: int = 0,
) -> tuple[list[int], float]:
    """The best text that a beam search finds, without ``bos`` and with ``eos``, and its score."""

    def score(text: _Text) -> float:
        return _score(text, length_penalty, counted, penalty)

    going: list[_Text] = [(0.0, [])]
    done: list[_Text] = []
    for _ in range(max_length + limit):
        free = beam_size - (len(done) if ended == "keeps its place" else 0)
        if not going or free < 1:
            break
        kept = _continued(
            going, next_log_probs, math.inf if ended == "makes room" else free, width, parent, total
        )
        going, done = _set_aside(kept, done, beam_size, ended)
        if done and going and _is_enough(stop, done, going, beam_size, score):
            break
    candidates = done or going
    if unfinished == "competes":
        candidates = done + going
    best = max(candidates, key=score if chosen == "by score" else lambda text: text[0])
    tokens = best[1]
    if returned == "with the begin":
        tokens = [BOS, *tokens]
    elif returned == "without the end":
        tokens = [token for token in tokens if token != EOS]
    return tokens, best[0] if told == "log-probability" else score(best)


def _set_aside(
    kept: list[_Text], done: list[_Text], beam_size: int, ended: str
) -> tuple[list[_Text], list[_Text]]:
    """What goes on and what has ended, after a step that kept these continuations."""
    if ended == "extended":
        return kept, done
    if ended == "competes":  # for the places of the beam, again at each step
        kept, done = sorted([*done, *kept], key=lambda text: -text[0])[:beam_size], []
    going = [text for text in kept if text[1][-1] != EOS]
    over = [text for text in kept[:beam_size] if text[1][-1] == EOS]
    return going[:beam_size], done + over


def _is_enough(
    stop: str, done: list[_Text], going: list[_Text], beam_size: int, score: Callable[[_Text], float]
) -> bool:
    """Whether the search stops, though something is left to go on."""
    return {
        "nothing left": False,
        "first end": True,
        "enough ended": len(done) >= beam_size,
        "none likelier": max(done)[0] >= max(going)[0],
        "none better so far": max(map(score, done)) >= max(map(score, going)),
    }[stop]


def _continued(
    going: list[_Text], next_log_probs: NextLogProbs, beam_size: float, width: str, parent: str, total: str
) -> list[_Text]:
    """The likeliest continuations, by one token, of all beginnings together."""
    log_probs = next_log_probs(torch.tensor([[BOS, *tokens] for _, tokens in going])).tolist()  # (N, V)
    options = [
        (so_far * (total == "summed") + value, row, token)
        for row, (so_far, _) in enumerate(going)
        for token, value in enumerate(log_probs[row])
        if value > -math.inf
    ]
    options.sort(key=lambda option: -option[0])
    if width == "each its own" and len(going) > 1:
        options = [next(option for option in options if option[1] == row) for row in range(len(going))]
    kept = options[: 1 if width == "one" else int(min(beam_size, len(options)))]
    if parent == "same place":  # the tokens stay where they are, while the sums move
        kept = [(value, min(place, len(going) - 1), token) for place, (value, _, token) in enumerate(kept)]
    return [(value, [*going[row][1], token]) for value, row, token in kept]


def _score(text: _Text, length_penalty: float, counted: str, penalty: str) -> float:
    log_prob, tokens = text
    n = len(tokens) + {"with the end": 0, "with the begin": 1, "without the end": -1}[counted]
    power = {"divides": -length_penalty, "multiplies": length_penalty, "ignored": 0.0}[penalty]
    return float(log_prob * max(n, 1) ** power)


# --- greedy decoding --------------------------------------------------------------------------------------


def greedy(
    table: Tensor,
    max_length: int,
    *,
    after: str = "pad",
    stop: str = "all ended",
    never: str = "pad and bos",
    returned: str = "with the end",
    rows: str = "own",
    cut_off: str = "as it is",
    limit: int = 0,
) -> Tensor:
    """Greedy decoding of models that fit in tables: logits (B, V, V) of what follows, to tokens (B, L)."""
    if rows == "first":
        table = table[:1].expand(len(table), -1, -1)
    if never == "pad and bos":
        table = table.index_fill(-1, torch.tensor([PAD, BOS]), -math.inf)
    newest = torch.full((len(table),), BOS)  # (B,)
    finished = torch.zeros(len(table), dtype=torch.bool)
    columns: list[Tensor] = []
    while len(columns) < max_length + limit:
        newest = table[torch.arange(len(table)), newest].argmax(dim=-1)  # (B,)
        if after != "goes on":
            newest = newest.masked_fill(finished, PAD if after == "pad" else EOS)
        columns.append(newest)
        finished = finished | (newest == EOS)
        enough = {
            "all ended": bool(finished.all()),
            "one ended": bool(finished.any()),
            "all at once": bool((newest == EOS).all()),
        }
        if enough[stop]:
            break
    tokens = torch.stack(columns, dim=1)  # (B, L)
    if cut_off == "ended by force":
        tokens[~finished, -1] = EOS
    if returned == "with the begin":
        return torch.cat([torch.full((len(table), 1), BOS), tokens], dim=1)
    return tokens.masked_fill(tokens == EOS, PAD) if returned == "without the end" else tokens


# --- label smoothing --------------------------------------------------------------------------------------


class SmoothedLoss(nn.Module):
    """Cross-entropy with label smoothing that gives padding no share; the keywords turn mistakes on."""

    def __init__(
        self,
        smoothing: float,
        pad: int = 0,
        *,
        spread: str = "others",
        padding: str = "left out",
        mean: str = "real tokens",
        empty: str = "zero",
        impossible: str = "no share",
        logarithm: str = "of logits",
        axis: int = -1,
        constant: str = "cross-entropy",
        padding_is: str = "as told",
    ) -> None:
        super().__init__()
        self._smoothing, self._pad = smoothing, pad if padding_is == "as told" else 0
        self._spread, self._padding, self._mean, self._empty = spread, padding, mean, empty
        self._impossible, self._axis, self._constant = impossible, axis, constant
        self._logarithm = logarithm

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Logits (..., V) and targets (...) to one number."""
        log_p = logits.log_softmax(dim=self._axis)  # (..., V)
        if self._logarithm == "of a softmax":
            log_p = (logits.softmax(dim=self._axis) + 1e-9).log()
        shares = self._shares(targets, logits.shape[-1]).to(log_p)  # (..., V)
        terms = shares * (log_p.masked_fill(shares == 0, 0.0) if self._impossible == "no share" else log_p)
        if self._constant == "divergence":
            terms = terms - torch.special.xlogy(shares, shares)
        each = -terms.sum(dim=-1)  # (...)
        real = targets != self._pad  # (...)
        if self._padding == "left out":
            each = each.masked_fill(~real, 0.0) if self._impossible == "no share" else each * real
        return self._over_all(each, real, logits.shape[-1])

    def _shares(self, targets: Tensor, V: int) -> Tensor:
        epsilon = self._smoothing
        if self._spread == "swapped":
            epsilon = 1 - epsilon
        chosen = nn.functional.one_hot(targets, V).to(torch.float64)  # (..., V)
        known = torch.ones(V, dtype=torch.float64)
        known[self._pad] = 0.0
        if self._spread == "nothing":
            return chosen
        if self._spread == "all tokens":
            return (1 - epsilon) * chosen + epsilon / V
        if self._spread == "all real tokens":
            return (1 - epsilon) * chosen + epsilon / (V - 1) * known
        if self._spread == "padding too":
            return (1 - epsilon) * chosen + epsilon / (V - 1) * (1 - chosen)
        others = known * (1 - chosen)  # (..., V)
        share = epsilon / (V if self._spread == "too thin" else V - 2)
        return (1 - epsilon) * chosen + share * others

    def _over_all(self, each: Tensor, real: Tensor, V: int) -> Tensor:
        total, count = each.sum(), real.sum()
        if self._mean == "sum":
            return total
        if self._mean == "all places":
            return total / each.numel()
        if self._mean == "tokens and classes":
            return total / (count.clamp(min=1) * V)
        if self._mean == "rows":
            rows, counts = each.sum(dim=-1), real.sum(dim=-1)
            return (rows / counts.clamp(min=1)).mean()
        return total / count if self._empty == "nan" else total / count.clamp(min=1)
