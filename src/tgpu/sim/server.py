"""One life of a server: the real control loop, hub and inbox, and a door where users ask."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.loop import Control, Timers
from tgpu.core.policy import named
from tgpu.domain.job import Event
from tgpu.sim.facts import Facts
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.store import SimStore
from tgpu.sim.trace import Trace
from tgpu.store.port import DeposedError, StoreUnavailableError

T = TypeVar("T")


class ServerProcess:
    def __init__(
        self,
        *,
        name: str,
        loop: SimLoop,
        store: SimStore,
        facts: Facts,
        trace: Trace,
        policy: str,
        on_exit: Callable[["ServerProcess"], None],
    ) -> None:
        self.incarnation = Incarnation(name)
        self._loop = loop
        self._store = store
        self._facts = facts
        self._trace = trace
        self._on_exit = on_exit
        inbox = Inbox()
        self.hub = Hub(inbox)
        self.control = Control(
            store=store,
            inbox=inbox,
            hub=self.hub,
            policy=named(policy),
            timers=Timers(),
            now_ms=lambda: round(loop.time() * 1000),
            observer=_Watch(facts, name),
            publish=_to_nobody,
        )

    def start(self) -> None:
        self._spawn(self._main())

    async def _main(self) -> None:
        try:
            await self.control.run()
        except DeposedError:
            why = "is deposed"
        except StoreUnavailableError:
            why = "could not take over"
        except Exception as error:  # noqa: BLE001  whatever else ends a server is what we look for
            why = f"failed: {error!r}"
            self._facts.failures.append(f"{self.incarnation.name} {why}")
        else:
            why = "ended"
        self._trace.add(self.incarnation.name, why)
        self._loop.outside(0, self._on_exit, self)

    async def ask(self, question: Callable[[SimStore], Coroutine[Any, Any, T]], patience_s: float) -> T:
        """A request to the API of this process: if it dies, nobody answers. Raises TimeoutError."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._spawn(self._answer(question, answer))
        return await asyncio.wait_for(answer, patience_s)

    async def _answer(
        self, question: Callable[[SimStore], Coroutine[Any, Any, T]], answer: "asyncio.Future[T]"
    ) -> None:
        try:
            result = await question(self._store)
        except Exception as error:  # noqa: BLE001  the answer to a request may be an error
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop.create_task(work, context=self.incarnation.context.copy())


class _Watch:
    """The observer: of all that is measured, only drift is a fact here, and only the leader's: one that
    was deposed in its sleep rightly finds the world changed."""

    def __init__(self, facts: Facts, name: str) -> None:
        self._facts = facts
        self._name = name

    def observe_wait(self, priority_class: str, seconds: float) -> None: ...

    def observe_run(self, outcome: str, seconds: float) -> None: ...
    def observe_completion(self, outcome: str, seconds: float) -> None: ...

    def observe_decision(self, seconds: float) -> None: ...

    def observe_cycle(self, seconds: float) -> None: ...

    def observe_commit(self, seconds: float) -> None: ...

    def count_placements(self, number: int) -> None: ...

    def count_drift(self, number: int) -> None:
        if self._facts.leader == self._name:
            self._facts.drift += number


def _to_nobody(events: Sequence[Event]) -> None:
    del events
