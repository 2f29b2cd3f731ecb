"""The live translator: a sentence in the browser beside the same sentence in PyTorch, from the same file.

Both search greedily with a cache, one sentence at a time; the browser keeps every attention weight besides,
as its page shows them. Chromium runs as it does for the tests; without one there is nothing to measure.

    python -m benchmarks translator
"""

import base64
import statistics
import time
from collections.abc import Sequence
from typing import Any

from attnlab.export import TrainedTranslator, load_translator
from attnlab.tasks import split_pairs, translation_pairs
from benchmarks.harness import Report
from tools.course import ROOT, find_browser
from tools.translators import LANGUAGES, file_of

SENTENCES, MOST_TIMES_PYTORCH, MOST_MILLISECONDS, MOST_MEGABYTES = 200, 2.0, 15.0, 10.0

#: Time each sentence; the first ones are translated once before, as a page that is used has done.
MEASURE = """
(texts) => {
  for (const text of texts.slice(0, 20)) model.greedy(text);
  return texts.map((text) => {
    const began = performance.now();
    globalThis.kept = model.greedy(text);
    return performance.now() - began;
  });
}
"""
LOAD = """
async ([source, file]) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { readTranslator } = await import(address);
  const bytes = Uint8Array.from(atob(file), (letter) => letter.charCodeAt(0));
  const began = performance.now();
  globalThis.model = readTranslator(bytes);
  return performance.now() - began;
}
"""


def sources(language: str, count: int) -> list[str]:
    """The lesson's held-out phrases, the first of them."""
    pairs = translation_pairs(21_000, language=language, seed=0)
    return [pair.source for pair in split_pairs(pairs, 1_000, seed=1)[1][:count]]


def in_the_browser(name: str, texts: Sequence[str]) -> tuple[list[float], float, float]:
    """Milliseconds for each sentence and to read the file, and megabytes of heap with both kept."""
    from playwright.sync_api import sync_playwright

    folder = ROOT / "src" / "attnlab" / "widgets" / "translator_explorer"
    parts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("engine*.js"))]
    source = "\n".join([*parts, "export { readTranslator };"])
    file = base64.b64encode(file_of(name).read_bytes()).decode()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        session = page.context.new_cdp_session(page)
        before = _heap(session)
        loading = page.evaluate(LOAD, [source, file])
        times = page.evaluate(MEASURE, list(texts))
        grown = _heap(session) - before
        browser.close()
    return times, loading, grown / 1e6


def _heap(session: Any) -> float:
    """Bytes that are in use once what nobody holds is collected, the arrays' own among them."""
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return usage["usedSize"] + usage.get("backingStorageSize", 0)


def in_pytorch(translator: TrainedTranslator, texts: Sequence[str]) -> list[float]:
    """Milliseconds of process time for each sentence."""
    times = []
    warm_up = texts[:20]
    for text in [*warm_up, *texts]:
        began = time.process_time()
        translator.translate([text])
        times.append(1000 * (time.process_time() - began))
    return times[len(warm_up) :]


def run(
    report: Report, *, names: Sequence[str] = LANGUAGES, sentences: int = SENTENCES, rounds: int = 3
) -> None:
    """Print milliseconds a sentence in Chromium and in PyTorch, and what the page holds more."""
    report.title(
        "translator: milliseconds a sentence, greedy, in the browser and in PyTorch",
        f"lesson 9's own translators and {sentences} of its held-out phrases, one at a time; medians over",
        "them. The browser's times are of the clock, the lowest of some rounds; PyTorch's of the process.",
    )
    report.line(f"\n{'into':<6}{'Chromium':>10}{'PyTorch':>10}{'to load':>10}{'heap, MB':>10}  ratio")
    for name in names:
        texts, translator = sources(name, sentences), load_translator(file_of(name))
        turns = [(in_the_browser(name, texts), in_pytorch(translator, texts)) for _ in range(rounds)]
        ours = min(statistics.median(times) for (times, _, _), _ in turns)
        theirs = min(statistics.median(times) for _, times in turns)
        loading = min(loading for (_, loading, _), _ in turns)
        grown = max(grown for (_, _, grown), _ in turns)
        words = report.at_most(f"translator into {name}, times PyTorch", ours / theirs, MOST_TIMES_PYTORCH)
        report.line(f"{name:<6}{ours:>10.1f}{theirs:>10.1f}{loading:>10.0f}{grown:>10.1f}  {words}")
        report.line(f"      a sentence: {report.at_most(f'{name}, milliseconds', ours, MOST_MILLISECONDS)}")
        report.line(f"      heap: {report.at_most(f'{name}, megabytes', grown, MOST_MEGABYTES)}")
