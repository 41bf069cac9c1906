"""A session on SQLite: values go by their place, and an insert takes many rows at once.

Python's driver lets go of the interpreter at every step of a statement, and for every value that is given by
name; while other threads are busy, getting it back costs more than the step.
"""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import Insert
from sqlalchemy.dialects import sqlite

from tgpu.store.sql.session import Cursor, Query, Row, Session, Values

DIALECT = sqlite.dialect(paramstyle="qmark")
_MOST_ROWS = 64
"""In one insert. What is left goes by halves of that: a text for each number of rows would be too many."""


class _Prepared(NamedTuple):
    text: str
    pick: Callable[[Values], Row]
    """Takes what the statement needs out of the values it is given, in its order."""


_texts: dict[Query, str] = {}
_prepared: dict[Query, _Prepared] = {}


class SqliteSession(Session):
    __slots__ = ()

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, DIALECT, _texts)

    def change_many(self, query: Query, rows: Sequence[Values]) -> None:
        text, pick = self._prepare(query)
        picked = [pick(values) for values in rows]
        if not isinstance(query.core, Insert):
            self._cursor.executemany(text, picked)
            return
        places = text.rpartition(" VALUES ")[2]
        done = 0
        while done < len(picked):
            count = min(_MOST_ROWS, 1 << (len(picked) - done).bit_length() - 1)
            together = tuple(chain.from_iterable(picked[done : done + count]))
            self._cursor.execute(text + f", {places}" * (count - 1), together)
            done += count

    def _run(self, cursor: Cursor, query: Query, values: Values) -> None:
        text, pick = self._prepare(query)
        cursor.execute(text, pick(values))

    def _prepare(self, query: Query) -> _Prepared:
        prepared = _prepared.get(query)
        if prepared is None:
            names = query.compiled(DIALECT).positiontup or ()
            prepared = _prepared[query] = _Prepared(self._text(query), _picking(names))
        return prepared


def _picking(names: Sequence[str]) -> Callable[[Values], Row]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)
