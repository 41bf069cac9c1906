"""One wording for one fact: what the API says of an attempt is what the control loop says of its task."""

import pytest

from tgpu.api.reasons import reason_of_exit
from tgpu.control.outcome import in_words
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit, Request, TaskBrief
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.priority import PriorityClass

TASK = TaskBrief(
    task_id=TaskId(1, 0),
    status=Status.RUNNING,
    request=Request(),
    user="ann",
    tenant_id="default",
    name="train",
    priority_class=PriorityClass.DEFAULT,
    priority=0,
    submitted_ms=0,
    attempts=1,
    time_limit_s=60,
    max_wait_s=None,
    requeue=True,
    grace_s=None,
    cancel_by="root",
)


@pytest.mark.parametrize(
    "ended",
    [
        Exit(Cause.EXITED, exit_code=7),
        Exit(Cause.SIGNALLED, signal=9),
        *(Exit(cause) for cause in Cause if cause not in (Cause.EXITED, Cause.SIGNALLED)),
        *(Exit(cause, exit_code=1, signal=15, detail="the supervisor's words") for cause in Cause),
    ],
    ids=repr,
)
def test_the_api_and_the_control_loop_use_the_same_words(ended: Exit) -> None:
    assert reason_of_exit(ended, TASK.cancel_by, TASK.time_limit_s) == in_words(ended, TASK)
