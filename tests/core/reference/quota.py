"""What quotas allow: summed up from everybody who lives, every time."""

from collections.abc import Iterable, Iterator, Sequence

from tests.core.reference.order import Unit, kind_of
from tests.core.reference.world import World
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.priority import TERMS
from tgpu.domain.tenant import Tenant, lineage

RUNNING, GPU_HOURS = "running", "gpu hours"


def allows(world: World, unit: Unit) -> bool:
    """Whether it may be tried at all."""
    if is_short(world, unit):
        return False
    return not lacking(world, unit) if unit.held else may_begin(world, unit)


def is_short(world: World, unit: Unit) -> bool:
    """Whether one of its tenant who takes as much, or less, may not begin."""
    takes = sum(gpu_ms(world, task) for task in unit.tasks)
    return takes >= world.short.get(unit.head.tenant_id, takes + 1)


def may_begin(world: World, unit: Unit) -> bool:
    """Whether nobody from root to leaf would run too many tasks, or use too many GPU-hours. If not, others of
    its tenant who take as much of these are passed over, too; if it is too many tasks, all others are."""
    tenant_id, takes = unit.head.tenant_id, sum(gpu_ms(world, task) for task in unit.tasks)
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


def is_like_one_refused(world: World, unit: Unit) -> bool:
    return unit.held and (unit.head.tenant_id, kind_of(world, unit)) in world.shut


def refuse(world: World, unit: Unit) -> None:
    """What a held unit asks for is kept for it: from its own tenant at all levels, from everybody up to the
    highest level that has no room whatever its own tenant keeps. Nothing is for whom no end of others would
    make room."""
    lacks, levels = lacking(world, unit), lineage(unit.head.tenant_id)
    assert lacks, "only who lacks something is refused"
    beyond = [dimension for name in levels for dimension in out_of_reach(world, unit, name)]
    of_hours = bool(beyond) and set(beyond) == {GPU_HOURS}  # others alike may take fewer
    if not of_hours and any(is_for_all(world, unit, *each) for each in lacks):
        world.shut.add((unit.head.tenant_id, kind_of(world, unit)))
    if not beyond:
        without_own = [name for name, _ in lacking(world, unit, own=False)]
        highest = min(map(levels.index, without_own), default=len(levels))
        world.line.append((unit.tasks, tuple(levels[highest:])))


def out_of_reach(world: World, unit: Unit, name: str) -> Iterator[str]:
    """What there would not be enough of here, even if everybody else ended."""
    for dimension, limit in all_limits(world, name).items():
        needs = asked(world, unit.tasks, dimension)
        remains = gpu_ms_spent(world, name) if dimension == GPU_HOURS else 0
        if needs and remains + needs > limit:
            yield dimension


def gpu_ms_spent(world: World, name: str) -> int:
    """What is neither reserved by somebody who runs nor kept for somebody with a claim."""
    picture = world.picture
    tasks = [placed.task for placed in picture.placed.values()]
    tasks += [picture.waiting[task_id] for task_id in picture.claims]
    reserved = sum(gpu_ms(world, task) for task in tasks if name in lineage(task.tenant_id))
    return max(0, picture.hours.used[name] - reserved)


def is_for_all(world: World, unit: Unit, name: str, dimension: str) -> bool:
    """Whether others of its tenant and kind lack the same, however short they run."""
    left = (
        all_limits(world, name)[dimension] - used(world, name, dimension) - kept(world, unit, name, dimension)
    )
    return dimension != GPU_HOURS or left <= 0


def lacking(world: World, unit: Unit, *, own: bool = True) -> list[tuple[str, str]]:
    """The limits from root to leaf that have no room for a held unit beside what is kept for others; not
    `own`: beside what is kept from everybody."""
    found = []
    for name in lineage(unit.head.tenant_id) if unit.held else ():
        for dimension, limit in all_limits(world, name).items():
            needs = asked(world, unit.tasks, dimension)
            of_others = kept(world, unit, name, dimension, own=own)
            if needs and used(world, name, dimension) + of_others + needs > limit:
                found.append((name, dimension))
    return found


def kept(world: World, unit: Unit, name: str, dimension: str, *, own: bool = True) -> int:
    """The most that one asks for who was refused before it."""
    others = [
        tasks
        for tasks, levels in world.line
        if name in levels or (own and tasks[0].tenant_id == unit.head.tenant_id)
    ]
    return max((asked(world, tasks, dimension) for tasks in others), default=0)


def all_limits(world: World, name: str) -> dict[str, int]:
    tenant = world.picture.tenants[name]
    jobs = {RUNNING: tenant.job_limits.running, GPU_HOURS: tenant.job_limits.gpu_ms}
    return limits_of(tenant) | {which: limit for which, limit in jobs.items() if limit is not None}


def asked(world: World, tasks: Sequence[TaskBrief], dimension: str) -> int:
    if dimension == RUNNING:
        return len(tasks)
    if dimension == GPU_HOURS:
        return sum(gpu_ms(world, task) for task in tasks)
    return _sum(tasks, dimension)


def used(world: World, name: str, dimension: str) -> int:
    if dimension == RUNNING:
        return running(world, name)
    if dimension == GPU_HOURS:
        return gpu_ms_used(world, name)
    return _sum([task for task in charged_tasks(world) if name in lineage(task.tenant_id)], dimension)


def burst_has_room(world: World, unit: Unit) -> bool:
    """Half as much as each limit."""
    for name in lineage(unit.head.tenant_id):
        bursting = [holder.task for holder in world.holders.values() if holder.burst]
        bursting = [task for task in bursting if name in lineage(task.tenant_id)]
        for dimension, limit in limits_of(world.picture.tenants[name]).items():
            needs = _sum(unit.tasks, dimension)
            if needs and _sum(bursting, dimension) + needs > limit / 2:
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
