"""A control loop with its hub and a memory store, nodes made of words, and virtual time."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.loop import Control, Timers
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy, named
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit, Group, JobSpec, Request, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.gangs import Go
from tgpu.protocol.messages import (
    PROTOCOL,
    AttemptReport,
    FromServer,
    Greeting,
    Heartbeat,
    Hello,
    NodeUse,
    Orders,
    Phase,
    Report,
    Stop,
)
from tgpu.sim.loop import SimLoop
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Store

POLICY = named("priority")
DONE = Exit(Cause.EXITED, exit_code=0, started_ms=1000, ended_ms=2000)


def play(story: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop(Random(0))
    try:
        loop.run_until_complete(story)
    finally:
        loop.dispose()


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def capacity(gpus: int = 2, cpus: int = 8) -> Capacity:
    devices = tuple(Device(index, f"GPU-{index}", "NVIDIA A100", 81920) for index in range(gpus))
    return Capacity(cpus * 1000, 16384, 1000, devices)


def spec(user: str = "ada", gpus: int = 1, **more: Any) -> JobSpec:
    return JobSpec(user, (Group(("true",), Request(1000, 0, 0, gpus * 1000)),), **more)


def task(job_id: int = 1, gpus: int = 1, **more: Any) -> TaskBrief:
    facts: dict[str, Any] = {
        "status": Status.PENDING,
        "user": "ada",
        "tenant_id": "default",
        "name": "",
        "priority_class": PriorityClass.DEFAULT,
        "priority": 0,
        "submitted_ms": 0,
        "attempts": 0,
        "time_limit_s": None,
        "max_wait_s": None,
        "requeue": True,
        "grace_s": None,
        "cancel_by": None,
    }
    return TaskBrief(task_id=TaskId(job_id, 0), request=Request(1000, 0, 0, gpus * 1000), **(facts | more))


def picture_with(
    *waiting: TaskBrief, placed: Sequence[TaskBrief] = (), nodes: Sequence[str] = ("n1",)
) -> Picture:
    """Each placed task has the device of its place in the list, on the first node."""
    picture = Picture(POLICY)
    for node_id in nodes:
        picture.set_node(Node(node_id, NodeState.READY, capacity(gpus=4)))
        picture.set_reachable(node_id, reachable=True)
    for at, each in enumerate(placed):
        picture.place(each, each.task_id.attempt(each.attempts + 1), nodes[0], (at,))
    for each in waiting:
        picture.add_waiting(each)
    return picture


def running(picture: Picture, job_id: int, started_ms: int = 1000) -> Placed:
    """As if its node had reported it, some turns ago."""
    placed = picture.placed[TaskId(job_id, 0)]
    placed.state, placed.started_ms = AttemptState.RUNNING, started_ms
    placed.task = replace(placed.task, status=Status.RUNNING)
    return placed


def says(attempt: str, phase: Phase = Phase.RUNNING, how: Exit | None = None) -> AttemptReport:
    started_ms = None if phase is Phase.STARTING else 1000
    return AttemptReport(attempt=attempt, phase=phase, started_ms=started_ms, exit=how)


def hello(
    *attempts: AttemptReport,
    node_id: str = "n1",
    has: Capacity | None = None,
    gangs: bool = True,
    shared_tmp: bool = True,
    keys: bool = False,
    **more: Any,
) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        node_id=node_id,
        boot_id="b",
        version="1",
        capacity=has or capacity(),
        pool="default",
        serves="*",
        attempts=attempts,
        gangs=gangs,
        shared_tmp=shared_tmp,
        keys=keys,
        **{"labels": {}, "instance": "the same process", **more},
    )


class FakeNode:
    """The hub's link to a node, and the node's mouth."""

    def __init__(self, hub: Hub, node_id: str = "n1") -> None:
        self.node_id = node_id
        self.heard: list[FromServer] = []
        self.closed = False
        self.knows_gangs = self.knows_shared_tmp = True
        self.wants_keys = False
        self._seq = 0
        self.session = hub.opened(self)

    def send(self, message: FromServer) -> None:
        self.heard.append(message)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.session.closed)

    def says_hello(self, *attempts: AttemptReport, **more: Any) -> None:
        knows = {"gangs": self.knows_gangs, "shared_tmp": self.knows_shared_tmp, "keys": self.wants_keys}
        self.session.received(hello(*attempts, node_id=self.node_id, **knows, **more))

    def reports(self, *attempts: AttemptReport) -> None:
        self._seq += 1
        self.session.received(Report(seq=self._seq, attempts=attempts))

    def beats(self, has: Capacity | None = None) -> None:
        self.session.received(Heartbeat(use=NodeUse(), capacity=has))

    def launched(self) -> list[str]:
        return [launch.attempt for orders in self._orders() for launch in orders.launches]

    def stopped(self) -> list[str]:
        return [stop.attempt for stop in self.stops()]

    def stops(self) -> list[Stop]:
        return [stop for orders in self._orders() for stop in orders.stops]

    def went(self) -> list[Go]:
        return [go for orders in self._orders() for go in orders.go]

    def forgot(self) -> list[str]:
        return [attempt for orders in self._orders() for attempt in orders.forget]

    def _orders(self) -> list[Orders]:
        return [message for message in self.heard if isinstance(message, Orders)]

    @property
    def greeting(self) -> Greeting:
        (said,) = [message for message in self.heard if isinstance(message, Greeting)]
        return said


class Watch:
    """An observer that only counts."""

    def __init__(self) -> None:
        self.drift = 0
        self.ledger_differences = 0
        self.faults = 0
        self.alerts: dict[str, bool] = {}
        self.placements = 0
        self.waits: list[tuple[str, float]] = []
        self.runs: list[tuple[str, float]] = []
        self.completions: list[tuple[str, float]] = []
        self.start_estimates: list[tuple[str, bool, float]] = []

    def observe_wait(self, priority_class: str, seconds: float) -> None:
        self.waits.append((priority_class, seconds))

    def observe_completion(self, outcome: str, seconds: float) -> None:
        self.completions.append((outcome, seconds))

    def observe_run(self, outcome: str, seconds: float) -> None:
        self.runs.append((outcome, seconds))

    def observe_start_estimate(self, horizon: str, *, inside: bool, error_s: float) -> None:
        self.start_estimates.append((horizon, inside, error_s))

    def observe_decision(self, seconds: float) -> None: ...

    def observe_cycle(self, seconds: float) -> None: ...

    def observe_commit(self, seconds: float) -> None: ...

    def count_placements(self, number: int) -> None:
        self.placements += number

    def count_drift(self, number: int) -> None:
        self.drift += number

    def count_fault(self, why: str) -> None:  # noqa: ARG002  the port's name
        self.faults += 1

    def count_ledger_differences(self, number: int) -> None:
        self.ledger_differences += number

    def note_alert(self, name: str, *, on: bool) -> None:
        self.alerts[name] = on


class Leader:
    """One server, running."""

    def __init__(self, store: Store | None = None, policy: Policy = POLICY, estimate_s: float = 0.0) -> None:
        self.store = store or MemoryStore("c")
        inbox = Inbox()
        self.hub = Hub(inbox)
        self.store.subscribe(inbox.store_changed)
        self.watch = Watch()
        self.published: list[str] = []
        self.control = Control(
            store=self.store,
            inbox=inbox,
            hub=self.hub,
            policy=policy,
            timers=Timers(estimate_s=estimate_s),
            now_ms=now_ms,
            observer=self.watch,
            publish=lambda events: self.published.extend(event.kind for event in events),
        )
        self.running = asyncio.create_task(self._lead())

    async def _lead(self) -> None:
        await self.control.run(await self.store.claim())

    async def node(self, node_id: str = "n1", *attempts: AttemptReport, **more: Any) -> FakeNode:
        """A node that connects and says hello."""
        await asyncio.sleep(0.01)
        node = FakeNode(self.hub, node_id)
        node.says_hello(*attempts, **more)
        await asyncio.sleep(0.01)
        return node

    async def submit(self, *specs: JobSpec) -> list[int]:
        submitted = await self.store.submit(specs or [spec()], now_ms())
        await asyncio.sleep(0.01)
        return submitted.job_ids

    async def cancel(self, job_id: int, by: str = "bob", *, now: bool = False) -> None:
        await self.store.request_cancel([job_id], by, now_ms(), now=now)
        await asyncio.sleep(0.01)

    async def status(self, job_id: int) -> Status:
        job = await self.store.job(job_id)
        assert job is not None
        return job.status
