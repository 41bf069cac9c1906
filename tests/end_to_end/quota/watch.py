"""What a database says of quotas at one committed moment, read without a line of the product's code.

The numbers of the ledger and the tasks that live are read in one snapshot. What no reader may happen to see
is kept by the database itself: a trigger writes down every update that puts a tenant beyond a limit, in the
transaction that does it.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Self

import psycopg

AMOUNTS = ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli")
ON_A_NODE = {"scheduled", "running"}
QUEUE = "queue"

Rows = Sequence[Sequence[Any]]
Query = Callable[[str], Rows]

_EACH = ", ".join(f"{name}_limit, {name}_used, {name}_burst" for name in AMOUNTS)
TENANTS = f"""
SELECT tenant_id, over_quota, {_EACH}, running_limit, running, waiting, gpu_ms_limit, gpu_ms_used FROM tenants
"""
LINES = "SELECT tenant_id, name, most, used, burst FROM quota_lines"
TASKS = """
SELECT jobs.tenant_id, tasks.job_id, tasks.status, tasks.standing, tasks.attempts, tasks.request,
  tasks.reserved_gpu_ms
FROM tasks JOIN jobs ON jobs.job_id = tasks.job_id
WHERE tasks.status IN ('pending', 'preempted', 'scheduled', 'running')
"""


class Task(NamedTuple):
    tenant_id: str
    job_id: int
    status: str
    standing: str
    attempts: int
    request: dict[str, Any]
    reserved_gpu_ms: int

    @property
    def is_on_a_node(self) -> bool:
        return self.status in ON_A_NODE

    def asks(self, dimension: str) -> int:
        """Of a basic one, or of `gpu:model`; no job of this proof asks in any other way."""
        if dimension in AMOUNTS:
            return int(self.request.get(dimension, 0))
        named = str(self.request.get("gpu_type") or "").lower()
        return self.asks("gpu_milli") if dimension.removeprefix("gpu:") in named else 0


class Line(NamedTuple):
    """One number of the ledger that has a limit and a burst."""

    limit: int | None
    used: int
    burst: int


@dataclass(slots=True)
class Account:
    tenant_id: str
    queues: bool
    running_limit: int | None
    running: int
    waiting: int
    gpu_ms_limit: int | None
    gpu_ms: int
    lines: dict[str, Line] = field(default_factory=dict)

    def __contains__(self, task: Task) -> bool:
        return f"{task.tenant_id}/".startswith(f"{self.tenant_id}/")


class Moment:
    """One snapshot."""

    def __init__(self, tenants: Rows, lines: Rows, tasks: Rows) -> None:
        self.accounts = {row[0]: _account(row) for row in tenants}
        for tenant_id, name, *numbers in lines:
            self.accounts[tenant_id].lines[name] = Line(*numbers)
        self.tasks = [Task(*row[:5], json.loads(row[5]), row[6]) for row in tasks]

    def wrong(self) -> list[str]:
        """What must never be seen."""
        return [
            f"{account.tenant_id}: {what}"
            for account in self.accounts.values()
            for what in self._wrong(account)
        ]

    def _wrong(self, account: Account) -> Iterator[str]:
        tasks = [task for task in self.tasks if task in account]
        for name, line in account.lines.items():
            charged = sum(task.asks(name) for task in tasks if task.standing == "charged")
            burst = sum(task.asks(name) for task in tasks if task.standing == "burst")
            if (line.used, line.burst) != (charged, burst):
                yield f"{name} is {line.used} and {line.burst}, and what lives {charged} and {burst}"
            if line.limit is not None and (line.used > line.limit or line.burst > line.limit / 2):
                yield f"{name} is {line.used} and {line.burst} of {line.limit}"
        counted = (account.running, account.waiting)
        true = (sum(task.is_on_a_node for task in tasks), sum(not task.is_on_a_node for task in tasks))
        if counted != true:
            yield f"running and waiting are {counted} instead of {true}"
        if account.running_limit is not None and account.running > account.running_limit:
            yield f"{account.running} run, and {account.running_limit} may"
        if account.gpu_ms_limit is not None and account.gpu_ms > account.gpu_ms_limit:
            yield f"{account.gpu_ms} GPU-ms of {account.gpu_ms_limit}"
        if (reserved := sum(task.reserved_gpu_ms for task in tasks)) > account.gpu_ms:
            yield f"{reserved} GPU-ms are reserved and {account.gpu_ms} counted"
        yield from (what for task in tasks if (what := _wrong_standing(account, task)) is not None)

    def standings(self) -> Counter[str]:
        """What was there to be seen."""
        found = Counter(task.standing for task in self.tasks)
        for account in self.accounts.values():
            found.update(f"full {name}" for name, line in account.lines.items() if line.used == line.limit)
        return found


def _account(row: Sequence[Any]) -> Account:
    tenant_id, over_quota, *numbers = row
    running_limit, running, waiting, gpu_ms_limit, gpu_ms = numbers[-5:]
    account = Account(tenant_id, over_quota == QUEUE, running_limit, running, waiting, gpu_ms_limit, gpu_ms)
    for at, name in enumerate(AMOUNTS):
        account.lines[name] = Line(*numbers[3 * at : 3 * at + 3])
    return account


def _wrong_standing(account: Account, task: Task) -> str | None:
    """What has a node is charged or on the burst; with `queue` nothing else is charged, unless it had one."""
    if task.is_on_a_node and task.standing == "held":
        return f"{task.job_id} has a node and is held"
    if not task.is_on_a_node and task.standing == "burst":
        return f"{task.job_id} has no node and is on the burst"
    if account.queues and task.standing == "charged" and not task.attempts:
        return f"{task.job_id} was charged before it had a node"
    return None


_BEYOND = " OR ".join(
    [f"NEW.{name}_used > NEW.{name}_limit" for name in AMOUNTS]
    + [f"NEW.{name}_burst * 2 > NEW.{name}_limit" for name in AMOUNTS]
    + ["NEW.running > NEW.running_limit", "NEW.gpu_ms_used > NEW.gpu_ms_limit"]
)
_LINE_BEYOND = "NEW.used > NEW.most OR NEW.burst * 2 > NEW.most"
_WATCHED = (("tenants", _BEYOND), ("quota_lines", _LINE_BEYOND))
_BOOK = "CREATE TABLE seen_beyond (tenant_id text)"
_WRITE = "INSERT INTO seen_beyond VALUES (NEW.tenant_id);"


class Database:
    """Where tgpu keeps its state, as somebody sees it who only looks."""

    def __init__(
        self, query: Query, snapshot: Callable[[], AbstractContextManager[None]], witness: Sequence[str]
    ) -> None:
        self._snapshot, self.query = snapshot, query
        self._one_at_a_time = Lock()
        for statement in (_BOOK, *witness):
            query(statement)

    def moment(self) -> Moment:
        with self._one_at_a_time, self._snapshot():
            return Moment(self.query(TENANTS), self.query(LINES), self.query(TASKS))

    def beyond(self) -> list[str]:
        """The tenants of which the database itself has seen too much, ever."""
        return [row[0] for row in self.query("SELECT tenant_id FROM seen_beyond")]


@contextmanager
def postgres(url: str) -> Iterator[Database]:
    function = (
        "CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {_WRITE} RETURN NULL; END $$"
    )
    triggers = [
        f"CREATE TRIGGER watch_{table} AFTER INSERT OR UPDATE ON {table} FOR EACH ROW WHEN ({beyond}) "
        f"EXECUTE FUNCTION write_down()"
        for table, beyond in _WATCHED
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def query(statement: str) -> Rows:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        @contextmanager
        def snapshot() -> Iterator[None]:
            with connection.transaction():
                yield

        yield Database(query, snapshot, [function, *triggers])


@contextmanager
def sqlite(path: Path) -> Iterator[Database]:
    triggers = [
        f"CREATE TRIGGER watch_{table}_{verb} AFTER {verb} ON {table} WHEN {beyond} BEGIN {_WRITE} END"
        for table, beyond in _WATCHED
        for verb in ("INSERT", "UPDATE")
    ]
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)

    def query(statement: str) -> Rows:
        return connection.execute(statement).fetchall()

    @contextmanager
    def snapshot() -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    try:
        yield Database(query, snapshot, triggers)
    finally:
        connection.close()


class Onlooker:
    """Looks at one moment after the other, as fast as it can."""

    def __init__(self, database: Database) -> None:
        self._database, self._over = database, Event()
        self.looks = 0
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                moment = self._database.moment()
                self.wrong += moment.wrong()
            except Exception as error:  # noqa: BLE001  who cannot look has seen nothing, and must say so
                self.wrong.append(repr(error))
                return
            self.seen.update(moment.standings().keys())
            self.looks += 1
