"""Waits for jobs without asking all the time, and without missing an end."""

from __future__ import annotations

import time

from tgpu.client.errors import ReadTimeoutError, TgpuError, UnreachableError, WaitTimeoutError
from tgpu.client.events import EventStream
from tgpu.client.task_names import parted

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from tgpu.client.client import Client

    Named = dict[int | str, tuple[Any, int | None]]
    """What is waited for: by the name that the caller has for it, a job, or a task of it."""

FINAL = frozenset({"completed", "failed", "cancelled"})
_NOT_AN_END = frozenset({"submitted", "assigned", "started", "requeued", "preempted", "lost", "returned"})
_FIRST_QUIET_S = 1.0
_LONGEST_QUIET_S = 15.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 3.0


def wait(
    client: Client, named: Collection[int | str], timeout: float | None, on_away: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The jobs and tasks as they ended, in the order asked. A server that restarts is waited for."""
    deadline = None if timeout is None else time.monotonic() + timeout
    left: Named = {name: parted(name) for name in named}
    found = _found(client, left)
    ended = _ended(found)
    places = {name: one["task_index"] for name, one in found.items() if "task_index" in one}
    left = {name: part for name, part in left.items() if name not in ended}
    if left:
        names: dict[int, list[int | str]] = {}
        for name, (job_id, _) in left.items():
            names.setdefault(job_id, []).append(name)
        for event in nudges(client, names, deadline=deadline, ends_only=True, on_away=on_away):
            just_ended = _look(client, left if event is None else _concerned(event, left, names, places))
            ended |= just_ended
            for name in just_ended:
                del left[name]
            if not left:
                break
        else:
            raise WaitTimeoutError(sorted(left, key=lambda name: (left[name][0], left[name][1] or 0)))
    return [ended[name] for name in named]


def _concerned(
    event: dict[str, Any], left: Named, names: dict[int, list[int | str]], places: dict[int | str, int]
) -> Named:
    """The job that it is of, and that task of it, by its place; of tasks without rows it names none."""
    at = event.get("task_index")
    of_job = (name for name in names[event["job_id"]] if name in left)
    return {name: left[name] for name in of_job if at is None or places.get(name, at) == at}


def _found(client: Client, named: Named) -> dict[int | str, dict[str, Any]]:
    """As they are now."""
    whole = {job_id for job_id, index in named.values() if index is None}
    jobs = {job["job_id"]: job for job in (client.jobs_by_id(whole) if whole else ())}
    return {
        name: jobs[job_id] if index is None else client.task(job_id, index)
        for name, (job_id, index) in named.items()
    }


def _ended(found: dict[int | str, dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    return {name: one for name, one in found.items() if one["status"] in FINAL}


def _look(client: Client, named: Named) -> dict[int | str, dict[str, Any]]:
    """Those that have ended. If the server is away, none: the feed breaks too and will be opened again."""
    try:
        return _ended(_found(client, named))
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
) -> Iterator[dict[str, Any] | None]:
    """Says when to look again: at one job, with the event that came of it, or, with None, at all of them.

    It first subscribes and then says "look", so an end before is seen and an end after is an event. It
    says "look" again after some silence and after every reconnection, so a lost event costs time only.
    Ends at the deadline, with one last look.
    """
    backoff = _FIRST_BACKOFF_S
    only = next(iter(job_ids)) if len(job_ids) == 1 else None
    while not _over(deadline):
        try:
            with EventStream(client.session, job_id=only) as stream:
                yield None
                backoff = _FIRST_BACKOFF_S
                quiet_s = min(_FIRST_QUIET_S, longest_quiet_s)
                while not _over(deadline):
                    try:
                        event = stream.next(_until(deadline, quiet_s))
                    except ReadTimeoutError:
                        quiet_s = min(quiet_s * 2, longest_quiet_s)
                        yield None
                    else:
                        if not (ends_only and event.get("kind") in _NOT_AN_END):
                            job_id = event.get("job_id")
                            if job_id is None or job_id in job_ids:
                                yield None if job_id is None else event
        except TgpuError as error:
            if not is_passing(error):
                raise
            on_away(str(error))
            client.session.means.sleep(_until(deadline, backoff))
            backoff = min(backoff * 2, _LONGEST_BACKOFF_S)
            yield None


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
