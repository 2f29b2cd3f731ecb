"""What is wrong with a manuscript is said at its line before anything runs."""

import pytest

HEAD = "book/lessons/01_back.py"
WORK = "book/exercises/01_back.py"


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("[[n]]", "[[m]]", 9, "no claim has this name"),
        (", of [[n]] trials", " of trials", 17, "'n' is never quoted"),
        ("[[score:.2f]]", "[[score:.2q]]", 9, "bad format '.2q'"),
        ("[[score:.2f]]", "[[score .2f]]", 9, "not a reference"),
        ("[[score:.2f]]", "0.93", 9, "typed by hand: '0.93'"),
        ("The end.", "The end:\n#\n# it fell to 3.7 in all.", 25, "typed by hand: '3.7'"),
        ("[@vaswani2017,", "[@nobody2017,", 9, "@nobody2017: book/references.bib has no such key"),
        ("[@vaswani2017, section 3.2]", "@nobody2017", 9, "@nobody2017: book/references.bib has no such key"),
        ("[@vaswani2017, section 3.2]", "[@vaswani2017; see below]", 9, "write [@key]"),
        ('claim("n", n, equals=4)', 'claim("score", n, equals=4)', 17, "computed twice, first in line 16"),
        ('claim("n", n, equals=4)', 'claim("n", n)', 17, "needs at_least="),
        ('claim("n", n, equals=4)', 'claim("n", n, around=4)', 17, "needs at_least="),
        ('claim("n", n, equals=4)', 'claim("n", n, equals=n)', 17, "written out"),
        ('claim("n", n, equals=4)', 'claim(f"n{n}", n, equals=4)', 17, "written out"),
        ('claim("n", n, equals=4)', 'claim("a b", n, equals=4)', 17, "written out"),
        ('print("later")', "x = 1\nx = = 2", 21, "SyntaxError"),
        ('print("later")', "import random\nrandom.seed(0)", 21, "random.seed(0): write seed(...)"),
        ('print("later")', "g = torch.Generator().manual_seed(3)", 20, "manual_seed(3): write seed(...)"),
        ('print("later")', "g = np.random.default_rng()", 20, "default_rng(): write seed(...)"),
        ('print("later")', 'print("later");', 20, "a last semicolon"),
        ('print("later")', "plots.lines(x, y, x='a', y='b')", 20, "plots.lines(...) needs alt="),
        ('print("later")', "plots.show(figure, alt=' ')", 20, "plots.show(...) needs alt="),
        ('print("later")', "# BEGIN SOLUTION", 20, "a solution mark in a lesson"),
        ('["hide-input"]', '["solution-only"]', 20, "a lesson has no solution"),
        ("name: python3", "name: conda-env-foo-py", 1, "the kernel must be python3, not conda-env-foo-py"),
        (
            "# %% [markdown]\n# # Looking",
            "Text.\n\n# %% [markdown]\n# # Looking",
            6,
            "text before the first '# %%' line",
        ),
        ('print("later")', 's = """\n# %% no\n"""', 6, "a '# %%' line inside a string"),
    ],
)
def test_a_lesson_is_wrong_at_its_line(lab, nothing_runs, old, new, line, what):
    complaints = lab.edit(old, new)("build", "01")
    assert any(text.startswith(f"{HEAD}:{line}: ") and what in text for text in complaints), complaints
    assert not (lab.root / "notebooks").exists()


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("    return y\n    # END SOLUTION", "    return y", 14, "BEGIN SOLUTION without END SOLUTION"),
        ("    # BEGIN SOLUTION\n    y", "    y", 16, "END SOLUTION without BEGIN SOLUTION"),
        ("    return y\n", "    # BEGIN SOLUTION\n    return y\n", 16, "nested solution marks"),
        (
            "    # BEGIN SOLUTION\n    y",
            "    # begin solution\n    y",
            14,
            "not a solution mark: '# begin solution'",
        ),
        ("last = 1", "# STUB last = 1", 26, "a '# STUB' line outside a solution"),
        ("# STUB return ...", "# STUB return (", 23, "the stub is not Python"),
        ("# Add one.", "# BEGIN SOLUTION", 9, "a solution mark in a text cell"),
    ],
)
def test_an_exercise_is_wrong_at_its_line(lab, nothing_runs, old, new, line, what):
    complaints = lab.edit(old, new, WORK)("build", "01")
    assert any(text.startswith(f"{WORK}:{line}: ") and what in text for text in complaints), complaints
    assert not (lab.root / "exercises").exists()


def test_all_complaints_come_at_once(lab, nothing_runs):
    lab.edit("[[n]]", "[[m]]").edit("equals=4", "around=4").edit("# Add one.", "# Add 0.75 to it.", WORK)
    assert len(lab("build", "01")) == 3


@pytest.mark.parametrize(
    ("do", "complaint"),
    [
        (
            lambda lab: lab.write("book/lessons/01_other.py", lab.read(HEAD)),
            "book/lessons/01_other.py:1: duplicate number '01': 01_back.py has it too",
        ),
        (
            lambda lab: lab.write("book/lessons/02_back.py", lab.read(HEAD)),
            "book/lessons/02_back.py:1: duplicate slug 'back': 01_back.py has it too",
        ),
        (
            lambda lab: lab.write("book/exercises/02_alone.py", lab.read(WORK)),
            "book/exercises/02_alone.py:1: book/lessons/02_alone.py is missing: exercises need their lesson",
        ),
        (
            lambda lab: lab.write("book/lessons/notes.py", lab.read(HEAD)),
            "book/lessons/notes.py:1: the name must be two digits and a slug, 03_query_key_value.py",
        ),
        (
            lambda lab: lab.edit("- file: notebooks/01_back\n", "- file: notebooks/evidence\n", "_toc.yml"),
            "_toc.yml:1: notebooks/01_back is missing",
        ),
        (
            lambda lab: lab.edit("  - file: solutions/01_back\n", "", "_toc.yml"),
            "_toc.yml:1: solutions/01_back is missing",
        ),
        (
            lambda lab: lab.edit("pages/index", "pages/nothing", "_toc.yml"),
            "_toc.yml:2: book/pages/nothing has no file",
        ),
        (
            lambda lab: lab.edit("- file: notebooks/evidence", "- file: notebooks/07_gone", "_toc.yml"),
            "_toc.yml:8: notebooks/07_gone has no file",
        ),
        (lambda lab: lab.write("_toc.yml", "root: [\n"), "_toc.yml:2: not YAML"),
        (lambda lab: (lab.root / "_toc.yml").unlink(), "_toc.yml:1: missing"),
        (
            lambda lab: lab.write("solutions/09_orphan.ipynb", "{}"),
            "solutions/09_orphan.ipynb:1: no manuscript gives this notebook: delete it, or",
        ),
        (
            lambda lab: lab.write("book/pages/index.md", "# Hi\n\nWe reach 93 % here.\n"),
            "book/pages/index.md:3: typed by hand: '93 %'; cite it, or mark the line <!-- given -->",
        ),
    ],
)
def test_the_whole_tree_is_judged_in_check_and_in_a_full_build(built, nothing_runs, do, complaint):
    do(built)
    for command in ("check", "build"):
        assert any(text.startswith(complaint) for text in built(command)), command


def test_a_named_build_cares_for_its_own_manuscripts_only(lab, quick):
    (lab.root / "_toc.yml").unlink()
    lab.write("book/lessons/02_broken.py", "no cells\n").write("book/pages/index.md", "We reach 93 %.\n")
    assert lab("build", "1") == [] and quick == ["notebooks", "solutions", "exercises"]
    assert lab("build", "back") == [] and lab("build", "01_back") == []
    assert "book/lessons/02_broken.py:1: no cell" in lab("build")[-1]
    assert lab("build", "7") == ["no manuscript is called '7'; there are: 01_back, 02_broken"]


def test_a_lesson_may_be_there_before_its_exercises(built):
    for name in ("book/exercises/01_back.py", "exercises/01_back.ipynb", "solutions/01_back.ipynb"):
        (built.root / name).unlink()
    built.edit("  sections:\n  - file: exercises/01_back\n  - file: solutions/01_back\n", "", "_toc.yml")
    assert [text for text in built("check") if "bibliography" not in text and "evidence" not in text] == []


def test_a_marked_line_of_a_page_may_hold_a_number(built):
    built.write(
        "book/pages/index.md", "Vaswani et al. report 28.4 BLEU.\n\nPages load in 0.4 s. <!-- given -->\n"
    )
    assert [text for text in built("check") if "typed" in text] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "_config.yml:1: missing"),
        ("title: x\n", "_config.yml:1: needs repository.url"),
        ("a: [", "_config.yml:1: not YAML"),
    ],
)
def test_the_repository_must_be_known(lab, nothing_runs, text, complaint):
    (lab.root / "_config.yml").unlink()
    if text:
        lab.write("_config.yml", text)
    assert lab("build", "01")[0].startswith(complaint)


def test_magics_quoted_text_and_shell_cells_are_understood(lab, quick):
    lab.write(
        HEAD,
        lab.read(HEAD).split("# %% [markdown]")[0]
        + '''# %% [markdown]
"""
# Quoted

Here [[a:.3f]], not 1 % of it.
"""

# %%
# %matplotlib inline
from attnlab import claim, seed
claim("a", (7
     % 4) / 8, at_least=0.1)
''',
    )
    assert lab("build", "01") == [
        f"{HEAD}:10: typed by hand: '1 %'; write [[name:format]] for a result, [[=1 %]] for a given number"
    ]
