"""Overview documents: the whole overview as answers to GET, made once for callers of equal visibility."""

from time import monotonic

from tgpu.api.overview_view import OverviewView, snapshot_of
from tgpu.api.ports import Live
from tgpu.api.visibility import Visibility

KEPT_S = 0.5
MOST = 8
"""Of 10,000 nodes, a document has some megabytes."""
Key = tuple[Visibility, bool]


class OverviewDocuments:
    def __init__(self) -> None:
        self._known: dict[Key, tuple[float, bytes]] = {}
        """The latest last."""

    async def document(self, live: Live, visibility: Visibility, *, terms: bool) -> bytes:
        key = visibility, terms
        if (known := self._recent(key)) is not None:
            return known
        found, alerts = await live.overview(terms), await live.alerts()
        if (known := self._recent(key)) is not None:  # another request has made it meanwhile
            return known
        made = OverviewView(visibility, snapshot_of(found), alerts).whole(found.terms)
        self._known.pop(key, None)
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = monotonic(), made
        return made

    def _recent(self, key: Key) -> bytes | None:
        known = self._known.get(key)
        return known[1] if known is not None and monotonic() - known[0] < KEPT_S else None
