import asyncio
from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_job, assign, running
from tgpu.domain.command_signature import signature_of
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event, Job, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.tenant import Tenant
from tgpu.store.port import (
    Batch,
    IdempotencyConflictError,
    IdempotencyKey,
    Store,
    Submitted,
    TaskClosed,
    UnknownTenantError,
)


async def test_a_submitted_job_is_pending_and_whole(store: Store) -> None:
    spec = a_job(name="train", priority=3, time_limit_s=60, requeue=False)
    assert await store.submit([spec], 10) == Submitted([1])
    assert await store.job(1) == Job(1, spec, Status.PENDING, 10)
    assert await store.job(2) is None
    assert await store.events() == [Event(1, 10, "submitted", 1, 0, {"name": "train"}, "ann")]


async def test_ids_count_up_and_a_refused_submission_uses_none(store: Store) -> None:
    assert (await store.submit([a_job(), a_job()], 1)).job_ids == [1, 2]
    with pytest.raises(UnknownTenantError, match="no tenant 'nobody'"):
        await store.submit([a_job(), a_job(tenant_id="nobody")], 2)
    assert (await store.submit([a_job()], 3)).job_ids == [3]
    assert await store.last_seq() == 3


async def test_an_empty_submission_is_harmless(store: Store) -> None:
    assert await store.submit([], 1) == Submitted([])
    assert await store.last_seq() == 0


async def test_the_same_key_and_body_give_the_first_answer_again(store: Store) -> None:
    key = IdempotencyKey("ann", "k", "d1")
    assert await store.submit([a_job(), a_job()], 1, key) == Submitted([1, 2])
    assert await store.submit([a_job(), a_job()], 2, key) == Submitted([1, 2], replayed=True)
    assert await store.submit([a_job()], 2, replace(key, user="bob")) == Submitted([3])
    with pytest.raises(IdempotencyConflictError, match="give this one a key of its own"):
        await store.submit([a_job()], 3, replace(key, body_digest="d2"))
    assert await store.last_seq() == 3


async def test_a_refused_submission_does_not_use_up_its_key(store: Store) -> None:
    key = IdempotencyKey("ann", "k", "d1")
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="x")], 1, key)
    assert await store.submit([a_job()], 1, replace(key, body_digest="d2")) == Submitted([1])


async def test_twenty_submissions_with_one_key_make_one_job(store: Store) -> None:
    key = IdempotencyKey("ann", "k", "d")
    answers = await asyncio.gather(*(store.submit([a_job()], 1, key) for _ in range(20)))
    assert [answer.job_ids for answer in answers] == [[1]] * 20
    assert sum(not answer.replayed for answer in answers) == 1


async def test_subscribers_are_woken_after_a_submission_and_a_wish_to_cancel(store: Store) -> None:
    woken: list[int] = []
    loop = asyncio.get_running_loop()

    def wake() -> None:
        assert asyncio.get_running_loop() is loop
        woken.append(1)

    store.subscribe(wake)
    await store.submit([a_job()], 1)
    await asyncio.sleep(0.01)
    assert len(woken) == 1
    await store.request_cancel([1], "bob", 2)
    await asyncio.sleep(0.01)
    assert len(woken) == 2
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="nobody")], 3)
    await store.claim()
    await asyncio.sleep(0.01)
    assert len(woken) == 2


async def test_those_who_follow_events_are_woken_when_there_are_new_ones(store: Store) -> None:
    woken: list[int] = []
    store.subscribe_events(lambda: woken.append(1))
    epoch = await store.claim()
    await store.submit([a_job()], 1)
    await asyncio.sleep(0.01)
    assert len(woken) == 1
    await store.commit(epoch, Batch(2, assigned=[assign()]))
    await asyncio.sleep(0.01)
    assert len(woken) == 2
    assert (await store.commit(epoch, Batch(3, assigned=[assign()]))).refused
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    await store.last_seq()
    await asyncio.sleep(0.01)
    assert len(woken) == 2


async def test_a_wish_to_cancel_is_recorded_once_and_on_live_jobs_only(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job(), a_job()], 1)
    await store.commit(
        epoch, Batch(2, closed=[TaskClosed(TaskId(2, 0), Happening.FAILED, Cause.WAITED_TOO_LONG)])
    )
    before = [await store.job(1), await store.job(2), None, await store.job(1)]
    assert await store.request_cancel([1, 2, 3, 1], "bob", 5) == before
    await store.request_cancel([1], "eve", 6)
    job = await store.job(1)
    assert job is not None
    assert (job.cancel_by, job.status) == ("bob", Status.PENDING)
    assert (await store.events())[3:] == [Event(4, 5, "cancel-requested", 1, None, {"by": "bob"}, "ann")]


async def test_who_is_cancelled_at_once_has_no_grace_any_more(store: Store) -> None:
    """Also if somebody asked for its end before; that one stays known as who did."""
    await store.submit([a_job(grace_s=40), a_job(grace_s=40), a_job()], 1)
    await store.request_cancel([1], "bob", 2)
    await store.request_cancel([1, 2], "eve", 3, now=True)
    await store.request_cancel([1, 2], "zoe", 4, now=True)
    await store.request_cancel([2, 3], "zoe", 5)
    assert (await store.changes(3)).cancels == [
        (1, "bob", False, 1),
        (1, "eve", True, 1),
        (2, "eve", True, 1),
        (3, "zoe", False, 1),
    ]
    tasks = (await store.load()).tasks
    assert [(task.cancel_by, task.grace_s) for task in tasks] == [("bob", 0), ("eve", 0), ("zoe", None)]
    told = [event.data for event in (await store.events())[3:]]
    assert told == [{"by": "bob"}, *[{"by": "eve", "now": True}] * 2, {"by": "zoe"}]
    job = await store.job(1)
    assert job is not None
    assert job.spec.grace_s == 40, "what was asked for stays on record"


async def test_changes_tell_what_was_asked_since(store: Store) -> None:
    spec = a_job(name="x", priority=7, max_wait_s=9, grace_s=4)
    await store.submit([spec, a_job("bob")], 10)
    await store.request_cancel([2], "eve", 11)
    first = await store.changes(0)
    assert (first.seq, first.more, first.cancels) == (3, False, [(2, "eve", False, 1)])
    assert first.submitted[0] == TaskBrief(
        TaskId(1, 0), Status.PENDING, spec.groups[0].request, "ann", "default", "x",
        spec.priority_class, 7, 10, 0, None, 9, True, 4, None, command=signature_of(spec),
    )  # fmt: skip
    assert [brief.cancel_by for brief in first.submitted] == [None, "eve"]
    nothing = await store.changes(3)
    assert (nothing.seq, nothing.submitted, nothing.cancels, nothing.more) == (3, [], [], False)


async def test_changes_come_in_portions(store: Store) -> None:
    await store.submit([a_job(), a_job(), a_job()], 1)
    portion = await store.changes(0, limit=2)
    assert (portion.seq, portion.more) == (2, True)
    rest = await store.changes(2, limit=2)
    assert (rest.seq, rest.more, [brief.task_id.job_id for brief in rest.submitted]) == (3, False, [3])


async def test_changes_leave_out_tasks_that_do_not_wait(store: Store) -> None:
    await running(store)
    assert (await store.changes(0)).submitted == []
    assert (await store.changes(0)).seq == 3


async def test_equal_requests_and_names_are_one_object_in_memory(store: Store) -> None:
    spec = a_job(name="training")
    await store.submit([spec, spec], 1)
    first, second = (await store.load()).tasks
    assert first.request is second.request
    assert first.user is second.user
    assert first.tenant_id is second.tenant_id
    assert first.name is second.name
