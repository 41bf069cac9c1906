"""Makes containers: what the node allows is looked at as their user, then the engine is told of them."""

import asyncio
from dataclasses import dataclass

from tgpu.runner.docker.body import LABEL, labels, name_of
from tgpu.runner.docker.engine import About, Engine, EngineRefusedError, is_taken
from tgpu.runner.docker.preparing import Prepared, Preparer
from tgpu.runner.docker.states import State
from tgpu.runner.port import LaunchSpec


@dataclass(frozen=True, slots=True)
class Maker:
    """For all containers of one agent."""

    preparer: Preparer
    cluster_id: str
    owner: str
    boot: str

    async def prepare(self, spec: LaunchSpec, about: About) -> Prepared:
        """To be released, whatever becomes of it. Raises Refusal."""
        marks = labels(self.cluster_id, self.owner)
        marks |= {f"{LABEL}/attempt": spec.attempt, f"{LABEL}/boot": self.boot}
        return await asyncio.to_thread(self.preparer.prepare, spec, about, marks)

    async def create(self, engine: Engine, attempt: str, prepared: Prepared) -> bool:
        """Whether it is to be started; False: it has been, before the engine or this agent went away.
        NotThereError: its image is not here."""
        name = name_of(self.cluster_id, attempt)
        while True:
            try:
                await engine.create(name, prepared.body)
            except EngineRefusedError as error:
                if not is_taken(error):
                    raise
            else:
                return True
            inspected = await engine.inspect(name)
            if inspected is not None and State.of(inspected).was_started:
                return False
            # What it was to mount was open in an agent that is gone: another one is made.
            await engine.remove(name)

    async def try_out(self, engine: Engine, about: About, spec: LaunchSpec) -> None:
        """Whether it can be made: it is, and goes again. It cannot be kept until it starts, since what a task
        of a gang finds in its environment is known only then, and a container's cannot be changed."""
        prepared = await self.prepare(spec, about)
        try:
            if await self.create(engine, spec.attempt, prepared):
                await engine.remove(name_of(self.cluster_id, spec.attempt), force=True)
        finally:
            await asyncio.to_thread(prepared.release)
