"""The build of the website itself, on books of a page or two: what must stop it, and what it must not do."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def png(width: int, height: int) -> str:
    """A white picture, as a notebook stores it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\xff" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(content).decode()


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source}


def code(
    source: str, data: dict[str, str], about: dict[str, Any], tags: tuple[str, ...] = ()
) -> dict[str, Any]:
    output = {"output_type": "display_data", "data": data, "metadata": about}
    return {"cell_type": "code", "source": source, "outputs": [output], "metadata": {"tags": list(tags)}}


def figure(**about: Any) -> dict[str, Any]:
    return code("picture", {"image/png": png(300, 200), "text/plain": "Figure: x"}, {"image/png": about})


def test_a_book_builds_and_shows_what_its_notebook_holds(
    build_book: Callable[..., Any], make_notebook: Callable[..., str], tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    book = build_book(
        tmp_path / "book",
        {
            "index.md": "# Start\n\n[There](notebooks/01_first.ipynb)\n",
            "notebooks/01_first.ipynb": make_notebook(
                markdown(
                    "# First\n\nA root, $\\sqrt{d_k}$; 中文$x^2$中文.\n\n$$ a = b $$ (one)\n\nSee {eq}`one`."
                ),
                code("get the course", {"text/plain": "set up"}, {}, ("setup",)),
                code(f"open({str(ran)!r}, 'w')", {"text/markdown": "Here $QK^T$ is given."}, {}),
                figure(alt='A "white" picture.', width=150, height=100),
            ),
        },
    )
    assert book.code == 0, book.said
    page = book.page("notebooks/01_first")
    assert not ran.exists(), "the build ran a cell"
    # Formulas in prose, beside Chinese text, and in a displayed output; none is left as TeX.
    assert "中文<math><msup><mi>x</mi><mn>2</mn></msup></math>中文" in page
    assert "Here <math><mi>Q</mi><msup><mi>K</mi><mi>T</mi></msup></math> is given." in page
    assert "<msqrt>" in page and "$" not in page.split("<main")[1]
    # A line does not break between a formula and the sign that closes the phrase.
    assert '<span class="kept"><math>' in page and "</math>;</span> 中文" in page
    # The equation has a number that leads to it.
    assert '<span class="equation-number"><a href="#equation-one"' in page
    assert 'href="#equation-one">(1)' in page
    assert '<div class="formula" id="equation-one">' in page
    # The picture says what it shows and how large it is; the set-up cell is folded.
    assert (
        'alt="A &quot;white&quot; picture." loading="lazy" decoding="async" width="150" height="100"' in page
    )
    assert '<details class="fold' in page and "<summary>Set-up" in page
    assert (book.html / "_static" / "formulas.woff2").stat().st_size > 5_000


@pytest.fixture(scope="module")
def broken(
    build_book: Callable[..., Any],
    make_notebook: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """A book with a slip of each kind; the clean book above shows that it fails because of them."""
    start = (
        "# Start\n\nText.\n\nA formula, $\\nosuchcommand{x}$.\n\n[here](other.md#nowhere)\n\n$$ a $$ (one)\n"
    )
    return build_book(
        tmp_path_factory.mktemp("broken"),
        {
            "index.md": start,
            "other.md": "# Other\n\n$$ b $$ (one)\n",
            "notebooks/01_formula.ipynb": make_notebook(markdown("# First\n\n$$\n\\frac{1}{\n$$\n")),
            "notebooks/02_figure.ipynb": make_notebook(markdown("# Second\n"), figure(width=150, height=100)),
        },
    )


def warnings_of(book: Any, page: str) -> list[str]:
    """What the build said of a page; with these options a single warning fails the build."""
    assert book.code != 0
    return [line for line in book.said.splitlines() if "WARNING" in line and f"/{page}:" in line]


def test_an_unknown_tex_command_stops_the_build(broken: Any) -> None:
    assert any(
        "index.md:5: WARNING: formula" in line and "nosuchcommand" in line
        for line in broken.said.splitlines()
    )
    assert len(warnings_of(broken, "index.md")) >= 2


def test_an_unfinished_formula_stops_the_build(broken: Any) -> None:
    (line,) = warnings_of(broken, "notebooks/01_formula.ipynb")
    assert "formula" in line and "in cell 1" in line and "end of input" in line


def test_a_label_used_twice_stops_the_build(broken: Any) -> None:
    (line,) = warnings_of(broken, "other.md")
    assert "duplicate label of equation one" in line


def test_a_picture_without_a_text_stops_the_build(broken: Any) -> None:
    (line,) = warnings_of(broken, "notebooks/02_figure.ipynb")
    assert "has no text alternative" in line


def test_a_link_that_leads_nowhere_stops_the_build(broken: Any) -> None:
    assert any("nowhere" in line for line in warnings_of(broken, "index.md"))


def test_environments_of_several_lines_get_one_number_that_stays(
    build_book: Callable[..., Any], tmp_path: Path
) -> None:
    align = "\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}\n"
    text = f"# Start\n\n{align}\n\\begin{{gather*}}\na \\\\\nb\n\\end{{gather*}}\n"
    text += "\n$$\\left( a \\odot b \\right) \\left[ \\sum_1^n x_i \\right] \\sum_1^n \\left( c \\right)$$\n"
    pages = []
    for _ in range(2):
        book = build_book(tmp_path, {"index.md": text})
        assert book.code == 0, book.said
        pages.append(book.page("index"))
    assert pages[0] == pages[1]
    assert pages[0].count('class="equation-number"') == 1
    assert pages[0].count("<mtable") == 2
    # Firefox would enlarge the sign of a product, and not the bracket around a sum.
    assert re.search(r'<mo largeop="false"[^>]*>⊙</mo>', pages[0])
    assert re.findall(r"<mo>(.)</mo><mspace height", pages[0]) == ["["]


def test_the_build_imports_no_torch(build_book: Callable[..., Any], tmp_path: Path) -> None:
    start = (
        "import json, sys\n"
        "from jupyter_book.cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print('IMPORTED', json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    book = build_book(tmp_path, {"index.md": "# Start\n\n$$ x $$\n"}, start=start)
    assert book.code == 0, book.said
    line = next(line for line in book.said.splitlines() if line.startswith("IMPORTED "))
    imported = set(json.loads(line.removeprefix("IMPORTED ")))
    assert "math_core" in imported, "the list is not the build's"
    assert not imported & {"torch", "attnlab", "matplotlib", "ipykernel"}
