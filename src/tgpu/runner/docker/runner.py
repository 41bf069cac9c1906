"""Runs attempts as containers of this node's engine; what runs, runs on without the agent."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path

from tgpu.domain.lifecycle import Cause
from tgpu.observe.logs import logger
from tgpu.runner import logs
from tgpu.runner.burden import Burden
from tgpu.runner.docker.body import LABEL, House, labels, name_of
from tgpu.runner.docker.burdens import burdens
from tgpu.runner.docker.credentials import Credentials
from tgpu.runner.docker.engine import About, EngineAwayError, EngineRefusedError, Json
from tgpu.runner.docker.keeper import Keeper, NoEngineError
from tgpu.runner.docker.ledger import Ledger
from tgpu.runner.docker.life import Life, Shared
from tgpu.runner.docker.look import ContainerLooks
from tgpu.runner.docker.making import Maker
from tgpu.runner.docker.preparing import Preparer
from tgpu.runner.docker.pulling import Puller
from tgpu.runner.docker.readying import Readying
from tgpu.runner.docker.resolving import ImageFound, resolve
from tgpu.runner.docker.shells import open_shell
from tgpu.runner.docker.staging import Staging
from tgpu.runner.folders import is_attempt
from tgpu.runner.look import Look
from tgpu.runner.port import (
    HAD_BEFORE,
    AttemptEnded,
    AttemptStarted,
    LaunchSpec,
    LogPart,
    RunnerEvent,
)
from tgpu.runner.shell_port import Shell, ShellOrder, ShellRefusedError
from tgpu.runner.upkeep import REFUSE_AGAIN_S

FIND_S = 3.0
"""How long an agent that starts waits for the engine before it goes by its own records."""
TEND_EVERY_S = 5.0
RESOLVE_S = 6.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class DockerRunner:
    """See the port. The folder belongs to one agent at a time."""

    def __init__(
        self,
        folder: Path,
        logs_dir: Path,
        cluster_id: str,
        *,
        find: Callable[[], str | None],
        house: House,
        credentials: Path,
        keep_s: float,
        complete: Callable[[LaunchSpec], LaunchSpec] = lambda spec: spec,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`find` says where the engine listens; `keep_s`: how long a container stays when it is over.
        `complete` adds what only this node knows of a task's devices and limits."""
        self._logs = logs_dir
        self._keep_s = keep_s
        self._complete = complete
        self._now_ms = now_ms
        self._credentials = Credentials(credentials)
        self._keeper = Keeper(find)
        self._looks = ContainerLooks(self._keeper)
        self._ledger = Ledger(folder)
        self._staging = Staging(folder / "mounts")
        self._lives: dict[str, Life] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        owner, boot = str(folder.absolute()), _BOOT_ID.read_text(encoding="ascii").strip()
        self._shared = Shared(
            keeper=self._keeper,
            puller=Puller(self._credentials),
            ledger=self._ledger,
            maker=Maker(Preparer(house, self._staging), cluster_id, owner, boot),
            cluster_id=cluster_id,
            owner=owner,
            boot=boot,
            logs=logs_dir,
            now_ms=now_ms,
        )
        self._readying = Readying(self._shared)

    @property
    def about(self) -> About | None:
        """The engine, if there is one."""
        return self._keeper.about

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        self._loop = asyncio.get_running_loop()
        self._shared.tell = on_event
        await asyncio.to_thread(self._ledger.open, self._now_ms() - round(REFUSE_AGAIN_S * 1000))
        await asyncio.to_thread(self._staging.clear)
        try:
            async with asyncio.timeout(FIND_S):
                await self._keeper.look()
        except TimeoutError:
            logger("runner").warning("the container engine does not answer")
        found: list[RunnerEvent] = [
            AttemptEnded(attempt, entry.exit)
            for attempt, entry in self._ledger.entries.items()
            if entry.exit is not None and entry.forgotten_ms is None
        ]
        # Without the engine: what had started counts as running until the engine says otherwise.
        running = {
            attempt: entry.started_ms
            for attempt, entry in self._ledger.entries.items()
            if entry.started_ms is not None and entry.exit is None and entry.forgotten_ms is None
        }
        running |= await self._survey()
        for attempt, started_ms in running.items():
            found.append(AttemptStarted(attempt, started_ms))
            self._begin(Life(self._shared, attempt))
        self._keeper.on_back = self._engine_is_back
        self._go(self._keeper.go_on())
        self._go(self._tend_for_ever())
        return found

    async def close(self) -> None:
        self._readying.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._keeper.close()
        self._ledger.close()

    async def prepare(self, spec: LaunchSpec) -> None:
        if spec.attempt not in self:
            await self._readying.prepare(self._complete(spec))

    def drop(self, attempt: str) -> None:
        self._readying.drop(attempt)

    def launch(self, spec: LaunchSpec) -> None:
        entry = self._ledger.entries.get(spec.attempt)
        if entry is not None and entry.forgotten_ms is not None:
            self._shared.tell(AttemptEnded(spec.attempt, HAD_BEFORE))
        elif spec.attempt not in self and is_attempt(spec.attempt):
            is_ready = self._readying.took(spec.attempt)
            self._begin(Life(self._shared, spec.attempt, self._complete(spec), is_ready=is_ready))

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        life = self._lives.get(attempt)
        if life is not None:
            life.stop(cause, detail, at_once=at_once)

    def forget(self, attempt: str) -> None:
        """Its container goes, too, when it has been kept for its time."""
        entry = self._ledger.entries.get(attempt)
        if entry is not None and entry.exit is not None and entry.forgotten_ms is None:
            self._looks.forget(name_of(self._shared.cluster_id, attempt))
            self._lives.pop(attempt, None)
            self._ledger.forgotten(attempt, self._now_ms())

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        if stream not in logs.STREAMS or attempt not in self:
            return None
        return logs.read(self._logs / attempt, stream, offset, max_bytes)

    def __contains__(self, attempt: str) -> bool:
        """Whether it is one of ours and not forgotten."""
        entry = self._ledger.entries.get(attempt)
        return attempt in self._lives or (entry is not None and entry.forgotten_ms is None)

    def running(self) -> Iterable[str]:
        return [attempt for attempt, life in self._lives.items() if not life.is_over]

    def first_processes(self) -> dict[str, int]:
        """By attempt, of what runs here; 0: not known yet. May be called from any thread."""
        lives = [life for life in dict(self._lives).values() if not life.is_over]
        return {life.attempt: self._looks.first_process(life.name) for life in lives}

    async def burdens(self) -> list[Burden]:
        """How heavily what runs here weighs on this node's memory."""
        if not self._keeper.is_present:
            return []
        engine, _ = await self._keeper.engine()
        return await burdens(engine, [life for life in self._lives.values() if not life.is_over])

    async def resolve(self, image: str, *, local: bool) -> ImageFound:
        """What the name means; nothing if the engine does not answer soon."""
        try:
            engine, _ = await self._keeper.engine(RESOLVE_S)
            async with asyncio.timeout(RESOLVE_S):
                return await resolve(engine, image, self._credentials, local=local)
        except (NoEngineError, EngineAwayError, EngineRefusedError, TimeoutError):
            return ImageFound()

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        lives = [self._lives[attempt] for attempt in attempts if attempt in self._lives]
        return await self._looks.look({life.attempt: life.name for life in lives if not life.is_over})

    async def open_shell(self, order: ShellOrder) -> Shell:
        life = self._lives.get(order.attempt)
        if life is None or life.is_over:
            raise ShellRefusedError("it does not run any more")
        if not order.command:
            return await _attached(life, order)
        try:
            engine, _ = await self._keeper.engine(RESOLVE_S)
            return await open_shell(engine, life.name, order)
        except (NoEngineError, EngineAwayError):
            raise ShellRefusedError(
                "this node's container engine does not answer: try again shortly"
            ) from None
        except EngineRefusedError as error:
            raise ShellRefusedError(f"the container engine refused: {error.said}") from None

    def _begin(self, life: Life) -> None:
        self._lives[life.attempt] = life
        self._go(self._lived(life))

    async def _lived(self, life: Life) -> None:
        """What fails as nobody foresaw is gone on with, if there is a container, as if it had been found."""
        try:
            await life.run()
        except Exception as error:
            if not life.has_container:
                await life.give_up(error)
                raise
            logger("runner").exception("a container is looked at again", attempt=life.attempt)
            await asyncio.sleep(TEND_EVERY_S)
            self._begin(Life(self._shared, life.attempt))

    def _engine_is_back(self) -> None:
        self._go(self._adopt())

    async def _adopt(self) -> None:
        """What the engine has of ours, and nobody here watches over."""
        for attempt, started_ms in (await self._survey()).items():
            if attempt not in self:
                self._begin(Life(self._shared, attempt))
                self._shared.tell(AttemptStarted(attempt, started_ms))

    async def _survey(self) -> dict[str, int]:
        """By attempt that has no recorded end: when it began. What is of no use is noted for removal."""
        if not self._keeper.is_present:
            return {}
        try:
            engine, _ = await self._keeper.engine()
            listed = await engine.labelled(labels(self._shared.cluster_id, self._shared.owner))
        except (EngineAwayError, EngineRefusedError) as error:
            logger("runner").warning("containers not listed", error=str(error))
            return {}
        now, found = asyncio.get_running_loop().time(), {}
        for one in listed:
            attempt = str(one["Labels"].get(f"{LABEL}/attempt", ""))
            entry = self._ledger.entries.get(attempt)
            if attempt in self._lives or not is_attempt(attempt):
                continue
            if one.get("State") == "created" or (entry is not None and entry.exit is not None):
                self._shared.removable.setdefault(attempt, now)
            else:
                found[attempt] = _began_ms(one, None if entry is None else entry.started_ms)
        return found

    async def _tend_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TEND_EVERY_S)
            try:
                await self._remove_the_old()
                await asyncio.to_thread(self._ledger.tend, self._now_ms() - round(REFUSE_AGAIN_S * 1000))
            except (OSError, EngineAwayError, EngineRefusedError) as error:
                logger("runner").warning("upkeep-failed", error=str(error))

    async def _remove_the_old(self) -> None:
        """Their ends are on disk; until then people may want to look at what they left."""
        if not self._keeper.is_present:
            return
        engine, _ = await self._keeper.engine()
        before = asyncio.get_running_loop().time() - self._keep_s
        for attempt, since in list(self._shared.removable.items()):
            if since <= before:
                try:
                    await engine.remove(name_of(self._shared.cluster_id, attempt), force=True)
                except EngineRefusedError as error:  # that one later, the others now
                    logger("runner").warning("container not removed", attempt=attempt, error=error.said)
                else:
                    del self._shared.removable[attempt]

    def _go(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger("runner").error("a container was let go of", error=repr(failure), exc_info=failure)


async def _attached(life: Life, order: ShellOrder) -> Shell:
    """Of one that was found again: as soon as its container has told whether it has a terminal."""
    try:
        async with asyncio.timeout(RESOLVE_S):
            await life.is_known.wait()
    except TimeoutError:
        raise ShellRefusedError("this node's container engine does not answer: try again shortly") from None
    if life.terminal is None:
        raise ShellRefusedError("it has no terminal of its own: its stdin is /dev/null")
    viewer = life.terminal.attach()
    viewer.resize(order.rows, order.cols)
    return viewer


def _began_ms(listed: Json, known_ms: int | None) -> int:
    return known_ms if known_ms is not None else int(listed.get("Created", 0)) * 1000
