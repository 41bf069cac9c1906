"""What users ask for: jobs, and the wish to cancel them."""

from collections.abc import Sequence

from sqlalchemy import insert, select, update

from tgpu.domain.job import Event, Job, JobSpec
from tgpu.domain.lifecycle import Happening, task_after
from tgpu.store import event_data
from tgpu.store.demand import demand_by_tenant, the_request
from tgpu.store.port import IdempotencyConflictError, IdempotencyKey, Submitted
from tgpu.store.sql import cluster, codec, feed, jobs, tenants
from tgpu.store.sql.session import Query, Session, constant, value
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


def submit(session: Session, specs: Sequence[JobSpec], at_ms: int, key: IdempotencyKey | None) -> Submitted:
    if key is not None and (earlier := _earlier_answer(session, key)) is not None:
        return earlier
    requests = [the_request(spec) for spec in specs]
    demand = demand_by_tenant(
        (spec.tenant_id, request) for spec, request in zip(specs, requests, strict=True)
    )
    tenants.charge(session, demand)
    first_id, first_seq = cluster.reserve(session, len(specs), len(specs))
    status = task_after(None, Happening.SUBMITTED).value
    session.change_many(
        ADD_JOB,
        [
            {
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
                "status": status,
                "spec": codec.text_of(spec),
            }
            for job_id, spec in enumerate(specs, first_id)
        ],
    )
    session.change_many(
        ADD_TASK,
        [
            {
                "job_id": job_id,
                "task_index": 0,
                "group_index": 0,
                "status": status,
                "request": codec.text_of(request),
            }
            for job_id, request in enumerate(requests, first_id)
        ],
    )
    feed.write(
        session,
        [
            Event(
                first_seq + offset,
                at_ms,
                Happening.SUBMITTED.value,
                first_id + offset,
                0,
                event_data.on_submitted(spec),
                spec.user,
            )
            for offset, spec in enumerate(specs)
        ],
    )
    if key is not None:
        session.change(
            KEEP_ANSWER,
            user=key.user,
            key=key.key,
            body_digest=key.body_digest,
            first_job_id=first_id,
            job_count=len(specs),
            created_ms=at_ms,
        )
    return Submitted(list(range(first_id, first_id + len(specs))))


def _earlier_answer(session: Session, key: IdempotencyKey) -> Submitted | None:
    row = session.row(EARLIER_ANSWER, asker=key.user, given_key=key.key)
    if row is None:
        return None
    body_digest, first_id, count = row
    if body_digest != key.body_digest:
        raise IdempotencyConflictError(
            f"the key {key.key!r} was used for another request: give this one a key of its own"
        )
    return Submitted(list(range(first_id, first_id + count)), replayed=True)


def request_cancel(session: Session, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
    before = [jobs.one(session, job_id) for job_id in job_ids]
    wished = [
        job for job in before if job is not None and session.change(WISH_CANCEL, job=job.job_id, who=by)
    ]
    if wished:
        _, first_seq = cluster.reserve(session, 0, len(wished))
        data = event_data.on_cancel_requested(by)
        feed.write(
            session,
            [
                Event(seq, at_ms, event_data.CANCEL_REQUESTED, job.job_id, None, data, job.spec.user)
                for seq, job in enumerate(wished, first_seq)
            ],
        )
    return before
