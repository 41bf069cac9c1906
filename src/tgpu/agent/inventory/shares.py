"""What attempts do on one GPU: what its processes do, put to the attempts whose they are."""

from tgpu.agent.inventory.gpus import GpuProcesses
from tgpu.agent.inventory.owners import NAMELESS, Owners
from tgpu.agent.use.gpu_meter import DeviceShares

_MOST_PERCENT = 100


def shares_of(found: GpuProcesses, owners: Owners) -> DeviceShares:
    """If a process is a task's and nobody knows whose, the percentages say too little about the others."""
    memory: dict[str, int] = {}
    percent: dict[str, int] = {}
    told = found.percent or {}
    whose = {pid: owners.attempt_of(pid) for pid in {process.pid for process in found.on_it} | told.keys()}
    for process in found.on_it:
        attempt = whose[process.pid]
        if attempt and process.memory_mib is not None:
            memory[attempt] = memory.get(attempt, 0) + process.memory_mib
    for pid, busy in told.items():
        attempt = whose[pid]
        if attempt:
            percent[attempt] = min(_MOST_PERCENT, percent.get(attempt, 0) + busy)
    is_known = found.percent is not None and NAMELESS not in whose.values()
    return DeviceShares(percent if is_known else None, memory)
