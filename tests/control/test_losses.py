"""A node that is not heard any more: its tasks run elsewhere, unless there is nowhere to go."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.control.control_story import (
    DONE,
    POLICY,
    FakeNode,
    Leader,
    Watch,
    capacity,
    picture_with,
    play,
    running,
    says,
    spec,
    task,
)
from tgpu.control.alerts import MANY_NODES_LOST, NODES_OFFLINE, Alerts
from tgpu.control.losses import STALL_S, WORD_S, Losses
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit, Gang, Group, JobSpec, Request
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.domain.node import Node
from tgpu.protocol.messages import Phase
from tgpu.store.lost import AttemptLost
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Receipt, TaskClosed

SILENT_S = 15.0


class Cluster:
    """A leader and nodes that beat as long as they are not said to be silent."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.nodes: dict[str, FakeNode] = {}
        self._beating = asyncio.create_task(self._beat())

    async def add(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = await self.leader.node(name)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(5)
            for node in self.nodes.values():
                node.beats()

    def falls_silent(self, name: str) -> FakeNode:
        return self.nodes.pop(name)

    def launched(self) -> dict[str, list[str]]:
        return {name: node.launched() for name, node in self.nodes.items() if node.launched()}


async def two_nodes() -> Cluster:
    cluster = Cluster(Leader())
    await cluster.add("n1", "n2")
    return cluster


def test_the_tasks_of_a_node_that_is_gone_run_elsewhere_within_thirty_seconds() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        (where,) = cluster.launched()
        cluster.nodes[where].reports(says("1.0.1"))
        await asyncio.sleep(0.1)
        gone = cluster.falls_silent(where)
        await asyncio.sleep(SILENT_S - 1)
        assert await cluster.leader.status(job_id) is Status.RUNNING
        await asyncio.sleep(3)
        ((other, launched),) = cluster.launched().items()
        assert (other != where, launched) == (True, ["1.0.2"])
        attempts = await cluster.leader.store.attempts(job_id)
        assert [attempt.state for attempt in attempts] == [AttemptState.LOST, AttemptState.ASSIGNED]
        assert "lost" in cluster.leader.published
        assert gone.closed

    play(story())


def test_one_node_that_is_offline_is_an_alert_until_it_is_back_or_removed() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        alerts = cluster.leader.control.alerts
        cluster.falls_silent("n1")
        await asyncio.sleep(SILENT_S - 1)
        assert alerts.now == ()
        await asyncio.sleep(3)
        ((name, text),) = [(alert.name, alert.text) for alert in alerts.now]
        assert (name, text.startswith("not heard any more: n1; ")) == (NODES_OFFLINE, True)
        await cluster.add("n1")
        await asyncio.sleep(1)
        assert alerts.now == ()
        cluster.falls_silent("n1")
        await asyncio.sleep(SILENT_S + 2)
        assert [alert.name for alert in alerts.now] == [NODES_OFFLINE]
        cluster.leader.hub.forget("n1")
        await asyncio.sleep(1)
        assert alerts.now == ()

    play(story())


def test_what_was_assigned_and_never_started_is_replaced_too() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        cluster.falls_silent(next(iter(cluster.launched())))
        await asyncio.sleep(SILENT_S + 2)
        assert list(cluster.launched().values()) == [["1.0.2"]]
        assert await cluster.leader.status(job_id) is Status.SCHEDULED

    play(story())


def test_a_job_that_may_not_be_tried_again_fails_and_says_why() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2, requeue=False))
        where = next(iter(cluster.launched()))
        cluster.falls_silent(where)
        await asyncio.sleep(SILENT_S + 2)
        job = await cluster.leader.store.job(job_id)
        assert job is not None
        assert (job.status, job.cause) == (Status.FAILED, Cause.NODE_LOST)
        assert job.detail == (
            f"its node lost it: {where} was not heard for 15 s; --no-requeue forbids to try again"
        )

    play(story())


def test_a_job_that_was_being_cancelled_is_cancelled() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        cluster.falls_silent(next(iter(cluster.launched())))
        await cluster.leader.cancel(job_id)
        await asyncio.sleep(SILENT_S + 2)
        job = await cluster.leader.store.job(job_id)
        assert job is not None
        assert (job.status, job.detail) == (Status.CANCELLED, "cancelled by bob")

    play(story())


def test_where_there_is_no_other_node_a_task_stays_where_it_is() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (job_id,) = await leader.submit()
        node.reports(says("1.0.1"))
        await asyncio.sleep(60)
        (known,) = await leader.store.nodes()
        assert (known.state, await leader.status(job_id)) == (NodeState.OFFLINE, Status.RUNNING)
        again = await leader.node("n1", says("1.0.1"))
        again.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.1)
        assert await leader.status(job_id) is Status.COMPLETED

    play(story())


def test_a_leader_that_hears_nobody_takes_itself_to_be_cut_off_until_somebody_is_heard() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        where = next(iter(cluster.launched()))
        (other,) = {"n1", "n2"} - {where}
        cluster.falls_silent("n1")
        cluster.falls_silent("n2")
        await asyncio.sleep(60)
        assert [attempt.state for attempt in await cluster.leader.store.attempts(job_id)] == [
            AttemptState.ASSIGNED
        ]
        await cluster.add(other)
        await asyncio.sleep(2)
        assert cluster.launched() == {other: ["1.0.2"]}

    play(story())


def test_a_new_leader_counts_from_its_own_beginning() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        where = next(iter(cluster.launched()))
        cluster.falls_silent(where)
        await asyncio.sleep(SILENT_S - 1)
        cluster.leader.running.cancel()
        cluster.leader = Leader(cluster.leader.store)
        (other,) = {"n1", "n2"} - {where}
        await cluster.add(other)
        await asyncio.sleep(SILENT_S - 1)
        assert await cluster.leader.status(job_id) is Status.SCHEDULED
        assert cluster.launched() == {}
        await asyncio.sleep(2)
        assert cluster.launched() == {other: ["1.0.2"]}

    play(story())


def crowd(count: int, silent: int) -> tuple[Picture, dict[str, float]]:
    """So many nodes, each with a task; some have not been heard since second 0, the others just now."""
    names = [f"n{number:04}" for number in range(count)]
    picture = picture_with(nodes=names)
    for number, name in enumerate(names):
        picture.place(task(number + 1), TaskId(number + 1, 0).attempt(1), name, (0,))
    return picture, {name: 0.0 if at < silent else 20.0 for at, name in enumerate(names)}


def lost_by_second(picture: Picture, heard: dict[str, float], seconds: int) -> tuple[list[int], Losses]:
    losses, found = Losses(SILENT_S), []
    for second in range(seconds):
        turn = Turn(Batch(0))
        for half in (0.0, 0.5):
            now = 20.0 + second + half
            for name in [name for name, at in heard.items() if at > 0]:
                heard.pop(name)
                heard[name] = now
            losses.take_in(picture, heard, now, turn)
        found.append(len(turn.batch.lost))
    return found, losses


@pytest.mark.parametrize(
    ("nodes", "silent", "expected"),
    [
        (40, 4, [4, 0, 0]),  # one in ten, and no more
        (3, 2, [2, 0, 0]),  # most of them, but few
        (10, 4, [1, 1, 1]),
        (1000, 200, [10, 10, 10]),
    ],
)
def test_many_at_once_are_replaced_slowly(nodes: int, silent: int, expected: list[int]) -> None:
    picture, heard = crowd(nodes, silent)
    found, losses = lost_by_second(picture, heard, 3)
    assert found == expected
    left = silent - sum(expected)
    assert (losses.alert is None) == (left == 0)
    assert losses.alert is None or f"the tasks of {left} are replaced slowly" in losses.alert


def test_all_of_many_are_replaced_in_the_end_and_then_it_is_over() -> None:
    picture, heard = crowd(100, 30)
    found, losses = lost_by_second(picture, heard, 60)
    assert (sum(found), max(found)) == (30, 1)
    assert losses.alert is None


def test_one_that_comes_back_in_time_keeps_its_tasks() -> None:
    picture, heard = crowd(100, 30)
    losses = Losses(SILENT_S)
    losses.take_in(picture, heard, 20.0, Turn(Batch(0)))
    back = "n0029"
    heard.pop(back)
    heard[back] = 20.5
    turn = Turn(Batch(0))
    for tick in range(200):
        now = 21 + tick / 2
        for name in [name for name, at in heard.items() if at > 0]:
            heard.pop(name)
            heard[name] = now
        losses.take_in(picture, heard, now, turn)
    assert TaskId(30, 0) in picture.placed
    assert len(turn.batch.lost) == 29


def test_a_leader_that_was_stopped_itself_counts_anew() -> None:
    losses = Losses(SILENT_S)
    looks = [0.0, 1.0, 1.0 + STALL_S, 2.0 + STALL_S, 100.0, 101.0]
    assert [losses.was_stalled(now) for now in looks] == [False, False, False, False, True, False]


def test_a_stalled_leader_takes_nothing_from_nodes_that_it_could_not_hear() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        (job_id,) = await cluster.leader.submit(spec(gpus=2))
        for name in ("n1", "n2"):
            cluster.leader.hub.heard[name] -= 60
        cluster.leader.control._losses._looked = asyncio.get_running_loop().time() - 60
        await asyncio.sleep(3)
        assert await cluster.leader.status(job_id) is Status.SCHEDULED
        assert {node.state for node in await cluster.leader.store.nodes()} == {NodeState.READY}

    play(story())


def test_an_alert_is_told_once_and_over_when_it_is() -> None:
    watch, now = Watch(), [1000]
    alerts = Alerts(watch, lambda: now[0])
    alerts.tell(MANY_NODES_LOST, "many")
    now[0] = 5000
    alerts.tell(MANY_NODES_LOST, "even more")
    assert [(alert.name, alert.text, alert.since_ms) for alert in alerts.now] == [
        (MANY_NODES_LOST, "even more", 1000)
    ]
    assert watch.alerts == {MANY_NODES_LOST: True}
    alerts.tell(MANY_NODES_LOST, None)
    alerts.tell(MANY_NODES_LOST, None)
    assert (alerts.now, watch.alerts) == ((), {MANY_NODES_LOST: False})
    alerts.tell(MANY_NODES_LOST, "again")
    alerts.end()
    assert (alerts.now, watch.alerts) == ((), {MANY_NODES_LOST: False})


def test_a_task_that_is_lost_stands_where_it_stood_in_line() -> None:
    picture = picture_with(task(2), placed=[task(1)], nodes=("n1", "n2"))
    placed = running(picture, 1)
    turn = Turn(Batch(0))
    Losses(SILENT_S).take_in(picture, {"n1": 0.0, "n2": 20.0}, 20.0, turn)
    how = Exit(Cause.NODE_LOST, detail="n1 was not heard for 15 s", started_ms=1000)
    assert turn.batch.lost == [
        AttemptLost(placed.attempt_id, how, requeue=True, detail=f"its node lost it: {how.detail}")
    ]
    assert picture.in_order() == [TaskId(1, 0), TaskId(2, 0)]
    assert picture.waiting[TaskId(1, 0)].attempts == 1


def test_one_that_is_to_be_cancelled_is_closed_in_the_same_commit() -> None:
    picture = picture_with(placed=[task(1, cancel_by="bob")], nodes=("n1", "n2"))
    turn = Turn(Batch(0))
    Losses(SILENT_S).take_in(picture, {"n1": 0.0, "n2": 20.0}, 20.0, turn)
    assert turn.batch.closed == [
        TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED, "cancelled by bob")
    ]
    assert (list(picture.waiting), list(picture.placed)) == ([], [])


def test_a_look_at_ten_thousand_nodes_that_all_beat_touches_none_of_them() -> None:
    class Touchy(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise AssertionError(f"{name} was looked at")

    picture = Picture(POLICY)
    picture.set_node(Node("n1", NodeState.READY, capacity()))
    picture.places = Touchy(picture.places)
    heard = {f"n{number}": 20.0 for number in range(10_000)}
    assert Losses(SILENT_S).take_in(picture, heard, 21.0, Turn(Batch(0))) == []


class Meanwhile(MemoryStore):
    """Something happens while a loss is being written down."""

    happens: Callable[[], None] | None = None

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        if batch.lost and self.happens is not None:
            self.happens()
        return await super().commit(epoch, batch)


def test_a_node_that_is_back_while_it_is_being_lost_is_not_told_to_start_what_was_lost() -> None:
    async def story() -> None:
        store = Meanwhile("c")
        cluster = Cluster(Leader(store))
        await cluster.add("n1")
        await cluster.leader.submit(spec(gpus=2))
        cluster.falls_silent("n1")
        await asyncio.sleep(20)
        back: list[FakeNode] = []

        def comes_back() -> None:
            back.append(FakeNode(cluster.leader.hub, "n1"))
            back[0].says_hello()

        store.happens = comes_back
        await cluster.add("n2")
        await asyncio.sleep(1)
        (attempt, _) = await store.attempts(1)
        assert attempt.state is AttemptState.ENDED
        assert "1.0.1" not in back[0].launched()
        assert [*back[0].launched(), *cluster.nodes["n2"].launched()] == ["1.0.2"]

    play(story())


def test_quiet_node_gets_no_new_work_until_it_is_heard_again() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        leader = cluster.leader
        quiet = cluster.falls_silent("n2")
        await asyncio.sleep(7)
        await leader.submit(spec(gpus=2), spec(gpus=2))
        await asyncio.sleep(1)
        assert (cluster.launched(), quiet.launched()) == ({"n1": ["1.0.1"]}, [])
        quiet.beats()
        await asyncio.sleep(2)
        assert (quiet.launched(), quiet.closed) == (["2.0.1"], False)

    play(story())


def test_quiet_node_that_leaves_when_it_is_heard_again_is_not_taken_for_connected() -> None:
    picture, losses = picture_with(), Losses(SILENT_S)
    losses.take_in(picture, {"n1": 0.0}, 7.0, Turn(Batch(0)))
    assert not picture.places["n1"].reachable
    losses.take_in(picture, {"n1": 7.5}, 8.0, Turn(Batch(0)), lambda _: False)
    assert not picture.places["n1"].reachable


def test_attempt_that_never_reached_its_node_is_closed_when_the_node_is_back() -> None:
    async def story(*, new_leader: bool) -> None:
        cluster = await two_nodes()
        leader = cluster.leader
        await leader.submit(spec(gpus=2), spec(gpus=2))
        away = cluster.falls_silent("n2")
        (name,) = away.launched()
        await asyncio.sleep(20)
        attempt_id = AttemptId.parse(name)
        assert await _state(leader, attempt_id) is AttemptState.LOST
        if new_leader:
            leader.running.cancel()
            leader = Leader(leader.store)
            await asyncio.sleep(0.01)
        await leader.node("n2")
        await asyncio.sleep(1)
        assert await _state(leader, attempt_id) is AttemptState.ENDED

    play(story(new_leader=False))
    play(story(new_leader=True))


async def _state(leader: Leader, attempt_id: AttemptId) -> AttemptState:
    return (await leader.store.origins([attempt_id]))[attempt_id].attempt.state


def gang_of_two() -> JobSpec:
    group = Group(("true",), Request(1000, 0, 0, 2000), tasks=2)
    return JobSpec("ada", (group,), gang=Gang(2))


def test_gang_whose_tasks_all_succeed_has_succeeded_though_a_node_was_cut_off_at_its_end() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        leader = cluster.leader
        (job_id,) = await leader.submit(gang_of_two())
        names = {node_id: node.launched()[0] for node_id, node in cluster.nodes.items()}
        for node_id, name in names.items():
            cluster.nodes[node_id].reports(says(name))
        await asyncio.sleep(1)
        cluster.falls_silent("n2")
        cluster.nodes["n1"].reports(says(names["n1"], Phase.ENDED, DONE))
        await asyncio.sleep(60)
        assert await leader.status(job_id) is Status.RUNNING
        await leader.node("n2", says(names["n2"], Phase.ENDED, DONE))
        await asyncio.sleep(1)
        assert await leader.status(job_id) is Status.COMPLETED

    play(story())


def test_gang_has_failed_if_the_last_word_of_a_task_never_comes() -> None:
    async def story() -> None:
        cluster = await two_nodes()
        leader = cluster.leader
        (job_id,) = await leader.submit(gang_of_two())
        names = {node_id: node.launched()[0] for node_id, node in cluster.nodes.items()}
        for node_id, name in names.items():
            cluster.nodes[node_id].reports(says(name))
        await asyncio.sleep(1)
        cluster.falls_silent("n2")
        cluster.nodes["n1"].reports(says(names["n1"], Phase.ENDED, DONE))
        await asyncio.sleep(WORD_S + 20)
        assert await leader.status(job_id) is Status.FAILED

    play(story())
