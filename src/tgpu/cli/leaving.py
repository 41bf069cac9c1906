"""Signals that are for this command and not for the job that it shows: it leaves, and says so."""

from __future__ import annotations

from tgpu.cli.exits import TERMINATED, CommandError
from tgpu.cli.screen import note

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


class Leaver:
    """A logout, a closed terminal or a time limit around this command must not end the job."""

    def __init__(self, job_id: int, *, task: int | None = None, pty: bool = False) -> None:
        self._job_id = job_id
        self._task = task
        self._pty = pty

    def __call__(self, _number: int, _frame: FrameType | None) -> NoReturn:
        raise CommandError(f"terminated; {_goes_on(self._job_id, self._task, pty=self._pty)}", TERMINATED)


def left_note(job_id: int, task: int | None = None) -> None:
    """After its terminal was left by the keys for it."""
    note(f"detached; {_goes_on(job_id, task, pty=True)}")


def _goes_on(job_id: int, task: int | None, *, pty: bool) -> str:
    name = job_id if task is None else f"{job_id}.{task}"
    way = f"`tgpu attach {name}` comes back to it" if pty else f"`tgpu logs -f {job_id}` shows it"
    return f"job {job_id} runs on: {way}"
