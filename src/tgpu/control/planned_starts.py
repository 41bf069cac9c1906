"""Planned starts of the leader, kept for a while: many timelines ask for the same ones."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from tgpu.control.loop import Control
from tgpu.core.picture import Picture
from tgpu.core.planned_starts import planned_starts
from tgpu.domain.views import PlannedStart

MOST = 20_000
KEPT_S = 10.0
"""While the cluster state is the same: time alone moves them, too."""
SHORTEST_S = 1.0
"""Between two of them, whatever changes."""
PAUSE = 19
"""They are made again after this many times as long as they took: they take at most a twentieth of the
leader's time."""


class PlannedStarts:
    def __init__(self) -> None:
        self._known: Sequence[PlannedStart] = ()
        self._of: tuple[Picture, int] | None = None
        """The cluster state and its version."""
        self._until = self._same_until = 0.0
        """How long they are shown, also of an older version; and of the same."""

    def of(self, control: Control) -> Sequence[PlannedStart]:
        """Of a cluster state that nothing changes now."""
        now, picture = asyncio.get_running_loop().time(), control.picture
        of, version = self._of or (None, 0)
        if of is picture and now < (self._same_until if version == picture.version else self._until):
            return self._known
        began = perf_counter()
        self._known = planned_starts(picture, control.policy, control.engine, MOST)
        self._of = picture, picture.version
        self._until = now + max(SHORTEST_S, PAUSE * (perf_counter() - began))
        self._same_until = max(self._until, now + KEPT_S)
        return self._known
