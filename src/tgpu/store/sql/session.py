"""Core statements on a bare DBAPI cursor: each is compiled once per dialect and then costs only its run.

Going through SQLAlchemy's connection costs about 80 µs a statement; this way it is about 10 µs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sqlalchemy import BindParameter, Executable, bindparam, literal
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Row = tuple[Any, ...]
Values = dict[str, object]


class Cursor(Protocol):
    """The part of a DBAPI cursor that is used here."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Any = ..., /) -> object: ...  # noqa: ANN401  as DBAPI has it
    def executemany(self, sql: str, parameters: Any, /) -> object: ...  # noqa: ANN401  as DBAPI has it
    def fetchone(self) -> Any: ...  # noqa: ANN401  as DBAPI has it
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def close(self) -> None: ...


class Connection(Protocol):
    def cursor(self) -> Cursor: ...


class Query:
    """One statement with the sentence that says what it is for."""

    __slots__ = ("_columns", "core", "sentence")

    def __init__(self, sentence: str, core: Executable, columns: Sequence[str] | None = None) -> None:
        """`columns`: which ones an INSERT fills; all of them unless said."""
        self.sentence, self.core, self._columns = sentence, core, columns

    def text(self, dialect: Dialect) -> str:
        return str(self.compiled(dialect))

    def compiled(self, dialect: Dialect) -> SQLCompiler:
        assert isinstance(self.core, ClauseElement)
        compiled = self.core.compile(
            dialect=dialect, column_keys=self._columns, compile_kwargs={"render_postcompile": True}
        )
        assert isinstance(compiled, SQLCompiler)
        given = [
            name
            for bind, name in compiled.bind_names.items()
            if not (bind.required or bind.literal_execute or bind.value is None)
        ]
        assert not given, f"constants must be written with `constant()`, or a run would lack {given}"
        return compiled


def value(name: str, type_: TypeEngine[Any] | None = None) -> BindParameter[Any]:
    """A place that each run fills."""
    return bindparam(name, type_=type_, required=False)


def constant(fixed: str | int) -> BindParameter[Any]:
    """A value that is part of the text, so that the planner can match it with a partial index."""
    return literal(str(fixed) if isinstance(fixed, str) else fixed, literal_execute=True)


class Session:
    """What a transaction's code holds: one cursor, and the texts of its dialect."""

    __slots__ = ("_connection", "_cursor", "_dialect", "_streams", "_texts", "wrote_events")

    def __init__(self, connection: Connection, dialect: Dialect, texts: dict[Query, str]) -> None:
        self._connection, self._dialect, self._texts = connection, dialect, texts
        self._cursor = connection.cursor()
        self._streams: list[Cursor] = []
        self.wrote_events = False
        """Whether the transaction under way adds to the feed; whoever begins transactions resets it."""

    def change(self, query: Query, **values: object) -> int:
        """How many rows it changed."""
        self._run(self._cursor, query, values)
        return self._cursor.rowcount

    def change_many(self, query: Query, rows: Sequence[Values]) -> None:
        self._cursor.executemany(self._text(query), rows)

    def change_all(self, query: Query, rows: Sequence[Values]) -> None:
        """Each of them changes one row: whoever calls has seen to it. No two may concern the same one."""
        if len(rows) == 1:
            changed = self.change(query, **rows[0])
        else:
            self.change_many(query, rows)
            changed = self._cursor.rowcount
        assert changed == len(rows), query.sentence

    def change_each(self, query: Query, rows: Sequence[Values]) -> list[bool]:
        """For each of them whether it changed something. No two may concern the same row of the table: a
        database may run them in any order, or as one statement."""
        return [self.change(query, **values) > 0 for values in rows]

    def row_each(self, query: Query, rows: Sequence[Values]) -> list[Row | None]:
        """The row that each of them finds or changes, under the same condition."""
        return [self.row(query, **values) for values in rows]

    def hold(self, query: Query, rows: Sequence[Values]) -> None:
        """Locks what `query` finds until the transaction ends, in its order: what is read of it afterwards
        still holds when it is written. A database with one writer has nothing to lock."""

    def row(self, query: Query, **values: object) -> Row | None:
        self._run(self._cursor, query, values)
        found = self._cursor.fetchall()  # all: one that is not run to its end would keep the transaction open
        return found[0] if found else None

    def the_row(self, query: Query, **values: object) -> Row:
        """The row of a query that always has one."""
        row = self.row(query, **values)
        assert row is not None, query.sentence
        return row

    def rows(self, query: Query, **values: object) -> list[Row]:
        self._run(self._cursor, query, values)
        return self._cursor.fetchall()

    def rows_once(self, query: Query, values: Values) -> list[Row]:
        """The same of a statement that is made for one run: nothing of it is kept."""
        compiled = query.compiled(self._dialect)
        names = compiled.positiontup
        given = values if names is None else tuple(values[name] for name in names)
        self._cursor.execute(str(compiled), given)
        return self._cursor.fetchall()

    def stream(self, query: Query, **values: object) -> Iterator[Row]:
        """Rows as they are found; several streams may be open at once, until `end_streams`."""
        cursor = self._connection.cursor()
        self._streams.append(cursor)
        self._run(cursor, query, values)
        return iter(cursor)

    def end_streams(self) -> None:
        """An open stream would hold on to the moment it was begun in."""
        for cursor in self._streams:
            cursor.close()
        self._streams.clear()

    def close(self) -> None:
        """To be called before the connection is closed: a cursor that is left would keep it open."""
        self.end_streams()
        self._cursor.close()

    def _run(self, cursor: Cursor, query: Query, values: Values) -> None:
        cursor.execute(self._text(query), values)

    def _text(self, query: Query) -> str:
        text = self._texts.get(query)
        if text is None:
            text = self._texts[query] = query.text(self._dialect)
        return text
