"""A crowd that submits and cancels against the limits of a few tenants, a leader that runs what it can, and
somebody who looks at what is committed all the time. Run as a program it is one server's part of the crowd.
"""

import asyncio
import sys
from collections import Counter
from random import Random

from tests.store.ledger_story import LOW, QUEUE, gpu_job
from tests.store.store_story import ROOT
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit, JobSpec, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Admission, JobLimits, Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.lost import AttemptLost
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store, TaskClosed
from tgpu.store.postgres import PostgresStore
from tgpu.store.quota_port import QuotaExceededError

TENANTS = (
    Tenant("lab", limits=Limits(gpu_milli=14_000), job_limits=JobLimits(running=9)),
    Tenant("lab/ann", limits=Limits(gpu_milli=9000, named=(("gpu:a100", 4000),))),
    Tenant("lab/bob", limits=Limits(gpu_milli=6000), job_limits=JobLimits(waiting=5, gpu_ms=600_000)),
    Tenant("lab/cat", limits=Limits(gpu_milli=5000), terms=QUEUE),
)
LOOK = """
SELECT tenant_id, gpu_milli_limit, gpu_milli_used, gpu_milli_burst, running_limit, running, gpu_ms_limit,
  gpu_ms_used, waiting,
  (SELECT coalesce(sum(CASE WHEN tasks.standing = 'charged' THEN {gpu_milli} ELSE 0 END), 0) {live}),
  (SELECT coalesce(sum(CASE WHEN tasks.standing = 'burst' THEN {gpu_milli} ELSE 0 END), 0) {live}),
  (SELECT count(*) {live} AND tasks.status IN ('scheduled', 'running')),
  (SELECT count(*) {live} AND tasks.status IN ('pending', 'preempted')),
  (SELECT coalesce(sum(tasks.reserved_gpu_ms), 0) {live})
FROM tenants
"""
_LIVE = """
FROM tasks JOIN jobs ON jobs.job_id = tasks.job_id
WHERE tasks.status IN ('pending', 'preempted', 'scheduled', 'running')
AND substr(jobs.tenant_id || '/', 1, length(tenants.tenant_id) + 1) = tenants.tenant_id || '/'
"""
LOOK_AT_SQLITE = LOOK.format(gpu_milli="json_extract(tasks.request, '$.gpu_milli')", live=_LIVE)
LOOK_AT_POSTGRES = LOOK.format(gpu_milli="CAST(tasks.request AS json)->>'gpu_milli'", live=_LIVE).replace(
    "CAST(tasks.request AS json)->>'gpu_milli'", "CAST(CAST(tasks.request AS json)->>'gpu_milli' AS bigint)"
)


def check_moment(rows: list[tuple[int | str | None, ...]]) -> None:
    """What is committed at one moment: no limit is exceeded, and every number is the sum of what lives."""
    for tenant_id, limit, used, burst, most, running, most_ms, gpu_ms, waiting, *sums, reserved in rows:
        assert limit is None or (used <= limit and burst * 2 <= limit), tenant_id  # type: ignore[operator]
        assert most is None or running <= most, tenant_id  # type: ignore[operator]
        assert most_ms is None or gpu_ms <= most_ms, tenant_id  # type: ignore[operator]
        assert reserved <= gpu_ms, tenant_id  # type: ignore[operator]
        assert [used, burst, running, waiting] == [int(total) for total in sums], tenant_id  # type: ignore[arg-type]


async def found(store: Store) -> None:
    for tenant in TENANTS:
        await store.create_tenant(tenant, ROOT, 1)


def some_jobs(chance: Random) -> list[JobSpec]:
    return [
        gpu_job(
            chance.randint(0, 3),
            chance.choice(TENANTS).tenant_id,
            gpu_type=chance.choice((None, "A100")),
            priority_class=chance.choice((PriorityClass.DEFAULT, LOW)),
        )
        for _ in range(chance.randint(1, 3))
    ]


async def use(store: Store, chance: Random, rounds: int) -> Counter[str]:
    """One user, who now and then cancels what others have submitted."""
    answers: Counter[str] = Counter()
    for _ in range(rounds):
        try:
            job_ids = (await store.submit(some_jobs(chance), 1)).job_ids
            answers["taken"] += 1
        except QuotaExceededError as refusal:
            answers[refusal.dimension] += 1
            continue
        if chance.random() < 0.5:
            some = [chance.randint(max(1, job_ids[0] - 30), job_ids[-1]) for _ in range(4)]
            await store.request_cancel(some, "ann", 2)
        await asyncio.sleep(chance.random() * 0.02)
    return answers


async def lead(store: Store, epoch: int, chance: Random, stop: asyncio.Event) -> Counter[str]:
    """Starts, ends and puts back by chance, and closes what users want cancelled."""
    seen: Counter[str] = Counter()
    clock_ms = 0
    while not stop.is_set():
        clock_ms += 100
        tasks = (await store.load()).tasks
        receipt = await store.commit(epoch, decided(tasks, clock_ms, chance))
        seen.update(event.kind for event in receipt.events)
        seen["refused"] += sum(isinstance(change, Assigned) for change in receipt.refused)
        seen["burst"] += sum(task.burst for task in tasks)
    return seen


def decided(tasks: list[TaskBrief], at_ms: int, chance: Random) -> Batch:
    batch = Batch(at_ms)
    for task in tasks:
        _decide(task, batch, chance)
    return batch


def _decide(task: TaskBrief, batch: Batch, chance: Random) -> None:
    attempt_id = task.task_id.attempt(task.attempts)
    if task.status.waits and task.cancel_by is not None:
        task_id = TaskId(*task.task_id)
        batch.closed.append(TaskClosed(task_id, Happening.CANCELLED, Cause.CANCELLED))
    elif task.status.waits:
        admission = chance.choice((Admission.NOW, Admission.BURST)) if task.held else Admission.CHARGED
        reserve = task.request.gpu_milli * chance.randint(10, 30)
        if chance.random() < 0.6:
            next_id = task.task_id.attempt(task.attempts + 1)
            batch.assigned.append(Assigned(next_id, "n1", (), admission, reserve))
    elif task.status is Status.SCHEDULED:
        batch.started.append(Started(attempt_id, batch.at_ms))
    elif chance.random() < 0.5:
        done = Exit(Cause.EXITED, 0, ended_ms=batch.at_ms)
        if chance.random() < 0.2:
            batch.lost.append(AttemptLost(attempt_id, done, requeue=True))
        else:
            happening = chance.choice((Happening.SUCCEEDED, Happening.FAILED, Happening.PREEMPTED))
            batch.ended.append(AttemptEnded(attempt_id, done, happening))


async def crowd(store: Store, seed: int, users: int, rounds: int) -> Counter[str]:
    answers = await asyncio.gather(*(use(store, Random(seed * 1000 + n), rounds) for n in range(users)))
    return sum(answers, Counter())


async def _main(url: str, seed: str, users: str, rounds: str) -> None:
    store = await PostgresStore.open(url)
    answers = await crowd(store, int(seed), int(users), int(rounds))
    print(*(f"{name}={count}" for name, count in answers.items()))
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
