"""Looks at a job's own terminal until the job or its user goes; comes back when the way there breaks."""

from __future__ import annotations

import time

from tgpu.cli import streaming, terminal_loop
from tgpu.cli.away import AwayNotes
from tgpu.cli.detach_keys import DetachKeys
from tgpu.client.errors import TgpuError
from tgpu.client.terminal import Terminal
from tgpu.client.waiting import FINAL, is_passing

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from tgpu.client import Client

_PAUSE_S = 0.3
_NOT_NOW = 409


def attach(client: Client, job_id: int, *, task: int | None, keys: bytes, must_run: bool) -> bool:
    """Whether the job is over; else its user has left it. `must_run`: if it does not run now, that is an
    error."""
    was_there, away = False, AwayNotes()
    while True:
        try:
            with (
                Terminal(
                    client.session, job_id, task=task, size=terminal_loop.size(), term=terminal_loop.term()
                ) as terminal,
                terminal_loop.raw_terminal(),
            ):
                was_there = True
                over = terminal_loop.connect(terminal, tty=True, keys=DetachKeys(keys), stays=not must_run)
            if over is None:
                return False
        except TgpuError as error:
            if is_passing(error) and (was_there or not must_run):
                away(str(error))
            elif error.status != _NOT_NOW or (must_run and not was_there):
                raise
        if _is_over(client, job_id, away):
            if not was_there and not streaming.never_began(job := client.job(job_id)):
                tasks = streaming.tasks_of(job)[0][:1] if task is None else [task]
                streaming.copy(client, streaming.Part(job_id, tasks), ("stdout",))
            return True
        time.sleep(_PAUSE_S)


def _is_over(client: Client, job_id: int, away: AwayNotes) -> bool:
    try:
        return client.job(job_id)["status"] in FINAL
    except TgpuError as error:
        if not is_passing(error):
            raise
        away(str(error))
        return False
