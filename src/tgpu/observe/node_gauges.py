"""What nodes and their GPUs have, give out and use, as gauges: filled when somebody looks."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Device
from tgpu.domain.quantities import MILLI
from tgpu.domain.views import DeviceView, NodeView


class NodeGauges:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, ["node", *labels], registry=registry)

        self._up = gauge("tgpu_node_up", "1 while the node is ready.")
        self._capacity = gauge("tgpu_capacity", "What a node has to give.", "resource")
        self._allocated = gauge("tgpu_allocated", "What is given out.", "resource")
        self._used = gauge("tgpu_used", "What is in use, measured.", "resource")
        self._device_allocated = gauge("tgpu_device_allocated", "Share of a GPU given out.", "device")
        self._busy = gauge("tgpu_device_busy", "Share of time a GPU was busy, measured.", "device")
        self._memory = gauge("tgpu_device_memory_used_mib", "Memory of a GPU in use, measured.", "device")
        self._healthy = gauge("tgpu_device_healthy", "1 while a GPU is healthy.", "device")
        self._foreign = gauge(
            "tgpu_device_foreign_processes", "Processes on a GPU that belong to no job.", "device"
        )
        self._heat = gauge("tgpu_device_temperature_celsius", "How hot a GPU is.", "device")
        self._power = gauge("tgpu_device_power_watts", "What a GPU draws.", "device")
        self._errors = gauge(
            "tgpu_device_ecc_uncorrected",
            "Errors of a GPU's memory that could not be corrected since its driver was loaded.",
            "device",
        )

    def fill(self, views: Iterable[NodeView]) -> None:
        """With these nodes and no others."""
        for gauge in (
            self._up, self._capacity, self._allocated, self._used, self._device_allocated, self._busy,
            self._memory, self._healthy, self._foreign, self._heat, self._power, self._errors,
        ):  # fmt: skip
            gauge.clear()
        for view in views:
            self._fill_node(view)

    def _fill_node(self, view: NodeView) -> None:
        name, capacity, given = view.node.node_id, view.node.capacity, view.allocated
        self._up.labels(name).set(view.node.state is NodeState.READY)
        for resource, total, allocated in (
            ("cpu", capacity.cpu_milli / MILLI, given.cpu_milli / MILLI),
            ("memory_mib", capacity.memory_mib, given.memory_mib),
            ("disk_mib", capacity.disk_mib, given.disk_mib),
            ("gpu", capacity.gpu_milli / MILLI, given.gpu_milli / MILLI),
        ):
            self._capacity.labels(name, resource).set(total)
            self._allocated.labels(name, resource).set(allocated)
        if view.used_cpu_milli is not None:
            self._used.labels(name, "cpu").set(view.used_cpu_milli / MILLI)
        if view.used_memory_mib is not None:
            self._used.labels(name, "memory_mib").set(view.used_memory_mib)
        for known in capacity.devices:
            self._fill_known(name, known)
        for device in view.devices:
            self._fill_measured(name, device)

    def _fill_known(self, node: str, device: Device) -> None:
        self._healthy.labels(node, str(device.index)).set(device.healthy)
        self._foreign.labels(node, str(device.index)).set(len(device.foreign))

    def _fill_measured(self, node: str, device: DeviceView) -> None:
        index = str(device.index)
        self._device_allocated.labels(node, index).set(device.allocated_milli / MILLI)
        for gauge, measured in (
            (self._busy, None if device.busy_percent is None else device.busy_percent / 100),
            (self._memory, device.memory_used_mib),
            (self._heat, device.signs.temperature_c),
            (self._power, device.signs.power_w),
            (self._errors, device.signs.ecc_uncorrected),
        ):
            if measured is not None:
                gauge.labels(node, index).set(measured)
