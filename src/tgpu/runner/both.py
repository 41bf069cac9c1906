"""One runner made of two: processes, and containers where the node has an engine for them."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.burden import Burden
from tgpu.runner.journal import TmpLimit
from tgpu.runner.look import Look
from tgpu.runner.port import AttemptEnded, CouldNotPrepareError, LaunchSpec, LogPart, RunnerEvent
from tgpu.runner.process import ProcessRunner
from tgpu.runner.roots import Roots
from tgpu.runner.shell_port import Shell, ShellOrder

if TYPE_CHECKING:
    from tgpu.runner.docker.resolving import ImageFound
    from tgpu.runner.docker.runner import DockerRunner

LOOK_EVERY_S = 5.0
_NO_ENGINE = (
    "this node has no container engine: install Docker or Podman there, or name its socket in docker_host"
)


class BothRunners:
    """What the launch says decides. A node without an engine does not even load what would talk to one."""

    def __init__(
        self, processes: ProcessRunner, make_containers: Callable[[], "DockerRunner | None"]
    ) -> None:
        """`make_containers`: None as long as there is no sign of an engine."""
        self._processes = processes
        self._make = make_containers
        self._containers: DockerRunner | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_open = False

    @property
    def engine(self) -> str | None:
        """Which there is now."""
        about = None if self._containers is None else self._containers.about
        return None if about is None else about.kind

    async def resolve(self, image: str, *, local: bool) -> "ImageFound | None":
        return None if self._containers is None else await self._containers.resolve(image, local=local)

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        self._on_event = on_event
        found = await self._processes.open(on_event)
        self._containers = self._make()
        if self._containers is not None:
            found += await self._containers.open(on_event)
        else:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        self._is_open = True
        return found

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._containers is not None:
            await self._containers.close()
        await self._processes.close()

    async def prepare(self, spec: LaunchSpec) -> None:
        if spec.container is None:
            await self._processes.prepare(spec)
        elif self._containers is not None:
            await self._containers.prepare(spec)
        else:
            raise CouldNotPrepareError(_NO_ENGINE)

    def drop(self, attempt: str) -> None:
        self._processes.drop(attempt)
        if self._containers is not None:
            self._containers.drop(attempt)

    def launch(self, spec: LaunchSpec) -> None:
        if spec.container is None:
            self._processes.launch(spec)
        elif self._containers is not None:
            self._containers.launch(spec)
        else:
            end = AttemptEnded(spec.attempt, Exit(Cause.COULD_NOT_START, detail=_NO_ENGINE))
            asyncio.get_running_loop().call_soon(self._on_event, end)

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        if self._containers is not None and attempt in self._containers:
            self._containers.stop(attempt, cause, detail, at_once=at_once)
        else:
            self._processes.stop(attempt, cause, detail, at_once=at_once)

    def forget(self, attempt: str) -> None:
        if self._containers is not None and attempt in self._containers:
            self._containers.forget(attempt)
        else:
            self._processes.forget(attempt)

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        """No container lives at most once: submissions that ask for both are refused."""
        self._processes.heard(stamp_ns, lease_s)

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        if self._containers is not None and attempt in self._containers:
            return self._containers.read_log(attempt, stream, offset, max_bytes)
        return self._processes.read_log(attempt, stream, offset, max_bytes)

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        looks = dict(await self._processes.look(attempts))
        if self._containers is not None:
            looks |= await self._containers.look([one for one in attempts if one not in looks])
        return looks

    async def open_shell(self, order: ShellOrder) -> Shell:
        if self._containers is not None and order.attempt in self._containers:
            return await self._containers.open_shell(order)
        return await self._processes.open_shell(order)

    async def burdens(self) -> list[Burden]:
        """How heavily all that runs here, in whichever way, weighs on this node's memory."""
        found = await asyncio.to_thread(self._processes.burdens)
        return found if self._containers is None else found + await self._containers.burdens()

    def private_tmps(self) -> dict[str, tuple[str, TmpLimit]]:
        """Containers have none: their /tmp is their engine's."""
        return self._processes.private_tmps() if self._is_open else {}

    def roots(self) -> Roots | None:
        """None as long as it is not known what runs here. May be called from any thread."""
        if not self._is_open:
            return None
        containers = {} if self._containers is None else self._containers.first_processes()
        return Roots(self._processes.supervisors(), containers)

    async def sweep_logs(self, older_than_days: float) -> int:
        running = () if self._containers is None else self._containers.running()
        return await self._processes.sweep_logs(older_than_days, running)

    async def _look(self) -> None:
        """An engine may be installed, or started, later than the agent."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            containers = self._make()
            if containers is not None:
                for event in await containers.open(self._on_event):
                    self._on_event(event)
                self._containers = containers
                return
