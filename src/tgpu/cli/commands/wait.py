"""`tgpu wait`: until jobs have ended; ends as they did."""

from __future__ import annotations

from itertools import islice

from tgpu.cli import outcome
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.away import AwayNotes
from tgpu.cli.exits import TIMED_OUT, CommandError, UsageError
from tgpu.cli.selectors import resolve_tasks
from tgpu.client import Client, WaitTimeoutError
from tgpu.domain.quantities import BadQuantityError, seconds

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_SHOWN = 20


def parser() -> Parser:
    made = command_parser(
        "wait",
        "Wait until jobs have ended, or tasks of them (42.7). The exit code is the job's, or the task's; of "
        "several, the highest.",
    )
    add_jobs(made, tasks=True)
    made.add_argument(
        "--timeout", metavar="DURATION", help="give up after this, such as 0.5s or 2h, with exit code 124"
    )
    add_output(made, quiet="print nothing")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        chosen = resolve_tasks(client, args.jobs)
        names = [job_id if task is None else f"{job_id}.{task}" for job_id, task in chosen]
        try:
            ended = client.wait(names, timeout=_timeout(args.timeout), on_away=AwayNotes())
        except WaitTimeoutError as error:
            raise CommandError(str(error), TIMED_OUT) from None
        jobs = [_whole(client, job) for job in ended]
        firsts = {} if args.json or args.quiet else _first_failures(client, jobs)
    data = jobs[0] if len(jobs) == 1 else jobs
    show(Answer(data, lambda _: _people(jobs, firsts)), args)
    return max(outcome.exit_status(job) for job in jobs) if jobs else 0


def _people(jobs: list[dict[str, Any]], firsts: dict[int, str]) -> Iterator[str]:
    """Each of a few; of many those that did not go well, and a count."""
    many = len(jobs) > _MOST_SHOWN
    for job in jobs:
        if not many or job["status"] != "completed":
            name = f"Task {job['task_id']}" if "task_id" in job else f"Job {job['job_id']}"
            first = firsts.get(job.get("job_id", 0))
            yield f"{name} {outcome.in_words(job)}{f'; the first that failed is {first}' if first else ''}"
    if many:
        yield f"{sum(job['status'] == 'completed' for job in jobs)} of {len(jobs)} jobs completed"


def _whole(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """With its attempts, which alone know a job's signal; of one that went well nothing more is needed."""
    if job["status"] == "completed" or "task_id" in job:
        return job
    return job if isinstance(job.get("attempts"), list) else client.job(job["job_id"])


def _first_failures(client: Client, jobs: list[dict[str, Any]]) -> dict[int, str]:
    """Of each array, the first index that failed: of a few, for people."""
    arrays = [job["job_id"] for job in jobs if job["status"] == "failed" and job.get("array")]
    firsts = {job_id: client.tasks(job_id, status="failed", limit=1) for job_id in arrays[:_MOST_SHOWN]}
    return {job_id: str(task["task_id"]) for job_id, found in firsts.items() for task in islice(found, 1)}


def _timeout(said: str | None) -> float | None:
    """Parts of a second make sense here, unlike for a job's limits."""
    if said is None:
        return None
    whole, dot, part = said.strip().removesuffix("s").partition(".")
    if dot and (whole + part).isascii() and (whole + part).isdigit():
        return float(f"{whole or 0}.{part or 0}")
    try:
        return float(seconds("--timeout", said))
    except BadQuantityError as error:
        raise UsageError(str(error)) from None
