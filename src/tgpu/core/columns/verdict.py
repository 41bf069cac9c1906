"""Who was found to have no room, and what has happened since that could cure it."""

import numpy as np

from tgpu.core.kernel.shapes import NEVER, Ints
from tgpu.domain.priority import BURST_RANK

RANKS = BURST_RANK + 1
Refusals = Ints
"""[n, 2] tenants' numbers and kinds."""
NOBODY: Refusals = np.zeros((0, 2), dtype=np.int64)


class Verdict:
    """`blocked_ms[rank, kind]`: tasks of that class and kind that last so long, or longer, have no room."""

    def __init__(self) -> None:
        self.blocked_ms: Ints = np.full((RANKS, 16), NEVER, dtype=np.int64)
        self.freed: set[str] = set()
        """Nodes with more room than when it was last decided."""
        self.all_open = True
        self.deferred: tuple[tuple[int, int], ...] = ()
        """(class, kind) to be asked again before anybody else is let past them."""
        self.refused: Refusals = NOBODY
        """Those of whom some were passed over for a quota: asked again also where there is no room for them,
        as what is kept for them is in the way of others."""

    def doubt_all(self) -> None:
        self.all_open = True

    def arrived(self, rank: int, kind: int, limit_ms: int) -> None:
        """Somebody shorter than all who were turned away is worth a try, and so is one of a new kind."""
        self.make_room(kind + 1)
        if limit_ms < self.blocked_ms[rank, kind]:
            self.blocked_ms[rank, kind] = NEVER

    def open(self, rank: int, kind: int) -> None:
        self.make_room(kind + 1)
        self.blocked_ms[rank, kind] = NEVER

    def make_room(self, kinds: int) -> None:
        have = self.blocked_ms.shape[1]
        if have < kinds:
            wider = np.full((RANKS, max(kinds, 2 * have)), NEVER, dtype=np.int64)
            wider[:, :have] = self.blocked_ms
            self.blocked_ms = wider

    def settled(self, blocked_ms: Ints, deferred: tuple[tuple[int, int], ...], refused: Refusals) -> None:
        """A plan has looked at everything that was open."""
        self.blocked_ms = blocked_ms
        self.deferred = deferred
        self.refused = refused
        self.freed.clear()
        self.all_open = False
