"""A node's part in gangs: a task is prepared, waits until all are ready, and is then launched."""

from dataclasses import replace

from tgpu.agent.gang_variables import gang_variables
from tgpu.agent.spots import Spots
from tgpu.domain.container import HOSTFILE
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import is_full
from tgpu.protocol.gangs import Go, Spot
from tgpu.protocol.messages import Launch
from tgpu.runner.port import CouldNotPrepareError, LaunchSpec, Runner, disk_full_exit


class GangService:
    def __init__(self, spots: Spots) -> None:
        self._spots = spots

    async def prepare(self, spec: LaunchSpec, runner: Runner) -> Spot | Exit:
        """Where it will be; or why it cannot start."""
        try:
            await runner.prepare(spec)
            return self._spots.take(spec.attempt)
        except CouldNotPrepareError as error:
            return Exit(error.cause, detail=str(error))
        except OSError as error:
            if is_full(error):
                return disk_full_exit()
            return Exit(Cause.COULD_NOT_START, detail=str(error))

    def joined(self, spec: LaunchSpec, launch: Launch, go: Go | None) -> LaunchSpec:
        """With what it finds as one of a gang, once it goes; from here it is launched at once."""
        if launch.gang is None or go is None:
            return spec
        self._spots.free(launch.attempt)
        hostfile = self._spots.hostfile(launch.attempt, go.hosts)
        if launch.container is None or not hostfile:
            return replace(spec, env={**spec.env, **gang_variables(launch.gang, go, hostfile)})
        env = {**spec.env, **gang_variables(launch.gang, go, HOSTFILE)}
        return replace(spec, env=env, hostfile=hostfile)

    def over(self, attempt: str) -> None:
        self._spots.forget(attempt)
