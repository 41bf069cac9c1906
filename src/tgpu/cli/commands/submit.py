"""`tgpu submit`: one job, many alike, or those of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli import asking, command_words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.screen import note
from tgpu.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_EXAMPLES = """\
examples:
  tgpu submit --gpus 2 --time 4h -- python train.py --lr 3e-4
  tgpu submit --gpus 1 -- 'python prepare.py && python train.py'
  tgpu submit --memory 16G train.sh
  tgpu submit -f job.yaml --priority 5
A script is read when the job starts, not now. Words after the script or after `--` belong to the job.
"""


def parser() -> Parser:
    made = command_parser("submit", "Put a job into the queue.", _EXAMPLES)
    add_output(made, quiet="print only the job's id")
    made.add_argument("--count", type=count, default=1, metavar="N", help="submit N such jobs at once")
    asking.add_job_flags(made)
    return made


def main(argv: list[str]) -> int:
    flags, after = command_words.split(argv)
    args = parser().parse_args(flags)
    if args.count < 1:
        raise UsageError("--count must be at least 1")
    jobs = asking.jobs(args, after) * args.count
    if after is None and (swallowed := asking.swallowed_flag(args.words)):
        note(f"{swallowed} stands after the script and goes to it; flags for tgpu come before")
    with Client() as client:
        show(_one(client, jobs[0]) if len(jobs) == 1 else _many(client, jobs), args)
    return OK


def _one(client: Client, fields: dict[str, Any]) -> Answer:
    job = client.submit(**fields)
    job_id = job["job_id"]

    def people(screen: Screen) -> Iterator[str]:
        yield f"Submitted job {job_id}"
        if screen.is_terminal:
            yield screen.paint(f"follow it with: tgpu logs -f {job_id}", "dim")

    return Answer(job, people, [job_id])


def _many(client: Client, jobs: list[dict[str, Any]]) -> Answer:
    ids = client.submit_many(jobs)
    whole = ids == list(range(ids[0], ids[0] + len(ids)))
    said = f"{ids[0]}-{ids[-1]}" if whole else ",".join(map(str, ids))

    def people(screen: Screen) -> Iterator[str]:
        yield f"Submitted {len(ids)} jobs: {said}"
        if screen.is_terminal:
            yield screen.paint(f"wait for them with: tgpu wait {said}", "dim")

    return Answer({"job_ids": ids}, people, ids)
