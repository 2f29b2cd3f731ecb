"""The first code cell of every notebook: it installs the package where it is missing, as in Colab."""

from nbformat import NotebookNode

from . import nodes

TAGS = ["setup", "hide-input"]
# What the package needs and Colab lacks: small, in Python alone. The second needs the third.
NOT_IN_COLAB = ("num2words", "cn2an", "proces")


def source(repository: str) -> str:
    """Return the code.

    ``--no-deps``: what else a lesson imports is there already and must not change. A package that is there,
    in whatever version, stays as it is.
    """
    return (
        "# Does nothing where the course is installed; in Colab it installs the course's own package, once.\n"
        "try:\n"
        "    import attnlab\n"
        "except ModuleNotFoundError:\n"
        f'    %pip install --quiet --no-deps "attnlab @ git+{repository}" {" ".join(NOT_IN_COLAB)}'
    )


def identifier(stem: str) -> str:
    """Return the cell's fixed id."""
    return f"{stem[:50]}-setup"


def cell(stem: str, repository: str) -> NotebookNode:
    """Return the cell."""
    return nodes.new_cell("code", source(repository), {"tags": list(TAGS)}, identifier(stem))
