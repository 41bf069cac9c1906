"""Which jobs are meant: `42`, `42-45`, `3,7-12`, `last`, `last-1`, `all`."""

from __future__ import annotations

from tgpu.cli.exits import NOT_FOUND, CommandError, UsageError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tgpu.client import Client

LIVE = "pending,scheduled,running,preempted"
_MOST = 100_000


def resolve(client: Client, texts: Iterable[str]) -> list[int]:
    """Job ids in the order said, each once."""
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    ids = [job_id for part in parts for job_id in _ids(client, part)]
    if not parts:
        raise UsageError("say which job: 42, 42-45, last or all")
    return list(dict.fromkeys(ids))


def resolve_one(client: Client, text: str) -> int:
    ids = resolve(client, [text])
    if len(ids) != 1:
        raise UsageError(f"one job is wanted here; {text!r} means {len(ids)}")
    return ids[0]


def _ids(client: Client, part: str) -> list[int]:
    first, dash, second = part.partition("-")
    if part == "all":
        return [job["job_id"] for job in client.jobs(user="me", status=LIVE)]
    if first == "last" and (not dash or _is_number(second)):
        return [_last(client, int(second or 0))]
    if _is_number(first) and not dash:
        return [int(first)]
    if _is_number(first) and _is_number(second):
        return _range(int(first), int(second))
    raise UsageError(f"{part!r} names no job: use 42, 42-45, 3,7-12, last, last-1 or all")


def _range(first: int, last: int) -> list[int]:
    if not first <= last < first + _MOST:
        raise UsageError(f"{first}-{last} is not a range of jobs: the smaller first, {_MOST} at most")
    return list(range(first, last + 1))


def _last(client: Client, before: int) -> int:
    mine = list(client.jobs(user="me", order="newest", limit=before + 1))
    if len(mine) <= before:
        raise CommandError(f"you have submitted only {len(mine)} jobs", NOT_FOUND)
    return int(mine[before]["job_id"])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
