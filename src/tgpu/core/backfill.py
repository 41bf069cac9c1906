"""Who cannot start gets a moment and a place; whoever passes must not delay it."""

from collections.abc import Iterable

import numpy as np

from tgpu.core.columns.table import mask_of
from tgpu.core.kernel.shapes import NEVER, NOWHERE, Ints, Kinds, Nodes, Small, Special
from tgpu.core.paper import Paper, Reserved
from tgpu.core.picture import Window
from tgpu.core.plan import Reservation
from tgpu.core.starting import admit, place_gang
from tgpu.core.units import Unit, member_kinds, sleeps
from tgpu.domain.node import Node
from tgpu.domain.tenant import lineage

Spot = tuple[int, int, int]
"""(node, kind, devices) of one task."""


class Backfill:
    """The reservations of one plan."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self.reserved = Reserved(paper.nodes)
        self.given: list[tuple[int, str | None, Reservation]] = []
        """(class, pool, reservation), in the order given"""
        self._heads: list[tuple[int, str | None]] = []
        """(class, pool) of those who count for the number that each may have"""
        self._close(paper.picture.windows)

    def left_for(self, rank: int, pool: str | None) -> bool:
        """Whether this class and pool may have one more."""
        return self._heads.count((rank, pool)) < self._paper.policy.of(pool).reserve

    def reserve(self, unit: Unit, rank: int, before: Reservation | None = None, by_ms: int = NEVER) -> bool:
        """False if it could not start by then, even if everybody ends. `before`: what it was promised."""
        found = self._earliest(unit)
        if before is not None and (found is None or found[0] >= before.at_ms):
            found = self._as_before(unit, before) or found
        if found is None or found[0] > by_ms:
            return False
        at_ms, spots = found
        self._lay(unit, rank, at_ms, spots)
        return True

    def keep(self, unit: Unit, rank: int, reservation: Reservation, *, in_the_way: bool = True) -> None:
        """As it was given before: nothing has happened that could make it better or worse.

        Unless it is `in_the_way` of somebody who is still to be tried, it need not be looked at at all.
        """
        if not in_the_way:
            self._give(unit, rank, reservation)
            return
        self._lay(unit, rank, reservation.at_ms, self._spots(unit, reservation))

    def _spots(self, unit: Unit, reservation: Reservation) -> list[Spot]:
        nodes, kinds = self._paper.table.nodes, member_kinds(self._paper, unit).tolist()
        rows = [nodes.row(node_id) for node_id, _ in reservation.places]
        masks = [
            mask_of(nodes.nodes[row], indices)
            for row, (_, indices) in zip(rows, reservation.places, strict=True)
        ]
        return list(zip(rows, kinds, masks, strict=True))

    def _as_before(self, unit: Unit, before: Reservation) -> tuple[int, list[Spot]] | None:
        """The place and moment it was promised, if it can still have them: a gang of unlike tasks may miss
        them when it is placed anew, best node first."""
        paper = self._paper
        known = all(paper.table.nodes.known(node_id) for node_id, _ in before.places)
        members = tuple(paper.table.waiting.task(slot).task_id for slot in unit.members)
        if before.at_ms < paper.now_ms or members != before.task_ids or not known:
            return None
        nodes = self._nodes_at(unit, before.at_ms)
        spots = self._spots(unit, before)
        for node, kind, devices in spots:
            if not nodes.takes[node] or not paper.kinds.suits[kind, nodes.kind[node]]:
                return None
            if nodes.alone[node] or (paper.kinds.exclusive[kind] and nodes.tasks[node]):
                return None
            give(nodes, paper.kinds, kind, node, devices)
            if (nodes.free[node][paper.kinds.need[kind] > 0] < 0).any() or self._in_debt(
                nodes, node, devices
            ):
                return None
        return before.at_ms, spots

    def _in_debt(self, nodes: Nodes, node: int, devices: int) -> bool:
        return any(left < 0 and (devices >> at) & 1 for at, left in enumerate(nodes.gpu_free[node].tolist()))

    def _lay(self, unit: Unit, rank: int, at_ms: int, spots: list[Spot]) -> None:
        for node, kind, devices in spots:
            self._hold(node, at_ms, kind, devices)
        for node in dict.fromkeys(spot[0] for spot in spots):
            self._keep_clear(node)
        places = tuple((self._paper.table.nodes.names[n], self._indices(n, d)) for n, _, d in spots)
        task_ids = tuple(self._paper.table.waiting.task(slot).task_id for slot in unit.members)
        self._give(unit, rank, Reservation(task_ids, at_ms, places))

    def _give(self, unit: Unit, rank: int, reservation: Reservation) -> None:
        """Who only sleeps has the place that it would have if it were awake, and takes nobody's number."""
        self.given.append((rank, unit.task.request.pool, reservation))
        if sleeps(self._paper, unit) and reservation.at_ms <= unit.eligible_ms:
            self._take_licences(unit)
        else:
            self._heads.append((rank, unit.task.request.pool))
        self._take_turn(unit)

    def _take_turn(self, unit: Unit) -> None:
        """What it takes of its quotas is not left for those behind it: they would be in its way."""
        admit(self._paper, unit)
        self._paper.waiting.taken[list(unit.members)] = True

    def keep_licences(self, unit: Unit, rank: int) -> None:
        """Instead of a place, for one who lacks only these: those that are free."""
        self._take_licences(unit)
        self._heads.append((rank, unit.task.request.pool))
        self._take_turn(unit)

    def _take_licences(self, unit: Unit) -> None:
        need = self._paper.kinds.cluster_need[member_kinds(self._paper, unit)].sum(axis=0)
        self._paper.cluster_free -= np.minimum(need, self._paper.cluster_free)

    def _earliest(self, unit: Unit) -> tuple[int, list[Spot]] | None:
        return self._earliest_of_one(unit) if unit.gang is None else self._earliest_of_gang(unit)

    def _earliest_of_one(self, unit: Unit) -> tuple[int, list[Spot]] | None:
        paper, reserved = self._paper, self.reserved
        kind = int(paper.waiting.kind[unit.slot])
        attempts, _ = paper.attempts()
        node, at_ms, devices = paper.engine.earliest_start(
            kind,
            paper.nodes,
            paper.kinds,
            paper.layouts,
            attempts,
            reserved.amounts,
            reserved.gpu,
            reserved.some,
            reserved.tasks,
            reserved.alone,
            self.opens_ms(unit),
            paper.now_ms,
        )
        return None if node == NOWHERE else (at_ms, [(node, kind, devices)])

    def _earliest_of_gang(self, unit: Unit) -> tuple[int, list[Spot]] | None:
        """The first moment, among all estimated ends, at which its tasks find room together."""
        attempts, _ = self._paper.attempts()
        first_ms = max(self._paper.now_ms, unit.eligible_ms)
        later = [window.until_ms for window in self._paper.picture.windows if window.until_ms > first_ms]
        later += attempts.end_ms[attempts.end_ms > first_ms].tolist()
        moments = np.unique([first_ms, *later]).tolist()
        low, high, best = 0, len(moments), None
        while low < high:
            middle = (low + high) // 2
            spots = self._together_at(unit, moments[middle])
            if spots is None:
                low = middle + 1
            else:
                high, best = middle, (moments[middle], spots)
        return best

    def _together_at(self, unit: Unit, at_ms: int) -> list[Spot] | None:
        paper = self._paper
        nodes = self._nodes_at(unit, at_ms)
        length = int(paper.index.length[0])
        cluster_free = paper.cluster_free.copy()
        paper.cluster_free[:] = NEVER  # nobody knows when licences come back
        found = place_gang(paper, unit, nodes, no_special(paper.special))
        paper.index.length[0] = length  # this was about another time
        paper.cluster_free[:] = cluster_free
        if found is None:
            return None
        kinds, at, devices, _ = found
        return list(zip(at.tolist(), kinds.tolist(), devices.tolist(), strict=True))

    def _nodes_at(self, unit: Unit, at_ms: int) -> Nodes:
        """As they are for this unit at that moment, beside all that is reserved."""
        paper, reserved = self._paper, self.reserved
        attempts, _ = paper.attempts()
        nodes = paper.own_nodes()
        paper.engine.release_until(at_ms, nodes, paper.kinds, attempts)
        nodes.free[:] -= reserved.amounts
        nodes.gpu_free[:] -= reserved.gpu
        nodes.gpu_sum[:] -= reserved.gpu.sum(axis=1)
        nodes.tasks[:] += reserved.tasks
        nodes.alone[:] |= reserved.alone
        return nodes._replace(takes=nodes.takes & (self.opens_ms(unit) <= at_ms))

    def _hold(self, node: int, at_ms: int, kind: int, devices: int) -> None:
        paper, reserved = self._paper, self.reserved
        reserved.amounts[node] += paper.kinds.need[kind]
        reserved.gpu[node] += self._milli(node, kind, devices)
        reserved.some[node] = True
        reserved.tasks[node] += 1
        reserved.alone[node] |= paper.kinds.exclusive[kind]
        reserved.at.setdefault(node, []).append((at_ms, kind, devices))

    def _milli(self, node: int, kind: int, devices: int) -> Small:
        need = self._paper.kinds.device_need[kind, self._paper.nodes.layout[node]]
        chosen = [(devices >> device) & 1 for device in range(len(need))]
        taken: Small = need * np.array(chosen, dtype=np.int32)
        return taken

    def touched(self, node: int) -> None:
        """Somebody has claimed room there, or is to leave it: what others may have is another amount now."""
        if node in self.reserved.at:
            self._keep_clear(node)

    def _keep_clear(self, node: int) -> None:
        """What others may have of this node for longer than until the first reserved moment."""
        paper, special = self._paper, self._paper.special
        attempts = paper.attempts_on([node])
        self._mark(node)
        first_ms = min(at_ms for at_ms, _, _ in self.reserved.at[node])
        special.shadow_ms[node] = first_ms
        special.extra_alone[node] = self.reserved.alone[node]
        free, gpu = special.extra[node], special.extra_gpu[node]
        paper.engine.room_at(node, first_ms, paper.nodes, paper.kinds, attempts, free, gpu)
        free -= self.reserved.amounts[node]
        gpu -= self.reserved.gpu[node]

    def _mark(self, node: int) -> None:
        special = self._paper.special
        if not special.flag[node]:
            special.flag[node] = True
            special.node[special.filled[0]] = node
            special.filled[0] += 1
            self._paper.note_change(node)

    def _close(self, windows: Iterable[Window]) -> None:
        """Nobody but its guests may run into a window."""
        paper, nodes, tenants = self._paper, self._paper.table.nodes, self._paper.table.tenants
        closed = [
            (nodes.row(node_id), window.from_ms, tenants.top_row.get(window.tenant_id or "", NOWHERE))
            for window in windows
            for node_id in sorted(window.node_ids)
            if window.until_ms > paper.now_ms and nodes.known(node_id)
        ]
        if not closed:
            return
        at, from_ms, guest = zip(*closed, strict=True)
        paper.special = paper.special._replace(
            window_node=np.array(at, dtype=np.int32),
            window_from_ms=np.array(from_ms, dtype=np.int64),
            window_guest=np.array(guest, dtype=np.int32),
        )
        np.minimum.at(paper.special.closes_ms, list(at), from_ms)
        for node in dict.fromkeys(at):
            self._mark(node)

    def opens_ms(self, unit: Unit) -> Ints:
        """From when on it may use each node: once it may start, after the windows that it would run into."""
        paper = self._paper
        opens = np.full(len(paper.nodes.takes), unit.eligible_ms, dtype=np.int64)
        for window in paper.picture.windows:
            guest = window.tenant_id is not None and window.tenant_id in lineage(unit.task.tenant_id)
            if guest or paper.end_ms(unit.slot) <= window.from_ms or window.until_ms <= paper.now_ms:
                continue
            for node_id in window.node_ids:
                if paper.table.nodes.known(node_id):
                    row = paper.table.nodes.row(node_id)
                    opens[row] = max(opens[row], window.until_ms)
        return opens

    def _indices(self, node: int, devices: int) -> tuple[int, ...]:
        return indices_of(self._paper.table.nodes.nodes[node], devices)


def indices_of(node: Node, mask: int) -> tuple[int, ...]:
    """The devices as their node numbers them."""
    found, devices = [], node.capacity.devices
    while mask:
        lowest = mask & -mask
        found.append(devices[lowest.bit_length() - 1].index)
        mask ^= lowest
    return tuple(found)


def give(nodes: Nodes, kinds: Kinds, kind: int, node: int, devices: int) -> None:
    """The node has so much less from now on; whether it had so much, the caller knows."""
    nodes.free[node] -= kinds.need[kind]
    need = kinds.device_need[kind, nodes.layout[node]]
    for device in range(len(need)):
        if (devices >> device) & 1:
            nodes.gpu_free[node, device] -= need[device]
            nodes.gpu_sum[node] -= need[device]
    nodes.tasks[node] += 1
    nodes.alone[node] += kinds.exclusive[kind]


def no_special(special: Special) -> Special:
    """As if nobody had reserved anything."""
    return special._replace(flag=np.zeros_like(special.flag), filled=np.zeros_like(special.filled))
