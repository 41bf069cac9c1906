"""`tgpu run`: submits, shows the output live, and ends as the job does."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from tgpu.cli import asking, command_words, outcome, streaming
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.away import AwayNotes
from tgpu.cli.exits import TERMINATED, CommandError, UsageError
from tgpu.cli.progress import wait_for_start
from tgpu.cli.progress_line import ProgressLine
from tgpu.cli.refusals import own_words
from tgpu.cli.screen import note
from tgpu.client import Client, TgpuError

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_EXAMPLES = """\
examples:
  tgpu run --gpus 1 -- python train.py
  tgpu run --cpus 8 make test
Ctrl-C cancels the job; a second Ctrl-C leaves at once. A closed terminal or SIGTERM leaves the job
running. The job's stdin is /dev/null. The exit code is the job's own.
"""


def parser() -> Parser:
    made = command_parser("run", "Submit a job, show its output live, end with its exit code.", _EXAMPLES)
    made.add_argument(
        "--json", action="store_true", help="print the job's record on stderr when it has ended"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing but what the job says")
    asking.add_job_flags(made)
    return made


def main(argv: list[str]) -> int:
    flags, after = command_words.split(argv)
    args = parser().parse_args(flags)
    jobs = asking.jobs(args, after)
    if len(jobs) != 1:
        raise UsageError("`run` takes one job; submit the others of the file with `tgpu submit -f`")
    with Client() as client:
        with own_words(args):
            job_id = client.submit(**jobs[0])["job_id"]
        signal.signal(signal.SIGINT, _Canceller(job_id))
        signal.signal(signal.SIGTERM, _Leaver(job_id))
        with ProgressLine(sys.stderr, silent=args.quiet) as line:
            started = wait_for_start(client, job_id, line)
        if started:
            _show_output(job_id)
        client.wait(job_id, on_away=AwayNotes())
        job = client.job(job_id)
    if args.json:
        import json  # noqa: PLC0415

        print(json.dumps(job), file=sys.stderr)
    elif job["status"] != "completed" and not args.quiet:
        note(f"job {job_id} {outcome.in_words(job)}")
    return outcome.exit_status(job)


def _show_output(job_id: int) -> None:
    """Output that cannot be had must not hide how the job ended."""
    try:
        streaming.follow(job_id, ("stdout", "stderr"))
    except TgpuError as error:
        note(f"its output cannot be shown: {error}")


class _Leaver:
    """SIGTERM is for this command, not for the job: a logout or a time limit around it must not end that."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id

    def __call__(self, _number: int, _frame: FrameType | None) -> NoReturn:
        text = f"terminated; job {self._job_id} runs on: `tgpu logs -f {self._job_id}` shows it"
        raise CommandError(text, TERMINATED)


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
