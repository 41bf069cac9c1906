"""`tgpu retry`: tasks that failed run again, as a new job; those that run and are named start anew."""

from __future__ import annotations

from tgpu.cli.after_flags import add_after, after_of
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.refusals import in_flags
from tgpu.cli.selectors import resolve_indices
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any


def parser() -> Parser:
    made = command_parser(
        "retry",
        "Run again what failed or was cancelled, as a new job of the same description: of a job, or of some "
        "indices of an array (42.7, 42.[3-9]). An index that is named and runs is stopped and starts anew. "
        "The new job waits for what the other waited for, or for what did that again since.",
    )
    add_jobs(made, tasks=True)
    add_after(made, instead=True)
    add_output(made, quiet="print only the new jobs' ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client, in_flags({"after": "--after"}):
        chosen = resolve_indices(client, args.jobs)
        after = after_of(args, client)
        done = [(job_id, client.retry(job_id, indices, after)) for job_id, indices in chosen]
    new = [answer["job_id"] for _, answer in done if answer["job_id"] is not None]
    told = [answer for _, answer in done]

    def people(_: object) -> list[str]:
        return [line for job_id, answer in done for line in _lines(job_id, answer)]

    show(Answer(told[0] if len(told) == 1 else told, people, new), args)
    return OK


def _lines(job_id: int, answer: dict[str, Any]) -> list[str]:
    lines = []
    if answer["restarted"]:
        which = ", ".join(f"{job_id}.{index}" for index in answer["restarted"][:20])
        lines.append(f"Starts anew: {which}")
    if answer["job_id"] is not None:
        of = f" (indices {answer['indices']})" if answer["indices"] else ""
        lines.append(f"Submitted job {answer['job_id']}: job {job_id} again{of}")
    return lines
