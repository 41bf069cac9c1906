import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, update

from tgpu.store.sql.session import Query, Values, constant, value
from tgpu.store.sqlite_session import SqliteSession

things = Table(
    "things",
    MetaData(),
    Column("thing_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("size", Integer),
)
ADD = Query("Adds a thing.", insert(things))
ALL = Query("Every thing.", select(things).order_by(things.c.thing_id))
ONE = Query("A thing by its number.", select(things.c.name).where(things.c.thing_id == value("wanted")))
BETWEEN = Query(
    "The first things of a size, or of none, from one number on.",
    select(things.c.thing_id)
    .where(things.c.thing_id >= value("low"), (things.c.size == value("wanted")) | things.c.size.is_(None))
    .where(things.c.thing_id < value("low") + constant(10))
    .order_by(things.c.thing_id)
    .limit(value("most"))
    .offset(constant(0)),
)
GROW = Query(
    "Gives a thing another size, unless it has that.",
    update(things)
    .values(size=value("new_size"))
    .where(things.c.thing_id == value("wanted"), things.c.size.is_distinct_from(value("new_size"))),
)


@pytest.fixture
def session() -> Iterator[SqliteSession]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE things (thing_id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER)")
    session = SqliteSession(connection)
    yield session
    session.close()
    connection.close()


def rows(count: int) -> list[Values]:
    """Written in another order than the columns have, and with more than is asked for."""
    return [
        {"size": number % 3 or None, "beside": "the point", "name": f"n{number}", "thing_id": number}
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 63, 64, 65, 127, 200])
def test_however_many_rows_are_added_each_is_there_once_and_whole(session: SqliteSession, count: int) -> None:
    session.change_many(ADD, rows(count))
    assert session.rows(ALL) == [(number, f"n{number}", number % 3 or None) for number in range(count)]


def test_a_row_that_cannot_be_added_takes_those_of_its_statement_with_it(session: SqliteSession) -> None:
    session.change_many(ADD, rows(3))
    with pytest.raises(sqlite3.IntegrityError):
        session.change_many(ADD, [{"thing_id": 9, "name": "new", "size": None}, rows(3)[1]])
    assert len(session.rows(ALL)) == 3


def test_values_find_their_places_however_often_each_is_used(session: SqliteSession) -> None:
    session.change_many(ADD, rows(30))
    assert session.rows(BETWEEN, most=3, wanted=2, low=10) == [(11,), (12,), (14,)]
    assert session.row(ONE, wanted=17) == ("n17",)
    assert session.row(ONE, wanted=99) is None
    assert [row[0] for row in session.stream(ALL)] == list(range(30))


def test_what_changed_is_counted_alone_and_together(session: SqliteSession) -> None:
    session.change_many(ADD, rows(4))
    assert session.change(GROW, wanted=1, new_size=1) == 0
    changes: list[Values] = [{"wanted": number, "new_size": 2} for number in range(4)]
    assert session.change_each(GROW, changes) == [True, True, False, True]
    session.change_all(GROW, [{"wanted": 0, "new_size": 5}, {"wanted": 3, "new_size": 6}])
    assert session.rows(ALL) == [(0, "n0", 5), (1, "n1", 2), (2, "n2", 2), (3, "n3", 6)]


def test_a_value_that_is_missing_is_not_taken_for_nothing(session: SqliteSession) -> None:
    with pytest.raises(KeyError):
        session.change_many(ADD, [{"thing_id": 1, "name": "without a size"}])
    assert session.rows(ALL) == []
