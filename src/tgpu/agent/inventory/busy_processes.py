"""How busy each process keeps a GPU, by NVIDIA's library: not every device and driver tells."""

from collections.abc import Callable, Mapping
from typing import Any

from tgpu.agent.inventory.gpus import NO_PROCESSES, GpuProcess, GpuProcesses

Handle = Any
_MOST_PERCENT = 100


class BusyProcesses:
    """The driver keeps samples; each is read once."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401  the library comes without types
        self._nvml = nvml
        self._seen: dict[int, int] = {}
        """By device: the time of the last sample that was read."""

    def processes(self, index: int, on_it: Callable[[Handle], tuple[GpuProcess, ...]]) -> GpuProcesses:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError:
            return NO_PROCESSES
        return GpuProcesses(on_it(handle), self._percent(index, handle))

    def _percent(self, index: int, handle: Handle) -> Mapping[int, int] | None:
        nvml, since = self._nvml, self._seen.get(index, 0)
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(handle, since)
        except nvml.NVMLError as error:
            # No sample since then is an answer, too: nobody did anything.
            return {} if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS) else None
        fresh = [sample for sample in samples if sample.timeStamp > since]
        self._seen[index] = max((sample.timeStamp for sample in fresh), default=since)
        told: dict[int, list[int]] = {}
        for sample in fresh:
            told.setdefault(sample.pid, []).append(min(_MOST_PERCENT, sample.smUtil))
        return {pid: round(sum(percents) / len(percents)) for pid, percents in told.items()}
