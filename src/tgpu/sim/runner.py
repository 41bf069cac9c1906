"""The runner's port on a simulated machine: it passes orders on, and finds again what is there."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from random import Random

from tgpu.domain.lifecycle import Cause
from tgpu.runner.look import Look
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, CouldNotPrepareError, LaunchSpec, LogPart, RunnerEvent
from tgpu.runner.shell_port import Shell, ShellOrder, ShellRefusedError
from tgpu.sim.chance import happens
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.machine import Machine

OPENING_S = (0.01, 0.1, 4.0)
"""Reading the records may take so long that streams come and go meanwhile."""


class SimRunner:
    """Belongs to one life of one agent."""

    def __init__(self, loop: SimLoop, random: Random, machine: Machine, owner: Incarnation) -> None:
        self._loop = loop
        self._random = random
        self._machine = machine
        self._owner = owner
        self._known: dict[str, bool] = {}
        """Whether each attempt is over."""
        self._on_event: Callable[[RunnerEvent], None] | None = None

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        await asyncio.sleep(self._random.uniform(0, self._random.choice(OPENING_S)))
        while self._machine.ordered:  # noqa: ASYNC110  as with the real lock: what the last agent ordered is claimed or lost first
            await asyncio.sleep(0.01)
        self._on_event = on_event
        self._machine.tell = self._tell
        found = self._machine.survey()
        self._known = {event.attempt: isinstance(event, AttemptEnded) for event in found}
        await asyncio.sleep(self._random.uniform(0, self._random.choice(OPENING_S)))
        return found

    async def close(self) -> None:
        self._machine.tell = None

    async def prepare(self, spec: LaunchSpec) -> None:
        """Now and then it takes a while, or cannot be done."""
        await asyncio.sleep(self._random.uniform(0, self._random.choice(OPENING_S)))
        if not happens(self._random, 0.98):
            raise CouldNotPrepareError(f"simulated: {spec.attempt} could not be prepared")
        self._machine.prepared(spec.attempt)

    def drop(self, attempt: str) -> None:
        """Nothing of it is left: it was said to be ready, and no more."""

    def launch(self, spec: LaunchSpec) -> None:
        if spec.attempt in self._machine.forgotten:
            assert self._on_event is not None
            self._on_event(AttemptEnded(spec.attempt, HAD_BEFORE))
        elif spec.attempt not in self._known:
            self._known[spec.attempt] = False
            self._machine.order(spec)

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        if self._known.get(attempt) is False:
            self._machine.order_stop(attempt, cause, detail, at_once=at_once)

    def forget(self, attempt: str) -> None:
        if self._known.pop(attempt, False):
            self._machine.forget(attempt)

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        self._machine.heard(stamp_ns / 1e9 + lease_s)

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:  # noqa: ARG002  simulated programs say nothing
        return LogPart(0, b"") if attempt in self._known else None

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:  # noqa: ARG002  simulated programs use nothing
        return {}

    async def open_shell(self, order: ShellOrder) -> Shell:
        raise ShellRefusedError(f"{order.attempt} is simulated: nobody can be inside it")

    def _tell(self, event: RunnerEvent) -> None:
        self._loop.call_later(self._random.uniform(0, 0.05), self._hear, event, context=self._owner.context)

    def _hear(self, event: RunnerEvent) -> None:
        if event.attempt not in self._known:
            return
        if isinstance(event, AttemptEnded):
            self._known[event.attempt] = True
        assert self._on_event is not None
        self._on_event(event)
