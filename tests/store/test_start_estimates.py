"""First estimates of starts and recent run times, on every store."""

import pytest

from tests.store.store_story import a_job, a_node, an_array, end, running
from tgpu.domain.command_signature import signature_of
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.start_estimate import SCORED_KEPT, StartEstimate
from tgpu.store.estimate_port import EstimateChanges, PastRun
from tgpu.store.port import Batch, DeposedError, Store


def made(job_id: int, at_ms: int = 100) -> StartEstimate:
    return StartEstimate(job_id, at_ms, at_ms + 10, at_ms + 20, at_ms + 30)


async def test_first_estimate_of_a_job_is_kept_and_later_ones_are_not(store: Store) -> None:
    epoch = await store.claim()
    await store.note_start_estimates(epoch, EstimateChanges(made=[made(1), made(2)]))
    await store.note_start_estimates(epoch, EstimateChanges(made=[made(2, 500), made(3)]))
    assert await store.start_estimates() == [made(1), made(2), made(3)]


async def test_start_is_noted_once_and_only_of_jobs_with_an_estimate(store: Store) -> None:
    epoch = await store.claim()
    await store.note_start_estimates(epoch, EstimateChanges(made=[made(1)]))
    await store.note_start_estimates(epoch, EstimateChanges(started=[(1, 115), (7, 115)]))
    await store.note_start_estimates(epoch, EstimateChanges(started=[(1, 999)]))
    (scored,) = await store.start_estimates()
    assert await store.scored_start_estimates() == [scored]
    assert (scored.started_ms, scored.is_inside, scored.error_ms) == (115, True, -5)


async def test_estimate_of_a_job_that_will_not_start_is_dropped_and_a_scored_one_is_not(store: Store) -> None:
    epoch = await store.claim()
    changes = EstimateChanges(made=[made(1), made(2)], started=[(1, 115)], dropped=[1, 2, 3])
    await store.note_start_estimates(epoch, changes)
    assert [each.job_id for each in await store.start_estimates()] == [1]


async def test_only_the_latest_scored_estimates_are_kept(store: Store) -> None:
    epoch = await store.claim()
    jobs = range(1, SCORED_KEPT + 6)
    await store.note_start_estimates(epoch, EstimateChanges(made=[made(job_id) for job_id in jobs]))
    await store.note_start_estimates(
        epoch, EstimateChanges(made=[made(9999)], started=[(job_id, 10_000 - job_id) for job_id in jobs])
    )
    kept = await store.start_estimates()
    assert [each.job_id for each in kept] == [*range(1, SCORED_KEPT + 1), 9999]


async def test_deposed_leader_cannot_note_estimates(store: Store) -> None:
    epoch = await store.claim()
    await store.claim()
    with pytest.raises(DeposedError):
        await store.note_start_estimates(epoch, EstimateChanges(made=[made(1)]))
    assert await store.start_estimates() == []


async def test_run_times_of_ended_jobs_are_found_with_what_makes_them_similar(store: Store) -> None:
    spec = a_job(name="training", time_limit_s=60)
    epoch = await running(store, spec)
    await store.commit(epoch, Batch(26, nodes=[a_node()]))
    assert await store.recent_runs(10) == [], "it still runs"
    await store.commit(epoch, Batch(100, ended=[end(Happening.SUCCEEDED)]))
    past = PastRun("ann", "training", signature_of(spec), 1000, 60, 70, Cause.EXITED)
    assert await store.recent_runs(10) == [past]
    assert await store.recent_runs(0) == []


async def test_tasks_know_the_signature_of_their_command(store: Store) -> None:
    first, second = a_job(), an_array(3)
    await store.submit([first, second], 1)
    world = await store.load()
    assert {task.command for task in world.tasks if task.task_id.job_id == 1} == {signature_of(first)}
    assert {task.command for task in world.tasks if task.task_id.job_id == 2} == {signature_of(second)}
