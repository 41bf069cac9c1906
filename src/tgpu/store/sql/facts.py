"""What the database says of itself."""

from typing import Any

from sqlalchemy import Text, column, select, table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from tgpu.store.cluster_port import StoreFacts
from tgpu.store.revision import HEAD
from tgpu.store.sql.clock import NowMs
from tgpu.store.sql.session import Query, Session


class Program(FunctionElement[str]):
    """The program behind the database, and its version."""

    type = Text()
    inherit_cache = True


@compiles(Program, "sqlite")
def _on_sqlite(_element: Program, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401  as the hook has it
    return "'SQLite ' || sqlite_version()"


@compiles(Program, "postgresql")
def _on_postgresql(_element: Program, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401  as the hook has it
    return "'PostgreSQL ' || current_setting('server_version')"


FACTS = Query(
    "The program, the revision of the tables, and the time.",
    select(Program(), column("version_num"), NowMs()).select_from(table("alembic_version")),
)


def facts(session: Session) -> StoreFacts:
    program, revision, clock_ms = session.the_row(FACTS)
    return StoreFacts(program, revision, HEAD, clock_ms)
