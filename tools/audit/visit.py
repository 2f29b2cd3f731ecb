"""One page in Chromium: what it weighs, what axe finds in either theme, what its policy and console say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Route

from tools.audit.server import pack

THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
POLICY = 'meta[http-equiv="Content-Security-Policy"]'
# Violations are kept from the first line of the page on.
LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
  window.violations.push(`${event.effectiveDirective} refused ${event.blockedURI || "inline code"}`));
"""
# A reader who opens every fold and reads to the end meets every picture and every widget.
READ_ON = """
async () => {
  const still = () => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  for (const fold of document.querySelectorAll("article details")) fold.open = true;
  for (const node of document.querySelectorAll("img, .attnlab-host")) {
    node.scrollIntoView({ behavior: "instant" });
    await still();
  }
  window.scrollTo({ top: 0, behavior: "instant" });
  await still();
}
"""
READY = """
() => [...document.images].every(image => image.complete)
  && [...document.querySelectorAll(".attnlab-host")].every(place => place.dataset.state)
"""


@dataclass
class Findings:
    """What was found on a page; weights in bytes as they are sent."""

    text: int = 0
    figures: int = 0
    axe: list[str] = field(default_factory=list)
    policy: list[str] = field(default_factory=list)

    @property
    def weight(self) -> int:
        """Everything that a reader of the page is sent."""
        return self.text + self.figures


def _watch(page: Page, address: str, found: Findings) -> set[str]:
    """Refuse other hosts, and write down what is sent and what goes wrong; returns the paths asked for."""
    asked: set[str] = set()

    def answer(route: Route) -> None:
        url = route.request.url
        if not url.startswith((address, "data:", "blob:")):
            found.policy.append(f"asked {url}")
            route.abort()
            return
        if url.startswith(address):
            asked.add(unquote(urlsplit(url.removeprefix(address)).path))
        route.continue_()

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            found.policy.append(f"console: {message.text}")

    page.route("**/*", answer)
    page.on("console", heard)
    page.on("pageerror", lambda error: found.policy.append(f"exception: {error}"))
    page.add_init_script(LISTEN)
    return asked


def look(browser: Browser, address: str, folder: Path, name: str) -> Findings:
    """Read one page of the site that ``folder`` holds and ``address`` serves, to its end, in either theme."""
    found = Findings()
    for theme in THEMES:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme)
        try:
            page = context.new_page()
            asked = _watch(page, address, found)
            page.goto(f"{address}{name}.html", wait_until="load")
            page.evaluate(READ_ON)
            page.wait_for_function(READY)
            found.policy += page.evaluate("() => window.violations")
            if theme == THEMES[0]:
                _weigh(found, folder, asked)
                if page.locator(POLICY).count() == 0:
                    found.policy.append("no content security policy")
            # axe is put into the page by the browser itself, which no policy of the page forbids.
            violations = Axe().run(page).response["violations"]
            found.axe += [f"{theme}: {bad['id']} ({len(bad['nodes'])})" for bad in violations]
        finally:
            context.close()
    found.policy = list(dict.fromkeys(found.policy))
    return found


def _weigh(found: Findings, folder: Path, asked: set[str]) -> None:
    """Add up what was sent: pictures of the page as figures, everything else as text."""
    for path in asked:
        file = folder / path
        if file.is_file():
            size = len(pack(file).body)
            if path.startswith("_images/"):
                found.figures += size
            else:
                found.text += size
