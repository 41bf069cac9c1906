"""Carries out on this node what was decided: starts, stops and forgets tasks."""

from collections.abc import Mapping

from tgpu.agent.environment import launch_spec
from tgpu.agent.gang_service import GangService
from tgpu.agent.gpu_watch import GpuWatch
from tgpu.agent.machine import DropPrepared, ForgetTask, LaunchTask, StopTask
from tgpu.domain.job import Exit
from tgpu.protocol.gangs import Go, Spot
from tgpu.protocol.messages import Launch
from tgpu.runner.port import AttemptEnded, LaunchSpec, Runner


class Hands:
    def __init__(
        self, log_cap_bytes: int, everybodys_env: Mapping[str, str], gpus: GpuWatch, gangs: GangService
    ) -> None:
        self._log_cap_bytes = log_cap_bytes
        self._everybodys_env = everybodys_env
        self._gpus = gpus
        self._gangs = gangs

    def carry_out(
        self, instruction: LaunchTask | DropPrepared | StopTask | ForgetTask, runner: Runner, now: float
    ) -> None:
        match instruction:
            case LaunchTask(launch=launch, go=go):
                self._gpus.launched(launch, now)
                runner.launch(self._spec(launch, go))
            case DropPrepared(attempt=attempt):
                self._gangs.over(attempt)
            case StopTask(attempt=attempt, cause=cause, detail=detail, at_once=at_once):
                runner.stop(attempt, cause, detail, at_once=at_once)
            case ForgetTask(attempt=attempt):
                runner.forget(attempt)

    async def prepare(self, launch: Launch, runner: Runner) -> Spot | Exit:
        return await self._gangs.prepare(self._spec(launch, None), runner)

    def ended(self, event: AttemptEnded, now: float) -> AttemptEnded:
        """With what is known here of its GPUs."""
        self._gangs.over(event.attempt)
        return self._gpus.ended(event, now)

    def _spec(self, launch: Launch, go: Go | None) -> LaunchSpec:
        in_gang = self._gangs.going(launch, go)
        return launch_spec(launch, self._log_cap_bytes, self._everybodys_env, in_gang)
