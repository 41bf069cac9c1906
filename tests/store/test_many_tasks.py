"""Jobs of several tasks, on every store: rows for all of them, and a job that is their sum."""

from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_job, a_node, a_tenant, setting
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit, Gang, Group, Job, JobSpec
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.quota import Admission, Amounts, JobLimits, JobUse, Limits, OverQuota
from tgpu.domain.tenant import Terms
from tgpu.store.lost import AttemptLost, AttemptReturned
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    IdempotencyKey,
    Started,
    StopOrdered,
    Store,
    TaskClosed,
)
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.task_paging import TaskPaging


def a_gang(tasks: int = 3, **fields: object) -> JobSpec:
    spec = a_job(**fields)  # type: ignore[arg-type]
    return replace(spec, groups=(replace(spec.groups[0], tasks=tasks),), gang=Gang(tasks))


def nth(task: int, number: int = 1, job_id: int = 1) -> AttemptId:
    return AttemptId(job_id, task, number)


def placed(tasks: int, number: int = 1, job_id: int = 1) -> list[Assigned]:
    return [Assigned(nth(task, number, job_id), f"n{task}", (0,)) for task in range(tasks)]


def started(tasks: int, number: int = 1) -> list[Started]:
    return [Started(nth(task, number), 20 + task) for task in range(tasks)]


def ended(
    task: int,
    happening: Happening = Happening.SUCCEEDED,
    cause: Cause = Cause.EXITED,
    exit_code: int | None = 0,
    at_ms: int = 90,
) -> AttemptEnded:
    how = Exit(cause, exit_code, started_ms=20 + task, ended_ms=at_ms)
    return AttemptEnded(nth(task), how, happening, f"task {task}")


async def a_running_gang(store: Store, spec: JobSpec | None = None) -> int:
    """Three tasks that run; returns the epoch."""
    epoch = await store.claim()
    await store.submit([spec or a_gang()], 10)
    receipt = await store.commit(epoch, Batch(15, nodes=[a_node("n0")], assigned=placed(3)))
    assert not receipt.refused
    assert list(receipt.specs) == [1]
    receipt = await store.commit(epoch, Batch(25, started=started(3)))
    assert not receipt.refused
    return epoch


async def the_job(store: Store) -> Job:
    job = await store.job(1)
    assert job is not None
    return job


async def test_every_task_has_a_row_an_event_and_what_its_group_asks(store: Store) -> None:
    spec = a_job()
    head, worker = replace(spec.groups[0], name="head"), replace(spec.groups[0], name="worker", tasks=2)
    other = replace(worker, request=replace(worker.request, cpu_milli=250))
    await store.submit([replace(spec, groups=(head, other), gang=Gang(3, 2, "rack")), a_job()], 10)
    changes = await store.changes(0)
    assert [brief.task_id for brief in changes.submitted] == [
        TaskId(1, 0),
        TaskId(1, 1),
        TaskId(1, 2),
        TaskId(2, 0),
    ]
    assert [brief.request.cpu_milli for brief in changes.submitted] == [500, 250, 250, 500]
    gangs = [brief.gang for brief in changes.submitted]
    assert gangs == [Gang(3, 2, "rack", repairs=False)] * 3 + [None]
    assert [(task.group, task.status) for task in await store.tasks(1, TaskPaging())] == [
        ("head", Status.PENDING),
        ("worker", Status.PENDING),
        ("worker", Status.PENDING),
    ]
    job = await the_job(store)
    assert (job.status, job.counts) == (Status.PENDING, {Status.PENDING: 3})
    assert (await store.load()).tasks == changes.submitted


async def test_a_job_is_where_its_tasks_are(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([replace(a_gang(), gang=None)], 10)
    await store.commit(epoch, Batch(15, assigned=placed(1)))
    job = await the_job(store)
    assert (job.status, job.counts) == (Status.SCHEDULED, {Status.PENDING: 2, Status.SCHEDULED: 1})
    await store.commit(epoch, Batch(25, started=[Started(nth(0), 21)], assigned=placed(3)[1:]))
    job = await the_job(store)
    assert (job.status, job.started_ms, job.node_id, job.attempts) == (Status.RUNNING, 21, "n0", 1)
    await store.commit(epoch, Batch(30, ended=[ended(0)]))
    job = await the_job(store)
    assert (job.status, job.cause, job.exit_code) == (Status.SCHEDULED, None, None)
    await store.commit(epoch, Batch(40, ended=[ended(1, at_ms=95), ended(2, at_ms=93)]))
    job = await the_job(store)
    assert (job.status, job.cause, job.exit_code, job.ended_ms) == (
        Status.COMPLETED,
        Cause.EXITED,
        0,
        95,
    )
    assert job.counts == {Status.COMPLETED: 3}
    summary = await store.live_summary(10)
    assert (summary.tasks, summary.attempts) == ({}, set())
    assert (await store.tenants())[0].used == Amounts()


async def test_the_first_that_failed_is_the_cause_whatever_is_told_first(store: Store) -> None:
    """Who was stopped with its gang tells less than who broke it, and reports come in any order."""
    epoch = await a_running_gang(store)
    broken = ended(0, Happening.FAILED, Cause.GANG_BROKEN, None, at_ms=70)
    later = ended(1, Happening.FAILED, exit_code=9, at_ms=60)
    first = ended(2, Happening.FAILED, exit_code=7, at_ms=50)
    receipt = await store.commit(epoch, Batch(80, ended=[broken, later, first]))
    assert not receipt.refused
    job = await the_job(store)
    assert (job.status, job.cause, job.exit_code, job.detail) == (
        Status.FAILED,
        Cause.EXITED,
        7,
        "task 2",
    )
    assert (job.started_ms, job.ended_ms) == (20, 70)
    assert [task.attempt and task.attempt.exit for task in await store.tasks(1, TaskPaging())] == [
        broken.exit,
        later.exit,
        first.exit,
    ]


async def test_a_failure_of_an_earlier_commit_is_not_replaced(store: Store) -> None:
    epoch = await a_running_gang(store)
    await store.commit(epoch, Batch(80, ended=[ended(1, Happening.FAILED, exit_code=9, at_ms=60)]))
    job = await the_job(store)
    assert (job.status, job.cause, job.counts) == (
        Status.RUNNING,
        None,
        {Status.RUNNING: 2, Status.FAILED: 1},
    )
    others = [ended(task, Happening.FAILED, exit_code=7, at_ms=50) for task in (0, 2)]
    await store.commit(epoch, Batch(90, ended=others))
    assert (await the_job(store)).exit_code == 9


async def test_cancelled_and_completed_together_are_cancelled(store: Store) -> None:
    epoch = await a_running_gang(store)
    await store.request_cancel([1], "ann", 30)
    assert (await store.changes(3)).cancels == [(1, "ann", False, 3)]
    stops = [StopOrdered(nth(task), Cause.CANCELLED, "ann") for task in (1, 2)]
    receipt = await store.commit(epoch, Batch(40, stop_ordered=stops, ended=[ended(0)]))
    assert not receipt.refused
    cancelled = [ended(task, Happening.CANCELLED, Cause.CANCELLED, None) for task in (1, 2)]
    await store.commit(epoch, Batch(50, ended=cancelled))
    job = await the_job(store)
    assert (job.status, job.cause, job.detail) == (Status.CANCELLED, Cause.CANCELLED, "task 1")


async def test_a_gang_that_is_put_back_waits_as_if_it_had_not_begun(store: Store) -> None:
    epoch = await a_running_gang(store)
    again = [ended(task, Happening.PREEMPTED, Cause.PREEMPTED, None) for task in range(3)]
    await store.commit(epoch, Batch(60, ended=again[:1]))
    assert (await the_job(store)).status is Status.RUNNING
    await store.commit(epoch, Batch(61, ended=again[1:]))
    job = await the_job(store)
    assert (job.status, job.node_id, job.started_ms, job.attempts) == (Status.PREEMPTED, None, None, 1)
    assert not (await store.commit(epoch, Batch(70, assigned=placed(3, number=2)))).refused
    assert [task.attempts for task in (await store.load()).tasks] == [2, 2, 2]
    usage = await store.usage(1)
    assert [spent.attempt_id for spent in usage] == [nth(0), nth(1), nth(2)]
    assert await store.recount(epoch) == []


async def test_a_gang_is_given_nodes_whole_or_not_at_all(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_gang(), a_job()], 10)
    short = [*placed(2), Assigned(nth(2, number=7), "n2", (0,)), *placed(1, job_id=2)]
    receipt = await store.commit(epoch, Batch(15, assigned=short))
    assert receipt.refused == short[:3]
    assert (await the_job(store)).status is Status.PENDING
    other = await store.job(2)
    assert other is not None
    assert other.status is Status.SCHEDULED
    assert await store.recount(epoch) == []


async def test_a_quota_that_has_room_for_some_of_a_gang_lets_none_start_and_others_do(store: Store) -> None:
    await a_tenant(store, "lab", job_limits=JobLimits(running=2))
    epoch = await store.claim()
    await store.submit([a_gang(tenant_id="lab"), a_job(tenant_id="lab")], 10)
    receipt = await store.commit(epoch, Batch(15, assigned=[*placed(3), *placed(1, job_id=2)]))
    assert receipt.refused == placed(3)
    lab = await store.tenant("lab")
    assert lab is not None
    assert (lab.job_use.running, lab.job_use.waiting) == (1, 3)
    assert await store.recount(epoch) == []


async def test_a_gang_is_charged_whole_or_refused_whole(store: Store) -> None:
    await a_tenant(store, "lab", limits=Limits(gpu_milli=4000))
    await store.submit([a_gang(tenant_id="lab")], 10)
    lab = await store.tenant("lab")
    assert lab is not None
    assert (lab.used.gpu_milli, lab.job_use) == (3000, replace(JobUse(), waiting=3))
    with pytest.raises(QuotaExceededError) as refused:
        await store.submit([a_gang(2, tenant_id="lab")], 11)
    assert (refused.value.dimension, refused.value.asked) == ("gpu_milli", 2000)
    with pytest.raises(QuotaExceededError):
        await store.submit([a_gang(5, tenant_id="lab")], 12)
    lab = await store.tenant("lab")
    assert lab is not None
    assert (lab.used.gpu_milli, lab.job_use.waiting) == (3000, 3)


async def test_a_gang_is_held_whole_and_admitted_whole(store: Store) -> None:
    await a_tenant(store, "lab", limits=Limits(gpu_milli=2000), terms=Terms(over_quota=OverQuota.QUEUE))
    epoch = await store.claim()
    submitted = await store.submit([a_gang(2, tenant_id="lab"), a_gang(2, tenant_id="lab")], 10)
    assert submitted.held == {1, 2}
    assert (await the_job(store)).held
    wanted = [replace(start, admission=Admission.NOW) for job in (1, 2) for start in placed(2, job_id=job)]
    receipt = await store.commit(epoch, Batch(15, assigned=[*wanted[:1], *wanted[2:], wanted[1]]))
    assert {change.attempt_id.job_id for change in receipt.refused if isinstance(change, Assigned)} == {2}
    lab = await store.tenant("lab")
    assert lab is not None
    assert lab.used.gpu_milli == 2000
    assert await store.recount(epoch) == []


async def test_what_waits_is_closed_with_its_cause(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_gang()], 10)
    closed = [
        TaskClosed(TaskId(1, task), Happening.FAILED, Cause.WAITED_TOO_LONG, "too long") for task in range(3)
    ]
    assert not (await store.commit(epoch, Batch(20, closed=closed))).refused
    job = await the_job(store)
    assert (job.status, job.cause, job.detail, job.ended_ms) == (
        Status.FAILED,
        Cause.WAITED_TOO_LONG,
        "too long",
        20,
    )
    tasks = await store.tasks(1, TaskPaging())
    assert {(task.cause, task.detail) for task in tasks} == {(Cause.WAITED_TOO_LONG, "too long")}
    assert (await store.tenants())[0].job_use.waiting == 0


async def test_one_task_of_several_is_lost_and_returns(store: Store) -> None:
    epoch = await a_running_gang(store, replace(a_gang(), fail_together=False))
    how = Exit(Cause.NODE_LOST, started_ms=21, ended_ms=80)
    await store.commit(epoch, Batch(80, lost=[AttemptLost(nth(1), how, requeue=True)]))
    job = await the_job(store)
    assert (job.status, job.counts) == (Status.RUNNING, {Status.RUNNING: 2, Status.PENDING: 1})
    await store.commit(epoch, Batch(81, ended=[ended(0)]))
    (first, second) = (await store.load()).tasks
    assert first.gang == second.gang == Gang(3, repairs=True, over=1)
    assert not (await store.commit(epoch, Batch(90, returned=[AttemptReturned(nth(1), 21)]))).refused
    assert (await the_job(store)).counts == {Status.RUNNING: 2, Status.COMPLETED: 1}
    assert await store.recount(epoch) == []


async def test_tasks_come_in_pages_and_by_status(store: Store) -> None:
    epoch = await a_running_gang(store, a_gang(3))
    await store.commit(epoch, Batch(80, ended=[ended(1)]))
    page = await store.tasks(1, TaskPaging(limit=2))
    assert [task.task_id.task_index for task in page] == [0, 1]
    rest = await store.tasks(1, TaskPaging(limit=2, after=1))
    assert [task.task_id.task_index for task in rest] == [2]
    runs = await store.tasks(1, TaskPaging(statuses=frozenset({Status.RUNNING, Status.PENDING})))
    assert [(task.task_id.task_index, task.attempt and task.attempt.node_id) for task in runs] == [
        (0, "n0"),
        (2, "n2"),
    ]
    assert await store.tasks(9, TaskPaging()) == []


async def test_statuses_of_all_tasks_are_runs_in_their_order(store: Store) -> None:
    epoch = await a_running_gang(store, a_gang(3))
    assert await store.task_statuses(1) == [(Status.RUNNING, 3)]
    await store.commit(epoch, Batch(80, ended=[ended(1)]))
    (second,) = await store.tasks(1, TaskPaging(limit=1, after=0))
    assert await store.task_statuses(1) == [(Status.RUNNING, 1), (second.status, 1), (Status.RUNNING, 1)]
    assert await store.task_statuses(9) == []


async def test_a_tenant_that_moves_takes_all_tasks_along(store: Store) -> None:
    await a_tenant(store, "lab")
    await a_tenant(store, "lab/one")
    epoch = await a_running_gang(store, a_gang(tenant_id="lab/one"))
    await store.move_tenant("lab/one", "two", ROOT, 30)
    two = await store.tenant("two")
    assert two is not None
    assert (two.used.gpu_milli, two.job_use.running) == (3000, 3)
    assert {task.tenant_id for task in (await store.load()).tasks} == {"two"}
    assert await store.recount(epoch) == []
    await store.update_tenant("two", setting(weight=2), ROOT, 31)


async def test_an_answer_is_given_again_for_a_gang_that_is_held(store: Store) -> None:
    await a_tenant(store, "lab", limits=Limits(gpu_milli=4000), terms=Terms(over_quota=OverQuota.QUEUE))
    key = IdempotencyKey("ann", "k", "d")
    first = await store.submit([a_gang(tenant_id="lab")], 10, key)
    again = await store.submit([a_gang(tenant_id="lab")], 11, key)
    assert (again.job_ids, again.replayed, again.held) == (first.job_ids, True, first.held)


def test_groups_are_found_by_the_number_of_a_task() -> None:
    request = a_job().groups[0].request
    spec = JobSpec("ann", (Group("a", request, tasks=2), Group("b", request, tasks=3)))
    assert [spec.group_of(task).command for task in range(5)] == ["a", "a", "b", "b", "b"]
    with pytest.raises(IndexError, match="a job of 5 tasks has no task 5"):
        spec.group_of(5)


async def test_a_job_that_fails_as_a_whole_ends_as_the_task_did_by_which_it_does(store: Store) -> None:
    epoch = await a_running_gang(store)
    await store.commit(epoch, Batch(91, ended=[ended(0, Happening.FAILED, exit_code=1)]))
    second = ended(1, Happening.FAILED, exit_code=42, at_ms=95)
    decisive = replace(second, fails_job="task 1 was the end of it")
    later = ended(2, Happening.FAILED, exit_code=3, at_ms=97)
    await store.commit(epoch, Batch(98, ended=[decisive, later]))
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.exit_code, job.detail) == (Status.FAILED, 42, "task 1 was the end of it")
