"""Gradescope and GitHub run the same grader: what they start exists, what they read is in their format."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from attnlab.grading import archive, github, gradescope
from attnlab.grading.sandbox import NoSandbox
from attnlab.grading.single import grade_folder, settings_from
from tests.grading import standin

ROOT = Path(__file__).resolve().parents[2]
ATTENTION, ATTEND = "query_key_value.attention", "query_key_value.attend"
EVIL = "x\n::error::<script>|`*"
HIDDEN = """
from attnlab.grading.hidden import hidden_case
@hidden_case("query_key_value.attend", "mine", points=2)
def _(answer, g):
    pass
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    def in_this_process(files, grade, *, jobs, seconds):
        return ((name, grade(path), True) for name, path in files)

    monkeypatch.setattr("attnlab.grading.batch.grade_files", in_this_process)
    for module in ("batch", "gradescope"):
        monkeypatch.setattr(f"attnlab.grading.{module}.require_sandbox", lambda: None)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "submission"
    folder.mkdir()
    return folder


def hand_in(folder, name="set3.ipynb", exercises=None, **wanted):
    exercises = exercises or {
        ATTENTION: {"points": "1/3", "of": "2", "message": "3 numbers are wrong", "hidden": [["0", "1"]],
                    "hints": ["Over the queries."], "mistakes": ["axis"]},
        ATTEND: {"points": "4", "of": "4"},
    }  # fmt: skip
    (folder / name).write_text(json.dumps({"exercises": exercises, **wanted}), encoding="utf-8")


def graded_by_gradescope(folder, tmp_path, *options):
    target = tmp_path / "results" / "results.json"
    assert gradescope.main([str(folder), "--results", str(target), *options], grade=standin.grade) == 0
    return json.loads(target.read_text(encoding="utf-8"))


def test_gradescope_gets_a_score_and_a_test_for_each_exercise(folder, tmp_path):
    hand_in(folder)
    data = graded_by_gradescope(folder, tmp_path)
    assert data["score"] == pytest.approx(4 + 1 / 3)
    tests = {test["name"]: test for test in data["tests"]}
    assert list(tests) == ["attention", "attention: further cases", "attend"]
    assert tests["attention"]["score"] == pytest.approx(1 / 3) and tests["attention"]["max_score"] == 2
    assert "3 numbers are wrong" in tests["attention"]["output"]
    assert "known mistake: Over the queries." in tests["attention"]["output"]
    kept = tests["attention: further cases"]
    assert (kept["score"], kept["max_score"], kept["output"]) == (0, 1, "")
    assert (tests["attend"]["status"], kept["status"]) == ("passed", "failed")
    assert data["score"] == pytest.approx(sum(test["score"] for test in data["tests"]))
    assert data["stdout_visibility"] == "hidden"


def test_gradescope_gets_points_of_your_own(folder, tmp_path):
    hand_in(folder)
    points = tmp_path / "points.toml"
    points.write_text(f'[points]\n"{ATTENTION}" = 30\n"{ATTEND}" = 0\n', encoding="utf-8")
    data = graded_by_gradescope(folder, tmp_path, "--points", str(points))
    assert [(test["score"], test["max_score"]) for test in data["tests"]] == [
        (pytest.approx(10 / 3), 20),
        (0, 10),
    ]


def test_the_last_of_two_notebooks_counts_and_other_files_do_not(folder, tmp_path):
    hand_in(folder, "a.ipynb", {ATTEND: {"points": "4", "of": "4"}})
    hand_in(folder, "b.ipynb", {ATTEND: {"points": "1", "of": "4"}})
    for name in "ab":
        os.utime(folder / f"{name}.ipynb", (10**9, 10**9))
    (folder / "README.md").write_text("x", encoding="utf-8")
    (folder / "helper.py").write_text("{}", encoding="utf-8")
    data = graded_by_gradescope(folder, tmp_path)
    assert data["score"] == 1 and data["output"] == ""


def test_a_submission_that_cannot_be_graded_says_why(folder, tmp_path):
    (folder / "set3.ipynb").write_text("{oops", encoding="utf-8")
    data = graded_by_gradescope(folder, tmp_path, "--only", ATTENTION)
    assert data["score"] == 0 and data["output"] == "this is no notebook"
    (test,) = data["tests"]
    assert (test["score"], test["max_score"]) == (0, 9)


@pytest.mark.parametrize("options", [[], ["--only", "nonsense"], ["--points", "nowhere.toml"]])
def test_results_are_written_whatever_goes_wrong_and_say_nothing_of_the_inside(
    options, folder, tmp_path, capsys
):
    data = graded_by_gradescope(folder, tmp_path, *options)
    assert data["score"] == 0 and "The grader itself failed" in data["output"]
    assert capsys.readouterr().err.strip()


def test_without_a_sandbox_in_the_container_it_grades_and_says_so(folder, tmp_path, monkeypatch, capsys):
    def none():
        raise NoSandbox("bubblewrap does not run")

    seen = []
    monkeypatch.setattr("attnlab.grading.gradescope.require_sandbox", none)
    hand_in(folder)
    options = [str(folder), "--results", str(tmp_path / "results.json")]
    gradescope.main(options, grade=lambda path, **settings: seen.append(settings) or standin.grade(path))
    assert [settings["unsafe"] for settings in seen] == [True]
    assert "Without a sandbox" in capsys.readouterr().err


def test_github_gets_the_points_and_a_summary(folder, tmp_path, monkeypatch, capsys):
    hand_in(folder, notices=[EVIL], exercises={ATTENTION: {"points": "1", "of": "4", "hints": [EVIL]}})
    target = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    pages = tmp_path / "pages"
    assert github.main([str(folder), "--feedback", str(pages)], grade=standin.grade) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "::notice title=Autograding complete::Points 1/4",
        '::notice title=Autograding report::{"totalPoints": 1.0, "maxPoints": 4.0}',
    ]
    text = target.read_text(encoding="utf-8")
    assert "<h2>1 of 4 points</h2>" in text and "x ::error::&lt;script&gt;|`*" in text
    assert "\n" not in text.rstrip("\n")  # a blank line would begin Markdown again
    assert len(list(pages.iterdir())) == 1


def test_github_refuses_what_means_nothing(folder, capsys):
    assert github.main([str(folder), "--only", "nonsense"], grade=standin.grade) == 1
    assert "nonsense: expected an exercise" in capsys.readouterr().err


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The archive as Gradescope unpacks it, and the list of its members."""
    folder = tmp_path_factory.mktemp("gradescope")
    hidden, points = folder / "mine.py", folder / "mine.toml"
    hidden.write_text(HIDDEN, encoding="utf-8")
    points.write_text("[points]\nquery_key_value = 10\n", encoding="utf-8")
    options = ["--only", "query_key_value", "--hidden", str(hidden), "--points", str(points), "--seed", "7"]
    target = folder / "autograder.zip"
    # In a process of its own: hidden cases stay with the process that loads them.
    command = [sys.executable, "-m", "attnlab.grading.archive", "gradescope", str(target), *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(target) as file:
        members = {member.filename: member for member in file.infolist()}
        file.extractall(folder / "source")
    return folder / "source", members


def test_the_archive_has_its_scripts_at_the_root_and_all_that_they_name(unpacked):
    source, members = unpacked
    assert {"setup.sh", "run_autograder", "hidden_cases.py", "points.toml", "requirements.txt"} <= set(
        members
    )
    assert members["run_autograder"].external_attr >> 16 & 0o111
    assert (source / "exercises" / "03_query_key_value.ipynb").is_file()
    for script in ("setup.sh", "run_autograder"):
        text = (source / script).read_text(encoding="utf-8")
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        assert "@" not in text.replace("[@]", "")
    assert not [name for name in members if "__pycache__" in name or name.endswith(".pyc")]


def test_the_options_in_the_script_are_understood(unpacked):
    source, _ = unpacked
    text = (source / "run_autograder").read_text(encoding="utf-8").replace("/autograder/source", str(source))
    line = next(line for line in text.splitlines() if line.startswith("options=("))
    shown = subprocess.run(
        ["bash", "-c", f'{line}; printf "%s\\n" "${{options[@]}}"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    parser = gradescope.argparse.ArgumentParser()
    gradescope.add_options(parser)
    settings, scheme = settings_from(parser.parse_args(["submission", *shown]))
    assert settings.tasks and all(task.startswith("query_key_value.") for task in settings.tasks)
    assert settings.hidden.is_file() and settings.exercises.is_dir() and settings.seed == 7
    assert scheme.points == {"query_key_value": 10}


def test_the_course_in_the_archive_is_whole(unpacked):
    source, _ = unpacked
    code = "import attnlab.grading.gradescope as m; print(m.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(source / "course" / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=source
    )
    assert done.stdout.startswith(str(source))
    project = (source / "course" / "pyproject.toml").read_text(encoding="utf-8")
    for named in ("README.md", "LICENSE"):
        assert named in project and (source / "course" / named).is_file()


@pytest.mark.sandbox
def test_the_script_grades_the_solution_with_full_points(unpacked, tmp_path):
    source, _ = unpacked
    (tmp_path / "source").symlink_to(source)
    (tmp_path / "venv").symlink_to(sys.prefix)
    (tmp_path / "submission").mkdir()
    solution = ROOT / "solutions" / "03_query_key_value.ipynb"
    (tmp_path / "submission" / "set3.ipynb").write_bytes(solution.read_bytes())
    script = (source / "run_autograder").read_text(encoding="utf-8").replace("/autograder", str(tmp_path))
    subprocess.run(["bash"], input=script, text=True, check=True, timeout=200)
    data = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert data["output"] == ""
    assert data["score"] == pytest.approx(sum(test["max_score"] for test in data["tests"])) == 10
    assert {test["status"] for test in data["tests"]} == {"passed"}


def test_the_same_files_make_the_same_archive(tmp_path):
    first, second = (archive.gradescope_archive(tmp_path / name, ["masks"]) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--only", "nonsense"], "nonsense: expected"),
        (["--hidden", "nowhere.py"], "nowhere.py: No such file"),
        (["--points", "nowhere.toml"], "nowhere.toml"),
        (["--exercises", "nowhere"], "there is no exercise notebook"),
    ],
)
def test_an_archive_that_could_not_work_is_not_made(options, reason, tmp_path, capsys):
    target = tmp_path / "a.zip"
    assert archive.main(["gradescope", str(target), *options]) == 1
    assert reason in capsys.readouterr().err and not target.exists()


def test_the_workflow_is_valid_and_its_commands_exist(tmp_path):
    assert archive.main(["github", str(tmp_path), "--only", "query_key_value"]) == 0
    text = (tmp_path / ".github" / "workflows" / "classroom.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["name"] == "Autograding Tests" and workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert list(workflow["jobs"]) == ["run-autograding-tests"]
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        if "run" in step:
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
    grade = next(step["run"] for step in job["steps"] if step.get("name") == "Grade")
    words = grade.replace("\\\n", " ").split()
    assert words[:3] == ["python", "-m", "attnlab.grading.github"]
    parser = github.argparse.ArgumentParser()
    github.add_options(parser)
    parser.add_argument("--feedback")
    assert parser.parse_args(words[3:]).only == ["query_key_value"]
    assert "@OPTIONS@" not in text and "@TORCH@" not in text


def test_one_student_is_graded_whatever_the_names_of_files_say(folder):
    hand_in(folder, "ada_1_2_x.ipynb", {ATTEND: {"points": "4", "of": "4"}})
    hand_in(folder, "ben_3_4_y.ipynb", {ATTENTION: {"points": "1", "of": "2"}})
    from attnlab.grading.batch import Settings
    from attnlab.grading.scheme import Scheme

    graded = grade_folder(folder, Settings(seed=1), Scheme(), grade=standin.grade)
    assert (graded.student.points, graded.student.max_points) == (5, 6)
