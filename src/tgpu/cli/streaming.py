"""Copies a job's output to this process's own stdout and stderr; of several tasks, line by line."""

from __future__ import annotations

import json
import sys

from tgpu.cli.screen import note
from tgpu.client import Client
from tgpu.client.output import Output
from tgpu.client.waiting import FINAL

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any


MOST_FOLLOWED = 32
"""Tasks of one job, at once."""


class Part:
    """What is shown of a job's output."""

    def __init__(
        self,
        job_id: int,
        tasks: Sequence[int],
        *,
        attempt: int | None = None,
        tail: int | None = None,
        named: bool = False,
    ) -> None:
        """`named`: the tasks are some of several, so each line is told whose it is."""
        self.job_id, self.tasks, self.named = job_id, tasks, named
        self._attempt, self._tail = attempt, tail

    def of(self, client: Client, task: int, stream: str) -> Output:
        return Output(
            client,
            self.job_id,
            stream,
            task=task,
            attempt=self._attempt,
            tail=self._tail,
            on_lost=_lost(stream),
        )

    def told(self, task: int, pieces: Iterable[bytes]) -> Iterable[bytes]:
        return _with_number(task, pieces) if self.named else pieces


def tasks_of(job: dict[str, Any]) -> tuple[list[int], bool]:
    """Those whose output is shown if none is named, and whether there are several."""
    count = int(job.get("tasks") or 1)
    indices = [task.get("array_index") for task in job.get("task_list") or ()]
    if indices and indices[0] is not None:  # of a series, those that have begun
        return [task["array_index"] for task in job["task_list"] if task["attempt_count"]], True
    return list(range(count)), count > 1


def never_began(job: dict[str, Any]) -> bool:
    """Whether it is over and nothing of it ever ran: then there is no output, and none is missing."""
    if job["status"] not in FINAL or job.get("started_at"):
        return False
    tries = [*(job.get("attempts") or ()), *(job.get("task_list") or ())]
    return not any(one.get("started_at") for one in tries)


def copy(client: Client, part: Part, streams: Sequence[str]) -> None:
    """What there is now, one task and one stream after the other."""
    for task in part.tasks:
        for stream in streams:
            _write(stream, part.told(task, part.of(client, task, stream).read()))


def as_json(client: Client, part: Part) -> None:
    for task in part.tasks:
        data: dict[str, object] = {"job_id": part.job_id}
        data |= {"task_index": task} if part.named else {}
        for stream in ("stdout", "stderr"):
            pieces = part.of(client, task, stream).read()
            data[stream] = b"".join(pieces).decode("utf-8", "replace")
        print(json.dumps(data))


def follow(part: Part, streams: Sequence[str]) -> None:
    """All streams at once, until the job has ended; one thread and one connection each."""
    from threading import Thread  # noqa: PLC0415  only who follows needs it

    errors: list[BaseException] = []
    if len(part.tasks) > MOST_FOLLOWED:
        note(f"follows the first {MOST_FOLLOWED} of {len(part.tasks)} tasks; name others, such as 42.100")

    def one(task: int, stream: str) -> None:
        try:
            with Client() as client:
                _write(stream, part.told(task, part.of(client, task, stream).follow()))
        except BaseException as error:  # noqa: BLE001  it is raised again below, in the main thread
            errors.append(error)

    threads = [
        Thread(target=one, args=(task, stream), daemon=True)
        for task in part.tasks[:MOST_FOLLOWED]
        for stream in streams
    ]
    for thread in threads:
        thread.start()
    while not errors and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.05)  # short, so that Ctrl-C and an error are noticed at once
    if errors:
        raise errors[0]


def _with_number(task: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, each behind its task's number, so that those of several tasks can be told apart."""
    prefix, rest = b"[%d] " % task, b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield b"".join(prefix + line + b"\n" for line in lines)
    if rest:
        yield prefix + rest + b"\n"


def _lost(stream: str) -> Callable[[int, int], None]:
    def tell(first: int, end: int) -> None:
        which = f"the first {end:,} bytes" if first == 0 else f"bytes {first:,} to {end:,}"
        note(f"{which} of {stream} are no longer kept")

    return tell


def _write(stream: str, pieces: Iterable[bytes]) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    for piece in pieces:
        target.write(piece)
        target.flush()
