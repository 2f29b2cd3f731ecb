"""The whole book as a PDF: a small one is built, printed, and read again; what must be refused is."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link

from tools.course import find_browser
from tools.pdf import __main__ as pdf
from tools.pdf import check, combine, contents
from tools.pdf.print import Unreadable, to_pdf

pytestmark = pytest.mark.browser
TOC = """
format: jb-book
root: start
parts:
  - caption: Part I. One
    chapters:
      - file: folder/first
        title: "1. First"
  - caption: Part II. Two
    chapters:
      - file: folder/second
"""
LONG = " + ".join(f"x_{{{number}}}" for number in range(60))
WIDE = (
    "| "
    + " | ".join(f"column{n:02}" for n in range(24))
    + " |\n"
    + "|---" * 24
    + "|\n"
    + "| word " * 24
    + "|\n"
)
FIRST = f"""# First

Go to [a place](second.ipynb#a-place), [the start](../start.md), or <https://example.org/far>.

$${LONG} = \\text{{summit}}$$

{WIDE}

<details><summary>Hint</summary><p>The hint is printed.</p></details>

## A part of it

End of the first.
"""
SETUP = {
    "cell_type": "code",
    "source": "import attnlab",
    "metadata": {"tags": ["setup", "hide-input"]},
    "outputs": [],
}


def in_own_thread(work, *arguments):
    """Run what starts a Playwright: a thread holds one at most, and other tests keep theirs open."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work, *arguments).result()


@pytest.fixture(scope="module")
def small(tmp_path_factory, build_book, make_notebook):
    folder = tmp_path_factory.mktemp("pdf")
    text = {"cell_type": "markdown", "source": "# Second\n\n## A place\n\nEnd of the second."}
    files = {
        "start.md": "# The start\n\nRead [the first](folder/first.md).\n",
        "folder/first.md": FIRST,
        "folder/second.ipynb": make_notebook(text, SETUP),
    }
    book = build_book(folder, files)
    assert book.code == 0, book.said
    (folder / "parts.yml").write_text(TOC, encoding="utf-8")
    return book.html, folder / "parts.yml"


@pytest.fixture(scope="module")
def printed(small, tmp_path_factory):
    target = tmp_path_factory.mktemp("printed") / "book.pdf"
    return in_own_thread(pdf.make, *small, "A small book", target), target


def test_the_outline_has_parts_pages_and_sections_in_order(printed):
    book, _ = printed
    assert book.complaints == []
    assert book.outline == [
        (0, "Contents"),
        (1, "The start"),
        (0, "Part I. One"),
        (1, "First"),
        (2, "A part of it"),
        (0, "Part II. Two"),
        (1, "Second"),
        (2, "A place"),
    ]


def test_links_between_pages_lead_to_their_places_and_others_to_the_web(printed):
    book, target = printed
    assert book.outside == 1
    assert book.inside == 5 + 3  # the contents list three pages and two parts; the pages link to one another
    reader = PdfReader(target)
    places = {name: reader.get_destination_page_number(at) for name, at in reader.named_destinations.items()}
    words = {name: reader.pages[number].extract_text() for name, number in places.items()}
    assert "A place" in words["/folder/second--a-place"] and "The start" in words["/start"]


def test_every_sheet_is_numbered_and_everything_is_on_paper(printed):
    _, target = printed
    sheets = PdfReader(target).pages
    feet = [sheet.extract_text(extraction_mode="layout").split()[-1] for sheet in sheets]
    assert feet == [str(number) for number in range(1, len(sheets) + 1)]
    whole = "\n".join(sheet.extract_text() for sheet in sheets)
    for words in ("The hint is printed.", "End of the first.", "End of the second.", "column23", "summit"):
        assert words in whole, words
    assert "import attnlab" not in whole and "Set-up" not in whole


def test_the_contents_say_on_which_sheet_each_part_and_page_begins(printed):
    _, target = printed
    reader = PdfReader(target)
    sheets = [sheet.extract_text() for sheet in reader.pages]
    [at] = [number for number, words in enumerate(sheets) if "Contents" in words]
    lines = reader.pages[at].extract_text(extraction_mode="layout")
    numbers = re.findall(r"^ *(\S.*?) +(\d+)$", lines, re.M)
    assert [title for title, _ in numbers] == ["The start", "Part I. One", "First", "Part II. Two", "Second"]
    for title, number in numbers:
        assert title in sheets[int(number) - 1].splitlines(), f"{title} is not on sheet {number}"


def right_most(target, words):
    """Where some words stand, at the right-most place, in points from the left of the sheet."""
    ends = []

    def note(text, outer, inner, font, size):
        if words in text:
            ends.append(inner[4] * outer[0] + inner[5] * outer[2] + outer[4])

    for sheet in PdfReader(target).pages:
        sheet.extract_text(visitor_text=note)
    return max(ends)


def test_what_is_wide_is_made_to_fit(printed):
    _, target = printed
    assert 0 < right_most(target, "column23") < 595 - 18 / 25.4 * 72


def test_a_widget_gives_way_to_a_line(small):
    html, toc = small
    page = html / "folder" / "first.html"
    before = page.read_text(encoding="utf-8")
    place = '<div class="attnlab-host" data-model="a"><p>Waits.</p></div>'
    page.write_text(before.replace("End of the first.", f"End.{place}"), encoding="utf-8")
    try:
        text = combine.document(html, contents.read(toc), "A small book")
    finally:
        page.write_text(before, encoding="utf-8")
    assert combine.WIDGET in text and "attnlab-host" not in text and "<script" not in text


def test_no_id_stands_twice(small):
    html, toc = small
    found = re.findall(r'\bid="([^"]+)"', combine.document(html, contents.read(toc), "A small book"))
    assert found and len(found) == len(set(found))


def test_a_page_that_was_not_built_is_named(small, tmp_path):
    html, toc = small
    with pytest.raises(combine.Incomplete, match="folder/third is in the table of contents"):
        combine.document(
            html, [*contents.read(toc), contents.Part("More", ("folder/third",))], "A small book"
        )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('<img src="/lost.png" alt="">', "could not load .*lost.png"),
        ('<img src="https://example.org/a.png" alt="">', "could not load https://example.org/a.png"),
        ('<div style="width: 3000px">A wide one</div>', "the document itself"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, body, what):
    with pytest.raises(Unreadable, match=what):
        in_own_thread(
            to_pdf, f"<!doctype html><main>{body}</main>", tmp_path, tmp_path / "x.pdf", find_browser()
        )


def test_a_blank_sheet_and_a_link_to_nowhere_are_found(printed, tmp_path):
    _, target = printed
    writer = PdfWriter(target)
    writer.add_blank_page()
    writer.add_annotation(0, Link(rect=(0, 0, 9, 9), url="http://course.invalid/search.html"))
    with (tmp_path / "bad.pdf").open("wb") as file:
        writer.write(file)
    found = check.look(tmp_path / "bad.pdf").complaints
    assert found == [
        "sheet 1: a link leads nowhere: http://course.invalid/search.html",
        f"sheet {len(writer.pages)} is blank",
    ]
