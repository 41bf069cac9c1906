"""Waits for jobs without asking all the time, and without missing an end."""

from __future__ import annotations

import time

from tgpu.client.errors import ReadTimeoutError, TgpuError, UnreachableError, WaitTimeoutError
from tgpu.client.events import EventStream

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from tgpu.client.client import Client

FINAL = frozenset({"completed", "failed", "cancelled"})
_NOT_AN_END = frozenset({"submitted", "assigned", "started", "requeued", "preempted", "lost", "returned"})
_EVERYTHING: frozenset[int] = frozenset()
_FIRST_QUIET_S = 1.0
_LONGEST_QUIET_S = 15.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 3.0


def wait(
    client: Client, job_ids: Collection[int], timeout: float | None, on_away: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The jobs as they ended, in the order asked. A server that restarts is waited for."""
    deadline = None if timeout is None else time.monotonic() + timeout
    ended = _ended(client.jobs_by_id(job_ids))
    pending = {job_id for job_id in job_ids if job_id not in ended}
    if pending:
        for news in nudges(client, pending, deadline=deadline, ends_only=True, on_away=on_away):
            just_ended = _look(client, pending & news if news else pending)
            ended |= just_ended
            pending -= just_ended.keys()
            if not pending:
                break
        else:
            raise WaitTimeoutError(sorted(pending))
    return [ended[job_id] for job_id in job_ids]


def _ended(jobs: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {job["job_id"]: job for job in jobs if job["status"] in FINAL}


def _look(client: Client, job_ids: set[int]) -> dict[int, dict[str, Any]]:
    """Those that have ended. If the server is away, none: the feed breaks too and will be opened again."""
    try:
        return _ended(client.jobs_by_id(job_ids))
    except TgpuError as error:
        if not is_passing(error):
            raise
        return {}


def nudges(
    client: Client,
    job_ids: Collection[int],
    *,
    deadline: float | None = None,
    ends_only: bool = False,
    longest_quiet_s: float = _LONGEST_QUIET_S,
    on_away: Callable[[str], None] = lambda _: None,
) -> Iterator[frozenset[int]]:
    """Says when to look again: at one job (an event came) or, with the empty set, at all of them.

    It first subscribes and then says "look", so an end before is seen and an end after is an event. It
    says "look" again after some silence and after every reconnection, so a lost event costs time only.
    Ends at the deadline, with one last look.
    """
    backoff = _FIRST_BACKOFF_S
    only = next(iter(job_ids)) if len(job_ids) == 1 else None
    while not _over(deadline):
        try:
            with EventStream(client.session, job_id=only) as stream:
                yield _EVERYTHING
                backoff = _FIRST_BACKOFF_S
                quiet_s = min(_FIRST_QUIET_S, longest_quiet_s)
                while not _over(deadline):
                    try:
                        event = stream.next(_until(deadline, quiet_s))
                    except ReadTimeoutError:
                        quiet_s = min(quiet_s * 2, longest_quiet_s)
                        yield _EVERYTHING
                    else:
                        if not (ends_only and event.get("kind") in _NOT_AN_END):
                            job_id = event.get("job_id")
                            if job_id is None or job_id in job_ids:
                                yield _EVERYTHING if job_id is None else frozenset({job_id})
        except TgpuError as error:
            if not is_passing(error):
                raise
            on_away(str(error))
            client.session.means.sleep(_until(deadline, backoff))
            backoff = min(backoff * 2, _LONGEST_BACKOFF_S)
            yield _EVERYTHING


def is_passing(error: TgpuError) -> bool:
    """Whether it may be over soon: a server that restarts, has no leader yet, or has too many listeners."""
    return isinstance(error, UnreachableError) or error.status in {429, 502, 503, 504}


def pause(client: Client) -> None:
    """Before the next try to reach a server that is away."""
    client.session.means.sleep(1)


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _until(deadline: float | None, seconds: float) -> float:
    """No longer than the deadline allows, and never 0, which would mean "do not wait" to a socket."""
    return seconds if deadline is None else max(0.001, min(seconds, deadline - time.monotonic()))
