"""What becomes of tenants that are created, changed or moved, and of what lives in them: the same in every
store.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tgpu.domain.charges import charged_of
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.periods import period_from_ms
from tgpu.domain.quota import GPU_MODEL, Amounts, JobUse, Named, Standing
from tgpu.domain.tenant import DEFAULT_TENANT, GRAMMAR, TENANT_ID, Tenant, is_within, lineage, parent_of
from tgpu.store.access_port import MisplacedTenantError, TenantInUseError
from tgpu.store.demand import within_limits
from tgpu.store.lost_run import LostRun
from tgpu.store.port import TenantExistsError, UnknownTenantError


@dataclass(frozen=True, slots=True)
class Living:
    """A task that is not over, and how it stands with the quota."""

    task_id: TaskId
    tenant_id: str
    request: Request
    standing: Standing
    reserved_gpu_ms: int
    lost: tuple[LostRun, ...] = ()
    """Of its attempts that may still return."""

    def gpu_ms(self, since_ms: int) -> int:
        """What a period that began then has to hold of GPU-hours for it."""
        return self.reserved_gpu_ms + sum(run.gpu_ms(since_ms) for run in self.lost)


def created(asked: Tenant, at_ms: int) -> Tenant:
    """It has admitted nothing, whatever was said of that."""
    return Tenant(
        asked.tenant_id,
        asked.weight,
        replace(asked.limits, named=tuple(sorted(asked.limits.named))),
        job_limits=asked.job_limits,
        job_use=JobUse(period_from_ms=period_from_ms(asked.job_limits.period, at_ms)),
        terms=asked.terms,
        budget=asked.budget,
    )


def without_use(tenant: Tenant) -> Tenant:
    """But for GPU-hours."""
    use = JobUse(gpu_ms=tenant.job_use.gpu_ms, period_from_ms=tenant.job_use.period_from_ms)
    return replace(tenant, used=Amounts(), burst=Amounts(), job_use=use)


def changed(now: Tenant, wanted: Tenant, at_ms: int, living: Callable[[], Sequence[Living]]) -> Tenant:
    """`wanted` says how its settings shall be. A named limit that is new counts what lives, a new period
    begins with what is reserved and what lost attempts ran in it. The same object if nothing differs."""
    limits = replace(wanted.limits, named=tuple(sorted(wanted.limits.named)))
    after = replace(
        now,
        weight=wanted.weight,
        limits=limits,
        job_limits=wanted.job_limits,
        terms=wanted.terms,
        budget=wanted.budget,
    )
    if after == now:
        return now
    known = dict(now.limits.named)
    names = [name for name, _ in limits.named]
    used, burst = _named_sums(living, [name for name in names if name not in known])
    return replace(
        after,
        version=now.version + 1,
        used=replace(now.used, named=_kept(now.used.named, names, used)),
        burst=replace(now.burst, named=_kept(now.burst.named, names, burst)),
        job_use=_use_after(now, after, at_ms, living),
    )


def _named_sums(
    living: Callable[[], Sequence[Living]], names: Collection[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """(used, burst), of these names."""
    sums = {standing: dict.fromkeys(names, 0) for standing in Standing}
    for task in living() if names else ():
        for name in names:
            sums[task.standing][name] += charged_of(task.request, name)
    return sums[Standing.CHARGED], sums[Standing.BURST]


def _kept(before: Named, names: Collection[str], fresh: dict[str, int]) -> Named:
    amounts = {name: amount for name, amount in before if name in names} | fresh
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _use_after(now: Tenant, after: Tenant, at_ms: int, living: Callable[[], Sequence[Living]]) -> JobUse:
    begun_ms = period_from_ms(after.job_limits.period, at_ms)
    is_other = after.job_limits.period is not now.job_limits.period
    is_over = after.job_limits != now.job_limits and begun_ms > now.job_use.period_from_ms
    if not (is_other or is_over):
        return now.job_use
    # By another period it is counted from now on: what was counted before must not be taken off again when
    # an attempt that was lost returns.
    from_ms = at_ms if is_other else begun_ms
    gpu_ms = sum(task.gpu_ms(from_ms) for task in living())
    return replace(now.job_use, gpu_ms=gpu_ms, period_from_ms=from_ms)


def has_other_models(now: Tenant, after: Tenant) -> bool:
    """Whether tasks may have to be kept from other GPU models than before."""
    return _models([now]) != _models([after])


def _models(tenants: Iterable[Tenant]) -> frozenset[str]:
    return frozenset(
        name for tenant in tenants for name, _ in tenant.limits.named if name.startswith(GPU_MODEL)
    )


def with_other_requests(
    living: Iterable[Living], tenants: Mapping[str, Tenant]
) -> list[tuple[TaskId, Request]]:
    """Those that may be given other GPU models than before, with what they may be given now. A model is
    barred to who has not asked for it by name, while some tenant above limits it."""
    models: dict[str, frozenset[str]] = {}
    others = []
    for task in living:
        names = models.get(task.tenant_id)
        if names is None:
            above = (tenants[name] for name in lineage(task.tenant_id))
            names = models[task.tenant_id] = _models(above)
        request = within_limits(replace(task.request, gpu_types_barred=()), names)
        if request != task.request:
            others.append((task.task_id, request))
    return others


def new_names(tenants: Collection[str], tenant_id: str, to_id: str) -> dict[str, str]:
    """The tenant and everybody below it, each with the name it is to have. Raises TenantInUseError,
    MisplacedTenantError, TenantExistsError, UnknownTenantError."""
    if tenant_id == DEFAULT_TENANT:
        raise TenantInUseError(f"tenant {DEFAULT_TENANT} is always there: create another and use that")
    if is_within(to_id, tenant_id) and to_id != tenant_id:
        raise MisplacedTenantError(f"{to_id} is below {tenant_id}: a tenant cannot be moved into itself")
    if to_id in tenants:
        raise TenantExistsError(f"there is a tenant {to_id!r} already")
    parent_id = parent_of(to_id)
    if parent_id is not None and parent_id not in tenants:
        raise UnknownTenantError(parent_id)
    names = {
        name: to_id + name.removeprefix(tenant_id) for name in sorted(tenants) if is_within(name, tenant_id)
    }
    for name in names.values():
        if not TENANT_ID.fullmatch(name):
            raise MisplacedTenantError(
                f"{name[:200]!r} cannot be a tenant: {GRAMMAR}; choose another name or a place nearer to the "
                "root"
            )
    return names


def check_unused(tenant_id: str, below: Sequence[str], live_jobs: int) -> None:
    """Raises TenantInUseError unless it can be removed."""
    if tenant_id == DEFAULT_TENANT:
        raise TenantInUseError(f"tenant {DEFAULT_TENANT} is always there: it cannot be removed")
    if below:
        raise TenantInUseError(
            f"tenant {tenant_id} has {len(below)} below it ({below[0]} first): remove or move those before it"
        )
    if live_jobs:
        jobs = "1 job that has" if live_jobs == 1 else f"{live_jobs} jobs that have"
        raise TenantInUseError(
            f"tenant {tenant_id} has {jobs} not ended: archive it, then cancel what there is or wait"
        )


def with_new_parents(
    tenants: Mapping[str, Tenant], moved: Tenant, to_id: str, living: Sequence[Living]
) -> list[Tenant]:
    """The tenants that were above it and are no more, released, and those that are from now on, charged.
    GPU-hours that are used stay, but for those of lost attempts: whoever is above when such a one returns has
    them taken off. Each level counts in its own period."""
    old, new = set(lineage(moved.tenant_id)[:-1]), set(lineage(to_id)[:-1])
    left = [_with(tenants[name], moved, living, -1) for name in sorted(old - new)]
    return left + [_with(tenants[name], moved, living, 1) for name in sorted(new - old)]


def _with(above: Tenant, moved: Tenant, living: Sequence[Living], sign: int) -> Tenant:
    used, burst = _named_sums(lambda: living, [name for name, _ in above.limits.named])
    use = above.job_use
    return replace(
        above,
        used=_sum(above.used, _of_names(moved.used, used), sign),
        burst=_sum(above.burst, _of_names(moved.burst, burst), sign),
        job_use=replace(
            use,
            running=use.running + sign * moved.job_use.running,
            waiting=use.waiting + sign * moved.job_use.waiting,
            gpu_ms=use.gpu_ms + sign * sum(task.gpu_ms(use.period_from_ms) for task in living),
        ),
    )


def _of_names(amounts: Amounts, named: Mapping[str, int]) -> Amounts:
    """The basic dimensions of the one, and the names that the other limits."""
    return replace(amounts, named=tuple(sorted((name, amount) for name, amount in named.items() if amount)))


def _sum(one: Amounts, other: Amounts, sign: int) -> Amounts:
    return one.plus(other) if sign > 0 else one.minus(other)
