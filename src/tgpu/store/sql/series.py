"""Jobs of very many tasks: rows that appear as they are needed, and wishes that concern some of the tasks."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Text, func, insert, select, update

from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Event, Exit, Job, JobSpec
from tgpu.domain.lifecycle import HOLDING, Cause, Happening, Status
from tgpu.domain.quota import Standing
from tgpu.domain.timing import Timing
from tgpu.store import event_data, growth, timings
from tgpu.store.book import NoRoomError
from tgpu.store.demand import NEVER_RAN, longest_of
from tgpu.store.job_sum import JobSum, tally_of
from tgpu.store.series_port import MOST_SKIPPED, Dropped, Grown, GrownTo
from tgpu.store.sql import altering, cluster, codec, feed, jobs, world
from tgpu.store.sql.job_sums import JobSums
from tgpu.store.sql.moves import HOLD_JOB
from tgpu.store.sql.postings import Postings
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.sql.stage import Happened
from tgpu.store.tables import LIVE_STATUSES, tasks
from tgpu.store.tables import jobs as job_rows
from tgpu.store.token_cap import unused

_THIS_JOB = job_rows.c.job_id == value("job")
_IS_LIVE = [constant(status) for status in LIVE_STATUSES]

TO_GROW = Query(
    "How far a series has come, and whether it may go on.",
    select(
        job_rows.c.spec,
        job_rows.c.tenant_id,
        job_rows.c.born,
        job_rows.c.skipped,
        job_rows.c.token_id,
        job_rows.c.cancel_by,
        job_rows.c.tally,
    ).where(_THIS_JOB),
)
ADD_TASK = Query(
    "Adds a task of a series, which waits or was cancelled beforehand.",
    insert(tasks),
    [
        "job_id", "task_index", "group_index", "status", "attempts", "request", "standing",
        "waiting_since_ms", "cause", "detail", "cancel_by",
    ],
)  # fmt: skip
HAVE_BORN = Query(
    "Says how many tasks of a series have rows.",
    update(job_rows).values(born=value("new_born")).where(_THIS_JOB),
)
SKIP = Query(
    "Says which tasks of a series are cancelled before they have rows.",
    update(job_rows).values(skipped=value("new_skipped")).where(_THIS_JOB),
)
SKIPPED = Query("Which those are.", select(job_rows.c.born, job_rows.c.skipped).where(_THIS_JOB))
WISH_CANCEL = Query(
    "Records who wants a stretch of a job's tasks cancelled, unless somebody did before.",
    update(tasks)
    .values(cancel_by=func.coalesce(tasks.c.cancel_by, value("who", Text())))
    .where(
        tasks.c.job_id == value("job"),
        tasks.c.task_index >= value("first"),
        tasks.c.task_index <= value("last"),
        (tasks.c.task_index - value("first")) % value("step") == constant(0),
        tasks.c.status.in_(_IS_LIVE),
    ),
)
WISH_RESTART = Query(
    "Records who wants a task that has a node to start anew, unless somebody did before.",
    update(tasks)
    .values(restart_by=value("who"))
    .where(
        tasks.c.job_id == value("job"),
        tasks.c.task_index == value("task"),
        tasks.c.restart_by.is_(None),
        tasks.c.status.in_([constant(status) for status in sorted(HOLDING)]),
    ),
)


class Growing(NamedTuple):
    """A series that is to grow, as it was read."""

    change: Grown
    spec: JobSpec
    born: int
    skipped: growth.Skipped
    token_id: int | None
    unborn: int
    tried: int


def to_grow(session: Session, grown: Sequence[Grown]) -> list[Growing]:
    """Those of them that may; their jobs are held."""
    rows = session.row_each(TO_GROW, [{"job": each.job_id} for each in grown])
    found: list[Growing] = []
    for change, row in zip(grown, rows, strict=True):
        if row is None or row[2] is None or row[5] is not None:
            continue
        spec = codec.spec_from(row[0], row[1])
        tally = tally_of(row[6])
        if tally.dropped:
            continue
        skipped, unborn = growth.skipped_of(row[3]), spec.task_count - row[2]
        found.append(Growing(change, spec, row[2], skipped, row[4], unborn, tally.tried))
    return found


class Birth:
    """Within one commit, after all else."""

    def __init__(self, session: Session, at_ms: int, postings: Postings, sums: JobSums) -> None:
        self._session, self._at_ms, self._postings, self._sums = session, at_ms, postings, sums
        self.happened: list[Happened] = []

    def drop(self, dropped: Sequence[Dropped]) -> None:
        rows = self._session.row_each(TO_GROW, [{"job": each.job_id} for each in dropped])
        for change, row in zip(dropped, rows, strict=True):
            if row is None or row[2] is None:
                continue
            spec = codec.spec_from(row[0], row[1])
            for _, job in self._sums.each([change], lambda it: it.job_id):
                number, counted = spec.task_count - row[2], growth.skipped_of(row[3]).counted
                if not number or job.tally.dropped:
                    continue
                self._give_back(row[4], spec, number - counted)
                self._drop(change, spec.user, job, (number, counted))

    def _drop(self, change: Dropped, user: str, job: JobSum, numbers: tuple[int, int]) -> None:
        number, counted = numbers
        job.drop(number, Exit(change.cause, detail=change.detail), self._at_ms, counted=counted)
        data = event_data.on_dropped(change, number)
        self.happened.append(Happened(event_data.DROPPED, (change.job_id, None), data, user))

    def grow(self, growing: Sequence[Growing]) -> list[GrownTo]:
        return [self._grow(each) for each in growing]

    def _grow(self, one: Growing) -> GrownTo:
        job_id = one.change.job_id
        passed_over = self._count(one) if one.skipped.wishes else 0
        total = one.spec.task_count
        wanted: list[str | None] = []
        if passed_over < one.unborn or passed_over <= MOST_SKIPPED:
            wanted = growth.next_ones(one.skipped, one.born, total, one.change.count, MOST_SKIPPED)
        taken, standing, request = self._charged(one, wanted.count(None))
        rows: list[Row] = []
        waiting = 0
        for position, by in enumerate(wanted, one.born):
            if by is None and waiting == taken:
                break
            waiting += by is None
            rows.append((position, by))
        born = one.born + len(rows)
        if rows:
            self._session.change_many(ADD_TASK, [
                {
                    "job_id": job_id,
                    "task_index": position,
                    "group_index": 0,
                    "status": (Status.PENDING if by is None else Status.CANCELLED).value,
                    "attempts": one.tried if by is None else 0,
                    "request": request,
                    "standing": standing.value,
                    "waiting_since_ms": self._at_ms,
                    "cause": None if by is None else Cause.CANCELLED.value,
                    "detail": None if by is None else f"cancelled by {by}",
                    "cancel_by": by,
                }
                for position, by in rows
            ])  # fmt: skip
            self._session.change(HAVE_BORN, job=job_id, new_born=born)
            skipped = [(position, by) for position, by in rows if by is not None]
            self._cancelled(one, skipped)
            passed_over -= len(skipped)
        if passed_over != one.skipped.counted:
            text = growth.text_of(msgspec.structs.replace(one.skipped, counted=passed_over))
            self._session.change(SKIP, job=job_id, new_skipped=text)
        if passed_over and passed_over == total - born:
            self._let_go(one, passed_over)
            born = total
        fresh = [position for position, by in rows if by is None]
        return GrownTo(job_id, born, world.waiting_alike(self._session, job_id, fresh))

    def _charged(self, one: Growing, asked: int) -> tuple[int, Standing, str]:
        tenants = self._postings.book((one.spec.tenant_id,)).of(one.spec.tenant_id)
        request = one.spec.groups[0].request
        kept = codec.text_of(tenants.kept(request))
        if not asked:
            return 0, Standing.CHARGED, kept
        try:
            taken, standing = growth.as_many(tenants, request, asked, one.spec.priority_class, known=True)
        except NoRoomError:
            return 0, Standing.CHARGED, kept
        return taken, standing, kept

    def _count(self, one: Growing) -> int:
        """Those that somebody cancelled count as that from now on, whether they have rows or not; they were
        never charged for. Returns how many there are without rows."""
        number = one.skipped.number_between(one.born, one.spec.task_count)
        new = number - one.skipped.counted
        how = Exit(Cause.CANCELLED, detail=f"cancelled by {one.skipped.by}")
        for _, job in self._sums.each([one], lambda it: it.change.job_id):
            job.pass_over(new, how, self._at_ms)
        self._give_back(one.token_id, one.spec, new)
        return number

    def _let_go(self, one: Growing, number: int) -> None:
        """All that are left were cancelled, and are many: none of them gets a row."""
        change = Dropped(one.change.job_id, Cause.CANCELLED, f"cancelled by {one.skipped.by}")
        for _, job in self._sums.each([one], lambda it: it.change.job_id):
            self._drop(change, one.spec.user, job, (number, number))

    def _cancelled(self, one: Growing, skipped: Sequence[tuple[int, str]]) -> None:
        """They get rows after they were counted."""
        for position, by in skipped:
            data: event_data.Data = {"cause": Cause.CANCELLED.value, "detail": f"cancelled by {by}"}
            task_id = TaskId(one.change.job_id, position)
            self.happened.append(Happened(Happening.CANCELLED.value, task_id, data, one.spec.user))

    def _give_back(self, token_id: int | None, spec: JobSpec, number: int) -> None:
        if token_id is not None and number:
            back = unused(spec.groups[0].request, longest_of(spec), NEVER_RAN)
            self._postings.give_back(token_id, number * back)


def cancel_tasks(
    session: Session, job_id: int, positions: IndexSet, by: str, at_ms: int, *, now: bool
) -> Job | None:
    session.hold(HOLD_JOB, [{"job": job_id}])
    before = jobs.one(session, job_id)
    if before is None or before.status.is_final:
        return before
    for first, last, step in positions.ranges:
        session.change(WISH_CANCEL, job=job_id, first=first, last=last, step=step, who=by)
    born, skipped = session.the_row(SKIPPED, job=job_id)
    if born is not None and positions.highest >= born:
        text = growth.text_of(growth.skipped_of(skipped).and_these(by, positions))
        session.change(SKIP, job=job_id, new_skipped=text)
    _, seq = cluster.reserve(session, 0, 1)
    data = event_data.on_tasks_cancel_requested(by, positions, now=now)
    event = Event(seq, at_ms, event_data.CANCEL_REQUESTED, job_id, None, data, before.spec.user)
    feed.write(session, [event])
    return before


def restart_tasks(session: Session, job_id: int, positions: Iterable[int], by: str, at_ms: int) -> list[int]:
    session.hold(HOLD_JOB, [{"job": job_id}])
    job = jobs.one(session, job_id)
    if job is None:
        return []
    wanted = sorted(set(positions))
    rows = [{"job": job_id, "task": position, "who": by} for position in wanted]
    changed = session.change_each(WISH_RESTART, rows)
    found = [position for position, done in zip(wanted, changed, strict=True) if done]
    if found:
        _, first_seq = cluster.reserve(session, 0, len(found))
        kind, user = event_data.RESTART_REQUESTED, job.spec.user
        feed.write(session, [
            Event(seq, at_ms, kind, job_id, position, {"by": by}, user)
            for seq, position in enumerate(found, first_seq)
        ])  # fmt: skip
    return found


def suspend(session: Session, job_id: int, by: str, at_ms: int) -> Job | None:
    def then(job: Job) -> Timing | None:
        return timings.suspended(job, by)

    return altering.alter(session, [job_id], then, event_data.SUSPENDED, by, at_ms)[0]


def resume(session: Session, job_id: int, by: str, at_ms: int) -> Job | None:
    def then(job: Job) -> Timing | None:
        return timings.resumed(job, at_ms)

    return altering.alter(session, [job_id], then, event_data.RESUMED, by, at_ms)[0]
