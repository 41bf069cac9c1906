"""`tgpu submit --dry-run`: the plan preview of jobs that were not submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_MOST_REASONS = 5


def people(found: dict[str, Any], screen: Screen) -> Iterator[str]:
    jobs = found["jobs"]
    for job in jobs:
        lead = f"{job['name']}: " if len(jobs) > 1 else ""
        yield f"{lead}{job['summary']}"
        told = job["summary"].lower()
        for reason in job["reasons"][:_MOST_REASONS]:
            if reason["text"].lower() not in told:
                yield f"  {reason['text']}"
        if job["advice"] is not None:
            yield f"  {screen.paint(job['advice']['text'], 'bold')}"
    if (more := found["job_count"] - len(jobs)) > 0:
        yield f"and {plural(more, 'more job')}"
    for warning in found["warnings"]:
        yield screen.paint(warning, "yellow")
    if not found["planned"]:
        yield screen.paint(
            "The scheduler does not answer now: the jobs were checked, and not planned.", "yellow"
        )
    yield screen.paint("Nothing was submitted.", "dim")
