"""Rows that cannot be read: the jobs and nodes that they belong to are left out, so that all others go on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import MsgspecError

T = TypeVar("T")
_BAD = (ValueError, TypeError, LookupError, ArithmeticError, MsgspecError)


@dataclass(slots=True)
class Unreadable:
    """By job and by node: what is wrong with its row."""

    jobs: dict[int, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)

    def jobs_read(self, rows: Iterable[tuple[Any, ...]], read: Callable[[tuple[Any, ...]], T]) -> list[T]:
        """The rows of jobs that can be read; each begins with its job's id."""
        found: list[T] = []
        for row in rows:
            try:
                found.append(read(row))
            except _BAD as error:
                self.jobs[row[0]] = _words(error)
        return found

    def nodes_read(self, rows: Iterable[tuple[Any, ...]], read: Callable[[str], T]) -> list[T]:
        """`rows`: of each node its name and its body."""
        found: list[T] = []
        for node_id, body in rows:
            try:
                found.append(read(body))
            except _BAD as error:
                self.nodes[node_id] = _words(error)
        return found


def _words(error: Exception) -> str:
    return f"its row cannot be read: {type(error).__name__}: {error}"
