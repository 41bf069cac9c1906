"""GPUs by the program `nvidia-smi`: slower and less, but there where NVIDIA's library cannot be loaded."""

import subprocess
from collections.abc import Sequence

from tgpu.agent.inventory.gpus import NO_PROCESSES, GpuProcess, GpuProcesses, GpuUse, Reported, Sight
from tgpu.domain.node import Device, DeviceSigns

SMI_TIMEOUT_S = 30
_SEEN = "index,uuid,name,memory.total,temperature.gpu,ecc.errors.uncorrected.volatile.total"
_USED = "index,utilization.gpu,memory.used,temperature.gpu,power.draw"


class SmiGpus:
    """It tells no Xids, no graphics processes, and not whether a reset is needed."""

    def look(self) -> tuple[Sight, ...]:
        processes = _processes()
        found = []
        for index, uuid, model, memory, temperature, errors in _rows(f"--query-gpu={_SEEN}"):
            size = _whole(memory)
            sight = Sight(
                Device(int(index), uuid, model, size or 0),
                trouble="" if size is not None else f"nvidia-smi says {memory}",
                temperature_c=_whole(temperature),
                ecc_uncorrected=_whole(errors),
                processes=tuple(processes.get(uuid, ())),
            )
            found.append(sight)
        return tuple(found)

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        said = {}
        for index, percent, memory, temperature, power in _rows(f"--query-gpu={_USED}"):
            busy, used = _whole(percent), _whole(memory)
            if busy is not None and used is not None:
                said[int(index)] = GpuUse(busy, used, DeviceSigns(_whole(temperature), _whole(power)))
        return [said.get(index) for index in indices]

    def processes(self, indices: Sequence[int]) -> list[GpuProcesses]:
        """It would take a program's start each time, and tells only who is there."""
        return [NO_PROCESSES for _ in indices]

    def reported(self) -> list[Reported]:
        return []


def smi_answers() -> bool:
    return smi_count() > 0


def smi_count() -> int:
    """How many GPUs nvidia-smi lists; 0 where it is missing or fails."""
    return len(_rows("--query-gpu=index"))


def _processes() -> dict[str, list[GpuProcess]]:
    found: dict[str, list[GpuProcess]] = {}
    for pid, uuid, memory in _rows("--query-compute-apps=pid,gpu_uuid,used_memory"):
        found.setdefault(uuid, []).append(GpuProcess(int(pid), _whole(memory)))
    return found


def _rows(query: str) -> list[list[str]]:
    """Those of a query whose first field is a number."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines()]
    return [row for row in rows if len(row) == query.count(",") + 1 and row[0].isdigit()]


def _whole(text: str) -> int | None:
    """`61.5` → 62; None of what it does not tell (`[N/A]`)."""
    try:
        return round(float(text))
    except ValueError:
        return None
