"""What is asked of a source of GPUs, whoever made them; and GPUs that are known by somebody's word alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tgpu.domain.node import Device, DeviceSigns

MIB = 1 << 20
SIMULATED_MEMORY_MIB = 80 * 1024


class GpuUse(NamedTuple):
    percent: int
    memory_mib: int
    signs: DeviceSigns = DeviceSigns()


class GpuProcess(NamedTuple):
    """Somebody who has memory on a GPU."""

    pid: int
    memory_mib: int | None
    """None: the driver does not tell."""


class GpuProcesses(NamedTuple):
    """Who is on one GPU, and what they do there."""

    on_it: tuple[GpuProcess, ...]
    percent: Mapping[int, int] | None
    """How busy each keeps it, by pid; who is not among them does nothing. None: the driver does not tell."""


NO_PROCESSES = GpuProcesses((), None)


class Reported(NamedTuple):
    """An error that the driver has reported by itself."""

    uuid: str
    xid: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of one GPU in one look: facts, not yet a judgement."""

    device: Device
    """What it is; as it was known before, if it does not answer."""
    trouble: str = ""
    """Why it does not answer, if it does not."""
    is_lost: bool = False
    """It never will, until somebody resets it."""
    temperature_c: int | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool = False
    """A row of its memory is replaced at the next reset; until then it is not used."""
    remap_failed: bool = False
    asks_for: str | None = None
    """What it needs, by the driver's word, such as `a reset`; empty: nothing. None: the driver does not
    say."""
    processes: tuple[GpuProcess, ...] = ()


class Gpus(Protocol):
    """One source of GPUs. A device that does not answer is in trouble, never an error."""

    def look(self) -> tuple[Sight, ...]: ...

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        """None of a device that does not tell."""
        ...

    def processes(self, indices: Sequence[int]) -> list[GpuProcesses]:
        """What they have done since it was asked last."""
        ...

    def reported(self) -> list[Reported]:
        """Since it was asked last; at once, from any thread."""
        ...


class UnseenGpus:
    """Known by somebody's word alone: simulated ones, or real ones that cannot be asked."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._sights = tuple(Sight(device) for device in devices)

    def look(self) -> tuple[Sight, ...]:
        return self._sights

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        return [None for _ in indices]

    def processes(self, indices: Sequence[int]) -> list[GpuProcesses]:
        return [NO_PROCESSES for _ in indices]

    def reported(self) -> list[Reported]:
        return []


def simulated(count: int, model: str) -> UnseenGpus:
    return UnseenGpus(
        [Device(index, f"GPU-simulated-{index}", model, SIMULATED_MEMORY_MIB) for index in range(count)]
    )
