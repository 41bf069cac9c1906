"""Series on every store: rows appear, and quotas are charged, as tasks are needed."""

import time
from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_job, a_node, a_tenant, an_array, setting
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit, Job, JobSpec
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.quota import Admission, JobLimits, Limits, OverQuota
from tgpu.domain.retries import FailureAction, FailureRule, Retries
from tgpu.domain.series import FIRST_BORN, Mode, Series
from tgpu.domain.tenant import Terms
from tgpu.store import growth
from tgpu.store.needs_port import NotWaitingError
from tgpu.store.port import Assigned, AttemptEnded, Batch, DeposedError, Started, Store, TaskClosed
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.series_port import Dropped, Grown, RestartAsked, WithoutIndexError
from tgpu.store.task_paging import TaskPaging


def nth(task: int, number: int = 1, job_id: int = 1) -> AttemptId:
    return AttemptId(job_id, task, number)


def placed(*tasks: int, number: int = 1) -> list[Assigned]:
    return [Assigned(nth(task, number), "n1", (0,)) for task in tasks]


def ended(
    task: int, happening: Happening = Happening.SUCCEEDED, code: int = 0, number: int = 1, **fields: object
) -> AttemptEnded:
    how = Exit(Cause.EXITED, code, started_ms=20, ended_ms=90)
    return AttemptEnded(nth(task, number), how, happening, "as told", **fields)  # type: ignore[arg-type]


async def the_job(store: Store) -> Job:
    job = await store.job(1)
    assert job is not None
    return job


async def submitted(store: Store, spec: JobSpec) -> int:
    """Returns the epoch."""
    epoch = await store.claim()
    await store.commit(epoch, Batch(5, nodes=[a_node("n1")]))
    await store.submit([spec], 10)
    return epoch


async def used(store: Store, tenant_id: str = "default") -> tuple[int, int]:
    """(thousandths of GPUs, tasks that wait)."""
    tenant = await store.tenant(tenant_id)
    assert tenant is not None
    return tenant.used.gpu_milli, tenant.job_use.waiting


async def test_of_very_many_tasks_only_the_first_have_rows(store: Store) -> None:
    await submitted(store, an_array())
    job = await the_job(store)
    assert (job.counts, job.born, job.status) == ({Status.PENDING: 100_000}, FIRST_BORN, Status.PENDING)
    changes = await store.changes(0)
    assert len(changes.submitted) == FIRST_BORN
    assert changes.series == [job]
    assert (await store.load()).series == [job]
    assert len(await store.tasks(1, TaskPaging())) == FIRST_BORN
    assert await used(store) == (64_000, 64)


async def test_tasks_without_an_index_are_not_taken_for_nobody_could_launch_them(store: Store) -> None:
    spec = an_array(3)
    with pytest.raises(WithoutIndexError, match="a series of 3 tasks has 2 indices"):
        await store.submit([a_job(), replace(spec, series=Series(IndexSet.of([4, 5])))], 10)
    assert await used(store) == (0, 0)
    assert (await store.submit([spec], 11)).job_ids == [1]


async def test_a_series_grows_by_as_many_as_are_asked_for_up_to_its_end(store: Store) -> None:
    epoch = await submitted(store, an_array(100, at_once=3))
    receipt = await store.commit(epoch, Batch(20, grown=[Grown(1, 5)]))
    (grown,) = receipt.grown
    assert (grown.job_id, grown.born) == (1, 8)
    assert [task.task_id for task in grown.tasks] == [TaskId(1, index) for index in range(3, 8)]
    world = await store.load()
    assert [task.task_id.task_index for task in world.tasks] == list(range(8))
    assert world.tasks[3:] == grown.tasks
    receipt = await store.commit(epoch, Batch(30, grown=[Grown(1, 500), Grown(9, 1)]))
    assert [(each.job_id, each.born, len(each.tasks)) for each in receipt.grown] == [(1, 100, 92)]
    receipt = await store.commit(epoch, Batch(40, grown=[Grown(1, 500)]))
    assert [len(each.tasks) for each in receipt.grown] == [0]
    assert (await the_job(store)).counts == {Status.PENDING: 100}
    assert await used(store) == (100_000, 100)


async def test_who_leaves_in_the_same_transaction_makes_room_in_the_quota(store: Store) -> None:
    await store.update_tenant("default", setting(limits=Limits(gpu_milli=2000)), ROOT, 1)
    epoch = await submitted(store, an_array(10))
    assert (await the_job(store)).born == 2
    receipt = await store.commit(epoch, Batch(20, assigned=placed(0, 1), grown=[Grown(1, 8)]))
    assert (receipt.refused, receipt.grown[0].tasks) == ([], [])
    receipt = await store.commit(epoch, Batch(30, ended=[ended(0)], grown=[Grown(1, 8)]))
    assert [task.task_id.task_index for task in receipt.grown[0].tasks] == [2]
    assert await used(store) == (2000, 1)
    assert await store.recount(epoch) == []


async def test_a_series_keeps_no_job_out_that_is_submitted_with_it(store: Store) -> None:
    await a_tenant(store, "lab", limits=Limits(gpu_milli=3000))
    both = [an_array(tenant_id="lab"), a_job(tenant_id="lab", gpu_milli=2000)]
    await store.submit(both, 10)
    assert ((await the_job(store)).born, await used(store, "lab")) == (1, (3000, 2))
    with pytest.raises(QuotaExceededError) as refused:
        await store.submit(both, 11)
    assert (refused.value.dimension, refused.value.asked, refused.value.tenant.used.gpu_milli) == (
        "gpu_milli",
        3000,
        3000,
    )


async def test_where_jobs_are_held_a_series_needs_room_for_one_task_at_a_time(store: Store) -> None:
    terms = Terms(over_quota=OverQuota.QUEUE)
    limits, waiting = Limits(gpu_milli=2000), JobLimits(waiting=80)
    await a_tenant(store, "lab", limits=limits, job_limits=waiting, terms=terms)
    epoch = await submitted(store, an_array(tenant_id="lab"))
    assert ((await the_job(store)).born, await used(store, "lab")) == (FIRST_BORN, (0, 64))
    job = await the_job(store)
    for gpus in (2000, 1000):
        group = job.spec.groups[0]
        larger = replace(group, request=replace(group.request, gpu_milli=gpus))
        job = await store.edit(job, replace(job.spec, groups=(larger,)), "ann", 15, {})
        assert job.spec.groups[0].request.gpu_milli == gpus
    starts = [replace(each, admission=Admission.NOW) for each in placed(0, 1, 2)]
    receipt = await store.commit(epoch, Batch(20, assigned=starts, grown=[Grown(1, 100)]))
    assert receipt.refused == starts[2:]
    assert ((await the_job(store)).born, await used(store, "lab")) == (82, (2000, 80))
    assert await store.recount(epoch) == []


async def test_a_series_of_which_not_one_task_is_admitted_is_refused(store: Store) -> None:
    await a_tenant(store, "small", limits=Limits(gpu_milli=500))
    with pytest.raises(QuotaExceededError, match="gpu"):
        await store.submit([an_array(10, tenant_id="small")], 10)
    await a_tenant(store, "few", job_limits=JobLimits(waiting=5))
    await store.submit([an_array(10, tenant_id="few")], 10)
    assert (await used(store, "few"))[1] == 5


async def test_what_never_gets_rows_counts_as_cancelled(store: Store) -> None:
    epoch = await submitted(store, an_array(1000, at_once=2))
    await store.commit(epoch, Batch(20, assigned=placed(0, 1)))
    await store.commit(epoch, Batch(25, started=[Started(nth(0), 22)]))
    failed = ended(0, Happening.FAILED, 3)
    receipt = await store.commit(
        epoch, Batch(30, ended=[failed], dropped=[Dropped(1, Cause.JOB_FAILED, "index 0 failed")])
    )
    assert "dropped" in [event.kind for event in receipt.events]
    job = await the_job(store)
    assert job.counts == {Status.SCHEDULED: 1, Status.FAILED: 1, Status.CANCELLED: 998}
    assert (job.dropped, job.born, job.status) == (998, 2, Status.SCHEDULED)
    receipt = await store.commit(
        epoch, Batch(40, ended=[ended(1)], grown=[Grown(1, 5)], dropped=[Dropped(1, Cause.JOB_FAILED)])
    )
    assert [len(each.tasks) for each in receipt.grown] in ([], [0])
    job = await the_job(store)
    assert (job.status, job.exit_code, job.detail) == (Status.FAILED, 3, "as told")
    assert job.counts == {Status.COMPLETED: 1, Status.FAILED: 1, Status.CANCELLED: 998}
    assert await used(store) == (0, 0)
    assert (await store.load()).series == []


async def test_a_failure_that_counts_is_remembered_with_when_it_may_be_tried_again(store: Store) -> None:
    rule = FailureRule(FailureAction.FAIL_JOB, exit_codes=(3,), causes=(Cause.EXITED,))
    retries = Retries(3, rules=(rule,))
    epoch = await submitted(store, replace(an_array(3), retries=retries))
    await store.commit(epoch, Batch(20, assigned=placed(0)))
    again = ended(0, Happening.REQUEUED, 1, counts=True, eligible_ms=99_000)
    receipt = await store.commit(epoch, Batch(30, ended=[again]))
    assert not receipt.refused
    task, other, _ = (await store.load()).tasks
    assert (task.failures, task.eligible_ms, task.retries, task.attempts) == (1, 99_000, retries, 1)
    assert (other.failures, other.eligible_ms) == (0, 0)
    assert (await the_job(store)).failures == 1
    await store.commit(epoch, Batch(40, assigned=placed(0, number=2)))
    await store.commit(epoch, Batch(50, ended=[ended(0, Happening.FAILED, 1, 2, counts=True)]))
    assert (await the_job(store)).failures == 2


async def test_a_single_job_remembers_its_failures_too(store: Store) -> None:
    epoch = await submitted(store, a_job(retries=Retries(2)))
    await store.commit(epoch, Batch(20, assigned=placed(0)))
    again = ended(0, Happening.REQUEUED, 1, counts=True, eligible_ms=77)
    await store.commit(epoch, Batch(30, ended=[again]))
    (task,) = (await store.load()).tasks
    assert (task.failures, task.eligible_ms, task.retries) == (1, 77, Retries(2))
    assert (await the_job(store)).status is Status.PENDING


async def test_some_tasks_can_be_cancelled_also_before_they_have_rows(store: Store) -> None:
    epoch = await submitted(store, an_array(10, at_once=2))
    seq = await store.last_seq()
    before = await store.cancel_tasks(1, IndexSet.of([1, 2, 4]), "bob", 20)
    assert before is not None
    changes = await store.changes(seq)
    (asked,) = changes.tasks_cancelled
    assert (asked.job_id, list(asked.positions), asked.by, asked.now) == (1, [1, 2, 4], "bob", False)
    assert changes.cancels == []
    assert [task.cancel_by for task in (await store.load()).tasks] == [None, "bob"]
    receipt = await store.commit(epoch, Batch(30, grown=[Grown(1, 2)]))
    assert [task.task_id.task_index for task in receipt.grown[0].tasks] == [3, 5]
    assert receipt.grown[0].born == 6
    job = await the_job(store)
    assert job.counts == {Status.PENDING: 8, Status.CANCELLED: 2}
    assert [(task.status, task.detail) for task in await store.tasks(1, TaskPaging(after=3, limit=1))] == [
        (Status.CANCELLED, "cancelled by bob")
    ]
    assert await used(store) == (4000, 4)
    assert await store.cancel_tasks(7, IndexSet.first(1), "bob", 20) is None


async def test_who_is_cancelled_without_a_row_counts_as_that_and_not_twice(store: Store) -> None:
    epoch = await submitted(store, an_array(10, at_once=2))
    await store.cancel_tasks(1, IndexSet(((5, 9, 2),)), "bob", 20)
    await store.cancel_tasks(1, IndexSet.of([6, 7, 8]), "ann", 20)
    for _ in range(2):
        receipt = await store.commit(epoch, Batch(30, grown=[Grown(1, 0)]))
        assert (receipt.grown[0].born, receipt.grown[0].tasks) == (2, [])
        assert (await the_job(store)).counts == {Status.PENDING: 5, Status.CANCELLED: 5}
    await store.cancel_tasks(1, IndexSet.of([0, 1, 2, 3, 4]), "bob", 40)
    receipt = await store.commit(epoch, Batch(50, grown=[Grown(1, 0)]))
    assert (receipt.grown[0].born, receipt.grown[0].tasks) == (10, [])
    assert (await the_job(store)).counts == {Status.PENDING: 2, Status.CANCELLED: 8}
    closed = [TaskClosed(TaskId(1, task), Happening.CANCELLED, Cause.CANCELLED) for task in (0, 1)]
    await store.commit(epoch, Batch(60, closed=closed))
    assert (await the_job(store)).status is Status.CANCELLED


async def test_a_long_tail_that_is_cancelled_never_gets_rows(store: Store) -> None:
    epoch = await submitted(store, an_array(10_000, at_once=1))
    await store.cancel_tasks(1, IndexSet(((2, 9999, 1),)), "bob", 20)
    await store.commit(epoch, Batch(30, grown=[Grown(1, 0)]))
    assert (await the_job(store)).counts == {Status.PENDING: 2, Status.CANCELLED: 9998}
    receipt = await store.commit(epoch, Batch(40, grown=[Grown(1, 1)]))
    assert receipt.grown[0].born == 10_000
    job = await the_job(store)
    assert job.counts == {Status.PENDING: 2, Status.CANCELLED: 9998}
    assert (job.born or 0) + job.dropped == 10_000
    assert job.dropped > 5000


async def test_a_commit_tells_of_those_that_were_cancelled_before_they_had_rows(store: Store) -> None:
    epoch = await submitted(store, an_array(10, at_once=2))
    await store.cancel_tasks(1, IndexSet.of([2, 3]), "bob", 20)
    receipt = await store.commit(epoch, Batch(30, grown=[Grown(1, 1)]))
    assert [(event.kind, event.task_index) for event in receipt.events] == [
        ("cancelled", 2),
        ("cancelled", 3),
    ]
    await store.submit([an_array(10_000, at_once=1)], 40)
    await store.cancel_tasks(2, IndexSet(((1, 9999, 1),)), "bob", 50)
    receipt = await store.commit(epoch, Batch(60, grown=[Grown(2, 0)]))
    assert [(event.kind, event.job_id, event.task_index) for event in receipt.events] == [
        ("dropped", 2, None)
    ]
    known = await store.events(after_seq=receipt.events[0].seq - 1)
    assert known == receipt.events


async def test_a_job_that_ends_drops_who_was_cancelled_once(store: Store) -> None:
    epoch = await submitted(store, an_array(10, at_once=2))
    await store.cancel_tasks(1, IndexSet.of([8]), "bob", 20)
    await store.commit(epoch, Batch(30, grown=[Grown(1, 0)]))
    await store.commit(epoch, Batch(40, dropped=[Dropped(1, Cause.JOB_FAILED)]))
    job = await the_job(store)
    assert (job.dropped, job.counts) == (8, {Status.PENDING: 2, Status.CANCELLED: 8})


def test_wishes_of_one_person_stay_short_however_many_they_are() -> None:
    wishes = growth.NOBODY
    for position in (7, *range(20, 400), 9):
        wishes = wishes.and_these("bob", IndexSet.of([position]))
    wishes = wishes.and_these("ann", IndexSet.of([8]))
    for _ in range(2):  # who says it twice, or says what others said before, says nothing new
        wishes = wishes.and_these("bob", IndexSet.of([7, 8])).and_these("bob", IndexSet(((5, 9, 2),)))
    assert [(by, len(ranges)) for by, ranges in wishes.wishes] == [("bob", 3), ("ann", 1), ("bob", 1)]
    found = growth.next_ones(wishes, 4, 1000, 3, 1000)
    assert found == [None, "bob", None, "bob", "ann", "bob", None]


def test_of_a_million_positions_those_that_overlap_are_counted_once_and_quickly() -> None:
    half = IndexSet(((0, 999_998, 2),))
    wishes = growth.NOBODY.and_these("bob", half).and_these("ann", IndexSet(((1, 999_999, 3),)))
    assert wishes.number_between(0, 1_000_000) == len({*half, *range(1, 1_000_000, 3)})
    assert wishes.number_between(999_990, 1_000_000) == 7
    assert wishes.number_between(5, 10) == 3
    began = time.thread_time()
    for _ in range(20):
        wishes.number_between(64, 1_000_000)
    assert time.thread_time() - began < 1, "every commit in which it grows does this"


async def test_how_many_are_live_at_once_is_changed_without_a_charge(store: Store) -> None:
    epoch = await submitted(store, an_array(10, at_once=2))
    await store.commit(epoch, Batch(20, assigned=placed(0)))
    before, was, seq = await the_job(store), await used(store), await store.last_seq()
    assert before.spec.series is not None
    spec = replace(before.spec, series=replace(before.spec.series, at_once=5))
    assert (await store.edit(before, spec, "ann", 30, {"at_once": 5})).spec == spec
    assert await used(store) == was
    assert [job.spec.series for job in (await store.changes(seq)).series] == [spec.series]
    with pytest.raises(NotWaitingError):
        await store.edit(await the_job(store), replace(spec, priority=5), "ann", 31, {})


async def test_tasks_that_have_a_node_can_be_asked_to_start_anew(store: Store) -> None:
    epoch = await submitted(store, an_array(3))
    await store.commit(epoch, Batch(20, assigned=placed(1)))
    seq = await store.last_seq()
    assert await store.restart_tasks(1, [0, 1, 2], "ann", 25) == [1]
    assert await store.restart_tasks(1, [1], "ann", 26) == []
    assert (await store.changes(seq)).restarts == [RestartAsked(1, 1, "ann")]
    assert (await store.load()).restarts == [RestartAsked(1, 1, "ann")]
    await store.commit(epoch, Batch(30, ended=[ended(1, Happening.REQUEUED, 143)]))
    assert (await store.load()).restarts == []


async def test_a_suspended_job_is_told_of_with_its_tasks(store: Store) -> None:
    epoch = await submitted(store, an_array(3))
    await store.commit(epoch, Batch(20, assigned=placed(1)))
    seq = await store.last_seq()
    before = await store.suspend(1, "ann", 30)
    assert before is not None
    assert before.timing is None
    changes = await store.changes(seq)
    assert changes.suspended == [1]
    assert {task.timing.suspended_by for task in changes.altered if task.timing} == {"ann"}
    assert await store.last_seq() == seq + 1
    await store.suspend(1, "bob", 31)
    assert await store.last_seq() == seq + 1
    await store.resume(1, "ann", 40)
    assert all(task.timing is None or not task.timing.is_parked for task in (await store.load()).tasks)
    assert await store.suspend(9, "ann", 30) is None


async def test_a_work_queue_is_done_once_one_has_succeeded_and_all_have_ended(store: Store) -> None:
    epoch = await submitted(store, an_array(3, mode=Mode.WORK_QUEUE))
    await store.commit(epoch, Batch(20, assigned=placed(0, 1, 2)))
    await store.commit(epoch, Batch(30, ended=[ended(0)]))
    assert (await the_job(store)).status is Status.SCHEDULED
    await store.commit(epoch, Batch(40, ended=[ended(1, Happening.FAILED, 1), ended(2)]))
    job = await the_job(store)
    assert (job.status, job.exit_code, job.counts) == (
        Status.COMPLETED,
        0,
        {Status.COMPLETED: 2, Status.FAILED: 1},
    )


async def test_a_series_of_one_is_a_job_like_any_other(store: Store) -> None:
    epoch = await submitted(store, an_array(1))
    job = await the_job(store)
    assert (job.counts, job.born) == (None, None)
    assert (await store.load()).series == [job]
    receipt = await store.commit(
        epoch, Batch(20, assigned=placed(0), grown=[Grown(1, 1)], dropped=[Dropped(1, Cause.CANCELLED)])
    )
    assert [each.tasks for each in receipt.grown] in ([], [[]])
    await store.commit(epoch, Batch(30, ended=[ended(0)]))
    assert (await the_job(store)).status is Status.COMPLETED
    assert await used(store) == (0, 0)


async def test_a_job_that_need_not_be_remembered_is_forgotten_and_what_it_used_is_not(store: Store) -> None:
    spec = replace(an_array(3), ttl_after_finished_s=10)
    epoch = await submitted(store, spec)
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(20, assigned=placed(0, 1, 2)))
    await store.commit(epoch, Batch(30, ended=[ended(0), ended(1), ended(2)]))
    assert await store.forget(epoch, 10_089) == 0
    assert await store.forget(epoch, 10_090) == 1
    assert await store.job(1) is None
    assert await store.attempts(1) == []
    assert await store.tasks(1, TaskPaging()) == []
    assert len(await store.usage(1)) == 3
    assert [event.job_id for event in await store.events()] == [2]
    assert (await store.submit([a_job()], 20)).job_ids == [3]
    with pytest.raises(DeposedError):
        await store.forget(epoch - 1, 20_000)
