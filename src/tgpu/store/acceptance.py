"""Whether submissions are taken: each caller's jobs all or none, one caller after the other."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import JobSpec, Request
from tgpu.domain.priority import grace_s
from tgpu.domain.quota import Standing
from tgpu.domain.tenant import Tenant, is_within
from tgpu.store.account import Account
from tgpu.store.book import WAITING, Book, Lineage, NoRoomError
from tgpu.store.demand import charge_of_all, demands
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.refusals import StoreError
from tgpu.store.token_cap import TokenCap


class Accepted(NamedTuple):
    """A job that is taken, and what its tasks' rows say."""

    spec: JobSpec
    requests: tuple[Request, ...]
    """Of each group."""
    standing: Standing


def accept(
    book: Book, specs: Sequence[JobSpec], cap: TokenCap | None, tenant_of: Callable[[Account], Tenant]
) -> list[Accepted]:
    """Charges the book for all of them; if one is refused, for none, and raises what it is refused for.
    `tenant_of` gives the tenant of an account, with what it uses at that moment."""
    taken: list[tuple[Lineage, Accepted]] = []
    try:
        for spec in specs:
            tenants, asked = book.of(spec.tenant_id), demands(spec)
            _check_hours(tenants, spec, tenant_of)
            standing = tenants.accept(asked, spec.priority_class)
            kept = tuple(tenants.kept(request) for request, _ in asked)
            taken.append((tenants, Accepted(spec, kept, standing)))
        if cap is not None:
            cap.spend(specs)
    except (NoRoomError, StoreError) as refusal:
        for tenants, job in taken:
            tenants.withdraw(demands(job.spec), job.standing)
        if isinstance(refusal, StoreError):
            raise
        raise _exceeded(refusal, specs, tenant_of(refusal.account)) from None
    return [job for _, job in taken]


GPU_MS = "gpu_ms"


def _check_hours(tenants: Lineage, spec: JobSpec, tenant_of: Callable[[Account], Tenant]) -> None:
    """Nothing is charged for them yet, but who may take more than a whole period has could never start: a
    gang with all of its tasks together."""
    each = [(charged_gpu_milli(request), number) for request, number in demands(spec)]
    whole = spec.gang is not None
    milli = sum(gpu * number for gpu, number in each) if whole else max(gpu for gpu, _ in each)
    if not milli or spec.time_limit_s is None:
        return
    grace = grace_s(spec.priority_class, spec.grace_s)
    asked = milli * (spec.time_limit_s + grace)
    for account in tenants.levels:
        limit = account.gpu_ms_limit
        if limit is not None and asked > limit:
            raise QuotaExceededError(tenant_of(account), GPU_MS, asked, limit // milli - grace)


def _exceeded(refusal: NoRoomError, specs: Sequence[JobSpec], tenant: Tenant) -> QuotaExceededError:
    if refusal.alone is not None:
        return QuotaExceededError(tenant, refusal.dimension, refusal.alone)
    top = refusal.account.tenant_id
    within = [spec for spec in specs if is_within(spec.tenant_id, top)]
    if refusal.dimension == WAITING:
        return QuotaExceededError(tenant, WAITING, sum(spec.task_count for spec in within))
    charges = [charge_of_all(demands(spec), refusal.account.names) for spec in within]
    asked = sum(each.get(refusal.dimension, 0) for each in charges)
    return QuotaExceededError(tenant, refusal.dimension, asked, no_burst=refusal.no_burst)
