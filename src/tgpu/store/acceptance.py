"""Whether submissions are taken: each caller's jobs all or none, one caller after the other."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import JobSpec, Request
from tgpu.domain.needs import numbered
from tgpu.domain.priority import grace_s
from tgpu.domain.quota import Standing
from tgpu.domain.tenant import Tenant, is_within
from tgpu.store.account import Account
from tgpu.store.book import WAITING, Book, Charged, Lineage, NoRoomError
from tgpu.store.demand import Demand, charge_of_all, demands
from tgpu.store.growth import as_many, first_demands
from tgpu.store.port import TrialJob
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.refusals import StoreError
from tgpu.store.series_port import WithoutIndexError
from tgpu.store.token_cap import TokenCap


class Accepted(NamedTuple):
    """A job that is taken, and what its tasks' rows say."""

    spec: JobSpec
    requests: tuple[Request, ...]
    """Of each group."""
    standing: Standing
    tasks: int
    """How many have rows from the beginning."""

    def with_numbers(self, first_id: int) -> "Accepted":
        """`first_id`: of the jobs that were submitted together."""
        return self._replace(spec=replace(self.spec, needs=numbered(self.spec.needs, first_id)))

    @property
    def as_trial(self) -> TrialJob:
        return TrialJob(self.requests, self.standing is Standing.HELD, self.tasks)

    @property
    def demands(self) -> list[Demand]:
        """What is charged for it."""
        if self.spec.series is None:
            return demands(self.spec)
        return [(group.request, self.tasks) for group in self.spec.groups]


def accept(
    book: Book, specs: Sequence[JobSpec], cap: TokenCap | None, tenant_of: Callable[[Account], Tenant]
) -> list[Accepted]:
    """Charges the book for all of them; if one is refused, for none, and raises what it is refused for.
    `tenant_of` gives the tenant of an account, with what it uses at that moment."""
    taken: list[tuple[Lineage, Accepted]] = []
    try:
        for spec in specs:
            _check_indices(spec)
            tenants = book.of(spec.tenant_id)
            _check_hours(tenants, spec, tenant_of)
            standing = tenants.accept(first_demands(spec), spec.priority_class)
            kept = tuple(tenants.kept(group.request) for group in spec.groups)
            tasks = spec.task_count if spec.series is None else 1
            taken.append((tenants, Accepted(spec, kept, standing, tasks)))
        if cap is not None:
            cap.spend(specs)
    except (NoRoomError, StoreError) as refusal:
        for tenants, job in taken:
            tenants.withdraw(job.demands, job.standing)
        if isinstance(refusal, StoreError):
            raise
        raise _exceeded(refusal, specs, tenant_of(refusal.account)) from None
    return [_begun(tenants, job) for tenants, job in taken]


def _check_indices(spec: JobSpec) -> None:
    if spec.series is not None and spec.series.indices.count != spec.task_count:
        raise WithoutIndexError(spec.task_count, spec.series.indices.count)


def _begun(tenants: Lineage, job: Accepted) -> Accepted:
    """Of a series, that was accepted with one task, as many of the first ones as there is room for: none of
    them keeps another job of the same submission out."""
    spec = job.spec
    if spec.series is None or spec.first_born == 1:
        return job
    tenants.withdraw(job.demands, job.standing)
    tasks, standing = as_many(tenants, spec.groups[0].request, spec.first_born, spec.priority_class)
    return job._replace(tasks=tasks, standing=standing)


class Recharged(NamedTuple):
    """A job that is changed while it waits, and what its tasks' rows say then."""

    requests: tuple[Request, ...]
    """Of each group."""
    standing: Standing | None
    """None: each task as it did."""


def recharge(  # noqa: PLR0917  who pays for what instead of what
    book: Book,
    before: JobSpec,
    spec: JobSpec,
    waiting: Sequence[tuple[int, Charged]],
    cap: TokenCap | None,
    tenant_of: Callable[[Account], Tenant],
) -> Recharged:
    """`waiting`: the group and the charge of each of its tasks, all of which wait. Charges the book for the
    changed job instead, or raises what it is refused for."""
    tenants, numbers = book.of(spec.tenant_id), Counter(group for group, _ in waiting)
    asked = [(group.request, numbers[at]) for at, group in enumerate(spec.groups)]
    _check_hours(tenants, spec, tenant_of)
    if cap is not None:
        cap.spend_more(before, spec)
    try:
        apart = spec.series is not None
        standing = tenants.recharge([task for _, task in waiting], asked, spec.priority_class, apart=apart)
    except NoRoomError as refusal:
        raise _exceeded(refusal, [spec], tenant_of(refusal.account)) from None
    return Recharged(tuple(tenants.kept(request) for request, _ in asked), standing)


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
        return QuotaExceededError(tenant, WAITING, sum(n for spec in within for _, n in first_demands(spec)))
    charges = [charge_of_all(first_demands(spec), refusal.account.names) for spec in within]
    asked = sum(each.get(refusal.dimension, 0) for each in charges)
    return QuotaExceededError(tenant, refusal.dimension, asked, no_burst=refusal.no_burst)
