"""Which jobs are meant: `42`, `42-45`, `3,7-12`, `last`, `last-1`, `all`; and which task of one, `42.3`."""

from __future__ import annotations

import re

from tgpu.cli.exits import NOT_FOUND, CommandError, UsageError
from tgpu.cli.words import plural

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tgpu.client import Client

LIVE = "pending,scheduled,running,preempted"
_MOST = 100_000
_LAST = re.compile(r"(?<![^:,\s])last(-[0-9]{1,9})?(?![^:,\s])")
_PART = 1000  # the most jobs that the server lists at once


def resolve(client: Client, texts: Iterable[str]) -> list[int]:
    """Job ids in the order said, each once."""
    parts = _parts(texts)
    ids = [job_id for part in parts for job_id in _ids(client, part)]
    if not parts:
        raise UsageError("say which job: 42, 42-45, last or all")
    return list(dict.fromkeys(ids))


def resolve_tasks(client: Client, texts: Iterable[str]) -> list[tuple[int, int | None]]:
    """The same; `42.3` is one task of a job, a job alone is all of it."""
    found: list[tuple[int, int | None]] = []
    for part in _parts(texts):
        job, dot, task = part.rpartition(".")
        if dot and _is_number(task):
            found.append((resolve_one(client, job), int(task)))
        else:
            found += [(job_id, None) for job_id in resolve(client, [part])]
    if not found:
        raise UsageError("say which job: 42, 42-45, last or all; or one task of it: 42.3")
    return list(dict.fromkeys(found))


def resolve_indices(client: Client, texts: Iterable[str]) -> list[tuple[int, str | None]]:
    """Jobs, and of which indices: `42.7`, `42.[3-9,12]`; None: the whole job."""
    found: list[tuple[int, str | None]] = []
    for part in _parts(texts):
        job, dot, indices = part.partition(".")
        if dot and any(map(str.isdigit, indices)) and not (_is_number(indices) or indices.endswith("]")):
            raise UsageError(
                f"{part!r} names no indices of a job: one is {job}.7, several are '{job}.[3-9,12]'"
            )
        inside = indices[1:-1] if indices.startswith("[") and indices.endswith("]") else indices
        if dot and (inside is not indices or _is_number(indices)):
            found.append((resolve_one(client, job), inside))
        else:
            found += [(job_id, None) for job_id in resolve(client, [part])]
    if not found:
        raise UsageError("say which job: 42, 42-45, last or all; or some of its indices: 42.7, 42.[3-9]")
    return list(dict.fromkeys(found))


def names_indices(texts: Iterable[str]) -> bool:
    return any("." in part for part in _parts(texts))


def names_all(texts: Iterable[str]) -> bool:
    return "all" in _parts(texts)


def all_in_parts(client: Client, texts: Iterable[str]) -> Iterator[list[int]]:
    """What `resolve` finds for texts that name `all`, a page of it at a time, each asked for when wanted."""
    named = [part for part in _parts(texts) if part != "all"]
    ids = resolve(client, named) if named else []
    yield from in_parts(ids)
    seen = set(ids)
    for page in client.job_pages(user="me", status=LIVE, order="newest", size=_PART):
        fresh = [job["job_id"] for job in page if job["job_id"] not in seen]
        if fresh:
            yield fresh


def in_parts(ids: list[int]) -> Iterator[list[int]]:
    return (ids[start : start + _PART] for start in range(0, len(ids), _PART))


def resolve_one(client: Client, text: str) -> int:
    ids = resolve(client, [text])
    if len(ids) != 1:
        raise UsageError(f"one job is wanted here; {text!r} means {len(ids)}")
    return ids[0]


def needs_by_number(client: Client, texts: Iterable[str]) -> list[str]:
    """`afterok:last` → `afterok:41`."""
    return [_LAST.sub(lambda found: str(resolve_one(client, found[0])), text) for text in texts]


def names_last(texts: Iterable[str]) -> bool:
    return any(_LAST.search(text) for text in texts)


def _parts(texts: Iterable[str]) -> list[str]:
    parts: list[str] = []
    for text in texts:
        depth, begin = 0, 0
        for at, char in enumerate(text):
            depth += (char == "[") - (char == "]")
            if char == "," and depth <= 0:  # one inside of brackets parts indices, not jobs
                parts.append(text[begin:at])
                begin = at + 1
        parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


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
    job, dot, task = part.rpartition(".")
    if dot and _is_number(task):
        raise UsageError(f"{part!r} names one task; this is about whole jobs: say {job}")
    raise UsageError(f"{part!r} names no job: use 42, 42-45, 3,7-12, last, last-1 or all")


def _range(first: int, last: int) -> list[int]:
    if last < first:
        raise UsageError(f"{first}-{last} is not a range of jobs: the smaller number first, {last}-{first}")
    if last - first >= _MOST:
        raise UsageError(f"{first}-{last} is {last - first + 1:,} jobs; {_MOST:,} can be named at once")
    return list(range(first, last + 1))


def _last(client: Client, before: int) -> int:
    mine = list(client.jobs(user="me", order="newest", limit=before + 1))
    if len(mine) <= before:
        number = f"only {plural(len(mine), 'job')}" if mine else "no job yet"
        raise CommandError(f"you have submitted {number}", NOT_FOUND)
    return int(mine[before]["job_id"])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
