"""Which nodes a window keeps, which windows are open on a node, and which of them overlap."""

from collections.abc import Iterable, Sequence

import msgspec

from tgpu.api.edge import rfc3339
from tgpu.domain.label_rules import holds
from tgpu.domain.node import Node
from tgpu.store.cluster_port import WindowRow


class OpenWindow(msgspec.Struct, kw_only=True):
    """A window that is open now."""

    window_id: int
    name: str
    tenant_id: str | None
    until: str


def is_open(row: WindowRow, now_ms: int) -> bool:
    return not row.cancelled and row.from_ms <= now_ms < row.until_ms


def keeps(row: WindowRow, node: Node) -> bool:
    if node.node_id in row.node_ids:
        return True
    return bool(row.rules) and all(holds(rule, node.labels.get(rule.key)) for rule in row.rules)


def open_on(node: Node, rows: Sequence[WindowRow]) -> list[OpenWindow]:
    """`rows`: those that are open."""
    return [
        OpenWindow(
            window_id=row.window_id, name=row.name, tenant_id=row.tenant_id, until=rfc3339(row.until_ms)
        )
        for row in rows
        if keeps(row, node)
    ]


def overlapping(made: WindowRow, rows: Iterable[WindowRow], nodes: Iterable[Node]) -> list[int]:
    """Other windows that keep one of its nodes at the same time: only whom both let in may use it then."""
    kept = [node for node in nodes if keeps(made, node)]
    return [
        row.window_id
        for row in rows
        if row.window_id != made.window_id
        and not row.cancelled
        and row.from_ms < made.until_ms
        and made.from_ms < row.until_ms
        and any(keeps(row, node) for node in kept)
    ]
