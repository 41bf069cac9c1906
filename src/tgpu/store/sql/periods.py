"""Periods of GPU-hours: when one is over, its tenants begin to count anew."""

from sqlalchemy import BigInteger, cast, func, select, update

from tgpu.domain.lifecycle import HOLDING, AttemptState
from tgpu.domain.periods import period_from_ms
from tgpu.domain.quota import Period
from tgpu.domain.tenant import Tenant, is_within
from tgpu.store.sql import cluster, lost_runs, tenants
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import attempts, jobs, tasks
from tgpu.store.tables import tenants as tenant_rows

PERIODS = Query(
    "Which period each tenant counts in, and when that began.",
    select(tenant_rows.c.tenant_id, tenant_rows.c.gpu_period, tenant_rows.c.gpu_period_from_ms).order_by(
        tenant_rows.c.tenant_id
    ),
)
RESERVED = Query(
    "What running tasks have reserved, by tenant.",
    select(jobs.c.tenant_id, cast(func.sum(tasks.c.reserved_gpu_ms), BigInteger))
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(tasks.c.status.in_([constant(status) for status in sorted(HOLDING)]))
    .group_by(jobs.c.tenant_id),
)
_placed = (
    select(attempts.c.job_id, attempts.c.task_index)
    .where(attempts.c.state != constant(AttemptState.ENDED))
    .distinct()
    .subquery("placed")
)
RESERVED_NOW = Query(
    "The same, found from what is on nodes: however many wait, few are looked at.",
    select(jobs.c.tenant_id, cast(func.sum(tasks.c.reserved_gpu_ms), BigInteger))
    .select_from(_placed)
    .join(tasks, (tasks.c.job_id == _placed.c.job_id) & (tasks.c.task_index == _placed.c.task_index))
    .join(jobs, jobs.c.job_id == tasks.c.job_id)
    .where(tasks.c.reserved_gpu_ms > constant(0))
    .group_by(jobs.c.tenant_id),
)
BEGIN = Query(
    "Begins a tenant's next period.",
    update(tenant_rows)
    .values(gpu_period_from_ms=value("begun"), gpu_ms_used=value("taken"))
    .where(tenant_rows.c.tenant_id == value("tenant")),
)


def reserved(session: Session) -> dict[str, int]:
    """By tenant."""
    return dict(session.rows(RESERVED_NOW))


def roll(session: Session, epoch: int, at_ms: int) -> list[Tenant]:
    """With what is reserved, and what lost attempts ran since the period began: nobody may have looked for a
    while, and it is taken off again when they return."""
    cluster.check_epoch(session, epoch)
    begun = {
        tenant_id: now_ms
        for tenant_id, period, from_ms in session.rows(PERIODS)
        if (now_ms := period_from_ms(Period(period), at_ms)) > from_ms
    }
    if not begun:
        return []
    tenants.hold(session, begun)
    by_owner, lost = session.rows(RESERVED), lost_runs.everywhere(session)
    session.change_all(BEGIN, [
        {
            "tenant": tenant_id,
            "begun": now_ms,
            "taken": sum(gpu_ms for owner, gpu_ms in by_owner if is_within(owner, tenant_id))
            + sum(run.gpu_ms(now_ms) for run in lost if is_within(run.tenant_id, tenant_id)),
        }
        for tenant_id, now_ms in begun.items()
    ])  # fmt: skip
    return [tenants.the_one(session, tenant_id) for tenant_id in begun]
