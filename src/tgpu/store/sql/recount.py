"""The ledger, looked over: what every live task is charged for, added up and compared."""

from collections.abc import Iterator

from sqlalchemy import BigInteger, cast, func, select

from tgpu.domain.lifecycle import Status
from tgpu.domain.quota import Standing
from tgpu.store.quota_port import Discrepancy
from tgpu.store.sql import cluster, codec, ledger, lost_runs
from tgpu.store.sql.session import Query, Session, constant
from tgpu.store.tables import LIVE_STATUSES, jobs, tasks
from tgpu.store.tally import Alike, settle

_KIND = (jobs.c.tenant_id, tasks.c.status, tasks.c.standing, tasks.c.request)

LIVING = Query(
    "How many live tasks are charged for alike, and what they have reserved.",
    select(*_KIND, func.count(), cast(func.sum(tasks.c.reserved_gpu_ms), BigInteger))
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]))
    .group_by(*_KIND),
)


def differences(session: Session, epoch: int) -> list[Discrepancy]:
    """As of one moment, for which nobody has to wait: tasks and ledger change together, so that they agree
    at any time."""
    cluster.see_epoch(session, epoch)
    return settle(ledger.read_all(session), _living(session), lost_runs.everywhere(session))


def mend(session: Session, epoch: int) -> list[Discrepancy]:
    """While nobody writes the ledger."""
    cluster.check_epoch(session, epoch)
    accounts = ledger.hold_all(session)
    found = settle(accounts, _living(session), lost_runs.everywhere(session))
    ledger.write(session, accounts.values())
    return found


def _living(session: Session) -> Iterator[Alike]:
    for tenant_id, status, standing, request, count, reserved in session.rows(LIVING):
        waits = Status(status).waits
        yield Alike(tenant_id, waits, Standing(standing), codec.request_from(request), count, reserved)
