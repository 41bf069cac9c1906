"""The statements that move a task, its attempt and its job: each names the state it leaves."""

from collections.abc import Iterable

from sqlalchemy import BigInteger, ColumnElement, exists, func, insert, null, or_, select, update

from tgpu.domain.lifecycle import (
    ENDINGS,
    FINAL,
    LIVE,
    TASK_MOVES,
    AttemptHappening,
    AttemptState,
    Cause,
    Happening,
    attempt_sources,
    task_sources,
)
from tgpu.store.sql.session import Query, constant, value
from tgpu.store.tables import attempts, jobs, tasks

_THIS_TASK = (tasks.c.job_id == value("job"), tasks.c.task_index == value("task"))
_THIS_ATTEMPT = (
    attempts.c.job_id == value("job"),
    attempts.c.task_index == value("task"),
    attempts.c.number == value("which"),
)
_THIS_JOB = jobs.c.job_id == value("job")
_SUPERSEDED = constant(Cause.SUPERSEDED)
_other = attempts.alias("other")

HOLD_JOB = Query(
    "Holds a job against every other writer.",
    select(jobs.c.job_id).where(_THIS_JOB).order_by(jobs.c.job_id).with_for_update(key_share=True, of=jobs),
)
TASK = Query(
    "Where a task stands, and what it reserves for whom.",
    select(tasks.c.status, tasks.c.request, jobs.c.user, jobs.c.tenant_id)
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(*_THIS_TASK),
)
ATTEMPT = Query(
    "Where an attempt and its task stand, and whose they are.",
    select(attempts.c.state, attempts.c.node_id, tasks.c.status, jobs.c.user, attempts.c.stop_cause)
    .select_from(attempts)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .join(jobs, jobs.c.job_id == attempts.c.job_id)
    .where(*_THIS_ATTEMPT),
)


def _moved_by(happening: Happening) -> ColumnElement[bool]:
    """The task stands where this may happen to it."""
    return tasks.c.status.in_([constant(status) for status in sorted(task_sources(happening))])


def _still(states: Iterable[AttemptState]) -> ColumnElement[bool]:
    """The attempt is in one of these states, and its task's."""
    return exists().where(
        *_THIS_ATTEMPT,
        attempts.c.state.in_([constant(state) for state in sorted(states)]),
        attempts.c.stop_cause.is_distinct_from(_SUPERSEDED),
    )


def _may_end_by(happening: Happening) -> frozenset[AttemptState]:
    """An attempt that was lost may end its task for good; it cannot put it back."""
    for_good = any(move.target in FINAL for move in TASK_MOVES if move.happening is happening)
    return attempt_sources(AttemptHappening.ENDED) if for_good else LIVE


MOVE_TASK = Query(
    "Moves a task on from the status it was seen in.",
    update(tasks)
    .values(status=value("new_status"))
    .where(*_THIS_TASK, tasks.c.status == value("old_status")),
)
ASSIGN_TASK = Query(
    "Gives a waiting task its next attempt, unless somebody wants its job cancelled.",
    update(tasks)
    .values(status=value("new_status"), attempts=value("new_number"))
    .where(
        *_THIS_TASK,
        _moved_by(Happening.ASSIGNED),
        tasks.c.attempts == value("old_number"),
        exists().where(_THIS_JOB, jobs.c.cancel_by.is_(None)),
    ),
)
ADD_ATTEMPT = Query(
    "Adds an attempt that its node has not confirmed yet.",
    insert(attempts),
    ["job_id", "task_index", "number", "state", "node_id", "devices", "assigned_ms"],
)
END_TASK = {
    happening: Query(
        f"Moves a task on because its attempt has ended: it is {happening}.",
        update(tasks)
        .values(status=value("new_status"))
        .where(*_THIS_TASK, _moved_by(happening), _still(_may_end_by(happening)))
        .returning(tasks.c.request),
    )
    for happening in ENDINGS
}
LOSE_TASK = Query(
    "Moves a task on because its attempt was lost.",
    update(tasks)
    .values(status=value("new_status"))
    .where(*_THIS_TASK, _moved_by(Happening.LOST), _still(attempt_sources(AttemptHappening.LOST)))
    .returning(tasks.c.request),
)
RETURN_TASK = Query(
    "Lets a task that is not over go on with an attempt that was lost.",
    update(tasks)
    .values(status=value("new_status"))
    .where(*_THIS_TASK, _moved_by(Happening.RETURNED), _still(attempt_sources(AttemptHappening.RETURNED))),
)
START_ATTEMPT = Query(
    "Records when an attempt began to run, once.",
    update(attempts)
    .values(state=value("new_state"), started_ms=value("at"))
    .where(*_THIS_ATTEMPT, attempts.c.state == value("old_state"), attempts.c.started_ms.is_(None)),
)
STOP_ATTEMPT = Query(
    "Records that and why an attempt is to be stopped.",
    update(attempts)
    .values(state=value("new_state"), stop_cause=value("why"), stop_by=value("who"))
    .where(*_THIS_ATTEMPT, attempts.c.state == value("old_state")),
)
SUPERSEDE_ATTEMPT = Query(
    "Takes an attempt from its task, to be stopped, if that is over or has another one.",
    update(attempts)
    .values(state=value("new_state"), stop_cause=_SUPERSEDED, stop_by=null())
    .where(
        *_THIS_ATTEMPT,
        attempts.c.state == value("old_state"),
        attempts.c.stop_cause.is_distinct_from(_SUPERSEDED),
        or_(
            exists().where(*_THIS_TASK, tasks.c.status.in_([constant(status) for status in sorted(FINAL)])),
            exists().where(
                _other.c.job_id == value("job"),
                _other.c.task_index == value("task"),
                _other.c.number != value("which"),
                _other.c.state != constant(AttemptState.ENDED),
                _other.c.stop_cause.is_distinct_from(_SUPERSEDED),
            ),
        ),
    ),
)
RETURN_ATTEMPT = Query(
    "Records that an attempt that was lost runs, and that nobody has told it to stop.",
    update(attempts)
    .values(
        state=value("new_state"),
        started_ms=func.coalesce(attempts.c.started_ms, value("begun", BigInteger())),
        stop_cause=null(),
        stop_by=null(),
        exit=null(),
    )
    .where(*_THIS_ATTEMPT)
    .returning(attempts.c.node_id, attempts.c.devices, attempts.c.started_ms),
)
END_ATTEMPT = Query(
    "Records how an attempt ended, or what is said of it while it is lost.",
    update(attempts)
    .values(
        state=value("new_state"),
        started_ms=func.coalesce(attempts.c.started_ms, value("begun", BigInteger())),
        exit=value("result"),
    )
    .where(*_THIS_ATTEMPT)
    .returning(attempts.c.node_id, attempts.c.devices, attempts.c.started_ms),
)
ASSIGN_JOB = Query(
    "Shows on the job where its task is to run.",
    update(jobs)
    .values(
        status=value("new_status"),
        attempts=value("new_number"),
        node_id=value("where_to"),
        devices=value("on_devices"),
    )
    .where(_THIS_JOB)
    .returning(jobs.c.user, jobs.c.spec),
)
START_JOB = Query(
    "Shows on the job that its task runs.",
    update(jobs).values(status=value("new_status"), started_ms=value("at")).where(_THIS_JOB),
)
RETURN_JOB = Query(
    "Shows on the job where and since when its task runs.",
    update(jobs)
    .values(
        status=value("new_status"),
        node_id=value("where_to"),
        devices=value("on_devices"),
        started_ms=value("begun"),
    )
    .where(_THIS_JOB)
    .returning(jobs.c.user),
)
END_JOB = Query(
    "Shows on the job how and where it ended.",
    update(jobs)
    .values(
        status=value("new_status"),
        cause=value("why"),
        detail=value("told"),
        exit_code=value("code"),
        node_id=value("where_to"),
        devices=value("on_devices"),
        started_ms=value("begun"),
        ended_ms=value("at"),
    )
    .where(_THIS_JOB)
    .returning(jobs.c.user, jobs.c.tenant_id),
)
PUT_JOB_BACK = Query(
    "Shows on the job that its task waits again, nowhere.",
    update(jobs)
    .values(status=value("new_status"), node_id=null(), devices=constant("[]"), started_ms=null())
    .where(_THIS_JOB)
    .returning(jobs.c.user, jobs.c.tenant_id),
)
