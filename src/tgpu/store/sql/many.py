"""A statement for one set of values, made into one statement for many sets.

Each place that a run fills becomes a column of a table that is handed over as JSON text: one parameter, one
round trip and one plan, however many sets there are. It is written for PostgreSQL.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    BindParameter,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    insert,
    select,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.selectable import TableValuedAlias

from tgpu.store.sql.session import Query, Values

GIVEN = "given"
"""The name of the one parameter."""

_NTH = "nth"
_encode = msgspec.json.Encoder().encode


def text_for_many(query: Query, dialect: Dialect) -> str:
    """Of an INSERT, an UPDATE or a SELECT. The last column of each row that it gives back is the number of
    the set of values that the row belongs to; an INSERT gives back nothing."""
    compiled = query.compiled(dialect)
    places = {name: bind for name, bind in compiled.binds.items() if not bind.literal_execute}
    assert not any(isinstance(bind.type, LargeBinary) for bind in places.values()), "JSON has no bytes"
    given = _given(places)
    return Query(query.sentence, _with_columns_for_places(query.core, places, given)).text(dialect)


def _given(places: dict[str, BindParameter[Any]]) -> TableValuedAlias:
    columns = [column(name, bind.type) for name, bind in places.items()]
    text = cast(bindparam(GIVEN, type_=Text(), required=False), JSON)
    rows = func.json_to_recordset(text).table_valued(*columns, column(_NTH, Integer), name=GIVEN)
    return rows.render_derived(name=GIVEN, with_types=True)


def _with_columns_for_places(
    core: object, places: dict[str, BindParameter[Any]], given: TableValuedAlias
) -> Insert | Update | Select[Any]:
    def column_for(element: object, **_: object) -> object | None:
        if isinstance(element, BindParameter) and element.key in places:
            return given.c[element.key]
        return None

    if isinstance(core, Insert):
        return insert(core.table).from_select([*places], select(*(given.c[name] for name in places)))
    assert isinstance(core, Update | Select), "only these are written for many"
    replaced = visitors.replacement_traverse(core, {}, column_for)
    nth = given.c[_NTH]
    if isinstance(replaced, Update):
        return replaced.returning(nth)
    assert isinstance(replaced, Select)
    return replaced.add_columns(nth)


def as_given(rows: Sequence[Values]) -> str:
    """Numbered from zero. PostgreSQL's text cannot hold the character NUL: it becomes one that shows."""
    encoded = _encode([{_NTH: number, **values} for number, values in enumerate(rows)]).decode()
    if "\\u0000" in encoded:
        shown = [{_NTH: number, **without_nul(values)} for number, values in enumerate(rows)]
        return _encode(shown).decode()
    return encoded


def without_nul(values: Values) -> Values:
    return {
        name: given.replace("\0", "\ufffd") if isinstance(given, str) else given
        for name, given in values.items()
    }
