"""The database's own clock, in milliseconds, as each dialect spells it."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class NowMs(FunctionElement[int]):
    """The moment at which the statement began: one that had to wait for a lock counts from before."""

    type = BigInteger()
    inherit_cache = True


@compiles(NowMs, "sqlite")
def _on_sqlite(_element: NowMs, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401  as the hook has it
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


@compiles(NowMs, "postgresql")
def _on_postgresql(_element: NowMs, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401  as the hook has it
    return "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)"
