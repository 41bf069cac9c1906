"""Cache of allocation over time: many pages ask for the same steps, and a busy week takes a second."""

from time import monotonic

from tgpu.domain.utilization import AllocationSteps

KEPT_S = 20.0
MOST = 64
Key = tuple[int, int, str | None]
"""From when on, the length of a step, and the node, if one."""


class AllocationCache:
    def __init__(self) -> None:
        self._known: dict[Key, tuple[float, AllocationSteps]] = {}

    def get(self, key: Key) -> AllocationSteps | None:
        found = self._known.get(key)
        return found[1] if found is not None and monotonic() - found[0] < KEPT_S else None

    def put(self, key: Key, steps: AllocationSteps) -> None:
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = monotonic(), steps
