"""Connections to PostgreSQL on which no wait is endless."""

from collections.abc import Mapping
from typing import TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.types.numeric import Int8Dumper

from tgpu.store.postgres_address import Patience, PostgresAddress

RV = TypeVar("RV")

_PROBE_S, _PROBES = 5, 3

MIGRATING = {
    "default_transaction_isolation": "read committed",  # each statement sees what was committed before it
}
# A plan that was made while a table was small would scan it when it is large.
_BY_KEYS_ONLY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
WRITING = {**MIGRATING, **_BY_KEYS_ONLY}
READING = {
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    # What is asked for differs from time to time, and with it the best way to find it.
    "plan_cache_mode": "force_custom_plan",
    "idle_in_transaction_session_timeout": "60s",  # it holds no locks, and may have much to unpack
}
FOLLOWING = {
    **READING,
    **_BY_KEYS_ONLY,
    # The same few statements in every turn, each for a handful of rows: to plan them would take longer.
    "plan_cache_mode": "force_generic_plan",
}


class BoundedConnection(psycopg.Connection[tuple[object, ...]]):
    """Gives up on a database that does not answer: a timeout of the database's own helps only while that
    runs."""

    answer_s: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        return super().wait(gen, interval, self.answer_s if timeout is None else timeout)


def connect(
    address: PostgresAddress,
    patience: Patience,
    settings: Mapping[str, str],
    *,
    name: str,
    autocommit: bool = True,
) -> BoundedConnection:
    """`settings` are those of the session; `name` is what administrators see. Raises psycopg.Error."""
    parameters: dict[str, object] = {
        "connect_timeout": patience.connect_s,
        "application_name": name,
        "keepalives_idle": _PROBE_S,
        "keepalives_interval": _PROBE_S,
        "keepalives_count": _PROBES,
        "tcp_user_timeout": int(patience.answer_s * 1000),
        **address.parameters,
        "client_encoding": "utf8",
    }
    connection = BoundedConnection.connect(autocommit=True, **parameters)  # type: ignore[arg-type]  # as libpq has them
    try:
        _refuse_standby(connection)
        connection.answer_s = patience.answer_s
        connection.adapters.register_dumper(int, Int8Dumper)  # one type, hence one plan, for small and large
        connection.execute(_settings(patience, settings))
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_standby(connection: BoundedConnection) -> None:
    """What is read there may be older than what was answered."""
    if connection.info.parameter_status("in_hot_standby") == "on":
        raise errors.ReadOnlySqlTransaction("it follows another server")


def _settings(patience: Patience, more: Mapping[str, str]) -> bytes:
    """All in one go, before anything else."""
    said = {
        "statement_timeout": _ms(patience.statement_s),
        "lock_timeout": _ms(patience.lock_s),
        "idle_in_transaction_session_timeout": _ms(patience.idle_in_transaction_s),
        "tcp_keepalives_idle": str(_PROBE_S),
        "tcp_keepalives_interval": str(_PROBE_S),
        "tcp_keepalives_count": str(_PROBES),
        "jit": "off",  # compiling takes longer than any statement here
        "max_parallel_workers_per_gather": "0",  # so does starting a worker
        **more,
    }
    # An answer is given after its commit: whoever runs the database may ask for more than that, not for less.
    durable = (
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )
    return "; ".join([*(f"SET {name} = '{value}'" for name, value in said.items()), durable]).encode()


def _ms(seconds: float) -> str:
    return f"{int(seconds * 1000)}ms"
