"""Several jobs in one document: `jobs:` with a name for each, beside what all of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def unfolded(where: str, document: object) -> Iterator[object]:
    """The document itself, or each of its jobs with what all of them have."""
    if not isinstance(document, dict) or "jobs" not in document or "kind" in document:
        yield document
        return
    common = {key: value for key, value in document.items() if key != "jobs"}
    for name, job in _named(where, document["jobs"]):
        if not isinstance(job, dict):
            raise UsageError(f"{where}: job {name} is written as `key: value` lines, below its name")
        said = {} if name is None else {"name": name}
        yield {**common, **said, **job}


def _named(where: str, jobs: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(jobs, dict) and jobs:
        yield from ((str(name), job) for name, job in jobs.items())
    elif isinstance(jobs, list) and jobs:
        yield from ((None, job) for job in jobs)
    else:
        raise UsageError(
            f"{where}: jobs must hold at least one job, such as `jobs: {{train: {{command: …}}}}`"
        )
