"""What users ask for: jobs, and the wish to cancel them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from sqlalchemy import insert, select, update

from tgpu.domain.job import Event, Job, JobSpec
from tgpu.domain.lifecycle import Happening, task_after
from tgpu.store import event_data
from tgpu.store.demand import demand_by_tenant, the_request
from tgpu.store.port import IdempotencyConflictError, IdempotencyKey, Submitted
from tgpu.store.sql import cluster, codec, feed, jobs, tenants
from tgpu.store.sql.moves import HOLD_JOB
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, idempotency_keys, tasks
from tgpu.store.tables import jobs as job_rows

_KEYS = idempotency_keys.c

ADD_JOB = Query("Adds a job that nothing has happened to yet.", insert(job_rows), [
    "job_id", "user", "tenant_id", "name", "priority_class", "priority", "time_limit_s", "max_wait_s",
    "requeue", "grace_s", "submitted_ms", "status", "spec",
])  # fmt: skip
ADD_TASK = Query(
    "Adds a task that waits for its first attempt.",
    insert(tasks),
    ["job_id", "task_index", "group_index", "status", "request"],
)
EARLIER_ANSWER = Query(
    "What was answered to this user's key before.",
    select(_KEYS.body_digest, _KEYS.first_job_id, _KEYS.job_count).where(
        _KEYS.user == value("asker"), _KEYS.key == value("given_key")
    ),
)
KEEP_ANSWER = Query("Keeps the answer for a repeated request.", insert(idempotency_keys))
WISH_CANCEL = Query(
    "Records who wants a live job cancelled, if nobody did before: the row count decides.",
    update(job_rows)
    .values(cancel_by=value("who"))
    .where(
        job_rows.c.job_id == value("job"),
        job_rows.c.cancel_by.is_(None),
        job_rows.c.status.in_([constant(status) for status in LIVE_STATUSES]),
    ),
)


class Submission(NamedTuple):
    """What one caller submits."""

    specs: Sequence[JobSpec]
    at_ms: int
    key: IdempotencyKey | None


class OneByOneError(Exception):
    """Two callers gave the same key, or named the same job: what the second one gets depends on the first."""


def submit_all(session: Session, submissions: Sequence[Submission]) -> list[Submitted]:
    """Several callers' jobs in one go: one charge per tenant, one stretch of ids. All or none."""
    keys = [(asked.key.user, asked.key.key) for asked in submissions if asked.key is not None]
    if len(keys) != len(set(keys)):
        raise OneByOneError
    earlier = _earlier_answers(session, submissions)
    fresh = [asked for asked, answer in zip(submissions, earlier, strict=True) if answer is None]
    first_ids = iter(_add(session, fresh) if fresh else ())
    return [
        answer or _submitted(next(first_ids), len(asked.specs))
        for asked, answer in zip(submissions, earlier, strict=True)
    ]


def _submitted(first_id: int, count: int, *, replayed: bool = False) -> Submitted:
    return Submitted(list(range(first_id, first_id + count)), replayed)


def _add(session: Session, submissions: Sequence[Submission]) -> list[int]:
    """Charges, numbers and writes the jobs; returns each submission's first job id."""
    jobs_at = [(spec, asked.at_ms) for asked in submissions for spec in asked.specs]
    tenants.charge(session, demand_by_tenant((spec.tenant_id, the_request(spec)) for spec, _ in jobs_at))
    first_id, first_seq = cluster.reserve(session, len(jobs_at), len(jobs_at))
    session.change_many(ADD_JOB, [_job_row(first_id + n, *job) for n, job in enumerate(jobs_at)])
    session.change_many(ADD_TASK, [_task_row(first_id + n, spec) for n, (spec, _) in enumerate(jobs_at)])
    feed.write(
        session, [_event(first_seq + n, first_id + n, spec, at_ms) for n, (spec, at_ms) in enumerate(jobs_at)]
    )
    sizes = [len(asked.specs) for asked in submissions]
    first_ids = [first_id + before for before in accumulate(sizes, initial=0)][:-1]
    answers = [
        _answer_row(asked, job_id) for asked, job_id in zip(submissions, first_ids, strict=True) if asked.key
    ]
    if answers:
        session.change_many(KEEP_ANSWER, answers)
    return first_ids


_SUBMITTED = task_after(None, Happening.SUBMITTED).value


def _job_row(job_id: int, spec: JobSpec, at_ms: int) -> Values:
    return {
        "job_id": job_id,
        "user": spec.user,
        "tenant_id": spec.tenant_id,
        "name": spec.name,
        "priority_class": spec.priority_class.value,
        "priority": spec.priority,
        "time_limit_s": spec.time_limit_s,
        "max_wait_s": spec.max_wait_s,
        "requeue": spec.requeue,
        "grace_s": spec.grace_s,
        "submitted_ms": at_ms,
        "status": _SUBMITTED,
        "spec": codec.text_of(spec),
    }


def _task_row(job_id: int, spec: JobSpec) -> Values:
    return {
        "job_id": job_id,
        "task_index": 0,
        "group_index": 0,
        "status": _SUBMITTED,
        "request": codec.text_of(the_request(spec)),
    }


def _event(seq: int, job_id: int, spec: JobSpec, at_ms: int) -> Event:
    return Event(seq, at_ms, Happening.SUBMITTED.value, job_id, 0, event_data.on_submitted(spec), spec.user)


def _answer_row(asked: Submission, first_id: int) -> Values:
    assert asked.key is not None
    return {
        "user": asked.key.user,
        "key": asked.key.key,
        "body_digest": asked.key.body_digest,
        "first_job_id": first_id,
        "job_count": len(asked.specs),
        "created_ms": asked.at_ms,
    }


def _earlier_answers(session: Session, submissions: Sequence[Submission]) -> list[Submitted | None]:
    keys = [asked.key for asked in submissions if asked.key is not None]
    rows = session.row_each(EARLIER_ANSWER, [{"asker": key.user, "given_key": key.key} for key in keys])
    answers = dict(zip(keys, map(_replayed, keys, rows), strict=True))
    return [None if asked.key is None else answers[asked.key] for asked in submissions]


def _replayed(key: IdempotencyKey, row: Row | None) -> Submitted | None:
    if row is None:
        return None
    body_digest, first_id, count = row
    if body_digest != key.body_digest:
        raise IdempotencyConflictError(
            f"the key {key.key!r} was used for another request: give this one a key of its own"
        )
    return _submitted(first_id, count, replayed=True)


class CancelWish(NamedTuple):
    """What one caller wants cancelled."""

    job_ids: Sequence[int]
    by: str
    at_ms: int


def cancel_all(session: Session, wishes: Sequence[CancelWish]) -> list[list[Job | None]]:
    """Several callers' wishes in one go; every caller's jobs as they were before."""
    wanted = [(wish, list(dict.fromkeys(wish.job_ids))) for wish in wishes]
    job_ids = [job_id for _, distinct in wanted for job_id in distinct]
    if len(job_ids) != len(set(job_ids)):
        raise OneByOneError
    session.hold(HOLD_JOB, [{"job": job_id} for job_id in job_ids])
    rows: list[Values] = [{"job": job_id} for job_id in job_ids]
    before = dict(zip(job_ids, jobs.several(session, rows), strict=True))
    asked = [(wish, job) for wish, distinct in wanted for job_id in distinct if (job := before[job_id])]
    recorded = session.change_each(WISH_CANCEL, [{"job": job.job_id, "who": wish.by} for wish, job in asked])
    taken = [one for one, done in zip(asked, recorded, strict=True) if done]
    if taken:
        _, first_seq = cluster.reserve(session, 0, len(taken))
        feed.write(session, [_cancel_event(seq, *one) for seq, one in enumerate(taken, first_seq)])
    return [[before[job_id] for job_id in wish.job_ids] for wish in wishes]


def _cancel_event(seq: int, wish: CancelWish, job: Job) -> Event:
    data = event_data.on_cancel_requested(wish.by)
    return Event(seq, wish.at_ms, event_data.CANCEL_REQUESTED, job.job_id, None, data, job.spec.user)
