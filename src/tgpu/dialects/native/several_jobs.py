"""Several jobs in one document: `jobs:` with a name for each, beside what all of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.dialects.native.problems import JobFieldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

Path = tuple[str | int, ...]
MOST_JOBS = 10_000
_MOST_COMMON = 128
"""Keys beside `jobs`: more than a job has, and few enough to be repeated for each job."""


def unfolded(document: object) -> Iterator[tuple[Path, object]]:
    """The document itself, or each of its jobs with what all of them have; and where it stands."""
    if not isinstance(document, dict) or "jobs" not in document or "kind" in document:
        yield (), document
        return
    common = {key: value for key, value in document.items() if key != "jobs"}
    if len(common) > _MOST_COMMON:
        raise JobFieldError(f"there are {len(common)} keys beside jobs; {_MOST_COMMON} are possible", "jobs")
    if isinstance(document["jobs"], dict | list) and len(document["jobs"]) > MOST_JOBS:
        raise JobFieldError(f"jobs holds {len(document['jobs'])} jobs; {MOST_JOBS} are possible", "jobs")
    for path, name, job in _named(document["jobs"]):
        if not isinstance(job, dict):
            raise JobFieldError(f"job {name} is written as `key: value` lines, below its name", "jobs")
        said = {} if name is None else {"name": name}
        yield path, {**common, **said, **job}


def _named(jobs: object) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(jobs, dict) and jobs:
        yield from ((("jobs", str(name)), str(name), job) for name, job in jobs.items())
    elif isinstance(jobs, list) and jobs:
        yield from ((("jobs", at), None, job) for at, job in enumerate(jobs))
    else:
        raise JobFieldError("jobs must hold at least one job, such as `jobs: {train: {command: …}}`", "jobs")
