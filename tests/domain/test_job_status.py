"""Where a job of several tasks stands."""

import pytest

from tgpu.domain.job_status import status_of
from tgpu.domain.lifecycle import Status

S = Status


@pytest.mark.parametrize(
    ("tasks", "job"),
    [
        ([S.PENDING], S.PENDING),
        ([S.PENDING, S.RUNNING, S.FAILED], S.RUNNING),
        ([S.PENDING, S.SCHEDULED, S.COMPLETED], S.SCHEDULED),
        ([S.PENDING, S.PREEMPTED, S.COMPLETED], S.PREEMPTED),
        ([S.PENDING, S.CANCELLED], S.PENDING),
        ([S.COMPLETED, S.CANCELLED, S.FAILED], S.FAILED),
        ([S.COMPLETED, S.CANCELLED], S.CANCELLED),
        ([S.COMPLETED, S.COMPLETED], S.COMPLETED),
    ],
)
def test_the_weightiest_status_of_its_tasks_is_its_own(tasks: list[Status], job: Status) -> None:
    counts = {status: tasks.count(status) for status in tasks}
    assert status_of(counts) is job


def test_a_job_without_tasks_stands_nowhere() -> None:
    with pytest.raises(ValueError, match="at least one task"):
        status_of({})
