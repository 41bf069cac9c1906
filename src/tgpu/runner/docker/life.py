"""One attempt in a container, from its order to its recorded end, however often the engine goes away."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiodocker.stream import Stream

from tgpu.domain.container import Pull
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import is_full
from tgpu.observe.logs import logger
from tgpu.runner import checkpoint_folder
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.docker import terminal
from tgpu.runner.docker.body import name_of
from tgpu.runner.docker.engine import About, Engine, EngineAwayError, EngineRefusedError, NotThereError
from tgpu.runner.docker.following import Follower
from tgpu.runner.docker.keeper import Keeper, NoEngineError
from tgpu.runner.docker.ledger import Ledger
from tgpu.runner.docker.making import Maker
from tgpu.runner.docker.memory_kills import state_of
from tgpu.runner.docker.patience import Patience, refused_words
from tgpu.runner.docker.preparing import Prepared, Terms
from tgpu.runner.docker.pulling import Puller
from tgpu.runner.docker.states import State, exit_of
from tgpu.runner.docker.striking import who_struck
from tgpu.runner.docker.terminal import ContainerTerminal
from tgpu.runner.port import AttemptEnded, AttemptNoted, AttemptStarted, LaunchSpec, RunnerEvent
from tgpu.runner.task import Refusal

AWAY_S = 300.0
"""How long an attempt that has no container yet waits for the engine."""
KILL_AGAIN_S = 10.0
RETRY_S = 2.0
_GONE = "its container is gone: somebody removed it, or the engine lost it"
NOT_ANSWERED = f"this node's container engine did not answer for {AWAY_S:.0f} s"


class _NoImageError(Exception):
    """The engine cannot make it: its image is not here."""

    def __init__(self, said: NotThereError) -> None:
        super().__init__(said.said)
        self.said = said


@dataclass(slots=True)
class Shared:
    """What all containers of one agent have in common."""

    keeper: Keeper
    puller: Puller
    ledger: Ledger
    maker: Maker
    cluster_id: str
    owner: str
    boot: str
    logs: Path
    now_ms: Callable[[], int]
    tell: Callable[[RunnerEvent], None] = lambda _: None
    removable: dict[str, float] = field(default_factory=dict)
    """Attempts whose container is of no use any more, and since when, on the loop's clock."""


class Life:
    def __init__(
        self, shared: Shared, attempt: str, spec: LaunchSpec | None = None, *, is_ready: bool = False
    ) -> None:
        """Without a spec it was begun by another agent, or before this one was started again. `is_ready`: its
        image was fetched just for it."""
        self._shared = shared
        self._is_ready = is_ready
        self.attempt = attempt
        self.name = name_of(shared.cluster_id, attempt)
        self._spec = spec
        self._terms = None if spec is None else Terms.of(spec, shared.boot)
        entry = shared.ledger.entries.get(attempt)
        self._stop = None if entry is None else entry.stop
        self._was_warned = entry is not None and entry.warned
        self._started_ms = None if entry is None else entry.started_ms
        self._claimed = False
        """From here on there may be a container."""
        self._outage = False
        self._told, self._at_once = asyncio.Event(), asyncio.Event()
        self._beginning: asyncio.Task[bool] | None = None
        self._attached: Stream | None = None
        self._follower: Follower | None = None
        self.is_known = asyncio.Event()
        """Set once all is known of it that its container tells."""
        self.terminal: ContainerTerminal | None = None
        if self._terms is not None:
            self._knows(self._terms)
        self.is_over = False

    # From outside

    async def run(self) -> None:
        ending: asyncio.Task[None] | None = None
        try:
            if self._spec is not None and not await self._has_begun(self._spec):
                return
            if self._terms is None:
                self._terms = await self._found_terms()
                self._knows(self._terms)
            ending = asyncio.get_running_loop().create_task(self._see_to_its_end(self._terms))
            await self._watch(self._terms)
        except Refusal as refusal:
            await self._never_began(Cause.COULD_NOT_START, str(refusal))
        except NotThereError:
            await self._over(self._gone())
        finally:
            if ending is not None:
                ending.cancel()
            if self._attached is not None:
                await self._attached.close()
            if self._follower is not None:
                self._follower.close()
            if self.terminal is not None:
                self.terminal.close()

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

    @property
    def reserved_mib(self) -> int:
        return 0 if self._terms is None else self._terms.memory_mib

    async def give_up(self, error: Exception) -> None:
        """Of one that never had a container: something is wrong with this agent, and its log says what."""
        why = (Cause.COULD_NOT_START, "the agent of its node failed to start it; its log says why")
        await self._never_began(*((Cause.NODE_LOST, DISK_FULL) if is_full(error) else why))

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
        patience = Patience(self._shared.keeper)
        while True:
            try:
                engine, about = await self._shared.keeper.engine(None if self._claimed else AWAY_S)
            except NoEngineError:
                await self._never_began(Cause.NODE_LOST, NOT_ANSWERED)
                return False
            try:
                return await self._try(engine, about, spec)
            except EngineAwayError:
                patience.begins_anew()
                self._shared.keeper.lost()
            except EngineRefusedError as error:
                if self._stop is not None or not await patience.lasts(error):
                    await self._unmake(engine)
                    await self._never_began(patience.cause(error), refused_words(error))
                    return False

    async def _try(self, engine: Engine, about: About, spec: LaunchSpec) -> bool:
        """Whether the image is here, the engine says when it is to make the container: mostly it is."""
        shared, container, may_have_one = self._shared, spec.container, self._claimed
        assert container is not None
        asked = container.pull is Pull.ALWAYS and not self._is_ready
        if asked:
            await shared.puller.provide(engine, container, self._note)
        while True:
            prepared = await shared.maker.prepare(spec, about)
            try:
                self._claimed = True
                return await self._started(engine, prepared)
            except _NoImageError as error:
                if asked:
                    raise error.said from error
                asked, self._claimed = True, may_have_one
            finally:
                await asyncio.to_thread(prepared.release)
            if self._stop is not None:
                await self._stopped_before()
                return False
            await shared.puller.provide(engine, container, self._note)

    async def _started(self, engine: Engine, prepared: Prepared) -> bool:
        """False: it was stopped before."""
        try:
            is_new = await self._shared.maker.create(engine, self.attempt, prepared)
        except NotThereError as error:
            raise _NoImageError(error) from error
        if is_new:
            if self._stop is not None:
                await engine.remove(self.name, force=True)
                await self._stopped_before()
                return False
            self._attached = await engine.attach(self.name, terminal=self.terminal is not None)
            await engine.start(self.name)
        self._has_started(self._shared.now_ms())
        return True

    def _has_started(self, at_ms: int) -> None:
        self._started_ms = at_ms
        with contextlib.suppress(OSError):  # on a full disk: the container itself tells the next agent
            self._shared.ledger.started(self.attempt, at_ms, self._shared.boot)
        self._shared.tell(AttemptStarted(self.attempt, at_ms))

    async def _unmake(self, engine: Engine) -> None:
        """What never ran leaves nothing to look at."""
        if self._claimed:
            with contextlib.suppress(EngineAwayError, EngineRefusedError):  # then it goes with the old ones
                await engine.remove(self.name, force=True)

    async def _stopped_before(self) -> None:
        assert self._stop is not None
        await self._never_began(*self._stop)

    async def _never_began(self, cause: Cause, detail: str) -> None:
        if self._stop is not None:
            cause, detail = self._stop[0], self._stop[1] or "stopped before it started"
        if self._spec is not None and cause in checkpoint_folder.FINAL:
            await asyncio.to_thread(checkpoint_folder.remove_if_empty, self._spec.checkpoint_dir)
        await self._over(Exit(cause, detail=detail, ended_ms=self._shared.now_ms()))

    def _note(self, words: str) -> None:
        if not self.is_over:
            self._shared.tell(AttemptNoted(self.attempt, words))

    def _knows(self, terms: Terms) -> None:
        if terms.terminal:
            self.terminal = ContainerTerminal(self._shared.logs / self.attempt, self._resize)
        self.is_known.set()

    async def _resize(self, rows: int, cols: int) -> None:
        with contextlib.suppress(NoEngineError):
            engine, _ = await self._shared.keeper.engine(RETRY_S)
            await engine.resize(self.name, rows, cols)

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
                state = await state_of(engine, self.name, is_limited=bool(terms.memory_limit_mib))
                if state is None:
                    raise NotThereError(0, _GONE)
                if not state.is_running:
                    await self._ended(engine, state, terms)
            except EngineAwayError:
                self._outage = True
                shared.keeper.lost()

    async def _follow(self, engine: Engine, follower: Follower) -> None:
        """Until nothing more will come: first from the container itself, later from the engine's copy."""
        attached, self._attached = self._attached, None
        try:
            if self.terminal is not None:
                await terminal.follow(engine, self.name, attached, follower, self.terminal)
                return
            if attached is not None:
                while (message := await attached.read_out()) is not None:
                    follower.printed(message.stream, message.data)
                return
            about = self._shared.keeper.about
            is_docker = about is not None and about.kind == "docker"
            since = follower.begin_copy(forgets_ends=is_docker, stamped=is_docker)
            async for data in engine.copy(self.name, since, stamped=is_docker):
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
            await self._signal(f"SIG{terms.stop_signal}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(terms.grace_s):
                    await self._at_once.wait()
        while True:
            await self._signal("SIGKILL")
            await asyncio.sleep(KILL_AGAIN_S)

    async def _until_told(self, terms: Terms) -> None:
        """Or until its time is up; before that it is warned, if it is to be."""
        if terms.warn is not None and terms.time_limit_s is not None and not self._was_warned:
            await self._told_within(self._left_s(terms.time_limit_s - terms.warn[1]))
            if not self._told.is_set():
                await self._signal(f"SIG{terms.warn[0]}")
                with contextlib.suppress(OSError):  # on a full disk: another agent may do it again
                    self._shared.ledger.warned(self.attempt)
        await self._told_within(None if terms.time_limit_s is None else self._left_s(terms.time_limit_s))

    def _left_s(self, limit_s: int) -> float | None:
        """Until it has run for so long."""
        if self._started_ms is None:
            return None
        return limit_s - (self._shared.now_ms() - self._started_ms) / 1000

    async def _told_within(self, left_s: float | None) -> None:
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

    async def _ended(self, engine: Engine, state: State, terms: Terms) -> None:
        struck = None
        if self._stop is None and state.looks_struck_down:
            if terms.boot != self._shared.boot:
                struck = Exit(Cause.REBOOTED, detail="the machine restarted")
            else:
                struck = await who_struck(engine, self._shared.keeper, self.name, state, outage=self._outage)
        saved_ms = await asyncio.to_thread(checkpoint_folder.saved_ms, terms.checkpoint_dir)
        if saved_ms is None and (self._stop is None or self._stop[0] in checkpoint_folder.FINAL):
            await asyncio.to_thread(checkpoint_folder.remove_if_empty, terms.checkpoint_dir)
        ended = exit_of(state, self._stop, terms.memory_limit_mib, struck)
        await self._over(replace(ended, checkpoint_ms=saved_ms))

    def _gone(self) -> Exit:
        now_ms = self._shared.now_ms()
        cause, detail = self._stop or (Cause.NODE_LOST, _GONE)
        return Exit(cause, detail=detail, started_ms=self._started_ms, ended_ms=now_ms)

    async def _over(self, end: Exit) -> None:
        """Told once it is on disk; while the disk is full, before that: the container stays until it is."""
        while True:
            try:
                await asyncio.to_thread(self._shared.ledger.ended, self.attempt, end)
            except OSError as error:
                self._tell_once(end)
                logger("runner").warning("end not recorded", attempt=self.attempt, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                break
        self._shared.removable[self.attempt] = asyncio.get_running_loop().time()
        self._tell_once(end)

    def _tell_once(self, end: Exit) -> None:
        if not self.is_over:
            self.is_over = True
            self._shared.tell(AttemptEnded(self.attempt, end))
