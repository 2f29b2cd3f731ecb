"""Which files of the package a notebook depends on."""

from tools.notebooks import sources


def test_data_counts_where_a_module_beside_it_was_loaded(tmp_path):
    package = tmp_path / "src/attnlab"
    for name in ("plots.py", "style.mplstyle", "measured/__init__.py", "measured/map.json", "widgets/a.json"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("", encoding="utf-8")

    def of(*modules):
        return [name.removeprefix("src/attnlab/") for name in sources.of_run(tmp_path, modules)]

    assert of("plots.py") == ["plots.py", "style.mplstyle"]
    assert of("measured/__init__.py") == ["measured/__init__.py", "measured/map.json", "style.mplstyle"]
    assert of("widgets/__init__.py") == ["style.mplstyle", "widgets/__init__.py"]
