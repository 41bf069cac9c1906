"""What must always hold, in one place: used by the committer, the simulator and the tests alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tgpu.core.columns.dimensions import Dimensions, dimensions_of
from tgpu.core.columns.kind_columns import wants_gpu
from tgpu.core.columns.table import milli_of
from tgpu.core.holdings import Holding, holdings_on
from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.picture import Picture, Place
from tgpu.domain.charges import charged_gpu_milli, charged_of
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Status
from tgpu.domain.quota import BASIC, BURST_PART, Amounts, Standing
from tgpu.domain.tenant import Tenant, is_within

_BASIC = ("cpu_milli", "memory_mib", "disk_mib")


def violations(picture: Picture, node_ids: Iterable[str] | None = None) -> list[str]:
    """Every promise that this picture breaks, in words; only these nodes if they are named."""
    places = picture.places.values() if node_ids is None else [picture.places[name] for name in node_ids]
    found = [text for place in places for text in _overcommitted(place, picture)]
    if node_ids is None:
        found += _in_two_states(picture) + _torn_gangs(picture) + _cluster_overcommitted(picture)
    return found


def _overcommitted(place: Place, picture: Picture) -> list[str]:
    """No device and no node is given out beyond its capacity: summed up from the attempts themselves."""
    node, held = place.node, _left_behind(place, picture)
    requests = [placed.task.request for placed in place.attempts.values()] + [h.request for h in held]
    if not requests:
        return []
    pool = picture.policy.of(node.pool)
    names: Dimensions = dimensions_of([node.capacity], requests, picture.policy.cluster_generic)
    whole = names.capacity(node.capacity, pool.cpu_overcommit, pool.memory_overcommit)
    given = [sum(column) for column in zip(*(names.need(request) for request in requests), strict=True)]
    found = [
        f"{node.node_id}: {amount} {name} given out of {most}"
        for name, amount, most in zip((*_BASIC, *names.generic), given, whole, strict=True)
        if amount > most
    ]
    if len(requests) > 1 and any(request.exclusive for request in requests):
        found.append(f"{node.node_id}: an exclusive task is not alone")
    return found + _devices_overcommitted(place, held)


def _left_behind(place: Place, picture: Picture) -> list[Holding]:
    return list(holdings_on(picture, place.node.node_id)) if picture.table.holdings else []


def _devices_overcommitted(place: Place, left_behind: list[Holding]) -> list[str]:
    found = []
    on_device: dict[int, int] = {}
    for holding in left_behind:
        for index in holding.devices:
            taken = milli_of(place.node, holding.devices, holding.request)
            on_device[index] = on_device.get(index, 0) + taken
    for placed in place.attempts.values():
        request = placed.task.request
        wanted = max(1, request.gpu_milli // WHOLE) if wants_gpu(request) else 0
        if len(set(placed.devices)) != wanted:
            found.append(
                f"{placed.attempt_id}: has devices {placed.devices} and asked for {request.gpu_milli}"
            )
        taken = milli_of(place.node, placed.devices, request)
        for index in placed.devices:
            on_device[index] = on_device.get(index, 0) + taken
    return found + [
        f"{place.node.node_id}: device {index} given out to {given}"
        for index, given in on_device.items()
        if given > WHOLE
    ]


def _cluster_overcommitted(picture: Picture) -> list[str]:
    found = []
    requests = [placed.task.request for placed in picture.placed.values()]
    requests += [holding.request for holding in picture.table.holdings.values()]
    for name, whole in picture.policy.cluster_generic.items():
        given = sum(dict(request.generic).get(name, 0) for request in requests)
        if given > whole:
            found.append(f"the cluster: {given} {name} given out of {whole}")
    return found


def _torn_gangs(picture: Picture) -> list[str]:
    """A gang that starts, starts whole: some placed and never run, others waiting and never run."""
    found = []
    for placed in picture.placed.values():
        gang = placed.task.gang
        if gang is None or placed.started_ms is not None or placed.attempt_id.number > 1:
            continue
        state = picture.gangs.of(placed.task.task_id.job_id)
        if any(picture.waiting[task_id].attempts == 0 for task_id in state.waiting):
            found.append(f"{placed.attempt_id}: its gang was started in part")
    return found


@dataclass(frozen=True, slots=True)
class Charged:
    """A live task, as quotas see it."""

    tenant_id: str
    request: Request
    standing: Standing
    has_node: bool


@dataclass(frozen=True, slots=True)
class Overcharge:
    tenant_id: str
    dimension: str
    """One of `BASIC`, a name, or `running`; after `burst ` what is used of the burst."""
    by: int


def overcharges(tenants: Iterable[Tenant], living: Sequence[Charged]) -> list[Overcharge]:
    """No tenant, at any level, admits beyond its limits, nor has more than half of these on the burst, nor
    runs more tasks than it may. All of it breaks the promise, unless a limit was lowered afterwards, a tenant
    moved there, or what was lost came back."""
    found = []
    for tenant in tenants:
        used, burst = charges(tenant, living)
        for name, limit in _limits_of(tenant):
            found.append(Overcharge(tenant.tenant_id, name, used.of(name) - limit))
            found.append(Overcharge(tenant.tenant_id, f"burst {name}", burst.of(name) - limit // BURST_PART))
        most = tenant.job_limits.running
        running = sum(task.has_node and is_within(task.tenant_id, tenant.tenant_id) for task in living)
        if most is not None:
            found.append(Overcharge(tenant.tenant_id, "running", running - most))
    return [over for over in found if over.by > 0]


def charges(tenant: Tenant, living: Iterable[Charged]) -> tuple[Amounts, Amounts]:
    """What it is charged for, and what of it to the burst, by it and everybody below: added up."""
    sums = {standing: dict.fromkeys((*BASIC, *dict(tenant.limits.named)), 0) for standing in Standing}
    for task in living:
        if is_within(task.tenant_id, tenant.tenant_id):
            for name in sums[task.standing]:
                sums[task.standing][name] += _charge(task.request, name)
    return _amounts(sums[Standing.CHARGED]), _amounts(sums[Standing.BURST])


def _charge(request: Request, name: str) -> int:
    if name == "gpu_milli":
        return charged_gpu_milli(request)
    return int(getattr(request, name)) if name in BASIC else charged_of(request, name)


def _amounts(sums: Mapping[str, int]) -> Amounts:
    named = sorted((name, amount) for name, amount in sums.items() if name not in BASIC and amount)
    cpu, memory, disk, gpu = (sums[name] for name in BASIC)
    return Amounts(cpu, memory, disk, gpu, tuple(named))


def _limits_of(tenant: Tenant) -> list[tuple[str, int]]:
    basic = [(name, getattr(tenant.limits, name)) for name in BASIC]
    return [(name, most) for name, most in (*basic, *tenant.limits.named) if most is not None]


def _in_two_states(picture: Picture) -> list[str]:
    found = [
        f"{task_id} both waits and is placed" for task_id in picture.waiting.keys() & picture.placed.keys()
    ]
    found += [
        f"{task.task_id} waits as {task.status}" for task in picture.waiting.values() if not task.status.waits
    ]
    return found + [
        f"{placed.attempt_id} is placed as {placed.task.status}"
        for placed in picture.placed.values()
        if placed.task.status not in (Status.SCHEDULED, Status.RUNNING)
    ]
