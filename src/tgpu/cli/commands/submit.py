"""`tgpu submit`: one job, many alike, or those of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tgpu.cli import asking, command_words, once_per_user, unmet_needs, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser, count
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.progress_line import ProgressLine
from tgpu.cli.refusals import own_words
from tgpu.cli.screen import note
from tgpu.cli.snapshot.taking import mode_of, with_snapshots
from tgpu.client import Client, TgpuError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_MOST = 100_000
_MOST_PREVIEWED = 10_000
_EXAMPLES = """\
examples:
  tgpu submit --gpus 2 --time 4h -- python train.py --lr 3e-4
  tgpu submit --gpus 1 -- 'python prepare.py && python train.py'
  tgpu submit --memory 16G train.sh
  tgpu submit --gpus 2 --gpu-memory 40G --where 'zone in (a,b)' --tolerate spot -- python train.py
  tgpu submit --image pytorch/pytorch:2.5.1 --gpus 1 --mount /data:/data:ro --shm-size 8G -- python train.py
  tgpu submit -f job.yaml --priority 5
  tgpu submit --dry-run --gpus 4 --time 8h -- python train.py
  tgpu submit --snapshot --output logs/%j.txt -- python train.py
A script is read when the job starts, unless with --snapshot; one with #SBATCH lines is read now, and these
are honoured.
Words after the script or after `--` belong to the job. The job's stdin is /dev/null.
"""


def parser() -> Parser:
    made = command_parser("submit", "Put a job into the queue.", _EXAMPLES)
    add_output(made, quiet="print only the job's id")
    made.add_argument(
        "--count", type=count, default=1, metavar="N", help=f"submit N such jobs, at most {_MOST:,}"
    )
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="check it and show when and where it would start; submit nothing",
    )
    asking.add_job_flags(made)
    return made


def main(argv: list[str]) -> int:
    flags, after = command_words.split(argv)
    args = parser().parse_args(flags)
    if args.count < 1:
        raise UsageError("--count must be at least 1")
    described = asking.jobs(args, after)
    if len(described) * args.count > _MOST:
        raise UsageError(
            f"--count may be at most {_MOST // len(described):,} here, for {_MOST:,} jobs at once; "
            f"got {args.count:,}"
        )
    if args.count > 1 and any(job.get("needs") for job in described):
        raise UsageError("--count and jobs that need each other by name exclude each other: submit them once")
    if after is None and (swallowed := asking.swallowed_flag(args.words)):
        note(f"{swallowed} stands after the script and goes to it; flags for tgpu come before")
    if args.dry_run:
        return _dry_run(described, args)
    with Client() as client:
        described = with_snapshots(client, described, mode_of(args.snapshot))
        alone = len(described) * args.count == 1
        show(_one(client, described[0], args) if alone else _many(client, described, args), args)
        unmet_needs.tell(client, described)
    return OK


def _dry_run(described: list[dict[str, Any]], args: Namespace) -> int:
    """Without a snapshot, which would be stored."""
    from tgpu.cli.plan_preview import people  # noqa: PLC0415  only who uses it

    jobs = described * args.count
    if len(jobs) > _MOST_PREVIEWED:
        raise UsageError(f"--dry-run checks up to {_MOST_PREVIEWED:,} jobs at once; got {len(jobs):,}")
    with Client() as client, own_words(args, described):
        found = client.preview(jobs)
    show(Answer(found, lambda screen: people(found, screen), [job["starts"] for job in found["jobs"]]), args)
    return OK


def _one(client: Client, fields: dict[str, Any], args: Namespace) -> Answer:
    with own_words(args, [fields]):
        job = client.submit(**fields)
    job_id = job["job_id"]
    once_per_user.tell(job.get("tmp_note", ""), quiet=args.quiet)

    def people(screen: Screen) -> Iterator[str]:
        yield f"Submitted job {job_id}"
        if screen.is_terminal:
            yield screen.paint(f"follow it with: tgpu logs -f {job_id}", "dim")

    return Answer(job, people, [job_id])


def _many(client: Client, described: list[dict[str, Any]], args: Namespace) -> Answer:
    ids = _recorded(client, described, args)
    said = words.ranges(ids)

    def people(screen: Screen) -> Iterator[str]:
        yield f"Submitted {len(ids):,} jobs: {said}"
        if screen.is_terminal:
            yield screen.paint(f"wait for them with: tgpu wait {said}", "dim")

    return Answer({"job_ids": ids}, people, ids)


def _recorded(client: Client, described: list[dict[str, Any]], args: Namespace) -> list[int]:
    """More than one request needs may be recorded in part: then it is told which part."""
    jobs = described * args.count
    ids: list[int] = []
    notes: list[str] = []
    with ProgressLine(sys.stderr, silent=args.quiet) as line:

        def on_recorded(some: list[int]) -> None:
            ids.extend(some)
            if len(ids) < len(jobs):
                line.say(f"submitted {len(ids):,} of {len(jobs):,} jobs")

        try:
            with own_words(args, described, recorded=ids):
                client.submit_many(jobs, on_recorded=on_recorded, on_note=notes.append)
        except TgpuError:
            if ids:
                note(f"only {len(ids):,} of {len(jobs):,} jobs were submitted: {words.ranges(ids)}")
            raise
    once_per_user.tell("".join(notes[:1]), quiet=args.quiet)
    return ids
