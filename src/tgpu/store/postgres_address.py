"""Where a PostgreSQL database is, and how long anybody waits for it."""

from dataclasses import dataclass, field, replace
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tgpu.store.port import StoreUnusableError

_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Patience:
    """Every wait has an end, and each is told before the next one: a stuck transaction is ended by the
    database before others give up waiting for its locks, and a statement before whoever sent it stops
    listening."""

    connect_s: int = 5
    idle_in_transaction_s: float = 2.0
    """After which a writer that is stuck itself loses its locks: a leader that hangs holds up submissions
    through the other servers for so long."""
    lock_s: float = 10.0
    statement_s: float = 15.0
    answer_s: float = 20.0
    """After which a database that says nothing counts as gone."""
    reading_s: float = 40.0
    """The longest statement of a reader: everything that is live."""

    def of_a_reader(self) -> "Patience":
        return replace(
            self, statement_s=self.reading_s, answer_s=self.reading_s + self.answer_s - self.statement_s
        )


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    parameters: dict[str, str] = field(repr=False)  # among them the password
    shown: str
    """For people; without the password."""
    database: str
    user: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises StoreUnusableError."""
        if not url.startswith(_SCHEMES):
            raise StoreUnusableError("the address of a PostgreSQL database begins with postgresql://")
        try:
            given = {name: str(said) for name, said in conninfo_to_dict(url).items() if said is not None}
            list(map(int, given.get("port", "0").split(",")))
        except (psycopg.Error, ValueError):
            # What the library says repeats the address, and with it the password.
            raise StoreUnusableError(
                "the database's address is not understood: write postgresql://user:password@host:5432/name,"
                " with"
                " %-escapes for signs such as @ : / in the password"
            ) from None
        user = given.get("user", "")
        database = given.get("dbname", user)
        where = given.get("host", given.get("hostaddr", ""))
        port = f":{given['port']}" if "port" in given else ""
        return cls(given, f"postgresql://{user}{'@' if user else ''}{where}{port}/{database}", database, user)
