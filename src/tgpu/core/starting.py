"""Start a unit now, if it has room."""

from itertools import chain

from tgpu.core.kernel.promises import HOURS
from tgpu.core.kernel.shapes import NEVER, NOWHERE, Ints, Nodes, Small, Special
from tgpu.core.paper import Paper
from tgpu.core.units import Unit, domains, member_kinds, room_for
from tgpu.core.whole_nodes import Site, sets_of_nodes

CHARGED, ADMITTED, ON_BURST = 0, 1, 2
"""How a unit stands with the quota; see `Started.held`."""


def start(paper: Paper, unit: Unit, *, burst: bool = False) -> bool:
    """True if it was started on paper, whole; whether the quota admits it, the caller has asked."""
    admission = CHARGED
    if paper.waiting.held[unit.slot]:
        admission = ON_BURST if burst else ADMITTED
    if unit.gang is not None:
        started = _start_gang(paper, unit, admission)
    else:
        started = _start_one(paper, unit.slot, admission)
    if started:
        admit(paper, unit, burst=burst)
    return started


def may_begin(paper: Paper, unit: Unit) -> bool:
    """False if some tenant from root to leaf would run too many tasks, or use too many GPU-hours. Then others
    of its tenant who take as much are passed over, too."""
    if not paper.table.quotas.limits_begin:
        return True
    number, gpu_ms = int(paper.waiting.tenant[unit.slot]), _gpu_ms(paper, unit)
    if gpu_ms >= paper.short[number]:
        return False
    short = paper.engine.short_of(paper.tenant_row(unit.slot), len(unit.members), gpu_ms, paper.tree)
    if short < 0:
        return True
    paper.short[number] = min(int(paper.short[number]), int(short))
    return False


def quotas_allow(paper: Paper, unit: Unit) -> bool:
    """Whether it may be tried, before everybody else of its class; if not, nothing is kept for it yet."""
    if not paper.waiting.held[unit.slot]:
        return may_begin(paper, unit)
    lacks, _ = paper.engine.lacking(*_demand(paper, unit), paper.tree, paper.refused.promised)
    return not lacks and _gpu_ms(paper, unit) < paper.short[paper.waiting.tenant[unit.slot]]


def is_passed_over(paper: Paper, unit: Unit) -> bool:
    """Like the kernel's: for some quota. What a held unit asks for is then kept for it."""
    if paper.waiting.held[unit.slot]:
        lacks = int(paper.engine.refuse(*_demand(paper, unit), paper.tree, paper.refused.promised))
    else:
        lacks = 0 if may_begin(paper, unit) else HOURS
    if not lacks:
        return False
    tenant, kind = int(paper.waiting.tenant[unit.slot]), int(paper.waiting.kind[unit.slot])
    paper.refused.note(tenant, kind, lacks)
    if paper.waiting.held[unit.slot]:
        paper.refused.join_line(unit.slot)
    return True


def burst_has_room(paper: Paper, unit: Unit) -> bool:
    return bool(paper.engine.burst_has_room(paper.tenant_row(unit.slot), asked(paper, unit), paper.tree))


def _demand(paper: Paper, unit: Unit) -> tuple[int, int, Ints, int, int]:
    """Its row and tenant, and what it asks of quotas: amounts, tasks, GPU-hours."""
    number = int(paper.waiting.tenant[unit.slot])
    return (
        paper.tenant_row(unit.slot),
        number,
        asked(paper, unit),
        len(unit.members),
        _gpu_ms(paper, unit),
    )


def admit(paper: Paper, unit: Unit, *, burst: bool = False) -> None:
    """It begins, and its quota knows of it from now on."""
    row = paper.tenant_row(unit.slot)
    if paper.waiting.held[unit.slot]:
        paper.engine.admit(row, asked(paper, unit), paper.tree, burst)
    if paper.table.quotas.limits_begin:
        paper.engine.begin(row, len(unit.members), _gpu_ms(paper, unit), paper.tree)


def asked(paper: Paper, unit: Unit) -> Ints:
    """What all of it asks its quota for."""
    total: Ints = paper.kinds.quota[member_kinds(paper, unit)].sum(axis=0)
    return total


def _gpu_ms(paper: Paper, unit: Unit) -> int:
    return sum(paper.policy.gpu_ms(paper.table.waiting.task(slot)) for slot in unit.members)


def _start_one(paper: Paper, slot: int, admission: int) -> bool:
    kind, end_ms, row = int(paper.waiting.kind[slot]), paper.end_ms(slot), paper.tenant_row(slot)
    engine = paper.engine
    if not engine.licensed(kind, paper.kinds, paper.cluster_free):
        return False
    node = engine.best_node(
        kind,
        end_ms,
        row,
        paper.nodes,
        paper.kinds,
        paper.layouts,
        paper.tree,
        paper.index,
        paper.special,
    )
    if node == NOWHERE:
        return False
    amounts = paper.new_amounts()
    devices = engine.take(
        kind,
        int(node),
        end_ms,
        paper.nodes,
        paper.kinds,
        paper.layouts,
        paper.index,
        paper.special,
        paper.cluster_free,
        amounts,
    )
    engine.write_down(slot, kind, node, devices, admission, paper.started)
    engine.charge_use(row, amounts, 1, paper.tree)
    paper.waiting.taken[slot] = True
    return True


def _start_gang(paper: Paper, unit: Unit, admission: int) -> bool:
    found = place_gang(paper, unit, paper.nodes, paper.special)
    if found is None:
        return False
    kinds, nodes, devices, amounts = found
    for slot, kind, node, mask in zip(
        unit.members, kinds.tolist(), nodes.tolist(), devices.tolist(), strict=True
    ):
        paper.engine.write_down(slot, kind, node, mask, admission, paper.started)
        paper.waiting.taken[slot] = True
    paper.engine.charge_use(paper.tenant_row(unit.slot), amounts, 1, paper.tree)
    return True


def lacks_only_licences(paper: Paper, unit: Unit) -> bool:
    """Whether it would start now if the cluster had enough of its own resources."""
    kinds = member_kinds(paper, unit)
    if (paper.kinds.cluster_need[kinds].sum(axis=0) <= paper.cluster_free).all():
        return False
    kept, length = paper.cluster_free.copy(), int(paper.index.length[0])
    paper.cluster_free[:] = NEVER
    nodes = paper.own_nodes()
    special = paper.special._replace(
        extra=paper.special.extra.copy(), extra_gpu=paper.special.extra_gpu.copy()
    )
    found = place_gang(paper, unit, nodes, special)
    paper.cluster_free[:] = kept
    paper.index.length[0] = length  # nothing has changed
    return found is not None


def place_gang(
    paper: Paper, unit: Unit, nodes: Nodes, special: Special
) -> tuple[Small, Small, Ints, Ints] | None:
    """Kinds, nodes, devices of all members, and what they are charged; taken from `nodes`. Or None."""
    kinds = member_kinds(paper, unit)
    own = paper.new_index(1, 0)
    end_ms, row = paper.end_ms(unit.slot), paper.tenant_row(unit.slot)
    site = Site(nodes, special, paper.cluster_free, end_ms, row)
    sets = (sets_of_nodes(paper, unit, kinds, site, allowed) for allowed in domains(paper, unit))
    for chosen in chain.from_iterable(sets):
        out_node, out_devices = kinds.copy(), kinds.astype("int64")
        amounts = paper.new_amounts()
        if paper.engine.place_gang(
            kinds,
            end_ms,
            row,
            chosen,
            room_for(paper, unit),
            nodes,
            paper.kinds,
            paper.layouts,
            paper.tree,
            paper.index,
            own,
            special,
            paper.cluster_free,
            amounts,
            out_node,
            out_devices,
        ):
            return kinds, out_node, out_devices, amounts
    return None
