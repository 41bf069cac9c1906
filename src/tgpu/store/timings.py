"""What holds a job back, as its row has it: how it begins, and what becomes of it."""

from dataclasses import replace

from tgpu.domain.job import Job, JobSpec
from tgpu.domain.timing import Timing

NOTHING = Timing()


def at_first(spec: JobSpec) -> Timing | None:
    """Of a job that is submitted."""
    if not spec.needs:
        return spec.timing
    return replace(spec.timing or NOTHING, unmet=True)


def is_held(job: Job) -> bool:
    return job.timing is not None and job.timing.held_by is not None


def may_be_held(job: Job) -> bool:
    """Something of it waits, of a gang all of it, and nobody holds it yet."""
    if is_held(job):
        return False
    there = [each for each, number in job.task_counts.items() if number]
    if job.spec.gang is not None and any(each.holds_resources for each in there):
        return False
    return any(each.waits for each in there)


def held(timing: Timing | None, by: str) -> Timing:
    return replace(timing or NOTHING, held_by=by)


def released(timing: Timing, at_ms: int) -> Timing:
    return replace(timing, held_by=None, ready_ms=at_ms)


def suspended(job: Job, by: str) -> Timing | None:
    """None: it is over, or suspended already."""
    if job.status.is_final or (job.timing is not None and job.timing.suspended_by is not None):
        return None
    return replace(job.timing or NOTHING, suspended_by=by)


def resumed(job: Job, at_ms: int) -> Timing | None:
    if job.status.is_final or job.timing is None or job.timing.suspended_by is None:
        return None
    return replace(job.timing, suspended_by=None, ready_ms=at_ms)


def met(timing: Timing, at_ms: int) -> Timing:
    """Nobody has to be waited for any more."""
    return replace(timing, unmet=False, ready_ms=at_ms)


def edited(timing: Timing | None, spec: JobSpec) -> Timing | None:
    """What the specification says anew; what became of the job stays."""
    asked = spec.timing or NOTHING
    now = replace(
        timing or NOTHING,
        begin_ms=asked.begin_ms,
        deadline_ms=asked.deadline_ms,
        again_on_timeout=asked.again_on_timeout,
    )
    return None if now == NOTHING else now
