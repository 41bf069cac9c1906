"""The tree of tenants in a memory store: created, changed, moved and removed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.access import AuditEntry, Member
from tgpu.domain.ids import TaskId
from tgpu.domain.tenant import Tenant, is_within
from tgpu.domain.usage import Usage
from tgpu.store import tenancy
from tgpu.store.access_port import NameKeptError, Token
from tgpu.store.cluster_port import WindowRow
from tgpu.store.lost_run import LostRun
from tgpu.store.memory_ledger import MemoryTask
from tgpu.store.memory_state import State
from tgpu.store.port import StaleVersionError, TenantExistsError, UnknownTenantError
from tgpu.store.tenancy import Living

_Key = TypeVar("_Key")
_Row = TypeVar("_Row", Token, WindowRow, Usage)


class Tree:
    def __init__(
        self, state: State, members: dict[tuple[str, str], Member], audit: Sequence[AuditEntry]
    ) -> None:
        self._state, self._members, self._audit = state, members, audit

    def create(self, asked: Tenant, at_ms: int, *, take_over: bool) -> tuple[Tenant, bool]:
        """And whether it took over ended jobs."""
        tenants = self._state.tenants
        if asked.parent_id is not None and asked.parent_id not in tenants:
            raise UnknownTenantError(asked.parent_id)
        if asked.tenant_id in tenants:
            raise TenantExistsError(f"there is a tenant {asked.tenant_id!r} already")
        took_over = False
        try:
            self._check_unused(asked.tenant_id)
        except NameKeptError:
            if not take_over:
                raise
            took_over = True
        made = tenants[asked.tenant_id] = tenancy.created(asked, at_ms)
        self._mark_changed(made.tenant_id)
        return made, took_over

    def change(
        self, tenant_id: str, wish: Callable[[Tenant], Tenant], at_ms: int, if_version: int | None
    ) -> tuple[Tenant, Tenant]:
        """As it was, and as it is now."""
        now = self._the_one(tenant_id, if_version)
        after = tenancy.changed(now, wish(now), at_ms, lambda: self._living(tenant_id))
        if after is now:
            return now, now
        self._state.tenants[tenant_id] = after
        if tenancy.has_other_models(now, after) and self._change_requests(tenant_id):
            self._mark_rearranged()
        self._mark_changed(tenant_id)
        return now, after

    def move(self, tenant_id: str, to_id: str, if_version: int | None) -> Tenant:
        moved, tenants = self._the_one(tenant_id, if_version), self._state.tenants
        names = tenancy.new_names(tenants, tenant_id, to_id)
        self._check_unused(to_id)
        for above in tenancy.with_new_parents(tenants, moved, to_id, self._living(tenant_id)):
            tenants[above.tenant_id] = above
        for name, new_name in names.items():
            tenants[new_name] = replace(tenants.pop(name), tenant_id=new_name)
            self._state.tenant_changes[new_name] = self._state.tenant_changes.pop(name)
        tenants[to_id] = replace(tenants[to_id], version=moved.version + 1)
        self._rename_others(tenant_id, to_id)
        self._change_requests(to_id)
        self._mark_rearranged()
        return tenants[to_id]

    def remove(self, tenant_id: str, if_version: int | None) -> Tenant:
        tenant, tenants = self._the_one(tenant_id, if_version), self._state.tenants
        below = [name for name in sorted(tenants) if is_within(name, tenant_id) and name != tenant_id]
        live_jobs = {task_id.job_id for task_id in self._state.live}
        live = sum(self._state.jobs[job_id].spec.tenant_id == tenant_id for job_id in live_jobs)
        tenancy.check_unused(tenant_id, below, live)
        del tenants[tenant_id], self._state.tenant_changes[tenant_id]
        self._mark_rearranged()
        return tenant

    def _check_unused(self, tenant_id: str) -> None:
        owners = {job.spec.tenant_id for job in self._state.jobs.values()}
        owner = min((name for name in owners if is_within(name, tenant_id)), default=None)
        if owner is not None:
            gone = ("tenant.remove", owner)
            removed = [line.at_ms for line in self._audit if (line.action, line.target) == gone]
            raise NameKeptError(owner, max(removed, default=None))

    def _the_one(self, tenant_id: str, if_version: int | None) -> Tenant:
        tenant = self._state.tenants.get(tenant_id)
        if tenant is None:
            raise UnknownTenantError(tenant_id)
        if if_version not in (None, tenant.version):
            raise StaleVersionError(tenant.version)
        return tenant

    def _living(self, tenant_id: str) -> list[Living]:
        owners = ((task_id, self._state.jobs[task_id.job_id].spec) for task_id in sorted(self._state.live))
        return [
            _living(task_id, spec.tenant_id, self._state.tasks[task_id], self._state.lost_runs(task_id))
            for task_id, spec in owners
            if is_within(spec.tenant_id, tenant_id)
        ]

    def _change_requests(self, tenant_id: str) -> bool:
        """Whether some had to be."""
        others = tenancy.with_other_requests(self._living(tenant_id), self._state.tenants)
        for task_id, request in others:
            task = self._state.tasks[task_id]
            self._state.tasks[task_id] = replace(task, request=request)
        return bool(others)

    def _rename_others(self, tenant_id: str, to_id: str) -> None:
        """Everything that names a tenant and is no tenant itself."""
        state = self._state

        def renamed(name: str) -> str:
            return to_id + name.removeprefix(tenant_id)

        def is_theirs(name: str | None) -> bool:
            return name is not None and is_within(name, tenant_id)

        def rename_in(rows: dict[_Key, _Row]) -> None:
            for key, row in rows.items():
                if is_theirs(row.tenant_id):
                    rows[key] = replace(row, tenant_id=renamed(str(row.tenant_id)))

        rename_in(state.tokens)
        rename_in(state.windows)
        rename_in(state.usage)
        for job_id, job in state.jobs.items():
            if is_theirs(job.spec.tenant_id):
                spec = replace(job.spec, tenant_id=renamed(job.spec.tenant_id))
                state.jobs[job_id] = replace(job, spec=spec)
        for user, name in [key for key in self._members if is_theirs(key[1])]:
            member = replace(self._members.pop((user, name)), tenant_id=renamed(name))
            self._members[user, member.tenant_id] = member

    def _mark_changed(self, tenant_id: str) -> None:
        self._state.tenant_changes[tenant_id] = self._state.last_seq + 1

    def _mark_rearranged(self) -> None:
        """By a number that no event gets: whoever loads everything afterwards has passed it."""
        self._state.last_seq += 1
        self._state.rearranged_seq = self._state.last_seq


def _living(task_id: TaskId, tenant_id: str, task: MemoryTask, lost: tuple[LostRun, ...]) -> Living:
    return Living(task_id, tenant_id, task.request, task.standing, task.reserved_gpu_ms, lost)
