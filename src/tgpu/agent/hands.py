"""Carries out on this node what was decided: starts, stops and forgets tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tgpu.agent.checkpoints import Checkpoints
from tgpu.agent.environment import launch_spec
from tgpu.agent.gang_service import GangService
from tgpu.agent.gpu_watch import GpuWatch
from tgpu.agent.machine import DropPrepared, ForgetTask, LaunchTask, StopTask
from tgpu.agent.manifest_variables import manifest_variables
from tgpu.agent.slurm_variables import own_host, slurm_variables
from tgpu.domain.job import Exit
from tgpu.domain.node import Capacity
from tgpu.protocol.gangs import Go, Spot
from tgpu.protocol.messages import Launch
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, Runner, RunnerEvent


class Hands:
    def __init__(  # noqa: PLR0917  its parts
        self,
        node: str,
        log_cap_bytes: int,
        everybodys_env: Mapping[str, str],
        gpus: GpuWatch,
        gangs: GangService,
        checkpoints: Checkpoints,
        capacity: Callable[[], Capacity | None],
    ) -> None:
        """`capacity`: what the node has, as far as that is known."""
        self._node = node
        self._log_cap_bytes = log_cap_bytes
        self._everybodys_env = everybodys_env
        self._gpus = gpus
        self._gangs = gangs
        self._checkpoints = checkpoints
        self._capacity = capacity

    def carry_out(
        self, instruction: LaunchTask | DropPrepared | StopTask | ForgetTask, runner: Runner, now: float
    ) -> None:
        match instruction:
            case LaunchTask(launch=launch, go=go):
                self._gpus.launched(launch, now)
                runner.launch(self._spec(launch, go))
            case DropPrepared(attempt=attempt):
                runner.drop(attempt)
                self._gangs.over(attempt)
            case StopTask(attempt=attempt, cause=cause, detail=detail, at_once=at_once):
                runner.stop(attempt, cause, detail, at_once=at_once)
            case ForgetTask(attempt=attempt):
                runner.forget(attempt)

    async def prepare(self, launch: Launch, runner: Runner) -> Spot | Exit:
        return await self._gangs.prepare(self._spec(launch, None), runner)

    def adopted(self, events: Sequence[RunnerEvent], now: float) -> Sequence[RunnerEvent]:
        """Of what was here before this agent: with what is known of its use."""
        return self._gpus.uses.adopted(events, now)

    def said(self, event: RunnerEvent, now: float) -> RunnerEvent:
        """An end comes with what is known here of its use and of its GPUs."""
        if isinstance(event, AttemptStarted):
            self._gpus.uses.started(event, now)
        elif isinstance(event, AttemptEnded):
            self._gangs.over(event.attempt)
            return self._gpus.ended(self._gpus.uses.ended(event), now)
        return event

    def _spec(self, launch: Launch, go: Go | None) -> LaunchSpec:
        folder = self._checkpoints.folder_of(launch.attempt, launch.user)
        spec = launch_spec(launch, self._log_cap_bytes, self._everybodys_env, folder)
        spec = self._gangs.joined(spec, launch, go)
        capacity = self._capacity()
        all_cpu_milli = 0 if capacity is None else capacity.cpu_milli
        hosts = [own_host(self._node)] if go is None else [host.address for host in go.hosts]
        of_dialect = {
            **slurm_variables(launch, spec.env, self._node, hosts, all_cpu_milli),
            **manifest_variables(launch, self._node),
        }
        return replace(spec, env={**spec.env, **of_dialect}) if of_dialect else spec
