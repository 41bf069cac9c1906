"""A store that was put back from a copy: what was given out since then must not be given out again.

Agents may have seen newer epochs, and run attempts of which the copy knows nothing. So the epoch jumps far
ahead, job ids and event numbers go on behind whatever may have been given out, and so do the numbers of the
attempts of every live task, also of those of a series that get their rows later: an attempt's name is claimed
on its node once, and never used for another.

How far ahead depends on how long ago the copy was made. The same copy may be put back twice: the second time
begins behind everything that can have been given out after the first.
"""

from dataclasses import dataclass

import msgspec
from sqlalchemy import func, null, or_, select, update

from tgpu.domain.ids import TaskId
from tgpu.store import job_sum
from tgpu.store.sql import cluster
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, counters, events, jobs, lease, meta, servers, tasks


@dataclass(frozen=True, slots=True)
class Gap:
    """How many numbers are left out."""

    least: int
    per_s: int
    """More than can be given out in a second, for as long as a server runs."""

    def after(self, ms: int) -> int:
        return self.least + self.per_s * ms // 1000


EPOCHS = Gap(1 << 20, 10)
"""A server that lost the lease pauses for most of a second before it campaigns again. Sessions are numbered
from `epoch << 32`, in 64 bits: there is room for years."""
JOB_IDS = Gap(1_000_000, 20_000)
EVENTS = Gap(10_000_000, 200_000)
ATTEMPTS = Gap(100, 2)
"""Of one task: each was committed, sent to a node and lost there."""

_live_task = or_(*(tasks.c.status == constant(status) for status in LIVE_STATUSES))
_live_job = or_(*(jobs.c.status == constant(status) for status in LIVE_STATUSES))

NUMBERS = Query(
    "The newest numbers that were given out.", select(counters.c.last_job_id, counters.c.last_seq)
)
LIVE_TRIES = Query(
    "How often each live task was tried.",
    select(tasks.c.job_id, tasks.c.task_index, tasks.c.attempts).where(_live_task),
)
NEWEST_EVENT = Query(
    "When the newest event was, by the clock of the server that wrote it.",
    select(events.c.at_ms).where(events.c.seq == select(func.max(events.c.seq)).scalar_subquery()),
)
LAST_SEEN = Query(
    "When a server was last there, by the database's clock.", select(func.max(servers.c.seen_ms))
)
MARK = Query(
    "Says that the store was put back, and begins far newer epochs.",
    update(meta).values(
        epoch=meta.c.epoch + value("skipped", meta.c.epoch.type),
        restored_ms=value("at_ms", meta.c.epoch.type),
        moved_to=null(),
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
UNBORN = Query(
    "The series of which some tasks have no rows yet.",
    select(jobs.c.job_id, jobs.c.tally).where(jobs.c.born < jobs.c.tasks, _live_job),
)
SKIP_UNBORN = Query(
    "The same, for tasks of a series that get rows later.",
    update(jobs).values(tally=value("new_tally")).where(jobs.c.job_id == value("job")),
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


def newest_event_ms(session: Session) -> int | None:
    row = session.row(NEWEST_EVENT)
    return None if row is None else int(row[0])


def last_seen_ms(session: Session) -> int | None:
    (seen_ms,) = session.the_row(LAST_SEEN)
    return None if seen_ms is None else int(seen_ms)


def mark(session: Session, at_ms: int, copied_ms: int | None, replaced: GivenOut | None) -> None:
    """`copied_ms`: a moment that is not after the one the copy was made at; the same however often it is put
    back. None: nobody has used it. `replaced`: the store whose place this one takes, if it can still be read:
    then it is known what was given out. Otherwise it is guessed, generously."""
    own = given_out(session)
    since_ms = 0 if copied_ms is None else max(0, at_ms - copied_ms)
    if replaced is not None:
        session.change(RAISE_EPOCH, other=replaced.epoch)
        job_id = max(own.last_job_id, replaced.last_job_id)
        seq = max(own.last_seq, replaced.last_seq)
    else:
        job_id, seq = own.last_job_id + JOB_IDS.after(since_ms), own.last_seq + EVENTS.after(since_ms)
    session.change(MARK, at_ms=at_ms, skipped=EPOCHS.after(since_ms))
    session.change(COUNT_ON, new_job_id=job_id, new_seq=seq)
    session.change(END_LEASE)
    skipped: list[Values] = []
    most: dict[int, int] = {}
    for task_id, tried in own.tries.items():
        known = None if replaced is None else replaced.tries.get(task_id)
        number = tried + ATTEMPTS.after(since_ms) if known is None else max(tried, known)
        skipped.append({"job": task_id.job_id, "task": task_id.task_index, "tried": number})
        most[task_id.job_id] = max(number, most.get(task_id.job_id, 0))
    session.change_each(SKIP_TASK, skipped)
    session.change_each(SKIP_JOB, [{"job": job_id, "tried": number} for job_id, number in most.items()])
    session.change_each(SKIP_UNBORN, [
        {"job": job_id, "new_tally": _tried_more(text, ATTEMPTS.after(since_ms))}
        for job_id, text in session.rows(UNBORN)
    ])  # fmt: skip


def _tried_more(text: str, by: int) -> str:
    tally = job_sum.tally_of(text)
    return job_sum.text_of(msgspec.structs.replace(tally, tried=tally.tried + by))


def is_restored(session: Session) -> bool:
    return session.the_row(IS_RESTORED)[0] is not None


def settle(session: Session, epoch: int) -> None:
    cluster.check_epoch(session, epoch)
    session.change(SETTLE)
