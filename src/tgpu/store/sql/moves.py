"""The statements that move a task, its attempt and its job: each names the state it leaves."""

from sqlalchemy import BigInteger, case, exists, func, insert, null, or_, select, update

from tgpu.domain.lifecycle import FINAL, AttemptState, Cause
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
_CHARGED = (
    jobs.c.tasks,
    tasks.c.request,
    tasks.c.standing,
    tasks.c.reserved_gpu_ms,
    jobs.c.user,
    jobs.c.tenant_id,
    jobs.c.token_id,
    jobs.c.time_limit_s,
    jobs.c.priority_class,
    jobs.c.grace_s,
)
TASK = Query(
    "Where a task stands, and what it is charged for to whom.",
    select(tasks.c.status, *_CHARGED)
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(*_THIS_TASK),
)
CANDIDATE = Query(
    "Whether a task may be given an attempt, and what it is charged for to whom.",
    select(
        tasks.c.status,
        *_CHARGED,
        tasks.c.attempts,
        jobs.c.cancel_by,
        jobs.c.changed_seq,
        case((jobs.c.tasks == constant(1), jobs.c.spec), else_=null()),
        jobs.c.gang.is_not(null()),
    )
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(*_THIS_TASK),
)
SPEC = Query("What a job is asked to do.", select(jobs.c.spec).where(_THIS_JOB))
ATTEMPT = Query(
    "Where an attempt and its task stand, and whose they are.",
    select(
        attempts.c.state, attempts.c.node_id, tasks.c.status, jobs.c.user, attempts.c.stop_cause, jobs.c.tasks
    )
    .select_from(attempts)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .join(jobs, jobs.c.job_id == attempts.c.job_id)
    .where(*_THIS_ATTEMPT),
)
TRIED = Query(
    "All that there is of an attempt, and what its task is charged for to whom.",
    select(
        attempts.c.state,
        attempts.c.node_id,
        attempts.c.devices,
        attempts.c.started_ms,
        attempts.c.exit,
        attempts.c.stop_cause,
        jobs.c.submitted_ms,
        tasks.c.status,
        *_CHARGED,
    )
    .select_from(attempts)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .join(jobs, jobs.c.job_id == attempts.c.job_id)
    .where(*_THIS_ATTEMPT),
)


SAVE_TASK = Query(
    "Notes when a task last saved its work.",
    update(tasks)
    .values(checkpoint_ms=value("at"))
    .where(*_THIS_TASK, or_(tasks.c.checkpoint_ms.is_(None), tasks.c.checkpoint_ms < value("at"))),
)
MOVE_TASK = Query(
    "Moves a task on from the status it was seen in.",
    update(tasks)
    .values(status=value("new_status"))
    .where(*_THIS_TASK, tasks.c.status == value("old_status")),
)
_FROM = tasks.c.status == value("old_status")
ASSIGN_TASK = Query(
    "Gives a waiting task its next attempt.",
    update(tasks)
    .values(
        status=value("new_status"),
        attempts=value("new_number"),
        standing=value("new_standing"),
        reserved_gpu_ms=value("reserved"),
    )
    .where(*_THIS_TASK, _FROM),
)
ADD_ATTEMPT = Query(
    "Adds an attempt that its node has not confirmed yet.",
    insert(attempts),
    ["job_id", "task_index", "number", "state", "node_id", "devices", "assigned_ms"],
)
END_TASK = Query(
    "Records that a task is over.",
    update(tasks).values(status=value("new_status"), reserved_gpu_ms=constant(0)).where(*_THIS_TASK, _FROM),
)
CLOSE_TASK = Query(
    "Records that a task is over without having run.",
    update(tasks)
    .values(status=value("new_status"), reserved_gpu_ms=constant(0), cause=value("why"), detail=value("told"))
    .where(*_THIS_TASK, _FROM),
)
PUT_TASK_BACK = Query(
    "Takes a task from its attempt: it waits again.",
    update(tasks)
    .values(
        status=value("new_status"),
        standing=value("new_standing"),
        reserved_gpu_ms=constant(0),
        waiting_since_ms=value("at"),
        failures=tasks.c.failures + value("more_failures"),
        eligible_ms=value("eligible"),
        restart_by=null(),
    )
    .where(*_THIS_TASK, _FROM),
)
RETURN_TASK = Query(
    "Lets a task go on with an attempt that was lost.",
    update(tasks)
    .values(status=value("new_status"), standing=value("new_standing"), reserved_gpu_ms=value("reserved"))
    .where(*_THIS_TASK, _FROM),
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
    .where(*_THIS_ATTEMPT),
)
END_ATTEMPT = Query(
    "Records how an attempt ended, or what is said of it while it is lost.",
    update(attempts)
    .values(
        state=value("new_state"),
        started_ms=func.coalesce(attempts.c.started_ms, value("begun", BigInteger())),
        exit=value("result"),
    )
    .where(*_THIS_ATTEMPT),
)
JOB_SUM = Query(
    "What a job of several tasks is the sum of.",
    select(jobs.c.tally, jobs.c.node_id, jobs.c.attempts, jobs.c.started_ms).where(_THIS_JOB),
)
SUM_UP_JOB = Query(
    "Shows on a job of several tasks what became of them.",
    update(jobs)
    .values(
        status=value("new_status"),
        tally=value("new_tally"),
        attempts=value("new_number"),
        node_id=value("where_to"),
        started_ms=value("begun"),
        cause=value("why"),
        detail=value("told"),
        exit_code=value("code"),
        ended_ms=value("at"),
    )
    .where(_THIS_JOB),
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
    .where(_THIS_JOB),
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
    .where(_THIS_JOB),
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
    .where(_THIS_JOB),
)
PUT_JOB_BACK = Query(
    "Shows on the job that its task waits again, nowhere.",
    update(jobs)
    .values(status=value("new_status"), node_id=null(), devices=constant("[]"), started_ms=null())
    .where(_THIS_JOB),
)
