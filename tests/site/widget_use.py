"""What the tests of all widgets share: how a widget is used, looked at, and spoilt on purpose."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from axe_playwright_python.sync_playwright import Axe
from ipywidgets.embed import dependency_state, embed_data
from playwright.sync_api import Locator, Page

from attnlab.widgets._base import CourseWidget

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


def spoil(paths: str, change: Callable[[float], float]) -> Callable[[str], str]:
    """Function that changes the second number of each buffer in a page, as a mistake in the browser would.

    ``paths`` is a pattern for the names of the buffers.
    """

    def spoilt(page: str) -> str:
        changed = page
        for data in re.findall(rf'"data":"([^"]+)","encoding":"base64","path":\["(?:{paths})"\]', page):
            numbers = np.frombuffer(base64.b64decode(data), "<f4").copy()
            numbers[1] = change(numbers[1])
            changed = changed.replace(data, base64.b64encode(numbers.tobytes()).decode())
        assert changed != page
        return changed

    return spoilt


def swap(sent: bytes, other: bytes) -> Callable[[str], str]:
    """Function that puts other bytes into a page, where those stand that a widget sent."""
    before, after = (base64.b64encode(part).decode() for part in (sent, other))

    def swapped(page: str) -> str:
        assert before in page
        return page.replace(before, after)

    return swapped


def host_at(page: Page, place: int) -> Locator:
    """The host of the widget at a place of the page, started and in sight."""
    host = page.locator(".attnlab-host").nth(place)
    host.scroll_into_view_if_needed()
    page.wait_for_function("place => place.dataset.state === 'ready'", arg=host.element_handle())
    return host


def frames(page: Page, count: int = 2) -> None:
    """Let the browser draw."""
    for _ in range(count):
        page.evaluate("() => new Promise(requestAnimationFrame)")


def moving(view: Locator) -> int:
    """How many elements of a widget have transitions that last.

    Counted in one script: an element that a drawing takes away between two has no style at all.
    """
    count: int = view.evaluate(
        """view => [...view.querySelectorAll("*")]
          .filter(node => getComputedStyle(node).transitionDuration !== "0s").length"""
    )
    return count


def said(view: Locator, start: str) -> str:
    """What a widget announces, once it begins with ``start``: announcements wait until the reader rests."""
    live = view.locator("[aria-live=polite]").first
    live.page.wait_for_function(
        "([live, start]) => live.textContent.startsWith(start)", arg=[live.element_handle(), start]
    )
    return live.inner_text()


def press(page: Page, *keys: str) -> None:
    """Press keys, one after another."""
    for key in keys:
        page.keyboard.press(key)


TRAIT_ROLE_OR_TAG = "at.dataset.trait ?? at.getAttribute('role') ?? at.localName"


def focused(page: Page, name: str = TRAIT_ROLE_OR_TAG) -> str:
    """What the keyboard is on, as an expression of the element ``at`` names it; and its focus must show."""
    found, outline = page.evaluate(
        f"() => {{ const at = document.activeElement; return [{name}, getComputedStyle(at).outlineWidth]; }}"
    )
    assert float(outline.removesuffix("px")) >= 2, f"{found} has the focus and does not show it"
    return found


def centre(locator: Locator) -> tuple[float, float]:
    """The middle of an element in the window, once it is in sight."""
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def showing(views: list[CourseWidget], make_notebook: Callable[..., str]) -> str:
    """A notebook that shows widgets, with the state of these alone, as Jupyter stores it."""
    embedded = embed_data(views=views, state=dependency_state(views, drop_defaults=False))
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": "# Widgets"}]
    for spec in embedded["view_specs"]:
        data = {VIEW: spec, "text/plain": "a widget"}
        output = {"output_type": "display_data", "metadata": {}, "data": data}
        cells.append({"cell_type": "code", "source": "show()", "outputs": [output]})
    content = json.loads(make_notebook(*cells))
    content["metadata"]["widgets"] = {STATE: embedded["manager_state"]}
    return json.dumps(content)


#: Run before a page's own scripts: ``window.alive`` counts the listeners and observers of its widgets.
COUNT_WHAT_LIVES = """
window.alive = 0;
const add = EventTarget.prototype.addEventListener;
EventTarget.prototype.addEventListener = function (type, handler, options) {
  if (this instanceof Element && (options?.signal || this.closest(".attnlab-widget"))) {
    window.alive++;
    if (options?.signal) add.call(options.signal, "abort", () => window.alive--, { once: true });
  }
  return add.call(this, type, handler, options);
};
const Observer = window.ResizeObserver;
window.ResizeObserver = class extends Observer {
  observe(...all) { window.alive++; return super.observe(...all); }
  disconnect() { window.alive--; return super.disconnect(); }
};
"""


def taken_away(page: Page) -> tuple[int, int, int]:
    """Take all widgets off a page: what lived before, what lives after it, the models' handlers."""
    before, after, handlers = page.evaluate(
        """() => {
          const before = window.alive;
          document.querySelectorAll(".attnlab-host[data-state=ready]").forEach(attnlabHost.dispose);
          const waiting = [...attnlabHost.models.values()].reduce((all, one) => all + one.listeners, 0);
          return [before, window.alive, waiting];
        }"""
    )
    return before, after, handlers


def axe_complaints(view: Locator) -> list[tuple[str, str]]:
    """What axe finds in the widgets of a page, by rule and element; its tables are unfolded first."""
    for summary in view.locator("summary").all():
        summary.click()
    view.locator("tbody tr").first.wait_for()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    violations = Axe().run(view.page, ".attnlab-widget", options).response["violations"]
    return [(found["id"], found["nodes"][0]["html"]) for found in violations]
