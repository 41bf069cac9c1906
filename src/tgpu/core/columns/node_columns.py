"""Nodes as rows, in the order of their names."""

from bisect import bisect_left
from collections.abc import Hashable, Sequence

import numpy as np

from tgpu.core.columns.dimensions import Dimensions
from tgpu.core.kernel.shapes import WHOLE, Ints, Layouts, Nodes, Small
from tgpu.core.policy import Policy
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Device, Node

MAX_DEVICES = 62
"""A choice of devices is one integer with a bit for each."""


class NodeColumns:
    """`kinds_of_node` and `layouts` are what a kind of request is judged against, once each."""

    def __init__(self, dimensions: Dimensions, policy: Policy) -> None:
        self._dimensions = dimensions
        self._policy = policy
        self.names: list[str] = []
        self.nodes: list[Node] = []
        self.label_keys: set[str] = set()
        """Labels that some request looks at: the others make no difference between nodes."""
        self.kinds_of_node: list[Node] = []
        self.device_layouts: list[tuple[Device, ...]] = []
        self._kind_numbers: dict[Hashable, int] = {}
        self._layout_numbers: dict[Hashable, int] = {}
        self._total: Ints | None = None
        self.free = np.zeros((0, dimensions.of_nodes), dtype=np.int64)
        self.capacity = np.zeros((0, dimensions.of_nodes), dtype=np.int64)
        self.gpu_free = np.zeros((0, dimensions.devices), dtype=np.int32)
        self.gpu_sum = np.zeros(0, dtype=np.int64)
        self.tasks = np.zeros(0, dtype=np.int32)
        self.alone = np.zeros(0, dtype=np.int32)
        self.takes = np.zeros(0, dtype=np.bool_)
        self.counts = np.zeros(0, dtype=np.bool_)
        """Part of what shares are measured by: ready or draining."""
        self.gpu_whole = np.zeros(0, dtype=np.int64)
        """Thousandths of all its healthy devices."""
        self.kind = np.zeros(0, dtype=np.int32)
        self.layout = np.zeros(0, dtype=np.int32)
        self.island = np.zeros((0, dimensions.devices), dtype=np.int32)
        self.numa = np.zeros((0, dimensions.devices), dtype=np.int32)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, node_id: str) -> int:
        return bisect_left(self.names, node_id)

    def known(self, node_id: str) -> bool:
        row = self.row(node_id)
        return row < len(self.names) and self.names[row] == node_id

    def fits_in(self, node: Node) -> bool:
        """Whether these columns can hold it, or must be laid out anew."""
        known = node.capacity.generic.keys() <= set(self._dimensions.generic)
        return known and len(node.capacity.devices) <= self._dimensions.devices

    def insert(self, node: Node) -> int:
        """A row for a new node, empty and closed; rows behind it move by one."""
        row = self.row(node.node_id)
        self.names.insert(row, node.node_id)
        self.nodes.insert(row, node)
        for name in _COLUMNS:
            setattr(self, name, np.insert(getattr(self, name), row, 0, axis=0))
        return row

    def insert_all(self, nodes: Sequence[Node]) -> None:
        """The same for many at once, where there was none: one by one, each would move all others."""
        assert not self.names, "rows that are there would be lost"
        self.nodes = sorted(nodes, key=lambda node: node.node_id)
        self.names = [node.node_id for node in self.nodes]
        for name in _COLUMNS:
            empty = getattr(self, name)
            setattr(self, name, np.zeros((len(nodes), *empty.shape[1:]), dtype=empty.dtype))

    def remove(self, row: int) -> None:
        self._total = None
        del self.names[row], self.nodes[row]
        for name in _COLUMNS:
            setattr(self, name, np.delete(getattr(self, name), row, axis=0))

    def describe(self, row: int, node: Node, reachable: bool) -> None:
        """What the node has, as if it were empty; who is there takes it again."""
        self.nodes[row] = node
        pool = self._policy.of(node.pool)
        whole = self._dimensions.capacity(node.capacity, pool.cpu_overcommit, pool.memory_overcommit)
        self.capacity[row] = self.free[row] = whole
        self.gpu_free[row] = 0
        self.gpu_free[row, : len(node.capacity.devices)] = WHOLE
        self.gpu_sum[row] = self.gpu_free[row].sum()
        self.gpu_whole[row] = node.capacity.gpu_milli
        self.tasks[row] = self.alone[row] = 0
        self.layout[row] = self._layout(node.capacity.devices)
        self.kind[row] = self._kind(node)
        self.set_state(row, node, reachable)

    def set_state(self, row: int, node: Node, reachable: bool) -> None:
        self._total = None
        self.nodes[row] = node
        self.takes[row] = reachable and node.state is NodeState.READY
        self.counts[row] = node.state is not NodeState.OFFLINE

    def look_at_labels(self, keys: set[str]) -> bool:
        """From now on these labels tell nodes apart; True if that is new."""
        if keys <= self.label_keys:
            return False
        self.label_keys |= keys
        self.kinds_of_node.clear()
        self._kind_numbers.clear()
        for row, node in enumerate(self.nodes):
            self.kind[row] = self._kind(node)
        return True

    def move(self, row: int, need: Ints, devices: int, milli: int, sign: int) -> None:
        """`sign` -1 gives room out, 1 takes it back."""
        free = self.free[row]  # the row itself
        if sign < 0:
            free -= need
        else:
            free += need
        device = 0
        while devices:
            if devices & 1:
                self.gpu_free[row, device] += sign * milli
                self.gpu_sum[row] += sign * milli
            devices >>= 1
            device += 1
        self.tasks[row] -= sign

    def total(self) -> Ints:
        """What ready and draining nodes have, with their healthy GPUs last."""
        if self._total is not None:
            return self._total
        whole = np.zeros(self._dimensions.of_nodes + 1, dtype=np.int64)
        whole[:-1] = self.capacity[self.counts].sum(axis=0)
        whole[-1] = self.gpu_whole[self.counts].sum()
        self._total = whole
        return whole

    def arrays(self) -> Nodes:
        """The columns themselves: who tries on paper copies them."""
        return Nodes(
            self.free,
            self.capacity,
            self.gpu_free,
            self.gpu_sum,
            self.tasks,
            self.alone,
            self.takes,
            self.kind,
            self.layout,
        )

    def layouts(self) -> Layouts:
        return Layouts(self.island, self.numa)

    def _layout(self, devices: tuple[Device, ...]) -> int:
        key = tuple(
            (d.model, d.memory_mib, d.is_usable, d.healthy, bool(d.foreign), d.numa_node, d.island)
            for d in devices
        )
        number = self._layout_numbers.get(key)
        if number is None:
            number = self._layout_numbers[key] = len(self.device_layouts)
            self.device_layouts.append(devices)
            self.island = self._with_groups(self.island, [device.island for device in devices])
            self.numa = self._with_groups(self.numa, [device.numa_node for device in devices])
        return number

    def _with_groups(self, table: Small, groups: list[int | None]) -> Small:
        row = np.full((1, self._dimensions.devices), -1, dtype=np.int32)
        row[0, : len(groups)] = [-1 if group is None else group for group in groups]
        return np.concatenate([table, row])

    def _kind(self, node: Node) -> int:
        labels = tuple((key, node.labels.get(key)) for key in sorted(self.label_keys))
        key: Hashable = (node.pool, node.serves, node.taints, labels)
        if self._policy.outside_rules:  # nobody knows what a rule from outside looks at
            has, every = node.capacity, tuple(sorted(node.labels.items()))
            amounts = (has.cpu_milli, has.memory_mib, has.disk_mib, tuple(sorted(has.generic.items())))
            key = (node.node_id, node.pool, node.serves, node.taints, every, amounts, has.devices)
        number = self._kind_numbers.get(key)
        if number is None:
            number = self._kind_numbers[key] = len(self.kinds_of_node)
            self.kinds_of_node.append(node)
        return number


_COLUMNS = (
    "free", "capacity", "gpu_free", "gpu_sum", "tasks", "alone", "takes", "counts", "gpu_whole", "kind",
    "layout",
)  # fmt: skip
