"""An honest notebook to start from, and how a hostile submission is written down.

The exercise under attack is ``attend``: no other answer depends on it. So everything else in the notebook is
honest work, which has to keep its points.
"""

import copy
import json
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = ROOT / "exercises"
SET = "03_query_key_value"
LESSON = "query_key_value"
NAMES = ("attention", "prediction", "SelfAttention", "attend", "exponent", "test_attention")
TASKS = tuple(f"{LESSON}.{name}" for name in NAMES)
ATTACKED = f"{LESSON}.attend"
ALL = frozenset(TASKS)
RIGHT = """
def attend(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, dim=-1) @ value
"""
WRONG = "def attend(x, w_q, w_k, w_v):\n    return torch.zeros(x.shape[0], x.shape[1], w_v.shape[1])\n"


@dataclass(frozen=True)
class Targets:
    """What a submission may not reach.

    Attributes:
        secret: a file with a word that must appear nowhere.
        canary: a file that must not change.
        port: a port of this machine where somebody listens.
        marker: a word that a process left behind carries in its command line.
        outside: a folder that archives try to write into.
    """

    secret: Path
    canary: Path
    port: int
    marker: str
    outside: Path


@dataclass(frozen=True)
class Hostile:
    """One hostile submission.

    Attributes:
        name: of the submission, unique.
        what: what it tries, in words.
        make: writes it into a folder.
        loses: exercises that earn nothing in it.
        may_lose: exercises that may earn nothing: the attack can break its own notebook.
        rare: whether the daily tests leave it out, since another one is much like it.
    """

    name: str
    what: str
    make: Callable[[Path, Targets], None]
    loses: frozenset[str] = frozenset()
    may_lose: frozenset[str] = frozenset()
    rare: bool = False


COLLECTION: list[Hostile] = []


class Notebook:
    """The solved set, as a student would save it: to be spoilt."""

    def __init__(self) -> None:
        text = (ROOT / "solutions" / f"{SET}.ipynb").read_text(encoding="utf-8")
        self.data = json.loads(text)
        for cell in self.cells:
            cell["source"] = "".join(cell["source"])
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None

    @property
    def cells(self) -> list[dict]:
        return self.data["cells"]

    @cells.setter
    def cells(self, cells: list[dict]) -> None:
        self.data["cells"] = cells

    def place(self, name: str) -> int:
        """Where an answer is defined."""
        starts = (f"def {name}(", f"class {name}(", f"{name} = ")
        found = [
            i for i, cell in enumerate(self.cells) if any(f"\n{s}" in f"\n{cell['source']}" for s in starts)
        ]
        return found[0]

    def checks(self) -> list[int]:
        """The cells that call ``check``."""
        return [i for i, cell in enumerate(self.cells) if "check" in cell["metadata"].get("tags", [])]

    def answer(self, source: str, name: str = "attend") -> None:
        """Put another answer in the place of the honest one."""
        self.cells[self.place(name)]["source"] = source

    def insert(self, source: str, before: str = "SelfAttention", **cell: object) -> None:
        """Put in a cell of the learner's own."""
        new = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "id": new_id()}
        self.cells.insert(self.place(before), {**new, "source": source, **cell})

    def copy_of(self, name: str) -> dict:
        return copy.deepcopy(self.cells[self.place(name)])

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.data), encoding="utf-8")


def code(text: str) -> str:
    """The source of a cell, from a text that is indented as where it stands."""
    return textwrap.dedent(text).removeprefix("\n")


def new_id() -> str:
    """An id for a cell, the same in each run."""
    return f"own-{_numbers.randrange(10**9)}"


_numbers = random.Random(0)


def spoilt(
    *,
    loses: frozenset[str] | str = ATTACKED,
    may_lose: frozenset[str] | str = frozenset(),
    rare: bool = False,
):
    """Decorator: a function that spoils the honest notebook becomes a hostile submission."""

    def add(spoil: Callable[[Notebook, Targets], None]) -> Callable[[Notebook, Targets], None]:
        def make(folder: Path, targets: Targets) -> None:
            notebook = Notebook()
            spoil(notebook, targets)
            notebook.save(folder / f"{spoil.__name__}.ipynb")

        _add(spoil.__name__ + ".ipynb", spoil.__doc__, make, loses, may_lose, rare)
        return spoil

    return add


def written(name: str, *, loses: frozenset[str] | str = ALL):
    """Decorator: a function that writes the submission ``name`` itself becomes a hostile submission."""

    def add(make: Callable[[Path, Targets], None]) -> Callable[[Path, Targets], None]:
        _add(name, make.__doc__, make, loses, frozenset(), False)
        return make

    return add


def _add(name, what, make, loses, may_lose, rare) -> None:
    sets = [frozenset({one}) if isinstance(one, str) else one for one in (loses, may_lose)]
    assert what, f"{name}: say what it tries"
    assert name not in {other.name for other in COLLECTION}, name
    COLLECTION.append(Hostile(name, what, make, *sets, rare))


NOTHING: frozenset[str] = frozenset()
