"""What quotas allow: summed up from everybody who lives, every time."""

from collections.abc import Iterable, Iterator

from tests.core.reference.order import Unit
from tests.core.reference.world import World
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.priority import TERMS
from tgpu.domain.tenant import Tenant, lineage


def allows(world: World, unit: Unit) -> bool:
    """Whether it may be tried at all."""
    return may_begin(world, unit) and admits(world, unit, burst=False)


def may_begin(world: World, unit: Unit) -> bool:
    """Whether nobody from root to leaf would run too many tasks, or use too many GPU-hours. If not, others of
    its tenant who take as much of these are passed over, too; if it is too many tasks, all others are."""
    tenant_id, takes = unit.head.tenant_id, sum(gpu_ms(world, task) for task in unit.tasks)
    if takes >= world.short.get(tenant_id, takes + 1):
        return False
    limits = [world.picture.tenants[name].job_limits for name in lineage(tenant_id)]
    for name, limit in zip(lineage(tenant_id), limits, strict=True):
        if limit.running is not None and running(world, name) + len(unit.tasks) > limit.running:
            world.short[tenant_id] = 0
            return False
    for name, limit in zip(lineage(tenant_id), limits, strict=True):
        if limit.gpu_ms is not None and takes and gpu_ms_used(world, name) + takes > limit.gpu_ms:
            world.short[tenant_id] = min(takes, world.short.get(tenant_id, takes))
            return False
    return True


def running(world: World, name: str) -> int:
    """Tasks that have a node, or a claim on one, or are promised one."""
    tasks = [*(holder.task for holder in world.holders.values()), *world.kept_for]
    return sum(name in lineage(task.tenant_id) for task in tasks)


def gpu_ms_used(world: World, name: str) -> int:
    """As the picture knows it, and what has been started or claimed in this plan."""
    before = {*world.picture.placed, *world.picture.claims}
    begun = [holder.task for task_id, holder in world.holders.items() if task_id not in before]
    begun += world.kept_for
    here = sum(gpu_ms(world, task) for task in begun if name in lineage(task.tenant_id))
    return world.picture.hours.used[name] + here


def gpu_ms(world: World, task: TaskBrief) -> int:
    grace_s = TERMS[task.priority_class].grace_s if task.grace_s is None else task.grace_s
    return charged_gpu(task.request) * (world.duration_ms(task) // 1000 + grace_s)


def admits(world: World, unit: Unit, *, burst: bool) -> bool:
    """Whether every quota from root to leaf has room for a held unit."""
    if not unit.held:
        return True
    for name in lineage(unit.head.tenant_id):
        tenant = world.picture.tenants[name]
        charged = [task for task in charged_tasks(world) if name in lineage(task.tenant_id)]
        bursting = [holder.task for holder in world.holders.values() if holder.burst]
        bursting = [task for task in bursting if name in lineage(task.tenant_id)]
        for dimension, limit in limits_of(tenant).items():
            asked, has = _sum(unit.tasks, dimension), _sum(charged, dimension)
            if not asked:
                continue
            if burst and _sum(bursting, dimension) + asked > limit / 2:
                return False
            if not burst and has + asked > limit:
                return False
    return True


def may_burst(world: World, unit: Unit) -> bool:
    said = [world.picture.tenants[name].terms.may_burst for name in lineage(unit.head.tenant_id)]
    return next((each for each in reversed(said) if each is not None), True)


def charged_tasks(world: World) -> Iterator[TaskBrief]:
    """Who waits and is not held, who runs but not on the burst, who was held and begins or has a promise."""
    for task_id, task in world.picture.waiting.items():
        if not task.held and task_id not in world.holders:
            yield task
    for holder in world.holders.values():
        if not holder.burst:
            yield holder.task
    yield from (task for task in world.kept_for if task.held)


def limits_of(tenant: Tenant) -> dict[str, int]:
    basic = {
        name: getattr(tenant.limits, name) for name in ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli")
    }
    return {name: limit for name, limit in basic.items() if limit is not None} | dict(tenant.limits.named)


def charged_gpu(request: Request) -> int:
    return 1000 if request.gpu_memory_mib and not request.gpu_milli else request.gpu_milli


def _sum(tasks: Iterable[TaskBrief], dimension: str) -> int:
    return sum(_charge(task.request, dimension) for task in tasks)


def _charge(request: Request, dimension: str) -> int:
    """GPUs of a model only if they were asked for by its name."""
    kind, _, name = dimension.partition(":")
    match kind:
        case "gpu":
            return charged_gpu(request) if name in (request.gpu_type or "").lower() else 0
        case "generic":
            return dict(request.generic).get(name, 0)
        case "gpu_milli":
            return charged_gpu(request)
        case _:
            return int(getattr(request, kind))
