"""Lesson 1 defines what it teaches in its own cells; those definitions equal the library's."""

import ast
import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from attnlab import recurrent, tasks, training
from attnlab.positions import SinusoidalPositions

MANUSCRIPT = Path(__file__).parents[2] / "book" / "lessons" / "01_recurrence_limits.py"
SETTINGS = {"num_symbols", "width", "length"}


def definitions(path: Path) -> SimpleNamespace:
    """The definitions in a manuscript's code cells, imports and settings too, but no measurement."""
    text = path.read_text(encoding="utf-8")
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)[1:]
    code = [cell.partition("\n")[2] for cell in cells if not cell.startswith(" [markdown]")]
    wanted: list[ast.stmt] = []
    for statement in ast.parse("\n".join(code)).body:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef) or (
            isinstance(statement, ast.Assign) and names <= SETTINGS
        ):
            wanted.append(statement)
    namespace: dict[str, Any] = {}
    exec(compile(ast.Module(wanted, type_ignores=[]), str(path), "exec"), namespace)
    return SimpleNamespace(**{name: value for name, value in namespace.items() if not name.startswith("__")})


@pytest.fixture(scope="module")
def lesson() -> SimpleNamespace:
    return definitions(MANUSCRIPT)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("width", "hidden", "length"), [(1, 2, 3), (5, 4, 7), (3, 6, 1)])
def test_the_loop_gives_the_states_of_the_librarys_layer(
    lesson: SimpleNamespace, width: int, hidden: int, length: int
) -> None:
    layer = recurrent.recurrent_layer("rnn", width, hidden).double()
    inputs = torch.randn(length, width, dtype=torch.float64, generator=generator())
    first = torch.randn(hidden, dtype=torch.float64, generator=generator(1))
    ours = lesson.rnn_states(
        inputs, first, layer.weight_hh_l0, layer.weight_ih_l0, layer.bias_ih_l0 + layer.bias_hh_l0
    )
    theirs, _ = layer(inputs[None], first[None, None])
    torch.testing.assert_close(ours, theirs[0])


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0, 4.27])
def test_both_set_the_same_forget_bias(lesson: SimpleNamespace, value: float) -> None:
    one, two = nn.LSTM(3, 5), nn.LSTM(3, 5)
    two.load_state_dict(one.state_dict())
    assert same_parameters(lesson.set_forget_bias(one, value), recurrent.set_forget_bias(two, value))


@pytest.mark.parametrize("longest", [2, 10, 200])
def test_both_draw_the_same_chrono_biases(lesson: SimpleNamespace, longest: int) -> None:
    one, two = nn.LSTM(3, 5), nn.LSTM(3, 5)
    two.load_state_dict(one.state_dict())
    assert same_parameters(
        lesson.set_chrono_bias(one, longest, generator()),
        recurrent.set_chrono_bias(two, longest, generator()),
    )


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_both_measure_the_same_gradient_by_distance(lesson: SimpleNamespace, kind: recurrent.Kind) -> None:
    model = lesson.LastState(recurrent.recurrent_layer(kind, 6, 8).double())
    inputs = torch.randn(3, 20, 6, dtype=torch.float64, generator=generator())
    ours = lesson.gradient_by_distance(model, inputs, generator(1))
    torch.testing.assert_close(ours, recurrent.gradient_by_distance(model, inputs, generator(1)))
    assert ours[0] == 1


def test_the_reader_answers_as_the_librarys_reader(lesson: SimpleNamespace) -> None:
    layer = recurrent.recurrent_layer("lstm", lesson.width, lesson.width)
    ours = lesson.Reader(lesson.LastState(layer))
    theirs = recurrent.RecurrentReader(layer, lesson.num_symbols + 2, lesson.num_symbols)
    theirs.embedding, theirs.readout = ours.embedding, ours.readout
    tokens, _ = tasks.recall(4, 6, generator(), num_symbols=lesson.num_symbols)
    assert torch.equal(ours(tokens), theirs(tokens))


def test_both_train_alike_step_by_step(lesson: SimpleNamespace) -> None:
    def reader() -> nn.Module:
        torch.manual_seed(0)
        return lesson.Reader(lesson.LastState(nn.RNN(lesson.width, lesson.width, batch_first=True)))

    def batches() -> Any:
        g = generator()
        return (tasks.recall(8, 2, g, num_symbols=lesson.num_symbols) for _ in itertools.count())

    ours, theirs = reader(), reader()
    losses = lesson.train(ours, batches(), steps=40, lr=1e-2, stop_below=1.0)
    history = training.fit(theirs, batches(), steps=40, lr=1e-2, clip=1.0, stop_below=1.0)
    assert losses == history.losses
    assert 1 < len(losses) < 40  # the early stop took part
    assert same_parameters(ours, theirs)


def test_the_attention_of_the_lesson_is_a_softmax_average_over_all_positions(lesson: SimpleNamespace) -> None:
    model = lesson.LastAsks(6).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64, generator=generator())
    placed = SinusoidalPositions(6, 5).double()(0.5 * x)
    query, key, value = model.query(placed), model.key(placed), model.value(placed)
    weights = (query[:, -1] @ key.transpose(1, 2) / math.sqrt(6)).diagonal(dim1=0, dim2=1).T.softmax(dim=-1)
    expected = torch.einsum("bs,bsd->bd", weights, value)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-6)  # the module's table began in float32


def test_the_share_that_passes_forget_gates_is_what_an_lstm_keeps(lesson: SimpleNamespace) -> None:
    assert lesson.kept(0.0, 3) == pytest.approx(1 / 8)
    assert lesson.kept(2.0, 50) == pytest.approx((1 / (1 + math.exp(-2))) ** 50)


def test_the_longest_chain_is_the_longest_path_and_not_the_number_of_operations(
    lesson: SimpleNamespace,
) -> None:
    x = torch.ones(3, requires_grad=True)
    start = lesson.longest_chain(x.exp())
    assert lesson.longest_chain(x.exp().exp().exp()) == start + 2
    assert lesson.longest_chain(x.exp() + x.exp()) == start + 1  # side by side
    shared = x.exp()
    for _ in range(60):  # two paths at every step: a search of all paths would never end
        shared = shared + shared
    assert lesson.longest_chain(shared) == start + 60


def same_parameters(one: nn.Module, two: nn.Module) -> bool:
    """Whether two modules hold equal numbers."""
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
