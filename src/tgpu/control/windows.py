"""Windows as the store has them, made into those of the picture: rules become the nodes that satisfy them."""

from collections.abc import Iterable

from tgpu.core.picture import Picture, Window
from tgpu.domain.label_rules import holds
from tgpu.store.cluster_port import WindowRow


class Windows:
    """Those that are not over yet; brought into the picture whenever they, or the nodes, have changed."""

    def __init__(self, rows: Iterable[WindowRow] = ()) -> None:
        self._rows: dict[int, WindowRow] = {}
        self._is_new = False
        self.take_in(rows)

    def take_in(self, rows: Iterable[WindowRow]) -> None:
        for row in rows:
            self._is_new = True
            if row.cancelled:
                self._rows.pop(row.window_id, None)
            else:
                self._rows[row.window_id] = row

    def apply(self, picture: Picture, *, nodes_changed: bool) -> None:
        """Says nothing to the picture if nothing is new: it would doubt all that it knows."""
        over = [row.window_id for row in self._rows.values() if row.until_ms <= picture.now_ms]
        if not (over or self._is_new or (nodes_changed and self._rows)):
            return
        self._is_new = False
        for window_id in over:
            del self._rows[window_id]
        made = tuple(_window(row, picture) for row in self._rows.values())
        if made != picture.windows:
            picture.set_windows(made)


def _window(row: WindowRow, picture: Picture) -> Window:
    named = {name for name in row.node_ids if name in picture.places}
    if row.rules:
        named |= {
            place.node.node_id
            for place in picture.places.values()
            if all(holds(rule, place.node.labels.get(rule.key)) for rule in row.rules)
        }
    return Window(frozenset(named), row.from_ms, row.until_ms, row.tenant_id)
