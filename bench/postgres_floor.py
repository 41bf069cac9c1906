"""What the same PostgreSQL does without tgpu: one connection that commits one small row after the other."""

import time
from typing import Self

import psycopg

_ROW = ("root", "pending", '{"command": ["true"], "cpu_request": 1}')


class Floor:
    """In a table of its own, beside the databases of the clusters."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE TABLE IF NOT EXISTS floor (name text, status text, spec text)")
        self.commit_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self._connection.close()

    def commit_s(self) -> float:
        """How long one commit takes."""
        began = time.perf_counter()
        self._connection.execute("INSERT INTO floor VALUES (%s, %s, %s)", _ROW)
        return time.perf_counter() - began

    def commits_per_s(self, seconds: float = 1.0) -> float:
        began, count = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            self.commit_s()
            count += 1
        return count / elapsed
