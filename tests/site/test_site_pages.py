"""Every page of the website: whole, readable, and without a word to any other host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
LESSON = "notebooks/03_query_key_value"

#: TeX that reached the page as text, looked for outside code.
RAW_TEX = re.compile(r"\$[^$\n]+\$|\\[(\[]|\\(?:frac|sqrt|mathbb|operatorname|text|begin)\b")
TEXT_OUTSIDE_CODE = """() => {
  const copy = document.querySelector("main").cloneNode(true);
  copy.querySelectorAll("pre, code, script, style, math, .attnlab-host").forEach((part) => part.remove());
  return copy.textContent;
}"""


def read_notebook(name: str) -> dict:
    return json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))


def scroll_through(page: Page) -> None:
    """Bring every picture near the screen, so that it is fetched, and wait for each."""
    page.evaluate("""async () => {
      document.querySelectorAll("details").forEach((fold) => (fold.open = true));
      for (const image of document.querySelectorAll("img")) {
        image.scrollIntoView();
        await image.decode().catch(() => {});
      }
    }""")


def test_page_is_whole(shown: Page) -> None:
    page = shown
    assert page.locator("h1").count() == 1
    assert page.locator("main article").inner_text().strip()
    assert not page.locator(".formula-error").count()
    assert not page.locator("script[src*=mathjax], mjx-container").count()
    assert RAW_TEX.findall(page.evaluate(TEXT_OUTSIDE_CODE)) == []
    repeated = "() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);"
    assert page.evaluate(repeated + " return ids.filter((id, i) => ids.indexOf(id) !== i); }") == []


def test_pictures_say_what_they_show_and_load(shown: Page) -> None:
    scroll_through(shown)
    for image in shown.locator("img").all():
        assert (image.get_attribute("alt") or "").strip(), image.get_attribute("src")
        assert image.evaluate("e => e.complete && e.naturalWidth > 0"), image.get_attribute("src")
        assert image.get_attribute("width") and image.get_attribute("height")


def test_links_within_the_site_lead_somewhere(page_name: str, shown: Page, site_folder: Path) -> None:
    for target in shown.evaluate(
        "() => [...document.querySelectorAll('a[href]')].map((a) => a.getAttribute('href'))"
    ):
        if re.match(r"[a-z]+:", target):
            continue
        address, anchor = urldefrag(urljoin(f"/{page_name}.html", target))
        file = site_folder / unquote(address.split("?")[0]).lstrip("/")
        assert file.is_file(), f"{target}: no such page"
        if anchor:
            assert f'id="{unquote(anchor)}"' in file.read_text(encoding="utf-8"), f"{target}: no such place"


def test_notebook_is_shown_with_all_its_code_and_figures(notebook_name: str, shown_notebook: Page) -> None:
    cells = [cell for cell in read_notebook(notebook_name)["cells"] if cell["cell_type"] == "code"]
    hidden = {"remove-cell", "remove-input"}
    visible = [
        cell for cell in cells if cell["source"] and not hidden & set(cell["metadata"].get("tags", []))
    ]
    figures = [
        output["metadata"]["image/png"]["alt"]
        for cell in cells
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert shown_notebook.locator(".cell_input").count() == len(visible)
    written = shown_notebook.locator(".cell_output img").evaluate_all(
        "images => images.map((image) => image.alt)"
    )
    assert written == figures


def test_lessons_and_notation_have_formulas(open_page: Callable[..., Page]) -> None:
    for name in ("book/pages/index", "book/pages/notation", "notebooks/01_recurrence_limits", LESSON):
        page = open_page(f"{name}.html")
        assert page.locator("main math").count() > 0, name
        first = page.locator("main math").first.bounding_box()
        assert first and first["width"] > 5 and first["height"] > 5, name


def test_formulas_use_the_font_of_the_site(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    loaded = "face.status === 'loaded' && face.family.includes('Attention Lab STIX')"
    page.wait_for_function(f"() => [...document.fonts].some((face) => {loaded})", timeout=10_000)
    assert "Attention Lab STIX" in page.locator("main math").first.evaluate(
        "e => getComputedStyle(e).fontFamily"
    )
    scripts = page.locator("main msub > :nth-child(2)").first
    base = page.locator("main msub > :first-child").first
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    assert scripts.evaluate(size) < 0.8 * base.evaluate(size)


def test_scripts_stand_in_line_and_primes_and_fractions_can_be_read(open_page: Callable[..., Page]) -> None:
    page = open_page("notebooks/01_recurrence_limits.html")
    page.evaluate("document.fonts.ready.then(() => true)")
    feet = page.locator(".formula math", has_text="⊙").evaluate(
        """formula => [...formula.querySelectorAll("msub > mi:nth-child(2)")]
          .map((script) => script.getBoundingClientRect().bottom)"""
    )
    assert len(feet) > 4 and max(feet) - min(feet) < 1  # below a g as below a c
    gap = page.locator(".formula mfrac").first.evaluate(
        "fraction => fraction.getBoundingClientRect().left"
        " - fraction.previousElementSibling.getBoundingClientRect().right"
    )
    assert gap > 1
    page = open_page("notebooks/13_long_sequences.html")
    page.evaluate("document.fonts.ready.then(() => true)")
    prime = page.locator(".formula msup > mo", has_text="′").first
    width = "sign => sign.getBoundingClientRect().width / parseFloat(getComputedStyle(sign).fontSize)"
    assert prime.evaluate(width) > 0.32  # 0.296 is the sign as it stands in a line of text


def test_no_gap_is_left_behind_a_root(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    page.evaluate("document.fonts.ready")
    page.wait_for_function("() => document.querySelector('main p msqrt, main li msqrt').style.marginRight")
    gaps = page.evaluate("""() => [...document.querySelectorAll("main :is(p, li) > math")]
      .filter((formula) => formula.lastElementChild.localName === "msqrt" && formula.childElementCount === 1)
      .map((formula) => formula.getBoundingClientRect().right
        - formula.lastElementChild.lastElementChild.getBoundingClientRect().right)""")
    assert gaps and max(gaps) < 2


def test_exercises_do_not_hold_their_solutions(notebook_name: str, shown_notebook: Page) -> None:
    if not notebook_name.startswith("exercises/"):
        return
    given = {"".join(cell["source"]).strip() for cell in read_notebook(notebook_name)["cells"]}
    solved = read_notebook(notebook_name.replace("exercises/", "solutions/"))["cells"]
    answers = ["".join(cell["source"]).strip() for cell in solved if cell["cell_type"] == "code"]
    answers = [answer for answer in answers if answer not in given]
    assert answers, "the solutions differ from the exercises in no cell"
    shown = page_code(shown_notebook)
    assert not [answer for answer in answers if answer in shown]


def page_code(page: Page) -> set[str]:
    """Text of every block of code on a page."""
    return set(
        page.locator(".cell_input pre").evaluate_all("blocks => blocks.map((e) => e.textContent.trim())")
    )


#: axe's rules whose outcome turns on colours: the others say the same in both themes.
COLOUR_RULES = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def expect_no_violation(page: Page, scheme: str, options: dict | None = None) -> None:
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    page.evaluate("""() => {
      document.querySelectorAll("details").forEach((fold) => (fold.open = true));
      return Promise.all(document.getAnimations().map((animation) => animation.finished));
    }""")
    result = Axe().run(page, options=options)
    assert result.violations_count == 0, result.generate_report()


def test_axe_finds_nothing_in_either_theme(page_name: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{page_name}.html", scheme="light")
    expect_no_violation(page, "light")
    page.emulate_media(color_scheme="dark")
    expect_no_violation(page, "dark", COLOUR_RULES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_search(scheme: str, open_page: Callable[..., Page]) -> None:
    expect_no_violation(open_page("search.html?q=mask", scheme=scheme), scheme)


def test_axe_finds_what_is_wrong(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    page.evaluate("""() => {
      const button = document.createElement("button");
      document.querySelector("main").append(button);
      document.querySelector("h1").style.color = "#eeeeee";
    }""")
    found = {violation["id"] for violation in Axe().run(page).response["violations"]}
    assert {"button-name", "color-contrast"} <= found
    found = {violation["id"] for violation in Axe().run(page, options=COLOUR_RULES).response["violations"]}
    assert found == {"color-contrast"}


#: Places in pages, style sheets and scripts from which a browser fetches by itself.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel="canonical")[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|@import\s+["']?https?:|\bimport\s*\(?["']https?:"""
)


def test_no_file_of_the_site_names_another_host_to_fetch_from(site_folder: Path) -> None:
    files = [path for path in site_folder.rglob("*") if path.suffix in {".html", ".css", ".js", ".mjs"}]
    assert len(files) > 10
    for path in files:
        assert FETCHED.findall(path.read_text(encoding="utf-8")) == [], path


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://a.invalid/x.js">',
        '<link rel="stylesheet" href="//a.invalid/x.css">',
        "src: url(https://a.invalid/f.woff2)",
        'import("https://a.invalid/x.mjs")',
    ],
)
def test_what_fetches_from_another_host_is_recognised(text: str) -> None:
    assert FETCHED.search(text)


def test_page_with_an_outside_script_is_caught(
    tmp_path: Path, serve_folder: Callable[[Path], str], open_url: Callable[..., Page]
) -> None:
    (tmp_path / "page.html").write_text(
        "<!doctype html><title>t</title><script src='https://scripts.invalid/x.js'></script>"
        "<style>@font-face { font-family: f; src: url(https://fonts.invalid/f.woff2) }</style>"
        "<style>p { font-family: f }</style>"
        "<p>text</p><script>throw new Error('broken')</script><img src='missing.png' alt='m'>",
        encoding="utf-8",
    )
    page = open_url(serve_folder(tmp_path) + "page.html", strict=False)
    page.evaluate("document.fonts.ready")
    assert {"https://scripts.invalid/x.js", "https://fonts.invalid/f.woff2"} <= set(page.outside)
    assert any("broken" in problem for problem in page.problems)
    assert any(problem.startswith("404") for problem in page.problems)


def test_the_address_of_the_site_leads_on_to_the_first_page(open_page: Callable[..., Page]) -> None:
    page = open_page("index.html")  # fails on a missing icon, too
    page.wait_for_url("**/book/pages/index.html")
    assert page.locator("h1").inner_text().startswith("Attention Lab")


def test_a_figure_keeps_a_readable_width_on_a_phone_and_scrolls(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html", width=390)
    wide = page.locator(".cell_output img").evaluate_all(
        "all => all.map(e => +e.getAttribute('width')).map(own => own > 576)"
    )
    assert True in wide and False in wide  # figures that are made narrower, and one that is not
    for at in (wide.index(True), wide.index(False)):
        figure = page.locator(".cell_output img").nth(at)
        figure.scroll_into_view_if_needed()
        own = int(figure.get_attribute("width") or 0)
        assert figure.evaluate("e => e.getBoundingClientRect().width") == min(own, 576) > 390
    box = figure.locator("xpath=..")
    assert box.evaluate("e => e.clientWidth") <= 390
    assert box.get_attribute("tabindex") == "0" and "Figure" in (box.get_attribute("aria-label") or "")
