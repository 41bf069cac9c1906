"""Where an executor and its Futures speak with the server: they submit and cancel here, one at a time."""

from collections.abc import Callable, Collection, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from tgpu.client import Client, TgpuError
from tgpu.client.waiting import FINAL
from tgpu.futures.errand import Errand
from tgpu.futures.future import Future
from tgpu.futures.watch import Watch

_ALREADY_ENDED = 409


class Desk:
    """For any number of threads. A thread of its own watches what is under way, as long as something is."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._client = connect()
        self._watch = Watch(connect)
        self._speaking = self._watch.submitting
        self._closed = False

    def submit(
        self, folder: Path, key: bytes, fields: Mapping[str, Any], count: int, *, array: bool, in_chunks: bool
    ) -> list[Future[Any]]:
        """The Futures of a job whose calls lie in that folder, authenticated with that key."""
        with self._speaking:
            if self._closed:
                raise RuntimeError("the executor was shut down: nothing more can be submitted to it")
            job_id = self._client.submit(**fields)["job_id"]
            indices = range(count) if array else [None]
            futures: list[Future[Any]] = [Future(job_id, index, self.stop) for index in indices]
            self._watch.add(Errand(folder, key, futures, in_chunks=in_chunks))
            return futures

    def stop(self, future: Future[Any]) -> bool:
        """Whether its task is stopped. False: it had ended before."""
        with self._speaking:
            try:
                if future.index is None:
                    self._client.cancel(future.job_id)
                elif self._client.task(future.job_id, future.index)["status"] in FINAL:
                    return False
                else:
                    self._client.cancel_tasks(future.job_id, str(future.index))
            except TgpuError as error:
                if error.status == _ALREADY_ENDED:
                    return False
                raise
            return True

    def stop_all(self, futures: Collection[Future[Any]]) -> None:
        """Those that have not ended, with one request for each job."""
        live = sorted(
            (future for future in futures if not future.done()),
            key=lambda future: (future.job_id, future.index or 0),
        )
        for job_id, some in groupby(live, key=lambda future: future.job_id):
            group = list(some)
            try:
                with self._speaking:
                    if group[0].index is None:
                        self._client.cancel(job_id)
                    else:
                        self._client.cancel_tasks(job_id, ranges([future.index or 0 for future in group]))
            except TgpuError as error:
                if error.status != _ALREADY_ENDED:
                    raise
                continue
            for future in group:
                future.settle_cancelled()

    def futures(self) -> list[Future[Any]]:
        """Of all that is under way."""
        return self._watch.futures()

    def refuse_more(self) -> None:
        with self._speaking:
            self._closed = True

    def close(self) -> None:
        """Once nothing is under way."""
        self._watch.join()
        self._client.close()


def ranges(numbers: Collection[int]) -> str:
    """In order, as the API writes them: `0-5,7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
