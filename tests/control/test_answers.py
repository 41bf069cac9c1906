"""What the live picture can tell those who ask."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.control_story import FakeNode, Leader, capacity, hello, now_ms, play, says, spec
from tests.control.test_series import array
from tgpu.control.answers import Answers, NotLeadingError
from tgpu.domain.access import Actor
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.node import DeviceSigns
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts, Limits
from tgpu.domain.tenant import Tenant
from tgpu.domain.timing import Timing
from tgpu.domain.views import DeviceView, QueueView, StartKind
from tgpu.protocol.messages import AttemptReport, Heartbeat, NodeUse, Phase


def answers_of(leader: Leader) -> Answers:
    return Answers(lambda: leader.control, leader.hub)


def test_nothing_can_be_told_before_anybody_leads() -> None:
    async def story() -> None:
        with pytest.raises(NotLeadingError, match="the scheduler is starting: try again shortly"):
            await answers_of(Leader()).why(1)

    play(story())


def test_a_job_is_told_why_it_waits() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(spec(gpus=2), spec(gpus=1))
        why = await answers_of(leader).why(2)
        assert why is not None
        assert why.summary == "waits: needs 1 GPU; n1 has 0 of 2 GPUs free"
        assert await answers_of(leader).why(9) is None

    play(story())


@pytest.mark.parametrize("others", [(), (spec(gpus=1),)], ids=["no other pending job", "one that could pass"])
def test_planned_starts_name_the_node_and_devices_of_a_backfill_reservation(
    others: tuple[JobSpec, ...],
) -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(spec(gpus=2, time_limit_s=600), spec("bob", gpus=2, name="next"), *others)
        (start,) = await answers_of(leader).planned_starts()
        assert (start.kind, start.task_id, start.user, start.name) == (
            StartKind.RESERVATION,
            TaskId(2, 0),
            "bob",
            "next",
        )
        assert (start.node_id, start.devices) == ("n1", (0, 1))
        assert now_ms() < start.at_ms <= now_ms() + 600_000 < start.until_ms

    play(story())


def test_shares_say_what_tenants_hold_of_the_cluster() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(spec(gpus=1), spec(gpus=2))
        shares = await answers_of(leader).cluster_shares()
        assert shares.total.gpu_milli == 2000
        (default,) = shares.tenants
        assert default.tenant_id == "default"
        assert (default.dominant_share, default.dominant_resource) == (0.5, "gpu")
        assert default.held.gpu_milli == 1000

    play(story())


def test_who_was_cancelled_is_not_told_of_as_not_having_begun() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(array(10, at_once=1))
        await leader.store.cancel_tasks(1, IndexSet.of([4, 8]), "bob", now_ms())
        await asyncio.sleep(0.1)
        why = await answers_of(leader).why(1)
        assert why is not None
        assert why.summary.endswith("; 7 of its 10 tasks have not begun, for at most 1 run at once")

    play(story())


def test_nodes_are_shown_in_the_order_of_their_names() -> None:
    async def story() -> None:
        leader = Leader()
        for name in ("n10", "n2", "head", "n2b"):
            await leader.node(name)
        nodes = await answers_of(leader).nodes()
        assert [view.node.node_id for view in nodes] == ["head", "n2", "n2b", "n10"]

    play(story())


def test_each_request_is_told_whether_it_could_ever_run() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        fits, never = Request(gpu_milli=1000), Request(gpu_milli=3000)
        sentence = "it asks for 3 GPUs, the largest node has 2"
        assert await answers_of(leader).never_fits([never, fits, never]) == [sentence, None, sentence]

    play(story())


def test_a_node_shows_what_is_given_out_to_whom_and_what_was_measured() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec())
        node.reports(says("1.0.1"))
        signs = (DeviceSigns(61, 250), DeviceSigns())
        use = NodeUse(
            cpu_milli=900, memory_mib=77, gpu_percent=(50, 0), gpu_memory_mib=(10, 0), gpu_signs=signs
        )
        node.session.received(Heartbeat(use=use))
        await asyncio.sleep(0.01)
        (view,) = await answers_of(leader).nodes()
        assert view.node.capacity == capacity()
        assert view.allocated == Amounts(1000, 0, 0, 1000)
        assert view.devices == (
            DeviceView(0, 1000, ((1, "ada"),), 50, 10, DeviceSigns(61, 250)),
            DeviceView(1, 0, (), 0, 0),
        )
        assert view.running == (TaskId(1, 0).attempt(1),)
        assert (view.silent_s, view.used_cpu_milli, view.used_memory_mib) == (None, 900, 77)

    play(story())


def test_a_node_that_is_away_shows_for_how_long() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        node.close()
        await asyncio.sleep(4)
        (view,) = await answers_of(leader).nodes()
        assert (view.silent_s, view.used_cpu_milli) == (4.0, None)

    play(story())


def test_named_resources_of_a_node_are_counted_and_licences_are_not() -> None:
    async def story() -> None:
        leader = Leader()
        node = FakeNode(leader.hub)
        await asyncio.sleep(0.01)
        node.session.received(hello(has=replace(capacity(), generic={"fpga": 2})))
        await asyncio.sleep(0.01)
        asked = replace(spec(), groups=(Group(("true",), Request(generic=(("fpga", 1),))),))
        await leader.submit(asked)
        (view,) = await answers_of(leader).nodes()
        assert view.allocated_generic == {"fpga": 1}

    play(story())


def test_who_is_stopped_for_another_gives_way() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=1), spec(gpus=1, priority_class=PriorityClass.LOW))
        node.reports(says("1.0.1"), says("2.0.1"))
        await asyncio.sleep(0.01)
        assert await answers_of(leader).giving_way() == []
        await leader.submit(spec(gpus=1, priority_class=PriorityClass.HIGH))
        assert await answers_of(leader).giving_way() == [1]

    play(story())


def test_queues_show_their_depth_their_head_and_the_tenants_share() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.store.create_tenant(Tenant("lab", weight=2), Actor("root", "server"), 1)
        await leader.node()
        await leader.submit(
            spec(tenant_id="lab"),
            spec(gpus=2, tenant_id="lab"),
            spec(gpus=2, tenant_id="lab", priority=5),
            spec(gpus=2, priority_class=PriorityClass.LOW),
        )
        views = await answers_of(leader).queues()
        assert [replace(view, head_reasons=()) for view in views] == [
            QueueView("default", PriorityClass.LOW, 1, 4, 0.0, 0.0),
            QueueView("lab", PriorityClass.DEFAULT, 2, 1, 0.5, 1.0),
        ]
        assert [[reason.code for reason in view.head_reasons] for view in views] == [
            ["gpus", "higher-class"],
            ["gpus"],
        ]

    play(story())


def test_queues_count_tasks_that_have_no_rows_yet() -> None:
    async def story() -> None:
        leader = Leader()
        limited = Tenant("lab", limits=Limits(cpu_milli=2000))
        await leader.store.create_tenant(limited, Actor("root", "server"), 1)
        await leader.node()
        held = Timing(held_by="ann")
        await leader.submit(
            array(9, tenant_id="lab"),
            array(700, at_once=1, priority_class=PriorityClass.LOW),
            array(700, at_once=1, timing=held),
        )
        views = await answers_of(leader).queues()
        assert [(view.tenant_id, view.depth, view.head_job_id) for view in views] == [
            ("default", 699, 2),
            ("lab", 7, 1),
        ]
        assert [[reason.text for reason in view.head_reasons] for view in views] == [
            ["at most 1 of its tasks are live at once"],
            ["its quota has no room for more of its tasks until others leave"],
        ]

    play(story())


def test_a_plan_made_beside_the_loop_holds_up_whoever_looks_at_the_picture_and_nobody_else() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        control = leader.control
        await control.planning.acquire()
        asked = asyncio.create_task(answers_of(leader).queues())
        await asyncio.sleep(0.01)
        assert not asked.done()
        assert await answers_of(leader).alerts() == []
        control.planning.release()
        assert await asked == []

    play(story())


def test_use_that_does_not_fit_the_devices_leaves_every_node_shown() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        await leader.node("n2")
        leader.hub.use["n1"] = NodeUse(gpu_percent=(1, 2, 3, 4), gpu_memory_mib=(7,))
        first, second = await answers_of(leader).nodes()
        assert [device.memory_used_mib for device in first.devices] == [7, None]
        assert (second.node.node_id, second.fault) == ("n2", "")

    play(story())


def test_node_that_cannot_be_shown_is_shown_with_its_fault() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        await leader.node("n2")
        leader.hub.use["n1"] = 7  # type: ignore[assignment]
        first, second = await answers_of(leader).nodes()
        assert first.fault.startswith("what its agent measured cannot be shown: AttributeError")
        assert (len(second.devices), second.fault) == (2, "")

    play(story())


def test_progress_is_told_by_the_node_that_has_the_attempt_and_by_no_other() -> None:
    async def story() -> None:
        leader = Leader()
        node, forger = await leader.node("n1"), await leader.node("n2")
        await leader.submit(spec())
        holder, other = (node, forger) if node.launched() else (forger, node)
        other.reports(starting("forged"))
        assert await answers_of(leader).starting_note(1) == ""
        holder.reports(starting("fetches its image"))
        assert await answers_of(leader).starting_note(1) == "fetches its image"

    play(story())


def starting(note: str) -> AttemptReport:
    return AttemptReport(attempt="1.0.1", phase=Phase.STARTING, note=note)
