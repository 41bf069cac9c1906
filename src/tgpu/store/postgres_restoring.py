"""A PostgreSQL database that was put back with its own means: made ready for servers and nodes that have seen
more than it knows."""

import psycopg

from tgpu.store.port import StoreUnusableError
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import MIGRATING, connect
from tgpu.store.postgres_errors import cannot_open
from tgpu.store.postgres_schema import OPENING_LOCK, make_ready
from tgpu.store.postgres_session import PostgresSession
from tgpu.store.sql import facts, lease, restoring
from tgpu.store.sql.restoring import GivenOut
from tgpu.store.sql.session import Session


def mark_restored(url: str) -> GivenOut:
    """From where on it counts. Raises StoreUnusableError (as while a server leads), StoreUnavailableError."""
    address = PostgresAddress.parse(url)
    make_ready(address, Patience(), "")
    try:
        connection = connect(address, Patience(), MIGRATING, name="tgpu restore", autocommit=False)
        try:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (OPENING_LOCK,))
            session = PostgresSession(connection)
            leader = lease.leader(session)
            if leader is not None and leader.alive:
                raise StoreUnusableError(
                    f"a server leads on {address.shown}: stop all servers first, then put the database back"
                )
            now_ms = facts.facts(session).clock_ms
            restoring.mark(session, now_ms, _copied_ms(session), None)
            counts_from = restoring.given_out(session)
            session.close()
            connection.commit()
            return counts_from
        finally:
            connection.close()
    except psycopg.Error as error:
        raise cannot_open(error, address) from error


def _copied_ms(session: Session) -> int | None:
    """The earlier of two clocks' words: a server whose clock is ahead writes events of the future."""
    said = (restoring.newest_event_ms(session), restoring.last_seen_ms(session))
    return min((at_ms for at_ms in said if at_ms is not None), default=None)
