"""What PostgreSQL's errors mean for whoever runs the server, and what they can do about it."""

import psycopg
from psycopg import errors

from tgpu.store.port import StoreFullError, StoreUnavailableError, StoreUnusableError
from tgpu.store.postgres_address import PostgresAddress

_PASSING = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,  # another server was first: whoever looks again finds what it wrote
    errors.IdleInTransactionSessionTimeout,  # no CPU for seconds: the database rolled back
)

# How a database refuses a connection is told in words alone, without a code.
_REFUSALS = {
    "password authentication failed": "{shown} refuses the user {user!r} or its password: check both in the"
    " database's address",
    "no password supplied": "{shown} asks for a password: write it into the database's address, or name a"
    " file"
    " with it in PGPASSFILE",
    "no pg_hba.conf entry": "{shown} lets nobody in from here as {user!r}: add a line for this host and user"
    " to"
    " its pg_hba.conf",
    "role ": "{shown} knows no user {user!r}: create it with createuser, or name another in the database's"
    " address",
    "database ": "there is no database {database!r} at {shown}: create it with createdb, or name another",
    "permission denied for database": "{user!r} may not connect to {shown}: GRANT CONNECT ON DATABASE to it",
    "server does not support SSL": "{shown} does not speak TLS: switch it on there, or leave sslmode out of"
    " the"
    " address",
    "SSL": "no TLS connection to {shown} comes about ({said}): check sslmode and the certificates",
}
_WORDS_THAT_GO_WITH = {"role ": "does not exist", "database ": "does not exist"}
_ADVICE: dict[type[psycopg.Error], str] = {
    errors.DiskFull: "the disk of the database {shown} is full: free some room there and try again",
    errors.IoError: "the disk of the database {shown} reports an error: look at that machine's kernel log",
    errors.TooManyConnections: "{shown} has no connection left: raise its max_connections, or stop other"
    " programs"
    " that use it",
    errors.OutOfMemory: "the database {shown} has no memory left: free some on its machine and try again",
    errors.ReadOnlySqlTransaction: "{shown} is a standby and cannot be written: name the primary, or list"
    " all hosts"
    " and add target_session_attrs=read-write",
    errors.InsufficientPrivilege: "{user!r} lacks rights in {shown} ({said}): make it the owner of the"
    " database with"
    " ALTER DATABASE {database} OWNER TO {user}",
    errors.QueryCanceled: "{shown} took too long over a statement: look whether it is overloaded, or a lock"
    " is held",
    errors.LockNotAvailable: "another program holds locks in {shown} for too long: look at pg_locks there",
    errors.DeadlockDetected: "other programs lock rows of {shown} crosswise: let only tgpu use that database",
}
_GONE = (
    "the database {shown} cannot be reached ({said}): check that PostgreSQL runs and that this machine can"
    " connect"
    " to it"
)
_COMES_BACK = "; the server goes on by itself when it is back"


def is_passing(error: Exception) -> bool:
    """The whole transaction may be run again."""
    return isinstance(error, _PASSING)


def is_trouble(error: Exception) -> bool:
    """It concerns the database rather than one request."""
    return isinstance(error, psycopg.Error) and not isinstance(
        error, psycopg.DataError | psycopg.IntegrityError
    )


def _advice(error: Exception) -> str:
    return next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), _GONE)


def unavailable(
    error: Exception, address: PostgresAddress, *, in_doubt: bool = False
) -> StoreUnavailableError:
    """For a server that works on it. `in_doubt`: the commit was sent and no answer came."""
    text = _advice(error)
    why = _filled(text + _COMES_BACK if text is _GONE else text, error, address)
    outcome = (
        "whether the change was made is not known: look before asking again, or repeat it with the same key"
        if in_doubt
        else "nothing was changed"
    )
    kind = StoreFullError if isinstance(error, errors.DiskFull) else StoreUnavailableError
    return kind(why, outcome)


def cut_off(error: Exception, address: PostgresAddress) -> StoreUnavailableError:
    """For who worked on it, and was no server."""
    return StoreUnavailableError(_filled(_advice(error), error, address))


def cannot_open(error: Exception, address: PostgresAddress) -> StoreUnusableError | StoreUnavailableError:
    """The second if it may pass by itself."""
    words = str(error)
    for sign, text in _REFUSALS.items():
        if sign in words and _WORDS_THAT_GO_WITH.get(sign, "") in words:
            return StoreUnusableError(_filled(text, error, address))
    if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
        return StoreUnusableError(_filled(_advice(error), error, address))
    return cut_off(error, address)


def _filled(text: str, error: Exception, address: PostgresAddress) -> str:
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.format(shown=address.shown, user=address.user, database=address.database, said=said)
