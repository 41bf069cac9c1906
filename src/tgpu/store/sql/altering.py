"""Jobs that are changed while they wait: held, released, edited, or freed of what they waited for."""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import BigInteger, Integer, Text, func, select, update

from tgpu.domain.job import Event, Job, JobSpec
from tgpu.domain.lifecycle import WAITING
from tgpu.domain.timing import Timing
from tgpu.store import event_data, timings
from tgpu.store.acceptance import recharge
from tgpu.store.book import Book, Charged
from tgpu.store.growth import same_but_at_once
from tgpu.store.job_listing import gpus_milli
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError
from tgpu.store.sql import cluster, codec, feed, jobs, ledger, tenants, token_caps
from tgpu.store.sql.moves import HOLD_JOB
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.sql.stage import STANDINGS, Happened
from tgpu.store.tables import jobs as job_rows
from tgpu.store.tables import tasks
from tgpu.store.token_cap import check_editor

_THIS_JOB = job_rows.c.job_id == value("job")
_WAITS = tasks.c.status.in_([constant(status) for status in sorted(WAITING)])

TIMING = Query(
    "What holds a job back, and whose it is.",
    select(job_rows.c.job_id, job_rows.c.timing, job_rows.c.user).where(_THIS_JOB),
)
SET_TIMING = Query(
    "Says what holds a job back.", update(job_rows).values(timing=value("new_timing")).where(_THIS_JOB)
)
MARK = Query(
    "Says what holds a job back, and by which event it was changed.",
    update(job_rows).values(timing=value("new_timing"), changed_seq=value("seq")).where(_THIS_JOB),
)
CHARGED = Query(
    "What each task of a job that waits is charged for.",
    select(tasks.c.group_index, tasks.c.request, tasks.c.standing)
    .where(tasks.c.job_id == value("job"), _WAITS)
    .order_by(tasks.c.task_index),
)
TOKEN = Query("The token that a job was submitted with.", select(job_rows.c.token_id).where(_THIS_JOB))
EDIT_JOB = Query(
    "Gives a job another specification.",
    update(job_rows)
    .values(
        name=value("new_name"),
        priority_class=value("new_class"),
        priority=value("new_priority", Integer()),
        time_limit_s=value("new_limit", BigInteger()),
        max_wait_s=value("new_wait", BigInteger()),
        spec=value("new_spec"),
        gpu_milli=value("new_gpus", BigInteger()),
        timing=value("new_timing", Text()),
        changed_seq=value("seq"),
    )
    .where(_THIS_JOB),
)
EDIT_TASKS = Query(
    "Gives the tasks of a group that wait another request, and says how they stand with the quota, if anew.",
    update(tasks)
    .values(
        request=value("new_request"),
        standing=func.coalesce(value("new_standing", Text()), tasks.c.standing),
    )
    .where(tasks.c.job_id == value("job"), tasks.c.group_index == value("group"), _WAITS),
)


def meet(session: Session, job_ids: Sequence[int], at_ms: int) -> list[Happened]:
    """These need not wait for others any more; the jobs are held."""
    rows = session.row_each(TIMING, [{"job": job_id} for job_id in dict.fromkeys(job_ids)])
    found = [
        (row[0], timing, row[2])
        for row in rows
        if row is not None and (timing := codec.timing_from(row[1])) is not None and timing.unmet
    ]
    if found:
        session.change_all(SET_TIMING, [
            {"job": job_id, "new_timing": codec.timing_text(timings.met(timing, at_ms))}
            for job_id, timing, _ in found
        ])  # fmt: skip
    return [Happened(event_data.NEEDS_MET, (job_id, None), {}, user) for job_id, _, user in found]


def hold(session: Session, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
    def then(job: Job) -> Timing | None:
        return timings.held(job.timing, by) if timings.may_be_held(job) else None

    return alter(session, job_ids, then, event_data.HELD, by, at_ms)


def release(session: Session, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
    def then(job: Job) -> Timing | None:
        if job.timing is None or not timings.is_held(job) or job.status.is_final:
            return None
        return timings.released(job.timing, at_ms)

    return alter(session, job_ids, then, event_data.RELEASED, by, at_ms)


def alter(  # noqa: PLR0917  who wants what of which
    session: Session,
    job_ids: Sequence[int],
    then: Callable[[Job], Timing | None],
    kind: str,
    by: str,
    at_ms: int,
) -> list[Job | None]:
    """`then`: what holds the job back from now on; None: it stays as it is."""
    distinct = list(dict.fromkeys(job_ids))
    rows: list[Values] = [{"job": job_id} for job_id in distinct]
    session.hold(HOLD_JOB, rows)
    before = dict(zip(distinct, jobs.several(session, rows), strict=True))
    altered = [(job, timing) for job in before.values() if job and (timing := then(job)) is not None]
    if altered:
        _, first_seq = cluster.reserve(session, 0, len(altered))
        session.change_all(MARK, [
            {"job": job.job_id, "new_timing": codec.timing_text(timing), "seq": seq}
            for seq, (job, timing) in enumerate(altered, first_seq)
        ])  # fmt: skip
        feed.write(session, [
            Event(seq, at_ms, kind, job.job_id, None, {"by": by}, job.spec.user)
            for seq, (job, _) in enumerate(altered, first_seq)
        ])  # fmt: skip
    return [before[job_id] for job_id in job_ids]


def edit(  # noqa: PLR0917  what becomes of what, and by whom
    session: Session,
    before: Job,
    spec: JobSpec,
    by: str,
    at_ms: int,
    told: Mapping[str, object],
    editor_id: int | None,
) -> Job:
    job_id = before.job_id
    tenants.keep_tree(session)
    session.hold(HOLD_JOB, [{"job": job_id}])
    job = jobs.one(session, job_id)
    if job is None or job.spec != before.spec:
        raise ChangedMeanwhileError(f"job {job_id} was changed meanwhile: look at it again")
    at_once = same_but_at_once(job.spec, spec) and not job.status.is_final
    if not at_once and not all(each.waits for each, number in job.task_counts.items() if number):
        raise NotWaitingError(job)
    timing = job.timing if at_once else timings.edited(job.timing, spec)
    (token_id,) = session.the_row(TOKEN, job=job_id)
    check_editor(editor_id, token_id)
    requests, standing = ([], None) if at_once else _charge_anew(session, job, spec, token_id)
    _, seq = cluster.reserve(session, 0, 1)
    session.change(
        EDIT_JOB,
        job=job_id,
        new_name=spec.name,
        new_class=spec.priority_class.value,
        new_priority=spec.priority,
        new_limit=spec.time_limit_s,
        new_wait=spec.max_wait_s,
        new_spec=codec.text_of(spec),
        new_gpus=gpus_milli(spec),
        new_timing=codec.timing_text(timing),
        seq=seq,
    )
    for group, request in enumerate(requests):
        session.change(EDIT_TASKS, job=job_id, group=group, new_request=request, new_standing=standing)
    data = {"by": by, **told}
    feed.write(session, [Event(seq, at_ms, event_data.EDITED, job_id, None, data, spec.user)])
    after = jobs.one(session, job_id)
    assert after is not None, "it was there a moment ago"
    return after


def _charge_anew(
    session: Session, job: Job, spec: JobSpec, token_id: int | None
) -> tuple[list[str], str | None]:
    """Each group's request as its tasks' rows are to have it, and how all of them stand, if anew."""
    rows = session.rows(CHARGED, job=job.job_id)
    accounts = ledger.hold(session, [spec.tenant_id])
    caps = token_caps.hold(session, [token_id]) if token_id is not None else {}
    anew = recharge(
        Book(accounts.get),
        job.spec,
        spec,
        [(group, Charged(codec.request_from(text), STANDINGS[standing])) for group, text, standing in rows],
        caps.get(token_id) if token_id is not None else None,
        lambda account: account.shown_on(tenants.the_one(session, account.tenant_id)),
    )
    ledger.write(session, accounts.values())
    token_caps.change(session, caps.values())
    standing = None if anew.standing is None else anew.standing.value
    return [codec.text_of(request) for request in anew.requests], standing
