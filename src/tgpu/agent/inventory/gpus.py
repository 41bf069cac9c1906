"""The ways to ask for GPUs: NVML, `nvidia-smi` where that is all there is, or pretend."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tgpu.agent.inventory.nvlink import Links, address_of, islands, links_of
from tgpu.domain.node import Device

MIB = 1 << 20
SMI_TIMEOUT_S = 30
SIMULATED_MEMORY_MIB = 80 * 1024
PCI_DEVICES = Path("/sys/bus/pci/devices")


class GpuUse(NamedTuple):
    percent: int
    memory_mib: int


class Gpus(Protocol):
    """One source of GPUs. A device that does not answer is ill, never an error."""

    def devices(self) -> tuple[Device, ...]: ...

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        """None of a device that does not tell."""
        ...


class UnseenGpus:
    """Known by somebody's word alone: simulated ones, or real ones that cannot be asked."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = tuple(devices)

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        return [None for _ in indices]


def simulated(count: int, model: str) -> UnseenGpus:
    return UnseenGpus(
        [Device(index, f"GPU-simulated-{index}", model, SIMULATED_MEMORY_MIB) for index in range(count)]
    )


class NvmlGpus:
    """By NVIDIA's management library; what was once known of a device is kept when it falls ill."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401  the library comes without types
        self._nvml = nvml
        self._known: dict[int, Device] = {}
        self._links: dict[int, Links] = {}

    def devices(self) -> tuple[Device, ...]:
        try:
            found = [self._device(index) for index in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError as error:
            found = [_ill(device, str(error)) for device in self._known.values()]
        island = islands(self._links)
        return tuple(replace(device, island=island.get(device.index)) for device in found)

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        return [self._use(index) for index in indices]

    def _device(self, index: int) -> Device:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            device = Device(
                index,
                _text(nvml.nvmlDeviceGetUUID(handle)),
                _text(nvml.nvmlDeviceGetName(handle)),
                nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
                numa_node=self._numa_node(handle),
            )
        except nvml.NVMLError as error:
            return _ill(self._known.get(index, Device(index, "", "unknown", 0)), str(error))
        self._known[index] = device
        if index not in self._links and (links := links_of(nvml, handle)) is not None:
            self._links[index] = links
        return device

    def _numa_node(self, handle: Any) -> int | None:  # noqa: ANN401  an opaque pointer
        try:
            address = address_of(self._nvml.nvmlDeviceGetPciInfo(handle))
            node = int((PCI_DEVICES / address / "numa_node").read_text(encoding="ascii"))
        except (self._nvml.NVMLError, OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _use(self, index: int) -> GpuUse | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            percent = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            return GpuUse(percent, nvml.nvmlDeviceGetMemoryInfo(handle).used // MIB)
        except nvml.NVMLError:
            return None


class SmiGpus:
    """By the program `nvidia-smi`: slower, but there where the library cannot be loaded."""

    def devices(self) -> tuple[Device, ...]:
        found = []
        for index, uuid, model, memory in _smi("index,uuid,name,memory.total"):
            device = Device(int(index), uuid, model, int(memory) if memory.isdigit() else 0)
            found.append(device if memory.isdigit() else _ill(device, f"nvidia-smi says {memory}"))
        return tuple(found)

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        rows = _smi("index,utilization.gpu,memory.used")
        said = {
            int(index): GpuUse(int(percent), int(memory))
            for index, percent, memory in rows
            if percent.isdigit() and memory.isdigit()
        }
        return [said.get(index) for index in indices]


def find_gpus() -> Gpus:
    """NVML if it loads, else `nvidia-smi` if it answers, else none."""
    import pynvml  # noqa: PLC0415  only a node that looks for GPUs needs it

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return SmiGpus() if _smi("index") else UnseenGpus(())
    return NvmlGpus(pynvml)


def _smi(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines()]
    return [row for row in rows if len(row) == fields.count(",") + 1 and row[0].isdigit()]


def _ill(device: Device, note: str) -> Device:
    return replace(device, healthy=False, note=note)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
