"""One submission: a folder with calls, a job that makes them, and a Future for each of its tasks."""

import contextlib
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tgpu.futures import parcels
from tgpu.futures.errors import RemoteTraceback, TaskDied
from tgpu.futures.future import Future

_LATE_S = 10.0
"""A result that another machine has written may be seen here a little later."""


class Errand:
    """`in_chunks`: its Futures get lists, of what all calls of their task returned; else a task is a call."""

    def __init__(self, folder: Path, key: bytes, futures: Iterable[Future[Any]], *, in_chunks: bool) -> None:
        """`key`: what its results are authenticated with."""
        self.folder, self._key = folder, key
        self._in_chunks = in_chunks
        self.live = {future.index or 0: future for future in futures}
        first = next(iter(self.live.values()))
        self.job_id = first.job_id
        self.is_array = first.index is not None
        self._late: dict[int, float] = {}

    @property
    def first_live(self) -> int:
        return min(self.live)

    def hear(self, index: int, said: Mapping[str, Any], last_words: Callable[[Future[Any]], str]) -> None:
        """What the server says of a task. `last_words`: what it wrote to stderr."""
        future = self.live.get(index)
        if future is None:
            return
        status = said["status"]
        if status not in {"completed", "failed", "cancelled"}:
            future.is_seen_running = status == "running"
            return
        settled: Callable[[], object] | None = future.settle_cancelled
        if not future.cancelled() and status != "cancelled":
            try:
                settled = self._settled(future, index, said)
                if settled is None and not self._may_come(index, status):
                    settled = partial(future.settle_failed, _death(future, said, last_words))
            except Exception as error:  # noqa: BLE001  its files are not as they were left; the others go on
                settled = partial(future.settle_failed, error)
        if settled is None:
            return
        if len(self.live) == 1:
            self.tidy()  # before the last is told: a program that has all it waits for may end at once
        settled()
        del self.live[index]

    def fail(self, error: BaseException) -> None:
        for future in self.live.values():
            future.settle_failed(error)
        self.live.clear()

    @property
    def is_over(self) -> bool:
        """Nobody waits for it: what was cancelled may still be stopping."""
        return all(future.done() for future in list(self.live.values()))

    def tidy(self) -> None:
        remove(self.folder)

    def _settled(
        self, future: Future[Any], index: int, said: Mapping[str, Any]
    ) -> Callable[[], object] | None:
        """What is to be told, by what its last attempt has written, if it has."""
        outcome = parcels.read_outcome(self.folder, self._key, index)
        if outcome is None or outcome.returned is not (said["status"] == "completed"):
            return None
        if not outcome.returned and outcome.attempt != said["attempt_count"]:
            return None
        try:
            value: Any = pickle.loads(outcome.value) if outcome.value else None  # noqa: S301  authenticated
        except Exception as error:  # noqa: BLE001  a class that is not here, or anything
            value = _unreadable(outcome, future, error)
        if outcome.returned and not isinstance(value, BaseException):
            return partial(future.settle, value if self._in_chunks else value[0])
        return partial(future.settle_failed, _raised(value, outcome))

    def _may_come(self, index: int, status: str) -> bool:
        """Of a task that completed. Looking into the folder makes a network's file system look again."""
        if status != "completed":
            return False
        os.listdir(self.folder)  # noqa: PTH208  the names do not matter
        return time.monotonic() < self._late.setdefault(index, time.monotonic() + _LATE_S)

    @property
    def waits_for_files(self) -> bool:
        return any(index in self.live for index in self._late)


def remove(folder: Path) -> None:
    """And the one in which all such folders are, if it was the last."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # others are still there
        folder.parent.rmdir()


def _raised(value: object, outcome: parcels.Outcome) -> BaseException:
    error = value if isinstance(value, BaseException) else RuntimeError(outcome.said)
    if outcome.trace:
        error.__cause__ = RemoteTraceback(outcome.trace)
    return error


def _unreadable(outcome: parcels.Outcome, future: Future[Any], error: Exception) -> RuntimeError:
    what = "its result" if outcome.returned else f"what it raised ({outcome.said})"
    return RuntimeError(f"task {future.task}: {what} cannot be read here: {error}")


def _death(
    future: Future[Any], said: Mapping[str, Any], last_words: Callable[[Future[Any]], str]
) -> TaskDied:
    completed = said["status"] == "completed"
    reason = "it ended before the function did" if completed else said.get("reason") or said["status"]
    return TaskDied(
        future.task,
        reason,
        cause=said.get("cause"),
        exit_code=said.get("exit_code"),
        stderr=last_words(future),
    )
