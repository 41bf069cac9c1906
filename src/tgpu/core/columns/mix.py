"""The recent mix of requests, frozen for some minutes: what a fragment is measured against."""

from collections import Counter

import numpy as np

from tgpu.core.kernel.shapes import Floats, Small

FREEZE_MS = 300_000
MOST_KINDS = 48
COVERED = 0.95


class Mix:
    """Arrivals by kind; at every freeze older ones count half."""

    def __init__(self) -> None:
        self._arrived: Counter[int] = Counter()
        self._frozen_ms: int | None = None
        self.kinds: Small = np.zeros(0, dtype=np.int32)
        self.weights: Floats = np.zeros(0, dtype=np.float64)

    def arrived(self, kind: int) -> None:
        self._arrived[kind] += 1024

    def freeze(self, now_ms: int) -> None:
        """If it is time to: scores stay valid in between."""
        fresh = self._frozen_ms is not None and now_ms - self._frozen_ms < FREEZE_MS
        if not self._arrived or (fresh and len(self.kinds)):
            return
        self._frozen_ms = now_ms
        wanted, covered = COVERED * self._arrived.total(), 0
        chosen: list[tuple[int, int]] = []
        for kind, count in sorted(self._arrived.items(), key=lambda item: (-item[1], item[0])):
            if covered >= wanted or len(chosen) == MOST_KINDS:
                break
            chosen.append((kind, count))
            covered += count
        self.kinds = np.array([kind for kind, _ in chosen], dtype=np.int32)
        self.weights = np.array([count / covered for _, count in chosen], dtype=np.float64)
        self._arrived = Counter({kind: count // 2 for kind, count in self._arrived.items() if count > 1})
