"""Quizzes: what is refused, what readers see, and the way back from an edit in Jupyter."""

import re

import nbformat
import pytest

from tools.notebooks import inline, quiz

HEAD, NOTEBOOK = "book/lessons/01_back.py", "notebooks/01_back.ipynb"
QUIZ = r"""## Quiz

1. Which axis does the softmax run along? It scored [[score:.2f]], says [@vaswani2017].

   ```python
   - [ ] no option :: but code
   weights = scores.softmax(dim=-2)
   ```

   - [ ] the *queries*, `a[::2] < "b"`,
     in $d_k \lt 4$ :: A query has **one** whole.
     It is shared out among keys [@vaswani2017, section 3].
   - [x] the keys :: Each row sums to one.
   - [ ] x & `y :: z` :: Neither is an axis.

2. Second?

   - [x] a :: It is a.
   - [ ] b :: It is a, not b.
   - [ ] the third :: It is a, not c.

3. Third?

   - [ ] a :: It is b.
   - [x] [[n]] trials :: There were [[n]].
   - [ ] c :: It is b, not c.

4. Fourth?

   - [ ] a :: It is c.
   - [ ] b :: It is c, not b.
   - [x] c :: It is c.
   - [ ] d :: It is c, not d.

5. Fifth?

   - [x] a :: It is a.
   - [ ] b :: It is a, not b.
   - [ ] c :: It is a, not c."""


def as_cell(text):
    return "\n# %% [markdown]\n" + "\n".join(f"# {line}".rstrip() for line in text.split("\n")) + "\n"


@pytest.fixture
def quizzed(lab):
    """The small book, its lesson with a quiz."""
    return lab.write(HEAD, lab.read(HEAD) + as_cell(QUIZ))


@pytest.fixture
def built_quiz(quizzed, quick):
    """The same, built."""
    assert quizzed("build") == []
    quick.clear()
    return quizzed


def test_the_quiz_is_right_as_it_stands():
    questions, wrong = quiz.parse(QUIZ)
    assert wrong == [] and [len(one.options) for one in questions] == [3, 3, 3, 4, 3]
    assert questions[0].options[0].text == 'the *queries*, `a[::2] < "b"`,\nin $d_k \\lt 4$'
    assert questions[0].options[0].why.startswith("A query has **one** whole.\nIt is")


def test_readers_see_folds_and_no_answer_before_they_open_one():
    text = quiz.shown(QUIZ)
    assert text.startswith(f"## Quiz\n\n{quiz.ADVICE}\n\n**1.** Which axis")
    assert (
        '<details><summary>the <em>queries</em>, <code>a[::2] &lt; "b"</code>,\nin $d_k \\lt 4$</summary>\n\n'
        "**Wrong.** A query has **one** whole.\nIt is shared out among keys [@vaswani2017, section 3]."
        "\n\n</details>\n"
    ) in text
    assert "<summary>x &amp; <code>y :: z</code></summary>\n\n**Wrong.** Neither" in text
    folded = re.sub(r"</summary>.*?</details>", "", text, flags=re.S)
    assert "Right" not in folded and "Wrong" not in folded and "[x]" not in text
    assert text.count("<details>") == text.count("</details>") == 16
    assert text.count("**Right.**") == 5


def test_the_way_back_gives_the_same_text():
    assert quiz.restored(quiz.shown(QUIZ)) == QUIZ


def test_what_is_no_quiz_stays_as_it_is():
    for text in ("## Quiz\n\nNothing yet.", "# Title\n\n- [ ] a :: b", quiz.shown(QUIZ)):
        assert quiz.shown(text) == text
    assert quiz.restored("## Quiz\n\nNothing yet.") == "## Quiz\n\nNothing yet."


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "`a < b` and ``c`d``",
        r"$a_{*} \cdot b_{*}$ *and* **bold**",
        "2 * 3 * 4",
        "a & b; `&lt;`",
        "x_1_2",
    ],
)
def test_a_line_comes_back_from_html(text):
    assert inline.from_html(inline.to_html(text)) == text and inline.refused(text) is None


@pytest.mark.parametrize(
    ("old", "new", "at", "what"),
    [
        ("5. Fifth?", "6. Fifth?", "## Quiz", "this one has 1, 2, 3, 4, 6"),
        ("5. Fifth?", "Fifth?", "Fifth?", "neither a question"),
        ("## Quiz\n\n", "## Quiz\n\nHello.\n\n", "Hello", "begins with its first question"),
        ("2. Second?", "2. ", "2.", "question 2 asks nothing"),
        (
            "   - [ ] b :: It is a, not b.\n   - [ ] the third",
            "   - [ ] the third",
            "Second",
            "has 2 options",
        ),
        ("- [x] c :: It is c.", "- [ ] c :: It is c.", "Fourth", "question 4 has 0 right options"),
        ("- [ ] d :: It", "- [x] d :: It", "Fourth", "question 4 has 2 right options"),
        ("- [ ] d :: It is c, not d.", "- [ ] d", "- [ ] d", "question 4, option 'd': no explanation"),
        ("- [ ] d :: It is c, not d.", "- [ ] d ::", "- [ ] d", "question 4, option 'd': no explanation"),
        ("- [ ] d :: It", "- [ ] :: It", "- [ ] ::", "question 4 has an option without a text"),
        ("- [ ] d :: It", "- [ ] C :: It", "- [ ] C", "question 4 has the option 'C' twice"),
        ("- [ ] d :: It", "- [ ] [d](x.md) :: It", "(x.md)", "an option holds no link"),
        ("- [ ] d :: It", "- [ ] @vaswani2017 :: It", "@vaswani2017 ::", "an option holds no link"),
        ("- [ ] d :: It", "- [ ] $d < 4$ :: It", "$d < 4$", r"write \lt, \gt"),
        ("- [ ] d :: It", "- [ ] a <b> d :: It", "<b>", "option 'a <b> d'"),
        ("- [ ] d :: It", "- [ ] d :: **Wrong.** It", "**Wrong.**", "the build writes Right or Wrong"),
        ("It is c, not d.", "It is c in 93 %.", "93 %", "typed by hand: '93 %'"),
        ("It is c, not d.", "It is [[lost:.2f]].", "[[lost", "no claim has this name"),
        ("It is c, not d.", "So says @nobody2001.", "@nobody2001", "no such key"),
        ("[[n]] trials ::", "[[m]] trials ::", "[[m]]", "no claim has this name"),
    ],
)
def test_a_quiz_is_wrong_at_its_line(quizzed, nothing_runs, old, new, at, what):
    assert QUIZ.count(old) == 1
    text = quizzed.read(HEAD).split(as_cell(QUIZ))[0] + as_cell(QUIZ.replace(old, new))
    quizzed.write(HEAD, text)
    line = next(number for number, line in enumerate(text.split("\n"), 1) if at in line)
    complaints = [
        text for text in quizzed("check", "01") if "never built" not in text and "evidence" not in text
    ]
    place = f"{HEAD}:{line}: "
    assert any(text.startswith(place) and what in text for text in complaints), (place, complaints)


def test_answers_that_could_be_guessed_are_refused(quizzed, nothing_runs):
    third = QUIZ
    for number in (1, 2, 3, 4, 5):  # the right option is the first one everywhere
        first, rest = third.split(f"\n{number}. ")
        here, *more = re.split(r"(?=\n\d\. )", rest, maxsplit=1)
        options = re.findall(r"   - \[.*(?:\n     .*)*", here.split("```\n")[-1])
        right = next(option for option in options if "[x]" in option)
        swapped = here.replace(right, "@@").replace(options[0], right).replace("@@", options[0])
        third = f"{first}\n{number}. {swapped}{''.join(more)}" if right != options[0] else third
    quizzed.write(HEAD, quizzed.read(HEAD).split(as_cell(QUIZ))[0] + as_cell(third))
    assert any("is number 1 in every question: vary its place" in text for text in quizzed("check", "01"))
    longest = re.sub(r"- \[x\] ", "- [x] by far the longest of all of the options of this question ", QUIZ)
    quizzed.write(HEAD, quizzed.read(HEAD).split(as_cell(third))[0] + as_cell(longest))
    assert any("the longest in every question" in text for text in quizzed("check", "01"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Some words.\n\n## Quiz\n\n1. One?", "'## Quiz' must be the first line of a cell of its own"),
        ("Some words.\n\n- [x] an option :: explained", "an option outside a quiz"),
        (QUIZ, "a second quiz"),
    ],
)
def test_a_quiz_in_a_wrong_place_is_refused(quizzed, nothing_runs, text, what):
    quizzed.write(HEAD, quizzed.read(HEAD) + as_cell(text))
    assert any(what in complaint for complaint in quizzed("check", "01"))


def test_a_quiz_ends_a_lesson_and_belongs_to_one(quizzed, nothing_runs):
    quizzed.write(HEAD, quizzed.read(HEAD) + "\n# %%\nprint(1)\n")
    quizzed.write("book/exercises/01_back.py", quizzed.read("book/exercises/01_back.py") + as_cell(QUIZ))
    complaints = quizzed("check", "01")
    assert any("code after the quiz" in text for text in complaints)
    assert any("book/exercises/01_back.py" in text and "belongs to a lesson" in text for text in complaints)


def test_numbers_and_citations_are_filled_in(built_quiz):
    text = built_quiz.cell(-1).source
    assert "It scored 0.18, says ([Vaswani et al., 2017](bibliography.md#vaswani-et-al-2017))." in text
    assert "<summary>4 trials</summary>\n\n**Right.** There were 4." in text
    assert [what for what in built_quiz("check") if "evidence" not in what] == []


def test_an_edit_of_a_quiz_runs_nothing(built_quiz, nothing_runs):
    built_quiz.edit("It is c, not d.", "It is c, and d is not.")
    assert built_quiz("build") == []
    assert "**Wrong.** It is c, and d is not." in built_quiz.cell(-1).source


def pulled(lab, old, new):
    def work(node):
        assert old in node.cells[-1].source
        node.cells[-1].source = node.cells[-1].source.replace(old, new)

    lab.change(NOTEBOOK, work)
    return lab("pull", lab.root / NOTEBOOK)


@pytest.mark.parametrize(
    ("old", "new", "was", "now"),
    [
        ("**Wrong.** It is c, not d.", "**Wrong.** It is not d.", "It is c, not d.", "It is not d."),
        ("<summary>d</summary>", "<summary>d or <code>e</code></summary>", "- [ ] d ::", "- [ ] d or `e` ::"),
        ("**4.** Fourth?", "**4.** Fourth, *please*?", "4. Fourth?", "4. Fourth, *please*?"),
        (
            "\n\n<details><summary>d</summary>\n\n**Wrong.** It is c, not d.\n\n</details>",
            "",
            "\n#    - [ ] d :: It is c, not d.",
            "",
        ),
        ("There were 4.", "There were 4, no more.", "There were [[n]].", "There were [[n]], no more."),
    ],
)
def test_an_edit_in_jupyter_comes_back(built_quiz, old, new, was, now):
    before = built_quiz.read(HEAD)
    assert before.count(was) == 1
    assert pulled(built_quiz, old, new) == []
    assert built_quiz.read(HEAD) == before.replace(was, now)
    assert built_quiz("build") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("**Wrong.** It is c, not d.", "Wrong. It is c, not d."),
        ("It is c, not d.\n\n</details>", "It is c, not d.\n\n"),
        ("<summary>d</summary>", "<summary><b>d</b></summary>"),
    ],
)
def test_a_broken_fold_is_refused_and_nothing_is_written(built_quiz, old, new):
    before = built_quiz.read(HEAD)
    (complaint,) = pulled(built_quiz, old, new)
    assert (
        complaint.startswith(f"{NOTEBOOK}:1: cell 6 cannot be brought back")
        and built_quiz.read(HEAD) == before
    )


def test_a_quiz_written_in_jupyter_comes_back(built, quick):
    built.change(NOTEBOOK, lambda node: node.cells.append(nbformat.v4.new_markdown_cell(QUIZ)))
    assert built("pull", built.root / NOTEBOOK) == []
    assert built.read(HEAD).endswith(as_cell(QUIZ).strip("\n") + "\n")
    assert built("build") == [] and built.cell(-1).source.startswith(f"## Quiz\n\n{quiz.ADVICE}")
