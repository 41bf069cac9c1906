"""`tgpu run`: submits, shows the output live, and ends as the job does."""

from __future__ import annotations

import sys

from tgpu.cli import asking, command_words, detach_keys, once_per_user, outcome
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.inside import add_detach_keys
from tgpu.cli.refusals import own_words
from tgpu.cli.running import to_its_end
from tgpu.cli.screen import note
from tgpu.cli.snapshot.taking import mode_of, with_snapshots
from tgpu.client import Client

_EXAMPLES = """\
examples:
  tgpu run --gpus 1 -- python train.py
  tgpu run --cpus 8 make test
  tgpu run --pty --gpus 1 -- bash
Ctrl-C cancels the job; a second Ctrl-C leaves at once. A closed terminal or SIGTERM leaves the job
running. The job's stdin is /dev/null. The exit code is the job's own.
With --pty the job gets a terminal, and once it has started yours becomes it: all keys go to the job,
Ctrl-C too. Ctrl-P Ctrl-Q leaves it running, and so does closing the terminal; `tgpu attach` comes back.
"""


def parser() -> Parser:
    made = command_parser("run", "Submit a job, show its output live, end with its exit code.", _EXAMPLES)
    made.add_argument(
        "--json", action="store_true", help="print the job's record on stderr when it has ended"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing but what the job says")
    add_detach_keys(made)
    asking.add_job_flags(made)
    return made


def main(argv: list[str]) -> int:
    flags, after = command_words.split(argv)
    args = parser().parse_args(flags)
    jobs = asking.jobs(args, after)
    if len(jobs) != 1:
        raise UsageError("`run` takes one job; submit the others of the file with `tgpu submit -f`")
    pty, keys = bool(jobs[0].get("pty")), detach_keys.parse(args.detach_keys)
    with Client() as client:
        jobs = with_snapshots(client, jobs, mode_of(args.snapshot))
        with own_words(args, jobs):
            submitted = client.submit(**jobs[0])
        job_id = submitted["job_id"]
        once_per_user.tell(submitted.get("tmp_note", ""), quiet=args.quiet)
        job = to_its_end(client, job_id, keys=keys if pty else None, quiet=args.quiet)
    if job is None:
        return OK
    if args.json:
        import json  # noqa: PLC0415

        print(json.dumps(job), file=sys.stderr)
    elif job["status"] != "completed" and not args.quiet:
        note(f"job {job_id} {outcome.in_words(job)}")
    return outcome.exit_status(job)
