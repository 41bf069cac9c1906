"""The ledger on a database: tenants are held, decided on in order (`book.py`), and written once each.

All tenants of a transaction are held together, the root before the leaf, after jobs and before the row that
numbers events; so nobody waits in a circle, and what was decided still holds when it is written. That update
asks for the limit once more all the same: the row count proves it.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import BigInteger, ColumnElement, and_, or_, select, update

from tgpu.domain.quota import BASIC, BURST_PART, OverQuota
from tgpu.domain.tenant import lineage
from tgpu.store.account import Account, Charge, Terms
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import quota_lines, tenants

Accounts = Mapping[str, Account]
"""By tenant, those that there are."""

_T, _L = tenants.c, quota_lines.c
_IS_THIS = _T.tenant_id == value("tenant")
_THIS_LINE = (_L.tenant_id == value("tenant"), _L.name == value("line"))
_FIELDS = (
    _T.tenant_id,
    *(_T[f"{name}_limit"] for name in BASIC),
    *(_T[f"{name}_used"] for name in BASIC),
    *(_T[f"{name}_burst"] for name in BASIC),
    _T.running_limit,
    _T.waiting_limit,
    _T.gpu_ms_limit,
    _T.running,
    _T.waiting,
    _T.gpu_ms_used,
    _T.gpu_period_from_ms,
    _T.over_quota,
    _T.may_burst,
    _T.archived,
    _T.quota_lines,
)
_Number = ColumnElement[int]


def _given(name: str) -> ColumnElement[int]:
    return value(name, BigInteger())


def _asks(guard: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """These must hold if something was charged on that condition."""
    return or_(_given(guard) == constant(0), and_(*conditions))


def _has_room(limit: _Number, used: _Number, burst: _Number, name: str) -> ColumnElement[bool]:
    """Where something was added, the limit holds; the burst is beside it and has its own."""
    more, more_burst = _given(f"{name}_more"), _given(f"{name}_more_burst")
    within = and_(
        or_(more <= constant(0), used + more <= limit),
        or_(more_burst <= constant(0), (burst + more_burst) * constant(BURST_PART) <= limit),
    )
    return or_(limit.is_(None), within)


def _below(limit: _Number, now: _Number) -> ColumnElement[bool]:
    return or_(limit.is_(None), now <= limit)


_USED = {f"{name}_used": _T[f"{name}_used"] + _given(f"{name}_more") for name in BASIC}
_ROOM = [_has_room(_T[f"{name}_limit"], _T[f"{name}_used"], _T[f"{name}_burst"], name) for name in BASIC]
_WAITING = _T.waiting + _given("waiting_more")
_RUNNING = _T.running + _given("running_more")
_GPU_MS = _T.gpu_ms_used + _given("gpu_ms_more")

HOLD = Query(
    "A tenant's limits and what is used of them, held against every other writer.",
    select(*_FIELDS).where(_IS_THIS).order_by(_T.tenant_id).with_for_update(key_share=True, of=tenants),
)
READ = Query("A tenant's limits and what is used of them.", select(*_FIELDS).where(_IS_THIS))
HOLD_ALL = Query(
    "Every tenant's limits and what is used of them, held against every other writer.",
    select(*_FIELDS).order_by(_T.tenant_id).with_for_update(key_share=True, of=tenants),
)
ALL = Query("Every tenant's limits and what is used of them.", select(*_FIELDS).order_by(_T.tenant_id))
LINES = Query(
    "The named limits of a tenant that is held, and what is used of them.",
    select(_L.name, _L.most, _L.used, _L.burst).where(_L.tenant_id == value("tenant")).order_by(_L.name),
)
POST = Query(
    "Writes what a transaction charges to a tenant and releases, if the limits allow what depends on them.",
    update(tenants)
    .values(
        _USED
        | {f"{name}_burst": _T[f"{name}_burst"] + _given(f"{name}_more_burst") for name in BASIC}
        | {"waiting": _WAITING, "running": _RUNNING, "gpu_ms_used": _GPU_MS}
    )
    .where(
        _IS_THIS,
        _asks("guard_amounts", *_ROOM),
        _asks("guard_waiting", _below(_T.waiting_limit, _WAITING)),
        _asks("guard_running", _below(_T.running_limit, _RUNNING)),
        _asks("guard_gpu_ms", _below(_T.gpu_ms_limit, _GPU_MS)),
    ),
)
POST_FREELY = Query(
    "The same in a tenant without limits, as most are, of work that is not on the burst.",
    update(tenants)
    .values(_USED | {"waiting": _WAITING, "running": _RUNNING, "gpu_ms_used": _GPU_MS})
    .where(
        _IS_THIS,
        *(_T[f"{name}_limit"].is_(None) for name in (*BASIC, "waiting", "running", "gpu_ms")),
    ),
)
POST_LINE = Query(
    "Writes what a transaction charges to a named limit and releases, if it allows what depends on it.",
    update(quota_lines)
    .values(used=_L.used + _given("line_more"), burst=_L.burst + _given("line_more_burst"))
    .where(*_THIS_LINE, _asks("guard_amounts", _has_room(_L.most, _L.used, _L.burst, "line"))),
)


def hold(session: Session, tenant_ids: Iterable[str]) -> Accounts:
    """Those, and everybody above them. To be called once in a transaction: what is held later might be held
    by somebody who waits for one of these."""
    return _accounts(session, HOLD, tenant_ids)


def read(session: Session, tenant_ids: Iterable[str]) -> Accounts:
    """The same, not held: nothing is to be charged."""
    return _accounts(session, READ, tenant_ids)


def _accounts(session: Session, query: Query, tenant_ids: Iterable[str]) -> Accounts:
    wanted = sorted({ancestor for tenant_id in tenant_ids for ancestor in lineage(tenant_id)})
    rows = session.row_each(query, [{"tenant": tenant_id} for tenant_id in wanted])
    return {
        tenant_id: _account(session, row)
        for tenant_id, row in zip(wanted, rows, strict=True)
        if row is not None
    }


def hold_all(session: Session) -> Accounts:
    return {row[0]: _account(session, row) for row in session.rows(HOLD_ALL)}


def read_all(session: Session) -> Accounts:
    return {row[0]: _account(session, row) for row in session.rows(ALL)}


def _account(session: Session, row: Row) -> Account:
    tenant_id, *numbers, over_quota, may_burst, archived, line_count = row
    limits = {name: limit for name, limit in zip(BASIC, numbers, strict=False) if limit is not None}
    used = dict(zip(BASIC, numbers[4:8], strict=True))
    burst = dict(zip(BASIC, numbers[8:12], strict=True))
    names: tuple[str, ...] = ()
    if line_count:
        for name, most, line_used, line_burst in session.rows(LINES, tenant=tenant_id):
            limits[name], used[name], burst[name] = most, line_used, line_burst
            names += (name,)
    terms = Terms(
        None if over_quota is None else OverQuota(over_quota),
        None if may_burst is None else bool(may_burst),
        bool(archived),
    )
    running_limit, waiting_limit, gpu_ms_limit, running, waiting, gpu_ms, period_from_ms = numbers[12:]
    return Account(
        tenant_id,
        limits,
        names,
        used,
        burst,
        running_limit,
        waiting_limit,
        gpu_ms_limit,
        running,
        waiting,
        gpu_ms,
        period_from_ms,
        terms,
    )


def write(session: Session, accounts: Iterable[Account]) -> None:
    """What has changed in them since they were held."""
    freely: list[Values] = []
    guarded: list[Values] = []
    lines: list[Values] = []
    for account in accounts:
        change = account.change()
        if not change:
            continue
        row = _values(account.tenant_id, change.used) | {
            "waiting_more": change.waiting,
            "running_more": change.running,
            "gpu_ms_more": change.gpu_ms,
        }
        if account.limits_arrivals or account.limits_starts or change.burst:
            guarded.append(row | _burst_values(change.burst) | _guards(account))
            lines += _line_values(account, change.used, change.burst)
        else:
            freely.append(row)
    for query, rows in ((POST_FREELY, freely), (POST, guarded), (POST_LINE, lines)):
        if rows:
            session.change_all(query, rows)


def _values(tenant_id: str, used: Charge) -> Values:
    return {
        "tenant": tenant_id,
        "cpu_milli_more": used.get("cpu_milli", 0),
        "memory_mib_more": used.get("memory_mib", 0),
        "disk_mib_more": used.get("disk_mib", 0),
        "gpu_milli_more": used.get("gpu_milli", 0),
    }


def _burst_values(burst: Charge) -> Values:
    return {f"{name}_more_burst": burst.get(name, 0) for name in BASIC}


def _guards(account: Account) -> Values:
    guards = account.guards
    return {
        "guard_amounts": int(guards.amounts and not account.unasked),
        "guard_waiting": int(guards.waiting),
        "guard_running": int(guards.running),
        "guard_gpu_ms": int(guards.gpu_ms),
    }


def _line_values(account: Account, used: Charge, burst: Charge) -> list[Values]:
    return [
        {
            "tenant": account.tenant_id,
            "line": name,
            "line_more": used.get(name, 0),
            "line_more_burst": burst.get(name, 0),
            "guard_amounts": int(account.guards.amounts and not account.unasked),
        }
        for name in account.names
        if name in used or name in burst
    ]
