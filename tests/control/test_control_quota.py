"""Quotas in the loop: the store decides, the picture follows, and what is wrong is found and told."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.control.control_story import DONE, FakeNode, Leader, now_ms, play, says, spec
from tests.control.test_series import array
from tgpu.control.alerts import BUDGET_NEAR, BUDGET_SPENT, LEDGER_DIFFERS
from tgpu.control.answers import Answers
from tgpu.control.loop import Timers
from tgpu.domain.access import Actor
from tgpu.domain.exit_words import in_words
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.domain.periods import period_until_ms
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, Limits, OverQuota, Period
from tgpu.domain.tenant import Budget, Tenant, Terms
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Receipt

ADMIN = Actor("root", "server")
QUEUE = Terms(over_quota=OverQuota.QUEUE)
HOUR = 1000 * 3600
DUTIES_S = Timers().duties_s


async def leader_of(*tenants: Tenant, store: MemoryStore | None = None) -> Leader:
    leader = Leader(store)
    for tenant in tenants:
        await leader.store.create_tenant(tenant, ADMIN, 1)
    return leader


async def change(leader: Leader, tenant_id: str, to: Callable[[Tenant], Tenant]) -> None:
    await leader.store.update_tenant(tenant_id, to, ADMIN, now_ms())
    await asyncio.sleep(0.01)


async def standing(leader: Leader, tenant_id: str) -> tuple[int, int, int]:
    """GPUs used and on the burst, and tasks that run."""
    tenant = await leader.store.tenant(tenant_id)
    assert tenant is not None
    return tenant.used.gpu_milli, tenant.burst.gpu_milli, tenant.job_use.running


def test_what_is_held_is_admitted_in_order_as_room_appears() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(gpu_milli=1000), terms=QUEUE))
        node = await leader.node()
        await leader.submit(spec(tenant_id="lab"), spec(tenant_id="lab"))
        assert node.launched() == ["1.0.1"]
        assert await standing(leader, "lab") == (1000, 0, 1)
        node.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.01)
        assert node.launched() == ["1.0.1", "2.0.1"]
        assert await standing(leader, "lab") == (1000, 0, 1)

    play(story())


def test_what_runs_on_the_burst_gives_way_first_and_is_held_again() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(gpu_milli=2000)))
        node, other = await leader.node(), await leader.node("n2")
        low = {"tenant_id": "lab", "priority_class": PriorityClass.LOW}
        await leader.submit(spec(**low), spec(**low))
        await leader.submit(spec(**low))
        assert (node.launched(), other.launched()) == (["1.0.1", "2.0.1"], ["3.0.1"])
        assert await standing(leader, "lab") == (2000, 1000, 3)
        brief = leader.control.picture.placed[TaskId(3, 0)].task
        assert (brief.held, brief.burst) == (True, True)
        await leader.submit(spec(gpus=2, priority_class=PriorityClass.BEST_EFFORT))
        assert (node.stopped(), other.stopped()) == ([], ["3.0.1"])
        (stop,) = other.stops()
        ended = replace(DONE, cause=Cause.PREEMPTED, exit_code=None, detail=stop.detail)
        assert in_words(ended, None, None) == "gave way: it ran on the burst"
        other.reports(says("3.0.1", Phase.ENDED, ended))
        await asyncio.sleep(0.01)
        assert await standing(leader, "lab") == (2000, 0, 2)
        brief = leader.control.picture.waiting[TaskId(3, 0)]
        assert (brief.held, brief.burst) == (True, False)
        assert other.launched() == ["3.0.1", "4.0.1"]

    play(story())


async def time_passes(seconds: int, *nodes: FakeNode) -> None:
    for _ in range(seconds // 5):
        await asyncio.sleep(5)
        for node in nodes:
            node.beats()


class StubbornStore(MemoryStore):
    """Refuses every assignment, as if a quota had no room, and counts."""

    def __init__(self) -> None:
        super().__init__("c")
        self.stubborn, self.asked = True, 0

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        if not self.stubborn or not batch.assigned:
            return await super().commit(epoch, batch)
        self.asked += 1
        refused = batch.assigned
        receipt = await super().commit(epoch, replace(batch, assigned=[]))
        return replace(receipt, refused=[*receipt.refused, *refused])


def test_a_start_that_a_quota_refuses_is_not_tried_again_at_every_turn() -> None:
    async def story() -> None:
        store = StubbornStore()
        leader = await leader_of(store=store)
        node = await leader.node()
        await leader.submit()
        for number in range(20):
            await leader.submit(spec(gpus=8, name=str(number)))  # each is a turn of its own
        assert store.asked == 1
        await asyncio.sleep(3)
        assert 3 <= store.asked <= 5
        store.stubborn = False
        await asyncio.sleep(1.1)
        assert node.launched() == ["1.0.1"]

    play(story())


def test_a_limit_on_running_tasks_counts_from_the_next_cycle_on() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", job_limits=JobLimits(running=1)))
        node = await leader.node()
        await leader.submit(spec(tenant_id="lab"), spec(tenant_id="lab"))
        assert node.launched() == ["1.0.1"]
        await change(leader, "lab", partial(replace, job_limits=JobLimits(running=2)))
        assert node.launched() == ["1.0.1", "2.0.1"]

    play(story())


def test_a_weight_counts_from_the_next_cycle_on() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("a"), Tenant("b"))
        await change(leader, "b", partial(replace, weight=9))
        assert leader.control.picture.tenants["b"].weight == 9

    play(story())


def test_gpu_hours_are_reserved_and_settled_as_the_store_does_it() -> None:
    async def story() -> None:
        limits = JobLimits(gpu_ms=2 * HOUR, period=Period.DAY)
        leader = await leader_of(Tenant("lab", job_limits=limits))
        node = await leader.node()
        await leader.submit(*(spec(tenant_id="lab", time_limit_s=3600 - 60) for _ in range(3)))
        node.reports(says("1.0.1"), says("2.0.1"))
        await asyncio.sleep(0.01)
        assert node.launched() == ["1.0.1", "2.0.1"]
        assert leader.control.picture.hours.used == {"lab": 2 * HOUR}
        await time_passes(600, node)
        node.reports(says("1.0.1", Phase.ENDED, replace(DONE, ended_ms=301_000)))  # it was said late
        await time_passes(15, node)
        assert leader.control.picture.hours.used == {"lab": HOUR + 1000 * 300}
        assert node.launched() == ["1.0.1", "2.0.1"]
        node.reports(says("2.0.1", Phase.ENDED, replace(DONE, ended_ms=301_000)))
        await time_passes(15, node)
        assert leader.control.picture.hours.used == {"lab": HOUR + 1000 * 600}
        assert "3.0.1" in node.launched()

    play(story())


def test_a_new_period_begins_at_midnight() -> None:
    async def story() -> None:
        limits = JobLimits(gpu_ms=HOUR, period=Period.DAY)
        leader = await leader_of(Tenant("lab", job_limits=limits))
        await leader.node()
        until_ms = period_until_ms(Period.DAY, now_ms())
        assert until_ms is not None
        await asyncio.sleep((until_ms - now_ms()) / 1000 + 2)
        tenant = await leader.store.tenant("lab")
        assert tenant is not None
        assert tenant.job_use.period_from_ms == until_ms

    play(story())


def test_a_tenant_that_was_moved_is_charged_where_it_is_now() -> None:
    async def story() -> None:
        leader = await leader_of(
            Tenant("a", job_limits=JobLimits(running=1)),
            Tenant("a/x"),
            Tenant("b", job_limits=JobLimits(running=2)),
        )
        node = await leader.node()
        await leader.submit(spec(tenant_id="a/x"), spec(tenant_id="a/x"))
        assert node.launched() == ["1.0.1"]
        await leader.store.move_tenant("a/x", "b/x", ADMIN, now_ms())
        await asyncio.sleep(1.1)
        assert node.launched() == ["1.0.1", "2.0.1"]
        assert {placed.task.tenant_id for placed in leader.control.picture.placed.values()} == {"b/x"}
        assert await leader.status(1) is Status.SCHEDULED

    play(story())


# Duties


def test_a_ledger_that_differs_is_told_counted_and_put_right() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        leader = await leader_of(Tenant("lab"), store=store)
        await asyncio.sleep(1)
        assert leader.control.alerts.now == ()
        tenants = store._state.tenants
        tenants["lab"] = replace(tenants["lab"], used=replace(tenants["lab"].used, gpu_milli=3000))
        await asyncio.sleep(DUTIES_S)
        (alert,) = leader.control.alerts.now
        assert alert.name == LEDGER_DIFFERS
        assert "tenant lab: gpu_milli was 3000 instead of 0" in alert.text
        assert alert.tenants == ("lab",)
        assert leader.watch.ledger_differences == 1
        await asyncio.sleep(DUTIES_S)
        assert leader.control.alerts.now == ()

    play(story())


def test_a_budget_that_is_nearly_spent_and_then_spent_is_told() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", budget=Budget(1000 * 600)))
        node = await leader.node()
        await leader.submit(spec(tenant_id="lab"))
        node.reports(says("1.0.1"))
        await time_passes(450, node)
        assert leader.control.alerts.now == ()
        await time_passes(100, node)
        (alert,) = leader.control.alerts.now
        assert (alert.name, alert.tenants) == (f"{BUDGET_NEAR}:lab", ("lab",))
        assert "has spent 0.15 of 0.167 GPU-hours of this month" in alert.text
        await time_passes(120, node)
        assert [alert.name for alert in leader.control.alerts.now] == [f"{BUDGET_SPENT}:lab"]
        await change(leader, "lab", partial(replace, budget=None))
        await time_passes(int(DUTIES_S) + 5, node)
        assert leader.control.alerts.now == ()

    play(story())


class Work:
    """A node that ends what it is given, each second."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.ended: set[str] = set()

    async def go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            for name in set(self.node.launched()) - self.ended:
                self.node.reports(says(name), says(name, Phase.ENDED, DONE))
                self.ended.add(name)
            self.node.beats()
            await asyncio.sleep(1)


def test_a_held_series_keeps_room_for_one_task_so_that_who_waits_for_it_does_not_wait_for_ever() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(cpu_milli=6000)))
        work = Work(await leader.node())
        await leader.submit(array(20, at_once=2, tenant_id="lab"))
        await leader.submit(array(20, tenant_id="lab", needs=(Need(NeedKind.CORR, 1),)))
        await leader.store.hold([1], "ann", now_ms())
        await work.go_on(10)
        assert sorted(work.ended) == ["1.0.1", "1.1.1", "2.0.1", "2.1.1"]
        await leader.store.release([1], "ann", now_ms())
        await work.go_on(60)
        jobs = [await leader.store.job(job_id) for job_id in (1, 2)]
        assert [job and job.status for job in jobs] == [Status.COMPLETED, Status.COMPLETED]
        assert await leader.store.recount(1) == []

    play(story())


def test_series_behind_each_other_go_on_in_a_quota_that_was_lowered_to_less_than_one_task_of_each() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(cpu_milli=3000)))
        node = await leader.node()
        await leader.submit(array(9, at_once=1, tenant_id="lab"))
        for on in (1, 2):
            await leader.submit(array(9, at_once=1, tenant_id="lab", needs=(Need(NeedKind.CORR, on),)))
        ended: set[str] = set()

        async def work(ends: int) -> None:
            """One after the other, so that who ends first asks again later than who ends last."""
            for _ in range(ends):
                for name in sorted(set(node.launched()) - ended)[:1]:
                    node.reports(says(name), says(name, Phase.ENDED, DONE))
                    ended.add(name)
                node.beats()
                await asyncio.sleep(0.3)

        await work(5)
        await change(leader, "lab", partial(replace, limits=Limits(cpu_milli=1000)))
        await work(300)
        jobs = [await leader.store.job(job_id) for job_id in (1, 2, 3)]
        assert [job and job.status for job in jobs] == [Status.COMPLETED] * 3
        assert await leader.store.recount(1) == []

    play(story())


@pytest.mark.parametrize("cpu_milli", [2000, 20_000])
def test_two_series_behind_each_other_go_on_when_the_quota_is_lowered_to_one_task(cpu_milli: int) -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(cpu_milli=cpu_milli)))
        work = Work(await leader.node())
        await leader.submit(array(6, at_once=1, tenant_id="lab"))
        await leader.submit(array(6, tenant_id="lab", needs=(Need(NeedKind.CORR, 1),)))
        await change(leader, "lab", lambda tenant: replace(tenant, limits=Limits(cpu_milli=1000)))
        await work.go_on(60)
        jobs = [await leader.store.job(job_id) for job_id in (1, 2)]
        assert [job and job.status for job in jobs] == [Status.COMPLETED, Status.COMPLETED]
        assert await leader.store.recount(1) == []

    play(story())


def test_a_series_of_which_nothing_is_live_says_what_it_lacks() -> None:
    async def story() -> None:
        leader = await leader_of(Tenant("lab", limits=Limits(cpu_milli=1000)))
        await leader.submit(array(5, tenant_id="lab"))
        await change(leader, "lab", lambda tenant: replace(tenant, limits=Limits(cpu_milli=0)))
        await leader.store.cancel_tasks(1, IndexSet.of([0]), "bob", now_ms())
        await asyncio.sleep(0.1)
        why = await Answers(lambda: leader.control, leader.hub).why(1)
        assert why is not None
        assert why.waiting
        assert why.summary == (
            "waits: none of its tasks can be taken on now; 4 of its 5 tasks have not begun, for the quota of "
            "lab has no room for more"
        )

    play(story())


def test_a_series_of_which_nothing_is_live_when_a_new_leader_comes_is_no_drift_later() -> None:
    async def story() -> None:
        first = await leader_of(Tenant("lab", limits=Limits(cpu_milli=1000)))
        await first.submit(array(5, tenant_id="lab"))
        await change(first, "lab", lambda tenant: replace(tenant, limits=Limits(cpu_milli=0)))
        await first.store.cancel_tasks(1, IndexSet.of([0]), "bob", now_ms())
        await asyncio.sleep(0.1)
        first.running.cancel()
        second = Leader(first.store)
        node = await second.node()
        await change(second, "lab", lambda tenant: replace(tenant, limits=Limits(cpu_milli=1000)))
        for _ in range(25):
            node.beats()
            await asyncio.sleep(1)
        assert set(node.launched()) == {"1.1.1"}
        assert second.watch.drift == 0

    play(story())
