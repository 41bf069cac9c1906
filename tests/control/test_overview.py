"""Columns of the cluster overview, and samples of what agents measured."""

import asyncio
from dataclasses import replace

import numpy as np

from tests.control.control_story import (
    Leader,
    capacity,
    hello,
    now_ms,
    picture_with,
    play,
    says,
    spec,
    task,
)
from tests.control.test_series import array
from tgpu.control.answers import Answers
from tgpu.control.overview import Heard, OverviewColumns
from tgpu.control.series_book import SeriesBook
from tgpu.control.usage_samples import STEPS, UsageSamples
from tgpu.core.picture import Picture, Window
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Device, Drain, ForeignUse, Node
from tgpu.domain.overview import ClusterOverview, DeviceState, NodeFlag, Owner, OwnerJobs, Waits
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.messages import Heartbeat, NodeUse

SILENCE = Heard({}, {}, 0.0)


def made(picture: Picture, heard: Heard = SILENCE, columns: OverviewColumns | None = None) -> ClusterOverview:
    return (columns or OverviewColumns()).make(picture, SeriesBook(), heard, 10_000)


def column(values: bytes, kind: str) -> list[int]:
    return list(np.frombuffer(values, kind).tolist())


def test_devices_show_their_holder_and_the_part_that_is_allocated() -> None:
    quarter = Request(1000, 0, 0, 250)
    half = replace(task(2, user="bob", tenant_id="lab"), request=Request(1000, 0, 0, 500))
    picture = picture_with(placed=[task(1)])
    picture.place(half, TaskId(2, 0).attempt(1), "n1", (2,))
    picture.place(replace(task(3), request=quarter), TaskId(3, 0).attempt(1), "n1", (2,))
    found = made(picture)
    assert found.owners == [Owner("ada", "default"), Owner("bob", "lab")]
    assert column(found.devices.allocated_milli, "<i2") == [1000, 0, 750, 0]
    assert column(found.devices.holder, "<i4") == [0, -1, 1, -1], "of a shared one, the largest part's"
    assert column(found.devices.job, "<i8") == [1, 0, 2, 0]
    assert column(found.nodes.cpu_allocated_milli, "<i8") == [3000]


def test_a_slot_used_again_shows_its_new_owner() -> None:
    picture, columns = picture_with(placed=[task(1)]), OverviewColumns()
    made(picture, columns=columns)
    picture.release(TaskId(1, 0))
    picture.place(task(2, user="bob"), TaskId(2, 0).attempt(1), "n1", (3,))
    found = made(picture, columns=columns)
    assert column(found.devices.holder, "<i4") == [-1, -1, -1, 1]
    assert found.owners[1] == Owner("bob", "default")


def test_nodes_are_in_natural_order_and_follow_when_one_joins() -> None:
    picture, columns = picture_with(placed=[task(1)], nodes=("n10", "n2")), OverviewColumns()
    found = made(picture, columns=columns)
    assert found.nodes.names == ["n2", "n10"]
    assert column(found.devices.job, "<i8") == [0, 0, 0, 0, 1, 0, 0, 0]
    picture.set_node(Node("n1", NodeState.READY, capacity(gpus=1)))
    found = made(picture, columns=columns)
    assert found.nodes.names == ["n1", "n2", "n10"]
    assert column(found.nodes.devices, "u1") == [1, 4, 4]
    assert column(found.devices.job, "<i8") == [0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_device_states_tell_unhealthy_external_and_reserved() -> None:
    picture = picture_with()
    other = ForeignUse(1, "bob", "python", 10)
    devices = (
        Device(0, "a", "A100", 1, healthy=False),
        Device(1, "b", "A100", 1, foreign=(other,), avoided=True),
        Device(2, "c", "A100", 1),
    )
    picture.set_node(Node("n1", NodeState.READY, replace(capacity(), devices=devices)))
    found = made(picture)
    expected = [DeviceState.UNHEALTHY, DeviceState.EXTERNAL, DeviceState.HEALTHY]
    assert column(found.devices.state, "i1") == expected
    picture.set_windows(
        [Window(frozenset({"n1"}), 0, 20_000), Window(frozenset({"n1"}), 20_000, 30_000, "lab")]
    )
    found = made(picture)
    assert column(found.devices.state, "i1") == [*expected[:2], DeviceState.RESERVED]
    assert column(found.nodes.flags, "u1") == [NodeFlag.MAINTENANCE]


def test_what_was_measured_is_shown_while_the_agent_is_connected() -> None:
    picture, columns = picture_with(), OverviewColumns()
    use = NodeUse(cpu_milli=900, memory_mib=77, gpu_percent=(50, None, 7, 100))
    found = made(picture, Heard({"n1": use}, {"n1": 1.0}, 1.0), columns)
    assert column(found.devices.busy, "i1") == [50, -1, 7, 100]
    assert column(found.nodes.cpu_used_milli, "<i8") == [900]
    assert column(found.nodes.silent_since_ms, "<i8") == [0]
    picture.set_reachable("n1", reachable=False)
    node = replace(picture.places["n1"].node, drain=Drain("root", 5, "fans"))
    picture.set_node(node)
    for now in (5.0, 9.0):
        found = made(picture, Heard({"n1": use}, {"n1": 1.0}, now), columns)
        assert column(found.nodes.silent_since_ms, "<i8") == [6000], "it does not move with the clock"
    assert column(found.devices.busy, "i1") == [-1] * 4
    assert column(found.nodes.flags, "u1") == [NodeFlag.DRAINED | NodeFlag.DISCONNECTED]


def test_waits_are_counted_by_class_and_owner() -> None:
    high = PriorityClass.HIGH
    waiting = [
        task(1, submitted_ms=100),
        task(2, submitted_ms=300),
        task(3, submitted_ms=200, user="bob"),
        task(4, submitted_ms=50, priority_class=high),
    ]
    found = made(picture_with(*waiting, placed=[task(9, user="eve")]))
    owners = {owner.user: number for number, owner in enumerate(found.owners)}
    assert found.waits == [
        Waits(high, -1, 1, 50, 50),
        Waits(PriorityClass.DEFAULT, -1, 3, 100, 200),
        Waits(high, owners["ada"], 1, 50, 50),
        *sorted(
            [
                Waits(PriorityClass.DEFAULT, owners["ada"], 2, 100, 100),
                Waits(PriorityClass.DEFAULT, owners["bob"], 1, 200, 200),
            ],
            key=lambda each: each.owner,
        ),
    ]
    assert set(found.jobs) == {
        OwnerJobs(owners["ada"], 0, 3, 0),
        OwnerJobs(owners["bob"], 0, 1, 0),
        OwnerJobs(owners["eve"], 1, 0, 0),
    }


def test_tasks_of_an_array_that_are_not_materialized_count_as_pending() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(array(10, at_once=1))
        found = await Answers(lambda: leader.control, leader.hub).overview()
        assert [(each.owner, each.tasks) for each in found.waits] == [(-1, 9), (0, 9)]
        assert found.jobs == [OwnerJobs(0, 1, 0, 0)]

    play(story())


def test_overview_and_samples_follow_heartbeats() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec())
        node.reports(says("1.0.1"))
        answers = Answers(lambda: leader.control, leader.hub)
        began_ms = now_ms()
        for busy in (40, 80):
            node.session.received(Heartbeat(use=NodeUse(cpu_milli=800, memory_mib=77, gpu_percent=(busy, 0))))
            await asyncio.sleep(1)
            found = await answers.overview()
            assert column(found.devices.busy, "i1") == [busy, 0]
            for _ in range(14):
                await asyncio.sleep(5)
                node.session.received(Heartbeat(use=leader.hub.use["n1"]))
        for name in ("n1", None):
            measured = await answers.measured(began_ms, name)
            known = [each for each in measured.gpu_busy_percent if each is not None]
            assert {20.0, 40.0} & set(known), known
            assert 800 in measured.cpu_milli
        detail = await answers.node("n1")
        assert detail is not None
        assert [(each.user, each.devices) for each in detail.tasks] == [("ada", (0,))]
        assert await answers.node("n2") is None
        assert (await answers.measured(0, "n2")).cpu_milli == []

    play(story())


def test_samples_keep_one_day_and_leave_gaps_unknown() -> None:
    samples, node = UsageSamples(), Node("n1", NodeState.READY, capacity(gpus=2, cpus=8))
    use = {"n1": NodeUse(cpu_milli=4000, memory_mib=8192, gpu_percent=(50, None))}
    samples.take(60_000, [node], use)
    samples.take(61_000, [node], {})  # the same minute
    samples.take(4 * 60_000, [node], use)
    found = samples.since(0, node)
    assert (found.from_ms, found.cpu_milli) == (60_000, [4000, None, None, 4000])
    assert found.gpu_busy_percent == [50.0, None, None, 50.0]
    assert samples.since(0).memory_mib == [8192, None, None, 8192]
    assert len(samples.since(3 * 60_000).cpu_milli) == 2
    samples.take((STEPS + 3) * 60_000, [node], use)
    assert len(samples.since(0).cpu_milli) == STEPS
    assert samples.since(0).cpu_milli[0] == 4000


def test_rows_of_removed_nodes_are_used_again() -> None:
    samples = UsageSamples()
    for minute in range(3):
        nodes = [Node(f"n{minute}-{number}", NodeState.READY, capacity()) for number in range(16)]
        samples.take((1 + minute * 2 * STEPS) * 60_000, nodes, {each.node_id: NodeUse() for each in nodes})
    assert samples._shares.shape[2] == 16


def test_nodes_without_a_sample_keep_their_rows_when_many_nodes_join() -> None:
    samples = UsageSamples()
    silent = [Node(f"a{number}", NodeState.READY, capacity()) for number in range(16)]
    samples.take(60_000, silent, {})
    more = [*silent, *(Node(f"b{number}", NodeState.READY, capacity()) for number in range(8))]
    samples.take(120_000, more, {each.node_id: NodeUse(cpu_milli=1000) for each in more})
    assert samples.since(0).cpu_milli == [0, 24_000]


def test_a_node_that_describes_itself_again_is_shown_as_it_is() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        answers = Answers(lambda: leader.control, leader.hub)
        assert column((await answers.overview()).nodes.devices, "u1") == [2]
        node.session.received(hello(has=capacity(gpus=3)))
        await asyncio.sleep(2)
        assert column((await answers.overview()).nodes.devices, "u1") == [3]

    play(story())
