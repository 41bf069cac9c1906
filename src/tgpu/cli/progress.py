"""Waits for a job's start and shows why it is pending: on one line of a terminal, elsewhere as remarks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tgpu.cli import words
from tgpu.cli.away import AwayNotes
from tgpu.cli.screen import clean, note
from tgpu.client.errors import TgpuError
from tgpu.client.waiting import is_passing, nudges

if TYPE_CHECKING:
    from typing import Any

    from tgpu.cli.progress_line import ProgressLine
    from tgpu.client import Client

_LOOK_EVERY_S = 2.0
_REMARK_EVERY_S = 60.0
_WAITING = frozenset({"pending", "preempted", "scheduled"})


class _Remarks:
    """Why a job is pending, where there is no terminal: at once, and a new reason at most once a minute."""

    def __init__(self, job_id: int) -> None:
        note(f"job {job_id} submitted")
        self._last, self._next_at = "", 0.0

    def say(self, text: str) -> None:
        now = time.monotonic()
        if text != self._last and now >= self._next_at:
            note(text)
            self._last, self._next_at = text, now + _REMARK_EVERY_S


def wait_for_start(client: Client, job_id: int, line: ProgressLine, *, remarks: bool = False) -> bool:
    """Whether it started at all: a pending job can also end. `remarks`: without a terminal, the job's id and
    why it is pending are printed line by line."""
    quiet_s = _LOOK_EVERY_S if line.active else 15.0
    line.say(f"job {job_id} submitted")
    printed = _Remarks(job_id) if remarks and not line.active else None
    for _ in nudges(client, [job_id], longest_quiet_s=quiet_s, on_away=AwayNotes()):
        try:
            job = client.job(job_id)
            if job["status"] not in _WAITING:
                return bool(job.get("started_at") or job.get("attempts"))
            if line.active:
                line.say(_in_words(job, _why(client, job_id)))
            elif printed is not None and (why := _why(client, job_id)).get("waiting"):
                printed.say(_in_words(job, why))
        except TgpuError as error:
            if not is_passing(error):
                raise
            line.say(f"job {job_id}: {error}")
    raise AssertionError


def _why(client: Client, job_id: int) -> dict[str, Any]:
    """A refusal means that there is nothing to explain any more: it has just started."""
    try:
        return client.why(job_id)
    except TgpuError as error:
        if is_passing(error):
            raise
        return {}


def _in_words(job: dict[str, Any], why: dict[str, Any]) -> str:
    parts = [f"job {job['job_id']} {job['status']}"]
    if why.get("position"):
        parts.append(f"{words.ordinal(why['position'])} in line")
    if why.get("waiting") and why.get("summary"):
        parts.append(clean(why["summary"]))
    return " · ".join(parts)
