"""What users ask for: jobs, and the wish to cancel them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import NamedTuple

from sqlalchemy import Text, false, func, insert, select, true, update

from tgpu.domain.command_signature import signature_of
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event, Job, JobSpec
from tgpu.domain.lifecycle import Happening, Status, task_after
from tgpu.domain.quota import Standing
from tgpu.domain.tenant import Tenant
from tgpu.store import event_data, job_sum, timings
from tgpu.store.acceptance import Accepted, accept
from tgpu.store.account import Account
from tgpu.store.book import Book
from tgpu.store.job_listing import command_text, gpus_milli
from tgpu.store.port import IdempotencyConflictError, IdempotencyKey, Submitted, TrialSubmission
from tgpu.store.refusals import StoreError
from tgpu.store.sql import cluster, codec, feed, jobs, ledger, needs, tenants, token_caps
from tgpu.store.sql.moves import HOLD_JOB
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, idempotency_keys, tasks
from tgpu.store.tables import jobs as job_rows
from tgpu.store.token_cap import TokenCap

_KEYS = idempotency_keys.c

ADD_JOB = Query("Adds a job that nothing has happened to yet.", insert(job_rows), [
    "job_id", "user", "tenant_id", "name", "priority_class", "priority", "time_limit_s", "max_wait_s",
    "requeue", "grace_s", "submitted_ms", "status", "spec", "token_id", "tasks", "gang", "tally", "timing",
    "born", "followed", "retries", "forget_ms", "command", "gpu_milli", "command_signature",
])  # fmt: skip
ADD_TASK = Query(
    "Adds a task that waits for its first attempt.",
    insert(tasks),
    ["job_id", "task_index", "group_index", "status", "request", "standing", "waiting_since_ms"],
)
EARLIER_ANSWER = Query(
    "What was answered to this user's key before.",
    select(_KEYS.body_digest, _KEYS.first_job_id, _KEYS.job_count).where(
        _KEYS.user == value("asker"), _KEYS.key == value("given_key")
    ),
)
HELD_AMONG = Query(
    "Which of these jobs wait for their tenant's quota.",
    select(tasks.c.job_id)
    .distinct()
    .where(
        tasks.c.job_id.between(value("first_id"), value("last_id")),
        tasks.c.standing == constant(Standing.HELD),
        tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]),
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


WISH_CANCEL_NOW = Query(
    "Records who wants a live job cancelled without its grace, unless somebody did before.",
    update(job_rows)
    .values(cancel_by=func.coalesce(job_rows.c.cancel_by, value("who", Text())), cancel_now=true())
    .where(
        job_rows.c.job_id == value("job"),
        job_rows.c.cancel_now.is_(false()),
        job_rows.c.status.in_([constant(status) for status in LIVE_STATUSES]),
    ),
)


class Submission(NamedTuple):
    """What one caller submits."""

    specs: Sequence[JobSpec]
    at_ms: int
    key: IdempotencyKey | None = None
    token_id: int | None = None


class OneByOneError(Exception):
    """Two callers gave the same key, or named the same job: what the second one gets depends on the first."""


def submit_all(session: Session, submissions: Sequence[Submission]) -> list[Submitted | StoreError]:
    """Several callers' jobs in one go: one charge per tenant, one stretch of ids. A caller's jobs are taken
    all or none; who is refused is told so, and nobody else is concerned."""
    keys = [(asked.key.user, asked.key.key) for asked in submissions if asked.key is not None]
    if len(keys) != len(set(keys)):
        raise OneByOneError
    answers = _earlier_answers(session, submissions)
    fresh = [asked for asked, answer in zip(submissions, answers, strict=True) if answer is None]
    given = iter(_add(session, fresh) if fresh else ())
    return [next(given) if answer is None else answer for answer in answers]


def _add(session: Session, submissions: Sequence[Submission]) -> list[Submitted | StoreError]:
    """Charges, numbers and writes the jobs of those that are not refused."""
    verdicts = _judge(session, submissions)
    taken = [
        (asked, jobs)
        for asked, jobs in zip(submissions, verdicts, strict=True)
        if not isinstance(jobs, StoreError)
    ]
    first_ids = iter(_write(session, taken) if taken else ())
    return [jobs if isinstance(jobs, StoreError) else _submitted(next(first_ids), jobs) for jobs in verdicts]


def _judge(session: Session, submissions: Sequence[Submission]) -> list[list[Accepted] | StoreError]:
    """Charges tenants and tokens in the order of the callers."""
    accounts = ledger.hold(session, {spec.tenant_id for asked in submissions for spec in asked.specs})
    token_ids = {asked.token_id for asked in submissions if asked.token_id is not None}
    caps = token_caps.hold(session, token_ids) if token_ids else {}
    verdicts = _verdicts(session, submissions, accounts, caps)
    ledger.write(session, accounts.values())
    token_caps.write(session, caps.values())
    return verdicts


def trial(session: Session, specs: Sequence[JobSpec], token_id: int | None) -> TrialSubmission:
    """One caller's submission as it would be judged now, on accounts that are read and not held. Raises the
    StoreError that would refuse it."""
    accounts = ledger.read(session, {spec.tenant_id for spec in specs})
    caps = {} if token_id is None else token_caps.read(session, [token_id])
    (verdict,) = _verdicts(session, [Submission(specs, 0, None, token_id)], accounts, caps)
    if isinstance(verdict, StoreError):
        raise verdict
    return TrialSubmission(
        [job.as_trial for job in verdict],
        [account.shown_on(tenants.the_one(session, name)) for name, account in sorted(accounts.items())],
    )


def _verdicts(
    session: Session,
    submissions: Sequence[Submission],
    accounts: ledger.Accounts,
    caps: Mapping[int, TokenCap],
) -> list[list[Accepted] | StoreError]:
    book = Book(accounts.get)
    read: dict[str, Tenant] = {}
    known = needs.known_among(session, (spec for asked in submissions for spec in asked.specs))

    def tenant_of(account: Account) -> Tenant:
        """Read once: a tenant that is full refuses many."""
        tenant = read.get(account.tenant_id)
        if tenant is None:
            tenant = read[account.tenant_id] = tenants.the_one(session, account.tenant_id)
        return account.shown_on(tenant)

    verdicts: list[list[Accepted] | StoreError] = []
    for asked in submissions:
        cap = None if asked.token_id is None else caps.get(asked.token_id)
        try:
            needs.check(asked.specs, known)
            verdicts.append(accept(book, asked.specs, cap, tenant_of))
        except StoreError as refusal:
            verdicts.append(refusal)
    return verdicts


def _submitted(first_id: int, jobs: Sequence[Accepted]) -> Submitted:
    held = frozenset(n for n, job in enumerate(jobs, first_id) if job.standing is Standing.HELD)
    return Submitted(list(range(first_id, first_id + len(jobs))), held=held)


def _write(session: Session, taken: Sequence[tuple[Submission, list[Accepted]]]) -> list[int]:
    """Returns each submission's first job id."""
    tasks_of = [job.tasks for _, jobs in taken for job in jobs]
    first_id, first_seq = cluster.reserve(session, len(tasks_of), sum(tasks_of))
    jobs_of = _with_numbers(taken, first_id)
    session.change_many(ADD_JOB, [_job_row(n, *job) for n, job in enumerate(jobs_of, first_id)])
    session.change_many(
        ADD_TASK, [row for n, job in enumerate(jobs_of, first_id) for row in _task_rows(n, *job)]
    )
    needs.write(session, [(n, job.spec) for n, (_, job) in enumerate(jobs_of, first_id) if job.spec.needs])
    named = [(n, index) for n, tasks in enumerate(tasks_of) for index in range(tasks)]
    feed.write(
        session,
        [
            _event(seq, TaskId(first_id + n, index), jobs_of[n][1].spec, jobs_of[n][0].at_ms)
            for seq, (n, index) in enumerate(named, first_seq)
        ],
    )
    first_ids = [first_id + before for before in accumulate((len(jobs) for _, jobs in taken), initial=0)][:-1]
    answers = [
        _answer_row(asked, job_id) for (asked, _), job_id in zip(taken, first_ids, strict=True) if asked.key
    ]
    if answers:
        session.change_many(KEEP_ANSWER, answers)
    return first_ids


def _with_numbers(
    taken: Sequence[tuple[Submission, list[Accepted]]], first_id: int
) -> list[tuple[Submission, Accepted]]:
    """All of them; those that wait for others of their submission know by now which numbers these have."""
    found: list[tuple[Submission, Accepted]] = []
    for asked, accepted in taken:
        first_of_these = first_id + len(found)
        found += [(asked, job.with_numbers(first_of_these) if job.spec.needs else job) for job in accepted]
    return found


_SUBMITTED = task_after(None, Happening.SUBMITTED).value


def _job_row(job_id: int, asked: Submission, job: Accepted) -> Values:
    spec, gang, tasks = job.spec, job.spec.gang_now(0), job.spec.task_count
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
        "submitted_ms": asked.at_ms,
        "status": _SUBMITTED,
        "spec": codec.text_of(spec),
        "token_id": asked.token_id,
        "tasks": tasks,
        "gang": None if gang is None else codec.text_of(gang),
        "tally": None if tasks == 1 else _tally(spec),
        "born": job.tasks if spec.series is not None and tasks > 1 else None,
        "followed": True if spec.is_followed else None,
        "retries": None if spec.retries is None else codec.text_of(spec.retries),
        "forget_ms": None if spec.ttl_after_finished_s is None else 1000 * spec.ttl_after_finished_s,
        "timing": codec.timing_text(timings.at_first(spec)),
        "command": command_text(spec),
        "gpu_milli": gpus_milli(spec),
        "command_signature": signature_of(spec),
    }


def _tally(spec: JobSpec) -> str:
    whole = job_sum.new_tally(spec.task_count, Status.PENDING, work_queue=spec.is_work_queue)
    return job_sum.text_of(whole)


def _task_rows(job_id: int, asked: Submission, job: Accepted) -> Iterator[Values]:
    numbers = count()
    for group_index, (group, request) in enumerate(zip(job.spec.groups, job.requests, strict=True)):
        text = codec.text_of(request)
        for _ in range(group.tasks if job.spec.series is None else job.tasks):
            yield {
                "job_id": job_id,
                "task_index": next(numbers),
                "group_index": group_index,
                "status": _SUBMITTED,
                "request": text,
                "standing": job.standing.value,
                "waiting_since_ms": asked.at_ms,
            }


def _event(seq: int, task_id: TaskId, spec: JobSpec, at_ms: int) -> Event:
    return Event(seq, at_ms, Happening.SUBMITTED.value, *task_id, event_data.on_submitted(spec), spec.user)


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


def _earlier_answers(
    session: Session, submissions: Sequence[Submission]
) -> list[Submitted | StoreError | None]:
    keys = [asked.key for asked in submissions if asked.key is not None]
    rows = session.row_each(EARLIER_ANSWER, [{"asker": key.user, "given_key": key.key} for key in keys])
    answers = {
        key: None if row is None else _replayed(session, key, row)
        for key, row in zip(keys, rows, strict=True)
    }
    return [None if asked.key is None else answers[asked.key] for asked in submissions]


def _replayed(session: Session, key: IdempotencyKey, row: Row) -> Submitted | StoreError:
    body_digest, first_id, count = row
    if body_digest != key.body_digest:
        return IdempotencyConflictError(
            f"the key {key.key!r} was used for another request: give this one a key of its own"
        )
    held = session.rows(HELD_AMONG, first_id=first_id, last_id=first_id + count - 1)
    return Submitted(list(range(first_id, first_id + count)), True, frozenset(job_id for (job_id,) in held))


class CancelWish(NamedTuple):
    """What one caller wants cancelled."""

    job_ids: Sequence[int]
    by: str
    at_ms: int
    now: bool


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
    taken: list[tuple[CancelWish, Job]] = []
    for query, now in ((WISH_CANCEL, False), (WISH_CANCEL_NOW, True)):
        some = [(wish, job) for wish, job in asked if wish.now is now]
        recorded = session.change_each(query, [{"job": job.job_id, "who": wish.by} for wish, job in some])
        taken += [one for one, done in zip(some, recorded, strict=True) if done]
    if taken:
        _, first_seq = cluster.reserve(session, 0, len(taken))
        feed.write(session, [_cancel_event(seq, *one) for seq, one in enumerate(taken, first_seq)])
    return [[before[job_id] for job_id in wish.job_ids] for wish in wishes]


def _cancel_event(seq: int, wish: CancelWish, job: Job) -> Event:
    data = event_data.on_cancel_requested(wish.by, job.spec.task_count, now=wish.now)
    return Event(seq, wish.at_ms, event_data.CANCEL_REQUESTED, job.job_id, None, data, job.spec.user)
