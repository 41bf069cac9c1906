"""GPUs by NVIDIA's management library."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tgpu.agent.inventory.busy_processes import BusyProcesses
from tgpu.agent.inventory.gpus import MIB, GpuProcess, GpuProcesses, GpuUse, Reported, Sight
from tgpu.agent.inventory.nvlink import Links, address_of, islands, links_of
from tgpu.agent.inventory.xid_events import XidEvents
from tgpu.domain.node import Device, DeviceSigns

PCI_DEVICES = Path("/sys/bus/pci/devices")
_HEAT = 0x20 | 0x40
"""Of the reasons why clocks are low: thermal slowdown by software, by hardware…"""
_POWER = 0x04 | 0x80
"""…and the power cap, the power brake."""


class NvmlGpus:
    """What was once known of a device is kept when it falls ill. Whatever a driver or a device does not tell
    is left out: only what it is must be known."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401  the library comes without types
        self._nvml = nvml
        self._known: dict[int, Device] = {}
        self._links: dict[int, Links] = {}
        self._events = XidEvents(nvml)
        self._busy = BusyProcesses(nvml)
        self._dead = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)

    def look(self) -> tuple[Sight, ...]:
        try:
            found = [self._sight(index) for index in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError as error:
            found = [Sight(device, str(error)) for device in self._known.values()]
        island = islands(self._links)
        return tuple(
            replace(sight, device=replace(sight.device, island=island.get(sight.device.index)))
            for sight in found
        )

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        return [self._use(index) for index in indices]

    def processes(self, indices: Sequence[int]) -> list[GpuProcesses]:
        return [self._busy.processes(index, self._processes) for index in indices]

    def reported(self) -> list[Reported]:
        return self._events.take()

    def _sight(self, index: int) -> Sight:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            device = self._device(index, handle)
        except nvml.NVMLError as error:
            known = self._known.get(index, Device(index, "", "unknown", 0))
            self._events.left(known.uuid)
            return Sight(known, str(error), is_lost=error.value in self._dead)
        self._known[index] = device
        self._events.watch(device.uuid, handle)
        if index not in self._links and (links := links_of(nvml, handle)) is not None:
            self._links[index] = links
        remapped = self._told("nvmlDeviceGetRemappedRows", handle) or (0, 0, 0, 0)
        return Sight(
            device,
            temperature_c=self._told("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            ecc_uncorrected=self._errors(handle, nvml.NVML_VOLATILE_ECC),
            remap_pending=bool(remapped[2]),
            remap_failed=bool(remapped[3]),
            asks_for=self._asks_for(handle),
            processes=self._processes(handle),
        )

    def _device(self, index: int, handle: Any) -> Device:  # noqa: ANN401  an opaque pointer
        nvml = self._nvml
        pci = self._told("nvmlDeviceGetPciInfo", handle)
        address = "" if pci is None else address_of(pci)
        return Device(
            index,
            _text(nvml.nvmlDeviceGetUUID(handle)),
            _text(nvml.nvmlDeviceGetName(handle)),
            nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
            numa_node=_numa_node(address),
            minor=self._told("nvmlDeviceGetMinorNumber", handle),
            pci=address,
        )

    def _told(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  as the function has it
        """None if the driver or the device does not tell."""
        ask: Callable[..., Any] = getattr(self._nvml, function)
        try:
            return ask(*arguments)
        except (self._nvml.NVMLError, self._nvml.NVMLLibraryMismatchError):
            return None

    def _errors(self, handle: Any, since: int) -> int | None:  # noqa: ANN401  an opaque pointer
        kind = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        errors: int | None = self._told("nvmlDeviceGetTotalEccErrors", handle, kind, since)
        return errors

    def _asks_for(self, handle: Any) -> str | None:  # noqa: ANN401  an opaque pointer
        nvml = self._nvml
        fields = self._told("nvmlDeviceGetFieldValues", handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if fields is None or fields[0].nvmlReturn != nvml.NVML_SUCCESS:
            return None
        action = fields[0].value.uiVal
        if action == nvml.NVML_GPU_RECOVERY_ACTION_NONE:
            return ""
        reboots = (nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT, nvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT)
        return "a restart of the machine" if action in reboots else "a reset"

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...]:  # noqa: ANN401  an opaque pointer
        """A program that computes and draws is in both lists."""
        found: dict[int, GpuProcess] = {}
        for kind in ("Compute", "Graphics"):
            told = self._told(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
            if told is None:  # by an older driver
                told = self._told(f"nvmlDeviceGet{kind}RunningProcesses_v2", handle) or ()
            for process in told:
                used = None if process.usedGpuMemory is None else process.usedGpuMemory // MIB
                found[process.pid] = GpuProcess(process.pid, used)
        return tuple(found.values())

    def _use(self, index: int) -> GpuUse | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            percent = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            used = nvml.nvmlDeviceGetMemoryInfo(handle).used // MIB
        except nvml.NVMLError:
            return None
        return GpuUse(percent, used, self._signs(handle))

    def _signs(self, handle: Any) -> DeviceSigns:  # noqa: ANN401  an opaque pointer
        nvml = self._nvml
        milliwatts = self._told("nvmlDeviceGetPowerUsage", handle)
        slow = self._told("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
        words = [word for word, bits in (("heat", _HEAT), ("power", _POWER)) if slow & bits]
        return DeviceSigns(
            temperature_c=self._told("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else round(milliwatts / 1000),
            throttled=" and ".join(words),
            ecc_uncorrected=self._errors(handle, nvml.NVML_VOLATILE_ECC),
            ecc_uncorrected_ever=self._errors(handle, nvml.NVML_AGGREGATE_ECC),
        )


def _numa_node(address: str) -> int | None:
    try:
        node = int((PCI_DEVICES / address / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
