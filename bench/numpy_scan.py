"""The plain way: for every placement look at all nodes at once, vectorised."""

import numpy as np

from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan


class Scan:
    """Best fit over arrays of all nodes; the order of the tasks is given to it for nothing."""

    def __init__(self, picture: Picture) -> None:
        self._kinds = picture.table.kinds.arrays()
        nodes = picture.table.nodes
        self._names = nodes.names
        self._suits, self._layout, self._kind = self._kinds.suits, nodes.layout, nodes.kind
        self._free, self._gpu = nodes.free.copy(), nodes.gpu_free.copy()

    def place(self, kind: int) -> str:
        need = self._kinds.need[kind]
        fits = self._suits[kind, self._kind] & (self._free >= need).all(axis=1)
        score = np.where(need > 0, need / np.maximum(self._free, 1), 0.0).sum(axis=1)
        count = int(self._kinds.gpus[kind])
        device_need = self._kinds.device_need[kind, self._layout]
        if count:
            usable = (device_need > 0) & (self._gpu >= device_need)
            fits &= usable.sum(axis=1) >= count
            suiting = np.where(device_need > 0, self._gpu, 0).sum(axis=1)
            asked = count * WHOLE if self._kinds.whole[kind] else device_need.max()
            score += asked / np.maximum(suiting, 1)
        else:
            score -= self._gpu.sum(axis=1) / WHOLE
        node = int(np.argmax(np.where(fits, score, -np.inf)))
        self._free[node] -= need
        if count:
            self._take_devices(node, device_need[node], count)
        return self._names[node]

    def _take_devices(self, node: int, need: np.ndarray, count: int) -> None:
        row = self._gpu[node]
        usable = np.flatnonzero((need > 0) & (row >= need))
        if count == 1 and need[usable[0]] < WHOLE:
            usable = usable[np.argsort(row[usable], kind="stable")]
        row[usable[:count]] -= need[usable[:count]]


def same_places(picture: Picture, made: Plan, first: int) -> bool:
    """Whether the scan, too, puts the first so many tasks of the plan where the plan did."""
    scan = Scan(picture)
    return all(
        scan.place(picture.table.kind_of(picture.waiting[start.task_id])) == start.node_id
        for start in made.starts[:first]
    )
