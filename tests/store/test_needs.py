"""Jobs that wait for others, that are held, and that are changed while they wait, on every store."""

from dataclasses import replace

import pytest

from tests.store.ledger_story import counts, gpu_job, gpus, limit, seen, tenant
from tests.store.store_story import ROOT, a_job, assign, end, running
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.needs import SINGLETON, Need, NeedKind
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.series import Series
from tgpu.domain.timing import Timing
from tgpu.store.access_port import Token, TokenSpentError
from tgpu.store.needs_port import ChangedMeanwhileError, NeedRow, NotWaitingError, UnknownNeedError
from tgpu.store.port import Batch, Store, TaskClosed
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.series_port import Dropped

OK, ANY = NeedKind.OK, NeedKind.ANY


def after(*needs: Need, **fields: object) -> JobSpec:
    return a_job(needs=needs, **fields)


async def test_a_job_that_needs_another_waits_until_it_is_released(store: Store) -> None:
    epoch = await running(store)
    await store.submit([after(Need(OK, 1))], 30)
    job = await store.job(2)
    assert job is not None
    assert job.timing == Timing(unmet=True)
    changes = await store.changes(0)
    assert [brief.timing for brief in changes.submitted] == [Timing(unmet=True)]
    assert changes.needs == [NeedRow(2, 1, OK, Status.RUNNING)]
    await store.commit(epoch, Batch(100, ended=[end(Happening.SUCCEEDED)]))
    assert (await store.load()).needs == [NeedRow(2, 1, OK, Status.COMPLETED)]
    receipt = await store.commit(epoch, Batch(110, released=[2, 2, 1, 77]))
    assert [(event.kind, event.job_id, event.task_index) for event in receipt.events] == [
        ("needs-met", 2, None)
    ]
    world = await store.load()
    assert world.needs == []
    assert [task.timing for task in world.tasks] == [Timing(ready_ms=110)]


async def test_who_waits_for_a_job_that_is_not_there_is_refused_and_charged_for_nothing(store: Store) -> None:
    await tenant(store, limits=Limits(gpu_milli=4000))
    with pytest.raises(UnknownNeedError) as refused:
        await store.submit([gpu_job(), replace(gpu_job(), needs=(Need(ANY, 9),))], 10)
    assert (refused.value.place, refused.value.on_job_id) == (1, 9)
    assert await gpus(store) == (0, 0)
    assert await counts(store) == (0, 0)
    assert await store.job(1) is None


async def test_jobs_of_one_submission_name_each_other_by_their_place(store: Store) -> None:
    await store.submit([a_job()], 10)
    await store.submit(
        [after(Need(OK, 1, within=True)), a_job(), after(Need(ANY, 1), Need(OK, 0, within=True))], 20
    )
    assert await store.needs_around([2]) == [
        NeedRow(2, 3, OK, Status.PENDING),
        NeedRow(4, 2, OK, Status.PENDING),
    ]
    assert await store.needs_around([1, 4]) == [
        NeedRow(4, 1, ANY, Status.PENDING),
        NeedRow(4, 2, OK, Status.PENDING),
    ]
    job = await store.job(4)
    assert job is not None
    assert job.spec.needs == (Need(ANY, 1), Need(OK, 2))


async def test_a_singleton_waits_for_nobody_in_particular(store: Store) -> None:
    await store.submit([after(SINGLETON)], 10)
    assert (await store.changes(0)).needs == [NeedRow(1, 0, NeedKind.SINGLETON, None)]


async def test_a_held_job_is_not_given_a_node_and_is_told_of_again_when_it_is_released(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    seq = (await store.changes(0)).seq
    before = await store.hold([1, 8], "ann", 20)
    assert before[0] is not None
    assert before[0].timing is None
    assert before[1] is None
    assert (await store.hold([1], "bob", 21))[0] is not None
    job = await store.job(1)
    assert job is not None
    assert job.timing == Timing(held_by="ann")
    late = await store.commit(epoch, Batch(25, seen_seq=seq, assigned=[assign()]))
    assert late.refused == [assign()]
    changes = await store.changes(seq)
    assert [brief.timing for brief in changes.altered] == [Timing(held_by="ann")]
    await store.release([1], "ann", 30)
    changes = await store.changes(changes.seq)
    assert [brief.timing for brief in changes.altered] == [Timing(ready_ms=30)]
    receipt = await store.commit(epoch, Batch(35, seen_seq=changes.seq, assigned=[assign()]))
    assert not receipt.refused
    assert [(event.kind, dict(event.data)) for event in await store.events(job_id=1)][1:3] == [
        ("held", {"by": "ann"}),
        ("released", {"by": "ann"}),
    ]


async def test_what_runs_or_is_over_is_not_held(store: Store) -> None:
    epoch = await running(store)
    await store.hold([1], "ann", 30)
    job = await store.job(1)
    assert job is not None
    assert job.timing is None
    await store.commit(epoch, Batch(100, ended=[end(Happening.SUCCEEDED)]))
    await store.hold([1], "ann", 110)
    await store.release([1], "ann", 110)
    job = await store.job(1)
    assert job is not None
    assert job.timing is None


async def test_a_job_that_is_submitted_held_begins_so(store: Store) -> None:
    timing = Timing(begin_ms=500, deadline_ms=900, again_on_timeout=True, held_by="ann")
    await store.submit([a_job(timing=timing)], 10)
    (brief,) = (await store.changes(0)).submitted
    assert brief.timing == timing
    assert brief.eligible_ms == 500
    assert (await store.load()).tasks == [brief]


def other(spec: JobSpec, gpu_milli: int | None = None, **fields: object) -> JobSpec:
    if gpu_milli is not None:
        request = replace(spec.groups[0].request, gpu_milli=gpu_milli)
        fields["groups"] = (replace(spec.groups[0], request=request),)
    return replace(spec, **fields)  # type: ignore[arg-type]


async def test_an_edit_reaches_the_row_its_tasks_and_the_ledger(store: Store) -> None:
    epoch = await store.claim()
    await tenant(store, limits=Limits(gpu_milli=4000))
    await store.submit([gpu_job(1), gpu_job(2)], 10)
    seq = (await store.changes(0)).seq
    before = await store.job(1)
    assert before is not None
    timing = Timing(begin_ms=70)
    spec = other(before.spec, 2000, name="new", priority=7, time_limit_s=60, timing=timing, max_wait_s=5)
    spec = replace(spec, priority_class=PriorityClass.LOW)
    after = await store.edit(before, spec, "ann", 20, {"gpu_request": 2})
    assert after.spec == spec
    assert after == await store.job(1)
    assert await gpus(store) == (4000, 0)
    assert await counts(store) == (0, 2)
    (brief,) = (await store.changes(seq)).altered
    assert (brief.name, brief.priority, brief.time_limit_s, brief.max_wait_s) == ("new", 7, 60, 5)
    assert (brief.priority_class, brief.request.gpu_milli) == (PriorityClass.LOW, 2000)
    assert (brief.timing, brief.eligible_ms) == (timing, 70)
    # What was decided on the job as it was does not hold any more.
    assert (await store.commit(epoch, Batch(25, seen_seq=seq, assigned=[assign()]))).refused == [assign()]
    (event,) = [event for event in await store.events(job_id=1) if event.kind == "edited"]
    assert dict(event.data) == {"by": "ann", "gpu_request": 2}
    closed = [TaskClosed(after.task_id, Happening.CANCELLED, Cause.CANCELLED)]
    await store.commit(epoch, Batch(30, closed=closed))
    assert await gpus(store) == (2000, 0)
    assert await counts(store) == (0, 1)
    assert await store.recount(epoch) == []


async def test_an_edit_beyond_the_quota_changes_nothing(store: Store) -> None:
    await tenant(store, limits=Limits(gpu_milli=4000))
    await store.submit([gpu_job(1), gpu_job(2)], 10)
    before = await store.job(1)
    assert before is not None
    with pytest.raises(QuotaExceededError):
        await store.edit(before, other(before.spec, 3000), "ann", 20, {})
    assert await store.job(1) == before
    assert await gpus(store) == (3000, 0)


async def test_who_asks_for_less_is_not_held_to_limits_that_were_lowered(store: Store) -> None:
    epoch = await store.claim()
    await tenant(store, limits=Limits(gpu_milli=4000))
    await store.submit([gpu_job(4)], 10)
    await limit(store, gpu_milli=1000)
    before = await store.job(1)
    assert before is not None
    after = await store.edit(before, other(before.spec, 3000), "ann", 20, {})
    assert await gpus(store) == (3000, 0)
    assert not after.held
    with pytest.raises(QuotaExceededError):
        await store.edit(after, other(before.spec, 4000), "ann", 21, {})
    assert await store.recount(epoch) == []


async def test_an_edit_does_not_ask_for_a_place_among_those_that_wait(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(waiting=1))
    await store.submit([gpu_job(1)], 10)
    before = await store.job(1)
    assert before is not None
    await store.edit(before, other(before.spec, 2000), "ann", 20, {})
    assert await gpus(store) == (2000, 0)
    assert await counts(store) == (0, 1)


async def test_only_what_waits_and_is_as_it_was_seen_is_edited(store: Store) -> None:
    await running(store)
    await store.submit([a_job()], 30)
    runs, waits = await store.job(1), await store.job(2)
    assert runs is not None
    assert waits is not None
    with pytest.raises(NotWaitingError):
        await store.edit(runs, other(runs.spec, priority=1), "ann", 40, {})
    await store.edit(waits, other(waits.spec, priority=1), "ann", 40, {})
    with pytest.raises(ChangedMeanwhileError):
        await store.edit(waits, other(waits.spec, priority=2), "ann", 41, {})


async def test_an_edit_keeps_what_holds_a_job_back(store: Store) -> None:
    await running(store)
    await store.submit([after(Need(OK, 1))], 30)
    await store.hold([2], "ann", 31)
    before = await store.job(2)
    assert before is not None
    edited = await store.edit(before, other(before.spec, timing=Timing(deadline_ms=99)), "ann", 40, {})
    assert edited.timing == Timing(deadline_ms=99, held_by="ann", unmet=True)


async def test_the_hours_of_a_token_follow_an_edit(store: Store) -> None:
    token = Token(0, "ann", "user", "digest", "", 1, None, gpu_ms_left=200_000)
    token_id = (await store.create_token(token, ROOT, 1)).token_id
    await store.submit([a_job(time_limit_s=40, grace_s=0)], 10, token_id=token_id)

    async def left() -> list[int | None]:
        return [token.gpu_ms_left for token in await store.tokens()]

    assert await left() == [160_000]
    before = await store.job(1)
    assert before is not None
    longer = await store.edit(before, other(before.spec, time_limit_s=100), "ann", 20, {})
    assert await left() == [100_000]
    with pytest.raises(TokenSpentError):
        await store.edit(longer, other(before.spec, time_limit_s=201), "ann", 21, {})
    await store.edit(longer, other(before.spec, time_limit_s=10), "ann", 22, {})
    assert await left() == [190_000]


async def test_the_hours_of_a_token_follow_an_edit_for_tasks_that_have_no_rows_yet(store: Store) -> None:
    epoch = await store.claim()
    token = Token(0, "ann", "user", "digest", "", 1, None, gpu_ms_left=20_000_000)
    token_id = (await store.create_token(token, ROOT, 1)).token_id
    spec = a_job(time_limit_s=40, grace_s=0)
    indices = IndexSet.first(100)
    many = replace(spec, groups=(replace(spec.groups[0], tasks=100),), series=Series(indices))
    await store.submit([many], 10, token_id=token_id)

    async def left() -> list[int | None]:
        return [token.gpu_ms_left for token in await store.tokens()]

    assert await left() == [16_000_000]
    before = await store.job(1)
    assert before is not None
    with pytest.raises(TokenSpentError, match="only jobs that were submitted with it"):
        await store.edit(before, replace(many, time_limit_s=100), "ann", 20, {}, token_id + 1)
    with pytest.raises(TokenSpentError, match=r"asks for 4\.5 more"):
        await store.edit(before, replace(many, time_limit_s=202), "ann", 20, {}, token_id)
    await store.edit(before, replace(many, time_limit_s=100), "ann", 20, {}, token_id)
    assert await left() == [10_000_000]
    await store.commit(epoch, Batch(30, dropped=[Dropped(1, Cause.CANCELLED, "")]))
    assert await left() == [10_000_000 + 36 * 100_000]


async def test_a_gang_is_edited_whole(store: Store) -> None:
    epoch = await store.claim()
    await tenant(store, limits=Limits(gpu_milli=4000))
    spec = gpu_job(1)
    await store.submit([replace(spec, groups=(replace(spec.groups[0], tasks=2),))], 10)
    before = await store.job(1)
    assert before is not None
    await store.edit(before, other(before.spec, 2000), "ann", 20, {})
    assert (await seen(store)).used.gpu_milli == 4000
    assert [task.request.gpu_milli for task in (await store.load()).tasks] == [2000, 2000]
    assert await store.recount(epoch) == []


async def test_index_by_index_it_is_told_which_tasks_of_the_other_are_over(store: Store) -> None:
    epoch = await store.claim()
    spec = a_job()
    await store.submit([replace(spec, groups=(replace(spec.groups[0], tasks=3),))], 10)
    closed = [
        TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED),
        TaskClosed(TaskId(1, 2), Happening.FAILED, Cause.WAITED_TOO_LONG),
    ]
    receipt = await store.commit(epoch, Batch(20, closed=closed))
    assert receipt.sums == {1: Status.PENDING}
    await store.submit([after(Need(NeedKind.CORR, 1))], 30)
    ends = ((0, Status.CANCELLED), (2, Status.FAILED))
    expected = [NeedRow(2, 1, NeedKind.CORR, Status.PENDING, ends)]
    assert (await store.changes(0)).needs == expected
    assert (await store.load()).needs == expected


async def test_a_series_is_told_of_also_while_none_of_its_tasks_is_live(store: Store) -> None:
    indices = IndexSet(((0, 3, 1),))
    array = a_job(series=Series(indices), timing=None)
    two = replace(array, groups=(replace(array.groups[0], tasks=4),))
    epoch = await store.claim()
    await store.submit([two], 10)
    await store.submit([replace(two, series=Series(indices, 1), needs=(Need(NeedKind.CORR, 1),))], 20)
    failed = TaskClosed(TaskId(2, 0), Happening.FAILED, Cause.DEPENDENCY_FAILED, "")
    await store.commit(epoch, Batch(30, closed=[failed]))
    world = await store.load()
    assert {task.task_id.job_id for task in world.tasks} == {1}
    assert [(row.job_id, row.on) for row in world.needs] == [(2, 1)]
    for wish in (store.hold, store.release):
        seq = (await store.load()).seq
        await wish([2], "ann", 40)
        changes = await store.changes(seq)
        assert (changes.altered, [job.job_id for job in changes.series]) == ([], [2])
