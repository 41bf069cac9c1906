"""Single submissions over HTTP, from 8 clients at once, each on disk before it is answered.

Eight processes with one kept-alive connection each send the same pre-encoded `POST /jobs` as fast as they are
answered; only answers of 201 count. A sleeper holds all CPUs of the node and every submitted job asks for
all of them, so no job starts: this is the price of taking jobs in (and of judging the growing queue), not of
running them. Baselines of the same run: the same clients asking the same server for `GET /healthz`, in turns
with the submissions; and the rate at which one process commits single small rows to SQLite (WAL, synchronous
FULL) in the same directory.
"""

import json
import multiprocessing
import socket
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.synchronize import Barrier
from pathlib import Path

from installation import Installation
from report import Case, arguments, at_least, emit, figure

CLIENTS = 8
ROUNDS, QUICK_ROUNDS = 5, 2
ROUND_S = 2.0
PER_S = 1500
_ANSWER_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Load:
    """One request, whole as it goes over the wire, to whom, and what a good answer begins with."""

    server: str | tuple[str, int]
    request: bytes
    expected: bytes


def connect(server: str | tuple[str, int]) -> socket.socket:
    if isinstance(server, tuple):
        connection = socket.create_connection(server)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(server)
    return connection


def ask(connection: socket.socket, load: Load) -> None:
    connection.sendall(load.request)
    answer = connection.recv(_ANSWER_MAX)
    if not answer.startswith(load.expected):
        raise SystemExit(f"the server answered {answer[:300]!r}")
    while not is_whole(answer):
        answer += connection.recv(_ANSWER_MAX)


def is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    return bool(found) and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])


def client(
    loads: Sequence[Load], seconds: float, start: Barrier, rates: "multiprocessing.Queue[float]"
) -> None:
    connection, turns = connect(loads[0].server), cycle(loads)
    ask(connection, next(turns))
    start.wait()
    began = time.perf_counter()
    count = 0
    while (elapsed := time.perf_counter() - began) < seconds:
        ask(connection, next(turns))
        count += 1
    rates.put(count / elapsed)


def rate(*loads: Load, clients: int = CLIENTS, seconds: float = ROUND_S) -> float:
    """Answers per second of all clients together; each sends all loads in turn, from another one on."""
    start = multiprocessing.Barrier(clients)
    rates: multiprocessing.Queue[float] = multiprocessing.Queue()
    firsts = [number * len(loads) // clients for number in range(clients)]
    processes = [
        multiprocessing.Process(target=client, args=((*loads[first:], *loads[:first]), seconds, start, rates))
        for first in firsts
    ]
    for process in processes:
        process.start()
    total = sum(rates.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    return total


def commits_per_s(folder: Path) -> float:
    path = folder / "floor.db"
    row = ("user", "pending", json.dumps({"command": ["true"], "cpu_request": 2}))
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, user TEXT, status TEXT, spec TEXT)")
        began = time.perf_counter()
        count = 0
        while (elapsed := time.perf_counter() - began) < ROUND_S / 2:
            connection.execute("INSERT INTO job (user, status, spec) VALUES (?, ?, ?)", row)
            count += 1
    for leftover in folder.glob("floor.db*"):
        leftover.unlink()
    return count / elapsed


def submission(
    server: str | tuple[str, int], job: Mapping[str, object], token: str | None = None, answer: int = 201
) -> Load:
    body = json.dumps(job).encode()
    lines = ["POST /jobs HTTP/1.1", *_headers(server, token), "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return Load(server, "\r\n".join(lines).encode() + body, f"HTTP/1.1 {answer}".encode())


def question(server: str | tuple[str, int], token: str | None = None) -> Load:
    """The cheapest there is."""
    lines = ["GET /healthz HTTP/1.1", *_headers(server, token), "", ""]
    return Load(server, "\r\n".join(lines).encode(), b"HTTP/1.1 200")


def _headers(server: str | tuple[str, int], token: str | None) -> list[str]:
    host = f"{server[0]}:{server[1]}" if isinstance(server, tuple) else "localhost"
    return [f"Host: {host}", *([f"Authorization: Bearer {token}"] if token else [])]


def in_turns(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each: they take turns, so that a noisy neighbour meets them all."""
    seen = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*seen, strict=True)]


def measure(rounds: int) -> list[Case]:
    with Installation() as installation, installation.client() as sdk:
        job = {"command": ["true"], "cpu_request": 2, "cwd": str(installation.work)}
        installation.hold_all_cpus(sdk)
        token = sdk.create_token(note="bench")["token"]
        over_unix, unix_floor = submission(installation.socket, job), question(installation.socket)
        over_tcp, tcp_floor = submission(installation.tcp, job, token), question(installation.tcp, token)
        unix, unix_http, tcp, tcp_http, commits = in_turns(
            rounds,
            lambda: rate(over_unix),
            lambda: rate(unix_floor),
            lambda: rate(over_tcp),
            lambda: rate(tcp_floor),
            lambda: commits_per_s(installation.work),
        )
    return [
        at_least("submissions_unix", unix, "jobs/s", PER_S, unix_http),
        at_least("submissions_tcp", tcp, "jobs/s", PER_S, tcp_http),
        figure("submissions_beside_sqlite", unix, "jobs/s", commits),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    emit(measure(QUICK_ROUNDS if args.quick else ROUNDS), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
