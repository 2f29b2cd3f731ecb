"""What the world outside reads of the site: addresses, previews, the map, missing pages, pages that moved."""

from __future__ import annotations

import io
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from PIL import Image
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "site"))
import page_links  # noqa: E402
import preview_cards  # noqa: E402
import public_address  # noqa: E402

pytestmark = pytest.mark.browser

REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
BASE = public_address.base_address(REPOSITORY)
LESSON = "notebooks/03_query_key_value"


def test_the_public_address_follows_from_the_repositorys() -> None:
    assert public_address.base_address("https://github.com/Some-One/course/") == (
        "https://some-one.github.io/course/"
    )
    assert public_address.base_address("https://example.org/course") == ""
    assert BASE


def test_each_page_says_where_it_lives_and_what_a_preview_shows(
    page_name: str, shown: Page, site_folder: Path
) -> None:
    def content(name: str) -> str:
        return shown.locator(f'meta[property="{name}"], meta[name="{name}"]').get_attribute("content") or ""

    address = BASE if page_name == "book/pages/index" else f"{BASE}{page_name}.html"
    assert shown.locator('link[rel="canonical"]').get_attribute("href") == address == content("og:url")
    assert content("og:title") == shown.locator("h1").evaluate(
        "h1 => h1.cloneNode(true).firstChild.textContent.trim()"
    )
    assert 20 < len(content("description")) < 170 and content("og:description") == content("description")
    assert not re.search(r"[\\$]|\s\s", content("description"))
    with Image.open(site_folder / content("og:image").removeprefix(BASE)) as picture:
        assert picture.size == (1200, 630) and content("og:image:alt")


def test_the_map_names_every_page_once(site_folder: Path) -> None:
    places = [
        place.text or ""
        for place in ET.parse(site_folder / "sitemap.xml").iter(
            "{http://www.sitemaps.org/schemas/sitemap/0.9}loc"
        )
    ]
    assert len(set(places)) == len(places) > 30 and BASE in places
    for place in places:
        assert (site_folder / (place.removeprefix(BASE) or "index.html")).is_file(), place
    robots = (site_folder / "robots.txt").read_text(encoding="utf-8")
    assert f"Sitemap: {BASE}sitemap.xml" in robots and "Disallow" not in robots


@pytest.mark.parametrize("missing", ["nowhere.html", "notebooks/deep/down/nowhere.html"])
def test_a_missing_address_shows_a_whole_page(
    site_folder: Path,
    tmp_path: Path,
    serve_folder: Callable[[Path], str],
    open_url: Callable[..., Page],
    missing: str,
) -> None:
    """The server answers with this page whatever the depth of the address that was asked for."""
    name = urlsplit(BASE).path.strip("/")
    (tmp_path / name).symlink_to(site_folder, target_is_directory=True)
    url = serve_folder(tmp_path)
    text = (site_folder / "404.html").read_text(encoding="utf-8")
    page = open_url(f"{url}{name}/{LESSON}.html")
    page.route(f"**/{missing}", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(f"{url}{name}/{missing}")
    assert page.locator("h1").inner_text().startswith("There is no such page")
    assert page.locator("body").evaluate("body => getComputedStyle(body).fontFamily") != "serif"
    assert page.locator(".chapters a").count() > 20
    page.locator("main a").last.click()
    assert page.url == f"{url}{name}/book/pages/index.html"


def test_an_old_address_leads_to_the_new_page_and_a_wrong_one_stops_the_build(
    build_book: Callable[..., object],
    tmp_path: Path,
    serve_folder: Callable[[Path], str],
    open_url: Callable[..., Page],
) -> None:
    files = {"index.md": "# Start\n\nText.\n", "new/page.md": "# New\n\nText.\n"}
    book = build_book(tmp_path / "good", files, more="redirects: {old/name: new/page}")
    assert book.code == 0, book.said
    url = serve_folder(book.html)
    page = open_url(f"{url}old/name.html")
    page.wait_for_url(f"{url}new/page.html")
    for number, wrong in enumerate(("new/page: index", "old: nowhere")):
        broken = build_book(tmp_path / f"bad{number}", files, more=f"redirects: {{{wrong}}}")
        assert broken.code != 0 and "expected an address without a page" in broken.said


def test_a_report_names_page_and_version(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    asked = parse_qs(urlsplit(page.locator("a.issue").get_attribute("href")).query)
    version = re.search(
        r'__version__ = "(.+)"', (ROOT / "src/attnlab/__init__.py").read_text(encoding="utf-8")
    )
    assert version and LESSON in asked["title"][0]
    assert f"Page: {LESSON}\nVersion: {version[1]}" in asked["body"][0]


def test_a_package_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="__version__"):
        page_links.version_of(tmp_path / "empty.py")


def test_lessons_say_how_long_they_take(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{LESSON}.html")
    said = page.locator(".minutes").inner_text()
    assert re.fullmatch(r"\d+ minutes to read", said)
    assert f"How long: {said}" in page.locator("article").inner_text(), "two places, one number"
    assert not open_page("notebooks/evidence.html").locator(".minutes").count()


def test_a_card_fits_its_title_and_is_the_same_each_time() -> None:
    long = "The incomprehensibly long title of a lesson that somebody has to write one day after all"
    first = preview_cards.card(long, part="Part I", seed="a")
    assert first == preview_cards.card(long, part="Part I", seed="a")
    assert first != preview_cards.card(long, part="Part I", seed="b")
    assert Image.open(io.BytesIO(first)).size == preview_cards.SIZE and len(first) < 40_000
    for row in preview_cards.weights("a"):
        assert sum(row) == pytest.approx(1)
    assert all(preview_cards.font(46).getlength(line) <= 580 for line in preview_cards.lines(long, 46, 580))
