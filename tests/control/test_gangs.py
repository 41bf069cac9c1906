"""Gangs: none of them starts before all are ready, and what becomes of the rest when one leaves."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.control.control_story import FakeNode, Leader, play, spec
from tgpu.control.answers import Answers
from tgpu.domain.job import Exit, Gang, JobSpec
from tgpu.domain.lifecycle import Cause, Status
from tgpu.protocol.gangs import Host, Spot
from tgpu.protocol.messages import AttemptReport, Phase
from tgpu.store.task_paging import TaskPaging

START_S = 300.0


def a_gang(tasks: int = 2, per_node: int | None = 1, **more: Any) -> JobSpec:
    one = spec(gpus=1, **more)
    return replace(one, groups=(replace(one.groups[0], tasks=tasks),), gang=Gang(tasks, per_node))


def ready(attempt: str, address: str, port: int = 4000) -> AttemptReport:
    return AttemptReport(attempt=attempt, phase=Phase.READY, spot=Spot(address=address, port=port))


def runs(attempt: str, master: Spot | None = None, spot: Spot | None = None) -> AttemptReport:
    return AttemptReport(attempt=attempt, phase=Phase.RUNNING, started_ms=5, master=master, spot=spot)


def over(attempt: str, cause: Cause = Cause.EXITED, code: int | None = 0, **more: Any) -> AttemptReport:
    started_ms = more.pop("started_ms", 5)
    how = Exit(cause, exit_code=code, started_ms=started_ms, ended_ms=9000, **more)
    return AttemptReport(attempt=attempt, phase=Phase.ENDED, started_ms=started_ms, exit=how)


async def tell(*said: tuple[FakeNode, AttemptReport]) -> None:
    for node, report in said:
        node.reports(report)
    await asyncio.sleep(0.01)


async def a_placed_gang(leader: Leader, **more: Any) -> tuple[FakeNode, FakeNode]:
    """The nodes of the first and of the second task."""
    nodes = [await leader.node("n1"), await leader.node("n2")]
    await leader.submit(a_gang(**more))
    first, second = sorted(nodes, key=lambda node: node.launched())
    assert (first.launched(), second.launched()) == (["1.0.1"], ["1.1.1"])
    return first, second


async def a_running_gang(leader: Leader, **more: Any) -> tuple[FakeNode, FakeNode]:
    first, second = await a_placed_gang(leader, **more)
    await tell((first, runs("1.0.1")), (second, runs("1.1.1")))
    return first, second


async def statuses(leader: Leader) -> list[Status]:
    return [task.status for task in await leader.store.tasks(1, TaskPaging())]


def test_all_go_once_all_are_ready_and_know_where_they_meet() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_placed_gang(leader)
        await tell((second, ready("1.1.1", "10.0.0.2", 4002)))
        assert (first.went(), second.went()) == ([], [])
        await tell((first, ready("1.0.1", "10.0.0.1", 4001)))
        (one,), (other,) = first.went(), second.went()
        assert (one.attempt, other.attempt) == ("1.0.1", "1.1.1")
        assert one.master == other.master == Spot(address="10.0.0.1", port=4001)
        hosts = (
            Host(address="10.0.0.1", slots=1, name="n1"),
            Host(address="10.0.0.2", slots=1, name="n2"),
        )
        assert one.hosts == other.hosts == hosts

    play(story())


def test_tasks_on_one_node_meet_on_its_loopback() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node("n1")
        await leader.submit(a_gang(per_node=None))
        await tell((node, ready("1.0.1", "10.0.0.1", 4001)), (node, ready("1.1.1", "10.0.0.1", 4002)))
        assert {go.master for go in node.went()} == {Spot(address="127.0.0.1", port=4001)}
        assert {go.hosts for go in node.went()} == {(Host(address="localhost", slots=2, name="n1"),)}

    play(story())


def test_who_did_not_hear_it_goes_later_to_the_same_place() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_placed_gang(leader)
        await tell((first, ready("1.0.1", "a", 1)), (second, ready("1.1.1", "b", 2)))
        await tell((first, runs("1.0.1")))
        second.heard.clear()
        await tell((second, ready("1.1.1", "b", 3)))
        assert [go.master for go in second.went()] == [Spot(address="a", port=1)]

    play(story())


def test_a_new_leader_learns_from_those_who_went_whereto() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_placed_gang(leader)
        await tell((first, ready("1.0.1", "a", 1)), (second, ready("1.1.1", "b", 2)))
        leader.running.cancel()
        again = Leader(leader.store)
        names = (first.node_id, second.node_id)
        master = Spot(address="a", port=1)
        await again.node(names[0], runs("1.0.1", master, master))
        late = await again.node(names[1], ready("1.1.1", "b", 7))
        assert [(go.attempt, go.master) for go in late.went()] == [("1.1.1", master)]

    play(story())


def test_one_that_does_not_get_ready_in_time_stops_all_and_none_has_run() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_placed_gang(leader)
        await tell((first, ready("1.0.1", "a")))
        for _ in range(int(START_S)):
            first.beats(), second.beats()
            await asyncio.sleep(1.05)
        (stop, *_), why = first.stops(), f"rank 1 on {second.node_id} did not start within 300 s"
        assert (stop.cause, stop.detail) == (Cause.GANG_RESTARTED, why)
        assert "1.1.1" in second.stopped()
        never = {"code": None, "started_ms": None}
        stopped = Cause.GANG_RESTARTED
        await tell((first, over("1.0.1", stopped, **never)), (second, over("1.1.1", stopped, **never)))
        assert await statuses(leader) == [Status.SCHEDULED] * 2, "it starts anew, whole"
        assert (first.launched() + second.launched()).count("1.0.2") == 1

    play(story())


def test_an_agent_that_knows_no_gangs_is_not_told_to_start_a_part_of_one() -> None:
    async def story() -> None:
        leader = Leader()
        await asyncio.sleep(0.01)
        old = FakeNode(leader.hub, "n1")
        old.knows_gangs = False
        old.says_hello()
        await asyncio.sleep(0.01)
        await leader.submit(a_gang(per_node=None), spec(gpus=0))
        assert old.launched() == ["2.0.1"]
        ((_, _, why),) = list(leader.hub.notes.of_job(1))[:1]
        assert why == "the agent of n1 is too old for gangs: update tgpu on that node"

    play(story())


def test_one_that_fails_stops_the_rest_with_the_reason() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await tell((second, over("1.1.1", code=3)))
        (stop,) = first.stops()
        assert (stop.attempt, stop.cause) == ("1.0.1", Cause.GANG_BROKEN)
        assert stop.detail == f"rank 1 on {second.node_id} failed first: exit code 3"
        await tell((first, over("1.0.1", Cause.GANG_BROKEN, None, detail=stop.detail)))
        job = await leader.store.job(1)
        assert job is not None
        assert (job.status, job.cause, job.exit_code) == (Status.FAILED, Cause.EXITED, 3)

    play(story())


def test_one_that_finishes_stops_nobody_and_with_keep_going_nor_does_one_that_fails() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader, fail_together=False)
        await tell((second, over("1.1.1", code=3)))
        assert first.stops() == []
        await tell((first, over("1.0.1")))
        assert await statuses(leader) == [Status.COMPLETED, Status.FAILED]

    play(story())


def test_one_whose_machine_restarts_takes_the_others_along_and_all_start_anew() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await tell((second, over("1.1.1", Cause.REBOOTED, None)))
        (stop,) = first.stops()
        assert stop.cause is Cause.GANG_RESTARTED
        assert await statuses(leader) == [Status.RUNNING, Status.PENDING], "not before all have stopped"
        await tell((first, over("1.0.1", Cause.GANG_RESTARTED, None)))
        assert await statuses(leader) == [Status.SCHEDULED] * 2

    play(story())


def test_with_keep_going_only_the_lost_one_is_replaced() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader, fail_together=False)
        await tell((second, over("1.1.1", Cause.REBOOTED, None)))
        assert (first.stops(), second.launched()) == ([], ["1.1.1", "1.1.2"])
        await tell((second, ready("1.1.2", "b", 9)))
        assert [go.attempt for go in second.went()] == ["1.1.2"]

    play(story())


def test_a_gang_of_which_one_has_finished_cannot_start_anew() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await tell((first, over("1.0.1")))
        await tell((second, over("1.1.1", Cause.REBOOTED, None)))
        job = await leader.store.job(1)
        assert job is not None
        assert (job.status, job.cause) == (Status.FAILED, Cause.REBOOTED)
        assert job.detail.endswith("its gang cannot start anew, for other tasks of it are over")

    play(story())


def test_one_that_waits_again_when_another_finishes_is_closed() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await tell((second, over("1.1.1", Cause.REBOOTED, None)))
        await tell((first, over("1.0.1")))
        assert await statuses(leader) == [Status.COMPLETED, Status.FAILED]

    play(story())


def test_one_that_is_suspended_when_another_finishes_is_closed_too() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await leader.store.suspend(1, "ada", 6)
        await tell((first, over("1.0.1", Cause.SUSPENDED, None, signal=15)), (second, over("1.1.1")))
        await leader.store.resume(1, "ada", 9500)
        await asyncio.sleep(0.05)
        assert await statuses(leader) == [Status.FAILED, Status.COMPLETED]

    play(story())


def test_a_node_that_is_lost_takes_its_gang_along_and_its_task_may_not_return() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        for _ in range(20):
            first.beats()
            await asyncio.sleep(1)
        assert [stop.cause for stop in first.stops()][:1] == [Cause.GANG_RESTARTED]
        back = await leader.node(second.node_id, runs("1.1.1"))
        assert back.stopped() == ["1.1.1"]
        await tell(
            (back, over("1.1.1", Cause.SUPERSEDED, None)),
            (first, over("1.0.1", Cause.GANG_RESTARTED, None)),
        )
        assert await statuses(leader) == [Status.SCHEDULED] * 2

    play(story())


def test_a_cancelled_gang_is_stopped_whole_and_one_that_waits_is_closed_whole() -> None:
    async def story() -> None:
        leader = Leader()
        first, second = await a_running_gang(leader)
        await leader.submit(a_gang(tasks=9))
        await leader.cancel(1)
        assert (first.stopped(), second.stopped()) == (["1.0.1"], ["1.1.1"])
        await leader.cancel(2)
        job = await leader.store.job(2)
        assert job is not None
        assert (job.status, job.counts) == (Status.CANCELLED, {Status.CANCELLED: 9})

    play(story())


def test_why_asks_about_the_first_that_waits() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        await leader.submit(a_gang(tasks=9, per_node=1))
        picture = leader.control.picture
        assert len(picture.gangs.of(1).waiting) == 9
        why = await Answers(lambda: leader.control, leader.hub).why(1)
        assert why is not None
        assert why.waiting
        assert "places together" in why.summary

    play(story())
