"""One attempt in a container, from its order to its recorded end, however often the engine goes away."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiodocker.stream import Stream

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.observe.logs import logger
from tgpu.runner.docker.body import LABEL, labels, name_of
from tgpu.runner.docker.engine import (
    About,
    Engine,
    EngineAwayError,
    EngineRefusedError,
    NotThereError,
    is_taken,
)
from tgpu.runner.docker.following import Follower
from tgpu.runner.docker.keeper import Keeper, NoEngineError
from tgpu.runner.docker.ledger import Ledger
from tgpu.runner.docker.preparing import Prepared, Preparer, Terms
from tgpu.runner.docker.pulling import Puller
from tgpu.runner.docker.states import ENGINE_STOPPED, State, exit_of, fell_with_its_engine
from tgpu.runner.port import AttemptEnded, AttemptNoted, AttemptStarted, LaunchSpec, RunnerEvent
from tgpu.runner.task import Refusal

AWAY_S = 300.0
"""How long an attempt that has no container yet waits for the engine."""
KILL_AGAIN_S = 10.0
RETRY_S = 2.0
STRUCK_DOWN_S = 1.5
"""An engine that stops ends its containers first: so long it is watched whether it is about to."""
LOOKS_WHILE_STRUCK = 5
_GONE = "its container is gone: somebody removed it, or the engine lost it"


@dataclass(slots=True)
class Shared:
    """What all containers of one agent have in common."""

    keeper: Keeper
    puller: Puller
    ledger: Ledger
    preparer: Preparer
    cluster_id: str
    owner: str
    boot: str
    logs: Path
    now_ms: Callable[[], int]
    tell: Callable[[RunnerEvent], None] = lambda _: None
    removable: dict[str, float] = field(default_factory=dict)
    """Attempts whose container is of no use any more, and since when, on the loop's clock."""


class Life:
    def __init__(self, shared: Shared, attempt: str, spec: LaunchSpec | None = None) -> None:
        """Without a spec it was begun by another agent, or before this one was started again."""
        self._shared = shared
        self.attempt = attempt
        self.name = name_of(shared.cluster_id, attempt)
        self._spec = spec
        self._terms = None if spec is None else Terms.of(spec, shared.boot)
        entry = shared.ledger.entries.get(attempt)
        self._stop = None if entry is None else entry.stop
        self._started_ms = None if entry is None else entry.started_ms
        self._claimed = False
        """From here on there may be a container."""
        self._outage = False
        self._told, self._at_once = asyncio.Event(), asyncio.Event()
        self._beginning: asyncio.Task[bool] | None = None
        self._attached: Stream | None = None
        self._follower: Follower | None = None
        self.is_over = False

    # From outside

    async def run(self) -> None:
        ending: asyncio.Task[None] | None = None
        try:
            if self._spec is not None and not await self._has_begun(self._spec):
                return
            self._terms = self._terms or await self._found_terms()
            ending = asyncio.get_running_loop().create_task(self._see_to_its_end(self._terms))
            await self._watch(self._terms)
        except Refusal as refusal:
            detail = str(refusal)
            await self._over(Exit(Cause.COULD_NOT_START, detail=detail, ended_ms=self._shared.now_ms()))
        except NotThereError:
            await self._over(self._gone())
        finally:
            if ending is not None:
                ending.cancel()
            if self._attached is not None:
                await self._attached.close()
            if self._follower is not None:
                self._follower.close()

    def stop(self, cause: Cause, detail: str, *, at_once: bool) -> None:
        if self.is_over:
            return
        if self._stop is None:
            self._stop = (cause, detail)
            with contextlib.suppress(OSError):  # on a full disk: it is stopped all the same
                self._shared.ledger.told_to_stop(self.attempt, cause, detail)
        if at_once:
            self._at_once.set()
        self._told.set()
        if self._beginning is not None and not self._claimed:
            self._beginning.cancel()

    @property
    def has_container(self) -> bool:
        """As far as is known: it may."""
        return self._claimed or self._spec is None

    async def give_up(self) -> None:
        """Of one that never had a container: something is wrong with this agent, and its log says what."""
        detail = "the agent of its node failed to start it; its log says why"
        await self._over(Exit(Cause.COULD_NOT_START, detail=detail, ended_ms=self._shared.now_ms()))

    # From the order to the start

    async def _has_begun(self, spec: LaunchSpec) -> bool:
        """False: it is over before it has."""
        self._beginning = asyncio.get_running_loop().create_task(self._begin(spec))
        try:
            return await self._beginning
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stop is None or (task is not None and task.cancelling()):
                raise  # not this attempt is to end, but the agent
            await self._stopped_before()
            return False

    async def _begin(self, spec: LaunchSpec) -> bool:
        while True:
            try:
                engine, about = await self._shared.keeper.engine(None if self._claimed else AWAY_S)
            except NoEngineError:
                detail = f"this node's container engine did not answer for {AWAY_S:.0f} s"
                await self._over(Exit(Cause.NODE_LOST, detail=detail, ended_ms=self._shared.now_ms()))
                return False
            try:
                return await self._try(engine, about, spec)
            except EngineAwayError:
                self._shared.keeper.lost()
            except EngineRefusedError as error:
                raise Refusal(f"the container engine refused: {error.said}") from error

    async def _try(self, engine: Engine, about: About, spec: LaunchSpec) -> bool:
        shared = self._shared
        assert spec.container is not None
        await shared.puller.provide(engine, spec.container, self._note)
        marks = labels(shared.cluster_id, shared.owner)
        marks |= {f"{LABEL}/attempt": self.attempt, f"{LABEL}/boot": shared.boot}
        prepared = await asyncio.to_thread(shared.preparer.prepare, spec, about, marks)
        try:
            self._claimed = True
            if await self._create(engine, prepared):
                if self._stop is not None:
                    await engine.remove(self.name, force=True)
                    await self._stopped_before()
                    return False
                self._attached = await engine.attach(self.name)
                await engine.start(self.name)
        finally:
            await asyncio.to_thread(prepared.release)
        self._has_started(shared.now_ms())
        return True

    async def _create(self, engine: Engine, prepared: Prepared) -> bool:
        """Whether it is to be started; False: it has been, before the engine or this agent went away."""
        while True:
            try:
                await engine.create(self.name, prepared.body)
            except EngineRefusedError as error:
                if not is_taken(error):
                    raise
            else:
                return True
            inspected = await engine.inspect(self.name)
            if inspected is not None and State.of(inspected).was_started:
                return False
            # What it was to mount was open in an agent that is gone: another one is made.
            await engine.remove(self.name)

    def _has_started(self, at_ms: int) -> None:
        self._started_ms = at_ms
        with contextlib.suppress(OSError):  # on a full disk: the container itself tells the next agent
            self._shared.ledger.started(self.attempt, at_ms)
        self._shared.tell(AttemptStarted(self.attempt, at_ms))

    async def _stopped_before(self) -> None:
        assert self._stop is not None
        detail = self._stop[1] or "stopped before it started"
        await self._over(Exit(self._stop[0], detail=detail, ended_ms=self._shared.now_ms()))

    def _note(self, words: str) -> None:
        if not self.is_over:
            self._shared.tell(AttemptNoted(self.attempt, words))

    # While it runs

    async def _found_terms(self) -> Terms:
        while True:
            engine, _ = await self._shared.keeper.engine()
            try:
                inspected = await engine.inspect(self.name)
            except EngineAwayError:
                self._shared.keeper.lost()
                continue
            if inspected is None:
                raise NotThereError(0, _GONE)
            self._started_ms = State.of(inspected).started_ms or self._started_ms
            return Terms.found(inspected)

    async def _watch(self, terms: Terms) -> None:
        shared = self._shared
        self._follower = Follower(shared.logs / self.attempt, terms.log_cap_bytes)
        while not self.is_over:
            engine, _ = await shared.keeper.engine()
            try:
                await self._follow(engine, self._follower)
                await engine.wait(self.name)
                if self._outage:  # then what was followed may have ended before it did
                    await self._follow(engine, self._follower)
                inspected = await engine.inspect(self.name)
                if inspected is None:
                    raise NotThereError(0, _GONE)
                state = State.of(inspected)
                if not state.is_running:
                    await self._ended(engine, state, terms)
            except EngineAwayError:
                self._outage = True
                shared.keeper.lost()

    async def _follow(self, engine: Engine, follower: Follower) -> None:
        """Until nothing more will come: first from the container itself, later from the engine's copy."""
        attached, self._attached = self._attached, None
        try:
            if attached is not None:
                while (message := await attached.read_out()) is not None:
                    follower.printed(message.stream, message.data)
                return
            async for data in engine.copy(self.name, follower.begin_copy()):
                follower.copied(data)
        except NotThereError:
            raise
        except EngineRefusedError as error:
            logger("runner").warning("no output of a container", attempt=self.attempt, error=error.said)
        except OSError as error:  # a full disk, or the engine is gone: whoever asks it next will see
            logger("runner").warning("output cut off", attempt=self.attempt, error=str(error))
        finally:
            if attached is not None:
                await attached.close()

    async def _see_to_its_end(self, terms: Terms) -> None:
        limit_s = terms.time_limit_s
        if self._stop is None:
            await self._until_told(terms)
        if self._stop is None:
            self.stop(Cause.TIME_LIMIT, f"it ran longer than its limit of {limit_s} s", at_once=False)
        if terms.grace_s and not self._at_once.is_set():
            await self._signal("SIGTERM")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(terms.grace_s):
                    await self._at_once.wait()
        while True:
            await self._signal("SIGKILL")
            await asyncio.sleep(KILL_AGAIN_S)

    async def _until_told(self, terms: Terms) -> None:
        """Or until its time is up."""
        left_s = None
        if terms.time_limit_s is not None and self._started_ms is not None:
            left_s = terms.time_limit_s - (self._shared.now_ms() - self._started_ms) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._told.wait()

    async def _signal(self, number: str) -> None:
        while True:
            engine, _ = await self._shared.keeper.engine()
            try:
                await engine.kill(self.name, number)
            except EngineAwayError:
                self._shared.keeper.lost()
            except EngineRefusedError as error:
                logger("runner").warning("signal refused", attempt=self.attempt, error=error.said)
                return
            else:
                return

    # Its end

    async def _ended(self, engine: Engine, state: State, terms: Terms) -> None:
        struck = None
        if self._stop is None and state.looks_struck_down:
            struck = await self._who_struck(engine, state, terms)
        await self._over(exit_of(state, self._stop, terms.memory_limit_mib, struck))

    async def _who_struck(self, engine: Engine, state: State, terms: Terms) -> Exit | None:
        """What ended it from outside, if the machine or the engine did."""
        if terms.boot != self._shared.boot:
            return Exit(Cause.REBOOTED, detail="the machine restarted")
        stopped = Exit(Cause.NODE_LOST, detail=ENGINE_STOPPED)
        if self._outage or state.was_lost_by_engine:
            return stopped
        for _ in range(LOOKS_WHILE_STRUCK):
            await asyncio.sleep(STRUCK_DOWN_S / LOOKS_WHILE_STRUCK)
            try:
                await engine.ping()
            except EngineAwayError:
                self._shared.keeper.lost()
                return stopped
        try:
            about = await engine.about()  # anew: it may not be the one that we knew
            fell = fell_with_its_engine(
                await engine.remembered(), self.name, state, live_restore=about.live_restore
            )
        except (EngineAwayError, EngineRefusedError):
            return None
        return stopped if fell else None

    def _gone(self) -> Exit:
        now_ms = self._shared.now_ms()
        cause, detail = self._stop or (Cause.NODE_LOST, _GONE)
        return Exit(cause, detail=detail, started_ms=self._started_ms, ended_ms=now_ms)

    async def _over(self, end: Exit) -> None:
        """Told once it is on disk, however long that takes."""
        while True:
            try:
                await asyncio.to_thread(self._shared.ledger.ended, self.attempt, end)
            except OSError as error:
                logger("runner").warning("end not recorded", attempt=self.attempt, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                break
        self.is_over = True
        self._shared.removable[self.attempt] = asyncio.get_running_loop().time()
        self._shared.tell(AttemptEnded(self.attempt, end))
