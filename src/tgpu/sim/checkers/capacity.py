"""Nothing is given out beyond its capacity: in the leader's picture, and by the processes that really run."""

from collections.abc import Iterator

from tgpu.core.invariants import violations
from tgpu.domain.job import Request
from tgpu.sim.facts import Run, Watcher
from tgpu.sim.world import World

WHOLE = 1000


class NothingBeyondCapacity(Watcher):
    def __init__(self, world: World) -> None:
        self._world = world

    def process_started(self, run: Run) -> Iterator[str]:
        live = [other for other in self._world.facts.live.values() if other.node_id == run.node_id]
        yield from self._overfull(run.node_id, [*live, run])

    def now_and_then(self) -> Iterator[str]:
        picture = self._world.picture
        if picture is not None:
            yield from violations(picture)

    def _overfull(self, node_id: str, runs: list[Run]) -> Iterator[str]:
        """Added up from the processes and what their jobs asked for, not from the scheduler's own sums."""
        (machine,) = [machine for machine in self._world.machines if machine.node_id == node_id]
        requests = [self._request(run) for run in runs]
        cpu_milli = sum(request.cpu_milli for request in requests)
        memory_mib = sum(request.memory_mib for request in requests)
        if cpu_milli > machine.capacity.cpu_milli:
            yield f"{node_id}: processes use {cpu_milli} milli-CPU of {machine.capacity.cpu_milli}"
        if memory_mib > machine.capacity.memory_mib:
            yield f"{node_id}: processes use {memory_mib} MiB of {machine.capacity.memory_mib}"
        if len(runs) > 1 and any(request.exclusive for request in requests):
            yield f"{node_id}: an exclusive process is not alone"
        used: dict[int, int] = {}
        for run, request in zip(runs, requests, strict=True):
            for device in run.devices:
                used[device] = used.get(device, 0) + min(request.gpu_milli, WHOLE)
        for device, milli in used.items():
            if milli > WHOLE:
                yield f"{node_id}: {milli} thousandths of device {device} are in use"

    def _request(self, run: Run) -> Request:
        job_id, task_index, _ = run.attempt_id
        return self._world.store.state.jobs[job_id].spec.group_of(task_index).request
