"""Attempts by node, and on each node by their estimated end."""

from tgpu.core.kernel.shapes import Ints, Small


def sort_by_node(node: Small, end_ms: Ints, by_id: Ints, begin: Small, filled: Small, order: Ints) -> None:
    """`by_id` are all rows in the order of attempt ids: of equal ends the smaller id stands first.

    Fills `order`, and `begin` with where each node's rows begin in it; `filled` has a zero for each node.
    """
    begin[:] = 0
    for row in range(len(node)):
        begin[node[row] + 1] += 1
    for at in range(1, len(begin)):
        begin[at] += begin[at - 1]
    for at in range(len(by_id)):
        insert(by_id[at], node, end_ms, begin, filled, order)


def insert(row: int, node: Small, end_ms: Ints, begin: Small, filled: Small, order: Ints) -> None:
    """Behind all on its node that end no later."""
    here = node[row]
    first = begin[here]
    at = first + filled[here]
    while at > first and end_ms[order[at - 1]] > end_ms[row]:
        order[at] = order[at - 1]
        at -= 1
    order[at] = row
    filled[here] += 1
