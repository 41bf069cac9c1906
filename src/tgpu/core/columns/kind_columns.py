"""Kinds of request as rows: what tasks ask for, judged once against every kind of node."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from tgpu.core.columns.dimensions import Dimensions
from tgpu.core.columns.growing import with_room
from tgpu.core.columns.node_columns import NodeColumns
from tgpu.core.columns.quota_columns import QuotaColumns
from tgpu.core.kernel.shapes import NOWHERE, UNKNOWN, WHOLE, Kinds
from tgpu.core.plan import Fault
from tgpu.core.policy import SCORERS, Policy
from tgpu.core.rules import device_suits
from tgpu.domain.job import Request
from tgpu.domain.node import Device, Node
from tgpu.domain.views import Reason


class KindColumns:
    """One row per kind of task, and one per kind of gang, which has no amounts of its own."""

    def __init__(
        self, dimensions: Dimensions, quotas: QuotaColumns, nodes: NodeColumns, policy: Policy
    ) -> None:
        self._dimensions = dimensions
        self._quotas = quotas
        self._nodes = nodes
        self._policy = policy
        self._numbers: dict[Hashable, int] = {}
        self._scorers = (*SCORERS, *sorted(policy.outside_scorers))
        self.requests: list[Request | None] = []
        """By row; None where the row stands for a gang."""
        self._last: tuple[Request, bool, int] | None = None
        """What was asked for last: tasks alike come one after the other, and a request is long to hash."""
        self._arrays: Kinds | None = None
        """As long as there are no others."""
        self.faults: dict[str, Fault] = {}
        self.by_user = False
        """Whether it matters whose task it is: then the user is part of the kind."""
        self._judged = 0
        self._laid = 0
        self._bound: dict[int, str] = {}
        self.need = np.zeros((0, dimensions.of_nodes), dtype=np.int64)
        self.gpus = np.zeros(0, dtype=np.int32)
        self.whole = np.zeros(0, dtype=np.bool_)
        self.device_need = np.zeros((0, 0, dimensions.devices), dtype=np.int32)
        self.suits = np.zeros((0, 0), dtype=np.bool_)
        self.exclusive = np.zeros(0, dtype=np.bool_)
        self.pinned = np.zeros(0, dtype=np.int32)
        self.cluster_need = np.zeros((0, len(dimensions.cluster)), dtype=np.int64)
        self.quota = np.zeros((0, quotas.width), dtype=np.int64)
        self.scorer = np.zeros(0, dtype=np.int32)
        self.of_gang = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.requests)

    def fits_in(self, request: Request) -> bool:
        """Whether these columns can hold it, or must be laid out anew."""
        if not request.generic:
            return True
        known = set(self._dimensions.generic) | set(self._dimensions.cluster)
        return all(name in known for name, _ in request.generic)

    def row(self, request: Request, gentle: bool) -> int:
        """The kind of a task; `gentle` ones may not preempt."""
        last = self._last
        if last is not None and last[0] is request and last[1] is gentle:
            return last[2]
        number = self._numbers.get((request, gentle))
        if number is None:
            number = self._new_row(request, gentle)
        self._last = (request, gentle, number)
        return number

    def _new_row(self, request: Request, gentle: bool) -> int:
        """Of a request that was not seen before: its kind may be known all the same."""
        key = (request if self.by_user or request.user is None else replace(request, user=None), gentle)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._add(key[0])
        self._numbers[request, gentle] = number
        return number

    def gang_row(self, shape: Hashable) -> int:
        number = self._numbers.get(("gang", shape))
        if number is None:
            number = self._numbers["gang", shape] = self._add(None)
        return number

    def _add(self, request: Request | None) -> int:
        row = len(self.requests)
        self._arrays = None
        self.requests.append(request)
        for name in _COLUMNS:
            setattr(self, name, with_room(getattr(self, name), row + 1))
        self.pinned[row] = NOWHERE
        self.of_gang[row] = request is None
        if request is None:
            return row
        if request.node_id is not None:
            self._bound[row] = request.node_id
            self.pin()
        keys = {key for key, _ in request.node_selector} | {rule.key for rule in request.node_rules}
        if self._nodes.look_at_labels(keys):
            self._judged = 0
        self.need[row] = self._dimensions.need(request)
        self.cluster_need[row] = self._dimensions.cluster_need(request)
        self.gpus[row] = max(1, request.gpu_milli // WHOLE) if wants_gpu(request) else 0
        self.whole[row] = request.gpu_milli >= WHOLE
        self.quota[row] = self._quotas.need(request)
        self.exclusive[row] = request.exclusive
        self.scorer[row] = self._scorers.index(self._policy.of(request.pool).scorer)
        self._judge(row, 0, self._judged)
        self._lay(row, 0, self._laid)
        return row

    def arrays(self) -> Kinds:
        """Up to date with every kind of node and every layout there is."""
        if self._judged < len(self._nodes.kinds_of_node):
            wider = np.zeros((len(self.suits), len(self._nodes.kinds_of_node)), dtype=np.bool_)
            wider[:, : self._judged] = self.suits[:, : self._judged]
            self.suits, first, self._judged = wider, self._judged, wider.shape[1]
            self._arrays = None
            for row in range(len(self.requests)):
                self._judge(row, first, self._judged)
        if self._laid < len(self._nodes.device_layouts):
            shape = (len(self.device_need), len(self._nodes.device_layouts), self._dimensions.devices)
            laid = np.zeros(shape, dtype=np.int32)
            laid[:, : self._laid] = self.device_need[:, : self._laid]
            self.device_need, first, self._laid = laid, self._laid, laid.shape[1]
            self._arrays = None
            for row in range(len(self.requests)):
                self._lay(row, first, self._laid)
        if self._arrays is None:
            self._arrays = self._views()
        return self._arrays

    def ask_quotas(self) -> None:
        """Anew, for quotas count something that they did not."""
        self._arrays = None
        self.quota = np.zeros((len(self.need), self._quotas.width), dtype=np.int64)
        for row, request in enumerate(self.requests):
            if request is not None:
                self.quota[row] = self._quotas.need(request)

    def pin(self) -> None:
        """Find the rows of the nodes that some kinds are bound to: they move as nodes come."""
        for row, node_id in self._bound.items():
            self.pinned[row] = self._nodes.row(node_id) if self._nodes.known(node_id) else UNKNOWN

    def _views(self) -> Kinds:
        count = len(self.requests)
        return Kinds(
            self.need[:count],
            self.gpus[:count],
            self.whole[:count],
            self.device_need[:count],
            self.suits[:count],
            self.exclusive[:count],
            self.pinned[:count],
            self.cluster_need[:count],
            self.quota[:count],
            self.scorer[:count],
        )

    def _judge(self, row: int, first: int, end: int) -> None:
        request = self.requests[row]
        if request is None:
            return
        for number in range(first, end):
            self.suits[row, number] = self.objection(request, self._nodes.kinds_of_node[number]) is None

    def objection(self, request: Request, node: Node) -> Reason | None:
        """The first rule that is against it, if any; a rule from outside that fails is against it."""
        for name, rule in self._policy.rules.items():
            if name != "node":  # a pinned kind knows its row
                reason = rule(request, node)
                if reason is not None:
                    return reason
        for name, rule in self._policy.outside_rules.items():
            try:
                reason = rule(request, node)
                if not isinstance(reason, Reason | None):
                    raise TypeError(f"it answered {reason!r}, neither a Reason nor None")  # noqa: TRY301
            except Exception as error:  # noqa: BLE001  whatever a plug-in raises is its own
                text = f"rule {name} failed on {node.node_id}: {type(error).__name__}: {error}"
                self.faults[name] = Fault(name, text)
                return Reason("rule-failed", text, {"rule": name})
            if reason is not None:
                return reason
        return None

    def _lay(self, row: int, first: int, end: int) -> None:
        request = self.requests[row]
        if request is None or not wants_gpu(request):
            return
        for number in range(first, end):
            devices = self._nodes.device_layouts[number]
            self.device_need[row, number, : len(devices)] = thousandths(devices, request)


def wants_gpu(request: Request) -> bool:
    return request.gpu_milli > 0 or request.gpu_memory_mib > 0


def thousandths(devices: Sequence[Device], request: Request) -> list[int]:
    """What the request would take of each of these devices; 0 where one does not suit."""
    return [_of_one(device, request) if device_suits(device, request) else 0 for device in devices]


def _of_one(device: Device, request: Request) -> int:
    if request.gpu_milli:
        return min(request.gpu_milli, WHOLE)
    if not device.memory_mib:
        return 0
    return -(-request.gpu_memory_mib * WHOLE // device.memory_mib)


_COLUMNS = (
    "need", "gpus", "whole", "device_need", "suits", "exclusive", "pinned", "cluster_need", "quota", "scorer",
    "of_gang",
)  # fmt: skip
