"""The workflows: actions pinned by commit, few rights, and the tested pages are those that are deployed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
USES = re.compile(r"^\s*(?:- )?uses:\s*(.+)$", re.MULTILINE)
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
LOCAL = re.compile(r"\./\.github/workflows/\w+\.yml")
#: What a step may not paste into a shell: texts that anybody can choose.
UNTRUSTED = re.compile(r"\$\{\{[^}]*github\.(?:event|head_ref)[^}]*\}\}")
#: Rights to write, by the job that needs them.
WRITES = {("deploy", "deploy"): {"pages": "write", "id-token": "write"}}


def faults(name: str, text: str) -> list[str]:
    """Everything that is wrong with a workflow."""
    flow: dict[str, Any] = yaml.safe_load(text)
    found = [
        f"not pinned: {used}"
        for used in USES.findall(text)
        if not (PINNED.fullmatch(used) or LOCAL.fullmatch(used))
    ]
    if flow.get("permissions") != {"contents": "read"}:
        found.append(f"permissions: {flow.get('permissions')}")
    for job, what in flow["jobs"].items():
        rights = what.get("permissions")
        if rights != WRITES.get((name, job)):
            found.append(f"permissions of {job}: {rights}")
        if "uses" not in what and not what.get("timeout-minutes"):
            found.append(f"no limit of time: {job}")
        for step in what.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@") and (
                step.get("with", {}).get("persist-credentials") is not False
            ):
                found.append(f"credentials stay in the checkout of {job}")
            if UNTRUSTED.search(step.get("run", "")):
                found.append(f"a text of others in a command of {job}")
    events = flow.get("on", flow.get(True))  # YAML takes the word for a truth value
    if "pull_request_target" in str(events):
        found.append("pull_request_target")
    return found


def test_there_are_two() -> None:
    assert set(WORKFLOWS) == {"test", "deploy"}


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_a_workflow_is_pinned_and_may_little(name: str) -> None:
    assert faults(name, WORKFLOWS[name]) == []


def test_what_is_deployed_is_what_the_tests_passed() -> None:
    test, deploy = (yaml.safe_load(WORKFLOWS[name]) for name in ("test", "deploy"))
    steps = test["jobs"]["test"]["steps"]
    commands = [step.get("run", "") for step in steps]
    assert "python tools/course.py test" in commands
    last = steps[-1]
    assert last["uses"].startswith("actions/upload-pages-artifact@") and last["with"]["path"] == "_build/html"
    assert not any({"continue-on-error", "if"} & set(step) for step in steps)
    assert deploy["jobs"]["test"]["uses"] == "./.github/workflows/test.yml"
    assert deploy["jobs"]["deploy"]["needs"] == "test"
    assert [step["uses"].split("@")[0] for step in deploy["jobs"]["deploy"]["steps"]] == [
        "actions/deploy-pages"
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2", "@v4", "not pinned"),
        (" # v4.2.2", "", "not pinned"),
        ("  contents: read", "  contents: write", "permissions"),
        ("    timeout-minutes: 120\n", "", "no limit of time"),
        ("persist-credentials: false", "persist-credentials: true", "credentials"),
        ("  pull_request:", "  pull_request_target:", "pull_request_target"),
        ("course.py test", "course.py ${{ github.event.pull_request.title }}", "a text of others"),
    ],
)
def test_a_fault_is_found(old: str, new: str, fault: str) -> None:
    text = WORKFLOWS["test"]
    assert old in text
    assert any(found.startswith(fault) for found in faults("test", text.replace(old, new, 1)))
