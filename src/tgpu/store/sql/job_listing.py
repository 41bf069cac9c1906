"""Job lists that are searched and sorted: each statement is made for the filters that are given.

A list in the order of ids without a search is read by `jobs.page`, which stops as soon as the page is full;
these statements may read every job, so they touch only the columns before the specification.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    FromClause,
    Integer,
    Text,
    case,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from tgpu.domain.priority import TERMS
from tgpu.store.job_filter import JobFilter, Seen
from tgpu.store.job_listing import CLASS_WEIGHT, LAST, STATUS_ORDER, Listed, Listing, ListPage, SortKey
from tgpu.store.ran import Ran
from tgpu.store.sql import jobs
from tgpu.store.sql.job_conditions import ESCAPE, escaped
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import jobs as rows

_MOST_RANGES = 1000
_GROUP = 100


class _Conditions:
    """The conditions of one statement and the values they compare with."""

    def __init__(self) -> None:
        self.all: list[ColumnElement[bool]] = []
        self.values: Values = {}

    def bind(self, given: object, kind: Any) -> ColumnElement[Any]:  # noqa: ANN401  a type of SQLAlchemy
        name = f"given_{len(self.values)}"
        self.values[name] = given
        return value(name, kind)

    def add(self, condition: ColumnElement[bool]) -> None:
        self.all.append(condition)

    def is_any(self, column: ColumnElement[Any], given: Iterable[object]) -> ColumnElement[bool]:
        return column.in_([self.bind(one, column.type) for one in sorted(given, key=str)])

    def any_of(self, column: ColumnElement[Any], given: Iterable[object]) -> None:
        """No condition if nothing is given."""
        if wanted := list(given):
            self.add(self.is_any(column, wanted))

    def at_least(self, column: ColumnElement[Any], least: int | None) -> None:
        if least is not None:
            self.add(column >= self.bind(least, BigInteger()))

    def at_most(self, column: ColumnElement[Any], most: int | None) -> None:
        if most is not None:
            self.add(column <= self.bind(most, BigInteger()))

    def id_is_in(self, ranges: Sequence[tuple[int, int]]) -> None:
        """In several queries: SQLite takes `a OR b OR c` for a tree as deep as it has parts, and refuses one
        of 1,000."""
        named = rows.alias("named")
        parts = [
            named.c.job_id.between(self.bind(low, BigInteger()), self.bind(high, BigInteger()))
            for low, high in ranges
        ]
        groups = (parts[at : at + _GROUP] for at in range(0, len(parts), _GROUP))
        found = [select(named.c.job_id).where(or_(*group)) for group in groups]
        self.add(rows.c.job_id.in_(found[0] if len(found) == 1 else union_all(*found)))

    def is_seen(self, seen: Seen, of: FromClause = rows) -> ColumnElement[bool]:
        return or_(
            of.c.user == self.bind(seen.user, Text()),
            self.is_any(of.c.tenant_id, seen.tenants or [""]),
        )


def page(session: Session, listing: Listing, part: ListPage) -> list[Listed]:
    found = _found(session, listing, part)
    several = jobs.several(session, [{"job": job_id} for job_id, _ in found])
    return [Listed(job, key) for job, (_, key) in zip(several, found, strict=True) if job is not None]


def ids(session: Session, listing: Listing, part: ListPage) -> list[int]:
    return [job_id for job_id, _ in _found(session, listing, part)]


def count(session: Session, listing: Listing, most: int) -> int:
    """How many there are, but not more than `most`."""
    given = _conditions(listing, SortKey.ID)
    matching = select(rows.c.job_id).where(*given.all).limit(given.bind(most, Integer())).offset(constant(0))
    query = Query("How many jobs a list has.", select(func.count()).select_from(matching.subquery()))
    ((number,),) = session.rows_once(query, given.values)
    return int(number)


def _found(session: Session, listing: Listing, part: ListPage) -> list[tuple[int, Any]]:
    given = _conditions(listing, part.key)
    key = _sort_expression(part, given)
    if part.after is not None:
        given.add(_is_after(key, part, given))
    order = (key.desc(), rows.c.job_id.desc()) if part.descending else (key, rows.c.job_id)
    query = Query(
        "The ids of a page of a list, in order.",
        select(rows.c.job_id, key)
        .where(*given.all)
        .order_by(*order)
        .limit(given.bind(part.limit, Integer()))
        .offset(given.bind(part.skip, Integer())),
    )
    return [(job_id, found) for job_id, found in session.rows_once(query, given.values)]


def _is_after(key: ColumnElement[Any], part: ListPage, given: _Conditions) -> ColumnElement[bool]:
    assert part.after is not None
    last, last_id = (given.bind(part.after[0], key.type), given.bind(part.after[1], BigInteger()))
    if part.key is SortKey.ID:
        return rows.c.job_id < last_id if part.descending else rows.c.job_id > last_id
    if part.descending:
        return or_(key < last, (key == last) & (rows.c.job_id < last_id))
    return or_(key > last, (key == last) & (rows.c.job_id > last_id))


_PLAIN: Mapping[SortKey, ColumnElement[Any]] = {
    SortKey.ID: rows.c.job_id,
    SortKey.SUBMITTED: rows.c.submitted_ms,
    SortKey.TASKS: rows.c.tasks,
    SortKey.NAME: rows.c.name,
    SortKey.USER: rows.c.user,
    SortKey.TENANT: rows.c.tenant_id,
    SortKey.GPUS: func.coalesce(rows.c.gpu_milli, constant(0), type_=BigInteger()),
    SortKey.NODE: func.coalesce(rows.c.node_id, constant(""), type_=Text()),
    SortKey.STATUS: case(
        *((rows.c.status == constant(status.value), constant(rank)) for status, rank in STATUS_ORDER.items()),
        else_=constant(len(STATUS_ORDER)),
    ),
    SortKey.PRIORITY: rows.c.priority
    - case(
        *(
            (rows.c.priority_class == constant(name.value), constant(CLASS_WEIGHT * terms.rank))
            for name, terms in TERMS.items()
        ),
        else_=constant(0),
    ),
}


def _sort_expression(part: ListPage, given: _Conditions) -> ColumnElement[Any]:
    plain = _PLAIN.get(part.key)
    if plain is not None:
        return plain
    started, ended = rows.c.started_ms, rows.c.ended_ms
    value_ms: ColumnElement[Any] = started if part.key is SortKey.STARTED else ended
    if part.key is SortKey.RUN_TIME:
        value_ms = func.coalesce(ended, given.bind(part.now_ms, BigInteger())) - started
    return func.coalesce(value_ms, constant(-1 if part.descending else LAST), type_=BigInteger())


_IN_TEXT_INDEX = frozenset({SortKey.ID, SortKey.NAME, SortKey.USER, SortKey.TENANT})


def _is_all_in_text_index(listing: Listing, key: SortKey) -> bool:
    """Whether the index `jobs_by_text` has every column of the statement."""
    where = listing.where
    more = where.statuses or where.ran or listing.classes
    times = (where.submitted_from_ms, where.submitted_until_ms, where.ended_from_ms)
    return key in _IN_TEXT_INDEX and not more and times == (None, None, None)


def _conditions(listing: Listing, key: SortKey) -> _Conditions:
    given, where = _Conditions(), listing.where
    _add_filter(given, where)
    given.any_of(rows.c.tenant_id, listing.tenants)
    given.any_of(rows.c.priority_class, (name.value for name in listing.classes))
    if where.ran is not None:
        _add_ran(given, where.ran)
    if listing.text is not None:
        found = rows if _is_all_in_text_index(listing, key) else rows.alias("found")
        is_found = _is_found_by(listing.text, listing.command_seen, given, found)
        if found is not rows:
            # A query of its own reads the index instead of whole rows.
            is_found = rows.c.job_id.in_(select(found.c.job_id).where(is_found))
        given.add(is_found)
    return given


def _add_filter(given: _Conditions, where: JobFilter) -> None:
    given.any_of(rows.c.status, (status.value for status in where.statuses))
    given.any_of(rows.c.user, where.users)
    given.any_of(rows.c.tenant_id, [where.tenant_id] if where.tenant_id is not None else [])
    given.at_least(rows.c.submitted_ms, where.submitted_from_ms)
    given.at_most(rows.c.submitted_ms, where.submitted_until_ms)
    given.at_least(rows.c.ended_ms, where.ended_from_ms)
    if where.name_contains is not None:
        part = given.bind(escaped(where.name_contains), Text())
        given.add(rows.c.name.icontains(part, escape=ESCAPE))
    if where.id_ranges:
        given.id_is_in(where.id_ranges[:_MOST_RANGES])
    if where.within is not None:
        below = given.bind(escaped(f"{where.within}/"), Text())
        given.add(
            or_(
                rows.c.tenant_id == given.bind(where.within, Text()),
                rows.c.tenant_id.startswith(below, escape=ESCAPE),
            )
        )
    if where.seen is not None:
        given.add(given.is_seen(where.seen))


def _add_ran(given: _Conditions, ran: Ran) -> None:
    given.any_of(rows.c.cause, (cause.value for cause in ran.causes))
    given.any_of(rows.c.node_id, ran.node_ids)
    if ran.exit_code is not None:
        given.add(rows.c.exit_code == given.bind(ran.exit_code, Integer()))
    given.at_least(rows.c.started_ms, ran.started_from_ms)
    given.at_most(rows.c.started_ms, ran.started_until_ms)
    given.at_least(rows.c.ended_ms, ran.ended_from_ms)
    given.at_most(rows.c.ended_ms, ran.ended_until_ms)
    if ran.least_run_ms is not None:
        until = func.coalesce(rows.c.ended_ms, given.bind(ran.now_ms, BigInteger()))
        given.at_least(until - rows.c.started_ms, ran.least_run_ms)


def _is_found_by(
    text: str, command_seen: Seen | None, given: _Conditions, searched: FromClause
) -> ColumnElement[bool]:
    part = escaped(text)
    anywhere, at_start = given.bind(f"%{part}%", Text()), given.bind(f"{part}%", Text())
    command: ColumnElement[bool] = _Like(searched.c.command, at_start)
    if command_seen is not None:
        command &= given.is_seen(command_seen, searched)
    found = [_Like(searched.c.name, anywhere), _Like(searched.c.user, anywhere), command]
    if text.isascii() and text.isdigit() and len(text) <= 16 and text == str(int(text)):  # noqa: PLR2004  keeps int() cheap
        found.append(searched.c.job_id == given.bind(int(text), BigInteger()))
    return or_(*found)


class _Like(ColumnElement[bool]):
    """LIKE that takes small and capital letters for the same."""

    type = Boolean()
    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], pattern: ColumnElement[Any]) -> None:
        self.column, self.pattern = column, pattern


@compiles(_Like, "sqlite")
def _like(element: _Like, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401  as SQLAlchemy has it
    column, pattern = (compiler.process(part, **how) for part in (element.column, element.pattern))
    return f"{column} LIKE {pattern} ESCAPE '{ESCAPE}'"


@compiles(_Like, "postgresql")
def _ilike(element: _Like, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401  as SQLAlchemy has it
    column, pattern = (compiler.process(part, **how) for part in (element.column, element.pattern))
    return f"{column} ILIKE {pattern} ESCAPE '{ESCAPE}'"
