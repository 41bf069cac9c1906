"""What an attempt's end means for its task."""

from tgpu.core.policy import OnGpuFailure
from tgpu.domain import exit_words
from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening

_GAVE_WAY = (Cause.PREEMPTED, Cause.MEMORY_PRESSURE, Cause.DISK_PRESSURE)
"""It waits longer each time before it is tried again: what it gave way to may still be there."""

_WITH_ITS_JOB = (Cause.CANCELLED, Cause.JOB_FAILED, Cause.JOB_DONE)
_WISHED = (Cause.SUSPENDED, Cause.RESTARTED)


def happening(how: Exit, task: TaskBrief, on_gpu_failure: OnGpuFailure = OnGpuFailure.REQUEUE) -> Happening:
    """What was not its own doing is tried again if the job allows it; a wish to cancel comes first."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return Happening.SUCCEEDED
    if how.cause in _WITH_ITS_JOB:
        return Happening.CANCELLED
    if not _may_be_tried_again(how, task):
        return Happening.FAILED
    if task.cancel_by is not None:
        return Happening.CANCELLED
    wanted_again = task.requeue or how.cause is Cause.TIME_LIMIT or how.cause in _WISHED
    if not wanted_again or _ends_with_its_gpu(how, on_gpu_failure):
        return Happening.FAILED
    return Happening.PREEMPTED if how.cause in _GAVE_WAY else Happening.REQUEUED


def _may_be_tried_again(how: Exit, task: TaskBrief) -> bool:
    if how.cause is Cause.TIME_LIMIT:
        return task.timing is not None and task.timing.again_on_timeout
    return how.cause.is_infrastructure or how.cause in (
        Cause.PREEMPTED,
        Cause.GANG_RESTARTED,
        *_WISHED,
    )


def _ends_with_its_gpu(how: Exit, on_gpu_failure: OnGpuFailure) -> bool:
    return how.cause is Cause.DEVICE_LOST and on_gpu_failure is OnGpuFailure.FAIL


def in_words(how: Exit, task: TaskBrief, on_gpu_failure: OnGpuFailure = OnGpuFailure.REQUEUE) -> str:
    """One sentence for people; of a task that did what it should, only what the supervisor had to add."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return how.detail
    words = exit_words.in_words(how, task.cancel_by, task.time_limit_s, burst=task.burst)
    if task.requeue and _ends_with_its_gpu(how, on_gpu_failure):
        return f"{words}; the setting on_gpu_failure forbids to try again"
    if _may_be_tried_again(how, task) and happening(how, task) is Happening.FAILED:
        return f"{words}; --no-requeue forbids to try again"
    return words
