"""A Future that stands for a task of tgpu: `concurrent.futures` waits for it as for any other."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Future(concurrent.futures.Future[T]):
    """Unlike that of a thread it can be cancelled while it runs: its task is stopped then."""

    def __init__(self, job_id: int, index: int | None, stop: Callable[["Future[T]"], bool]) -> None:
        """`stop` asks the server to end the task, and tells whether it will."""
        super().__init__()
        self.job_id = job_id
        self.index = index
        """Of an array: which task of it."""
        self.is_seen_running = False
        self._stop = stop
        self._settling = threading.Lock()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "not done"
        return f"<tgpu.futures.Future of task {self.task}: {state}>"

    @property
    def task(self) -> str:
        """As in `tgpu show 42.7`."""
        return str(self.job_id) if self.index is None else f"{self.job_id}.{self.index}"

    def running(self) -> bool:
        """As far as is known here."""
        return self.is_seen_running and not self.done()

    def cancel(self) -> bool:
        """Asks for its task's end, also if it runs. False: it had ended before."""
        if self.done():
            return self.cancelled()
        return self._stop(self) and self.settle_cancelled()

    # To the base class it is pending until it is settled: only then can it be cancelled at any time.

    def settle(self, result: T) -> None:
        with self._settling:
            if not self.done() and self.set_running_or_notify_cancel():
                self.set_result(result)

    def settle_failed(self, error: BaseException) -> None:
        with self._settling:
            if not self.done() and self.set_running_or_notify_cancel():
                self.set_exception(error)

    def settle_cancelled(self) -> bool:
        """Whether it is cancelled now."""
        with self._settling:
            if not self.done() and super().cancel():
                self.set_running_or_notify_cancel()  # so that those who wait for several hear of it
            return self.cancelled()
