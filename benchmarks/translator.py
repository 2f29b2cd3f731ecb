"""The live translator: a sentence in the browser beside the same sentence in PyTorch, from the same file.

Both search greedily with a cache, one sentence at a time; the browser keeps every attention weight besides,
as its page shows them. Chromium runs as it does for the tests; without one there is nothing to measure.
How long the playground takes to draw another word of the longest phrase needs the website as well.

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
from tools.audit import server
from tools.course import ROOT, SITE, find_browser
from tools.translators import LANGUAGES, file_of

SENTENCES, MOST_TIMES_PYTORCH, MOST_MILLISECONDS, MOST_MEGABYTES = 200, 2.0, 15.0, 10.0
MOST_REDRAW = 50.0  # milliseconds
PLAYGROUND = "book/pages/playground.html"

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
#: Press two buttons by turns; each time, what the next frame takes for script, style and layout.
REDRAW = """
async ([buttons, times]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const taken = [];
  for (let time = 0; time < times; time += 1) {
    await frame();
    let began;
    requestAnimationFrame(() => (began = performance.now())); // before the widget's own
    buttons[time % 2].click();
    await new Promise((done) => requestAnimationFrame(() => {
      document.body.getBoundingClientRect();
      taken.push(performance.now() - began);
      done();
    }));
  }
  return taken;
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


def redrawing(language: str, text: str, times: int = 40) -> list[float]:
    """Milliseconds to draw a word of a phrase in the playground, its arcs, its candidates and all weights."""
    from playwright.sync_api import sync_playwright

    with server.serving(SITE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(reduced_motion="reduce")  # all words at once
        page.goto(address + PLAYGROUND)
        widget = page.locator(".attnlab-widget[data-translator]")
        page.locator(".attnlab-host").first.scroll_into_view_if_needed()
        view = widget.element_handle()
        widget.get_by_label("Into").select_option(language)
        widget.get_by_role("button", name="Load the translator").click()
        page.wait_for_function("view => view.dataset.done === 'true'", arg=view)
        before = widget.get_attribute("data-text")
        widget.get_by_label("English phrase").fill(text)
        page.wait_for_function(
            "([view, before]) => view.dataset.done === 'true' && view.dataset.text !== before",
            arg=[view, before],
        )
        buttons = [
            widget.get_by_role("button", name=name).element_handle() for name in ("Step forward", "Step back")
        ]
        taken: list[float] = page.evaluate(REDRAW, [buttons, times])
        browser.close()
    return taken


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
    if not (SITE / PLAYGROUND).is_file():
        report.line("      a redraw: not measured, there is no website yet (make site)")
        return
    for name in names:
        phrase = max(sources(name, 1_000), key=len)
        taken = min((redrawing(name, phrase) for _ in range(rounds)), key=statistics.median)
        words = report.at_most(f"{name}, milliseconds to draw a word", statistics.median(taken), MOST_REDRAW)
        report.line(f"      a redraw into {name} of its longest phrase, {len(phrase)} letters: {words}")
