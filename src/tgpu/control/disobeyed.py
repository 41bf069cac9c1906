"""Nodes that have obeyed a newer leader than the one that speaks to them now."""

PASSES_S = 10.0
"""A server that was deposed finds out by itself before then: its lease is over."""
REPEATED_S = 60.0
"""A node that has not said it again for so long is away, or has found another server."""
_MOST_NAMED = 5


class Disobeyed:
    """If that goes on, the store is older than what nodes have seen: a copy that was put back."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[float, float]] = {}
        """When each has said it for the first and for the last time."""
        self._newest = 0

    def heard(self, node_id: str, epoch: int, now: float) -> None:
        first, _ = self._nodes.get(node_id, (now, now))
        self._nodes[node_id] = (first, now)
        self._newest = max(self._newest, epoch)

    def obeys(self, node_id: str) -> None:
        self._nodes.pop(node_id, None)

    @property
    def names(self) -> list[str]:
        return sorted(self._nodes)

    def complaint(self, now: float) -> str | None:
        for node_id, (_, last) in list(self._nodes.items()):
            if now - last > REPEATED_S:
                del self._nodes[node_id]
        if not any(last - first >= PASSES_S for first, last in self._nodes.values()):
            return None
        names = self.names
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return (
            f"nodes have obeyed a newer leader (epoch {self._newest}) than this store knows of, and refuse"
            f" its orders: {', '.join(names[:_MOST_NAMED])}{more}. The database was put back from a copy:"
            " stop all servers, say `tgpu restore --database` once, and start them again"
        )
