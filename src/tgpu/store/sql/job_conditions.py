"""Which jobs are wanted, as conditions of a statement: each holds if nothing is asked of it."""

from collections.abc import Iterable

from sqlalchemy import BigInteger, ColumnElement, Text, func, or_

from tgpu.store.job_filter import JobFilter, Seen
from tgpu.store.ran import Ran
from tgpu.store.sql.session import Values, constant, value
from tgpu.store.tables import jobs

# Both sides are folded by the database, so that its idea of letters is the only one.
ESCAPE = "\\"
_MARK = "|"  # no name of a tenant, node or cause has it
_TEXTS = ("tenant", "below", "name_part", "seen", "causes", "node_ids")


def escaped(part: str | None) -> str | None:
    """The text itself is looked for: `%` and `_` are no wildcards."""
    if part is None:
        return None
    return part.replace(ESCAPE, 2 * ESCAPE).replace("%", ESCAPE + "%").replace("_", ESCAPE + "_")


def _unless_none(name: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    kind = Text() if name in _TEXTS else BigInteger()
    return or_(value(name, kind).is_(None), condition)


def is_in(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Taking it out of the list changes the list, if it is in there: one text says any number of names."""
    listed = value(name, Text())
    return func.replace(listed, constant(_MARK) + column + constant(_MARK), constant("")) != listed


def _list(names: Iterable[str]) -> str:
    return "".join(f"{_MARK}{name}{_MARK}" for name in sorted(names))


SEEN = or_(jobs.c.user == value("seen_user", Text()), is_in(jobs.c.tenant_id, "seen"))
_below = value("below", Text())
WANTED = (
    jobs.c.job_id.between(value("low"), value("high")),
    _unless_none("tenant", jobs.c.tenant_id == value("tenant", Text())),
    _unless_none("name_part", jobs.c.name.icontains(value("name_part", Text()), escape=ESCAPE)),
    _unless_none("from_ms", jobs.c.submitted_ms >= value("from_ms", BigInteger())),
    _unless_none("until_ms", jobs.c.submitted_ms <= value("until_ms", BigInteger())),
    _unless_none("ended_ms_from", jobs.c.ended_ms >= value("ended_ms_from", BigInteger())),
    _unless_none("seen", SEEN),
)
RAN = (
    _unless_none(
        "below",
        or_(
            jobs.c.tenant_id + constant("/") == _below,
            func.substr(jobs.c.tenant_id, constant(1), func.length(_below)) == _below,
        ),
    ),
    _unless_none("causes", is_in(jobs.c.cause, "causes")),
    _unless_none("node_ids", is_in(jobs.c.node_id, "node_ids")),
    _unless_none("code", jobs.c.exit_code == value("code", BigInteger())),
    _unless_none("started_from", jobs.c.started_ms >= value("started_from", BigInteger())),
    _unless_none("started_until", jobs.c.started_ms <= value("started_until", BigInteger())),
    _unless_none("ended_from", jobs.c.ended_ms >= value("ended_from", BigInteger())),
    _unless_none("ended_until", jobs.c.ended_ms <= value("ended_until", BigInteger())),
    _unless_none(
        "least_run",
        func.coalesce(jobs.c.ended_ms, value("now_ms", BigInteger())) - jobs.c.started_ms
        >= value("least_run", BigInteger()),
    ),
)
"""Beyond those: only for lists that ask for some of it."""


def asks_how_it_ran(where: JobFilter) -> bool:
    return where.ran is not None or where.within is not None


def wanted_values(where: JobFilter) -> Values:
    """For `WANTED`, but for the ids, and for `RAN` where that is asked for."""
    values: Values = {
        "tenant": where.tenant_id,
        "name_part": escaped(where.name_contains),
        "from_ms": where.submitted_from_ms,
        "until_ms": where.submitted_until_ms,
        "ended_ms_from": where.ended_from_ms,
        **seen_values(where.seen),
    }
    return values | _ran_values(where) if asks_how_it_ran(where) else values


def seen_values(seen: Seen | None) -> Values:
    if seen is None:
        return {"seen": None, "seen_user": None}
    return {"seen": _list(seen.tenants), "seen_user": seen.user}


def _ran_values(where: JobFilter) -> Values:
    ran = where.ran or Ran()
    return {
        "below": None if where.within is None else f"{where.within}/",
        "causes": _list(ran.causes) if ran.causes else None,
        "node_ids": _list(ran.node_ids) if ran.node_ids else None,
        "code": ran.exit_code,
        "started_from": ran.started_from_ms,
        "started_until": ran.started_until_ms,
        "ended_from": ran.ended_from_ms,
        "ended_until": ran.ended_until_ms,
        "least_run": ran.least_run_ms,
        "now_ms": ran.now_ms,
    }
