"""The kinds of attempts that are counted together: each is kept once, and has a number."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, insert, select

from tgpu.domain.usage import Usage
from tgpu.store.sql.session import Query, Session, Values, value
from tgpu.store.tables import usage_kinds


class Kind(NamedTuple):
    user: str
    tenant_id: str
    priority_class: str
    pool: str
    gpu_type: str
    cause: str
    is_told: bool
    is_gpu_told: bool


FIELDS = tuple(usage_kinds.c[name] for name in Kind._fields)
ALL = Query("Every kind of attempt.", select(usage_kinds.c.kind_id, *FIELDS))
FIND = Query(
    "The number of a kind.",
    select(usage_kinds.c.kind_id).where(
        *(column == value(f"its_{column.name}", column.type) for column in FIELDS)
    ),
)
LAST = Query("The highest number of a kind.", select(func.max(usage_kinds.c.kind_id)))
ADD = Query("Adds a kind.", insert(usage_kinds))


def every(session: Session) -> dict[int, Kind]:
    return {kind_id: kind_from(row) for kind_id, *row in session.rows(ALL)}


def kind_from(row: Sequence[Any]) -> Kind:
    """By a row of `FIELDS`. SQLite has numbers for true and false."""
    user, tenant_id, priority_class, pool, gpu_type, cause, is_told, is_gpu_told = row
    return Kind(user, tenant_id, priority_class, pool, gpu_type, cause, bool(is_told), bool(is_gpu_told))


def numbers(session: Session, wanted: Iterable[Kind]) -> dict[Kind, int]:
    """Of each, made now if it is new: only one leader writes here at a time."""
    kinds = list(dict.fromkeys(wanted))
    asked: list[Values] = [{f"its_{name}": part for name, part in kind._asdict().items()} for kind in kinds]
    found = session.row_each(FIND, asked)
    known = {kind: int(row[0]) for kind, row in zip(kinds, found, strict=True) if row is not None}
    new = [kind for kind in kinds if kind not in known]
    if new:
        first = (session.the_row(LAST)[0] or 0) + 1
        known |= {kind: first + at for at, kind in enumerate(new)}
        session.change_many(ADD, [{"kind_id": known[kind], **kind._asdict()} for kind in new])
    return known


def kind_of(spent: Usage) -> Kind:
    assert spent.cause is not None, "it is over"
    return Kind(
        spent.user,
        spent.tenant_id,
        spent.priority_class.value,
        spent.pool,
        spent.gpu_type,
        spent.cause.value,
        spent.used_cpu_ms is not None,
        spent.used_gpu_ms is not None,
    )
