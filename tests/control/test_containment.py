"""Faults of one node, job or plan end nothing else: the loop goes on, and alerts."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.control_story import DONE, FakeNode, Leader, hello, now_ms, play, says, spec
from tests.control.test_start_estimates import inline
from tests.protocol.test_validation import hostile_frames
from tgpu.control import committer, loop
from tgpu.control.alerts import CONTROL_FAULT, JOB_SET_ASIDE, NODE_SET_ASIDE
from tgpu.control.answers import Answers
from tgpu.control.gang_starts import GangStarts
from tgpu.control.ledger_audit import LedgerAudit
from tgpu.control.start_estimates import StartEstimates
from tgpu.control.usage_samples import UsageSamples
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.node import Capacity, Node
from tgpu.domain.node_limits import Admission
from tgpu.protocol.framing import encode
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Receipt
from tgpu.wiring.crowd import Crowd
from tgpu.wiring.keyed_link import KeyedAgentLink

POISON = JobSpec("eve", (Group(("true",), Request(-5, 0, 0, 0)),))


async def _until(condition: Callable[[], bool], most_s: float = 120.0) -> None:
    for _ in range(int(most_s / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


async def _works(leader: Leader, node: FakeNode) -> None:
    """The loop still takes in jobs and reports; the node comes back whenever its stream is closed."""
    (job_id,) = await leader.submit()
    name, how = f"{job_id}.0.1", DONE
    ran = False
    for _ in range(2400):
        if node.closed:
            node = await leader.node(node.node_id, *([says(name, Phase.ENDED, how)] if ran else []))
        if name in node.launched() and not ran:
            ran = True
            node.reports(says(name, Phase.ENDED, how))
        if await leader.status(job_id) is Status.COMPLETED:
            break
        await asyncio.sleep(0.05)
    assert await leader.status(job_id) is Status.COMPLETED
    assert not leader.running.done()


def _alert(leader: Leader, name: str) -> str:
    return next((alert.text for alert in leader.control.alerts.now if alert.name == name), "")


def test_report_that_cannot_be_taken_in_sets_its_node_aside() -> None:
    async def story() -> None:
        leader = Leader()
        good, bad = await leader.node("n1"), await leader.node("n2")
        bad.reports(says("not-an-attempt"))
        await _until(lambda: "n2" in _alert(leader, NODE_SET_ASIDE))
        assert leader.watch.faults == 1
        assert (await leader.node("n2")).closed, "it is not listened to for a while"
        await _works(leader, good)
        await asyncio.sleep(61)
        back = await leader.node("n2")
        await _until(lambda: leader.hub.is_settled("n2"))
        assert (back.closed, _alert(leader, NODE_SET_ASIDE)) == (False, "")

    play(story())


class _NeverRefuses:
    async def refusal(self, node_id: str, key: str) -> None:  # noqa: ARG002  the port's names
        return None

    async def admission(self, node_id: str) -> Admission:  # noqa: ARG002  the port's name
        return Admission()


class _Wire(asyncio.Transport):
    """The other end of a stream whose bytes go nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def write(self, data: object) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True

    abort = close


@settings(max_examples=25, deadline=None)
@given(st.lists(hostile_frames(), min_size=1, max_size=8))
def test_no_frame_of_a_node_ends_the_loop_or_touches_another_node(frames: list[bytes]) -> None:
    async def story() -> None:
        leader = Leader()
        good = await leader.node("n1")
        for frame in frames:
            link, wire = KeyedAgentLink(leader.hub, _NeverRefuses(), Crowd(), now_ms), _Wire()
            link.connection_made(wire)
            link.data_received(encode(hello(node_id="n2")))
            await asyncio.sleep(0.01)
            assert leader.hub.is_connected("n2"), "else its frames would not even be heard"
            link.data_received(frame)
            await asyncio.sleep(0.01)
            link.connection_lost(None)
        await Answers(lambda: leader.control, leader.hub).nodes()
        leader.hub.forget("n2")
        await _works(leader, good)
        assert leader.watch.faults == 0, "the edge has refused it, not the loop"

    play(story())


class _Picky(MemoryStore):
    """Fails for one node in a way that names nothing, as a database does."""

    def __init__(self, refuses: Callable[[Batch], bool]) -> None:
        super().__init__("c")
        self._refuses = refuses

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        if self._refuses(batch):
            raise ValueError("invalid byte sequence")
        return await super().commit(epoch, batch)


def test_node_whose_report_cannot_be_committed_is_found_among_many() -> None:
    async def story() -> None:
        leader = Leader(_Picky(lambda batch: any(node.node_id == "n3" for node in batch.nodes)))
        await asyncio.sleep(0.01)
        nodes = [FakeNode(leader.hub, f"n{number}") for number in range(1, 6)]
        for node in nodes:
            node.says_hello()
        for _ in range(400):
            if "n3" in _alert(leader, NODE_SET_ASIDE):
                break
            for at, node in enumerate(nodes):
                if node.closed:
                    nodes[at] = FakeNode(leader.hub, node.node_id)
                    nodes[at].says_hello()
            await asyncio.sleep(0.1)
        assert _alert(leader, NODE_SET_ASIDE).startswith(
            "set aside, since the scheduler failed on what they said: n3 ("
        )
        await _works(leader, nodes[0])
        await asyncio.sleep(90)
        assert _alert(leader, CONTROL_FAULT) == ""

    play(story())


def test_job_that_the_scheduler_fails_on_is_set_aside_by_this_leader_and_the_next() -> None:
    async def story() -> None:
        first = Leader()
        node = await first.node()
        (poison,) = await first.submit(POISON)
        await _until(lambda: f"job {poison}" in _alert(first, JOB_SET_ASIDE))
        await _works(first, node)
        first.running.cancel()
        second = Leader(first.store)
        node = await second.node()
        assert f"job {poison}" in _alert(second, JOB_SET_ASIDE)
        await _works(second, node)
        await asyncio.sleep(30)
        assert (second.watch.drift, await second.status(poison)) == (0, Status.PENDING)
        why = await Answers(lambda: second.control, second.hub).why(poison)
        assert why is not None
        assert why.summary.startswith("waits: set aside, since the scheduler failed on it")

    play(story())


def test_running_job_that_is_set_aside_runs_on_and_keeps_its_room() -> None:
    async def story() -> None:
        first = Leader()
        node = await first.node()
        (job_id,) = await first.submit(spec(gpus=2))
        node.reports(says(f"{job_id}.0.1"))
        await asyncio.sleep(0.1)
        first.running.cancel()
        second = Leader(first.store)
        second.control.containment.set_job_aside(job_id, "a fault")
        node = await second.node("n1", says(f"{job_id}.0.1"))
        (other,) = await second.submit()
        await asyncio.sleep(30)
        assert (node.stopped(), node.forgot(), node.launched()) == ([], [], [])
        assert (await second.status(job_id), await second.status(other)) == (Status.RUNNING, Status.PENDING)
        node.reports(says(f"{job_id}.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(1)
        second.running.cancel()
        third = Leader(first.store)
        node = await third.node("n1", says(f"{job_id}.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.1)
        assert (await third.status(job_id), node.launched()) == (Status.COMPLETED, [f"{other}.0.1"])

    play(story())


def test_node_whose_row_is_wrong_is_left_out_until_it_describes_itself() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        wrong = Node("n1", NodeState.READY, Capacity(-1, -1, -1))
        await store.commit(await store.claim(), Batch(0, nodes=[wrong]))
        leader = Leader(store)
        await asyncio.sleep(0.01)
        assert "n1" in _alert(leader, NODE_SET_ASIDE)
        node = await leader.node()
        await _works(leader, node)
        assert _alert(leader, NODE_SET_ASIDE) == ""

    play(story())


def test_planner_that_fails_does_not_keep_reports_from_being_taken_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (running,) = await leader.submit()
        node.reports(says(f"{running}.0.1"))
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patch:
            patch.setattr(committer, "plan", _fails)
            await leader.submit()
            await _until(lambda: "ZeroDivisionError" in _alert(leader, CONTROL_FAULT))
            node = await leader.node("n1", says(f"{running}.0.1", Phase.ENDED, DONE))
            await asyncio.sleep(15)
            assert await leader.status(running) is Status.COMPLETED
        await asyncio.sleep(90)
        assert not leader.running.done()
        await _works(leader, await leader.node())
        assert _alert(leader, CONTROL_FAULT) == ""

    play(story())


def _fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError("division by zero")


def test_duty_that_fails_does_not_end_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(_: LedgerAudit, epoch: int) -> None:
        raise ZeroDivisionError(epoch)

    async def story() -> None:
        monkeypatch.setattr(LedgerAudit, "look", look)
        leader = Leader()
        await _works(leader, await leader.node())
        assert leader.watch.faults == 1

    play(story())


def test_node_is_not_blamed_for_a_fault_of_what_is_due_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    async def story() -> None:
        leader = Leader()
        await leader.node()
        with monkeypatch.context() as patch:
            patch.setattr(GangStarts, "late", late)
            for _ in range(40):
                if not leader.hub.is_connected("n1"):
                    await leader.node()
                await asyncio.sleep(1)
            assert "ZeroDivisionError" in _alert(leader, CONTROL_FAULT)
            assert _alert(leader, NODE_SET_ASIDE) == ""
        await _works(leader, await leader.node())

    play(story())


@pytest.mark.parametrize(
    ("owner", "work"), [(UsageSamples, "take"), (StartEstimates, "committed"), (loop, "measure")]
)
def test_fault_of_work_beside_the_turn_is_alerted_and_leaves_the_loop_as_it_is(
    owner: object, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        leader = Leader(estimate_s=5.0)
        assert leader.control.estimates is not None
        leader.control.estimates.aside = inline
        node = await leader.node()
        with monkeypatch.context() as patch:
            patch.setattr(owner, work, _fails)
            for _ in range(13):  # longer than the pause between two usage samples
                node.beats()
                await asyncio.sleep(5)
            await _works(leader, node)
            assert not node.closed, "the turn went on, so no node had to report again"
            assert leader.watch.faults > 0
            assert "ZeroDivisionError" in _alert(leader, CONTROL_FAULT)
        for _ in range(40):
            node.beats()
            await asyncio.sleep(5)
        assert _alert(leader, CONTROL_FAULT) == ""

    play(story())
