"""From a job's submission to its end, with its output live: what `tgpu run` and `srun` share."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from tgpu.cli import attaching, streaming
from tgpu.cli.away import AwayNotes
from tgpu.cli.leaving import Leaver, left_note
from tgpu.cli.progress import wait_for_start
from tgpu.cli.progress_line import ProgressLine
from tgpu.cli.screen import note
from tgpu.client import Client, TgpuError

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


def to_its_end(
    client: Client,
    job_id: int,
    *,
    keys: bytes | None = None,
    quiet: bool = False,
    first_only: bool = False,
    remarks: bool = True,
) -> dict[str, Any] | None:
    """The job as it ended; None: its terminal was left, and it runs on. `keys`: it has a terminal, which
    these leave. `first_only`: its first task prints for all of them. `remarks`: without a terminal, its id
    and why it is pending are printed line by line."""
    pty = keys is not None
    signal.signal(signal.SIGINT, _Canceller(job_id))
    for number in (signal.SIGTERM, signal.SIGHUP) if pty else (signal.SIGTERM,):
        signal.signal(number, Leaver(job_id, pty=pty))
    with ProgressLine(sys.stderr, silent=quiet) as line:
        started = wait_for_start(client, job_id, line, remarks=remarks and not quiet)
    if started and keys is not None:
        if not attaching.attach(client, job_id, task=None, keys=keys, must_run=False):
            left_note(job_id)
            return None
    elif started and not streaming.never_began(job := client.job(job_id)):
        _show_output(job, first_only=first_only)
    client.wait(job_id, on_away=AwayNotes())
    return client.job(job_id)


def _show_output(job: dict[str, Any], *, first_only: bool) -> None:
    """Output that cannot be had must not hide how the job ended."""
    tasks, several = ([0], False) if first_only else streaming.tasks_of(job)
    try:
        streaming.follow(streaming.Part(job["job_id"], tasks, named=several), ("stdout", "stderr"))
    except TgpuError as error:
        note(f"its output cannot be shown: {error}")


class _Canceller:
    """The first Ctrl-C cancels the job and goes on until it has ended; the second leaves."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it does not run on now
        note(f"cancelling job {self._job_id}; Ctrl-C again leaves at once")
        try:
            # A connection of its own: the one of the main thread may be in the middle of an answer.
            with Client(timeout=5) as client:
                client.cancel(self._job_id)
        except TgpuError as error:
            note(f"could not cancel it: {error}")
