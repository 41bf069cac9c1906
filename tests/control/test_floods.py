"""When very much happens at once it is dealt with in parts, and whoever is urgent comes in between."""

import asyncio

import pytest

from tests.control.control_story import DONE, Leader, hello, play, says, spec
from tgpu.control import committer, loop
from tgpu.control.inbox import Inbox, NodeEvent, NodeLeft, NodeReported, NodeSaidHello
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.messages import Phase, Report
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Receipt


class Diary(MemoryStore):
    """Writes down what is committed; with the first start somebody submits an urgent job."""

    def __init__(self) -> None:
        super().__init__("c")
        self.started: list[list[int]] = []
        self.ended: list[int] = []
        self.urgent: int | None = None

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        if batch.assigned:
            self.started.append([change.attempt_id.job_id for change in batch.assigned])
        if batch.ended:
            self.ended.append(len(batch.ended))
        receipt = await super().commit(epoch, batch)
        if batch.assigned and self.urgent is None:
            urgent = spec(gpus=0, priority_class=PriorityClass.REAL_TIME)
            self.urgent = (await self.submit([urgent], batch.at_ms)).job_ids[0]
        return receipt


@pytest.mark.parametrize("asks_for", [[0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0]])
def test_an_urgent_job_waits_for_one_part_of_a_flood_and_not_for_all(
    asks_for: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "MOST_STARTS", 2)

    async def story() -> None:
        store = Diary()
        leader = Leader(store)
        await leader.submit(*[spec(gpus=gpus) for gpus in asks_for])
        node = await leader.node()
        await asyncio.sleep(0.01)
        assert len(store.started[0]) == 2
        assert all(len(part) <= 3 for part in store.started)
        assert store.urgent == 7
        assert store.started[1][0] == 7
        assert sorted(job_id for part in store.started for job_id in part) == [1, 2, 3, 4, 5, 6, 7]
        assert len(node.launched()) == 7

    play(story())


def test_reports_that_come_together_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_REPORTS", 4)

    async def story() -> None:
        store = Diary()
        store.urgent = 0
        leader = Leader(store)
        node = await leader.node()
        jobs = await leader.submit(*[spec(gpus=0)] * 5)
        for job_id in jobs:
            node.reports(says(f"{job_id}.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.01)
        assert store.ended == [2, 2, 1]
        assert {await leader.status(job_id) for job_id in jobs} == {Status.COMPLETED}

    play(story())


def test_what_is_left_or_put_back_is_taken_next_and_in_order() -> None:
    async def story() -> None:
        inbox = Inbox()
        first = NodeSaidHello(1, hello(says("1.0.1"), says("2.0.1")))
        report = NodeReported(1, "n1", Report(seq=1, attempts=(says("3.0.1"),)))
        events: list[NodeEvent] = [first, report, NodeLeft("n2"), NodeLeft("n3")]
        for event in events:
            inbox.put(event)
        inbox.store_changed()
        assert inbox.take(4) == ([first, report], True)
        assert inbox.take(1) == ([NodeLeft("n2")], False)
        inbox.put(NodeLeft("n4"))
        inbox.put_back([report])
        await asyncio.wait_for(inbox.wait(), 1)
        assert inbox.take() == ([report, NodeLeft("n3"), NodeLeft("n4")], False)

    play(story())
