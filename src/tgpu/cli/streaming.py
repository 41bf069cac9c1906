"""Copies a job's output to this process's own stdout and stderr."""

from __future__ import annotations

import json
import sys

from tgpu.cli.screen import note
from tgpu.client import Client
from tgpu.client.output import Output

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def copy(
    client: Client, job_id: int, streams: Sequence[str], *, attempt: int | None, tail: int | None
) -> None:
    """What there is now, one stream after the other."""
    for stream in streams:
        output = Output(client, job_id, stream, attempt=attempt, tail=tail, on_lost=_lost(stream))
        _write(stream, output.read())


def as_json(client: Client, job_id: int, *, attempt: int | None, tail: int | None) -> None:
    data: dict[str, object] = {"job_id": job_id}
    for stream in ("stdout", "stderr"):
        output = Output(client, job_id, stream, attempt=attempt, tail=tail, on_lost=_lost(stream))
        data[stream] = b"".join(output.read()).decode("utf-8", "replace")
    print(json.dumps(data))


def follow(
    job_id: int, streams: Sequence[str], *, attempt: int | None = None, tail: int | None = None
) -> None:
    """All streams at once, until the job has ended; one thread and one connection each."""
    from threading import Thread  # noqa: PLC0415  only who follows needs it

    errors: list[BaseException] = []

    def one(stream: str) -> None:
        try:
            with Client() as client:
                output = Output(client, job_id, stream, attempt=attempt, tail=tail, on_lost=_lost(stream))
                _write(stream, output.follow())
        except BaseException as error:  # noqa: BLE001  it is raised again below, in the main thread
            errors.append(error)

    threads = [Thread(target=one, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    while not errors and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.05)  # short, so that Ctrl-C and an error are noticed at once
    if errors:
        raise errors[0]


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
