"""One life of a server: the real leadership, control loop, hub and inbox, and a door where users ask."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from tgpu.control.agent_session import Link
from tgpu.control.agent_session import Session as HubSession
from tgpu.control.directory import Directory
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.leadership import Leadership, LeaseTimers
from tgpu.control.loop import Control, Timers
from tgpu.core.policy import named
from tgpu.domain.job import Event
from tgpu.protocol.messages import FromAgent
from tgpu.sim.facts import Facts
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.store import SimStore
from tgpu.sim.stream import Session
from tgpu.sim.trace import Trace
from tgpu.store.cluster_port import ServerRow

T = TypeVar("T")


class ServerProcess:
    def __init__(
        self,
        *,
        name: str,
        host: str,
        shared: bool,
        loop: SimLoop,
        random: Random,
        store: SimStore,
        facts: Facts,
        trace: Trace,
        policy: str,
        on_exit: Callable[["ServerProcess"], None],
    ) -> None:
        """`host`: which of the servers this is a life of. `shared`: there are others."""
        self.incarnation = Incarnation(name)
        self.host = host
        self._loop = loop
        self._store = store
        self._facts = facts
        self._trace = trace
        self._on_exit = on_exit
        self._policy = policy
        self._inbox = Inbox()
        self.hub = Hub(self._inbox)
        store.subscribe(self._inbox.store_changed)
        self.control: Control | None = None
        """Of its present term, if it leads or thinks so."""
        self._directory = Directory(store, ServerRow(host, f"sim://{host}", "1", "alike", 0))
        self._leadership = Leadership(
            store=store,
            server_id=host,
            hub=self.hub,
            directory=self._directory,
            begin_term=self._begin_term,
            end_term=self._end_term,
            timers=LeaseTimers(),
            random=random,
            shared=shared,
        )

    def _begin_term(self) -> Control:
        self.control = Control(
            store=self._store,
            inbox=self._inbox,
            hub=self.hub,
            policy=named(self._policy),
            timers=Timers(),
            now_ms=lambda: round(self._loop.time() * 1000),
            observer=_Watch(self._facts, self.incarnation.name),
            publish=_to_nobody,
        )
        self.control.stopwatch = self._loop.time
        return self.control

    def _end_term(self) -> None:
        self.control = None

    @property
    def leads(self) -> bool:
        """In truth: nobody has won since."""
        return self.control is not None and self.control.leads and self.incarnation.name == self._facts.leader

    def accept(self, link: Link) -> Session:
        return _Heard(self.hub.opened(link), self)

    def was_heard(self, node_id: str) -> None:
        """As the hub counts it, if it is the leader's."""
        if self.leads and self.hub.heard.get(node_id) == self._loop.time():
            self._facts.heard.setdefault(node_id, []).append(self._loop.time())

    def start(self) -> None:
        self._spawn(self._main())

    async def _main(self) -> None:
        self._spawn(self._directory.keep())
        try:
            await self._leadership.run()
        except Exception as error:  # noqa: BLE001  whatever ends a server is what we look for
            if not self._loop.is_running():
                return  # the run is over, and what is unfinished is thrown away
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


class _Heard:
    """A session of the hub, overheard."""

    def __init__(self, session: HubSession, server: ServerProcess) -> None:
        self._session = session
        self._server = server

    def received(self, message: FromAgent) -> None:
        self._session.received(message)
        if self._session.node_id is not None:
            self._server.was_heard(self._session.node_id)

    def refused(self, why: str) -> None:
        self._session.refused(why)

    def closed(self) -> None:
        self._session.closed()


class _Watch:
    """The observer: of all that is measured, only what was found wrong is a fact here, and drift only the
    leader's: one that was deposed in its sleep rightly finds the world changed."""

    def __init__(self, facts: Facts, name: str) -> None:
        self._facts = facts
        self._name = name

    def observe_wait(self, priority_class: str, seconds: float) -> None: ...

    def observe_run(self, outcome: str, seconds: float) -> None: ...

    def observe_completion(self, outcome: str, seconds: float) -> None: ...

    def observe_decision(self, seconds: float) -> None: ...

    def observe_cycle(self, seconds: float) -> None: ...

    def observe_commit(self, seconds: float) -> None: ...

    def observe_start_estimate(self, horizon: str, *, inside: bool, error_s: float) -> None: ...

    def count_placements(self, number: int) -> None: ...

    def note_alert(self, name: str, *, on: bool) -> None: ...

    def count_fault(self, why: str) -> None:
        self._facts.failures.append(f"{self._name} contained an exception: {why}")

    def count_ledger_differences(self, number: int) -> None:
        self._facts.ledger_differences += number

    def count_drift(self, number: int) -> None:
        if self._facts.leader == self._name:
            self._facts.drift += number


def _to_nobody(events: Sequence[Event]) -> None:
    del events
