"""Copies a job's output to this process's own stdout and stderr; of several tasks, line by line."""

from __future__ import annotations

import json

from tgpu.cli.log_lines import NO_TIME, Lines, merged, with_prefix, write
from tgpu.cli.screen import note
from tgpu.client import Client
from tgpu.client.errors import TgpuError
from tgpu.client.output import Output
from tgpu.client.waiting import FINAL, is_passing

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from tgpu.cli.log_lines import Block, Chunk

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
        stamped: bool = False,
    ) -> None:
        """`named`: the tasks are some of several, so each line begins with its task. `stamped`: each line
        begins with the time at which it arrived."""
        self.job_id, self.tasks, self.named, self.stamped = job_id, tasks, named, stamped
        self._attempt, self._tail = attempt, tail
        self._noted = False

    def of(self, client: Client, task: int, stream: str, *, timed: bool = False) -> Output:
        return Output(
            client,
            self.job_id,
            stream,
            task=task,
            attempt=self._attempt,
            tail=self._tail,
            timed=timed,
            on_lost=_lost(stream),
        )

    @property
    def by_line(self) -> bool:
        return self.named or self.stamped

    def written(self, task: int, block: Block) -> bytes:
        """The lines as they are printed."""
        time, data = block
        if not self.by_line:
            return data
        stamp = f"{time or NO_TIME} " if self.stamped else ""
        if self.stamped and time is None and not self._noted:
            self._noted = True
            note(f"no times were recorded for this output: {NO_TIME} stands in their place")
        return with_prefix((f"[{task}] " if self.named else "") + stamp, data)


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
    """What there is now, one task after the other; several streams are merged by time."""
    for task in part.tasks:
        if len(streams) == 1 and not part.by_line:
            for piece in part.of(client, task, streams[0]).read():
                write(streams[0], piece)
            continue
        outputs = {stream: part.of(client, task, stream, timed=True) for stream in streams}
        lines = {stream: _all_lines(output.chunks()) for stream, output in outputs.items()}
        for stream, block in merged(lines):
            write(stream, part.written(task, block))


def as_json(client: Client, part: Part) -> None:
    for task in part.tasks:
        data: dict[str, object] = {"job_id": part.job_id}
        data |= {"task_index": task} if part.named else {}
        for stream in ("stdout", "stderr"):
            pieces = part.of(client, task, stream).read()
            data[stream] = b"".join(pieces).decode("utf-8", "replace")
        print(json.dumps(data))


def follow(part: Part, streams: Sequence[str]) -> None:
    """Until the job has ended. What is there already is merged by time; then each stream is shown as it
    comes, by one thread and one connection."""
    if len(part.tasks) > MOST_FOLLOWED:
        note(f"follows the first {MOST_FOLLOWED} of {len(part.tasks)} tasks; name others, such as 42.100")
    followed = [_Followed(part, task, streams) for task in part.tasks[:MOST_FOLLOWED]]
    with Client() as client:
        for one in followed:
            one.catch_up(client)
    _at_once([(one.follow, stream) for one in followed for stream in streams])


class _Followed:
    """One task whose output is followed."""

    def __init__(self, part: Part, task: int, streams: Sequence[str]) -> None:
        self._part, self._task, self._streams = part, task, streams
        self._outputs: dict[str, Output] = {}
        self._lines = {stream: Lines() for stream in streams}

    def catch_up(self, client: Client) -> None:
        """With what is there already. A line that has no end yet is shown, unless it gets a prefix."""
        part, task = self._part, self._task
        timed = part.stamped or len(self._streams) > 1
        self._outputs = {stream: part.of(client, task, stream, timed=timed) for stream in self._streams}
        blocks = {
            stream: self._lines[stream].of(_until_away(output.chunks()))
            for stream, output in self._outputs.items()
        }
        for stream, block in merged(blocks):
            write(stream, part.written(task, block))
        if not part.by_line:
            self._show_rest()

    def follow(self, stream: str) -> None:
        """Until the task has ended."""
        output, part = self._outputs[stream], self._part
        with Client() as output.client:
            chunks = output.follow_chunks()
            blocks = self._lines[stream].of(chunks) if part.by_line else chunks
            for block in blocks:
                write(stream, part.written(self._task, block))
        if part.by_line:
            for block in self._lines[stream].rest():
                write(stream, part.written(self._task, block))

    def _show_rest(self) -> None:
        for stream, lines in self._lines.items():
            for block in lines.rest():
                write(stream, self._part.written(self._task, block))


def _at_once(steps: Sequence[tuple[Callable[[str], None], str]]) -> None:
    """Each in a thread of its own, until all are done or one has failed."""
    from threading import Thread  # noqa: PLC0415  only who follows needs it

    errors: list[BaseException] = []

    def run(step: Callable[[str], None], stream: str) -> None:
        try:
            step(stream)
        except BaseException as error:  # noqa: BLE001  it is raised again below, in the main thread
            errors.append(error)

    threads = [Thread(target=run, args=step, daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    while not errors and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.05)  # short, so that Ctrl-C and an error are noticed at once
    if errors:
        raise errors[0]


def _all_lines(chunks: Iterable[Chunk]) -> Iterator[Block]:
    lines = Lines()
    yield from lines.of(chunks)
    yield from lines.rest()


def _until_away(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Ends where the server or the node is away for a while: the rest is followed."""
    try:
        yield from chunks
    except TgpuError as error:
        if not is_passing(error):
            raise


def _lost(stream: str) -> Callable[[int, int], None]:
    def tell(first: int, end: int) -> None:
        which = f"the first {end:,} bytes" if first == 0 else f"bytes {first:,} to {end:,}"
        note(f"{which} of {stream} are no longer kept")

    return tell
