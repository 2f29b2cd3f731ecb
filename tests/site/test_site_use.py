"""How the website is used: search, colours, narrow screens, keyboard, links to notebooks and manuscripts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "site"))
from search_words import CourseWords  # noqa: E402

LESSON = "notebooks/03_query_key_value"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
REPOSITORY, BRANCH = CONFIG["repository"]["url"], CONFIG["repository"]["branch"]


def theme(page: Page) -> str:
    return page.evaluate("document.documentElement.dataset.theme")


def background(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_search_finds_a_word_of_the_prose(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=softmax")
    results = page.locator("#search-results li a")
    results.first.wait_for()
    page.wait_for_function("() => document.querySelector('#search-results li p.context')")
    found = results.evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert any(LESSON in address for address in found), found
    page.wait_for_load_state("networkidle")  # each result's page is fetched for its quotation
    quoted = page.locator("#search-results li p.context").all_inner_texts()
    assert quoted and not [text for text in quoted if "On this page" in text or "minutes to read" in text]
    results.first.click()
    page.locator("h1").wait_for()


@pytest.mark.parametrize(
    ("words", "found_in"),
    [
        ("masked_fill", "code"),  # stands in code cells, and nowhere in a title
        ("scaled_dot_product_attention", "code"),
        ("monsoon currents", ""),
        ("residual stream", "prose"),
        ("法郎", "prose"),  # the end of a Chinese phrase
    ],
)
def test_search_finds_what_stands_in_prose_and_in_code(
    words: str, found_in: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(f"search.html?q={words.replace(' ', '+')}")
    page.wait_for_function("() => /Pages and sections found|No page holds/.test(document.body.innerText)")
    results = page.locator("#search-results li a")
    found = results.evaluate_all("links => links.map((link) => link.getAttribute('href').split(/[?#]/)[0])")
    assert bool(found) == bool(found_in)
    if found:
        other = page.context.new_page()
        other.goto(page.url.replace(page.url[page.url.index("search.html") :], found[0]))
        text = other.locator("main pre" if found_in == "code" else "main").all_inner_texts()
        assert all(word in "".join(text).lower() for word in words.split())


def test_words_inside_chinese_are_indexed() -> None:
    assert {"掩码", "码", "softmax", "mask"} <= set(CourseWords({}).split("用softmax与多头的掩码 mask"))


def test_the_entry_of_a_term_is_found_first(open_page: Callable[..., Page]) -> None:
    page = open_page("search.html?q=linear+attention")
    page.get_by_text("Pages and sections found").wait_for()
    assert "Linear attention" in page.locator("#search-results li a").first.inner_text()


def test_search_finds_nothing_where_there_is_nothing(open_page: Callable[..., Page]) -> None:
    page = open_page("search.html?q=qwertzuiop")
    page.get_by_text("No page holds all these words").wait_for()
    assert page.locator("#search-results li").count() == 0


def test_the_search_loads_on_its_own_page_only(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    names = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert not [name for name in names if "search" in name or "doctools" in name]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system(scheme: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html", scheme=scheme)
    assert theme(page) == scheme
    other = "dark" if scheme == "light" else "light"
    before = background(page)
    page.emulate_media(color_scheme=other)
    page.wait_for_function(f"() => document.documentElement.dataset.theme === '{other}'")
    assert background(page) != before


def test_chosen_colours_are_kept(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    button = page.get_by_role("button", name="Colours")
    seen = []
    for _ in range(3):
        button.click()
        seen.append((page.evaluate("document.documentElement.dataset.mode"), theme(page), background(page)))
    assert [mode for mode, _, _ in seen] == ["light", "dark", "auto"]
    assert seen[0][2] != seen[1][2] == "rgb(20, 24, 30)"
    button.click()
    button.click()
    page.reload()
    assert theme(page) == "dark" and "dark" in button.inner_text()
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"  # paper is white
    page.emulate_media(media="screen")
    with page.expect_navigation(wait_until="load"):  # the style sheet has arrived, too
        page.locator(".chapters a").first.click()
    assert theme(page) == "dark" and background(page) == "rgb(20, 24, 30)"


def test_narrow_screen_does_not_scroll_sideways(page_name: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{page_name}.html", width=390)
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("width => innerWidth === width", arg=width)
        wide = page.evaluate("""() => [...document.querySelectorAll("main *")]
          .filter((part) => part.getBoundingClientRect().right > innerWidth)
          .filter((part) => !part.parentElement.closest(".scroll, pre, .output, math"))
          .map((part) => part.outerHTML.slice(0, 120))""")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, wide[:3]


@pytest.mark.parametrize("width", [390, 320])
def test_chapters_open_on_a_phone(width: int, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html", width=width, has_touch=True)
    chapters = page.locator("#chapters")
    assert not chapters.is_visible()
    page.get_by_role("button", name="Chapters").tap()
    assert chapters.is_visible()
    page.keyboard.press("Escape")
    assert not chapters.is_visible()
    page.get_by_role("button", name="Chapters").tap()
    page.get_by_role("button", name="Close").tap()
    assert not chapters.is_visible()
    page.get_by_role("button", name="Chapters").tap()
    chapters.get_by_role("link", name="Glossary").tap()
    page.wait_for_url("**/glossary.html")


def test_chapters_stand_beside_the_text_on_a_wide_screen(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    assert page.locator("#chapters").is_visible()
    assert not page.get_by_role("button", name="Chapters").is_visible()
    assert page.locator("#chapters a[aria-current=page]").count() == 1


def test_the_keyboard_reaches_what_scrolls(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html", width=320)
    page.evaluate("document.fonts.ready")
    boxes = """[...document.querySelectorAll("main .scroll, main .highlight > pre")]
      .filter((box) => box.getClientRects().length)
      .map((box) => [box.scrollWidth > box.clientWidth + 1, box.tabIndex === 0])"""
    page.wait_for_function(f"() => {boxes}.every(([wide, reached]) => wide === reached)")
    assert [True, True] in page.evaluate(boxes), "nothing is wider than the screen, so the test shows nothing"


def test_a_page_can_be_read_without_scripts(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html", java_script_enabled=False)
    assert page.locator("main math").first.is_visible()
    assert page.locator("#chapters").is_visible()
    assert not page.locator(".mode").is_visible()


def test_code_can_be_copied(open_page: Callable[..., Page], site_url: str) -> None:
    page = open_page(f"{LESSON}.html")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site_url.rstrip("/"))
    block = page.locator(".cell_input .highlight:visible").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    block.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == block.locator("pre").text_content().strip()


def test_notebook_can_be_downloaded(notebook_name: str, shown_notebook: Page) -> None:
    with shown_notebook.expect_download() as download:
        shown_notebook.get_by_role("link", name="Download the notebook").click()
    assert download.value.suggested_filename == Path(notebook_name).name + ".ipynb"
    assert Path(download.value.path()).read_bytes() == (ROOT / f"{notebook_name}.ipynb").read_bytes()


def test_notebook_opens_in_colab(notebook_name: str, shown_notebook: Page) -> None:
    address = shown_notebook.get_by_role("link", name="Open in Colab").get_attribute("href")
    owner = REPOSITORY.removeprefix("https://github.com/")
    assert address == f"https://colab.research.google.com/github/{owner}/blob/{BRANCH}/{notebook_name}.ipynb"


def test_every_colab_link_names_a_notebook_of_this_branch(site_folder: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in site_folder.rglob("*.html")]
    addresses = {
        link for text in pages for link in re.findall(r'https://colab\.research\.google\.com/[^"<\s]*', text)
    }
    owner = REPOSITORY.removeprefix("https://github.com/")
    start = f"https://colab.research.google.com/github/{owner}/blob/{BRANCH}/"
    assert addresses
    for address in addresses:
        assert address.startswith(start) and address.endswith(".ipynb"), address
        notebook = json.loads((ROOT / unquote(address.removeprefix(start))).read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4 and notebook["cells"]


def test_edit_leads_to_what_a_person_writes(page_name: str, shown: Page) -> None:
    links = shown.get_by_role("link", name="Edit this page")
    if page_name == "notebooks/evidence":
        assert links.count() == 0  # made from what the notebooks computed
        return
    path = links.get_attribute("href").removeprefix(f"{REPOSITORY}/edit/{BRANCH}/")
    assert (ROOT / path).is_file(), path
    assert path.startswith("book/")
    match = re.fullmatch(r"(notebooks|exercises|solutions)/(\d\d_\w+)", page_name)
    if match:
        folder = "lessons" if match[1] == "notebooks" else "exercises"
        assert path == f"book/{folder}/{match[2]}.py"


def test_pages_that_are_no_notebooks_offer_none(page_name: str, shown: Page) -> None:
    is_notebook = (ROOT / f"{page_name}.ipynb").is_file()
    assert shown.locator(".launch a").count() == (2 if is_notebook else 0)


def test_what_every_page_loads_is_small(site_folder: Path) -> None:
    static = site_folder / "_static"
    sizes = {name: (static / name).stat().st_size for name in ("site.css", "site.js", "formulas.woff2")}
    assert sizes["site.css"] < 30_000 and sizes["site.js"] < 10_000 and sizes["formulas.woff2"] < 60_000, (
        sizes
    )


def test_what_the_widgets_of_a_page_hold_is_small(site_folder: Path) -> None:
    held = re.compile(
        r'<script type="application/vnd\.jupyter\.widget-state\+json">(.*?)</script>', re.DOTALL
    )
    sizes = {
        path.stem: sum(map(len, held.findall(path.read_text(encoding="utf-8"))))
        for path in site_folder.rglob("*.html")
    }
    assert sizes["05_multi_head"] > 10_000  # it has numbers to show
    assert max(sizes.values()) < 60_000, sizes
