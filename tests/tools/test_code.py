"""What counts as a change of code: whatever may move a number, and nothing else."""

import pytest

from tools.notebooks.code import fingerprint

CODE = '''"""A module."""
import torch


def f(x):
    """Twice x, (T,)."""
    return 2 * x  # (T,)


class C:
    """A class."""

    size = 3


claim("twice", f(1), at_least=1.5)
picture = plots.show(plots.lines(x, f(x), roles={"f": "a"}, alt="A line."), alt=word("One."))
'''


@pytest.mark.parametrize(
    ("there", "other"),
    [
        ('"""A module."""', '"""A module of another kind.\n\nIn two paragraphs.\n"""'),
        ('    """Twice x, (T,)."""\n', ""),
        ('"""A class."""', "'''Another.'''"),
        ("  # (T,)", "  # the same shape"),
        ("\n\n\n", "\n"),
        ("at_least=1.5", "at_least=1.2"),
        ('roles={"f": "a"}', 'roles=dict(f="b")'),
        ('alt="A line."', 'alt="A line "\n    "that rises."'),
        ('word("One.")', 'plots.word("One.", alt="Two.")'),
    ],
)
def test_words_and_bounds_move_no_number(there, other):
    assert there in CODE
    assert fingerprint(CODE.replace(there, other)) == fingerprint(CODE)


@pytest.mark.parametrize(
    ("there", "other"),
    [
        ("2 * x", "3 * x"),
        ("size = 3", 'size = "3"'),
        ("    return 2 * x", '    return 2 * x\n    "not a docstring"'),
        ("f(1)", "f(2)"),
        ("import torch", "import torch as t"),
        ("lines(x, f(x)", "lines(x, f(2 * x)"),
        ("plots.lines", "other.lines"),
    ],
)
def test_code_counts(there, other):
    assert there in CODE
    assert fingerprint(CODE.replace(there, other)) != fingerprint(CODE)


def test_a_string_that_is_the_value_of_a_cell_counts():
    assert fingerprint('"shown"') != fingerprint('"shown, too"')


@pytest.mark.parametrize(
    "code",
    [
        "other.lines(x, alt={})",
        "plots.lines(x, guides=torch.rand({}, generator=generator))",
        "plots.lines(x, guides=[next(batches) for _ in range({})])",
    ],
)
def test_arguments_of_others_and_those_that_take_from_a_stream_count(code):
    assert fingerprint(code.format(1)) != fingerprint(code.format(2))
