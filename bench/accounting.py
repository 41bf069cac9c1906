"""How long `tgpu report` takes over a million attempts that are over, on SQLite and on PostgreSQL.

The attempts are those of a month: 200 users in 200 tenants, 500 nodes, minutes to days long, written straight
into the table `usage` of a new installation. Then the wall time of the whole command is taken (interpreter,
request, report, output into a pipe), the median of 3 for each kind of report. The baseline is a bare
`SELECT "user", sum(gpu_milli * (ended_ms - started_ms)) … GROUP BY "user"` on a connection to the same
database. With --quick there are 100,000 attempts.
"""

import asyncio
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psycopg

from installation import TGPU, Installation
from report import Case, arguments, at_most, emit
from tgpu.store.sqlite import SqliteStore
from tgpu.store.tables import usage, usage_kinds

sys.path.append(str(Path(__file__).parents[1]))  # the tests know how to run a PostgreSQL
from tests.postgres_server import a_server

ATTEMPTS, QUICK_ATTEMPTS = 1_000_000, 100_000
TIMES = 3
GOAL_S = 3.0
DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS
KINDS = {
    "user": ("--by", "user"),
    "tenant": ("--by", "tenant"),
    "pool_and_gpu_type": ("--by", "pool,gpu-type"),
    "day": ("--by", "day"),
    "one_user": ("--by", "tenant", "--user", "user7"),
}
BARE = """
SELECT "user", sum(gpu_milli * (ended_ms - started_ms))
FROM usage JOIN usage_kinds USING (kind_id) GROUP BY "user"
"""

Row = tuple[object, ...]


def attempts(count: int, now_ms: int) -> tuple[dict[Row, int], list[Row]]:
    """Their kinds, each with its number, and the attempts in the order of their ends."""
    random = Random(5)
    kinds: dict[Row, int] = {}
    rows: list[Row] = []
    for number, ended_ms in enumerate(
        sorted(random.randrange(now_ms - MONTH_MS, now_ms) for _ in range(count)), 1
    ):
        run_ms = min(int(random.lognormvariate(14.5, 1.5)), 7 * DAY_MS)
        node, user, gpus = (
            random.randrange(500),
            random.randrange(200),
            random.choice((0, 250, 1000, 1000, 4000)),
        )
        model = ("NVIDIA H100 80GB" if node < 100 else "NVIDIA A100 40GB") if gpus else ""
        kind = (
            f"user{user}",
            f"lab{user % 20}/team{user % 7}/user{user}",
            random.choice(("high", "default", "default", "low")),
            "big" if node < 100 else "default",
            model,
            random.choice(("exited", "exited", "exited", "time-limit")),
            True,
            bool(gpus),
        )
        kind_id = kinds.setdefault(kind, len(kinds) + 1)
        given = (random.choice((1000, 4000, 16_000)), random.choice((1024, 16_384, 65_536)), gpus)
        used = (run_ms // 2, 900, run_ms // 3 if gpus else 0, 0)
        wait_ms = random.randrange(600_000)
        rows.append(
            (kind_id, ended_ms, number, 0, 1, f"node{node}", ended_ms - run_ms, wait_ms, *given, *used)
        )
    return kinds, rows


def fill_sqlite(file: Path, count: int, now_ms: int) -> None:
    async def found() -> None:
        await (await SqliteStore.open(file)).close()

    file.parent.mkdir(mode=0o700, exist_ok=True)
    asyncio.run(found())
    kinds, rows = attempts(count, now_ms)
    connection = sqlite3.connect(file)
    connection.executemany(
        f"INSERT INTO usage_kinds VALUES ({', '.join('?' * len(usage_kinds.columns))})",
        [(kind_id, *kind) for kind, kind_id in kinds.items()],
    )
    connection.executemany(f"INSERT INTO usage VALUES ({', '.join('?' * len(usage.columns))})", rows)
    connection.commit()
    connection.close()


def fill_postgres(url: str, count: int, now_ms: int) -> None:
    kinds, rows = attempts(count, now_ms)
    with psycopg.connect(url) as connection:
        with connection.cursor().copy("COPY usage_kinds FROM STDIN") as copy:
            for kind, kind_id in kinds.items():
                copy.write_row((kind_id, *kind))
        with connection.cursor().copy("COPY usage FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE usage")


def report_s(installation: Installation, words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    installation.tgpu("report", "--since", "31d", "--json", *words)
    return time.perf_counter() - began


def measure(name: str, installation: Installation, bare: Callable[[], object]) -> list[Case]:
    def bare_s() -> float:
        began = time.perf_counter()
        bare()
        return time.perf_counter() - began

    baseline = statistics.median(bare_s() for _ in range(TIMES))
    return [
        at_most(
            f"report_{name}_by_{kind}",
            statistics.median(report_s(installation, words) for _ in range(TIMES)),
            "s",
            GOAL_S,
            baseline,
        )
        for kind, words in KINDS.items()
    ]


def on_sqlite(count: int, now_ms: int) -> list[Case]:
    installation = Installation()
    fill_sqlite(installation.home / "tgpu.db", count, now_ms)
    with installation:
        connection = sqlite3.connect(f"file:{installation.home / 'tgpu.db'}?mode=ro", uri=True)
        try:
            return measure("sqlite", installation, lambda: connection.execute(BARE).fetchall())
        finally:
            connection.close()


def on_postgres(count: int, now_ms: int) -> list[Case]:
    with a_server(shared_buffers="256MB") as server:
        url = server.url(server.new_database())
        fill_postgres(url, count, now_ms)
        installation = Installation()
        installation.environ["TGPU_STORE"] = url
        with installation, psycopg.connect(url, autocommit=True) as connection:
            return measure("postgres", installation, lambda: connection.execute(BARE).fetchall())


def main() -> int:
    args = arguments(__doc__).parse_args()
    assert TGPU.exists(), "install the package first: make install"
    count = QUICK_ATTEMPTS if args.quick else ATTEMPTS
    now_ms = round(time.time() * 1000)
    emit([*on_sqlite(count, now_ms), *on_postgres(count, now_ms)], as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
