import importlib
import pkgutil

import pytest

import tgpu.store.sql
from tgpu.store import postgres_session, sqlite_session
from tgpu.store.sql.session import Query


def queries() -> dict[str, Query]:
    found: dict[str, Query] = {}
    for module in pkgutil.iter_modules(tgpu.store.sql.__path__, "tgpu.store.sql."):
        for name, thing in vars(importlib.import_module(module.name)).items():
            several = thing.values() if isinstance(thing, dict) and name.isupper() else [thing]
            found |= {f"{module.name}.{name}": query for query in several if isinstance(query, Query)}
    return found


def test_there_are_queries_to_look_at() -> None:
    assert len(queries()) > 30


@pytest.mark.parametrize("query", queries().values(), ids=queries().keys())
def test_every_query_has_a_sentence_and_is_understood_by_both_databases(query: Query) -> None:
    assert query.sentence[0].isupper()
    assert query.sentence.endswith(".")
    assert query.text(sqlite_session.DIALECT)
    assert query.text(postgres_session.DIALECT)
