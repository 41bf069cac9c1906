"""A session on PostgreSQL: what concerns many rows is one statement, and one round trip."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from tgpu.store.postgres_connection import BoundedConnection
from tgpu.store.sql.many import GIVEN, as_given, text_for_many, without_nul
from tgpu.store.sql.session import Cursor, Query, Row, Session, Values

DIALECT = PGDialect_psycopg(paramstyle="pyformat")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it so

_texts: dict[Query, str] = {}
_many_texts: dict[Query, str] = {}


class PostgresSession(Session):
    __slots__ = ()

    def __init__(self, connection: BoundedConnection) -> None:
        super().__init__(connection, DIALECT, _texts)

    def change_many(self, query: Query, rows: Sequence[Values]) -> None:
        self._run_for_many(query, rows)

    def change_each(self, query: Query, rows: Sequence[Values]) -> list[bool]:
        if len(rows) == 1:
            return super().change_each(query, rows)
        changed = [False] * len(rows)
        for row in self._given_back(query, rows):
            changed[row[-1]] = True
        return changed

    def row_each(self, query: Query, rows: Sequence[Values]) -> list[Row | None]:
        if len(rows) == 1:
            return super().row_each(query, rows)
        found: list[Row | None] = [None] * len(rows)
        for row in self._given_back(query, rows):
            found[row[-1]] = row[:-1]
        return found

    def hold(self, query: Query, rows: Sequence[Values]) -> None:
        if len(rows) == 1:
            self.row(query, **rows[0])
        elif rows:
            self._run_for_many(query, rows)

    def _given_back(self, query: Query, rows: Sequence[Values]) -> list[Any]:
        if not rows:
            return []
        self._run_for_many(query, rows)
        return self._cursor.fetchall()

    def _run(self, cursor: Cursor, query: Query, values: Values) -> None:
        super()._run(cursor, query, without_nul(values))

    def _run_for_many(self, query: Query, rows: Sequence[Values]) -> None:
        text = _many_texts.get(query)
        if text is None:
            text = _many_texts[query] = text_for_many(query, DIALECT)
        self._cursor.execute(text, {GIVEN: as_given(rows)})
