"""Every exercise is judged alike from afar: the same points and the same words as in a notebook."""

import os
import threading

import pytest

from attnlab.checks.engine import JudgeTask, evaluate, load_tasks
from attnlab.grading.bridge.peer import Peer
from attnlab.grading.bridge.wire import Channel, WireError
from attnlab.grading.link import Link

TASKS = load_tasks()
PATIENT = 120.0


class Near(Peer):
    may_be_called = Link.may_be_called


class Far(Peer):
    def handle(self, header):
        return self.thing


@pytest.fixture
def distant():
    """Gives the stand-in of something that lives on the other side of a bridge."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    far = Far(Channel(theirs_in, theirs_out, most=32 << 20), grader=False)
    near = Near(Channel(ours_in, ours_out, most=32 << 20), grader=True)

    def serve():
        try:
            while True:
                message = far.channel.receive()
                far.answer(*message)
        except WireError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def get(thing):
        far.thing = thing
        return near.request({"op": "get"})

    yield get
    os.close(ours_out)
    thread.join(timeout=5)
    for descriptor in (theirs_in, ours_in, theirs_out):
        os.close(descriptor)


def verdict(report):
    return [
        (result.name, result.points, result.status, result.message.split(" (line ")[0])
        for result in report.results
    ], report.mistakes


@pytest.mark.parametrize("task_id", [task for task in TASKS if task != "translation.project"])
def test_right_and_wrong_answers_get_what_they_get_in_a_notebook(task_id, distant):
    task = TASKS[task_id]
    answers = [task.right()]
    if not isinstance(task, JudgeTask):  # those try out many programs: once is enough
        answers += [task.answer_with(mistake) for mistake in task.mistakes[:1]]
    for answer in answers:
        here = evaluate(task, answer, seed=3, fresh=4, hidden=True, seconds=PATIENT)
        there = evaluate(task, distant(answer), seed=3, fresh=4, hidden=True, seconds=PATIENT)
        assert verdict(there) == verdict(here)
        assert there.passed == (answer is answers[0])
