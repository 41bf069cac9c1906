"""Which jobs a list shows: every filter, as it is written in a query and as the store takes it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from tgpu.api.endpoint import Call, Param
from tgpu.api.problems import bad_request
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.quantities import BadQuantityError, seconds
from tgpu.store.job_filter import JobFilter, Seen
from tgpu.store.ran import Ran

T = TypeVar("T", bound=StrEnum)
_EXIT_CODES = (-255, 255)
_MOST_NODES = 1000
_RAN = (
    "cause",
    "node",
    "exit_code",
    "started_since",
    "started_until",
    "ended_since",
    "ended_until",
    "min_elapsed",
)


def job_filter(call: Call, seen: Seen | None = None) -> JobFilter:
    query, now_ms = call.query, call.services.now_ms()
    submitted_ms = span(call, "since", "until")
    users = (call.caller.user if user == "me" else user for user in query.many("user"))
    return JobFilter(
        statuses=words("status", query.many("status"), Status),
        users=frozenset(users),
        name_contains=query.one("name"),
        id_ranges=query.ranges("ids"),
        submitted_from_ms=submitted_ms[0],
        submitted_until_ms=submitted_ms[1],
        seen=seen,
        within=query.one("within"),
        ran=_ran(call, now_ms) if any(query.many(name) for name in _RAN) else None,
    )


def _ran(call: Call, now_ms: int) -> Ran:
    query = call.query
    nodes = query.many("node")
    if len(nodes) > _MOST_NODES or any("|" in node for node in nodes):
        raise bad_request(f"node takes up to {_MOST_NODES} names of nodes")
    started_ms, ended_ms = (span(call, f"{when}_since", f"{when}_until") for when in ("started", "ended"))
    return Ran(
        causes=words("cause", query.many("cause"), Cause),
        node_ids=frozenset(nodes),
        exit_code=query.whole("exit_code", *_EXIT_CODES),
        started_from_ms=started_ms[0],
        started_until_ms=started_ms[1],
        ended_from_ms=ended_ms[0],
        ended_until_ms=ended_ms[1],
        least_run_ms=_duration_ms("min_elapsed", query.one("min_elapsed")),
        now_ms=now_ms,
    )


def span(call: Call, since: str, until: str) -> tuple[int | None, int | None]:
    """Two moments of a query, by their names there. Raises ProblemError."""
    now_ms = call.services.now_ms()
    from_ms, until_ms = call.query.time_ms(since, now_ms), call.query.time_ms(until, now_ms)
    if from_ms is not None and until_ms is not None and from_ms > until_ms:
        raise bad_request(f"{since} must be before {until}")
    return from_ms, until_ms


def words(name: str, words: Iterable[str], kind: type[T]) -> frozenset[T]:
    found = set()
    for word in words:
        try:
            found.add(kind(word))
        except ValueError:
            known = ", ".join(kind)
            raise bad_request(f"{name} must be one of {known}; got {word[:40]!r}") from None
    return frozenset(found)


def _duration_ms(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else 1000 * seconds(name, text)
    except BadQuantityError as error:
        raise bad_request(str(error)) from None


_TEXT = {"type": "string"}
FILTERS = (
    Param("status", "Any of these; repeated or with commas.", _TEXT, "pending,running"),
    Param("user", "Any of these users; `me` is the caller.", _TEXT, "me"),
    Param("tenant_id", "Of any of these tenants; repeated or with commas.", _TEXT, "default"),
    Param("within", "Of this tenant, or of one below it.", _TEXT, "default"),
    Param("name", "With this in its name.", _TEXT, "train"),
    Param("ids", "With these ids.", {"type": "string", "pattern": r"^\d{1,9}(,\d{1,9})*$"}, "3,7-12"),
    Param("since", "Submitted since; a time, or how long ago.", _TEXT, "2h"),
    Param("until", "Submitted until; a time, or how long ago.", _TEXT, "2030-01-31T12:00:00Z"),
    Param("started_since", "Whose last attempt began since.", _TEXT, "2h"),
    Param("started_until", "Whose last attempt began by then.", _TEXT, "2030-01-31T12:00:00Z"),
    Param("ended_since", "Ended since.", _TEXT, "7d"),
    Param("ended_until", "Ended by then.", _TEXT, "2030-01-31T12:00:00Z"),
    Param("cause", "Ended for any of these causes.", _TEXT, "time-limit,out-of-memory"),
    Param("node", "Whose last attempt was on any of these nodes.", _TEXT, "ws1"),
    Param("exit_code", "Ended with this exit code.", {"type": "integer"}, 1),
    Param("min_elapsed", "Whose last attempt ran at least so long.", _TEXT, "10m"),
)
