"""The content policy of every page: nothing from elsewhere, no text run as code. And pages from a file."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "site"))
import policy  # noqa: E402
from widget_host import as_script  # noqa: E402

pytestmark = pytest.mark.browser

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
VIOLATIONS = (
    "addEventListener('securitypolicyviolation', (e) => (window.refused ??= []).push(e.effectiveDirective));"
)
LESSON = "notebooks/03_query_key_value.html"


def policies(page: str) -> list[dict[str, list[str]]]:
    """The policies that a page's text holds, each by its rules."""
    return [{rule.split()[0]: rule.split()[1:] for rule in text.split(";")} for text in POLICY.findall(page)]


def test_every_page_has_one_strict_policy_before_all_that_it_loads(site_folder: Path) -> None:
    pages = [path for path in site_folder.rglob("*.html") if "_static" not in path.parts]
    assert len(pages) > 30
    for path in pages:
        page = path.read_text(encoding="utf-8")
        (rules,) = policies(page)
        assert rules["default-src"] == ["'none'"] and rules["base-uri"] == ["'none'"], path
        scripts = [source for source in rules["script-src"] if not source.startswith("'sha256-")]
        assert scripts == ["'self'"], path
        others = {source for name, sources in rules.items() if name != "script-src" for source in sources}
        assert others <= {"'none'", "'self'", "'unsafe-inline'", "data:"}, path
        assert "'unsafe-inline'" not in [s for n, ss in rules.items() if n != "style-src" for s in ss], path
        before = page[: POLICY.search(page).start()]
        assert not re.search(r"<(script|link|img|style|body)\b", before), path


def test_a_script_in_the_page_is_allowed_by_the_hash_of_its_text() -> None:
    page = '<meta charset="utf-8"><script>a()</script><script type="application/json">{}</script>'
    page += '<script src="x.js"></script><script type="module">b()</script>'
    assert policy.inline_scripts(page) == ["a()", "b()"]
    digest = base64.b64encode(hashlib.sha256(b"a()").digest()).decode()
    assert f"'sha256-{digest}'" in policy.policy_of(page)
    assert policy.with_policy(page).index("Content-Security-Policy") < page.index("<script") + 60


def test_a_page_whose_policy_would_come_too_late_is_refused() -> None:
    for page in ("<html><body></body></html>", '<script src="x.js"></script><meta charset="utf-8">'):
        with pytest.raises(ValueError, match="before everything that a page loads"):
            policy.with_policy(page)


@pytest.mark.parametrize(
    ("slip", "directive"),
    [
        ("<script>window.ran = true</script>", "script-src-elem"),
        ('<img src="data:image/gif,x" alt="" onerror="window.ran = true">', "script-src-attr"),
        ('<script src="https://a.invalid/x.js"></script>', "script-src-elem"),
        ('<img src="https://a.invalid/x.png" alt="">', "img-src"),
        ('<link rel="stylesheet" href="https://a.invalid/x.css">', "style-src-elem"),
        ('<iframe src="https://a.invalid/" title="x"></iframe>', "frame-src"),
    ],
)
def test_what_somebody_puts_into_a_page_is_refused(
    site_folder: Path,
    site_url: str,
    open_url: Callable[..., Page],
    browser: Browser,
    slip: str,
    directive: str,
) -> None:
    """The control of the tests of all pages: where a page breaks its policy, it is seen."""
    text = (site_folder / LESSON).read_text(encoding="utf-8")
    page = open_url(f"{site_url}{LESSON}", strict=False)
    page.context.add_init_script(VIOLATIONS)
    page.route(
        f"**/{LESSON}",
        lambda route: route.fulfill(
            body=text.replace("<article>", f"<article>{slip}", 1), content_type="text/html; charset=utf-8"
        ),
    )
    page.goto(f"{site_url}{LESSON}")
    page.wait_for_function("() => window.refused?.length")
    assert page.evaluate("() => window.refused") == [directive]
    assert page.evaluate("() => window.ran") is None
    assert page.problems, "the page's errors are not seen"
    assert not page.outside, "the browser asked all the same"


def test_no_text_becomes_code(open_page: Callable[..., Page]) -> None:
    page = open_page(LESSON, strict=False)
    ran = page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.head.append(script);
          setTimeout("window.ran = true", 0);
          await new Promise((resolve) => setTimeout(resolve, 0)); // timers go off in their order
          return window.ran;
        }"""
    )
    assert ran is None


def test_widgets_live_on_pages_that_are_opened_from_a_file(site_folder: Path, browser: Browser) -> None:
    pages = [
        path
        for path in sorted(site_folder.rglob("*.html"))
        if 'class="attnlab-host"' in path.read_text(encoding="utf-8")
    ]
    assert len(pages) >= 5
    for path in pages:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message, said=complaints: said.append(message.text))
        page.on("pageerror", lambda error, said=complaints: said.append(str(error)))
        try:
            page.goto(path.as_uri())
            for host in page.locator(".attnlab-host").all():
                host.scroll_into_view_if_needed()
                page.wait_for_function("place => place.dataset.state", arg=host.element_handle())
                assert host.get_attribute("data-state") == "ready", path
                assert host.locator("button, input, select, [tabindex]").count(), path
            assert complaints == [], path
        finally:
            page.close()


def test_a_module_becomes_a_script_and_what_cannot_is_refused() -> None:
    script = as_script("const a = 1;\nexport default { a };\n", "x.js")
    assert 'attnlabModules ??= {})["x.js"] = { a };' in script and "export" not in script
    for module in (
        "const a = 1;",
        "export default 1;\nexport default 2;",
        "import b from 'b';\nexport default b;",
        "export const c = 1;\nexport default c;",
    ):
        with pytest.raises(Exception, match="expected one line with `export default`"):
            as_script(module, "x.js")
