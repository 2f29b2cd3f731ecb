"""The widgets in a live JupyterLab: the browser shows what the kernel computes, which hears of changes."""

from __future__ import annotations

import ast
import functools
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Locator, Page, sync_playwright

from tools.course import find_browser

pytestmark = [pytest.mark.lab, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
CELLS = [
    """
import ipywidgets
import numpy as np
from attnlab.widgets import AttentionExplorer, GradientExplorer, MaskPainter

draw = np.random.default_rng(0).normal
""",
    """
words = "you all see one another".split()
attention = AttentionExplorer(words, draw(size=(2, 5, 8)), draw(size=(2, 5, 8)))
attention
""",
    """
mask = MaskPainter(draw(size=(4, 4)), "causal", length=3)
mask
""",
    f"""
from attnlab.widgets import TranslatorExplorer

translator = TranslatorExplorer({str(ROOT / "book" / "translators" / "translator-fr.safetensors")!r})
translator
""",
    """
gradient = GradientExplorer({"fading": 0.3 ** np.arange(61), "flat": np.ones(61)}, distance=10)
gradient
""",
]
# Nothing that asks another machine for news, updates or extensions.
QUIET = {
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/extensionmanager-extension": True,
    }
}
STARTS_WITHIN = 90  # seconds
# A thread holds one Playwright at most, and the tests of the website keep theirs open in the main one.
OWN_THREAD = ThreadPoolExecutor(max_workers=1)


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs, with its notebook open in a browser and all cells run."""

    page: Page
    runtime: Path
    outside: list[str]

    def kernel(self, expression: str) -> Any:
        """What an expression gives in the notebook's own kernel, as plain Python."""
        client = BlockingKernelClient(connection_file=str(next(self.runtime.glob("kernel-*.json"))))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=30)
            reply = client.execute_interactive(
                "", user_expressions={"answer": expression}, store_history=False, timeout=30
            )
            answer = reply["content"]["user_expressions"]["answer"]
            assert answer["status"] == "ok", answer
            return ast.literal_eval(answer["data"]["text/plain"])
        finally:
            client.stop_channels()

    def hears(self, expression: str, value: Any) -> None:
        """Wait until the kernel has heard of a change."""
        for _ in range(50):
            if self.kernel(expression) == value:
                return
            time.sleep(0.1)
        assert self.kernel(expression) == value

    def run_all(self) -> None:
        self.page.locator("li.lm-MenuBar-item:has-text('Run')").click()
        self.page.locator("li[data-command='runmenu:run-all']").click()


def write_notebook(path: Path) -> None:
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [
        {**empty, "id": f"cell-{number}", "source": source.strip()} for number, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a JupyterLab on this machine, token included, and its folder of running kernels."""
    home = tmp_path_factory.mktemp("lab")
    for name in ("work", "config/labconfig", "runtime"):
        (home / name).mkdir(parents=True)
    (home / "config/labconfig/page_config.json").write_text(json.dumps(QUIET), encoding="utf-8")
    write_notebook(home / "work" / "widgets.ipynb")
    token = secrets.token_hex(16)
    command = [
        *(
            sys.executable,
            "-m",
            "jupyter",
            "lab",
            "--no-browser",
            "--ip=127.0.0.1",
            "--port=0",
            "--allow-root",
        ),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={home / 'work'}"),
        *(
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.extension_manager=readonly",
        ),
    ]
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_DATA_DIR": "data"}
    own = {name: str(home / folder) for name, folder in {**places, "IPYTHONDIR": "ipython"}.items()}
    with (home / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **own, "OMP_NUM_THREADS": "1"}
        )
        try:
            yield wait_for(home, process) + f"lab/tree/widgets.ipynb?token={token}&reset", home / "runtime"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(home: Path, process: subprocess.Popen[bytes]) -> str:
    """The server's address, once it has written it down."""
    for _ in range(10 * STARTS_WITHIN):
        for file in (home / "runtime").glob("jpserver-*.json"):
            try:
                return str(json.loads(file.read_text(encoding="utf-8"))["url"])
            except ValueError:
                pass  # it is writing
        assert process.poll() is None, (home / "log").read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError((home / "log").read_text(encoding="utf-8"))


def open_lab(url: str, runtime: Path) -> tuple[Lab, Callable[[], None]]:
    """The notebook in a browser with all its cells run, and a function that closes everything."""
    outside: list[str] = []
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(
        executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
    )

    def close() -> None:
        browser.close()
        playwright.stop()

    def guard(route: Any) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    try:
        page = browser.new_page(viewport={"width": 1280, "height": 3000})
        page.route("**/*", guard)
        page.goto(url)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        # Before its kernel is ready, the notebook would ask which one to take.
        page.get_by_text("| Idle").wait_for(timeout=60_000)
        lab = Lab(page, runtime, outside)
        lab.run_all()
        page.wait_for_selector(".attnlab-gradient", timeout=180_000)  # the last cell: the kernel is free
    except BaseException:
        close()
        raise
    return lab, close


@pytest.fixture(scope="module")
def lab(server: tuple[str, Path]) -> Iterator[Lab]:
    lab, close = OWN_THREAD.submit(open_lab, *server).result()
    yield lab
    OWN_THREAD.submit(close).result()


def in_own_thread(test: Callable[[Lab], None]) -> Callable[[Lab], None]:
    """Run a test where its browser lives."""

    @functools.wraps(test)
    def run(lab: Lab) -> None:
        OWN_THREAD.submit(test, lab).result()

    return run


def shown_weights(view: Locator) -> list[float]:
    view.page.evaluate("() => new Promise(requestAnimationFrame)")
    return view.evaluate(
        "view => [...view.querySelectorAll('[data-weight]')].map(cell => +cell.dataset.weight)"
    )


def shown_gradient(view: Locator) -> dict[str, float]:
    view.page.evaluate("() => new Promise(requestAnimationFrame)")
    pairs = view.locator("[data-model]").evaluate_all(
        "all => all.map(row => [row.dataset.model, +row.dataset.value])"
    )
    return dict(pairs)


@in_own_thread
def test_attention_explorer(lab: Lab) -> None:
    view = lab.page.locator(".attnlab-attention")
    first = lab.kernel("attention.weights().ravel().tolist()")
    np.testing.assert_allclose(shown_weights(view), first, rtol=0, atol=1e-12)

    view.locator("[data-trait=temperature]").focus()
    for _ in range(5):
        lab.page.keyboard.press("ArrowRight")
    lab.hears("attention.temperature", 1.5)
    second = lab.kernel("attention.weights().ravel().tolist()")
    assert max(second) < max(first)
    np.testing.assert_allclose(shown_weights(view), second, rtol=0, atol=1e-12)

    view.locator("[data-trait=mask]").select_option("causal")
    view.locator("[data-trait=head]").select_option("1")
    lab.hears("(attention.mask, attention.head)", ("causal", 1))
    third = lab.kernel("attention.weights().ravel().tolist()")
    np.testing.assert_allclose(shown_weights(view), third, rtol=0, atol=1e-12)

    view.locator('[data-row="2"] [data-key="1"]').click()
    lab.hears("attention.row", 2)


@in_own_thread
def test_arrow_keys_move_the_widget_and_not_the_cells(lab: Lab) -> None:
    """In command mode, JupyterLab takes arrow keys for itself unless an element asks for them."""
    active = (
        "() => [...document.querySelectorAll('.jp-Cell')].findIndex(cell => cell.matches('.jp-mod-active'))"
    )
    lab.page.locator(".jp-Cell .jp-InputPrompt").nth(1).click()
    lab.page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")
    assert lab.page.evaluate(active) == 1
    view = lab.page.locator(".attnlab-attention")
    view.locator("[role=listbox]").focus()
    row = lab.kernel("attention.row")
    for step, key in ((1, "ArrowDown"), (0, "ArrowUp")):
        lab.page.keyboard.press(key)
        lab.hears("attention.row", row + step)
        assert lab.page.evaluate(active) == 1
    view.locator("[data-trait=dimensions]").focus()
    dimensions = lab.kernel("attention.dimensions")
    lab.page.keyboard.press("ArrowDown")
    lab.hears("attention.dimensions", dimensions - 1)
    assert lab.page.evaluate(active) == 1


@in_own_thread
def test_gradient_explorer(lab: Lab) -> None:
    view = lab.page.locator(".attnlab-gradient")
    assert shown_gradient(view) == lab.kernel("gradient.at()")
    slider = view.locator("input[type=range]")
    slider.focus()
    for _ in range(3):
        lab.page.keyboard.press("ArrowRight")
    lab.hears("gradient.distance", 13)
    assert shown_gradient(view) == lab.kernel("gradient.at()")

    chart, handle = view.locator(".attnlab-chart").bounding_box(), slider.bounding_box()
    y = chart["y"] + chart["height"] / 2
    lab.page.mouse.move(handle["x"] + 10, y)
    lab.page.mouse.down()
    lab.page.mouse.move(handle["x"] + handle["width"] / 2, y, steps=6)
    lab.page.mouse.up()
    lab.hears("gradient.distance", 30)
    assert shown_gradient(view) == lab.kernel("gradient.at()")

    view.get_by_role("checkbox").last.click()
    lab.hears("gradient.hidden", ["flat"])


@in_own_thread
def test_mask_painter(lab: Lab) -> None:
    view = lab.page.locator(".attnlab-mask")

    def assert_shown() -> None:
        weights = lab.kernel("mask.weights().ravel().tolist()")
        np.testing.assert_allclose(shown_weights(view), weights, rtol=0, atol=1e-12)

    assert_shown()
    view.locator('[data-row="1"][data-key="2"]').click()  # paint bytes, which the kernel gets as a buffer
    lab.hears("list(mask.mask)", [1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1])
    assert_shown()
    lab.page.keyboard.press("Shift+ArrowUp")
    lab.hears("(mask.row, mask.mask[2])", (0, 1))
    view.locator("[data-preset=both]").click()
    view.locator("[data-trait=inverted]").select_option("may not")
    lab.hears("(mask.inverted, list(mask.mask[12:]))", (True, [1, 1, 1, 0]))
    assert_shown()
    lab.kernel("mask.set_trait('mask', bytes(16))")
    view.locator("xpath=self::*[@data-mask='painted']").wait_for(timeout=10_000)
    assert_shown()


@in_own_thread
def test_the_translator_gets_its_weights_from_the_kernel(lab: Lab) -> None:
    """No address is in its state: the bytes come by a message, unasked."""
    view = lab.page.locator(".attnlab-widget[data-done=true]")
    view.wait_for(timeout=60_000)
    for phrase in (None, "Thursday, May 1, 1997"):
        if phrase:
            view.locator("[data-trait=text]").fill(phrase)
            lab.hears("translator.text", phrase)
        expected = lab.kernel("translator._translator.translate([translator.text])[0]")
        view.get_by_text(expected, exact=True).first.wait_for()


@in_own_thread
def test_the_kernel_moves_the_view(lab: Lab) -> None:
    lab.kernel("gradient.set_trait('distance', 7)")
    view = lab.page.locator(".attnlab-gradient[data-distance='7']")
    view.wait_for(timeout=10_000)
    assert shown_gradient(view) == lab.kernel("gradient.at(7)")


@in_own_thread
def test_running_the_cells_again_leaves_as_many_models(lab: Lab) -> None:
    count = "len(ipywidgets.Widget.widgets if hasattr(ipywidgets.Widget, 'widgets') else [])"
    before = lab.kernel(count)
    assert before >= 6  # three widgets, each with its layout
    first = lab.kernel("gradient.model_id")
    lab.run_all()
    lab.page.wait_for_selector(".attnlab-gradient[data-distance='10']", timeout=60_000)
    assert lab.kernel("gradient.model_id") != first
    assert lab.kernel(count) == before
    assert lab.page.locator(".attnlab-widget").count() == 4


@in_own_thread
def test_nothing_was_asked_of_another_machine(lab: Lab) -> None:
    assert lab.outside == []
