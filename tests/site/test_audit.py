"""The audit of the pages: what it measures and refuses, and what it says where Lighthouse is absent."""

import gzip
import http.client
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from tools.audit import __main__ as audit
from tools.audit import bars, lighthouse, server, visit
from tools.course import find_browser

POLICY = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'self'; img-src 'self' data:\">"
GOOD = f"""<!doctype html><html lang="en"><head><title>A page</title>{POLICY}
<link rel="icon" href="data:,"></head><body><main><h1>A page</h1><article>
<p>{"Many words. " * 200}</p>
<details><summary>Fold</summary><img src="_images/a.png" alt="A dot" loading="lazy"></details>
<img src="_images/b.png" alt="Another dot" loading="lazy">
</article></main></body></html>
"""
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff56c7"
    "2f0d0000000049454e44ae426082"
)
FULL = dict.fromkeys(lighthouse.CATEGORIES, 100)


def site(folder, **pages):
    (folder / "_images").mkdir(parents=True)
    for name in ("a", "b"):
        (folder / "_images" / f"{name}.png").write_bytes(DOT)
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


def ask(url, method="GET"):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        connection.request(method, parts.path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Encoding"), answer.read()
    finally:
        connection.close()


def test_text_is_sent_compressed_and_pictures_as_they_are(tmp_path):
    site(tmp_path / "html", index=GOOD)
    (tmp_path / "secret").write_text("no", encoding="utf-8")
    with server.serving(tmp_path / "html") as address:
        status, coding, body = ask(f"{address}index.html")
        assert (status, coding, gzip.decompress(body).decode()) == (200, "gzip", GOOD)
        assert len(body) == len(server.pack(tmp_path / "html" / "index.html").body) < len(GOOD) / 4
        assert ask(address)[2] == body
        assert ask(f"{address}_images/a.png") == (200, None, DOT)
        assert ask(f"{address}index.html", "HEAD")[2] == b""
        for path in ("lost.html", "../secret", "%2e%2e/secret"):
            assert ask(address + path)[0] == 404


def test_a_site_stands_at_its_public_path_and_answers_for_what_is_missing(tmp_path):
    html = site(tmp_path / "html", index=GOOD)
    with server.serving(html) as address:
        assert urlsplit(address).path == "/" and ask(f"{address}lost.html") == (404, None, b"")
    (html / "404.html").write_text("<h1>Lost</h1>", encoding="utf-8")
    (html / "robots.txt").write_text(
        "User-agent: *\nSitemap: https://example.org/some/course/sitemap.xml\n", encoding="utf-8"
    )
    with server.serving(html) as address:
        host = address.removesuffix("some/course/")
        assert host != address and gzip.decompress(ask(address)[2]).decode() == GOOD
        for lost in (host, f"{host}index.html", f"{address}deep/down.html"):
            status, _, body = ask(lost)
            assert (status, gzip.decompress(body)) == (404, b"<h1>Lost</h1>")


def looked_at(folder, *names):
    """Findings on pages of a folder, in a thread of its own: one holds one Playwright at most."""

    def work():
        with server.serving(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
            )
            found = [visit.look(browser, address, folder, name) for name in names]
            browser.close()
            return found

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    bad = GOOD.replace("</article>", "<p style='color: #999; background: #fff'>Pale.</p></article>")
    pages = {
        "good": GOOD,
        "loose": GOOD.replace(POLICY, ""),
        "pale": bad.replace(POLICY, ""),
        "inline": GOOD.replace("</main>", "<script>window.ran = true</script></main>"),
        "outside": GOOD.replace(POLICY, "").replace(
            "</main>", "<img src='https://example.org/x.png' alt='Far'></main>"
        ),
        "speaks": GOOD.replace(POLICY, "").replace("</main>", "<script>console.warn('oh')</script></main>"),
    }
    folder = site(tmp_path_factory.mktemp("audit"), **pages)
    (folder / "robots.txt").write_text("Sitemap: https://example.org/course/sitemap.xml\n", encoding="utf-8")
    return dict(zip(pages, looked_at(folder, *pages), strict=True))


@pytest.mark.browser
def test_a_good_page_is_weighed_and_nothing_is_found(findings):
    found = findings["good"]
    assert (found.axe, found.policy) == ([], [])
    assert found.figures == 2 * len(DOT)  # the one in the fold and the one far below, too
    assert found.text == len(gzip.compress(GOOD.encode(), 9, mtime=0))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("page", "what"),
    [
        ("loose", "no content security policy"),
        ("inline", "script-src-elem refused inline"),
        ("outside", "asked https://example.org/x.png"),
        ("speaks", "console: oh"),
    ],
)
def test_what_breaks_the_policy_is_found(findings, page, what):
    assert [said for said in findings[page].policy if said == what], findings[page].policy


@pytest.mark.browser
def test_what_axe_finds_is_said_for_each_theme(findings):
    assert findings["pale"].axe == ["light: color-contrast (1)", "dark: color-contrast (1)"]


def row(name="notebooks/03_x", text=100_000, figures=100_000, scores=None, **found):
    scores = {form: dict(FULL) for form in lighthouse.FORMS} if scores is None else scores
    return bars.Row(name, visit.Findings(text, figures, **found), scores, {form: ["why"] for form in scores})


def scored(form, name, score):
    return {form: FULL | {name: score}}


@pytest.mark.parametrize(
    ("measured", "is_heaviest", "said"),
    [
        (row(), True, []),
        (row(scores={}), True, []),
        (row(text=150_000, figures=200_000), True, []),
        (row(text=150_600, figures=0), True, ["151 kB without figures, at most 150"]),
        (row(text=150_000, figures=201_000), True, ["351 kB with figures, at most 350"]),
        (row("book/pages/index", text=500_000), True, []),
        (row(scores=scored("mobile", "performance", 98)), True, []),
        (row(scores=scored("mobile", "performance", 97)), True, ["mobile performance 97, at least 98"]),
        (row(scores=scored("desktop", "performance", 99)), True, ["desktop performance 99, at least 100"]),
        (row(scores=scored("desktop", "performance", 99)), False, []),
        (row(scores=scored("mobile", "seo", 99)), False, ["mobile seo 99, at least 100 (why)"]),
        (row("search", scores=scored("mobile", "seo", 50)), False, []),
        (row(axe=["dark: region (1)"]), False, ["axe, dark: region (1)"]),
        (row("book/pages/index", policy=["console: x"]), False, ["console: x"]),
    ],
)
def test_the_bars(measured, is_heaviest, said):
    assert bars.missed(measured, is_heaviest) == said


def test_the_heaviest_is_a_lesson():
    weights = {"notebooks/01_a": 5, "notebooks/02_b": 7, "notebooks/evidence": 9, "exercises/02_b": 8}
    assert bars.heaviest(weights) == "notebooks/02_b"
    assert bars.heaviest({"book/pages/index": 5}) is None


def report(**scores):
    audits = {
        "contrast": {"score": 0},
        "title": {"score": 1},
        "manual": {"score": None},
        "free": {"score": 0},
    }
    weighted = [{"id": name, "weight": name != "free"} for name in audits]
    found = dict.fromkeys(lighthouse.CATEGORIES, 1) | {
        name.replace("_", "-"): x for name, x in scores.items()
    }
    parts = {name: {"score": score, "auditRefs": weighted} for name, score in found.items()}
    return {"categories": parts, "audits": audits, "runtimeError": {"message": "no page"}}


def test_scores_are_read_and_a_missing_one_is_no_score():
    assert lighthouse.scores(report(performance=0.985, best_practices=0.9)) == {
        "performance": 98,
        "accessibility": 100,
        "best-practices": 90,
        "seo": 100,
    }
    assert lighthouse.failing(report()) == ["contrast"]
    with pytest.raises(lighthouse.Failed, match="no score for seo: no page"):
        lighthouse.scores(report(seo=None))


def test_the_median_is_of_each_score():
    runs = [FULL | {"performance": score} for score in (97, 60, 99)]
    assert lighthouse.median(runs) == FULL | {"performance": 97}


def program(folder, text):
    """A folder to find programs in, whose npx is a given script."""
    folder.mkdir()
    (folder / "npx").write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / "npx").chmod(stat.S_IRWXU)
    return str(folder)


@pytest.mark.skipif(os.name == "nt", reason="npx is a shell script here")
def test_where_lighthouse_is_absent_the_audit_says_so_and_fails(tmp_path, monkeypatch, capsys):
    html = site(tmp_path / "html", index=GOOD)
    monkeypatch.setattr(audit, "find_browser", lambda: "chromium")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert audit.main(["pages/index", "--html", str(html)]) == 1
    assert "Lighthouse is absent: it needs Node" in capsys.readouterr().err
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "echo 'no network' >&2; exit 1"))
    assert audit.main(["pages/index", "--html", str(html)]) == 1
    assert f"npx could not fetch {lighthouse.PACKAGE}: no network" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="npx is a shell script here")
def test_a_run_that_fails_is_no_measurement(tmp_path):
    path = program(tmp_path / "bin", "echo 'it broke' >&2; exit 3")
    with pytest.raises(lighthouse.Failed, match="exit 3: it broke"):
        lighthouse.measure("http://127.0.0.1/", "mobile", 1, {"PATH": path})


def test_pages_are_chosen_by_words_in_their_names(tmp_path):
    html = site(tmp_path / "html", index=GOOD, search=GOOD)
    assert audit.chosen(html, ["notebooks/03"]) == ["notebooks/03_query_key_value"]
    assert "search" in audit.chosen(html, []) and "404" not in audit.chosen(html, [])
    with pytest.raises(SystemExit, match="no page has 'nope'"):
        audit.chosen(html, ["nope"])
    with pytest.raises(SystemExit, match="run `make site` first"):
        audit.chosen(tmp_path / "other", [])


@pytest.mark.parametrize(("missed", "code"), [([], 0), (["axe, dark: region (1)"], 1)])
def test_the_command_fails_where_a_promise_is_missed(tmp_path, monkeypatch, capsys, missed, code):
    html = site(tmp_path / "html", index=GOOD)
    monkeypatch.setattr(audit, "find_browser", lambda: "chromium")
    monkeypatch.setattr(audit, "audit", lambda *arguments: [(row(), missed)])
    assert audit.main(["pages/index", "--html", str(html), "--without-lighthouse"]) == code
    assert ("notebooks/03_x: axe, dark: region (1)" in capsys.readouterr().out) == bool(missed)
