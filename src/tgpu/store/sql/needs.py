"""Who waits for whom: written with a submission, read by the control loop and by whoever looks."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import insert, select, union

from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import FINAL, Status
from tgpu.domain.needs import NeedKind
from tgpu.store.needs_port import NeedRow, UnknownNeedError
from tgpu.store.needs_tables import needs
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import jobs, tasks

_AT_ONCE = 1000
_KINDS = {kind.value: kind for kind in NeedKind}

ADD = Query("Adds that a job waits for another one.", insert(needs))
KNOWN = Query("A job, if there is such a one.", select(jobs.c.job_id).where(jobs.c.job_id == value("job")))
_ROWS = (
    select(needs.c.job_id, needs.c.on_job_id, needs.c.kind, jobs.c.status)
    .select_from(needs)
    .outerjoin(jobs, jobs.c.job_id == needs.c.on_job_id)
)
BETWEEN = Query(
    "What jobs wait for, of those with ids from one to another, and where that stands.",
    _ROWS.where(needs.c.job_id.between(value("low"), value("high"))).order_by(
        needs.c.job_id, needs.c.on_job_id, needs.c.kind
    ),
)
AROUND = Query(
    "What a job waits for, and who waits for it.",
    union(_ROWS.where(needs.c.job_id == value("job")), _ROWS.where(needs.c.on_job_id == value("job"))),
)

ENDED = Query(
    "Which tasks of a job are over, and how.",
    select(tasks.c.task_index, tasks.c.status)
    .where(tasks.c.job_id == value("job"), tasks.c.status.in_([constant(each) for each in sorted(FINAL)]))
    .order_by(tasks.c.task_index),
)


def known_among(session: Session, specs: Iterable[JobSpec]) -> frozenset[int]:
    """Of the jobs that these wait for, and that are not submitted with them, those that there are."""
    wanted = sorted({need.on for spec in specs for need in spec.needs if need.on and not need.within})
    if not wanted:
        return frozenset()
    rows = session.row_each(KNOWN, [{"job": job_id} for job_id in wanted])
    return frozenset(row[0] for row in rows if row is not None)


def check(specs: Sequence[JobSpec], known: frozenset[int]) -> None:
    """Raises UnknownNeedError."""
    for place, spec in enumerate(specs):
        for need in spec.needs:
            if need.on and not need.within and need.on not in known:
                raise UnknownNeedError(place, need.on)


def write(session: Session, numbered: Iterable[tuple[int, JobSpec]]) -> None:
    rows: list[Values] = [
        {"job_id": job_id, "on_job_id": need.on, "kind": need.kind.value}
        for job_id, spec in numbered
        for need in spec.needs
    ]
    if rows:
        session.change_many(ADD, rows)


def of_jobs(session: Session, job_ids: Iterable[int]) -> list[NeedRow]:
    """What these wait for: read by stretches of ids, for those that wait together have ids close together."""
    wanted = sorted(set(job_ids))
    return [row for stretch in _stretches(wanted) for row in _of_stretch(session, stretch)]


def _stretches(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(job_ids), _AT_ONCE):
        yield job_ids[start : start + _AT_ONCE]


def _of_stretch(session: Session, job_ids: Sequence[int]) -> Iterator[NeedRow]:
    among = set(job_ids)
    for row in session.rows(BETWEEN, low=job_ids[0], high=job_ids[-1]):
        if row[0] in among:
            need = _need(row)
            yield need._replace(ends=_ends(session, need.on)) if need.kind is NeedKind.CORR else need


def _ends(session: Session, job_id: int) -> tuple[tuple[int, Status], ...]:
    return tuple((index, Status(status)) for index, status in session.rows(ENDED, job=job_id))


def around(session: Session, job_ids: Sequence[int]) -> list[NeedRow]:
    found = (_need(row) for job_id in dict.fromkeys(job_ids) for row in session.rows(AROUND, job=job_id))
    return sorted(set(found), key=lambda need: need[:3])


def _need(row: Row) -> NeedRow:
    job_id, on, kind, status = row
    return NeedRow(job_id, on, _KINDS[kind], None if status is None else Status(status))
