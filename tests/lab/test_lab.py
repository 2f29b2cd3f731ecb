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

from attnlab import widgets
from attnlab.widgets._base import CourseWidget
from tools.course import find_browser

pytestmark = [pytest.mark.lab, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
START = """
import ipywidgets
import numpy as np
import torch
from attnlab import widgets
from attnlab.transformer import Transformer, TransformerConfig

draw = np.random.default_rng(0).normal
"""


@dataclass(frozen=True)
class Trial:
    """How one widget is made, what of it takes the keys, and what its kernel says afterwards."""

    name: str
    made: str
    control: str
    keys: tuple[str, ...]
    says: tuple[str, Any]  # an expression of the widget, as `it`, and its value


#: One for each widget of the library. The keys are those that a notebook would take for its own commands.
TRIALS = {
    "AttentionExplorer": Trial(
        "attention",
        '("you all see one another".split(), draw(size=(2, 5, 8)), draw(size=(2, 5, 8)))',
        "[data-trait=temperature]",
        ("ArrowRight",),
        ("it.temperature", 1.1),
    ),
    "MaskPainter": Trial(
        "mask",
        '(draw(size=(4, 4)), "causal", length=3)',
        "[role=checkbox][tabindex='0']",
        ("ArrowRight", "Enter"),
        ("list(it.mask[:4])", [1, 1, 0, 0]),
    ),
    "TranslatorExplorer": Trial(
        "translator",
        f"({str(ROOT / 'book' / 'translators' / 'translator-fr.safetensors')!r})",
        "[data-trait=text]",
        ("End", "x"),  # which cuts a cell
        ("it.text", "Wednesday, July 4, 1984x"),
    ),
    "BugGame": Trial(
        "bugs",
        """(
    dict(zip("ABCDEFG", np.exp(draw(size=(7, 9))))), np.ones(9), range(1, 10), alike=1.5,
    gives_away=dict.fromkeys("ABCDEFG", "a sign"), found_by=dict.fromkeys("ABCDEFG", "a test"),
)""",
        "[data-place='0']",
        ("2", "Enter", "3"),  # numbers make headings, Enter edits
        ("[deal[1].index(said) for deal, said in zip(it.rounds(), it.answers)]", [1, 2]),
    ),
    "CircuitSwitches": Trial(
        "circuit",
        '(np.linspace(0, 1, 16), np.tile(np.eye(6), (4, 2, 1, 1)), "abcabc")',
        "input[data-head='2']",
        (" ",),
        ("it.heads_on", 0b1011),
    ),
    "ExtrapolationMap": Trial(
        "extrapolation",
        '({"last": {"rotary": {8: 1.0, 16: 0.5}, "none": {8: 0.9, 16: 0.8}}}, trained=8)',
        "[role=radio][aria-checked=true]",
        ("ArrowRight",),
        ("it.lengths[it.column]", 16),
    ),
    "HeadSplitExplorer": Trial(
        "split",
        '(["Mia", "lost", "keys"], *draw(size=(3, 3, 4)), heads=2)',
        "[role=listbox]",
        ("ArrowRight",),
        ("it.chosen", 1),
    ),
    "HeadSwitches": Trial(
        "heads",
        '(np.linspace(0, 1, 8).reshape(4, 2), draw(size=(1, 3, 1, 5)), [[2]], outputs=["1 back"])',
        "input[data-head='1']",
        (" ",),
        ("it.heads_on", 0b01),
    ),
    "MapExplorer": Trial(
        "maps",
        '(np.full((2, 2, 4, 4), 0.25), list("abcd"), row=3)',
        "button[data-layer='0'][data-place='0']",
        ("ArrowRight", "ArrowDown"),
        ("(it.layer, it.head)", (1, 1)),
    ),
    "RotaryExplorer": Trial(
        "rotary",
        "(draw(size=8), draw(size=8), query_place=5)",
        "[data-trait=query_place]",
        ("ArrowRight",),
        ("it.query_place", 6),
    ),
    "SoftLookupExplorer": Trial(
        "lookup",
        "([[0, 1], [1, 0], [-1, 0]], [1.0, 2.0, 4.0])",
        "[role=slider]",
        ("ArrowUp", "Shift+ArrowRight", "Shift+ArrowLeft"),
        ("(it.x, it.y > 0)", (0.0, True)),
    ),
    "TileWalk": Trial(
        "tiles",
        "(draw(size=(6, 8)), draw(size=8), step=2)",
        "button:has-text('Take the next tile')",
        ("Enter", " "),
        ("it.step", 4),
    ),
    "TokenJourney": Trial(
        "journey",
        """(
    Transformer(TransformerConfig(
        source_vocab_size=5, target_vocab_size=5, d_model=8, num_heads=2, d_ff=8, max_length=4,
        num_encoder_layers=1, num_decoder_layers=1, dropout=0.0, share_embeddings=True,
    )),
    torch.tensor([3, 4]), torch.tensor([1, 3]), list("·<>ab"),
)""",
        "[data-trait=station]",
        ("ArrowRight",),
        ("it.station", 1),
    ),
    "TrainingMap": Trial(
        "training",
        "(np.full((4, 2, 2, 5), 90), depths=[1, 6], rates=[0.1, 0.2], steps=50, guess=1.6)",
        "[role=radio][aria-checked=true]",
        ("ArrowRight",),
        ("it.rates[it.column]", 0.2),
    ),
    # The last one: once it is shown, the kernel has run all cells.
    "GradientExplorer": Trial(
        "gradient",
        '({"fading": 0.3 ** np.arange(61), "flat": np.ones(61)}, distance=10)',
        "input[type=range]",
        ("ArrowRight",),
        ("it.distance", 11),
    ),
}
CELLS = [START, *(f"{one.name} = widgets.{kind}{one.made}\n{one.name}" for kind, one in TRIALS.items())]
# Nothing that asks another machine for news, updates or extensions.
QUIET = {
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/extensionmanager-extension": True,
    }
}
# All cells stay on the page, also those that are out of sight.
WHOLE = {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}
STARTS_WITHIN = 90  # seconds
# After two seconds anywidget gives a model up, which a busy machine may need to start it.
PATIENCE = (
    "const limit = AbortSignal.timeout; AbortSignal.timeout = (ms) => limit.call(AbortSignal, 60 * ms);"
)
#: Whether the notebook is in command mode, and the place of its active cell.
NOTEBOOK = """() => [
  document.querySelector(".jp-Notebook").matches(".jp-mod-commandMode"),
  [...document.querySelectorAll(".jp-Cell")].findIndex(cell => cell.matches(".jp-mod-active")) ]"""
# A thread holds one Playwright at most, and the tests of the website keep theirs open in the main one.
OWN_THREAD = ThreadPoolExecutor(max_workers=1)


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs, with its notebook open in a browser and all cells run."""

    page: Page
    runtime: Path
    outside: list[str]
    problems: list[str]

    @functools.cached_property
    def client(self) -> BlockingKernelClient:
        """A line to the notebook's own kernel."""
        client = BlockingKernelClient(connection_file=str(next(self.runtime.glob("kernel-*.json"))))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        return client

    def kernel(self, expression: str) -> Any:
        """What an expression gives in the notebook's own kernel, as plain Python."""
        reply = self.client.execute_interactive(
            "", user_expressions={"answer": expression}, store_history=False, timeout=60
        )
        answer = reply["content"]["user_expressions"]["answer"]
        assert answer["status"] == "ok", answer
        return ast.literal_eval(answer["data"]["text/plain"])

    def hears(self, expression: str, value: Any) -> None:
        """Wait until the kernel has heard of a change."""
        for _ in range(50):
            if self.kernel(expression) == value:
                return
            time.sleep(0.1)
        assert self.kernel(expression) == value

    def shown(self) -> list[int]:
        """How many widgets each cell shows, once there are enough of them."""
        self.page.wait_for_function(
            "want => document.querySelectorAll('.attnlab-widget').length >= want", arg=len(TRIALS)
        )
        counts: list[int] = self.page.locator(".jp-Cell").evaluate_all(
            "cells => cells.map(cell => cell.querySelectorAll('.attnlab-widget').length)"
        )
        return counts

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
    for name, settings in (("page_config", QUIET), ("default_setting_overrides", WHOLE)):
        (home / f"config/labconfig/{name}.json").write_text(json.dumps(settings), encoding="utf-8")
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
    problems: list[str] = []
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
        page.add_init_script(PATIENCE)
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.goto(url)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        # Before its kernel is ready, the notebook would ask which one to take.
        page.get_by_text("| Idle").wait_for(timeout=60_000)
        lab = Lab(page, runtime, outside, problems)
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
    if "client" in vars(lab):  # some test has asked the kernel
        OWN_THREAD.submit(lab.client.stop_channels).result()
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
    lab.page.locator(".jp-Cell .jp-InputPrompt").nth(1).click()
    lab.page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")
    assert lab.page.evaluate(NOTEBOOK) == [True, 1]
    view = lab.page.locator(".attnlab-attention")
    view.locator("[role=listbox]").focus()
    row = lab.kernel("attention.row")
    for step, key in ((1, "ArrowDown"), (0, "ArrowUp")):
        lab.page.keyboard.press(key)
        lab.hears("attention.row", row + step)
        assert lab.page.evaluate(NOTEBOOK) == [True, 1]
    view.locator("[data-trait=dimensions]").focus()
    dimensions = lab.kernel("attention.dimensions")
    lab.page.keyboard.press("ArrowDown")
    lab.hears("attention.dimensions", dimensions - 1)
    assert lab.page.evaluate(NOTEBOOK) == [True, 1]


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
def test_running_the_cells_again_leaves_one_live_widget_in_each(lab: Lab) -> None:
    every = "ipywidgets.Widget.widgets.values()"
    live = f"sorted(type(one).__name__ for one in {every} if hasattr(one, 'summary'))"
    before, first = lab.kernel(f"len({every})"), lab.kernel("gradient.model_id")
    assert lab.kernel(live) == sorted(TRIALS)
    lab.run_all()
    lab.page.wait_for_selector(".attnlab-gradient[data-distance='10']", timeout=60_000)
    assert lab.kernel("gradient.model_id") != first
    assert lab.kernel(live) == sorted(TRIALS)
    assert lab.kernel(f"len({every})") == before  # their layouts went with them
    assert lab.shown() == [0, *[1] * len(TRIALS)]


def test_every_widget_of_the_library_is_tried() -> None:
    exported = {
        name for name, one in vars(widgets).items() if isinstance(one, type) and issubclass(one, CourseWidget)
    }
    assert set(TRIALS) == exported == set(widgets.__all__)


@in_own_thread
def test_the_keyboard_moves_every_widget_and_no_cell_and_the_kernel_hears_of_it(lab: Lab) -> None:
    """In command mode, with the keys that mean something to the notebook, too."""
    lab.page.locator(".jp-Cell .jp-InputPrompt").first.click()
    lab.page.wait_for_selector(".jp-Notebook.jp-mod-commandMode")
    lab.page.locator(".attnlab-widget[data-done=true]").wait_for(timeout=60_000)
    for number, trial in enumerate(TRIALS.values(), start=1):
        lab.page.locator(".jp-Cell").nth(number).locator(trial.control).first.focus()
        for key in trial.keys:
            lab.page.keyboard.press(key)
            lab.page.evaluate("() => new Promise(requestAnimationFrame)")  # the focus may move
        assert lab.page.evaluate(NOTEBOOK) == [True, number], trial.name
    said = ", ".join(f"{kind!r}: (lambda it: {one.says[0]})({one.name})" for kind, one in TRIALS.items())
    lab.hears(f"{{{said}}}", {kind: one.says[1] for kind, one in TRIALS.items()})
    kinds = "cells => cells.map(cell => cell.matches('.jp-CodeCell'))"
    assert lab.page.locator(".jp-Cell").evaluate_all(kinds) == [True] * len(CELLS)


@in_own_thread
def test_nothing_went_wrong_and_nothing_was_asked_of_another_machine(lab: Lab) -> None:
    assert lab.problems == []
    assert lab.outside == []
