"""A store that was put back from a copy: what was given out since then must not be given out again.

Agents may have seen newer epochs, and run attempts of which the copy knows nothing. So the epoch jumps far
ahead, job ids and event numbers go on behind whatever may have been given out, and so do the numbers of the
attempts of every live task: an attempt's name is claimed on its node once, and never used for another.
"""

from dataclasses import dataclass

from sqlalchemy import null, or_, select, update

from tgpu.domain.ids import TaskId
from tgpu.store.sql import cluster
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, counters, jobs, lease, meta, tasks

EPOCHS = 1 << 20
"""More leaders than there were since any copy was made."""
JOB_IDS = 1_000_000
EVENTS = 10_000_000
ATTEMPTS = 100

_live_task = or_(*(tasks.c.status == constant(status) for status in LIVE_STATUSES))
_live_job = or_(*(jobs.c.status == constant(status) for status in LIVE_STATUSES))

NUMBERS = Query(
    "The newest numbers that were given out.", select(counters.c.last_job_id, counters.c.last_seq)
)
LIVE_TRIES = Query(
    "How often each live task was tried.",
    select(tasks.c.job_id, tasks.c.task_index, tasks.c.attempts).where(_live_task),
)
MARK = Query(
    "Says that the store was put back, and begins far newer epochs.",
    update(meta).values(
        epoch=meta.c.epoch + constant(EPOCHS), restored_ms=value("at_ms", meta.c.epoch.type), moved_to=null()
    ),
)
RAISE_EPOCH = Query(
    "Begins epochs that are newer than those of another store.",
    update(meta).values(epoch=value("other")).where(meta.c.epoch < value("other")),
)
COUNT_ON = Query(
    "Goes on counting behind what may have been given out.",
    update(counters).values(last_job_id=value("new_job_id"), last_seq=value("new_seq")),
)
END_LEASE = Query("Nobody leads a store that was put back.", update(lease).values(expires_ms=null()))
SKIP_TASK = Query(
    "Lets the next attempt of a task have a number that none had before.",
    update(tasks)
    .values(attempts=value("tried"))
    .where(tasks.c.job_id == value("job"), tasks.c.task_index == value("task")),
)
SKIP_JOB = Query(
    "The same, in the job's own row.",
    update(jobs).values(attempts=value("tried")).where(jobs.c.job_id == value("job"), _live_job),
)
IS_RESTORED = Query("When the store was put back, if nobody has led it since.", select(meta.c.restored_ms))
SETTLE = Query("The store is like any other again.", update(meta).values(restored_ms=null()))
EPOCH = Query("The newest epoch.", select(meta.c.epoch))


@dataclass(frozen=True, slots=True)
class GivenOut:
    """What a store has given out so far."""

    epoch: int
    last_job_id: int
    last_seq: int
    tries: dict[TaskId, int]
    """Of every live task."""


def given_out(session: Session) -> GivenOut:
    last_job_id, last_seq = session.the_row(NUMBERS)
    tries = {TaskId(job_id, index): number for job_id, index, number in session.rows(LIVE_TRIES)}
    return GivenOut(int(session.the_row(EPOCH)[0]), last_job_id, last_seq, tries)


def mark(session: Session, at_ms: int, replaced: GivenOut | None) -> None:
    """`replaced`: the store whose place this one takes, if it can still be read: then it is known what was
    given out. Otherwise it is guessed, generously."""
    own = given_out(session)
    if replaced is not None:
        session.change(RAISE_EPOCH, other=replaced.epoch)
        job_id = max(own.last_job_id, replaced.last_job_id)
        seq = max(own.last_seq, replaced.last_seq)
    else:
        job_id, seq = own.last_job_id + JOB_IDS, own.last_seq + EVENTS
    session.change(MARK, at_ms=at_ms)
    session.change(COUNT_ON, new_job_id=job_id, new_seq=seq)
    session.change(END_LEASE)
    skipped: list[Values] = []
    for task_id, tried in own.tries.items():
        known = None if replaced is None else replaced.tries.get(task_id)
        skipped.append(
            {
                "job": task_id.job_id,
                "task": task_id.task_index,
                "tried": tried + ATTEMPTS if known is None else max(tried, known),
            }
        )
    session.change_each(SKIP_TASK, skipped)
    session.change_each(SKIP_JOB, [{k: v for k, v in each.items() if k != "task"} for each in skipped])


def is_restored(session: Session) -> bool:
    return session.the_row(IS_RESTORED)[0] is not None


def settle(session: Session, epoch: int) -> None:
    cluster.check_epoch(session, epoch)
    session.change(SETTLE)
