"""What of this node is offered, as the settings say, and how much of that is in use."""

import psutil

from tgpu.agent.inventory import host
from tgpu.agent.inventory.gpus import Gpus, UnseenGpus, find_gpus, simulated
from tgpu.agent.inventory.stated import is_statement, stated
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain import node_terms, quantities
from tgpu.domain.node import Capacity, Device
from tgpu.protocol.messages import NodeUse

SIMULATED_CPU_MILLI = 4000
"""A machine with so many GPUs would have CPUs to match: without, jobs would wait for those instead."""


class Inventory:
    """Asked again and again: a device that falls ill, or recovers, shows in the next answer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._gpus = _source(settings)
        self._disk_mib = self._size("node_disk", settings.node_disk) or host.disk_mib(settings.home)
        self._offered = tuple(device.index for device in self._chosen(self._gpus.devices()))
        psutil.cpu_percent(interval=None)  # it measures from one call to the next

    def capacity(self) -> Capacity:
        settings = self._settings
        cpus = quantities.milli("node_cpus", settings.node_cpus, quantities.MAX_CPU_MILLI)
        present = {device.index: device for device in self._gpus.devices()}
        return Capacity(
            cpu_milli=cpus or max(host.cpu_milli(), SIMULATED_CPU_MILLI * settings.simulate_gpus),
            memory_mib=self._size("node_memory", settings.node_memory) or host.memory_mib(),
            disk_mib=self._disk_mib,
            devices=tuple(present.get(index) or _vanished(index) for index in self._offered),
            generic=dict(node_terms.generic_pairs("node_generic", settings.node_generic)),
        )

    def measure(self) -> NodeUse:
        memory = psutil.virtual_memory()
        gpus = self._gpus.use(self._offered)
        return NodeUse(
            cpu_milli=round(psutil.cpu_percent(interval=None) * 10 * (psutil.cpu_count() or 1)),
            memory_mib=(memory.total - memory.available) // host.MIB,
            gpu_percent=tuple(None if use is None else use.percent for use in gpus),
            gpu_memory_mib=tuple(None if use is None else use.memory_mib for use in gpus),
        )

    def _size(self, name: str, text: str) -> int:
        return quantities.mib(name, text) if text else 0

    def _chosen(self, present: tuple[Device, ...]) -> list[Device]:
        said = self._settings.node_gpus.strip().lower()
        if said == "all" or is_statement(said):
            return list(present)
        if said == "none":
            return []
        words = [word.strip() for word in said.split(",")]
        if not all(word.isdigit() for word in words):
            raise SettingsError(
                f"node_gpus must be `all`, `none`, indices such as 0,2, or GPUs that cannot be seen, such as "
                f"4xA100:80G; got {said!r}"
            )
        by_index = {device.index: device for device in present}
        missing = [word for word in words if int(word) not in by_index]
        if missing:
            there = ", ".join(map(str, by_index)) or "none"
            raise SettingsError(
                f"node_gpus names GPU {', '.join(missing)}, which this node does not have; it has: {there}"
            )
        return [by_index[index] for index in sorted({int(word) for word in words})]


def _source(settings: Settings) -> Gpus:
    if settings.simulate_gpus:
        return simulated(settings.simulate_gpus, settings.simulate_gpu_model)
    if is_statement(settings.node_gpus):
        return UnseenGpus(stated(settings.node_gpus))
    return UnseenGpus(()) if settings.node_gpus.strip().lower() == "none" else find_gpus()


def _vanished(index: int) -> Device:
    return Device(index, "", "unknown", 0, healthy=False, note="it is not there any more")
