"""Whose turn is it? Heaps over the tenant tree, smallest weighted share first."""

from tgpu.core.kernel.shapes import Ints, Stream, Tree


def share(row: int, tree: Tree) -> float:
    """The largest part that this tenant has of anything, divided by its weight."""
    largest = 0.0
    for dimension in range(tree.used.shape[1]):
        if tree.total[dimension] > 0:
            largest = max(largest, tree.used[row, dimension] / tree.total[dimension])
    return float(largest / tree.weight[row])


def line_up(tree: Tree, stream: Stream) -> None:
    """Every tenant with somebody to try takes its place in its parent's heap."""
    for row in range(len(tree.parent)):
        stream.heap_size[row] = 0
        stream.value[row] = tree.past[row] / tree.weight[row] if stream.static else share(row, tree)
    for row in range(len(tree.parent) - 1, 0, -1):  # children before their parents
        queue = stream.queue_of[row]
        waits = queue >= 0 and stream.head[queue] < stream.end[queue]
        if waits or stream.heap_size[row] > 0:
            parent = tree.parent[row]
            first = tree.first_child[parent]
            stream.heap[first + stream.heap_size[parent]] = row
            stream.heap_size[parent] += 1
            sift_up(first, stream.heap_size[parent] - 1, stream)


def next_row(tree: Tree, stream: Stream) -> int:
    """The tenant whose turn it is, or -1: nobody is left."""
    if stream.heap_size[0] == 0:
        return -1
    row = 0
    while stream.heap_size[row] > 0:
        row = stream.heap[tree.first_child[row]]
    return row


def comes_first(a: int, b: int, stream: Stream) -> bool:
    return stream.value[a] < stream.value[b] or (stream.value[a] == stream.value[b] and a < b)


def sift_up(first: int, at: int, stream: Stream) -> None:
    heap = stream.heap
    while at > 0:
        above = (at - 1) // 2
        if not comes_first(heap[first + at], heap[first + above], stream):
            return
        heap[first + at], heap[first + above] = heap[first + above], heap[first + at]
        at = above


def sift_down(first: int, size: int, at: int, stream: Stream) -> None:
    heap = stream.heap
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and comes_first(heap[first + child + 1], heap[first + child], stream):
            child += 1
        if not comes_first(heap[first + child], heap[first + at], stream):
            return
        heap[first + at], heap[first + child] = heap[first + child], heap[first + at]
        at = child


def drop(row: int, tree: Tree, stream: Stream) -> None:
    """The tenant whose turn it was has nobody left; nor have those above whose last child it was."""
    while row > 0:
        parent = tree.parent[row]
        first, last = tree.first_child[parent], stream.heap_size[parent] - 1
        stream.heap[first] = stream.heap[first + last]
        stream.heap_size[parent] = last
        sift_down(first, last, 0, stream)
        if last > 0:
            return
        row = parent


def charge(row: int, amounts: Ints, tree: Tree, stream: Stream) -> None:
    """From the tenant up, with the values that the heaps go by."""
    charge_use(row, amounts, 1, tree)
    if not stream.static and not stream.flat:
        while row >= 0:
            stream.value[row] = share(row, tree)
            row = tree.parent[row]


def charge_use(row: int, amounts: Ints, sign: int, tree: Tree) -> None:
    while row >= 0:
        for dimension in range(len(amounts)):
            tree.used[row, dimension] += sign * amounts[dimension]
        row = tree.parent[row]


def settle(row: int, tree: Tree, stream: Stream) -> None:
    """After a charge to the tenant whose turn it was: it stands first in every heap on its way up."""
    while row > 0:
        parent = tree.parent[row]
        sift_down(tree.first_child[parent], stream.heap_size[parent], 0, stream)
        row = parent


def burst_has_room(row: int, asked: Ints, tree: Tree) -> bool:
    """Whether every burst from here to the root, which is half as much as the limit, has room for it."""
    while row >= 0:
        for dimension in range(len(asked)):
            limit = tree.limit[row, dimension]
            if limit < 0 or asked[dimension] == 0:
                continue
            if 2 * (tree.burst[row, dimension] + asked[dimension]) > limit:
                return False
        row = tree.parent[row]
    return True


def admit(row: int, asked: Ints, tree: Tree, burst: bool) -> None:
    while row >= 0:
        for dimension in range(len(asked)):
            if burst:
                tree.burst[row, dimension] += asked[dimension]
            else:
                tree.admitted[row, dimension] += asked[dimension]
        row = tree.parent[row]


def short_of(row: int, tasks: int, gpu_ms: int, tree: Tree) -> int:
    """-1 if so many tasks may begin. Else from how many GPU-hours on nobody may: 0 if it is the number of
    running tasks that is limited."""
    short = -1
    while row >= 0:
        most = tree.begin_limit[row, 0]
        if most >= 0 and tree.begun[row, 0] + tasks > most:
            return 0
        most = tree.begin_limit[row, 1]
        if most >= 0 and gpu_ms > 0 and tree.begun[row, 1] + gpu_ms > most:
            short = gpu_ms
        row = tree.parent[row]
    return short


def begin(row: int, tasks: int, gpu_ms: int, tree: Tree) -> None:
    while row >= 0:
        tree.begun[row, 0] += tasks
        tree.begun[row, 1] += gpu_ms
        row = tree.parent[row]
