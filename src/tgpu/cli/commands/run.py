"""`tgpu run`: submits, shows the output live, and ends as the job does."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from tgpu.cli import asking, attaching, command_words, detach_keys, outcome, streaming
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.away import AwayNotes
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.inside import add_detach_keys
from tgpu.cli.leaving import Leaver, left_note
from tgpu.cli.progress import wait_for_start
from tgpu.cli.progress_line import ProgressLine
from tgpu.cli.refusals import own_words
from tgpu.cli.screen import note
from tgpu.client import Client, TgpuError

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

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
        with own_words(args):
            job_id = client.submit(**jobs[0])["job_id"]
        signal.signal(signal.SIGINT, _Canceller(job_id))
        for number in (signal.SIGTERM, signal.SIGHUP) if pty else (signal.SIGTERM,):
            signal.signal(number, Leaver(job_id, pty=pty))
        with ProgressLine(sys.stderr, silent=args.quiet) as line:
            started = wait_for_start(client, job_id, line)
        if started and pty:
            if not attaching.attach(client, job_id, task=0, keys=keys, must_run=False):
                left_note(job_id)
                return OK
        elif started and not streaming.never_began(job := client.job(job_id)):
            _show_output(job)
        client.wait(job_id, on_away=AwayNotes())
        job = client.job(job_id)
    if args.json:
        import json  # noqa: PLC0415

        print(json.dumps(job), file=sys.stderr)
    elif job["status"] != "completed" and not args.quiet:
        note(f"job {job_id} {outcome.in_words(job)}")
    return outcome.exit_status(job)


def _show_output(job: dict[str, Any]) -> None:
    """Output that cannot be had must not hide how the job ended."""
    tasks, several = streaming.tasks_of(job)
    try:
        streaming.follow(streaming.Part(job["job_id"], tasks, named=several), ("stdout", "stderr"))
    except TgpuError as error:
        note(f"its output cannot be shown: {error}")


class _Canceller:
    """The first Ctrl-C cancels the job and goes on until it has ended; the second leaves."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it does not run on now
        note(f"cancelling job {self._job_id}; Ctrl-C again leaves at once")
        try:
            # A connection of its own: the one of the main thread may be in the middle of an answer.
            with Client(timeout=5) as client:
                client.cancel(self._job_id)
        except TgpuError as error:
            note(f"could not cancel it: {error}")
