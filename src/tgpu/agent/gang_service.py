"""A node's part in gangs: a task is prepared, waits until all are ready, and is then launched."""

from collections.abc import Mapping

from tgpu.agent.gang_variables import gang_variables
from tgpu.agent.spots import Spots
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.gangs import Go, Spot
from tgpu.protocol.messages import Launch
from tgpu.runner.port import CouldNotPrepareError, LaunchSpec, Runner


class GangService:
    def __init__(self, spots: Spots) -> None:
        self._spots = spots

    async def prepare(self, spec: LaunchSpec, runner: Runner) -> Spot | Exit:
        """Where it will be; or why it cannot start."""
        try:
            await runner.prepare(spec)
            return self._spots.take(spec.attempt)
        except (CouldNotPrepareError, OSError) as error:
            return Exit(Cause.COULD_NOT_START, detail=str(error))

    def going(self, launch: Launch, go: Go | None) -> Mapping[str, str]:
        """What it finds in its environment as one of a gang, which is launched at once from here."""
        if launch.gang is None or go is None:
            return {}
        self._spots.free(launch.attempt)
        # What is on this node's disk is not inside a container.
        hostfile = "" if launch.container is not None else self._spots.hostfile(launch.attempt, go.hosts)
        return gang_variables(launch.gang, go, hostfile)

    def over(self, attempt: str) -> None:
        self._spots.forget(attempt)
