"""`tgpu attach`: this terminal becomes that of a job which has one of its own."""

from __future__ import annotations

import signal

from tgpu.cli import attaching, detach_keys, outcome
from tgpu.cli.arguments import Parser, command_parser
from tgpu.cli.away import AwayNotes
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.inside import add_detach_keys, add_target, target_of
from tgpu.cli.leaving import Leaver, left_note
from tgpu.cli.screen import note
from tgpu.client import Client

_EXAMPLES = """\
examples:
  tgpu run --pty --gpus 1 -- bash
  tgpu attach last
Ctrl-P Ctrl-Q leaves the job running; so does closing the terminal. Every other key goes to the job,
Ctrl-C too. Several may be attached at once. If the job ends meanwhile, the exit code is the job's own.
"""


def parser() -> Parser:
    made = command_parser("attach", "Come back to the terminal of a job of `tgpu run --pty`.", _EXAMPLES)
    add_detach_keys(made)
    add_target(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    keys = detach_keys.parse(args.detach_keys)
    with Client() as client:
        job_id, task, attempt = target_of(client, args.job)
        if attempt is not None:
            raise UsageError("a task has one terminal: say 42 or 42.3, without an attempt")
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, Leaver(job_id, task=task, pty=True))
        if not attaching.attach(client, job_id, task=task, keys=keys, must_run=True):
            left_note(job_id, task)
            return OK
        client.wait(job_id, on_away=AwayNotes())
        job = client.job(job_id)
    if job["status"] != "completed":
        note(f"job {job_id} {outcome.in_words(job)}")
    return outcome.exit_status(job)
