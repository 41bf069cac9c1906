"""What of this node is offered, as the settings say, and how much of that is in use."""

import threading
import time
from collections.abc import Callable, Sequence

import psutil

from tgpu.agent.inventory import host
from tgpu.agent.inventory.faults import Faults
from tgpu.agent.inventory.foreign import ForeignUsers
from tgpu.agent.inventory.gpus import Sight
from tgpu.agent.inventory.health import Health, Limits
from tgpu.agent.inventory.owners import Owners
from tgpu.agent.inventory.shares import shares_of
from tgpu.agent.inventory.sources import source_of
from tgpu.agent.inventory.stated import is_statement
from tgpu.agent.use.gpu_meter import DeviceShares
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain import node_terms, quantities
from tgpu.domain.node import Capacity, Device, DeviceSigns, ForeignUse
from tgpu.protocol.messages import NodeUse

SIMULATED_CPU_MILLI = 4000
"""A machine with so many GPUs would have CPUs to match: without, jobs would wait for those instead."""
GONE = "it is not there any more"
DISK_GROWTH = 1.25
"""A smaller growth of the free space is not reported: tasks write and remove files all the time."""


class Inventory:
    """Asked again and again: a device that falls ill, or recovers, shows in the next answer."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._gpus = source_of(settings)
        self._disk_mib = self._size("node_disk", settings.node_disk)
        self._free_mib = 0
        present = [sight.device for sight in self._gpus.look()]
        self._offered = {device.index: device for device in self._chosen(present)}
        """As they were seen last."""
        self._judging = threading.Lock()
        self._health = Health(
            Limits(
                recovery_s=quantities.seconds("gpu_recovery", settings.gpu_recovery),
                too_hot_c=settings.gpu_too_hot,
                ecc_errors=settings.gpu_ecc_errors,
            ),
            Faults(settings.agent_dir),
        )
        self._foreign = ForeignUsers(
            self._size("foreign_gpu_floor", settings.foreign_gpu_floor),
            avoid=settings.foreign_gpu_use == "avoid",
        )
        self.owners: Owners | None = None
        """Who can tell this cluster's tasks from others; nobody, before the node has met its cluster."""
        psutil.cpu_percent(interval=None)  # it measures from one call to the next

    def capacity(self) -> Capacity:
        settings = self._settings
        cpus = quantities.milli("node_cpus", settings.node_cpus, quantities.MAX_CPU_MILLI)
        return Capacity(
            cpu_milli=cpus or max(host.cpu_milli(), SIMULATED_CPU_MILLI * settings.simulate_gpus),
            memory_mib=self._size("node_memory", settings.node_memory) or host.memory_mib(),
            disk_mib=self._disk_mib or self._most_free_mib(),
            devices=self._devices(),
            generic=dict(node_terms.generic_pairs("node_generic", settings.node_generic)),
        )

    def _most_free_mib(self) -> int:
        """What was free at the start; more once much more is: the disk may have been full then."""
        free_mib = host.disk_mib(self._settings.home)
        if free_mib > DISK_GROWTH * self._free_mib:
            self._free_mib = free_mib
        return self._free_mib

    def measure(self) -> NodeUse:
        memory = psutil.virtual_memory()
        gpus = self._gpus.use(tuple(self._offered))
        return NodeUse(
            cpu_milli=round(psutil.cpu_percent(interval=None) * 10 * (psutil.cpu_count() or 1)),
            memory_mib=(memory.total - memory.available) // host.MIB,
            gpu_percent=tuple(None if use is None else use.percent for use in gpus),
            gpu_memory_mib=tuple(None if use is None else use.memory_mib for use in gpus),
            gpu_signs=tuple(DeviceSigns() if use is None else use.signs for use in gpus),
        )

    def gpu_shares(self) -> dict[int, DeviceShares]:
        """What this cluster's attempts do on each device, as far as the driver tells of their processes."""
        owners, indices = self.owners, tuple(self._offered)
        if owners is None:
            return {}
        told = self._gpus.processes(indices)
        return {index: shares_of(found, owners) for index, found in zip(indices, told, strict=True)}

    def gpu_failure(self, indices: Sequence[int]) -> str | None:
        """What is wrong with the first of these GPUs that failed, or did so just now; at once."""
        with self._judging:
            self._take_reports()
            for index in indices:
                device = self._offered.get(index)
                words = None if device is None else self._health.blamed(device.uuid, self._clock())
                if words is not None:
                    return f"GPU {index}: {words}"
        return None

    def _devices(self) -> tuple[Device, ...]:
        seen = {sight.device.index: sight for sight in self._gpus.look()}
        sights = [
            seen.get(index) or Sight(known, GONE, is_lost=True) for index, known in self._offered.items()
        ]
        with self._judging:
            self._take_reports()
            devices = [self._health.judged(sight, self._clock()) for sight in sights]
        self._offered |= {sight.device.index: sight.device for sight in sights if not sight.trouble}
        return tuple(
            self._foreign.marked(device, self._foreign_on(sight))
            for device, sight in zip(devices, sights, strict=True)
        )

    def _foreign_on(self, sight: Sight) -> list[ForeignUse]:
        owners = self.owners
        if owners is None or self._settings.foreign_gpu_use == "ignore":
            return []
        uses = [owners.foreign(process.pid, process.memory_mib) for process in sight.processes]
        return [use for use in uses if use is not None]

    def _take_reports(self) -> None:
        for report in self._gpus.reported():
            self._health.reported(report, self._clock())

    def _size(self, name: str, text: str) -> int:
        return quantities.mib(name, text) if text else 0

    def _chosen(self, present: list[Device]) -> list[Device]:
        said = self._settings.node_gpus.strip().lower()
        if said == "all" or is_statement(said):
            return present
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
