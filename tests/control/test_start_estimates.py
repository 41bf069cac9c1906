"""Expected starts in the control loop: estimated beside it, recorded once, scored, kept over terms."""

import asyncio
from collections.abc import Callable

from tests.control.control_story import FakeNode, Leader, play, says, spec
from tgpu.control.answers import Answers
from tgpu.control.start_estimates import FLUSH_S, Pass
from tgpu.core.estimates.run_times import Work
from tgpu.domain.command_signature import signature_of
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.start_estimate import ExpectedStart, StartEstimate
from tgpu.protocol.messages import AttemptReport, Phase
from tgpu.store.memory import MemoryStore

TRAIN = spec(gpus=2, name="train", time_limit_s=600)


async def inline(work: Callable[[], Pass]) -> Pass:
    return work()


async def a_leader(store: MemoryStore | None = None) -> tuple[Leader, FakeNode]:
    leader = Leader(store, estimate_s=2.0)
    assert leader.control.estimates is not None
    leader.control.estimates.aside = inline
    return leader, await leader.node()


def begins(node: FakeNode, attempt: str, at_ms: int) -> None:
    node.reports(AttemptReport(attempt=attempt, phase=Phase.RUNNING, started_ms=at_ms))


def ends(node: FakeNode, attempt: str, began_ms: int, at_ms: int, cause: Cause = Cause.EXITED) -> None:
    how = Exit(cause, exit_code=0, started_ms=began_ms, ended_ms=at_ms)
    node.reports(AttemptReport(attempt=attempt, phase=Phase.ENDED, started_ms=began_ms, exit=how))


async def passes(node: FakeNode, seconds: float) -> None:
    """Time, in which the node is heard."""
    for _ in range(round(seconds)):
        node.beats()
        await asyncio.sleep(1)


async def expected(leader: Leader, job_id: int) -> ExpectedStart | None:
    return (await Answers(lambda: leader.control, leader.hub).expected_starts([job_id]))[0]


def test_pending_job_has_an_expected_start_and_why_tells_it() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        await leader.submit(TRAIN, TRAIN)
        begins(node, "1.0.1", 100)
        cold = await Answers(lambda: leader.control, leader.hub).why(2)
        assert cold is not None
        assert cold.start is not None, "before the first pass, by time limits alone"
        assert cold.start.earliest_ms <= cold.start.expected_ms <= cold.start.latest_ms
        await passes(node, 5)
        found = await expected(leader, 2)
        assert found is not None
        assert found.interval is not None
        assert found.interval.basis == "time limits"
        why = await Answers(lambda: leader.control, leader.hub).why(2)
        assert why is not None
        assert why.start == found.interval
        assert await expected(leader, 1) is None, "it runs"

    play(story())


def test_run_times_that_have_ended_are_the_basis_of_the_next_estimate() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        await leader.submit(TRAIN, TRAIN, TRAIN)
        begins(node, "1.0.1", 1000)
        ends(node, "1.0.1", 1000, 31_000)
        await asyncio.sleep(0.1)
        begins(node, "2.0.1", 1000)
        await passes(node, 5)
        found = await expected(leader, 3)
        assert found is not None
        assert found.interval is not None
        assert found.interval.basis == "run times of 1 similar job"

    play(story())


def test_first_estimate_is_kept_and_scored_at_the_start() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        await leader.submit(TRAIN, TRAIN)
        begins(node, "1.0.1", 100)
        await passes(node, FLUSH_S + 3)
        (first,) = await leader.store.start_estimates()
        assert (first.job_id, first.started_ms) == (2, None)
        await passes(node, 30)
        assert await leader.store.start_estimates() == [first], "later estimates are not recorded"
        ends(node, "1.0.1", 100, 44_000)
        await asyncio.sleep(1)
        begins(node, "2.0.1", 45_000)
        await passes(node, FLUSH_S + 3)
        (scored,) = await leader.store.scored_start_estimates()
        assert scored.started_ms == 45_000
        ((horizon, inside, error_s),) = leader.watch.start_estimates
        assert (horizon, inside) == (scored.horizon, scored.is_inside)
        assert error_s == abs(scored.error_ms) / 1000

    play(story())


def test_estimate_of_a_cancelled_job_is_dropped() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        await leader.submit(TRAIN, TRAIN)
        begins(node, "1.0.1", 100)
        await passes(node, FLUSH_S + 3)
        assert len(await leader.store.start_estimates()) == 1
        await leader.cancel(2)
        await passes(node, FLUSH_S + 3)
        assert await leader.store.start_estimates() == []
        assert leader.watch.start_estimates == []

    play(story())


def test_next_leader_scores_estimates_of_the_last_one_and_knows_its_run_times() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        leader, node = await a_leader(store)
        await leader.submit(TRAIN, TRAIN, TRAIN)
        begins(node, "1.0.1", 100)
        ends(node, "1.0.1", 100, 20_100)
        await asyncio.sleep(0.1)
        begins(node, "2.0.1", 20_200)
        await passes(node, FLUSH_S + 3)
        before = [each for each in await store.start_estimates() if each.job_id == 3]
        leader.running.cancel()
        follower = Leader(store, estimate_s=2.0)
        assert follower.control.estimates is not None
        follower.control.estimates.aside = inline
        again = await follower.node("n1", says("2.0.1"))
        await passes(node, 5)
        work = Work("ada", "train", signature_of(TRAIN), 2000, 600)
        assert follower.control.estimates.run_times.distribution(work, 60).count == 1
        assert [each for each in await store.start_estimates() if each.job_id == 3] == before
        ends(again, "2.0.1", 20_200, 40_000)
        await asyncio.sleep(1)
        begins(again, "3.0.1", 40_100)
        await passes(again, FLUSH_S + 3)
        (scored,) = [each for each in await store.scored_start_estimates() if each.job_id == 3]
        assert scored == StartEstimate(
            3, before[0].made_ms, before[0].earliest_ms, before[0].expected_ms, before[0].latest_ms, 40_100
        )

    play(story())


def test_run_times_cut_short_by_the_cluster_do_not_count() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        await leader.submit(TRAIN, TRAIN)
        begins(node, "1.0.1", 1000)
        ends(node, "1.0.1", 1000, 2000, Cause.DEVICE_LOST)
        await passes(node, 5)
        assert leader.control.estimates is not None
        assert len(leader.control.estimates.run_times) == 0

    play(story())


def test_failing_pass_is_counted_and_the_loop_goes_on() -> None:
    async def story() -> None:
        leader, node = await a_leader()
        assert leader.control.estimates is not None

        async def fails(_work: Callable[[], Pass]) -> Pass:
            raise RuntimeError("no estimate today")

        leader.control.estimates.aside = fails
        await leader.submit(TRAIN, TRAIN)
        begins(node, "1.0.1", 100)
        await passes(node, 5)
        assert leader.watch.faults == 1
        leader.control.estimates.aside = inline
        await passes(node, FLUSH_S + 3)
        assert await expected(leader, 2) is not None

    play(story())


def test_server_without_estimates_answers_that_it_has_none() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(TRAIN, TRAIN)
        assert await expected(leader, 2) is None

    play(story())
