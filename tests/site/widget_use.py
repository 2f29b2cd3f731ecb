"""What the tests of all widgets share: how a widget is used, looked at, and spoilt on purpose."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import numpy as np
from playwright.sync_api import Locator, Page


def spoil(page: str, paths: str, change: Callable[[float], float]) -> str:
    """The same page with the second number of each buffer changed, as a mistake in the browser would.

    ``paths`` is a pattern for the names of the buffers.
    """
    changed = page
    for data in re.findall(rf'"data":"([^"]+)","encoding":"base64","path":\["(?:{paths})"\]', page):
        numbers = np.frombuffer(base64.b64decode(data), "<f4").copy()
        numbers[1] = change(numbers[1])
        changed = changed.replace(data, base64.b64encode(numbers.tobytes()).decode())
    assert changed != page
    return changed


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
